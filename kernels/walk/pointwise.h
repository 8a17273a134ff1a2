// The bodies of pointwise_lanes__buffer and reshape_lanes__buffer.
#include "walk/cases.h"
#include "walk/lanes.h"

typedef struct {
    place_t dst, a, b, c, residual;
    BOX_FIELDS;
    int function;
    EPILOGUE_FIELDS;
} pointwise_t;
#define POINTWISE_BUFFERS                                                                                   \
    __global float *dst, __global const float *a, __global const float *b, __global const float *c,         \
        __global const float *residual

static inline float4 combine_values(int function, float4 a, float4 b, float4 c) {
    switch (function) {
        case POINTWISE_ADD: return a + b;
        case POINTWISE_MUL: return a * b;
        case POINTWISE_SUB: return a - b;
        case POINTWISE_DIV: return a / b;
        case POINTWISE_PRELU: return a < 0.0f ? a * b : a;
        case POINTWISE_AFFINE: return fma(a, b, c);
        default: return a;
    }
}

BODY pointwise_lanes(__local const pointwise_t *d, POINTWISE_BUFFERS, int group, int groups) {
    const int function = d->function, residual_order = d->residual_order;
    const bool has_b = function != POINTWISE_COPY, has_c = function == POINTWISE_AFFINE;
    const bool has_residual = residual_order != RESIDUAL_NONE;
    const bool is_wide = d->c_count % 4 == 0 && d->c_begin % 4 == 0 && IS_ALIGNED(d->dst) && SUITS_LANES(d->a) &&
                         (!has_b || SUITS_LANES(d->b)) && (!has_c || SUITS_LANES(d->c)) &&
                         (!has_residual || SUITS_LANES(d->residual));
    const int lanes = is_wide ? 4 : 1;
    FOR_EACH_ITEM(d, lanes)
        const float4 zero = (float4)(0.0f);
        const float4 first = load_values(a + INDEX(d->a, n, h, w, channel), d->a.c, lanes);
        const float4 second = has_b ? load_values(b + INDEX(d->b, n, h, w, channel), d->b.c, lanes) : zero;
        const float4 third = has_c ? load_values(c + INDEX(d->c, n, h, w, channel), d->c.c, lanes) : zero;
        const float4 other =
            has_residual ? load_values(residual + INDEX(d->residual, n, h, w, channel), d->residual.c, lanes) : zero;
        const float4 value = combine_values(function, first, second, third);
        store_values(finish_value(value, other, residual_order, d->activation, d->alpha, d->beta),
                     dst + INDEX(d->dst, n, h, w, channel), lanes);
    END_ITEMS
}

typedef struct {
    place_t dst, src;
    BOX_FIELDS;
    int dst_height, dst_width, dst_channels, src_height, src_width, src_channels;
} reshape_t;

// Element i of dst is element i of src, both counted with c innermost.
BODY reshape_lanes(__local const reshape_t *d, __global float *dst, __global const float *src, int group,
                          int groups) {
    const bool is_wide = d->c_count % 4 == 0 && d->c_begin % 4 == 0 && IS_ALIGNED(d->dst) && SUITS_LANES(d->src) &&
                         ((d->dst_channels | d->src_channels) & 3) == 0;
    const int lanes = is_wide ? 4 : 1;
    FOR_EACH_ITEM(d, lanes)
        const int number = ((n * d->dst_height + h) * d->dst_width + w) * d->dst_channels + channel;
        const int pixel_number = number / d->src_channels, row = pixel_number / d->src_width;
        const int src_n = row / d->src_height;
        __global const float *from = src + INDEX(d->src, src_n, row - src_n * d->src_height,
                                                 pixel_number - row * d->src_width,
                                                 number - pixel_number * d->src_channels);
        store_values(load_values(from, d->src.c, lanes), dst + INDEX(d->dst, n, h, w, channel), lanes);
    END_ITEMS
}
