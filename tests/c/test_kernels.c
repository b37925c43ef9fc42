/* test_kernels.c: the elementwise kernels of every table that this machine can run.
 *
 * - functions of one real argument against long double: at most 2 ULP over all kinds of bit patterns;
 * - every row and derivative against the baseline table, on the row's domain;
 * - bits of an element depend neither on its place nor on n, nor on working in place;
 * - what is not computed: integers, special values, which derivatives need no kernel.
 * Returns 0 on success. */
#include "../../csrc/kernels/kernels.h"
#include "random.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { B8, U8, I32, I64, F32, F64 };
static const size_t size_of[] = {1, 1, 4, 8, 4, 8};

enum {
#define EW1(name, ...) R_##name,
#define EW2(name, ...) R_##name,
#define EW3(name, ...) R_##name,
#define CMP1(name, ...) R_##name,
#define CMP2(name, ...) R_##name,
#define SEL3(name, ...) R_##name,
#include "../../csrc/ops/ag_ops.inc"
  ROWS
};

enum { CMP = 1, SELECT = 2 };
static const struct row {
  const char *name;
  int arity, kind;
  double lo, hi;
} rows[] = {
#define EW1(name, Grad, types, flags, lo, hi, ...) {#name, 1, 0, lo, hi},
#define EW2(name, Grad, types, flags, lo, hi, ...) {#name, 2, 0, lo, hi},
#define EW3(name, Grad, types, flags, lo, hi, ...) {#name, 3, 0, lo, hi},
#define CMP1(name, types, flags, lo, hi, ...) {#name, 1, CMP, lo, hi},
#define CMP2(name, types, flags, lo, hi, ...) {#name, 2, CMP, lo, hi},
#define SEL3(name, Grad, types, flags, lo, hi, ...) {#name, 3, SELECT, lo, hi},
#include "../../csrc/ops/ag_ops.inc"
};

static int failures;
static const char *isa;
#define FAIL(...)                     \
  do {                                \
    if (failures++ < 60) {            \
      printf("FAIL %s: ", isa);       \
      printf(__VA_ARGS__);            \
      printf("\n");                   \
    }                                 \
  } while (0)


enum { N = 1024 };

static const double special[] = {
    0,        -0.,      1,       -1,       HUGE_VAL, -HUGE_VAL, NAN,      5e-324,    -5e-324,   1e-310,   1e-45,   -1e-45,
    1e-40,    -1e-40,   .5,      -.5,      2,        -2,        0x1p-126, 0x1p-1022, 88.72,     88.73,    88.8,    -87.3,
    -103.9,   -104.1,   709.78,  709.79,   -745,     -745.2,    710.4,    710.5,     89.4,      89.5,     128,     127.999,
    -149,     -150,     -151,    1024,     -1074,    -1075,     DBL_MAX,  -DBL_MAX,  FLT_MAX,   -FLT_MAX, 10,      100,
    8,        4,        20,      -20,      22,       -37,       -38,      -17,       -18,       26.5,     27.3,    9.2,
    1e5,      1.0001e5, 1e7,     1.1e7,    1e22,     -1e22,     0.25,     1e300,     10.06,     33554433, 1e-8,    -1e-8};

/* All kinds of numbers: bit patterns, neighbourhoods of 0, of 1, of multiples of pi/2. */
static double any_number(int how, int t) {
  switch (how % 7) {
  case 0:
  case 1:
    if (t == F64) {
      const uint64_t b = rnd();
      double v;
      memcpy(&v, &b, 8);
      return v == v ? v : 1.5;
    } else {
      const uint32_t b = (uint32_t)rnd();
      float v;
      memcpy(&v, &b, 4);
      return v == v ? v : 1.5;
    }
  case 2:
    return (unit() * 2 - 1) * 4;
  case 3:
    return (unit() * 2 - 1) * 120;
  case 4:
    return (unit() * 2 - 1) * exp((unit() - .5) * 40);
  case 5:
    return 1 + (unit() * 2 - 1) * exp(-unit() * 30);
  default:
    return (double)(rnd() % 2000) * 1.57079632679489661923 * (1 + (double)((int)(rnd() % 5) - 2) * 2e-16);
  }
}

