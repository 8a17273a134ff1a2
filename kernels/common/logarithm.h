// ln x with the same bits on single floats and on vectors. NaN and infinity stay, x <= 0 becomes NaN; subnormal
// numbers are no concern here.
// x = 2^k m, m in [sqrt(1/2), sqrt(2)); with s = (m - 1) / (m + 1), ln m = 2 (s + s^3 / 3 + s^5 / 5 + ...).
#ifndef CODL_LOGARITHM_H
#define CODL_LOGARITHM_H

#include "common/vector.h"

#define HALF_ROOT_BITS 0x3f3504f3   // sqrt(1/2)
#define LN2 0.69314718056f

#define DEFINE_LOGARITHM(T, I)                                                       \
    static inline T logarithm_##T(T x) {                                             \
        const I k = (as_##I(x) - HALF_ROOT_BITS) >> 23;                              \
        const T m = as_##T(as_##I(x) - (k << 23));                                   \
        const T s = (m - (T)(1.0f)) / (m + (T)(1.0f)), square = s * s;               \
        T value = (T)(2.0f / 9.0f);                                                  \
        value = fma(value, square, (T)(2.0f / 7.0f));                                \
        value = fma(value, square, (T)(2.0f / 5.0f));                                \
        value = fma(value, square, (T)(2.0f / 3.0f));                                \
        value = fma(value, square, (T)(2.0f));                                       \
        value = fma(convert_##T(k), (T)(LN2), value * s);                            \
        value = x > (T)(0.0f) ? value : (T)(NAN);                                    \
        return x < (T)(INFINITY) ? value : x;                                        \
    }
#define DEFINE_LOGARITHM_(T, I) DEFINE_LOGARITHM(T, I)
DEFINE_LOGARITHM(float, int)
DEFINE_LOGARITHM_(VEC, JOIN(int, VECTOR))

#endif
