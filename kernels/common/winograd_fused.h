// The kernel ENTRY of minimal filtering in one launch: conv2d_winograd_fused__buffer.cl, and with POOL its maxima.
#ifndef CODL_WINOGRAD_FUSED_H
#define CODL_WINOGRAD_FUSED_H

#define INPUTS_SPACE __local
#define PRODUCTS_SPACE __local
#define PRODUCT_STEP NR
#include "common/winograd_tile.h"
#include "common/grid.h"

#define PARAMETERS                                                                                              \
    TENSOR(dst), CONST_TENSOR(src), CONST_TENSOR(residual), __global const float *restrict weights,             \
    __global const float *zeros, __local float *points, int image_begin, int row_begin, int col_begin,          \
    int channel_begin, int row_end, int col_end, int channel_end, int panel_begin, int item_panels, int panels, \
    int tiles, int row_tiles, int channels, int in_h, int in_w, int kernel_h, int kernel_w, int pad_h,          \
    int pad_w, EPILOGUE_SCALARS
#define VALUES                                                                                                   \
    PASS_TENSOR(dst), PASS_TENSOR(src), PASS_TENSOR(residual), weights, zeros, points, image_begin, row_begin,   \
    col_begin, channel_begin, row_end, col_end, channel_end, panel_begin, item_panels, panels, tiles, row_tiles, \
    channels, in_h, in_w, kernel_h, kernel_w, pad_h, pad_w, PASS_EPILOGUE
static void filter_item(PARAMETERS, GRID_PLACE) {
    const int depth = COUNT_DEPTH(channels, kernel_h, kernel_w), point_step = MR * TILE_STEP(depth);
    __local float *products = points + POINTS * point_step;
    const int n = image_begin + grid_z, first = grid_x * MR;
    const int grid_row = row_begin / TILE * TILE, grid_col = col_begin / TILE * TILE;
    __global const float *image = src + AT(src, n, 0, 0, 0);
    for (int t = 0; t < MR; ++t) {  // past the end the last tile again
        const int tile = min(first + t, tiles - 1);
        transform_tile(points + t * TILE_STEP(depth), point_step, channels, image, src_h, src_w,
                       grid_row + tile / row_tiles * TILE - pad_h, grid_col + tile % row_tiles * TILE - pad_w, in_h,
                       in_w, kernel_h, kernel_w, zeros);
    }
    const int item_begin = grid_y * item_panels, item_end = min(panels, item_begin + item_panels);
    __global const float *weight = weights + item_begin * ((size_t)(POINTS * depth + 1) * NR);
    for (int item = item_begin; item < item_end; ++item) {
        __global const float *bias = weight;
        weight += NR;
        for (int point = 0; point < POINTS; ++point) {
            __local const float *tile_points = points + point * point_step;
            __local float *tile_products = products + point * MR * NR;
            AIM_FETCH(0, 1, weight + 32 * NR)
            MULTIPLY_TILES
        }
        const int channel = (panel_begin + item) * NR;
        for (int t = 0; t < min(MR, tiles - first); ++t) {
            const int oh = grid_row + (first + t) / row_tiles * TILE, ow = grid_col + (first + t) % row_tiles * TILE;
            __global float *to = dst + AT(dst, n, oh / SIDE, ow / SIDE, channel);
            __global const float *with = residual + AT(residual, n, oh / SIDE, ow / SIDE, channel);
            store_tile(products + t * NR, MR * NR, bias, to, dst_h, dst_w, with, residual_h, residual_w, row_begin - oh,
                       row_end - oh, col_begin - ow, col_end - ow, channel_begin - channel, channel_end - channel,
                       residual_order, activation, alpha, beta);
        }
    }
}
GRID_KERNEL(ENTRY, filter_item)

#endif
