/* test_ulp.c: errors of the transcendental kernels over the whole range of their arguments, every table of this machine.
 *
 *   test_ulp [--step N] [--dense N] [--row NAME] [--isa NAME] [--type f32|f64]
 *
 * One argument: of float32 each Nth bit pattern (--step 1: all 2^32 of them) against double; of float64 --dense numbers
 * in each binade of either sign, the neighbourhoods of 0, 1 and of the multiples of pi/2, against long double.  Two
 * arguments: a grid of special values and random pairs of several kinds.  The defaults take seconds.
 *
 * A line a function, type and table: the largest error in units of the last place, where it is, how many results are
 * off by more than the limit, and how many are wrong as to NaN, infinity or the sign of zero.  Subnormal results are
 * measured in the spacing of the subnormal numbers.  Functions made of several others have no limit here; they are
 * shown.  Returns 0 if nothing is above its limit or wrong. */
#include "../../csrc/kernels/kernels.h"
#include "random.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { F32 = 4, F64 = 5 };
enum {
#define EW1(name, ...) R_##name,
#define EW2(name, ...) R_##name,
#define EW3(name, ...) R_##name,
#define CMP1(name, ...) R_##name,
#define CMP2(name, ...) R_##name,
#define SEL3(name, ...) R_##name,
#define FN(name, ...) R_##name,
#include "../../csrc/ops/ag_ops.inc"
};

typedef long double real;
static double d_sigmoid(double x) {
  const double e = exp(-fabs(x));
  return (x >= 0 ? 1 : x < 0 ? e : x) / (1 + e);
}
static real l_sigmoid(real x) {
  const real e = expl(-fabsl(x));
  return (x >= 0 ? 1 : x < 0 ? e : x) / (1 + e);
}
static double d_rsqrt(double x) { return 1 / sqrt(x); }
static real l_rsqrt(real x) { return 1 / sqrtl(x); }
static double d_silu(double x) { return x * d_sigmoid(x); }
static real l_silu(real x) { return x * l_sigmoid(x); }
static double d_gelu(double x) { return x == -HUGE_VAL ? NAN : x / 2 * erfc(-x * 0.70710678118654752440); }
static real l_gelu(real x) { return x == -HUGE_VAL ? (real)NAN : x / 2 * erfcl(-x * 0.707106781186547524400844362104849L); }

static const struct {
  const char *name;
  int row;
  double limit; /* 0: none */
  double (*d)(double);
  real (*l)(real);
} unary[] = {
#define U(name, limit) {#name, R_##name, limit, name, name##l}
#define V(name, limit) {#name, R_##name, limit, d_##name, l_##name}
    U(exp, 2),   U(exp2, 2),  U(expm1, 2), U(log, 2),      U(log2, 2), U(log10, 2), U(log1p, 2), U(sqrt, 0.5), V(rsqrt, 2),
    U(sin, 2),   U(cos, 2),   U(tan, 2),   U(asin, 2),     U(acos, 2), U(atan, 2),  U(sinh, 2),  U(cosh, 2),   U(tanh, 2),
    U(asinh, 2), U(acosh, 2), U(atanh, 2), U(erf, 2),      U(erfc, 2), V(sigmoid, 2), V(silu, 0),  V(gelu, 0),
#undef U
#undef V
};
static const struct {
  const char *name;
  int row;
  double limit;
  double (*d)(double, double);
  real (*l)(real, real);
} binary[] = {{"pow", R_pow, 2, pow, powl}, {"atan2", R_atan2, 2, atan2, atan2l}, {"fmod", R_fmod, 0.5, fmod, fmodl}};
#define COUNT(a) ((int)(sizeof(a) / sizeof *(a)))

enum { N = 4096, TABLES = 8 };
static const ag_kernels *tables[TABLES];
static int n_tables, failures;
static float xf[N], yf[N], of[N];
static double xd[N], yd[N], od[N], wd[N];
static real wl[N];

typedef struct worst {
  double ulp, x, y;
  uint64_t above, wrong, count;
  double wrong_x, wrong_y;
} worst;

static void judge(worst *w, double e, double limit, double x, double y) {
  if (!(e < HUGE_VAL)) {
    if (!w->wrong++) w->wrong_x = x, w->wrong_y = y;
    return;
  }
  if (limit > 0 && e > limit) w->above++;
  if (e > w->ulp) w->ulp = e, w->x = x, w->y = y;
}

