// depthwise_lanes__buffer: dst[n, oh, ow, c] = epilogue(bias[c] + sum over kh, kw of src[n, ih, iw, c] * weight)
// with ih = oh * stride - pad + kh * dilation, iw likewise; one chain of fma in the order (kh, kw)
//
// Arguments
//   dst       float [N, OH, OW, C]              the box is written, nothing else
//   src       float [N, H, W, C]                the windows of the box without padding are read
//   residual  as dst                            read when residual_order is not 0
//   weights   float [ceil(C / 4), 1 + KH*KW, 4]  row 0 the bias; the launch's first panel first
//   scalars   box, first panel, image size, window, epilogue
// Launch      a work-item for one or four neighbouring channels   local (256, 1, 1)
// Parameters  PTX 0 1 whether NVIDIA's assembly may be used
// Tested by   tests/kernels/test_lanes.py
#ifndef PTX
#define PTX 0
#endif
#include "walk/windows.h"

__kernel BY_GROUP
void depthwise_lanes__buffer(TENSOR(dst), CONST_TENSOR(src), CONST_TENSOR(residual), __global const float *weights,
                             int n_begin, int h_begin, int w_begin, int c_begin, int n_count, int h_count,
                             int w_count, int c_count, int panel_begin, int in_h, int in_w, int kernel_h,
                             int kernel_w, int stride_h, int stride_w, int dilation_h, int dilation_w, int pad_h,
                             int pad_w, EPILOGUE_SCALARS) {
    __local depthwise_t d;
    if (get_local_id(0) == 0) {
        const depthwise_t told = {
            PLACE(dst), PLACE(src), PLACE(residual), 0, n_begin, h_begin, w_begin, c_begin, n_count, h_count,
            w_count, c_count, panel_begin, in_h, in_w, kernel_h, kernel_w, stride_h, stride_w, dilation_h,
            dilation_w, pad_h, pad_w, residual_order, activation, alpha, beta};
        d = told;
    }
    GROUP_BARRIER
    depthwise_lanes(&d, dst, src, residual, weights, get_group_id(0), get_num_groups(0));
}
