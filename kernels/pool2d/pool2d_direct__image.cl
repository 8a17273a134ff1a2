// pool2d_direct__image: dst[n, oh, ow, c] = max or mean over kh, kw of src[n, h, w, c],
//                       h = oh * stride_h - pad_h + kh * dilation_h, w alike; over images of four channels a texel
//
// Taps outside the image are left out. A mean is one chain of additions in the order (kh, kw), times 1 / count.
// A maximum keeps NaN; over no tap at all it is -FLT_MAX and a mean 0, as in ONNX Runtime.
//
// Arguments
//   dst       image of the box [begin, end) of [N, OH, OW, C]   all of its texels are written
//   src       image of what the box's windows hold of [N, H, W, C]
//   scalars   first image, first coordinates and ends of the box, blocks, image size, window,
//             is_padding_counted (1: taps in the padding count in a mean; those beyond it never do),
//             padded_h, padded_w (image size with the padding on both sides)
// Launch      global (columns and rows rounded up to the work-group's, blocks * images)   local (GROUP, GROUP, 1)
// Parameters  AVERAGE 0 1; GROUP 1 8
// Tested by   tests/kernels/test_images.py
#ifndef AVERAGE
#define AVERAGE 0
#endif
#include "common/image.h"

__kernel __attribute__((reqd_work_group_size(GROUP, GROUP, 1))) void pool2d_direct__image(
    IMAGE(dst), CONST_IMAGE(src), int image_begin, int row_begin, int col_begin, int channel_begin, int row_end,
    int col_end, int channel_end, int blocks, int in_h, int in_w, int kernel_h, int kernel_w, int stride_h,
    int stride_w, int dilation_h, int dilation_w, int pad_h, int pad_w, int is_padding_counted, int padded_h,
    int padded_w) {
    const int ow = col_begin + get_global_id(0), oh = row_begin + get_global_id(1);
    if (ow >= col_end || oh >= row_end) return;
    const int block = channel_begin / 4 + get_global_id(2) % blocks, n = image_begin + get_global_id(2) / blocks;
    const int top = oh * stride_h - pad_h, left = ow * stride_w - pad_w;
    float4 value = (float4)(AVERAGE ? 0.0f : -INFINITY);
    int taps = 0, counted = 0;
    for (int kh = 0; kh < kernel_h; ++kh) {
        for (int kw = 0; kw < kernel_w; ++kw) {
            const int h = top + kh * dilation_h, w = left + kw * dilation_w;
            counted += h + pad_h < padded_h && w + pad_w < padded_w;
            if ((uint)h >= (uint)in_h || (uint)w >= (uint)in_w) continue;
            const float4 x = READ_TEXEL(src, n, h, w, block);
            value = AVERAGE ? value + x : x > value || x != x ? x : value;
            ++taps;
        }
    }
    if (taps == 0)
        value = (float4)(AVERAGE ? 0.0f : -FLT_MAX);
    else if (AVERAGE)
        value *= 1.0f / (is_padding_counted ? counted : taps);
    WRITE_TEXEL(dst, n, oh, ow, block, mask_channels(value, 4 * block, channel_begin, channel_end));
}
