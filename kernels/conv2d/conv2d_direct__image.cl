// conv2d_direct__image: dst[n, oh, ow, oc] = epilogue(bias[oc] + sum over kh, kw, ic of src[n, ih, iw, ic] * weight)
// with ih = oh * stride - pad + kh * dilation, iw likewise; over images of four channels a texel.
//
// Arguments
//   dst       image of the box [begin, end) of [N, OH, OW, OC]   all of its texels are written
//   src       image of what the box's windows hold of [N, H, W, IC]
//   residual  as dst                                             read when residual_order is not 0
//   weights   float [ceil(OC / 4 / BLOCKS), 1 + KH*KW*IC', BLOCKS * 4], IC' = IC rounded up to 4, zeros beyond IC;
//             row 0 the bias; the launch's first panel first
//   scalars   first image, first coordinates and ends of the box, first panel, panels, blocks of a source pixel,
//             image size, window, epilogue
// Launch      global (ceil(columns / PIXELS) and rows rounded up to the work-group's, panels * images)
//             local (GROUP, GROUP, 1)
// Parameters  PIXELS 1 2 4 columns a work-item; BLOCKS 1 2 of four channels a work-item; GROUP 1 8
// Tested by   tests/kernels/test_images.py
#include "common/image_tile.h"

__kernel __attribute__((reqd_work_group_size(GROUP, GROUP, 1))) void conv2d_direct__image(
    IMAGE(dst), CONST_IMAGE(src), CONST_IMAGE(residual), __global const float *restrict weights,
    int image_begin, int row_begin, int col_begin, int channel_begin, int row_end, int col_end, int channel_end,
    int panel_begin, int panels, int in_blocks, int in_h, int in_w, int kernel_h, int kernel_w, int stride_h,
    int stride_w, int dilation_h, int dilation_w, int pad_h, int pad_w, EPILOGUE_SCALARS) {
    const int first = col_begin + get_global_id(0) * PIXELS, oh = row_begin + get_global_id(1);
    if (first >= col_end || oh >= row_end) return;
    const int panel = get_global_id(2) % panels, n = image_begin + get_global_id(2) / panels;
    const int taps = kernel_h * kernel_w;
    __global const float *weight = weights + panel * ((size_t)(4 * taps * in_blocks + 1) * PANEL);
    START_TILE
    for (int kh = 0; kh < kernel_h; ++kh) {
        const int ih = oh * stride_h - pad_h + kh * dilation_h;
        for (int kw = 0; kw < kernel_w; ++kw) {
            const int iw = first * stride_w - pad_w + kw * dilation_w;
            int2 at[PIXELS], step[PIXELS];
            for (int p = 0; p < PIXELS; ++p) {
                const int x = iw + p * stride_w;
                const bool is_inside = (uint)ih < (uint)in_h && (uint)x < (uint)in_w && first + p < col_end;
                at[p] = is_inside ? TEXEL(src, n, ih, x, 0) : OUTSIDE;
                step[p] = (int2)(is_inside ? src_block : 0, 0);
            }
            ACCUMULATE(src)
        }
    }
    const int channel = (panel_begin + panel) * PANEL;
    for (int p = 0; p < PIXELS && first + p < col_end; ++p) STORE_TILE_PIXEL(p, oh, first + p)
}
