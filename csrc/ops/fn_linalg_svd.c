/* fn_linalg_svd.c: orthogonal factors: QR, eigenvalues of symmetric matrices, singular values, and what is solved with
 * them: pseudo-inverses, least squares. */
#include "ops/linalg.h"

/* ---- qr: Q, R; ints: mode (0 reduced, 1 complete, 2 R alone) ----
 *
 * A = Q R with R invertible: with M = R gR' - gQ' Q, gA = (gQ + Q copyltu(M)) R'^-1, copyltu(M) the symmetric matrix of
 * M's lower triangle (Seeger et al., Auto-differentiating linear algebra, 2017).  Of a wide A = (A1|A2) the first part
 * has the factors Q, R1, and R2 = Q' A2 is a product: gA2 = Q gR2, and gQ gains A2 gR2'. */

int ag__infer_qr(ag_infer *c) {
  int st = ag__need(c, 1, 1, 0);
  if (!st) st = ag__la_matrix(c, 0, "linalg.qr");
  if (st) return st;
  ag_array *a = c->in[0];
  int64_t m = ag__la_rows(a), n = ag__la_cols(a), k = m < n ? m : n, mode = c->p->i[0];
  if (mode < 0 || mode > 2)
    return ag__fail(AG_ERR_RUNTIME, "qr received unrecognized mode '%lld' but expected one of 'reduced' (default), 'r', or 'complete'",
                    (long long)mode);
  if (mode == 2) ag__set_out(c, 0, a->dtype, 1, (int64_t[]){0});
  else ag__la_out(c, 0, a->dtype, a, 2, m, mode == 1 ? m : k);
  ag__la_out(c, 1, a->dtype, a, 2, mode == 1 ? m : k, n);
  return AG_OK;
}

int ag__vjp_qr(ag_vjp *c) {
  const ag_meta *meta = ag__vmeta(c, 0);
  int64_t m = meta->shape[meta->ndim - 2], n = meta->shape[meta->ndim - 1];
  if (c->p.i[0] == 2)
    return ag__fail(AG_ERR_RUNTIME,
                    "The derivative of linalg.qr depends on Q, which is not computed when mode='r'. Please use linalg.qr(A, "
                    "mode='reduced') if you are going to require gradients.");
  if (c->p.i[0] == 1 && m > n)
    return ag__fail(AG_ERR_RUNTIME, "The QR decomposition is not differentiable when mode='complete' and nrows > ncols");
  if (!c->g[0] && !c->g[1]) return AG_OK;
  ag_tensor *q = ag__la_fold(c, ag__vy(c, 0), 2), *r = ag__la_fold(c, ag__vy(c, 1), 2);
  ag_tensor *gq = ag__la_fold(c, c->g[0], 2), *gr = ag__la_fold(c, c->g[1], 2), *g2 = NULL;
  if (m < n) {
    ag_tensor *r2 = ag__la_part(c, r, 2, m, n);
    r = ag__la_part(c, r, 2, 0, m);
    if (gr) {
      ag_tensor *gr2 = ag__la_part(c, gr, 2, m, n), *more = ag__la_mm(c, q, ag__la_mm(c, r2, ag__la_t(c, gr2)));
      g2 = ag__la_mm(c, q, gr2);
      gq = gq ? ag__la_sum(c, gq, more) : more;
      gr = ag__la_part(c, gr, 2, 0, m);
    } else if (gq) {
      g2 = ag__bzeros(c, meta->dtype, 3, (int64_t[]){ag__shape(gq->arr)[0], m, n - m});
    }
  }
  ag_tensor *s = gr ? ag__la_mm(c, r, ag__la_t(c, gr)) : NULL;
  if (gq) {
    ag_tensor *w = ag__la_mm(c, ag__la_t(c, gq), q);
    s = s ? ag__la_sub(c, s, w) : ag__la_neg(c, w);
  }
  s = ag__la_sum(c, ag__la_tril(c, s, 0), ag__la_t(c, ag__la_tril(c, s, -1)));
  s = ag__la_mm(c, q, s);
  if (gq) s = ag__la_sum(c, gq, s);
  s = ag__la_tri(c, ag__la_t(c, r), s, false, false, false);
  return ag__la_give(c, 0, m < n ? ag__la_cat(c, s, g2, 2) : s);
}

/* ---- eigh: eigenvalues, ascending, and eigenvectors of the symmetric matrix of one triangle; ints: upper, vectors ----
 *
 * gA = V (sym(V' gV / E) + diag(gw)) V' with E[i,j] = w[j] - w[i] (Giles 2008, 3.1), symmetric as A is. */

