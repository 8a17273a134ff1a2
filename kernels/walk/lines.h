// The bodies of softmax_group__buffer, layer_norm_group__buffer, mean_group__buffer, moments_rows_group__buffer and
// moments_combine_group__buffer: groups that take lines of elements.
//
// A group has GROUP / threads lines at once, each shared by `threads` work-items, a power of two. Neighbouring work-items
// take neighbouring elements of a line along c, and elements of neighbouring lines otherwise.
#ifndef CODL_LINES_H
#define CODL_LINES_H

#include "walk/lanes.h"

// Where a work-item sits: its line among the group's, its place on the line, and how far the next place is.
typedef struct {
    int lines, line, place, apart;
} seat_t;
static inline seat_t find_seat(int threads, bool is_innermost) {
    const int lid = get_local_id(0), lines = GROUP / threads;
    const seat_t along = {lines, lid / threads, lid % threads, 1}, across = {lines, lid % lines, lid / lines, lines};
    return is_innermost ? along : across;
}

// Folds a value of each work-item of a line, for all lines of a group at once: halves onto halves.
#define FOLD_LINE(name, FOLD)                                                                            \
    static inline float name(float value, seat_t seat, int threads, __local float *memory) {             \
        __local float *own = memory + get_local_id(0);                                                   \
        GROUP_BARRIER                                                                                    \
        *own = value;                                                                                    \
        GROUP_BARRIER                                                                                    \
        for (int half_line = threads / 2; half_line > 0; half_line /= 2) {                               \
            if (seat.place < half_line) *own = FOLD(*own, own[half_line * seat.apart]);                  \
            GROUP_BARRIER                                                                                \
        }                                                                                                \
        return own[-seat.place * seat.apart];                                                            \
    }
#define PLUS(a, b) ((a) + (b))
FOLD_LINE(add_line_up, PLUS)
FOLD_LINE(find_greatest, fmax) // NaN may be lost

