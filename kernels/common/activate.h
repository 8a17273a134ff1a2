// Activations on single floats and on vectors: ACTIVATE(T, value) with T float or VEC.
// The scalars of the epilogue are the kernel's arguments of that name.
#ifndef CODL_ACTIVATE_H
#define CODL_ACTIVATE_H

#include "common/epilogue.h"
#include "common/vector.h"

#define DEFINE_ACTIVATE_(T) DEFINE_ACTIVATE(T)
DEFINE_ACTIVATE(float)
DEFINE_ACTIVATE_(VEC)
#define ACTIVATE(T, value) JOIN(activate_, T)(value, activation, alpha, beta)

#endif
