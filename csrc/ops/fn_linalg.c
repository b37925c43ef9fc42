/* fn_linalg.c: what the rows of linear algebra share, Cholesky factors, triangular systems. */
#include "ops/linalg.h"

#include <limits.h>

#define INTS(n) (sizeof(int64_t) * (size_t)(n))

/* ---- shapes ---- */

int ag__la_matrix(const ag_infer *c, int k, const char *name) {
  const ag_array *a = c->in[k];
  if (!ag__is_float(a->dtype))
    return ag__fail(AG_ERR_RUNTIME, "%s: Expected a floating point or complex tensor as input. Got %s", name,
                    ag__scalar_name(a->dtype));
  if (a->ndim < 2) return ag__fail(AG_ERR_RUNTIME, "%s: The input tensor A must have at least 2 dimensions.", name);
  return AG_OK;
}

int ag__la_square(const ag_infer *c, int k, const char *name) {
  int st = ag__la_matrix(c, k, name);
  if (st) return st;
  int64_t m = ag__la_rows(c->in[k]), n = ag__la_cols(c->in[k]);
  if (m != n)
    return ag__fail(AG_ERR_RUNTIME, "%s: A must be batches of square matrices, but they are %lld by %lld matrices", name,
                    (long long)m, (long long)n);
  return AG_OK;
}

int ag__la_like(const ag_infer *c, int k, const char *name) {
  const ag_array *a = c->in[0], *b = c->in[k];
  char s[200], t[200];
  if (a->dtype != b->dtype)
    return ag__fail(AG_ERR_RUNTIME, "%s: Expected A and B to have the same dtype, but found A of type %s and B of type %s instead",
                    name, ag__scalar_name(a->dtype), ag__scalar_name(b->dtype));
  if (a->ndim < 2 || a->ndim != b->ndim || memcmp(ag__shape(a), ag__shape(b), INTS(a->ndim - 2)) != 0)
    return ag__fail(AG_ERR_RUNTIME, "%s: the batch dims of shapes %s and %s differ", name,
                    ag__shape_text(a->ndim, ag__shape(a), s, sizeof s), ag__shape_text(b->ndim, ag__shape(b), t, sizeof t));
  return AG_OK;
}

void ag__la_out(ag_infer *c, int k, int dtype, const ag_array *a, int n, int64_t s0, int64_t s1) {
  int64_t shape[AG_MAX_NDIM];
  int nb = a->ndim - 2;
  memcpy(shape, ag__shape(a), INTS(nb));
  if (n > 0) shape[nb] = s0;
  if (n > 1) shape[nb + 1] = s1;
  ag__set_out(c, k, dtype, nb + n, shape);
}

/* ---- rules ---- */

ag_tensor *ag__la_fold(ag_vjp *c, ag_tensor *t, int item_dims) {
  if (!t || c->status) return NULL;
  const ag_array *a = t->arr;
  if (a->ndim == item_dims + 1) return t;
  int64_t shape[3] = {1};
  for (int k = 0; k < a->ndim - item_dims; k++) shape[0] *= ag__shape(a)[k];
  memcpy(shape + 1, ag__shape(a) + a->ndim - item_dims, INTS(item_dims));
  return ag__breshape(c, t, item_dims + 1, shape);
}

int ag__la_give(ag_vjp *c, int i, ag_tensor *t) {
  const ag_meta *m = ag__vmeta(c, i);
  return ag__give(c, i, ag__breshape(c, t, m->ndim, m->shape));
}

ag_tensor *ag__la_eye(ag_vjp *c, int dtype, int64_t n) {
  ag_params p = {.ni = 3, .nf = 1, .i = {dtype, n, n}, .f = {1}};
  return ag__la_triu(c, ag__la_tril(c, ag__b(c, AG_OP_full, 0, NULL, &p), 0), 0);
}

ag_tensor *ag__la_cat(ag_vjp *c, ag_tensor *a, ag_tensor *b, int64_t dim) {
  ag_params p = {.ni = 1, .nf = 0, .i = {dim}};
  return ag__b(c, AG_OP_cat, 2, (ag_tensor *[]){a, b}, &p);
}

