// conv2d_winograd_patch__buffer: dst[n, oh, ow, oc] = epilogue(bias[oc] + sum over kh, kw, ic of src * weight)
// for large windows of any stride over few input channels, by minimal filtering (common/winograd_tile.h).
//
// Arguments
//   dst       float [N, OH, OW, OC], oc innermost   the box [begin, end) is written, nothing else
//   src       float [N, H, W, IC] in any order      the windows of all tiles that the box touches are read
//   residual  as dst                                read when residual_order is not 0
//   weights   float [ceil(OC / NR), 1 + POINTS*D, NR]    row 0 the bias, then the transformed filters point by
//             point; the launch's first panel first
//   patch     local float [EDGE * ((TILE*run_tiles + PART - 1) * D + max(D, VECTOR)) + POINTS * (run_tiles * (D + 16) +
//             MR * NR)]
//   scalars   first image, first coordinates and ends of the box, first panel, tiles a work-item takes, panels of
//             the launch, tiles in a row, IC, image size, window, stride, padding, epilogue
// Launch      grid (rows of tiles, ceil(tiles in a row / run_tiles), images)   local (1, 1, 1)
// Parameters  TILE 2 3 4 outputs; MR 4 5 6 7 8 9 10 11 12 13 14 tiles; NR 4 8 16 24 32 48 channels, one to three
//             vectors; VECTOR 4 8 16 lanes
// Tested by   tests/kernels/test_conv2d_winograd_patch.py
//
// The taps that a stride of S reaches from one phase, every S-th one, are a window of stride 1 over every S-th pixel.
// So phases are parts of the window: part p of a side begins at tap p % S + S * PART * (p / S). All parts' inputs of
// a pixel of the output's grid lie beside each other in a copy, D floats of all parts and channels: few channels fill
// vectors so. A work-item copies what run_tiles tiles see, then transforms, multiplies and stores them.
#define INPUTS_SPACE __local
#define PRODUCTS_SPACE __local
#define PRODUCT_STEP (POINTS * NR)
#define POOL 0
#include "common/winograd_tile.h"
#include "common/grid.h"

// Parts of a side of the window, and the first tap of one.
#define COUNT_SIDE_PARTS(kernel, stride) ((stride) * ((((kernel) + (stride) - 1) / (stride) + PART - 1) / PART))
#define FIND_TAP(part, stride) ((part) % (stride) + (stride) * PART * ((part) / (stride)))
// The inputs of one vector of parts and channels: zeros behind the last one, and in columns where no tap of the window
// is.
#define SEEN_STEP(depth) max(depth, VECTOR)
#define LOAD_SEEN(i)                                                                                               \
    const VEC d##i = JOIN(as_float, VECTOR)(JOIN(as_int, VECTOR)(VLOAD(cells + ((i * width + j) * depth + c))) & \
                                            JOIN(vload, VECTOR)(0, seen + (j * SEEN_STEP(depth) + c)));

// Copies `count` floats to places `to_step` apart, zeros before `begin` and from `end` on.
static inline void copy_line(__local float *to, int to_step, __global const float *from, int from_step, int begin,
                             int end, int count) {
    for (int x = 0; x < begin; ++x) to[x * to_step] = 0.0f;
    for (int x = begin; x < end; ++x) to[x * to_step] = from[x * from_step];
    for (int x = end; x < count; ++x) to[x * to_step] = 0.0f;
}

