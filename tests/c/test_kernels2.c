/* test_kernels2.c: every kernel that is not elementwise, on every table this machine can run, against plain loops.
 *
 * Returns 0 on success; prints each failure.  -l adds the long sums (1e8 elements, 400 MB). */
#include "../../csrc/kernels/kernels.h"
#include "random.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { B8, U8, I32, I64, F32, F64 };
static const size_t size_of[] = {1, 1, 4, 8, 4, 8};
static const char *const name_of[] = {"bool", "uint8", "int32", "int64", "float32", "float64"};
static const ag_kernels *K;
static int failures;

#define FAIL(...)                            \
  do {                                       \
    if (failures++ < 60) {                   \
      printf("FAIL %s: ", K->isa);           \
      printf(__VA_ARGS__);                   \
      printf("\n");                          \
    }                                        \
  } while (0)
#define LL(x) ((long long)(x))


static double get(int t, const void *p, int64_t i)
{
  switch (t) {
  case I32:
    return ((const int32_t *)p)[i];
  case I64:
    return (double)((const int64_t *)p)[i];
  case F32:
    return (double)((const float *)p)[i];
  case F64:
    return ((const double *)p)[i];
  default:
    return ((const uint8_t *)p)[i];
  }
}
static void put(int t, void *p, int64_t i, double v)
{
  switch (t) {
  case B8:
    ((uint8_t *)p)[i] = v != 0;
    break;
  case U8:
    ((uint8_t *)p)[i] = (uint8_t)v;
    break;
  case I32:
    ((int32_t *)p)[i] = (int32_t)v;
    break;
  case I64:
    ((int64_t *)p)[i] = (int64_t)v;
    break;
  case F32:
    ((float *)p)[i] = (float)v;
    break;
  default:
    ((double *)p)[i] = v;
  }
}

/* Exactly n elements on the heap, so that a sanitizer or valgrind sees a read past the end. */
static void *draw(int t, int64_t n, double lo, double hi)
{
  void *p = malloc(n > 0 ? (size_t)n * size_of[t] : 1);
  if (!p)
    exit(2);
  for (int64_t i = 0; i < n; i++)
    put(t, p, i, t == B8 ? (double)(rnd() >> 63) : t <= I64 ? floor(fabs(lo + (hi - lo) * unit())) : lo + (hi - lo) * unit());
  return p;
}
static int same(double a, double b) { return a == b || (a != a && b != b); }
static int close_to(int t, double a, double b, double scale)
{
  return same(a, b) || fabs(a - b) <= (t == F32 ? 2e-6 : 1e-14) * (scale + fabs(b));
}

/* ---- reductions ---- */
static void check_reduce(int r, int t, int64_t outer, int64_t n, int64_t inner, int special)
{
  static const char *const names[] = {"sum", "prod", "max", "min", "any", "all"};
  void *x = draw(t, outer * n * inner, r == AG_R_PROD ? .9 : -3, r == AG_R_PROD ? 1.12 : 3);
  const int out = r >= AG_R_ANY ? B8 : r <= AG_R_PROD && t <= I64 ? I64 : t;
  void *o = draw(out, outer * inner, 7, 7);
  if (special && n > 0)
    for (int64_t i = 0; i < outer * inner; i += 2)
      put(t, x, (i / inner * n + (int64_t)(rnd() % (uint64_t)n)) * inner + i % inner, special == 1 ? (double)NAN : 0);
  if (r == AG_R_ANY && special == 2)
    memset(x, 0, (size_t)(outer * n * inner) * size_of[t]);
  K->reduce[r][t](outer, n, inner, o, x);
  for (int64_t a = 0; a < outer; a++)
    for (int64_t j = 0; j < inner; j++) {
      double s = r == AG_R_PROD || r == AG_R_ALL ? 1 : 0, scale = 0;
      for (int64_t k = 0; k < n; k++) {
        const double v = get(t, x, (a * n + k) * inner + j);
        if (r == AG_R_SUM)
          s += v;
        else if (r == AG_R_PROD)
          s *= v;
        else if (r == AG_R_ANY)
          s = s != 0 || v != 0;
        else if (r == AG_R_ALL)
          s = s != 0 && v != 0;
        else if (k == 0 || v != v || (r == AG_R_MAX ? v > s : v < s))
          s = s != s ? s : v;
        scale += fabs(v);
      }
      const double v = get(out, o, a * inner + j);
      if (r <= AG_R_PROD && t >= F32 ? !close_to(t, v, s, r == AG_R_SUM ? scale : (double)n / 30 * fabs(s)) : !same(v, s))
        FAIL("%s %s %lldx%lldx%lld at %lld,%lld: %.17g, not %.17g", names[r], name_of[t], LL(outer), LL(n), LL(inner),
             LL(a), LL(j), v, s);
    }
  free(x);
  free(o);
}

