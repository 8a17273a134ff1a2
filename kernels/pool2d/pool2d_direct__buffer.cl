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

// Walks the pointer t over the window's taps inside the image, in the order (kh, kw).
#define FOR_EACH_TAP(t, s)                                                                                  \
    for (int kh = 0; kh < tap_rows; ++kh)                                                                   \
        for (__global const float *t = (s) + kh * row_step, *t##_end = t + tap_columns * column_step;        \
             t != t##_end; t += column_step)

// A maximum also sums its taps: only where the sum is NaN may a tap be, and the window is walked again with care.
#define TAKE(value, sum, tap)                        \
    {                                                \
        const VEC x = tap;                           \
        sum += x;                                    \
        if (!AVERAGE) value = x > value ? x : value; \
    }
#define WALK_AGAIN(value, sum, at)                                                                          \
    if (!AVERAGE && any(sum != sum)) FOR_EACH_TAP(t, s + (at)) TAKE_MAXIMUM(value, VLOAD(t));
#define RESULT(value, sum) (AVERAGE ? sum * reciprocal : value)

// Results of one vector of channels.
#define POOL_VECTOR(at)                                                                                     \
    {                                                                                                       \
        VEC value = (VEC)(start), sum = (VEC)(0.0f);                                                        \
        FOR_EACH_TAP(t, s + (at)) TAKE(value, sum, VLOAD(t))                                                \
        WALK_AGAIN(value, sum, at)                                                                          \
        VSTORE(RESULT(value, sum), d + (at));                                                               \
    }

// Results of two vectors at once, which may overlap.
#define POOL_PAIR(first, second)                                                                            \
    {                                                                                                       \
        const int shift = (second) - (first);                                                               \
        VEC value_0 = (VEC)(start), value_1 = value_0, sum_0 = (VEC)(0.0f), sum_1 = sum_0;                  \
        FOR_EACH_TAP(t, s + (first)) {                                                                      \
            TAKE(value_0, sum_0, VLOAD(t))                                                                  \
            TAKE(value_1, sum_1, VLOAD(t + shift))                                                          \
        }                                                                                                   \
        WALK_AGAIN(value_0, sum_0, first)                                                                   \
        WALK_AGAIN(value_1, sum_1, second)                                                                  \
        VSTORE(RESULT(value_0, sum_0), d + (first));                                                        \
        VSTORE(RESULT(value_1, sum_1), d + (second));                                                       \
    }

// Result of one channel.
#define POOL_CHANNEL(at)                                                                                    \
    {                                                                                                       \
        float value = start, sum = 0.0f;                                                                    \
        FOR_EACH_TAP(t, s + (at)) {                                                                         \
            sum += *t;                                                                                      \
            TAKE_MAXIMUM(value, *t);                                                                      \
        }                                                                                                   \
        d[at] = RESULT(value, sum);                                                                         \
    }

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
    FOR_EACH_RUN(run, 1) {
        const int n = n_begin + run.row / (h_count * w_count);
        const int top = (h_begin + run.row / w_count % h_count) * stride_height - pad_top;
        const taps_t rows = taps_in(top, kernel_height, dilation_height, height);
        const taps_t all_rows = taps_in(top + pad_top, kernel_height, dilation_height, padded_height);
        const int first = w_begin + run.row % w_count;
        __global float *d = dst + RUN_START(dst, run);
        for (int ow = first; ow < first + run.lines; ++ow, d += dst_w) {
            const int left = ow * stride_width - pad_left;
            const taps_t columns = taps_in(left, kernel_width, dilation_width, width);
            const int tap_columns = columns.count, tap_rows = tap_columns > 0 ? rows.count : 0;
            const bool is_empty = tap_rows == 0;
#if AVERAGE
            const taps_t all_columns = taps_in(left + pad_left, kernel_width, dilation_width, padded_width);
            const int counted = (is_padding_counted ? all_rows : rows).count *
                                (is_padding_counted ? all_columns : columns).count;
            const float reciprocal = is_empty ? 0.0f : 1.0f / counted;
#else
            const float reciprocal = 1.0f;
#endif
            const float start = is_empty ? -FLT_MAX : -INFINITY;
            __global const float *s = src;
            if (!is_empty)
                s += AT(src, n, top + rows.begin * dilation_height, left + columns.begin * dilation_width,
                        c_begin + run.channel);
            if (run.length == VECTOR) {
                POOL_VECTOR(0)
            } else if (run.length > VECTOR) {
                const int last = run.length - VECTOR;
                for (int at = 0; at < run.length; at += 2 * VECTOR)
                    POOL_PAIR(min(at, last), min(at + VECTOR, last))
            } else {
                for (int i = 0; i < run.length; ++i) POOL_CHANNEL(i)
            }
        }
    }
}
