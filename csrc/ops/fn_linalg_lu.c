/* fn_linalg_lu.c: LU factors and what is made of them: systems, inverses, determinants.
 *
 * A system is solved in two rows: lu_factor, without a history, then solve_lu, which takes A beside its factors and
 * sends the whole derivative to A.  So one factorisation serves the solution and all its derivatives, and none of
 * them goes through the derivative of the factors. */
#include "ops/linalg.h"

#include <math.h>

/* ---- pivots ---- */

static int check_pivots(const char *name, const int32_t *piv, int64_t rows, int64_t k, int64_t m) {
  for (int64_t i = 0; i < rows * k; i++)
    if (piv[i] < 1 || piv[i] > m)
      return ag__fail(AG_ERR_RUNTIME, "%s: pivot %d is not between 1 and LU.size(-2) = %lld", name, piv[i], (long long)m);
  return AG_OK;
}

static int pivots_like(const ag_infer *c, int k, const ag_array *lu, const char *name) {
  const ag_array *p = c->in[k];
  if (p->dtype != AG_INT32)
    return ag__fail(AG_ERR_RUNTIME, "%s: LU_pivots is expected to be a contiguous tensor of torch.int32 dtype", name);
  int64_t m = ag__la_rows(lu), n = ag__la_cols(lu);
  if (p->ndim != lu->ndim - 1 || memcmp(ag__shape(p), ag__shape(lu), sizeof(int64_t) * (size_t)(p->ndim - 1)) != 0 ||
      ag__shape(p)[p->ndim - 1] != (m < n ? m : n))
    return ag__fail(AG_ERR_RUNTIME, "%s: Number of pivots per batch should be same as the dimension of the matrix", name);
  return AG_OK;
}

int ag__infer_lu_perm(ag_infer *c) {
  static const char *const name = "lu_unpack";
  const ag_array *p = c->in[0];
  int st = ag__need(c, 1, 1, 0);
  if (st) return st;
  if (p->dtype != AG_INT32 || p->ndim < 1)
    return ag__fail(AG_ERR_RUNTIME, "%s: LU_pivots is expected to be a contiguous tensor of torch.int32 dtype", name);
  int64_t shape[AG_MAX_NDIM], m = c->p->i[0];
  if (m < ag__shape(p)[p->ndim - 1])
    return ag__fail(AG_ERR_RUNTIME, "%s: %lld pivots for %lld rows", name, (long long)ag__shape(p)[p->ndim - 1], (long long)m);
  memcpy(shape, ag__shape(p), sizeof(int64_t) * (size_t)p->ndim);
  shape[p->ndim - 1] = m;
  ag__set_out(c, 0, AG_INT64, p->ndim, shape);
  return AG_OK;
}

/* A[perm] = L U; with ints[1] the inverse of perm. */
int ag__exec_lu_perm(const ag_exec *x) {
  const ag_raw *p = &x->in[0];
  int64_t k = p->shape[p->ndim - 1], m = x->p->i[0], nb = ag__numel(p->ndim - 1, p->shape);
  ag_temp t;
  const int32_t *piv = (const int32_t *)(const void *)ag__contig(p, &t);
  if (!piv) return AG_ERR_MEMORY;
  int64_t *out = (int64_t *)(void *)x->out[0].data;
  int st = check_pivots("lu_unpack", piv, nb, k, m);
  bool inverse = ag__la_flag(x->p, 1);
  for (int64_t b = 0; b < nb && !st; b++, piv += k, out += m) {
    for (int64_t i = 0; i < m; i++) out[i] = i;
    /* The inverse takes the exchanges in reverse order. */
    for (int64_t j = 0; j < k; j++) {
      int64_t i = inverse ? k - 1 - j : j, v = out[i];
      out[i] = out[piv[i] - 1];
      out[piv[i] - 1] = v;
    }
  }
  ag__temp_free(&t);
  return st;
}

/* ---- lu_factor: LU in one matrix, pivots, info; ints: check (1: as lu_factor, 2: as solve) ----
 *
 * With L1, U1 the square parts and L2, U2 what is below or beside them:
 * gA1 = P L1'^-1 [tril(L1' gL1 - gU2 U2', -1) + triu(gU1 U1' - L2' gL2)] U1'^-1, gA2 = P L1'^-1 gU2 or gL2 U1'^-1
 * (from dA = P' (dL U + L dU), as de Hoog, Anderssen, Lukas, Differentiation of matrix functionals using triangular
 * factorization, 2011). */

