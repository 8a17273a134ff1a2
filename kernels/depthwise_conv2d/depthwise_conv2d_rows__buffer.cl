// depthwise_conv2d_rows__buffer: dst[n, oh, ow, c] = epilogue(bias[c] + sum over kh, kw of src[n, ih, iw, c] * weight)
// with ih = oh * stride - pad + kh * dilation, iw likewise; one filter a channel.
//
// Arguments
//   dst       float [N, OH, OW, C], c innermost   the box [begin, end) is written, nothing else
//   src       float [N, H, W, C], c innermost     the windows of the box without padding are read
//   residual  as dst                              read when residual_order is not 0
//   weights   float [C/NR, 1 + KH*KW, NR]         row 0 the bias; the launch's first panel first
//   scalars   first image, first coordinates and ends of the box, first panel, panels a work-item takes,
//             panels of the launch, image size, window, epilogue
// Launch      global (rows, ceil(panels / item_panels), images)   local (1, 1, 1)
// Parameters  MR 1..14 pixels a register tile; NR = VECTOR 4 8 16 channels
// Tested by   tests/kernels/test_depthwise.py
//
// A work-item walks its row of pixels, MR at a time, and for each group of pixels its panels of channels.
#ifndef MR
#define MR 8
#endif
#ifndef NR
#define NR 8
#endif
#ifndef VECTOR
#define VECTOR NR
#endif
#include "common/register_tile.h"

// Pixel m of the tile; past the end of the row the last one again.
#define PLACE_PIXEL(m) const int ow##m = min(ow + m, col_end - 1), x##m = ow##m * stride_w - pad_w;
#define SEES_ROW(m) && x##m >= 0 && x##m + reach_w <= in_w
#define INNER_TAP(m) a##m##_0 = fma(VLOAD(row + x##m * src_w), w, a##m##_0);
#define EDGE_TAP(m)                                                                                        \
    {                                                                                                      \
        const int ix = x##m + kw * dilation_w;                                                             \
        const VEC s = is_row & (ix >= 0) & (ix < in_w) ? load_lanes(row + x##m * src_w, 1, low, high) : (VEC)(0.0f); \
        a##m##_0 = fma(s, w, a##m##_0);                                                                    \
    }
#define STORE_PIXEL(m)                                                                                     \
    if (ow + m < col_end) {                                                                                \
        __global float *d##m = dst + AT(dst, n, oh, ow##m, channel);                                       \
        __global const float *r##m = residual + AT(residual, n, oh, ow##m, channel);                       \
        STORE_PIXEL_ROW(m)                                                                                 \
    }

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void depthwise_conv2d_rows__buffer(
    TENSOR(dst), CONST_TENSOR(src), CONST_TENSOR(residual), __global const float *restrict weights,
    int image_begin, int row_begin, int col_begin, int channel_begin, int col_end, int channel_end,
    int panel_begin, int item_panels, int panels, int in_h, int in_w, int kernel_h, int kernel_w,
    int stride_h, int stride_w, int dilation_h, int dilation_w, int pad_h, int pad_w, EPILOGUE_SCALARS) {
    const int oh = row_begin + get_global_id(0), n = image_begin + get_global_id(2);
    const int first = get_global_id(1) * item_panels, last = min(panels, first + item_panels);
    const int y = oh * stride_h - pad_h, reach_w = (kernel_w - 1) * dilation_w + 1;
    for (int ow = col_begin; ow < col_end; ow += MR) {
        REPEAT(MR, PLACE_PIXEL)
        const bool sees_image = y >= 0 && y + (kernel_h - 1) * dilation_h < in_h REPEAT(MR, SEES_ROW);
        for (int panel = first; panel < last; ++panel) {
            const int channel = (panel_begin + panel) * NR;
            const int low = channel_begin - channel, high = channel_end - channel;
            __global const float *weight = weights + panel * ((kernel_h * kernel_w + 1) * NR);
            START_TILE(weight)
            const bool is_inner = sees_image && low <= 0 && high >= NR;
            for (int kh = 0; kh < kernel_h; ++kh) {
                const int iy = y + kh * dilation_h;
                const bool is_row = (iy >= 0) & (iy < in_h);
                __global const float *row = src + AT(src, n, iy, 0, channel);
                for (int kw = 0; kw < kernel_w; ++kw) {
                    weight += NR;
                    const VEC w = VLOAD(weight);
                    if (is_inner) {
                        REPEAT(MR, INNER_TAP)
                    } else {
                        REPEAT(MR, EDGE_TAP)
                    }
                    row += dilation_w * src_w;
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