// Copies what `count` columns of outputs see, EDGE rows of `width` pixels with the inputs of all parts; the first
// output's window begins at row y and column x of the image. Zeros lie outside the image, in rows where no tap of the
// window is, and from column last_x on, behind what the last output sees.
static inline void copy_cells(__local float *cells, __global const float *image, int step_h, int step_w, int step_c,
                              int channels, int y, int x, int in_h, int last_x, int kernel_h, int kernel_w,
                              int stride_h, int stride_w, int width, int count) {
    const int parts_h = COUNT_SIDE_PARTS(kernel_h, stride_h), parts_w = COUNT_SIDE_PARTS(kernel_w, stride_w);
    const int depth = parts_h * parts_w * channels;
    for (int i = 0; i < EDGE; ++i, cells += width * depth) {
        __local float *to = cells;
        for (int part_y = 0; part_y < parts_h; ++part_y) {
            const int tap_y = FIND_TAP(part_y, stride_h), h = y + i * stride_h + tap_y;
            const bool is_seen = max(i - (TILE - 1), 0) * stride_h + tap_y < kernel_h && (uint)h < (uint)in_h;
            for (int part_x = 0; part_x < parts_w; ++part_x) {
                const int w = x + FIND_TAP(part_x, stride_w);
                const int begin = is_seen ? clamp((stride_w - 1 - w) / stride_w, 0, count) : count;
                const int end = clamp((last_x - w + stride_w - 1) / stride_w, begin, count);
                for (int c = 0; c < channels; ++c)
                    copy_line(to++, depth, image + (h * step_h + w * step_w + c * step_c), stride_w * step_w, begin,
                              end, count);
            }
        }
    }
}

// Says for each column of a tile's inputs whether the window of some output sees it: all bits of a float, or none.
static void mark_seen(__local int *seen, int channels, int parts_h, int parts_w, int kernel_w, int stride_w) {
    for (int j = 0; j < EDGE; ++j) {
        for (int y = 0; y < parts_h; ++y)
            for (int x = 0; x < parts_w; ++x) {
                const bool is_seen = max(j - (TILE - 1), 0) * stride_w + FIND_TAP(x, stride_w) < kernel_w;
                for (int c = 0; c < channels; ++c) *seen++ = is_seen ? -1 : 0;
            }
        for (int c = parts_h * parts_w * channels; c < VECTOR; ++c) *seen++ = 0;
    }
}

// The inputs of a tile, its EDGE x EDGE cells in rows of `width`, to its points.
static __attribute__((noinline)) void transform_cells(__local float *points, int point_step,
                                                      __local const float *cells, int width, int depth,
                                                      __local const int *seen) {
    for (int at = 0; at < depth; at += VECTOR) {
        const int c = max(0, min(at, depth - VECTOR));
        TRANSFORM_PATCH(LOAD_SEEN)
    }
}

// The products of a register tile with one panel of filters at all points.
static __attribute__((noinline)) void multiply_points(__local const float *points, int point_step,
                                                      __local float *products, __global const float *filters,
                                                      int depth) {
    __global const float *weight = filters;
    for (int point = 0; point < POINTS; ++point) {
        __local const float *tile_points = points + point * point_step;
        __local float *tile_products = products + point * NR;
        MULTIPLY_TILES
    }
}

// Stores what store_tile does of a tile that lies in the box, with a frequent activation and no residual.
#define STORE_WHOLE(j)                   \
    {                                    \
        VEC value = y##j + start;        \
        BOUND(value)                     \
        VSTORE(value, d + j * dst_w);    \
    }
static __attribute__((noinline)) void store_whole(__local const float *products, __global const float *bias,
                                                  __global float *dst, int dst_h, int dst_w, int activation,
                                                  float alpha, float beta) {
    const int point_step = NR;
    PLAIN_BOUNDS
    for (int v = 0; v < NR; v += VECTOR) {
        const VEC start = VLOAD(bias + v);
        VEC lines[TILE][EDGE];
        for (int j = 0; j < EDGE; ++j) {
            EACH_EDGE(LOAD_PRODUCT)
            TRANSFORM_PRODUCTS
            EACH_SIDE(KEEP_SIDE)
        }
        for (int i = 0; i < TILE; ++i) {
            EACH_EDGE(LOAD_SIDE)
            TRANSFORM_PRODUCTS
            __global float *d = dst + (i * dst_h + v);
            EACH_SIDE(STORE_WHOLE)
        }
    }
}

