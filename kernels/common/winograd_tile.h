// Winograd's minimal filtering F(TILE x TILE, PART x PART): the TILE x TILE outputs of a tile from EDGE x EDGE inputs
// by POINTS products instead of (PART * TILE)^2. Along each side the interpolation points are 0, 1, -1 (TILE 2) or
// 0, +-sqrt(1/2), +-sqrt(2) (TILE 3 and 4), and infinity. Filters are transformed when they are packed, or when they
// are read (common/winograd_filters.h).
//
// Windows larger than a part are parts beside each other, the last ones filled up with zeros: each part has inputs of
// its own, and all parts are summed before the products are transformed, as if they were so many channels more.
//
// A tile's numbers come from its own inputs by the same operations wherever the tile lies in a launch. Tiles lie on
// the grid of the whole tensor; outputs outside the launch's box are computed and not stored.
//
// Parameters  TILE outputs along each side (2 3 4), of parts of 4 taps where it is 3, of 3 otherwise; FETCH whether
//             filters are asked for ahead (0 1); those of common/register_tile.h, rows being tiles
// POOL          whether the maxima of 2 x 2 outputs are stored instead of outputs (0 1)
// INPUTS_SPACE, PRODUCTS_SPACE  address spaces of the transformed inputs and of the products
// PRODUCT_STEP  floats from one tile's products to the next one's
#ifndef CODL_WINOGRAD_TILE_H
#define CODL_WINOGRAD_TILE_H

#ifndef TILE
#define TILE 4
#endif
#ifndef FETCH
#define FETCH 0
#endif
#include "common/register_tile.h"

#if TILE == 3
#define PART 4
#else
#define PART 3
#endif
#define EDGE (TILE + PART - 1)
#define POINTS (EDGE * EDGE)
// Floats from one tile's transformed inputs to the next one's; a power of two would crowd into few cache sets.
#define TILE_STEP(depth) ((depth) + 16)
// Channels of all parts of a window, those of each filled up to whole vectors.
#define COUNT_PARTS(kernel_h, kernel_w) ((((kernel_h) + PART - 1) / PART) * (((kernel_w) + PART - 1) / PART))
#define COUNT_DEPTH(channels, kernel_h, kernel_w) \
    (((channels) + VECTOR - 1) / VECTOR * VECTOR * COUNT_PARTS(kernel_h, kernel_w))

#if TILE > 2
#define EACH_EDGE(X) REPEAT_6(X)
#define ROOT_HALF ((VEC)(0.70710678f))
#define ROOT_TWO ((VEC)(1.41421356f))
// One line of inputs d0 .. d5 to its points v0 .. v5.
#define TRANSFORM_INPUTS                                                                   \
    const VEC even_1 = fma(d2, (VEC)(-2.0f), d4), odd_1 = fma(d1, (VEC)(-2.0f), d3);       \
    const VEC even_2 = fma(d2, (VEC)(-0.5f), d4), odd_2 = fma(d1, (VEC)(-0.5f), d3);       \
    const VEC v0 = fma(d2, (VEC)(-2.5f), d0 + d4), v5 = fma(d3, (VEC)(-2.5f), d1 + d5);    \
    const VEC v1 = fma(odd_1, ROOT_HALF, even_1), v2 = fma(odd_1, -ROOT_HALF, even_1);     \
    const VEC v3 = fma(odd_2, ROOT_TWO, even_2), v4 = fma(odd_2, -ROOT_TWO, even_2);
// One line of products m0 .. m5 to its outputs y0 .. y2 or y3.
#define TRANSFORM_PRODUCTS                                                                 \
    const VEC sum_1 = m1 + m2, difference_1 = (m1 - m2) * ROOT_HALF;                       \
    const VEC sum_2 = m3 + m4, difference_2 = (m3 - m4) * ROOT_TWO;                        \
    const VEC y0 = m0 + sum_1 + sum_2, y1 = difference_1 + difference_2;                   \
    TRANSFORM_LAST_PRODUCTS
#endif
#if TILE == 4
#define EACH_SIDE(X) REPEAT_4(X)
#define TRANSFORM_LAST_PRODUCTS                                                            \
    const VEC y2 = fma(sum_1, (VEC)(0.5f), sum_2 * (VEC)(2.0f));                           \
    const VEC y3 = fma(difference_1, (VEC)(0.5f), fma(difference_2, (VEC)(2.0f), m5));
#elif TILE == 3
#define EACH_SIDE(X) REPEAT_3(X)
#define TRANSFORM_LAST_PRODUCTS const VEC y2 = fma(sum_1, (VEC)(0.5f), fma(sum_2, (VEC)(2.0f), m5));
#else
#define EACH_EDGE(X) REPEAT_4(X)
#define EACH_SIDE(X) REPEAT_2(X)
#define TRANSFORM_INPUTS const VEC v0 = d0 - d2, v1 = d1 + d2, v2 = d2 - d1, v3 = d3 - d1;
#define TRANSFORM_PRODUCTS const VEC y0 = m0 + m1 + m2, y1 = m1 - m2 + m3;
#endif

