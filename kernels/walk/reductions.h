// The bodies of sum_lanes__buffer and linear_rows__buffer.
#include "walk/lanes.h"

typedef struct {
    place_t dst, src;
    BOX_FIELDS;
    int length;
    float scale;
    EPILOGUE_FIELDS;
} sum_t;

// One chain of additions an output, w ascending; so many values are read before the first is added.
#define AHEAD 8
BODY sum_lanes(__local const sum_t *d, __global float *dst, __global const float *src, int group, int groups) {
    const bool is_wide =
        d->c_count % 4 == 0 && d->c_begin % 4 == 0 && IS_ALIGNED(d->dst) && SUITS_LANES(d->src);
    const int lanes = is_wide ? 4 : 1, length = d->length;
    FOR_EACH_ITEM(d, lanes)
        __global const float *from = src + INDEX(d->src, n, h, w, channel);
        float4 sum = (float4)(0.0f);
        for (int k = 0; k < length; k += AHEAD) {
            float4 values[AHEAD];
            UNROLL for (int i = 0; i < AHEAD; ++i)
                values[i] = load_values(from + min(k + i, length - 1) * d->src.w, d->src.c, lanes);
            UNROLL for (int i = 0; i < AHEAD; ++i)
                if (k + i < length) sum += values[i];
        }
        store_values(finish_value(sum * d->scale, sum, RESIDUAL_NONE, d->activation, d->alpha, d->beta),
                     dst + INDEX(d->dst, n, h, w, channel), lanes);
    END_ITEMS
}

// Adds a value of each of the `width` work-items of a line, for all lines of a group at once; halves are added to halves.
static inline float add_line(float value, int width, __local float *memory) {
    const int lid = get_local_id(0);
    GROUP_BARRIER
    memory[lid] = value;
    GROUP_BARRIER
    for (int half_width = width / 2; half_width > 0; half_width /= 2) {
        if (lid % width < half_width) memory[lid] += memory[lid + half_width];
        GROUP_BARRIER
    }
    return memory[lid / width * width];
}

typedef struct {
    place_t dst, src, residual;
    int weights;
    int n_begin, n_count, row_begin, row_end, channel_begin, channel_end, panel_begin, panels, depth;
    EPILOGUE_FIELDS;
} linear_t;
#define LINEAR_BUFFERS \
    __global float *dst, __global const float *src, __global const float *residual, __global const float *weights
#define LINEAR_COLUMNS 8
#define LINEAR_WIDTH (GROUP / LINEAR_COLUMNS)
#define LINEAR_ROWS 4

// A line of work-items sums a column: each of them every 32nd vector of four, then all of the line. Weights lie as
// [panel, 8 + 8 * K], the biases of a panel's columns, then the columns, zeros behind the last row up to a multiple of 4.
BODY linear_rows(__local const linear_t *d, LINEAR_BUFFERS, int group, int groups, __local float *memory) {
    const int lid = get_local_id(0), column = lid / LINEAR_WIDTH, lane = lid % LINEAR_WIDTH;
    const int depth = d->depth, padded = (depth + 3) / 4 * 4, rows = d->row_end - d->row_begin;
    const bool is_aligned = IS_ALIGNED(d->src) && depth % 4 == 0;
    for (int place = group; place < d->panels; place += groups) {
        __global const float *bias = weights + (size_t)place * (LINEAR_COLUMNS * (padded + 1));
        __global const float *weight = bias + LINEAR_COLUMNS + column * padded;
        const int channel = (d->panel_begin + place) * LINEAR_COLUMNS + column;
        for (int first = 0; first < d->n_count * rows; first += LINEAR_ROWS) {
            float4 sums[LINEAR_ROWS];
            int at[LINEAR_ROWS];
            for (int r = 0; r < LINEAR_ROWS; ++r) {
                const int row = min(first + r, d->n_count * rows - 1), n = row / rows;
                sums[r] = (float4)(0.0f);
                at[r] = INDEX(d->src, d->n_begin + n, 0, d->row_begin + row - n * rows, 0);
            }
            if (is_aligned && d->n_count * rows == 1) {
                _Pragma("unroll 8") for (int k = lane * 4; k < depth; k += LINEAR_WIDTH * 4)
                    sums[0] = fma(GLOBAL_4(src + at[0] + k), GLOBAL_4(weight + k), sums[0]);
            } else {
                for (int k = lane * 4; k < depth; k += LINEAR_WIDTH * 4) {
                    const float4 factor = GLOBAL_4(weight + k);
                    for (int r = 0; r < LINEAR_ROWS; ++r) {
                        __global const float *from = src + at[r] + k * d->src.c;
                        const float4 value = is_aligned ? GLOBAL_4(from) : load_lanes(from, d->src.c, 0, depth - k);
                        sums[r] = fma(value, factor, sums[r]);
                    }
                }
            }
            for (int r = 0; r < LINEAR_ROWS; ++r) {
                const float sum = add_line((sums[r].x + sums[r].y) + (sums[r].z + sums[r].w), LINEAR_WIDTH, memory);
                const bool is_wanted = first + r < d->n_count * rows && channel >= d->channel_begin;
                if (lane == 0 && is_wanted && channel < d->channel_end) {
                    const int n = (first + r) / rows, w = d->row_begin + first + r - n * rows;
                    float4 other = (float4)(0.0f);
                    if (d->residual_order != RESIDUAL_NONE)
                        other.x = residual[INDEX(d->residual, d->n_begin + n, 0, w, channel)];
                    dst[INDEX(d->dst, d->n_begin + n, 0, w, channel)] =
                        finish_value((float4)(sum + bias[column], 0.0f, 0.0f, 0.0f), other, d->residual_order,
                                     d->activation, d->alpha, d->beta).x;
                }
            }
        }
    }
}
