// conv2d_winograd_staged__buffer: dst[n, oh, ow, oc] = epilogue(bias[oc] + sum over kh, kw, ic of src * weight)
// for 3 x 3 windows of stride 1, by minimal filtering (common/winograd_tile.h) in two launches: inputs are transformed
// into scratch memory, then multiplied.
//
// Arguments
//   dst       float [N, OH, OW, OC], oc innermost   the box [begin, end) is written, nothing else
//   src       float [N, H, W, IC], ic innermost     the windows of all tiles that the box touches are read
//   residual  as dst                                read when residual_order is not 0
//   weights   float [ceil(OC / NR), 1 + POINTS*IC, NR]   row 0 the bias, then the transformed filters point by
//             point; the launch's first panel first
//   zeros     float [IC]                            what padding reads
//   scratch   float [images, POINTS, ceil(tiles / MR) * MR, IC + 16]
//   local     float [POINTS * item_tiles * NR]      in the second launch
//   scalars   stage 0 or 1, first image, first coordinates and ends of the box, first panel, tiles a work-item takes,
//             tiles of the launch, tiles in a row, IC, image size, padding, epilogue
// Launch      stage 0: global (ceil(tiles / item_tiles), 1, images)   local (1, 1, 1)
//             stage 1: global (ceil(tiles / item_tiles), panels, images), item_tiles a multiple of MR
// Parameters  TILE 2 4 outputs; FETCH 0 32 steps; MR 4 6 8 10 12 14 tiles; NR 4 8 16 32 channels, one or two vectors;
//             VECTOR 4 8 16 lanes
// Tested by   tests/kernels/test_conv2d_winograd.py
//
// A work-item multiplies all its tiles by one point's filters before it goes on to the next: filters too large for
// any cache are read from memory once. IC is a multiple of VECTOR.
#ifndef TILE
#define TILE 4
#endif
#ifndef FETCH
#define FETCH 0
#endif
#ifndef MR
#define MR 6
#endif
#ifndef NR
#define NR 16
#endif
#ifndef VECTOR
#define VECTOR 8
#endif
#define INPUTS_SPACE __global
#include "common/winograd_tile.h"

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void conv2d_winograd_staged__buffer(
    TENSOR(dst), CONST_TENSOR(src), CONST_TENSOR(residual),
    __global const float *restrict weights, __global const float *zeros, __global float *scratch,
    __local float *products, int stage, int image_begin, int row_begin, int col_begin, int channel_begin,
    int row_end, int col_end, int channel_end, int panel_begin, int item_tiles, int tiles, int row_tiles,
    int channels, int in_h, int in_w, int pad_h, int pad_w, EPILOGUE_SCALARS) {
    const int padded_tiles = (tiles + MR - 1) / MR * MR, point_step = padded_tiles * TILE_STEP(channels);
    __global float *points = scratch + get_global_id(2) * (size_t)(POINTS * point_step);
    const int n = image_begin + get_global_id(2);
    const int begin = get_global_id(0) * item_tiles, end = min(begin + item_tiles, padded_tiles);
    const int grid_row = row_begin / TILE * TILE, grid_col = col_begin / TILE * TILE;
    if (stage == 0) {
        __global const float *image = src + AT(src, n, 0, 0, 0);
        for (int t = begin; t < end; ++t) {  // past the end the last tile again
            const int tile = min(t, tiles - 1);
            transform_tile(points + t * TILE_STEP(channels), point_step, channels, image, src_h, src_w,
                           grid_row + tile / row_tiles * TILE - pad_h, grid_col + tile % row_tiles * TILE - pad_w,
                           in_h, in_w, zeros);
        }
        return;
    }
    const int panel = get_global_id(1), channel = (panel_begin + panel) * NR;
    __global const float *bias = weights + panel * ((size_t)(POINTS * channels + 1) * NR);
    for (int point = 0; point < POINTS; ++point) {
        for (int t = begin; t < end; t += MR) {
            __global const float *weight = bias + (1 + point * channels) * NR;
            __global const float *tile_points = points + (point * point_step + t * TILE_STEP(channels));
            __local float *tile_products = products + (point * item_tiles + t - begin) * NR;
            MULTIPLY_TILES
        }
    }
    for (int t = begin; t < min(end, tiles); ++t) {
        const int oh = grid_row + t / row_tiles * TILE, ow = grid_col + t % row_tiles * TILE;
        store_tile(products + (t - begin) * NR, item_tiles * NR, bias, dst + AT(dst, n, oh, ow, channel), dst_h, dst_w,
                   residual + AT(residual, n, oh, ow, channel), residual_h, residual_w, row_begin - oh, row_end - oh,
                   col_begin - ow, col_end - ow, channel_begin - channel, channel_end - channel, residual_order,
                   activation, alpha, beta);
    }
}
