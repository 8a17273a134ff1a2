// The kernel ENTRY of minimal filtering whose filters are transformed when they are read, in two launches:
// conv2d_winograd_streamed__buffer.cl, and with POOL its maxima.
//
// Parameters  DEPTH channels whose filters are transformed at a time; those of common/winograd_tile.h
#ifndef CODL_WINOGRAD_STREAMED_H
#define CODL_WINOGRAD_STREAMED_H

#ifndef DEPTH
#define DEPTH 32
#endif
#define INPUTS_SPACE __global
#define PRODUCTS_SPACE __local
#define FILTERS_SPACE __local
#define PRODUCT_STEP NR
// Floats from one point's filters to the next one's; a power of two would crowd into few cache sets.
#define FILTER_STEP (DEPTH * NR + 16)
#include "common/winograd_filters.h"
#include "common/grid.h"

#define AIM_BLOCK(m) INPUTS_SPACE const float *p##m = tile_points + m * DEPTH;
#define LOAD_PRODUCTS(m)                                                       \
    LANE_0(VEC a##m##_0 = VLOAD(tile_products + m * NR);)                      \
    LANE_1(VEC a##m##_1 = VLOAD(tile_products + m * NR + VECTOR);)             \
    LANE_2(VEC a##m##_2 = VLOAD(tile_products + m * NR + 2 * VECTOR);)

// Adds the products of MR tiles with `length` channels of a panel's filters at one point to the sums so far, and asks
// for some lines of what memory has to deliver next.
static __attribute__((noinline)) void add_products(PRODUCTS_SPACE float *tile_products,
                                                   INPUTS_SPACE const float *tile_points,
                                                   FILTERS_SPACE const float *weight, int length,
                                                   __global const float *ahead, int lines) {
#if FETCH
    for (int line = 0; line < lines; ++line)
        ASK_LINE(ahead + line * LINE_FLOATS)
#endif
    REPEAT(MR, LOAD_PRODUCTS)
    REPEAT(MR, AIM_BLOCK)
    ACCUMULATE(length)
    REPEAT(MR, KEEP_PRODUCT)
}

#define PARAMETERS                                                                                               \
    TENSOR(dst), CONST_TENSOR(src), CONST_TENSOR(residual), __global const float *restrict weights,              \
    __global const float *zeros, __global float *scratch, FILTERS_SPACE float *filters, int stage,               \
    int image_begin, int row_begin, int col_begin, int channel_begin, int row_end, int col_end, int channel_end, \
    int panel_begin, int item_tiles, int tiles, int row_tiles, int channels, int in_h, int in_w, int kernel_h,   \
    int kernel_w, int pad_h, int pad_w, EPILOGUE_SCALARS
#define VALUES                                                                                                \
    PASS_TENSOR(dst), PASS_TENSOR(src), PASS_TENSOR(residual), weights, zeros, scratch, filters, stage,       \
    image_begin, row_begin, col_begin, channel_begin, row_end, col_end, channel_end, panel_begin, item_tiles, \
    tiles, row_tiles, channels, in_h, in_w, kernel_h, kernel_w, pad_h, pad_w, PASS_EPILOGUE
static void filter_item(PARAMETERS, GRID_PLACE) {
    const int depth = COUNT_DEPTH(channels, 1, 1), blocks = (depth + DEPTH - 1) / DEPTH;
    const int padded_tiles = (tiles + MR - 1) / MR * MR, point_step = padded_tiles * DEPTH;
    const int block_step = POINTS * point_step, groups = (padded_tiles + item_tiles - 1) / item_tiles;
    const int image = grid_z / groups, n = image_begin + image;
    const int begin = grid_z % groups * item_tiles, end = min(begin + item_tiles, padded_tiles);
    const int grid_row = row_begin / TILE * TILE, grid_col = col_begin / TILE * TILE;
    __global float *points = scratch + image * (size_t)(blocks * block_step);
    if (stage == 0) {
        __global const float *inputs = src + AT(src, n, 0, 0, 0);
        for (int t = begin; t < end; ++t) {  // past the end the last tile again
            const int tile = min(t, tiles - 1);
            for (int block = 0; block < blocks; ++block)
                transform_tile(points + (block * block_step + t * DEPTH), point_step,
                               min(channels - block * DEPTH, DEPTH), inputs + block * DEPTH, src_h, src_w,
                               grid_row + tile / row_tiles * TILE - pad_h, grid_col + tile % row_tiles * TILE - pad_w,
                               in_h, in_w, kernel_h, kernel_w, zeros);
        }
        return;
    }
    FILTERS_SPACE float *products = filters + POINTS * FILTER_STEP;
    const int sum_step = (end - begin) * NR, calls = POINTS * ((end - begin) / MR), panel = grid_y;
    __global const float *bias = weights + panel * (size_t)((1 + depth * TAPS) * NR), *taps = bias + NR;
    for (int i = 0; i < POINTS * sum_step; i += VECTOR) VSTORE((VEC)(0.0f), products + i);
    for (int block = 0; block < blocks; ++block) {
        const int length = min(DEPTH, depth - block * DEPTH);
        for (int k = 0; k < length; ++k, taps += TAPS * NR) transform_filters(filters + k * NR, taps);
        const int lines = (length * TAPS * NR + LINE_FLOATS * calls - 1) / (LINE_FLOATS * calls);
        __global const float *ahead = taps;
        for (int point = 0; point < POINTS; ++point)
            for (int t = begin; t < end; t += MR, ahead += lines * LINE_FLOATS)
                add_products(products + (point * sum_step + (t - begin) * NR),
                             points + (block * block_step + point * point_step + t * DEPTH),
                             filters + point * FILTER_STEP, length, ahead, lines);
    }
    const int channel = (panel_begin + panel) * NR;
    for (int t = begin; t < min(end, tiles); ++t) {
        const int oh = grid_row + t / row_tiles * TILE, ow = grid_col + t % row_tiles * TILE;
        __global float *to = dst + AT(dst, n, oh / SIDE, ow / SIDE, channel);
        __global const float *with = residual + AT(residual, n, oh / SIDE, ow / SIDE, channel);
        store_tile(products + (t - begin) * NR, sum_step, bias, to, dst_h, dst_w, with, residual_h, residual_w,
                   row_begin - oh, row_end - oh, col_begin - ow, col_end - ow, channel_begin - channel,
                   channel_end - channel, residual_order, activation, alpha, beta);
    }
}
GRID_KERNEL(ENTRY, filter_item)

#endif
