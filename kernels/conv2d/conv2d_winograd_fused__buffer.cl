// conv2d_winograd_fused__buffer: dst[n, oh, ow, oc] = epilogue(bias[oc] + sum over kh, kw, ic of src * weight)
// for windows of stride 1, by minimal filtering (common/winograd_tile.h).
//
// Arguments
//   dst       float [N, OH, OW, OC], oc innermost   the box [begin, end) is written, nothing else
//   src       float [N, H, W, IC], ic innermost     the windows of all tiles that the box touches are read
//   residual  as dst                                read when residual_order is not 0
//   weights   float [ceil(OC / NR), 1 + POINTS*D, NR]    row 0 the bias, then the transformed filters point by
//             point; the launch's first panel first
//   zeros     float [IC]                            what padding reads
//   local     float [POINTS * MR * (D + 16 + NR)]
//   scalars   first image, first coordinates and ends of the box, first panel, panels a work-item takes, panels and
//             tiles of the launch, tiles in a row, IC, image size, window, padding, epilogue
// Launch      grid (ceil(tiles / MR), ceil(panels / item_panels), images)   local (1, 1, 1)
// Parameters  TILE 2 3 4 outputs; FETCH 0 1 whether filters are asked for ahead; MR 4 5 6 7 8 9 10 11 12 13 14 tiles;
//             NR 4 8 16 24 32 48 channels, one to three vectors; VECTOR 4 8 16 lanes
// Tested by   tests/kernels/test_conv2d_winograd.py
//
// A work-item transforms the inputs of MR tiles once, then takes its panels: nothing but results leaves its cache.
// D is IC, filled up to whole vectors, times the parts of the window.
#define ENTRY conv2d_winograd_fused__buffer
#define POOL 0
#include "common/winograd_fused.h"
