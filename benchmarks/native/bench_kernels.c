/* bench_kernels.c: what each kernel of the table costs, beside what the machine can do.
 *
 *   cc -O2 bench_kernels.c <kernels' objects> -lm                       the table in use
 *   cc -DAG_HAVE_OPENBLAS -I<openblas>/include ... -lscipy_openblas      adds OpenBLAS to the matrix products
 *
 *   bench_kernels [--isa NAME] [--only TEXT] [--ms N] [--json FILE]
 *
 * One line a kernel, type and size: ns a call, GB/s over the bytes that must be read and written, or GFLOP/s, and the
 * fraction of a peak: for memory, a triad (a = b + s*c) of the same size and type; for arithmetic, a loop of independent
 * FMAs (multiplications and additions where the table has no FMA).  Times are minima of five runs, one thread. */
#define _POSIX_C_SOURCE 200809L
#include "../../csrc/kernels/kernels.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#if defined(__x86_64__) || defined(__i386__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif
#ifdef AG_HAVE_OPENBLAS
#include "cblas.h"
#endif

enum { B8, U8, I32, I64, F32, F64 };
static const size_t size_of[] = {1, 1, 4, 8, 4, 8};
static const char *const name_of[] = {"bool", "uint8", "int32", "int64", "float32", "float64"};

/* ---- the elementwise rows of the op table ---- */
typedef struct row {
  const char *name;
  int arity, kind; /* kind: 'e' elementwise, 'c' condition, 's' where, 'f' function: not ours */
  double lo, hi;
} row;
static const row rows[] = {
#define EW1(name, Grad, types, flags, lo, hi, kernel, D0) {#name, 1, 'e', lo, hi},
#define EW2(name, Grad, types, flags, lo, hi, kernel, D0, D1) {#name, 2, 'e', lo, hi},
#define EW3(name, Grad, types, flags, lo, hi, kernel, D0, D1, D2) {#name, 3, 'e', lo, hi},
#define CMP1(name, types, flags, lo, hi, cond) {#name, 1, 'c', lo, hi},
#define CMP2(name, types, flags, lo, hi, cond) {#name, 2, 'c', lo, hi},
#define SEL3(name, Grad, types, flags, lo, hi, kernel, D1, D2) {#name, 3, 's', lo, hi},
#define FN(name, Grad, n_in, n_out, flags) {#name, 0, 'f', 0, 0},
#include "../../csrc/ops/ag_ops.inc"
};

/* ---- one call, its arguments in one place ---- */
typedef struct call {
  void (*run)(const struct call *);
  ag_k_ew *ew;
  ag_k_ewd *ewd;
  const ag_kernels *k;
  int t, u, op, flags, ta, tb;
  int64_t n, m, inner, q;
  void *out, *a, *b, *c, *d;
  const ag_k_convgeom *geom;
} call;

