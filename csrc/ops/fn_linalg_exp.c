/* fn_linalg_exp.c: the exponential of matrices. */
#include "ops/linalg.h"

#include <math.h>

/* ---- matrix_exp ----
 *
 * The differential of a matrix function f in direction E is the corner of f([[A, E], [0, A]]) (Higham, Functions of
 * Matrices, 2008, 3.2), and the gradient is the differential at A' in direction G: so the rule is the op itself. */

int ag__infer_matrix_exp(ag_infer *c) {
  int st = ag__la_square(c, 0, "linalg.matrix_exp");
  if (!st) ag__set_out(c, 0, c->in[0]->dtype, c->in[0]->ndim, ag__shape(c->in[0]));
  return st;
}

int ag__vjp_matrix_exp(ag_vjp *c) {
  ag_tensor *a = ag__la_t(c, ag__la_fold(c, ag__vx(c, 0), 2)), *g = ag__la_fold(c, c->g[0], 2);
  if (c->status) return c->status;
  int64_t n = ag__shape(a->arr)[1];
  ag_tensor *zero = ag__bzeros(c, a->arr->dtype, 3, ag__shape(a->arr));
  ag_tensor *block = ag__la_cat(c, ag__la_cat(c, a, g, 2), ag__la_cat(c, zero, a, 2), 1);
  ag_tensor *corner = ag__la_part(c, ag__la_part(c, ag__b1(c, AG_OP_matrix_exp, block), 1, 0, n), 2, n, 2 * n);
  return ag__la_give(c, 0, corner);
}

#ifdef AG_HAVE_BLAS
/* Scaling and squaring with Pade approximants of degree 3 to 13 (Higham, The scaling and squaring method for the matrix
 * exponential revisited, 2005), in float64 for both types.  Everything here is a polynomial in A, or a quotient of such,
 * so that rows may be read as columns throughout. */

static const double pade3[] = {120, 60, 12, 1};
static const double pade5[] = {30240, 15120, 3360, 420, 30, 1};
static const double pade7[] = {17297280, 8648640, 1995840, 277200, 25200, 1512, 56, 1};
static const double pade9[] = {17643225600, 8821612800, 2075673600, 302702400, 30270240, 2162160, 110880, 3960, 90, 1};
static const double pade13[] = {64764752532480000, 32382376266240000, 7771770303897600, 1187353796428800, 129060195264000,
                                10559470521600,    670442572800,      33522128640,      1323241920,       40840800,
                                960960,            16380,             182,              1};
static const struct {
  int degree;
  double theta; /* up to this 1-norm the approximant is exact to rounding */
  const double *b;
} approximants[] = {{3, 1.495585217958292e-2, pade3},
                    {5, 2.539398330063230e-1, pade5},
                    {7, 9.504178996162932e-1, pade7},
                    {9, 2.097847961257068, pade9},
                    {13, 5.371920351148152, pade13}};

typedef struct exp_memory {
  double *a, *power[4], *u, *v, *t; /* n x n each; power[k] = a^(2k+2) */
  int *piv;
} exp_memory;

static void times(int n, const double *a, const double *b, double *c) { ag__gemm(AG_FLOAT64, 0, 0, n, n, n, 1, a, n, b, n, 0, c, n); }

/* t = sum of b[2k + odd] a^(2k) for k in [from, to); power[-1] is the identity. */
static void even_part(const exp_memory *m, int n, const double *b, int odd, int from, int to, double *t) {
  int64_t nn = (int64_t)n * n;
  memset(t, 0, (size_t)nn * sizeof *t);
  for (int k = from; k < to; k++) {
    double w = b[2 * k + odd];
    if (k == 0)
      for (int64_t i = 0; i < n; i++) t[i * n + i] += w;
    else
      for (int64_t i = 0; i < nn; i++) t[i] += w * m->power[k - 1][i];
  }
}

