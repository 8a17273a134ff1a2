// What kernels know of a CPU's cache lines.
#ifndef CODL_CACHE_LINE_H
#define CODL_CACHE_LINE_H

// Floats of a line. Asking for a line that is on its way holds up what follows: kernels ask for each line once.
#define LINE_FLOATS 16

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
