#include "ops/par.h"

#include "ops/exec.h"

/* ---- moves ---- */

typedef struct move {
  int ndim, size;
  int64_t n, unit;
  const int64_t *shape, *strides;
  char *out;
  const char *x;
} move;

/* Units from .. to as elements. */
static int64_t part_of_move(const move *m, int64_t from, int64_t to, int64_t *n) {
  int64_t end = to * m->unit < m->n ? to * m->unit : m->n;
  *n = end - from * m->unit;
  return from * m->unit;
}

static int pack(void *ctx, int slot, int64_t from, int64_t to) {
  const move *m = ctx;
  int64_t n, at = part_of_move(m, from, to, &n);
  (void)slot;
  ag__k->pack(m->ndim, m->shape, m->strides, at, n, m->out + at * m->size, m->x, m->size);
  return AG_OK;
}

static int unpack(void *ctx, int slot, int64_t from, int64_t to) {
  const move *m = ctx;
  int64_t n, at = part_of_move(m, from, to, &n);
  (void)slot;
  ag__k->unpack(m->ndim, m->shape, m->strides, at, n, m->out, m->x + at * m->size, m->size);
  return AG_OK;
}

/* Where rows lie across the memory a cut takes sixteen of them, which share lines of the cache. */
static int64_t unit_of(int ndim, const int64_t *shape, const int64_t *strides, int64_t n) {
  int k = ndim - 1;
  while (k > 0 && shape[k] == 1) k--;
  return k > 0 && strides[k] != 1 && strides[k] != 0 && 64 * shape[k] <= n ? 16 * shape[k] : 64;
}

static void run_move(move *m, ag_task *fn, bool apart) {
  int64_t grain = ag__grain(m->size, 2), units = (m->n + m->unit - 1) / m->unit;
  if (apart && ag__worth(m->n, grain)) ag__parallel_run(units, (grain + m->unit - 1) / m->unit, 0, fn, m);
  else fn(m, 0, 0, units);
}

void ag__par_pack(int ndim, const int64_t *shape, const int64_t *strides, int64_t n, void *out, const void *x, int size) {
  move m = {ndim, size, n, unit_of(ndim, shape, strides, n), shape, strides, out, x};
  if (n > 0) run_move(&m, pack, true);
}

bool ag__apart(int ndim, const int64_t *shape, const int64_t *strides) {
  int64_t s[AG_MAX_NDIM], n[AG_MAX_NDIM], reach = 0;
  int nd = 0;
  for (int k = 0; k < ndim; k++) {
    if (shape[k] <= 1) continue;
    int64_t a = strides[k] < 0 ? -strides[k] : strides[k];
    int j = nd++;
    for (; j > 0 && s[j - 1] > a; j--) {
      s[j] = s[j - 1];
      n[j] = n[j - 1];
    }
    s[j] = a;
    n[j] = shape[k];
  }
  for (int k = 0; k < nd; k++) {
    if (s[k] <= reach) return false;
    reach += (n[k] - 1) * s[k];
  }
  return true;
}

void ag__par_unpack(int ndim, const int64_t *shape, const int64_t *strides, int64_t n, void *out, const void *x, int size) {
  move m = {ndim, size, n, unit_of(ndim, shape, strides, n), shape, strides, out, x};
  if (n > 0) run_move(&m, unpack, !ag__worth(n, ag__grain(size, 2)) || ag__apart(ndim, shape, strides));
}

static int copy(void *ctx, int slot, int64_t from, int64_t to) {
  const move *m = ctx;
  (void)slot;
  memcpy(m->out + from, m->x + from, (size_t)(to - from));
  return AG_OK;
}

void ag__par_copy(void *out, const void *x, int64_t bytes) {
  move m = {0, 1, bytes, 1, NULL, NULL, out, x};
  if (!ag__worth(bytes, AG_GRAIN_READ) || ((uintptr_t)out < (uintptr_t)x + (size_t)bytes && (uintptr_t)x < (uintptr_t)out + (size_t)bytes))
    memmove(out, x, (size_t)bytes);
  else ag__parallel_run(bytes, AG_GRAIN_READ, 0, copy, &m);
}

