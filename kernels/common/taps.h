// One filter a channel over RUN pixels of an output row: sums a<m>_0, one vector each, that begin with the bias.
// Each is one fma chain over the taps in the order (kh, kw); taps in rows outside the image are left out, those in
// columns outside add a product with zero.
//
// Parameters  RUN pixels, 1 to 14; VECTOR lanes of a vector (4 8 16)
// SUMS_SPACE  address space of what `CONVOLVE_PANELS` writes
#ifndef CODL_TAPS_H
#define CODL_TAPS_H

#include "common/plain.h"
#include "common/repeat.h"
#include "common/vector.h"

// The least number of steps that are as long as `distance`.
static inline int count_steps(int distance, int step) {
    return step == 1 ? distance : (distance + step - 1) / step;
}

#define NEXT_PIXEL p += step;
// A pixel whose tap lies in the padding reads zeros, and so does one past the end of the box.
#define SEES_TAP(m) (m >= seen_begin && m < seen_end)
#define EDGE_TAP(m)                                                                                        \
    {                                                                                                      \
        __global const float *q = SEES_TAP(m) ? p : zeros;                                                 \
        a##m##_0 = fma(VLOAD(q), w, a##m##_0);                                                             \
        NEXT_PIXEL                                                                                         \
    }
// Lanes outside [low, high) of a box narrower than a vector are not read.
#define PART_TAP(m)                                                                                        \
    {                                                                                                      \
        const VEC value = SEES_TAP(m) ? load_lanes(p, 1, low, high) : (VEC)(0.0f);                         \
        a##m##_0 = fma(value, w, a##m##_0);                                                                \
        NEXT_PIXEL                                                                                         \
    }
// All taps in the rows of the image, in the order (kh, kw), TAP(m) for every pixel m. Every way to walk them is a
// loop of its own: with a choice inside, compilers keep addresses in memory.
#define WALK_TAPS(TAP, FILTER)                                                                             \
    for (int kh = tap_begin; kh < tap_end; ++kh) {                                                         \
        for (int kw = 0; kw < kernel_w; ++kw) {                                                            \
            const int x = first_x + kw * dilation_w;                                                       \
            const int seen_begin = x < 0 ? count_steps(-x, stride_w) : 0;                                  \
            const int seen_end = x < in_w ? min(columns, count_steps(in_w - x, stride_w)) : 0;             \
            __global const float *p = image + (kh * dilation_h * src_h + kw * dilation_w * src_w);         \
            const VEC w = FILTER(1 + kh * kernel_w + kw);                                                  \
            REPEAT(RUN, TAP)                                                                               \
        }                                                                                                  \
    }

// Filters lie in panels of VECTOR channels, [panels, 1 + KH*KW, VECTOR], row 0 the bias; the last panel steps back to
// end with the channels.
#define OWN_FILTER(row) VLOAD(filter + (row) * VECTOR)
#define START_PIXEL(m) VEC a##m##_0 = bias;

// Sums a<m>_0 of a panel for RUN pixels from `first_x` on, wherever they lie; `image` and `filter` are those of its
// first channel.
#define CONVOLVE_RUN                                                                                       \
    const bool is_whole = low <= 0 && high >= VECTOR;                                                      \
    const VEC bias = OWN_FILTER(0);                                                                        \
    REPEAT(RUN, START_PIXEL)                                                                               \
    if (is_whole) {                                                                                        \
        WALK_TAPS(EDGE_TAP, OWN_FILTER)                                                                    \
    } else {                                                                                               \
        WALK_TAPS(PART_TAP, OWN_FILTER)                                                                    \
    }

// Whole panels of runs that see the image with all of their pixels but the first and the last ones, as nearly all do,
// in one of three ways: windows three wide with one such pixel at each end, of which all are kept, write the taps of a
// row out; others ask of GUARDS pixels at each end where a tap lies, or of none.
#define GUARDS 3
#define WAY_ANY 0
#define WAY_THREE 1
#define WAY_INNER 2
#define WAY_ENDS 3
#define END_OF_RUN(first_x, pixels) ((first_x) + ((pixels) - 1) * stride_w + (kernel_w - 1) * dilation_w + 1)
// Columns of the image that a run may read: behind the windows of a box narrower than a run nothing need be stored.
#define FIND_SEEN_WIDTH(first_x, columns) min(in_w, END_OF_RUN(first_x, min(RUN, columns)))
static inline int find_way(bool keeps_all, int first_x, int seen_w, int kernel_w, int stride_w, int dilation_w) {
    const int end_x = END_OF_RUN(first_x, RUN), ends = GUARDS * stride_w;
    if (keeps_all && kernel_w == 3 && dilation_w == 1 && first_x >= -1 && end_x <= seen_w + 1) return WAY_THREE;
    if (first_x >= 0 && end_x <= seen_w) return WAY_INNER;
    return first_x + ends >= 0 && end_x - ends <= seen_w ? WAY_ENDS : WAY_ANY;
}