static void check_arg(int t, int64_t outer, int64_t n, int64_t inner, int min, int nan, int values)
{
  void *x = draw(t, outer * n * inner, -9, 9), *v = draw(t, outer * inner, 0, 0);
  int64_t *idx = draw(I64, outer * inner, 0, 0);
  for (int64_t i = 0; i < outer * n * inner; i++) /* few values: ties everywhere */
    put(t, x, i, floor(get(t, x, i) / 3));
  if (nan && n > 1)
    for (int64_t i = 0; i < outer * inner; i++)
      for (int q = 0; q < 2; q++)
        put(t, x, (i / inner * n + (int64_t)(rnd() % (uint64_t)n)) * inner + i % inner, (double)NAN);
  (min ? K->argmin : K->argmax)[t](outer, n, inner, values ? v : NULL, idx, x);
  for (int64_t i = 0; i < outer * inner; i++) {
    int64_t at = 0;
    double best = 0;
    for (int64_t k = 0; k < n; k++) {
      const double e = get(t, x, (i / inner * n + k) * inner + i % inner);
      if (k == 0 || (best == best && (e != e || (min ? e < best : e > best)))) {
        best = e;
        at = k;
      }
    }
    if (idx[i] != at || (values && !same(get(t, v, i), best)))
      FAIL("arg%s %s %lldx%lldx%lld at %lld: %lld, not %lld", min ? "min" : "max", name_of[t], LL(outer), LL(n), LL(inner),
           LL(i), LL(idx[i]), LL(at));
  }
  free(x);
  free(v);
  free(idx);
}

static void check_prefix(int t, int64_t outer, int64_t n, int64_t inner, int prod)
{
  const int out = t <= I64 ? I64 : t;
  void *x = draw(t, outer * n * inner, prod ? .9 : -3, prod ? 1.12 : 3), *o = draw(out, outer * n * inner, 0, 0);
  K->cumulate[t](outer, n, inner, o, x, prod);
  for (int64_t i = 0; i < outer * inner; i++) {
    double s = prod;
    for (int64_t k = 0; k < n; k++) {
      const int64_t at = (i / inner * n + k) * inner + i % inner;
      s = prod ? s * get(t, x, at) : s + get(t, x, at);
      if (!close_to(out, get(out, o, at), s, 0))
        FAIL("cumulate %s prod %d %lldx%lldx%lld", name_of[t], prod, LL(outer), LL(n), LL(inner));
    }
  }
  free(x);
  free(o);
}

static void check_softmax(int t, int64_t outer, int64_t n, int64_t inner, int log, int special)
{
  const int64_t all = outer * n * inner;
  void *x = draw(t, all, -8, 8), *y = draw(t, all, 0, 0), *g = draw(t, all, -1, 1), *dx = draw(t, all, 0, 0);
  if (special)
    for (int64_t i = 0; i < all; i++)
      if (special == 2 || i % 3 == 0)
        put(t, x, i, (double)-INFINITY);
  K->softmax[t](outer, n, inner, y, x, log);
  K->softmax_bwd[t](outer, n, inner, dx, g, y, log);
  for (int64_t i = 0; i < outer * inner; i++) {
    double m = (double)-INFINITY, s = 0, gs = 0, scale = 0;
#define AT(k) ((i / inner * n + (k)) * inner + i % inner)
    for (int64_t k = 0; k < n; k++)
      m = fmax(m, get(t, x, AT(k)));
    for (int64_t k = 0; k < n; k++)
      s += exp(get(t, x, AT(k)) - m);
    for (int64_t k = 0; k < n; k++) {
      const double e = exp(get(t, x, AT(k)) - m) / s, want = log ? get(t, x, AT(k)) - m - (double)logl((long double)s) : e;
      gs += log ? get(t, g, AT(k)) : get(t, g, AT(k)) * e;
      scale += fabs(get(t, g, AT(k)));
      if (!close_to(t, get(t, y, AT(k)), want, log ? 1 : 0))
        FAIL("softmax %s log %d %lldx%lldx%lld: %.17g, not %.17g", name_of[t], log, LL(outer), LL(n), LL(inner),
             get(t, y, AT(k)), want);
    }
    for (int64_t k = 0; k < n; k++) {
      const double yk = get(t, y, AT(k)), want = log ? get(t, g, AT(k)) - exp(yk) * gs : yk * (get(t, g, AT(k)) - gs);
      if (!close_to(t, get(t, dx, AT(k)), want, scale))
        FAIL("softmax_bwd %s log %d %lldx%lldx%lld", name_of[t], log, LL(outer), LL(n), LL(inner));
    }
#undef AT
  }
  free(x);
  free(y);
  free(g);
  free(dx);
}

