// layout_shuffle__buffer: dst[n, h, w, place * GROUPS + group] = src[n, h, w, group * size + place]
//
// Arguments
//   dst     float [N, H, W, C], channels dense; the box is written, nothing else
//   src     float [N, H, W, C], channels dense; only what the box takes is read
//   box     first coordinates and lengths in dst; what a work-item takes (common/runs.h)
//   size    channels of a group, C / GROUPS
// Launch      global (ceil(channels / item_channels), ceil(rows / item_rows), 1)   local (1, 1, 1)
// Parameters  GROUPS 2 3 4 8
// Tested by   tests/kernels/test_moves.py
#include "common/runs.h"

#ifndef GROUPS
#define GROUPS 4
#endif

// Four places of every group are turned at once: vectors x<group> to vectors that lie one after the other.
// None is joined of shorter ones: Oclgrind 21.10 crashes at that.
#define TURNED (4 * GROUPS)
#define LOAD_GROUP(g) const float4 x##g = vload4(0, s + g * size);
#if GROUPS == 2
#define TURN_FOUR                                                                                         \
    LOAD_GROUP(0) LOAD_GROUP(1)                                                                           \
    vstore8((float8)(x0.x, x1.x, x0.y, x1.y, x0.z, x1.z, x0.w, x1.w), 0, d);
#elif GROUPS == 3
#define TURN_FOUR                                                                                         \
    LOAD_GROUP(0) LOAD_GROUP(1) LOAD_GROUP(2)                                                             \
    vstore8((float8)(x0.x, x1.x, x2.x, x0.y, x1.y, x2.y, x0.z, x1.z), 0, d);                              \
    vstore4((float4)(x2.z, x0.w, x1.w, x2.w), 0, d + 8);
#elif GROUPS == 4
#define STORE_PLACE(i, at) vstore4((float4)(x0.i, x1.i, x2.i, x3.i), 0, d + at);
#define TURN_FOUR                                                                                         \
    LOAD_GROUP(0) LOAD_GROUP(1) LOAD_GROUP(2) LOAD_GROUP(3)                                               \
    STORE_PLACE(x, 0) STORE_PLACE(y, 4) STORE_PLACE(z, 8) STORE_PLACE(w, 12)
#else
#define STORE_PLACE(i, at) vstore8((float8)(x0.i, x1.i, x2.i, x3.i, x4.i, x5.i, x6.i, x7.i), 0, d + at);
#define TURN_FOUR                                                                                         \
    LOAD_GROUP(0) LOAD_GROUP(1) LOAD_GROUP(2) LOAD_GROUP(3)                                               \
    LOAD_GROUP(4) LOAD_GROUP(5) LOAD_GROUP(6) LOAD_GROUP(7)                                               \
    STORE_PLACE(x, 0) STORE_PLACE(y, 8) STORE_PLACE(z, 16) STORE_PLACE(w, 24)
#endif

// Whole turns of a line, four places each.
#define TURN_ALL(turns)                                                                                   \
    for (int turn = 0; turn < (turns); ++turn, s += 4, d += TURNED) { TURN_FOUR }

// Lines that begin with a group and are whole turns, as those of most tensors, ask for nothing else. Others have values
// before the first whole group and behind the last; a last turn steps back into the one before, what both store is
// equal, and fewer groups than a turn go one by one.
__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void layout_shuffle__buffer(TENSOR(dst), CONST_TENSOR(src), BOX_SCALARS, int size) {
    FOR_EACH_RUN(run, 1) {
        const int n = n_begin + run.row / (h_count * w_count), h = h_begin + run.row / w_count % h_count;
        const int w = w_begin + run.row % w_count, begin = c_begin + run.channel, end = begin + run.length;
        const int head = min(end, (begin + GROUPS - 1) / GROUPS * GROUPS), tail = max(head, end / GROUPS * GROUPS);
        const int turns = (tail - head) / TURNED, back = turns > 0 ? (head + turns * TURNED + TURNED - tail) % TURNED : 0;
        __global const float *pixel = src + AT(src, n, h, w, 0);
        __global float *line = dst + AT(dst, n, h, w, begin);
        if (head == begin && turns * TURNED == run.length) {
            for (int count = 0; count < run.lines; ++count, pixel += src_w, line += dst_w) {
                __global const float *s = pixel + begin / GROUPS;
                __global float *d = line;
                TURN_ALL(turns)
            }
            continue;
        }
        for (int count = 0; count < run.lines; ++count, pixel += src_w, line += dst_w) {
            __global float *d = line;
            for (int channel = begin; channel < head; ++channel)
                *d++ = pixel[channel % GROUPS * size + channel / GROUPS];
            __global const float *s = pixel + head / GROUPS;
            TURN_ALL(turns)
            if (back > 0) {
                s -= back / GROUPS, d -= back;
                TURN_FOUR
                d += TURNED;
            }
            if (turns == 0)
                for (int channel = head; channel < tail; channel += GROUPS, ++s, d += GROUPS)
                    for (int g = 0; g < GROUPS; ++g) d[g] = s[g * size];
            for (int channel = tail; channel < end; ++channel)
                *d++ = pixel[channel % GROUPS * size + channel / GROUPS];
        }
    }
}
