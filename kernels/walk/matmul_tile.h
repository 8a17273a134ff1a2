// The body of matmul_tile__buffer for one size of tile: MATMUL_NAME(BM). Include this file once for each, with BM defined;
// it undefines BM.
//
// A tile is BM rows times BM columns of one matrix. Steps of BK of the sum are copied to local memory ahead, through a
// ring of stages: by four where operands allow it, else element by element, neighbouring work-items along the axis that
// lies closer in memory. A work-item has BM/16 x BM/16 sums: rows 16 apart, columns next to each other. Each sum is one
// chain of fma, k ascending: bits depend neither on the tile nor on how operands lie.
#include "walk/lanes.h"
#include "walk/matrix_units.h"

#ifndef CODL_MATMUL_TILE_H
#define CODL_MATMUL_TILE_H
typedef struct {
    place_t dst, left, right, residual;
    int n_begin, n_count, h_begin, h_count, row_begin, row_end, channel_begin, channel_end, depth;
    EPILOGUE_FIELDS;
} matmul_tile_t;
#define MATMUL_BUFFERS                                                                       \
    __global float *dst, __global const float *left, __global const float *right, __global const float *residual
#define MATMUL_NAME_(m) matmul_tile_##m
#define MATMUL_NAME(m) MATMUL_NAME_(m)
#define MATMUL_STAGES (PTX ? 4 : 2)
// Local memory of the larger ring of stages, in floats.
#define MATMUL_FLOATS (PRECISION == 2 ? 10496 : PRECISION ? 9728 : 9472)
#define MATMUL_PRODUCTS(e, lane)                                                             \
    {                                                                                        \
        __local const float *line = b_lines + (k + e) * B_LINE + tx * TN;                    \
        float b[TN];                                                                         \
        UNROLL for (int j = 0; j < TN; j += 2) {                                             \
            const float2 some = *(__local const float2 *)(line + j);                         \
            b[j] = some.x, b[j + 1] = some.y;                                                \
        }                                                                                    \
        UNROLL for (int i = 0; i < TN; ++i)                                                  \
            UNROLL for (int j = 0; j < TN; ++j) sums[i * TN + j] = fma(a[i].lane, b[j], sums[i * TN + j]); \
    }
#endif

#if BM == 32
#define BK 32
#else
#define BK 16
#endif
#define TM (BM / 16)
#define TN (BM / 16)
#define A_LINE (PRECISION == 2 ? BK + 8 : BK + 4)
#define B_LINE (PRECISION == 1 ? BM + 8 : BM + 4)
#if PRECISION
#define ROW(i) UNIT_ROW_OF(i)
#else
#define ROW(i) (ty + 16 * (i))
#endif
#define STAGE_FLOATS (BM * A_LINE + BK * B_LINE)
// Copies step `step` of the sum into a stage, and goes on to the next one.
#define ISSUE(stage)                                                                         \
    if (step < steps) {                                                                      \
        __local float *a_stage = memory + (stage) * STAGE_FLOATS, *b_stage = a_stage + BM * A_LINE; \
        const int from = step * BK;                                                          \
        if (has_wide_left) {                                                                 \
            const int row = lid / (BK / 4), k = lid % (BK / 4) * 4;                          \
            const bool ok = row < rows && from + k < depth;                                  \
            COPY_16(a_stage + row * A_LINE + k, a_matrix + (ok ? row * left_w + from + k : 0), ok) \
        } else {                                                                             \
            UNROLL for (int e = 0; e < 4; ++e) {                                             \
                const int row = a_row + e * a_rows, k = a_k + e * a_ks;                      \
                const bool ok = row < rows && from + k < depth;                              \
                COPY_4(a_stage + row * A_LINE + k,                                           \
                       a_matrix + (ok ? row * left_w + (from + k) * left_c : 0), ok)   \
            }                                                                                \
        }                                                                                    \
        if (has_wide_right) {                                                                \
            const int k = lid / (BM / 4), column = lid % (BM / 4) * 4;                       \
            const bool ok = column < columns && from + k < depth;                            \
            COPY_16(b_stage + k * B_LINE + column, b_matrix + (ok ? (from + k) * right_w + column : 0), ok) \
        } else {                                                                             \
            UNROLL for (int e = 0; e < 4; ++e) {                                             \
                const int column = b_column + e * b_columns, k = b_k + e * b_ks;             \
                const bool ok = column < columns && from + k < depth;                        \
                COPY_4(b_stage + k * B_LINE + column,                                        \
                       b_matrix + (ok ? (from + k) * right_w + column * right_c : 0), ok) \
            }                                                                                \
        }                                                                                    \
        ++step;                                                                              \
    }                                                                                        \
    COMMIT_COPIES

