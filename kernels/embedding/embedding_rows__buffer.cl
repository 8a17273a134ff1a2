// embedding_rows__buffer: dst[n, h, w, c] = table[ids[n, h, w], c]; an id below zero counts from the table's end
//
// Arguments
//   dst     float, kernel dimensions (n, h, w, c), any strides; the box is written, nothing else
//   ids     float, kernel dimensions (n, h, w, -), whole numbers; others, and those without a row, pick any row
//   table   float, kernel dimensions (-, -, row, c)
//   box     first coordinates and lengths; what a work-item takes (common/runs.h)
//   rows    of the table
// Launch      global (ceil(channels / item_channels), ceil(rows of the box / item_rows), 1)   local (1, 1, 1)
// Parameters  VECTOR 4 8 16 lanes
// Tested by   tests/kernels/test_embedding.py
#include "common/vector.h"
#include "common/runs.h"

// Row of an id; never outside the table, whatever the id.
static inline int row_of(float id, int rows) {
    const int row = convert_int_sat(id);
    return clamp(row < 0 ? row + rows : row, 0, rows - 1);
}

#define STEP(at) VSTORE(VLOAD(s + (at)), d + (at))

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void embedding_rows__buffer(TENSOR(dst), CONST_TENSOR(ids), CONST_TENSOR(table), BOX_SCALARS, int rows) {
    const bool is_dense = dst_c == 1 && table_c == 1;
    FOR_EACH_RUN(run, 1) {
        __global float *d = dst + RUN_START(dst, run);
        __global const float *id = ids + RUN_START(ids, run);
        for (int line = 0; line < run.lines; ++line, d += dst_w, id += ids_w) {
            __global const float *s = table + AT(table, 0, 0, row_of(*id, rows), c_begin + run.channel);
            if (is_dense && run.length >= VECTOR)
                FOR_EACH_VECTOR(run.length, STEP)
            else
                for (int i = 0; i < run.length; ++i) d[i * dst_c] = s[i * table_c];
        }
    }
}
