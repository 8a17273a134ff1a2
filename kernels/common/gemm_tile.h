// A register tile of a matrix product: MR rows x VECTORS vectors, every accumulator a named variable.
// Every output is one fma chain over K in ascending order that starts from the panel's bias row, so its bits do
// not depend on the tile or mask path it lies in. Vector v of a panel begins at channel `start_<v>` of its group;
// the last ones step back so that they end with the group, and lanes that two vectors share are equal.
//
// Parameters  MR rows; VECTORS vectors of a row (1 to 5); VECTOR lanes of a vector (4 8 16)
#ifndef CODL_GEMM_TILE_H
#define CODL_GEMM_TILE_H

#ifndef MR
#define MR 6
#endif
#ifndef VECTORS
#define VECTORS 2
#endif
#include "common/cache_line.h"
#include "common/tensor.h"
#include "common/activate.h"
#include "common/plain.h"
#include "common/repeat.h"

#define PANEL (VECTORS * VECTOR)
// Floats of weights from one vector of a row to the next one, and from one row to the next.
#ifndef VECTOR_STEP
#define VECTOR_STEP VECTOR
#define WEIGHT_STEP PANEL
#endif

// One statement for each vector of a row: EACH_VECTOR(X) is X(0) X(1) ..., EACH_IN_ROW(X, m) is X(m, 0) X(m, 1) ...
#define EACH_VECTOR(X) REPEAT(VECTORS, X)
#define IN_ROW_1(X, m) X(m, 0)
#define IN_ROW_2(X, m) IN_ROW_1(X, m) X(m, 1)
#define IN_ROW_3(X, m) IN_ROW_2(X, m) X(m, 2)
#define IN_ROW_4(X, m) IN_ROW_3(X, m) X(m, 3)
#define IN_ROW_5(X, m) IN_ROW_4(X, m) X(m, 4)
#define IN_ROW_OF(COUNT, X, m) IN_ROW_##COUNT(X, m)
#define IN_ROW(COUNT, X, m) IN_ROW_OF(COUNT, X, m)
#define EACH_IN_ROW(X, m) IN_ROW(VECTORS, X, m)

// Where vector v begins, from the first channel of its panel and that of the group's last vector.
#define PLACE_VECTOR(v) const int start_##v = min(first_channel + v * VECTOR, last_start);

// Accumulators a<m>_<v>, all rows starting from the panel's bias.
#define LOAD_BIAS(v) const VEC bias_##v = VLOAD(weight + v * VECTOR_STEP);
#define START_VECTOR(m, v) VEC a##m##_##v = bias_##v;
#define START_ROW(m) EACH_IN_ROW(START_VECTOR, m)

// One step of K: row m reads INPUT(m), by default at index k of its pointer p<m>; `weight` points at the step's row of
// the panel.
#ifndef INPUT
#define INPUT(m) p##m[k]
#endif
#define LOAD_WEIGHT(v) const VEC w_##v = VLOAD(weight + v * VECTOR_STEP);
#define STEP_VECTOR(m, v) a##m##_##v = fma(s##m, w_##v, a##m##_##v);
#define STEP_ROW(m)                        \
    const VEC s##m = (VEC)(INPUT(m));      \
    EACH_IN_ROW(STEP_VECTOR, m)
#define START_TILE                         \
    EACH_VECTOR(LOAD_BIAS)                 \
    REPEAT(MR, START_ROW)                  \
    weight += WEIGHT_STEP;
#define TAKE_STEP                          \
    EACH_VECTOR(LOAD_WEIGHT)               \
    REPEAT(MR, STEP_ROW)                   \
    weight += WEIGHT_STEP;
#define ACCUMULATE(length)                 \
    ALIGNED_LOOP                           \
    for (int k = 0; k < (length); ++k) { TAKE_STEP }

// Stores lanes [low, high) of one vector through any epilogue. Out of line: with its many cases around the named
// vectors, Intel's compiler keeps the tile out of registers.
static __attribute__((noinline)) void store_lanes(const float *lanes, __global float *dst,
                                                  __global const float *residual, int low, int high,
                                                  EPILOGUE_SCALARS) {
    VEC value = VLOAD(lanes), other = (VEC)(0.0f);
    if (residual_order != RESIDUAL_NONE) other = load_lanes(residual, 1, low, high);
    if (residual_order == RESIDUAL_BEFORE) value += other;
    value = ACTIVATE(VEC, value);
    if (residual_order == RESIDUAL_AFTER) value += other;
    if (low <= 0 && high >= VECTOR) {
        VSTORE(value, dst);
    } else {
        float results[VECTOR];
        VSTORE(value, results);
        for (int i = max(low, 0); i < min(high, VECTOR); ++i) dst[i] = results[i];
    }
}

// Stores the row a<m> at channel 0 of its group at d<m>, residual at r<m>, channels [low, high) of the group: vectors
// that hold some which the one before has not.
#define KEEPS_VECTOR(first_channel, v, start) ((first_channel) + (v) * VECTOR < high && (start) + VECTOR > low)
#define STORE_ANY_VECTOR(m, v)                                                                          \
    if (KEEPS_VECTOR(first_channel, v, start_##v)) {                                                    \
        float lanes[VECTOR];                                                                            \
        VSTORE(a##m##_##v, lanes);                                                                      \
        store_lanes(lanes, d##m + start_##v, r##m + start_##v, low - start_##v, high - start_##v,       \
                    residual_order, activation, alpha, beta);                                           \
    }
#define STORE_ANY_ROW(m) EACH_IN_ROW(STORE_ANY_VECTOR, m)

// The same for whole vectors and frequent epilogues.
#define IS_PLAIN_EPILOGUE (IS_PLAIN_ACTIVATION && residual_order <= RESIDUAL_BEFORE)
#define ADD_VECTOR(m, v) a##m##_##v += VLOAD(r##m + start_##v);
#define BOUND_VECTOR(m, v) \
    BOUND(a##m##_##v)      \
    VSTORE(a##m##_##v, d##m + start_##v);
#define STORE_PLAIN_ROW(m)                                                     \
    if (residual_order != RESIDUAL_NONE) { EACH_IN_ROW(ADD_VECTOR, m) }        \
    EACH_IN_ROW(BOUND_VECTOR, m)

// Stores the kept sums of one pixel's panel at channel 0 of its group at `dst`, channels [low, high) of the group;
// whole: the panel's vectors and a frequent epilogue, nothing of them left out.
static void store_sums(__local const float *sums, __global float *dst, __global const float *residual,
                       int first_channel, int last_start, int low, int high, bool is_whole, EPILOGUE_SCALARS) {
    PLAIN_BOUNDS
    for (int v = 0; v < VECTORS; ++v) {
        const int channel = min(first_channel + v * VECTOR, last_start);
        VEC value = VLOAD(sums + v * VECTOR);
        if (is_whole) {
            if (residual_order != RESIDUAL_NONE) value += VLOAD(residual + channel);
            BOUND(value)
            VSTORE(value, dst + channel);
        } else if (KEEPS_VECTOR(first_channel, v, channel)) {
            float lanes[VECTOR];
            VSTORE(value, lanes);
            store_lanes(lanes, dst + channel, residual + channel, low - channel, high - channel, residual_order,
                        activation, alpha, beta);
        }
    }
}
#define IS_WHOLE_PANEL(first_channel, last_start, low, high, outputs)     \
    (IS_PLAIN_EPILOGUE && (outputs) >= VECTOR && (low) <= min(first_channel, last_start) && \
     (high) >= min((first_channel) + PANEL, outputs))

#endif
