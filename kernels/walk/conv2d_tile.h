// The body of conv2d_tile__buffer for one shape of tile: TILE_NAME(BM, BN). Include this file once for each shape, with BM
// and BN defined; it undefines them.
//
// A tile is BM pixels of the box, in row-major order, times BN output channels of one panel. Steps of BK of the sum are
// copied to local memory ahead, through a ring of stages. A work-item has TM x TN sums: pixels TALL apart, channels next
// to each other; 7 pixels where BM is a multiple of 7, which suits images of 7, 14, 28 and 56 rows. Sums are chains of
// fma over (kh, kw, ic), cut into `parts`; parts are added in ascending order by
// the group that comes last to a tile. So bits depend on BM and BN (by BK) and on `parts`, and on nothing else.
#include "walk/conv2d_common.h"

#if BM == 32
#define BK 32
#define STAGES (PTX ? 4 : 2)
#elif BM == 64
#define BK (PRECISION ? 16 : 32)
#define STAGES (PTX && PRECISION ? 4 : 2)
#elif BN == 64 || BM == 56 || PRECISION == 2
#define BK 16
#define STAGES (PTX ? 3 : 2)
#else
#define BK (PRECISION ? 8 : 16)
#define STAGES (PTX && PRECISION ? 4 : 2)
#endif
// The pitch of pixels and of channels in local memory: those of matrix units are such that none of its banks serves two
// work-items at once (of 128 x 128 in float16, two).
#if PRECISION
#define TM (BM == 128 && BN == 64 ? 4 : BM / 16)
#define LINE (PRECISION == 2 && BM * BN < 128 * 128 ? BK + 8 : BK + 4)
#define B_LINE (BN + 8)
#define B_AT(vector) ((vector) / (BN / 4) * B_LINE + (vector) % (BN / 4) * 4)
#define ROW(i) UNIT_ROW_OF(i)
#define COLUMN(j) (tx * TN + (j))
#else
#define TM (BM % 7 == 0 ? 7 : BM / 16)
#define TALL (BM / TM)
#define LINE (BK + 4)
#define B_LINE BN
#define B_AT(vector) ((vector) * 4)
// Where a work-item's i-th and j-th sums lie in the tile.
#define ROW(i) (ty + TALL * (i))
#define COLUMN(j) (TN == 8 ? (j) / 4 * 64 + tx * 4 + (j) % 4 : tx * TN + (j))
#endif
#define TN (BM * BN / GROUP / TM)
#define SUMS (TM * TN)
#define LOADS ((BM * BK / 4 + GROUP - 1) / GROUP)
#define A_FLOATS (LOADS * GROUP * 4 / BK * LINE)
// Rows of weights: in float16 two steps of the sum lie in one.
#define B_ROWS (PRECISION == 2 ? BK / 2 : BK)
#define B_VECTORS (B_ROWS * BN / 4)
#define STAGE_FLOATS (A_FLOATS + B_ROWS * B_LINE)

// Copies step `step` of the sum into a stage, and goes on to the next one.
#define ISSUE(stage)                                                                                           \
    if (step < step_end) {                                                                                     \
        __local float *line = memory + (stage) * STAGE_FLOATS;                                                 \
        if (is_aligned) {                                                                                      \
            const int tap_y = walk.ky * dilation_h, tap_x = walk.kx * dilation_w;                              \
            const int tap = tap_y * src_h + tap_x * src_w + walk.ic;                                           \
            const bool is_inside = walk.ky < kernel_h;                                                         \
            UNROLL for (int i = 0; i < LOADS; ++i) {                                                \
                const bool ok = is_inside && (uint)(y[i] + tap_y) < (uint)in_h && (uint)(x[i] + tap_x) < (uint)in_w; \
                COPY_16(line + (a_row + i * (GROUP * 4 / BK)) * LINE + a_k, src + (ok ? at[i] + tap : 0), ok)   \
            }                                                                                                  \
            walk = go_on(walk, BK, inputs, kernel_w);                                                          \
        } else {                                                                                               \
            for (int e = 0; e < 4; ++e) {                                                                      \
                const int k = step * BK + a_k + e, tap = k / inputs, ky = tap / kernel_w;                      \
                const int tap_y = ky * dilation_h, tap_x = (tap - ky * kernel_w) * dilation_w;                 \
                const int from = tap_y * src_h + tap_x * src_w + (k - tap * inputs) * d->src.c;                \
                UNROLL for (int i = 0; i < LOADS; ++i) {                                            \
                    const bool ok =                                                                            \
                        ky < kernel_h && (uint)(y[i] + tap_y) < (uint)in_h && (uint)(x[i] + tap_x) < (uint)in_w; \
                    COPY_4(line + (a_row + i * (GROUP * 4 / BK)) * LINE + a_k + e,                             \
                           src + (ok ? at[i] + from : 0), ok)                                                  \
                }                                                                                              \
            }                                                                                                  \
        }                                                                                                      \
        UNROLL for (int i = 0; i < (B_VECTORS + GROUP - 1) / GROUP; ++i) {                                     \
            const int vector = i * GROUP + lid;                                                                \
            if (B_VECTORS % GROUP == 0 || vector < B_VECTORS)                                                  \
                COPY_WEIGHTS(line + A_FLOATS + B_AT(vector), panel + (size_t)step * (B_ROWS * BN) + vector * 4) \
        }                                                                                                      \
        ++step;                                                                                                \
    }                                                                                                          \
    COMMIT_COPIES