ag_tensor *ag__la_tri(ag_vjp *c, ag_tensor *a, ag_tensor *b, bool upper, bool left, bool unit) {
  ag_params p = {.ni = 3, .nf = 0, .i = {upper, left, unit}};
  return ag__b(c, AG_OP_solve_triangular, 2, (ag_tensor *[]){a, b}, &p);
}

/* ---- Cholesky: A = L L' or U' U; ints: upper, check ----
 *
 * With Phi(X) the lower triangle of X, its diagonal halved: gA = L'^-1 Phi(L' gL) L^-1 made symmetric
 * (Murray, Differentiation of the Cholesky decomposition, 2016; Seeger et al., Auto-differentiating linear algebra, 2017). */

int ag__infer_cholesky(ag_infer *c) {
  int st = ag__la_square(c, 0, "linalg.cholesky");
  if (st) return st;
  ag_array *a = c->in[0];
  ag__la_out(c, 0, a->dtype, a, 2, ag__la_rows(a), ag__la_rows(a));
  ag__la_out(c, 1, AG_INT32, a, 0, 0, 0);
  return AG_OK;
}

int ag__vjp_cholesky(ag_vjp *c) {
  if (!c->g[0]) return AG_OK;
  bool upper = ag__la_flag(&c->p, 0);
  ag_tensor *l = ag__la_fold(c, ag__vy(c, 0), 2), *g = ag__la_fold(c, c->g[0], 2);
  if (upper) {
    l = ag__la_t(c, l);
    g = ag__la_t(c, g);
  }
  ag_tensor *lt = ag__la_t(c, l);
  ag_tensor *s = ag__la_tril(c, ag__la_mm(c, lt, g), 0);
  s = ag__bscale(c, ag__la_sum(c, s, ag__la_t(c, ag__la_tril(c, s, -1))), 0.5);
  s = ag__la_tri(c, l, ag__la_tri(c, lt, s, true, true, false), false, false, false);
  return ag__la_give(c, 0, s);
}

/* ---- cholesky_solve: (L L')^-1 B from B and L; ints: upper ----
 *
 * As PyTorch's, the derivative takes L for a full matrix of which L L' is made: gL = -(S + S') L with S = gB X'. */

int ag__infer_cholesky_solve(ag_infer *c) {
  int st = ag__la_square(c, 1, "cholesky_solve");
  if (!st) st = ag__la_matrix(c, 0, "cholesky_solve");
  if (!st) st = ag__la_like(c, 1, "cholesky_solve");
  if (st) return st;
  ag_array *b = c->in[0];
  if (ag__la_rows(b) != ag__la_rows(c->in[1]))
    return ag__fail(AG_ERR_RUNTIME,
                    "Incompatible matrix sizes for cholesky_solve: each A matrix is %lld by %lld but each b matrix is %lld by %lld",
                    (long long)ag__la_rows(c->in[1]), (long long)ag__la_rows(c->in[1]), (long long)ag__la_rows(b),
                    (long long)ag__la_cols(b));
  ag__set_out(c, 0, b->dtype, b->ndim, ag__shape(b));
  return AG_OK;
}

int ag__vjp_cholesky_solve(ag_vjp *c) {
  bool upper = ag__la_flag(&c->p, 0);
  ag_params p = {.ni = 1, .nf = 0, .i = {upper}};
  ag_tensor *l = ag__la_fold(c, ag__vx(c, 1), 2), *g = ag__la_fold(c, c->g[0], 2);
  ag_tensor *gb = ag__b(c, AG_OP_cholesky_solve, 2, (ag_tensor *[]){g, l}, &p);
  if (c->need[0]) ag__la_give(c, 0, gb);
  if (c->need[1]) {
    ag_tensor *s = ag__la_mm(c, gb, ag__la_t(c, ag__la_fold(c, ag__vy(c, 0), 2)));
    s = ag__la_neg(c, ag__la_sum(c, s, ag__la_t(c, s)));
    ag__la_give(c, 1, upper ? ag__la_mm(c, l, s) : ag__la_mm(c, s, l));
  }
  return c->status;
}

/* ---- solve_triangular: A^-1 B or B A^-1; ints: upper, left, unitriangular ----
 *
 * X = A^-1 B: gB = A'^-1 gX, gA = -gB X' on A's triangle (Giles, Collected matrix derivative results, 2008, 2.3.1). */

