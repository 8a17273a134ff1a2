// layout_to_image__image: dst[n, h, w, c] = src[n, h, w, c], from a buffer to an image of four channels a texel
//
// Arguments
//   dst     image of the box; lanes of channels outside it become zero (common/image.h)
//   src     float, kernel dimensions (n, h, w, c), any strides; the box is read, nothing else
//   box     first image, row, column and block; rows, columns and blocks; its channels [begin, end)
// Launch      global (blocks and columns rounded up to the work-group's, images * rows)   local (4, 8, 1)
// Parameters  none
// Tested by   tests/kernels/test_images.py
#include "common/image.h"
#include "common/tensor.h"

__kernel __attribute__((reqd_work_group_size(4, 8, 1)))
void layout_to_image__image(IMAGE(dst), CONST_TENSOR(src), int image_begin, int row_begin, int col_begin,
                            int block_begin, int rows, int columns, int blocks, int channel_begin,
                            int channel_end) {
    const int place = get_global_id(0), column = get_global_id(1);
    if (place >= blocks || column >= columns) return;
    const int n = image_begin + get_global_id(2) / rows, h = row_begin + get_global_id(2) % rows;
    const int w = col_begin + column, block = block_begin + place, first = 4 * block;
    __global const float *s = src + AT(src, n, h, w, 0);
    float4 value = (float4)(0.0f);
    if (src_c == 1 && first >= channel_begin && first + 4 <= channel_end) {
        value = vload4(0, s + first);
    } else {
        if (first >= channel_begin && first < channel_end) value.x = s[first * src_c];
        if (first + 1 >= channel_begin && first + 1 < channel_end) value.y = s[(first + 1) * src_c];
        if (first + 2 >= channel_begin && first + 2 < channel_end) value.z = s[(first + 2) * src_c];
        if (first + 3 >= channel_begin && first + 3 < channel_end) value.w = s[(first + 3) * src_c];
    }
    WRITE_TEXEL(dst, n, h, w, block, value);
}
