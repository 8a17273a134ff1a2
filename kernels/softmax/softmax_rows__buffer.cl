// softmax_rows__buffer: dst[n, h, w, c] = e^(src[n, h, w, c] - m) / sum over k of e^(src[n, h, w, k] - m),
//                       m = max over k of src[n, h, w, k]; the axis of the softmax is the innermost in memory
//
// Sums of lanes, added in a fixed order: the bits depend on the length of the axis alone.
//
// Arguments
//   dst     float, kernel dimensions (n, h, w, c), channels dense; the box is written, nothing else
//   src     float, same coordinates, channels dense; read over the whole length of c
//   box     first coordinates and lengths; what a work-item takes (common/runs.h)
//   length  of the axis
// Launch      global (ceil(channels / item_channels), ceil(rows / item_rows), 1)   local (1, 1, 1)
// Parameters  VECTOR 4 8 16 lanes
// Tested by   tests/kernels/test_softmax.py
#include "common/runs.h"
#include "common/exponential.h"
#include "common/fold.h"

// The greatest of `length` numbers; NaN may be lost here, the sum of exponentials keeps it.
static inline float greatest_of(__global const float *s, int length) {
    float greatest = -INFINITY;
    if (length < VECTOR) {
        for (int k = 0; k < length; ++k) greatest = s[k] > greatest ? s[k] : greatest;
        return greatest;
    }
    VEC many = VLOAD(s + length - VECTOR);
    for (int k = 0; k + VECTOR <= length; k += VECTOR) {
        const VEC x = VLOAD(s + k);
        many = x > many ? x : many;
    }
    return fold_greatest(many);
}

// Sum of e^(s - greatest): lane by lane, what fills no vector one by one.
static inline float sum_of_exponentials(__global const float *s, int length, float greatest) {
    float sum = 0.0f;
    if (length < VECTOR) {
        for (int k = 0; k < length; ++k) sum += EXPONENTIAL(float, s[k] - greatest);
        return sum;
    }
    VEC sums = (VEC)(0.0f);
    int k = 0;
    for (; k + VECTOR <= length; k += VECTOR) sums += EXPONENTIAL(VEC, VLOAD(s + k) - greatest);
    for (; k < length; ++k) sum += EXPONENTIAL(float, s[k] - greatest);
    return fold_sum(sums) + sum;
}

#define STEP(at) VSTORE(EXPONENTIAL(VEC, VLOAD(s + (at)) - greatest) * share, d + (at))

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void softmax_rows__buffer(TENSOR(dst), CONST_TENSOR(src), BOX_SCALARS, int length) {
    FOR_EACH_RUN(run, 1) {
        __global float *d = dst + RUN_START(dst, run);
        __global const float *s = src + RUN_START(src, run);
        for (int line = 0; line < run.lines; ++line, d += dst_w, s += src_w) {
            __global const float *axis = s - (c_begin + run.channel);
            const float greatest = greatest_of(axis, length);
            const float share = 1.0f / sum_of_exponentials(axis, length, greatest);
            if (run.length >= VECTOR)
                FOR_EACH_VECTOR(run.length, STEP)
            else
                for (int i = 0; i < run.length; ++i) d[i] = EXPONENTIAL(float, s[i] - greatest) * share;
        }
    }
}
