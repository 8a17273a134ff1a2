// The bodies of the first and the last stage of conv2d_winograd_tile__buffer, for one size of tile: inputs to points, and
// products at points to outputs. Include this file once for each size, with TILE defined; it undefines it.
//
// A work-item takes one tile and one channel; neighbours take neighbouring channels. The points are those of
// common/winograd_tile.h.
#include "walk/winograd.h"

#define EDGE (TILE + 2)
#define COLUMN_OF(k) lines[k][j]
#define ROW_OF(k) lines[i][k]

// One line of inputs to its points, in place; one line of products to its outputs, in place.
#if TILE == 4
#define TO_POINTS(L)                                                                                            \
    {                                                                                                           \
        const float even_1 = fma(L(2), -2.0f, L(4)), odd_1 = fma(L(1), -2.0f, L(3));                            \
        const float even_2 = fma(L(2), -0.5f, L(4)), odd_2 = fma(L(1), -0.5f, L(3));                            \
        const float first = fma(L(2), -2.5f, L(0) + L(4)), last = fma(L(3), -2.5f, L(1) + L(5));                \
        L(0) = first;                                                                                           \
        L(1) = fma(odd_1, 0.70710678f, even_1);                                                                 \
        L(2) = fma(odd_1, -0.70710678f, even_1);                                                                \
        L(3) = fma(odd_2, 1.41421356f, even_2);                                                                 \
        L(4) = fma(odd_2, -1.41421356f, even_2);                                                                \
        L(5) = last;                                                                                            \
    }
#define TO_OUTPUTS(L)                                                                                           \
    {                                                                                                           \
        const float sum_1 = L(1) + L(2), difference_1 = (L(1) - L(2)) * 0.70710678f;                            \
        const float sum_2 = L(3) + L(4), difference_2 = (L(3) - L(4)) * 1.41421356f;                            \
        L(0) = L(0) + sum_1 + sum_2;                                                                            \
        L(1) = difference_1 + difference_2;                                                                     \
        L(2) = fma(sum_1, 0.5f, sum_2 * 2.0f);                                                                  \
        L(3) = fma(difference_1, 0.5f, fma(difference_2, 2.0f, L(5)));                                          \
    }
#define OUTPUTS_OF_ROW (float4)(lines[i][0], lines[i][1], lines[i][2], lines[i][3])
#else
#define TO_POINTS(L)                                                                                            \
    {                                                                                                           \
        const float first = L(0) - L(2), second = L(1) + L(2), third = L(2) - L(1), last = L(3) - L(1);         \
        L(0) = first, L(1) = second, L(2) = third, L(3) = last;                                                 \
    }
#define TO_OUTPUTS(L)                                                                                           \
    {                                                                                                           \
        const float first = L(0) + L(1) + L(2), second = L(1) - L(2) + L(3);                                    \
        L(0) = first, L(1) = second;                                                                            \
    }
#define OUTPUTS_OF_ROW (float4)(lines[i][0], lines[i][1], 0.0f, 0.0f)
#endif

// Where a tile lies in the whole tensor: first image, row and column of it.
#define FIND_TILE(row)                                                                                          \
    const int image = (row) / d->tiles, tile = (row) - image * d->tiles;                                        \
    const int tile_row = tile / d->row_tiles, n = d->image_begin + image;                                       \
    const int h = (d->row_begin / TILE + tile_row) * TILE;                                                      \
    const int w = (d->col_begin / TILE + tile - tile_row * d->row_tiles) * TILE;