int ag__infer_lu_factor(ag_infer *c) {
  int st = ag__la_matrix(c, 0, "linalg.lu_factor");
  if (st) return st;
  ag_array *a = c->in[0];
  int64_t m = ag__la_rows(a), n = ag__la_cols(a);
  ag__la_out(c, 0, a->dtype, a, 2, m, n);
  ag__la_out(c, 1, AG_INT32, a, 1, m < n ? m : n, 0);
  ag__la_out(c, 2, AG_INT32, a, 0, 0, 0);
  return AG_OK;
}

int ag__vjp_lu_factor(ag_vjp *c) {
  if (!c->g[0]) return AG_OK;
  ag_tensor *lu = ag__la_fold(c, ag__vy(c, 0), 2), *piv = ag__la_fold(c, ag__vy(c, 1), 1), *g = ag__la_fold(c, c->g[0], 2);
  if (c->status) return c->status;
  int64_t m = ag__shape(lu->arr)[1], n = ag__shape(lu->arr)[2], k = m < n ? m : n;
  ag_tensor *gl = ag__la_tril(c, g, -1), *gu = ag__la_triu(c, g, 0), *a1 = lu, *g2 = NULL;
  ag_tensor *lower, *upper;
  if (m == n) {
    lower = ag__la_mm(c, ag__la_t(c, ag__la_tril(c, lu, -1)), gl);
    upper = ag__la_mm(c, gu, ag__la_t(c, ag__la_triu(c, lu, 0)));
  } else if (m < n) {
    a1 = ag__la_part(c, lu, 2, 0, k);
    ag_tensor *u2 = ag__la_part(c, lu, 2, k, n), *gu1 = ag__la_part(c, gu, 2, 0, k);
    g2 = ag__la_part(c, gu, 2, k, n);
    gl = ag__la_part(c, gl, 2, 0, k);
    lower = ag__la_mm(c, ag__la_t(c, ag__la_tril(c, a1, -1)), gl);
    lower = ag__la_sub(c, lower, ag__la_mm(c, g2, ag__la_t(c, u2)));
    upper = ag__la_mm(c, gu1, ag__la_t(c, ag__la_triu(c, a1, 0)));
  } else {
    a1 = ag__la_part(c, lu, 1, 0, k);
    ag_tensor *l2 = ag__la_part(c, lu, 1, k, m);
    g2 = ag__la_part(c, gl, 1, k, m);
    gl = ag__la_part(c, gl, 1, 0, k);
    gu = ag__la_part(c, gu, 1, 0, k);
    lower = ag__la_mm(c, ag__la_t(c, ag__la_tril(c, a1, -1)), gl);
    upper = ag__la_mm(c, gu, ag__la_t(c, ag__la_triu(c, a1, 0)));
    upper = ag__la_sub(c, upper, ag__la_mm(c, ag__la_t(c, l2), g2));
  }
  /* L's unit diagonal: L' gL = tril(LU, -1)' gL + gL. */
  lower = ag__la_tril(c, ag__la_sum(c, lower, gl), -1);
  ag_tensor *at = ag__la_t(c, a1), *s = ag__la_sum(c, lower, ag__la_triu(c, upper, 0));
  s = ag__la_tri(c, at, ag__la_tri(c, at, s, true, true, true), false, false, false);
  if (m < n) s = ag__la_cat(c, s, ag__la_tri(c, at, g2, true, true, true), 2);
  else if (m > n) s = ag__la_cat(c, s, ag__la_tri(c, at, g2, false, false, false), 1);
  ag_params p = {.ni = 2, .nf = 0, .i = {m, 1}}, dim = {.ni = 1, .nf = 0, .i = {1}};
  ag_tensor *row = ag__la_as(c, ag__b(c, AG_OP_lu_perm, 1, &piv, &p), -1);
  row = ag__bshape(c, AG_OP_expand, row, 3, (int64_t[]){ag__shape(lu->arr)[0], m, n});
  return ag__la_give(c, 0, ag__b(c, AG_OP_gather, 2, (ag_tensor *[]){s, row}, &dim));
}