int ag__infer_eigh(ag_infer *c) {
  int st = ag__need(c, 1, 2, 0);
  if (!st) st = ag__la_square(c, 0, "linalg.eigh");
  if (st) return st;
  ag_array *a = c->in[0];
  int64_t n = ag__la_rows(a);
  ag__la_out(c, 0, a->dtype, a, 1, n, 0);
  if (c->p->i[1]) ag__la_out(c, 1, a->dtype, a, 2, n, n);
  else ag__set_out(c, 1, a->dtype, 1, (int64_t[]){0});
  return AG_OK;
}

int ag__vjp_eigh(ag_vjp *c) {
  if (!c->g[0] && !c->g[1]) return AG_OK;
  if (!c->p.i[1])
    return ag__fail(AG_ERR_RUNTIME, "linalg.eigh: the derivative needs the eigenvectors, which were not computed");
  ag_tensor *w = ag__la_fold(c, ag__vy(c, 0), 1), *v = ag__la_fold(c, ag__vy(c, 1), 2), *vt = ag__la_t(c, v);
  ag_tensor *gw = c->g[0] ? ag__la_as(c, ag__la_fold(c, c->g[0], 1), -2) : NULL;
  if (!c->g[1]) return ag__la_give(c, 0, ag__la_mm(c, ag__la_mul(c, v, gw), vt));
  ag_tensor *eye = c->status ? NULL : ag__la_eye(c, w->arr->dtype, ag__shape(w->arr)[1]);
  ag_tensor *e = ag__la_sum(c, ag__la_sub(c, ag__la_as(c, w, -2), ag__la_as(c, w, -1)), eye);
  ag_tensor *s = ag__la_mm(c, vt, ag__la_fold(c, c->g[1], 2));
  s = ag__la_sub(c, s, ag__la_mul(c, s, eye));
  s = ag__b2(c, AG_OP_div, s, e);
  s = ag__bscale(c, ag__la_sum(c, s, ag__la_t(c, s)), 0.5);
  if (gw) s = ag__la_sum(c, s, ag__la_mul(c, eye, gw));
  return ag__la_give(c, 0, ag__la_mm(c, ag__la_mm(c, v, s), vt));
}

/* ---- svd: U, S, V'; ints: full_matrices, vectors ----
 *
 * With E[i,j] = s[j]^2 - s[i]^2, skew(X) = X - X':
 * gA = U [(skew(U' gU) S + S skew(V' gV)) / E + diag(gS)] V' + (1 - U U') gU S^-1 V' + U S^-1 gV' (1 - V V')
 * (Townsend, Differentiating the singular value decomposition, 2016; Giles 2008, 3.2).  The columns that full_matrices
 * adds are arbitrary: no derivative comes through them. */

int ag__infer_svd(ag_infer *c) {
  int st = ag__need(c, 1, 2, 0);
  if (!st) st = ag__la_matrix(c, 0, "linalg.svd");
  if (st) return st;
  ag_array *a = c->in[0];
  int64_t m = ag__la_rows(a), n = ag__la_cols(a), k = m < n ? m : n;
  bool full = c->p->i[0] != 0;
  ag__la_out(c, 1, a->dtype, a, 1, k, 0);
  if (c->p->i[1]) {
    ag__la_out(c, 0, a->dtype, a, 2, m, full ? m : k);
    ag__la_out(c, 2, a->dtype, a, 2, full ? n : k, n);
  } else {
    ag__set_out(c, 0, a->dtype, 1, (int64_t[]){0});
    ag__set_out(c, 2, a->dtype, 1, (int64_t[]){0});
  }
  return AG_OK;
}

static ag_tensor *skew(ag_vjp *c, ag_tensor *a) { return ag__la_sub(c, a, ag__la_t(c, a)); }

