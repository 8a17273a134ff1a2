// A register tile: MR rows (pixels, matrix rows) x NR channels, each row NR/VECTOR named vector variables.
// Every output is one fma chain over K in ascending order that starts from the panel's bias row, so its bits
// do not depend on the tile or mask path it lies in.
//
// Parameters  MR rows; NR channels; VECTOR lanes of a vector type (4 8 16), NR/VECTOR 1 to 4
#ifndef CODL_REGISTER_TILE_H
#define CODL_REGISTER_TILE_H

#ifndef MR
#define MR 6
#endif
#ifndef NR
#define NR 16
#endif
#include "common/cache_line.h"
#include "common/tensor.h"
#include "common/activate.h"
#include "common/plain.h"
#include "common/repeat.h"

// Four names for four vectors; those beyond NR/VECTOR vanish.
#define LANE_0(X) X
#if NR / VECTOR > 1
#define LANE_1(X) X
#else
#define LANE_1(X)
#endif
#if NR / VECTOR > 2
#define LANE_2(X) X
#else
#define LANE_2(X)
#endif
#if NR / VECTOR > 3
#define LANE_3(X) X
#else
#define LANE_3(X)
#endif
#define EACH_LANE(X) LANE_0(X(0)) LANE_1(X(1)) LANE_2(X(2)) LANE_3(X(3))

