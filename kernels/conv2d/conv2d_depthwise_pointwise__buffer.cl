// conv2d_depthwise_pointwise__buffer:
//   dst[n, oh, ow, oc] = epilogue(bias[oc] + sum over ic of before(v[n, oh, ow, ic]) * weight)
//   v[n, oh, ow, ic] = bias[ic] + sum over kh, kw of src[n, ih, iw, ic] * filter, as depthwise_conv2d_rows__buffer
// one filter a channel and the 1x1 convolution behind it, in groups or not, without padding and strides.
//
// Arguments
//   dst       float [N, OH, OW, OC], oc innermost   the box [begin, end) is written, nothing else
//   src       float [N, H, W, IC], ic innermost     the windows of the box without padding are read
//   residual  as dst                                read when residual_order is not 0
//   weights   float [G * panels of a group, 1 + IC/G, VECTORS, VECTOR]   row 0 the bias; the launch's first panel first
//   filters   float [ceil(IC/VECTOR), 1 + KH*KW, VECTOR]   row 0 the bias; all panels
//   zeros     float [VECTOR]                        what padding reads
//   values    local float [item_pixels, IC + 16]    v of an item's pixels
//   scalars   first image, first coordinates and ends of the box, first panel, panels of the launch, pixels an
//             item takes, panels, outputs and inputs of a group, inputs, image size, window, activation of v,
//             epilogue
// Launch      grid (ceil(pixels / item_pixels), 1, images)   local (1, 1, 1)
// Parameters  RUN 6 7 8 10 12 14 pixels of a row whose v are computed together; MR 1 2 3 4 5 6 8 9 10 12 14 pixels;
//             VECTORS 1 2 3 4 5 vectors of a panel; VECTOR 4 8 16 lanes
// Tested by   tests/kernels/test_conv2d_depthwise.py
//
// Pixels are those of the box in row-major order. IC and the outputs of a group are at least VECTOR.
#include "common/gemm_tile.h"
#ifndef RUN
#define RUN 7
#endif
#define SUMS_SPACE __local
#include "common/taps.h"
#include "common/grid.h"

// Lanes behind the last input keep the rows of a tile out of the same cache sets.
#define ROW_PADDING 16

