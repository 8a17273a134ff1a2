// What all bodies of conv2d_winograd_tile__buffer share: the descriptor, and where the scratch memory's parts begin.
//
// Scratch memory: inputs [points, rows, depth], then products [parts, points, rows, panels * panel_channels]; a row is a
// tile of an image of the box. Tiles lie on the grid of the whole tensor, so that bits do not depend on the box.
#ifndef CODL_WALK_WINOGRAD_H
#define CODL_WALK_WINOGRAD_H

#include "walk/lanes.h"

typedef struct {
    place_t dst, src, residual;
    int weights, scratch, stage;
    int image_begin, row_begin, col_begin, channel_begin, row_end, col_end, channel_end, panel_begin;
    int images, tiles, row_tiles, panels, panel_channels, points, depth, parts;
    int channels, in_h, in_w, pad_h, pad_w;
    EPILOGUE_FIELDS;
} winograd_t;
#define WINOGRAD_NAME_(name, a) winograd_##name##_##a
#define WINOGRAD_NAME(name, a) WINOGRAD_NAME_(name, a)
#define WINOGRAD_TILE_NAME_(m, n) winograd_multiply_##m##x##n
#define WINOGRAD_TILE_NAME(m, n) WINOGRAD_TILE_NAME_(m, n)

#endif
