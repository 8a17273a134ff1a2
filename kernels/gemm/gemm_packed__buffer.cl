// gemm_packed__buffer: dst[n, m, c] = epilogue(bias[c] + sum over k of a[n, m, k] * b[k, c]), b constant
//
// Arguments
//   dst       float [N, M, C] as kernel dimensions (n, -, w, c), c innermost   the box is written, nothing else
//   a         float [N, M, K], k innermost       rows of the box are read
//   residual  as dst                             read when residual_order is not 0
//   weights   float [panels, 1 + K, VECTORS, VECTOR], with STREAMS [panels, VECTORS, 1 + K, VECTOR]   row 0 the bias;
//             the launch's first panel first
//   scalars   first matrix, rows and columns of the box, first panel, panels an item takes, panels of the launch,
//             tiles an item takes, columns, K, epilogue
// Launch      grid (ceil(tiles / item_tiles), ceil(panels / item_panels), matrices)   local (1, 1, 1)
// Parameters  MR 1 2 3 4 5 6 8 9 10 12 14 rows; VECTORS 1 2 3 4 5 vectors of a panel; VECTOR 4 8 16 lanes;
//             STREAMS 0 1 whether each vector of a panel lies by itself
// Tested by   tests/kernels/test_matmul.py
//
// Row tiles begin at the box's first row; panels lie on the whole tensor's grid, whose last vectors step back to end
// with it. A single row of the left operand takes what memory delivers: to a CPU, several streams of weights come
// sooner than one.
#ifndef STREAMS
#define STREAMS 0
#endif
#if STREAMS
#define VECTOR_STEP ((1 + depth) * VECTOR)
#define WEIGHT_STEP VECTOR
#endif
#include "common/gemm_tile.h"
#include "common/grid.h"

// Row m of the tile; past the end the last one again.
#define AIM_ROW(m) __global const float *p##m = a + AT(a, n, 0, min(row + m, row_end - 1), 0);
#define STORE_ROW(m)                                                                  \
    if (row + m < row_end) {                                                          \
        __global float *d##m = dst + AT(dst, n, 0, row + m, 0);                       \
        __global const float *r##m = residual + AT(residual, n, 0, row + m, 0);       \
        STORE_TILE_ROW(m)                                                             \
    }

#define PARAMETERS                                                                                     \
    TENSOR(dst), CONST_TENSOR(a), CONST_TENSOR(residual), __global const float *restrict weights,      \
    int matrix_begin, int row_begin, int channel_begin, int row_end, int channel_end, int panel_begin, \
    int item_panels, int panels, int item_tiles, int columns, int depth, EPILOGUE_SCALARS
#define VALUES                                                                                                \
    PASS_TENSOR(dst), PASS_TENSOR(a), PASS_TENSOR(residual), weights, matrix_begin, row_begin, channel_begin, \
    row_end, channel_end, panel_begin, item_panels, panels, item_tiles, columns, depth, PASS_EPILOGUE
static PLACE_APART void multiply_item(PARAMETERS, GRID_PLACE) {
    const int n = matrix_begin + grid_z, last_start = max(0, columns - VECTOR);
    const int item_begin = grid_y * item_panels, item_end = min(panels, item_begin + item_panels);
    const int begin = row_begin + grid_x * item_tiles * MR, end = min(row_end, begin + item_tiles * MR);
    for (int row = begin; row < end; row += MR) {
        for (int item = item_begin; item < item_end; ++item) {
            __global const float *weight = weights + item * ((size_t)(1 + depth) * PANEL);
            const int first_channel = (panel_begin + item) * PANEL;
            EACH_VECTOR(PLACE_VECTOR)
            REPEAT(MR, AIM_ROW)
            START_TILE
            ACCUMULATE(depth)
            const int low = channel_begin, high = min(channel_end, columns);
            if (IS_WHOLE_PANEL(first_channel, last_start, low, high, columns)) {
                PLAIN_BOUNDS
#define STORE_TILE_ROW STORE_PLAIN_ROW
                REPEAT(MR, STORE_ROW)
            } else {
#undef STORE_TILE_ROW
#define STORE_TILE_ROW STORE_ANY_ROW
                REPEAT(MR, STORE_ROW)
            }
        }
    }
}
GRID_KERNEL(gemm_packed__buffer, multiply_item)
