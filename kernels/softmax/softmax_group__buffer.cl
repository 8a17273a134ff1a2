// softmax_group__buffer: dst[n, h, w, c] = e^(src[n, h, w, c] - m) / sum over k of e^(src[n, h, w, k] - m),
//                        m = max over k of src[n, h, w, k]; the axis of the softmax is the innermost in memory
//
// Arguments
//   dst       float, kernel dimensions (n, h, w, c)   the box is written, nothing else
//   src       float, same coordinates                 read over the whole length of c
//   scalars   box, length of the axis
// Launch      a group for each line of channels   local (256, 1, 1)
// Parameters  PTX 0 1 whether NVIDIA's assembly may be used
// Tested by   tests/kernels/test_linear_rows.py
#ifndef PTX
#define PTX 0
#endif
#include "walk/reductions.h"

__kernel BY_GROUP
void softmax_group__buffer(TENSOR(dst), CONST_TENSOR(src), int n_begin, int h_begin, int w_begin, int c_begin,
                           int n_count, int h_count, int w_count, int c_count, int length) {
    __local float memory[GROUP];
    __local softmax_t d;
    if (get_local_id(0) == 0) {
        const softmax_t told = {
            PLACE(dst), PLACE(src), n_begin, h_begin, w_begin, c_begin, n_count, h_count, w_count, c_count, length};
        d = told;
    }
    GROUP_BARRIER
    softmax_group(&d, dst, src, get_group_id(0), get_num_groups(0), memory);
}
