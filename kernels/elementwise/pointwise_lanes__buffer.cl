// pointwise_lanes__buffer: dst[i] = epilogue(f(a[i], b[i], c[i])) over a box: sums, products, maps by channel, copies
//
// Arguments
//   dst       float, kernel dimensions (n, h, w, c)   the box is written, nothing else
//   a, b, c   float, same coordinates, any strides    b is not read by a copy, c by an affine map only
//   residual  as dst                                  read when residual_order is not 0
//   box       first coordinates and lengths
//   function  POINTWISE_ADD and so on, from codl/catalog/rows/pointwise_lanes.py
//   epilogue
// Launch      a work-item for one or four neighbouring channels   local (256, 1, 1)
// Parameters  PTX 0 1 whether NVIDIA's assembly may be used
// Tested by   tests/kernels/test_lanes.py
#ifndef PTX
#define PTX 0
#endif
#include "walk/pointwise.h"

__kernel BY_GROUP
void pointwise_lanes__buffer(TENSOR(dst), CONST_TENSOR(a), CONST_TENSOR(b), CONST_TENSOR(c), CONST_TENSOR(residual),
                             int n_begin, int h_begin, int w_begin, int c_begin, int n_count, int h_count,
                             int w_count, int c_count, int function, EPILOGUE_SCALARS) {
    __local pointwise_t d;
    if (get_local_id(0) == 0) {
        const pointwise_t told = {
            PLACE(dst), PLACE(a), PLACE(b), PLACE(c), PLACE(residual), n_begin, h_begin, w_begin, c_begin, n_count,
            h_count, w_count, c_count, function, residual_order, activation, alpha, beta};
        d = told;
    }
    GROUP_BARRIER
    pointwise_lanes(&d, dst, a, b, c, residual, get_group_id(0), get_num_groups(0));
}
