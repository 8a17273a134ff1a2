// attention_tile__buffer: dst[n, r, h * width + c] = sum over k of e^(s[k] - m) * value[n, k, h * width + c] / sum over k of e^(s[k] - m),
//                         s[k] = scale * sum over d of query[n, h, r, d] * key[n, h, k, d] + mask[n, h, r, k], m = max over k of s[k]
//
// Arguments
//   dst     float, kernel dimensions (batch, -, rows, channels)       the box is written, nothing else
//   query   float, kernel dimensions (batch, heads, rows, depth)
//   key     float, kernel dimensions (batch, heads, keys, depth)      read over all keys
//   value   float, kernel dimensions (batch, -, keys, channels)       read over all keys, for the box's channels
//   mask    float, kernel dimensions (batch, heads, rows, keys), any strides   read where has_mask is not 0
//   scalars batch, rows and channels of the box; keys, channels of a head, whether there is a mask, scale
// Launch      a group for each tile of BM rows of a head   local (256, 1, 1)
// Parameters  BM 16 32 rows of a tile, 32 for heads of up to 64 channels; PTX 0 1 whether NVIDIA's assembly may be used
// Tested by   tests/kernels/test_attention.py
#ifndef BM
#define BM 16
#endif
#ifndef PTX
#define PTX 0
#endif
#if BM == 16
#define COMPUTE attention_tile_16
#else
#define COMPUTE attention_tile_32
#endif
#include "walk/attention.h"

__kernel BY_GROUP
void attention_tile__buffer(TENSOR(dst), CONST_TENSOR(query), CONST_TENSOR(key), CONST_TENSOR(value), CONST_TENSOR(mask),
                            int n_begin, int n_count, int row_begin, int row_end, int channel_begin, int channel_end,
                            int keys, int depth, int width, int has_mask, float scale) {
    __local float memory[ATTENTION_FLOATS] __attribute__((aligned(16)));
    __local attention_t d;
    if (get_local_id(0) == 0) {
        const attention_t told = {
            PLACE(dst), PLACE(query), PLACE(key), PLACE(value), PLACE(mask), n_begin, n_count, row_begin, row_end,
            channel_begin, channel_end, keys, depth, width, has_mask, scale};
        d = told;
    }
    GROUP_BARRIER
    COMPUTE(&d, dst, query, key, value, mask, get_group_id(0), get_num_groups(0), memory);
}