int ag__infer_solve_triangular(ag_infer *c) {
  static const char *const name = "linalg.solve_triangular";
  int st = ag__need(c, 2, 3, 0);
  if (!st) st = ag__la_square(c, 0, name);
  if (!st) st = ag__la_matrix(c, 1, name);
  if (!st) st = ag__la_like(c, 1, name);
  if (st) return st;
  ag_array *a = c->in[0], *b = c->in[1];
  bool left = c->p->i[1] != 0;
  if ((left ? ag__la_rows(b) : ag__la_cols(b)) != ag__la_rows(a))
    return ag__fail(AG_ERR_RUNTIME, "%s: Incompatible shapes of A and B for the equation %s (%lldx%lld and %lldx%lld)", name,
                    left ? "AX = B" : "XA = B", (long long)ag__la_rows(a), (long long)ag__la_cols(a), (long long)ag__la_rows(b),
                    (long long)ag__la_cols(b));
  ag__set_out(c, 0, b->dtype, b->ndim, ag__shape(b));
  return AG_OK;
}

int ag__vjp_solve_triangular(ag_vjp *c) {
  bool upper = c->p.i[0] != 0, left = c->p.i[1] != 0, unit = c->p.i[2] != 0;
  ag_tensor *a = ag__la_fold(c, ag__vx(c, 0), 2), *g = ag__la_fold(c, c->g[0], 2);
  ag_tensor *gb = ag__la_tri(c, ag__la_t(c, a), g, !upper, left, unit);
  if (c->need[1]) ag__la_give(c, 1, gb);
  if (c->need[0]) {
    ag_tensor *x = ag__la_t(c, ag__la_fold(c, ag__vy(c, 0), 2));
    ag_tensor *ga = ag__la_neg(c, left ? ag__la_mm(c, gb, x) : ag__la_mm(c, x, gb));
    ag__la_give(c, 0, upper ? ag__la_triu(c, ga, unit) : ag__la_tril(c, ga, -(int64_t)unit));
  }
  return c->status;
}

#ifdef AG_HAVE_BLAS
/* ---- executions: operands ---- */

int ag__la_size(const ag_raw *r, la_size *s) {
  int64_t m = r->shape[r->ndim - 2], n = r->shape[r->ndim - 1];
  /* Products of sizes count workspaces, so stay well below what 32 bits hold. */
  if (m > INT_MAX / 8 || n > INT_MAX / 8)
    return ag__fail(AG_ERR_NOT_IMPLEMENTED, "matrices of %lld by %lld elements are beyond LAPACK's 32-bit sizes", (long long)m,
                    (long long)n);
  s->nb = ag__numel(r->ndim - 2, r->shape);
  s->m = (int)m;
  s->n = (int)n;
  s->k = m < n ? (int)m : (int)n;
  ag__blas_ready();
  return AG_OK;
}

void *ag__la_take(la_scratch *s, int64_t count, int size) {
  void *p = ag__temp(&s->t[s->n], (size_t)(count > 0 ? count : 1) * (size_t)size);
  if (p) s->n++;
  return p;
}

void ag__la_drop(la_scratch *s) {
  while (s->n) ag__temp_free(&s->t[--s->n]);
}

static char *copy_of(const ag_raw *r, la_scratch *s, bool columns) {
  int size = ag__dtype_size(r->dtype), n = r->ndim;
  int64_t shape[AG_MAX_NDIM], strides[AG_MAX_NDIM];
  char *p = ag__la_take(s, r->numel, size);
  if (!p || !r->numel) return p;
  memcpy(shape, r->shape, INTS(n));
  memcpy(strides, r->strides, INTS(n));
  if (columns) {
    shape[n - 1] = r->shape[n - 2];
    shape[n - 2] = r->shape[n - 1];
    strides[n - 1] = r->strides[n - 2];
    strides[n - 2] = r->strides[n - 1];
  }
  ag__par_pack(n, shape, strides, r->numel, p, r->data, size);
  return p;
}

char *ag__la_columns(const ag_raw *r, la_scratch *s) { return copy_of(r, s, true); }
char *ag__la_by_rows(const ag_raw *r, la_scratch *s) { return copy_of(r, s, false); }

