// gemm_plain__buffer: dst[n, h, m, c] = epilogue(bias[c] + sum over k of a[n, h, m, k] * b[n, h, k, c])
//
// Arguments, as kernel dimensions (n, h, w, c) with any strides; 0 where a matrix is shared by a batch
//   dst       float [N, H, M, C]         the box is written, nothing else
//   a         float [N, H, M, K]         rows of the box are read
//   b         float [N, H, K, C]         columns of the box are read
//   bias      float [C]                  read when has_bias is not 0
//   residual  as dst                     read when residual_order is not 0
//   scalars   first matrix and matrices along h, rows and columns of the box, first panel, K, has_bias, epilogue
// Launch      global (ceil(rows / MR), panels, matrices)   local (1, 1, 1)
// Parameters  MR 1 2 4 6 8 10 12 14 rows; NR 4 8 12 16 24 32 48 64 columns, one to four vectors; VECTOR 4 8 16 lanes
// Tested by   tests/kernels/test_matmul.py
//
// Row tiles begin at the box's first row; panels lie on the whole tensor's grid. A panel that lies densely in the
// box is read by vectors, any other by single values.
#define ROW_STEP a_c
#define WEIGHT_STEP b_w
#define DST_STEP dst_c
#define RESIDUAL_STEP residual_c
#include "common/register_tile.h"

// Row m of the tile; past the end the last one again.
#define AIM_ROW(m) __global const float *p##m = a + AT(a, n, h, min(row + m, row_end - 1), 0);
#define START_VECTOR(v)                                                                                   \
    VEC bias_##v = (VEC)(0.0f);                                                                           \
    if (has_bias)                                                                                         \
        bias_##v = load_lanes(bias + AT(bias, 0, 0, 0, channel + v * VECTOR), bias_c, low - v * VECTOR,   \
                              high - v * VECTOR);
#define GATHER_WEIGHT(v) \
    const VEC w_##v = load_lanes(weight + v * VECTOR * b_c, b_c, low - v * VECTOR, high - v * VECTOR);
#define STORE_ROW(m)                                                                       \
    if (row + m < row_end) {                                                               \
        __global float *d##m = dst + AT(dst, n, h, row + m, channel);                      \
        __global const float *r##m = residual + AT(residual, n, h, row + m, channel);      \
        STORE_TILE_ROW(m)                                                                  \
    }

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void gemm_plain__buffer(
    TENSOR(dst), CONST_TENSOR(a), CONST_TENSOR(b), CONST_TENSOR(bias), CONST_TENSOR(residual),
    int n_begin, int h_begin, int h_count, int row_begin, int channel_begin, int row_end, int channel_end,
    int panel_begin, int depth, int has_bias, EPILOGUE_SCALARS) {
    const int matrix = get_global_id(2);
    const int n = n_begin + matrix / h_count, h = h_begin + matrix % h_count;
    const int row = row_begin + get_global_id(0) * MR, channel = (panel_begin + get_global_id(1)) * NR;
    const int low = channel_begin - channel, high = channel_end - channel;
    __global const float *weight = b + AT(b, n, h, 0, channel);
    REPEAT(MR, AIM_ROW)
    EACH_LANE(START_VECTOR)
    REPEAT(MR, START_ROW)
    if (b_c == 1 && low <= 0 && high >= NR) {
        ACCUMULATE(depth)
    } else {
        for (int k = 0; k < depth; ++k) {
            EACH_LANE(GATHER_WEIGHT)
            REPEAT(MR, STEP_ROW)
            weight += WEIGHT_STEP;
        }
    }
    REPEAT(MR, STORE_ROW)
}