// for (each line of the box that falls to a work-item; `is_wanted` where it is not one more time the last)
#define FOR_EACH_LINE(d, seat)                                                                           \
    const int line_places = (d)->is_innermost ? (d)->w_count : (d)->c_count;                             \
    const int line_count = (d)->n_count * (d)->h_count * line_places;                                    \
    for (int block = group * seat.lines; block < line_count; block += groups * seat.lines) {             \
        const bool is_wanted = block + seat.line < line_count;                                           \
        const int number = min(block + seat.line, line_count - 1), row = number / line_places;           \
        const int place = number - row * line_places, image = row / (d)->h_count;                        \
        const int n = (d)->n_begin + image, h = (d)->h_begin + row - image * (d)->h_count;               \
        const int w = (d)->is_innermost ? (d)->w_begin + place : 0, c = (d)->is_innermost ? 0 : (d)->c_begin + place;
#define END_LINES }
#define STEP_ALONG(d, operand) ((d)->is_innermost ? (operand).c : (operand).w)
#define OUTPUTS_BEGIN(d) ((d)->is_innermost ? (d)->c_begin : (d)->w_begin)
#define OUTPUTS_COUNT(d) ((d)->is_innermost ? (d)->c_count : (d)->w_count)

typedef struct {
    place_t dst, src;
    BOX_FIELDS;
    int is_innermost, length, threads;
} softmax_t;

// The greatest of a line, the sum of exponentials, the shares.
BODY softmax_group(__local const softmax_t *d, __global float *dst, __global const float *src, int group, int groups,
                   __local float *memory) {
    const int length = d->length, threads = d->threads, step = STEP_ALONG(d, d->src), dst_step = STEP_ALONG(d, d->dst);
    const int begin = OUTPUTS_BEGIN(d), end = begin + OUTPUTS_COUNT(d);
    const seat_t seat = find_seat(threads, d->is_innermost);
    FOR_EACH_LINE(d, seat)
        __global const float *from = src + INDEX(d->src, n, h, w, c);
        __global float *to = dst + INDEX(d->dst, n, h, w, c);
        float greatest = -INFINITY, sum = 0.0f;
        for (int k = seat.place; k < length; k += threads) greatest = fmax(greatest, from[k * step]);
        greatest = find_greatest(greatest, seat, threads, memory);
        for (int k = seat.place; k < length; k += threads) sum += EXPONENTIAL(float, from[k * step] - greatest);
        const float share = 1.0f / add_line_up(sum, seat, threads, memory);
        for (int k = begin + seat.place; k < end && is_wanted; k += threads)
            to[k * dst_step] = EXPONENTIAL(float, from[k * step] - greatest) * share;
    END_LINES
}

typedef struct {
    place_t dst, src, scale, shift;
    BOX_FIELDS;
    int is_innermost, length, threads, has_shift;
    float epsilon;
} layer_norm_t;
#define LAYER_NORM_BUFFERS \
    __global float *dst, __global const float *src, __global const float *scale, __global const float *shift

// Up to four elements of a line, zeros behind its end.
static inline float4 load_piece(__global const float *from, int step, int left, bool is_whole) {
    return is_whole ? GLOBAL_4(from) : load_lanes(from, step, 0, left);
}
#define ADD_LANES(sums) (((sums).x + (sums).y) + ((sums).z + (sums).w))

// Elements are taken by four. They are divided by the length before they are added, so that no sum overflows.
BODY layer_norm_group(__local const layer_norm_t *d, LAYER_NORM_BUFFERS, int group, int groups, __local float *memory) {
    const int length = d->length, threads = d->threads, step = STEP_ALONG(d, d->src), dst_step = STEP_ALONG(d, d->dst);
    const int begin = OUTPUTS_BEGIN(d), end = begin + OUTPUTS_COUNT(d);
    const bool is_whole = d->is_innermost && length % 4 == 0 && IS_ALIGNED(d->src);
    const bool has_shift = d->has_shift;
    const bool is_wide = is_whole && begin == 0 && end == length && IS_ALIGNED(d->dst) && IS_ALIGNED(d->scale) &&
                         (!has_shift || IS_ALIGNED(d->shift));
    const float part = 1.0f / length;
    const seat_t seat = find_seat(threads, d->is_innermost);
    __global const float *factors = scale + d->scale.offset, *summands = shift + d->shift.offset;
    FOR_EACH_LINE(d, seat)
        __global const float *from = src + INDEX(d->src, n, h, w, c);
        __global float *to = dst + INDEX(d->dst, n, h, w, c);
        float4 sums = (float4)(0.0f), squares = (float4)(0.0f);
        for (int k = seat.place * 4; k < length; k += threads * 4)
            sums = fma(load_piece(from + k * step, step, length - k, is_whole), (float4)(part), sums);
        const float mean = add_line_up(ADD_LANES(sums), seat, threads, memory);
        for (int k = seat.place * 4; k < length; k += threads * 4) {
            float4 apart = load_piece(from + k * step, step, length - k, is_whole) - mean;
            if (k + 1 >= length) apart.y = 0.0f;
            if (k + 2 >= length) apart.z = 0.0f;
            if (k + 3 >= length) apart.w = 0.0f;
            squares = fma(apart, apart, squares);
        }
        const float variance = add_line_up(ADD_LANES(squares), seat, threads, memory) / length;
        const float share = 1.0f / sqrt(variance + d->epsilon);
        if (is_wide) {
            for (int k = seat.place * 4; k < length && is_wanted; k += threads * 4) {
                const float4 other = has_shift ? GLOBAL_4(summands + k) : (float4)(0.0f);
                STORE_4(fma((GLOBAL_4(from + k) - mean) * share, GLOBAL_4(factors + k), other), to + k);
            }
        } else {
            for (int k = begin + seat.place; k < end && is_wanted; k += threads) {
                const float other = has_shift ? summands[k * d->shift.c] : 0.0f;
                to[k * dst_step] = fma((from[k * step] - mean) * share, factors[k * d->scale.c], other);
            }
        }
    END_LINES
}

typedef struct {
    place_t dst, src;
    BOX_FIELDS;
    int length_n, length_h, length_w, length_c, is_inner, threads;
    float scale;
    EPILOGUE_FIELDS;
} mean_t;

// A line is what an output is the mean of, c innermost.
BODY mean_group(__local const mean_t *d, __global float *dst, __global const float *src, int group, int groups,
                __local float *memory) {
    const int length_h = d->length_h, length_w = d->length_w, length_c = d->length_c, threads = d->threads;
    const int length = d->length_n * length_h * length_w * length_c;
    const int outputs = d->n_count * d->h_count * d->w_count * d->c_count;
    const seat_t seat = find_seat(threads, d->is_inner);
    for (int block = group * seat.lines; block < outputs; block += groups * seat.lines) {
        const int number = min(block + seat.line, outputs - 1), pixel = number / d->c_count;
        const int line = pixel / d->w_count, image = line / d->h_count;
        const int c = d->c_begin + number - pixel * d->c_count, w = d->w_begin + pixel - line * d->w_count;
        const int h = d->h_begin + line - image * d->h_count, n = d->n_begin + image;
        __global const float *from = src + INDEX(d->src, n, h, w, c);
        float sum = 0.0f;
        for (int k = seat.place; k < length; k += threads) {
            const int row = k / length_c, plane = row / length_w, box = plane / length_h;
            sum += from[box * d->src.n + (plane - box * length_h) * d->src.h + (row - plane * length_w) * d->src.w +
                        (k - row * length_c) * d->src.c];
        }
        sum = add_line_up(sum, seat, threads, memory) * d->scale;
        if (seat.place == 0 && block + seat.line < outputs)
            dst[INDEX(d->dst, n, h, w, c)] = finish_value((float4)(sum, 0.0f, 0.0f, 0.0f), (float4)(0.0f), RESIDUAL_NONE,
                                                          d->activation, d->alpha, d->beta).x;
    }
}

typedef struct {
    place_t dst, src;
    BOX_FIELDS;
    int is_innermost, length, threads;
} moments_rows_t;

// Stores both of a pair, or the one that the box holds.
#define STORE_PAIR(first, second)                                                             \
    if (is_wanted && seat.place == 0) {                                                       \
        __global float *to = dst + INDEX(d->dst, n, h, d->w_begin, c);                        \
        if (d->w_begin == 0) to[0] = first;                                                   \
        if (d->w_begin + d->w_count == 2) to[(d->w_count - 1) * d->dst.w] = second;           \
    }

// Differences from the line's first element are added up: the mean of equal values is that value, their deviations 0.
BODY moments_rows_group(__local const moments_rows_t *d, __global float *dst, __global const float *src, int group,
                        int groups, __local float *memory) {
    const int length = d->length, threads = d->threads, step = d->src.w;
    const seat_t seat = find_seat(threads, false);
    FOR_EACH_LINE(d, seat)
        __global const float *from = src + INDEX(d->src, n, h, w, c);
        const float first = from[0];
        float sum = 0.0f, squares = 0.0f;
        for (int k = seat.place; k < length; k += threads) sum += from[k * step] - first;
        const float mean = first + add_line_up(sum, seat, threads, memory) / length;
        for (int k = seat.place; k < length; k += threads)
            squares = fma(from[k * step] - mean, from[k * step] - mean, squares);
        const float deviations = add_line_up(squares, seat, threads, memory);
        STORE_PAIR(mean, deviations)
    END_LINES
}

typedef struct {
    place_t dst, src, scale, shift;
    BOX_FIELDS;
    int is_innermost, length, threads;
    float row_length, epsilon;
} moments_combine_t;

// Deviations of all are those within rows, and those of the rows' means. Of equal values the factor is 0 (NaN of a scale
// that is not finite), the summand the shift.
BODY moments_combine_group(__local const moments_combine_t *d, LAYER_NORM_BUFFERS, int group, int groups,
                           __local float *memory) {
    const int length = d->length, threads = d->threads, step = d->src.h;
    const seat_t seat = find_seat(threads, false);
    FOR_EACH_LINE(d, seat)
        __global const float *from = src + INDEX(d->src, n, h, w, c);
        const float first = from[0];
        float sum = 0.0f, within = 0.0f, squares = 0.0f;
        for (int k = seat.place; k < length; k += threads) {
            sum += from[k * step] - first;
            within += from[k * step + d->src.w];
        }
        const float mean = first + add_line_up(sum, seat, threads, memory) / length;
        for (int k = seat.place; k < length; k += threads)
            squares = fma(from[k * step] - mean, from[k * step] - mean, squares);
        const float deviations = add_line_up(fma(squares, d->row_length, within), seat, threads, memory);
        const float slope = scale[INDEX(d->scale, 0, 0, 0, c)] / sqrt(deviations / (d->row_length * length) + d->epsilon);
        const float factor = deviations == 0.0f ? slope * 0.0f : slope;
        const float summand = fma(-mean, factor, shift[INDEX(d->shift, 0, 0, 0, c)]);
        STORE_PAIR(factor, summand)
    END_LINES
}

#endif