int ag__vjp_svd(ag_vjp *c) {
  if (!c->g[0] && !c->g[1] && !c->g[2]) return AG_OK;
  if (!c->p.i[1])
    return ag__fail(AG_ERR_RUNTIME, "linalg.svd: the derivative needs the singular vectors, which were not computed");
  const ag_meta *meta = ag__vmeta(c, 0);
  int64_t m = meta->shape[meta->ndim - 2], n = meta->shape[meta->ndim - 1], k = m < n ? m : n;
  bool full = c->p.i[0] != 0;
  ag_tensor *u = ag__la_fold(c, ag__vy(c, 0), 2), *s = ag__la_fold(c, ag__vy(c, 1), 1), *vh = ag__la_fold(c, ag__vy(c, 2), 2);
  ag_tensor *gu = ag__la_fold(c, c->g[0], 2), *gvh = ag__la_fold(c, c->g[2], 2);
  ag_tensor *gs = c->g[1] ? ag__la_as(c, ag__la_fold(c, c->g[1], 1), -2) : NULL;
  if (full && m > k) {
    u = ag__la_part(c, u, 2, 0, k);
    if (gu) gu = ag__la_part(c, gu, 2, 0, k);
  }
  if (full && n > k) {
    vh = ag__la_part(c, vh, 1, 0, k);
    if (gvh) gvh = ag__la_part(c, gvh, 1, 0, k);
  }
  if (!gu && !gvh) return ag__la_give(c, 0, ag__la_mm(c, ag__la_mul(c, u, gs), vh));
  ag_tensor *row = ag__la_as(c, s, -2), *col = ag__la_as(c, s, -1), *eye = ag__la_eye(c, meta->dtype, k);
  ag_tensor *e = ag__la_sub(c, ag__la_mul(c, row, row), ag__la_mul(c, col, col)), *r = NULL;
  e = ag__la_sum(c, e, eye);
  if (gu) r = ag__la_mul(c, skew(c, ag__la_mm(c, ag__la_t(c, u), gu)), row);
  if (gvh) {
    ag_tensor *t = ag__la_mul(c, col, skew(c, ag__la_mm(c, vh, ag__la_t(c, gvh))));
    r = r ? ag__la_sum(c, r, t) : t;
  }
  r = ag__b2(c, AG_OP_div, r, e);
  if (gs) r = ag__la_sum(c, r, ag__la_mul(c, eye, gs));
  r = ag__la_mm(c, u, r);
  if (gu && m > k) {
    ag_tensor *t = ag__la_sub(c, gu, ag__la_mm(c, u, ag__la_mm(c, ag__la_t(c, u), gu)));
    r = ag__la_sum(c, r, ag__b2(c, AG_OP_div, t, row));
  }
  r = ag__la_mm(c, r, vh);
  if (gvh && n > k) {
    ag_tensor *t = ag__la_sub(c, gvh, ag__la_mm(c, ag__la_mm(c, gvh, ag__la_t(c, vh)), vh));
    r = ag__la_sum(c, r, ag__la_mm(c, u, ag__b2(c, AG_OP_div, t, col)));
  }
  return ag__la_give(c, 0, r);
}

/* ---- pinv: of A, absolute and relative tolerance of each matrix; ints: hermitian (reads the lower triangle) ----
 *
 * gA = -P' G P' + (1 - A P) G' P P' + P' P G' (1 - P A) (Golub, Pereyra, The differentiation of pseudo-inverses and
 * nonlinear least squares problems whose variables separate, 1973). */

int ag__infer_pinv(ag_infer *c) {
  int st = ag__la_matrix(c, 0, "linalg.pinv");
  if (!st && ag__la_flag(c->p, 0)) st = ag__la_square(c, 0, "linalg.pinv");
  if (st) return st;
  ag_array *a = c->in[0];
  for (int k = 1; k < 3; k++) {
    const ag_array *t = c->in[k];
    if (t->dtype != a->dtype || t->ndim != a->ndim - 2 || memcmp(ag__shape(t), ag__shape(a), sizeof(int64_t) * (size_t)t->ndim) != 0)
      return ag__fail(AG_ERR_RUNTIME, "linalg.pinv: the tolerances must be one number of A's type for each matrix");
  }
  ag__la_out(c, 0, a->dtype, a, 2, ag__la_cols(a), ag__la_rows(a));
  return AG_OK;
}

int ag__vjp_pinv(ag_vjp *c) {
  if (!c->need[0]) return AG_OK;
  ag_tensor *a = ag__la_fold(c, ag__vx(c, 0), 2), *p = ag__la_fold(c, ag__vy(c, 0), 2), *g = ag__la_fold(c, c->g[0], 2);
  ag_tensor *pt = ag__la_t(c, p), *gt = ag__la_t(c, g);
  ag_tensor *r = ag__la_neg(c, ag__la_mm(c, ag__la_mm(c, pt, g), pt));
  ag_tensor *s = ag__la_mm(c, ag__la_mm(c, gt, p), pt), *t = ag__la_mm(c, ag__la_mm(c, pt, p), gt);
  s = ag__la_sub(c, s, ag__la_mm(c, a, ag__la_mm(c, p, s)));
  t = ag__la_sub(c, t, ag__la_mm(c, ag__la_mm(c, t, p), a));
  return ag__la_give(c, 0, ag__la_sum(c, ag__la_sum(c, r, s), t));
}