#define SEES_PIXEL(m, x) ((x) + m * stride_w >= 0 && (x) + m * stride_w < seen_w)
#define FIRST_TAP(m)                                                                                       \
    {                                                                                                      \
        __global const float *q = m > 0 || begins_inside ? p : zeros;                                      \
        a##m##_0 = fma(VLOAD(q), w_0, a##m##_0);                                                           \
        NEXT_PIXEL                                                                                         \
    }
#define MIDDLE_TAP(m)                                                                                      \
    a##m##_0 = fma(VLOAD(p), w_1, a##m##_0);                                                               \
    NEXT_PIXEL
#define LAST_TAP(m)                                                                                        \
    {                                                                                                      \
        __global const float *q = m < RUN - 1 || ends_inside ? p : zeros;                                  \
        a##m##_0 = fma(VLOAD(q), w_2, a##m##_0);                                                           \
        NEXT_PIXEL                                                                                         \
    }
#define SUM_THREE                                                                                          \
    const VEC w_0 = VLOAD(taps), w_1 = VLOAD(taps + VECTOR), w_2 = VLOAD(taps + 2 * VECTOR);               \
    __global const float *p = line;                                                                        \
    REPEAT(RUN, FIRST_TAP)                                                                                 \
    p = line + tap_step;                                                                                   \
    REPEAT(RUN, MIDDLE_TAP)                                                                                \
    p = line + 2 * tap_step;                                                                               \
    REPEAT(RUN, LAST_TAP)
#define INNER_TAP(m)                                                                                       \
    a##m##_0 = fma(VLOAD(p), w, a##m##_0);                                                                 \
    NEXT_PIXEL
#define ENDS_TAP(m)                                                                                        \
    {                                                                                                      \
        __global const float *q = (m >= GUARDS && m < RUN - GUARDS) || SEES_PIXEL(m, x) ? p : zeros;       \
        a##m##_0 = fma(VLOAD(q), w, a##m##_0);                                                             \
        NEXT_PIXEL                                                                                         \
    }
#define SUM_LINE(TAP)                                                                                      \
    for (int kw = 0, x = first_x; kw < kernel_w; ++kw, x += dilation_w) {                                  \
        __global const float *p = line + kw * tap_step;                                                    \
        const VEC w = VLOAD(taps + kw * VECTOR);                                                           \
        REPEAT(RUN, TAP)                                                                                   \
    }

#define ADD_PIXEL(m) a##m##_0 += VLOAD(residual + m * residual_w);
#define BEND_PIXEL(m) a##m##_0 = a##m##_0 < (VEC)(0.0f) ? a##m##_0 * slope : a##m##_0;
#define RAISE_PIXEL(m) a##m##_0 = a##m##_0 < least ? least : a##m##_0;
#define LOWER_PIXEL(m) a##m##_0 = a##m##_0 > most ? most : a##m##_0;
#define STORE_PIXEL_OF_RUN(m) VSTORE(a##m##_0, to + m * to_step);
#define IS_KEPT(m) (m >= kept_begin && m < kept_end)
#define ADD_KEPT(m) if (IS_KEPT(m)) a##m##_0 += VLOAD(residual + (m - kept_begin) * residual_w);
#define STORE_KEPT(m) if (IS_KEPT(m)) VSTORE(a##m##_0, to + (m - kept_begin) * to_step);

// A way computes RUN pixels of whole panels, with a frequent epilogue, and stores those in [kept_begin, kept_end) at
// `to`. `image` is the first pixel's first tap in the first of `lines` rows that lie in the image, `first_tap` where a
// filter has that row; steps are those of a row of taps, a tap and a pixel. Out of line: beside other ways to walk the
// taps, addresses would stay in memory.
#define WAY_ARGUMENTS                                                                                      \
    SUMS_SPACE float *to, int to_step, int kept_begin, int kept_end, __global const float *residual,       \
        int residual_w, __global const float *image, int line_step, int tap_step, int step, int lines,     \
        __global const float *filter, int filter_floats, int first_tap, int panels,                        \
        __global const float *zeros, int first_x, int seen_w, int kernel_w, int stride_w, int dilation_w,  \
        EPILOGUE_SCALARS
