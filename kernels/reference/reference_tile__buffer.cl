// reference_tile__buffer: the inner loop of common/register_tile.h alone, its rows and weights next to the core
//
// dst[item, m, c] = bias[c] + walks * sum over k of rows[m, k] * weights[k, c], computed and stored `tiles` times.
// No kernel with this tile and a sum of walks * depth products computes faster: its rate bounds theirs from above.
//
// Arguments
//   dst      float [items, MR, NR]
//   rows     float [MR, depth]
//   weights  float [1 + depth, NR]   row 0 the bias
//   depth    steps of K of a walk
//   walks    how often a tile walks along them
//   tiles    how many tiles are computed
// Launch      global (items)   local (1, 1, 1)
// Parameters  MR rows; NR channels; VECTOR 4 8 16 lanes, NR / VECTOR in 1 2 4
// Tested by   tests/devices/test_reference.py
#ifndef MR
#define MR 6
#endif
#ifndef NR
#define NR 16
#endif
#ifndef VECTOR
#define VECTOR 8
#endif
#include "common/register_tile.h"

#define AIM_ROW(m) __global const float *p##m = rows + m * depth;
#define KEEP_ROW(m)                                \
    LANE_0(VSTORE(a##m##_0, d + m * NR);)              \
    LANE_1(VSTORE(a##m##_1, d + m * NR + VECTOR);)     \
    LANE_2(VSTORE(a##m##_2, d + m * NR + 2 * VECTOR);) \
    LANE_3(VSTORE(a##m##_3, d + m * NR + 3 * VECTOR);)

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void reference_tile__buffer(
    __global float *restrict dst, __global const float *restrict rows, __global const float *restrict weights,
    int depth, int walks, int tiles) {
    __global float *d = dst + get_global_id(0) * (size_t)(MR * NR);
    REPEAT(MR, AIM_ROW)
    for (int tile = 0; tile < tiles; ++tile) {
        START_TILE(weights)
        for (int walk = 0; walk < walks; ++walk) {
            __global const float *weight = weights + NR;
            ACCUMULATE(depth)
        }
        REPEAT(MR, KEEP_ROW)
    }
}
