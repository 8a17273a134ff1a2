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

typedef struct {
    place_t dst, src, residual;
    int weights;
    int n_begin, n_count, row_begin, row_end, channel_begin, channel_end, panel_begin, panels, depth, is_vector;
    EPILOGUE_FIELDS;
} linear_t;
#define LINEAR_BUFFERS \
    __global float *dst, __global const float *src, __global const float *residual, __global const float *weights
#define LINEAR_COLUMNS 8
#define LINEAR_WIDTH (GROUP / LINEAR_COLUMNS)
#define LINEAR_ROWS 8
// Local memory that it takes, in floats.
#define LINEAR_FLOATS (GROUP * LINEAR_COLUMNS)

// Adds for each column of a panel what the work-items of a group have written, [LINEAR_COLUMNS, GROUP]: the sum is that of
// the first work-item of the column's line.
static inline float add_panel(__local float *memory) {
    const int column = get_local_id(0) / LINEAR_WIDTH, lane = get_local_id(0) % LINEAR_WIDTH;
    GROUP_BARRIER
    float sum = 0.0f;
    UNROLL for (int i = 0; i < LINEAR_COLUMNS; ++i) sum += memory[column * GROUP + i * LINEAR_WIDTH + lane];
    memory[column * GROUP + lane] = sum;
    GROUP_BARRIER
    if (lane == 0)
        for (int i = 1; i < LINEAR_WIDTH; ++i) sum += memory[column * GROUP + i];
    return sum;
}

// Stores a sum of a column through the epilogue.
static inline void store_linear(__local const linear_t *d, float sum, int n, int w, int channel, __global float *dst,
                                __global const float *residual) {
    float4 other = (float4)(0.0f);
    if (d->residual_order != RESIDUAL_NONE) other.x = residual[INDEX(d->residual, n, 0, w, channel)];
    dst[INDEX(d->dst, n, 0, w, channel)] =
        finish_value((float4)(sum, 0.0f, 0.0f, 0.0f), other, d->residual_order, d->activation, d->alpha, d->beta).x;
}

// Reads a vector of four of the source, and of each column of a panel; zeros behind the last one.
#define READ_TURN(value, factors, place, turn)                                                                   \
    {                                                                                                            \
        const int k = ((turn) * GROUP + lid) * 4;                                                                \
        const bool ok = k < depth;                                                                               \
        __global const float *column_0 = weights + (size_t)(place) * (LINEAR_COLUMNS * (padded + 1)) + LINEAR_COLUMNS; \
        UNROLL for (int c = 0; c < LINEAR_COLUMNS; ++c)                                                          \
            factors[c] = ok ? GLOBAL_4(column_0 + c * padded + k) : (float4)(0.0f);                              \
        value = !ok ? (float4)(0.0f) : is_aligned ? GLOBAL_4(from + k) : load_lanes(from + k * d->src.c, d->src.c, 0, depth - k); \
    }

// One row times a matrix, as fast as memory delivers the matrix: a work-item takes every 256th vector of four of all
// columns of a panel, and reads the next vectors, of the next panel, too, before it multiplies.
BODY linear_vector(__local const linear_t *d, LINEAR_BUFFERS, int group, int groups, __local float *memory) {
    const int lid = get_local_id(0), depth = d->depth, padded = (depth + 3) / 4 * 4, panels = d->panels;
    const int turns = (depth + GROUP * 4 - 1) / (GROUP * 4), column = lid / LINEAR_WIDTH, lane = lid % LINEAR_WIDTH;
    const bool is_aligned = IS_ALIGNED(d->src) && depth % 4 == 0;
    __global const float *from = src + INDEX(d->src, d->n_begin, 0, d->row_begin, 0);
    float4 value, factors[LINEAR_COLUMNS];
#if PTX
    float4 next_value = (float4)(0.0f), next_factors[LINEAR_COLUMNS];
    if (group < panels && d->n_count * (d->row_end - d->row_begin) > 0) READ_TURN(next_value, next_factors, group, 0)
#endif
    for (int place = group; place < panels; place += groups) {
        float4 sums[LINEAR_COLUMNS];
        UNROLL for (int c = 0; c < LINEAR_COLUMNS; ++c) sums[c] = (float4)(0.0f);
        for (int turn = 0; turn < turns; ++turn) {
#if PTX
            value = next_value;
            UNROLL for (int c = 0; c < LINEAR_COLUMNS; ++c) factors[c] = next_factors[c];
            if (turn + 1 < turns) {
                READ_TURN(next_value, next_factors, place, turn + 1)
            } else if (place + groups < panels) {
                READ_TURN(next_value, next_factors, place + groups, 0)
            }
#else
            READ_TURN(value, factors, place, turn)
#endif
            UNROLL for (int c = 0; c < LINEAR_COLUMNS; ++c) sums[c] = fma(value, factors[c], sums[c]);
        }
        GROUP_BARRIER
        UNROLL for (int c = 0; c < LINEAR_COLUMNS; ++c)
            memory[c * GROUP + lid] = (sums[c].x + sums[c].y) + (sums[c].z + sums[c].w);
        const float sum = add_panel(memory);
        const int channel = (d->panel_begin + place) * LINEAR_COLUMNS + column;
        if (lane == 0 && channel >= d->channel_begin && channel < d->channel_end) {
            const float bias = weights[(size_t)place * (LINEAR_COLUMNS * (padded + 1)) + column];
            store_linear(d, sum + bias, d->n_begin, d->row_begin, channel, dst, residual);
        }
    }
}