static double now(void)
{
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static double budget = 2e6; /* ns a run */
static double time_call(const call *c)
{
  double best = 1e300;
  int64_t reps = 1;
  c->run(c);
  for (;;) {
    const double t = now();
    for (int64_t i = 0; i < reps; i++)
      c->run(c);
    const double e = now() - t;
    if (e > budget / 4) {
      reps = (int64_t)((double)reps * budget / e) + 1;
      break;
    }
    reps *= 4;
  }
  for (int r = 0; r < 5; r++) {
    const double t = now();
    for (int64_t i = 0; i < reps; i++)
      c->run(c);
    const double e = (now() - t) / (double)reps;
    if (e < best)
      best = e;
  }
  return best;
}

/* ---- output ---- */
static FILE *json;
static int json_rows;
static const char *only, *isa;
static double peak_flops[2], triad[2][2]; /* by type, by size */

static int wanted(const char *name) { return !only || strstr(name, only); }

static void report(const char *name, const char *type, const char *shape, double ns, double bytes, double flops,
                   double peak, double other)
{
  const double rate = flops > 0 ? flops / ns : bytes / ns;
  printf("%-22s %-8s %-18s %12.1f ns %9.2f %s", name, type, shape, ns, rate, flops > 0 ? "GFLOP/s" : "GB/s   ");
  if (peak > 0)
    printf(" %6.1f %%", 100 * rate / peak);
  else
    printf("         ");
  if (other > 0)
    printf("   OpenBLAS %10.1f ns, ratio %.2f", other, ns / other);
  printf("\n");
  if (json) {
    fprintf(json, "%s\n{\"kernel\":\"%s\",\"isa\":\"%s\",\"type\":\"%s\",\"shape\":\"%s\",\"ns\":%.2f,\"%s\":%.3f", json_rows++ ? "," : "",
            name, isa, type, shape, ns, flops > 0 ? "gflops" : "gbs", rate);
    if (peak > 0)
      fprintf(json, ",\"fraction\":%.4f", rate / peak);
    if (other > 0)
      fprintf(json, ",\"openblas_ns\":%.2f", other);
    fprintf(json, "}");
  }
}

/* ---- peaks ---- */
#define PEAK(name, attr, V, T, set, fma)                                                       \
  attr static double name(void)                                                                \
  {                                                                                            \
    double best = 1e300;                                                                       \
    const int64_t reps = 200000;                                                               \
    V a[12], x = set((T).999999), y = set((T)1e-7);                                            \
    for (int i = 0; i < 12; i++)                                                               \
      a[i] = set((T)(1 + i));                                                                  \
    for (int r = 0; r < 7; r++) {                                                              \
      const double t = now();                                                                  \
      for (int64_t k = 0; k < reps; k++) {                                                     \
        for (int i = 0; i < 12; i++)                                                           \
          a[i] = fma(a[i], x, y);                                                              \
      }                                                                                        \
      const double e = now() - t;                                                              \
      best = e < best ? e : best;                                                              \
    }                                                                                          \
    volatile T sink = 0;                                                                       \
    T lanes[sizeof(V) / sizeof(T)];                                                            \
    for (int i = 0; i < 12; i++) {                                                             \
      memcpy(lanes, &a[i], sizeof(V));                                                         \
      sink = sink + lanes[0];                                                                  \
    }                                                                                          \
    return (double)reps * 12 * 2 * (double)(sizeof(V) / sizeof(T)) / best;                     \
  }
#if defined(__x86_64__)
PEAK(peak512f, __attribute__((target("avx512f"))), __m512, float, _mm512_set1_ps, _mm512_fmadd_ps)
PEAK(peak512d, __attribute__((target("avx512f"))), __m512d, double, _mm512_set1_pd, _mm512_fmadd_pd)
PEAK(peak256f, __attribute__((target("avx2,fma"))), __m256, float, _mm256_set1_ps, _mm256_fmadd_ps)
PEAK(peak256d, __attribute__((target("avx2,fma"))), __m256d, double, _mm256_set1_pd, _mm256_fmadd_pd)
#define SSE_MULADDF(a, b, c) _mm_add_ps(_mm_mul_ps(a, b), c)
#define SSE_MULADDD(a, b, c) _mm_add_pd(_mm_mul_pd(a, b), c)
PEAK(peak128f, , __m128, float, _mm_set1_ps, SSE_MULADDF)
PEAK(peak128d, , __m128d, double, _mm_set1_pd, SSE_MULADDD)
static void measure_peaks(void)
{
  const int wide = !strcmp(isa, "avx512"), middle = !strcmp(isa, "avx2");
  peak_flops[0] = wide ? peak512f() : middle ? peak256f() : peak128f();
  peak_flops[1] = wide ? peak512d() : middle ? peak256d() : peak128d();
}
#elif defined(__aarch64__)
#define NEON_FMAF(a, b, c) vfmaq_f32(c, a, b)
#define NEON_FMAD(a, b, c) vfmaq_f64(c, a, b)
PEAK(peak128f, , float32x4_t, float, vdupq_n_f32, NEON_FMAF)
PEAK(peak128d, , float64x2_t, double, vdupq_n_f64, NEON_FMAD)
static void measure_peaks(void)
{
  peak_flops[0] = peak128f();
  peak_flops[1] = peak128d();
}
#else
static void measure_peaks(void) {}
#endif

static void triad_f32(const call *c)
{
  float *restrict o = c->out;
  const float *restrict a = c->a, *restrict b = c->b;
  for (int64_t i = 0; i < c->n; i++)
    o[i] = a[i] + .5f * b[i];
}
static void triad_f64(const call *c)
{
  double *restrict o = c->out;
  const double *restrict a = c->a, *restrict b = c->b;
  for (int64_t i = 0; i < c->n; i++)
    o[i] = a[i] + .5 * b[i];
}

/* ---- operands ---- */
enum { MAXN = 1 << 20 };
static const int64_t sizes[2] = {4096, 1000000};
static unsigned char *memory[5];

static void fill(void *p, int t, int64_t n, double lo, double hi)
{
  uint64_t s = 88172645463325252u;
  for (int64_t i = 0; i < n; i++) {
    s ^= s << 13;
    s ^= s >> 7;
    s ^= s << 17;
    const double v = lo + (hi - lo) * ((double)(s >> 11) * 0x1p-53);
    if (t == F32)
      ((float *)p)[i] = (float)v;
    else if (t == F64)
      ((double *)p)[i] = v;
    else if (t == I64)
      ((int64_t *)p)[i] = 1 + (int64_t)(s >> 61);
    else if (t == I32)
      ((int32_t *)p)[i] = 1 + (int32_t)(s >> 61);
    else
      ((uint8_t *)p)[i] = t == B8 ? (uint8_t)(s >> 63) : (uint8_t)(1 + (s >> 61));
  }
}
static const double numbers[4] = {1.5, 20, 0, 0}; /* an exponent, a slope, bounds, .. */

static void run_ew(const call *c) { c->ew(c->n, c->out, c->a, c->b, c->c, numbers); }
static void run_ewd(const call *c) { c->ewd(c->n, c->out, c->d, c->a, c->b, c->c, c->c, numbers); }

static void elementwise(const ag_kernels *k)
{
  for (size_t r = 0; r < sizeof rows / sizeof *rows; r++)
    for (int t = B8; t <= F64; t++) {
      ag_k_ew *f = k->ew && rows[r].kind != 'f' ? k->ew[r].fwd[t] : NULL;
      if (!f || !wanted(rows[r].name))
        continue;
      call c = {.run = run_ew, .ew = f, .out = memory[0], .a = memory[1], .b = memory[2], .c = memory[3], .d = memory[4]};
      for (int q = 1; q < 5; q++)
        fill(memory[q], t, sizes[1], rows[r].lo, rows[r].hi);
      if (rows[r].kind == 's')
        fill(memory[1], B8, sizes[1], 0, 1);
      for (int z = 0; z < 2; z++) {
        char shape[32];
        const double w = (double)size_of[t], peak = t >= F32 ? triad[t - F32][z] : 0;
        const double in = rows[r].kind == 's' ? 1 + 2 * w : rows[r].arity * w, out = rows[r].kind == 'c' ? 1 : w;
        c.n = sizes[z];
        snprintf(shape, sizeof shape, "%lld", (long long)c.n);
        report(rows[r].name, name_of[t], shape, time_call(&c), (in + out) * (double)c.n, 0, peak, 0);
        for (int d = 0; d < 3 && t >= F32; d++)
          if (k->ew[r].bwd[d][t]) {
            char name[64];
            call e = c;
            e.run = run_ewd;
            e.ewd = k->ew[r].bwd[d][t];
            snprintf(name, sizeof name, "%s'%d", rows[r].name, d);
            /* all operands are counted, though a derivative may need fewer */
            report(name, name_of[t], shape, time_call(&e), (in + 2 * w) * (double)c.n, 0, peak, 0);
          }
      }
    }
}

/* ---- the rest ---- */
static void run_reduce(const call *c) { c->k->reduce[c->op][c->t](c->m, c->n, c->inner, c->out, c->a); }
static void run_arg(const call *c) { c->k->argmax[c->t](c->m, c->n, c->inner, NULL, c->out, c->a); }
static void run_cumulate(const call *c) { c->k->cumulate[c->t](c->m, c->n, c->inner, c->out, c->a, 0); }
static void run_softmax(const call *c) { c->k->softmax[c->t](c->m, c->n, c->inner, c->out, c->a, c->flags); }
static void run_softmax_bwd(const call *c)
{
  c->k->softmax_bwd[c->t](c->m, c->n, c->inner, c->out, c->a, c->b, c->flags);
}
static void run_cast(const call *c) { c->k->cast[c->t][c->u](c->n, c->out, c->a); }
static void run_pack(const call *c)
{
  const int64_t cols = c->n / c->m, shape[2] = {c->m, cols}, turned[2] = {1, c->m}, flip[2] = {cols, -1}, wide[2] = {0, 1},
                tall[2] = {1, 0}, pick[2] = {cols * 2, 2};
  const int64_t *const strides[] = {turned, flip, wide, tall, pick};
  const unsigned char *x = c->a;
  const int size = (int)size_of[c->t];
  if (c->op == 1)
    x += (cols - 1) * size;
  if (c->flags)
    c->k->unpack(2, shape, strides[c->op], 0, c->n, c->out, x, size);
  else
    c->k->pack(2, shape, strides[c->op], 0, c->n, c->out, x, size);
}
static void run_unfold(const call *c) { c->k->unfold[c->t](c->geom, c->out, c->a); }
static void run_fold(const call *c) { c->k->fold[c->t](c->geom, c->out, c->a); }
static void run_pool(const call *c) { c->k->maxpool[c->t](c->geom, c->out, c->b, c->a); }
static void run_sgd(const call *c)
{
  c->k->sgd[c->t](c->n, c->out, c->a, c->flags ? c->b : NULL, (const double[]){1e-9, c->flags ? .9 : 0, 0, 0}, 0);
}
static void run_adam(const call *c)
{
  c->k->adam[c->t](c->n, c->out, c->a, c->b, c->c, (const double[]){1e-9, .9, .999, 1e-8, 0, 3}, 0);
}
static void run_random(const call *c) { (c->flags ? c->k->normal : c->k->uniform)[c->t](c->n, c->out, 1, 2, 0, 0, 1); }

static void memory_kernels(const ag_kernels *k)
{
  static const char *const red[] = {"sum", "prod", "max", "min", "any", "all"};
  static const char *const moves[] = {"transpose", "flip", "repeat rows", "repeat columns", "step 2"};
  for (int t = B8; t <= F64; t++)
    for (int z = 0; z < 2; z++) {
      const double w = (double)size_of[t], n = (double)sizes[z], peak = t >= F32 ? triad[t - F32][z] : 0;
      const int64_t side = z ? 1000 : 64;
      const struct {
        const char *text;
        int64_t m, n, inner;
      } shapes[] = {{"all", 1, sizes[z], 1},
                    {"rows", side, sizes[z] / side, 1},
                    {"columns", 1, sizes[z] / side, side},
                    {"rows of 10", sizes[z] / 10, 10, 1},
                    {"columns, 4 wide", 1, sizes[z] / 4, 4}};
      char text[64];
      call c = {.k = k, .t = t, .out = memory[0], .a = memory[1], .b = memory[2], .c = memory[3]};
      for (int q = 0; q < 4; q++)
        fill(memory[q], t, sizes[1], .5, 1.5);
#define SHAPE(s) (snprintf(text, sizeof text, "%lld %s", (long long)sizes[z], s), text)
      for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
        c.m = shapes[s].m;
        c.n = shapes[s].n;
        c.inner = shapes[s].inner;
        const double outs = (double)(c.m * c.inner);
        c.run = run_reduce;
        for (c.op = 0; c.op < AG_R_COUNT; c.op++)
          if (wanted(red[c.op]) && k->reduce[c.op][t])
            report(red[c.op], name_of[t], SHAPE(shapes[s].text), time_call(&c), w * (n + outs), 0, peak, 0);
        c.run = run_arg;
        if (wanted("argmax") && k->argmax[t])
          report("argmax", name_of[t], SHAPE(shapes[s].text), time_call(&c), w * n + 8 * outs, 0, peak, 0);
        c.run = run_cumulate;
        if (wanted("cumsum") && k->cumulate[t])
          report("cumsum", name_of[t], SHAPE(shapes[s].text), time_call(&c), (t < F32 ? w + 8 : 2 * w) * n, 0, peak, 0);
        for (c.flags = 0; c.flags < 2 && k->softmax[t]; c.flags++) {
          c.run = run_softmax;
          if (wanted(c.flags ? "log_softmax" : "softmax"))
            report(c.flags ? "log_softmax" : "softmax", name_of[t], SHAPE(shapes[s].text), time_call(&c), 2 * w * n, 0, peak, 0);
          c.run = run_softmax_bwd;
          if (wanted(c.flags ? "log_softmax'" : "softmax'"))
            report(c.flags ? "log_softmax'" : "softmax'", name_of[t], SHAPE(shapes[s].text), time_call(&c), 3 * w * n, 0, peak, 0);
        }
      }
      c.n = sizes[z];
      c.run = run_cast;
      for (c.u = B8; c.u <= F64; c.u++) {
        snprintf(text, sizeof text, "cast to %s", name_of[c.u]);
        if (wanted(text) && k->cast[t][c.u]) {
          char shape[32];
          snprintf(shape, sizeof shape, "%lld", (long long)c.n);
          report(text, name_of[t], shape, time_call(&c), (w + (double)size_of[c.u]) * n, 0, peak, 0);
        }
      }
      c.run = run_pack;
      c.m = side;
      for (c.op = 0; c.op < 5 && t != B8 && t != I32 && t != I64; c.op++)
        for (c.flags = 0; c.flags < 2; c.flags++)
          if (wanted(c.flags ? "unpack" : "pack") && !(c.op >= 2 && c.flags && c.op < 4) && c.n <= MAXN / 2 * (c.op == 4 ? 1 : 2))
            report(c.flags ? "unpack" : "pack", name_of[t], SHAPE(moves[c.op]), time_call(&c), 2 * w * n, 0, peak, 0);
      if (t < F32)
        continue;
      c.run = run_sgd;
      for (c.flags = 0; c.flags < 2; c.flags++)
        if (wanted("sgd"))
          report(c.flags ? "sgd momentum" : "sgd", name_of[t], SHAPE(""), time_call(&c), (c.flags ? 5 : 3) * w * n, 0, peak, 0);
      c.run = run_adam;
      if (wanted("adam"))
        report("adam", name_of[t], SHAPE(""), time_call(&c), 7 * w * n, 0, peak, 0);
      c.run = run_random;
      for (c.flags = 0; c.flags < 2; c.flags++)
        if (wanted(c.flags ? "normal" : "uniform"))
          report(c.flags ? "normal" : "uniform", name_of[t], SHAPE(""), time_call(&c), w * n, 0, peak, 0);
      ag_k_convgeom g = {.nd = 2, .c = z ? 8 : 1, .in = {z ? 96 : 20, z ? 96 : 20}, .out = {z ? 96 : 20, z ? 96 : 20},
                         .k = {3, 3}, .stride = {1, 1}, .pad = {1, 1}, .dil = {1, 1}};
      const double px = (double)(g.c * g.in[0] * g.in[1]);
      c.geom = &g;
      c.run = run_unfold;
      snprintf(text, sizeof text, "%lldx%lldx%lld", (long long)g.c, (long long)g.in[0], (long long)g.in[1]);
      if (wanted("unfold 3x3"))
        report("unfold 3x3", name_of[t], text, time_call(&c), w * px * 10, 0, peak, 0);
      c.run = run_fold;
      if (wanted("fold 3x3"))
        report("fold 3x3", name_of[t], text, time_call(&c), w * px * 11, 0, peak, 0);
      c.run = run_pool;
      if (wanted("maxpool 3x3"))
        report("maxpool 3x3", name_of[t], text, time_call(&c), (2 * w + 8) * px, 0, peak, 0);
      g.k[0] = g.k[1] = g.stride[0] = g.stride[1] = 2;
      g.pad[0] = g.pad[1] = 0;
      g.out[0] = g.out[1] = g.in[0] / 2;
      if (wanted("maxpool 2x2"))
        report("maxpool 2x2", name_of[t], text, time_call(&c), w * px + (w + 8) * px / 4, 0, peak, 0);
    }
}

