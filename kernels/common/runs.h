// Runs: the elements of a box that lie one step apart in every operand, walked as one loop.
// A box has rows (n, h, w) of channels; where memory allows, a run joins rows that follow each other to one line.
// Strides are known only at run time, so the kernel finds the runs itself.
#ifndef CODL_RUNS_H
#define CODL_RUNS_H

#include "common/tensor.h"

// First coordinates and lengths of the box, then what a work-item takes of it: `item_channels` channels of
// `item_rows` rows. Where runs may join rows, more than one row is taken only with all of their channels.
#define BOX_SCALARS                                                                                         \
    int n_begin, int h_begin, int w_begin, int c_begin, int n_count, int h_count, int w_count, int c_count,  \
        int item_rows, int item_channels

// Step between neighbours of a run: the stride of the innermost dimension longer than 1.
static inline int step_of(int stride_n, int stride_h, int stride_w, int stride_c, int h, int w, int c) {
    return c > 1 ? stride_c : w > 1 ? stride_w : h > 1 ? stride_h : stride_n;
}

// Rows that one run may join: 1, w, h * w or n * h * w, so the least over the operands suits them all.
static inline int rows_of(int stride_n, int stride_h, int stride_w, int stride_c, int n, int h, int w, int c) {
    const int step = step_of(stride_n, stride_h, stride_w, stride_c, h, w, c);
    if (w > 1 && c > 1 && stride_w != c * step) return 1;
    if (h > 1 && w * c > 1 && stride_h != w * c * step) return w;
    if (n > 1 && h * w * c > 1 && stride_n != h * w * c * step) return h * w;
    return n * h * w;
}

#define RUN_STEP(name) step_of(name##_n, name##_h, name##_w, name##_c, h_count, w_count, c_count)
#define RUN_ROWS(name) rows_of(name##_n, name##_h, name##_w, name##_c, n_count, h_count, w_count, c_count)

// Part of a work-item: `lines` lines of `length` elements. A line is a joined run, or the channels of one row;
// lines follow each other in steps of an operand's stride of w. Row and channel count from the box's first.
typedef struct {
    int row;
    int row_end;
    int rows;
    int channel;
    int channels;
    int lines;
    int length;
} run_t;

static inline run_t run_from(int row, int row_end, int channel, int channels, int joined, int width) {
    const int reach = joined > 1 ? joined : width;
    const int rows = min(reach - row % reach, row_end - row);
    const run_t run = {
        row, row_end, rows, channel, channels, joined > 1 ? 1 : rows, joined > 1 ? rows * channels : channels
    };
    return run;
}

static inline run_t first_run(int rows, int channels, int item_rows, int item_channels, int joined, int width) {
    const int row = get_global_id(1) * item_rows, channel = get_global_id(0) * item_channels;
    const int channel_count = min(item_channels, channels - channel);
    return run_from(row, min(row + item_rows, rows), channel, channel_count, joined, width);
}

// for (each run of this work-item, where at most `joined` rows follow each other in every operand)
#define FOR_EACH_RUN(run, joined)                                                                           \
    for (run_t run = first_run(n_count * h_count * w_count, c_count, item_rows, item_channels, joined, w_count); \
         run.row < run.row_end;                                                                             \
         run = run_from(run.row + run.rows, run.row_end, run.channel, run.channels, joined, w_count))

// Index of an operand's element at the start of a run.
#define RUN_START(name, run)                                                                                \
    AT(name, n_begin + run.row / (h_count * w_count), h_begin + run.row / w_count % h_count,                 \
       w_begin + run.row % w_count, c_begin + run.channel)

// STEP(at) for every vector of a line of at least VECTOR elements; the last one steps back and repeats lanes.
#define FOR_EACH_VECTOR(length, STEP)                                                                       \
    {                                                                                                       \
        int at = 0;                                                                                         \
        for (; at + VECTOR <= (length); at += VECTOR) STEP(at);                                             \
        if (at < (length)) STEP((length) - VECTOR);                                                         \
    }

#endif
