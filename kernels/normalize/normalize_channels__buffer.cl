// normalize_channels__buffer: dst[n, h, w, c] = act(fma(src[n, h, w, c], factors[n, 0, 0, c], factors[n, 0, 1, c]))
//
// Arguments
//   dst       float, kernel dimensions (n, h, w, c), any strides; the box is written, nothing else
//   src       float, same coordinates, any strides
//   factors   float, kernel dimensions (n, -, 2, c): factor and summand
//   residual  float, as dst; not read when residual_order is 0
//   box       first coordinates and lengths; what a work-item takes (common/runs.h)
//   epilogue  residual and activation
// Launch      global (ceil(channels / item_channels), ceil(rows / item_rows), 1)   local (1, 1, 1)
// Parameters  VECTOR 4 8 16 lanes
// Tested by   tests/kernels/test_normalize.py
#include "common/activate.h"
#include "common/runs.h"

#define DEFINE_FINISH(T)                                                            \
    static inline T finish_##T(T value, T other, EPILOGUE_SCALARS) {                \
        if (residual_order == RESIDUAL_BEFORE) value += other;                      \
        value = activate_##T(value, activation, alpha, beta);                       \
        return residual_order == RESIDUAL_AFTER ? value + other : value;            \
    }
#define DEFINE_FINISH_(T) DEFINE_FINISH(T)
DEFINE_FINISH(float)
DEFINE_FINISH_(VEC)
#define FINISH(T, value, other) JOIN(finish_, T)(value, other, residual_order, activation, alpha, beta)

#define RESIDUAL_AT(at) (residual_order == RESIDUAL_NONE ? (VEC)(0.0f) : VLOAD(r + (at)))
#define STEP(at)                                                                                          \
    VSTORE(FINISH(VEC, fma(VLOAD(s + (at)), VLOAD(factor + (at)), VLOAD(summand + (at))), RESIDUAL_AT(at)), \
           d + (at))

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void normalize_channels__buffer(TENSOR(dst), CONST_TENSOR(src), CONST_TENSOR(factors), CONST_TENSOR(residual),
                                BOX_SCALARS, EPILOGUE_SCALARS) {
    const bool is_dense = dst_c == 1 && src_c == 1 && factors_c == 1 && residual_c == 1;
    FOR_EACH_RUN(run, 1) {
        const int n = n_begin + run.row / (h_count * w_count);
        __global float *d = dst + RUN_START(dst, run);
        __global const float *s = src + RUN_START(src, run);
        __global const float *r = residual + RUN_START(residual, run);
        __global const float *factor = factors + AT(factors, n, 0, 0, c_begin + run.channel);
        __global const float *summand = factor + factors_w;
        for (int line = 0; line < run.lines; ++line, d += dst_w, s += src_w, r += residual_w) {
            if (is_dense && run.length >= VECTOR) {
                FOR_EACH_VECTOR(run.length, STEP)
                continue;
            }
            for (int i = 0; i < run.length; ++i) {
                const float other = residual_order == RESIDUAL_NONE ? 0.0f : r[i * residual_c];
                const float value = fma(s[i * src_c], factor[i * factors_c], summand[i * factors_c]);
                d[i * dst_c] = FINISH(float, value, other);
            }
        }
    }
}
