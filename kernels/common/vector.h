// Vectors of VECTOR lanes. Contraction is off: a sum keeps its bits whatever the compiler sees around it.
//
// Parameters  VECTOR lanes of a vector type (4 8 16)
#ifndef CODL_VECTOR_H
#define CODL_VECTOR_H

#ifndef VECTOR
#define VECTOR 8
#endif

#pragma OPENCL FP_CONTRACT OFF

#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
#define VEC JOIN(float, VECTOR)
#define VLOAD(pointer) JOIN(vload, VECTOR)(0, pointer)
#define VSTORE(value, pointer) JOIN(vstore, VECTOR)(value, 0, pointer)

// Takes `x` into a maximum, of floats or of vectors; a maximum keeps NaN.
#define TAKE_MAXIMUM(value, x) value = (x) > value || (x) != (x) ? (x) : value

// Lanes [low, high) of a vector whose elements lie `step` apart; the others are zero and not read.
static inline VEC load_lanes(__global const float *src, int step, int low, int high) {
    if (step == 1 && low <= 0 && high >= VECTOR) return VLOAD(src);
    float lanes[VECTOR];
    for (int i = 0; i < VECTOR; ++i) lanes[i] = i >= low && i < high ? src[i * step] : 0.0f;
    return VLOAD(lanes);
}

#endif
