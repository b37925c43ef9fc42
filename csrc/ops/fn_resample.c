/* fn_resample.c: sums of a few places along one dim by a table, and sliding windows as columns.
 *
 * resample: out[i] = sum over t of weight[i, t] x[index[i, t]] along a dim; index -1: no term.  Interpolation, average pools
 * and their like are one such step for each dim; resample_back is its adjoint.  unfold and fold are adjoint likewise. */
#include "ops/fn_util.h"

/* ---- resample: x, index, weight; ints: dim.  resample_back: g, index, weight; ints: dim, places ---- */

static int infer_resample(ag_infer *c, bool back) {
  ag_array *x = c->in[0], *idx = c->in[1], *w = c->in[2];
  int dim, st = ag__need(c, 3, back ? 2 : 1, 0);
  if (!st && x->dtype != AG_INT64) st = ag__need_float(c, x->dtype);
  if (!st) st = ag__wrap_dim(c->p->i[0], x->ndim, &dim);
  if (st) return st;
  if (x->ndim < 1 || idx->dtype != AG_INT64 || w->dtype != x->dtype || idx->ndim != 2 ||
      !ag__same_shape(idx->ndim, ag__shape(idx), w->ndim, ag__shape(w)) || (back && (ag__shape(x)[dim] != ag__shape(idx)[0] || c->p->i[1] < 0)))
    return ag__fail(AG_ERR_RUNTIME, "%s(): expected places (int64) and weights of one two-dimensional shape", c->row->name);
  int64_t shape[AG_MAX_NDIM];
  memcpy(shape, ag__shape(x), sizeof(int64_t) * x->ndim);
  shape[dim] = back ? c->p->i[1] : ag__shape(idx)[0];
  c->p->i[0] = dim;
  ag__set_out(c, 0, x->dtype, x->ndim, shape);
  return AG_OK;
}
int ag__infer_resample(ag_infer *c) { return infer_resample(c, false); }
int ag__infer_resample_back(ag_infer *c) { return infer_resample(c, true); }

/* o places of the small side, each of taps terms, from or to n places of the large side. */
#define RESAMPLE(SUFFIX, T)                                                                                              \
  static void resample_##SUFFIX(int64_t outer, int64_t o, int64_t n, int64_t inner, int64_t taps, const int64_t *idx,    \
                                const T *w, const T *x, T *out) {                                                        \
    for (int64_t r = 0; r < outer; r++, x += n * inner)                                                                  \
      for (int64_t i = 0; i < o; i++, out += inner) {                                                                    \
        const int64_t *at = idx + i * taps;                                                                              \
        const T *v = w + i * taps;                                                                                       \
        if (inner == 1) {                                                                                                \
          T s = 0;                                                                                                       \
          for (int64_t t = 0; t < taps; t++)                                                                             \
            if (at[t] >= 0) s += v[t] * x[at[t]];                                                                        \
          *out = s;                                                                                                      \
          continue;                                                                                                      \
        }                                                                                                                \
        for (int64_t j = 0; j < inner; j++) out[j] = 0;                                                                  \
        for (int64_t t = 0; t < taps; t++) {                                                                             \
          if (at[t] < 0) continue;                                                                                       \
          const T *restrict p = x + at[t] * inner, f = v[t];                                                             \
          T *restrict q = out;                                                                                           \
          for (int64_t j = 0; j < inner; j++) q[j] += f * p[j];                                                          \
        }                                                                                                                \
      }                                                                                                                  \
  }                                                                                                                      \
  static void resample_back_##SUFFIX(int64_t outer, int64_t o, int64_t n, int64_t inner, int64_t taps,                   \
                                     const int64_t *idx, const T *w, const T *g, T *dx) {                                \
    for (int64_t r = 0; r < outer; r++, dx += n * inner)                                                                 \
      for (int64_t i = 0; i < o; i++, g += inner)                                                                        \
        for (int64_t t = 0; t < taps; t++) {                                                                             \
          int64_t at = idx[i * taps + t];                                                                                \
          if (at < 0) continue;                                                                                          \
          const T f = w[i * taps + t];                                                                                   \
          T *restrict q = dx + at * inner;                                                                               \
          for (int64_t j = 0; j < inner; j++) q[j] += f * g[j];                                                          \
        }                                                                                                                \
  }
RESAMPLE(i64, uint64_t) /* int64, which wraps around: sums of windows */
RESAMPLE(f32, float)
RESAMPLE(f64, double)

