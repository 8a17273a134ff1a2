// layout_from_image__image: dst[n, h, w, c] = src[n, h, w, c], from an image of four channels a texel to a buffer
//
// Arguments
//   dst     float, kernel dimensions (n, h, w, c), any strides; the box is written, nothing else
//   src     image that holds the box (common/image.h)
//   box     first image, row, column and block; rows, columns and blocks; its channels [begin, end)
// Launch      global (blocks and columns rounded up to the work-group's, images * rows)   local (4, 8, 1)
// Parameters  none
// Tested by   tests/kernels/test_images.py
#include "common/image.h"
#include "common/tensor.h"

__kernel __attribute__((reqd_work_group_size(4, 8, 1)))
void layout_from_image__image(TENSOR(dst), CONST_IMAGE(src), int image_begin, int row_begin, int col_begin,
                              int block_begin, int rows, int columns, int blocks, int channel_begin,
                              int channel_end) {
    const int place = get_global_id(0), column = get_global_id(1);
    if (place >= blocks || column >= columns) return;
    const int n = image_begin + get_global_id(2) / rows, h = row_begin + get_global_id(2) % rows;
    const int w = col_begin + column, block = block_begin + place, first = 4 * block;
    __global float *d = dst + AT(dst, n, h, w, 0);
    const float4 value = READ_TEXEL(src, n, h, w, block);
    if (dst_c == 1 && first >= channel_begin && first + 4 <= channel_end) {
        vstore4(value, 0, d + first);
    } else {
        if (first >= channel_begin && first < channel_end) d[first * dst_c] = value.x;
        if (first + 1 >= channel_begin && first + 1 < channel_end) d[(first + 1) * dst_c] = value.y;
        if (first + 2 >= channel_begin && first + 2 < channel_end) d[(first + 2) * dst_c] = value.z;
        if (first + 3 >= channel_begin && first + 3 < channel_end) d[(first + 3) * dst_c] = value.w;
    }
}
