// response_norm_window__buffer: dst[n, h, w, c] = src[n, h, w, c] / (bias + share * sum over k of src[n, h, w, k]^2)^power
// with k from c - below to c + above, as far as there are channels; one fma chain an output, k ascending.
//
// Arguments
//   dst       float, kernel dimensions (n, h, w, c), any strides; the box is written, nothing else
//   src       float, same coordinates, any strides; read under the windows of the box
//   box       first coordinates and lengths; what a work-item takes (common/runs.h)
//   channels  of src
//   below, above   channels of a window on either side of its own
//   bias, share, power   floats
// Launch      global (ceil(channels / item_channels), ceil(rows / item_rows), 1)   local (1, 1, 1)
// Parameters  VECTOR 4 8 16 lanes
// Tested by   tests/kernels/test_normalize.py
#include "common/exponential.h"
#include "common/logarithm.h"
#include "common/runs.h"

// What becomes of the value, whose window has this sum of squares.
#define DEFINE_DIVIDED(T)                                                                              \
    static inline T divided_##T(T value, T sum, float bias, float share, float power) {                \
        const T base = fma(sum, (T)(share), (T)(bias));                                                \
        return value * exponential_##T(-power * logarithm_##T(base));                                  \
    }
#define DEFINE_DIVIDED_(T) DEFINE_DIVIDED(T)
DEFINE_DIVIDED(float)
DEFINE_DIVIDED_(VEC)
#define DIVIDED_VEC JOIN(divided_, VEC)

// The value of a channel at x, whose window goes from `low` to `high` steps around it.
static inline float normalize_value(__global const float *x, int step, int low, int high, float bias, float share,
                                    float power) {
    float sum = 0.0f;
    for (int k = low; k <= high; ++k) sum = fma(x[k * step], x[k * step], sum);
    return divided_float(*x, sum, bias, share, power);
}

// Those of a vector of channels whose windows lie inside of all.
static inline VEC normalize_inner(__global const float *x, int below, int above, float bias, float share,
                                  float power) {
    VEC sum = (VEC)(0.0f);
    for (int k = -below; k <= above; ++k) {
        const VEC neighbour = VLOAD(x + k);
        sum = fma(neighbour, neighbour, sum);
    }
    return DIVIDED_VEC(VLOAD(x), sum, bias, share, power);
}

// Those of a vector of channels from `c` on whose windows reach beyond the first or the last one: nothing is added.
static inline VEC normalize_sides(__global const float *x, int c, int channels, int below, int above, float bias,
                                  float share, float power) {
    VEC sum = (VEC)(0.0f);
    for (int k = -below; k <= above; ++k) {
        const VEC neighbour = load_lanes(x + k, 1, -(c + k), channels - (c + k));
        sum = fma(neighbour, neighbour, sum);
    }
    return DIVIDED_VEC(VLOAD(x), sum, bias, share, power);
}

#define NORMALIZE_VECTOR(at)                                                                                \
    {                                                                                                       \
        const int c = first + (at);                                                                         \
        const bool is_inner = c >= below && c + VECTOR + above <= channels;                                 \
        const VEC value = is_inner ? normalize_inner(s + (at), below, above, bias, share, power)            \
                                   : normalize_sides(s + (at), c, channels, below, above, bias, share, power); \
        VSTORE(value, d + (at));                                                                            \
    }

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void response_norm_window__buffer(TENSOR(dst), CONST_TENSOR(src), BOX_SCALARS, int channels, int below, int above,
                                 float bias, float share, float power) {
    const bool is_dense = dst_c == 1 && src_c == 1;
    FOR_EACH_RUN(run, 1) {
        __global float *d = dst + RUN_START(dst, run);
        __global const float *s = src + RUN_START(src, run);
        const int first = c_begin + run.channel;
        for (int line = 0; line < run.lines; ++line, d += dst_w, s += src_w) {
            if (is_dense && run.length >= VECTOR) {
                FOR_EACH_VECTOR(run.length, NORMALIZE_VECTOR)
                continue;
            }
            for (int i = 0; i < run.length; ++i) {
                const int c = first + i;
                d[i * dst_c] = normalize_value(s + i * src_c, src_c, -min(below, c), min(above, channels - 1 - c),
                                               bias, share, power);
            }
        }
    }
}
