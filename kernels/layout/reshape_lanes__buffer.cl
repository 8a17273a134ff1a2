// reshape_lanes__buffer: element i of dst = element i of src, counted in ONNX order
//
// Arguments
//   dst       float, kernel dimensions (n, h, w, c) in ONNX order   the box is written, nothing else
//   src       float, likewise
//   scalars   box, lengths of dst and of src along h, w, c
// Launch      a work-item an element   local (256, 1, 1)
// Parameters  PTX 0 1 whether NVIDIA's assembly may be used
// Tested by   tests/kernels/test_lanes.py
#ifndef PTX
#define PTX 0
#endif
#include "walk/pointwise.h"

__kernel BY_GROUP
void reshape_lanes__buffer(TENSOR(dst), CONST_TENSOR(src), int n_begin, int h_begin, int w_begin, int c_begin,
                           int n_count, int h_count, int w_count, int c_count, int dst_height, int dst_width,
                           int dst_channels, int src_height, int src_width, int src_channels) {
    __local reshape_t d;
    if (get_local_id(0) == 0) {
        const reshape_t told = {
            PLACE(dst), PLACE(src), n_begin, h_begin, w_begin, c_begin, n_count, h_count, w_count, c_count,
            dst_height, dst_width, dst_channels, src_height, src_width, src_channels};
        d = told;
    }
    GROUP_BARRIER
    reshape_lanes(&d, dst, src, get_group_id(0), get_num_groups(0));
}
