// pool2d_lanes__buffer: dst[n, oh, ow, c] = max or mean over kh, kw of src[n, h, w, c]
// with h = oh * stride - pad + kh * dilation, w likewise
//
// Arguments
//   dst       float [N, OH, OW, C]   the box is written, nothing else
//   src       float [N, H, W, C]     the windows of the box without padding are read
//   scalars   box, whether it is a mean, image size, whether taps in the padding count in a mean, image size with
//             padding, window
// Launch      a work-item for one or four neighbouring channels   local (256, 1, 1)
// Parameters  PTX 0 1 whether NVIDIA's assembly may be used
// Tested by   tests/kernels/test_lanes.py
#ifndef PTX
#define PTX 0
#endif
#include "walk/windows.h"

__kernel BY_GROUP
void pool2d_lanes__buffer(TENSOR(dst), CONST_TENSOR(src), int n_begin, int h_begin, int w_begin, int c_begin,
                          int n_count, int h_count, int w_count, int c_count, int is_average, int in_h, int in_w,
                          int is_padding_counted, int padded_h, int padded_w, int kernel_h, int kernel_w,
                          int stride_h, int stride_w, int dilation_h, int dilation_w, int pad_h, int pad_w) {
    __local pool2d_t d;
    if (get_local_id(0) == 0) {
        const pool2d_t told = {
            PLACE(dst), PLACE(src), n_begin, h_begin, w_begin, c_begin, n_count, h_count, w_count, c_count,
            is_average, in_h, in_w, is_padding_counted, padded_h, padded_w, kernel_h, kernel_w, stride_h, stride_w,
            dilation_h, dilation_w, pad_h, pad_w};
        d = told;
    }
    GROUP_BARRIER
    pool2d_lanes(&d, dst, src, get_group_id(0), get_num_groups(0));
}
