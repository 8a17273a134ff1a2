// The bodies of response_norm_lanes__buffer and resize2d_lanes__buffer.
#include "walk/lanes.h"
#include "common/logarithm.h"

typedef struct {
    place_t dst, src;
    BOX_FIELDS;
    int channels, below, above;
    float bias, share, power;
} response_norm_t;

// A window is of neighbouring channels; what lies beyond the first or the last one is left out.
BODY response_norm_lanes(__local const response_norm_t *d, __global float *dst, __global const float *src, int group,
                         int groups) {
    const bool is_wide = d->c_count % 4 == 0 && d->c_begin % 4 == 0 && IS_ALIGNED(d->dst) && SUITS_LANES(d->src);
    const int lanes = is_wide ? 4 : 1, step = d->src.c, channels = d->channels;
    FOR_EACH_ITEM(d, lanes)
        __global const float *from = src + INDEX(d->src, n, h, w, channel);
        float4 sum = (float4)(0.0f);
        for (int k = -d->below; k <= d->above; ++k) {
            const float4 value = load_lanes(from + k * step, step, -(channel + k), min(lanes, channels - (channel + k)));
            sum = fma(value, value, sum);
        }
        const float4 base = fma(sum, (float4)(d->share), (float4)(d->bias));
        const float4 value = load_values(from, step, lanes);
        store_values(value * exponential_float4(-d->power * logarithm_float4(base)),
                     dst + INDEX(d->dst, n, h, w, channel), lanes);
    END_ITEMS
}

typedef struct {
    place_t dst, src;
    int taps;
    BOX_FIELDS;
    int out_height, out_width, is_linear;
} resize2d_t;
#define BLEND(a, b, weight) fma(b, (float4)(weight), (a) * (float4)(1.0f - (weight)))

// Taps lie as [3, out_height + out_width]: low, high and the weight of high, of each row, then of each column.
BODY resize2d_lanes(__local const resize2d_t *d, __global float *dst, __global const float *src,
                    __global const float *taps, int group, int groups) {
    const bool is_wide = d->c_count % 4 == 0 && d->c_begin % 4 == 0 && IS_ALIGNED(d->dst) && SUITS_LANES(d->src);
    const int lanes = is_wide ? 4 : 1, taps_step = d->out_height + d->out_width, step = d->src.c;
    FOR_EACH_ITEM(d, lanes)
        __global const float *row = taps + h, *column = taps + d->out_height + w;
        const int top = row[0], left = column[0];
        __global const float *from = src + INDEX(d->src, n, top, left, channel);
        float4 value = load_values(from, step, lanes);
        if (d->is_linear) {
            const int below = ((int)row[taps_step] - top) * d->src.h, right = ((int)column[taps_step] - left) * d->src.w;
            const float x = column[2 * taps_step], y = row[2 * taps_step];
            const float4 beside = load_values(from + right, step, lanes);
            const float4 under = load_values(from + below, step, lanes);
            const float4 across = load_values(from + below + right, step, lanes);
            value = BLEND(BLEND(value, beside, x), BLEND(under, across, x), y);
        }
        store_values(value, dst + INDEX(d->dst, n, h, w, channel), lanes);
    END_ITEMS
}
