// attention_rows__buffer: dst[n, r, h * width + c] = sum over k of e^(s[k] - m) * value[n, k, h * width + c] / sum over k of e^(s[k] - m),
//                         s[k] = sum over d of scale * query[n, h, r, d] * key[n, h, k, d] + mask[n, h, r, k], m = max over k of s[k]
//
// Lanes are rows of queries, so that no vector is ever folded; elements of keys and values are read one by one. Keys come by
// tiles: where one has a greater score than all before, sums so far are scaled down. Each sum is one chain of fma, its index
// ascending, whatever rows lie next to it.
//
// Arguments
//   dst     float, kernel dimensions (batch, -, rows, channels)       the box is written, nothing else
//   query   float, kernel dimensions (batch, heads, rows, depth)
//   key     float, kernel dimensions (batch, heads, keys, depth)      read over all keys
//   value   float, kernel dimensions (batch, -, keys, channels)       read over all keys, for the box's channels
//   mask    float, kernel dimensions (batch, heads, rows, keys), any strides   read where has_mask is not 0
//   scalars first of the batch, rows and channels of the box; keys, channels of a head, whether there is a mask, scale
// Launch      global (ceil(rows / (2 * VECTOR)), heads, batch)   local (1, 1, 1)
// Parameters  VECTOR 4 8 16 lanes
// Tested by   tests/kernels/test_attention.py
#include "common/tensor.h"
#include "common/vector.h"
#include "common/exponential.h"

#define ROWS (2 * VECTOR)
#define KEYS 32
#define UNROLL _Pragma("unroll")
#define MOST_DEPTH 128
// Whether a row has seen nothing but minus infinity: its sum stays 0, and the quotient is NaN.
#define BASE(greatest) ((greatest) == (VEC)(-INFINITY) ? (VEC)(0.0f) : (greatest))
#define GREATER(a, b) ((a) > (b) ? (a) : (b))

// Scores of `count` keys from `k` on, 1 or 4, stored from line `k` of `scores` on.
#define SCORES(k, count)                                                                          \
    {                                                                                             \
        __global const float *from = keys_at + (k) * key_w;                                       \
        VEC low[count], high[count];                                                              \
        UNROLL for (int i = 0; i < count; ++i) low[i] = high[i] = (VEC)(0.0f);                    \
        for (int d = 0; d < depth; ++d) {                                                         \
            const VEC a = VLOAD(queries + d * ROWS), b = VLOAD(queries + d * ROWS + VECTOR);      \
            UNROLL for (int i = 0; i < count; ++i) {                                              \
                const VEC one = (VEC)(from[i * key_w + d]);                                       \
                low[i] = fma(a, one, low[i]);                                                     \
                high[i] = fma(b, one, high[i]);                                                   \
            }                                                                                     \
        }                                                                                         \
        UNROLL for (int i = 0; i < count; ++i) {                                                  \
            VSTORE(low[i], scores + ((k) + i) * ROWS);                                            \
            VSTORE(high[i], scores + ((k) + i) * ROWS + VECTOR);                                  \
        }                                                                                         \
    }

