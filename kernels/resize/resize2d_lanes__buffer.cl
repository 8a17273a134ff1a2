// resize2d_lanes__buffer: dst[n, h, w, c] = blend of src[n, i, j, c], i in {low[h], high[h]}, j in {low[w], high[w]}
//
// Arguments
//   dst       float, kernel dimensions (n, h, w, c)   the box is written, nothing else
//   src       float, kernel dimensions (n, h, w, c)
//   taps      float [3, out_height + out_width]       low, high and the weight of high, of each row, then of each column
//   scalars   box, rows and columns of the whole output, is_linear (0: src at (low, low) as it is)
// Launch      a work-item for one or four neighbouring channels   local (256, 1, 1)
// Parameters  PTX 0 1 whether NVIDIA's assembly may be used
// Tested by   tests/kernels/test_lanes.py
#ifndef PTX
#define PTX 0
#endif
#include "walk/channels.h"

__kernel BY_GROUP
void resize2d_lanes__buffer(TENSOR(dst), CONST_TENSOR(src), __global const float *taps, int n_begin, int h_begin,
                            int w_begin, int c_begin, int n_count, int h_count, int w_count, int c_count,
                            int out_height, int out_width, int is_linear) {
    __local resize2d_t d;
    if (get_local_id(0) == 0) {
        const resize2d_t told = {PLACE(dst), PLACE(src), 0, n_begin, h_begin, w_begin, c_begin, n_count, h_count, w_count,
                                 c_count, out_height, out_width, is_linear};
        d = told;
    }
    GROUP_BARRIER
    resize2d_lanes(&d, dst, src, taps, get_group_id(0), get_num_groups(0));
}
