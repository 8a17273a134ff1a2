// conv2d_pointwise__buffer: dst[n, oh, ow, oc] = epilogue(bias[oc] + sum over ic of src[n, ih, iw, ic] * weight)
// with ih = oh * stride_h, iw = ow * stride_w; a 1x1 convolution without padding, in groups or not.
//
// Arguments
//   dst       float [N, OH, OW, OC], oc innermost   the box [begin, end) is written, nothing else
//   src       float [N, H, W, IC], ic innermost     the pixels of the box are read, in the groups of its channels
//   residual  as dst                                read when residual_order is not 0
//   weights   float [G * panels of a group, 1 + IC/G, VECTORS, VECTOR]   row 0 the bias; the launch's first panel first
//   scalars   first image, first coordinates and ends of the box, first panel, panels of an item, panels of the
//             launch, tiles of an item, tiles and panels of a part, panels, outputs and inputs of a group, strides,
//             epilogue
// Launch      grid (ceil(part_tiles / item_tiles), ceil(part_panels / item_panels), images * parts)   local (1, 1, 1)
// Parameters  MR 1 2 3 4 5 6 8 9 10 12 14 pixels; VECTORS 1 2 3 4 5 vectors of a panel; VECTOR 4 8 16 lanes;
//             FETCH 0 1 whether weights are asked for ahead
// Tested by   tests/kernels/test_conv2d_pointwise.py
//
// Pixels are those of the box in row-major order; where its rows follow each other in memory they are one line.
// Panels lie on the grid of their group, whose last vectors step back to end with it. A panel's weights stay in a
// core's cache while all tiles of an item use them; meanwhile the next panel's come near.
#ifndef FETCH
#define FETCH 0
#endif
#include "common/gemm_tile.h"
#include "common/grid.h"

// Where pixel m of the tile lies in source, output and residual; past the end the last one again.
#define DECLARE_PIXEL(m) int from_##m, to_##m, with_##m;
#define PLACE_ON_LINE(m)                                      \
    {                                                         \
        const int step = min(m, left - 1);                    \
        from_##m = from + step * stride_w * src_w;            \
        to_##m = to + step * dst_w;                           \
        with_##m = with + step * residual_w;                  \
    }
#define PLACE_IN_BOX(m)                                       \
    from_##m = AT(src, n, oh * stride_h, ow * stride_w, 0);   \
    to_##m = AT(dst, n, oh, ow, 0);                           \
    with_##m = AT(residual, n, oh, ow, 0);                    \
    if (left > m + 1 && ++ow == col_end) { ow = col_begin; ++oh; }
#define AIM_PIXEL(m)                                          \
    __global const float *p##m = inputs + from_##m;
#define STORE_PIXEL(m)                                        \
    if (left > m) {                                           \
        __global float *d##m = outputs + to_##m;              \
        __global const float *r##m = others + with_##m;       \
        STORE_PIXEL_ROW(m)                                    \
    }

// The pixels of a whole tile on a line, or in one row of the box, lie evenly, so that nothing is asked of each; `from`,
// `to` and `with` are where the first one lies. Its bits are those of STORE_PLAIN_ROW.
#define AIM_EVENLY(m) __global const float *p##m = from + m * from_step;
#define ADD_EVENLY(m)                                         \
    {                                                         \
        __global const float *r##m = with + m * residual_w;   \
        EACH_IN_ROW(ADD_VECTOR, m)                            \
    }
#define BEND_VECTOR(m, v) a##m##_##v = a##m##_##v < (VEC)(0.0f) ? a##m##_##v * slope : a##m##_##v;
#define RAISE_VECTOR(m, v) a##m##_##v = a##m##_##v < least ? least : a##m##_##v;
#define LOWER_VECTOR(m, v) a##m##_##v = a##m##_##v > most ? most : a##m##_##v;
#define KEEP_VECTOR(m, v) VSTORE(a##m##_##v, to + m * dst_w + start_##v);
#define BEND_EVENLY(m) EACH_IN_ROW(BEND_VECTOR, m)
#define RAISE_EVENLY(m) EACH_IN_ROW(RAISE_VECTOR, m)
#define LOWER_EVENLY(m) EACH_IN_ROW(LOWER_VECTOR, m)
#define KEEP_EVENLY(m) EACH_IN_ROW(KEEP_VECTOR, m)

// The sums of a tile; the first tiles of a panel ask together for the next one: each of them for a vector a step, a line
// at a time.
#if FETCH
#define STEP_AT(place)               \
    {                                \
        const int k = line + place;  \
        TAKE_STEP                    \
    }
#if VECTOR == 4
#define STEPS_OF_LINE STEP_AT(0) STEP_AT(1) STEP_AT(2) STEP_AT(3)
#elif VECTOR == 8
#define STEPS_OF_LINE STEP_AT(0) STEP_AT(1)
#else
#define STEPS_OF_LINE STEP_AT(0)
#endif
#define LINE_STEPS (LINE_FLOATS / VECTOR)
#define MULTIPLY                                                                                      \
    if (first < fetching_end) {                                                                       \
        __global const float *ahead = next_panel + (first - begin) / MR * group_inputs * VECTOR;      \
        int line = 0;                                                                                 \
        ALIGNED_LOOP                                                                                  \
        for (; line + LINE_STEPS <= group_inputs; line += LINE_STEPS) {                               \
            ASK_LINE(ahead + line * VECTOR)                                                           \
            STEPS_OF_LINE                                                                             \
        }                                                                                             \
        for (int k = line; k < group_inputs; ++k) { TAKE_STEP }                                       \
    } else {                                                                                          \
        ACCUMULATE(group_inputs)                                                                      \
    }
#else
#define MULTIPLY ACCUMULATE(group_inputs)
#endif

