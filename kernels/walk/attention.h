// The body of attention_tile__buffer for one size of tile: ATTENTION_NAME(BM). Include this file once for each, with BM
// defined; it undefines BM.
//
// A tile is BM rows of queries of one head. Keys and values come ATTENTION_KEYS at once to local memory, keys while values
// are added up, and values while keys are met. A work-item has the scores of BM/16 rows, 16 apart, with two keys, and the
// sums of those rows over four channels, or twice four. Where a tile of keys has a greater score than all before, sums so far
// are scaled down. Each sum is one chain of fma, its index ascending: bits depend neither on the tile nor on how operands lie.
#include "walk/lanes.h"

#ifndef CODL_ATTENTION_H
#define CODL_ATTENTION_H
typedef struct {
    place_t dst, query, key, value, mask;
    int n_begin, n_count, row_begin, row_end, channel_begin, channel_end, keys, depth, width, has_mask;
    float scale;
} attention_t;
#define ATTENTION_BUFFERS                                                                    \
    __global float *dst, __global const float *query, __global const float *key, __global const float *value, \
        __global const float *mask
#define ATTENTION_NAME_(m) attention_tile_##m
#define ATTENTION_NAME(m) ATTENTION_NAME_(m)
#define ATTENTION_KEYS 32
// Of a row of weights, and of a row of the greatest scores that each work-item has, in local memory.
#define WEIGHTS_LINE (ATTENTION_KEYS + 4)
#define GREATEST_LINE 20
// Local memory of heads of 128 channels by 16 rows, in floats; 32 rows of 64 channels take less.
#define ATTENTION_FLOATS 11456

// Copies `count` rows of `channels` from row `first` on, by four or one by one; zeros beyond `rows`, and beside [low, high).
static inline void copy_rows(__local float *to, int line, __global const float *from, int step, int count, int rows,
                             int channels, int low, int high, bool is_wide) {
    const int fours = (channels + 3) / 4;
    for (int i = get_local_id(0); i < count * fours; i += GROUP) {
        const int row = i / fours, c = (i - row * fours) * 4;
        __local float *into = to + row * line + c;
        if (is_wide) {
            const bool ok = row < rows && c >= low && c < high;
            COPY_16(into, from + (ok ? row * step + c : low), ok)
        } else {
            for (int e = 0; e < 4; ++e) {
                const bool ok = row < rows && c + e >= low && c + e < high;
                COPY_4(into + e, from + (ok ? row * step + c + e : low), ok)
            }
        }
    }
}
#define ATTENTION_SCORES(lane)                                                                   \
    UNROLL for (int i = 0; i < RM; ++i)                                                          \
        UNROLL for (int j = 0; j < 2; ++j) scores[i * 2 + j] = fma(a[i].lane, b[j].lane, scores[i * 2 + j]);
#define ATTENTION_VALUES(e, lane)                                                                \
    {                                                                                            \
        const float4 near = LOCAL_4(values + (k + e) * v_line + near_channel);                   \
        UNROLL for (int i = 0; i < RM; ++i) {                                                    \
            totals[i] += a[i].lane;                                                              \
            sums[i] = fma((float4)(a[i].lane), near, sums[i]);                                   \
        }                                                                                        \
        if (is_broad) {                                                                          \
            const float4 far = LOCAL_4(values + (k + e) * v_line + far_channel);                 \
            UNROLL for (int i = 0; i < RM; ++i) far_sums[i] = fma((float4)(a[i].lane), far, far_sums[i]); \
        }                                                                                        \
    }

// Stores the channels of [low, high) among four.
static inline void store_channels(float4 value, __global float *to, int channel, int low, int high, bool is_wide) {
    if (is_wide && channel >= low && channel + 4 <= high) {
        STORE_4(value, to + channel);
        return;
    }
    if (channel >= low && channel < high) to[channel] = value.x;
    if (channel + 1 >= low && channel + 1 < high) to[channel + 1] = value.y;
    if (channel + 2 >= low && channel + 2 < high) to[channel + 2] = value.z;
    if (channel + 3 >= low && channel + 3 < high) to[channel + 3] = value.w;
}
#endif

#define RM (BM / 16)
#define ISSUE_KEYS(start)                                                                        \
    if ((start) < keys)                                                                          \
        copy_rows(keys_at, k_line, key + INDEX(d->key, n, h, start, 0), d->key.w, ATTENTION_KEYS, keys - (start), depth, 0, \
                  depth, has_wide_keys);                                                         \
    COMMIT_COPIES

