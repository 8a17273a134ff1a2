// Filters of minimal filtering as they are in the model, transformed to the points of common/winograd_tile.h by who
// reads them: windows of up to 3 x 3 have nine taps instead of 16 or 36 points, and memory has so much less to deliver.
//
// FILTERS_SPACE  address space of the transformed filters
// FILTER_STEP    floats from one point's filters to the next one's
#ifndef CODL_WINOGRAD_FILTERS_H
#define CODL_WINOGRAD_FILTERS_H

#include "common/winograd_tile.h"

#define TAPS (PART * PART)

// One line of taps g0 .. g2 to its points f0 .. f3 or f5.
#if TILE == 2
#define TRANSFORM_FILTERS                                                                  \
    const VEC even = (g0 + g2) * (VEC)(0.5f), odd = g1 * (VEC)(0.5f);                      \
    const VEC f0 = g0, f1 = even + odd, f2 = even - odd, f3 = g2;
#else
#define TRANSFORM_FILTERS                                                                  \
    const VEC even_1 = fma(g2, (VEC)(0.5f), g0) * (VEC)(-0.66666667f);                     \
    const VEC even_2 = fma(g2, (VEC)(2.0f), g0) * (VEC)(0.16666667f);                      \
    const VEC odd_1 = g1 * (VEC)(-0.47140452f), odd_2 = g1 * (VEC)(0.23570226f);           \
    const VEC f0 = g0, f1 = even_1 + odd_1, f2 = even_1 - odd_1;                           \
    const VEC f3 = even_2 + odd_2, f4 = even_2 - odd_2, f5 = g2;
#endif

#define LOAD_TAP(i) const VEC g##i = VLOAD(taps + (i * PART + j) * NR + v);
#define KEEP_TAP(i) lines[i][j] = f##i;
#define LOAD_LINE(j) const VEC g##j = lines[i][j];
#define STORE_FILTER(j) VSTORE(f##j, filters + ((i * EDGE + j) * FILTER_STEP + v));

// The taps of NR filters and one channel, each tap's NR floats beside each other, to their points, FILTER_STEP floats
// apart.
static __attribute__((noinline)) void transform_filters(FILTERS_SPACE float *filters, __global const float *taps) {
    for (int v = 0; v < NR; v += VECTOR) {
        VEC lines[EDGE][PART];
        for (int j = 0; j < PART; ++j) {
            REPEAT_3(LOAD_TAP)
            TRANSFORM_FILTERS
            EACH_EDGE(KEEP_TAP)
        }
        for (int i = 0; i < EDGE; ++i) {
            REPEAT_3(LOAD_LINE)
            TRANSFORM_FILTERS
            EACH_EDGE(STORE_FILTER)
        }
    }
}

#endif
