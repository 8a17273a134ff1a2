// sum_lanes__buffer: dst[n, h, 0, c] = act(scale * sum over w of src[n, h, w, c]), one chain of additions
//
// Arguments
//   dst       float, kernel dimensions (n, h, 1, c)        the box is written, nothing else
//   src       float, kernel dimensions (n, h, length, c)   any strides
//   scalars   box, length, scale, epilogue without residual
// Launch      a work-item for one or four neighbouring channels   local (256, 1, 1)
// Parameters  PTX 0 1 whether NVIDIA's assembly may be used
// Tested by   tests/kernels/test_lanes.py
#ifndef PTX
#define PTX 0
#endif
#include "walk/reductions.h"

__kernel BY_GROUP
void sum_lanes__buffer(TENSOR(dst), CONST_TENSOR(src), int n_begin, int h_begin, int w_begin, int c_begin,
                       int n_count, int h_count, int w_count, int c_count, int length, float scale, EPILOGUE_SCALARS) {
    __local sum_t d;
    if (get_local_id(0) == 0) {
        const sum_t told = {
            PLACE(dst), PLACE(src), n_begin, h_begin, w_begin, c_begin, n_count, h_count, w_count, c_count, length,
            scale, residual_order, activation, alpha, beta};
        d = told;
    }
    GROUP_BARRIER
    sum_lanes(&d, dst, src, get_group_id(0), get_num_groups(0));
}
