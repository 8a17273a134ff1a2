// softmax_rows__buffer: dst[n, h, w, c] = e^(src[n, h, w, c] - m) / sum over k of e^(src[n, h, w, k] - m),
//                       m = max over k of src[n, h, w, k]; the axis of the softmax is the innermost in memory
//
// VECTOR partial sums, lane k % VECTOR each, added in a fixed order: the bits depend on the axis' length alone.
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
#include "softmax/exponential.h"

// The greatest of `length` numbers; NaN may be lost here, the sum of exponentials keeps it.
static inline float greatest_of(__global const float *s, int length) {
    float greatest = -INFINITY;
    int k = 0;
    if (length >= VECTOR) {
        VEC many = (VEC)(-INFINITY);
        for (; k + VECTOR <= length; k += VECTOR) {
            const VEC x = VLOAD(s + k);
            many = x > many ? x : many;
        }
        float lanes[VECTOR];
        VSTORE(many, lanes);
        for (int lane = 0; lane < VECTOR; ++lane) greatest = lanes[lane] > greatest ? lanes[lane] : greatest;
    }
    for (; k < length; ++k) greatest = s[k] > greatest ? s[k] : greatest;
    return greatest;
}

static inline float sum_of_exponentials(__global const float *s, int length, float greatest) {
    VEC sums = (VEC)(0.0f);
    int k = 0;
    for (; k + VECTOR <= length; k += VECTOR) sums += EXPONENTIAL(VEC, VLOAD(s + k) - greatest);
    float lanes[VECTOR];
    VSTORE(sums, lanes);
    for (int lane = 0; k < length; ++k, ++lane) lanes[lane] += EXPONENTIAL(float, s[k] - greatest);
    float sum = 0.0f;
    for (int lane = 0; lane < VECTOR; ++lane) sum += lanes[lane];
    return sum;
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void softmax_rows__buffer(TENSOR(dst), CONST_TENSOR(src), BOX_SCALARS, int length) {
    FOR_EACH_RUN(run, 1) {
        __global float *d = dst + RUN_START(dst, run);
        __global const float *s = src + RUN_START(src, run);
        __global const float *axis = s - (c_begin + run.channel);
        const float greatest = greatest_of(axis, length);
        const float share = 1.0f / sum_of_exponentials(axis, length, greatest);
        if (run.length >= VECTOR) {
            for (int i = 0; i < run.length; i += VECTOR) {
                const int at = LANES_AT(i, run.length);
                VSTORE(EXPONENTIAL(VEC, VLOAD(s + at) - greatest) * share, d + at);
            }
        } else {
            for (int i = 0; i < run.length; ++i) d[i] = EXPONENTIAL(float, s[i] - greatest) * share;
        }
    }
}
