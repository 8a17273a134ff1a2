// conv2d_patch_pool__buffer: dst[n, h, w, oc] = the maximum of the 2 x 2 values of conv2d_patch__buffer at rows 2 * h
// and 2 * h + 1, columns 2 * w and 2 * w + 1, which are not stored; a maximum keeps NaN.
//
// Arguments
//   as there, but for dst [N, OH / 2, OW / 2, OC]; the box is that of the values, its rows and columns even; no
//   residual is read, the activation is a frequent one (common/plain.h), OC at least VECTOR
//   patch     with the values of two output rows behind it, float [2, columns, OC]
// Launch      global (rows / 2, 1, images)   local (1, 1, 1)
// Parameters  MR 1 2 3 4 5 6 8 9 10 12 14 pixels; VECTORS 1 2 3 4 5 vectors of a panel; VECTOR 4 8 16 lanes
// Tested by   tests/kernels/test_conv2d_pool.py
#define ENTRY conv2d_patch_pool__buffer
#define POOL 1
#include "common/patch.h"
