// The kernel ENTRY: conv2d_patch__buffer.cl, and with POOL the maxima over windows of its values.
#ifndef CODL_PATCH_H
#define CODL_PATCH_H

#include "common/gemm_tile.h"
#if POOL
// A row of the tile through a frequent epilogue into the values of its output row.
#define STORE_PIXEL(m)                                                  \
    if (left > m) {                                                     \
        __local float *d##m = values + (first + m) * outputs;           \
        EACH_IN_ROW(BOUND_VECTOR, m)                                    \
    }
#else
#define STORE_PIXEL(m)                                                                      \
    if (left > m) {                                                                         \
        __global float *d##m = to + (first + m) * dst_w;                                    \
        __global const float *r##m = with + (first + m) * residual_w;                       \
        STORE_PIXEL_ROW(m)                                                                  \
    }
#endif

// Where pixel m of the tile begins to see its row of the patch; past the end of the box the last one again.
#define DECLARE_PIXEL(m) __local const float *p##m = patch + (first + min(m, left - 1)) * pixel_step;
#define NEXT_LINE(m) p##m += line_floats;

// Copies `count` pixels, or writes zeros where there are none.
static inline void copy_pixels(__local float *line, __global const float *pixels, int step, int channels, int count) {
    if (step == channels) {
        for (int i = 0; i < count * channels; ++i) line[i] = pixels[i];
    } else {
        for (int i = 0; i < count; ++i, line += channels, pixels += step)
            for (int c = 0; c < channels; ++c) line[c] = pixels[c];
    }
}

static inline void clear(__local float *line, int count) {
    for (int i = 0; i < count; ++i) line[i] = 0.0f;
}

#if POOL
// Lanes behind the last value of a row keep rows out of the same cache sets.
#define ROW_PADDING 16

// Does TAKE_TAP for every tap p of a window, in the order (kh, kw); `place` is where the window begins in a kept row.
#define WALK_WINDOW(place, TAKE_TAP)                                                                       \
    for (int row = top, kept = first_kept; row < bottom; ++row, kept = kept + 1 < kept_rows ? kept + 1 : 0) { \
        __local const float *p = (place) + kept * line_floats;                                             \
        for (int tap = 0; tap < taps; ++tap, p += outputs) TAKE_TAP                                        \
    }
#define TAKE_PAIR                                  \
    {                                              \
        TAKE_MAXIMUM(best_0, VLOAD(p));            \
        TAKE_MAXIMUM(best_1, VLOAD(p + shift));    \
    }
#define TAKE_ONE TAKE_MAXIMUM(best, *p);

// Stores maxima over windows of kept rows, `columns` pixels of `outputs` channels each: rows [top, bottom) of the
// values, row r at r % kept_rows, and pixels from `left` on.
static __attribute__((noinline)) void store_maxima(__global float *to, int step, int count,
                                                   __local const float *values, int columns, int outputs,
                                                   int kept_rows, int top, int bottom, int left, int window, int stride,
                                                   int low, int high) {
    const int line_floats = columns * outputs + ROW_PADDING, first_kept = top % kept_rows;
    for (int pixel = 0; pixel < count; ++pixel, to += step, left += stride) {
        const int first = max(left, 0), taps = min(left + window, columns) - first;
        __local const float *start = values + first * outputs;
        if (high - low >= VECTOR) {
            const int last = high - VECTOR;
            for (int at = low; at < high; at += 2 * VECTOR) {
                const int c = min(at, last), shift = min(at + VECTOR, last) - c;
                VEC best_0 = (VEC)(-INFINITY), best_1 = best_0;
                WALK_WINDOW(start + c, TAKE_PAIR)
                VSTORE(best_0, to + c);
                VSTORE(best_1, to + c + shift);
            }
        } else {
            for (int c = low; c < high; ++c) {
                float best = -INFINITY;
                WALK_WINDOW(start + c, TAKE_ONE)
                to[c] = best;
            }
        }
    }
}

// Computes a row of values from its patch. Out of line: beside the pooling it takes a tenth longer.
static __attribute__((noinline)) void convolve_line(__local float *values, __local const float *patch, int columns,
                                                    int line_floats, int pixel_step, __global const float *weights,
                                                    int panel_begin, int panels, int kernel_h, int run_floats,
                                                    int outputs, int activation, float alpha, float beta) {
    const int last_start = outputs - VECTOR;
    PLAIN_BOUNDS
    for (int first = 0; first < columns; first += MR) {
        const int left = columns - first;
        __global const float *weight = weights;
        for (int panel = 0; panel < panels; ++panel) {
            const int first_channel = (panel_begin + panel) * PANEL;
            EACH_VECTOR(PLACE_VECTOR)
            REPEAT(MR, DECLARE_PIXEL)
            START_TILE
            for (int kh = 0; kh < kernel_h; ++kh) {
                ACCUMULATE(run_floats)
                REPEAT(MR, NEXT_LINE)
            }
            REPEAT(MR, STORE_PIXEL)
        }
    }
}