BODY WINOGRAD_NAME(inputs, TILE)(__local const winograd_t *d, __global const float *src, __global float *scratch,
                                 int group, int groups) {
    const int rows = d->images * d->tiles, depth = d->depth, items = rows * depth, point_floats = rows * depth;
    const int step_h = d->src.h, step_w = d->src.w, in_h = d->in_h, in_w = d->in_w;
    for (int item = group * GROUP + get_local_id(0); item < items; item += groups * GROUP) {
        const int row = item / depth, channel = item - row * depth;
        FIND_TILE(row)
        const int y = h - d->pad_h, x = w - d->pad_w, from = INDEX(d->src, n, y, x, channel);
        const bool is_channel = channel < d->channels;
        float lines[EDGE][EDGE];
        UNROLL for (int i = 0; i < EDGE; ++i)
            UNROLL for (int j = 0; j < EDGE; ++j) {
                const bool ok = is_channel && (uint)(y + i) < (uint)in_h && (uint)(x + j) < (uint)in_w;
                lines[i][j] = ok ? src[from + i * step_h + j * step_w] : 0.0f;
            }
        UNROLL for (int j = 0; j < EDGE; ++j) TO_POINTS(COLUMN_OF)
        __global float *to = scratch + item;
        UNROLL for (int i = 0; i < EDGE; ++i) {
            TO_POINTS(ROW_OF)
            UNROLL for (int j = 0; j < EDGE; ++j) to[(i * EDGE + j) * point_floats] = lines[i][j];
        }
    }
}

BODY WINOGRAD_NAME(outputs, TILE)(__local const winograd_t *d, __global float *dst, __global const float *residual,
                                  __global const float *weights, __global const float *scratch, int group,
                                  int groups) {
    const int rows = d->images * d->tiles, panel_channels = d->panel_channels, width = d->panels * panel_channels;
    const int point_floats = rows * width, channels = d->channel_end - d->channel_begin, items = rows * channels;
    const int panel_floats = panel_channels * (1 + EDGE * EDGE * d->depth), parts = d->parts;
    const bool has_residual = d->residual_order != RESIDUAL_NONE;
    __global const float *products = scratch + (size_t)(EDGE * EDGE) * rows * d->depth;
    for (int item = group * GROUP + get_local_id(0); item < items; item += groups * GROUP) {
        const int row = item / channels, channel = d->channel_begin + item - row * channels;
        const int place = channel - d->panel_begin * panel_channels, panel = place / panel_channels;
        FIND_TILE(row)
        float lines[EDGE][EDGE];
        UNROLL for (int i = 0; i < EDGE; ++i)
            UNROLL for (int j = 0; j < EDGE; ++j)
                lines[i][j] = products[(i * EDGE + j) * point_floats + row * width + place];
        for (int part = 1; part < parts; ++part) {
            __global const float *others = products + (size_t)part * (EDGE * EDGE) * point_floats + row * width + place;
            UNROLL for (int i = 0; i < EDGE; ++i)
                UNROLL for (int j = 0; j < EDGE; ++j) lines[i][j] += others[(i * EDGE + j) * point_floats];
        }
        const float bias = weights[(size_t)panel * panel_floats + place - panel * panel_channels];
        UNROLL for (int j = 0; j < EDGE; ++j) TO_OUTPUTS(COLUMN_OF)
        const int first = max(0, d->col_begin - w), last = min(TILE, d->col_end - w);
        UNROLL for (int i = 0; i < TILE; ++i) {
            TO_OUTPUTS(ROW_OF)
            if (h + i >= d->row_begin && h + i < d->row_end) {
                float4 other = (float4)(0.0f);
                if (has_residual) {
                    __global const float *r = residual + INDEX(d->residual, n, h + i, w, channel);
                    if (first <= 0 && last > 0) other.x = r[0];
                    if (first <= 1 && last > 1) other.y = r[d->residual.w];
                    if (first <= 2 && last > 2) other.z = r[2 * d->residual.w];
                    if (first <= 3 && last > 3) other.w = r[3 * d->residual.w];
                }
                const float4 v = finish_value(OUTPUTS_OF_ROW + (float4)(bias), other, d->residual_order, d->activation,
                                              d->alpha, d->beta);
                __global float *to = dst + INDEX(d->dst, n, h + i, w, channel);
                if (first <= 0 && last > 0) to[0] = v.x;
                if (first <= 1 && last > 1) to[d->dst.w] = v.y;
                if (first <= 2 && last > 2) to[2 * d->dst.w] = v.z;
                if (first <= 3 && last > 3) to[3 * d->dst.w] = v.w;
            }
        }
    }
}
#undef TILE
#undef EDGE
#undef COLUMN_OF
#undef ROW_OF
#undef TO_POINTS
#undef TO_OUTPUTS
#undef OUTPUTS_OF_ROW
#undef FIND_TILE
