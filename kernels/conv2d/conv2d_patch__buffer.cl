// conv2d_patch__buffer: dst[n, oh, ow, oc] = epilogue(bias[oc] + sum over kh, kw, ic of src[n, ih, iw, ic] * weight)
// with ih = oh * stride - pad + kh, iw likewise; for few input channels, no groups, no dilation.
//
// Arguments
//   dst       float [N, OH, OW, OC], oc innermost   the box [begin, end) is written, nothing else
//   src       float [N, H, W, IC], ic innermost     the windows of the box without padding are read
//   residual  as dst                                read when residual_order is not 0
//   weights   float [panels, 1 + KH*KW*IC, VECTORS, VECTOR]   row 0 the bias; the launch's first panel first
//   patch     local float [KH, (columns - 1) * stride_w + KW, IC]   what one output row sees, zeros for padding
//   scalars   first image, first coordinates and ends of the box, first panel, panels, inputs and outputs, image
//             size, window, epilogue
// Launch      global (rows, 1, images)   local (1, 1, 1)
// Parameters  MR 1 2 3 4 5 6 8 9 10 12 14 pixels; VECTORS 1 2 3 4 5 vectors of a panel; VECTOR 4 8 16 lanes
// Tested by   tests/kernels/test_conv2d_patch.py
//
// A work-item copies the rows of the image that its output row sees, with their padding: then no pixel is at an edge,
// and a row of a window is one run of memory. The last vectors of a panel step back to end with the channels.
#define ENTRY conv2d_patch__buffer
#define POOL 0
#include "common/patch.h"
