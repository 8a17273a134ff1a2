// A barrier of all work-groups of a launch, which must be resident together (codl/devices/walker.py finds out).
//
// sync: [0] groups that have come, [32] barriers passed so far, [64] set when a group has waited in vain, [65] how many
// turns a group waits at most. What was written before it is seen after it, on the whole device.
#ifndef CODL_BARRIER_H
#define CODL_BARRIER_H

#include "common/group.h"

#define SYNC_COME 0
#define SYNC_PASSED 32
#define SYNC_FAILED 64
#define SYNC_PATIENCE 65

#if PTX
static inline int read_fresh(volatile __global int *from) {
    int value;
    asm volatile("ld.acquire.gpu.global.s32 %0, [%1];" : "=r"(value) : "l"(from) : "memory");
    return value;
}
#else
static inline int read_fresh(volatile __global int *from) { return atomic_add(from, 0); }
#endif

// One work-item of each group: returns 0 when all groups have come.
static inline int await_groups(volatile __global int *sync, int groups) {
    const int passed = read_fresh(sync + SYNC_PASSED), patience = sync[SYNC_PATIENCE];
    DEVICE_FENCE
    if (atomic_inc(sync + SYNC_COME) == groups - 1) {
        atomic_xchg(sync + SYNC_COME, 0);
        DEVICE_FENCE
        atomic_inc(sync + SYNC_PASSED);
    } else {
        int turn = 0;
        while (read_fresh(sync + SYNC_PASSED) == passed && ++turn < patience)
            if ((turn & 1023) == 0 && read_fresh(sync + SYNC_FAILED)) turn = patience - 1;
        if (turn >= patience) atomic_xchg(sync + SYNC_FAILED, 1);
    }
    DEVICE_FENCE
    return read_fresh(sync + SYNC_FAILED);
}

// Returns whether all groups have come; false when one of them did not. Without `is_needed` it is no barrier.
static inline bool cross_barrier(volatile __global int *sync, int groups, bool is_needed, volatile __local int *flag) {
    const bool meets = is_needed && groups > 1;
    if (meets) { DEVICE_FENCE }
    GROUP_BARRIER_GLOBAL
    if (get_local_id(0) == 0) {
        *flag = 0;
        if (meets) *flag = await_groups(sync, groups);
    }
    GROUP_BARRIER_GLOBAL
    const bool is_lost = *flag;
    if (meets) { DEVICE_FENCE }
    return !is_lost;
}

#endif
