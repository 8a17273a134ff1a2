// conv2d_gemm__buffer: dst[n, oh, ow, oc] = epilogue(bias[oc] + sum over kh, kw, ic of src[n, ih, iw, ic] * weight)
// with ih = oh * stride - pad + kh * dilation, iw likewise; implicit GEMM with a register tile.
#ifndef MR
#define MR 6
#endif
#ifndef NR
#define NR 16
#endif
#ifndef VECTOR
#define VECTOR 8
#endif
#include "common/register_tile.h"

// Pixel m of the tile: its window's first source row and column, and what it writes; past the end the last one again.
#define PLACE_PIXEL(m)                                                                        \
    const int y##m = oh * stride_h - pad_h, x##m = ow * stride_w - pad_w;                     \
    const int d##m##_at = AT(dst, n, oh, ow, channel), r##m##_at = AT(residual, n, oh, ow, channel); \
    if (left > m + 1) {                                                                       \
        if (++ow == col_end) { ow = col_begin; ++oh; }                                        \
    }
#define SEES_ROW(m) && x##m >= 0 && x##m + kernel_w <= in_w
// Where pixel m reads at this tap: the source, or zeros in the padding.
#define AIM_PIXEL(m)                                                                          \
    const int iy##m = y##m + tap_y, ix##m = x##m + tap_x;                                     \
    __global const float *p##m = (iy##m >= 0) & (iy##m < in_h) & (ix##m >= 0) & (ix##m < in_w)      \
        ? image + iy##m * src_h + ix##m * src_w : zeros;
#define STORE_PIXEL(m)                                                                        \
    if (left > m) {                                                                           \
        __global float *d##m = dst + d##m##_at;                                               \
        __global const float *r##m = residual + r##m##_at;                                    \
        STORE_TILE_ROW(m)                                                                     \
    }

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void conv2d_gemm__buffer(
    TENSOR(dst), CONST_TENSOR(src), CONST_TENSOR(residual),
    __global const float *restrict weights, __global const float *zeros,
    int image_begin, int row_begin, int col_begin, int channel_begin, int row_end, int col_end, int channel_end,
    int panel_begin, int group_panels, int group_outputs, int group_inputs,
    int in_h, int in_w, int kernel_h, int kernel_w, int stride_h, int stride_w,
    int dilation_h, int dilation_w, int pad_h, int pad_w, EPILOGUE_SCALARS) {
    const int first = get_global_id(0) * MR, columns = col_end - col_begin;
    const int left = (row_end - row_begin) * columns - first;
    const int panel = panel_begin + get_global_id(1), n = image_begin + get_global_id(2);
    const int group = panel / group_panels, group_channel = (panel - group * group_panels) * NR;
    const int channel = group * group_outputs + group_channel;
    int oh = row_begin + first / columns, ow = col_begin + first % columns;
    REPEAT(MR, PLACE_PIXEL)

    // A row of taps is one run of memory where pixels lie densely and no window leaves the image sideways.
    const bool is_run = src_w == group_inputs && dilation_w == 1 REPEAT(MR, SEES_ROW);
    const int taps = is_run ? 1 : kernel_w, length = is_run ? kernel_w * group_inputs : group_inputs;
    __global const float *image = src + AT(src, n, 0, 0, group * group_inputs);
    __global const float *weight = weights + get_global_id(1) * ((size_t)(kernel_h * kernel_w * group_inputs + 1) * NR);
    START_TILE(weight)
    weight += NR;
    for (int kh = 0; kh < kernel_h; ++kh) {
        for (int kw = 0; kw < taps; ++kw) {
            const int tap_y = kh * dilation_h, tap_x = kw * dilation_w;
            REPEAT(MR, AIM_PIXEL)
            ACCUMULATE(length)
        }
    }
    const int low = channel_begin - channel;
    const int high = min(channel_end - channel, group_outputs - group_channel);
    REPEAT(MR, STORE_PIXEL)
}