#define DEFINE_WAY(NAME, WIDTH, KEEPS_ALL, SUM_ROW)                                                        \
    static __attribute__((noinline)) void NAME(WAY_ARGUMENTS) {                                            \
        const bool keeps_all = KEEPS_ALL;                                                                  \
        const bool begins_inside = first_x >= 0, ends_inside = END_OF_RUN(first_x, RUN) <= seen_w;         \
        PLAIN_BOUNDS                                                                                       \
        for (int panel = 0; panel < panels; ++panel) {                                                     \
            const VEC bias = OWN_FILTER(0);                                                                \
            __global const float *line = image, *taps = filter + first_tap;                                \
            REPEAT(RUN, START_PIXEL)                                                                       \
            for (int kh = 0; kh < lines; ++kh, line += line_step, taps += (WIDTH) * VECTOR) { SUM_ROW }    \
            if (residual_order != RESIDUAL_NONE) {                                                         \
                if (keeps_all) { REPEAT(RUN, ADD_PIXEL) } else { REPEAT(RUN, ADD_KEPT) }                   \
            }                                                                                              \
            if (activation == ACTIVATION_LEAKY_RELU) { REPEAT(RUN, BEND_PIXEL) }                           \
            REPEAT(RUN, RAISE_PIXEL)                                                                       \
            if (is_clip) { REPEAT(RUN, LOWER_PIXEL) }                                                      \
            if (keeps_all) { REPEAT(RUN, STORE_PIXEL_OF_RUN) } else { REPEAT(RUN, STORE_KEPT) }            \
            to += VECTOR;                                                                                  \
            residual += VECTOR;                                                                            \
            image += VECTOR;                                                                               \
            filter += filter_floats;                                                                       \
        }                                                                                                  \
    }
#define KEEPS_RUN (kept_begin == 0 && kept_end == RUN)
DEFINE_WAY(convolve_three, 3, true, SUM_THREE)
DEFINE_WAY(convolve_inner, kernel_w, KEEPS_RUN, SUM_LINE(INNER_TAP))
DEFINE_WAY(convolve_ends, kernel_w, KEEPS_RUN, SUM_LINE(ENDS_TAP))
// The arguments in parentheses. Kernels call it for the whole panels of a box, and once more for the tensor's last one
// where that steps back: the `tail`.
#define CONVOLVE_PANELS(way, arguments)                                                                    \
    if (way == WAY_THREE) convolve_three arguments;                                                        \
    if (way == WAY_INNER) convolve_inner arguments;                                                        \
    if (way == WAY_ENDS) convolve_ends arguments;

// A panel that the box [low, high) cuts moves into the box where this is a vector wide: its filters then are lanes of
// two panels. MOVE_PANEL says by how much and where the other panel lies, and moves what counts from the first channel.
#define MOVES_PANEL ((low > 0 || high < VECTOR) && high - low >= VECTOR)
#define MOVE_PANEL(panel)                                                                                  \
    const int shift = low > 0 ? low : high - VECTOR, panel_floats = (1 + kernel_h * kernel_w) * VECTOR;    \
    const int begin = ((panel) - 1) * VECTOR, end = min(((panel) + 1) * VECTOR, channels - VECTOR);        \
    const int other = shift > 0 ? panel_floats - (end - channel) : channel - begin - panel_floats;         \
    channel += shift, low -= shift, high -= shift;
#define JOINED_FILTER(row) select(OWN_FILTER(row), VLOAD(filter + (row) * VECTOR + other), is_other)
#define KEEP_PIXEL(m) VSTORE(a##m##_0, sums + m * VECTOR);
__constant int CODL_LANES[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};

// Computes the sums of a panel that has moved. Out of line: beside the others it would slow them down.
static __attribute__((noinline)) void convolve_moved(float *sums, __global const float *image,
                                                     __global const float *filter, __global const float *zeros,
                                                     int shift, int other, int src_h, int src_w, int columns,
                                                     int first_x, int tap_begin, int tap_end, int in_w, int kernel_w,
                                                     int stride_w, int dilation_h, int dilation_w) {
    const JOIN(int, VECTOR) lanes = JOIN(vload, VECTOR)(0, CODL_LANES);
    const JOIN(int, VECTOR) is_after = lanes >= (JOIN(int, VECTOR))(VECTOR - shift);
    const JOIN(int, VECTOR) is_before = lanes < (JOIN(int, VECTOR))(-shift);
    const JOIN(int, VECTOR) is_other = shift > 0 ? is_after : is_before;
    const int step = stride_w * src_w;
    filter += shift;
    const VEC bias = JOINED_FILTER(0);
    REPEAT(RUN, START_PIXEL)
    WALK_TAPS(EDGE_TAP, JOINED_FILTER)
    REPEAT(RUN, KEEP_PIXEL)
}

#endif
