// conv2d_patch__buffer: dst[n, oh, ow, oc] = epilogue(bias[oc] + sum over kh, kw, ic of src[n, ih, iw, ic] * weight)
// with ih = oh * stride - pad + kh, iw likewise; for few input channels, no groups, no dilation.
//
// Arguments
//   dst       float [N, OH, OW, OC], oc innermost   the box [begin, end) is written, nothing else
//   src       float [N, H, W, IC], ic innermost     the windows of the box without padding are read
//   residual  as dst                                read when residual_order is not 0
//   weights   float [panels, 1 + KH*KW*IC, VECTORS, VECTOR]   row 0 the bias; the launch's first panel first
//   patch     local float [KH, (columns - 1) * stride_w + KW, IC]   what one output row sees, zeros for padding
//   scalars   first image, first coordinates and ends of the box, first panel, panels, inputs and outputs, image
//             size, window, epilogue
// Launch      global (rows, 1, images)   local (1, 1, 1)
// Parameters  MR 1 2 3 4 5 6 8 9 10 12 14 pixels; VECTORS 1 2 3 4 5 vectors of a panel; VECTOR 4 8 16 lanes
// Tested by   tests/kernels/test_conv2d_patch.py
//
// A work-item copies the rows of the image that its output row sees, with their padding: then no pixel is at an edge,
// and a row of a window is one run of memory. The last vectors of a panel step back to end with the channels.
#ifndef MR
#define MR 6
#endif
#ifndef VECTORS
#define VECTORS 2
#endif
#ifndef VECTOR
#define VECTOR 8
#endif
#include "common/gemm_tile.h"

// Where pixel m of the tile begins to see its row of the patch; past the end of the box the last one again.
#define DECLARE_PIXEL(m) __local const float *p##m = patch + (first + min(m, left - 1)) * pixel_step;
#define NEXT_LINE(m) p##m += line_floats;
#define STORE_PIXEL(m)                                                                      \
    if (left > m) {                                                                         \
        __global float *d##m = to + (first + m) * dst_w;                                    \
        __global const float *r##m = with + (first + m) * residual_w;                       \
        STORE_PIXEL_ROW(m)                                                                  \
    }
#define PLACE_VECTOR(v) const int start_##v = min(first_channel + v * VECTOR, last_start);

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

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void conv2d_patch__buffer(
    TENSOR(dst), CONST_TENSOR(src), CONST_TENSOR(residual), __global const float *restrict weights,
    __local float *patch, int image_begin, int row_begin, int col_begin, int channel_begin, int col_end,
    int channel_end, int panel_begin, int panels, int inputs, int outputs, int in_h, int in_w, int kernel_h,
    int kernel_w, int stride_h, int stride_w, int pad_h, int pad_w, EPILOGUE_SCALARS) {
    const int oh = row_begin + get_global_id(0), n = image_begin + get_global_id(2);
    const int columns = col_end - col_begin, y = oh * stride_h - pad_h, x = col_begin * stride_w - pad_w;
    const int line_pixels = (columns - 1) * stride_w + kernel_w;
    const int line_floats = line_pixels * inputs, pixel_step = stride_w * inputs;
    const int seen_begin = clamp(-x, 0, line_pixels), seen_end = clamp(in_w - x, seen_begin, line_pixels);
    for (int kh = 0; kh < kernel_h; ++kh) {
        __local float *line = patch + kh * line_floats;
        const bool is_row = y + kh >= 0 && y + kh < in_h;
        const int begin = is_row ? seen_begin : 0, end = is_row ? seen_end : 0;
        clear(line, begin * inputs);
        copy_pixels(line + begin * inputs, src + AT(src, n, y + kh, x + begin, 0), src_w, inputs, end - begin);
        clear(line + end * inputs, (line_pixels - end) * inputs);
    }
    const int last_start = max(0, outputs - VECTOR);
    __global float *to = dst + AT(dst, n, oh, col_begin, 0);
    __global const float *with = residual + AT(residual, n, oh, col_begin, 0);
    for (int first = 0; first < columns; first += MR) {
        const int left = columns - first;
        __global const float *weight = weights;
        for (int panel = 0; panel < panels; ++panel) {
            const int first_channel = (panel_begin + panel) * PANEL;
            EACH_VECTOR(PLACE_VECTOR)
            REPEAT(MR, DECLARE_PIXEL)
            START_TILE
            for (int kh = 0; kh < kernel_h; ++kh) {
                ACCUMULATE(kernel_w * inputs)
                REPEAT(MR, NEXT_LINE)
            }
            const int low = channel_begin, high = channel_end;
            if (IS_PLAIN_EPILOGUE && low <= start_0 && high >= min(first_channel + PANEL, outputs) &&
                outputs >= VECTOR) {
                PLAIN_BOUNDS
#define STORE_PIXEL_ROW STORE_PLAIN_ROW
                REPEAT(MR, STORE_PIXEL)
            } else {
#undef STORE_PIXEL_ROW
#define STORE_PIXEL_ROW STORE_ANY_ROW
                REPEAT(MR, STORE_PIXEL)
            }
        }
    }
}