typedef struct conversion {
  int from_size, to_size;
  char *out;
  const char *x;
  ag_k_cast *cast;
} conversion;

static int convert(void *ctx, int slot, int64_t from, int64_t to) {
  const conversion *c = ctx;
  (void)slot;
  c->cast(to - from, c->out + from * c->to_size, c->x + from * c->from_size);
  return AG_OK;
}

void ag__par_cast(int from, int to, int64_t n, void *out, const void *x) {
  conversion c = {ag__dtype_size(from), ag__dtype_size(to), out, x, ag__k->cast[from][to]};
  int64_t grain = ag__grain(c.from_size > c.to_size ? c.from_size : c.to_size, 1);
  /* Within one memory a chunk could write what the next has not read. */
  if (!ag__worth(n, grain) || out == x) c.cast(n, out, x);
  else ag__parallel(n, grain, convert, &c);
}

/* ---- along the middle axis ---- */

/* From this many rows on they are shared out whole; fewer, long ones are cut. */
enum { MANY_ROWS = 16 };

typedef struct rows {
  int64_t outer, n, inner, part, parts;
  int xsize, osize, flag;
  char *out, *second;
  const char *x, *y;
  ag_k_reduce *reduce;
  ag_k_argreduce *arg;
  ag_k_softmax *softmax;
  ag_k_softmax_bwd *softmax_bwd;
  ag_k_cumulate *cumulate;
} rows;

static int reduce_rows(void *ctx, int slot, int64_t from, int64_t to) {
  const rows *r = ctx;
  (void)slot;
  r->reduce(to - from, r->n, r->inner, r->out + from * r->inner * r->osize, r->x + from * r->n * r->inner * r->xsize);
  return AG_OK;
}

static int reduce_parts(void *ctx, int slot, int64_t from, int64_t to) {
  const rows *r = ctx;
  (void)slot;
  for (int64_t k = from; k < to; k++) {
    int64_t o = k / r->parts, at = k % r->parts * r->part, n = r->n - at < r->part ? r->n - at : r->part;
    r->reduce(1, n, r->inner, r->out + k * r->inner * r->osize, r->x + (o * r->n + at) * r->inner * r->xsize);
  }
  return AG_OK;
}

/* The parts of a cut row as leaves of the tree by which reduce.inc adds its blocks: a part is 2^k blocks, so that what
 * it holds is a node of that tree, and the bits are those of the uncut row. */
#define FINISH(name, T)                                                     \
  static void name(int64_t parts, int64_t inner, T *out, T *x) {            \
    T *stack[64], *s = x;                                                   \
    int top = 0;                                                            \
    for (int64_t p = 0; p < parts; p++) {                                   \
      s = x + p * inner;                                                    \
      for (int64_t b = p; b & 1; b >>= 1) {                                 \
        const T *q = stack[--top];                                          \
        for (int64_t j = 0; j < inner; j++) s[j] = q[j] + s[j];             \
      }                                                                     \
      stack[top++] = s;                                                     \
    }                                                                       \
    memcpy(out, stack[--top], (size_t)inner * sizeof(T));                   \
    while (top) {                                                           \
      const T *q = stack[--top];                                            \
      for (int64_t j = 0; j < inner; j++) out[j] = q[j] + out[j];           \
    }                                                                       \
  }
FINISH(finish_f32, float)
FINISH(finish_f64, double)

static int reduced_type(int r, int dtype) {
  if (r == AG_R_ANY || r == AG_R_ALL) return AG_BOOL;
  return (r == AG_R_SUM || r == AG_R_PROD) && !ag__is_float(dtype) ? AG_INT64 : dtype;
}

/* Length of the parts of a row that is cut; n itself when it stays whole.  A function of sizes alone: where the order
 * shows in the bits (products, signs of zero), they must not depend on the number of threads. */
