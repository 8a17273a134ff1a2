// reference_stream__buffer: dst[i] = src[i], or only the sum of src where COPIES is 0, `rounds` times over
//
// Moves memory as fast as the device can and computes next to nothing: the memory-bound reference. With few
// floats and many rounds it runs in a cache.
//
// Arguments
//   dst     float [length], or [items] where COPIES is 0
//   src     float [length]
//   share   floats of a work-item, a multiple of 8 * VECTOR
//   rounds  how often each work-item walks its share
// Launch      global (length / share)   local (GROUP, 1, 1)
// Parameters  VECTOR 4 8 16 lanes; GROUP work-items of a work-group; COPIES 0 1; STREAMS 0 1 whether a work-item reads
//             eight parts of its share at a time, as a kernel may that reads several rows of weights; not with COPIES
// Tested by   tests/devices/test_reference.py
#ifndef GROUP
#define GROUP 1
#endif
#ifndef COPIES
#define COPIES 1
#endif
#ifndef STREAMS
#define STREAMS 0
#endif
#include "common/vector.h"

#define EACH(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7)
#define START(i) VEC x##i = (VEC)(0.0f);
#define ADD(i) x##i += VLOAD(s + at + i * part);
#define COPY(i) VSTORE(VLOAD(s + at + i * VECTOR), d + at + i * VECTOR);
#define FOLD(i) sum += x##i;

__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void reference_stream__buffer(__global float *dst, __global const float *src, int share, int rounds) {
    __global const float *s = src + get_global_id(0) * (size_t)share;
#if COPIES
    __global float *d = dst + get_global_id(0) * (size_t)share;
    for (int round = 0; round < rounds; ++round)
        for (int at = 0; at < share; at += 8 * VECTOR) {
            EACH(COPY)
        }
#else
    const int part = STREAMS ? share / 8 : VECTOR, end = STREAMS ? part : share;
    EACH(START)
    for (int round = 0; round < rounds; ++round)
        for (int at = 0; at < end; at += STREAMS ? VECTOR : 8 * VECTOR) {
            EACH(ADD)
        }
    VEC sum = (VEC)(0.0f);
    EACH(FOLD)
    float lanes[VECTOR];
    VSTORE(sum, lanes);
    float total = 0.0f;
    for (int i = 0; i < VECTOR; ++i) total += lanes[i];
    dst[get_global_id(0)] = total;
#endif
}