#define KEEP_PLAIN(m)                                                              \
    if (m >= kept_begin && m < kept_end) {                                         \
        BOUND(a##m##_0)                                                            \
        VSTORE(a##m##_0, to + (m - kept_begin) * to_step + channel);               \
    }
#define KEEP_ANY(m)                                                                \
    if (m >= kept_begin && m < kept_end)                                           \
        keep_any(a##m##_0, to + (m - kept_begin) * to_step + channel, activation, alpha, beta);

static __attribute__((noinline)) void keep_any(VEC value, __local float *to, int activation, float alpha, float beta) {
    VSTORE(ACTIVATE(VEC, value), to);
}

// Computes v for RUN pixels of a row, of which [kept_begin, kept_end) are stored, channels [low, high).
static __attribute__((noinline)) void convolve_run(
    __local float *to, int to_step, int kept_begin, int kept_end, __global const float *image_row, int src_h, int src_w,
    __global const float *filters, __global const float *zeros, int columns, int first_x, int tap_begin, int tap_end,
    int channels, int channel_low, int channel_high, int in_w, int kernel_h, int kernel_w, int stride_w,
    int dilation_h, int dilation_w, int activation, float alpha, float beta) {
    const int step = stride_w * src_w, filter_floats = (1 + kernel_h * kernel_w) * VECTOR;
    const int whole_begin = (channel_low + VECTOR - 1) / VECTOR, whole_end = channel_high / VECTOR;
    const bool keeps_all = kept_begin == 0 && kept_end == RUN;
    const int seen_w = FIND_SEEN_WIDTH(first_x, columns);
    const int way =
        IS_PLAIN_ACTIVATION ? find_way(keeps_all, first_x, seen_w, kernel_w, stride_w, dilation_w) : WAY_ANY;
    const bool has_tail = channel_high == channels && channels % VECTOR != 0 && channel_low <= channels - VECTOR;
    for (int part = 0; part < (has_tail ? 2 : 1); ++part) {
        const int panel = part == 0 ? whole_begin : whole_end;
        const int channel = part == 0 ? whole_begin * VECTOR : channels - VECTOR;
        CONVOLVE_PANELS(way, (to + channel, to_step, kept_begin, kept_end, zeros, 0,
                              image_row + tap_begin * dilation_h * src_h + channel, dilation_h * src_h,
                              dilation_w * src_w, step, tap_end - tap_begin, filters + panel * filter_floats,
                              filter_floats, (1 + tap_begin * kernel_w) * VECTOR,
                              part == 0 ? whole_end - whole_begin : 1, zeros, first_x, seen_w, kernel_w, stride_w,
                              dilation_w, RESIDUAL_NONE, activation, alpha, beta))
    }
    for (int panel = channel_low / VECTOR; panel * VECTOR < channel_high; ++panel) {
        if (way != WAY_ANY && panel >= whole_begin && panel < whole_end + has_tail) continue;
        const int channel = min(panel * VECTOR, channels - VECTOR);
        const int low = channel_low - channel, high = channel_high - channel;
        if (MOVES_PANEL) continue;
        __global const float *image = image_row + channel;
        __global const float *filter = filters + panel * filter_floats;
        CONVOLVE_RUN
        if (IS_PLAIN_ACTIVATION) {
            PLAIN_BOUNDS
            REPEAT(RUN, KEEP_PLAIN)
        } else {
            REPEAT(RUN, KEEP_ANY)
        }
    }
    for (int panel = channel_low / VECTOR; panel * VECTOR < channel_high; ++panel) {
        int channel = min(panel * VECTOR, channels - VECTOR);
        int low = channel_low - channel, high = channel_high - channel;
        if (!MOVES_PANEL) continue;
        MOVE_PANEL(panel)
        float sums[RUN * VECTOR];
        convolve_moved(sums, image_row + channel, filters + panel * filter_floats, zeros, shift, other, src_h, src_w,
                       columns, first_x, tap_begin, tap_end, in_w, kernel_w, stride_w, dilation_h, dilation_w);
        for (int m = kept_begin; m < kept_end; ++m)
            keep_any(VLOAD(sums + m * VECTOR), to + (m - kept_begin) * to_step + channel, activation, alpha, beta);
    }
}

// Where pixel m of the tile lies in output and residual; past the end the last one again.
#define DECLARE_PIXEL(m) int to_##m, with_##m;
#define PLACE_ON_LINE(m)                                      \
    {                                                         \
        const int step = min(m, left - 1);                    \
        to_##m = to + step * dst_w;                           \
        with_##m = with + step * residual_w;                  \
    }
#define PLACE_IN_BOX(m)                                       \
    to_##m = AT(dst, n, oh, ow, 0);                           \
    with_##m = AT(residual, n, oh, ow, 0);                    \
    if (left > m + 1 && ++ow == col_end) { ow = col_begin; ++oh; }
#define AIM_PIXEL(m) __local const float *p##m = inputs + min(m, left - 1) * row_step;
#define STORE_PIXEL(m)                                        \
    if (left > m) {                                           \
        __global float *d##m = outputs + to_##m;              \
        __global const float *r##m = others + with_##m;       \
        STORE_PIXEL_ROW(m)                                    \
    }

#define PARAMETERS                                                                                               \
    TENSOR(dst), CONST_TENSOR(src), CONST_TENSOR(residual), __global const float *restrict weights,              \
    __global const float *restrict filters, __global const float *zeros, __local float *values, int image_begin, \
    int row_begin, int col_begin, int channel_begin, int row_end, int col_end, int channel_end, int panel_begin, \
    int panels, int item_pixels, int group_panels, int group_outputs, int group_inputs, int channels, int in_h,  \
    int in_w, int kernel_h, int kernel_w, int stride_h, int stride_w, int dilation_h, int dilation_w, int pad_h, \
    int pad_w, int before_activation, float before_alpha, float before_beta, EPILOGUE_SCALARS
#define VALUES                                                                                               \
    PASS_TENSOR(dst), PASS_TENSOR(src), PASS_TENSOR(residual), weights, filters, zeros, values, image_begin, \
    row_begin, col_begin, channel_begin, row_end, col_end, channel_end, panel_begin, panels, item_pixels,    \
    group_panels, group_outputs, group_inputs, channels, in_h, in_w, kernel_h, kernel_w, stride_h, stride_w, \
    dilation_h, dilation_w, pad_h, pad_w, before_activation, before_alpha, before_beta, PASS_EPILOGUE
static void compute_item(PARAMETERS, GRID_PLACE) {
    const int columns = col_end - col_begin, pixels = (row_end - row_begin) * columns;
    const int n = image_begin + grid_z, row_step = channels + ROW_PADDING;
    const int first_input = panel_begin / group_panels * group_inputs;
    const int last_input = ((panel_begin + panels - 1) / group_panels + 1) * group_inputs;
    const int begin = grid_x * item_pixels, end = min(pixels, begin + item_pixels);
    for (int at = begin; at < end;) {
        const int column = at % columns, stop = min(columns, column + end - at);
        const int oh = row_begin + at / columns, y = oh * stride_h - pad_h;
        const int tap_begin = y < 0 ? min(kernel_h, count_steps(-y, dilation_h)) : 0;
        const int tap_end = y < in_h ? min(kernel_h, count_steps(in_h - y, dilation_h)) : 0;
        for (int run = column; run < stop; run += RUN) {
            const int first = max(0, min(run, columns - RUN)), first_x = (col_begin + first) * stride_w - pad_w;
            convolve_run(values + (at - begin + run - column) * row_step, row_step, run - first,
                         min(RUN, stop - first), src + AT(src, n, y, first_x, 0), src_h, src_w, filters, zeros,
                         columns, first_x, tap_begin, tap_end, channels, first_input, last_input, in_w, kernel_h,
                         kernel_w, stride_w, dilation_h, dilation_w, before_activation, before_alpha, before_beta);
        }
        at += stop - column;
    }
    const bool is_line =
        dst_h == columns * dst_w && (residual_order == RESIDUAL_NONE || residual_h == columns * residual_w);
    const int last_start = max(0, group_outputs - VECTOR);
    for (int first = begin; first < end; first += MR) {
        const int left = end - first;
        int oh = row_begin + first / columns, ow = col_begin + first % columns;
        REPEAT(MR, DECLARE_PIXEL)
        if (is_line || ow + MR <= col_end) {
            const int to = AT(dst, n, oh, ow, 0), with = AT(residual, n, oh, ow, 0);
            REPEAT(MR, PLACE_ON_LINE)
        } else {
            REPEAT(MR, PLACE_IN_BOX)
        }
        __global const float *weight = weights;
        for (int item = 0; item < panels; ++item) {
            const int panel = panel_begin + item, group = panel / group_panels;
            const int first_channel = (panel - group * group_panels) * PANEL;
            EACH_VECTOR(PLACE_VECTOR)
            __local const float *inputs = values + (first - begin) * row_step + group * group_inputs;
            REPEAT(MR, AIM_PIXEL)
            START_TILE
            ACCUMULATE(group_inputs)
            __global float *outputs = dst + group * group_outputs;
            __global const float *others = residual + group * group_outputs;
            const int low = channel_begin - group * group_outputs;
            const int high = min(channel_end - group * group_outputs, group_outputs);
            if (IS_PLAIN_EPILOGUE && low <= start_0 && high >= min(first_channel + PANEL, group_outputs)) {
                PLAIN_BOUNDS
#define STORE_PIXEL_ROW STORE_PLAIN_ROW
                REPEAT(MR, STORE_PIXEL)
            } else {
#undef STORE_PIXEL_ROW
#define STORE_PIXEL_ROW STORE_ANY_ROW
                REPEAT(MR, STORE_PIXEL)
            }
        }
    }
}
GRID_KERNEL(conv2d_depthwise_pointwise__buffer, compute_item)