static void run_gemm(const call *c)
{
  const int64_t m = c->m, n = c->n, k = c->q;
  c->k->gemm[c->t](c->ta, c->tb, m, n, k, 1, c->a, c->ta ? m : k, c->b, c->tb ? k : n, 0, c->out, n);
}
#ifdef AG_HAVE_OPENBLAS
static void run_openblas(const call *c)
{
  const int m = (int)c->m, n = (int)c->n, k = (int)c->q, lda = c->ta ? m : k, ldb = c->tb ? k : n;
  if (c->t == F32)
    scipy_cblas_sgemm(CblasRowMajor, c->ta ? CblasTrans : CblasNoTrans, c->tb ? CblasTrans : CblasNoTrans, m, n, k, 1, c->a,
                      lda, c->b, ldb, 0, c->out, n);
  else
    scipy_cblas_dgemm(CblasRowMajor, c->ta ? CblasTrans : CblasNoTrans, c->tb ? CblasTrans : CblasNoTrans, m, n, k, 1, c->a,
                      lda, c->b, ldb, 0, c->out, n);
}
#endif

static void products(const ag_kernels *k)
{
  static const int64_t shapes[][3] = {{1, 1, 1},    {2, 2, 2},    {4, 4, 4},    {5, 7, 9},    {8, 8, 8},     {16, 16, 16},
                                      {24, 24, 24}, {32, 32, 32}, {1, 64, 8},   {1, 64, 64},  {8, 64, 64},   {32, 64, 8},
                                      {32, 8, 64},  {64, 64, 64}, {128, 128, 128}, {256, 256, 256}, {512, 512, 512},
                                      {1, 256, 256}, {256, 1, 256}, {32, 256, 256}, {1, 1000, 1000}, {1000, 1, 1000}};
  if (!wanted("gemm"))
    return;
  for (int t = F32; t <= F64; t++) {
    fill(memory[1], t, MAXN, -1, 1);
    fill(memory[2], t, MAXN, -1, 1);
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
      for (int tr = 0; tr < 3; tr++) {
        call c = {.run = run_gemm, .k = k, .t = t, .m = shapes[s][0], .n = shapes[s][1], .q = shapes[s][2], .ta = tr == 2,
                  .tb = tr == 1, .out = memory[0], .a = memory[1], .b = memory[2]};
        const double ns = time_call(&c), flops = 2.0 * (double)c.m * (double)c.n * (double)c.q;
        double other = 0;
        char name[16], shape[48];
#ifdef AG_HAVE_OPENBLAS
        c.run = run_openblas;
        other = time_call(&c);
#endif
        snprintf(name, sizeof name, "gemm %c%c", c.ta ? 't' : 'n', c.tb ? 't' : 'n');
        snprintf(shape, sizeof shape, "%lldx%lldx%lld", (long long)c.m, (long long)c.n, (long long)c.q);
        report(name, name_of[t], shape, ns, 0, flops, peak_flops[t - F32], other);
      }
  }
}