/* ---- lstsq: X of least |A X - B| and, among these, of least |X|; rank, singular values ----
 * ints: driver (0 gelsy, 1 gelsd, 2 gelss, 3 gels: full rank); floats: rcond.
 *
 * X = A+ B, and A+' = (A')+, so that the terms of Golub and Pereyra (above) are least squares themselves:
 * gB = Z = A'+ gX, gA = -Z X' + (B - A X) (A+ Z)' + (A'+ X) (gX - A' Z)'.  Of full rank, the second term is nothing
 * where A has no more rows than columns, the third where it has no fewer.  Singular values have svd's derivative. */

enum { GELSY, GELSD, GELSS, GELS };

int ag__infer_lstsq(ag_infer *c) {
  static const char *const name = "linalg.lstsq";
  int st = ag__need(c, 2, 1, 1);
  if (!st) st = ag__la_matrix(c, 0, name);
  if (!st) st = ag__la_matrix(c, 1, name);
  if (!st) st = ag__la_like(c, 1, name);
  if (st) return st;
  ag_array *a = c->in[0], *b = c->in[1];
  int64_t m = ag__la_rows(a), n = ag__la_cols(a);
  if (m != ag__la_rows(b)) return ag__fail(AG_ERR_RUNTIME, "%s: input.size(-2) should match other.size(-2)", name);
  if (c->p->i[0] < GELSY || c->p->i[0] > GELS)
    return ag__fail(AG_ERR_RUNTIME, "%s: parameter `driver` should be one of (gels, gelsy, gelsd, gelss)", name);
  ag__la_out(c, 0, a->dtype, a, 2, n, ag__la_cols(b));
  ag__la_out(c, 1, AG_INT64, a, 0, 0, 0);
  ag__la_out(c, 2, a->dtype, a, 1, m < n ? m : n, 0);
  return AG_OK;
}

/* The derivative of a's singular values: U diag(g) V'. */
static ag_tensor *from_singular_values(ag_vjp *c, ag_tensor *a, ag_tensor *g) {
  ag_params p = {.ni = 2, .nf = 0, .i = {0, 1}};
  ag_tensor *out[AG_MAX_OUT];
  if (c->status || !a) return NULL;
  if (c->n_temps + 3 > AG_VJP_TEMPS) {
    c->status = ag__fail(AG_ERR_RUNTIME, "%s: derivative rule too long", c->row->name);
    return NULL;
  }
  c->status = ag__apply(AG_OP_svd, 1, &a, &p, out);
  if (c->status) return NULL;
  for (int k = 0; k < 3; k++) c->temps[c->n_temps++] = out[k];
  return ag__la_mm(c, ag__la_mul(c, out[0], ag__la_as(c, g, -2)), out[2]);
}

int ag__vjp_lstsq(ag_vjp *c) {
  bool values = c->g[2] && c->need[0] && (c->p.i[0] == GELSD || c->p.i[0] == GELSS);
  ag_tensor *gs = values ? from_singular_values(c, ag__la_fold(c, ag__vx(c, 0), 2), ag__la_fold(c, c->g[2], 1)) : NULL;
  if (!c->g[0]) return gs ? ag__la_give(c, 0, gs) : c->status;
#define LSTSQ(a, b) ag__b(c, AG_OP_lstsq, 2, (ag_tensor *[]){a, b}, &c->p)
  ag_tensor *a = ag__la_fold(c, ag__vx(c, 0), 2), *at = ag__la_t(c, a), *g = ag__la_fold(c, c->g[0], 2);
  ag_tensor *z = LSTSQ(at, g);
  if (c->need[1]) ag__la_give(c, 1, z);
  if (!c->need[0] || c->status) return c->status;
  bool full = c->p.i[0] == GELS;
  int64_t m = ag__shape(a->arr)[1], n = ag__shape(a->arr)[2];
  ag_tensor *b = ag__la_fold(c, ag__vx(c, 1), 2), *x = ag__la_fold(c, ag__vy(c, 0), 2);
  ag_tensor *ga = ag__la_neg(c, ag__la_mm(c, z, ag__la_t(c, x)));
  if (!full || m > n)
    ga = ag__la_sum(c, ga, ag__la_mm(c, ag__la_sub(c, b, ag__la_mm(c, a, x)), ag__la_t(c, LSTSQ(a, z))));
  if (!full || m < n)
    ga = ag__la_sum(c, ga, ag__la_mm(c, LSTSQ(at, x), ag__la_t(c, ag__la_sub(c, g, ag__la_mm(c, at, z)))));
#undef LSTSQ
  return ag__la_give(c, 0, gs ? ag__la_sum(c, ga, gs) : ga);
}

