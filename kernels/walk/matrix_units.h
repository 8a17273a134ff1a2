// Products by a GPU's matrix units, whose factors are rounded and whose sums are float32.
//
// PRECISION   0 float32: nothing of this is used; 1 tf32; 2 float16
//
// A warp, 32 work-items next to each other, multiplies squares of 16 rows by 8 columns, K_STEP steps of the sum at once
// (mma.sync of NVIDIA's PTX ISA). A work-item has rows r and r + 8 of a square, where r = lid / 4 % 8, and columns 2 c and
// 2 c + 1, where c = lid % 4. Of TM / 2 squares below each other and TN / 2 beside each other it has TM x TN sums. The
// columns of squares beside each other alternate, so that those of a work-item are neighbours in the tile:
//   row of its i-th sums      ty + i / 2 * 16 + i % 2 * 8
//   column of its j-th sums   tx * TN + j
//
// Without PTX work-items exchange their factors in local memory, and multiply them as the units do but for the order
// of sums: so that what they load and where their sums belong is tested on every device.
#ifndef CODL_MATRIX_UNITS_H
#define CODL_MATRIX_UNITS_H

#include "common/group.h"

#ifndef PRECISION
#define PRECISION 0
#endif
#define K_STEP (PRECISION == 2 ? 16 : 8)
// Local memory behind that of a body, in floats, in which factors are exchanged.
#define UNIT_FLOATS (PRECISION && !PTX ? 6 * GROUP : 0)

#if PRECISION
#define UNIT_ROW (lid >> 2 & 7)
#define UNIT_COLUMN (lid & 3)
// tx and ty of a tile whose lines have `columns` columns.
#define UNIT_TX(columns) ((lid >> 5) % ((columns) / (4 * TN)) * 4 + UNIT_COLUMN)
#define UNIT_TY(columns) ((lid >> 5) / ((columns) / (4 * TN)) * (8 * TM) + UNIT_ROW)
#define UNIT_ROW_OF(i) (ty + (i) / 2 * 16 + (i) % 2 * 8)

// Rounds to 11 bits, halves away from zero.
static inline uint round_tf32(float value) {
#if PTX
    uint rounded;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(rounded) : "f"(value));
    return rounded;
#else
    const uint bits = as_uint(value);
    return (bits & 0x7f800000u) == 0x7f800000u ? bits : (bits + 0x1000u) & 0xffffe000u;
#endif
}
#if !PTX
// By hand: some drivers' vstore_half and vload_half are wrong.
static inline uint round_half(float value) {
    const uint bits = as_uint(value), size = bits & 0x7fffffffu, sign = bits >> 16 & 0x8000u;
    if (size > 0x7f800000u) return sign | 0x7e00u;
    if (size >= 0x477ff000u) return sign | 0x7c00u;
    if (size < 0x38800000u) return sign | (as_uint(as_float(size) + 0.5f) - as_uint(0.5f));
    return sign | ((size - (112u << 23) + 0xfffu + (size >> 13 & 1u)) >> 13);
}
static inline float widen_half(uint half_bits) {
    const uint size = half_bits & 0x7fffu, sign = (half_bits & 0x8000u) << 16;
    if (size < 0x400u) return as_float(as_uint((float)size * 0x1p-24f) | sign);
    return as_float(sign | ((size << 13) + (size < 0x7c00u ? 112u << 23 : 224u << 23)));
}
#endif
// Rounds two factors to float16, the first one in the lower half.
static inline uint round_halves(float first, float second) {
#if PTX
    uint both;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(second), "f"(first));
    return both;
#else
    return round_half(first) | round_half(second) << 16;
#endif
}

#if PTX
#define EXCHANGE(floats)
#if PRECISION == 1
#define UNIT_SHAPE "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32"
#else
#define UNIT_SHAPE "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"
#endif
#define MULTIPLY_SQUARE(c0, c1, c2, c3, a, b)                                                          \
    asm volatile(UNIT_SHAPE " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"         \
                 : "+f"(c0), "+f"(c1), "+f"(c2), "+f"(c3)                                              \
                 : "r"((a)[0]), "r"((a)[1]), "r"((a)[2]), "r"((a)[3]), "r"((b)[0]), "r"((b)[1]));
#else
// Declares where factors are exchanged, behind a body's own local memory.
#define EXCHANGE(floats) __local uint *exchanged = (__local uint *)(memory + (floats));
// Factor k of a row of 8 that register `number` of the warp's work-items holds.
static inline float find_factor(__local const uint *lanes, int number, int line, int k) {
    const int warp = get_local_id(0) & ~31;
#if PRECISION == 1
    return as_float(lanes[(number + k / 4) * GROUP + warp + line * 4 + k % 4]);
#else
    return widen_half(lanes[(number + k / 8) * GROUP + warp + line * 4 + k % 8 / 2] >> k % 2 * 16 & 0xffffu);
#endif
}
static inline __attribute__((always_inline)) void multiply_square(float *sums, const uint *a, const uint *b,
                                                                  __local uint *lanes) {
    const int lid = get_local_id(0);
    GROUP_BARRIER
    for (int i = 0; i < 4; ++i) lanes[(i % 2 * 2 + i / 2) * GROUP + lid] = a[i];
    for (int i = 0; i < 2; ++i) lanes[(4 + i) * GROUP + lid] = b[i];
    GROUP_BARRIER
    for (int i = 0; i < 4; ++i)
        for (int k = 0; k < K_STEP; ++k)
            sums[i] = fma(find_factor(lanes, i / 2 * 2, UNIT_ROW, k),
                          find_factor(lanes, 4, 2 * UNIT_COLUMN + i % 2, k), sums[i]);
}
#define MULTIPLY_SQUARE(c0, c1, c2, c3, a, b)                                                          \
    {                                                                                                  \
        float square[4] = {c0, c1, c2, c3};                                                            \
        multiply_square(square, a, b, exchanged);                                                      \
        c0 = square[0], c1 = square[1], c2 = square[2], c3 = square[3];                                \
    }
