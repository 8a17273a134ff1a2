// affine_channels__buffer: dst[n, h, w, c] = act(fma(src[n, h, w, c], scale[c], shift[c]))
//
// Arguments
//   dst     float, kernel dimensions (n, h, w, c), any strides; the box is written, nothing else
//   src     float, same coordinates, any strides
//   scale   float [channels], from the box's first channel on
//   shift   float [channels], from the box's first channel on
//   box     first coordinates and lengths; what a work-item takes (common/runs.h)
//   epilogue  activation; no residual
// Launch      global (ceil(channels / item_channels), ceil(rows / item_rows), 1)   local (1, 1, 1)
// Parameters  VECTOR 4 8 16 lanes
// Tested by   tests/kernels/test_pointwise.py
#include "common/activate.h"
#include "common/runs.h"

#define STEP(at)                                                                                             \
    VSTORE(ACTIVATE(VEC, fma(VLOAD(s + (at)), VLOAD(gain + (at)), VLOAD(offset + (at)))), d + (at))

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void affine_channels__buffer(TENSOR(dst), CONST_TENSOR(src), __global const float *scale,
                             __global const float *shift, BOX_SCALARS, EPILOGUE_SCALARS) {
    const bool is_dense = dst_c == 1 && src_c == 1;
    FOR_EACH_RUN(run, 1) {
        __global float *d = dst + RUN_START(dst, run);
        __global const float *s = src + RUN_START(src, run);
        __global const float *gain = scale + run.channel;
        __global const float *offset = shift + run.channel;
        for (int line = 0; line < run.lines; ++line, d += dst_w, s += src_w) {
            if (is_dense && run.length >= VECTOR)
                FOR_EACH_VECTOR(run.length, STEP)
            else
                for (int i = 0; i < run.length; ++i)
                    d[i * dst_c] = ACTIVATE(float, fma(s[i * src_c], gain[i], offset[i]));
        }
    }
}