#ifdef AG_HAVE_BLAS
#define AT(p, i, dtype) ((char *)(p) + (size_t)(i) * (size_t)ag__dtype_size(dtype))

int ag__exec_qr(const ag_exec *x) {
  const ag_raw *in = &x->in[0], *qo = &x->out[0], *ro = &x->out[1];
  int dtype = in->dtype, size = ag__dtype_size(dtype), query = -1, info = 0, st;
  int64_t mode = x->p->i[0];
  la_scratch t = {.n = 0};
  la_size s = {0};
  if ((st = ag__la_size(in, &s))) return st;
  int qn = mode == 2 ? 0 : mode == 1 ? s.m : s.k, lda = s.m > 0 ? s.m : 1;
  char ask[8] = {0};
  LAPACK(dtype, geqrf)(&s.m, &s.n, NULL, &lda, NULL, ask, &query, &info);
  int lwork = ag__la_work(dtype, ask), more = 0;
  if (qn) {
    LAPACK(dtype, orgqr)(&s.m, &qn, &s.k, NULL, &lda, NULL, ask, &query, &info);
    more = ag__la_work(dtype, ask);
  }
  if (more > lwork) lwork = more;
  if (lwork < s.n) lwork = s.n;
  char *a = ag__la_columns(in, &t), *q = a, *tau = NULL, *work = NULL;
  if (a) tau = ag__la_take(&t, s.k, size);
  if (tau) work = ag__la_take(&t, lwork, size);
  int64_t step = (int64_t)s.m * s.n, qstep = qn > s.n ? (int64_t)s.m * qn : step;
  if (work && qn > s.n) q = ag__la_take(&t, s.nb * qstep, size);
  if (!work || !q) {
    ag__la_drop(&t);
    return AG_ERR_MEMORY;
  }
  void *token = ag__long_begin(s.nb * step * s.k, AG_LONG_MATH);
  for (int64_t b = 0; b < s.nb; b++) {
    char *ab = AT(a, b * step, dtype), *qb = AT(q, b * qstep, dtype);
    if (s.k) LAPACK(dtype, geqrf)(&s.m, &s.n, ab, &lda, tau, work, &lwork, &info);
    if (mode == 2 || !s.m) continue;
    /* R goes out before Q takes its place. */
    int64_t rm = ro->shape[ro->ndim - 2], rstep = rm * s.n, shape[2] = {rm, s.n}, strides[2] = {1, lda};
    if (rstep) ag__par_pack(2, shape, strides, rstep, AT(ro->data, b * rstep, dtype), ab, size);
    if (!qn) continue;
    if (q != a && step) memcpy(qb, ab, (size_t)step * (size_t)size);
    LAPACK(dtype, orgqr)(&s.m, &qn, &s.k, qb, &lda, tau, work, &lwork, &info);
  }
  if (mode == 2) ag__la_store(ro, a, lda, step);
  else ag__la_store(qo, q, lda, qstep);
  ag__la_clear(ro, true);
  ag__blocking_end(token);
  ag__la_drop(&t);
  return AG_OK;
}

