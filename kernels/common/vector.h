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

#endif
