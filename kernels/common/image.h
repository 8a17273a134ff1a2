// Tensors as images: a texel holds four neighbouring channels of a pixel, a block of the whole tensor's grid.
// Texels of a block lie side by side as their pixels do; the next block begins `block` texels further right, the
// next image of the batch `n` texels further down. Coordinates are those of the whole tensor; `x` and `y` place the
// part that the image holds. Lanes of channels outside that part are zero.
//
// Parameters  GROUP side of a square work-group (1 8)
#ifndef CODL_IMAGE_H
#define CODL_IMAGE_H

#ifndef VECTOR
#define VECTOR 4
#endif
#ifndef GROUP
#define GROUP 1
#endif

#define IMAGE(name) __write_only image2d_t name, int name##_x, int name##_y, int name##_block, int name##_n
#define CONST_IMAGE(name) __read_only image2d_t name, int name##_x, int name##_y, int name##_block, int name##_n

// Reads beyond the image give zero, in any case at OUTSIDE.
__constant sampler_t nearest = CLK_NORMALIZED_COORDS_FALSE | CLK_ADDRESS_CLAMP | CLK_FILTER_NEAREST;
#define OUTSIDE ((int2)(-1, -1))

// Where the texel of a block of four channels lies.
#define TEXEL(name, n, h, w, block) \
    ((int2)(name##_x + (block) * name##_block + (w), name##_y + (n) * name##_n + (h)))
#define READ_TEXEL(name, n, h, w, block) read_imagef(name, nearest, TEXEL(name, n, h, w, block))
#define WRITE_TEXEL(name, n, h, w, block, value) write_imagef(name, TEXEL(name, n, h, w, block), value)

// `value` with zeros in lanes outside channels [begin, end); lane 0 is channel `first`.
static inline float4 mask_channels(float4 value, int first, int begin, int end) {
    const int4 channel = first + (int4)(0, 1, 2, 3);
    return channel >= begin && channel < end ? value : (float4)(0.0f);
}

#endif