void ag__la_store(const ag_raw *out, const void *data, int64_t ld, int64_t step) {
  int64_t m = out->shape[out->ndim - 2], n = out->shape[out->ndim - 1];
  if (!out->numel) return;
  int64_t shape[3] = {out->numel / (m * n), m, n}, strides[3] = {step, 1, ld};
  ag__par_pack(3, shape, strides, out->numel, out->data, data, ag__dtype_size(out->dtype));
}

void ag__la_clear(const ag_raw *out, bool upper) {
  int64_t m = out->shape[out->ndim - 2], n = out->shape[out->ndim - 1], rows = n ? out->numel / n : 0;
  size_t size = (size_t)ag__dtype_size(out->dtype);
  for (int64_t r = 0; r < rows; r++) {
    int64_t i = r % m, from = upper ? 0 : i + 1, to = upper ? (i < n ? i : n) : n;
    if (from < to) memset(out->data + (size_t)(r * n + from) * size, 0, (size_t)(to - from) * size);
  }
}

int ag__la_fail(const char *name, int ndim, int64_t b, const char *fmt, int info) {
  char where[48] = "", text[300];
  if (ndim > 2) snprintf(where, sizeof where, "(Batch element %lld): ", (long long)b);
  /* Each text names the number once or twice. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
  snprintf(text, sizeof text, fmt, info, info);
#pragma GCC diagnostic pop
  return ag__fail(AG_ERR_LINALG, "%s: %s%s", name, where, text);
}

/* ---- executions ---- */

/* Rows are the columns of the transpose, which is the same matrix: what LAPACK calls upper is our lower triangle. */
int ag__exec_cholesky(const ag_exec *x) {
  const ag_raw *out = &x->out[0];
  bool upper = ag__la_flag(x->p, 0), check = ag__la_flag(x->p, 1);
  int32_t *infos = (int32_t *)(void *)x->out[1].data;
  la_size s = {0};
  int64_t bad = -1;
  int st = ag__la_size(out, &s);
  if (st) return st;
  ag__start_from(out, &x->in[0]);
  int64_t step = (int64_t)s.n * s.n * ag__dtype_size(out->dtype);
  void *token = ag__long_begin(s.nb * s.n * s.n / 6 * s.n, AG_LONG_MATH);
  for (int64_t b = 0; b < s.nb; b++) {
    int info = 0;
    if (s.n) LAPACK(out->dtype, potrf)(upper ? "L" : "U", &s.n, out->data + b * step, &s.n, &info, 1);
    infos[b] = info;
    if (info && bad < 0) bad = b;
  }
  ag__la_clear(out, upper);
  ag__blocking_end(token);
  if (check && bad >= 0)
    return ag__la_fail("linalg.cholesky", out->ndim, bad,
                       "The factorization could not be completed because the input is not positive-definite (the leading minor "
                       "of order %d is not positive-definite).",
                       infos[bad]);
  return AG_OK;
}

/* b (row-major) overwritten by a^-1 b or b a^-1, turned: a'^-1 b; a row-major.  LAPACK reads rows as columns, so it
 * sees a', upper for lower, and b': the transposed problem.  A few columns are solved faster one after the other; for
 * them `few` (as large as b) takes b by columns. */
enum { FEW_COLUMNS = 8 };
static void solve_rows(int dtype, const char *a, int n, char *b, int rows, int cols, bool upper, bool left, bool turned,
                       bool unit, char *few) {
  const float onef = 1;
  const double one = 1;
  const void *alpha = dtype == AG_FLOAT32 ? (const void *)&onef : (const void *)&one;
  const char *uplo = upper ? "L" : "U", *diag = unit ? "U" : "N";
  int size = ag__dtype_size(dtype);
  if (!n || !rows || !cols) return;
  if (!left || cols > FEW_COLUMNS) {
    LAPACK(dtype, trsm)(left ? "R" : "L", uplo, turned ? "T" : "N", diag, &cols, &rows, alpha, a, &n, b, &cols, 1, 1, 1, 1);
    return;
  }
  int64_t back[2] = {rows, cols}, there[2] = {cols, rows}, by_col[2] = {1, cols}, by_row[2] = {1, rows};
  char *x = cols > 1 ? few : b;
  if (x != b) ag__par_pack(2, there, by_col, (int64_t)rows * cols, x, b, size);
  LAPACK(dtype, trsm)("L", uplo, turned ? "N" : "T", diag, &rows, &cols, alpha, a, &n, x, &rows, 1, 1, 1, 1);
  if (x != b) ag__par_pack(2, back, by_row, (int64_t)rows * cols, b, x, size);
}

int ag__exec_solve_triangular(const ag_exec *x) {
  const ag_raw *a = &x->in[0], *out = &x->out[0];
  bool upper = x->p->i[0] != 0, left = x->p->i[1] != 0, unit = x->p->i[2] != 0;
  ag_temp t;
  la_size s = {0}, sb = {0};
  int st = ag__la_size(a, &s);
  if (!st) st = ag__la_size(out, &sb);
  if (st) return st;
  la_scratch few = {.n = 0};
  const char *pa = ag__contig(a, &t);
  char *work = pa ? ag__la_take(&few, sb.n <= FEW_COLUMNS ? (int64_t)sb.m * sb.n : 1, ag__dtype_size(a->dtype)) : NULL;
  if (!work) {
    ag__temp_free(&t);
    return AG_ERR_MEMORY;
  }
  ag__start_from(out, &x->in[1]);
  int64_t size = ag__dtype_size(a->dtype), sa = (int64_t)s.n * s.n * size, so = (int64_t)sb.m * sb.n * size;
  void *token = ag__long_begin(out->numel * s.n / 2, AG_LONG_MATH);
  for (int64_t b = 0; b < s.nb; b++)
    solve_rows(a->dtype, pa + b * sa, s.n, out->data + b * so, sb.m, sb.n, upper, left, false, unit, work);
  ag__blocking_end(token);
  ag__la_drop(&few);
  ag__temp_free(&t);
  return AG_OK;
}

int ag__exec_cholesky_solve(const ag_exec *x) {
  const ag_raw *l = &x->in[1], *out = &x->out[0];
  bool upper = ag__la_flag(x->p, 0);
  ag_temp t;
  la_size s = {0}, sb = {0};
  int st = ag__la_size(l, &s);
  if (!st) st = ag__la_size(out, &sb);
  if (st) return st;
  la_scratch few = {.n = 0};
  const char *pl = ag__contig(l, &t);
  char *work = pl ? ag__la_take(&few, sb.n <= FEW_COLUMNS ? (int64_t)sb.m * sb.n : 1, ag__dtype_size(l->dtype)) : NULL;
  if (!work) {
    ag__temp_free(&t);
    return AG_ERR_MEMORY;
  }
  ag__start_from(out, &x->in[0]);
  int64_t size = ag__dtype_size(l->dtype), sl = (int64_t)s.n * s.n * size, so = (int64_t)sb.m * sb.n * size;
  void *token = ag__long_begin(out->numel * s.n, AG_LONG_MATH);
  /* L (L' X) = B; U' (U X) = B. */
  for (int64_t b = 0; b < s.nb; b++) {
    solve_rows(l->dtype, pl + b * sl, s.n, out->data + b * so, sb.m, sb.n, upper, true, upper, false, work);
    solve_rows(l->dtype, pl + b * sl, s.n, out->data + b * so, sb.m, sb.n, upper, true, !upper, false, work);
  }
  ag__blocking_end(token);
  ag__la_drop(&few);
  ag__temp_free(&t);
  return AG_OK;
}

#else
/* ---- builds without LAPACK ---- */

#define WITHOUT(op)                                                                                                       \
  int ag__exec_##op(const ag_exec *x) {                                                                                   \
    return ag__fail(AG_ERR_NOT_IMPLEMENTED, "%s needs LAPACK, which this build leaves out (AUTOGRAD_C_BLAS=off): build with "\
                    "-DAUTOGRAD_C_BLAS=scipy or system", x->row->name);                                                   \
  }
WITHOUT(cholesky)
WITHOUT(cholesky_solve)
WITHOUT(solve_triangular)
WITHOUT(lu_factor)
WITHOUT(solve_lu)
WITHOUT(inv)
WITHOUT(cofactor)
WITHOUT(cofactor_grad)
WITHOUT(qr)
WITHOUT(eigh)
WITHOUT(svd)
WITHOUT(pinv)
WITHOUT(lstsq)
WITHOUT(matrix_exp)
#endif