static void put(int t, void *p, int i, double v) {
  switch (t) {
  case B8: ((uint8_t *)p)[i] = v > 0; break;
  case U8: ((uint8_t *)p)[i] = (uint8_t)fabs(v); break;
  case I32: ((int32_t *)p)[i] = (int32_t)v; break;
  case I64: ((int64_t *)p)[i] = (int64_t)v; break;
  case F32: ((float *)p)[i] = (float)v; break;
  default: ((double *)p)[i] = v;
  }
}
static double get(int t, const void *p, int i) { return t == F32 ? (double)((const float *)p)[i] : ((const double *)p)[i]; }

/* Distance of got from want in units of the last place of want in type t. */
static double ulps(int t, double got, long double want) {
  const int digits = t == F32 ? 24 : 53, lowest = t == F32 ? -125 : -1021;
  const double top = t == F32 ? (double)FLT_MAX : DBL_MAX, w = t == F32 ? (double)(float)want : (double)want;
  int e;
  if (w != w || got != got) return w != w && got != got ? 0 : HUGE_VAL;
  if (isinf(w) || isinf(got)) { /* the last number before infinity is one step from it */
    if (w == got) return 0;
    return fabs(isinf(w) ? got : w) >= top && (w > 0) == (got > 0) ? 1 : HUGE_VAL;
  }
  if (w == 0 && got == 0 && !signbit(w) != !signbit(got)) return HUGE_VAL;
  frexpl(want, &e);
  if (want == 0 || e < lowest) e = lowest;
  return (double)(fabsl(got - want) / ldexpl(1, e - digits));
}

/* ---- against long double ---- */
static long double sigmoidl(long double x) {
  const long double e = expl(-fabsl(x));
  return (x >= 0 ? 1 : e) / (1 + e);
}
static long double rsqrtl(long double x) { return 1 / sqrtl(x); }
static const struct {
  int row;
  long double (*f)(long double);
} unary[] = {{R_exp, expl},         {R_exp2, exp2l}, {R_expm1, expm1l}, {R_log, logl},   {R_log2, log2l}, {R_log10, log10l},
             {R_log1p, log1pl},     {R_sqrt, sqrtl}, {R_rsqrt, rsqrtl}, {R_sin, sinl},   {R_cos, cosl},   {R_tan, tanl},
             {R_asin, asinl},       {R_acos, acosl}, {R_atan, atanl},   {R_sinh, sinhl}, {R_cosh, coshl}, {R_tanh, tanhl},
             {R_sigmoid, sigmoidl}, {R_erf, erfl},   {R_erfc, erfcl},   {R_floor, floorl}, {R_ceil, ceill}, {R_trunc, truncl},
             {R_round, rintl}};
static const struct {
  int row;
  long double (*f)(long double, long double);
} binary[] = {{R_pow, powl}, {R_atan2, atan2l}, {R_fmod, fmodl}};
#define COUNT(a) ((int)(sizeof(a) / sizeof *(a)))

static double a64[N * 8], b64[N * 8], c64[N * 8], g64[N * 8], y64[N * 8], o64[N * 8], q64[N * 8], r64[N * 8];

