// reduce_axis_sum__buffer: dst[n, h, 0, c] = act(scale * sum over w of src[n, h, w, c])
//
// One chain of additions an output, w ascending. Which axis of a tensor w walks along is the operand's business.
//
// Arguments
//   dst     float, kernel dimensions (n, h, 1, c), any strides; the box is written, nothing else
//   src     float, kernel dimensions (n, h, width, c), any strides
//   box     first coordinates and lengths in dst; a work-item takes item_channels of one row (common/runs.h)
//   width   elements in a sum
//   scale   float
//   epilogue  activation; no residual
// Launch      global (ceil(channels / item_channels), rows, 1)   local (1, 1, 1)
// Parameters  VECTOR 4 8 16 lanes
// Tested by   tests/kernels/test_reduce.py
#include "common/activate.h"
#include "common/runs.h"

#define TILE (4 * VECTOR)

#define STEP(at)                                                                    \
    {                                                                               \
        VEC sum = (VEC)(0.0f);                                                      \
        for (int w = 0; w < width; ++w) sum += VLOAD(s + (at) + w * src_w);         \
        VSTORE(ACTIVATE(VEC, sum * scale), d + (at));                               \
    }

// Four independent chains of additions.
#define STEP_TILE(at)                                                               \
    {                                                                               \
        VEC sum_0 = (VEC)(0.0f), sum_1 = sum_0, sum_2 = sum_0, sum_3 = sum_0;       \
        __global const float *x = s + (at);                                         \
        for (int w = 0; w < width; ++w, x += src_w) {                               \
            sum_0 += VLOAD(x);                                                      \
            sum_1 += VLOAD(x + VECTOR);                                             \
            sum_2 += VLOAD(x + 2 * VECTOR);                                         \
            sum_3 += VLOAD(x + 3 * VECTOR);                                         \
        }                                                                           \
        VSTORE(ACTIVATE(VEC, sum_0 * scale), d + (at));                             \
        VSTORE(ACTIVATE(VEC, sum_1 * scale), d + (at) + VECTOR);                    \
        VSTORE(ACTIVATE(VEC, sum_2 * scale), d + (at) + 2 * VECTOR);                \
        VSTORE(ACTIVATE(VEC, sum_3 * scale), d + (at) + 3 * VECTOR);                \
    }

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void reduce_axis_sum__buffer(TENSOR(dst), CONST_TENSOR(src), BOX_SCALARS, int width, float scale,
                             EPILOGUE_SCALARS) {
    const bool is_dense = dst_c == 1 && src_c == 1;
    FOR_EACH_RUN(run, 1) {
        __global float *d = dst + RUN_START(dst, run);
        __global const float *s = src + RUN_START(src, run);
        int i = 0;
        if (is_dense && run.length >= VECTOR) {
            for (; i + TILE <= run.length; i += TILE) STEP_TILE(i)
            for (; i + VECTOR <= run.length; i += VECTOR) STEP(i)
            if (i < run.length) STEP(run.length - VECTOR)
            i = run.length;
        }
        for (; i < run.length; ++i) {
            float sum = 0.0f;
            for (int w = 0; w < width; ++w) sum += s[i * src_c + w * src_w];
            d[i * dst_c] = ACTIVATE(float, sum * scale);
        }
    }
}