/* ---- solve_lu: X of A X = B (or A' X = B, X A = B, X A' = B) from A, LU, pivots, B; ints: left, transposed ----
 *
 * gB solves the system with the transposed matrix, gA = -gB X' (Giles 2008, 2.3.1). */

static int infer_factors(ag_infer *c, const char *name) {
  int st = ag__la_square(c, 0, name);
  if (!st) st = ag__la_square(c, 1, name);
  if (!st) st = ag__la_like(c, 1, name);
  if (!st && ag__la_rows(c->in[0]) != ag__la_rows(c->in[1]))
    st = ag__fail(AG_ERR_RUNTIME, "%s: the factors are not those of A", name);
  return st ? st : pivots_like(c, 2, c->in[1], name);
}

int ag__infer_solve_lu(ag_infer *c) {
  static const char *const name = "linalg.solve";
  int st = ag__need(c, 4, 2, 0);
  if (!st) st = infer_factors(c, name);
  if (!st) st = ag__la_matrix(c, 3, name);
  if (!st) st = ag__la_like(c, 3, name);
  if (st) return st;
  ag_array *a = c->in[0], *b = c->in[3];
  bool left = c->p->i[0] != 0;
  if ((left ? ag__la_rows(b) : ag__la_cols(b)) != ag__la_rows(a))
    return ag__fail(AG_ERR_RUNTIME, "%s: Incompatible shapes of A and B for the equation %s (%lldx%lld and %lldx%lld)", name,
                    left ? "AX = B" : "XA = B", (long long)ag__la_rows(a), (long long)ag__la_cols(a), (long long)ag__la_rows(b),
                    (long long)ag__la_cols(b));
  ag__set_out(c, 0, b->dtype, b->ndim, ag__shape(b));
  return AG_OK;
}

/* Operands 0..2 and b. */
static ag_tensor *solve_by(ag_vjp *c, ag_tensor *b, bool left, bool turned) {
  ag_params p = {.ni = 2, .nf = 0, .i = {left, turned}};
  ag_tensor *a = ag__la_fold(c, ag__vx(c, 0), 2), *lu = ag__la_fold(c, ag__vx(c, 1), 2), *piv = ag__la_fold(c, ag__vx(c, 2), 1);
  return ag__b(c, AG_OP_solve_lu, 4, (ag_tensor *[]){a, lu, piv, b}, &p);
}

int ag__vjp_solve_lu(ag_vjp *c) {
  bool left = c->p.i[0] != 0, turned = c->p.i[1] != 0;
  ag_tensor *gb = solve_by(c, ag__la_fold(c, c->g[0], 2), left, !turned);
  if (c->need[3]) ag__la_give(c, 3, gb);
  if (c->need[0]) {
    ag_tensor *x = ag__la_fold(c, ag__vy(c, 0), 2), *ga;
    if (left != turned) ga = left ? ag__la_mm(c, gb, ag__la_t(c, x)) : ag__la_mm(c, ag__la_t(c, gb), x);
    else ga = left ? ag__la_mm(c, x, ag__la_t(c, gb)) : ag__la_mm(c, ag__la_t(c, x), gb);
    ag__la_give(c, 0, ag__la_neg(c, ga));
  }
  return c->status;
}

/* ---- inv: the inverse, info; ints: check.  gA = -Y' gY Y' (Giles 2008, 2.2.3) ---- */

int ag__infer_inv(ag_infer *c) {
  int st = ag__la_square(c, 0, "linalg.inv");
  if (st) return st;
  ag_array *a = c->in[0];
  ag__la_out(c, 0, a->dtype, a, 2, ag__la_rows(a), ag__la_rows(a));
  ag__la_out(c, 1, AG_INT32, a, 0, 0, 0);
  return AG_OK;
}

int ag__vjp_inv(ag_vjp *c) {
  if (!c->g[0]) return AG_OK;
  ag_tensor *y = ag__la_t(c, ag__la_fold(c, ag__vy(c, 0), 2)), *g = ag__la_fold(c, c->g[0], 2);
  return ag__la_give(c, 0, ag__la_neg(c, ag__la_mm(c, ag__la_mm(c, y, g), y)));
}

/* ---- determinants from A, LU, pivots ---- */

int ag__infer_det_lu(ag_infer *c) {
  int st = infer_factors(c, "linalg.det");
  if (!st) ag__la_out(c, 0, c->in[0]->dtype, c->in[0], 0, 0, 0);
  return st;
}

