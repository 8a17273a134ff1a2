// matmul_tile__buffer: dst[n, h, r, j] = epilogue(sum over k of left[n, h, r, k] * right[n, h, k, j]), any strides
//
// Arguments
//   dst       float, kernel dimensions (n, h, rows, columns)   the box is written, nothing else
//   left      float, kernel dimensions (n, h, rows, K)
//   right     float, kernel dimensions (n, h, K, columns)
//   residual  as dst                                           read when residual_order is not 0
//   scalars   first matrix, matrices along n and h, rows and columns of the box, K, epilogue
// Launch      a group for each tile of BM x BM outputs   local (256, 1, 1)
// Parameters  BM 32 64 rows and columns of a tile; PTX 0 1 whether NVIDIA's assembly may be used; PRECISION 0 1 2 what
//             factors are rounded to (walk/matrix_units.h)
// Tested by   tests/kernels/test_matmul_tile.py
#ifndef BM
#define BM 64
#endif
#ifndef PTX
#define PTX 0
#endif
#if BM == 32
#define COMPUTE matmul_tile_32
#else
#define COMPUTE matmul_tile_64
#endif
#include "walk/matmul_tile.h"

__kernel BY_GROUP
void matmul_tile__buffer(TENSOR(dst), CONST_TENSOR(left), CONST_TENSOR(right), CONST_TENSOR(residual), int n_begin,
                         int n_count, int h_begin, int h_count, int row_begin, int row_end, int channel_begin,
                         int channel_end, int depth, EPILOGUE_SCALARS) {
    __local float memory[MATMUL_FLOATS + UNIT_FLOATS] __attribute__((aligned(16)));
    __local matmul_tile_t d;
    if (get_local_id(0) == 0) {
        const matmul_tile_t told = {
            PLACE(dst), PLACE(left), PLACE(right), PLACE(residual), n_begin, n_count, h_begin, h_count, row_begin,
            row_end, channel_begin, channel_end, depth, residual_order, activation, alpha, beta};
        d = told;
    }
    GROUP_BARRIER
    COMPUTE(&d, dst, left, right, residual, get_group_id(0), get_num_groups(0), memory);
}