/* u: the odd part, v: the even part of the numerator. */
static void pade(exp_memory *m, int n, int degree, const double *b) {
  int64_t nn = (int64_t)n * n;
  int powers = degree == 13 ? 3 : degree / 2;
  times(n, m->a, m->a, m->power[0]);
  for (int k = 1; k < powers; k++) times(n, m->power[k - 1], m->power[0], m->power[k]);
  if (degree < 13) {
    even_part(m, n, b, 1, 0, degree / 2 + 1, m->t);
    even_part(m, n, b, 0, 0, degree / 2 + 1, m->v);
  } else {
    /* a^8, a^10, a^12 as a^6 times what is there already. */
    for (int odd = 1; odd >= 0; odd--) {
      double *to = odd ? m->t : m->v;
      even_part(m, n, b + 6, odd, 1, 4, m->u);
      times(n, m->power[2], m->u, m->power[3]);
      even_part(m, n, b, odd, 0, 4, to);
      for (int64_t i = 0; i < nn; i++) to[i] += m->power[3][i];
    }
  }
  times(n, m->a, m->t, m->u);
}

/* m->a becomes its exponential. */
static void exponential(exp_memory *m, int n) {
  int64_t nn = (int64_t)n * n;
  double norm = 0;
  for (int64_t i = 0; i < n; i++) {
    double s = 0;
    for (int64_t j = 0; j < n; j++) s += fabs(m->a[i * n + j]);
    if (!(s <= norm)) norm = s; /* NaN stays */
  }
  if (!isfinite(norm)) {
    for (int64_t i = 0; i < nn; i++) m->a[i] = NAN;
    return;
  }
  int which = 0, squarings = 0, info = 0;
  while (which < AG_COUNT(approximants) - 1 && norm > approximants[which].theta) which++;
  if (norm > approximants[which].theta) {
    frexp(norm / approximants[which].theta, &squarings);
    for (int64_t i = 0; i < nn; i++) m->a[i] = ldexp(m->a[i], -squarings);
  }
  pade(m, n, approximants[which].degree, approximants[which].b);
  for (int64_t i = 0; i < nn; i++) {
    m->a[i] = m->v[i] + m->u[i];
    m->t[i] = m->v[i] - m->u[i];
  }
  LAPACK(AG_FLOAT64, getrf)(&n, &n, m->t, &n, m->piv, &info);
  LAPACK(AG_FLOAT64, getrs)("N", &n, &n, m->t, &n, m->piv, m->a, &n, &info, 1);
  while (squarings-- > 0) {
    times(n, m->a, m->a, m->u);
    memcpy(m->a, m->u, (size_t)nn * sizeof *m->a);
  }
}

int ag__exec_matrix_exp(const ag_exec *x) {
  const ag_raw *in = &x->in[0], *out = &x->out[0];
  la_scratch t = {.n = 0};
  la_size s = {0};
  ag_temp ti;
  exp_memory m;
  int st = ag__la_size(in, &s);
  if (st || !in->numel) return st;
  int64_t nn = (int64_t)s.n * s.n;
  const char *data = ag__contig(in, &ti);
  double *all = data ? ag__la_take(&t, 8 * nn, 8) : NULL;
  m.piv = all ? ag__la_take(&t, s.n, 4) : NULL;
  if (!m.piv) st = AG_ERR_MEMORY;
  void *token = st ? NULL : ag__long_begin(s.nb * nn * s.n * 8, AG_LONG_MATH);
  for (int64_t b = 0; b < s.nb && !st; b++) {
    m.a = all;
    for (int k = 0; k < 4; k++) m.power[k] = all + (k + 1) * nn;
    m.u = all + 5 * nn;
    m.v = all + 6 * nn;
    m.t = all + 7 * nn;
    for (int64_t i = 0; i < nn; i++) m.a[i] = ag__la_get(in->dtype, data, b * nn + i);
    exponential(&m, s.n);
    for (int64_t i = 0; i < nn; i++) ag__la_put(out->dtype, out->data, b * nn + i, m.a[i]);
  }
  ag__blocking_end(token);
  ag__la_drop(&t);
  ag__temp_free(&ti);
  return st;
}
#endif
