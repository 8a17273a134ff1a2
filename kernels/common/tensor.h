// Tensors as kernels see them: four kernel dimensions (n, h, w, c), each with a stride in elements.
// Coordinates are those of the whole tensor; `offset` places the part that the buffer holds.
#ifndef CODL_TENSOR_H
#define CODL_TENSOR_H

#define TENSOR(name) \
    __global float *restrict name, int name##_offset, int name##_n, int name##_h, int name##_w, int name##_c
#define CONST_TENSOR(name) \
    __global const float *name, int name##_offset, int name##_n, int name##_h, int name##_w, int name##_c

// Index of an element of a tensor argument.
#define AT(name, n, h, w, c) (name##_offset + (n) * name##_n + (h) * name##_h + (w) * name##_w + (c) * name##_c)

#endif