BODY ATTENTION_NAME(BM)(__local const attention_t *d, ATTENTION_BUFFERS, int group, int groups, __local float *memory) {
    // Which rows and keys a work-item has, as in walk/matmul_tile.h.
    const int lid = get_local_id(0), tx = lid >> 1 & 7 | lid >> 2 & 8, ty = lid & 1 | lid >> 3 & 2 | lid >> 6 << 2;
    const int keys = d->keys, depth = d->depth, width = d->width, first_head = d->channel_begin / width;
    const int heads = (d->channel_end - 1) / width + 1 - first_head;
    const int row_tiles = (d->row_end - d->row_begin + BM - 1) / BM;
    const int k_line = (depth + 3) / 4 * 4 + 4, v_line = (width + 3) / 4 * 4 + 4;
    __local float *queries = memory, *keys_at = queries + BM * k_line, *values = keys_at + ATTENTION_KEYS * k_line;
    __local float *weights = values + ATTENTION_KEYS * v_line, *greatest = weights + BM * WEIGHTS_LINE;
    const bool has_wide_queries = IS_ALIGNED(d->query) && depth % 4 == 0;
    const bool has_wide_keys = IS_ALIGNED(d->key) && depth % 4 == 0;
    const bool has_whole_fours = width % 4 == 0 && ((d->channel_begin | d->channel_end) & 3) == 0;
    const bool has_wide_values = IS_ALIGNED(d->value) && has_whole_fours, is_wide = IS_ALIGNED(d->dst) && has_whole_fours;
    const bool is_broad = width > 64;
    const int near_channel = tx * 4 < width ? tx * 4 : 0, far_channel = tx * 4 + 64 < width ? tx * 4 + 64 : 0;
    for (int place = group; place < d->n_count * heads * row_tiles; place += groups) {
        const int matrix = place / row_tiles, image = matrix / heads, n = d->n_begin + image;
        const int h = first_head + matrix - image * heads, first_row = d->row_begin + (place - matrix * row_tiles) * BM;
        const int rows = d->row_end - first_row;
        const int low = max(d->channel_begin - h * width, 0), high = min(d->channel_end - h * width, width);
        float best[RM], totals[RM], scores[RM * 2];
        float4 sums[RM], far_sums[RM];
        UNROLL for (int i = 0; i < RM; ++i) {
            best[i] = -INFINITY, totals[i] = 0.0f;
            sums[i] = far_sums[i] = (float4)(0.0f);
        }
        GROUP_BARRIER
        copy_rows(queries, k_line, query + INDEX(d->query, n, h, first_row, 0), d->query.w, BM, rows, depth, 0, depth,
                  has_wide_queries);
        ISSUE_KEYS(0)
        for (int start = 0; start < keys; start += ATTENTION_KEYS) {
            AWAIT_COPIES(0)
            GROUP_BARRIER
            copy_rows(values, v_line, value + INDEX(d->value, n, 0, start, h * width), d->value.w, ATTENTION_KEYS,
                      keys - start, width, low, high, has_wide_values);
            COMMIT_COPIES
            UNROLL for (int i = 0; i < RM * 2; ++i) scores[i] = 0.0f;
            for (int k = 0; k < depth; k += 4) {
                float4 a[RM], b[2];
                UNROLL for (int i = 0; i < RM; ++i) a[i] = LOCAL_4(queries + (ty + 16 * i) * k_line + k);
                UNROLL for (int j = 0; j < 2; ++j) b[j] = LOCAL_4(keys_at + (tx + 16 * j) * k_line + k);
                ATTENTION_SCORES(x)
                ATTENTION_SCORES(y)
                ATTENTION_SCORES(z)
                ATTENTION_SCORES(w)
            }
            UNROLL for (int i = 0; i < RM; ++i) {
                UNROLL for (int j = 0; j < 2; ++j) {
                    const int row = first_row + ty + 16 * i, column = start + tx + 16 * j;
                    float score = scores[i * 2 + j] * d->scale;
                    if (d->has_mask && row < d->row_end && column < keys) score += mask[INDEX(d->mask, n, h, row, column)];
                    scores[i * 2 + j] = column < keys ? score : -INFINITY;
                }
                greatest[(ty + 16 * i) * GREATEST_LINE + tx] = fmax(scores[i * 2], scores[i * 2 + 1]);
            }
            GROUP_BARRIER
            ISSUE_KEYS(start + ATTENTION_KEYS)
            UNROLL for (int i = 0; i < RM; ++i) {
                float4 most = (float4)(best[i]);
                UNROLL for (int j = 0; j < 16; j += 4) most = fmax(most, LOCAL_4(greatest + (ty + 16 * i) * GREATEST_LINE + j));
                const float now = fmax(fmax(most.x, most.y), fmax(most.z, most.w)), base = now == -INFINITY ? 0.0f : now;
                const float scale = EXPONENTIAL(float, best[i] - base);
                best[i] = now, totals[i] *= scale, sums[i] *= scale, far_sums[i] *= scale;
                UNROLL for (int j = 0; j < 2; ++j)
                    weights[(ty + 16 * i) * WEIGHTS_LINE + tx + 16 * j] = EXPONENTIAL(float, scores[i * 2 + j] - base);
            }
            AWAIT_COPIES(1)
            GROUP_BARRIER
            for (int k = 0; k < ATTENTION_KEYS; k += 4) {
                float4 a[RM];
                UNROLL for (int i = 0; i < RM; ++i) a[i] = LOCAL_4(weights + (ty + 16 * i) * WEIGHTS_LINE + k);
                ATTENTION_VALUES(0, x)
                ATTENTION_VALUES(1, y)
                ATTENTION_VALUES(2, z)
                ATTENTION_VALUES(3, w)
            }
        }
        AWAIT_COPIES(0)
        UNROLL for (int i = 0; i < RM; ++i) {
            const int row = first_row + ty + 16 * i;
            if (row >= d->row_end) continue;
            const float share = 1.0f / totals[i];
            __global float *to = dst + INDEX(d->dst, n, 0, row, h * width);
            store_channels(sums[i] * share, to, tx * 4, low, high, is_wide);
            if (is_broad) store_channels(far_sums[i] * share, to, tx * 4 + 64, low, high, is_wide);
        }
    }
}
#undef ISSUE_KEYS
#undef BM
#undef RM