static void accuracy(const ag_kernels *k, int t, int rounds) {
  if (t == F64 && LDBL_MANT_DIG < 64) return; /* nothing to compare with */
  for (int u = 0; u < COUNT(unary) + COUNT(binary); u++) {
    const int two = u >= COUNT(unary), row = two ? binary[u - COUNT(unary)].row : unary[u].row;
    double worst = 0, where = 0, with = 0;
    for (int r = 0; r < rounds; r++) {
      for (int i = 0; i < N; i++) {
        put(t, a64, i, r == 0 ? special[i % COUNT(special)] : any_number(r, t));
        double b = r == 0 ? special[i / COUNT(special)] : any_number(r / 3, t);
        if (row == R_pow && r % 3) b = trunc(b);
        if (row == R_pow && r % 5 == 4) put(t, a64, i, exp((unit() * 2 - 1) * (t == F32 ? 88 : 700) / fabs(b)));
        put(t, b64, i, b);
      }
      k->ew[row].fwd[t](N, o64, a64, b64, NULL, NULL);
      for (int i = 0; i < N; i++) {
        const double x = get(t, a64, i), y = get(t, b64, i);
        const long double want = two ? binary[u - COUNT(unary)].f(x, y) : unary[u].f(x);
        const double e = ulps(t, get(t, o64, i), want);
        if (e > worst) worst = e, where = x, with = y;
      }
    }
    if (!(worst <= 2)) FAIL("%s of float%d: %.3g ULP at %a, %a", rows[row].name, t == F32 ? 32 : 64, worst, where, with);
  }
}

/* ---- every row ---- */
static const double params[2] = {0.75, 2.5};

static void fill(const struct row *w, int t, int n) {
  for (int i = 0; i < n; i++) {
    double v[3];
    for (int j = 0; j < 3; j++) v[j] = t >= F32 ? w->lo + (w->hi - w->lo) * unit() : (double)((int)(rnd() % 41) - 20);
    if (rnd() % 8 == 0) v[1] = v[0]; /* ties */
    put(w->kind == SELECT ? B8 : t, a64, i, v[0]);
    put(t, b64, i, v[1]);
    put(t, c64, i, v[2]);
    put(t, g64, i, unit() * 2 - 1);
    put(t, y64, i, v[0]);
  }
}

/* Compares the table with the baseline: composite rows cancel, so the measure is the larger of value and one. */
static void against_base(const ag_kernels *k, const ag_kernels *base, int t) {
  const double eps = t == F32 ? 0x1p-23 : 0x1p-52;
  for (int r = 0; r < ROWS; r++) {
    if (!k->ew[r].fwd[t] != !base->ew[r].fwd[t]) FAIL("%s has a kernel in one table only", rows[r].name);
    if (!k->ew[r].fwd[t]) continue;
    fill(&rows[r], t, N);
    k->ew[r].fwd[t](N, o64, a64, b64, c64, params);
    base->ew[r].fwd[t](N, q64, a64, b64, c64, params);
    if (t < F32 || rows[r].kind == CMP) {
      if (memcmp(o64, q64, N * (rows[r].kind == CMP ? 1 : size_of[t]))) FAIL("%s, dtype %d: differs from base", rows[r].name, t);
      continue;
    }
    for (int i = 0; i < N; i++) {
      const double d = get(t, o64, i), e = get(t, q64, i);
      if (!(fabs(d - e) <= 16 * eps * fmax(1, fabs(e))) && !(d != d && e != e)) {
        FAIL("%s, dtype %d: %.17g, base %.17g", rows[r].name, t, d, e);
        break;
      }
    }
    memcpy(y64, q64, sizeof y64);
    for (int j = 0; j < 3; j++) {
      if (!k->ew[r].bwd[j][t] != !base->ew[r].bwd[j][t]) FAIL("%s has derivative %d in one table only", rows[r].name, j);
      if (!k->ew[r].bwd[j][t]) continue;
      k->ew[r].bwd[j][t](N, o64, g64, a64, b64, c64, y64, params);
      base->ew[r].bwd[j][t](N, q64, g64, a64, b64, c64, y64, params);
      for (int i = 0; i < N; i++) {
        const double d = get(t, o64, i), e = get(t, q64, i);
        if (!(fabs(d - e) <= 32 * eps * fmax(1, fabs(e))) && !(d != d && e != e)) {
          FAIL("%s, derivative %d, dtype %d: %.17g, base %.17g", rows[r].name, j, t, d, e);
          break;
        }
      }
    }
  }
}

