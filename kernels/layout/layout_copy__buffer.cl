// layout_copy__buffer: dst[n, h, w, c] = src[n, h, w, c]
//
// Shifts, steps and turns between the two are in the operands' offsets and strides: parts of a Concat, block offsets
// of SpaceToDepth and DepthToSpace, groups of ChannelShuffle, Slice, Transpose, a region that moves to another storage.
//
// Arguments
//   dst     float, kernel dimensions (n, h, w, c), any strides; the box is written, nothing else
//   src     float, same coordinates, any strides
//   box     first coordinates and lengths; what a work-item takes (common/runs.h)
// Launch      global (ceil(channels / item_channels), ceil(rows / item_rows), 1)   local (1, 1, 1)
// Parameters  none
// Tested by   tests/kernels/test_copy.py, tests/kernels/test_moves.py
#include "common/vector.h"
#include "common/runs.h"

#define STEP(at) VSTORE(VLOAD(s + (at)), d + (at))

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void layout_copy__buffer(TENSOR(dst), CONST_TENSOR(src), BOX_SCALARS) {
    const int dst_step = RUN_STEP(dst), src_step = RUN_STEP(src);
    const int joined = item_channels < c_count ? 1 : min(RUN_ROWS(dst), RUN_ROWS(src));
    FOR_EACH_RUN(run, joined) {
        __global float *d = dst + RUN_START(dst, run);
        __global const float *s = src + RUN_START(src, run);
        for (int line = 0; line < run.lines; ++line, d += dst_w, s += src_w) {
            if (dst_step == 1 && src_step == 1 && run.length >= VECTOR)
                FOR_EACH_VECTOR(run.length, STEP)
            else
                for (int i = 0; i < run.length; ++i) d[i * dst_step] = s[i * src_step];
        }
    }
}
