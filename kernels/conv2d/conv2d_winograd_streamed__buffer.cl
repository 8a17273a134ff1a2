// conv2d_winograd_streamed__buffer: dst[n, oh, ow, oc] = epilogue(bias[oc] + sum over kh, kw, ic of src * weight)
// for windows of up to 3 x 3 and stride 1, by minimal filtering (common/winograd_tile.h) in two launches: inputs are
// transformed into scratch memory; then filters, as they are in the model, stream by and are transformed in a core's
// cache.
//
// Arguments
//   dst       float [N, OH, OW, OC], oc innermost   the box [begin, end) is written, nothing else
//   src       float [N, H, W, IC], ic innermost     the windows of all tiles that the box touches are read
//   residual  as dst                                read when residual_order is not 0
//   weights   float [ceil(OC / NR), 1 + D * 9, NR]  row 0 the bias, then the nine taps of each channel; the launch's
//             first panel first
//   zeros     float [IC]                            what padding reads
//   scratch   float [images, ceil(D / DEPTH), POINTS, ceil(tiles / MR) * MR, DEPTH]  inputs at the points
//   local     float [POINTS, DEPTH * NR + 16]       filters at the points, then
//             float [POINTS, item_tiles, NR]        their products
//   scalars   stage 0 or 1, first image, first coordinates and ends of the box, first panel, tiles a work-item takes,
//             tiles of the launch, tiles in a row, IC, image size, window, padding, epilogue
// Launch      stage 0: grid (1, 1, images * ceil(tiles / item_tiles))   local (1, 1, 1)
//             stage 1: grid (1, panels, images * ceil(tiles / item_tiles)), item_tiles a multiple of MR
// Parameters  TILE 2 4 outputs; DEPTH 32 64 channels whose filters are transformed at a time; FETCH 0 1 whether filters
//             are asked for ahead; MR 4 5 6 7 8 9 10 11 12 13 14 tiles; NR 4 8 16 24 32 48 channels, one to three
//             vectors; VECTOR 4 8 16 lanes
// Tested by   tests/kernels/test_conv2d_winograd.py
//
// D is IC, filled up to whole vectors. Sums go through local memory after each DEPTH channels, which does not change
// them. Memory delivers a quarter of what transformed filters are.
#define ENTRY conv2d_winograd_streamed__buffer
#define POOL 0
#include "common/winograd_streamed.h"
