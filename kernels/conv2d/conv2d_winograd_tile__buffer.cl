// conv2d_winograd_tile__buffer: dst[n, oh, ow, oc] = epilogue(bias[oc] + sum over kh, kw, ic of src * weight), windows of
// 3 x 3 and stride 1 by minimal filtering F(TILE x TILE, 3 x 3) in three launches: inputs to points, a product of
// matrices at each point by work-groups that share a tile, products to outputs.
//
// Arguments
//   dst       float [N, OH, OW, OC]                 the box [begin, end) is written, nothing else
//   src       float [N, H, W, IC]                   what the tiles of the box read is read
//   residual  as dst                                read when residual_order is not 0
//   weights   float [ceil(OC / BN), 1 + points * depth, BN]   row 0 the bias; the launch's first panel first
//   scratch   float [points, rows, depth], [parts, points, rows, panels * BN]   what a launch hands on to the next
//   scalars   stage, first coordinates and ends of the box, first panel, images, tiles of an image and of a row of it,
//             panels, channels of one, points, inputs filled up, parts of a sum, inputs, image size, pads, epilogue
// Launch      stage 0: a group for 256 inputs of all tiles; stage 1: for each part of each tile of BM rows and BN
//             channels at each point; stage 2: for 256 channels of all tiles   local (256, 1, 1)
// Parameters  TILE 2 4 outputs along each side; BM 56 112 rows and BN 64 128 channels of a tile of products: 112 x 64
//             or 56 x 128; PTX 0 1 whether NVIDIA's assembly may be used
// Tested by   tests/kernels/test_conv2d_winograd_tile.py
#ifndef TILE
#define TILE 4
#endif
#ifndef BM
#define BM 112
#endif
#ifndef BN
#define BN 64
#endif
#ifndef PTX
#define PTX 0
#endif
#if TILE == 2
#define TRANSFORM_INPUTS winograd_inputs_2
#define TRANSFORM_OUTPUTS winograd_outputs_2
#else
#define TRANSFORM_INPUTS winograd_inputs_4
#define TRANSFORM_OUTPUTS winograd_outputs_4
#endif
#if BM == 56
#define MULTIPLY winograd_multiply_56x128
#else
#define MULTIPLY winograd_multiply_112x64
#endif
#include "walk/winograd_transforms.h"
#include "walk/winograd_multiply.h"

__kernel BY_GROUP
void conv2d_winograd_tile__buffer(TENSOR(dst), CONST_TENSOR(src), CONST_TENSOR(residual),
                                  __global const float *weights, __global float *scratch, int stage, int image_begin,
                                  int row_begin, int col_begin, int channel_begin, int row_end, int col_end,
                                  int channel_end, int panel_begin, int images, int tiles, int row_tiles, int panels,
                                  int panel_channels, int points, int depth, int parts, int channels, int in_h,
                                  int in_w, int pad_h, int pad_w, EPILOGUE_SCALARS) {
    __local float memory[CONV2D_TILE_FLOATS] __attribute__((aligned(16)));
    __local winograd_t d;
    if (get_local_id(0) == 0) {
        const winograd_t told = {
            PLACE(dst), PLACE(src), PLACE(residual), 0, 0, stage, image_begin, row_begin, col_begin, channel_begin,
            row_end, col_end, channel_end, panel_begin, images, tiles, row_tiles, panels, panel_channels, points, depth,
            parts, channels, in_h, in_w, pad_h, pad_w, residual_order, activation, alpha, beta};
        d = told;
    }
    GROUP_BARRIER
    const int group = get_group_id(0), groups = get_num_groups(0);
    if (stage == 0)
        TRANSFORM_INPUTS(&d, src, scratch, group, groups);
    else if (stage == 1)
        MULTIPLY(&d, weights, scratch, group, groups, memory);
    else
        TRANSFORM_OUTPUTS(&d, dst, residual, weights, scratch, group, groups);
}
