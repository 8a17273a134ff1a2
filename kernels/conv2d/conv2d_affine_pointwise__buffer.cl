// conv2d_affine_pointwise__buffer:
//   dst[n, oh, ow, oc] = epilogue(bias[oc] + sum over ic of before(fma(src[n, ih, iw, ic], scale[ic], shift[ic])) * weight)
// with ih = oh * stride_h, iw = ow * stride_w; an affine map of channels and the 1x1 convolution behind it.
//
// Arguments
//   dst       float [N, OH, OW, OC], oc innermost   the box [begin, end) is written, nothing else
//   src       float [N, H, W, IC], ic innermost     the pixels of the box are read
//   residual  as dst                                read when residual_order is not 0
//   scale, shift  float [IC]
//   weights   float [panels, 1 + IC, VECTORS, VECTOR]   row 0 the bias; the launch's first panel first
//   rows      local float [MR * (IC + 16 + VECTORS * VECTOR)]   a tile's inputs, mapped, and its sums
//   scalars   first image, first coordinates and ends of the box, first panel, panels an item takes, panels of
//             the launch, tiles an item takes, outputs, inputs, strides, activation of the map, epilogue
// Launch      grid (ceil(tiles / item_tiles), ceil(panels / item_panels), images)   local (1, 1, 1)
// Parameters  MR 1 2 3 4 5 6 8 9 10 12 14 pixels; VECTORS 1 2 3 4 5 vectors of a panel; VECTOR 4 8 16 lanes
// Tested by   tests/kernels/test_conv2d_affine.py, tests/executor/test_fusions.py
//
// Each input is mapped once for all panels of its item, with the bits of affine_channels__buffer. Pixels are
// those of the box in row-major order.
#include "common/gemm_tile.h"
#include "common/grid.h"

// Lanes behind the last input keep the rows of a tile out of the same cache sets.
#define ROW_PADDING 16

// Maps the inputs of one pixel.
static __attribute__((noinline)) void map_row(__local float *row, __global const float *src,
                                              __global const float *scale, __global const float *shift, int inputs,
                                              int activation, float alpha, float beta) {
    int at = 0;
    if (IS_PLAIN_ACTIVATION) {
        PLAIN_BOUNDS
        for (; at + VECTOR <= inputs; at += VECTOR) {
            VEC value = fma(VLOAD(src + at), VLOAD(scale + at), VLOAD(shift + at));
            BOUND(value)
            VSTORE(value, row + at);
        }
    }
    for (; at < inputs; ++at) row[at] = ACTIVATE(float, fma(src[at], scale[at], shift[at]));
}

#define AIM_PIXEL(m) __local const float *p##m = rows + m * row_step;
#define KEEP_SUM(m, v) VSTORE(a##m##_##v, sums + m * PANEL + v * VECTOR);
#define KEEP_SUM_ROW(m) EACH_IN_ROW(KEEP_SUM, m)

#define PARAMETERS                                                                                              \
    TENSOR(dst), CONST_TENSOR(src), CONST_TENSOR(residual), CONST_TENSOR(scale), CONST_TENSOR(shift),           \
    __global const float *restrict weights, __local float *rows, int image_begin, int row_begin, int col_begin, \
    int channel_begin, int row_end, int col_end, int channel_end, int panel_begin, int item_panels, int panels, \
    int item_tiles, int group_outputs, int inputs, int stride_h, int stride_w, int map_activation,              \
    float map_alpha, float map_beta, EPILOGUE_SCALARS
#define VALUES                                                                                                  \
    PASS_TENSOR(dst), PASS_TENSOR(src), PASS_TENSOR(residual), PASS_TENSOR(scale), PASS_TENSOR(shift), weights, \
    rows, image_begin, row_begin, col_begin, channel_begin, row_end, col_end, channel_end, panel_begin,         \
    item_panels, panels, item_tiles, group_outputs, inputs, stride_h, stride_w, map_activation, map_alpha,      \
    map_beta, PASS_EPILOGUE
static PLACE_APART void multiply_item(PARAMETERS, GRID_PLACE) {
    const int columns = col_end - col_begin, pixels = (row_end - row_begin) * columns;
    const int n = image_begin + grid_z, row_step = inputs + ROW_PADDING;
    const int item_begin = grid_y * item_panels, item_end = min(panels, item_begin + item_panels);
    const int last_start = max(0, group_outputs - VECTOR);
    const int low = channel_begin, high = min(channel_end, group_outputs);
    __local float *sums = rows + MR * row_step;
    const int begin = grid_x * item_tiles * MR, end = min(pixels, begin + item_tiles * MR);
    for (int first = begin; first < end; first += MR) {
        const int left = pixels - first;
        for (int m = 0; m < min(MR, left); ++m) {
            const int oh = row_begin + (first + m) / columns, ow = col_begin + (first + m) % columns;
            map_row(rows + m * row_step, src + AT(src, n, oh * stride_h, ow * stride_w, 0), scale + scale_offset,
                    shift + shift_offset, inputs, map_activation, map_alpha, map_beta);
        }
        for (int m = left; m < MR; ++m)
            for (int k = 0; k < inputs; ++k) rows[m * row_step + k] = 0.0f;
        __global const float *weight = weights + item_begin * ((size_t)(inputs + 1) * PANEL);
        for (int item = item_begin; item < item_end; ++item) {
            const int first_channel = (panel_begin + item) * PANEL;
            REPEAT(MR, AIM_PIXEL)
            START_TILE
            ACCUMULATE(inputs)
            REPEAT(MR, KEEP_SUM_ROW)
            const bool is_whole = IS_WHOLE_PANEL(first_channel, last_start, low, high, group_outputs);
            for (int m = 0; m < min(MR, left); ++m) {
                const int oh = row_begin + (first + m) / columns, ow = col_begin + (first + m) % columns;
                store_sums(sums + m * PANEL, dst + AT(dst, n, oh, ow, 0), residual + AT(residual, n, oh, ow, 0),
                           first_channel, last_start, low, high, is_whole, residual_order, activation, alpha, beta);
            }
        }
    }
}
GRID_KERNEL(conv2d_affine_pointwise__buffer, multiply_item)
