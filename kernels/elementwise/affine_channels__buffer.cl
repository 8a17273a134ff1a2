// affine_channels__buffer: dst[n, h, w, c] = act(fma(src[n, h, w, c], scale[c], shift[c]))
//
// Arguments
//   dst     float, kernel dimensions (n, h, w, c), any strides; the box is written, nothing else
//   src     float, same coordinates, any strides
//   scale   float [channels], from the box's first channel on
//   shift   float [channels], from the box's first channel on
//   box     first coordinates and lengths; what a work-item takes (common/runs.h)
//   epilogue  activation; no residual
// Launch      global (ceil(channels / item_channels), ceil(rows / item_rows), 1)   local (1, 1, 1)
// Parameters  VECTOR 4 8 16 lanes
// Tested by   tests/kernels/test_pointwise.py
#include "common/activate.h"
#include "common/pattern.h"
#include "common/runs.h"

#define STEP(at)                                                                                             \
    VSTORE(ACTIVATE(VEC, fma(VLOAD(s + (at)), VLOAD(gain + (at)), VLOAD(offset + (at)))), d + (at))

#define STEP_PATTERN(at)                                                                                     \
    VSTORE(ACTIVATE(VEC, fma(VLOAD(s + (at)), PATTERN_AT(gains, at, c_count),                                \
                             PATTERN_AT(offsets, at, c_count))),                                             \
           d + (at))

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void affine_channels__buffer(TENSOR(dst), CONST_TENSOR(src), __global const float *scale,
                             __global const float *shift, BOX_SCALARS, EPILOGUE_SCALARS) {
    const bool is_dense = dst_c == 1 && src_c == 1;
    const int joined = min(RUN_ROWS(dst), RUN_ROWS(src));
    // Few channels: long lines of pixels all the same.
    const bool is_pattern = RUN_STEP(dst) == 1 && RUN_STEP(src) == 1 && c_count <= LONGEST_PATTERN &&
                            item_channels >= c_count && joined > 1;
    const int dst_step = is_pattern ? 1 : dst_c, src_step = is_pattern ? 1 : src_c;
    DECLARE_PATTERN(gains)
    DECLARE_PATTERN(offsets)
    if (is_pattern) {
        fill_pattern(gains, scale, c_count);
        fill_pattern(offsets, shift, c_count);
    }
    FOR_EACH_RUN(run, is_pattern ? joined : 1) {
        __global float *d = dst + RUN_START(dst, run);
        __global const float *s = src + RUN_START(src, run);
        __global const float *gain = scale + run.channel;
        __global const float *offset = shift + run.channel;
        for (int line = 0; line < run.lines; ++line, d += dst_w, s += src_w) {
            if (is_pattern && run.length >= VECTOR)
                FOR_EACH_VECTOR(run.length, STEP_PATTERN)
            else if (is_dense && run.length >= VECTOR)
                FOR_EACH_VECTOR(run.length, STEP)
            else
                for (int i = 0; i < run.length; ++i) {
                    const int c = i % c_count;
                    d[i * dst_step] = ACTIVATE(float, fma(s[i * src_step], gain[c], offset[c]));
                }
        }
    }
}
