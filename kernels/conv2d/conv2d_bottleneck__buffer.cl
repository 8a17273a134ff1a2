// conv2d_bottleneck__buffer:
//   dst[n, oh, ow, oc] = epilogue(bias[oc] + sum over c of v[n, oh, ow, c] * weight)
//   v[n, oh, ow, c] = before(bias[c] + sum over kh, kw of u[n, ih, iw, c] * filter), as depthwise_conv2d_rows__buffer
//   u[n, h, w, c] = wide(bias[c] + sum over ic of src[n, h, w, ic] * weight)
// a 1x1 convolution, one filter a channel, and a second 1x1 convolution; of the three the second one may have
// strides and padding.
//
// Arguments
//   dst       float [N, OH, OW, OC], oc innermost   the box [begin, end) is written, nothing else
//   src       float [N, H, W, IC], ic innermost     the windows of the box without padding are read
//   residual  as dst                                read when residual_order is not 0
//   weights   float [panels, 1 + C, VECTORS, VECTOR]   row 0 the bias; the launch's first panel first
//   wide      float [panels, 1 + IC, VECTORS, VECTOR]  the same of the first one; all panels
//   filters   float [ceil(C/VECTOR), 1 + KH*KW, VECTOR]   row 0 the bias; all panels
//   rows      local float [KH * line + max(columns, RUN), C + 16]   u of the last KH rows, each with its padding, where
//             line is (max(columns, RUN) - 1) * stride_w + KW pixels; v of one row; then the sums of a tile
//   scalars   first image, first coordinates and ends of the box, first panel, panels of the launch, rows a work-item
//             takes, outputs, channels, inputs, image size, window, activations of u and v, epilogue
// Launch      global (ceil(rows / item_rows), 1, images)   local (1, 1, 1)
// Parameters  RUN 6 7 8 10 12 14 pixels of a row whose v are computed together; MR 1 2 3 4 5 6 8 9 10 12 14 pixels;
//             VECTORS 1 2 3 4 5 vectors of a panel; VECTOR 4 8 16 lanes
// Tested by   tests/kernels/test_conv2d_bottleneck.py
//
// Work-items walk down their rows and compute each row of u once; two of them both compute the rows between them.
// C and OC are at least VECTOR; the activations of u and v are frequent ones (common/plain.h).
#include "common/gemm_tile.h"
#ifndef RUN
#define RUN 7
#endif

// Lanes behind the last channel keep neighbours out of the same cache sets.
#define ROW_PADDING 16

// Computes u for `count` pixels.
#define AIM_WIDE(m) __global const float *p##m = src + min(m, left - 1) * src_w;
#define KEEP_WIDE(m)                                                      \
    if (left > m) {                                                       \
        __local float *d##m = to + m * step;                              \
        EACH_IN_ROW(BOUND_VECTOR, m)                                      \
    }
static __attribute__((noinline)) void widen_row(__local float *to, int step, __global const float *src, int src_w,
                                                int count, __global const float *weights, int inputs, int channels,
                                                int activation, float alpha, float beta) {
    const int last_start = channels - VECTOR;
    PLAIN_BOUNDS
    for (int left = count; left > 0; left -= MR, src += MR * src_w, to += MR * step) {
        __global const float *weight = weights;
        for (int first_channel = 0; first_channel < channels; first_channel += PANEL) {
            EACH_VECTOR(PLACE_VECTOR)
            REPEAT(MR, AIM_WIDE)
            START_TILE
            ACCUMULATE(inputs)
            REPEAT(MR, KEEP_WIDE)
        }
    }
}