// Adds a tile's values, weighted, to the sums of `count` channels from `c` on, 1 or 4.
#define VALUES(c, count)                                                                          \
    {                                                                                             \
        __global const float *from = values_at + (c);                                             \
        VEC low[count], high[count];                                                              \
        UNROLL for (int i = 0; i < count; ++i) {                                                  \
            low[i] = VLOAD(sums + ((c) + i) * ROWS) * scale_low;                                  \
            high[i] = VLOAD(sums + ((c) + i) * ROWS + VECTOR) * scale_high;                       \
        }                                                                                         \
        for (int k = 0; k < tile; ++k) {                                                          \
            const VEC a = VLOAD(scores + k * ROWS), b = VLOAD(scores + k * ROWS + VECTOR);        \
            UNROLL for (int i = 0; i < count; ++i) {                                              \
                const VEC one = (VEC)(from[k * value_w + i]);                                     \
                low[i] = fma(a, one, low[i]);                                                     \
                high[i] = fma(b, one, high[i]);                                                   \
            }                                                                                     \
        }                                                                                         \
        UNROLL for (int i = 0; i < count; ++i) {                                                  \
            VSTORE(low[i], sums + ((c) + i) * ROWS);                                              \
            VSTORE(high[i], sums + ((c) + i) * ROWS + VECTOR);                                    \
        }                                                                                         \
    }

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void attention_rows__buffer(TENSOR(dst), CONST_TENSOR(query), CONST_TENSOR(key), CONST_TENSOR(value),
                            CONST_TENSOR(mask), int n_begin, int row_begin, int row_end, int channel_begin,
                            int channel_end, int keys, int depth, int width, int has_mask, float scale) {
    const int n = n_begin + get_global_id(2), h = channel_begin / width + get_global_id(1);
    const int first = row_begin + get_global_id(0) * ROWS, rows = min(ROWS, row_end - first);
    const int begin = max(channel_begin - h * width, 0), end = min(channel_end - h * width, width);
    float queries[MOST_DEPTH * ROWS], sums[MOST_DEPTH * ROWS], scores[KEYS * ROWS];
    for (int r = 0; r < ROWS; ++r) { // the last row stands in for those that there are not
        __global const float *from = query + AT(query, n, h, first + min(r, rows - 1), 0);
        for (int d = 0; d < depth; ++d) queries[d * ROWS + r] = from[d] * scale;
    }
    for (int i = begin * ROWS; i < end * ROWS; ++i) sums[i] = 0.0f;
    VEC greatest_low = (VEC)(-INFINITY), greatest_high = greatest_low, total_low = (VEC)(0.0f), total_high = total_low;
    for (int start = 0; start < keys; start += KEYS) {
        const int tile = min(KEYS, keys - start);
        __global const float *keys_at = key + AT(key, n, h, start, 0);
        __global const float *values_at = value + AT(value, n, 0, start, h * width);
        int done = 0;
        for (; done + 4 <= tile; done += 4) SCORES(done, 4)
        for (; done < tile; ++done) SCORES(done, 1)
        for (int i = 0; has_mask && i < tile * ROWS; ++i)
            scores[i] += mask[AT(mask, n, h, first + min(i % ROWS, rows - 1), start + i / ROWS)];
        VEC now_low = greatest_low, now_high = greatest_high;
        for (int k = 0; k < tile; ++k) {
            const VEC a = VLOAD(scores + k * ROWS), b = VLOAD(scores + k * ROWS + VECTOR);
            now_low = GREATER(a, now_low);
            now_high = GREATER(b, now_high);
        }
        const VEC base_low = BASE(now_low), base_high = BASE(now_high);
        const VEC scale_low = EXPONENTIAL(VEC, greatest_low - base_low);
        const VEC scale_high = EXPONENTIAL(VEC, greatest_high - base_high);
        total_low *= scale_low;
        total_high *= scale_high;
        for (int k = 0; k < tile; ++k) {
            const VEC a = EXPONENTIAL(VEC, VLOAD(scores + k * ROWS) - base_low);
            const VEC b = EXPONENTIAL(VEC, VLOAD(scores + k * ROWS + VECTOR) - base_high);
            VSTORE(a, scores + k * ROWS);
            VSTORE(b, scores + k * ROWS + VECTOR);
            total_low += a;
            total_high += b;
        }
        greatest_low = now_low;
        greatest_high = now_high;
        int c = begin;
        for (; c + 4 <= end; c += 4) VALUES(c, 4)
        for (; c < end; ++c) VALUES(c, 1)
    }
    float shares[ROWS];
    VSTORE((VEC)(1.0f) / total_low, shares);
    VSTORE((VEC)(1.0f) / total_high, shares + VECTOR);
    for (int r = 0; r < rows; ++r) {
        __global float *to = dst + AT(dst, n, 0, first + r, h * width);
        for (int c = begin; c < end; ++c) to[c] = sums[c * ROWS + r] * shares[r];
    }
}