int ag__infer_slogdet_lu(ag_infer *c) {
  int st = infer_factors(c, "linalg.slogdet");
  if (st) return st;
  for (int k = 0; k < 2; k++) ag__la_out(c, k, c->in[0]->dtype, c->in[0], 0, 0, 0);
  return AG_OK;
}

/* Sign of the row exchanges. */
static double parity(const int32_t *piv, int64_t n) {
  bool odd = false;
  for (int64_t i = 0; i < n; i++) odd ^= piv[i] != i + 1;
  return odd ? -1 : 1;
}

static int exec_det(const ag_exec *x, bool logarithm, const char *name) {
  const ag_raw *lu = &x->in[1], *pr = &x->in[2];
  int64_t n = lu->shape[lu->ndim - 1], nb = ag__numel(lu->ndim - 2, lu->shape);
  ag_temp t, u = {0, 0};
  const int32_t *piv = (const int32_t *)(const void *)ag__contig(pr, &t);
  const char *data = piv ? ag__contig(lu, &u) : NULL;
  int st = data ? check_pivots(name, piv, nb, n, n) : AG_ERR_MEMORY;
  for (int64_t b = 0; b < nb && !st; b++) {
    double sign = parity(piv + b * n, n), v = logarithm ? 0 : sign;
    for (int64_t i = 0; i < n; i++) {
      double d = ag__la_get(lu->dtype, data, (b * n + i) * n + i);
      if (logarithm) {
        sign = d == 0 ? 0 : isnan(d) ? d : d < 0 ? -sign : sign;
        v += log(fabs(d));
      } else {
        v *= d;
      }
    }
    if (logarithm) ag__la_put(lu->dtype, x->out[0].data, b, sign);
    ag__la_put(lu->dtype, x->out[logarithm].data, b, v);
  }
  ag__temp_free(&u);
  ag__temp_free(&t);
  return st;
}

int ag__exec_det_lu(const ag_exec *x) { return exec_det(x, false, "linalg.det"); }
int ag__exec_slogdet_lu(const ag_exec *x) { return exec_det(x, true, "linalg.slogdet"); }

static ag_tensor *per_matrix(ag_vjp *c, ag_tensor *g) { return ag__la_as(c, ag__la_as(c, ag__la_fold(c, g, 0), -1), -1); }

static ag_tensor *by_factors(ag_vjp *c, int op) {
  ag_tensor *a = ag__la_fold(c, ag__vx(c, 0), 2), *lu = ag__la_fold(c, ag__vx(c, 1), 2), *piv = ag__la_fold(c, ag__vx(c, 2), 1);
  return ag__b(c, op, 3, (ag_tensor *[]){a, lu, piv}, NULL);
}

/* The gradient of the determinant is the matrix of cofactors, det(A) A'^-1 where A has an inverse (Giles 2008, 2.2.4). */
int ag__vjp_det_lu(ag_vjp *c) {
  if (c->need[0]) ag__la_give(c, 0, ag__la_mul(c, per_matrix(c, c->g[0]), by_factors(c, AG_OP_cofactor)));
  return c->status;
}

/* gA = g A'^-1. */
int ag__vjp_slogdet_lu(ag_vjp *c) {
  if (!c->need[0] || !c->g[1]) return AG_OK;
  const ag_meta *m = ag__vmeta(c, 0);
  ag_tensor *b = ag__la_mul(c, per_matrix(c, c->g[1]), ag__la_eye(c, m->dtype, m->shape[m->ndim - 1]));
  return ag__la_give(c, 0, solve_by(c, b, true, true));
}

/* ---- cofactor: C = d det(A) / dA from A, LU, pivots; cofactor_grad: its derivative in the direction G ----
 *
 * Both are polynomials in A and computed as such, so that singular matrices are nothing special: with A = P S Q from the
 * singular value decomposition and H = P' G Q', the latter is det(P) det(Q) P F Q, F[i,i] the sum over j of H[j,j] p[i,j],
 * F[i,j] = -H[j,i] p[i,j], p[i,j] the product of the singular values but i and j (expand
 * det(S + t H) to second order in t).  It is symmetric in G and the gradient
 * that comes to it, thus its own derivative in G.  The third derivative of the determinant, in A, is written with
 * M = A'^-1, D = det(A) and exists for matrices that have an inverse:
 * D [(<G,M> <H,M> - <M G' M, H>) M - <H,M> M G' M - <G,M> M H' M + M G' M H' M + M H' M G' M]. */

