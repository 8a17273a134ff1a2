// The places (x, y, z) of a launch's grid, and who computes them: a work-item each.
// With STEAL (codl/devices/launch.py) there is one work-item for each compute unit instead. It takes the places of a
// share of its own one after the other, x first or with Y_FIRST y, and then what is left of the others' shares: no unit
// waits while there is something to do, and a place costs a counter's step, not a work-item's start. Who takes a place
// changes nothing about its bits. Nobody waits for anybody, so units may also begin late, or one after the other.
//
// A kernel file says its parameters once, as PARAMETERS, and hands them on as VALUES to the function of a place.
//
// STEAL    integers from one share's counter to the next one's, a cache line; 0: a work-item for each place. The last
//          counter is that of the work-items that are done.
// Y_FIRST  whether neighbours in y are taken one after the other (0 1)
#ifndef CODL_GRID_H
#define CODL_GRID_H

#ifndef STEAL
#define STEAL 0
#endif
#ifndef Y_FIRST
#define Y_FIRST 0
#endif

#define PASS_TENSOR(name) name, name##_offset, name##_n, name##_h, name##_w, name##_c
#define PASS_EPILOGUE residual_order, activation, alpha, beta
#define GRID_PLACE int grid_x, int grid_y, int grid_z
#define GRID_KERNEL(NAME, COMPUTE)                                                                 \
    __kernel __attribute__((reqd_work_group_size(1, 1, 1))) void NAME(PARAMETERS GRID_ARGUMENTS) { \
        FOR_EACH_PLACE(COMPUTE(VALUES, grid_x, grid_y, grid_z);)                                   \
    }

#if STEAL
// For a function that has its innermost loops in itself: the loops over places would take registers from them.
#define PLACE_APART __attribute__((noinline))
#define GRID_ARGUMENTS , volatile __global int *counters, int size_x, int size_y, int size_z
#define FOR_EACH_PLACE(COMPUTE_PLACE)                                                                          \
    const int units = get_global_size(0), places = size_x * size_y * size_z, share = (places - 1) / units + 1; \
    for (int turn = 0; turn < units; ++turn) {                                                                 \
        const int owner = (get_global_id(0) + turn) % units, owned = min(share, places - owner * share);       \
        volatile __global int *counter = counters + owner * STEAL;                                             \
        for (int taken = atomic_inc(counter); taken < owned; taken = atomic_inc(counter)) {                    \
            const int place = owner * share + taken;                                                           \
            const int grid_x = (Y_FIRST ? place / size_y : place) % size_x;                                    \
            const int grid_y = (Y_FIRST ? place : place / size_x) % size_y;                                    \
            const int grid_z = place / (size_x * size_y);                                                      \
            COMPUTE_PLACE                                                                                      \
        }                                                                                                      \
    }                                                                                                          \
    if (atomic_inc(counters + units * STEAL) == units - 1) {                                                   \
        for (int i = 0; i <= units; ++i) atomic_xchg(counters + i * STEAL, 0);                                 \
    }
#else
#define PLACE_APART
#define GRID_ARGUMENTS
#define FOR_EACH_PLACE(COMPUTE_PLACE)                                                          \
    const int grid_x = get_global_id(0), grid_y = get_global_id(1), grid_z = get_global_id(2); \
    COMPUTE_PLACE
#endif

#endif
