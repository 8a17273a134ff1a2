// resize2d_taps__buffer: dst[n, h, w, c] = blend of src[n, i, j, c], i in {low[h], high[h]}, j in {low[w], high[w]}
//
// Arguments
//   dst     float, kernel dimensions (n, h, w, c), any strides; the box is written, nothing else
//   src     float, kernel dimensions (n, h, w, c), any strides
//   taps    float [3, out_height + out_width]  low, high and the weight of high, of each row, then of each column
//   box     first coordinates and lengths in dst; what a work-item takes (common/runs.h)
//   out_height, out_width   of the whole output
//   is_linear               0: src at (low, low) as it is
// Launch      global (ceil(channels / item_channels), ceil(rows / item_rows), 1)   local (1, 1, 1)
// Parameters  VECTOR 4 8 16 lanes
// Tested by   tests/kernels/test_resize.py
#include "common/vector.h"
#include "common/runs.h"

#define BLEND(T, a, b, weight) fma(b, (T)(weight), (a) * (T)(1.0f - weight))
#define STEP_NEAREST(at) VSTORE(VLOAD(s + (at)), d + (at))
#define STEP_LINEAR(at)                                                                           \
    VSTORE(BLEND(VEC, BLEND(VEC, VLOAD(s + (at)), VLOAD(s + right + (at)), x),                    \
                 BLEND(VEC, VLOAD(s + below + (at)), VLOAD(s + below + right + (at)), x), y),     \
           d + (at))

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void resize2d_taps__buffer(TENSOR(dst), CONST_TENSOR(src), __global const float *restrict taps, BOX_SCALARS,
                           int out_height, int out_width, int is_linear) {
    const int taps_step = out_height + out_width;
    const bool is_dense = dst_c == 1 && src_c == 1;
    FOR_EACH_RUN(run, 1) {
        const int n = n_begin + run.row / (h_count * w_count);
        __global const float *row = taps + h_begin + run.row / w_count % h_count;
        __global const float *column = taps + out_height + w_begin + run.row % w_count;
        __global float *d = dst + RUN_START(dst, run);
        const int top = row[0], below = ((int)row[taps_step] - top) * src_h;
        const float y = row[2 * taps_step];
        for (int line = 0; line < run.lines; ++line, ++column, d += dst_w) {
            const int left = column[0], right = ((int)column[taps_step] - left) * src_w;
            const float x = column[2 * taps_step];
            __global const float *s = src + AT(src, n, top, left, c_begin + run.channel);
            if (is_dense && run.length >= VECTOR) {
                if (is_linear)
                    FOR_EACH_VECTOR(run.length, STEP_LINEAR)
                else
                    FOR_EACH_VECTOR(run.length, STEP_NEAREST)
            } else {
                for (int i = 0; i < run.length; ++i) {
                    __global const float *at = s + i * src_c;
                    d[i * dst_c] = is_linear ? BLEND(float, BLEND(float, at[0], at[right], x),
                                                     BLEND(float, at[below], at[below + right], x), y)
                                             : at[0];
                }
            }
        }
    }
}
