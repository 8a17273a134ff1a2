// What kernels know of a CPU's cache lines.
#ifndef CODL_CACHE_LINE_H
#define CODL_CACHE_LINE_H

// Floats of a line. Asking for a line that is on its way holds up what follows: kernels ask for each line once.
#define LINE_FLOATS 16
// Asks for the line at `pointer`: to come into a core's second cache, or into its first as well.
#define ASK_LINE(pointer) __builtin_prefetch((const void *)(size_t)(pointer), 0, 2);
#define ASK_NEAR_LINE(pointer) __builtin_prefetch((const void *)(size_t)(pointer), 0, 3);
// The line that vector v of a row at `ahead` begins, if it begins one.
#define ASK_VECTOR(v) \
    if (v * VECTOR % LINE_FLOATS == 0) ASK_LINE(ahead + v * VECTOR)

// Stands before a loop of a register tile, which then begins a line where the compiler can be told so: instructions of
// a short loop that does not come in two lines more slowly, by a few hundredths on a Zen 3.
#if defined(__clang_major__) && __clang_major__ >= 18
#if __has_c_attribute(clang::code_align)
#define ALIGNED_LOOP [[clang::code_align(64)]]
#endif
#endif
#ifndef ALIGNED_LOOP
#define ALIGNED_LOOP
#endif

#endif