// Accumulators a<m>_<v>, all rows starting from the NR floats at `pointer`.
#define START_ROW(m)                              \
    LANE_0(VEC a##m##_0 = bias_0;)                \
    LANE_1(VEC a##m##_1 = bias_1;)                \
    LANE_2(VEC a##m##_2 = bias_2;)                \
    LANE_3(VEC a##m##_3 = bias_3;)
#define LOAD_BIAS(v) VEC bias_##v = VLOAD(start + v * VECTOR);
#define START_TILE(pointer)                       \
    __global const float *start = (pointer);      \
    EACH_LANE(LOAD_BIAS)                          \
    REPEAT(MR, START_ROW)

// One step of K: row pointers p<m> advance together by index k; `weight` points at NR floats of this step.
// ROW_STEP and WEIGHT_STEP are the elements from one step to the next.
#ifndef ROW_STEP
#define ROW_STEP 1
#define WEIGHT_STEP NR
#endif
#define LOAD_WEIGHT(v) const VEC w_##v = VLOAD(weight + v * VECTOR);
#define STEP_ROW(m)                               \
    {                                             \
        const VEC s = (VEC)(p##m[k * ROW_STEP]);  \
        LANE_0(a##m##_0 = fma(s, w_0, a##m##_0);) \
        LANE_1(a##m##_1 = fma(s, w_1, a##m##_1);) \
        LANE_2(a##m##_2 = fma(s, w_2, a##m##_2);) \
        LANE_3(a##m##_3 = fma(s, w_3, a##m##_3);) \
    }
#define ACCUMULATE(length)                        \
    ALIGNED_LOOP                                  \
    for (int k = 0; k < (length); ++k) {          \
        EACH_LANE(LOAD_WEIGHT)                    \
        REPEAT(MR, STEP_ROW)                      \
        weight += WEIGHT_STEP;                    \
    }

// Stores one vector of a row through the epilogue; lanes outside [low, high) are neither read nor written.
inline void store_lanes(VEC value, __global float *dst, int dst_step, __global const float *residual,
                        int residual_step, int low, int high, EPILOGUE_SCALARS) {
    VEC other = (VEC)(0.0f);
    if (residual_order != RESIDUAL_NONE) other = load_lanes(residual, residual_step, low, high);
    if (residual_order == RESIDUAL_BEFORE) value += other;
    value = ACTIVATE(VEC, value);
    if (residual_order == RESIDUAL_AFTER) value += other;
    if (dst_step == 1 && low <= 0 && high >= VECTOR) {
        VSTORE(value, dst);
    } else {
        float lanes[VECTOR];
        VSTORE(value, lanes);
        for (int i = max(low, 0); i < min(high, VECTOR); ++i) dst[i * dst_step] = lanes[i];
    }
}

// Stores NR values of a row through the epilogue, those in [low, high).
static __attribute__((noinline)) void store_row(const float *lanes, __global float *dst, int dst_step,
                                                __global const float *residual, int residual_step, int low,
                                                int high, EPILOGUE_SCALARS) {
    for (int v = 0; v < NR; v += VECTOR)
        store_lanes(VLOAD(lanes + v), dst + v * dst_step, dst_step, residual + v * residual_step, residual_step,
                    low - v, high - v, residual_order, activation, alpha, beta);
}

// Elements between neighbouring channels of what STORE_TILE_ROW writes and of its residual.
#ifndef DST_STEP
#define DST_STEP 1
#define RESIDUAL_STEP 1
#endif
// Stores the row a<m> at d<m> with its residual at r<m>, channels [low, high) of the panel. The row goes through
// memory and one function: with the epilogue's many cases around the named vectors, Intel's compiler keeps the
// tile out of registers, and the whole kernel runs at half speed.
#define KEEP_VECTOR(m, v) VSTORE(a##m##_##v, row_lanes + v * VECTOR);
#define STORE_TILE_ROW(m)                                                                                   \
    {                                                                                                       \
        float row_lanes[NR];                                                                                \
        LANE_0(KEEP_VECTOR(m, 0))                                                                           \
        LANE_1(KEEP_VECTOR(m, 1))                                                                           \
        LANE_2(KEEP_VECTOR(m, 2))                                                                           \
        LANE_3(KEEP_VECTOR(m, 3))                                                                           \
        store_row(row_lanes, d##m, DST_STEP, r##m, RESIDUAL_STEP, low, high, residual_order, activation,    \
                  alpha, beta);                                                                             \
    }

// The same for whole panels that lie densely, as most do: no question is asked but once a tile (PLAIN_STORE), and
// activations are a slope below zero, a least and a greatest value (common/plain.h). Bits are those of
// STORE_TILE_ROW.
#define PLAIN_STORE                                                                                         \
    (low <= 0 && high >= NR && DST_STEP == 1 && IS_PLAIN_ACTIVATION &&                                         \
     (residual_order == RESIDUAL_NONE || (residual_order == RESIDUAL_BEFORE && RESIDUAL_STEP == 1)))
#define BOUND_VECTOR(m, v) \
    BOUND(a##m##_##v)      \
    VSTORE(a##m##_##v, d##m + v * VECTOR);
#define ADD_VECTOR(m, v) a##m##_##v += VLOAD(r##m + v * VECTOR);
#define STORE_PLAIN_ROW(m)                        \
    if (residual_order != RESIDUAL_NONE) {        \
        LANE_0(ADD_VECTOR(m, 0))                  \
        LANE_1(ADD_VECTOR(m, 1))                  \
        LANE_2(ADD_VECTOR(m, 2))                  \
        LANE_3(ADD_VECTOR(m, 3))                  \
    }                                             \
    LANE_0(BOUND_VECTOR(m, 0))                    \
    LANE_1(BOUND_VECTOR(m, 1))                    \
    LANE_2(BOUND_VECTOR(m, 2))                    \
    LANE_3(BOUND_VECTOR(m, 3))

// Copies the first `count` floats, fewer than VECTOR, in as few steps as there are ones in `count`.
#define COPY_PART(from, to, count)                                                                          \
    {                                                                                                       \
        int at = 0;                                                                                         \
        if ((count) & 8) { vstore8(vload8(0, from), 0, to); at = 8; }                                       \
        if ((count) & 4) { vstore4(vload4(0, from + at), 0, to + at); at += 4; }                            \
        if ((count) & 2) { vstore2(vload2(0, from + at), 0, to + at); at += 2; }                            \
        if ((count) & 1) to[at] = from[at];                                                                 \
    }

// Adds a residual to the first `count` lanes, bounds and stores them.
static __attribute__((noinline)) void store_part(VEC value, VEC slope, VEC least, VEC most, __global float *dst,
                                                 __global const float *residual, int residual_order, int count) {
    float lanes[VECTOR];
    if (residual_order != RESIDUAL_NONE) {
        VEC other = (VEC)(0.0f);
        if (count >= VECTOR) {
            other = VLOAD(residual);
        } else {
            VSTORE(other, lanes);
            COPY_PART(residual, lanes, count)
            other = VLOAD(lanes);
        }
        value += other;
    }
    BOUND(value)
    if (count >= VECTOR) {
        VSTORE(value, dst);
    } else {
        VSTORE(value, lanes);
        COPY_PART(lanes, dst, count)
    }
}

#endif