static int exec_resample(const ag_exec *x, bool back) {
  const ag_raw *a = &x->in[0], *out = &x->out[0];
  int64_t outer, n, inner, m = x->in[1].shape[0], taps = x->in[1].shape[1];
  if (back) memset(out->data, 0, (size_t)out->numel * (size_t)ag__dtype_size(out->dtype));
  if (out->numel == 0 || (back && a->numel == 0)) return AG_OK;
  ag__split3(out->ndim, back ? out->shape : a->shape, (int)x->p->i[0], &outer, &n, &inner);
  ag_temp t[3] = {{NULL, 0}};
  const void *d[3] = {NULL};
  int st = AG_OK;
  for (int k = 0; k < 3 && !st; k++)
    if (!(d[k] = ag__contig(&x->in[k], &t[k]))) st = AG_ERR_MEMORY;
  for (int64_t k = 0; k < m * taps && !st; k++)
    if (((const int64_t *)d[1])[k] >= n)
      st = ag__fail(AG_ERR_INDEX, "%s(): place %lld is out of %lld", x->row->name, (long long)((const int64_t *)d[1])[k], (long long)n);
  if (!st) {
    void *token = ag__long_begin(outer * m * taps * inner, AG_LONG_MATH), *o = out->data;
    if (out->dtype == AG_INT64) (back ? resample_back_i64 : resample_i64)(outer, m, n, inner, taps, d[1], d[2], d[0], o);
    else if (out->dtype == AG_FLOAT32) (back ? resample_back_f32 : resample_f32)(outer, m, n, inner, taps, d[1], d[2], d[0], o);
    else (back ? resample_back_f64 : resample_f64)(outer, m, n, inner, taps, d[1], d[2], d[0], o);
    ag__blocking_end(token);
  }
  for (int k = 0; k < 3; k++) ag__temp_free(&t[k]);
  return st;
}
int ag__exec_resample(const ag_exec *x) { return exec_resample(x, false); }
int ag__exec_resample_back(const ag_exec *x) { return exec_resample(x, true); }

static int vjp_resample(ag_vjp *c, bool back) {
  if (c->need[2]) return c->status = ag__fail(AG_ERR_NOT_IMPLEMENTED, "the derivative for 'weight' is not implemented");
  if (!c->need[0]) return c->status;
  ag_params p = {.ni = back ? 1 : 2, .i = {c->p.i[0]}};
  if (!back) p.i[1] = ag__vmeta(c, 0)->shape[c->p.i[0]];
  ag_tensor *in[3] = {c->g[0], ag__vx(c, 1), ag__vx(c, 2)};
  return ag__give(c, 0, ag__b(c, back ? AG_OP_resample : AG_OP_resample_back, 3, in, &p));
}
int ag__vjp_resample(ag_vjp *c) { return vjp_resample(c, false); }
int ag__vjp_resample_back(ag_vjp *c) { return vjp_resample(c, true); }

/* ---- unfold: (N, C, H, W) to (N, C KH KW, windows), fold back; ints: kernel, dilation, padding, stride, (H, W) ---- */

static int windows(const ag_params *p, ag_k_convgeom *g) {
  memset(g, 0, sizeof *g);
  g->nd = 2;
  for (int d = 0; d < 2; d++) {
    g->k[d] = p->i[d];
    g->dil[d] = p->i[2 + d];
    g->pad[d] = p->i[4 + d];
    g->stride[d] = p->i[6 + d];
    g->in[d] = p->i[8 + d];
    int64_t reach;
    if (g->k[d] <= 0 || g->dil[d] <= 0 || g->stride[d] <= 0 || g->pad[d] < 0 || g->in[d] < 0 || g->pad[d] > 1 << 30 ||
        __builtin_mul_overflow(g->dil[d], g->k[d] - 1, &reach) || reach > INT64_MAX / 4)
      return ag__fail(AG_ERR_RUNTIME, "kernel size, dilation and stride should be greater than zero, padding not negative");
    g->out[d] = g->in[d] + 2 * g->pad[d] < reach + 1 ? 0 : (g->in[d] + 2 * g->pad[d] - reach - 1) / g->stride[d] + 1;
  }
  if (g->out[0] < 1 || g->out[1] < 1)
    return ag__fail(AG_ERR_RUNTIME, "Given input with spatial size (%lld, %lld), kernel_size=(%lld, %lld), the calculated shape of the "
                    "array of sliding blocks is (%lld, %lld), but its components must be at least one.", (long long)g->in[0],
                    (long long)g->in[1], (long long)g->k[0], (long long)g->k[1], (long long)g->out[0], (long long)g->out[1]);
  return AG_OK;
}

