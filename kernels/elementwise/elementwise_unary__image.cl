// elementwise_unary__image: dst[n, h, w, c] = act(src[n, h, w, c]) over images of four channels a texel
//
// Arguments
//   dst       image of the box [begin, end)   all of its texels are written
//   src       image that holds the box
//   scalars   first image, first coordinates and ends of the box, blocks, epilogue (activation; no residual)
// Launch      global (columns and rows rounded up to the work-group's, blocks * images)   local (GROUP, GROUP, 1)
// Parameters  GROUP 1 8
// Tested by   tests/kernels/test_images.py
#include "common/image.h"
#include "common/activate.h"

__kernel __attribute__((reqd_work_group_size(GROUP, GROUP, 1))) void elementwise_unary__image(
    IMAGE(dst), CONST_IMAGE(src), int image_begin, int row_begin, int col_begin, int channel_begin, int row_end,
    int col_end, int channel_end, int blocks, EPILOGUE_SCALARS) {
    const int w = col_begin + get_global_id(0), h = row_begin + get_global_id(1);
    if (w >= col_end || h >= row_end) return;
    const int block = channel_begin / 4 + get_global_id(2) % blocks, n = image_begin + get_global_id(2) / blocks;
    const float4 value = ACTIVATE(VEC, READ_TEXEL(src, n, h, w, block));
    WRITE_TEXEL(dst, n, h, w, block, mask_channels(value, 4 * block, channel_begin, channel_end));
}
