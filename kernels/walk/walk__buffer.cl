// walk__buffer: computes a chain of operators, one descriptor of the tape after the other
//
// Every work-group stays and takes its places of each operator; between operators that need each other all groups meet
// at a barrier. A descriptor is what the stand-alone kernel of its case takes as arguments (codl/devices/tape.py).
//
// Arguments
//   tape      int [count, WORDS]   the case, whether a barrier comes before, which group begins, 0; then the descriptor
//   count     operators
//   b0 .. b3  buffers in which tensors lie
//   weights   packed constants
//   scratch   what one group hands on to another
//   arrivals  zeros, left as zeros
//   sync      of the barrier (walk/barrier.h)
// Launch      as many groups as are resident together   local (256, 1, 1)
// Parameters  PTX 0 1; PRECISION 0 1 2 what factors of products are rounded to; CASES bits of the cases that a tape may hold
// Tested by   tests/executor/test_walks.py
#ifndef PTX
#define PTX 0
#endif
#ifndef CASES
#define CASES -1
#endif
#include "walk/cases.h"
#include "walk/barrier.h"
#define BM 32
#define BN 32
#include "walk/conv2d_tile.h"
#if !PRECISION
#define BM 56
#define BN 128
#include "walk/conv2d_tile.h"
#define BM 112
#define BN 64
#include "walk/conv2d_tile.h"
#endif
#define BM 64
#define BN 64
#include "walk/conv2d_tile.h"
#define BM 128
#define BN 64
#include "walk/conv2d_tile.h"
#define BM 128
#define BN 128
#include "walk/conv2d_tile.h"
#define BM 32
#include "walk/matmul_tile.h"
#define BM 64
#include "walk/matmul_tile.h"
#define BM 16
#include "walk/attention.h"
#define BM 32
#include "walk/attention.h"
#define BM 112
#define BN 64
#include "walk/winograd_multiply.h"
#define BM 56
#define BN 128
#include "walk/winograd_multiply.h"
#define TILE 2
#include "walk/winograd_transforms.h"
#define TILE 4
#include "walk/winograd_transforms.h"
#include "walk/pointwise.h"
#include "walk/windows.h"
#include "walk/channels.h"
#include "walk/reductions.h"
#include "walk/lines.h"

#define HEAD_WORDS 4
#define BUFFER(place) \
    ((place).buffer == 0 ? b0 : (place).buffer == 1 ? b1 : (place).buffer == 2 ? b2 : (place).buffer == 3 ? b3 : weights)
// The next descriptor comes while an operator is computed; it is one of the tape's constants, no barrier is needed.
#if PTX
#define FETCH_WORD(dst, src) COPY_4(dst, src, true)
#else
#define FETCH_WORD(dst, src) *(dst) = *(src);
#endif
#define FETCH_DESCRIPTOR(number)                                                                                    \
    if ((number) < count && get_local_id(0) < WORDS)                                                                \
        FETCH_WORD(descriptors + (number) % 2 * WORDS + get_local_id(0), tape + (number) * WORDS + get_local_id(0)) \
    COMMIT_COPIES
// Begins a case by its descriptor. What follows a constant condition's break is no code to a compiler.
#define DESCRIBED(name, type)                                                                                       \
    if (((CASES) >> WALK_##name & 1) == 0) break;                                                                   \
    __local const type *d = (__local const type *)(words + HEAD_WORDS);
#define TILE_CASE(m, n)                                                                                             \
    case WALK_TILE_##m##x##n: {                                                                                     \
        DESCRIBED(TILE_##m##x##n, conv2d_tile_t)                                                                    \
        conv2d_tile_##m##x##n(d, BUFFER(d->dst), BUFFER(d->src), BUFFER(d->residual), weights + d->weights,          \
                              scratch + d->scratch, arrivals + d->arrivals, group, groups, memory);                 \
        break;                                                                                                      \
    }
#define MATMUL_CASE(m)                                                                                              \
    case WALK_MATMUL_##m: {                                                                                         \
        DESCRIBED(MATMUL_##m, matmul_tile_t)                                                                        \
        matmul_tile_##m(d, BUFFER(d->dst), BUFFER(d->left), BUFFER(d->right), BUFFER(d->residual), group, groups,   \
                        memory);                                                                                    \
        break;                                                                                                      \
    }
#define ATTENTION_CASE(m)                                                                                           \
    case WALK_ATTENTION_##m: {                                                                                      \
        DESCRIBED(ATTENTION_##m, attention_t)                                                                       \
        attention_tile_##m(d, BUFFER(d->dst), BUFFER(d->query), BUFFER(d->key), BUFFER(d->value), BUFFER(d->mask),   \
                           group, groups, memory);                                                                  \
        break;                                                                                                      \
    }
#define WINOGRAD_TILE_CASE(m, n)                                                                                    \
    case WALK_WINOGRAD_##m##x##n: {                                                                                 \
        DESCRIBED(WINOGRAD_##m##x##n, winograd_t)                                                                   \
        winograd_multiply_##m##x##n(d, weights + d->weights, scratch + d->scratch, group, groups, memory);          \
        break;                                                                                                      \
    }
