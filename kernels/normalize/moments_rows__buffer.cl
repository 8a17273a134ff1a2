// moments_rows__buffer: dst[n, h, 0, c] = mean over w of src[n, h, w, c]
//                       dst[n, h, 1, c] = sum over w of (src[n, h, w, c] - mean)^2
//
// Two passes over a row, one chain of additions an output, w ascending. What is added up first are differences from
// the row's first element: the mean of equal values is that value, and their deviations are 0.
//
// Arguments
//   dst     float, kernel dimensions (n, h, 2, c), any strides; the box is written, nothing else
//   src     float, kernel dimensions (n, h, width, c), any strides
//   box     first coordinates and lengths in dst; a work-item takes item_channels of one (n, h) (common/runs.h)
//   width   elements of a row
// Launch      global (ceil(channels / item_channels), n * h, 1)   local (1, 1, 1)
// Parameters  VECTOR 4 8 16 lanes
// Tested by   tests/kernels/test_normalize.py
#include "common/vector.h"
#include "common/runs.h"

#define STORE_MOMENTS(STORE, mean, deviations, y)                                   \
    {                                                                               \
        if (w_begin == 0) STORE(mean, (y));                                         \
        if (w_begin + w_count == 2) STORE(deviations, (y) + (w_count - 1) * dst_w); \
    }

// Moments of the columns (T lanes each) at x, stored at y; the box may hold one of both alone.
#define MOMENTS(T, LOAD, STORE, x, y)                                 \
    {                                                                 \
        const T first = LOAD(x);                                      \
        T sum = (T)(0.0f), deviations = (T)(0.0f);                    \
        for (int w = 1; w < width; ++w) sum += LOAD((x) + w * src_w) - first; \
        const T mean = first + sum / (T)(width);                      \
        for (int w = 0; w < width; ++w) {                             \
            const T deviation = LOAD((x) + w * src_w) - mean;         \
            deviations = fma(deviation, deviation, deviations);       \
        }                                                             \
        STORE_MOMENTS(STORE, mean, deviations, y)                     \
    }

// The same of two vectors side by side: two chains of additions hide each other's waits.
#define MOMENTS_OF_PAIR(x, y)                                               \
    {                                                                       \
        const VEC first_0 = VLOAD(x), first_1 = VLOAD((x) + VECTOR);        \
        VEC sum_0 = (VEC)(0.0f), sum_1 = sum_0;                             \
        for (int w = 1; w < width; ++w) {                                   \
            sum_0 += VLOAD((x) + w * src_w) - first_0;                      \
            sum_1 += VLOAD((x) + w * src_w + VECTOR) - first_1;             \
        }                                                                   \
        const VEC mean_0 = first_0 + sum_0 / (VEC)(width);                  \
        const VEC mean_1 = first_1 + sum_1 / (VEC)(width);                  \
        VEC deviations_0 = (VEC)(0.0f), deviations_1 = deviations_0;        \
        for (int w = 0; w < width; ++w) {                                   \
            const VEC deviation_0 = VLOAD((x) + w * src_w) - mean_0;        \
            const VEC deviation_1 = VLOAD((x) + w * src_w + VECTOR) - mean_1; \
            deviations_0 = fma(deviation_0, deviation_0, deviations_0);     \
            deviations_1 = fma(deviation_1, deviation_1, deviations_1);     \
        }                                                                   \
        STORE_MOMENTS(VSTORE, mean_0, deviations_0, y)                      \
        STORE_MOMENTS(VSTORE, mean_1, deviations_1, (y) + VECTOR)           \
    }
#define LOAD_FLOAT(pointer) (*(pointer))
#define STORE_FLOAT(value, pointer) (*(pointer) = (value))
#define STEP(at) MOMENTS(VEC, VLOAD, VSTORE, s + (at), d + (at))

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void moments_rows__buffer(TENSOR(dst), CONST_TENSOR(src), BOX_SCALARS, int width) {
    const bool is_dense = dst_c == 1 && src_c == 1;
    FOR_EACH_RUN(run, 1) {
        __global float *d = dst + RUN_START(dst, run);
        __global const float *s = src + RUN_START(src, run) - w_begin * src_w;
        if (is_dense && run.length >= 2 * VECTOR) {
            const int last = run.length - 2 * VECTOR;
            for (int at = 0; at < run.length; at += 2 * VECTOR) MOMENTS_OF_PAIR(s + min(at, last), d + min(at, last))
        } else if (is_dense && run.length >= VECTOR) {
            FOR_EACH_VECTOR(run.length, STEP)
        } else {
            for (int i = 0; i < run.length; ++i)
                MOMENTS(float, LOAD_FLOAT, STORE_FLOAT, s + i * src_c, d + i * dst_c)
        }
    }
}
