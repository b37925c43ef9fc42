/* exec.h: floor 5.  Runs ONE op on raw operands.  Only ops/exec.c and ops/fn_*.c call kernels or BLAS. */
#ifndef AG_EXEC_H
#define AG_EXEC_H

#include "ops/op.h"

/* Runs x->row on operands of the right types and shapes; out memory exists.  Elementwise rows take any
 * strides and in-place operands.  For FN rows it sees to it that every output is contiguous (through a
 * temporary where it is not), and tells in-place by out[0].data == in[0].data.
 * Returns AG_OK or a failure (index out of range, out of memory). */
int ag__exec(const ag_exec *x);

/* Elementwise kernel over up to three operands of out's shape after broadcasting (strides 0): raw shapes may be
 * smaller, aligned at the right.  cost: of one element, in additions (row->cost); large work goes to the pool. */
int ag__exec_ew(ag_k_ew *fn, int n_in, const ag_raw *in, const ag_raw *out, const double *p, int cost);
/* Fused derivative: g and out have the broadcast shape; x0..x2, y may be absent (data NULL). */
int ag__exec_ewd(ag_k_ewd *fn, const ag_raw *g, const ag_raw x[3], const ag_raw *y, const ag_raw *out, const double *p,
                 int cost);

/* exec_walk.c: a kernel of either form (the other NULL) over n_in operands (NULL or without data: absent) of any
 * strides; grain: elements that a thread should have. */
void ag__exec_walk(ag_k_ew *ew, ag_k_ewd *ewd, int n_in, const ag_raw *const *in, const ag_raw *out, const double *p, int64_t grain);

/* Contiguous memory of an operand: its own, or a packed copy in *t; NULL when out of memory.  Always pair with
 * ag__temp_free. */
typedef struct ag_temp {
  void *data;
  size_t size;
} ag_temp;
char *ag__contig(const ag_raw *r, ag_temp *t);
void *ag__temp(ag_temp *t, size_t size); /* plain scratch memory */
void ag__temp_free(ag_temp *t);
/* out (any strides) takes n = out->numel contiguous elements. */
void ag__store(const ag_raw *out, const void *data);

/* Splits a shape around dim: outer x n x inner. */
static inline void ag__split3(int ndim, const int64_t *shape, int dim, int64_t *outer, int64_t *n, int64_t *inner) {
  *outer = *inner = 1;
  *n = ndim ? shape[dim] : 1;
  for (int k = 0; k < dim; k++) *outer *= shape[k];
  for (int k = dim + 1; k < ndim; k++) *inner *= shape[k];
}

/* Row-major matrix product on float32/float64, OpenBLAS or the built-in one (small sizes, builds without BLAS):
 * C[m,n] = alpha * op(A) op(B) + beta * C.  Same sizes, same bits. */
void ag__gemm(int dtype, int ta, int tb, int64_t m, int64_t n, int64_t k, double alpha, const void *a, int64_t lda,
              const void *b, int64_t ldb, double beta, void *c, int64_t ldc);
/* Before any other call of BLAS or LAPACK: one thread for them.  Only in builds that have them. */
void ag__blas_ready(void);

#endif