// Few rows: a work-item takes every 256th vector of four of all columns of a panel, for all of LINEAR_ROWS rows. Weights
// lie as [panel, 8 + 8 * K], the biases of a panel's columns, then the columns, zeros behind the last row up to a multiple
// of 4.
BODY linear_matrix(__local const linear_t *d, LINEAR_BUFFERS, int group, int groups, __local float *memory) {
    const int lid = get_local_id(0), column = lid / LINEAR_WIDTH, lane = lid % LINEAR_WIDTH;
    const int depth = d->depth, padded = (depth + 3) / 4 * 4, rows = d->row_end - d->row_begin;
    const bool is_aligned = IS_ALIGNED(d->src) && depth % 4 == 0;
    for (int place = group; place < d->panels; place += groups) {
        __global const float *bias = weights + (size_t)place * (LINEAR_COLUMNS * (padded + 1));
        const int channel = (d->panel_begin + place) * LINEAR_COLUMNS + column;
        for (int first = 0; first < d->n_count * rows; first += LINEAR_ROWS) {
            const int count = min(LINEAR_ROWS, d->n_count * rows - first);
            float sums[LINEAR_ROWS * LINEAR_COLUMNS];
            int at[LINEAR_ROWS];
            UNROLL for (int r = 0; r < LINEAR_ROWS; ++r) {
                const int row = first + min(r, count - 1), n = row / rows;
                UNROLL for (int c = 0; c < LINEAR_COLUMNS; ++c) sums[r * LINEAR_COLUMNS + c] = 0.0f;
                at[r] = INDEX(d->src, d->n_begin + n, 0, d->row_begin + row - n * rows, 0);
            }
            for (int k = lid * 4; k < depth; k += GROUP * 4) {
                float4 factors[LINEAR_COLUMNS];
                UNROLL for (int c = 0; c < LINEAR_COLUMNS; ++c)
                    factors[c] = GLOBAL_4(bias + LINEAR_COLUMNS + c * padded + k);
                UNROLL for (int r = 0; r < LINEAR_ROWS; ++r) {
                    __global const float *from = src + at[r] + k * d->src.c;
                    const float4 value = is_aligned ? GLOBAL_4(from) : load_lanes(from, d->src.c, 0, depth - k);
                    UNROLL for (int c = 0; c < LINEAR_COLUMNS; ++c) {
                        const float sum = fma(value.x, factors[c].x, sums[r * LINEAR_COLUMNS + c]);
                        sums[r * LINEAR_COLUMNS + c] =
                            fma(value.w, factors[c].w, fma(value.z, factors[c].z, fma(value.y, factors[c].y, sum)));
                    }
                }
            }
            UNROLL for (int r = 0; r < LINEAR_ROWS; ++r) {
                GROUP_BARRIER
                UNROLL for (int c = 0; c < LINEAR_COLUMNS; ++c) memory[c * GROUP + lid] = sums[r * LINEAR_COLUMNS + c];
                const float sum = add_panel(memory);
                const bool is_wanted = r < count && channel >= d->channel_begin && channel < d->channel_end;
                if (lane == 0 && is_wanted) {
                    const int n = (first + r) / rows, w = d->row_begin + first + r - n * rows;
                    store_linear(d, sum + bias[column], d->n_begin + n, w, channel, dst, residual);
                }
            }
        }
    }
}

BODY linear_rows(__local const linear_t *d, LINEAR_BUFFERS, int group, int groups, __local float *memory) {
    if (d->is_vector)
        linear_vector(d, dst, src, residual, weights, group, groups, memory);
    else
        linear_matrix(d, dst, src, residual, weights, group, groups, memory);
}