int ag__infer_cofactor(ag_infer *c) {
  int st = infer_factors(c, "linalg.det");
  if (!st) ag__set_out(c, 0, c->in[0]->dtype, c->in[0]->ndim, ag__shape(c->in[0]));
  return st;
}

int ag__infer_cofactor_grad(ag_infer *c) {
  int st = ag__infer_cofactor(c);
  if (!st) st = ag__la_square(c, 3, "linalg.det");
  if (!st) st = ag__la_like(c, 3, "linalg.det");
  if (!st && ag__la_rows(c->in[3]) != ag__la_rows(c->in[0]))
    st = ag__fail(AG_ERR_RUNTIME, "linalg.det: the direction has not the shape of A");
  return st;
}

static ag_tensor *along(ag_vjp *c, ag_tensor *g) {
  ag_tensor *a = ag__la_fold(c, ag__vx(c, 0), 2), *lu = ag__la_fold(c, ag__vx(c, 1), 2), *piv = ag__la_fold(c, ag__vx(c, 2), 1);
  return ag__b(c, AG_OP_cofactor_grad, 4, (ag_tensor *[]){a, lu, piv, g}, NULL);
}

int ag__vjp_cofactor(ag_vjp *c) {
  if (c->need[0]) ag__la_give(c, 0, along(c, ag__la_fold(c, c->g[0], 2)));
  return c->status;
}

static ag_tensor *inner(ag_vjp *c, ag_tensor *a, ag_tensor *b) {
  return ag__bi(c, AG_OP_sum, ag__la_mul(c, a, b), 3, INT64_C(1), INT64_C(-2), INT64_C(-1));
}

int ag__vjp_cofactor_grad(ag_vjp *c) {
  ag_tensor *h = ag__la_fold(c, c->g[0], 2);
  if (c->need[3]) ag__la_give(c, 3, along(c, h));
  if (!c->need[0] || c->status) return c->status;
  ag_tensor *g = ag__la_fold(c, ag__vx(c, 3), 2), *d = per_matrix(c, by_factors(c, AG_OP_det_lu));
  ag_tensor *m = ag__b2(c, AG_OP_div, by_factors(c, AG_OP_cofactor), d);
  ag_tensor *gt = ag__la_mm(c, m, ag__la_t(c, g)), *ht = ag__la_mm(c, m, ag__la_t(c, h)); /* M G', M H' */
  ag_tensor *gm = ag__la_mm(c, gt, m), *hm = ag__la_mm(c, ht, m), *gi = inner(c, g, m), *hi = inner(c, h, m);
  ag_tensor *r = ag__la_mul(c, ag__la_sub(c, ag__la_mul(c, gi, hi), inner(c, gm, h)), m);
  r = ag__la_sub(c, ag__la_sub(c, r, ag__la_mul(c, hi, gm)), ag__la_mul(c, gi, hm));
  r = ag__la_sum(c, r, ag__la_sum(c, ag__la_mm(c, gt, hm), ag__la_mm(c, ht, gm)));
  return ag__la_give(c, 0, ag__la_mul(c, d, r));
}

#ifdef AG_HAVE_BLAS
int ag__exec_lu_factor(const ag_exec *x) {
  const ag_raw *out = &x->out[0];
  int64_t check = x->p->ni > 0 ? x->p->i[0] : 0, bad = -1;
  int32_t *piv = (int32_t *)(void *)x->out[1].data, *infos = (int32_t *)(void *)x->out[2].data;
  la_scratch t = {.n = 0};
  la_size s = {0};
  int st = ag__la_size(out, &s);
  if (st) return st;
  char *a = ag__la_columns(&x->in[0], &t);
  if (!a) return AG_ERR_MEMORY;
  int64_t step = (int64_t)s.m * s.n;
  void *token = ag__long_begin(s.nb * step / 3 * s.k, AG_LONG_MATH);
  for (int64_t b = 0; b < s.nb; b++) {
    int info = 0;
    if (s.k)
      LAPACK(out->dtype, getrf)(&s.m, &s.n, a + b * step * ag__dtype_size(out->dtype), &s.m, piv + b * s.k, &info);
    infos[b] = info;
    if (info && bad < 0) bad = b;
  }
  ag__la_store(out, a, s.m, step);
  ag__blocking_end(token);
  ag__la_drop(&t);
  if (check && bad >= 0)
    return check == 2 ? ag__la_fail("linalg.solve", out->ndim, bad, "The solver failed because the input matrix is singular.", 0)
                      : ag__la_fail("linalg.lu_factor", out->ndim, bad,
                                    "U[%d,%d] is zero and using it on lu_solve would result in a division by zero. If you still "
                                    "want to perform the factorization, consider calling linalg.lu(A, pivot) or "
                                    "linalg.lu_factor_ex(A, pivot)",
                                    infos[bad]);
  return AG_OK;
}