#define LOAD_INPUT(i) const VEC d##i = VLOAD(at[i][j] + c);
#define LOAD_REST(i) const VEC d##i = load_lanes(at[i][j] + c, 1, 0, channels - c);
#define KEEP_COLUMN(i) lines[i][j] = v##i;
#define LOAD_COLUMN(j) const VEC d##j = lines[i][j];
#define STORE_POINT(j) VSTORE(v##j, points + (i * EDGE + j) * point_step + c);

// The inputs of one tile and vector of channels to its points.
#define TRANSFORM_PATCH(LOAD)              \
    {                                      \
        VEC lines[EDGE][EDGE];             \
        for (int j = 0; j < EDGE; ++j) {   \
            EACH_EDGE(LOAD)                \
            TRANSFORM_INPUTS               \
            EACH_EDGE(KEEP_COLUMN)         \
        }                                  \
        for (int i = 0; i < EDGE; ++i) {   \
            EACH_EDGE(LOAD_COLUMN)         \
            TRANSFORM_INPUTS               \
            EACH_EDGE(STORE_POINT)         \
        }                                  \
    }

// Transforms the inputs of one tile, part by part of the window; the tile's first row and column are y and x. Outside
// the image lie zeros, and where no tap of the window is.
static __attribute__((noinline)) void transform_tile(INPUTS_SPACE float *points, int point_step, int channels,
                                                     __global const float *image, int step_h, int step_w, int y,
                                                     int x, int in_h, int in_w, int kernel_h, int kernel_w,
                                                     __global const float *zeros) {
    for (int part = 0; part < COUNT_PARTS(kernel_h, kernel_w); ++part) {
        const int parts_w = (kernel_w + PART - 1) / PART;
        const int part_y = part / parts_w * PART, part_x = part % parts_w * PART;
        const int rows = kernel_h + TILE - 1 - part_y, cols = kernel_w + TILE - 1 - part_x;
        __global const float *at[EDGE][EDGE];
        for (int i = 0; i < EDGE; ++i)
            for (int j = 0; j < EDGE; ++j) {
                const int h = y + part_y + i, w = x + part_x + j;
                const bool is_inside = i < rows && j < cols && (uint)h < (uint)in_h && (uint)w < (uint)in_w;
                at[i][j] = is_inside ? image + (h * step_h + w * step_w) : zeros;
            }
        int c = 0;
        for (; c + VECTOR <= channels; c += VECTOR) TRANSFORM_PATCH(LOAD_INPUT)
        if (c < channels) TRANSFORM_PATCH(LOAD_REST)
        points += COUNT_DEPTH(channels, 1, 1);
    }
}

// The products of MR tiles with one panel of filters at one point: sums over `depth`, kept for the transform.
// AIM_FETCH goes before it: each of a panel's `blocks` register tiles asks for its share of the filters at `next`, a row
// every `blocks` steps. All lines of a row have to be asked for: those that are left out come one by one, for
// processors then see no walk to follow. So have steps between rows: what is asked for faster than memory delivers
// holds up the loads of what is near.
#if FETCH
#define AIM_FETCH(block, blocks, next) \
    const int fetch_steps = (blocks);  \
    __global const float *ahead = (next) + (block) * ((depth + fetch_steps - 1) / fetch_steps) * NR;
#define ASK_AHEAD(v) \
    if (v * VECTOR < NR) ASK_VECTOR(v)
#define START_FETCH int steps_left = 1;
#define FETCH_WEIGHTS                    \
    if (--steps_left == 0) {             \
        steps_left = fetch_steps;        \
        REPEAT_3(ASK_AHEAD)              \
        ahead += NR;                     \
    }
