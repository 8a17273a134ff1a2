// moments_combine_group__buffer: dst[n, 0, 0, c] = factor = scale[c] / sqrt(variance + epsilon)
//                                dst[n, 0, 1, c] = shift[c] - mean * factor
// with mean and variance over all rows of src. Where all values are equal the factor is 0 (NaN of a scale that is not
// finite): the summand is then exactly the shift.
//
// Arguments
//   dst       float, kernel dimensions (n, 1, 2, c)        the box is written, nothing else
//   src       float, kernel dimensions (n, length, 2, c)   mean and squared deviations of each row
//   scale     float, kernel dimensions (-, -, -, c)
//   shift     float, kernel dimensions (-, -, -, c)
//   scalars   box, 0, rows, work-items of a channel, elements of a row as a float, epsilon
// Launch      a group for 256 / threads channels   local (256, 1, 1)
// Parameters  PTX 0 1 whether NVIDIA's assembly may be used; threads 32, 64, 128 or 256 work-items of a line
// Tested by   tests/kernels/test_lines.py
#ifndef PTX
#define PTX 0
#endif
#include "walk/lines.h"

__kernel BY_GROUP
void moments_combine_group__buffer(TENSOR(dst), CONST_TENSOR(src), CONST_TENSOR(scale), CONST_TENSOR(shift), int n_begin,
                                   int h_begin, int w_begin, int c_begin, int n_count, int h_count, int w_count,
                                   int c_count, int is_innermost, int length, int threads, float row_length,
                                   float epsilon) {
    __local float memory[GROUP];
    __local moments_combine_t d;
    if (get_local_id(0) == 0) {
        const moments_combine_t told = {
            PLACE(dst), PLACE(src), PLACE(scale), PLACE(shift), n_begin, h_begin, w_begin, c_begin, n_count, h_count,
            w_count, c_count, is_innermost, length, threads, row_length, epsilon};
        d = told;
    }
    GROUP_BARRIER
    moments_combine_group(&d, dst, src, scale, shift, get_group_id(0), get_num_groups(0), memory);
}
