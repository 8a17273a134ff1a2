// softmax_group__buffer: dst[k] = e^(src[k] - m) / sum over k of e^(src[k] - m), m = max over k of src[k], along one axis k,
// which is c where it is the innermost in memory, and w elsewhere
//
// Arguments
//   dst       float, kernel dimensions (n, h, w, c)   the box is written, nothing else
//   src       float, same coordinates                 read over the whole axis
//   scalars   box, whether k is c, length of the axis, work-items of a line
// Launch      a group for 256 / threads lines along the axis   local (256, 1, 1)
// Parameters  PTX 0 1 whether NVIDIA's assembly may be used; threads 32, 64, 128 or 256 work-items of a line
// Tested by   tests/kernels/test_lines.py
#ifndef PTX
#define PTX 0
#endif
#include "walk/lines.h"

__kernel BY_GROUP
void softmax_group__buffer(TENSOR(dst), CONST_TENSOR(src), int n_begin, int h_begin, int w_begin, int c_begin,
                           int n_count, int h_count, int w_count, int c_count, int is_innermost, int length,
                           int threads) {
    __local float memory[GROUP];
    __local softmax_t d;
    if (get_local_id(0) == 0) {
        const softmax_t told = {PLACE(dst), PLACE(src), n_begin, h_begin, w_begin, c_begin, n_count, h_count, w_count,
                                c_count, is_innermost, length, threads};
        d = told;
    }
    GROUP_BARRIER
    softmax_group(&d, dst, src, get_group_id(0), get_num_groups(0), memory);
}