int ag__exec_eigh(const ag_exec *x) {
  const ag_raw *in = &x->in[0], *w = &x->out[0];
  int dtype = in->dtype, size = ag__dtype_size(dtype), query = -1, info = 0, ask_i = 0, st;
  bool upper = x->p->i[0] != 0, vectors = x->p->i[1] != 0;
  const char *job = vectors ? "V" : "N", *uplo = upper ? "U" : "L";
  la_scratch t = {.n = 0};
  la_size s = {0};
  if ((st = ag__la_size(in, &s))) return st;
  if (!in->numel) return AG_OK;
  char ask[8] = {0};
  LAPACK(dtype, syevd)(job, uplo, &s.n, NULL, &s.n, NULL, ask, &query, &ask_i, &query, &info, 1, 1);
  int lwork = ag__la_work(dtype, ask), liwork = ask_i > 1 ? ask_i : 1;
  char *a = ag__la_columns(in, &t), *work = a ? ag__la_take(&t, lwork, size) : NULL;
  int *iwork = work ? ag__la_take(&t, liwork, 4) : NULL;
  if (!iwork) {
    ag__la_drop(&t);
    return AG_ERR_MEMORY;
  }
  int64_t step = (int64_t)s.n * s.n, bad = -1;
  int bad_info = 0;
  void *token = ag__long_begin(s.nb * step * s.n, AG_LONG_MATH);
  for (int64_t b = 0; b < s.nb; b++) {
    LAPACK(dtype, syevd)
    (job, uplo, &s.n, AT(a, b * step, dtype), &s.n, AT(w->data, b * s.n, dtype), work, &lwork, iwork, &liwork, &info, 1, 1);
    if (info && bad < 0) {
      bad = b;
      bad_info = info;
    }
  }
  if (vectors) ag__la_store(&x->out[1], a, s.n, step);
  ag__blocking_end(token);
  ag__la_drop(&t);
  if (bad < 0) return AG_OK;
  return ag__la_fail("linalg.eigh", in->ndim, bad,
                     "The algorithm failed to converge because the input matrix is ill-conditioned or has too many repeated "
                     "eigenvalues (error code: %d).",
                     bad_info);
}

/* Memory for gesdd on m x n matrices; u and vt only where job asks for them. */
typedef struct svd_memory {
  char job[2];
  int m, n, k, un, vn, lwork;
  char *work;
  int *iwork;
} svd_memory;

static bool svd_memory_for(int dtype, int m, int n, char job, svd_memory *w, la_scratch *t) {
  int query = -1, info = 0;
  char ask[8] = {0};
  *w = (svd_memory){.job = {job, 0}, .m = m, .n = n, .k = m < n ? m : n};
  w->un = job == 'A' ? m : w->k;
  w->vn = job == 'A' ? n : w->k;
  LAPACK(dtype, gesdd)(w->job, &m, &n, NULL, &m, NULL, NULL, &m, NULL, &w->vn, ask, &query, NULL, &info, 1);
  w->lwork = ag__la_work(dtype, ask);
  return (w->work = ag__la_take(t, w->lwork, ag__dtype_size(dtype))) && (w->iwork = ag__la_take(t, 8 * (int64_t)w->k, 4));
}

static int svd_of(int dtype, svd_memory *w, char *a, char *s, char *u, char *vt) {
  int info = 0;
  LAPACK(dtype, gesdd)
  (w->job, &w->m, &w->n, a, &w->m, s, u, &w->m, vt, &w->vn, w->work, &w->lwork, w->iwork, &info, 1);
  return info;
}

static int svd_fail(const char *name, int ndim, int64_t b, int info) {
  if (info < 0)
    return ag__la_fail(name, ndim, b, "The algorithm failed to converge because the input matrix contained non-finite values.", 0);
  return ag__la_fail(name, ndim, b,
                     "The algorithm failed to converge because the input matrix is ill-conditioned or has too many repeated "
                     "singular values (error code: %d).",
                     info);
}

static void identity(const ag_raw *out) {
  int64_t n = out->shape[out->ndim - 1];
  memset(out->data, 0, (size_t)out->numel * (size_t)ag__dtype_size(out->dtype));
  for (int64_t r = 0; n && r < out->numel / n; r++) ag__la_put(out->dtype, out->data, r * n + r % n, 1);
}

int ag__exec_svd(const ag_exec *x) {
  const ag_raw *in = &x->in[0], *uo = &x->out[0], *so = &x->out[1], *vo = &x->out[2];
  int dtype = in->dtype, size = ag__dtype_size(dtype), st;
  bool full = x->p->i[0] != 0, vectors = x->p->i[1] != 0;
  la_scratch t = {.n = 0};
  la_size s = {0};
  svd_memory w;
  if ((st = ag__la_size(in, &s))) return st;
  if (!s.k || !s.nb) {
    if (vectors && full) {
      identity(uo);
      identity(vo);
    }
    return AG_OK;
  }
  char *a = ag__la_columns(in, &t), *u = NULL, *vt = NULL;
  bool ok = a && svd_memory_for(dtype, s.m, s.n, vectors ? full ? 'A' : 'S' : 'N', &w, &t);
  if (ok && vectors) ok = (u = ag__la_take(&t, uo->numel, size)) && (vt = ag__la_take(&t, vo->numel, size));
  if (!ok) {
    ag__la_drop(&t);
    return AG_ERR_MEMORY;
  }
  int64_t step = (int64_t)s.m * s.n, us = (int64_t)s.m * w.un, vs = (int64_t)w.vn * s.n, bad = -1;
  int bad_info = 0;
  void *token = ag__long_begin(s.nb * step * s.k, AG_LONG_MATH / 4);
  for (int64_t b = 0; b < s.nb; b++) {
    int info = svd_of(dtype, &w, AT(a, b * step, dtype), AT(so->data, b * s.k, dtype), vectors ? AT(u, b * us, dtype) : NULL,
                      vectors ? AT(vt, b * vs, dtype) : NULL);
    if (info && bad < 0) {
      bad = b;
      bad_info = info;
    }
  }
  if (vectors) {
    ag__la_store(uo, u, s.m, us);
    ag__la_store(vo, vt, w.vn, vs);
  }
  ag__blocking_end(token);
  ag__la_drop(&t);
  return bad < 0 ? AG_OK : svd_fail("linalg.svd", in->ndim, bad, bad_info);
}

