/* fn_random.c: random fills.
 *
 * A generator is two numbers, seed and counter.  The counter names the stream of one call; it moves on by the elements
 * drawn, in whole blocks of four words.  Element i is made of words of its own of that stream (Philox, kernels/random.inc),
 * so it depends on seed, counter and i alone, not on threads or blocks.  (A permutation, and a sample without
 * replacement, depend on all the words of their call.)  A second block of the same element, where one is needed, has a
 * high bit in its number. */
#include "ops/fn_util.h"
#include "ops/par.h"

#include <math.h>

enum { BLOCK = 512 }; /* elements at a time */

typedef struct draw {
  int op, dtype, ptype;
  char *out;
  const char *p; /* one number for each element, of type ptype */
  uint64_t seed, counter;
  double a, b;
  int64_t first;
  uint64_t count;
} draw;

/* Block `block` of the stream, one at a time: for the few elements that need more words. */
static void philox(const draw *d, uint64_t block, uint32_t w[4]) {
  uint32_t x[4] = {(uint32_t)block, (uint32_t)(block >> 32), (uint32_t)d->counter, (uint32_t)(d->counter >> 32)};
  uint32_t k0 = (uint32_t)d->seed, k1 = (uint32_t)(d->seed >> 32);
  for (int r = 0; r < 10; r++) {
    uint64_t a = (uint64_t)x[0] * 0xD2511F53u, b = (uint64_t)x[2] * 0xCD9E8D57u;
    x[0] = (uint32_t)(b >> 32) ^ x[1] ^ k0;
    x[1] = (uint32_t)b;
    x[2] = (uint32_t)(a >> 32) ^ x[3] ^ k1;
    x[3] = (uint32_t)a;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  memcpy(w, x, sizeof x);
}

static uint64_t wide(const uint32_t *w) { return (uint64_t)w[1] << 32 | w[0]; }
static double unit(uint64_t k) { return (double)(k >> 11) * 0x1p-53; } /* [0, 1) */

/* The upper half of a product of 64 bits: k scaled from 2^64 to n. */
static uint64_t scaled(uint64_t k, uint64_t n) {
#ifdef __SIZEOF_INT128__
  __extension__ typedef unsigned __int128 wider;
  return (uint64_t)((wider)k * n >> 64);
#else
  uint64_t a = k >> 32, b = k & 0xffffffffu, c = n >> 32, e = n & 0xffffffffu, m = a * e + (b * e >> 32);
  return a * c + (m >> 32) + (((m & 0xffffffffu) + b * c) >> 32);
#endif
}

/* A whole number below n <= 2^32 of word w and, rarely, more words of the element: every number equally often (Lemire,
 * "Fast random integer generation in an interval", 2019). */
static uint64_t below(const draw *d, int64_t element, uint32_t w, uint64_t n) {
  uint64_t m = w * n;
  if (AG_UNLIKELY((uint32_t)m < n)) {
    uint32_t least = (uint32_t)((UINT64_C(1) << 32) % n), again[4];
    for (uint64_t attempt = 1; (uint32_t)m < least; attempt++) {
      philox(d, (uint64_t)element | attempt << 44, again);
      m = again[0] * n;
    }
  }
  return m >> 32;
}

/* Words of elements from .. from + n, `each` words an element. */
static void words(const draw *d, int64_t from, int64_t n, int each, uint32_t *w) {
  ag__k->words(n * each, w, d->seed, d->counter, from * each);
}

/* Numbers strictly between 0 and 1: 31 bits of a word, or 53 of two. */
static void open_f32(const uint32_t *w, int64_t n, float *u) {
  for (int64_t i = 0; i < n; i++) {
    float x = (float)(int32_t)(w[i] >> 1) * 0x1p-31f + 0x1p-32f;
    u[i] = x < 1 ? x : 1 - 0x1p-24f;
  }
}
static void open_f64(const uint32_t *w, int64_t n, double *u) {
  for (int64_t i = 0; i < n; i++) {
    double x = unit(wide(w + 2 * i)) + 0x1p-54;
    u[i] = x < 1 ? x : 1 - 0x1p-53;
  }
}

static void unary(int op, int dtype, int64_t n, void *x) { ag__k->ew[op].fwd[dtype](n, x, x, NULL, NULL, NULL); }

/* ---- exponential, cauchy, log_normal: float32 and float64 ---- */

/* -log(u) / rate */
static int part_exponential(void *ctx, int slot, int64_t from, int64_t to) {
  const draw *d = ctx;
  uint32_t w[2 * BLOCK];
  (void)slot;
  for (int64_t at = from; at < to; at += BLOCK) {
    int64_t n = to - at < BLOCK ? to - at : BLOCK;
    if (d->dtype == AG_FLOAT32) {
      float *o = (float *)(void *)d->out + at, scale = (float)(-1 / d->a);
      words(d, at, n, 1, w);
      open_f32(w, n, o);
      unary(AG_OP_log, AG_FLOAT32, n, o);
      for (int64_t i = 0; i < n; i++) o[i] *= scale;
    } else {
      double *o = (double *)(void *)d->out + at, scale = -1 / d->a;
      words(d, at, n, 2, w);
      open_f64(w, n, o);
      unary(AG_OP_log, AG_FLOAT64, n, o);
      for (int64_t i = 0; i < n; i++) o[i] *= scale;
    }
  }
  return AG_OK;
}

/* The tangent of a uniform angle, as sign / tan(pi v), v in (0, 1/2): both tails alike, and none of them beyond a pole. */
static int part_cauchy(void *ctx, int slot, int64_t from, int64_t to) {
  const draw *d = ctx;
  uint32_t w[2 * BLOCK];
  (void)slot;
  for (int64_t at = from; at < to; at += BLOCK) {
    int64_t n = to - at < BLOCK ? to - at : BLOCK;
    if (d->dtype == AG_FLOAT32) {
      float *o = (float *)(void *)d->out + at, m = (float)d->a, s = (float)d->b;
      words(d, at, n, 1, w);
      for (int64_t i = 0; i < n; i++) o[i] = 3.14159265358979323846f * ((float)(int32_t)(w[i] >> 1) * 0x1p-32f + 0x1p-33f);
      unary(AG_OP_tan, AG_FLOAT32, n, o);
      for (int64_t i = 0; i < n; i++) o[i] = m + s * ((w[i] & 1 ? 1.0f : -1.0f) / o[i]);
    } else {
      double *o = (double *)(void *)d->out + at;
      words(d, at, n, 2, w);
      for (int64_t i = 0; i < n; i++) o[i] = 3.14159265358979323846 * (unit(wide(w + 2 * i)) * 0.5 + 0x1p-55);
      unary(AG_OP_tan, AG_FLOAT64, n, o);
      for (int64_t i = 0; i < n; i++) o[i] = d->a + d->b * ((w[2 * i] & 1 ? 1.0 : -1.0) / o[i]);
    }
  }
  return AG_OK;
}

static int part_normal(void *ctx, int slot, int64_t from, int64_t to) {
  const draw *d = ctx;
  (void)slot;
  int size = ag__dtype_size(d->dtype);
  for (int64_t at = from; at < to; at += BLOCK) {
    int64_t n = to - at < BLOCK ? to - at : BLOCK;
    ag__k->normal[d->dtype](n, d->out + at * size, d->seed, d->counter, at, d->a, d->b);
    unary(AG_OP_exp, d->dtype, n, d->out + at * size);
  }
  return AG_OK;
}

/* ---- geometric, random_int, bernoulli: any type ---- */

static void put_number(const draw *d, int64_t i, double v) { /* whole; what a type cannot hold becomes its largest */
  switch (d->dtype) {
  case AG_BOOL: ((uint8_t *)d->out)[i] = v != 0; break;
  case AG_UINT8: ((uint8_t *)d->out)[i] = (uint8_t)(v < 255 ? v : 255); break;
  case AG_INT32: ((int32_t *)(void *)d->out)[i] = v < 2147483647.0 ? (int32_t)v : INT32_MAX; break;
  case AG_INT64: ((int64_t *)(void *)d->out)[i] = v < 9223372036854775807.0 ? (int64_t)v : INT64_MAX; break;
  case AG_FLOAT32: ((float *)(void *)d->out)[i] = (float)v; break;
  default: ((double *)(void *)d->out)[i] = v;
  }
}

/* Trials up to the first success, by the inverse of the distribution function: at least 1. */
static int part_geometric(void *ctx, int slot, int64_t from, int64_t to) {
  const draw *d = ctx;
  uint32_t w[2 * BLOCK];
  double u[BLOCK], scale = 1 / log1p(-d->a);
  (void)slot;
  for (int64_t at = from; at < to; at += BLOCK) {
    int64_t n = to - at < BLOCK ? to - at : BLOCK;
    words(d, at, n, 2, w);
    open_f64(w, n, u);
    unary(AG_OP_log, AG_FLOAT64, n, u);
    for (int64_t i = 0; i < n; i++) u[i] *= scale;
    unary(AG_OP_ceil, AG_FLOAT64, n, u);
    for (int64_t i = 0; i < n; i++) put_number(d, at + i, u[i] > 1 ? u[i] : 1);
  }
  return AG_OK;
}

static int part_int(void *ctx, int slot, int64_t from, int64_t to) {
  const draw *d = ctx;
  uint32_t w[2 * BLOCK];
  uint64_t u[BLOCK];
  (void)slot;
  for (int64_t at = from; at < to; at += BLOCK) {
    int64_t n = to - at < BLOCK ? to - at : BLOCK;
    bool few = d->count && d->count <= UINT64_C(1) << 32;
    words(d, at, n, few ? 1 : 2, w);
    if (few)
      for (int64_t i = 0; i < n; i++) u[i] = (uint64_t)d->first + below(d, at + i, w[i], d->count);
    else
      for (int64_t i = 0; i < n; i++)
        u[i] = (uint64_t)d->first + (d->count ? scaled(wide(w + 2 * i), d->count) : wide(w + 2 * i));
#define EACH(T, value) \
  for (int64_t i = 0; i < n; i++) ((T *)(void *)d->out)[at + i] = value
    switch (d->dtype) {
    case AG_BOOL: EACH(uint8_t, u[i] != 0); break;
    case AG_UINT8: EACH(uint8_t, (uint8_t)u[i]); break;
    case AG_INT32: EACH(int32_t, (int32_t)(uint32_t)u[i]); break;
    case AG_INT64: EACH(int64_t, (int64_t)u[i]); break;
    case AG_FLOAT32: EACH(float, (float)(int64_t)u[i]); break;
    default: EACH(double, (double)(int64_t)u[i]);
    }
#undef EACH
  }
  return AG_OK;
}

/* Success when word + fraction < p 2^32: the word decides, unless it is the whole part; then another word does. */
static bool at_edge(const draw *d, int64_t i, double fraction) {
  uint32_t w[4];
  philox(d, (uint64_t)i | UINT64_C(1) << 62, w);
  return (double)w[0] * 0x1p-32 < fraction;
}

/* Results from .. from + n: one where hit. */
static void put_hits(const draw *d, int64_t from, int64_t n, const int32_t *restrict hit, double one) {
#define EACH(T, v) \
  for (T *restrict o = (T *)(void *)d->out + from, *end = o + n; o < end; o++, hit++) *o = *hit ? (T)(v) : (T)0
  switch (d->dtype) {
  case AG_BOOL:
  case AG_UINT8: EACH(uint8_t, 1); break;
  case AG_INT32: EACH(int32_t, 1); break;
  case AG_INT64: EACH(int64_t, 1); break;
  case AG_FLOAT32: EACH(float, one); break;
  default: EACH(double, one);
  }
#undef EACH
}

enum { FLIP = INT32_MIN }; /* a word with its first bit turned over is compared as a signed one */

static int part_bernoulli(void *ctx, int slot, int64_t from, int64_t to) {
  const draw *d = ctx;
  uint32_t w[BLOCK];
  int32_t hit[BLOCK];
  double edge = d->a * 0x1p32, whole = floor(edge);
  bool always = d->a >= 1;
  int32_t limit = (int32_t)((always ? 0xffffffffu : (uint32_t)whole) ^ (uint32_t)FLIP);
  (void)slot;
  for (int64_t at = from; at < to; at += BLOCK) {
    int64_t n = to - at < BLOCK ? to - at : BLOCK;
    int32_t edges = 0;
    words(d, at, n, 1, w);
    for (int64_t i = 0; i < n; i++) {
      int32_t v = (int32_t)(w[i] ^ (uint32_t)FLIP);
      hit[i] = v < limit;
      edges |= v == limit;
    }
    for (int64_t i = 0; i < n && edges; i++)
      if ((int32_t)(w[i] ^ (uint32_t)FLIP) == limit) hit[i] = always || at_edge(d, at + i, edge - whole);
    put_hits(d, at, n, hit, d->b);
  }
  return AG_OK;
}

static double number(const draw *d, int64_t i) {
  return d->ptype == AG_FLOAT32 ? (double)((const float *)(const void *)d->p)[i] : ((const double *)(const void *)d->p)[i];
}

static int part_bernoulli_each(void *ctx, int slot, int64_t from, int64_t to) {
  const draw *d = ctx;
  uint32_t w[BLOCK];
  int32_t hit[BLOCK];
  double edge[BLOCK];
  (void)slot;
  for (int64_t at = from; at < to; at += BLOCK) {
    int64_t n = to - at < BLOCK ? to - at : BLOCK;
    int32_t edges = 0;
    words(d, at, n, 1, w);
    if (d->ptype == AG_FLOAT32)
      for (int64_t i = 0; i < n; i++) edge[i] = (double)((const float *)(const void *)d->p)[at + i] * 0x1p32 - 0x1p31;
    else
      for (int64_t i = 0; i < n; i++) edge[i] = ((const double *)(const void *)d->p)[at + i] * 0x1p32 - 0x1p31;
    for (int64_t i = 0; i < n; i++) { /* both moved by 2^31 */
      double v = (double)(int32_t)(w[i] ^ (uint32_t)FLIP);
      hit[i] = v + 1 <= edge[i];
      edges |= (v < edge[i]) & (v + 1 > edge[i]);
    }
    for (int64_t i = 0; i < n && edges; i++) {
      double whole = (double)w[i], p = number(d, at + i) * 0x1p32;
      if (whole < p && whole + 1 > p) hit[i] = at_edge(d, at + i, p - whole);
    }
    put_hits(d, at, n, hit, 1);
  }
  return AG_OK;
}

/* ---- poisson ---- */

/* log k!: Stirling's series from 16 on */
static double log_factorial(double k) {
  double x = k + 1, shift = 1;
  while (x < 16) shift *= x++;
  double z = 1 / (x * x);
  return (x - 0.5) * log(x) - x + 0.91893853320467274178 + (1.0 / 12 - z * (1.0 / 360 - z * (1.0 / 1260 - z / 1680))) / x - log(shift);
}

/* Below 12 by the inverse of the distribution function; above by transformed rejection (Hoermann, "The transformed
 * rejection method for generating Poisson random variables", 1993, algorithm PTRS). */
static double poisson(const draw *d, int64_t i, double rate, const uint32_t *w) {
  uint32_t again[4];
  if (rate < 12) {
    double p = exp(-rate), u = unit(wide(w)), sum = p, k = 0;
    while (u >= sum && k < 200) {
      k++;
      p *= rate / k;
      sum += p;
    }
    return k;
  }
  if (rate > 0x1p62) return rate;
  double b = 0.931 + 2.53 * sqrt(rate), a = -0.059 + 0.02483 * b, q = 1.1239 + 1.1328 / (b - 3.4), log_rate = log(rate);
  for (uint64_t attempt = 1;; attempt++) {
    double u = unit(wide(w)) - 0.5, v = 1 - unit(wide(w + 2)), s = 0.5 - fabs(u), k = floor((2 * a / s + b) * u + rate + 0.43);
    if (s >= 0.07 && v <= 0.9277 - 3.6224 / (b - 2)) return k;
    if (k >= 0 && (s >= 0.013 || v <= s) && log(v * q / (a / (s * s) + b)) <= k * log_rate - rate - log_factorial(k)) return k;
    philox(d, (uint64_t)i | attempt << 44, again);
    w = again;
  }
}

static int part_poisson(void *ctx, int slot, int64_t from, int64_t to) {
  const draw *d = ctx;
  uint32_t w[4 * BLOCK];
  (void)slot;
  for (int64_t at = from; at < to; at += BLOCK) {
    int64_t n = to - at < BLOCK ? to - at : BLOCK;
    words(d, at, n, 4, w);
    for (int64_t i = 0; i < n; i++) put_number(d, at + i, poisson(d, at + i, number(d, at + i), w + 4 * i));
  }
  return AG_OK;
}

/* ---- the rows of elements of their own ---- */

static int infer_random(ag_infer *c, int n_in, int ni, int nf) {
  int st = ag__need(c, n_in, ni, nf);
  if (st) return st;
  ag_array *g = c->in[1];
  if (g->dtype != AG_INT64 || g->numel != 2 || !g->contiguous)
    return ag__fail(AG_ERR_TYPE, "%s(): a generator is an int64 tensor of two elements, seed and counter", c->row->name);
  ag__set_out(c, 0, c->in[0]->dtype, c->in[0]->ndim, ag__shape(c->in[0]));
  return AG_OK;
}
static int infer_float(ag_infer *c, int nf) {
  int st = infer_random(c, 2, 0, nf);
  return st ? st : ag__need_float(c, c->in[0]->dtype);
}

int ag__infer_uniform(ag_infer *c) {
  int st = infer_float(c, 2);
  if (!st && !(c->p->f[0] <= c->p->f[1]))
    st = ag__fail(AG_ERR_RUNTIME, "uniform_ expects to return a [from, to) range, but found from=%g > to=%g", c->p->f[0], c->p->f[1]);
  return st;
}
int ag__infer_normal(ag_infer *c) {
  int st = infer_float(c, 2);
  if (!st && !(c->p->f[1] >= 0)) st = ag__fail(AG_ERR_RUNTIME, "normal expects std >= 0.0, but found std %g", c->p->f[1]);
  return st;
}
int ag__infer_exponential(ag_infer *c) {
  int st = infer_float(c, 1);
  if (!st && !(c->p->f[0] > 0))
    st = ag__fail(AG_ERR_RUNTIME, "exponential_ expects lambda > 0.0, but found lambda=%g", c->p->f[0]);
  return st;
}
int ag__infer_cauchy(ag_infer *c) {
  int st = infer_float(c, 2);
  if (!st && !(c->p->f[1] > 0)) st = ag__fail(AG_ERR_RUNTIME, "cauchy_ expects sigma > 0.0, but found sigma=%g", c->p->f[1]);
  return st;
}
int ag__infer_log_normal(ag_infer *c) {
  int st = infer_float(c, 2);
  if (!st && !(c->p->f[1] > 0)) st = ag__fail(AG_ERR_RUNTIME, "log_normal_ expects std > 0.0, but found std=%g", c->p->f[1]);
  return st;
}
int ag__infer_geometric(ag_infer *c) {
  int st = infer_random(c, 2, 0, 1);
  if (!st && !(c->p->f[0] > 0 && c->p->f[0] < 1))
    st = ag__fail(AG_ERR_RUNTIME, "geometric_ expects p to be in (0, 1), but got p=%g", c->p->f[0]);
  return st;
}
int ag__infer_random_int(ag_infer *c) { return infer_random(c, 2, 2, 0); }
int ag__infer_bernoulli(ag_infer *c) {
  int st = infer_random(c, 2, 0, 2);
  if (!st && !(c->p->f[0] >= 0 && c->p->f[0] <= 1))
    st = ag__fail(AG_ERR_RUNTIME, "bernoulli_ expects p to be in [0, 1], but got p=%g", c->p->f[0]);
  return st;
}
static int infer_each(ag_infer *c) {
  int st = infer_random(c, 3, 0, 0);
  ag_array *x = c->in[0], *p = c->in[2];
  if (st) return st;
  if (!ag__is_float(p->dtype) || !ag__same_shape(x->ndim, ag__shape(x), p->ndim, ag__shape(p)))
    return ag__fail(AG_ERR_RUNTIME, "%s(): expected floating-point parameters of the shape of the result", c->row->name);
  return AG_OK;
}
int ag__infer_bernoulli_each(ag_infer *c) { return infer_each(c); }
int ag__infer_poisson(ag_infer *c) { return infer_each(c); }

static draw open_draw(const ag_exec *x) {
  const int64_t *state = (const int64_t *)(const void *)x->in[1].data;
  return (draw){.op = x->row->op, .dtype = x->out[0].dtype, .out = x->out[0].data, .seed = (uint64_t)state[0],
                .counter = (uint64_t)state[1], .a = x->p->nf > 0 ? x->p->f[0] : 0, .b = x->p->nf > 1 ? x->p->f[1] : 0,
                .first = x->p->ni > 1 ? x->p->i[0] : 0, .count = x->p->ni > 1 ? (uint64_t)x->p->i[1] : 0};
}
static void advance(const ag_exec *x) {
  int64_t *state = (int64_t *)(void *)x->in[1].data;
  state[1] = (int64_t)((uint64_t)state[1] + (((uint64_t)x->out[0].numel + 3) & ~(uint64_t)3));
}

/* cost: of an element, in additions */
static int fill(const ag_exec *x, ag_task *part, int64_t cost) {
  draw d = open_draw(x);
  int64_t n = x->out[0].numel;
  if (n == 0) return AG_OK;
  void *token = ag__long_begin(n * 16, AG_LONG_MATH);
  int st = ag__parallel(n, ag__grain(4, cost), part, &d);
  ag__blocking_end(token);
  advance(x);
  return st;
}

/* As fill, with a number for each element between low and high. */
static int fill_each(const ag_exec *x, ag_task *part, int64_t cost, double low, double high, const char *refusal) {
  draw d = open_draw(x);
  int64_t n = x->out[0].numel;
  ag_temp t;
  if (n == 0) return AG_OK;
  d.ptype = x->in[2].dtype;
  if (!(d.p = ag__contig(&x->in[2], &t))) return AG_ERR_MEMORY;
  bool in = true;
  for (int64_t i = 0; i < n; i++) {
    double v = number(&d, i);
    in &= v >= low && v <= high;
  }
  int st = AG_OK;
  if (!in) {
    st = ag__fail(AG_ERR_RUNTIME, "%s", refusal);
  } else {
    void *token = ag__long_begin(n * 16, AG_LONG_MATH);
    st = ag__parallel(n, ag__grain(4, cost), part, &d);
    ag__blocking_end(token);
    advance(x);
  }
  ag__temp_free(&t);
  return st;
}

static int exec_kernel(const ag_exec *x, ag_k_random *const *kernel) {
  draw d = open_draw(x);
  int64_t n = x->out[0].numel;
  if (n == 0) return AG_OK;
  void *token = ag__long_begin(n * 16, AG_LONG_MATH);
  ag__par_random(kernel[d.dtype], d.dtype, n, d.out, d.seed, d.counter, d.a, d.b);
  ag__blocking_end(token);
  advance(x);
  return AG_OK;
}
int ag__exec_uniform(const ag_exec *x) { return exec_kernel(x, ag__k->uniform); }
int ag__exec_normal(const ag_exec *x) { return exec_kernel(x, ag__k->normal); }
int ag__exec_exponential(const ag_exec *x) { return fill(x, part_exponential, 10); }
int ag__exec_cauchy(const ag_exec *x) { return fill(x, part_cauchy, 14); }
int ag__exec_log_normal(const ag_exec *x) { return fill(x, part_normal, 10); }
int ag__exec_geometric(const ag_exec *x) { return fill(x, part_geometric, 20); }
int ag__exec_random_int(const ag_exec *x) { return fill(x, part_int, 14); }
int ag__exec_bernoulli(const ag_exec *x) { return fill(x, part_bernoulli, 6); }
int ag__exec_bernoulli_each(const ag_exec *x) {
  return fill_each(x, part_bernoulli_each, 10, 0, 1, "Expected p_in >= 0 && p_in <= 1 to be true, but got false.");
}
int ag__exec_poisson(const ag_exec *x) {
  return fill_each(x, part_poisson, 200, 0, HUGE_VAL, "invalid Poisson rate, expected rate to be non-negative");
}

/* ---- randperm: Fisher and Yates, from the front ---- */

int ag__infer_randperm(ag_infer *c) {
  int st = infer_random(c, 2, 0, 0);
  if (!st && (c->in[0]->dtype != AG_INT64 || c->in[0]->ndim != 1))
    st = ag__fail(AG_ERR_RUNTIME, "randperm(): expected an int64 tensor of one dimension");
  return st;
}

#define SHUFFLE(T, name)                                                             \
  static void name(const draw *d, int64_t n, T *restrict o) {                        \
    uint32_t w[2 * BLOCK];                                                           \
    bool few = n <= UINT32_MAX;                                                      \
    for (int64_t i = 0; i < n; i++) o[i] = (T)i;                                     \
    for (int64_t at = 0; at < n; at += BLOCK) {                                      \
      int64_t m = n - at < BLOCK ? n - at : BLOCK;                                   \
      words(d, at, m, few ? 1 : 2, w);                                               \
      for (int64_t i = 0; i < m; i++) {                                              \
        int64_t k = at + i;                                                          \
        uint64_t left = (uint64_t)(n - k);                                           \
        int64_t j = k + (int64_t)(few ? below(d, k, w[i], left) : scaled(wide(w + 2 * i), left)); \
        T t = o[k];                                                                  \
        o[k] = o[j];                                                                 \
        o[j] = t;                                                                    \
      }                                                                              \
    }                                                                                \
  }
SHUFFLE(int32_t, shuffle_short)
SHUFFLE(int64_t, shuffle_long)

int ag__exec_randperm(const ag_exec *x) {
  draw d = open_draw(x);
  int64_t n = x->out[0].numel, *o = (int64_t *)(void *)d.out;
  if (n == 0) return AG_OK;
  void *token = ag__long_begin(n * 16, AG_LONG_MATH);
  if (n <= INT32_MAX) { /* in the upper half of the result, half the memory to jump about in */
    int32_t *s = (int32_t *)(void *)o + n;
    shuffle_short(&d, n, s);
    for (int64_t i = 0; i < n; i++) { /* ahead of what is still to be read */
      int32_t v = s[i];
      memcpy(o + i, &(int64_t){v}, sizeof *o);
    }
  } else {
    shuffle_long(&d, n, o);
  }
  ag__blocking_end(token);
  advance(x);
  return AG_OK;
}

/* ---- multinomial ---- */

int ag__infer_multinomial(ag_infer *c) {
  int st = infer_random(c, 3, 1, 0);
  if (st) return st;
  ag_array *x = c->in[0], *p = c->in[2];
  int last = p->ndim - 1;
  if (x->dtype != AG_INT64 || !ag__is_float(p->dtype) || x->ndim != p->ndim || last < 0 || last > 1 ||
      (last && ag__shape(x)[0] != ag__shape(p)[0]))
    return ag__fail(AG_ERR_RUNTIME, "multinomial(): expected int64 (rows, samples) and weights (rows, n), or both without rows");
  if (ag__shape(x)[last] <= 0) return ag__fail(AG_ERR_RUNTIME, "cannot sample n_sample <= 0 samples");
  if (!c->p->i[0] && ag__shape(x)[last] > ag__shape(p)[last])
    return ag__fail(AG_ERR_RUNTIME, "cannot sample n_sample > prob_dist.size(-1) samples without replacement");
  return AG_OK;
}

enum { SPAN = 16 }; /* weights whose sum is kept */

/* Sums of weights up to each span, all of them non-negative numbers. */
static int add_weights(const draw *d, int64_t first, int64_t n, double *sums) {
  double total = 0;
  for (int64_t at = 0, k = 0; at < n; at += SPAN, k++) {
    int64_t end = at + SPAN < n ? at + SPAN : n;
    double part = 0;
    for (int64_t i = at; i < end; i++) {
      double v = number(d, first + i);
      if (!(v >= 0 && v < HUGE_VAL)) return ag__fail(AG_ERR_RUNTIME, "probability tensor contains either `inf`, `nan` or element < 0");
      part += v;
    }
    sums[k] = total += part;
  }
  if (!(total > 0)) return ag__fail(AG_ERR_RUNTIME, "invalid multinomial distribution (sum of probabilities <= 0)");
  return AG_OK;
}

/* The index at which the weights' sum passes target. */
static int64_t find(const draw *d, int64_t first, int64_t n, const double *sums, double target) {
  int64_t low = 0, high = (n - 1) / SPAN;
  while (low < high) {
    int64_t mid = (low + high) / 2;
    if (sums[mid] > target) high = mid;
    else low = mid + 1;
  }
  double sum = low ? sums[low - 1] : 0, part = 0;
  int64_t end = (low + 1) * SPAN < n ? (low + 1) * SPAN : n, last = -1;
  for (int64_t i = low * SPAN; i < end; i++) {
    double v = number(d, first + i);
    if (v > 0) last = i;
    part += v;
    if (v > 0 && sum + part > target) return i;
  }
  return last; /* rounding: target is below sums[low], so there is a positive weight in the span */
}

/* Two numbers an entry: when it arrives, and its index; the latest of those kept on top. */
typedef struct arrival {
  double time;
  int64_t index;
} arrival;

static bool later(arrival a, arrival b) { return a.time > b.time || (a.time == b.time && a.index > b.index); }

static void sift(arrival *h, int64_t n, int64_t i) {
  arrival v = h[i];
  for (int64_t k; (k = 2 * i + 1) < n; i = k) {
    if (k + 1 < n && later(h[k + 1], h[k])) k++;
    if (!later(h[k], v)) break;
    h[i] = h[k];
  }
  h[i] = v;
}

/* The first arrivals of exponential clocks whose rates are the weights: -log(u) / weight. */
static void race(const draw *d, int64_t row, int64_t n, int64_t samples, arrival *h, int64_t *o) {
  uint32_t w[2 * BLOCK];
  double u[BLOCK];
  int64_t kept = 0;
  for (int64_t at = 0; at < n; at += BLOCK) {
    int64_t m = n - at < BLOCK ? n - at : BLOCK;
    words(d, row * n + at, m, 2, w);
    open_f64(w, m, u);
    unary(AG_OP_log, AG_FLOAT64, m, u);
    for (int64_t i = 0; i < m; i++) {
      double rate = number(d, row * n + at + i);
      arrival a = {rate > 0 ? -u[i] / rate : HUGE_VAL, at + i}; /* without weight: last of all, in order */
      if (kept < samples) {
        h[kept++] = a;
        if (kept == samples)
          for (int64_t k = samples / 2; k-- > 0;) sift(h, samples, k);
      } else if (later(h[0], a)) {
        h[0] = a;
        sift(h, samples, 0);
      }
    }
  }
  for (int64_t k = samples; k-- > 0;) { /* the latest to the end */
    o[k] = h[0].index;
    h[0] = h[k];
    sift(h, k, 0);
  }
}

int ag__exec_multinomial(const ag_exec *x) {
  draw d = open_draw(x);
  const ag_raw *p = &x->in[2];
  bool again = x->p->i[0] != 0;
  int64_t rows = p->ndim > 1 ? p->shape[0] : 1, n = p->shape[p->ndim - 1], samples = x->out[0].shape[p->ndim - 1];
  ag_temp tp = {NULL, 0}, ts = {NULL, 0}, th = {NULL, 0};
  if (x->out[0].numel == 0) return AG_OK;
  d.ptype = p->dtype;
  double *sums = ag__temp(&ts, (size_t)(n / SPAN + 1) * sizeof(double));
  arrival *h = sums ? ag__temp(&th, again ? 1 : (size_t)samples * sizeof *h) : NULL;
  int st = h && (d.p = ag__contig(p, &tp)) ? AG_OK : AG_ERR_MEMORY;
  void *token = ag__long_begin(p->numel * 16 + x->out[0].numel * 64, AG_LONG_MATH);
  for (int64_t r = 0; r < rows && !st; r++) {
    int64_t *o = (int64_t *)(void *)d.out + r * samples;
    st = add_weights(&d, r * n, n, sums);
    if (st) break;
    if (!again) {
      race(&d, r, n, samples, h, o);
      continue;
    }
    for (int64_t at = 0; at < samples; at += BLOCK) {
      uint32_t w[2 * BLOCK];
      int64_t m = samples - at < BLOCK ? samples - at : BLOCK;
      words(&d, r * samples + at, m, 2, w);
      double total = sums[(n - 1) / SPAN], most = nextafter(total, 0);
      for (int64_t i = 0; i < m; i++) {
        double target = unit(wide(w + 2 * i)) * total;
        o[at + i] = find(&d, r * n, n, sums, target < most ? target : most);
      }
    }
  }
  ag__blocking_end(token);
  if (!st) advance(x);
  ag__temp_free(&tp);
  ag__temp_free(&ts);
  ag__temp_free(&th);
  return st;
}