#define PARAMETERS                                                                                               \
    TENSOR(dst), CONST_TENSOR(src), CONST_TENSOR(residual), __global const float *restrict weights,              \
    int image_begin, int row_begin, int col_begin, int channel_begin, int row_end, int col_end, int channel_end, \
    int panel_begin, int item_panels, int panels, int item_tiles, int part_tiles, int part_panels,               \
    int group_panels, int group_outputs, int group_inputs, int stride_h, int stride_w, EPILOGUE_SCALARS
#define VALUES                                                                                              \
    PASS_TENSOR(dst), PASS_TENSOR(src), PASS_TENSOR(residual), weights, image_begin, row_begin, col_begin,  \
    channel_begin, row_end, col_end, channel_end, panel_begin, item_panels, panels, item_tiles, part_tiles, \
    part_panels, group_panels, group_outputs, group_inputs, stride_h, stride_w, PASS_EPILOGUE
static PLACE_APART void multiply_item(PARAMETERS, GRID_PLACE) {
    const int columns = col_end - col_begin, pixels = (row_end - row_begin) * columns;
    const int column_parts = (panels + part_panels - 1) / part_panels;
    const int row_parts = (pixels + MR * part_tiles - 1) / (MR * part_tiles);
    const int row_part = grid_z % row_parts, column_part = grid_z / row_parts % column_parts;
    const int n = image_begin + grid_z / row_parts / column_parts;
    const bool is_line = dst_h == columns * dst_w && stride_h * src_h == columns * stride_w * src_w &&
                         (residual_order == RESIDUAL_NONE || residual_h == columns * residual_w);
    const int first_tile = grid_x * item_tiles, first_item = grid_y * item_panels;
    const int begin = (row_part * part_tiles + first_tile) * MR;
    const int end = min(pixels, begin + min(item_tiles, part_tiles - first_tile) * MR);
    const int part_end = min(panels, (column_part + 1) * part_panels);
    const int item_begin = column_part * part_panels + first_item, item_end = min(part_end, item_begin + item_panels);
    const int last_start = max(0, group_outputs - VECTOR);
    const int panel_floats = (group_inputs + 1) * PANEL;
    __global const float *panel_weights = weights + item_begin * (size_t)panel_floats;
    for (int item = item_begin; item < item_end; ++item, panel_weights += panel_floats) {
        const int panel = panel_begin + item, group = panel / group_panels;
        const int first_channel = (panel - group * group_panels) * PANEL;
        EACH_VECTOR(PLACE_VECTOR)
        __global const float *inputs = src + group * group_inputs;
        __global float *outputs = dst + group * group_outputs;
        __global const float *others = residual + group * group_outputs;
        const int low = channel_begin - group * group_outputs;
        const int high = min(channel_end - group * group_outputs, group_outputs);
#if FETCH
        // With STEAL the next panel may be the next item's.
        const bool is_asking = STEAL ? grid_x == 0 && item + 1 < part_end : item + 1 < item_end;
        const int fetching_end = is_asking ? begin + VECTORS * MR : begin;
        __global const float *next_panel = panel_weights + panel_floats;
#endif
        const bool is_plain = IS_PLAIN_EPILOGUE && low <= start_0 &&
                              high >= min(first_channel + PANEL, group_outputs) && group_outputs >= VECTOR;
        const int from_step = stride_w * src_w;
        for (int first = begin; first < end;) {
            int oh = row_begin + first / columns, ow = col_begin + first % columns;
            if (is_plain) {
                PLAIN_BOUNDS
                const int evenly_end = is_line ? end : min(end, first + col_end - ow);
                __global const float *from = inputs + AT(src, n, oh * stride_h, ow * stride_w, 0);
                __global const float *with = others + AT(residual, n, oh, ow, 0);
                __global float *to = outputs + AT(dst, n, oh, ow, 0);
                for (; first + MR <= evenly_end; first += MR) {
                    __global const float *weight = panel_weights;
                    REPEAT(MR, AIM_EVENLY)
                    START_TILE
                    MULTIPLY
                    if (residual_order != RESIDUAL_NONE) { REPEAT(MR, ADD_EVENLY) }
                    if (activation == ACTIVATION_LEAKY_RELU) { REPEAT(MR, BEND_EVENLY) }
                    REPEAT(MR, RAISE_EVENLY)
                    if (is_clip) { REPEAT(MR, LOWER_EVENLY) }
                    REPEAT(MR, KEEP_EVENLY)
                    from += MR * from_step;
                    with += MR * residual_w;
                    to += MR * dst_w;
                    ow += MR;
                }
                if (first >= end) break;
                if (!is_line && ow == col_end) continue;
            }
            const int left = pixels - first;
            REPEAT(MR, DECLARE_PIXEL)
            if (is_line || ow + MR <= col_end) {
                const int from = AT(src, n, oh * stride_h, ow * stride_w, 0);
                const int to = AT(dst, n, oh, ow, 0), with = AT(residual, n, oh, ow, 0);
                REPEAT(MR, PLACE_ON_LINE)
            } else {
                REPEAT(MR, PLACE_IN_BOX)
            }
            __global const float *weight = panel_weights;
            REPEAT(MR, AIM_PIXEL)
            START_TILE
            MULTIPLY
            if (is_plain) {
                PLAIN_BOUNDS
#define STORE_PIXEL_ROW STORE_PLAIN_ROW
                REPEAT(MR, STORE_PIXEL)
            } else {
#undef STORE_PIXEL_ROW
#define STORE_PIXEL_ROW STORE_ANY_ROW
                REPEAT(MR, STORE_PIXEL)
            }
            first += MR;
        }
    }
}
GRID_KERNEL(conv2d_pointwise__buffer, multiply_item)
