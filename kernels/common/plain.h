// The frequent activations without a case for each: a slope below zero, then a least and a greatest value, with the
// bits of ACTIVATE. PLAIN_BOUNDS declares them from the epilogue's scalars, BOUND applies them to a vector.
#ifndef CODL_PLAIN_H
#define CODL_PLAIN_H

#include "common/epilogue.h"
#include "common/vector.h"

#define IS_PLAIN_ACTIVATION (activation <= ACTIVATION_LEAKY_RELU)
#define PLAIN_BOUNDS                                                                                 \
    const bool is_clip = activation == ACTIVATION_CLIP;                                              \
    const VEC slope = (VEC)(activation == ACTIVATION_LEAKY_RELU ? alpha : 1.0f);                     \
    const VEC least = (VEC)(is_clip ? alpha : activation == ACTIVATION_RELU ? 0.0f : -INFINITY);     \
    const VEC most = (VEC)(is_clip ? beta : INFINITY);
#define BOUND(value)                                            \
    value = value < (VEC)(0.0f) ? value * slope : value;        \
    value = value < least ? least : value;                      \
    value = value > most ? most : value;

#endif
