// reduce_mean__buffer: dst[n, h, w, c] = act(scale * sum over i, j, k, l of src[n + i, h + j, w + k, c + l])
// where the averaged axes have length 1 in dst, and the others a sum of one.
//
// Along c where it stays: one chain of additions an output, i, j, k ascending. Where c is averaged: sums of lanes,
// added in a fixed order. Either way the bits depend on the lengths alone.
//
// Arguments
//   dst     float, kernel dimensions (n, h, w, c), any strides; the box is written, nothing else
//   src     float, same dimensions, any strides, c dense where it is averaged
//   box     first coordinates and lengths in dst; what a work-item takes (common/runs.h)
//   length  elements of a sum in each dimension, 1 in those that stay
//   is_inner  whether c is averaged
//   scale   float
//   epilogue  activation; no residual
// Launch      global (ceil(channels / item_channels), ceil(rows / item_rows), 1)   local (1, 1, 1)
// Parameters  VECTOR 4 8 16 lanes
// Tested by   tests/kernels/test_reduce_mean.py
#include "common/activate.h"
#include "common/fold.h"
#include "common/runs.h"

// for (each row of a sum, its elements at x)
#define FOR_EACH_ROW(x, start)                                                               \
    for (int i = 0; i < length_n; ++i)                                                       \
        for (int j = 0; j < length_h; ++j) {                                                 \
            __global const float *x = (start) + i * src_n + j * src_h;                       \
            for (int k = 0; k < length_w; ++k, x += src_w)
#define END_ROW }

#define STEP(at)                                                                             \
    {                                                                                        \
        VEC sum = (VEC)(0.0f);                                                               \
        FOR_EACH_ROW(x, s + (at)) sum += VLOAD(x);                                           \
        END_ROW                                                                              \
        VSTORE(ACTIVATE(VEC, sum * scale), d + (at));                                        \
    }

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void reduce_mean__buffer(TENSOR(dst), CONST_TENSOR(src), BOX_SCALARS, int length_n, int length_h, int length_w,
                         int length_c, int is_inner, float scale, EPILOGUE_SCALARS) {
    FOR_EACH_RUN(run, 1) {
        __global float *d = dst + RUN_START(dst, run);
        __global const float *s = src + RUN_START(src, run);
        for (int line = 0; line < run.lines; ++line, d += dst_w, s += src_w) {
            if (is_inner) {
                VEC sums = (VEC)(0.0f);
                float sum = 0.0f;
                FOR_EACH_ROW(x, s) {
                    int l = 0;
                    for (; l + VECTOR <= length_c; l += VECTOR) sums += VLOAD(x + l);
                    for (; l < length_c; ++l) sum += x[l];
                }
                END_ROW
                *d = ACTIVATE(float, (fold_sum(sums) + sum) * scale);
            } else if (dst_c == 1 && src_c == 1 && run.length >= VECTOR) {
                FOR_EACH_VECTOR(run.length, STEP)
            } else {
                for (int c = 0; c < run.length; ++c) {
                    float sum = 0.0f;
                    FOR_EACH_ROW(x, s + c * src_c) sum += *x;
                    END_ROW
                    d[c * dst_c] = ACTIVATE(float, sum * scale);
                }
            }
        }
    }
}
