// conv2d_gemm__buffer: dst[n, oh, ow, oc] = epilogue(bias[oc] + sum over kh, kw, ic of src[n, ih, iw, ic] * weight)
// with ih = oh * stride - pad + kh * dilation, iw likewise; implicit GEMM with a register tile.
//
// Arguments
//   dst       float [N, OH, OW, OC], oc innermost   the box [begin, end) is written, nothing else
//   src       float [N, H, W, IC], ic innermost     the windows of the box without padding are read
//   residual  as dst                                read when residual_order is not 0
//   weights   float [G * ceil(OC/G / NR), 1 + KH*KW*IC/G, NR]   row 0 the bias; the launch's first panel first
//   zeros     float [KW * IC/G]                     what padding reads
//   scalars   first image, first coordinates and ends of the box, first panel, tiles and panels an item takes,
//             panels of the launch, panels, outputs and inputs of a group, image size, window, epilogue
// Launch      grid (ceil(rows * columns / MR / item_tiles), ceil(panels / item_panels), images)   local (1, 1, 1)
// Parameters  MR 1 2 4 6 8 10 12 14 pixels; NR 4 8 12 16 24 32 48 64 channels, one to four vectors;
//             VECTOR 4 8 16 lanes; FETCH 0 1 whether inputs are asked for ahead
// Tested by   tests/kernels/test_conv2d.py
//
// Pixels are those of the box in row-major order, and tiles begin at its first: no output's bits depend on its
// tile. Panels lie on the whole tensor's grid and never straddle groups.
#ifndef FETCH
#define FETCH 0
#endif
#include "common/register_tile.h"
#include "common/grid.h"

#define NEXT_PIXEL \
    if (++ow == col_end) { ow = col_begin; ++oh; }
// Pixel m of the tile: the first row and column of its window, and where that lies; past the end the last one again.
#define PLACE_PIXEL(m)                                                                    \
    const int y##m = oh * stride_h - pad_h, x##m = ow * stride_w - pad_w;                 \
    const int at##m = y##m * src_h + x##m * src_w;                                        \
    if (left > m + 1) { NEXT_PIXEL }
