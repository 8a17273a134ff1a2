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
// Launch      grid (rows, 1, images)   local (1, 1, 1)
// Parameters  MR 1 2 3 4 5 6 8 9 10 12 14 pixels; VECTORS 1 2 3 4 5 vectors of a panel; VECTOR 4 8 16 lanes
// Tested by   tests/kernels/test_conv2d_patch.py
//
// An item copies the rows of the image that its output row sees, with their padding: then no pixel is at an edge,
// and a row of a window is one run of memory. The last vectors of a panel step back to end with the channels.
#include "common/gemm_tile.h"

#define LINE_OUTPUT                                                                                              \
    __global float *to, int to_step, __global const float *with, int with_step, int low, int high, int residual_order
#define STORE_PIXEL(m, STORE_ROW)                                    \
    if (left > m) {                                                  \
        __global float *d##m = to + (first + m) * to_step;           \
        __global const float *r##m = with + (first + m) * with_step; \
        STORE_ROW(m)                                                 \
    }
#define STORE_PLAIN_PIXEL(m) STORE_PIXEL(m, STORE_PLAIN_ROW)
#define STORE_ANY_PIXEL(m) STORE_PIXEL(m, STORE_ANY_ROW)
#define STORE_PANEL                                                     \
    if (IS_WHOLE_PANEL(first_channel, last_start, low, high, outputs)) { \
        REPEAT(MR, STORE_PLAIN_PIXEL)                                   \
    } else {                                                            \
        REPEAT(MR, STORE_ANY_PIXEL)                                     \
    }
#include "common/patch.h"
#include "common/grid.h"

#define PARAMETERS                                                                                           \
    TENSOR(dst), CONST_TENSOR(src), CONST_TENSOR(residual), __global const float *restrict weights,          \
    __local float *patch, int image_begin, int row_begin, int col_begin, int channel_begin, int col_end,     \
    int channel_end, int panel_begin, int panels, int inputs, int outputs, int in_h, int in_w, int kernel_h, \
    int kernel_w, int stride_h, int stride_w, int pad_h, int pad_w, EPILOGUE_SCALARS
#define VALUES                                                                                                  \
    PASS_TENSOR(dst), PASS_TENSOR(src), PASS_TENSOR(residual), weights, patch, image_begin, row_begin,          \
    col_begin, channel_begin, col_end, channel_end, panel_begin, panels, inputs, outputs, in_h, in_w, kernel_h, \
    kernel_w, stride_h, stride_w, pad_h, pad_w, PASS_EPILOGUE
static void convolve_row(PARAMETERS, GRID_PLACE) {
    const int n = image_begin + grid_z, oh = row_begin + grid_x;
    const int columns = col_end - col_begin, line_pixels = (columns - 1) * stride_w + kernel_w;
    fill_patch(patch, src + AT(src, n, 0, 0, 0), src_h, src_w, oh * stride_h - pad_h, col_begin * stride_w - pad_w,
               kernel_h, line_pixels, in_h, in_w, inputs);
    convolve_line(dst + AT(dst, n, oh, col_begin, 0), dst_w, residual + AT(residual, n, oh, col_begin, 0), residual_w,
                  channel_begin, channel_end, residual_order, patch, columns, line_pixels * inputs, stride_w * inputs,
                  weights, panel_begin, panels, kernel_h, kernel_w * inputs, outputs, activation, alpha, beta);
}
GRID_KERNEL(conv2d_patch__buffer, convolve_row)
