// What tiles of all shapes share: the descriptor of conv2d_tile__buffer, and what happens to its sums.
#ifndef CODL_CONV2D_COMMON_H
#define CODL_CONV2D_COMMON_H

#include "walk/lanes.h"
#include "walk/matrix_units.h"

typedef struct {
    place_t dst, src, residual;
    int weights, scratch, arrivals;
    int image_begin, row_begin, col_begin, channel_begin, row_end, col_end, channel_end, panel_begin;
    int images, panels, parts, group_panels, group_outputs, group_inputs;
    int in_h, in_w, kernel_h, kernel_w, stride_h, stride_w, dilation_h, dilation_w, pad_h, pad_w;
    int residual_order, activation;
    float alpha, beta;
} conv2d_tile_t;

#define CONV2D_TILE_BUFFERS                                                                                   \
    __global float *dst, __global const float *src, __global const float *residual, __global const float *weights, \
        __global float *scratch, volatile __global int *arrivals
#define TILE_NAME_(m, n) conv2d_tile_##m##x##n
#define TILE_NAME(m, n) TILE_NAME_(m, n)
// Local memory of the largest ring of stages, in floats.
#define CONV2D_TILE_FLOATS (PRECISION ? 11136 : 10752)

// Which tap and which of its inputs a sum has come to.
typedef struct {
    int ky, kx, ic;
} walk_t;

static inline walk_t go_on(walk_t walk, int by, int inputs, int kernel_w) {
    walk.ic += by;
    if (walk.ic >= inputs) {
        int taps = 1;
        walk.ic -= inputs;
        if (walk.ic >= inputs) {
            taps = walk.ic / inputs;
            walk.ic -= taps * inputs;
            ++taps;
        }
        walk.kx += taps;
        if (walk.kx >= kernel_w) {
            const int lines = walk.kx / kernel_w;
            walk.ky += lines;
            walk.kx -= lines * kernel_w;
        }
    }
    return walk;
}

// One step of K for all sums of a work-item: a[] are its pixels, the channels come from line k + e of the stage.
#define ADD_PRODUCTS(e, lane)                                                                                 \
    {                                                                                                         \
        __local const float *line = b_lines + (k + e) * BN;                                                   \
        float b[TN];                                                                                          \
        if (TN == 2) {                                                                                        \
            const float2 some = *(__local const float2 *)(line + tx * 2);                                                     \
            b[0] = some.x, b[1] = some.y;                                                                     \
        } else {                                                                                              \
            UNROLL for (int j = 0; j + 3 < TN; j += 4) {                                           \
                const float4 some = LOCAL_4(line + COLUMN(j));                                              \
                b[j] = some.x, b[j + 1] = some.y, b[j + 2] = some.z, b[j + 3] = some.w;                       \
            }                                                                                                 \
        }                                                                                                     \
        UNROLL for (int i = 0; i < TM; ++i)                                                        \
            UNROLL for (int j = 0; j < TN; ++j) sums[i * TN + j] = fma(a[i].lane, b[j], sums[i * TN + j]); \
    }

// Parts lie in scratch memory by tile, then by part, then as the work-items hold them, four sums each.
#define SUM_VECTOR(q) (float4)(sums[q], sums[(q) + 1], sums[(q) + 2], sums[(q) + 3])
#define KEEP_PART                                                                                             \
    UNROLL for (int q = 0; q < SUMS; q += 4)                                                       \
        STORE_4(SUM_VECTOR(q), shared + part * (BM * BN) + (q / 4 * GROUP + lid) * 4);
#define ADD_PARTS                                                                                             \
    UNROLL for (int q = 0; q < SUMS; q += 4) {                                                     \
        float4 sum = GLOBAL_4(shared + (q / 4 * GROUP + lid) * 4);                                           \
        for (int other = 1; other < parts; ++other)                                                           \
            sum += GLOBAL_4(shared + other * (BM * BN) + (q / 4 * GROUP + lid) * 4);                         \
        sums[q] = sum.x, sums[q + 1] = sum.y, sums[q + 2] = sum.z, sums[q + 3] = sum.w;                       \
    }

