// reference_write__buffer: dst[first + i] = value for i in [0, count): plain stores, through the caches
//
// Leaves memory as a kernel leaves it that has just written it; drivers' own fills may go around the caches.
//
// Arguments
//   dst    float [at least first + count]
//   value  what is written
//   first  element of the first write
//   count  elements
//   share  elements of a work-item
// Launch      global (ceil(count / share))   local (GROUP, 1, 1)
// Parameters  GROUP work-items of a work-group
// Tested by   tests/devices/test_stopwatch.py
#ifndef GROUP
#define GROUP 1
#endif

__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1)))
void reference_write__buffer(__global float *dst, float value, int first, int count, int share) {
    const int begin = get_global_id(0) * share;
    const int end = min(count, begin + share);
    __global float *d = dst + first;
    for (int i = begin; i < end; ++i) d[i] = value;
}