/* HUGE_VAL: not even the right kind. */
static double ulps32(float got, double want) {
  const float w = (float)want;
  if (w != w || got != got) return w != w && got != got ? 0 : HUGE_VAL;
  if (isinf(w) || isinf(got)) { /* the last number before infinity is one step from it */
    if (w == got) return 0;
    return fabsf(isinf(w) ? got : w) >= FLT_MAX && (w > 0) == (got > 0) ? 1 : HUGE_VAL;
  }
  if (w == 0 && got == 0 && !signbit(w) != !signbit(got)) return HUGE_VAL;
  uint64_t b;
  memcpy(&b, &want, 8);
  int e = (int)(b >> 52 & 0x7ff) - 1023;
  if (e < -126) e = -126;
  b = (uint64_t)(1023 - (e - 23)) << 52;
  double scale;
  memcpy(&scale, &b, 8);
  return fabs((double)got - want) * scale;
}
static double ulps64(double got, real want) {
  const double w = (double)want;
  int e;
  if (w != w || got != got) return w != w && got != got ? 0 : HUGE_VAL;
  if (isinf(w) || isinf(got)) {
    if (w == got) return 0;
    return fabs(isinf(w) ? got : w) >= DBL_MAX && (w > 0) == (got > 0) ? 1 : HUGE_VAL;
  }
  if (w == 0 && got == 0 && !signbit(w) != !signbit(got)) return HUGE_VAL;
  if ((real)got == want) return 0;
  frexpl(want, &e);
  if (want == 0 || e < -1021) e = -1021;
  return (double)ldexpl(fabsl((real)got - want), 53 - e);
}

static double from_bits(uint64_t b) {
  double v;
  memcpy(&v, &b, 8);
  return v;
}
static float from_bits32(uint32_t b) {
  float v;
  memcpy(&v, &b, 4);
  return v;
}

static void show(const char *name, const char *type, const char *isa, double limit, const worst *w, int two) {
  const int bad = w->above || w->wrong;
  failures += bad;
  printf("%-8s %s %-7s %8.4f ULP at %a", name, type, isa, w->ulp, w->x);
  if (two) printf(", %a", w->y);
  printf("  of %llu", (unsigned long long)w->count);
  if (limit <= 0) printf("  (no limit)");
  if (w->above) printf("  ABOVE %g: %llu", limit, (unsigned long long)w->above);
  if (w->wrong) {
    printf("  WRONG: %llu, first at %a", (unsigned long long)w->wrong, w->wrong_x);
    if (two) printf(", %a", w->wrong_y);
  }
  printf("\n");
  fflush(stdout);
}

