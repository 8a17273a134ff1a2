// conv2d_tile__buffer: dst[n, oh, ow, oc] = epilogue(bias[oc] + sum over kh, kw, ic of src[n, ih, iw, ic] * weight)
// with ih = oh * stride - pad + kh * dilation, iw likewise; implicit GEMM by work-groups that share a tile.
//
// Arguments
//   dst       float [N, OH, OW, OC]                 the box [begin, end) is written, nothing else
//   src       float [N, H, W, IC]                   the windows of the box without padding are read
//   residual  as dst                                read when residual_order is not 0
//   weights   float [G * ceil(OC/G / BN), 1 + ceil(KH*KW*IC/G / BK) * BK, BN]   row 0 the bias, zeros behind the last
//             row; the launch's first panel first; in float16 two rows in one [BN, 2] behind the bias
//   scratch   float [tiles, parts, BM * BN]         partial sums
//   arrivals  int [tiles]                           zeros, left as zeros
//   scalars   first image, first coordinates and ends of the box, first panel, images, panels of the launch, parts of a
//             sum, panels, outputs and inputs of a group, image size, window, epilogue
// Launch      a group for each part of each tile of BM pixels and BN channels   local (256, 1, 1)
// Parameters  BM 32 56 64 112 128 pixels; BN 32 64 128 channels: 32 x 32, 56 x 128, 64 x 64, 112 x 64, 128 x 64 or
//             128 x 128; PTX 0 1 whether NVIDIA's assembly may be used; PRECISION 0 1 2 what factors are rounded to
//             (walk/matrix_units.h), which 56 x 128 and 112 x 64 do not
// Tested by   tests/kernels/test_conv2d_tile.py
#ifndef BM
#define BM 64
#endif
#ifndef BN
#define BN 64
#endif
#ifndef PTX
#define PTX 0
#endif
#if BM == 32
#define COMPUTE conv2d_tile_32x32
#elif BM == 56
#define COMPUTE conv2d_tile_56x128
#elif BM == 112
#define COMPUTE conv2d_tile_112x64
#elif BM == 64
#define COMPUTE conv2d_tile_64x64
#elif BN == 64
#define COMPUTE conv2d_tile_128x64
#else
#define COMPUTE conv2d_tile_128x128
#endif
#include "walk/conv2d_tile.h"

__kernel BY_GROUP
void conv2d_tile__buffer(TENSOR(dst), CONST_TENSOR(src), CONST_TENSOR(residual), __global const float *weights,
                         __global float *scratch, volatile __global int *arrivals, int image_begin, int row_begin,
                         int col_begin, int channel_begin, int row_end, int col_end, int channel_end,
                         int panel_begin, int images, int panels, int parts, int group_panels, int group_outputs,
                         int group_inputs, int in_h, int in_w, int kernel_h, int kernel_w, int stride_h,
                         int stride_w, int dilation_h, int dilation_w, int pad_h, int pad_w, EPILOGUE_SCALARS) {
    __local float memory[CONV2D_TILE_FLOATS + UNIT_FLOATS] __attribute__((aligned(16)));
    __local conv2d_tile_t d;
    if (get_local_id(0) == 0) {
        const conv2d_tile_t told = {
            PLACE(dst), PLACE(src), PLACE(residual), 0, 0, 0, image_begin, row_begin, col_begin, channel_begin, row_end,
            col_end, channel_end, panel_begin, images, panels, parts, group_panels, group_outputs, group_inputs, in_h,
            in_w, kernel_h, kernel_w, stride_h, stride_w, dilation_h, dilation_w, pad_h, pad_w, residual_order,
            activation, alpha, beta};
        d = told;
    }
    GROUP_BARRIER
    COMPUTE(&d, dst, src, residual, weights, scratch, arrivals, get_group_id(0), get_num_groups(0), memory);
}
