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

// Activations by way of one exponential, e^x for Elu, e^-|x| for Sigmoid, e^-2|x| for Tanh, where no sum cancels:
// Tanh of less than a quarter is its Taylor polynomial. Out of line, for a kernel may store from many places.
#define DEFINE_ACTIVATE_BY_EXPONENTIAL(T)                                                        \
    static __attribute__((noinline)) T activate_by_exponential_##T(T x, int activation, float alpha) { \
        const T one = (T)(1.0f), size = fabs(x);                                                 \
        const T e = exponential_##T(activation == ACTIVATION_ELU       ? x                       \
                                    : activation == ACTIVATION_SIGMOID ? -size                   \
                                                                       : -2.0f * size);          \
        if (activation == ACTIVATION_ELU) return x < (T)(0.0f) ? alpha * (e - one) : x;          \
        if (activation == ACTIVATION_SIGMOID) return (x < (T)(0.0f) ? e : one) / (one + e);      \
        const T square = x * x, far = (one - e) / (one + e);                                     \
        T near = fma(square, (T)(62.0f / 2835.0f), (T)(-17.0f / 315.0f));                        \
        near = fma(near, square, (T)(2.0f / 15.0f));                                             \
        near = fma(near, square, (T)(-1.0f / 3.0f));                                             \
        near = fma(near * square, x, x);                                                         \
        return size < (T)(0.25f) ? near : x < (T)(0.0f) ? -far : far;                            \
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
