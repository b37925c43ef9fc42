/* sort.h: order of the elements of contiguous rows (floor 2).  Compiled once: nothing here gains from wide vectors.
 *
 * NaN is the largest of numbers, -0 equals 0, equal elements keep their order (descending, too).  Every function takes
 * `rows` rows of n elements one behind the other; n is below 2^32 - 1, and positive.  Scratch memory is the caller's:
 * ag__sort_scratch(n) bytes, aligned for uint64_t.  Nothing allocates, fails or keeps state; calls with scratch of
 * their own may run at once. */
#ifndef AG_SORT_H
#define AG_SORT_H

#include <stddef.h>
#include <stdint.h>

size_t ag__sort_scratch(int64_t n);
/* Sorted values (NULL: not wanted) and where each stood. */
void ag__sort_rows(int dtype, int64_t rows, int64_t n, int descending, void *values, int64_t *at, const void *x,
                   void *scratch);
/* The first k of these, 0 <= k <= n. */
void ag__topk_rows(int dtype, int64_t rows, int64_t n, int64_t k, int largest, void *values, int64_t *at, const void *x,
                   void *scratch);
/* The element with k smaller ones before it in sorted order, or by rank: AG_MEDIAN the lower median, the first NaN if
 * there is one; AG_NANMEDIAN the lower median of what is no NaN. */
enum { AG_MEDIAN = -1, AG_NANMEDIAN = -2 };
void ag__kth_rows(int dtype, int64_t rows, int64_t n, int64_t k, void *values, int64_t *at, const void *x, void *scratch);
/* The most frequent element, the smallest of several; the place of its last occurrence.  No NaN equals another. */
void ag__mode_rows(int dtype, int64_t rows, int64_t n, void *values, int64_t *at, const void *x, void *scratch);
/* Order of the slices x[., i, .] of an outer x n x inner operand, compared element by element from the first: at[0..n). */
void ag__sort_slices(int dtype, int64_t outer, int64_t n, int64_t inner, int64_t *at, const void *x, void *scratch);

/* Running maximum (least: minimum) and the place of the last one equal to it; NaN stays. */
void ag__cumext_rows(int dtype, int64_t outer, int64_t n, int64_t inner, int least, void *values, int64_t *at, const void *x);
/* Where each of m values would be inserted in each of `rows` ascending rows of n elements: before equal ones, or behind
 * them (right).  One row serves all values if shared.  order (or NULL): positions that sort the row. */
void ag__search_rows(int dtype, int64_t rows, int64_t n, int64_t m, int shared, int right, int64_t *at, const void *row,
                     const int64_t *order, const void *values);

#endif