int main(int argc, char **argv)
{
  const ag_kernels *k;
  const char *want = NULL, *path = NULL;

  for (int i = 1; i < argc; i++) {
    if (i + 1 < argc && !strcmp(argv[i], "--isa"))
      want = argv[++i];
    else if (i + 1 < argc && !strcmp(argv[i], "--only"))
      only = argv[++i];
    else if (i + 1 < argc && !strcmp(argv[i], "--ms"))
      budget = atof(argv[++i]) * 1e6;
    else if (i + 1 < argc && !strcmp(argv[i], "--json"))
      path = argv[++i];
    else {
      fprintf(stderr, "usage: %s [--isa NAME] [--only TEXT] [--ms N] [--json FILE]\n", argv[0]);
      return 2;
    }
  }
  ag__kernels_init();
  k = ag__k;
  if (want) {
    const ag_kernels *const *t = ag__kernels_all();
    while (*t && (strcmp((*t)->isa, want) != 0 || !ag__kernels_usable(*t)))
      t++;
    k = *t;
    if (!k) {
      fprintf(stderr, "%s: no such table here\n", want);
      return 2;
    }
  }
  isa = k->isa;
  if (path && !(json = fopen(path, "w"))) {
    perror(path);
    return 1;
  }
#ifdef AG_HAVE_OPENBLAS
  scipy_openblas_set_num_threads(1);
#endif
  for (int q = 0; q < 5; q++) { /* twice the largest operand: steps of 2, results of 8 bytes */
    memory[q] = aligned_alloc(64, (size_t)MAXN * 16);
    if (!memory[q])
      return 1;
    memset(memory[q], 0, (size_t)MAXN * 16);
  }
  measure_peaks();
  printf("table %s; FMA peak %.1f GFLOP/s float32, %.1f float64 (one thread)\n", isa, peak_flops[0], peak_flops[1]);
  for (int t = F32; t <= F64; t++)
    for (int z = 0; z < 2; z++) {
      call c = {.run = t == F32 ? triad_f32 : triad_f64, .n = sizes[z], .out = memory[0], .a = memory[1], .b = memory[2]};
      triad[t - F32][z] = 3 * (double)size_of[t] * (double)c.n / time_call(&c);
      printf("triad %s %lld: %.1f GB/s\n", name_of[t], (long long)c.n, triad[t - F32][z]);
    }
  if (json)
    fprintf(json, "{\"isa\":\"%s\",\"peak_gflops\":[%.2f,%.2f],\"triad_gbs\":[[%.2f,%.2f],[%.2f,%.2f]],\"rows\":[", isa, peak_flops[0],
            peak_flops[1], triad[0][0], triad[0][1], triad[1][0], triad[1][1]);
  elementwise(k);
  memory_kernels(k);
  products(k);
  if (json) {
    fprintf(json, "\n]}\n");
    if (fclose(json)) {
      perror(path);
      return 1;
    }
  }
  return 0;
}