int ag__exec_solve_lu(const ag_exec *x) {
  const ag_raw *out = &x->out[0];
  bool left = x->p->i[0] != 0, turned = x->p->i[1] != 0;
  int dtype = out->dtype, size = ag__dtype_size(dtype);
  la_scratch t = {.n = 0};
  la_size s = {0}, sb = {0};
  ag_temp tp = {0, 0};
  int st = ag__la_size(&x->in[1], &s);
  if (!st) st = ag__la_size(out, &sb);
  if (st) return st;
  const int32_t *piv = (const int32_t *)(const void *)ag__contig(&x->in[2], &tp);
  char *lu = piv ? ag__la_columns(&x->in[1], &t) : NULL, *b = NULL;
  /* X A = B is A' X' = B', whose columns are our rows. */
  if (lu) b = left ? ag__la_columns(&x->in[3], &t) : ag__la_by_rows(&x->in[3], &t);
  st = b ? check_pivots("linalg.solve", piv, s.nb, s.n, s.n) : AG_ERR_MEMORY;
  if (!st) {
    int nrhs = left ? sb.n : sb.m;
    int64_t step = (int64_t)sb.m * sb.n;
    void *token = ag__long_begin(out->numel * s.n, AG_LONG_MATH);
    for (int64_t k = 0; k < s.nb; k++) {
      int info = 0;
      if (s.n && nrhs)
        LAPACK(dtype, getrs)
        (left != turned ? "N" : "T", &s.n, &nrhs, lu + k * s.n * s.n * size, &s.n, piv + k * s.n, b + k * step * size, &s.n, &info, 1);
    }
    if (left) ag__la_store(out, b, s.n, step);
    else memcpy(out->data, b, (size_t)out->numel * (size_t)size);
    ag__blocking_end(token);
  }
  ag__la_drop(&t);
  ag__temp_free(&tp);
  return st;
}

/* The inverse of n x n factors in place; needs pivots and work of n * 64 elements. */
static int invert(int dtype, int n, void *lu, const int32_t *piv, void *work) {
  int info = 0, lwork = n * 64;
  if (n) LAPACK(dtype, getri)(&n, lu, &n, piv, work, &lwork, &info);
  return info;
}

/* By rows: the inverse of the transpose is the transpose of the inverse. */
int ag__exec_inv(const ag_exec *x) {
  const ag_raw *out = &x->out[0];
  bool check = ag__la_flag(x->p, 0);
  int32_t *infos = (int32_t *)(void *)x->out[1].data;
  int64_t bad = -1;
  int size = ag__dtype_size(out->dtype);
  la_scratch t = {.n = 0};
  la_size s = {0};
  int st = ag__la_size(out, &s);
  if (st) return st;
  int32_t *piv = ag__la_take(&t, s.n, 4);
  void *work = piv ? ag__la_take(&t, (int64_t)s.n * 64, size) : NULL;
  if (!work) {
    ag__la_drop(&t);
    return AG_ERR_MEMORY;
  }
  ag__start_from(out, &x->in[0]);
  void *token = ag__long_begin(s.nb * s.n * s.n * s.n, AG_LONG_MATH);
  for (int64_t b = 0; b < s.nb; b++) {
    char *a = out->data + b * s.n * s.n * size;
    int info = 0;
    if (s.n) LAPACK(out->dtype, getrf)(&s.n, &s.n, a, &s.n, piv, &info);
    if (!info) info = invert(out->dtype, s.n, a, piv, work);
    infos[b] = info;
    if (info && bad < 0) bad = b;
  }
  ag__blocking_end(token);
  ag__la_drop(&t);
  if (check && bad >= 0)
    return ag__la_fail("linalg.inv", out->ndim, bad,
                       "The diagonal element %d is zero, the inversion could not be completed because the input matrix is singular.",
                       infos[bad]);
  return AG_OK;
}

