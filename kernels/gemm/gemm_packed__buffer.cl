// gemm_packed__buffer: dst[n, m, c] = epilogue(bias[c] + sum over k of a[n, m, k] * b[k, c]), b constant
//
// Arguments
//   dst       float [N, M, C] as kernel dimensions (n, -, w, c), c innermost   the box is written, nothing else
//   a         float [N, M, K], k innermost       rows of the box are read
//   residual  as dst                             read when residual_order is not 0
//   weights   float [C/NR, 1 + K, NR]            row 0 the bias; the launch's first panel first
//   scalars   first matrix, rows and columns of the box, first panel, K, epilogue
// Launch      global (ceil(rows / MR), panels, matrices)   local (1, 1, 1)
// Parameters  MR 1 2 4 6 8 10 12 14 rows; NR 4 8 16 32 64 columns; VECTOR 4 8 16 lanes, NR / VECTOR in 1 2 4
// Tested by   tests/kernels/test_matmul.py
//
// Row tiles begin at the box's first row; panels lie on the whole tensor's grid.
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

// Row m of the tile; past the end the last one again.
#define AIM_ROW(m) __global const float *p##m = a + AT(a, n, 0, min(row + m, row_end - 1), 0);
#define STORE_ROW(m)                                                                       \
    if (row + m < row_end) {                                                               \
        __global float *d##m = dst + AT(dst, n, 0, row + m, channel);                      \
        __global const float *r##m = residual + AT(residual, n, 0, row + m, channel);      \
        STORE_ANY_ROW(m)                                                                   \
    }

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void gemm_packed__buffer(
    TENSOR(dst), CONST_TENSOR(a), CONST_TENSOR(residual), __global const float *restrict weights,
    int matrix_begin, int row_begin, int channel_begin, int row_end, int channel_end, int panel_begin, int depth,
    EPILOGUE_SCALARS) {
    const int row = row_begin + get_global_id(0) * MR, n = matrix_begin + get_global_id(2);
    const int channel = (panel_begin + get_global_id(1)) * NR;
    __global const float *weight = weights + get_global_id(1) * ((size_t)(1 + depth) * NR);
    REPEAT(MR, AIM_ROW)
    START_TILE(weight)
    weight += NR;
    ACCUMULATE(depth)
    const int low = channel_begin - channel, high = channel_end - channel;
    if (PLAIN_STORE) {
        PLAIN_BOUNDS
#define STORE_ANY_ROW STORE_PLAIN_ROW
        REPEAT(MR, STORE_ROW)
    } else {
#undef STORE_ANY_ROW
#define STORE_ANY_ROW STORE_TILE_ROW
        REPEAT(MR, STORE_ROW)
    }
}