static int64_t part_of(int64_t n, int64_t inner, int size) {
  int64_t part = inner == 1 ? 4096 / size : 128;
  while (part < n && part * inner * size * ag__grain_divisor < AG_GRAIN_READ / 2) part *= 2;
  return part < n ? part : n;
}

int ag__par_reduce(int r, int dtype, int64_t outer, int64_t n, int64_t inner, void *out, const void *x) {
  int to = reduced_type(r, dtype), size = ag__dtype_size(dtype);
  rows q = {.outer = outer, .n = n, .inner = inner, .xsize = size, .osize = ag__dtype_size(to), .out = out, .x = x,
            .reduce = ag__k->reduce[r][dtype]};
  int64_t bytes = n * inner * size; /* of one row */
  if (!ag__worth(outer * bytes, AG_GRAIN_READ)) {
    q.reduce(outer, n, inner, out, x);
    return AG_OK;
  }
  q.part = part_of(n, inner, size);
  if (outer >= MANY_ROWS || q.part == n)
    return ag__parallel(outer, bytes < AG_GRAIN_READ ? AG_GRAIN_READ / bytes : 1, reduce_rows, &q);
  q.parts = (n + q.part - 1) / q.part;
  ag_temp t;
  q.out = ag__temp(&t, (size_t)(outer * q.parts * inner * q.osize));
  if (!q.out) return AG_ERR_MEMORY;
  ag__parallel(outer * q.parts, 1, reduce_parts, &q);
  for (int64_t o = 0; o < outer; o++) {
    char *part = q.out + o * q.parts * inner * q.osize, *done = (char *)out + o * inner * q.osize;
    if (r == AG_R_SUM && dtype == AG_FLOAT32) finish_f32(q.parts, inner, (float *)(void *)done, (float *)(void *)part);
    else if (r == AG_R_SUM && dtype == AG_FLOAT64) finish_f64(q.parts, inner, (double *)(void *)done, (double *)(void *)part);
    else ag__k->reduce[r][to](1, q.parts, inner, done, part);
  }
  ag__temp_free(&t);
  return AG_OK;
}

static int arg_rows(void *ctx, int slot, int64_t from, int64_t to) {
  const rows *r = ctx;
  (void)slot;
  r->arg(to - from, r->n, r->inner, r->second ? r->second + from * r->inner * r->xsize : NULL,
         (int64_t *)(void *)r->out + from * r->inner, r->x + from * r->n * r->inner * r->xsize);
  return AG_OK;
}

static int arg_parts(void *ctx, int slot, int64_t from, int64_t to) {
  const rows *r = ctx;
  (void)slot;
  for (int64_t k = from; k < to; k++) {
    int64_t o = k / r->parts, at = k % r->parts * r->part, n = r->n - at < r->part ? r->n - at : r->part;
    r->arg(1, n, r->inner, r->second + k * r->inner * r->xsize, (int64_t *)(void *)r->out + k * r->inner,
           r->x + (o * r->n + at) * r->inner * r->xsize);
  }
  return AG_OK;
}

int ag__par_argreduce(ag_k_argreduce *fn, int dtype, int64_t outer, int64_t n, int64_t inner, void *values, int64_t *indices,
                      const void *x) {
  int size = ag__dtype_size(dtype);
  rows q = {.outer = outer, .n = n, .inner = inner, .xsize = size, .out = (char *)indices, .second = values, .x = x, .arg = fn};
  int64_t bytes = n * inner * size;
  if (!ag__worth(outer * bytes, AG_GRAIN_READ)) {
    fn(outer, n, inner, values, indices, x);
    return AG_OK;
  }
  q.part = part_of(n, inner, size);
  if (outer >= MANY_ROWS || q.part == n)
    return ag__parallel(outer, bytes < AG_GRAIN_READ ? AG_GRAIN_READ / bytes : 1, arg_rows, &q);
  /* The first extremum of the parts' extrema names the part, and that the place. */
  q.parts = (n + q.part - 1) / q.part;
  ag_temp tv = {NULL, 0}, ti = {NULL, 0};
  q.second = ag__temp(&tv, (size_t)(outer * q.parts * inner * size));
  q.out = q.second ? ag__temp(&ti, (size_t)(outer * q.parts * inner) * sizeof(int64_t)) : NULL;
  if (q.out) {
    ag__parallel(outer * q.parts, 1, arg_parts, &q);
    fn(outer, q.parts, inner, values, indices, q.second);
    const int64_t *at = (const int64_t *)(const void *)q.out;
    for (int64_t o = 0; o < outer; o++)
      for (int64_t j = 0; j < inner; j++) {
        int64_t *k = &indices[o * inner + j];
        *k = *k * q.part + at[(o * q.parts + *k) * inner + j];
      }
  }
  ag__temp_free(&ti);
  ag__temp_free(&tv);
  return q.out ? AG_OK : AG_ERR_MEMORY;
}