static void reductions(void)
{
  static const int64_t ns[] = {0, 1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 33, 63, 64, 65, 127, 128, 129, 160, 255, 300, 1000, 1024, 1025, 2500, 9000};
  static const int64_t inners[] = {1, 2, 3, 4, 5, 8, 13, 16, 33, 130, 300};
  for (int t = B8; t <= F64; t++)
    for (size_t a = 0; a < sizeof ns / sizeof *ns; a++)
      for (size_t b = 0; b < sizeof inners / sizeof *inners; b++) {
        const int64_t n = ns[a], inner = inners[b], outer = n * inner > 3000 ? 1 : 3;
        if (n * inner > 40000)
          continue;
        for (int r = 0; r < AG_R_COUNT; r++) {
          if (n == 0 && (r == AG_R_MAX || r == AG_R_MIN))
            continue;
          check_reduce(r, t, outer, n, inner, 0);
          if (r >= AG_R_ANY || (t >= F32 && r >= AG_R_MAX))
            check_reduce(r, t, outer, n, inner, r >= AG_R_ANY ? 2 : 1);
        }
        for (int q = 0; q < 2 && n; q++) {
          check_arg(t, outer, n, inner, q, 0, 1);
          check_arg(t, outer, n, inner, q, t >= F32, 0);
        }
        check_prefix(t, outer, n, inner, 0);
        if (t >= F32 && n < 300)
          check_prefix(t, outer, n, inner, 1);
        if (t >= F32 && n)
          for (int q = 0; q < 6; q++)
            check_softmax(t, outer, n, inner, q & 1, q / 2);
      }
  check_arg(I64, 0, 5, 1, 0, 0, 1);
  check_reduce(AG_R_SUM, F32, 0, 5, 7, 0);
}

/* The same bits for a column whatever stands beside it, and in every table; 2^25+ ones exactly. */
static void sums(int lengthy)
{
  enum { N = 5000, W = 37 };
  float *x = draw(F32, N * W, -1, 1), *y = malloc(N * 2 * sizeof *y), o[W], p[2];
  const int64_t n = lengthy ? 100000000 : (1 << 25) + 12345;
  K->reduce[AG_R_SUM][F32](1, N, W, o, x);
  for (int j = 0; j + 1 < W; j++) {
    for (int k = 0; k < N; k++) {
      y[2 * k] = x[k * W + j];
      y[2 * k + 1] = x[k * W + j + 1];
    }
    K->reduce[AG_R_SUM][F32](1, N, 2, p, y);
    if (p[0] != o[j] || p[1] != o[j + 1])
      FAIL("sum of a column depends on its neighbours");
  }
  free(x);
  free(y);
  x = malloc((size_t)n * sizeof *x);
  for (int64_t i = 0; i < n; i++)
    x[i] = 1;
  K->reduce[AG_R_SUM][F32](1, n, 1, p, x);
  if (p[0] != (float)n)
    FAIL("%lld ones sum to %.9g", LL(n), (double)p[0]);
  double s = 0;
  for (int64_t i = 0; i < n; i++) {
    x[i] = (float)unit();
    s += (double)x[i];
  }
  K->reduce[AG_R_SUM][F32](1, n, 1, p, x);
  if (fabs((double)p[0] - s) > 1e-6 * s)
    FAIL("%lld random numbers: relative error %.3g", LL(n), fabs((double)p[0] - s) / s);
  K->reduce[AG_R_SUM][F32](1, n / 2, 2, p, x);
  if (fabs((double)p[0] + (double)p[1] - s) > 1e-6 * s)
    FAIL("columns of %lld random numbers: relative error %.3g", LL(n), fabs((double)p[0] + (double)p[1] - s) / s);
  free(x);
}

