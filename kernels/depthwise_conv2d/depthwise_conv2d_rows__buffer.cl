// depthwise_conv2d_rows__buffer: dst[n, oh, ow, c] = epilogue(bias[c] + sum over kh, kw of src[n, ih, iw, c] * weight)
// with ih = oh * stride - pad + kh * dilation, iw likewise; one filter a channel.
//
// Arguments
//   dst       float [N, OH, OW, C], c innermost   the box [begin, end) is written, nothing else
//   src       float [N, H, W, C], c innermost     the windows of the box without padding are read
//   residual  as dst                              read when residual_order is not 0
//   weights   float [C/NR, 1 + KH*KW, NR]         row 0 the bias; the launch's first panel first
//   zeros     float [NR]                          what padding reads
//   scalars   first image, first coordinates and ends of the box, first panel, panels a work-item takes,
//             panels of the launch, channels of the whole tensor, image size, window, epilogue
// Launch      global (rows, ceil(panels / item_panels), images)   local (1, 1, 1)
// Parameters  MR 1..14 pixels a register tile; NR = VECTOR 4 8 16 channels
// Tested by   tests/kernels/test_depthwise.py
//
// A work-item walks its row of pixels, MR at a time, and for each group of pixels its panels of channels. The last
// group of a row and the last panel of a tensor step back to end with it: what two of them compute is equal.
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

#define NEXT_PIXEL p += step;
#define INNER_TAP(m)                                                                                       \
    a##m##_0 = fma(VLOAD(p), w, a##m##_0);                                                                 \
    NEXT_PIXEL
// A pixel whose tap lies in the padding reads zeros, and so does one past the end of the box.
#define SEES_TAP(m) (m < columns && (uint)(x + m * stride_w) < width)
#define EDGE_TAP(m)                                                                                        \
    {                                                                                                      \
        __global const float *q = SEES_TAP(m) ? p : zeros;                                                 \
        a##m##_0 = fma(VLOAD(q), w, a##m##_0);                                                             \
        NEXT_PIXEL                                                                                         \
    }
#define PART_TAP(m)                                                                                        \
    {                                                                                                      \
        const VEC value = SEES_TAP(m) ? load_lanes(p, 1, low, high) : (VEC)(0.0f);                         \
        a##m##_0 = fma(value, w, a##m##_0);                                                                \
        NEXT_PIXEL                                                                                         \
    }
#define STORE_PIXEL(m)                                                                                     \
    if (m < columns) {                                                                                     \
        __global float *d##m = dst + AT(dst, n, oh, first_col + m, channel);                               \
        __global const float *r##m = residual + AT(residual, n, oh, first_col + m, channel);               \
        STORE_PIXEL_ROW(m)                                                                                 \
    }

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void depthwise_conv2d_rows__buffer(
    TENSOR(dst), CONST_TENSOR(src), CONST_TENSOR(residual), __global const float *restrict weights,
    __global const float *zeros, int image_begin, int row_begin, int col_begin, int channel_begin, int col_end,
    int channel_end, int panel_begin, int item_panels, int panels, int channels, int in_h, int in_w, int kernel_h,
    int kernel_w, int stride_h, int stride_w, int dilation_h, int dilation_w, int pad_h, int pad_w,
    EPILOGUE_SCALARS) {
    const int oh = row_begin + get_global_id(0), n = image_begin + get_global_id(2);
    const int first = get_global_id(1) * item_panels, last = min(panels, first + item_panels);
    const int y = oh * stride_h - pad_h, step = stride_w * src_w, columns = col_end - col_begin;
    const int reach_w = (MR - 1) * stride_w + (kernel_w - 1) * dilation_w + 1;
    const bool sees_rows = y >= 0 && y + (kernel_h - 1) * dilation_h < in_h;
    for (int ow = col_begin; ow < col_end; ow += MR) {
        const int first_col = max(col_begin, min(ow, col_end - MR)), first_x = first_col * stride_w - pad_w;
        const bool sees_image = sees_rows && columns >= MR && first_x >= 0 && first_x + reach_w <= in_w;
        for (int panel = first; panel < last; ++panel) {
            const int channel = max(0, min((panel_begin + panel) * NR, channels - NR));
            const int low = channel_begin - channel, high = channel_end - channel;
            const bool is_whole = low <= 0 && high >= NR;
            __global const float *weight = weights + panel * ((kernel_h * kernel_w + 1) * NR);
            START_TILE(weight)
            for (int kh = 0; kh < kernel_h; ++kh) {
                const int iy = y + kh * dilation_h;
                const uint width = (uint)iy < (uint)in_h ? in_w : 0;
                for (int kw = 0; kw < kernel_w; ++kw) {
                    const int x = first_x + kw * dilation_w;
                    __global const float *p = src + AT(src, n, iy, x, channel);
                    weight += NR;
                    const VEC w = VLOAD(weight);
                    if (sees_image && is_whole) {
                        REPEAT(MR, INNER_TAP)
                    } else if (is_whole) {
                        REPEAT(MR, EDGE_TAP)
                    } else {
                        REPEAT(MR, PART_TAP)
                    }
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
