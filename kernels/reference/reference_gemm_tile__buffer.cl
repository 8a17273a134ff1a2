// reference_gemm_tile__buffer: the inner loop of common/gemm_tile.h alone, its rows and weights next to the core
//
// dst[item, m, c] = bias[c] + walks * sum over k of rows[m, k] * weights[k, c], computed and stored `tiles` times.
// No kernel with this tile and a sum of walks * depth products computes faster: its rate bounds theirs from above.
//
// Arguments
//   dst      float [items, MR, VECTORS, VECTOR]
//   rows     float [MR, depth]
//   weights  float [1 + depth, VECTORS, VECTOR]   row 0 the bias
//   depth    steps of K of a walk
//   walks    how often a tile walks along them
//   tiles    how many tiles are computed
// Launch      global (items)   local (1, 1, 1)
// Parameters  MR rows; VECTORS 1 2 3 4 5 vectors of a row; VECTOR 4 8 16 lanes
// Tested by   tests/devices/test_reference.py
#include "common/gemm_tile.h"

#define AIM_ROW(m) __global const float *p##m = rows + m * depth;
#define KEEP_VECTOR(m, v) VSTORE(a##m##_##v, d + m * PANEL + v * VECTOR);
#define KEEP_ROW(m) EACH_IN_ROW(KEEP_VECTOR, m)

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void reference_gemm_tile__buffer(
    __global float *restrict dst, __global const float *restrict rows, __global const float *restrict weights,
    int depth, int walks, int tiles) {
    __global float *d = dst + get_global_id(0) * (size_t)(MR * PANEL);
    REPEAT(MR, AIM_ROW)
    for (int tile = 0; tile < tiles; ++tile) {
        __global const float *weight = weights;
        START_TILE
        for (int walk = 0; walk < walks; ++walk) {
            weight = weights + PANEL;
            ACCUMULATE(depth)
        }
        REPEAT(MR, KEEP_ROW)
    }
}