// Computes v for a row of pixels: `lines` rows of u, the first of them the one at `first` of the `kernel_h` kept.
#define START_RUN(m) VEC a##m##_0 = bias;
#define TAP(m) a##m##_0 = fma(VLOAD(p + m * pixel), w, a##m##_0);
#define KEEP_RUN(m)           \
    BOUND(a##m##_0)           \
    VSTORE(a##m##_0, kept + m * step);
static __attribute__((noinline)) void convolve_row(__local float *to, int step, int columns,
                                                   __local const float *rows, int line_floats, int tap_begin,
                                                   int tap_end, int first, __global const float *filters, int channels,
                                                   int kernel_h, int kernel_w, int stride_w, int activation,
                                                   float alpha, float beta) {
    const int pixel = stride_w * step;
    PLAIN_BOUNDS
    for (int run = 0; run < columns; run += RUN) {
        const int column = max(0, min(run, columns - RUN));
        __global const float *filter = filters;
        for (int place = 0; place < channels; place += VECTOR) {
            const int channel = min(place, channels - VECTOR);
            const VEC bias = VLOAD(filter);
            REPEAT(RUN, START_RUN)
            for (int kh = tap_begin; kh < tap_end; ++kh) {
                const int line = first + kh < kernel_h ? first + kh : first + kh - kernel_h;
                __local const float *p = rows + line * line_floats + column * pixel + channel;
                __global const float *weight = filter + (1 + kh * kernel_w) * VECTOR;
                for (int kw = 0; kw < kernel_w; ++kw, p += step, weight += VECTOR) {
                    const VEC w = VLOAD(weight);
                    REPEAT(RUN, TAP)
                }
            }
            __local float *kept = to + column * step + channel;
            REPEAT(RUN, KEEP_RUN)
            filter += (1 + kernel_h * kernel_w) * VECTOR;
        }
    }
}

static void clear_pixels(__local float *pixels, int count, int step) {
    for (int i = 0; i < count * step; ++i) pixels[i] = 0.0f;
}

#define AIM_PIXEL(m) __local const float *p##m = values + (first + min(m, left - 1)) * step;
#define KEEP_SUM(m, v) VSTORE(a##m##_##v, sums + m * PANEL + v * VECTOR);
#define KEEP_SUM_ROW(m) EACH_IN_ROW(KEEP_SUM, m)

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void conv2d_bottleneck__buffer(
    TENSOR(dst), CONST_TENSOR(src), CONST_TENSOR(residual), __global const float *restrict weights,
    __global const float *restrict wide, __global const float *restrict filters, __local float *rows, int image_begin,
    int row_begin, int col_begin, int channel_begin, int row_end, int col_end, int channel_end, int panel_begin,
    int panels, int item_rows, int outputs, int channels, int inputs, int in_h, int in_w, int kernel_h, int kernel_w,
    int stride_h, int stride_w, int dilation_h, int dilation_w, int pad_h, int pad_w, int wide_activation,
    float wide_alpha, float wide_beta, int before_activation, float before_alpha, float before_beta,
    EPILOGUE_SCALARS) {
    const int n = image_begin + get_global_id(2), columns = col_end - col_begin, x = col_begin * stride_w - pad_w;
    const int begin = row_begin + get_global_id(0) * item_rows, end = min(row_end, begin + item_rows);
    const int step = channels + ROW_PADDING, line_pixels = (max(columns, RUN) - 1) * stride_w + kernel_w;
    const int seen_pixels = (columns - 1) * stride_w + kernel_w, line_floats = line_pixels * step;
    const int seen_begin = clamp(-x, 0, seen_pixels), seen_end = clamp(in_w - x, seen_begin, seen_pixels);
    const int last_start = outputs - VECTOR, low = channel_begin, high = min(channel_end, outputs);
    __local float *values = rows + kernel_h * line_floats, *sums = values + max(columns, RUN) * step;
    for (int kh = 0; kh < kernel_h; ++kh) {
        clear_pixels(rows + kh * line_floats, seen_begin, step);
        clear_pixels(rows + kh * line_floats + seen_end * step, line_pixels - seen_end, step);
    }
    int known_end = 0;  // rows of u before this one are known, or not needed any more
    for (int oh = begin; oh < end; ++oh) {
        const int y = oh * stride_h - pad_h;
        const int tap_begin = clamp(-y, 0, kernel_h), tap_end = clamp(in_h - y, tap_begin, kernel_h);
        for (int row = max(known_end, y + tap_begin); row < y + tap_end; ++row)
            widen_row(rows + (row % kernel_h) * line_floats + seen_begin * step, step,
                      src + AT(src, n, row, x + seen_begin, 0), src_w, seen_end - seen_begin, wide, inputs, channels,
                      wide_activation, wide_alpha, wide_beta);
        known_end = max(known_end, y + tap_end);
        convolve_row(values, step, columns, rows, line_floats, tap_begin, tap_end, (y % kernel_h + kernel_h) % kernel_h,
                     filters, channels, kernel_h, kernel_w, stride_w, before_activation, before_alpha, before_beta);
        __global float *to = dst + AT(dst, n, oh, col_begin, 0);
        __global const float *with = residual + AT(residual, n, oh, col_begin, 0);
        for (int first = 0; first < columns; first += MR) {
            const int left = columns - first;
            __global const float *weight = weights;
            for (int panel = 0; panel < panels; ++panel) {
                const int first_channel = (panel_begin + panel) * PANEL;
                REPEAT(MR, AIM_PIXEL)
                START_TILE
                ACCUMULATE(channels)
                REPEAT(MR, KEEP_SUM_ROW)
                const bool is_whole = IS_WHOLE_PANEL(first_channel, last_start, low, high, outputs);
                for (int m = 0; m < min(MR, left); ++m)
                    store_sums(sums + m * PANEL, to + (first + m) * dst_w, with + (first + m) * residual_w,
                               first_channel, last_start, low, high, is_whole, residual_order, activation, alpha, beta);
            }
        }
    }
}