#endif

// TN / 2 neighbouring values.
#define UNIT_VALUES(to, from)                                                                          \
    if (TN == 2) {                                                                                     \
        to[0] = (from)[0];                                                                             \
    } else if (TN == 4) {                                                                              \
        const float2 some = *(__local const float2 *)(from);                                           \
        to[0] = some.x, to[1] = some.y;                                                                \
    } else {                                                                                           \
        const float4 some = *(__local const float4 *)(from);                                           \
        to[0] = some.x, to[1] = some.y, to[2] = some.z, to[3] = some.w;                                \
    }
// First column of a work-item's factors.
#define UNIT_START (tx / 4 * (4 * TN) + UNIT_ROW * (TN / 2))

// Factors of rows: a_lines [rows, a_pitch]; of columns: b_lines [K, b_pitch], or with two float16 of neighbouring steps in
// each word [K / 2, b_pitch].
#if PRECISION == 1
#define LOAD_ROWS(a_lines, a_pitch)                                                                    \
    UNROLL for (int m = 0; m < TM / 2; ++m) {                                                          \
        __local const float *from = (a_lines) + (ty + 16 * m) * (a_pitch) + k + UNIT_COLUMN;           \
        a[m][0] = round_tf32(from[0]), a[m][1] = round_tf32(from[8 * (a_pitch)]);                      \
        a[m][2] = round_tf32(from[4]), a[m][3] = round_tf32(from[8 * (a_pitch) + 4]);                  \
    }
#define LOAD_COLUMNS(b_lines, b_pitch)                                                                 \
    UNROLL for (int half_k = 0; half_k < 2; ++half_k) {                                                \
        float values[4];                                                                               \
        UNIT_VALUES(values, (b_lines) + (k + UNIT_COLUMN + 4 * half_k) * (b_pitch) + UNIT_START)       \
        UNROLL for (int n = 0; n < TN / 2; ++n) b[n][half_k] = round_tf32(values[n]);                  \
    }
#define LOAD_PACKED_COLUMNS LOAD_COLUMNS
#else
#define LOAD_ROWS(a_lines, a_pitch)                                                                    \
    UNROLL for (int m = 0; m < TM / 2; ++m)                                                            \
        UNROLL for (int i = 0; i < 4; ++i) {                                                           \
            const float2 pair = *(__local const float2 *)((a_lines) +                                  \
                (ty + 16 * m + i % 2 * 8) * (a_pitch) + k + 2 * UNIT_COLUMN + i / 2 * 8);              \
            a[m][i] = round_halves(pair.x, pair.y);                                                    \
        }
#define LOAD_COLUMNS(b_lines, b_pitch)                                                                 \
    UNROLL for (int half_k = 0; half_k < 2; ++half_k) {                                                \
        float values[4], others[4];                                                                    \
        __local const float *from = (b_lines) + (k + 2 * UNIT_COLUMN + 8 * half_k) * (b_pitch) + UNIT_START; \
        UNIT_VALUES(values, from)                                                                      \
        UNIT_VALUES(others, from + (b_pitch))                                                          \
        UNROLL for (int n = 0; n < TN / 2; ++n) b[n][half_k] = round_halves(values[n], others[n]);     \
    }
#define LOAD_PACKED_COLUMNS(b_lines, b_pitch)                                                          \
    UNROLL for (int half_k = 0; half_k < 2; ++half_k) {                                                \
        float values[4];                                                                               \
        UNIT_VALUES(values, (b_lines) + (k / 2 + UNIT_COLUMN + 4 * half_k) * (b_pitch) + UNIT_START)   \
        UNROLL for (int n = 0; n < TN / 2; ++n) b[n][half_k] = as_uint(values[n]);                     \
    }
#endif

// Adds the steps [0, steps) of a stage to all sums of a work-item; LOAD is one of the loads of columns above.
#define ADD_SQUARES(steps, a_lines, a_pitch, LOAD, b_lines, b_pitch)                                   \
    UNROLL for (int k = 0; k < (steps); k += K_STEP) {                                                 \
        uint a[TM / 2][4], b[TN / 2][2];                                                               \
        LOAD_ROWS(a_lines, a_pitch)                                                                    \
        LOAD(b_lines, b_pitch)                                                                         \
        UNROLL for (int m = 0; m < TM / 2; ++m)                                                        \
            UNROLL for (int n = 0; n < TN / 2; ++n) {                                                  \
                const int at = 2 * m * TN + n;                                                         \
                MULTIPLY_SQUARE(sums[at], sums[at + TN / 2], sums[at + TN], sums[at + TN + TN / 2], a[m], b[n]) \
            }                                                                                          \
    }
#endif
#endif