/* ---- one argument ---- */
static void chunk32(int u, int n, worst *w) {
  for (int i = 0; i < n; i++) wd[i] = unary[u].d(xf[i]);
  for (int k = 0; k < n_tables; k++) {
    tables[k]->ew[unary[u].row].fwd[F32](n, of, xf, NULL, NULL, NULL);
    for (int i = 0; i < n; i++) judge(&w[k], ulps32(of[i], wd[i]), unary[u].limit, xf[i], 0);
    w[k].count += (uint64_t)n;
  }
}
static void chunk64(int u, int n, worst *w) {
  for (int i = 0; i < n; i++) wl[i] = unary[u].l(xd[i]);
  for (int k = 0; k < n_tables; k++) {
    tables[k]->ew[unary[u].row].fwd[F64](n, od, xd, NULL, NULL, NULL);
    for (int i = 0; i < n; i++) judge(&w[k], ulps64(od[i], wl[i]), unary[u].limit, xd[i], 0);
    w[k].count += (uint64_t)n;
  }
}
static void unary32(int u, uint64_t step) {
  worst w[TABLES] = {{0}};
  int n = 0;
  for (uint64_t b = 0; b < (uint64_t)1 << 32; b += step) {
    xf[n++] = from_bits32((uint32_t)b);
    if (n == N) chunk32(u, n, w), n = 0;
  }
  static const uint32_t ends[] = {0, 0x80000000, 1, 0x80000001, 0x7fffff, 0x807fffff, 0x800000, 0x80800000, 0x7f7fffff, 0xff7fffff,
                                  0x7f800000, 0xff800000, 0x7fc00000, 0xffc00000, 0x3f800000, 0xbf800000, 0x3f7fffff, 0x3f800001};
  for (int i = 0; i < COUNT(ends); i++) {
    if (n == N) chunk32(u, n, w), n = 0;
    xf[n++] = from_bits32(ends[i]);
  }
  chunk32(u, n, w);
  for (int k = 0; k < n_tables; k++) show(unary[u].name, "f32", tables[k]->isa, unary[u].limit, &w[k], 0);
}
static void unary64(int u, uint64_t dense) {
  worst w[TABLES] = {{0}};
  int n = 0;
#define PUT(v)                                \
  do {                                        \
    if (n == N) chunk64(u, n, w), n = 0;      \
    xd[n++] = v;                              \
  } while (0)
  seed = 88172645463325252u;
  for (uint64_t e = 0; e < 4096; e++) { /* sign and exponent */
    const uint64_t ends[] = {0, 1, 2, 0xfffffffffffff, 0xffffffffffffe, 0x8000000000000};
    for (int i = 0; i < COUNT(ends); i++) PUT(from_bits(e << 52 | ends[i]));
    /* most functions are flat, odd or out of range but for these binades */
    const int64_t ex = (int64_t)(e & 0x7ff) - 1023;
    const uint64_t m = ex > -40 && ex < 11 ? 8 * dense : dense;
    for (uint64_t i = 0; i < m; i++) PUT(from_bits(e << 52 | rnd() >> 12));
  }
  for (uint64_t i = 0; i < 512 * dense; i++) {
    PUT(1 + (unit() * 2 - 1) * exp(-unit() * 38));
    PUT((unit() * 2 - 1) * 4);
    PUT((unit() * 2 - 1) * 40);
    PUT((unit() * 2 - 1) * 800);
    PUT((double)((real)(1 + rnd() % 7000000) * 1.57079632679489661923132169163975144L)); /* what a reduction finds hardest */
    PUT((double)((real)(1 + rnd() % 64) * 1.57079632679489661923132169163975144L) * (1 + (double)((int)(rnd() % 5) - 2) * 0x1p-52));
    PUT(1e7 * (1 + (unit() - .5) * 1e-6)); /* around the end of the vector code */
  }
  static const double hard[] = {0x1.921fb54442d18p+0, 0x1.921fb54442d18p+1, 0x1.5fdbbe9bba775p+2,
                                0x1.62e42fefa39efp+9, -0x1.74910d52d3051p+9, -0x1.6232bdd7abcd2p+9, 0x1.633ce8fb9f87dp+9, 1e22, -1e22};
  for (int i = 0; i < COUNT(hard); i++) PUT(hard[i]);
  chunk64(u, n, w);
#undef PUT
  for (int k = 0; k < n_tables; k++) show(unary[u].name, "f64", tables[k]->isa, unary[u].limit, &w[k], 0);
}

/* ---- two ---- */
static const double special[] = {0, -0., 1, -1, HUGE_VAL, -HUGE_VAL, NAN, 5e-324, -5e-324, 1e-310, 1e-45, -1e-45, 1e-40, -1e-40, .5, -.5, 2, -2,
                                 3, -3, 4, 0x1p-126, 0x1p-1022, 1024, -1074, -1075, -149, -150, 127, 128, DBL_MAX, -DBL_MAX, FLT_MAX, -FLT_MAX,
                                 1.5, -1.5, 33554433, -33554433, 9007199254740993., 1e300, 1 + 0x1p-52, 1 - 0x1p-53, 1 + 0x1p-23, 1 - 0x1p-24,
                                 -0.9999999, 1e22, 0.1, 10, -10, 100, 1e-8, -1e-8};
