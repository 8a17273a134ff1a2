// layout_pad__buffer: dst[n, h, w, c] = src[n - before_n, h - before_h, w - before_w, c - before_c]
// Outside src: `value`, or (mirrored) the element that mirrors it at the edge, or (nearest) the edge itself.
//
// Arguments
//   dst     float, kernel dimensions (n, h, w, c), any strides; the box is written, nothing else
//   src     float [length_n, length_h, length_w, length_c], any strides
//   box     first coordinates and lengths in dst; what a work-item takes (common/runs.h)
//   before  elements in front of src in each dimension; negative where it is cropped
//   length  of src in each dimension
//   mode    0 constant, 1 mirrored once at each side, 2 nearest
//   value   float, of the constant mode
// Launch      global (ceil(channels / item_channels), ceil(rows / item_rows), 1)   local (1, 1, 1)
// Parameters  none
// Tested by   tests/kernels/test_pad.py
#include "common/vector.h"
#include "common/runs.h"

#define CONSTANT 0
#define MIRRORED 1

// Position in src of position `at` of dst; -1 for none.
static inline int source_of(int at, int before, int length, int mode) {
    const int place = at - before, last = length - 1;
    if (mode == CONSTANT) return place >= 0 && place <= last ? place : -1;
    if (mode == MIRRORED) return last - abs(last - (int)abs(place));
    return clamp(place, 0, last);
}

#define STEP(at) VSTORE(VLOAD(s + (at)), d + (at))
#define FILL(at) VSTORE((VEC)(value), d + (at))

// Elements of a line whose channels lie outside src.
#define PAD_CHANNELS(begin, end)                                                          \
    for (int i = (begin); i < (end); ++i) {                                               \
        const int c = source_of(first + i, before_c, length_c, mode);                     \
        d[i * dst_c] = c < 0 ? value : line_src[c * src_c];                             \
    }

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void layout_pad__buffer(TENSOR(dst), CONST_TENSOR(src), BOX_SCALARS, int before_n, int before_h, int before_w,
                        int before_c, int length_n, int length_h, int length_w, int length_c, int mode,
                        float value) {
    const bool is_dense = dst_c == 1 && src_c == 1;
    // Pixels that follow each other in both, so that many are one copy.
    const bool is_line = is_dense && before_c == 0 && length_c == c_count && item_channels >= c_count &&
                         dst_w == c_count && src_w == c_count;
    FOR_EACH_RUN(run, 1) {
        const int n = source_of(n_begin + run.row / (h_count * w_count), before_n, length_n, mode);
        const int h = source_of(h_begin + run.row / w_count % h_count, before_h, length_h, mode);
        const int w_first = w_begin + run.row % w_count, first = c_begin + run.channel;
        const int from = clamp(before_c - first, 0, run.length);
        const int to = clamp(before_c + length_c - first, from, run.length);
        __global float *line_dst = dst + RUN_START(dst, run);
        for (int line = 0, pixels; line < run.lines; line += pixels, line_dst += pixels * dst_w) {
            const int at = w_first + line, w = source_of(at, before_w, length_w, mode);
            const bool is_inside = at >= before_w && at < before_w + length_w;
            pixels = is_line && is_inside ? min(run.lines - line, before_w + length_w - at) : 1;
            __global float *d = line_dst;
            if (n < 0 || h < 0 || w < 0) {
                const int count = pixels * run.length;
                if (dst_c == 1 && count >= VECTOR)
                    FOR_EACH_VECTOR(count, FILL)
                else
                    for (int i = 0; i < count; ++i) d[i * dst_c] = value;
                continue;
            }
            __global const float *line_src = src + AT(src, n, h, w, 0);
            PAD_CHANNELS(0, from)
            PAD_CHANNELS(to, run.length)
            const int count = pixels * (to - from);
            __global const float *s = line_src + (first + from - before_c) * src_c;
            d += from * dst_c;
            if (is_dense && count >= VECTOR)
                FOR_EACH_VECTOR(count, STEP)
            else
                for (int i = 0; i < count; ++i) d[i * dst_c] = s[i * src_c];
        }
    }
}
