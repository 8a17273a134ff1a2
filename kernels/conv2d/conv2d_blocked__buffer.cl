// conv2d_blocked__buffer: dst[n, oh, ow, oc] = epilogue(bias[oc] + sum over kh, kw, ic of src[n, ih, iw, ic] * weight)
// with ih = oh * stride - pad + kh * dilation, iw likewise; a matrix product in blocks of K.
//
// Arguments
//   dst       float [N, OH, OW, OC], oc innermost   the box [begin, end) is written, nothing else
//   src       float [N, H, W, IC], ic innermost     the windows of the box without padding are read
//   residual  as dst                                read when residual_order is not 0
//   weights   float [panels, 1 + KH*KW*IC, VECTORS, VECTOR]   row 0 the bias; the launch's first panel first
//   zeros     float [IC]                            what padding reads
//   local     float [rows * (DEPTH + 16 + item_panels * VECTORS * VECTOR)], rows = item_tiles * MR
//   scalars   first image, first coordinates and ends of the box, first panel, tiles and panels an item takes,
//             panels of the launch, outputs and inputs, image size, window, epilogue
// Launch      grid (ceil(tiles / item_tiles), ceil(panels / item_panels), images)   local (1, 1, 1)
// Parameters  MR 4 5 6 7 8 9 10 12 14 pixels; VECTORS 1 2 3 4 vectors of a panel; VECTOR 4 8 16 lanes;
//             DEPTH 64 128 256 steps of K in a block; FETCH 0 1 whether weights are asked for ahead
// Tested by   tests/kernels/test_conv2d_blocked.py
//
// For each block of K an item gathers its pixels' inputs into rows of fixed distance, so that one pointer serves
// a whole tile; then each panel's weights of the block stay in the nearest cache while all tiles use them. Sums wait
// in local memory from block to block, which keeps their bits.
#ifndef DEPTH
#define DEPTH 128
#endif
#ifndef FETCH
#define FETCH 0
#endif
// Floats from one pixel's inputs to the next one's; a power of two would crowd into few cache sets.
#define ROW_STEP (DEPTH + 16)
#define INPUT(m) input[k + m * ROW_STEP]
#include "common/gemm_tile.h"
#include "common/grid.h"

// Copies the part of a run of inputs that lies in the block [block, block + DEPTH) of K, to its place in the row.
static void copy_run(__local float *row, __global const float *src, int place, int length, int block) {
    const int begin = max(place, block), end = min(place + length, block + DEPTH);
    __local float *to = row + (begin - block);
    __global const float *from = src + (begin - place);
    int at = 0;
    for (; at + VECTOR <= end - begin; at += VECTOR) VSTORE(VLOAD(from + at), to + at);
    for (; at < end - begin; ++at) to[at] = from[at];
}

#define DECLARE_VECTOR(m, v) VEC a##m##_##v;
#define DECLARE_ROW(m) EACH_IN_ROW(DECLARE_VECTOR, m)
#define TAKE_BIAS(m, v) a##m##_##v = bias_##v;
#define TAKE_BIAS_ROW(m) EACH_IN_ROW(TAKE_BIAS, m)
#define TAKE_SUM(m, v) a##m##_##v = VLOAD(sum + m * PANEL + v * VECTOR);
#define TAKE_SUM_ROW(m) EACH_IN_ROW(TAKE_SUM, m)
#define KEEP_SUM(m, v) VSTORE(a##m##_##v, sum + m * PANEL + v * VECTOR);
#define KEEP_SUM_ROW(m) EACH_IN_ROW(KEEP_SUM, m)
#if FETCH
// While tiles work, the next panel's weights of this block come near: each tile asks for its share, a row every
// `tiles` steps, and each of its lines once.
#define FETCH_LINE                   \
    if (--steps_left == 0) {         \
        steps_left = tiles;          \
        EACH_VECTOR(ASK_VECTOR)      \
        ahead += PANEL;              \
    }
#else
#define FETCH_LINE
#endif

#define PARAMETERS                                                                                        \
    TENSOR(dst), CONST_TENSOR(src), CONST_TENSOR(residual), __global const float *restrict weights,       \
    __global const float *zeros, __local float *space, int image_begin, int row_begin, int col_begin,     \
    int channel_begin, int row_end, int col_end, int channel_end, int panel_begin, int item_tiles,        \
    int item_panels, int panels, int outputs, int inputs, int in_h, int in_w, int kernel_h, int kernel_w, \
    int stride_h, int stride_w, int dilation_h, int dilation_w, int pad_h, int pad_w, EPILOGUE_SCALARS
