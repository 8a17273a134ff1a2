// The function MULTIPLY_PART(WIDTH): the products of MR tiles with WIDTH vectors of a panel at one point, from `weight` to
// `tile_products`. What a vector gets does not depend on WIDTH. Included once for each, the panel's own width last.
#undef LANE_1
#undef LANE_2
#if WIDTH > 1
#define LANE_1(X) X
#else
#define LANE_1(X)
#endif
#if WIDTH > 2
#define LANE_2(X) X
#else
#define LANE_2(X)
#endif

static __attribute__((noinline)) void MULTIPLY_PART(WIDTH)(INPUTS_SPACE const float *tile_points,
                                                           PRODUCTS_SPACE float *tile_products, int product_step,
                                                           __global const float *weight,
                                                           int depth FETCH_PARAMETERS) {
    MULTIPLY_TILES
}
#undef WIDTH