/* What LAPACK sees by columns is A' = U S V', so A+' = U S+ V' there: by rows, A+ from the same two factors. */
int ag__exec_pinv(const ag_exec *x) {
  const ag_raw *in = &x->in[0], *out = &x->out[0];
  int dtype = in->dtype, size = ag__dtype_size(dtype), st;
  bool hermitian = ag__la_flag(x->p, 0);
  la_scratch t = {.n = 0};
  la_size s = {0};
  svd_memory w;
  ag_temp ta = {0, 0}, tr = {0, 0};
  if ((st = ag__la_size(in, &s))) return st;
  if (!in->numel) return AG_OK;
  const char *atol = ag__contig(&x->in[1], &ta), *rtol = atol ? ag__contig(&x->in[2], &tr) : NULL;
  char *a = rtol ? ag__la_by_rows(in, &t) : NULL, *u = NULL, *vt = NULL, *sv = NULL;
  bool ok = a && svd_memory_for(dtype, s.n, s.m, 'S', &w, &t) && (u = ag__la_take(&t, (int64_t)s.n * s.k, size)) &&
            (vt = ag__la_take(&t, (int64_t)s.k * s.m, size)) && (sv = ag__la_take(&t, s.k, size));
  int64_t step = (int64_t)s.m * s.n, bad = -1;
  int bad_info = 0;
  void *token = ok ? ag__long_begin(s.nb * step * s.k, AG_LONG_MATH / 4) : NULL;
  for (int64_t b = 0; ok && b < s.nb; b++) {
    char *ab = AT(a, b * step, dtype);
    if (hermitian)
      for (int64_t i = 0; i < s.n; i++)
        for (int64_t j = 0; j < i; j++) ag__la_put(dtype, ab, j * s.n + i, ag__la_get(dtype, ab, i * s.n + j));
    int info = svd_of(dtype, &w, ab, sv, u, vt);
    if (info) {
      bad = b;
      bad_info = info;
      break;
    }
    double cut = ag__la_get(dtype, rtol, b) * ag__la_get(dtype, sv, 0), least = ag__la_get(dtype, atol, b);
    if (least > cut) cut = least;
    for (int64_t i = 0; i < s.k; i++) {
      double v = ag__la_get(dtype, sv, i), inverse = v > cut ? 1 / v : 0;
      for (int64_t j = 0; j < s.n; j++) ag__la_put(dtype, u, i * s.n + j, inverse * ag__la_get(dtype, u, i * s.n + j));
    }
    ag__gemm(dtype, 1, 1, s.n, s.m, s.k, 1, u, s.n, vt, s.k, 0, AT(out->data, b * step, dtype), s.m);
  }
  ag__blocking_end(token);
  ag__la_drop(&t);
  ag__temp_free(&tr);
  ag__temp_free(&ta);
  if (!ok) return AG_ERR_MEMORY;
  return bad < 0 ? AG_OK : svd_fail("linalg.pinv", in->ndim, bad, bad_info);
}

typedef struct lstsq_call {
  int dtype, m, n, nrhs, ldb, lwork, rank;
  int64_t driver;
  const void *rcond;
  char *a, *b, *s, *work;
  int *ints; /* pivots of gelsy, workspace of gelsd */
} lstsq_call;

