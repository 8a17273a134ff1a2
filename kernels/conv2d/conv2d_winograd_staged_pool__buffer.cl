// conv2d_winograd_staged_pool__buffer: dst[n, h, w, oc] = the maximum of the 2 x 2 values of
// conv2d_winograd_staged__buffer at rows 2 * h and 2 * h + 1, columns 2 * w and 2 * w + 1, which are not stored; a
// maximum keeps NaN.
//
// Arguments
//   as there, but for dst [N, OH / 2, OW / 2, OC]; the box is that of the values, its rows and columns even; no
//   residual is read
// Launch      stages 0 and 2: grid (ceil(tiles / item_tiles), 1, images)   local (1, 1, 1)
//             stage 1: grid (ceil(panels / item_panels), POINTS * ceil(tiles / item_tiles), images), item_tiles a
//             multiple of MR
// Parameters  TILE 2 4 outputs; FETCH 0 1 whether filters are asked for ahead; MR 4 5 6 7 8 9 10 11 12 13 14 tiles;
//             NR 4 8 16 24 32 48 channels, one to three vectors; VECTOR 4 8 16 lanes
// Tested by   tests/kernels/test_conv2d_pool.py
#define ENTRY conv2d_winograd_staged_pool__buffer
#define POOL 1
#include "common/winograd_staged.h"
