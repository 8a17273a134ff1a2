// Patterns: a line of joined pixels with few channels repeats what an operand holds once for each channel.
#ifndef CODL_PATTERN_H
#define CODL_PATTERN_H

#include "common/vector.h"

#define LONGEST_PATTERN 16

// Writes `period` values, up to LONGEST_PATTERN, over and over, so that a vector can begin at any of them.
static inline void fill_pattern(float *pattern, __global const float *values, int period) {
    for (int i = 0; i < LONGEST_PATTERN + VECTOR; ++i) pattern[i] = i < period + VECTOR ? values[i % period] : 0.0f;
}

#define DECLARE_PATTERN(name) float name[LONGEST_PATTERN + VECTOR];

// The vector of a pattern that belongs to element `at` of a line.
#define PATTERN_AT(pattern, at, period) VLOAD(pattern + (at) % (period))

#endif
