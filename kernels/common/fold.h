// Folds the lanes of a vector onto each other in a fixed order.
#ifndef CODL_FOLD_H
#define CODL_FOLD_H

#include "common/vector.h"

#if VECTOR == 16
#define QUAD(v, OP) OP(OP(v.lo.lo, v.lo.hi), OP(v.hi.lo, v.hi.hi))
#elif VECTOR == 8
#define QUAD(v, OP) OP(v.lo, v.hi)
#else
#define QUAD(v, OP) v
#endif
#define DEFINE_FOLD(name, OP)                     \
    static inline float name(VEC v) {             \
        const float4 quad = QUAD(v, OP);          \
        const float2 pair = OP(quad.lo, quad.hi); \
        return OP(pair.x, pair.y);                \
    }
#define PLUS(a, b) ((a) + (b))
DEFINE_FOLD(fold_sum, PLUS)
DEFINE_FOLD(fold_greatest, fmax)

#endif
