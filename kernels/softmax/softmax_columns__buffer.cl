// softmax_columns__buffer: dst[n, h, w, c] = e^(src[n, h, w, c] - m) / sum over k of e^(src[n, h, k, c] - m),
//                          m = max over k of src[n, h, k, c]; w walks along the axis of the softmax
//
// One chain of additions an output, k ascending, whatever lies innermost in memory.
//
// Arguments
//   dst     float, kernel dimensions (n, h, w, c), any strides; the box is written, nothing else
//   src     float, same coordinates; read over the whole length of w
//   box     first coordinates and lengths; a work-item takes item_channels of one (n, h) (common/runs.h)
//   length  of the axis
// Launch      global (ceil(channels / item_channels), n * h, 1)   local (1, 1, 1)
// Parameters  VECTOR 4 8 16 lanes
// Tested by   tests/kernels/test_softmax.py
#include "common/runs.h"
#include "common/exponential.h"

// Softmax of the columns (T lanes each) at s, stored from step `begin` of the axis on at d.
#define COLUMNS(T, LOAD, STORE, s, d)                                                                        \
    {                                                                                                        \
        T greatest = (T)(-INFINITY);                                                                         \
        for (int k = 0; k < length; ++k) {                                                                   \
            const T x = LOAD((s) + k * src_w);                                                               \
            greatest = x > greatest ? x : greatest;                                                          \
        }                                                                                                    \
        T sum = (T)(0.0f);                                                                                   \
        for (int k = 0; k < length; ++k) sum += EXPONENTIAL(T, LOAD((s) + k * src_w) - greatest);            \
        const T share = (T)(1.0f) / sum;                                                                     \
        for (int k = 0; k < w_count; ++k)                                                                    \
            STORE(EXPONENTIAL(T, LOAD((s) + (w_begin + k) * src_w) - greatest) * share, (d) + k * dst_w);    \
    }
#define LOAD_FLOAT(pointer) (*(pointer))
#define STORE_FLOAT(value, pointer) (*(pointer) = (value))
#define STEP(at) COLUMNS(VEC, VLOAD, VSTORE, s + (at), d + (at))

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void softmax_columns__buffer(TENSOR(dst), CONST_TENSOR(src), BOX_SCALARS, int length) {
    const bool is_dense = dst_c == 1 && src_c == 1;
    FOR_EACH_RUN(run, 1) {
        __global float *d = dst + RUN_START(dst, run);
        __global const float *s = src + RUN_START(src, run) - w_begin * src_w;
        if (is_dense && run.length >= VECTOR) {
            FOR_EACH_VECTOR(run.length, STEP)
        } else {
            for (int i = 0; i < run.length; ++i)
                COLUMNS(float, LOAD_FLOAT, STORE_FLOAT, s + i * src_c, d + i * dst_c)
        }
    }
}
