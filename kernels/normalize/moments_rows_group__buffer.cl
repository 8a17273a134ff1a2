// moments_rows_group__buffer: dst[n, h, 0, c] = mean over w of src[n, h, w, c]
//                             dst[n, h, 1, c] = sum over w of (src[n, h, w, c] - mean)^2
//
// Arguments
//   dst       float, kernel dimensions (n, h, 2, c)   the box is written, nothing else
//   src       float, kernel dimensions (n, h, length, c)
//   scalars   box, 0, length of a row, work-items of a row
// Launch      a group for 256 / threads rows of a channel   local (256, 1, 1)
// Parameters  PTX 0 1 whether NVIDIA's assembly may be used; threads 32, 64, 128 or 256 work-items of a line
// Tested by   tests/kernels/test_lines.py
#ifndef PTX
#define PTX 0
#endif
#include "walk/lines.h"

__kernel BY_GROUP
void moments_rows_group__buffer(TENSOR(dst), CONST_TENSOR(src), int n_begin, int h_begin, int w_begin, int c_begin,
                                int n_count, int h_count, int w_count, int c_count, int is_innermost, int length,
                                int threads) {
    __local float memory[GROUP];
    __local moments_rows_t d;
    if (get_local_id(0) == 0) {
        const moments_rows_t told = {PLACE(dst), PLACE(src), n_begin, h_begin, w_begin, c_begin, n_count, h_count, w_count,
                                     c_count, is_innermost, length, threads};
        d = told;
    }
    GROUP_BARRIER
    moments_rows_group(&d, dst, src, get_group_id(0), get_num_groups(0), memory);
}
