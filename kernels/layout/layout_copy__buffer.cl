// layout_copy__buffer: dst[n, h, w, c] = src[n, h, w, c]
//
// Shifts and steps between the two are in the operands' offsets and strides: parts of a Concat, block offsets of
// SpaceToDepth, a region that moves from one storage to another.
//
// Arguments
//   dst     float, kernel dimensions (n, h, w, c), any strides; the box is written, nothing else
//   src     float, same coordinates, any strides
//   box     first coordinates and lengths; what a work-item takes (common/runs.h)
// Launch      global (ceil(channels / item_channels), ceil(rows / item_rows), 1)   local (1, 1, 1)
// Parameters  VECTOR 4 8 16 lanes
// Tested by   tests/kernels/test_copy.py
#include "common/vector.h"
#include "common/runs.h"

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void layout_copy__buffer(TENSOR(dst), CONST_TENSOR(src), BOX_SCALARS) {
    const int dst_step = RUN_STEP(dst), src_step = RUN_STEP(src);
    const int joined = min(RUN_ROWS(dst), RUN_ROWS(src));
    FOR_EACH_RUN(run, joined) {
        const int length = run.length;
        __global float *d = dst + RUN_START(dst, run);
        __global const float *s = src + RUN_START(src, run);
        if (dst_step == 1 && src_step == 1 && length >= VECTOR) {
            for (int i = 0; i < length; i += VECTOR) {
                const int at = LANES_AT(i, length);
                VSTORE(VLOAD(s + at), d + at);
            }
        } else {
            for (int i = 0; i < length; ++i) d[i * dst_step] = s[i * src_step];
        }
    }
}
