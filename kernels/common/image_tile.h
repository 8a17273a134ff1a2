// A tile of a convolution over images: PIXELS pixels x BLOCKS blocks of four channels. Every output is one fma chain
// over K in ascending order that starts from the panel's bias row, so its bits do not depend on its tile.
//
// Parameters  PIXELS; BLOCKS of four channels
#ifndef CODL_IMAGE_TILE_H
#define CODL_IMAGE_TILE_H

#ifndef PIXELS
#define PIXELS 4
#endif
#ifndef BLOCKS
#define BLOCKS 1
#endif
#include "common/image.h"
#include "common/activate.h"

#define PANEL (BLOCKS * 4)

// Accumulators tile[p][b]; `weight` points at the panel and moves on with every row that is used.
#define START_TILE                                                                                  \
    float4 tile[PIXELS][BLOCKS];                                                                    \
    for (int p = 0; p < PIXELS; ++p)                                                                \
        for (int b = 0; b < BLOCKS; ++b) tile[p][b] = vload4(b, weight);                            \
    weight += PANEL;

// Steps of K over the `in_blocks` blocks of a tap, of which pixel p reads the first at at[p], others step[p] further.
#define ADD_LANE(p, lane, row)                                                                      \
    for (int b = 0; b < BLOCKS; ++b)                                                                \
        tile[p][b] = fma((float4)(lane), vload4(b, weight + row * PANEL), tile[p][b]);
#define ACCUMULATE(image)                                                                           \
    for (int block = 0; block < in_blocks; ++block) {                                               \
        for (int p = 0; p < PIXELS; ++p) {                                                          \
            const float4 value = read_imagef(image, nearest, at[p]);                                \
            at[p] += step[p];                                                                       \
            ADD_LANE(p, value.x, 0)                                                                 \
            ADD_LANE(p, value.y, 1)                                                                 \
            ADD_LANE(p, value.z, 2)                                                                 \
            ADD_LANE(p, value.w, 3)                                                                 \
        }                                                                                           \
        weight += 4 * PANEL;                                                                        \
    }

// Writes pixel p of the tile at (n, h, w) through the epilogue; the panel begins at `channel`.
#define STORE_TILE_PIXEL(p, h, w)                                                                   \
    for (int b = 0; b < BLOCKS; ++b) {                                                              \
        const int lane = channel + 4 * b;                                                           \
        if (lane >= channel_end || lane + 4 <= channel_begin) continue;                             \
        float4 value = tile[p][b], other = (float4)(0.0f);                                          \
        if (residual_order != RESIDUAL_NONE) other = READ_TEXEL(residual, n, h, w, lane / 4);       \
        if (residual_order == RESIDUAL_BEFORE) value += other;                                      \
        value = ACTIVATE(VEC, value);                                                               \
        if (residual_order == RESIDUAL_AFTER) value += other;                                       \
        WRITE_TEXEL(dst, n, h, w, lane / 4, mask_channels(value, lane, channel_begin, channel_end)); \
    }

#endif