/* The same operands in pieces of all lengths from all places, and in place of each operand: the same bits, and not
 * a byte more is written. */
static void places(const ag_kernels *k, int t) {
  enum { M = 75 };
  for (int r = 0; r < ROWS; r++) {
    const struct row *w = &rows[r];
    const size_t so = w->kind == CMP ? 1 : size_of[t], sa = w->kind == SELECT ? 1 : size_of[t], s = size_of[t];
    if (!k->ew[r].fwd[t]) continue;
    fill(w, t, M);
    if (t >= F32 && w->kind != SELECT)
      for (int i = 0; i < M; i++)
        if (rnd() % 4 == 0) put(t, a64, i, special[rnd() % COUNT(special)]);
    k->ew[r].fwd[t](M, o64, a64, b64, c64, params);
    memcpy(y64, o64, M * so);
    int bad = 0;
    for (int n = 0; n <= 40; n++)
      for (int at = 0; at + n <= M && at < 20; at++) {
        memset(q64, 0x5a, sizeof q64);
        k->ew[r].fwd[t](n, (char *)q64 + so, (char *)a64 + at * sa, (char *)b64 + at * s, (char *)c64 + at * s, params);
        bad += memcmp((char *)q64 + so, (char *)o64 + at * so, n * so) != 0;
        for (size_t i = 0; i < so; i++) bad += ((char *)q64)[i] != 0x5a || ((char *)q64)[(n + 1) * so + i] != 0x5a;
      }
    if (bad) FAIL("%s, dtype %d: bits depend on the place", w->name, t);
    void *const in[3] = {a64, b64, c64};
    for (int j = 0; j < w->arity; j++) {
      if (so != (j == 0 ? sa : s)) continue;
      memcpy(r64, in[j], sizeof r64);
      const void *x[3] = {a64, b64, c64};
      x[j] = r64;
      k->ew[r].fwd[t](M, r64, x[0], x[1], x[2], params);
      if (memcmp(r64, o64, M * so)) FAIL("%s, dtype %d: differs in place of operand %d", w->name, t, j);
    }
    for (int j = 0; j < 3 && t >= F32; j++) {
      ag_k_ewd *d = k->ew[r].bwd[j][t];
      if (!d) continue;
      d(M, o64, g64, a64, b64, c64, y64, params);
      bad = 0;
      for (int n = 0; n <= 40; n++)
        for (int at = 0; at + n <= M && at < 20; at += 3) {
          memset(q64, 0x5a, sizeof q64);
          d(n, q64, (char *)g64 + at * s, (char *)a64 + at * sa, (char *)b64 + at * s, (char *)c64 + at * s,
            (char *)y64 + at * s, params);
          bad += memcmp(q64, (char *)o64 + at * s, n * s) != 0 || ((char *)q64)[n * s] != 0x5a;
        }
      if (bad) FAIL("%s, derivative %d, dtype %d: bits depend on the place", w->name, j, t);
    }
  }
}

