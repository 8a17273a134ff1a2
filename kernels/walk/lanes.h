// Bodies whose work-items take one to four neighbouring channels of an output each: four where all operands allow it.
#ifndef CODL_LANES_H
#define CODL_LANES_H

#define VECTOR 4
#include "common/activate.h"
#include "common/group.h"
#include "common/plain.h"
#include "common/tensor.h"

// First coordinates and lengths of a box of outputs.
#define BOX_FIELDS int n_begin, h_begin, w_begin, c_begin, n_count, h_count, w_count, c_count
#define EPILOGUE_FIELDS       \
    int residual_order, activation; \
    float alpha, beta

// Out of line: its many cases would be in the walker once for each body.
static __attribute__((noinline)) float4 activate_any(float4 value, int activation, float alpha, float beta) {
    return ACTIVATE(float4, value);
}

static inline float4 finish_value(float4 value, float4 other, int residual_order, int activation, float alpha,
                                  float beta) {
    if (residual_order == RESIDUAL_BEFORE) value += other;
    if (IS_PLAIN_ACTIVATION) {
        PLAIN_BOUNDS
        BOUND(value)
    } else {
        value = activate_any(value, activation, alpha, beta);
    }
    if (residual_order == RESIDUAL_AFTER) value += other;
    return value;
}

// Four values a step apart, or one and zeros.
static inline float4 load_values(__global const float *from, int step, int lanes) {
    if (lanes == 1) return (float4)(from[0], 0.0f, 0.0f, 0.0f);
    if (step == 1) return GLOBAL_4(from);
    return (float4)(from[0], from[step], from[2 * step], from[3 * step]);
}
static inline void store_values(float4 value, __global float *to, int lanes) {
    if (lanes == 1)
        to[0] = value.x;
    else
        STORE_4(value, to);
}
// Whether a source suits work-items of four channels: aligned, or not dense along channels.
#define SUITS_LANES(place) ((place).c != 1 || IS_ALIGNED(place))

// for (each item of the box at n, h, w, channel, its channels `lanes` at once)
#define FOR_EACH_ITEM(d, lanes)                                                                              \
    const int line_items = (d)->c_count / (lanes);                                                           \
    const int items = (d)->n_count * (d)->h_count * (d)->w_count * line_items;                               \
    for (int item = group * GROUP + get_local_id(0); item < items; item += groups * GROUP) {                 \
        const int pixel = item / line_items, line = pixel / (d)->w_count, image = line / (d)->h_count;       \
        const int channel = (d)->c_begin + (item - pixel * line_items) * (lanes);                            \
        const int w = (d)->w_begin + pixel - line * (d)->w_count;                                            \
        const int h = (d)->h_begin + line - image * (d)->h_count, n = (d)->n_begin + image;
#define END_ITEMS }

// Taps k of a window with 0 <= start + k * dilation < length.
typedef struct {
    int begin, end;
} span_t;
static inline span_t span_in(int start, int window, int dilation, int length) {
    const int begin = start < 0 ? min(window, (dilation - 1 - start) / dilation) : 0;
    const bool is_cut = start + (window - 1) * dilation >= length;
    const int end = is_cut ? (length - start + dilation - 1) / dilation : window;
    const span_t span = {begin, max(begin, end)};
    return span;
}

#endif