// Returns whether this group is the last of `parts` that comes to a tile; what the others kept is seen then.
static inline bool comes_last(volatile __global int *arrival, int parts, volatile __local int *flag) {
#if PTX
    if (parts == 1) return true;  // compilers for processors copy all that follows a barrier under a condition
#endif
    GROUP_BARRIER_GLOBAL
    if (get_local_id(0) == 0) {
        int before = 0;
        if (parts > 1) {
            DEVICE_FENCE
            before = atomic_inc(arrival);
            if (before == parts - 1) {
                DEVICE_FENCE
                atomic_xchg(arrival, 0);
            }
        }
        *flag = before;
    }
    GROUP_BARRIER_GLOBAL
    return *flag == parts - 1;
}

// Stores up to four neighbouring channels of a pixel, those that are wanted, through the epilogue.
#define STORE_FOUR(value, channel, count)                                                                     \
    {                                                                                                         \
        float4 v = (value) + (count == 4 ? GLOBAL_4(bias + (channel)) : (float4)(vload2(0, bias + (channel)), 0.0f, 0.0f)); \
        const int c = group_first + (channel);                                                                \
        const int low = max(0, d->channel_begin - c), high = min(count, channel_end - c);                     \
        const bool is_whole = low == 0 && high == 4;                                                          \
        float4 other = (float4)(0.0f);                                                                        \
        if (residual_order != RESIDUAL_NONE && low < high) {                                                  \
            __global const float *r = residual + res_at + c * d->residual.c;                                  \
            if (is_whole && has_vectors) {                                                                    \
                other = GLOBAL_4(r);                                                                         \
            } else {                                                                                          \
                if (low <= 0 && high > 0) other.x = r[0];                                                     \
                if (low <= 1 && high > 1) other.y = r[d->residual.c];                                         \
                if (low <= 2 && high > 2) other.z = r[2 * d->residual.c];                                     \
                if (low <= 3 && high > 3) other.w = r[3 * d->residual.c];                                     \
            }                                                                                                 \
        }                                                                                                     \
        if (residual_order == RESIDUAL_BEFORE) v += other;                                                    \
        if (is_plain) {                                                                                       \
            BOUND(v)                                                                                          \
        } else {                                                                                              \
            v = activate_any(v, activation, d->alpha, d->beta);                                               \
        }                                                                                                     \
        if (residual_order == RESIDUAL_AFTER) v += other;                                                     \
        __global float *to = dst + dst_at + c * d->dst.c;                                                     \
        if (is_whole && has_vectors) {                                                                        \
            STORE_4(v, to);                                                                                \
        } else {                                                                                              \
            if (low <= 0 && high > 0) to[0] = v.x;                                                            \
            if (low <= 1 && high > 1) to[d->dst.c] = v.y;                                                     \
            if (low <= 2 && high > 2) to[2 * d->dst.c] = v.z;                                                 \
            if (low <= 3 && high > 3) to[3 * d->dst.c] = v.w;                                                 \
        }                                                                                                     \
    }
#define STORE_SUMS                                                                                            \
    const int residual_order = d->residual_order, activation = d->activation;                                 \
    const float alpha = d->alpha, beta = d->beta;                                                             \
    const bool is_plain = IS_PLAIN_ACTIVATION;                                                                \
    PLAIN_BOUNDS                                                                                              \
    const int group_first = conv_group * d->group_outputs + group_channel;                                    \
    const int channel_end = min(d->channel_end, (conv_group + 1) * d->group_outputs);                         \
    const bool has_vectors = IS_ALIGNED(d->dst) && (group_first & 3) == 0 &&                                  \
                             (residual_order == RESIDUAL_NONE || IS_ALIGNED(d->residual));                    \
    UNROLL for (int i = 0; i < TM; ++i) {                                                          \
        const int pixel = first + ROW(i);                                                                     \
        if (pixel < pixels) {                                                                                 \
            const int line = pixel / columns, n = line / rows;                                                \
            const int oh = d->row_begin + line - n * rows, ow = d->col_begin + pixel - line * columns;        \
            const int dst_at = INDEX(d->dst, d->image_begin + n, oh, ow, 0);                                  \
            const int res_at = INDEX(d->residual, d->image_begin + n, oh, ow, 0);                             \
            if (TN == 2) {                                                                                    \
                STORE_FOUR((float4)(sums[i * TN], sums[i * TN + 1], 0.0f, 0.0f), tx * 2, 2)                   \
            } else {                                                                                          \
                UNROLL for (int j = 0; j + 3 < TN; j += 4)                                         \
                    STORE_FOUR(SUM_VECTOR(i * TN + j), COLUMN(j), 4)                                          \
            }                                                                                                 \
        }                                                                                                     \
    }

#endif
