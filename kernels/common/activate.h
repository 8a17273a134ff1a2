// Activations on single floats and on vectors, with the same bits: ACTIVATE(T, value) with T float or VEC.
// The scalars of the epilogue are the kernel's arguments of that name.
// Comparisons are written so that NaN passes through, as in ONNX Runtime.
#ifndef CODL_ACTIVATE_H
#define CODL_ACTIVATE_H

#include "common/epilogue.h"
#include "common/exponential.h"

#define DEFINE_BETWEEN(T)                                 \
    static inline T between_##T(T value, T low, T high) { \
        value = value < low ? low : value;                \
        return value > high ? high : value;               \
    }

// The root, and activations by way of one exponential: e^x for Elu, e^-|x| for Sigmoid and Swish, e^-2|x| for Tanh, e^-x^2 for Erf and
// Gelu, so that no sum cancels. Near zero Tanh and Erf are their Taylor polynomials; elsewhere Erf is formula 7.1.26 of
// Abramowitz and Stegun, Handbook of Mathematical Functions (error 1.5e-7). Out of line, for a kernel may store from
// many places.
#define DEFINE_ACTIVATE_BY_EXPONENTIAL(T)                                                              \
    static inline T near_tanh_##T(T x) {                                                               \
        const T square = x * x;                                                                        \
        T sum = fma(square, (T)(62.0f / 2835.0f), (T)(-17.0f / 315.0f));                               \
        sum = fma(sum, square, (T)(2.0f / 15.0f));                                                     \
        sum = fma(sum, square, (T)(-1.0f / 3.0f));                                                     \
        return fma(sum * square, x, x);                                                                \
    }                                                                                                  \
    static inline T near_erf_##T(T x) {                                                                \
        const T square = x * x;                                                                        \
        T sum = fma(square, (T)(1.0f / 9360.0f), (T)(-1.0f / 1320.0f));                                \
        sum = fma(sum, square, (T)(1.0f / 216.0f));                                                    \
        sum = fma(sum, square, (T)(-1.0f / 42.0f));                                                    \
        sum = fma(sum, square, (T)(1.0f / 10.0f));                                                     \
        sum = fma(sum, square, (T)(-1.0f / 3.0f));                                                     \
        return M_2_SQRTPI_F * fma(sum * square, x, x);                                                 \
    }                                                                                                  \
    static inline T rest_of_erf_##T(T size, T e) { /* 1 - erf(size), e = e^-size^2 */                  \
        const T t = (T)(1.0f) / fma(size, (T)(0.3275911f), (T)(1.0f));                                 \
        T sum = fma(t, (T)(1.061405429f), (T)(-1.453152027f));                                         \
        sum = fma(sum, t, (T)(1.421413741f));                                                          \
        sum = fma(sum, t, (T)(-0.284496736f));                                                         \
        sum = fma(sum, t, (T)(0.254829592f));                                                          \
        return sum * t * e;                                                                            \
    }                                                                                                  \
    static __attribute__((noinline)) T activate_by_exponential_##T(T x, int activation, float alpha) { \
        if (activation == ACTIVATION_SQRT) return sqrt(x);                                             \
        const T one = (T)(1.0f), zero = (T)(0.0f);                                                     \
        const T size = fabs(x) * (activation == ACTIVATION_GELU    ? M_SQRT1_2_F                       \
                                  : activation == ACTIVATION_SWISH ? fabs(alpha)                       \
                                                                   : 1.0f);                            \
        const T e = exponential_##T(activation == ACTIVATION_ELU       ? x                             \
                                    : activation == ACTIVATION_TANH    ? -2.0f * size                  \
                                    : activation == ACTIVATION_ERF     ? -size * size                  \
                                    : activation == ACTIVATION_GELU    ? -size * size                  \
                                                                       : -size);                       \
        if (activation == ACTIVATION_ELU) return x < zero ? alpha * (e - one) : x;                     \
        if (activation == ACTIVATION_SIGMOID) return (x < zero ? e : one) / (one + e);                 \
        if (activation == ACTIVATION_SWISH) return x * ((alpha * x < zero ? e : one) / (one + e));     \
        if (activation == ACTIVATION_TANH) {                                                           \
            const T far = (one - e) / (one + e);                                                       \
            return size < (T)(0.25f) ? near_tanh_##T(x) : x < zero ? -far : far;                       \
        }                                                                                              \
        const T rest = rest_of_erf_##T(size, e);                                                       \
        if (activation == ACTIVATION_GELU) {                                                           \
            const T half_rest = 0.5f * rest;                                                           \
            return x * (x < zero ? half_rest : one - half_rest);                                       \
        }                                                                                              \
        const T far = one - rest;                                                                      \
        return size < (T)(0.5f) ? near_erf_##T(x) : x < zero ? -far : far;                             \
    }

// Defines activate_<T>(value, activation, alpha, beta) for a float type T.
#define DEFINE_ACTIVATE(T)                                                                       \
    static inline T activate_##T(T value, int activation, float alpha, float beta) {             \
        const T zero = (T)(0.0f), one = (T)(1.0f);                                               \
        switch (activation) {                                                                    \
            case ACTIVATION_IDENTITY: return value;                                              \
            case ACTIVATION_RELU: return value < zero ? zero : value;                            \
            case ACTIVATION_CLIP: return between_##T(value, (T)(alpha), (T)(beta));              \
            case ACTIVATION_LEAKY_RELU: return value < zero ? value * alpha : value;             \
            case ACTIVATION_HARD_SIGMOID:                                                        \
                return between_##T(fma(value, (T)(alpha), (T)(beta)), zero, one);                \
            case ACTIVATION_HARD_SWISH:                                                          \
                return value * between_##T(fma(value, (T)(1.0f / 6.0f), (T)(0.5f)), zero, one);  \
            default: return activate_by_exponential_##T(value, activation, alpha);               \
        }                                                                                        \
    }

#define DEFINE_ACTIVATIONS(T)         \
    DEFINE_BETWEEN(T)                 \
    DEFINE_ACTIVATE_BY_EXPONENTIAL(T) \
    DEFINE_ACTIVATE(T)
#define DEFINE_ACTIVATIONS_(T) DEFINE_ACTIVATIONS(T)
DEFINE_ACTIVATIONS(float)
DEFINE_ACTIVATIONS_(VEC)
#define ACTIVATE(T, value) JOIN(activate_, T)(value, activation, alpha, beta)

#endif
