// linear_rows__buffer: dst[n, r, j] = epilogue(bias[j] + sum over k of src[n, r, k] * weight[k, j]), few rows
//
// A column is summed by all work-items of a group, each of which takes every 256th vector of four products.
//
// Arguments
//   dst       float, kernel dimensions (n, 1, rows, columns)   the box is written, nothing else
//   src       float, kernel dimensions (n, 1, rows, K)
//   residual  as dst                                           read when residual_order is not 0
//   weights   float [ceil(columns / 8), 8 + 8 * ceil(K / 4) * 4]   biases, then columns with zeros behind their last
//   scalars   first matrix, matrices, rows and columns of the box, first panel, panels, K, whether the
//             whole operator has one row, epilogue
// Launch      a group for 8 columns   local (256, 1, 1)
// Parameters  PTX 0 1 whether NVIDIA's assembly may be used
// Tested by   tests/kernels/test_linear_rows.py
#ifndef PTX
#define PTX 0
#endif
#include "walk/reductions.h"

__kernel BY_GROUP
void linear_rows__buffer(TENSOR(dst), CONST_TENSOR(src), CONST_TENSOR(residual), __global const float *weights,
                         int n_begin, int n_count, int row_begin, int row_end, int channel_begin, int channel_end,
                         int panel_begin, int panels, int depth, int is_vector, EPILOGUE_SCALARS) {
    __local float memory[LINEAR_FLOATS];
    __local linear_t d;
    if (get_local_id(0) == 0) {
        const linear_t told = {
            PLACE(dst), PLACE(src), PLACE(residual), 0, n_begin, n_count, row_begin, row_end, channel_begin,
            channel_end, panel_begin, panels, depth, is_vector, residual_order, activation, alpha, beta};
        d = told;
    }
    GROUP_BARRIER
    linear_rows(&d, dst, src, residual, weights, get_group_id(0), get_num_groups(0), memory);
}
