// One filter a channel over RUN pixels of an output row: sums a<m>_0, one vector each, that begin with the bias.
// Each is one fma chain over the taps in the order (kh, kw); taps in rows outside the image are left out, those in
// columns outside add a product with zero.
//
// Parameters  RUN pixels, 1 to 14; VECTOR lanes of a vector (4 8 16)
#ifndef CODL_TAPS_H
#define CODL_TAPS_H

#include "common/repeat.h"
#include "common/vector.h"

// The least number of steps that are as long as `distance`.
static inline int count_steps(int distance, int step) {
    return step == 1 ? distance : (distance + step - 1) / step;
}

#define NEXT_PIXEL p += step;
#define INNER_TAP(m)                                                                                       \
    a##m##_0 = fma(VLOAD(p), w, a##m##_0);                                                                 \
    NEXT_PIXEL
// A pixel whose tap lies in the padding reads zeros, and so does one past the end of the box.
#define SEES_TAP(m) (m >= seen_begin && m < seen_end)
#define EDGE_TAP(m)                                                                                        \
    {                                                                                                      \
        __global const float *q = SEES_TAP(m) ? p : zeros;                                                 \
        a##m##_0 = fma(VLOAD(q), w, a##m##_0);                                                             \
        NEXT_PIXEL                                                                                         \
    }
#define ENDS_TAP(m)                                                                                        \
    {                                                                                                      \
        __global const float *q = (m > 0 && m < RUN - 1) || SEES_TAP(m) ? p : zeros;                       \
        a##m##_0 = fma(VLOAD(q), w, a##m##_0);                                                             \
        NEXT_PIXEL                                                                                         \
    }
#define PART_TAP(m)                                                                                        \
    {                                                                                                      \
        const VEC value = SEES_TAP(m) ? load_lanes(p, 1, low, high) : (VEC)(0.0f);                         \
        a##m##_0 = fma(value, w, a##m##_0);                                                                \
        NEXT_PIXEL                                                                                         \
    }
// All taps in the rows of the image, in the order (kh, kw), TAP(m) for every pixel m. Every way to walk them is a
// loop of its own: with a choice inside, compilers keep addresses in memory.
#define WALK_TAPS(TAP)                                                                                     \
    for (int kh = tap_begin; kh < tap_end; ++kh) {                                                         \
        for (int kw = 0; kw < kernel_w; ++kw) {                                                            \
            const int x = first_x + kw * dilation_w;                                                       \
            const int seen_begin = x < 0 ? count_steps(-x, stride_w) : 0;                                  \
            const int seen_end = x < in_w ? min(columns, count_steps(in_w - x, stride_w)) : 0;             \
            __global const float *p = image + (kh * dilation_h * src_h + kw * dilation_w * src_w);         \
            const VEC w = VLOAD(weight + (kh * kernel_w + kw) * VECTOR);                                   \
            REPEAT(RUN, TAP)                                                                               \
        }                                                                                                  \
    }

#endif
