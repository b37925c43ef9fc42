/* linalg.h: what the rows of linear algebra share: matrices in LAPACK's order, checks, rules on batches.
 *
 * Every row takes matrices in the last two dims, batches of them in the dims before.  The executions come from
 * LAPACK, which reads columns: an operand is packed so that its columns follow one another (or, where the
 * transposed problem serves as well, its rows), whatever its layout, so that layouts never change a bit.  Rules fold
 * batches into one leading dim, so that bmm and its like apply, and are written in rows that have rules themselves. */
#ifndef AG_LINALG_H
#define AG_LINALG_H

#include "ops/fn_util.h"

/* ---- shapes ---- */

/* name: as PyTorch's messages call the function.  Floating point, at least two dims; square. */
int ag__la_matrix(const ag_infer *c, int k, const char *name);
int ag__la_square(const ag_infer *c, int k, const char *name);
/* Operand k has the same type and batch dims as operand 0. */
int ag__la_like(const ag_infer *c, int k, const char *name);
/* Result k: the batch dims of a, then n more (n 0, 1 or 2). */
void ag__la_out(ag_infer *c, int k, int dtype, const ag_array *a, int n, int64_t s0, int64_t s1);

static inline int64_t ag__la_rows(const ag_array *a) { return ag__shape(a)[a->ndim - 2]; }
static inline int64_t ag__la_cols(const ag_array *a) { return ag__shape(a)[a->ndim - 1]; }
static inline bool ag__la_flag(const ag_params *p, int k) { return p->ni > k && p->i[k] != 0; }

/* ---- executions: operands in the order of columns or rows, scratch memory ---- */

/* Sizes of an operand as LAPACK counts; fails where 32 bits end. */
typedef struct la_size {
  int64_t nb;
  int m, n, k; /* rows, columns, the smaller */
} la_size;
int ag__la_size(const ag_raw *r, la_size *s);

/* Memory of one execution, freed at once. */
typedef struct la_scratch {
  ag_temp t[10];
  int n;
} la_scratch;
void *ag__la_take(la_scratch *s, int64_t count, int size); /* NULL when out of memory */
void ag__la_drop(la_scratch *s);

/* Copies, which LAPACK may overwrite: each matrix by columns, by rows. */
char *ag__la_columns(const ag_raw *r, la_scratch *s);
char *ag__la_by_rows(const ag_raw *r, la_scratch *s);
/* out (row-major) = matrices that lie at data, column by column: ld elements from one column to the next, step from one
 * matrix to the next. */
void ag__la_store(const ag_raw *out, const void *data, int64_t ld, int64_t step);
/* Zeros on one side of the diagonal of row-major matrices, upper: below it. */
void ag__la_clear(const ag_raw *out, bool upper);

/* Element i of floats of either type. */
static inline double ag__la_get(int dtype, const void *p, int64_t i) {
  return dtype == AG_FLOAT32 ? (double)((const float *)p)[i] : ((const double *)p)[i];
}
static inline void ag__la_put(int dtype, void *p, int64_t i, double v) {
  if (dtype == AG_FLOAT32) ((float *)p)[i] = (float)v;
  else ((double *)p)[i] = v;
}

/* The failure of matrix b: "name: (Batch element b): text", the batch named where there is one. */
int ag__la_fail(const char *name, int ndim, int64_t b, const char *fmt, int info);

#ifdef AG_HAVE_BLAS
#define BLAS_CAT_(a, b) a##b
#define BLAS_CAT(a, b) BLAS_CAT_(a, b)
#ifndef AG_BLAS_PREFIX
#define AG_BLAS_PREFIX
#endif
/* LAPACK's routine `name` for float32 or float64.  Declared by hand, as in gemm.c: matrices of either type as void
 * pointers, 32-bit integers, the lengths of Fortran's strings at the end. */
