// A barrier of all work-groups of a launch, which must be resident together (codl/devices/walker.py finds out).
//
// sync: [0] groups that have come, [64] set when a group has waited in vain, [65] how many turns a group waits at most.
// What was written before it is seen after it, on the whole device. One work-item fences for its group: the barriers of
// the group around it extend what it has seen, and what it lets others see, to all work-items.
//
// Each group adds 1 to the counter, group 0 as much as turns the highest bit over when all have come. So the counter is
// never cleared, wraps, and is all that a group writes and reads.
#ifndef CODL_BARRIER_H
#define CODL_BARRIER_H

#include "common/group.h"

#define SYNC_COME 0
#define SYNC_FAILED 64
#define SYNC_PATIENCE 65
#define TURNED_OVER 0x80000000u

#if PTX
static inline uint read_fresh(volatile __global int *from) {
    uint value;
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(from) : "memory");
    return value;
}
static inline uint add_released(volatile __global int *to, uint value) {
    uint before;
    asm volatile("atom.add.acq_rel.gpu.global.u32 %0, [%1], %2;" : "=r"(before) : "l"(to), "r"(value) : "memory");
    return before;
}
#else
static inline uint read_fresh(volatile __global int *from) { return as_uint(atomic_add(from, 0)); }
static inline uint add_released(volatile __global int *to, uint value) {
    DEVICE_FENCE
    return as_uint(atomic_add(to, as_int(value)));
}
#endif

// One work-item of each group: returns whether all groups have come.
static inline bool await_groups(volatile __global int *sync, int groups) {
    const uint step = get_group_id(0) == 0 ? TURNED_OVER - (uint)(groups - 1) : 1u;
    const uint before = add_released(sync + SYNC_COME, step);
    uint now = before + step;
    for (int turn = 1; ((before ^ now) & TURNED_OVER) == 0; ++turn) {
        if ((turn & 1023) == 0 && (turn >= sync[SYNC_PATIENCE] || read_fresh(sync + SYNC_FAILED))) {
            atomic_xchg(sync + SYNC_FAILED, 1);
            return false;
        }
        now = read_fresh(sync + SYNC_COME);
    }
#if !PTX
    DEVICE_FENCE
#endif
    return true;
}

// Returns whether all groups have come; false when one of them did not. Where `is_needed` holds 0, which is read when all
// work-items of the group are here, only they wait for each other.
static inline bool cross_barrier(volatile __global int *sync, int groups, volatile __local const int *is_needed,
                                 volatile __local int *has_met) {
    GROUP_BARRIER_GLOBAL
    if (get_local_id(0) == 0) *has_met = *is_needed && groups > 1 ? await_groups(sync, groups) : true;
    GROUP_BARRIER_GLOBAL
    return *has_met;
}

#endif