#define WINOGRAD_CASES(tile)                                                                                        \
    case WALK_WINOGRAD_INPUTS_##tile: {                                                                             \
        DESCRIBED(WINOGRAD_INPUTS_##tile, winograd_t)                                                               \
        winograd_inputs_##tile(d, BUFFER(d->src), scratch + d->scratch, group, groups);                             \
        break;                                                                                                      \
    }                                                                                                               \
    case WALK_WINOGRAD_OUTPUTS_##tile: {                                                                            \
        DESCRIBED(WINOGRAD_OUTPUTS_##tile, winograd_t)                                                              \
        winograd_outputs_##tile(d, BUFFER(d->dst), BUFFER(d->residual), weights + d->weights, scratch + d->scratch, \
                                group, groups);                                                                     \
        break;                                                                                                      \
    }
#define LINEAR_CASE(name, body)                                                                                     \
    case WALK_LINEAR_##name: {                                                                                      \
        DESCRIBED(LINEAR_##name, linear_t)                                                                          \
        linear_##body(d, BUFFER(d->dst), BUFFER(d->src), BUFFER(d->residual), weights + d->weights, group, groups,   \
                      memory);                                                                                      \
        break;                                                                                                      \
    }

__kernel BY_GROUP
void walk__buffer(__global const int *tape, int count, __global float *b0, __global float *b1, __global float *b2,
                  __global float *b3, __global float *weights, __global float *scratch,
                  volatile __global int *arrivals, volatile __global int *sync) {
    __local float memory[ATTENTION_FLOATS + UNIT_FLOATS] __attribute__((aligned(16)));
    __local int descriptors[2 * WORDS] __attribute__((aligned(16)));
    __local int has_met;
    const int groups = get_num_groups(0);
    bool goes_on = true;
    FETCH_DESCRIPTOR(0)
    for (int number = 0; number < count && goes_on; ++number) {
        __local const int *words = descriptors + number % 2 * WORDS;
        AWAIT_COPIES(0)
        goes_on = cross_barrier(sync, groups, words + 1, &has_met);
        FETCH_DESCRIPTOR(number + 1)
        const int turned = get_group_id(0) - words[2], group = turned < 0 ? turned + groups : turned;
        switch (goes_on ? words[0] : WALK_NOTHING) {
            TILE_CASE(32, 32)
#if !PRECISION
            TILE_CASE(56, 128)
            TILE_CASE(112, 64)
#endif
            TILE_CASE(64, 64)
            TILE_CASE(128, 64)
            TILE_CASE(128, 128)
            MATMUL_CASE(32)
            MATMUL_CASE(64)
            ATTENTION_CASE(16)
            ATTENTION_CASE(32)
            WINOGRAD_TILE_CASE(112, 64)
            WINOGRAD_TILE_CASE(56, 128)
            WINOGRAD_CASES(2)
            WINOGRAD_CASES(4)
            case WALK_POINTWISE: {
                DESCRIBED(POINTWISE, pointwise_t)
                pointwise_lanes(d, BUFFER(d->dst), BUFFER(d->a), BUFFER(d->b), BUFFER(d->c), BUFFER(d->residual),
                                group, groups);
                break;
            }
            case WALK_RESHAPE: {
                DESCRIBED(RESHAPE, reshape_t)
                reshape_lanes(d, BUFFER(d->dst), BUFFER(d->src), group, groups);
                break;
            }
            case WALK_DEPTHWISE: {
                DESCRIBED(DEPTHWISE, depthwise_t)
                depthwise_lanes(d, BUFFER(d->dst), BUFFER(d->src), BUFFER(d->residual), weights + d->weights, group,
                                groups);
                break;
            }
            case WALK_POOL: {
                DESCRIBED(POOL, pool2d_t)
                pool2d_lanes(d, BUFFER(d->dst), BUFFER(d->src), group, groups);
                break;
            }
            case WALK_SUM: {
                DESCRIBED(SUM, sum_t)
                sum_lanes(d, BUFFER(d->dst), BUFFER(d->src), group, groups);
                break;
            }
            LINEAR_CASE(VECTOR, vector)
            LINEAR_CASE(MATRIX, matrix)
            case WALK_SOFTMAX: {
                DESCRIBED(SOFTMAX, softmax_t)
                softmax_group(d, BUFFER(d->dst), BUFFER(d->src), group, groups, memory);
                break;
            }
            case WALK_LAYER_NORM: {
                DESCRIBED(LAYER_NORM, layer_norm_t)
                layer_norm_group(d, BUFFER(d->dst), BUFFER(d->src), BUFFER(d->scale), BUFFER(d->shift), group, groups,
                                 memory);
                break;
            }
            case WALK_MEAN: {
                DESCRIBED(MEAN, mean_t)
                mean_group(d, BUFFER(d->dst), BUFFER(d->src), group, groups, memory);
                break;
            }
            case WALK_RESPONSE_NORM: {
                DESCRIBED(RESPONSE_NORM, response_norm_t)
                response_norm_lanes(d, BUFFER(d->dst), BUFFER(d->src), group, groups);
                break;
            }
            case WALK_RESIZE: {
                DESCRIBED(RESIZE, resize2d_t)
                resize2d_lanes(d, BUFFER(d->dst), BUFFER(d->src), weights + d->taps, group, groups);
                break;
            }
            case WALK_MOMENTS_ROWS: {
                DESCRIBED(MOMENTS_ROWS, moments_rows_t)
                moments_rows_group(d, BUFFER(d->dst), BUFFER(d->src), group, groups, memory);
                break;
            }
            case WALK_MOMENTS_COMBINE: {
                DESCRIBED(MOMENTS_COMBINE, moments_combine_t)
                moments_combine_group(d, BUFFER(d->dst), BUFFER(d->src), BUFFER(d->scale), BUFFER(d->shift), group,
                                      groups, memory);
                break;
            }
            default: break;
        }
    }
}
