// conv_transpose2d_rows__buffer: dst[n, oh, ow, oc] = epilogue(bias[oc] + sum over kh, kw, ic of src[n, ih, iw, ic] * weight)
// over the taps with ih * stride = oh + pad - kh * dilation, iw likewise: each output gathers what reaches it.
//
// Arguments
//   dst       float [N, OH, OW, OC], oc innermost   the box [begin, end) is written, nothing else
//   src       float [N, H, W, IC], ic innermost     the pixels that reach the box are read
//   residual  as dst                                read when residual_order is not 0
//   weights   float [G * ceil(OC/G / NR), 1 + KH*KW*IC/G, NR]   row 0 the bias; the launch's first panel first
//   zeros     float [IC/G]                          what taps beside the image read
//   scalars   first image, first coordinates and ends of the box, first panel, panels a work-item takes, panels of
//             the launch, panels, outputs and inputs of a group, image size, window, epilogue
// Launch      global (rows, ceil(panels / item_panels), images)   local (1, 1, 1)
// Parameters  MR 1 2 4 6 8 10 12 14 pixels; NR 4 8 12 16 24 32 48 64 channels, one to four vectors; VECTOR 4 8 16 lanes
// Tested by   tests/kernels/test_conv_transpose.py
//
// Pixels that lie `stride` columns apart have the same taps, at neighbouring input pixels: a register tile holds
// such ones. A tap's column is taken for all of them, from `zeros` where it lies beside the image, and a tap's row
// for none where it does: no output's bits depend on its tile. Panels lie on the whole tensor's grid.
#include "common/register_tile.h"

// Pixel m of the tile, past the end of the row the last one again: where it reads at this tap.
#define DECLARE_PIXEL(m) __global const float *p##m;
#define AIM_INNER(m) p##m = row + (iw + min(m, left - 1)) * src_w;
#define AIM_EDGE(m)                                                                   \
    const int x##m = iw + min(m, left - 1);                                           \
    p##m = (uint)x##m < (uint)in_w ? row + x##m * src_w : zeros;
#define STORE_PIXEL(m)                                                                \
    if (left > m) {                                                                   \
        const int at = ow + m * stride_w;                                             \
        __global float *d##m = dst + AT(dst, n, oh, at, channel);                     \
        __global const float *r##m = residual + AT(residual, n, oh, at, channel);     \
        STORE_PIXEL_ROW(m)                                                            \
    }

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void conv_transpose2d_rows__buffer(
    TENSOR(dst), CONST_TENSOR(src), CONST_TENSOR(residual),
    __global const float *restrict weights, __global const float *zeros,
    int image_begin, int row_begin, int col_begin, int channel_begin, int col_end, int channel_end,
    int panel_begin, int item_panels, int panels, int group_panels, int group_outputs, int group_inputs,
    int in_h, int in_w, int kernel_h, int kernel_w, int stride_h, int stride_w,
    int dilation_h, int dilation_w, int pad_h, int pad_w, EPILOGUE_SCALARS) {
    const int oh = row_begin + get_global_id(0), n = image_begin + get_global_id(2);
    const int item_begin = get_global_id(1) * item_panels, item_end = min(panels, item_begin + item_panels);
    const int phases = min(stride_w, col_end - col_begin);
    for (int item = item_begin; item < item_end; ++item) {
        const int panel = panel_begin + item, group = panel / group_panels;
        const int group_channel = (panel - group * group_panels) * NR;
        const int channel = group * group_outputs + group_channel;
        const int low = channel_begin - channel;
        const int high = min(channel_end - channel, group_outputs - group_channel);
        __global const float *image = src + AT(src, n, 0, 0, group * group_inputs);
        __global const float *panel_weights =
            weights + item * ((size_t)(kernel_h * kernel_w * group_inputs + 1) * NR);
        for (int phase = 0; phase < phases; ++phase) {
            for (int ow = col_begin + phase; ow < col_end; ow += MR * stride_w) {
                const int left = (col_end - ow + stride_w - 1) / stride_w;
                START_TILE(panel_weights)
                for (int kh = 0; kh < kernel_h; ++kh) {
                    const int y = oh + pad_h - kh * dilation_h, ih = y / stride_h;
                    if (y < 0 || ih * stride_h != y || ih >= in_h) continue;
                    __global const float *row = image + ih * src_h;
                    for (int kw = 0; kw < kernel_w; ++kw) {
                        const int x = ow + pad_w - kw * dilation_w, iw = x / stride_w;
                        if (iw * stride_w != x) continue;
                        __global const float *weight =
                            panel_weights + (1 + (kh * kernel_w + kw) * group_inputs) * NR;
                        REPEAT(MR, DECLARE_PIXEL)
                        if (iw >= 0 && iw + min(MR, left) <= in_w) {
                            REPEAT(MR, AIM_INNER)
                        } else {
                            REPEAT(MR, AIM_EDGE)
                        }
                        ACCUMULATE(group_inputs)
                    }
                }
                if (PLAIN_STORE) {
                    PLAIN_BOUNDS
#define STORE_PIXEL_ROW STORE_PLAIN_ROW
                    REPEAT(MR, STORE_PIXEL)
                } else {
#undef STORE_PIXEL_ROW
#define STORE_PIXEL_ROW STORE_TILE_ROW
                    REPEAT(MR, STORE_PIXEL)
                }
            }
        }
    }
}