static void pair(int t, int row, int kind, int i) {
  double x, y;
  const double top = t == F32 ? 103 : 745;
  switch (kind % 6) {
  case 0: /* any bits */
  default:
    if (t == F32) x = from_bits32((uint32_t)rnd()), y = from_bits32((uint32_t)rnd());
    else x = from_bits(rnd()), y = from_bits(rnd());
    if (row == R_pow && kind % 2) x = fabs(x);
    break;
  case 1: /* powers that are numbers, from any base */
    x = t == F32 ? fabsf(from_bits32((uint32_t)rnd())) : fabs(from_bits(rnd()));
    y = (unit() * 2 - 1) * top / fabs(log(x));
    break;
  case 2: /* bases near one */
    x = 1 + (unit() * 2 - 1) * exp(-unit() * (t == F32 ? 16 : 36));
    if (t == F32) x = (float)x;
    y = (unit() * 2 - 1) * top / fabs(log(x));
    break;
  case 3: /* small whole exponents, bases of either sign */
    x = (unit() * 2 - 1) * exp((unit() - .5) * 30);
    y = (double)((int)(rnd() % 41) - 20);
    break;
  case 4:
    x = unit() * 4;
    y = (unit() * 2 - 1) * 8;
    break;
  case 5: /* close to each other */
    x = (unit() * 2 - 1) * exp((unit() - .5) * 20);
    y = x * (1 + (unit() - .5) * exp(-unit() * 20)) * (rnd() & 1 ? 1 : -1);
    break;
  }
  if (t == F32) xf[i] = (float)x, yf[i] = (float)y;
  xd[i] = x, yd[i] = y;
}
static void two(int u, int t, uint64_t rounds) {
  worst w[TABLES] = {{0}};
  const int s = COUNT(special);
  seed = 88172645463325252u;
  for (uint64_t r = 0; r < rounds + 1; r++) {
    int n = N;
    if (r == 0) {
      n = s * s;
      for (int i = 0; i < n; i++) xd[i] = special[i % s], yd[i] = special[i / s], xf[i] = (float)xd[i], yf[i] = (float)yd[i];
    } else
      for (int i = 0; i < n; i++) pair(t, binary[u].row, (int)r, i);
    for (int i = 0; i < n; i++)
      if (t == F32) wd[i] = binary[u].d(xf[i], yf[i]);
      else wl[i] = binary[u].l(xd[i], yd[i]);
    for (int k = 0; k < n_tables; k++) {
      if (t == F32) tables[k]->ew[binary[u].row].fwd[F32](n, of, xf, yf, NULL, NULL);
      else tables[k]->ew[binary[u].row].fwd[F64](n, od, xd, yd, NULL, NULL);
      for (int i = 0; i < n; i++)
        if (t == F32) judge(&w[k], ulps32(of[i], wd[i]), binary[u].limit, xf[i], yf[i]);
        else judge(&w[k], ulps64(od[i], wl[i]), binary[u].limit, xd[i], yd[i]);
      w[k].count += (uint64_t)n;
    }
  }
  for (int k = 0; k < n_tables; k++) show(binary[u].name, t == F32 ? "f32" : "f64", tables[k]->isa, binary[u].limit, &w[k], 1);
}

/* 6381956970095103 * 2^797 comes closer to a multiple of pi/2 than any other float64; here long double's functions
 * lose digits, so the values are from 2000-bit arithmetic. */
static void nearest_quarter(void) {
  static const struct {
    int row;
    double want;
  } f[] = {{R_sin, 1}, {R_cos, -4.687165924254627611e-19}, {R_tan, -2.133485385753703844e+18}};
  const double x = 0x1.6ac5b262ca1ffp+849;
  for (int k = 0; k < n_tables; k++)
    for (int i = 0; i < COUNT(f); i++) {
      double got;
      tables[k]->ew[f[i].row].fwd[F64](1, &got, &x, NULL, NULL, NULL);
      if (ulps64(got, f[i].want) <= 2) continue;
      printf("row %d f64 %s: %a at %a, should be %a\n", f[i].row, tables[k]->isa, got, x, f[i].want);
      failures++;
    }
}

int main(int argc, char **argv) {
  uint64_t step = 20011, dense = 12;
  const char *row = NULL, *isa = NULL, *type = NULL;
  for (int i = 1; i + 1 < argc; i += 2)
    if (!strcmp(argv[i], "--step")) step = strtoull(argv[i + 1], NULL, 10);
    else if (!strcmp(argv[i], "--dense")) dense = strtoull(argv[i + 1], NULL, 10);
    else if (!strcmp(argv[i], "--row")) row = argv[i + 1];
    else if (!strcmp(argv[i], "--isa")) isa = argv[i + 1];
    else if (!strcmp(argv[i], "--type")) type = argv[i + 1];
    else argc = 2, i = 0;
  if (argc % 2 == 0 || !step) {
    fprintf(stderr, "test_ulp [--step N] [--dense N] [--row NAME] [--isa NAME] [--type f32|f64]\n");
    return 2;
  }
  for (const ag_kernels *const *k = ag__kernels_all(); *k && n_tables < TABLES; k++)
    if (ag__kernels_usable(*k) && (!isa || !strcmp(isa, (*k)->isa))) tables[n_tables++] = *k;
  const int f32 = !type || !strcmp(type, "f32");
  /* where long double is double, there is nothing to compare with */
  const int f64 = (!type || !strcmp(type, "f64")) && LDBL_MANT_DIG >= 64;
  if (f64) nearest_quarter();
  for (int u = 0; u < COUNT(unary); u++) {
    if (row && strcmp(row, unary[u].name)) continue;
    if (f32) unary32(u, step);
    if (f64) unary64(u, dense);
  }
  for (int u = 0; u < COUNT(binary); u++) {
    if (row && strcmp(row, binary[u].name)) continue;
    if (f32) two(u, F32, 20 * dense);
    if (f64) two(u, F64, 20 * dense);
  }
  return failures != 0;
}
