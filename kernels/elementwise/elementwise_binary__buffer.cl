// elementwise_binary__buffer: dst[n, h, w, c] = act(a[n, h, w, c] (function) b[n, h, w, c])
//
// Arguments
//   dst       float, kernel dimensions (n, h, w, c), any strides; the box is written, nothing else
//   a, b      float, same coordinates; stride 0 where an operand repeats
//   residual  float, as dst; not read when residual_order is 0
//   box       first coordinates and lengths; what a work-item takes (common/runs.h)
//   function  0: a + b, 1: a * b, 2: a - b, 3: a / b, 4: a where a >= 0 and a * b elsewhere
//   epilogue  residual and activation
// Launch      global (ceil(channels / item_channels), ceil(rows / item_rows), 1)   local (1, 1, 1)
// Parameters  VECTOR 4 8 16 lanes
// Tested by   tests/kernels/test_pointwise.py
#include "common/activate.h"
#include "common/pattern.h"
#include "common/runs.h"

#define MULTIPLY 1
#define SUBTRACT 2
#define DIVIDE 3
#define PRELU 4

#define DEFINE_COMBINE(T)                                                                                    \
    static inline T combine_##T(T x, T y, T other, int function, EPILOGUE_SCALARS) {                         \
        T value = x + y;                                                                                     \
        if (function == MULTIPLY) value = x * y;                                                             \
        if (function == SUBTRACT) value = x - y;                                                             \
        if (function == DIVIDE) value = x / y;                                                               \
        if (function == PRELU) value = x < (T)(0.0f) ? x * y : x;                                            \
        if (residual_order == RESIDUAL_BEFORE) value += other;                                               \
        value = activate_##T(value, activation, alpha, beta);                                                \
        if (residual_order == RESIDUAL_AFTER) value += other;                                                \
        return value;                                                                                        \
    }
#define DEFINE_COMBINE_(T) DEFINE_COMBINE(T)
DEFINE_COMBINE(float)
DEFINE_COMBINE_(VEC)
#define COMBINE(T, x, y, other)                                                                              \
    JOIN(combine_, T)(x, y, other, function, residual_order, activation, alpha, beta)

#define RESIDUAL_AT(at) (residual_order == RESIDUAL_NONE ? (VEC)(0.0f) : VLOAD(r + (at)))
#define STEP(at) VSTORE(COMBINE(VEC, VLOAD(x + (at)), VLOAD(y + (at)), RESIDUAL_AT(at)), d + (at))
#define STEP_SAME_X(at) VSTORE(COMBINE(VEC, same, VLOAD(y + (at)), RESIDUAL_AT(at)), d + (at))
#define STEP_SAME_Y(at) VSTORE(COMBINE(VEC, VLOAD(x + (at)), same, RESIDUAL_AT(at)), d + (at))
#define STEP_PATTERN_Y(at)                                                                                   \
    VSTORE(COMBINE(VEC, VLOAD(x + (at)), PATTERN_AT(pattern, at, c_count), RESIDUAL_AT(at)), d + (at))

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void elementwise_binary__buffer(TENSOR(dst), CONST_TENSOR(a), CONST_TENSOR(b), CONST_TENSOR(residual),
                                BOX_SCALARS, int function, EPILOGUE_SCALARS) {
    const int dst_step = RUN_STEP(dst), a_step = RUN_STEP(a), b_step = RUN_STEP(b);
    const int residual_step = RUN_STEP(residual);
    const int others = min(min(RUN_ROWS(dst), RUN_ROWS(residual)), RUN_ROWS(a));
    // Few channels of which b holds one value each, for all pixels: long lines all the same.
    const bool is_pattern = b_c == 1 && c_count > 1 && c_count <= LONGEST_PATTERN && item_channels >= c_count &&
                            (b_n == 0 || n_count == 1) && (b_h == 0 || h_count == 1) &&
                            (b_w == 0 || w_count == 1) && others > 1 && dst_step == 1 && residual_step == 1 &&
                            a_step == 1;
    DECLARE_PATTERN(pattern)
    if (is_pattern) fill_pattern(pattern, b + AT(b, n_begin, h_begin, w_begin, c_begin), c_count);
    FOR_EACH_RUN(run, is_pattern ? others : min(others, RUN_ROWS(b))) {
        const bool is_dense = dst_step == 1 && residual_step == 1 && run.length >= VECTOR;
        __global float *d = dst + RUN_START(dst, run);
        __global const float *x = a + RUN_START(a, run);
        __global const float *y = b + RUN_START(b, run);
        __global const float *r = residual + RUN_START(residual, run);
        for (int line = 0; line < run.lines; ++line, d += dst_w, x += a_w, y += b_w, r += residual_w) {
            if (is_pattern && is_dense) {
                FOR_EACH_VECTOR(run.length, STEP_PATTERN_Y)
            } else if (is_pattern) {
                for (int i = 0; i < run.length; ++i) {
                    const float other = residual_order == RESIDUAL_NONE ? 0.0f : r[i];
                    d[i] = COMBINE(float, x[i], y[i % c_count], other);
                }
            } else if (is_dense && a_step == 1 && b_step == 1) {
                FOR_EACH_VECTOR(run.length, STEP)
            } else if (is_dense && a_step == 1 && b_step == 0) {
                const VEC same = (VEC)(*y);
                FOR_EACH_VECTOR(run.length, STEP_SAME_Y)
            } else if (is_dense && a_step == 0 && b_step == 1) {
                const VEC same = (VEC)(*x);
                FOR_EACH_VECTOR(run.length, STEP_SAME_X)
            } else {
                for (int i = 0; i < run.length; ++i) {
                    const float other = residual_order == RESIDUAL_NONE ? 0.0f : r[i * residual_step];
                    d[i * dst_step] = COMBINE(float, x[i * a_step], y[i * b_step], other);
                }
            }
        }
    }
}