/* ---- values by hand ---- */
#define INTS(T, t, row, want, ...)                                                                 \
  do {                                                                                             \
    const T x[][2] = __VA_ARGS__;                                                                  \
    const T w[] = {want};                                                                          \
    for (int i = 0; i < COUNT(w); i++) {                                                           \
      T o;                                                                                         \
      k->ew[R_##row].fwd[t](1, &o, &x[i][0], &x[i][1], NULL, NULL);                                \
      if (o != w[i]) FAIL(#row ", dtype %d: case %d gives %lld", t, i, (long long)o);              \
    }                                                                                              \
  } while (0)
#define LIST(...) __VA_ARGS__

static void by_hand(const ag_kernels *k) {
  INTS(int32_t, I32, floor_divide, LIST(3, -4, -4, 3, 0, INT32_MIN), {{7, 2}, {-7, 2}, {7, -2}, {-7, -2}, {5, 0}, {INT32_MIN, -1}});
  INTS(int64_t, I64, floor_divide, LIST(3, -4, -4, 3, 0, INT64_MIN), {{7, 2}, {-7, 2}, {7, -2}, {-7, -2}, {5, 0}, {INT64_MIN, -1}});
  INTS(uint8_t, U8, floor_divide, LIST(85, 0, 0), {{255, 3}, {5, 0}, {5, 255}});
  INTS(int32_t, I32, remainder, LIST(1, 1, -1, -1, 0, 0), {{7, 2}, {-7, 2}, {7, -2}, {-7, -2}, {5, 0}, {INT32_MIN, -1}});
  INTS(int64_t, I64, fmod, LIST(1, -1, 1, -1, 0, 0), {{7, 2}, {-7, 2}, {7, -2}, {-7, -2}, {5, 0}, {INT64_MIN, -1}});
  INTS(int64_t, I64, pow, LIST(1024, -27, 1, 0, 1, -1, 1, 0), {{2, 10}, {-3, 3}, {0, 0}, {2, -1}, {1, -5}, {-1, -3}, {-1, -4}, {0, -1}});
  INTS(uint8_t, U8, pow, LIST(0, 243, 1), {{2, 8}, {3, 5}, {255, 2}});
  INTS(uint8_t, U8, add, LIST(1, 255), {{255, 2}, {250, 5}});
  INTS(uint8_t, U8, sub, LIST(255, 3), {{0, 1}, {5, 2}});
  INTS(int32_t, I32, add, LIST(INT32_MIN), {{INT32_MAX, 1}});
  INTS(int32_t, I32, abs, LIST(5, INT32_MIN), {{-5, 0}, {INT32_MIN, 0}});
  INTS(int32_t, I32, sign, LIST(-1, 0, 1), {{-5, 0}, {0, 0}, {9, 0}});
  INTS(uint8_t, B8, add, LIST(0, 1, 1), {{0, 0}, {0, 1}, {1, 1}});
  INTS(uint8_t, B8, mul, LIST(0, 0, 1), {{0, 0}, {0, 1}, {1, 1}});
  INTS(uint8_t, B8, bitwise_not, LIST(1, 0), {{0, 0}, {1, 0}});
  INTS(uint8_t, U8, bitwise_not, LIST(255, 0), {{0, 0}, {255, 0}});
  INTS(uint8_t, B8, logical_xor, LIST(0, 1, 0), {{0, 0}, {0, 1}, {1, 1}});

#define REAL(row, x, y, want)                                                                      \
  do {                                                                                             \
    const float fx = (float)(x), fy = (float)(y);                                                  \
    const double dx = x, dy = y, w = want;                                                         \
    float fo;                                                                                      \
    double d;                                                                                      \
    k->ew[R_##row].fwd[F32](1, &fo, &fx, &fy, NULL, &dy);                                          \
    k->ew[R_##row].fwd[F64](1, &d, &dx, &dy, NULL, &dy);                                           \
    if (!(w != w ? d != d && fo != fo : d == w && fo == (float)w && !signbit(d) == !signbit(w)))   \
      FAIL(#row " of %g, %g: %.9g and %.17g, should be %g", dx, dy, (double)fo, d, w);             \
  } while (0)
  REAL(relu, NAN, 0, NAN);
  REAL(relu, -1, 0, 0);
  REAL(sign, NAN, 0, 0);
  REAL(sign, 0, 0, 0);
  REAL(sign, -3, 0, -1);
  REAL(maximum, NAN, 1, NAN);
  REAL(maximum, 1, NAN, NAN);
  REAL(minimum, NAN, 1, NAN);
  REAL(minimum, 1, NAN, NAN);
  REAL(maximum, 1, 2, 2);
  REAL(round, 0.5, 0, 0);
  REAL(round, 1.5, 0, 2);
  REAL(round, -2.5, 0, -2);
  REAL(round, -0.25, 0, -0.0);
  REAL(floor_divide, 7, -2, -4);
  REAL(floor_divide, -1, 3, -1);
  REAL(floor_divide, 1, 0, HUGE_VAL);
  REAL(remainder, 7, -2, -1);
  REAL(remainder, -7, 2, 1);
  REAL(remainder, 1, HUGE_VAL, 1);
  REAL(fmod, -7, 2, -1);
  REAL(fmod, 1, 0, NAN);
  REAL(pow, -2, 3, -8);
  REAL(pow, -8, 1. / 3, NAN);
  REAL(pow, 0, 0, 1);
  REAL(pow, NAN, 0, 1);
  REAL(pow, 1, NAN, 1);
  REAL(pow, -0.0, -3, -HUGE_VAL);
  REAL(pow, -HUGE_VAL, 3, -HUGE_VAL);
  REAL(pow, -1, HUGE_VAL, 1);
  REAL(pow, 0.5, -HUGE_VAL, HUGE_VAL);
  REAL(pow, 10, 2, 100);
  REAL(pow_scalar, 0, 0, 1);
  REAL(pow_scalar, -3, 2, 9);
  REAL(pow_scalar, -3, 3, -27);
  REAL(pow_scalar, 4, 0.5, 2);
  REAL(pow_scalar, 4, -0.5, 0.5);
  REAL(pow_scalar, 4, -1, 0.25);
  REAL(pow_scalar, -2, -2, 0.25);
  REAL(pow_scalar, 2, 10, 1024);
  REAL(cos, 0, 0, 1);
  REAL(sin, -0.0, 0, -0.0);
  REAL(exp, 0, 0, 1);
  REAL(exp2, 10, 0, 1024);
  REAL(log, 1, 0, 0);
  REAL(log2, 1024, 0, 10);
  REAL(log10, 1000, 0, 3);
  REAL(tanh, 30, 0, 1);
  REAL(erf, 7, 0, 1);
  REAL(sigmoid, 0, 0, 0.5);

  /* derivatives that need no kernel, and one that needs only g */
  if (k->ew[R_add].bwd[0][F32] || k->ew[R_remainder].bwd[0][F64] || k->ew[R_floor_divide].bwd[1][F32] || k->ew[R_eq].bwd[0][F32])
    FAIL("a kernel for g itself, or for nothing");
  if (!k->ew[R_mul].bwd[0][F32] || !k->ew[R_where].bwd[2][F64] || !k->ew[R_lerp].bwd[2][F32] || k->ew[R_mul].bwd[0][I32])
    FAIL("missing derivative");
  const float g[3] = {1, 2, 3}, x1[3] = {4, 5, 6};
  float dx[3];
  k->ew[R_mul].bwd[0][F32](3, dx, g, NULL, x1, NULL, NULL, NULL);
  if (dx[0] != 4 || dx[1] != 10 || dx[2] != 18) FAIL("mul, derivative 0: %g %g %g", dx[0], dx[1], dx[2]);
}

int main(int argc, char **argv) {
  const int rounds = argc > 1 ? atoi(argv[1]) : 60;
  const ag_kernels *base = NULL;
  for (const ag_kernels *const *k = ag__kernels_all(); *k; k++) base = *k; /* the last one */
  isa = "dispatch";
  if (strcmp(base->isa, "base") || !ag__kernels_usable(base)) FAIL("no baseline");
  ag__kernels_init();
  if (!ag__kernels_usable(ag__k)) FAIL("chose what cannot run");
  for (const ag_kernels *const *k = ag__kernels_all(); *k; k++) {
    isa = (*k)->isa;
    if (!ag__kernels_usable(*k)) continue;
    for (int t = F32; t <= F64; t++) accuracy(*k, t, rounds);
    for (int t = B8; t <= F64; t++) {
      if (*k != base) against_base(*k, base, t);
      places(*k, t);
    }
    by_hand(*k);
    printf("%s: %s\n", isa, failures ? "failures so far" : "ok");
  }
  return failures != 0;
}