/* Sign of the determinant of an orthogonal matrix, which is overwritten. */
static double orthogonal_sign(int dtype, int n, void *q, int32_t *piv) {
  int info = 0;
  LAPACK(dtype, getrf)(&n, &n, q, &n, piv, &info);
  double s = parity(piv, n);
  for (int64_t i = 0; i < n; i++) s = ag__la_get(dtype, q, i * n + i) < 0 ? -s : s;
  return s;
}

/* A matrix as P S Q: q and p by rows, s descending, sign = det(P) det(Q). */
typedef struct psq {
  char *a, *p, *q, *copy, *s, *work;
  int32_t *piv, *iwork;
  int lwork;
  double sign;
} psq;

/* Rows are the columns of A' = Q' S P'. */
static int psq_of(int dtype, int n, const char *rows, psq *m) {
  int info = 0;
  size_t bytes = (size_t)n * (size_t)n * (size_t)ag__dtype_size(dtype);
  memcpy(m->a, rows, bytes);
  LAPACK(dtype, gesdd)("A", &n, &n, m->a, &n, m->s, m->q, &n, m->p, &n, m->work, &m->lwork, m->iwork, &info, 1);
  if (info) return info;
  memcpy(m->copy, m->q, bytes);
  m->sign = orthogonal_sign(dtype, n, m->copy, m->piv);
  memcpy(m->copy, m->p, bytes);
  m->sign *= orthogonal_sign(dtype, n, m->copy, m->piv);
  return 0;
}

/* The product of the singular values but i and j (i = j: but i). */
static double others(int dtype, int n, const char *s, int i, int j) {
  double d = 1;
  for (int k = 0; k < n; k++)
    if (k != i && k != j) d *= ag__la_get(dtype, s, k);
  return d;
}

/* The cofactors of P S Q are det(P) det(Q) P S* Q with the products of the others for S*. */
static int cofactor_psq(int dtype, int n, const char *rows, psq *m, char *out) {
  int info = psq_of(dtype, n, rows, m);
  if (info) return info;
  for (int i = 0; i < n; i++) {
    double d = m->sign * others(dtype, n, m->s, i, i);
    for (int64_t j = 0; j < n; j++) ag__la_put(dtype, m->q, i * (int64_t)n + j, d * ag__la_get(dtype, m->q, i * (int64_t)n + j));
  }
  ag__gemm(dtype, 0, 0, n, n, n, 1, m->p, n, m->q, n, 0, out, n);
  return 0;
}

static int cofactor_grad_psq(int dtype, int n, const char *rows, const char *g, psq *m, char *out) {
  int info = psq_of(dtype, n, rows, m);
  if (info) return info;
  ag__gemm(dtype, 1, 0, n, n, n, 1, m->p, n, g, n, 0, out, n);
  ag__gemm(dtype, 0, 1, n, n, n, 1, out, n, m->q, n, 0, m->a, n); /* H */
  for (int i = 0; i < n; i++) {
    double trace = 0;
    for (int j = 0; j < n; j++) {
      if (j == i) continue;
      double p = m->sign * others(dtype, n, m->s, i, j);
      trace += p * ag__la_get(dtype, m->a, j * (int64_t)n + j);
      ag__la_put(dtype, m->copy, i * (int64_t)n + j, -p * ag__la_get(dtype, m->a, j * (int64_t)n + i));
    }
    ag__la_put(dtype, m->copy, i * (int64_t)n + i, trace);
  }
  ag__gemm(dtype, 0, 0, n, n, n, 1, m->p, n, m->copy, n, 0, m->a, n);
  ag__gemm(dtype, 0, 0, n, n, n, 1, m->a, n, m->q, n, 0, out, n);
  return 0;
}

