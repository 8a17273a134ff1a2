// mean_group__buffer: dst[n, h, w, c] = act(scale * sum over i, j, k, l of src[n + i, h + j, w + k, c + l])
// where the averaged axes have length 1 in dst, and the others a sum of one
//
// Arguments
//   dst       float, kernel dimensions (n, h, w, c)   the box is written, nothing else
//   src       float, same dimensions
//   scalars   box, elements of a sum in each dimension, whether c is averaged, work-items of a sum, scale, epilogue
// Launch      a group for 256 / threads outputs   local (256, 1, 1)
// Parameters  PTX 0 1 whether NVIDIA's assembly may be used; threads 32, 64, 128 or 256 work-items of a sum
// Tested by   tests/kernels/test_lines.py
#ifndef PTX
#define PTX 0
#endif
#include "walk/lines.h"

__kernel BY_GROUP
void mean_group__buffer(TENSOR(dst), CONST_TENSOR(src), int n_begin, int h_begin, int w_begin, int c_begin, int n_count,
                        int h_count, int w_count, int c_count, int length_n, int length_h, int length_w, int length_c,
                        int is_inner, int threads, float scale, EPILOGUE_SCALARS) {
    __local float memory[GROUP];
    __local mean_t d;
    if (get_local_id(0) == 0) {
        const mean_t told = {
            PLACE(dst), PLACE(src), n_begin, h_begin, w_begin, c_begin, n_count, h_count, w_count, c_count, length_n,
            length_h, length_w, length_c, is_inner, threads, scale, residual_order, activation, alpha, beta};
        d = told;
    }
    GROUP_BARRIER
    mean_group(&d, dst, src, get_group_id(0), get_num_groups(0), memory);
}