#define POOL_SCALARS                                                                                       \
    int pool_row_begin, int pool_col_begin, int pool_row_end, int pool_col_end, int row_end, int item_rows, \
        int pool_kernel_h, int pool_kernel_w, int pool_stride_h, int pool_stride_w, int pool_pad_h,         \
        int pool_pad_w,
#else
#define POOL_SCALARS
#endif

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void ENTRY(
    TENSOR(dst), CONST_TENSOR(src), CONST_TENSOR(residual), __global const float *restrict weights,
    __local float *patch, int image_begin, int row_begin, int col_begin, int channel_begin, int col_end,
    int channel_end, int panel_begin, int panels, int inputs, int outputs, int in_h, int in_w, int kernel_h,
    int kernel_w, int stride_h, int stride_w, int pad_h, int pad_w, POOL_SCALARS EPILOGUE_SCALARS) {
    const int n = image_begin + get_global_id(2), columns = col_end - col_begin, x = col_begin * stride_w - pad_w;
    const int line_pixels = (columns - 1) * stride_w + kernel_w;
    const int line_floats = line_pixels * inputs, pixel_step = stride_w * inputs;
    const int seen_begin = clamp(-x, 0, line_pixels), seen_end = clamp(in_w - x, seen_begin, line_pixels);
#if POOL
    __local float *kept = patch + kernel_h * line_floats;
    const int pool_begin = pool_row_begin + get_global_id(0) * item_rows;
    const int pool_end = min(pool_row_end, pool_begin + item_rows);
    int oh = row_begin;
    for (int pool_row = pool_begin; pool_row < pool_end; ++pool_row) {
        const int window = pool_row * pool_stride_h - pool_pad_h;
        const int top = max(row_begin, window), bottom = min(row_end, window + pool_kernel_h);
        oh = max(oh, top);
#else
    const int last_start = max(0, outputs - VECTOR);
    int oh = row_begin + get_global_id(0);
    const int bottom = oh + 1;
#endif
    for (; oh < bottom; ++oh) {
        const int y = oh * stride_h - pad_h;
        for (int kh = 0; kh < kernel_h; ++kh) {
            __local float *line = patch + kh * line_floats;
            const bool is_row = y + kh >= 0 && y + kh < in_h;
            const int begin = is_row ? seen_begin : 0, end = is_row ? seen_end : 0;
            clear(line, begin * inputs);
            copy_pixels(line + begin * inputs, src + AT(src, n, y + kh, x + begin, 0), src_w, inputs, end - begin);
            clear(line + end * inputs, (line_pixels - end) * inputs);
        }
#if POOL
        convolve_line(kept + oh % pool_kernel_h * (columns * outputs + ROW_PADDING), patch, columns, line_floats,
                      pixel_step, weights, panel_begin, panels, kernel_h, kernel_w * inputs, outputs, activation, alpha,
                      beta);
#else
        __global float *to = dst + AT(dst, n, oh, col_begin, 0);
        __global const float *with = residual + AT(residual, n, oh, col_begin, 0);
        for (int first = 0; first < columns; first += MR) {
            const int left = columns - first;
            __global const float *weight = weights;
            for (int panel = 0; panel < panels; ++panel) {
                const int first_channel = (panel_begin + panel) * PANEL;
                EACH_VECTOR(PLACE_VECTOR)
                REPEAT(MR, DECLARE_PIXEL)
                START_TILE
                for (int kh = 0; kh < kernel_h; ++kh) {
                    ACCUMULATE(kernel_w * inputs)
                    REPEAT(MR, NEXT_LINE)
                }
                PLAIN_BOUNDS
                const int low = channel_begin, high = channel_end;
                if (IS_PLAIN_EPILOGUE && low <= start_0 && high >= min(first_channel + PANEL, outputs) &&
                    outputs >= VECTOR) {
#define STORE_PIXEL_ROW STORE_PLAIN_ROW
                    REPEAT(MR, STORE_PIXEL)
                } else {
#undef STORE_PIXEL_ROW
#define STORE_PIXEL_ROW STORE_ANY_ROW
                    REPEAT(MR, STORE_PIXEL)
                }
            }
        }
#endif
    }
#if POOL
        __global float *maxima = dst + AT(dst, n, pool_row, pool_col_begin, 0);
        store_maxima(maxima, dst_w, pool_col_end - pool_col_begin, kept, columns, outputs, pool_kernel_h, top, bottom,
                     pool_col_begin * pool_stride_w - pool_pad_w - col_begin, pool_kernel_w, pool_stride_w,
                     channel_begin, channel_end);
    }
#endif
}

#endif
