// e^x for x < 88 with the same bits on single floats and on vectors: what a driver's own exp does not promise.
// x = k ln 2 + r, |r| <= ln 2 / 2, e^r by its Taylor polynomial; error about 1 ulp. NaN stays NaN.
#ifndef CODL_EXPONENTIAL_H
#define CODL_EXPONENTIAL_H

#include "common/vector.h"

#define LOWEST_EXPONENT -87.0f      // below e^-87 come the subnormal numbers: taken for 0
#define ROUNDER 12582912.0f          // 1.5 * 2^23: a sum with it is rounded to an integer, kept in its low bits
#define LN2_HIGH 0.693359375f
#define LN2_LOW -2.12194440e-4f
#define INTS JOIN(int, VECTOR)

#define DEFINE_EXPONENTIAL(T, I)                                                     \
    static inline T exponential_##T(T x) {                                           \
        const T shifted = fma(x, (T)(M_LOG2E_F), (T)(ROUNDER));                      \
        const T k = shifted - (T)(ROUNDER);                                          \
        const T r = fma(k, (T)(-LN2_LOW), fma(k, (T)(-LN2_HIGH), x));                \
        T value = (T)(1.0f / 5040.0f);                                               \
        value = fma(value, r, (T)(1.0f / 720.0f));                                   \
        value = fma(value, r, (T)(1.0f / 120.0f));                                   \
        value = fma(value, r, (T)(1.0f / 24.0f));                                    \
        value = fma(value, r, (T)(1.0f / 6.0f));                                     \
        value = fma(value, r, (T)(0.5f));                                            \
        value = fma(value, r, (T)(1.0f));                                            \
        value = fma(value, r, (T)(1.0f));                                            \
        const T power = as_##T((as_##I(shifted) << 23) + 0x3f800000);                \
        return x < (T)(LOWEST_EXPONENT) ? (T)(0.0f) : value * power;                 \
    }
#define DEFINE_EXPONENTIAL_(T, I) DEFINE_EXPONENTIAL(T, I)
DEFINE_EXPONENTIAL(float, int)
DEFINE_EXPONENTIAL_(VEC, INTS)
#define EXPONENTIAL(T, x) JOIN(exponential_, T)(x)

#endif
