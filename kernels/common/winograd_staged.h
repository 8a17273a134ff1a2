// The kernel ENTRY of minimal filtering in three launches: conv2d_winograd_staged__buffer.cl, and with POOL its maxima.
#ifndef CODL_WINOGRAD_STAGED_H
#define CODL_WINOGRAD_STAGED_H

#define INPUTS_SPACE __global
#define PRODUCTS_SPACE __global
#define PRODUCT_STEP product_step
#include "common/winograd_tile.h"
#include "common/grid.h"

#define PART_NAME(width) multiply_part_##width
#define MULTIPLY_PART(width) PART_NAME(width)
#define WIDTH 1
#include "common/winograd_part.h"
#if NR / VECTOR > 1
#define WIDTH 2
#include "common/winograd_part.h"
#endif
#if NR / VECTOR > 2
#define WIDTH 3
#include "common/winograd_part.h"
#endif
#define PASS_PART(width)    \
    if (vectors == (width)) \
        MULTIPLY_PART(width)(tile_points, tile_products, product_step, weight, depth FETCH_ARGUMENTS);

#define PARAMETERS                                                                                           \
    TENSOR(dst), CONST_TENSOR(src), CONST_TENSOR(residual), __global const float *restrict weights,          \
    __global const float *zeros, __global float *scratch, int stage, int image_begin, int row_begin,         \
    int col_begin, int channel_begin, int row_end, int col_end, int channel_end, int panel_begin,            \
    int item_tiles, int item_panels, int panels, int tiles, int row_tiles, int channels, int in_h, int in_w, \
    int kernel_h, int kernel_w, int pad_h, int pad_w, EPILOGUE_SCALARS
#define VALUES                                                                                                \
    PASS_TENSOR(dst), PASS_TENSOR(src), PASS_TENSOR(residual), weights, zeros, scratch, stage, image_begin,   \
    row_begin, col_begin, channel_begin, row_end, col_end, channel_end, panel_begin, item_tiles, item_panels, \
    panels, tiles, row_tiles, channels, in_h, in_w, kernel_h, kernel_w, pad_h, pad_w, PASS_EPILOGUE
static void filter_item(PARAMETERS, GRID_PLACE) {
    const int depth = COUNT_DEPTH(channels, kernel_h, kernel_w);
    const int padded_tiles = (tiles + MR - 1) / MR * MR, product_step = TILE_STEP(panels * NR);
    const int point_step = padded_tiles * TILE_STEP(depth), sum_step = padded_tiles * product_step;
    __global float *points = scratch + grid_z * ((size_t)POINTS * (point_step + sum_step));
    __global float *products = points + POINTS * (size_t)point_step;
    const int n = image_begin + grid_z, panel_floats = (POINTS * depth + 1) * NR;
    if (stage == 1) {
        const int point = grid_y % POINTS, band = grid_y / POINTS;
        const int begin = band * item_tiles, end = min(begin + item_tiles, padded_tiles);
        const int first = grid_x * item_panels, last = min(first + item_panels, panels);
        for (int panel = first; panel < last; ++panel) {
            __global const float *filters = weights + panel * (size_t)panel_floats + (1 + point * depth) * NR;
            // With STEAL the next panel is one's own next place, too.
            __global const float *next = filters + (panel + 1 < (STEAL ? panels : last) ? panel_floats : 0);
            // The vectors that the box has channels of: all of them but in the first and the last panel.
            const int channel = (panel_begin + panel) * NR, low = max(channel_begin - channel, 0) / VECTOR;
            const int vectors = (min(channel_end - channel, NR) + VECTOR - 1) / VECTOR - low;
            for (int t = begin; t < end; t += MR) {
                __global const float *weight = filters + low * VECTOR;
                __global const float *tile_points = points + (point * point_step + t * TILE_STEP(depth));
                __global float *tile_products =
                    products + (point * sum_step + t * product_step + panel * NR + low * VECTOR);
                AIM_FETCH((t - begin) / MR, (end - begin) / MR, next)
                PASS_PART(1)
#if NR / VECTOR > 1
                PASS_PART(2)
#endif
#if NR / VECTOR > 2
                PASS_PART(3)
#endif
            }
        }
        return;
    }
    const int begin = grid_x * item_tiles, grid_row = row_begin / TILE * TILE;
    const int grid_col = col_begin / TILE * TILE;
    if (stage == 0) {
        __global const float *image = src + AT(src, n, 0, 0, 0);
        for (int t = begin; t < min(begin + item_tiles, padded_tiles); ++t) {  // past the end the last tile again
            const int tile = min(t, tiles - 1);
            transform_tile(points + t * TILE_STEP(depth), point_step, channels, image, src_h, src_w,
                           grid_row + tile / row_tiles * TILE - pad_h, grid_col + tile % row_tiles * TILE - pad_w,
                           in_h, in_w, kernel_h, kernel_w, zeros);
        }
        return;
    }
    for (int t = begin; t < min(begin + item_tiles, tiles); ++t) {
        const int oh = grid_row + t / row_tiles * TILE, ow = grid_col + t % row_tiles * TILE;
        for (int panel = 0; panel < panels; ++panel) {
            const int channel = (panel_begin + panel) * NR;
            __global float *to = dst + AT(dst, n, oh / SIDE, ow / SIDE, channel);
            __global const float *with = residual + AT(residual, n, oh / SIDE, ow / SIDE, channel);
            store_tile(products + (t * product_step + panel * NR), sum_step, weights + panel * (size_t)panel_floats, to,
                       dst_h, dst_w, with, residual_h, residual_w, row_begin - oh, row_end - oh, col_begin - ow,
                       col_end - ow, channel_begin - channel, channel_end - channel, residual_order, activation, alpha,
                       beta);
        }
    }
}
GRID_KERNEL(ENTRY, filter_item)

#endif
