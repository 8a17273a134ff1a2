// conv2d_pointwise__image: dst[n, oh, ow, oc] = epilogue(bias[oc] + sum over ic of src[n, ih, iw, ic] * weight)
// with ih = oh * stride_h, iw = ow * stride_w; a 1x1 convolution over images of four channels a texel.
//
// Arguments
//   dst       image of the box [begin, end) of [N, OH, OW, OC]   all of its texels are written
//   src       image that holds the box's pixels of [N, H, W, IC]
//   residual  as dst                                             read when residual_order is not 0
//   weights   float [ceil(OC / 4 / BLOCKS), 1 + IC', BLOCKS * 4], IC' = IC rounded up to 4, zeros beyond IC;
//             row 0 the bias; the launch's first panel first
//   scalars   first image, first coordinates and ends of the box, first panel, panels, blocks of a source pixel,
//             strides, epilogue
// Launch      global (ceil(rows * columns / PIXELS) and panels rounded up to the work-group's, images)
//             local (GROUP, GROUP, 1)
// Parameters  PIXELS 1 2 4 a work-item, row-major; BLOCKS 1 2 of four channels a work-item; GROUP 1 8
// Tested by   tests/kernels/test_images.py
#include "common/image_tile.h"

__kernel __attribute__((reqd_work_group_size(GROUP, GROUP, 1))) void conv2d_pointwise__image(
    IMAGE(dst), CONST_IMAGE(src), CONST_IMAGE(residual), __global const float *restrict weights,
    int image_begin, int row_begin, int col_begin, int channel_begin, int row_end, int col_end, int channel_end,
    int panel_begin, int panels, int in_blocks, int stride_h, int stride_w, EPILOGUE_SCALARS) {
    const int columns = col_end - col_begin, pixels = (row_end - row_begin) * columns;
    const int first = get_global_id(0) * PIXELS, panel = get_global_id(1);
    if (first >= pixels || panel >= panels) return;
    const int n = image_begin + get_global_id(2);
    __global const float *weight = weights + panel * ((size_t)(4 * in_blocks + 1) * PANEL);
    START_TILE
    int2 at[PIXELS], step[PIXELS];
    for (int p = 0; p < PIXELS; ++p) {
        const int pixel = min(first + p, pixels - 1);
        const int oh = row_begin + pixel / columns, ow = col_begin + pixel % columns;
        at[p] = TEXEL(src, n, oh * stride_h, ow * stride_w, 0);
        step[p] = (int2)(src_block, 0);
    }
    ACCUMULATE(src)
    const int channel = (panel_begin + panel) * PANEL;
    for (int p = 0; p < PIXELS && first + p < pixels; ++p)
        STORE_TILE_PIXEL(p, row_begin + (first + p) / columns, col_begin + (first + p) % columns)
}
