// meeting__buffer: says that its device has come to a meeting, and waits until others have come, too
//
// What stood before it in the device's queue is done by then; what stands behind it begins when it returns.
//
// Arguments
//   flags    int [1 + 2 * devices, LINE] of which first words count: of the first line, whether all shall give up;
//            of the next ones, the last meeting that each device came to; the others only pass time
//   devices  how many there are
//   own      which of them this is
//   says     whether it says that it has come
//   awaited  bit i: wait for device i
//   number   of the meeting, rising within a run
// Launch      global (1)   local (1, 1, 1)
// Parameters  LINE words from one flag to the next
// Tested by   tests/devices/test_signals.py
#ifndef LINE
#define LINE 32
#endif
#define PAUSES 4
#define MOST_LOOKS (1L << 33)

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void meeting__buffer(__global volatile int *flags, int devices, int own, int says, int awaited, int number) {
    __global volatile int *met = flags + LINE, *idle = met + (devices + own) * LINE;
    mem_fence(CLK_GLOBAL_MEM_FENCE);
    if (says) atomic_xchg(met + own * LINE, number);
    long looks = 0;
    for (int other = 0; other < devices; ++other) {
        if (!(awaited >> other & 1)) continue;
        while (met[other * LINE] < number && !*flags) {
            // Atomic sums leave more of a core to its other thread than looks one behind the other.
            for (int pause = 0; pause < PAUSES; ++pause) atomic_add(idle, 0);
            if (++looks > MOST_LOOKS) atomic_xchg(flags, 1);
        }
    }
    mem_fence(CLK_GLOBAL_MEM_FENCE);
}