#define VALUES                                                                                                 \
    PASS_TENSOR(dst), PASS_TENSOR(src), PASS_TENSOR(residual), weights, zeros, space, image_begin, row_begin,  \
    col_begin, channel_begin, row_end, col_end, channel_end, panel_begin, item_tiles, item_panels, panels,     \
    outputs, inputs, in_h, in_w, kernel_h, kernel_w, stride_h, stride_w, dilation_h, dilation_w, pad_h, pad_w, \
    PASS_EPILOGUE
static void multiply_item(PARAMETERS, GRID_PLACE) {
    const int columns = col_end - col_begin, pixels = (row_end - row_begin) * columns;
    const int n = image_begin + grid_z, first = grid_x * item_tiles * MR;
    const int item_begin = grid_y * item_panels, item_end = min(panels, item_begin + item_panels);
    const int count = min(item_tiles * MR, pixels - first), tiles = (count + MR - 1) / MR;
    const int depth = kernel_h * kernel_w * inputs, panel_floats = (depth + 1) * PANEL;
    const int last_start = max(0, outputs - VECTOR);
    __local float *sums = space + item_tiles * MR * ROW_STEP;
    __global const float *item_weights = weights + item_begin * (size_t)panel_floats;

    for (int block = 0; block < depth; block += DEPTH) {
        const int steps = min(DEPTH, depth - block);
        for (int r = 0; r < count; ++r) {
            const int y = (row_begin + (first + r) / columns) * stride_h - pad_h;
            const int x = (col_begin + (first + r) % columns) * stride_w - pad_w;
            for (int place = block / inputs * inputs; place < block + steps; place += inputs) {
                const int tap = place / inputs;
                const int ih = y + tap / kernel_w * dilation_h, iw = x + tap % kernel_w * dilation_w;
                const bool is_inside = (uint)ih < (uint)in_h && (uint)iw < (uint)in_w;
                __global const float *from = is_inside ? src + AT(src, n, ih, iw, 0) : zeros;
                copy_run(space + r * ROW_STEP, from, place, inputs, block);
            }
        }
        for (int r = count; r < tiles * MR; ++r)
            for (int k = 0; k < steps; ++k) space[r * ROW_STEP + k] = 0.0f;

        for (int item = 0; item < item_end - item_begin; ++item) {
            __global const float *panel = item_weights + item * (size_t)panel_floats;
            __global const float *start = panel + (block + 1) * PANEL;
#if FETCH
            __global const float *next = item + 1 < item_end - item_begin ? start + panel_floats
                                                                          : item_weights + (block + DEPTH + 1) * PANEL;
#endif
            for (int tile = 0; tile < tiles; ++tile) {
                __local const float *input = space + tile * MR * ROW_STEP;
                __local float *sum = sums + (item * item_tiles + tile) * MR * PANEL;
                __global const float *weight = start;
#if FETCH
                int steps_left = 1;
                __global const float *ahead = next + tile * ((steps + tiles - 1) / tiles) * PANEL;
#endif
                REPEAT(MR, DECLARE_ROW)
                if (block == 0) {
                    weight = panel;
                    EACH_VECTOR(LOAD_BIAS)
                    REPEAT(MR, TAKE_BIAS_ROW)
                    weight = start;
                } else {
                    REPEAT(MR, TAKE_SUM_ROW)
                }
                ALIGNED_LOOP
                for (int k = 0; k < steps; ++k) {
                    FETCH_LINE
                    TAKE_STEP
                }
                REPEAT(MR, KEEP_SUM_ROW)
            }
        }
    }

    const int low = channel_begin, high = min(channel_end, outputs);
    for (int item = 0; item < item_end - item_begin; ++item) {
        const int first_channel = (panel_begin + item_begin + item) * PANEL;
        const bool is_whole = IS_WHOLE_PANEL(first_channel, last_start, low, high, outputs);
        int oh = row_begin + first / columns, ow = col_begin + first % columns;
        for (int r = 0; r < count; ++r) {
            store_sums(sums + (item * item_tiles * MR + r) * PANEL, dst + AT(dst, n, oh, ow, 0),
                       residual + AT(residual, n, oh, ow, 0), first_channel, last_start, low, high, is_whole,
                       residual_order, activation, alpha, beta);
            if (++ow == col_end) { ow = col_begin; ++oh; }
        }
    }
}
GRID_KERNEL(conv2d_blocked__buffer, multiply_item)