#define PARAMETERS                                                                                              \
    TENSOR(dst), CONST_TENSOR(src), CONST_TENSOR(residual), __global const float *restrict weights,             \
    __local float *patch, int image_begin, int row_begin, int col_begin, int channel_begin, int row_end,        \
    int col_end, int channel_end, int panel_begin, int run_tiles, int panels, int row_tiles, int channels,      \
    int in_h, int in_w, int kernel_h, int kernel_w, int stride_h, int stride_w, int pad_h, int pad_w,           \
    EPILOGUE_SCALARS
#define VALUES                                                                                                     \
    PASS_TENSOR(dst), PASS_TENSOR(src), PASS_TENSOR(residual), weights, patch, image_begin, row_begin, col_begin,  \
    channel_begin, row_end, col_end, channel_end, panel_begin, run_tiles, panels, row_tiles, channels, in_h, in_w, \
    kernel_h, kernel_w, stride_h, stride_w, pad_h, pad_w, PASS_EPILOGUE
static void filter_row(PARAMETERS, GRID_PLACE) {
    const int parts_h = COUNT_SIDE_PARTS(kernel_h, stride_h), parts_w = COUNT_SIDE_PARTS(kernel_w, stride_w);
    const int depth = parts_h * parts_w * channels, point_step = run_tiles * TILE_STEP(depth);
    const int tiles = min(run_tiles, row_tiles - grid_y * run_tiles), blocks = (tiles + MR - 1) / MR;
    const int n = image_begin + grid_z, width = TILE * run_tiles + PART - 1;
    const int oh = (row_begin / TILE + grid_x) * TILE, ow = (col_begin / TILE + grid_y * run_tiles) * TILE;
    __local int *seen = (__local int *)(patch + EDGE * width * depth);
    __local float *points = (__local float *)(seen + EDGE * SEEN_STEP(depth)), *products = points + POINTS * point_step;
    mark_seen(seen, channels, parts_h, parts_w, kernel_w, stride_w);
    const int x = ow * stride_w - pad_w, last_x = min(in_w, x + (TILE * tiles - 1) * stride_w + kernel_w);
    copy_cells(patch, src + AT(src, n, 0, 0, 0), src_h, src_w, src_c, channels, oh * stride_h - pad_h, x, in_h, last_x,
               kernel_h, kernel_w, stride_h, stride_w, width, TILE * tiles + PART - 1);
    for (int t = 0; t < blocks * MR; ++t)  // past the end the last tile again
        transform_cells(points + t * TILE_STEP(depth), point_step, patch + min(t, tiles - 1) * TILE * depth, width,
                        depth, seen);
    const bool is_plain = IS_PLAIN_ACTIVATION && residual_order == RESIDUAL_NONE;
    const bool is_row = row_begin <= oh && row_end >= oh + TILE;
    for (int panel = 0; panel < panels; ++panel) {
        __global const float *bias = weights + panel * (POINTS * depth + 1) * NR;
        const int channel = (panel_begin + panel) * NR, low = channel_begin - channel, high = channel_end - channel;
        for (int first = 0; first < tiles; first += MR) {
            multiply_points(points + first * TILE_STEP(depth), point_step, products, bias + NR, depth);
            for (int t = first; t < min(tiles, first + MR); ++t) {
                __local const float *from = products + (t - first) * PRODUCT_STEP;
                const int col = ow + t * TILE;
                __global float *to = dst + AT(dst, n, oh, col, channel);
                if (is_plain && is_row && col_begin <= col && col_end >= col + TILE && low <= 0 && high >= NR) {
                    store_whole(from, bias, to, dst_h, dst_w, activation, alpha, beta);
                } else {
                    store_tile(from, NR, bias, to, dst_h, dst_w, residual + AT(residual, n, oh, col, channel),
                               residual_h, residual_w, row_begin - oh, row_end - oh, col_begin - col, col_end - col,
                               low, high, residual_order, activation, alpha, beta);
                }
            }
        }
    }
}
GRID_KERNEL(conv2d_winograd_patch__buffer, filter_row)
