// conv2d_patch_pool__buffer: dst[n, h, w, oc] = the maximum over the window at h * pool_stride_h - pool_pad_h,
// w * pool_stride_w - pool_pad_w of the values of conv2d_patch__buffer, which are not stored; taps outside them are
// left out, a maximum keeps NaN.
//
// Arguments
//   as there, but for dst [N, PH, PW, OC]; the box is that of the values, all that its windows see; no residual is
//   read, the activation is a frequent one (common/plain.h), OC at least VECTOR
//   patch     with the last rows of values behind it, float [pool_kernel_h, columns * OC + 16]
//   scalars   before the epilogue: first row and column of the maxima, their ends, the end of the values' rows, rows of
//             maxima a work-item takes, window, stride and padding of the pooling
// Launch      global (ceil(rows of maxima / item_rows), 1, images)   local (1, 1, 1)
// Parameters  MR 1 2 3 4 5 6 8 9 10 12 14 pixels; VECTORS 1 2 3 4 5 vectors of a panel; VECTOR 4 8 16 lanes
// Tested by   tests/kernels/test_conv2d_pool.py
//
// Work-items walk down their rows and compute each row of values once; two of them both compute the rows between them.
#define ENTRY conv2d_patch_pool__buffer
#define POOL 1
#include "common/patch.h"