static int softmax(void *ctx, int slot, int64_t from, int64_t to) {
  const rows *r = ctx;
  int64_t at = from * r->n * r->inner * r->xsize;
  (void)slot;
  if (r->softmax) r->softmax(to - from, r->n, r->inner, r->out + at, r->x + at, r->flag);
  else r->softmax_bwd(to - from, r->n, r->inner, r->out + at, r->x + at, r->y + at, r->flag);
  return AG_OK;
}

void ag__par_softmax(int dtype, int64_t outer, int64_t n, int64_t inner, void *out, const void *x, int is_log) {
  rows r = {.n = n, .inner = inner, .xsize = ag__dtype_size(dtype), .flag = is_log, .out = out, .x = x,
            .softmax = ag__k->softmax[dtype]};
  ag__parallel(outer, ag__grain_rows(n * inner, r.xsize, 4), softmax, &r);
}

void ag__par_softmax_bwd(int dtype, int64_t outer, int64_t n, int64_t inner, void *dx, const void *g, const void *y, int is_log) {
  rows r = {.n = n, .inner = inner, .xsize = ag__dtype_size(dtype), .flag = is_log, .out = dx, .x = g, .y = y,
            .softmax_bwd = ag__k->softmax_bwd[dtype]};
  ag__parallel(outer, ag__grain_rows(n * inner, r.xsize, is_log ? 4 : 2), softmax, &r);
}

static int cumulate(void *ctx, int slot, int64_t from, int64_t to) {
  const rows *r = ctx;
  (void)slot;
  r->cumulate(to - from, r->n, r->inner, r->out + from * r->n * r->inner * r->osize, r->x + from * r->n * r->inner * r->xsize,
              r->flag);
  return AG_OK;
}

void ag__par_cumulate(int dtype, int64_t outer, int64_t n, int64_t inner, void *out, const void *x, int prod) {
  rows r = {.n = n, .inner = inner, .xsize = ag__dtype_size(dtype), .osize = ag__is_float(dtype) ? ag__dtype_size(dtype) : 8,
            .flag = prod, .out = out, .x = x, .cumulate = ag__k->cumulate[dtype]};
  ag__parallel(outer, ag__grain_rows(n * inner, r.osize, 4), cumulate, &r);
}

typedef struct norm {
  int dtype, size;
  int64_t n;
  const char *x, *w, *b;
  double eps;
  char *y, *mean, *rstd;
} norm;

static int norm_rows(void *ctx, int slot, int64_t from, int64_t to) {
  const norm *r = ctx;
  int64_t at = from * r->n * r->size;
  (void)slot;
  ag__k->layer_norm[r->dtype](to - from, r->n, r->x + at, r->w, r->b, r->eps, r->y + at, r->mean + from * r->size,
                              r->rstd + from * r->size);
  return AG_OK;
}

void ag__par_layer_norm(int dtype, int64_t outer, int64_t n, const void *x, const void *w, const void *b, double eps, void *y,
                        void *mean, void *rstd) {
  norm r = {dtype, ag__dtype_size(dtype), n, x, w, b, eps, y, mean, rstd};
  ag__parallel(outer, ag__grain_rows(n, r.size, 3), norm_rows, &r);
}