/* ---- moves and casts ---- */
static void check_move(int ndim, const int64_t *shape, const int64_t *strides, int size)
{
  int64_t n = 1, lo = 0, hi = 0;
  for (int d = 0; d < ndim; d++) {
    n *= shape[d];
    if (shape[d] > 1)
      *(strides[d] < 0 ? &lo : &hi) += strides[d] * (shape[d] - 1);
  }
  const int64_t cells = hi - lo + 1;
  unsigned char *x = malloc((size_t)(cells * size)), *u = malloc((size_t)(cells * size)), *v = malloc((size_t)(cells * size));
  unsigned char *o = malloc((size_t)(n * size + 1));
  for (int64_t i = 0; i < cells * size; i++)
    x[i] = (unsigned char)rnd();
  const int64_t starts[] = {0, n / 3, n - 1, 1}, counts[] = {n, n / 2, 1, 17};
  for (int q = 0; q < 8; q++) {
    const int64_t start = starts[q % 4];
    int64_t m = counts[(q + q / 4) % 4];
    if (start < 0 || start >= n)
      continue;
    if (m > n - start)
      m = n - start;
    memset(o, 0xee, (size_t)(n * size + 1));
    K->pack(ndim, shape, strides, start, m, o, x - lo * size, size);
    memset(u, 0, (size_t)(cells * size));
    memset(v, 0, (size_t)(cells * size));
    K->unpack(ndim, shape, strides, start, m, u - lo * size, o, size);
    for (int64_t i = 0; i < m; i++) {
      int64_t at = -lo, rest = start + i;
      for (int d = ndim - 1; d >= 0; d--) {
        at += rest % shape[d] * strides[d];
        rest /= shape[d];
      }
      if (memcmp(o + i * size, x + at * size, (size_t)size))
        FAIL("pack ndim %d size %d start %lld n %lld at %lld", ndim, size, LL(start), LL(m), LL(i));
      memcpy(v + at * size, o + i * size, (size_t)size);
    }
    if (memcmp(u, v, (size_t)(cells * size)))
      FAIL("unpack ndim %d size %d start %lld n %lld", ndim, size, LL(start), LL(m));
    if (o[m * size] != 0xee)
      FAIL("pack wrote past its end");
  }
  free(x);
  free(u);
  free(v);
  free(o);
}

static void moves(void)
{
  static const int sizes[] = {1, 4, 8};
  for (int q = 0; q < 3; q++) {
    check_move(0, NULL, NULL, sizes[q]);
    check_move(2, (int64_t[]){70, 45}, (int64_t[]){1, 70}, sizes[q]);
    check_move(2, (int64_t[]){70, 45}, (int64_t[]){1, 75}, sizes[q]);
    check_move(2, (int64_t[]){70, 45}, (int64_t[]){0, 1}, sizes[q]);
    check_move(2, (int64_t[]){70, 45}, (int64_t[]){1, 0}, sizes[q]);
    check_move(3, (int64_t[]){5, 33, 40}, (int64_t[]){33 * 40, 1, 33}, sizes[q]);
    for (int r = 0; r < 300; r++) { /* random permutations, steps, flips, broadcasts */
      int64_t shape[12], strides[12], s = 1;
      const int ndim = 1 + (int)(rnd() % (r % 10 ? 5 : 12));
      int order[12];
      for (int d = 0; d < ndim; d++) {
        shape[d] = ndim > 5 ? 1 + (int64_t)(rnd() % 3) : 1 + (int64_t)(rnd() % (ndim > 2 ? 9 : 50));
        order[d] = d;
      }
      for (int d = ndim - 1; d > 0; d--) {
        const int e = (int)(rnd() % (uint64_t)(d + 1)), o = order[d];
        order[d] = order[e];
        order[e] = o;
      }
      if (r % 3 == 0)
        for (int d = 0; d < ndim; d++)
          order[d] = ndim - 1 - d;
      for (int d = 0; d < ndim; d++) {
        const uint64_t kind = rnd() % 8;
        if (kind == 0) {
          strides[order[d]] = 0;
          continue;
        }
        const int64_t step = kind == 1 ? 2 : 1;
        strides[order[d]] = (kind == 2 ? -s : s) * step;
        s *= shape[order[d]] * step;
      }
      check_move(ndim, shape, strides, sizes[q]);
    }
  }
  for (int f = B8; f <= F64; f++)
    for (int t = B8; t <= F64; t++)
      for (int64_t n = 0; n < 70; n += 1 + n / 8) {
        void *x = draw(f, n, f == I32 || f == I64 || f >= F32 ? -90 : 0, 120), *o = draw(t, n, 0, 0);
        if (f == I32 || f >= I64)
          for (int64_t i = 0; i < n; i += 2)
            put(f, x, i, i % 4 ? 0 : -get(f, x, i));
        K->cast[f][t](n, o, x);
        for (int64_t i = 0; i < n; i++) {
          const double v = get(f, x, i);
          double w = t == B8 ? v != 0 : t <= I64 ? trunc(v) : t == F32 ? (double)(float)v : v;
          if (t == U8 && w < 0)
            w += 256;
          if (!same(get(t, o, i), w))
            FAIL("cast %s to %s: %.17g to %.17g", name_of[f], name_of[t], v, get(t, o, i));
        }
        free(x);
        free(o);
      }
  const double nan = (double)NAN;
  uint8_t b = 0;
  K->cast[F64][B8](1, &b, &nan);
  if (b != 1)
    FAIL("NaN is not true");
}

