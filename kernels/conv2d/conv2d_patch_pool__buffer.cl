// conv2d_patch_pool__buffer: dst[n, h, w, oc] = the maximum over the window at h * pool_stride_h - pool_pad_h,
// w * pool_stride_w - pool_pad_w of the values of conv2d_patch__buffer, which are not stored; taps outside them are
// left out, a maximum keeps NaN.
//
// Arguments
//   as there, but for dst [N, PH, PW, OC]; the box is that of the values, all that its windows see; no residual is
//   read, the activation is a frequent one (common/plain.h), OC at least VECTOR
//   patch     with the last rows of values behind it, float [pool_kernel_h, columns * OC + 16]
//   scalars   before the epilogue: first row and column of the maxima, their ends, the end of the values' rows, rows of
//             maxima an item takes, window, stride and padding of the pooling
// Launch      grid (ceil(rows of maxima / item_rows), 1, images)   local (1, 1, 1)
// Parameters  MR 1 2 3 4 5 6 8 9 10 12 14 pixels; VECTORS 1 2 3 4 5 vectors of a panel; VECTOR 4 8 16 lanes
// Tested by   tests/kernels/test_conv2d_pool.py
//
// Work-items walk down their rows and compute each row of values once; two of them both compute the rows between them.
#include "common/gemm_tile.h"

#define LINE_OUTPUT __local float *values
#define STORE_PIXEL(m)                                        \
    if (left > m) {                                           \
        __local float *d##m = values + (first + m) * outputs; \
        EACH_IN_ROW(BOUND_VECTOR, m)                          \
    }
#define STORE_PANEL REPEAT(MR, STORE_PIXEL)
#include "common/patch.h"
#include "common/grid.h"

// Lanes behind the last value of a row keep rows out of the same cache sets.
#define ROW_PADDING 16

// Does TAKE_TAP for every tap p of a window, in the order (kh, kw); `place` is where the window begins in a kept row,
// TAKE_TAPS how a row of it is taken: any number of taps, or the three of most windows, without a loop.
#define WALK_WINDOW(place, TAKE_TAPS, TAKE_TAP)                                                            \
    for (int row = top, kept = first_kept; row < bottom; ++row, kept = kept + 1 < kept_rows ? kept + 1 : 0) { \
        __local const float *p = (place) + kept * line_floats;                                             \
        TAKE_TAPS(TAKE_TAP)                                                                                \
    }
#define ANY_TAPS(TAKE_TAP) for (int tap = 0; tap < taps; ++tap, p += outputs) TAKE_TAP
#define THREE_TAPS(TAKE_TAP)                       \
    TAKE_TAP                                       \
    p += outputs;                                  \
    TAKE_TAP                                       \
    p += outputs;                                  \
    TAKE_TAP
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
                if (taps == 3) {
                    WALK_WINDOW(start + c, THREE_TAPS, TAKE_PAIR)
                } else {
                    WALK_WINDOW(start + c, ANY_TAPS, TAKE_PAIR)
                }
                VSTORE(best_0, to + c);
                VSTORE(best_1, to + c + shift);
            }
        } else {
            for (int c = low; c < high; ++c) {
                float best = -INFINITY;
                WALK_WINDOW(start + c, ANY_TAPS, TAKE_ONE)
                to[c] = best;
            }
        }
    }
}

#define PARAMETERS                                                                                           \
    TENSOR(dst), CONST_TENSOR(src), CONST_TENSOR(residual), __global const float *restrict weights,          \
    __local float *patch, int image_begin, int row_begin, int col_begin, int channel_begin, int col_end,     \
    int channel_end, int panel_begin, int panels, int inputs, int outputs, int in_h, int in_w, int kernel_h, \
    int kernel_w, int stride_h, int stride_w, int pad_h, int pad_w, int pool_row_begin, int pool_col_begin,  \
    int pool_row_end, int pool_col_end, int row_end, int item_rows, int pool_kernel_h, int pool_kernel_w,    \
    int pool_stride_h, int pool_stride_w, int pool_pad_h, int pool_pad_w, EPILOGUE_SCALARS
#define VALUES                                                                                                  \
    PASS_TENSOR(dst), PASS_TENSOR(src), PASS_TENSOR(residual), weights, patch, image_begin, row_begin,          \
    col_begin, channel_begin, col_end, channel_end, panel_begin, panels, inputs, outputs, in_h, in_w, kernel_h, \
    kernel_w, stride_h, stride_w, pad_h, pad_w, pool_row_begin, pool_col_begin, pool_row_end, pool_col_end,     \
    row_end, item_rows, pool_kernel_h, pool_kernel_w, pool_stride_h, pool_stride_w, pool_pad_h, pool_pad_w,     \
    PASS_EPILOGUE
static void convolve_rows(PARAMETERS, GRID_PLACE) {
    const int n = image_begin + grid_z;
    const int columns = col_end - col_begin, line_pixels = (columns - 1) * stride_w + kernel_w;
    __local float *kept = patch + kernel_h * line_pixels * inputs;
    const int pool_begin = pool_row_begin + grid_x * item_rows;
    const int pool_end = min(pool_row_end, pool_begin + item_rows);
    int oh = row_begin;
    for (int pool_row = pool_begin; pool_row < pool_end; ++pool_row) {
        const int window = pool_row * pool_stride_h - pool_pad_h;
        const int top = max(row_begin, window), bottom = min(row_end, window + pool_kernel_h);
        for (oh = max(oh, top); oh < bottom; ++oh) {
            fill_patch(patch, src + AT(src, n, 0, 0, 0), src_h, src_w, oh * stride_h - pad_h,
                       col_begin * stride_w - pad_w, kernel_h, line_pixels, in_h, in_w, inputs);
            convolve_line(kept + oh % pool_kernel_h * (columns * outputs + ROW_PADDING), patch, columns,
                          line_pixels * inputs, stride_w * inputs, weights, panel_begin, panels, kernel_h,
                          kernel_w * inputs, outputs, activation, alpha, beta);
        }
        store_maxima(dst + AT(dst, n, pool_row, pool_col_begin, 0), dst_w, pool_col_end - pool_col_begin, kept, columns,
                     outputs, pool_kernel_h, top, bottom, pool_col_begin * pool_stride_w - pool_pad_w - col_begin,
                     pool_kernel_w, pool_stride_w, channel_begin, channel_end);
    }
}
GRID_KERNEL(conv2d_patch_pool__buffer, convolve_rows)