#define LAPACK(dtype, name) ((dtype) == AG_FLOAT32 ? BLAS_CAT(AG_BLAS_PREFIX, s##name##_) : BLAS_CAT(AG_BLAS_PREFIX, d##name##_))
#define ROUTINE(name, ...)                             \
  void BLAS_CAT(AG_BLAS_PREFIX, s##name##_)(__VA_ARGS__); \
  void BLAS_CAT(AG_BLAS_PREFIX, d##name##_)(__VA_ARGS__);
ROUTINE(potrf, const char *uplo, const int *n, void *a, const int *lda, int *info, size_t)
ROUTINE(getrf, const int *m, const int *n, void *a, const int *lda, int *piv, int *info)
ROUTINE(getrs, const char *trans, const int *n, const int *nrhs, const void *a, const int *lda, const int *piv, void *b,
        const int *ldb, int *info, size_t)
ROUTINE(getri, const int *n, void *a, const int *lda, const int *piv, void *work, const int *lwork, int *info)
ROUTINE(geqrf, const int *m, const int *n, void *a, const int *lda, void *tau, void *work, const int *lwork, int *info)
ROUTINE(orgqr, const int *m, const int *n, const int *k, void *a, const int *lda, const void *tau, void *work,
        const int *lwork, int *info)
ROUTINE(syevd, const char *job, const char *uplo, const int *n, void *a, const int *lda, void *w, void *work,
        const int *lwork, int *iwork, const int *liwork, int *info, size_t, size_t)
ROUTINE(gesdd, const char *job, const int *m, const int *n, void *a, const int *lda, void *s, void *u, const int *ldu,
        void *vt, const int *ldvt, void *work, const int *lwork, int *iwork, int *info, size_t)
ROUTINE(gels, const char *trans, const int *m, const int *n, const int *nrhs, void *a, const int *lda, void *b,
        const int *ldb, void *work, const int *lwork, int *info, size_t)
ROUTINE(gelsy, const int *m, const int *n, const int *nrhs, void *a, const int *lda, void *b, const int *ldb, int *jpvt,
        const void *rcond, int *rank, void *work, const int *lwork, int *info)
ROUTINE(gelss, const int *m, const int *n, const int *nrhs, void *a, const int *lda, void *b, const int *ldb, void *s,
        const void *rcond, int *rank, void *work, const int *lwork, int *info)
ROUTINE(gelsd, const int *m, const int *n, const int *nrhs, void *a, const int *lda, void *b, const int *ldb, void *s,
        const void *rcond, int *rank, void *work, const int *lwork, int *iwork, int *info)
ROUTINE(trsm, const char *side, const char *uplo, const char *trans, const char *diag, const int *m, const int *n,
        const void *alpha, const void *a, const int *lda, void *b, const int *ldb, size_t, size_t, size_t, size_t)
#undef ROUTINE

/* The size of a workspace as LAPACK reports it, in the first element. */
static inline int ag__la_work(int dtype, const void *work) {
  double w = dtype == AG_FLOAT32 ? (double)*(const float *)work : *(const double *)work;
  return w < 1 ? 1 : w > INT32_MAX ? INT32_MAX : (int)w;
}
#endif

/* ---- rules ---- */

/* t's batch dims folded into one: (b, m, n), of vectors (b, n), of numbers (b). */
ag_tensor *ag__la_fold(ag_vjp *c, ag_tensor *t, int item_dims);
/* dx[i] = t (folded) under the shape of input i. */
int ag__la_give(ag_vjp *c, int i, ag_tensor *t);
static inline ag_tensor *ag__la_mm(ag_vjp *c, ag_tensor *a, ag_tensor *b) { return ag__b2(c, AG_OP_bmm, a, b); }
static inline ag_tensor *ag__la_t(ag_vjp *c, ag_tensor *a) {
  return ag__bi(c, AG_OP_transpose, a, 2, INT64_C(-2), INT64_C(-1));
}
static inline ag_tensor *ag__la_sum(ag_vjp *c, ag_tensor *a, ag_tensor *b) { return ag__b2(c, AG_OP_add, a, b); }
static inline ag_tensor *ag__la_sub(ag_vjp *c, ag_tensor *a, ag_tensor *b) { return ag__b2(c, AG_OP_sub, a, b); }
static inline ag_tensor *ag__la_mul(ag_vjp *c, ag_tensor *a, ag_tensor *b) { return ag__b2(c, AG_OP_mul, a, b); }
static inline ag_tensor *ag__la_neg(ag_vjp *c, ag_tensor *a) { return ag__b1(c, AG_OP_neg, a); }
static inline ag_tensor *ag__la_tril(ag_vjp *c, ag_tensor *a, int64_t k) { return ag__bi(c, AG_OP_tril, a, 1, k); }
static inline ag_tensor *ag__la_triu(ag_vjp *c, ag_tensor *a, int64_t k) { return ag__bi(c, AG_OP_triu, a, 1, k); }
/* The first or last `len` of a dim. */
static inline ag_tensor *ag__la_part(ag_vjp *c, ag_tensor *a, int64_t dim, int64_t from, int64_t to) {
  return ag__bi(c, AG_OP_slice, a, 4, dim, from, to, INT64_C(1));
}
/* A column (-1) or row (-2) of each vector. */
static inline ag_tensor *ag__la_as(ag_vjp *c, ag_tensor *v, int64_t dim) { return ag__bi(c, AG_OP_unsqueeze, v, 1, dim); }
ag_tensor *ag__la_eye(ag_vjp *c, int dtype, int64_t n);
ag_tensor *ag__la_cat(ag_vjp *c, ag_tensor *a, ag_tensor *b, int64_t dim);
/* a^-1 b, or b a^-1 when !left; a triangular. */
ag_tensor *ag__la_tri(ag_vjp *c, ag_tensor *a, ag_tensor *b, bool upper, bool left, bool unit);

#endif