/* What unfold and fold ask alike of their operand and parameters. */
static int sliding(ag_infer *c, ag_k_convgeom *g) {
  int st = ag__need(c, 1, 10, 0);
  if (!st) st = ag__need_float(c, c->in[0]->dtype);
  return st ? st : windows(c->p, g);
}

int ag__infer_unfold(ag_infer *c) {
  ag_array *x = c->in[0];
  ag_k_convgeom g;
  int st = sliding(c, &g);
  if (st) return st;
  const int64_t *s = ag__shape(x);
  if (x->ndim != 4 || s[2] != g.in[0] || s[3] != g.in[1])
    return ag__fail(AG_ERR_RUNTIME, "unfold(): expected planes of %lld x %lld", (long long)g.in[0], (long long)g.in[1]);
  ag__set_out(c, 0, x->dtype, 3, (int64_t[]){s[0], s[1] * g.k[0] * g.k[1], g.out[0] * g.out[1]});
  return AG_OK;
}

int ag__infer_fold(ag_infer *c) {
  ag_array *x = c->in[0];
  ag_k_convgeom g;
  int st = sliding(c, &g);
  if (st) return st;
  const int64_t *s = ag__shape(x);
  if (x->ndim != 3 || s[1] % (g.k[0] * g.k[1]))
    return ag__fail(AG_ERR_RUNTIME, "Expected size of input's dimension 1 to be divisible by the product of kernel_size, but got "
                    "input.size(1)=%lld and kernel_size=(%lld, %lld).", x->ndim > 1 ? (long long)s[1] : 0, (long long)g.k[0],
                    (long long)g.k[1]);
  if (s[2] != g.out[0] * g.out[1])
    return ag__fail(AG_ERR_RUNTIME, "Given output_size=(%lld, %lld), kernel_size=(%lld, %lld), expected size of input's dimension 2 to "
                    "match the calculated number of sliding blocks %lld * %lld = %lld, but got input.size(2)=%lld.", (long long)g.in[0],
                    (long long)g.in[1], (long long)g.k[0], (long long)g.k[1], (long long)g.out[0], (long long)g.out[1],
                    (long long)(g.out[0] * g.out[1]), (long long)s[2]);
  ag__set_out(c, 0, x->dtype, 4, (int64_t[]){s[0], s[1] / (g.k[0] * g.k[1]), g.in[0], g.in[1]});
  return AG_OK;
}

static int exec_windows(const ag_exec *x, bool fold) {
  const ag_raw *a = &x->in[0], *out = &x->out[0];
  ag_k_convgeom g;
  int st = windows(x->p, &g), size = ag__dtype_size(a->dtype);
  if (st) return st;
  if (fold) memset(out->data, 0, (size_t)out->numel * (size_t)size);
  if (out->numel == 0 || (fold && a->numel == 0)) return AG_OK;
  ag_temp t;
  const char *d = ag__contig(a, &t);
  if (!d) return AG_ERR_MEMORY;
  g.c = fold ? out->shape[1] : a->shape[1];
  int64_t n = a->shape[0], from = a->numel / n * size, to = out->numel / n * size;
  void *token = ag__long_begin(fold ? a->numel : out->numel, AG_LONG_MOVE);
  for (int64_t s = 0; s < n; s++)
    if (fold) ag__k->fold[a->dtype](&g, out->data + s * to, d + s * from);
    else ag__k->unfold[a->dtype](&g, out->data + s * to, d + s * from);
  ag__blocking_end(token);
  ag__temp_free(&t);
  return AG_OK;
}
int ag__exec_unfold(const ag_exec *x) { return exec_windows(x, false); }
int ag__exec_fold(const ag_exec *x) { return exec_windows(x, true); }

int ag__vjp_unfold(ag_vjp *c) { return c->need[0] ? ag__give(c, 0, ag__b(c, AG_OP_fold, 1, c->g, &c->p)) : c->status; }
int ag__vjp_fold(ag_vjp *c) { return c->need[0] ? ag__give(c, 0, ag__b(c, AG_OP_unfold, 1, c->g, &c->p)) : c->status; }
