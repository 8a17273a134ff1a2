// reshape_gather__buffer: dst[k, l, m, o] = src[p, q, r, t] of equal position in ONNX order
//
// Both tensors are seen with four axes in ONNX order, axes of length 1 left out and short shapes filled up in
// front: the kernel dimensions (n, h, w, c) are these axes here, whatever lies innermost in memory.
//
// Arguments
//   dst     float [DN, DH, DW, DC], any strides; the box is written, nothing else
//   src     float [SN, SH, SW, SC], any strides
//   box     first coordinates and lengths in dst; what a work-item takes (common/runs.h)
//   dst_height, dst_width, dst_channels   DH, DW, DC
//   src_height, src_width, src_channels   SH, SW, SC
// Launch      global (ceil(channels / item_channels), ceil(rows / item_rows), 1)   local (1, 1, 1)
// Parameters  none
// Tested by   tests/kernels/test_copy.py
#include "common/vector.h"
#include "common/runs.h"

#define STEP(at) VSTORE(VLOAD(s + (at)), d + (at))

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void reshape_gather__buffer(TENSOR(dst), CONST_TENSOR(src), BOX_SCALARS, int dst_height, int dst_width,
                            int dst_channels, int src_height, int src_width, int src_channels) {
    if (src_w == src_channels * src_c) {  // two axes that lie in memory like one
        src_channels *= src_width;
        src_width = 1;
    }
    FOR_EACH_RUN(run, 1) {
        const int n = n_begin + run.row / (h_count * w_count);
        const int h = h_begin + run.row / w_count % h_count;
        const int w = w_begin + run.row % w_count;
        int position = ((n * dst_height + h) * dst_width + w) * dst_channels + c_begin + run.channel;
        __global float *start = dst + RUN_START(dst, run);
        for (int line = 0; line < run.lines; ++line, position += dst_channels, start += dst_w) {
            int t = position % src_channels;
            int r = position / src_channels % src_width;
            int q = position / src_channels / src_width % src_height;
            int p = position / src_channels / src_width / src_height;
            for (int done = 0; done < run.length;) {
                const int count = min(src_channels - t, run.length - done);
                __global float *d = start + done * dst_c;
                __global const float *s = src + AT(src, p, q, r, t);
                if (dst_c == 1 && src_c == 1 && count >= VECTOR)
                    FOR_EACH_VECTOR(count, STEP)
                else if (dst_c == 1)
                    for (int i = 0; i < count; ++i, s += src_c) d[i] = *s;
                else
                    for (int i = 0; i < count; ++i) d[i * dst_c] = s[i * src_c];
                done += count;
                t = 0;
                if (++r == src_width) {
                    r = 0;
                    if (++q == src_height) {
                        q = 0;
                        ++p;
                    }
                }
            }
        }
    }
}