#define FETCH_PARAMETERS , __global const float *ahead, int fetch_steps
#define FETCH_ARGUMENTS , ahead, fetch_steps
#else
#define FETCH_PARAMETERS
#define FETCH_ARGUMENTS
#define AIM_FETCH(block, blocks, next)
#define START_FETCH
#define FETCH_WEIGHTS
#endif
#define NO_BIAS(v) const VEC bias_##v = (VEC)(0.0f);
#define AIM_TILE(m) INPUTS_SPACE const float *p##m = tile_points + m * TILE_STEP(depth);
#define KEEP_PRODUCT(m)                                                    \
    LANE_0(VSTORE(a##m##_0, tile_products + m * PRODUCT_STEP);)            \
    LANE_1(VSTORE(a##m##_1, tile_products + m * PRODUCT_STEP + VECTOR);)   \
    LANE_2(VSTORE(a##m##_2, tile_products + m * PRODUCT_STEP + 2 * VECTOR);)
#define MULTIPLY_TILES               \
    START_FETCH                      \
    EACH_LANE(NO_BIAS)               \
    REPEAT(MR, START_ROW)            \
    REPEAT(MR, AIM_TILE)             \
    ALIGNED_LOOP                     \
    for (int k = 0; k < depth; ++k) { \
        FETCH_WEIGHTS                \
        EACH_LANE(LOAD_WEIGHT)       \
        REPEAT(MR, STEP_ROW)         \
        weight += NR;                \
    }                                \
    REPEAT(MR, KEEP_PRODUCT)

#define LOAD_PRODUCT(i) const VEC m##i = VLOAD(products + ((i * EDGE + j) * point_step + v));
#define KEEP_SIDE(i) lines[i][j] = y##i;
#define LOAD_SIDE(j) const VEC m##j = lines[i][j];
#define STORE_OUTPUT(j)                                                                                     \
    if (j >= first_col && j < last_col) {                                                                   \
        VEC value = y##j + start;                                                                           \
        if (is_plain) {                                                                                     \
            if (residual_order != RESIDUAL_NONE) value += VLOAD(r + j * residual_w);                        \
            BOUND(value)                                                                                    \
            VSTORE(value, d + j * dst_w);                                                                   \
        } else {                                                                                            \
            store_output(value, d + j * dst_w, r + j * residual_w, low - v, high - v, residual_order,       \
                         activation, alpha, beta);                                                          \
        }                                                                                                   \
    }

static __attribute__((noinline)) void store_output(VEC value, __global float *dst, __global const float *residual,
                                                   int low, int high, EPILOGUE_SCALARS) {
    store_lanes(value, dst, 1, residual, 1, low, high, residual_order, activation, alpha, beta);
}

#if POOL
#define SIDE 2
// An output through the epilogue, into the maximum of its 2 x 2; maxima of a row of them.
#define TAKE_OUTPUT(j)                                                                        \
    {                                                                                         \
        VEC value = y##j + start;                                                             \
        if (IS_PLAIN_ACTIVATION) {                                                            \
            BOUND(value)                                                                      \
        } else {                                                                              \
            value = activate(value, residual_order, activation, alpha, beta);                 \
        }                                                                                     \
        TAKE_MAXIMUM(best[j / 2], value);                                                     \
    }
#define STORE_BEST                                                                            \
    for (int j = 0; j < TILE / 2; ++j) {                                                      \
        if (2 * j < first_col || 2 * j >= last_col) continue;                                 \
        if (low <= v && high >= v + VECTOR) {                                                 \
            VSTORE(best[j], d + j * dst_w);                                                   \
        } else {                                                                              \
            float lanes[VECTOR];                                                              \
            VSTORE(best[j], lanes);                                                           \
            for (int lane = max(low - v, 0); lane < min(high - v, VECTOR); ++lane)            \
                d[j * dst_w + lane] = lanes[lane];                                            \
        }                                                                                     \
    }

static __attribute__((noinline)) VEC activate(VEC value, EPILOGUE_SCALARS) { return ACTIVATE(VEC, value); }
#else
#define SIDE 1
#endif

// Transforms the products of one tile and stores its outputs of one panel through the epilogue: rows [first_row,
// last_row) and columns [first_col, last_col) of the tile, channels [low, high) of the panel.
static __attribute__((noinline)) void store_tile(PRODUCTS_SPACE const float *products, int point_step,
                                                 __global const float *bias, __global float *dst, int dst_h,
                                                 int dst_w, __global const float *residual, int residual_h,
                                                 int residual_w, int first_row, int last_row, int first_col,
                                                 int last_col, int low, int high, EPILOGUE_SCALARS) {
    PLAIN_BOUNDS
    for (int v = 0; v < NR; v += VECTOR) {
        if (v + VECTOR <= low || v >= high) continue;
        const bool is_plain =
            low <= v && high >= v + VECTOR && IS_PLAIN_ACTIVATION && residual_order <= RESIDUAL_BEFORE;
        const VEC start = VLOAD(bias + v);
        VEC lines[TILE][EDGE];
        for (int j = 0; j < EDGE; ++j) {
            EACH_EDGE(LOAD_PRODUCT)
            TRANSFORM_PRODUCTS
            EACH_SIDE(KEEP_SIDE)
        }
#if POOL
        VEC best[TILE / 2];
#endif
        for (int i = max(first_row, 0); i < min(last_row, TILE); ++i) {
            EACH_EDGE(LOAD_SIDE)
            TRANSFORM_PRODUCTS
            __global float *d = dst + (i / SIDE * dst_h + v);
#if POOL
            if (i % 2 == 0)
                for (int j = 0; j < TILE / 2; ++j) best[j] = (VEC)(-INFINITY);
            EACH_SIDE(TAKE_OUTPUT)
            if (i % 2 == 1) STORE_BEST
#else
            __global const float *r = residual + (i * residual_h + v);
            EACH_SIDE(STORE_OUTPUT)
#endif
        }
    }
}

#endif
