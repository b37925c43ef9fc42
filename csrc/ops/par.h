/* par.h: floor 5.  Kernels over large operands, by the threads of the pool.
 *
 * Each function does what the kernel of its name does, with the same bits, and falls back to one call of it where the
 * work is small.  Cuts run between elements, rows or columns of whose results none depends on another; where a sum is
 * cut, the parts are those of the kernel's own order.  Memory: nothing is kept; `out` and operands as in kernels.h. */
#ifndef AG_PAR_H
#define AG_PAR_H

#include "base/pool.h"
#include "kernels/kernels.h"

/* What a chunk has to bring: some 20 us of one core, below which waking a thread (2 to 25 us, see pool.c) does not pay.
 * Measured on one core with AVX-512, in float32: a + b 0.14 ns an element within the cache and 0.17 beyond, exp 0.17,
 * tanh 0.39, pow 2.0; copies 0.08; sums 0.04; softmax 0.8; uniform 0.8, normal 1.1; twice that in float64. */
enum {
  AG_GRAIN_BYTES = 1 << 19, /* written by something as cheap as an addition */
  AG_GRAIN_READ = 1 << 20,  /* read by something that writes little */
  AG_GRAIN_FLOPS = 400000   /* multiplications in a product */
};

/* Elements of `size` bytes a chunk should have when each costs as much as `cost` additions. */
static inline int64_t ag__grain(int size, int64_t cost) {
  int64_t n = AG_GRAIN_BYTES / ((int64_t)size * cost);
  return n < 64 ? 64 : n;
}
/* Rows of n elements a chunk should have. */
static inline int64_t ag__grain_rows(int64_t n, int size, int64_t cost) {
  int64_t bytes = n > 0 && n < AG_GRAIN_BYTES ? n * size * cost : AG_GRAIN_BYTES;
  return bytes < AG_GRAIN_BYTES ? AG_GRAIN_BYTES / bytes : 1;
}

/* No two elements share a place (false: not certain).  Where they may, writes keep their one order. */
bool ag__apart(int ndim, const int64_t *shape, const int64_t *strides);

void ag__par_pack(int ndim, const int64_t *shape, const int64_t *strides, int64_t n, void *out, const void *x, int size);
void ag__par_unpack(int ndim, const int64_t *shape, const int64_t *strides, int64_t n, void *out, const void *x, int size);
void ag__par_copy(void *out, const void *x, int64_t bytes); /* may overlap */
void ag__par_cast(int from, int to, int64_t n, void *out, const void *x);

/* Reduction r of AG_R_.. over the middle axis; fails when out of memory. */
int ag__par_reduce(int r, int dtype, int64_t outer, int64_t n, int64_t inner, void *out, const void *x);
/* The first extremum along the middle axis, its value (unless values is NULL) and position. */
int ag__par_argreduce(ag_k_argreduce *fn, int dtype, int64_t outer, int64_t n, int64_t inner, void *values, int64_t *indices,
                      const void *x);

void ag__par_softmax(int dtype, int64_t outer, int64_t n, int64_t inner, void *out, const void *x, int is_log);
void ag__par_softmax_bwd(int dtype, int64_t outer, int64_t n, int64_t inner, void *dx, const void *g, const void *y, int is_log);
void ag__par_layer_norm(int dtype, int64_t outer, int64_t n, const void *x, const void *w, const void *b, double eps, void *y,
                        void *mean, void *rstd);
void ag__par_scale_shift(int dtype, int64_t outer, int64_t c, int64_t inner, void *out, const void *x, const void *a, const void *b);
void ag__par_cumulate(int dtype, int64_t outer, int64_t n, int64_t inner, void *out, const void *x, int prod);
void ag__par_random(ag_k_random *fn, int dtype, int64_t n, void *out, uint64_t seed, uint64_t counter, double a, double b);
ag_k_maxpool ag__whole_maxpool; /* fn_whole.c: the one of int64 */
void ag__par_maxpool(int dtype, const ag_k_convgeom *g, void *out, int64_t *idx, const void *x);
void ag__par_sgd(int dtype, int64_t n, void *p, const void *g, void *buf, const double *h, int flags);
void ag__par_adam(int dtype, int64_t n, void *p, const void *g, void *m, void *v, const double *h, int flags);

#endif
