// layer_norm__buffer: dst = (src - mean) / sqrt(variance + epsilon) * scale[k] + shift[k] along one axis k, which is
// c where it is the innermost in memory, and w elsewhere; mean and variance are the axis's own
//
// Sums of lanes, added in a fixed order, where k is c; else one chain of additions a value, k ascending.
//
// Arguments
//   dst     float, kernel dimensions (n, h, w, c), channels dense where k is c; the box is written, nothing else
//   src     float, same coordinates; read over the whole axis
//   scale   float, kernel dimensions (-, -, -, k)
//   shift   float, as scale; not read unless has_shift
//   box     first coordinates and lengths; a work-item takes the whole of w where k is w (common/runs.h)
//   is_innermost   whether k is c
//   length  of the axis
//   has_shift
//   epsilon
// Launch      global (ceil(channels / item_channels), ceil(rows / item_rows), 1)   local (1, 1, 1)
// Parameters  VECTOR 4 8 16 lanes
// Tested by   tests/kernels/test_layer_norm.py
#include "common/fold.h"
#include "common/runs.h"

// Sums of `length` numbers divided by it, so that none overflows.
static inline float mean_of(__global const float *s, int length) {
    const float part = 1.0f / length;
    float sum = 0.0f;
    VEC sums = (VEC)(0.0f);
    int k = 0;
    for (; k + VECTOR <= length; k += VECTOR) sums = fma(VLOAD(s + k), (VEC)(part), sums);
    for (; k < length; ++k) sum = fma(s[k], part, sum);
    return fold_sum(sums) + sum;
}

static inline float variance_of(__global const float *s, int length, float mean) {
    float sum = 0.0f;
    VEC sums = (VEC)(0.0f);
    int k = 0;
    for (; k + VECTOR <= length; k += VECTOR) {
        const VEC deviation = VLOAD(s + k) - mean;
        sums = fma(deviation, deviation, sums);
    }
    for (; k < length; ++k) sum = fma(s[k] - mean, s[k] - mean, sum);
    return (fold_sum(sums) + sum) / length;
}

#define SHIFT_AT(k) (has_shift ? summands[(k) * shift_c] : 0.0f)
#define SHIFTS_AT(k) (has_shift ? VLOAD(summands + (k)) : (VEC)(0.0f))
#define STEP(at)                                                                                           \
    {                                                                                                      \
        const VEC value = (VLOAD(s + (at)) - mean) * share;                                                \
        VSTORE(fma(value, VLOAD(factors + first + (at)), SHIFTS_AT(first + (at))), d + (at));              \
    }

// Columns (T lanes each) at s, stored from step w_begin of the axis on at d.
#define COLUMNS(T, LOAD, STORE, s, d)                                                                       \
    {                                                                                                       \
        T mean = (T)(0.0f), squares = (T)(0.0f);                                                            \
        for (int k = 0; k < length; ++k) mean = fma(LOAD((s) + k * src_w), (T)(1.0f / length), mean);       \
        for (int k = 0; k < length; ++k) {                                                                  \
            const T deviation = LOAD((s) + k * src_w) - mean;                                               \
            squares = fma(deviation, deviation, squares);                                                   \
        }                                                                                                   \
        const T share = (T)(1.0f) / sqrt(squares / (T)(length) + epsilon);                                  \
        for (int row = 0; row < w_count; ++row) {                                                           \
            const int k = w_begin + row;                                                                    \
            const T value = (LOAD((s) + k * src_w) - mean) * share;                                         \
            STORE(fma(value, (T)(factors[k * scale_c]), (T)(SHIFT_AT(k))), (d) + row * dst_w);              \
        }                                                                                                   \
    }
#define LOAD_FLOAT(pointer) (*(pointer))
#define STORE_FLOAT(value, pointer) (*(pointer) = (value))
#define COLUMN_STEP(at) COLUMNS(VEC, VLOAD, VSTORE, s + (at), d + (at))

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void layer_norm__buffer(TENSOR(dst), CONST_TENSOR(src), CONST_TENSOR(scale), CONST_TENSOR(shift), BOX_SCALARS,
                        int is_innermost, int length, int has_shift, float epsilon) {
    const bool is_dense = dst_c == 1 && src_c == 1;
    __global const float *factors = scale + AT(scale, 0, 0, 0, 0), *summands = shift + AT(shift, 0, 0, 0, 0);
    FOR_EACH_RUN(run, 1) {
        __global float *d = dst + RUN_START(dst, run);
        __global const float *s = src + RUN_START(src, run);
        if (!is_innermost) {
            s -= w_begin * src_w;
            if (is_dense && run.length >= VECTOR) {
                FOR_EACH_VECTOR(run.length, COLUMN_STEP)
            } else {
                for (int i = 0; i < run.length; ++i)
                    COLUMNS(float, LOAD_FLOAT, STORE_FLOAT, s + i * src_c, d + i * dst_c)
            }
            continue;
        }
        const int first = c_begin + run.channel;
        const bool has_dense_scales = scale_c == 1 && (shift_c == 1 || !has_shift);
        for (int line = 0; line < run.lines; ++line, d += dst_w, s += src_w) {
            const float mean = mean_of(s - first, length);
            const float share = 1.0f / sqrt(variance_of(s - first, length, mean) + epsilon);
            if (has_dense_scales && run.length >= VECTOR)
                FOR_EACH_VECTOR(run.length, STEP)
            else
                for (int i = 0; i < run.length; ++i)
                    d[i] = fma((s[i] - mean) * share, factors[(first + i) * scale_c], SHIFT_AT(first + i));
        }
    }
}
