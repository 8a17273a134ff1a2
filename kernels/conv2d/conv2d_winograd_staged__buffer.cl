// conv2d_winograd_staged__buffer: dst[n, oh, ow, oc] = epilogue(bias[oc] + sum over kh, kw, ic of src * weight)
// for windows of stride 1, by minimal filtering (common/winograd_tile.h) in three launches: inputs are
// transformed, multiplied, and the products transformed; what lies between is in scratch memory.
//
// Arguments
//   dst       float [N, OH, OW, OC], oc innermost   the box [begin, end) is written, nothing else
//   src       float [N, H, W, IC], ic innermost     the windows of all tiles that the box touches are read
//   residual  as dst                                read when residual_order is not 0
//   weights   float [ceil(OC / NR), 1 + POINTS*D, NR]    row 0 the bias, then the transformed filters point by
//             point; the launch's first panel first
//   zeros     float [IC]                            what padding reads
//   scratch   of each image float [POINTS, ceil(tiles / MR) * MR, D + 16] inputs at the points, then
//             float [POINTS, ceil(tiles / MR) * MR, panels * NR + 16] their products
//   scalars   stage 0, 1 or 2, first image, first coordinates and ends of the box, first panel, tiles and panels a
//             work-item takes, panels and tiles of the launch, tiles in a row, IC, image size, window, padding, epilogue
// Launch      stages 0 and 2: grid (ceil(tiles / item_tiles), 1, images)   local (1, 1, 1)
//             stage 1: grid (ceil(panels / item_panels), POINTS * ceil(tiles / item_tiles), images), item_tiles a
//             multiple of MR
// Parameters  TILE 2 3 4 outputs; FETCH 0 1 whether filters are asked for ahead; MR 4 5 6 7 8 9 10 11 12 13 14 tiles;
//             NR 4 8 16 24 32 48 channels, one to three vectors; VECTOR 4 8 16 lanes
// Tested by   tests/kernels/test_conv2d_winograd.py
//
// A work-item multiplies at one point: its tiles' inputs stay in a core's cache while filters pass by, each read from
// memory once. D is IC, filled up to whole vectors, times the parts of the window.
#define ENTRY conv2d_winograd_staged__buffer
#define POOL 0
#include "common/winograd_staged.h"
