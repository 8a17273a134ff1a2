// elementwise_binary__image: dst[n, h, w, c] = epilogue(a[n, h, w, c] (function) b[n, h, w, c])
// over images of four channels a texel
//
// Arguments
//   dst       image of the box [begin, end)   all of its texels are written
//   a, b      images that hold the box
//   residual  as dst                          read when residual_order is not 0
//   scalars   first image, first coordinates and ends of the box, blocks,
//             function (0: a + b, 1: a * b, 2: a - b, 3: a / b, 4: a where a >= 0 and a * b elsewhere), epilogue
// Launch      global (columns and rows rounded up to the work-group's, blocks * images)   local (GROUP, GROUP, 1)
// Parameters  GROUP 1 8
// Tested by   tests/kernels/test_images.py
#include "common/image.h"
#include "common/activate.h"

__kernel __attribute__((reqd_work_group_size(GROUP, GROUP, 1))) void elementwise_binary__image(
    IMAGE(dst), CONST_IMAGE(a), CONST_IMAGE(b), CONST_IMAGE(residual), int image_begin, int row_begin,
    int col_begin, int channel_begin, int row_end, int col_end, int channel_end, int blocks, int function,
    EPILOGUE_SCALARS) {
    const int w = col_begin + get_global_id(0), h = row_begin + get_global_id(1);
    if (w >= col_end || h >= row_end) return;
    const int block = channel_begin / 4 + get_global_id(2) % blocks, n = image_begin + get_global_id(2) / blocks;
    const float4 x = READ_TEXEL(a, n, h, w, block), y = READ_TEXEL(b, n, h, w, block);
    float4 value, other = (float4)(0.0f);
    switch (function) {
        case 0: value = x + y; break;
        case 1: value = x * y; break;
        case 2: value = x - y; break;
        case 3: value = x / y; break;
        default: value = x < (float4)(0.0f) ? x * y : x;
    }
    if (residual_order != RESIDUAL_NONE) other = READ_TEXEL(residual, n, h, w, block);
    if (residual_order == RESIDUAL_BEFORE) value += other;
    value = ACTIVATE(VEC, value);
    if (residual_order == RESIDUAL_AFTER) value += other;
    WRITE_TEXEL(dst, n, h, w, block, mask_channels(value, 4 * block, channel_begin, channel_end));
}
