// The kernel ENTRY: conv2d_patch__buffer.cl, and with POOL the maxima of 2 x 2 of its values.
#ifndef CODL_PATCH_H
#define CODL_PATCH_H

#include "common/gemm_tile.h"
#if POOL
#define SIDE 2
// A row of the tile through a frequent epilogue into the values of its output row.
#define STORE_PIXEL(m)                                                  \
    if (left > m) {                                                     \
        __local float *d##m = values + (first + m) * outputs;           \
        EACH_IN_ROW(BOUND_VECTOR, m)                                    \
    }
#else
#define SIDE 1
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
// Stores the maxima of 2 x 2 of the values of two output rows, `columns` pixels of `outputs` channels each.
static inline void store_maxima(__global float *to, int step, __local const float *values, int columns, int outputs,
                                int low, int high) {
    for (int pixel = 0; pixel + 1 < columns; pixel += 2, to += step) {
        __local const float *upper = values + pixel * outputs, *lower = upper + columns * outputs;
        int c = low;
        for (; c + VECTOR <= high; c += VECTOR) {
            VEC best = (VEC)(-INFINITY);
            TAKE_MAXIMUM(best, VLOAD(upper + c));
            TAKE_MAXIMUM(best, VLOAD(upper + outputs + c));
            TAKE_MAXIMUM(best, VLOAD(lower + c));
            TAKE_MAXIMUM(best, VLOAD(lower + outputs + c));
            VSTORE(best, to + c);
        }
        for (; c < high; ++c) {
            float best = -INFINITY;
            TAKE_MAXIMUM(best, upper[c]);
            TAKE_MAXIMUM(best, upper[outputs + c]);
            TAKE_MAXIMUM(best, lower[c]);
            TAKE_MAXIMUM(best, lower[outputs + c]);
            to[c] = best;
        }
    }
}
#endif

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void ENTRY(
    TENSOR(dst), CONST_TENSOR(src), CONST_TENSOR(residual), __global const float *restrict weights,
    __local float *patch, int image_begin, int row_begin, int col_begin, int channel_begin, int col_end,
    int channel_end, int panel_begin, int panels, int inputs, int outputs, int in_h, int in_w, int kernel_h,
    int kernel_w, int stride_h, int stride_w, int pad_h, int pad_w, EPILOGUE_SCALARS) {
    const int n = image_begin + get_global_id(2), columns = col_end - col_begin, x = col_begin * stride_w - pad_w;
    const int line_pixels = (columns - 1) * stride_w + kernel_w;
    const int line_floats = line_pixels * inputs, pixel_step = stride_w * inputs;
    const int seen_begin = clamp(-x, 0, line_pixels), seen_end = clamp(in_w - x, seen_begin, line_pixels);
    const int last_start = max(0, outputs - VECTOR), first_row = row_begin + get_global_id(0) * SIDE;
    for (int row = 0; row < SIDE; ++row) {
        const int oh = first_row + row, y = oh * stride_h - pad_h;
        for (int kh = 0; kh < kernel_h; ++kh) {
            __local float *line = patch + kh * line_floats;
            const bool is_row = y + kh >= 0 && y + kh < in_h;
            const int begin = is_row ? seen_begin : 0, end = is_row ? seen_end : 0;
            clear(line, begin * inputs);
            copy_pixels(line + begin * inputs, src + AT(src, n, y + kh, x + begin, 0), src_w, inputs, end - begin);
            clear(line + end * inputs, (line_pixels - end) * inputs);
        }
#if POOL
        __local float *values = patch + kernel_h * line_floats + row * columns * outputs;
#else
        __global float *to = dst + AT(dst, n, oh, col_begin, 0);
        __global const float *with = residual + AT(residual, n, oh, col_begin, 0);
#endif
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
#if POOL
                REPEAT(MR, STORE_PIXEL)
#else
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
#endif
            }
        }
    }
#if POOL
    __global float *maxima = dst + AT(dst, n, first_row / SIDE, col_begin / SIDE, 0);
    store_maxima(maxima, dst_w, patch + kernel_h * line_floats, columns, outputs, channel_begin, channel_end);
#endif
}

#endif
