// reference_fma__buffer: dst[i] = sum of 12 x VECTOR independent chains x = fma(x, scale, step), `rounds` links each
//
// Computes as fast as the device can multiply and add, and touches memory once: the compute-bound reference.
//
// Arguments
//   dst     float [items]
//   scale   float, below 1
//   rounds  links of each chain
// Launch      global (items)   local (GROUP, 1, 1)
// Parameters  VECTOR 4 8 16 lanes; GROUP work-items of a work-group
// Tested by   tests/devices/test_reference.py
#ifndef GROUP
#define GROUP 1
#endif
#include "common/vector.h"

#define CHAINS(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11)
#define START(i) VEC x##i = (VEC)(scale * (get_global_id(0) + i));
#define LINK(i) x##i = fma(x##i, factor, summand);
#define ADD(i) sum += x##i;

__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void reference_fma__buffer(__global float *dst, float scale, int rounds) {
    const VEC factor = (VEC)(scale), summand = (VEC)(1.0f - scale);
    CHAINS(START)
    for (int round = 0; round < rounds; ++round) {
        CHAINS(LINK)
    }
    VEC sum = (VEC)(0.0f);
    CHAINS(ADD)
    float lanes[VECTOR];
    VSTORE(sum, lanes);
    float total = 0.0f;
    for (int i = 0; i < VECTOR; ++i) total += lanes[i];
    dst[get_global_id(0)] = total;
}