BODY TILE_NAME(BM, BN)(__local const conv2d_tile_t *d, CONV2D_TILE_BUFFERS, int group, int groups,
                              __local float *memory) {
    const int lid = get_local_id(0);
#if PRECISION
    const int tx = UNIT_TX(BN), ty = UNIT_TY(BN);
    EXCHANGE(CONV2D_TILE_FLOATS)
#else
    // 32 work-items that run together read 8 vectors of channels and 4 of pixels. Each reads the same channels as its
    // neighbour and the same pixels as the one after that: NVIDIA's local memory then serves 16 of them at once, not 8.
    const int tx = lid >> 1 & 7 | lid >> 2 & (TALL == 8 ? 24 : 8);
    const int ty = lid & 1 | lid >> 3 & 2 | (TALL == 8 ? lid >> 5 & 4 : lid >> 6 << 2);
#endif
    const int a_row = lid / (BK / 4), a_k = lid % (BK / 4) * 4;
    const int rows = d->row_end - d->row_begin, columns = d->col_end - d->col_begin;
    const int pixels = d->images * rows * columns, tiles = (pixels + BM - 1) / BM;
    const int inputs = d->group_inputs, kernel_h = d->kernel_h, kernel_w = d->kernel_w, parts = d->parts;
    const int depth = kernel_h * kernel_w * inputs, steps = (depth + BK - 1) / BK;
    const int part_steps = (steps + parts - 1) / parts;
    const int dilation_h = d->dilation_h, dilation_w = d->dilation_w;
    const int in_h = d->in_h, in_w = d->in_w, src_h = d->src.h, src_w = d->src.w;
    const bool is_aligned = IS_ALIGNED(d->src) && inputs % 4 == 0;
    for (int place = group; place < tiles * d->panels * parts; place += groups) {
        const int part = place % parts, tile = place / parts;
        const int item = tile % d->panels, first = tile / d->panels * BM;
        const int panel_number = d->panel_begin + item, conv_group = panel_number / d->group_panels;
        const int group_channel = (panel_number - conv_group * d->group_panels) * BN;
        __global const float *bias = weights + (size_t)item * ((steps * B_ROWS + 1) * BN), *panel = bias + BN;
        int y[LOADS], x[LOADS], at[LOADS];
        UNROLL for (int i = 0; i < LOADS; ++i) {
            const int row = a_row + i * (GROUP * 4 / BK), pixel = first + row;
            const int line = pixel / columns, n = line / rows;
            y[i] = (d->row_begin + line - n * rows) * d->stride_h - d->pad_h;
            x[i] = (d->col_begin + pixel - line * columns) * d->stride_w - d->pad_w;
            at[i] = INDEX(d->src, d->image_begin + n, y[i], x[i], conv_group * inputs);
            if (row >= BM || pixel >= pixels) y[i] = in_h + (1 << 24);
        }
        float sums[SUMS];
        UNROLL for (int i = 0; i < SUMS; ++i) sums[i] = 0.0f;
        int step = part * part_steps;
        const int step_begin = step, step_end = min(steps, step + part_steps);
        const walk_t start = {0, 0, 0};
        walk_t walk = go_on(start, step * BK + a_k, inputs, kernel_w);
        GROUP_BARRIER
        UNROLL for (int stage = 0; stage < STAGES - 1; ++stage) { ISSUE(stage) }
        int stage = 0, free = STAGES - 1;
        for (int now = step_begin; now < step_end; ++now) {
            AWAIT_COPIES(STAGES - 2)
            GROUP_BARRIER
            ISSUE(free)
            __local const float *a_lines = memory + stage * STAGE_FLOATS, *b_lines = a_lines + A_FLOATS;
#if PRECISION
            ADD_SQUARES(BK, a_lines, LINE, LOAD_PACKED_COLUMNS, b_lines, B_LINE)
#else
            for (int k16 = 0; k16 < BK && now * BK + k16 < depth; k16 += 16)
                UNROLL for (int k = k16; k < k16 + 16; k += 4) {
                    float4 a[TM];
                    UNROLL for (int i = 0; i < TM; ++i) a[i] = LOCAL_4(a_lines + ROW(i) * LINE + k);
                    ADD_PRODUCTS(0, x)
                    ADD_PRODUCTS(1, y)
                    ADD_PRODUCTS(2, z)
                    ADD_PRODUCTS(3, w)
                }
#endif
            free = stage;
            stage = stage + 1 == STAGES ? 0 : stage + 1;
        }
        AWAIT_COPIES(0)
        __global float *shared = scratch + (size_t)tile * parts * (BM * BN);
        if (parts > 1) { KEEP_PART }
        if (comes_last(arrivals + tile, parts, (volatile __local int *)memory)) {
            if (parts > 1) { ADD_PARTS }
            STORE_SUMS
        }
    }
}
#undef ISSUE
#undef BM
#undef BN
#undef BK
#undef STAGES
#undef TM
#undef TALL
#undef TN
#undef SUMS
#undef LINE
#undef LOADS
#undef A_FLOATS
#undef STAGE_FLOATS
#undef ROW
#undef COLUMN
#undef B_LINE
#undef B_AT
#undef B_ROWS
#undef B_VECTORS