static int lstsq_one(lstsq_call *w) {
  int info = 0;
  switch (w->driver) {
    case GELSY:
      LAPACK(w->dtype, gelsy)
      (&w->m, &w->n, &w->nrhs, w->a, &w->m, w->b, &w->ldb, w->ints, w->rcond, &w->rank, w->work, &w->lwork, &info);
      break;
    case GELSD:
      LAPACK(w->dtype, gelsd)
      (&w->m, &w->n, &w->nrhs, w->a, &w->m, w->b, &w->ldb, w->s, w->rcond, &w->rank, w->work, &w->lwork, w->ints, &info);
      break;
    case GELSS:
      LAPACK(w->dtype, gelss)
      (&w->m, &w->n, &w->nrhs, w->a, &w->m, w->b, &w->ldb, w->s, w->rcond, &w->rank, w->work, &w->lwork, &info);
      break;
    default:
      LAPACK(w->dtype, gels)("N", &w->m, &w->n, &w->nrhs, w->a, &w->m, w->b, &w->ldb, w->work, &w->lwork, &info, 1);
      w->rank = w->m < w->n ? w->m : w->n;
  }
  return info;
}

int ag__exec_lstsq(const ag_exec *x) {
  const ag_raw *in = &x->in[0], *xo = &x->out[0], *so = &x->out[2];
  int dtype = in->dtype, size = ag__dtype_size(dtype), ask_i = 0, st;
  int64_t *ranks = (int64_t *)(void *)x->out[1].data, bad = -1;
  la_scratch t = {.n = 0};
  la_size s = {0}, sb = {0};
  st = ag__la_size(in, &s);
  if (!st) st = ag__la_size(&x->in[1], &sb);
  if (st) return st;
  memset(so->data, 0, (size_t)so->numel * (size_t)size);
  if (!in->numel || !sb.n) {
    memset(ranks, 0, (size_t)s.nb * sizeof *ranks);
    memset(xo->data, 0, (size_t)xo->numel * (size_t)size);
    if (in->numel) /* No right-hand side: rank and singular values are not worth a factorisation. */
      for (int64_t b = 0; b < s.nb; b++) ranks[b] = s.k;
    return AG_OK;
  }
  double rcond = x->p->f[0];
  float rcondf = (float)rcond;
  char ask[8] = {0};
  lstsq_call w = {.dtype = dtype, .m = s.m, .n = s.n, .nrhs = sb.n, .ldb = s.m > s.n ? s.m : s.n, .lwork = -1, .driver = x->p->i[0],
                  .rcond = dtype == AG_FLOAT32 ? (const void *)&rcondf : (const void *)&rcond, .work = ask, .ints = &ask_i};
  lstsq_one(&w);
  w.lwork = ag__la_work(dtype, ask);
  int64_t step = (int64_t)s.m * s.n, from = (int64_t)s.m * sb.n, to = (int64_t)w.ldb * sb.n;
  int n_ints = ask_i > s.n ? ask_i : s.n, bad_info = 0;
  char *a = ag__la_columns(in, &t), *b = a ? ag__la_columns(&x->in[1], &t) : NULL, *y = b;
  if (b && w.ldb > s.m) y = ag__la_take(&t, s.nb * to, size);
  w.work = y ? ag__la_take(&t, w.lwork, size) : NULL;
  w.ints = w.work ? ag__la_take(&t, n_ints, 4) : NULL;
  if (!w.ints) {
    ag__la_drop(&t);
    return AG_ERR_MEMORY;
  }
  void *token = ag__long_begin(s.nb * step * s.k, AG_LONG_MATH / 4);
  for (int64_t k = 0; k < s.nb; k++) {
    w.a = AT(a, k * step, dtype);
    w.b = AT(y, k * to, dtype);
    w.s = AT(so->data, k * s.k, dtype);
    if (y != b) {
      memset(w.b, 0, (size_t)to * (size_t)size);
      for (int64_t j = 0; j < sb.n; j++)
        memcpy(AT(w.b, j * w.ldb, dtype), AT(b, k * from + j * s.m, dtype), (size_t)s.m * (size_t)size);
    }
    if (w.driver == GELSY) memset(w.ints, 0, sizeof(int) * (size_t)s.n); /* every column may be exchanged */
    int info = lstsq_one(&w);
    ranks[k] = w.rank;
    if (info && bad < 0) {
      bad = k;
      bad_info = info;
    }
  }
  ag__la_store(xo, y, w.ldb, to);
  ag__blocking_end(token);
  ag__la_drop(&t);
  if (bad < 0) return AG_OK;
  return ag__la_fail("linalg.lstsq", in->ndim, bad,
                     "The least squares solution could not be computed because the input matrix does not have full rank (error "
                     "code: %d).",
                     bad_info);
}
#endif
