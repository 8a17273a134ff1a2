// depthwise_conv2d_rows__buffer: dst[n, oh, ow, c] = epilogue(bias[c] + sum over kh, kw of src[n, ih, iw, c] * weight)
// with ih = oh * stride - pad + kh * dilation, iw likewise; one filter a channel.
//
// Arguments
//   dst       float [N, OH, OW, C], c innermost   the box [begin, end) is written, nothing else
//   src       float [N, H, W, C], c innermost     the windows of the box without padding are read
//   residual  as dst                              read when residual_order is not 0
//   weights   float [C/NR, 1 + KH*KW, NR]         row 0 the bias; the launch's first panel first
//   zeros     float [NR]                          what padding reads
//   scalars   first image, first coordinates and ends of the box, first panel, panels an item takes,
//             panels of the launch, channels of the whole tensor, image size, window, epilogue
// Launch      grid (rows, ceil(panels / item_panels), images)   local (1, 1, 1)
// Parameters  MR 6 7 8 10 12 14 pixels a register tile; NR 4 8 16 channels, one vector; VECTOR 4 8 16 lanes
// Tested by   tests/kernels/test_depthwise.py
//
// An item walks its row of pixels, MR at a time, and for each group of pixels its panels of channels: the other
// order meets few cache sets. The last group of a row and the first and last panel of a box step into it: what two of
// them compute is equal.
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
#define RUN MR
#define SUMS_SPACE __global
#include "common/taps.h"
// Units that steal have rows of their own, with all channels.
#define Y_FIRST 1
#include "common/grid.h"

#define STORE_PIXEL(m)                                                                                     \
    if (m < columns) {                                                                                     \
        __global float *d##m = to + m * dst_w;                                                             \
        __global const float *r##m = with + m * residual_w;                                                \
        STORE_PIXEL_ROW(m)                                                                                 \
    }

#define PARAMETERS                                                                                              \
    TENSOR(dst), CONST_TENSOR(src), CONST_TENSOR(residual), __global const float *restrict weights,             \
    __global const float *zeros, int image_begin, int row_begin, int col_begin, int channel_begin, int col_end, \
    int channel_end, int panel_begin, int item_panels, int panels, int channels, int in_h, int in_w,            \
    int kernel_h, int kernel_w, int stride_h, int stride_w, int dilation_h, int dilation_w, int pad_h,          \
    int pad_w, EPILOGUE_SCALARS
#define VALUES                                                                                              \
    PASS_TENSOR(dst), PASS_TENSOR(src), PASS_TENSOR(residual), weights, zeros, image_begin, row_begin,      \
    col_begin, channel_begin, col_end, channel_end, panel_begin, item_panels, panels, channels, in_h, in_w, \
    kernel_h, kernel_w, stride_h, stride_w, dilation_h, dilation_w, pad_h, pad_w, PASS_EPILOGUE
static void convolve_row(PARAMETERS, GRID_PLACE) {
    const int oh = row_begin + grid_x, n = image_begin + grid_z;
    const int first = grid_y * item_panels, last = min(panels, first + item_panels);
    const int y = oh * stride_h - pad_h, step = stride_w * src_w, columns = col_end - col_begin;
    const int tap_begin = y < 0 ? min(kernel_h, count_steps(-y, dilation_h)) : 0;
    const int tap_end = y < in_h ? min(kernel_h, count_steps(in_h - y, dilation_h)) : 0;
    const int filter_floats = (1 + kernel_h * kernel_w) * NR;
    const int whole_begin = max(first, channel_begin > panel_begin * NR ? 1 : 0);
    const int whole_end = min(last, min(channel_end, channels) / NR - panel_begin);
    const bool has_tail = whole_end == channels / NR - panel_begin && whole_end < last && channel_end == channels &&
                          channel_begin <= channels - NR;
    const bool is_frequent = IS_PLAIN_ACTIVATION && residual_order <= RESIDUAL_BEFORE;
    for (int ow = col_begin; ow < col_end; ow += MR) {
        const int first_col = max(col_begin, min(ow, col_end - MR)), first_x = first_col * stride_w - pad_w;
        const int seen_w = FIND_SEEN_WIDTH(first_x, columns);
        const int way =
            is_frequent ? find_way(columns >= MR, first_x, seen_w, kernel_w, stride_w, dilation_w) : WAY_ANY;
        for (int part = 0; way != WAY_ANY && part < (has_tail ? 2 : 1); ++part) {
            const int panel = part == 0 ? whole_begin : whole_end;
            const int channel = part == 0 ? (panel_begin + whole_begin) * NR : channels - NR;
            CONVOLVE_PANELS(way, (dst + AT(dst, n, oh, first_col, channel), dst_w, 0, min(MR, columns),
                                  residual + AT(residual, n, oh, first_col, channel), residual_w,
                                  src + AT(src, n, y + tap_begin * dilation_h, first_x, channel), dilation_h * src_h,
                                  dilation_w * src_w, step, tap_end - tap_begin, weights + panel * filter_floats,
                                  filter_floats, (1 + tap_begin * kernel_w) * NR,
                                  part == 0 ? whole_end - whole_begin : 1, zeros, first_x, seen_w, kernel_w, stride_w,
                                  dilation_w, residual_order, activation, alpha, beta))
        }
        for (int panel = first; panel < last; ++panel) {
            if (way != WAY_ANY && panel >= whole_begin && panel < whole_end + has_tail) continue;
            const int channel = max(0, min((panel_begin + panel) * NR, channels - NR));
            const int low = channel_begin - channel, high = channel_end - channel;
            if (MOVES_PANEL) continue;
            __global const float *image = src + AT(src, n, y, first_x, channel);
            __global const float *filter = weights + panel * filter_floats;
            CONVOLVE_RUN
            __global float *to = dst + AT(dst, n, oh, first_col, channel);
            __global const float *with = residual + AT(residual, n, oh, first_col, channel);
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
    for (int panel = first; panel < last; ++panel) {
        int channel = min((panel_begin + panel) * NR, channels - NR);
        int low = channel_begin - channel, high = channel_end - channel;
        if (!MOVES_PANEL) continue;
        MOVE_PANEL(panel_begin + panel)
        for (int ow = col_begin; ow < col_end; ow += MR) {
            const int first_col = max(col_begin, min(ow, col_end - MR)), first_x = first_col * stride_w - pad_w;
            float sums[MR * NR];
            convolve_moved(sums, src + AT(src, n, y, first_x, channel), weights + panel * filter_floats, zeros, shift,
                           other, src_h, src_w, columns, first_x, tap_begin, tap_end, in_w, kernel_w, stride_w,
                           dilation_h, dilation_w);
            const int to = AT(dst, n, oh, first_col, channel), with = AT(residual, n, oh, first_col, channel);
            for (int m = 0; m < min(MR, columns); ++m)
                store_row(sums + m * NR, dst + to + m * dst_w, 1, residual + with + m * residual_w, 1, low, high,
                          residual_order, activation, alpha, beta);
        }
    }
}
GRID_KERNEL(depthwise_conv2d_rows__buffer, convolve_row)