static bool psq_memory(int dtype, int n, psq *m, la_scratch *t) {
  int size = ag__dtype_size(dtype), info = 0, query = -1;
  char ask[8] = {0};
  LAPACK(dtype, gesdd)("A", &n, &n, NULL, &n, NULL, NULL, &n, NULL, &n, ask, &query, NULL, &info, 1);
  m->lwork = ag__la_work(dtype, ask);
  if (m->lwork < n * 64) m->lwork = n * 64; /* for invert() */
  int64_t nn = (int64_t)n * n;
  return (m->a = ag__la_take(t, nn, size)) && (m->p = ag__la_take(t, nn, size)) && (m->q = ag__la_take(t, nn, size)) &&
         (m->copy = ag__la_take(t, nn, size)) && (m->s = ag__la_take(t, n, size)) && (m->work = ag__la_take(t, m->lwork, size)) &&
         (m->piv = ag__la_take(t, n, 4)) && (m->iwork = ag__la_take(t, (int64_t)n * 8, 4));
}

static int cofactor_fail(const ag_raw *out, int64_t b) {
  return ag__la_fail("linalg.det", out->ndim, b,
                     "The derivative could not be computed because the input matrix contained non-finite values.", 0);
}

int ag__exec_cofactor(const ag_exec *x) {
  const ag_raw *out = &x->out[0];
  int dtype = out->dtype;
  la_scratch t = {.n = 0};
  la_size s = {0};
  psq m;
  ag_temp ta = {0, 0}, tp = {0, 0};
  int st = ag__la_size(out, &s);
  if (st || !out->numel) return st;
  const char *a = ag__contig(&x->in[0], &ta);
  const int32_t *piv = a ? (const int32_t *)(const void *)ag__contig(&x->in[2], &tp) : NULL;
  char *lu = piv ? ag__la_columns(&x->in[1], &t) : NULL;
  if (!lu || !psq_memory(dtype, s.n, &m, &t)) st = AG_ERR_MEMORY;
  else st = check_pivots("linalg.det", piv, s.nb, s.n, s.n);
  int64_t step = (int64_t)s.n * s.n, bytes = step * ag__dtype_size(dtype), bad = -1;
  void *token = st ? NULL : ag__long_begin(s.nb * step * s.n, AG_LONG_MATH);
  for (int64_t b = 0; b < s.nb && !st; b++) {
    char *f = lu + b * bytes;
    double det = parity(piv + b * s.n, s.n);
    for (int64_t i = 0; i < s.n; i++) det *= ag__la_get(dtype, f, i * s.n + i);
    if (dtype == AG_FLOAT32) det = (float)det;
    int info;
    if (det != 0 && isfinite(det)) {
      /* The inverse by columns is its transpose by rows. */
      info = invert(dtype, s.n, f, piv + b * s.n, m.work);
      for (int64_t i = 0; i < step; i++) ag__la_put(dtype, out->data + b * bytes, i, det * ag__la_get(dtype, f, i));
    } else {
      info = cofactor_psq(dtype, s.n, a + b * bytes, &m, out->data + b * bytes);
    }
    if (info && bad < 0) bad = b;
  }
  ag__blocking_end(token);
  ag__la_drop(&t);
  ag__temp_free(&tp);
  ag__temp_free(&ta);
  return !st && bad >= 0 ? cofactor_fail(out, bad) : st;
}

int ag__exec_cofactor_grad(const ag_exec *x) {
  const ag_raw *out = &x->out[0];
  int dtype = out->dtype;
  la_scratch t = {.n = 0};
  la_size s = {0};
  psq m;
  ag_temp ta = {0, 0}, tg = {0, 0};
  int st = ag__la_size(out, &s);
  if (st || !out->numel) return st;
  const char *a = ag__contig(&x->in[0], &ta), *g = a ? ag__contig(&x->in[3], &tg) : NULL;
  if (!g || !psq_memory(dtype, s.n, &m, &t)) st = AG_ERR_MEMORY;
  int64_t step = (int64_t)s.n * s.n, bytes = step * ag__dtype_size(dtype), bad = -1;
  void *token = st ? NULL : ag__long_begin(s.nb * step * s.n, AG_LONG_MATH / 4);
  for (int64_t b = 0; b < s.nb && !st; b++)
    if (cofactor_grad_psq(dtype, s.n, a + b * bytes, g + b * bytes, &m, out->data + b * bytes) && bad < 0) bad = b;
  ag__blocking_end(token);
  ag__la_drop(&t);
  ag__temp_free(&tg);
  ag__temp_free(&ta);
  return !st && bad >= 0 ? cofactor_fail(out, bad) : st;
}
#endif
