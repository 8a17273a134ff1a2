// The body of the middle stage of conv2d_winograd_tile__buffer for one shape of tile: products at all points. Include this
// file once for each shape, with BM and BN defined; it undefines them.
//
// A tile is BM rows times BN channels of one panel at one point, and one of the parts of the sum over the inputs. A
// work-item has 7 rows, BM/7 apart: images of 14, 28, 56 and 224 rows have 49, 196, 784 and 3136 tiles. Steps of BK of
// the sum are copied ahead to a ring of stages, across the end of a tile: the copies of a group never stop. Sums are
// chains of fma over the inputs, parts are multiples of BK: bits depend on `parts` alone, not on BM and BN.
#include "walk/conv2d_common.h"
#include "walk/winograd.h"

#define BK 16
#define STAGES (PTX ? 3 : 2)
#define TM 7
#define TN (BM * BN / (TM * GROUP))
#define SUMS (TM * TN)
#define LINE (BK + 4)
#define TALL (BM / TM)
#define LOADS ((BM * BK / 4 + GROUP - 1) / GROUP)
#define A_FLOATS (LOADS * GROUP * 4 / BK * LINE)
#define STAGE_FLOATS (A_FLOATS + BK * BN)
#define COLUMN(j) (TN == 8 ? (j) / 4 * 64 + tx * 4 + (j) % 4 : tx * TN + (j))

// A place by number: its block of rows, its part, its panel and its point, the blocks next to each other.
#define FIND_PLACE(place)                                                                        \
    const int block = (place) % blocks, over_blocks = (place) / blocks;                          \
    const int part = over_blocks % parts, over_parts = over_blocks / parts;                      \
    const int panel = over_parts % panels, point = over_parts / panels, first = block * BM;
#define AIM                                                                                      \
    {                                                                                            \
        FIND_PLACE(ahead)                                                                        \
        const int k = part * part_steps * BK;                                                    \
        left = min(part_steps, steps - part * part_steps);                                       \
        UNROLL for (int i = 0; i < LOADS; ++i) {                                                 \
            const int row = a_row + i * (GROUP * 4 / BK);                                        \
            is_row[i] = row < BM && first + row < rows;                                          \
            at[i] = is_row[i] ? (point * rows + first + row) * depth + k + a_k : 0;              \
        }                                                                                        \
        factors = weights + ((size_t)panel * (1 + points * depth) + 1 + point * depth + k) * BN + lid * 4; \
    }
// Copies the next step into a stage; behind the last step of a tile comes the first one of the group's next tile.
#define ISSUE(stage)                                                                             \
    if (ahead < places) {                                                                        \
        __local float *line = memory + (stage) * STAGE_FLOATS;                                   \
        UNROLL for (int i = 0; i < LOADS; ++i) {                                                 \
            const int row = a_row + i * (GROUP * 4 / BK);                                        \
            COPY_16(line + row * LINE + a_k, scratch + at[i], is_row[i])                         \
            at[i] += is_row[i] ? BK : 0;                                                         \
        }                                                                                        \
        UNROLL for (int i = 0; i < BK * BN / 4 / GROUP; ++i)                                     \
            COPY_WEIGHTS(line + A_FLOATS + (i * GROUP + lid) * 4, factors + i * GROUP * 4)      \
        factors += BK * BN;                                                                      \
        if (--left == 0) {                                                                       \
            ahead += groups;                                                                     \
            if (ahead < places) AIM                                                              \
        }                                                                                        \
    }                                                                                            \
    COMMIT_COPIES

BODY WINOGRAD_TILE_NAME(BM, BN)(__local const winograd_t *d, __global const float *weights, __global float *scratch,
                                int group, int groups, __local float *memory) {
    // As in walk/conv2d_tile.h: 32 work-items read 8 vectors of channels and 4 of rows.
    const int lid = get_local_id(0);
#if TALL == 16
    const int tx = lid >> 1 & 7 | lid >> 2 & 8, ty = lid & 1 | lid >> 3 & 2 | lid >> 6 << 2;
#else
    const int tx = lid >> 1 & 7 | lid >> 2 & 24, ty = lid & 1 | lid >> 3 & 2 | lid >> 5 & 4;
#endif
    const int a_row = lid / (BK / 4), a_k = lid % (BK / 4) * 4;
    const int rows = d->images * d->tiles, depth = d->depth, points = d->points, panels = d->panels, parts = d->parts;
    const int blocks = (rows + BM - 1) / BM, places = blocks * parts * panels * points;
    const int steps = depth / BK, part_steps = (steps + parts - 1) / parts, width = panels * BN;
    __global float *products = scratch + (size_t)points * rows * depth;
    __global const float *factors = weights;
    int at[LOADS], left = 0, ahead = group;
    bool is_row[LOADS];
    if (ahead < places) AIM
    UNROLL for (int stage = 0; stage < STAGES - 1; ++stage) { ISSUE(stage) }
    int stage = 0, free = STAGES - 1;
    for (int place = group; place < places; place += groups) {
        FIND_PLACE(place)
        const int count = min(part_steps, steps - part * part_steps);
        float sums[SUMS];
        UNROLL for (int i = 0; i < SUMS; ++i) sums[i] = 0.0f;
        for (int now = 0; now < count; ++now) {
            AWAIT_COPIES(STAGES - 2)
            GROUP_BARRIER
            ISSUE(free)
            __local const float *a_lines = memory + stage * STAGE_FLOATS, *b_lines = a_lines + A_FLOATS;
            UNROLL for (int k = 0; k < BK; k += 4) {
                float4 a[TM];
                UNROLL for (int i = 0; i < TM; ++i) a[i] = LOCAL_4(a_lines + (ty + TALL * i) * LINE + k);
                ADD_PRODUCTS(0, x)
                ADD_PRODUCTS(1, y)
                ADD_PRODUCTS(2, z)
                ADD_PRODUCTS(3, w)
            }
            free = stage;
            stage = stage + 1 == STAGES ? 0 : stage + 1;
        }
        __global float *to = products + ((size_t)(part * points + point) * rows + first + ty) * width + panel * BN;
        UNROLL for (int i = 0; i < TM; ++i)
            if (first + ty + TALL * i < rows) {
                UNROLL for (int j = 0; j < TN; j += 4)
                    STORE_4(SUM_VECTOR(i * TN + j), to + (size_t)(TALL * i) * width + COLUMN(j));
            }
    }
}
#undef FIND_PLACE
#undef AIM
#undef ISSUE
#undef BM
#undef BN
#undef BK
#undef STAGES
#undef TM
#undef TN
#undef SUMS
#undef LINE
#undef TALL
#undef LOADS
#undef A_FLOATS
#undef STAGE_FLOATS
#undef COLUMN
