// A row of a convolution of few input channels: what of the image it sees, copied with its padding, times the weights.
// Before this file LINE_OUTPUT declares the arguments that say where the row's values go, and STORE_PANEL stores a
// tile's values of the panel at `first_channel`: those of up to MR pixels from `first` on, of which `left` are left.
#ifndef CODL_PATCH_H
#define CODL_PATCH_H

#include "common/gemm_tile.h"

// Where pixel m of the tile begins to see its row of the patch; past the end of the box the last one again.
#define DECLARE_PIXEL(m) __local const float *p##m = patch + (first + min(m, left - 1)) * pixel_step;
#define NEXT_LINE(m) p##m += line_floats;

// Copies `count` pixels, or writes zeros where there are none.
static inline void copy_pixels(__local float *line, __global const float *pixels, int step, int channels, int count) {
    if (step == channels) {
        for (int i = 0; i < count * channels; ++i) line[i] = pixels[i];
    } else {
        for (int i = 0; i < count; ++i, line += channels, pixels += step)
            for (int c = 0; c < channels; ++c) line[c] = pixels[c];
    }
}

static inline void clear(__local float *line, int count) {
    for (int i = 0; i < count; ++i) line[i] = 0.0f;
}

// Copies rows [y, y + kernel_h) of an image, `line_pixels` pixels from column x on, zeros where there are none.
static inline void fill_patch(__local float *patch, __global const float *image, int src_h, int src_w, int y, int x,
                              int kernel_h, int line_pixels, int in_h, int in_w, int inputs) {
    const int seen_begin = clamp(-x, 0, line_pixels), seen_end = clamp(in_w - x, seen_begin, line_pixels);
    for (int kh = 0; kh < kernel_h; ++kh) {
        __local float *line = patch + kh * line_pixels * inputs;
        const bool is_row = y + kh >= 0 && y + kh < in_h;
        const int begin = is_row ? seen_begin : 0, end = is_row ? seen_end : 0;
        clear(line, begin * inputs);
        copy_pixels(line + begin * inputs, image + (y + kh) * src_h + (x + begin) * src_w, src_w, inputs, end - begin);
        clear(line + end * inputs, (line_pixels - end) * inputs);
    }
}

// Computes a row of values from its patch. Out of line: inside another loop it takes a tenth longer.
static __attribute__((noinline)) void convolve_line(LINE_OUTPUT, __local const float *patch, int columns,
                                                    int line_floats, int pixel_step, __global const float *weights,
                                                    int panel_begin, int panels, int kernel_h, int run_floats,
                                                    int outputs, int activation, float alpha, float beta) {
    const int last_start = max(0, outputs - VECTOR);
    PLAIN_BOUNDS
    for (int first = 0; first < columns; first += MR) {
        const int left = columns - first;
        __global const float *weight = weights;
        for (int panel = 0; panel < panels; ++panel) {
            const int first_channel = (panel_begin + panel) * PANEL;
            EACH_VECTOR(PLACE_VECTOR)
            REPEAT(MR, DECLARE_PIXEL)
            START_TILE
            for (int kh = 0; kh < kernel_h; ++kh) {
                ACCUMULATE(run_floats)
                REPEAT(MR, NEXT_LINE)
            }
            STORE_PANEL
        }
    }
}

#endif
