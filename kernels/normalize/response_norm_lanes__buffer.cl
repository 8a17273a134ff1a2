// response_norm_lanes__buffer: dst[n, h, w, c] = src[n, h, w, c] / (bias + share * sum over k of src[n, h, w, k]^2)^power
// with k from c - below to c + above, as far as there are channels; one fma chain an output, k ascending
//
// Arguments
//   dst       float, kernel dimensions (n, h, w, c)   the box is written, nothing else
//   src       float, same coordinates                 read under the windows of the box
//   scalars   box, channels of src, channels of a window on either side of its own, bias, share, power
// Launch      a work-item for one or four neighbouring channels   local (256, 1, 1)
// Parameters  PTX 0 1 whether NVIDIA's assembly may be used
// Tested by   tests/kernels/test_lanes.py
#ifndef PTX
#define PTX 0
#endif
#include "walk/channels.h"

__kernel BY_GROUP
void response_norm_lanes__buffer(TENSOR(dst), CONST_TENSOR(src), int n_begin, int h_begin, int w_begin, int c_begin,
                                 int n_count, int h_count, int w_count, int c_count, int channels, int below, int above,
                                 float bias, float share, float power) {
    __local response_norm_t d;
    if (get_local_id(0) == 0) {
        const response_norm_t told = {PLACE(dst), PLACE(src), n_begin, h_begin, w_begin, c_begin, n_count, h_count,
                                      w_count, c_count, channels, below, above, bias, share, power};
        d = told;
    }
    GROUP_BARRIER
    response_norm_lanes(&d, dst, src, get_group_id(0), get_num_groups(0));
}