/* ---- matrix product: one ascending chain per element, so the sizes may not show ---- */
static void check_gemm(int t, int64_t m, int64_t n, int64_t k, int ta, int tb, double alpha, double beta, int pad)
{
  const int64_t lda = (ta ? m : k) + pad, ldb = (tb ? k : n) + pad, ldc = n + pad;
  void *a = draw(t, (ta ? k : m) * lda, -1, 1), *b = draw(t, (tb ? n : k) * ldb, -1, 1);
  void *c = draw(t, m * ldc, -1, 1), *d = malloc((size_t)(m * ldc) * size_of[t] + 1);
  const int fused = strcmp(K->isa, "base") != 0;
  memcpy(d, c, (size_t)(m * ldc) * size_of[t]);
  if (beta == 0) /* must not be read */
    for (int64_t i = 0; i < m; i++)
      for (int64_t j = 0; j < n; j++)
        put(t, c, i * ldc + j, (double)NAN);
  K->gemm[t](ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
  for (int64_t i = 0; i < m; i++)
    for (int64_t j = 0; j < ldc; j++) {
      double want = get(t, d, i * ldc + j);
      if (j < n) {
        float sf = 0;
        double sd = 0;
        for (int64_t p = 0; p < k; p++) {
          const double x = get(t, a, ta ? p * lda + i : i * lda + p), y = get(t, b, tb ? j * ldb + p : p * ldb + j);
          if (t == F32)
            sf = fused ? fmaf((float)x, (float)y, sf) : (float)x * (float)y + sf;
          else
            sd = fused ? fma(x, y, sd) : x * y + sd;
        }
        if (t == F32) {
          sf = (float)alpha * sf;
          want = (double)(beta != 0 ? sf + (float)beta * (float)want : sf);
        } else {
          sd = alpha * sd;
          want = beta != 0 ? sd + beta * want : sd;
        }
      }
      const double got = get(t, c, i * ldc + j);
      if (!same(got, want)) {
        FAIL("gemm %s %lldx%lldx%lld t %d%d alpha %g beta %g at %lld,%lld: %.9g, not %.9g", name_of[t], LL(m), LL(n), LL(k),
             ta, tb, alpha, beta, LL(i), LL(j), got, want);
        i = m;
        break;
      }
    }
  free(a);
  free(b);
  free(c);
  free(d);
}

static void products(void)
{
  static const int64_t sizes[] = {0, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33, 65, 130};
  for (int t = F32; t <= F64; t++) {
    for (int q = 0; q < 1500; q++) {
      int64_t s[3];
      for (int i = 0; i < 3; i++)
        s[i] = sizes[rnd() % 16];
      check_gemm(t, s[0], s[1], s[2], q & 1, q >> 1 & 1, q % 5 ? 1 : .7, q % 7 < 4 ? 0 : q % 7 == 4 ? 1 : -.3, q % 3);
    }
    for (int q = 0; q < 4; q++) {
      check_gemm(t, 1, 1100, 300, q & 1, q >> 1, 1, 0, 1);
      check_gemm(t, 1100, 1, 300, q & 1, q >> 1, 1, .5, 0);
      check_gemm(t, 700, 3, 90, q & 1, q >> 1, 1, 1, 0);
      check_gemm(t, 2, 700, 1100, q & 1, q >> 1, 1, 0, 0);
      check_gemm(t, 6, 1100, 70, q & 1, q >> 1, 2, 0, 0);
      check_gemm(t, 140, 70, 530, q & 1, q >> 1, 1, 0, 0);
      check_gemm(t, 530, 20, 1100, q & 1, q >> 1, 1, .5, 0);
    }
  }
}

/* ---- convolution ---- */
static void check_conv(int t, const ag_k_convgeom *g)
{
  int64_t in[3] = {1, 1, 1}, out[3] = {1, 1, 1}, k[3] = {1, 1, 1}, st[3] = {1, 1, 1}, pad[3] = {0, 0, 0}, dil[3] = {1, 1, 1};
  for (int d = 0; d < g->nd; d++) {
    const int e = 3 - g->nd + d;
    in[e] = g->in[d];
    out[e] = g->out[d];
    k[e] = g->k[d];
    st[e] = g->stride[d];
    pad[e] = g->pad[d];
    dil[e] = g->dil[d];
  }
  const int64_t plane = in[0] * in[1] * in[2], outs = out[0] * out[1] * out[2], ks = k[0] * k[1] * k[2];
  void *x = draw(t, g->c * plane, -1, 1), *col = draw(t, g->c * ks * outs, 5, 6), *y = draw(t, g->c * plane, -1, 1);
  void *c2 = draw(t, g->c * ks * outs, -1, 1), *mx = draw(t, g->c * outs, 0, 0);
  double *want = malloc((size_t)(g->c * plane) * sizeof *want);
  int64_t *idx = draw(I64, g->c * outs, 0, 0);
  for (int64_t i = 0; i < g->c * plane; i++) {
    put(t, x, i, rnd() % 50 ? floor(get(t, x, i) * 4) : (double)NAN);
    want[i] = get(t, y, i);
  }
  K->unfold[t](g, col, x);
  K->fold[t](g, y, c2);
  K->maxpool[t](g, mx, idx, x);
  for (int64_t c = 0; c < g->c; c++)
    for (int64_t o = 0; o < outs; o++) {
      const int64_t od = o / (out[1] * out[2]), oh = o / out[2] % out[1], ow = o % out[2];
      int64_t best = -1;
      double m = 0;
      for (int64_t q = 0; q < ks; q++) {
        const int64_t a = od * st[0] - pad[0] + q / (k[1] * k[2]) * dil[0], b = oh * st[1] - pad[1] + q / k[2] % k[1] * dil[1],
                      e = ow * st[2] - pad[2] + q % k[2] * dil[2], at = (a * in[1] + b) * in[2] + e;
        const int inside = a >= 0 && a < in[0] && b >= 0 && b < in[1] && e >= 0 && e < in[2];
        const double v = inside ? get(t, x, c * plane + at) : 0;
        if (!same(get(t, col, (c * ks + q) * outs + o), v))
          FAIL("unfold nd %d at %lld,%lld,%lld", g->nd, LL(c), LL(q), LL(o));
        if (inside && (best < 0 || v > m || v != v)) {
          m = v;
          best = at;
        }
        if (inside)
          want[c * plane + at] += get(t, c2, (c * ks + q) * outs + o);
      }
      if (best >= 0 && (idx[c * outs + o] != best || !same(get(t, mx, c * outs + o), m)))
        FAIL("maxpool nd %d at %lld,%lld: %lld, not %lld", g->nd, LL(c), LL(o), LL(idx[c * outs + o]), LL(best));
    }
  for (int64_t i = 0; i < g->c * plane; i++)
    if (!close_to(t, get(t, y, i), want[i], 8))
      FAIL("fold nd %d at %lld", g->nd, LL(i));
  free(x);
  free(y);
  free(col);
  free(c2);
  free(mx);
  free(idx);
  free(want);
}

static void convolutions(void)
{
  for (int t = F32; t <= F64; t++)
    for (int q = 0; q < 400; q++) {
      ag_k_convgeom g = {.nd = 1 + q % 3, .c = 1 + (int64_t)(rnd() % 3)};
      for (int d = 0; d < g.nd; d++) {
        g.k[d] = 1 + (int64_t)(rnd() % 3);
        g.stride[d] = q % 4 ? 1 : 1 + (int64_t)(rnd() % 3);
        g.dil[d] = q % 5 ? 1 : 1 + (int64_t)(rnd() % 2);
        g.pad[d] = (int64_t)(rnd() % 3);
        g.in[d] = (g.k[d] - 1) * g.dil[d] + 1 + (int64_t)(rnd() % (g.nd == 3 ? 5 : 50));
        if (q % 8 == 1) {
          g.k[d] = g.stride[d] = 2;
          g.pad[d] = 0;
          g.dil[d] = 1;
          g.in[d] += 1;
        }
        g.out[d] = (g.in[d] + 2 * g.pad[d] - g.dil[d] * (g.k[d] - 1) - 1) / g.stride[d] + 1;
      }
      check_conv(t, &g);
    }
}

/* ---- optimizers ---- */
static void updates(void)
{
  for (int t = F32; t <= F64; t++)
    for (int q = 0; q < 128; q++) {
      const int64_t n = q % 40;
      void *p = draw(t, n, -1, 1), *g = draw(t, n, -1, 1), *m = draw(t, n, -1, 1), *v = draw(t, n, 0, 1), *old[3];
      for (int k = 0; k < 3; k++) {
        old[k] = malloc((size_t)n * 8 + 1);
        memcpy(old[k], k == 0 ? p : k == 1 ? m : v, (size_t)n * size_of[t]);
      }
      const double hs[] = {.1, .9, q & 8 ? .2 : 0, q & 16 ? .01 : 0}, ha[] = {.01, .9, .999, 1e-8, q & 8 ? .1 : 0, 1 + q % 3};
      const int adam = q & 1, flags = q >> 1 & (adam ? 3 : 7), buf = q & 32;
      if (adam)
        K->adam[t](n, p, g, m, v, ha, flags);
      else
        K->sgd[t](n, p, g, buf ? m : NULL, hs, flags);
      for (int64_t i = 0; i < n; i++) {
        double x = get(t, old[0], i), a = get(t, old[1], i), b = get(t, old[2], i), d = get(t, g, i);
        d = flags & 2 ? -d : d;
        if (adam) {
          if (flags & 1)
            x *= 1 - ha[0] * ha[4];
          else
            d += ha[4] * x;
          a = ha[1] * a + (1 - ha[1]) * d;
          b = ha[2] * b + (1 - ha[2]) * d * d;
          x -= ha[0] / (1 - pow(ha[1], ha[5])) * a / (sqrt(b) / sqrt(1 - pow(ha[2], ha[5])) + ha[3]);
        } else {
          d += hs[3] * x;
          if (buf) {
            a = flags & 4 ? d : hs[1] * a + (1 - hs[2]) * d;
            d = flags & 1 ? d + hs[1] * a : a;
          }
          x -= hs[0] * d;
        }
        if (!close_to(t, get(t, p, i), x, 1) || !close_to(t, get(t, m, i), a, 1) || !close_to(t, get(t, v, i), b, 1))
          FAIL("%s %s flags %d: %.17g, not %.17g", adam ? "adam" : "sgd", name_of[t], flags, get(t, p, i), x);
      }
      for (int k = 0; k < 3; k++)
        free(old[k]);
      free(p);
      free(g);
      free(m);
      free(v);
    }
}

/* ---- random ---- */
static void philox(const uint32_t c[4], const uint32_t key[2], uint32_t out[4])
{
  uint32_t w[4] = {c[0], c[1], c[2], c[3]}, k0 = key[0], k1 = key[1];
  for (int r = 0; r < 10; r++, k0 += 0x9E3779B9u, k1 += 0xBB67AE85u) {
    const uint64_t a = (uint64_t)0xD2511F53u * w[0], b = (uint64_t)0xCD9E8D57u * w[2];
    const uint32_t n[4] = {(uint32_t)(b >> 32) ^ w[1] ^ k0, (uint32_t)b, (uint32_t)(a >> 32) ^ w[3] ^ k1, (uint32_t)a};
    memcpy(w, n, sizeof w);
  }
  memcpy(out, w, sizeof w);
}

static void randoms(void)
{
  /* Random123's known answers: zeros, ones, digits of pi */
  static const uint32_t kat[3][10] = {
      {0, 0, 0, 0, 0, 0, 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8},
      {0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, 0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd},
      {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344, 0xa4093822, 0x299f31d0, 0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}};
  uint32_t w[4];
  for (int q = 0; q < 3; q++) {
    philox(kat[q], kat[q] + 4, w);
    if (memcmp(w, kat[q] + 6, sizeof w))
      FAIL("the reference Philox misses known answer %d", q);
  }
  for (int t = F32; t <= F64; t++) {
    enum { N = 1000 };
    unsigned char whole[N * 8], part[N * 8];
    const int per = t == F32 ? 4 : 2;
    K->uniform[t](N, whole, 42, 7, 0, 0, 1);
    for (int i = 0; i < N; i++) {
      philox((uint32_t[]){(uint32_t)(i / per), 0, 7, 0}, (uint32_t[]){42, 0}, w);
      const double u = t == F32 ? (double)(w[i % 4] >> 8) * 0x1p-24
                                : (double)(((uint64_t)w[i % 2 * 2 + 1] << 32 | w[i % 2 * 2]) >> 11) * 0x1p-53;
      if (get(t, whole, i) != u)
        FAIL("uniform %s element %d: %.17g, not %.17g", name_of[t], i, get(t, whole, i), u);
    }
    for (int kind = 0; kind < 2; kind++)
      for (int64_t first = 0; first < N; first += 61) { /* any piece is the piece of the whole */
        ag_k_random *f = (kind ? K->normal : K->uniform)[t];
        const int64_t n = (int64_t)(rnd() % (uint64_t)(N - first));
        f(N, whole, 123456789012345u, 1, 0, -1, 2);
        f(n, part, 123456789012345u, 1, first, -1, 2);
        if (memcmp(part, whole + (size_t)first * size_of[t], (size_t)n * size_of[t]))
          FAIL("%s %s from %lld differs", kind ? "normal" : "uniform", name_of[t], LL(first));
      }
    enum { M = 400000 };
    void *x = draw(t, M, 0, 0);
    double s[5] = {0};
    K->normal[t](M, x, 5, 9, 3, 0, 1);
    for (int i = 0; i < M; i++) {
      const double v = get(t, x, i);
      s[0] += v;
      s[1] += v * v;
      s[2] += v * v * v;
      s[3] += v * v * v * v;
      s[4] += i ? v * get(t, x, i - 1) : 0;
    }
    for (int k = 0; k < 5; k++)
      s[k] /= M;
    if (!(fabs(s[0]) < .01 && fabs(s[1] - 1) < .01 && fabs(s[2]) < .03 && fabs(s[3] - 3) < .1 && fabs(s[4]) < .01))
      FAIL("normal %s moments %g %g %g %g, lag %g", name_of[t], s[0], s[1], s[2], s[3], s[4]);
    K->uniform[t](M, x, 5, 9, 0, 1, 1.0000003);
    for (int i = 0; i < M; i++)
      if (!(get(t, x, i) >= 1 && get(t, x, i) < (t == F32 ? (double)1.0000003f : 1.0000003)))
        FAIL("uniform %s leaves its interval", name_of[t]);
    free(x);
  }
}

/* Integers, sums, moves, optimizers and uniform numbers are the same bits in every table. */
static void tables_agree(const ag_kernels *a, const ag_kernels *b)
{
  enum { N = 6007 };
  for (int t = F32; t <= F64; t++) {
    void *x = draw(t, N, -1, 1);
    unsigned char u[N * 8], v[N * 8];
    for (int64_t inner = 1; inner < 30; inner += 3) {
      a->reduce[AG_R_SUM][t](1, N / inner, inner, u, x);
      b->reduce[AG_R_SUM][t](1, N / inner, inner, v, x);
      if (memcmp(u, v, (size_t)inner * size_of[t]))
        FAIL("sum %s inner %lld differs from %s", name_of[t], LL(inner), b->isa);
    }
    a->uniform[t](N, u, 1, 2, 3, -2, 5);
    b->uniform[t](N, v, 1, 2, 3, -2, 5);
    if (memcmp(u, v, N * size_of[t]))
      FAIL("uniform %s differs from %s", name_of[t], b->isa);
    free(x);
  }
}

static int complete(void)
{
  int ok = K->pack && K->unpack;
  for (int t = B8; t <= F64; t++) {
    for (int r = 0; r < AG_R_COUNT; r++)
      ok = ok && K->reduce[r][t];
    for (int u = B8; u <= F64; u++)
      ok = ok && K->cast[t][u];
    ok = ok && K->argmax[t] && K->argmin[t] && K->cumulate[t];
    if (t >= F32)
      ok = ok && K->softmax[t] && K->softmax_bwd[t] && K->gemm[t] && K->unfold[t] && K->fold[t] && K->maxpool[t] &&
           K->sgd[t] && K->adam[t] && K->uniform[t] && K->normal[t];
  }
  return ok;
}

int main(int argc, char **argv)
{
  const int lengthy = argc > 1 && !strcmp(argv[1], "-l");
  const ag_kernels *first = NULL;
  for (const ag_kernels *const *t = ag__kernels_all(); *t; t++) {
    K = *t;
    if (!ag__kernels_usable(K)) {
      printf("%s: not usable here\n", K->isa);
      continue;
    }
    if (!complete()) {
      FAIL("the table has empty places");
      continue;
    }
    reductions();
    sums(lengthy);
    moves();
    products();
    convolutions();
    updates();
    randoms();
    if (first)
      tables_agree(K, first);
    else
      first = K;
    printf("%s: done, %d failures so far\n", K->isa, failures);
  }
  return failures != 0;
}
