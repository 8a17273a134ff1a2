// elementwise_unary__buffer: dst[n, h, w, c] = act(src[n, h, w, c])
//
// Arguments
//   dst     float, kernel dimensions (n, h, w, c), any strides; the box is written, nothing else
//   src     float, same coordinates, any strides
//   box     first coordinates and lengths; what a work-item takes (common/runs.h)
//   epilogue  activation; no residual
// Launch      global (ceil(channels / item_channels), ceil(rows / item_rows), 1)   local (1, 1, 1)
// Parameters  VECTOR 4 8 16 lanes
// Tested by   tests/kernels/test_pointwise.py
#include "common/activate.h"
#include "common/runs.h"

#define STEP(at) VSTORE(ACTIVATE(VEC, VLOAD(s + (at))), d + (at))

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void elementwise_unary__buffer(TENSOR(dst), CONST_TENSOR(src), BOX_SCALARS, EPILOGUE_SCALARS) {
    const int dst_step = RUN_STEP(dst), src_step = RUN_STEP(src);
    const int joined = min(RUN_ROWS(dst), RUN_ROWS(src));
    FOR_EACH_RUN(run, joined) {
        __global float *d = dst + RUN_START(dst, run);
        __global const float *s = src + RUN_START(src, run);
        for (int line = 0; line < run.lines; ++line, d += dst_w, s += src_w) {
            if (dst_step == 1 && src_step == 1 && run.length >= VECTOR)
                FOR_EACH_VECTOR(run.length, STEP)
            else
                for (int i = 0; i < run.length; ++i) d[i * dst_step] = ACTIVATE(float, s[i * src_step]);
        }
    }
}
