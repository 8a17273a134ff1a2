// moments_combine__buffer: dst[n, 0, 0, c] = factor = scale[c] / sqrt(variance + epsilon)
//                          dst[n, 0, 1, c] = shift[c] - mean * factor
// with mean and variance over all rows of src, merged in ascending order. Where all values are equal the factor is 0
// (NaN of a scale that is not finite): the summand is then exactly the shift.
//
// Arguments
//   dst     float, kernel dimensions (n, 1, 2, c), any strides; the box is written, nothing else
//   src     float, kernel dimensions (n, height, 2, c), any strides: mean and squared deviations of each row
//   scale   float, kernel dimensions (-, -, -, c)
//   shift   float, kernel dimensions (-, -, -, c)
//   box     first coordinates and lengths in dst; a work-item takes item_channels of one n (common/runs.h)
//   height  rows
//   length  elements of a row, a float
//   epsilon float
// Launch      global (ceil(channels / item_channels), n, 1)   local (1, 1, 1)
// Parameters  VECTOR 4 8 16 lanes
// Tested by   tests/kernels/test_normalize.py
#include "common/vector.h"
#include "common/runs.h"

#define COMBINE(T, LOAD, STORE, x, y, at_scale, at_shift)                                         \
    {                                                                                             \
        T mean = (T)(0.0f), deviations = (T)(0.0f);                                               \
        for (int k = 0; k < height; ++k) {                                                        \
            const float share = 1.0f / (float)(k + 1);                                            \
            const T apart = LOAD((x) + k * src_h) - mean;                                         \
            mean = fma(apart, (T)(share), mean);                                                  \
            deviations += LOAD((x) + k * src_h + src_w);                                          \
            deviations = fma(apart * apart, (T)(length * (float)k * share), deviations);          \
        }                                                                                         \
        const T variance = deviations / (T)(length * (float)height);                              \
        const T slope = LOAD(at_scale) / sqrt(variance + (T)(epsilon));                           \
        const T factor = deviations == (T)(0.0f) ? slope * (T)(0.0f) : slope;                     \
        if (w_begin == 0) STORE(factor, (y));                                                     \
        if (w_begin + w_count == 2)                                                               \
            STORE(fma(-mean, factor, LOAD(at_shift)), (y) + (w_count - 1) * dst_w);               \
    }
#define LOAD_FLOAT(pointer) (*(pointer))
#define STORE_FLOAT(value, pointer) (*(pointer) = (value))
#define STEP(at) COMBINE(VEC, VLOAD, VSTORE, s + (at), d + (at), gain + (at), offset + (at))

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void moments_combine__buffer(TENSOR(dst), CONST_TENSOR(src), CONST_TENSOR(scale), CONST_TENSOR(shift),
                             BOX_SCALARS, int height, float length, float epsilon) {
    const bool is_dense = dst_c == 1 && src_c == 1 && scale_c == 1 && shift_c == 1;
    FOR_EACH_RUN(run, 1) {
        __global float *d = dst + RUN_START(dst, run);
        __global const float *s = src + RUN_START(src, run) - w_begin * src_w;
        __global const float *gain = scale + RUN_START(scale, run);
        __global const float *offset = shift + RUN_START(shift, run);
        if (is_dense && run.length >= VECTOR) {
            FOR_EACH_VECTOR(run.length, STEP)
        } else {
            for (int i = 0; i < run.length; ++i)
                COMBINE(float, LOAD_FLOAT, STORE_FLOAT, s + i * src_c, d + i * dst_c, gain + i * scale_c,
                        offset + i * shift_c)
        }
    }
}
