// pool2d_direct__buffer: dst[n, oh, ow, c] = max or mean over kh, kw of src[n, h, w, c],
//                        h = oh * stride_height - pad_top + kh * dilation_height, w alike
//
// Taps outside the image are left out. A mean is one chain of additions in the order (kh, kw), times 1 / count.
// A maximum keeps NaN; over no tap at all it is -FLT_MAX and a mean 0, as in ONNX Runtime.
//
// Arguments
//   dst     float [N, OH, OW, C]   channels dense; the box is written, nothing else
//   src     float [N, H, W, C]     channels dense
//   box     first coordinates and lengths in dst; a work-item takes item_channels of item_rows pixels, rows of
//           pixels counted on end (common/runs.h)
//   height, width                  H, W
//   is_padding_counted             1: taps in the padding count in a mean; those beyond it never do
//   padded_height, padded_width    H and W with the padding on both sides
//   kernel_, stride_, dilation_    height, then width
//   pad_top, pad_left
// Launch      global (ceil(channels / item_channels), ceil(OH * OW of the box / item_rows), 1)   local (1, 1, 1)
// Parameters  VECTOR 4 8 16 lanes; AVERAGE 0 1
// Tested by   tests/kernels/test_pool.py
#include "common/vector.h"
#include "common/runs.h"

#ifndef AVERAGE
#define AVERAGE 0
#endif

#define TILE (4 * VECTOR)

#if AVERAGE
#define TAKE(value, tap) value += (tap)
#define FINISH(value) (value) * reciprocal
#else
#define TAKE(value, tap) value = ((tap) > value) | ((tap) != (tap)) ? (tap) : value
#define FINISH(value) value
#endif

// Walks the pointer t over the window's taps inside the image, in the order (kh, kw).
#define FOR_EACH_TAP(t, s)                                                                                   \
    for (int kh = 0; kh < tap_rows; ++kh)                                                                    \
        for (__global const float *t = (s) + kh * row_step, *t##_end = t + tap_columns * column_step;         \
             t != t##_end; t += column_step)

// Taps k of a window with 0 <= start + k * dilation < length.
typedef struct {
    int begin;
    int count;
} taps_t;

static inline taps_t taps_in(int start, int window, int dilation, int length) {
    const int begin = start < 0 ? min(window, (dilation - 1 - start) / dilation) : 0;
    const bool is_cut = start + (window - 1) * dilation >= length;
    const int end = is_cut ? (length - start + dilation - 1) / dilation : window;
    const taps_t taps = {begin, max(0, end - begin)};
    return taps;
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void pool2d_direct__buffer(TENSOR(dst), CONST_TENSOR(src), BOX_SCALARS, int height, int width,
                           int is_padding_counted, int padded_height, int padded_width, int kernel_height,
                           int kernel_width, int stride_height, int stride_width, int dilation_height,
                           int dilation_width, int pad_top, int pad_left) {
    const int row_step = dilation_height * src_h, column_step = dilation_width * src_w;
    FOR_EACH_RUN(run, w_count) {
        const int n = n_begin + run.row / (h_count * w_count);
        const int top = (h_begin + run.row / w_count % h_count) * stride_height - pad_top;
        const taps_t rows = taps_in(top, kernel_height, dilation_height, height);
        const taps_t all_rows = taps_in(top + pad_top, kernel_height, dilation_height, padded_height);
        const int first = w_begin + run.row % w_count;
        __global float *d = dst + RUN_START(dst, run);
        for (int ow = first; ow < first + run.rows; ++ow, d += dst_w) {
            const int left = ow * stride_width - pad_left;
            const taps_t columns = taps_in(left, kernel_width, dilation_width, width);
            const int tap_rows = columns.count > 0 ? rows.count : 0, tap_columns = columns.count;
            const bool is_empty = tap_rows == 0;
#if AVERAGE
            const taps_t all_columns = taps_in(left + pad_left, kernel_width, dilation_width, padded_width);
            const int counted = (is_padding_counted ? all_rows : rows).count *
                                (is_padding_counted ? all_columns : columns).count;
            const float start = 0.0f, reciprocal = is_empty ? 0.0f : 1.0f / counted;
#else
            const float start = is_empty ? -FLT_MAX : -INFINITY;
#endif
            __global const float *s = src;
            if (!is_empty)
                s += AT(src, n, top + rows.begin * dilation_height, left + columns.begin * dilation_width,
                        c_begin + run.channel);
            int i = 0;
            for (; i + TILE <= run.channels; i += TILE) {
                VEC value_0 = (VEC)(start);
                VEC value_1 = value_0;
                VEC value_2 = value_0;
                VEC value_3 = value_0;
                FOR_EACH_TAP(t, s + i) {
                    const VEC tap_0 = VLOAD(t), tap_1 = VLOAD(t + VECTOR);
                    const VEC tap_2 = VLOAD(t + 2 * VECTOR), tap_3 = VLOAD(t + 3 * VECTOR);
                    TAKE(value_0, tap_0);
                    TAKE(value_1, tap_1);
                    TAKE(value_2, tap_2);
                    TAKE(value_3, tap_3);
                }
                VSTORE(FINISH(value_0), d + i);
                VSTORE(FINISH(value_1), d + i + VECTOR);
                VSTORE(FINISH(value_2), d + i + 2 * VECTOR);
                VSTORE(FINISH(value_3), d + i + 3 * VECTOR);
            }
            for (; i < run.channels && run.channels >= VECTOR; i += VECTOR) {
                const int at = LANES_AT(i, run.channels);
                VEC value = (VEC)(start);
                FOR_EACH_TAP(t, s + at) {
                    const VEC tap = VLOAD(t);
                    TAKE(value, tap);
                }
                VSTORE(FINISH(value), d + at);
            }
            for (; i < run.channels; ++i) {
                float value = start;
                FOR_EACH_TAP(t, s + i) {
                    const float tap = *t;
                    TAKE(value, tap);
                }
                d[i] = FINISH(value);
            }
        }
    }
}
