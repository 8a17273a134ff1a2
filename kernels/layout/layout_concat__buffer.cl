// layout_concat__buffer: dst[n, h, w, c] = x_p[n, h, w, c - begin_p] where begin_p <= c < begin_(p+1)
//
// Up to four tensors side by side along c, in one pass over dst.
//
// Arguments
//   dst       float, kernel dimensions (n, h, w, c), any strides; the box is written, nothing else
//   x0 .. x3  float, same dimensions, any strides
//   box       first coordinates and lengths in dst; what a work-item takes (common/runs.h)
//   begin_0 .. begin_4   channels of dst where each tensor begins; an absent one begins where it ends
// Launch      global (ceil(channels / item_channels), ceil(rows / item_rows), 1)   local (1, 1, 1)
// Parameters  none
// Tested by   tests/kernels/test_copy.py
#include "common/vector.h"
#include "common/runs.h"

#define STEP(at) VSTORE(VLOAD(s + (at)), d + (at))

// Copies `length` floats that lie `src_step` and `dst_step` apart.
static inline void copy_line(__global float *d, int dst_step, __global const float *s, int src_step, int length) {
    if (dst_step == 1 && src_step == 1 && length >= VECTOR)
        FOR_EACH_VECTOR(length, STEP)
    else
        for (int i = 0; i < length; ++i) d[i * dst_step] = s[i * src_step];
}

// The part of a tensor in the channels of this run, and where its lines begin.
#define FIND_PART(p, begin, end)                                                                          \
    const int from_##p = max(first, begin), length_##p = min(first + run.length, end) - from_##p;         \
    __global const float *s_##p = x##p + AT(x##p, n, h, w, from_##p - (begin));
#define COPY_PART(p)                                                                                      \
    copy_line(d + (from_##p - first) * dst_c, dst_c, s_##p + line * x##p##_w, x##p##_c, length_##p);

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void layout_concat__buffer(TENSOR(dst), CONST_TENSOR(x0), CONST_TENSOR(x1), CONST_TENSOR(x2), CONST_TENSOR(x3),
                           BOX_SCALARS, int begin_0, int begin_1, int begin_2, int begin_3, int begin_4) {
    FOR_EACH_RUN(run, 1) {
        const int n = n_begin + run.row / (h_count * w_count);
        const int h = h_begin + run.row / w_count % h_count;
        const int w = w_begin + run.row % w_count, first = c_begin + run.channel;
        __global float *d = dst + RUN_START(dst, run);
        FIND_PART(0, begin_0, begin_1)
        FIND_PART(1, begin_1, begin_2)
        FIND_PART(2, begin_2, begin_3)
        FIND_PART(3, begin_3, begin_4)
        for (int line = 0; line < run.lines; ++line, d += dst_w) {
            COPY_PART(0)
            COPY_PART(1)
            COPY_PART(2)
            COPY_PART(3)
        }
    }
}
