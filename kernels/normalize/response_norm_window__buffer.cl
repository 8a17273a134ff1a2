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

// The value of the channel at x (T lanes of channels), whose window goes from `low` to `high` steps around it.
#define DEFINE_NORMALIZED(T, LOAD)                                                          \
    static inline T normalized_##T(__global const float *x, int step, int low, int high, float bias, \
                                   float share, float power) {                              \
        T sum = (T)(0.0f);                                                                  \
        for (int k = low; k <= high; ++k) {                                                 \
            const T neighbour = LOAD(x + k * step);                                         \
            sum = fma(neighbour, neighbour, sum);                                           \
        }                                                                                   \
        const T base = fma(sum, (T)(share), (T)(bias));                                     \
        return LOAD(x) * exponential_##T(-power * logarithm_##T(base));                     \
    }
#define DEFINE_NORMALIZED_(T, LOAD) DEFINE_NORMALIZED(T, LOAD)
#define LOAD_FLOAT(pointer) (*(pointer))
DEFINE_NORMALIZED(float, LOAD_FLOAT)
DEFINE_NORMALIZED_(VEC, VLOAD)

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void response_norm_window__buffer(TENSOR(dst), CONST_TENSOR(src), BOX_SCALARS, int channels, int below, int above,
                                 float bias, float share, float power) {
    const bool is_dense = dst_c == 1 && src_c == 1;
    FOR_EACH_RUN(run, 1) {
        __global float *d = dst + RUN_START(dst, run);
        __global const float *s = src + RUN_START(src, run);
        const int first = c_begin + run.channel;
        for (int line = 0; line < run.lines; ++line, d += dst_w, s += src_w) {
            for (int i = 0; i < run.length;) {
                const int c = first + i;
                if (is_dense && i + VECTOR <= run.length && c >= below && c + VECTOR + above <= channels) {
                    VSTORE(JOIN(normalized_, VEC)(s + i, 1, -below, above, bias, share, power), d + i);
                    i += VECTOR;
                } else {
                    d[i * dst_c] = normalized_float(s + i * src_c, src_c, -min(below, c),
                                                    min(above, channels - 1 - c), bias, share, power);
                    ++i;
                }
            }
        }
    }
}