#define SEES_ROW(m) && x##m >= 0 && x##m + reach_w <= in_w
#define SEES_COLUMN(m) && y##m >= 0 && y##m + reach_h <= in_h
// Where pixel m reads at this tap: the source, or zeros in the padding.
#define DECLARE_PIXEL(m) __global const float *p##m;
#define AIM_INNER(m) p##m = image + (at##m + tap);
#define AIM_EDGE(m)                                                                       \
    p##m = (uint)(y##m + tap_y) < (uint)in_h && (uint)(x##m + tap_x) < (uint)in_w         \
        ? image + (at##m + tap) : zeros;
// Each row of taps begins MR walks through memory, which a core sees as such only after some misses: their first lines
// are asked for while the row before is summed, in the last row those of the next tile.
#if FETCH
#define ASK_WALK(m)                         \
    ASK_NEAR_LINE(image + (at##m + next))   \
    ASK_NEAR_LINE(image + (at##m + next + LINE_FLOATS))
#define FETCH_WALKS                                                                                             \
    const int next = kh + 1 < kernel_h ? (kh + 1) * dilation_h * src_h : MR * stride_w * src_w;                 \
    REPEAT(MR, ASK_WALK)
#else
#define FETCH_WALKS
#endif
#define KEEP_SUM(m, v) VSTORE(a##m##_##v, sums + m * NR + v * VECTOR);
#define KEEP_ROW(m)            \
    LANE_0(KEEP_SUM(m, 0))     \
    LANE_1(KEEP_SUM(m, 1))     \
    LANE_2(KEEP_SUM(m, 2))     \
    LANE_3(KEEP_SUM(m, 3))

// Stores `count` pixels' sums through the epilogue, channels [low, high) of the panel: neighbours are dst_w apart, and
// dst_line further behind the last of a row, the columns_left-th from here and then every columns-th. Out of line:
// beside the sums Intel's compiler for AVX-512 would keep the tile in memory, and the whole kernel would take twice as
// long.
static __attribute__((noinline)) void store_pixels(const float *sums, __global float *dst, int dst_w, int dst_line,
                                                   __global const float *residual, int residual_w, int residual_line,
                                                   int count, int columns_left, int columns, int low, int high,
                                                   EPILOGUE_SCALARS) {
    const bool is_plain =
        low <= 0 && IS_PLAIN_ACTIVATION && (residual_order == RESIDUAL_NONE || residual_order == RESIDUAL_BEFORE);
    PLAIN_BOUNDS
    for (int m = 0; m < count; ++m, sums += NR) {
        if (is_plain && high >= NR) {
            for (int v = 0; v < NR; v += VECTOR) {
                VEC value = VLOAD(sums + v);
                if (residual_order != RESIDUAL_NONE) value += VLOAD(residual + v);
                BOUND(value)
                VSTORE(value, dst + v);
            }
        } else if (is_plain) {
            for (int v = 0; v < high; v += VECTOR)
                store_part(VLOAD(sums + v), slope, least, most, dst + v, residual + v, residual_order, high - v);
        } else {
            store_row(sums, dst, 1, residual, 1, low, high, residual_order, activation, alpha, beta);
        }
        dst += dst_w, residual += residual_w;
        if (--columns_left == 0) { columns_left = columns; dst += dst_line; residual += residual_line; }
    }
}

#define PARAMETERS                                                                                              \
    TENSOR(dst), CONST_TENSOR(src), CONST_TENSOR(residual), __global const float *restrict weights,             \
    __global const float *zeros, int image_begin, int row_begin, int col_begin, int channel_begin, int row_end, \
    int col_end, int channel_end, int panel_begin, int item_tiles, int item_panels, int panels,                 \
    int group_panels, int group_outputs, int group_inputs, int in_h, int in_w, int kernel_h, int kernel_w,      \
    int stride_h, int stride_w, int dilation_h, int dilation_w, int pad_h, int pad_w, EPILOGUE_SCALARS
#define VALUES                                                                                                 \
    PASS_TENSOR(dst), PASS_TENSOR(src), PASS_TENSOR(residual), weights, zeros, image_begin, row_begin,         \
    col_begin, channel_begin, row_end, col_end, channel_end, panel_begin, item_tiles, item_panels, panels,     \
    group_panels, group_outputs, group_inputs, in_h, in_w, kernel_h, kernel_w, stride_h, stride_w, dilation_h, \
    dilation_w, pad_h, pad_w, PASS_EPILOGUE
static void multiply_item(PARAMETERS, GRID_PLACE) {
    const int columns = col_end - col_begin, pixels = (row_end - row_begin) * columns;
    const int n = image_begin + grid_z;
    const int reach_h = (kernel_h - 1) * dilation_h + 1, reach_w = (kernel_w - 1) * dilation_w + 1;
    const int item_begin = grid_y * item_panels, item_end = min(panels, item_begin + item_panels);
    const int tile_begin = grid_x * item_tiles * MR;
    for (int first = tile_begin; first < min(pixels, tile_begin + item_tiles * MR); first += MR) {
        const int left = pixels - first;
        const int first_row = row_begin + first / columns, first_col = col_begin + first % columns;
        int oh = first_row, ow = first_col;
        REPEAT(MR, PLACE_PIXEL)

        // A row of taps is one run of memory where pixels lie densely and no window leaves the image sideways.
        const bool sees_rows = true REPEAT(MR, SEES_ROW);
        const bool is_inner = sees_rows REPEAT(MR, SEES_COLUMN);
        const bool is_run = sees_rows && src_w == group_inputs && dilation_w == 1;
        const int taps = is_run ? 1 : kernel_w, length = is_run ? kernel_w * group_inputs : group_inputs;

        __global const float *weight =
            weights + item_begin * ((size_t)(kernel_h * kernel_w * group_inputs + 1) * NR);
        for (int item = item_begin; item < item_end; ++item) {
            const int panel = panel_begin + item, group = panel / group_panels;
            const int group_channel = (panel - group * group_panels) * NR;
            const int channel = group * group_outputs + group_channel;
            __global const float *image = src + AT(src, n, 0, 0, group * group_inputs);
            START_TILE(weight)
            weight += NR;
            for (int kh = 0; kh < kernel_h; ++kh) {
                FETCH_WALKS
                for (int kw = 0; kw < taps; ++kw) {
                    const int tap_y = kh * dilation_h, tap_x = kw * dilation_w;
                    const int tap = tap_y * src_h + tap_x * src_w;
                    REPEAT(MR, DECLARE_PIXEL)
                    if (is_inner) {
                        REPEAT(MR, AIM_INNER)
                    } else {
                        REPEAT(MR, AIM_EDGE)
                    }
                    ACCUMULATE(length)
                }
            }
            float sums[MR * NR];
            REPEAT(MR, KEEP_ROW)
            store_pixels(sums, dst + AT(dst, n, first_row, first_col, channel), dst_w, dst_h - columns * dst_w,
                         residual + AT(residual, n, first_row, first_col, channel), residual_w,
                         residual_h - columns * residual_w, min(MR, left), col_end - first_col, columns,
                         channel_begin - channel, min(channel_end - channel, group_outputs - group_channel),
                         residual_order, activation, alpha, beta);
        }
    }
}
GRID_KERNEL(conv2d_gemm__buffer, multiply_item)
