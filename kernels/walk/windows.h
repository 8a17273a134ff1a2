// The bodies of depthwise_lanes__buffer and pool2d_lanes__buffer.
#include "walk/lanes.h"

// Taps of a window are read in blocks of BH x BW, all of a block before the first is used: memory answers late, and a loop
// over single taps would wait for each. Reads behind the last tap are its own again; they are not used.
#define FOR_EACH_BLOCK(BH, BW, rows, columns)                          \
    for (int by = (rows).begin; by < (rows).end; by += BH)             \
        for (int bx = (columns).begin; bx < (columns).end; bx += BW) {
#define END_BLOCKS }
// `load` takes an address: reads that do not branch are under way together.
#define READ_BLOCK(taps, BH, BW, load, base, rows, columns, row_step, column_step)                                 \
    float4 taps[BH * BW];                                                                                          \
    UNROLL for (int i = 0; i < BH * BW; ++i)                                                                       \
        taps[i] = load((base) + min(by + i / BW, (rows).end - 1) * (row_step) +                                    \
                       min(bx + i % BW, (columns).end - 1) * (column_step));
#define LOAD_SOURCE(from) load_values(from, d->src.c, lanes)
#define LOAD_FACTORS(from) load_values(from, 1, lanes)
#define IS_TAP(i, BW, rows, columns) (by + (i) / BW < (rows).end && bx + (i) % BW < (columns).end)

typedef struct {
    place_t dst, src, residual;
    int weights;
    BOX_FIELDS;
    int panel_begin, in_h, in_w, kernel_h, kernel_w, stride_h, stride_w, dilation_h, dilation_w, pad_h, pad_w;
    EPILOGUE_FIELDS;
} depthwise_t;
#define DEPTHWISE_BUFFERS                                                                        \
    __global float *dst, __global const float *src, __global const float *residual, __global const float *weights

#define ADD_TAPS(BH, BW, load, load_factors)                                                              \
    FOR_EACH_BLOCK(BH, BW, rows, columns)                                                                 \
        READ_BLOCK(values, BH, BW, load, src + from, rows, columns, row_step, column_step)                \
        READ_BLOCK(factors, BH, BW, load_factors, weight + 4, rows, columns, kernel_w * 4, 4)             \
        UNROLL for (int i = 0; i < BH * BW; ++i)                                                          \
            if (IS_TAP(i, BW, rows, columns)) sum = fma(values[i], factors[i], sum);                      \
    END_BLOCKS
// All of them add up row by row, but for windows of more than 7 columns. Compilers for processors, which read one tap after
// the other anyway, get the shortest text.
#if PTX
#define ADD_ALL_TAPS(load, load_factors)       \
    if (kernel_w <= 3) {                       \
        ADD_TAPS(3, 3, load, load_factors)     \
    } else if (kernel_w <= 5) {                \
        ADD_TAPS(2, 5, load, load_factors)     \
    } else {                                   \
        ADD_TAPS(2, 7, load, load_factors)     \
    }
#define IS_DENSE (is_wide && d->src.c == 1)
#else
#define ADD_ALL_TAPS(load, load_factors) ADD_TAPS(1, 7, load, load_factors)
#define IS_DENSE false
#endif

// Weights lie as [ceil(C / 4), 1 + KH*KW, 4], the bias first.
BODY depthwise_lanes(__local const depthwise_t *d, DEPTHWISE_BUFFERS, int group, int groups) {
    const bool has_residual = d->residual_order != RESIDUAL_NONE;
    const bool is_wide = d->c_count % 4 == 0 && d->c_begin % 4 == 0 && IS_ALIGNED(d->dst) && SUITS_LANES(d->src) &&
                         (!has_residual || SUITS_LANES(d->residual));
    const bool is_dense = IS_DENSE;
    const int lanes = is_wide ? 4 : 1, kernel_w = d->kernel_w, panel_floats = (d->kernel_h * kernel_w + 1) * 4;
    const int row_step = d->dilation_h * d->src.h, column_step = d->dilation_w * d->src.w;
    FOR_EACH_ITEM(d, lanes)
        __global const float *weight = weights + (channel / 4 - d->panel_begin) * panel_floats + channel % 4;
        const int top = h * d->stride_h - d->pad_h, left = w * d->stride_w - d->pad_w;
        const span_t rows = span_in(top, d->kernel_h, d->dilation_h, d->in_h);
        const span_t columns = span_in(left, kernel_w, d->dilation_w, d->in_w);
        const int from = INDEX(d->src, n, top, left, channel);
        float4 sum = load_values(weight, 1, lanes);
        if (is_dense) {
            ADD_ALL_TAPS(GLOBAL_4, GLOBAL_4)
        } else {
            ADD_ALL_TAPS(LOAD_SOURCE, LOAD_FACTORS)
        }
        const float4 other = has_residual ? load_values(residual + INDEX(d->residual, n, h, w, channel),
                                                        d->residual.c, lanes)
                                          : (float4)(0.0f);
        store_values(finish_value(sum, other, d->residual_order, d->activation, d->alpha, d->beta),
                     dst + INDEX(d->dst, n, h, w, channel), lanes);
    END_ITEMS
}

typedef struct {
    place_t dst, src;
    BOX_FIELDS;
    int is_average, in_h, in_w, is_padding_counted, padded_h, padded_w, kernel_h, kernel_w, stride_h, stride_w;
    int dilation_h, dilation_w, pad_h, pad_w;
} pool2d_t;

#define TAKE_TAPS(load)                                                                          \
    FOR_EACH_BLOCK(3, 3, rows, columns)                                                          \
        READ_BLOCK(values, 3, 3, load, src + from, rows, columns, row_step, column_step)         \
        UNROLL for (int i = 0; i < 3 * 3; ++i)                                                   \
            if (IS_TAP(i, 3, rows, columns)) {                                                   \
                if (is_average) value += values[i];                                              \
                else TAKE_MAXIMUM(value, values[i]);                                             \
            }                                                                                    \
    END_BLOCKS

// Taps outside the image are left out. A mean is one chain of additions, block by block, times 1 / count. A maximum
// keeps NaN; over no tap at all it is -FLT_MAX and a mean 0, as in ONNX Runtime.
BODY pool2d_lanes(__local const pool2d_t *d, __global float *dst, __global const float *src, int group,
                         int groups) {
    const bool is_wide =
        d->c_count % 4 == 0 && d->c_begin % 4 == 0 && IS_ALIGNED(d->dst) && SUITS_LANES(d->src);
    const bool is_dense = IS_DENSE;
    const int lanes = is_wide ? 4 : 1, is_average = d->is_average;
    const int row_step = d->dilation_h * d->src.h, column_step = d->dilation_w * d->src.w;
    FOR_EACH_ITEM(d, lanes)
        const int top = h * d->stride_h - d->pad_h, left = w * d->stride_w - d->pad_w;
        const span_t rows = span_in(top, d->kernel_h, d->dilation_h, d->in_h);
        const span_t columns = span_in(left, d->kernel_w, d->dilation_w, d->in_w);
        const int taps = (rows.end - rows.begin) * (columns.end - columns.begin);
        const int from = INDEX(d->src, n, top, left, channel);
        float4 value = (float4)(is_average ? 0.0f : taps == 0 ? -FLT_MAX : -INFINITY);
        if (is_dense) {
            TAKE_TAPS(GLOBAL_4)
        } else {
            TAKE_TAPS(LOAD_SOURCE)
        }
        if (is_average) {
            const span_t all_rows = span_in(top + d->pad_h, d->kernel_h, d->dilation_h, d->padded_h);
            const span_t all_columns = span_in(left + d->pad_w, d->kernel_w, d->dilation_w, d->padded_w);
            const int all_taps = (all_rows.end - all_rows.begin) * (all_columns.end - all_columns.begin);
            value *= taps == 0 ? 0.0f : 1.0f / (d->is_padding_counted ? all_taps : taps);
        }
        store_values(value, dst + INDEX(d->dst, n, h, w, channel), lanes);
    END_ITEMS
}