typedef struct scaling {
  int dtype, size;
  int64_t c, inner;
  char *out;
  const char *x, *a, *b;
} scaling;

static int scale_outer(void *ctx, int slot, int64_t from, int64_t to) {
  const scaling *s = ctx;
  int64_t at = from * s->c * s->inner * s->size;
  (void)slot;
  ag__k->scale_shift[s->dtype](to - from, s->c, s->inner, s->out + at, s->x + at, s->a, s->b);
  return AG_OK;
}

void ag__par_scale_shift(int dtype, int64_t outer, int64_t c, int64_t inner, void *out, const void *x, const void *a, const void *b) {
  scaling s = {dtype, ag__dtype_size(dtype), c, inner, out, x, a, b};
  ag__parallel(outer, ag__grain_rows(c * inner, s.size, 1), scale_outer, &s);
}

/* ---- the rest ---- */

typedef struct draw {
  ag_k_random *fn;
  char *out;
  int size;
  uint64_t seed, counter;
  double a, b;
} draw;

static int random_part(void *ctx, int slot, int64_t from, int64_t to) {
  const draw *d = ctx;
  (void)slot;
  d->fn(to - from, d->out + from * d->size, d->seed, d->counter, from, d->a, d->b);
  return AG_OK;
}

void ag__par_random(ag_k_random *fn, int dtype, int64_t n, void *out, uint64_t seed, uint64_t counter, double a, double b) {
  draw d = {fn, out, ag__dtype_size(dtype), seed, counter, a, b};
  ag__parallel(n, ag__grain(d.size, 6), random_part, &d);
}

typedef struct planes {
  const ag_k_convgeom *g;
  ag_k_maxpool *fn;
  char *out;
  int64_t *idx;
  const char *x;
  int64_t n_in, n_out;
  int size;
} planes;

static int pool_planes(void *ctx, int slot, int64_t from, int64_t to) {
  const planes *p = ctx;
  ag_k_convgeom g = *p->g;
  (void)slot;
  g.c = to - from;
  p->fn(&g, p->out + from * p->n_out * p->size, p->idx + from * p->n_out, p->x + from * p->n_in * p->size);
  return AG_OK;
}

void ag__par_maxpool(int dtype, const ag_k_convgeom *g, void *out, int64_t *idx, const void *x) {
  planes p = {g, dtype == AG_INT64 ? ag__whole_maxpool : ag__k->maxpool[dtype], out, idx, x, 1, 1, ag__dtype_size(dtype)};
  int64_t taps = 1;
  for (int d = 0; d < g->nd; d++) {
    p.n_in *= g->in[d];
    p.n_out *= g->out[d];
    taps *= g->k[d];
  }
  ag__parallel(g->c, ag__grain_rows(p.n_out, p.size, taps), pool_planes, &p);
}

typedef struct update {
  int size, flags;
  char *p, *a, *b;
  const char *g;
  const double *h;
  ag_k_sgd *sgd;
  ag_k_adam *adam;
} update;

static int update_part(void *ctx, int slot, int64_t from, int64_t to) {
  const update *u = ctx;
  int64_t at = from * u->size;
  (void)slot;
  if (u->sgd) u->sgd(to - from, u->p + at, u->g + at, u->a ? u->a + at : NULL, u->h, u->flags);
  else u->adam(to - from, u->p + at, u->g + at, u->a + at, u->b + at, u->h, u->flags);
  return AG_OK;
}

void ag__par_sgd(int dtype, int64_t n, void *p, const void *g, void *buf, const double *h, int flags) {
  update u = {ag__dtype_size(dtype), flags, p, buf, NULL, g, h, ag__k->sgd[dtype], NULL};
  ag__parallel(n, ag__grain(u.size, 1), update_part, &u);
}

void ag__par_adam(int dtype, int64_t n, void *p, const void *g, void *m, void *v, const double *h, int flags) {
  update u = {ag__dtype_size(dtype), flags, p, m, v, g, h, NULL, ag__k->adam[dtype]};
  ag__parallel(n, ag__grain(u.size, 4), update_part, &u);
}