BODY MATMUL_NAME(BM)(__local const matmul_tile_t *d, MATMUL_BUFFERS, int group, int groups, __local float *memory) {
    const int lid = get_local_id(0);
#if PRECISION
    const int tx = UNIT_TX(BM), ty = UNIT_TY(BM);
    EXCHANGE(MATMUL_FLOATS)
#else
    // Which sums a work-item has, as in walk/conv2d_tile.h: NVIDIA's local memory serves 16 work-items at once.
    const int tx = lid >> 1 & 7 | lid >> 2 & 8, ty = lid & 1 | lid >> 3 & 2 | lid >> 6 << 2;
#endif
    const int depth = d->depth, steps = (depth + BK - 1) / BK;
    const int left_w = d->left.w, left_c = d->left.c, right_w = d->right.w, right_c = d->right.c;
    const int row_tiles = (d->row_end - d->row_begin + BM - 1) / BM;
    const int column_tiles = (d->channel_end - d->channel_begin + BM - 1) / BM;
    const bool has_wide_left = IS_ALIGNED(d->left) && depth % 4 == 0;
    const bool has_wide_right = IS_ALIGNED(d->right) && ((d->channel_begin | d->channel_end) & 3) == 0;
    const bool has_vectors = IS_ALIGNED(d->dst) && (d->channel_begin & 3) == 0;
    const bool is_left_dense = d->left.c <= d->left.w, is_right_dense = d->right.c <= d->right.w;
    const int a_row = is_left_dense ? lid / BK : lid % BM, a_rows = is_left_dense ? GROUP / BK : 0;
    const int a_k = is_left_dense ? lid % BK : lid / BM, a_ks = is_left_dense ? 0 : GROUP / BM;
    const int b_column = is_right_dense ? lid % BM : lid / BK, b_columns = is_right_dense ? 0 : GROUP / BK;
    const int b_k = is_right_dense ? lid / BM : lid % BK, b_ks = is_right_dense ? GROUP / BM : 0;
    for (int place = group; place < d->n_count * d->h_count * row_tiles * column_tiles; place += groups) {
        const int line = place / column_tiles, matrix = line / row_tiles;
        const int first_column = d->channel_begin + (place - line * column_tiles) * BM;
        const int first_row = d->row_begin + (line - matrix * row_tiles) * BM;
        const int n = d->n_begin + matrix / d->h_count, h = d->h_begin + matrix % d->h_count;
        const int rows = d->row_end - first_row, columns = d->channel_end - first_column;
        __global const float *a_matrix = left + INDEX(d->left, n, h, first_row, 0);
        __global const float *b_matrix = right + INDEX(d->right, n, h, 0, first_column);
        float sums[TN * TN];
        UNROLL for (int i = 0; i < TN * TN; ++i) sums[i] = 0.0f;
        int step = 0, stage = 0, free = MATMUL_STAGES - 1;
        GROUP_BARRIER
        UNROLL for (int first = 0; first < MATMUL_STAGES - 1; ++first) { ISSUE(first) }
        for (int now = 0; now < steps; ++now) {
            AWAIT_COPIES(MATMUL_STAGES - 2)
            GROUP_BARRIER
            ISSUE(free)
            __local const float *a_lines = memory + stage * STAGE_FLOATS, *b_lines = a_lines + BM * A_LINE;
#if PRECISION
            ADD_SQUARES(BK, a_lines, A_LINE, LOAD_COLUMNS, b_lines, B_LINE)
#else
            UNROLL for (int k = 0; k < BK; k += 4) {
                float4 a[TN];
                UNROLL for (int i = 0; i < TN; ++i) a[i] = *(__local const float4 *)(a_lines + ROW(i) * A_LINE + k);
                MATMUL_PRODUCTS(0, x)
                MATMUL_PRODUCTS(1, y)
                MATMUL_PRODUCTS(2, z)
                MATMUL_PRODUCTS(3, w)
            }
#endif
            free = stage;
            stage = stage + 1 == MATMUL_STAGES ? 0 : stage + 1;
        }
        AWAIT_COPIES(0)
        UNROLL for (int i = 0; i < TN; ++i) {
            const int row = first_row + ROW(i), column = first_column + tx * TN;
            const int count = row < d->row_end ? min(TN, d->channel_end - column) : 0;
            float4 value = (float4)(sums[i * TN], sums[i * TN + 1], 0.0f, 0.0f), other = (float4)(0.0f);
            if (TN == 4) value.z = sums[i * TN + TN - 2], value.w = sums[i * TN + TN - 1];
            if (count <= 0) continue;
            if (d->residual_order != RESIDUAL_NONE)
                other = load_lanes(residual + INDEX(d->residual, n, h, row, column), d->residual.c, 0, count);
            value = finish_value(value, other, d->residual_order, d->activation, d->alpha, d->beta);
            __global float *to = dst + INDEX(d->dst, n, h, row, column);
            if (count == 4 && has_vectors) {
                STORE_4(value, to);
            } else {
                to[0] = value.x;
                if (count > 1) to[d->dst.c] = value.y;
                if (count > 2) to[2 * d->dst.c] = value.z;
                if (count > 3) to[3 * d->dst.c] = value.w;
            }
        }
    }
}
#undef ISSUE
#undef BM
#undef BK
#undef TM
#undef TN
#undef ROW
#undef A_LINE
#undef B_LINE
#undef STAGE_FLOATS
