/* fn_nn.c: softmax, losses, layer normalisation. */
#include "ops/fn_util.h"

#include <math.h>

/* ---- softmax, log_softmax and their derivatives; ints: dim ---- */

static int infer_softmax(ag_infer *c) {
  ag_array *x = c->in[0];
  int dim, st = ag__need(c, 1, 1, 0);
  if (!st) st = ag__need_float(c, x->dtype);
  if (!st) st = ag__wrap_dim(c->p->i[0], x->ndim, &dim);
  if (st) return st;
  c->p->i[0] = dim;
  ag__set_out(c, 0, x->dtype, x->ndim, ag__shape(x));
  return AG_OK;
}
int ag__infer_softmax(ag_infer *c) { return infer_softmax(c); }
int ag__infer_log_softmax(ag_infer *c) { return infer_softmax(c); }

static int infer_softmax_backward(ag_infer *c) {
  int st = infer_softmax(c);
  if (st) return st;
  ag_array *g = c->in[0], *y = c->in[1];
  if (g->dtype != y->dtype || !ag__same_shape(g->ndim, ag__shape(g), y->ndim, ag__shape(y)))
    return ag__fail(AG_ERR_RUNTIME, "%s(): gradient and result must have the same shape and type", c->row->name);
  return AG_OK;
}
int ag__infer_softmax_backward(ag_infer *c) { return infer_softmax_backward(c); }
int ag__infer_log_softmax_backward(ag_infer *c) { return infer_softmax_backward(c); }

static int exec_softmax(const ag_exec *x, int is_log) {
  const ag_raw *a = &x->in[0];
  if (a->numel == 0) return AG_OK;
  int64_t outer, n, inner;
  ag__split3(a->ndim, a->shape, (int)x->p->i[0], &outer, &n, &inner);
  ag_temp t;
  const char *data = ag__contig(a, &t);
  if (!data) return AG_ERR_MEMORY;
  void *token = ag__long_begin(a->numel * 16, AG_LONG_MATH);
  ag__par_softmax(a->dtype, outer, n, inner, x->out[0].data, data, is_log);
  ag__blocking_end(token);
  ag__temp_free(&t);
  return AG_OK;
}
int ag__exec_softmax(const ag_exec *x) { return exec_softmax(x, 0); }
int ag__exec_log_softmax(const ag_exec *x) { return exec_softmax(x, 1); }

static int exec_softmax_backward(const ag_exec *x, int is_log) {
  const ag_raw *g = &x->in[0], *y = &x->in[1];
  if (g->numel == 0) return AG_OK;
  int64_t outer, n, inner;
  ag__split3(g->ndim, g->shape, (int)x->p->i[0], &outer, &n, &inner);
  ag_temp tg, ty = {NULL, 0};
  int st = AG_ERR_MEMORY;
  const char *gd = ag__contig(g, &tg), *yd = gd ? ag__contig(y, &ty) : NULL;
  if (yd) {
    void *token = ag__long_begin(g->numel * 8, AG_LONG_MATH);
    ag__par_softmax_bwd(g->dtype, outer, n, inner, x->out[0].data, gd, yd, is_log);
    ag__blocking_end(token);
    st = AG_OK;
  }
  ag__temp_free(&ty);
  ag__temp_free(&tg);
  return st;
}
int ag__exec_softmax_backward(const ag_exec *x) { return exec_softmax_backward(x, 0); }
int ag__exec_log_softmax_backward(const ag_exec *x) { return exec_softmax_backward(x, 1); }

static ag_tensor *sum_along(ag_vjp *c, ag_tensor *a) { return ag__bi(c, AG_OP_sum, a, 2, (int64_t)1, c->p.i[0]); }

static int vjp_softmax(ag_vjp *c, int op) {
  if (!c->need[0]) return c->status;
  ag_tensor *in[2] = {c->g[0], ag__vy(c, 0)};
  return ag__give(c, 0, ag__b(c, op, 2, in, &c->p));
}
int ag__vjp_softmax(ag_vjp *c) { return vjp_softmax(c, AG_OP_softmax_backward); }
int ag__vjp_log_softmax(ag_vjp *c) { return vjp_softmax(c, AG_OP_log_softmax_backward); }

/* f = y (g - s), s = sum g y.  In g it is symmetric; in y: G (g - s) - g sum(G y). */
int ag__vjp_softmax_backward(ag_vjp *c) {
  ag_tensor *G = c->g[0], *y = ag__vx(c, 1);
  if (c->need[0]) {
    ag_tensor *in[2] = {G, y};
    ag__give(c, 0, ag__b(c, AG_OP_softmax_backward, 2, in, &c->p));
  }
  if (c->need[1] && !c->status) {
    ag_tensor *g = ag__vx(c, 0);
    ag_tensor *s = sum_along(c, ag__b2(c, AG_OP_mul, g, y)), *r = sum_along(c, ag__b2(c, AG_OP_mul, G, y));
    ag_tensor *a = ag__b2(c, AG_OP_mul, G, ag__b2(c, AG_OP_sub, g, s));
    ag__give(c, 1, ag__b2(c, AG_OP_sub, a, ag__b2(c, AG_OP_mul, g, r)));
  }
  return c->status;
}

/* f = g - exp(y) S, S = sum g.  In g: G - sum(G exp y); in y: -G exp(y) S. */
int ag__vjp_log_softmax_backward(ag_vjp *c) {
  ag_tensor *Ge = ag__b2(c, AG_OP_mul, c->g[0], ag__b1(c, AG_OP_exp, ag__vx(c, 1)));
  if (c->need[0]) ag__give(c, 0, ag__b2(c, AG_OP_sub, c->g[0], sum_along(c, Ge)));
  if (c->need[1] && !c->status)
    ag__give(c, 1, ag__b1(c, AG_OP_neg, ag__b2(c, AG_OP_mul, Ge, sum_along(c, ag__vx(c, 0)))));
  return c->status;
}

/* ---- nll_loss; ints: reduction (0 none, 1 mean, 2 sum), ignore_index ---- */

/* Shape of logp is (C), (N, C) or (N, C, d..); the target has it without C. */
typedef struct nll {
  int64_t outer, classes, inner; /* outer x classes x inner */
} nll;

static nll nll_split(int ndim, const int64_t *shape) {
  nll s;
  ag__split3(ndim, shape, ndim > 1 ? 1 : 0, &s.outer, &s.classes, &s.inner);
  return s;
}

static int nll_check(ag_infer *c, int dtype, int ndim, const int64_t *shape, const ag_array *target, const ag_array *weight) {
  if (target->dtype != AG_INT64)
    return ag__fail(AG_ERR_RUNTIME, "expected scalar type Long but found %s", ag__scalar_name(target->dtype));
  if (ndim < 1) return ag__fail(AG_ERR_RUNTIME, "input tensor should be 1D or 2D");
  const int64_t *ts = ag__shape(target);
  int lead = ndim > 1 ? 1 : 0;
  if (target->ndim > 0 && lead && ts[0] != shape[0])
    return ag__fail(AG_ERR_VALUE, "Expected input batch_size (%lld) to match target batch_size (%lld).", (long long)shape[0],
                    (long long)ts[0]);
  bool same = target->ndim == ndim - 1;
  for (int d = 0; same && d < target->ndim; d++) same = ts[d] == shape[d + (d >= lead)];
  if (!same) {
    int64_t want[AG_MAX_NDIM];
    char a[160], b[160];
    for (int d = 0; d < ndim - 1; d++) want[d] = shape[d + (d >= lead)];
    return ag__fail(AG_ERR_RUNTIME, "Expected target size %s, got %s", ag__shape_text(ndim - 1, want, a, sizeof a),
                    ag__shape_text(target->ndim, ts, b, sizeof b));
  }
  if (weight) {
    if (weight->ndim != 1 || weight->numel != shape[lead]) {
      char a[160];
      return ag__fail(AG_ERR_RUNTIME, "weight tensor should be defined either for all %lld classes or no classes but got weight "
                      "tensor of shape: %s", (long long)shape[lead],
                      ag__shape_text(weight->ndim, ag__shape(weight), a, sizeof a));
    }
    if (weight->dtype != dtype)
      return ag__fail(AG_ERR_RUNTIME, "expected scalar type %s but found %s", ag__scalar_name(dtype),
                      ag__scalar_name(weight->dtype));
  }
  if (c->p->i[0] < 0 || c->p->i[0] > 2)
    return ag__fail(AG_ERR_VALUE, "%lld is not a valid value for reduction", (long long)c->p->i[0]);
  return AG_OK;
}

int ag__infer_nll_loss(ag_infer *c) {
  int st = ag__need(c, 2, 2, 0);
  if (st) return st;
  ag_array *x = c->in[0], *t = c->in[1];
  st = ag__need_float(c, x->dtype);
  if (!st) st = nll_check(c, x->dtype, x->ndim, ag__shape(x), t, c->n_in > 2 ? c->in[2] : NULL);
  if (st) return st;
  bool none = c->p->i[0] == 0;
  ag__set_out(c, 0, x->dtype, none ? t->ndim : 0, ag__shape(t));
  ag__set_out(c, 1, x->dtype, 0, NULL);
  return AG_OK;
}

/* ints: reduction, ignore_index, shape of logp */
int ag__infer_nll_loss_backward(ag_infer *c) {
  int st = ag__need(c, 3, 3, 0);
  if (st) return st;
  ag_array *g = c->in[0], *t = c->in[1];
  int ndim = c->p->ni - 2;
  if (ndim > AG_MAX_NDIM) return ag__fail(AG_ERR_VALUE, "nll_loss_backward(): too many dimensions");
  st = ag__need_float(c, g->dtype);
  if (!st) st = nll_check(c, g->dtype, ndim, c->p->i + 2, t, c->n_in > 3 ? c->in[3] : NULL);
  if (st) return st;
  bool none = c->p->i[0] == 0;
  if (none ? !ag__same_shape(g->ndim, ag__shape(g), t->ndim, ag__shape(t)) : g->numel != 1)
    return ag__fail(AG_ERR_RUNTIME, "nll_loss_backward(): the gradient has not the shape of the loss");
  if (c->in[2]->dtype != g->dtype || c->in[2]->numel != 1)
    return ag__fail(AG_ERR_RUNTIME, "nll_loss_backward(): expected total_weight to be a single element of the gradient's type");
  ag__set_out(c, 0, g->dtype, ndim, c->p->i + 2);
  return AG_OK;
}

static double number(const ag_raw *r, int64_t i) {
  return r->dtype == AG_FLOAT32 ? (double)((const float *)(const void *)r->data)[i] : ((const double *)(const void *)r->data)[i];
}

static int bad_target(int64_t t) { return ag__fail(AG_ERR_INDEX, "Target %lld is out of bounds.", (long long)t); }

/* Sums run in double for both types: the result is at most one rounding from exact for float32. */
#define NLL(NAME, T)                                                                                               \
  static int NAME(nll s, const T *lp, const int64_t *target, const T *w, int64_t ignore, int red, T *loss, T *tw) { \
    double sum = 0, total = 0;                                                                                     \
    for (int64_t o = 0; o < s.outer; o++)                                                                          \
      for (int64_t i = 0; i < s.inner; i++) {                                                                      \
        int64_t k = o * s.inner + i, t = target[k];                                                                \
        if (t == ignore) {                                                                                         \
          if (red == 0) loss[k] = 0;                                                                               \
          continue;                                                                                                \
        }                                                                                                          \
        if ((uint64_t)t >= (uint64_t)s.classes) return bad_target(t);                                              \
        T v = lp[(o * s.classes + t) * s.inner + i], wt = w ? w[t] : (T)1;                                         \
        if (red == 0) loss[k] = -wt * v;                                                                           \
        sum -= (double)wt * (double)v;                                                                             \
        total += (double)wt;                                                                                       \
      }                                                                                                            \
    *tw = (T)total;                                                                                                \
    if (red) *loss = (T)(red == 1 ? sum / total : sum);                                                            \
    return AG_OK;                                                                                                  \
  }
NLL(nll_f32, float)
NLL(nll_f64, double)

#define NLL_BACKWARD(NAME, T)                                                                                        \
  static int NAME(nll s, const T *g, const int64_t *target, const T *w, int64_t ignore, int red, T total, T *dx) {    \
    for (int64_t o = 0; o < s.outer; o++)                                                                            \
      for (int64_t i = 0; i < s.inner; i++) {                                                                        \
        int64_t k = o * s.inner + i, t = target[k];                                                                  \
        if (t == ignore) continue;                                                                                   \
        if ((uint64_t)t >= (uint64_t)s.classes) return bad_target(t);                                                \
        T wt = w ? w[t] : (T)1;                                                                                      \
        T v = red == 0 ? -wt * g[k] : red == 1 ? -wt * (g[0] / total) : -wt * g[0];                                  \
        dx[(o * s.classes + t) * s.inner + i] = v;                                                                   \
      }                                                                                                              \
    return AG_OK;                                                                                                    \
  }
NLL_BACKWARD(nll_backward_f32, float)
NLL_BACKWARD(nll_backward_f64, double)

int ag__exec_nll_loss(const ag_exec *x) {
  const ag_raw *a = &x->in[0];
  bool weighted = x->n_in > 2;
  ag_temp ta, tt = {NULL, 0}, tw = {NULL, 0};
  int st = AG_ERR_MEMORY;
  const void *lp = ag__contig(a, &ta), *target = lp ? ag__contig(&x->in[1], &tt) : NULL;
  const void *w = weighted && target ? ag__contig(&x->in[2], &tw) : NULL;
  if (target && (w || !weighted)) {
    nll s = nll_split(a->ndim, a->shape);
    int red = (int)x->p->i[0];
    void *token = ag__long_begin(s.outer * s.inner, AG_LONG_MOVE);
    st = a->dtype == AG_FLOAT32
           ? nll_f32(s, lp, target, w, x->p->i[1], red, (float *)(void *)x->out[0].data, (float *)(void *)x->out[1].data)
           : nll_f64(s, lp, target, w, x->p->i[1], red, (double *)(void *)x->out[0].data, (double *)(void *)x->out[1].data);
    ag__blocking_end(token);
  }
  ag__temp_free(&tw);
  ag__temp_free(&tt);
  ag__temp_free(&ta);
  return st;
}

int ag__exec_nll_loss_backward(const ag_exec *x) {
  const ag_raw *out = &x->out[0];
  bool weighted = x->n_in > 3;
  ag_temp tg, tt = {NULL, 0}, tw = {NULL, 0};
  int st = AG_ERR_MEMORY;
  const void *g = ag__contig(&x->in[0], &tg), *target = g ? ag__contig(&x->in[1], &tt) : NULL;
  const void *w = weighted && target ? ag__contig(&x->in[3], &tw) : NULL;
  if (target && (w || !weighted)) {
    nll s = nll_split(out->ndim, out->shape);
    int red = (int)x->p->i[0];
    double total = number(&x->in[2], 0);
    memset(out->data, 0, (size_t)out->numel * (size_t)ag__dtype_size(out->dtype));
    st = out->dtype == AG_FLOAT32
           ? nll_backward_f32(s, g, target, w, x->p->i[1], red, (float)total, (float *)(void *)out->data)
           : nll_backward_f64(s, g, target, w, x->p->i[1], red, total, (double *)(void *)out->data);
  }
  ag__temp_free(&tw);
  ag__temp_free(&tt);
  ag__temp_free(&tg);
  return st;
}

int ag__vjp_nll_loss(ag_vjp *c) {
  bool weighted = c->node->n_in > 2;
  if (weighted && c->need[2])
    return c->status = ag__fail(AG_ERR_NOT_IMPLEMENTED, "the derivative for 'weight' is not implemented");
  if (!c->need[0] || !c->g[0]) return c->status;
  const ag_meta *m = ag__vmeta(c, 0);
  ag_params p = {.ni = 2 + m->ndim, .i = {c->p.i[0], c->p.i[1]}};
  memcpy(p.i + 2, m->shape, sizeof(int64_t) * m->ndim);
  ag_tensor *in[4] = {c->g[0], ag__vx(c, 1), ag__vy(c, 1), weighted ? ag__vx(c, 2) : NULL};
  return ag__give(c, 0, ag__b(c, AG_OP_nll_loss_backward, weighted ? 4 : 3, in, &p));
}

/* The op is linear in g and its adjoint is nll_loss itself: both read -w[t]/total at the same places. */
int ag__vjp_nll_loss_backward(ag_vjp *c) {
  bool weighted = c->node->n_in > 3;
  if (!c->need[0]) return c->status;
  ag_tensor *in[3] = {c->g[0], ag__vx(c, 1), weighted ? ag__vx(c, 3) : NULL};
  ag_params p = {.ni = 2, .i = {c->p.i[0], c->p.i[1]}};
  const ag_meta *m = ag__vmeta(c, 0);
  return ag__give(c, 0, ag__breshape(c, ag__b(c, AG_OP_nll_loss, weighted ? 3 : 2, in, &p), m->ndim, m->shape));
}

/* ---- layer_norm: x[, w, b]; ints: the normalized shape; floats: eps ---- */

int ag__infer_layer_norm(ag_infer *c) {
  int st = ag__need(c, 1, 1, 1);
  if (st) return st;
  ag_array *x = c->in[0];
  const int64_t *shape = ag__shape(x), *norm = c->p->i;
  int n = c->p->ni;
  if ((st = ag__need_float(c, x->dtype))) return st;
  if (n > x->ndim || memcmp(shape + x->ndim - n, norm, sizeof(int64_t) * (size_t)n) != 0) {
    char a[160], b[160];
    ag__shape_text(n, norm, a, sizeof a);
    return ag__fail(AG_ERR_RUNTIME, "Given normalized_shape=%s, expected input with shape [*, %s, but got input of size%s", a, a + 1,
                    ag__shape_text(x->ndim, shape, b, sizeof b));
  }
  for (int k = 1; k < c->n_in; k++) {
    ag_array *w = c->in[k];
    if (w->dtype != x->dtype)
      return ag__fail(AG_ERR_RUNTIME, "expected scalar type %s but found %s", ag__scalar_name(x->dtype), ag__scalar_name(w->dtype));
    if (!ag__same_shape(w->ndim, ag__shape(w), n, norm)) {
      char a[160], b[160];
      return ag__fail(AG_ERR_RUNTIME, "Expected %s to be of same shape as normalized_shape, but got %s of shape %s and "
                      "normalized_shape = %s", k == 1 ? "weight" : "bias", k == 1 ? "weight" : "bias",
                      ag__shape_text(w->ndim, ag__shape(w), a, sizeof a), ag__shape_text(n, norm, b, sizeof b));
    }
  }
  int64_t kept[AG_MAX_NDIM];
  for (int d = 0; d < x->ndim; d++) kept[d] = d < x->ndim - n ? shape[d] : 1;
  ag__set_out(c, 0, x->dtype, x->ndim, shape);
  ag__set_out(c, 1, x->dtype, x->ndim, kept);
  ag__set_out(c, 2, x->dtype, x->ndim, kept);
  return AG_OK;
}

/* The first operands (at most `most`) as contiguous memory, in d; whatever happens, the caller frees t. */
static int contig_operands(const ag_exec *x, int most, const char **d, ag_temp *t) {
  for (int k = 0; k < x->n_in && k < most; k++)
    if (!(d[k] = ag__contig(&x->in[k], &t[k]))) return AG_ERR_MEMORY;
  return AG_OK;
}

int ag__exec_layer_norm(const ag_exec *x) {
  const ag_raw *a = &x->in[0];
  int64_t n = 1;
  for (int k = 0; k < x->p->ni; k++) n *= x->p->i[k];
  if (a->numel == 0) { /* rows of no elements have no mean */
    for (int k = 1; k < 3; k++)
      for (int64_t i = 0; i < x->out[k].numel; i++)
        if (a->dtype == AG_FLOAT32) ((float *)(void *)x->out[k].data)[i] = NAN;
        else ((double *)(void *)x->out[k].data)[i] = (double)NAN;
    return AG_OK;
  }
  ag_temp t[3] = {{NULL, 0}};
  const char *d[3] = {NULL};
  int st = contig_operands(x, 3, d, t);
  if (!st) {
    void *token = ag__long_begin(a->numel * 8, AG_LONG_MATH);
    void *y = x->out[0].data, *mean = x->out[1].data, *rstd = x->out[2].data;
    const void *p = d[0], *w = d[1], *b = d[2];
    ag__par_layer_norm(a->dtype, a->numel / n, n, p, w, b, x->p->f[0], y, mean, rstd);
    ag__blocking_end(token);
  }
  for (int k = 0; k < 3; k++) ag__temp_free(&t[k]);
  return st;
}

static ag_tensor *mean_of(ag_vjp *c, ag_tensor *a, int n) {
  ag_params p = {.ni = 1 + n, .i = {1}};
  if (!a) return NULL;
  for (int k = 0; k < n; k++) p.i[1 + k] = a->arr->ndim - n + k;
  return ag__b(c, AG_OP_mean, 1, &a, &p);
}

/* All that is wanted from one kernel. */
static int layer_norm_fused(ag_vjp *c, ag_tensor *g, ag_tensor *x) {
  int n_in = (int)c->node->n_in, n = c->p.ni;
  ag_params p = {.ni = 1 + n, .i = {0}};
  for (int k = 0; k < n_in; k++) p.i[0] |= (int64_t)c->need[k] << k;
  memcpy(p.i + 1, c->p.i, sizeof(int64_t) * (size_t)n);
  ag_tensor *in[5] = {g, x, ag__vy(c, 1), ag__vy(c, 2), n_in > 1 ? ag__vx(c, 1) : NULL}, *outs[3];
  if (c->status) return c->status;
  if (ag__apply(AG_OP_layer_norm_backward, n_in > 1 ? 5 : 4, in, &p, outs) < 0) return c->status = ag_last_status();
  for (int k = 0; k < 3; k++) {
    if (k < n_in && c->need[k] && !c->status) ag__give(c, k, outs[k]);
    ag_tensor_release(outs[k]);
  }
  return c->status;
}

/* With h = g w, all means over the normalized dims: dx = rstd (h - mean(h) - xhat mean(h xhat)).  Where this is
 * differentiated again, mean and rstd must be functions of x, so they are computed anew in ops. */
int ag__vjp_layer_norm(ag_vjp *c) {
  int n = c->p.ni;
  bool affine = c->node->n_in > 1;
  ag_tensor *x = ag__vx(c, 0), *g = c->g[0], *mean, *rstd, *xc;
  if (g && !c->g[1] && !c->g[2] && !ag__grad_on()) return layer_norm_fused(c, g, x);
  if (ag__grad_on()) {
    mean = mean_of(c, x, n);
    xc = ag__b2(c, AG_OP_sub, x, mean);
    ag_tensor *var = mean_of(c, ag__b2(c, AG_OP_mul, xc, xc), n);
    ag_tensor *eps = x ? ag__bnum(c, c->p.f[0], x->arr->dtype) : NULL;
    rstd = ag__b1(c, AG_OP_rsqrt, ag__b2(c, AG_OP_add, var, eps));
  } else {
    mean = ag__vy(c, 1);
    rstd = ag__vy(c, 2);
    xc = ag__b2(c, AG_OP_sub, x, mean);
  }
  ag_tensor *xhat = ag__b2(c, AG_OP_mul, xc, rstd);
  if (c->status) return c->status;
  if (g && affine && c->need[1]) ag__give(c, 1, ag__b2(c, AG_OP_mul, g, xhat));
  if (g && c->node->n_in > 2 && c->need[2]) ag__give(c, 2, g);
  if (!c->need[0] || c->status) return c->status;
  ag_tensor *dx = NULL;
  if (g) {
    ag_tensor *h = affine ? ag__b2(c, AG_OP_mul, g, ag__vx(c, 1)) : g;
    ag_tensor *a = ag__b2(c, AG_OP_sub, h, mean_of(c, h, n));
    ag_tensor *b = ag__b2(c, AG_OP_mul, xhat, mean_of(c, ag__b2(c, AG_OP_mul, h, xhat), n));
    dx = ag__b2(c, AG_OP_mul, rstd, ag__b2(c, AG_OP_sub, a, b));
  }
  /* The statistics as results of their own: d mean = 1/n, d rstd = -rstd^2 xhat / n. */
  double len = 1;
  for (int k = 0; k < n; k++) len *= (double)c->p.i[k];
  if (c->g[1] && !c->status) {
    ag_tensor *m = ag__bscale(c, c->g[1], 1 / len);
    dx = dx ? ag__b2(c, AG_OP_add, dx, m) : ag__bshape(c, AG_OP_expand, m, x->arr->ndim, ag__shape(x->arr));
  }
  if (c->g[2] && !c->status) {
    ag_tensor *r = ag__b2(c, AG_OP_mul, ag__b2(c, AG_OP_mul, rstd, rstd), ag__bscale(c, c->g[2], -1 / len));
    r = ag__b2(c, AG_OP_mul, r, xhat);
    dx = dx ? ag__b2(c, AG_OP_add, dx, r) : r;
  }
  return ag__give(c, 0, dx);
}

/* ints: which of dx, dw, db (bits; the others have no elements), the normalized shape */
int ag__infer_layer_norm_backward(ag_infer *c) {
  int st = ag__need(c, 4, 1, 0);
  if (st) return st;
  ag_array *g = c->in[0], *x = c->in[1], *w = c->n_in > 4 ? c->in[4] : NULL;
  const int64_t *shape = ag__shape(x), *norm = c->p->i + 1;
  int n = c->p->ni - 1, want = (int)c->p->i[0];
  int64_t len = ag__numel(n, norm);
  if ((st = ag__need_float(c, x->dtype))) return st;
  bool fits = n <= x->ndim && memcmp(shape + x->ndim - n, norm, sizeof(int64_t) * (size_t)n) == 0 &&
              ag__same_shape(g->ndim, ag__shape(g), x->ndim, shape) && c->in[2]->numel * len == x->numel &&
              c->in[3]->numel * len == x->numel && (!w || w->numel == len);
  for (int k = 0; k < c->n_in; k++) fits &= c->in[k]->dtype == x->dtype;
  if (!fits) return ag__fail(AG_ERR_RUNTIME, "layer_norm_backward(): operands do not fit one another");
  const int64_t none = 0;
  ag__set_out(c, 0, x->dtype, want & 1 ? x->ndim : 1, want & 1 ? shape : &none);
  for (int k = 1; k < 3; k++) ag__set_out(c, k, x->dtype, want >> k & 1 ? n : 1, want >> k & 1 ? norm : &none);
  return AG_OK;
}

int ag__exec_layer_norm_backward(const ag_exec *x) {
  const ag_raw *a = &x->in[1];
  int want = (int)x->p->i[0], dtype = a->dtype, size = ag__dtype_size(dtype), st = AG_OK;
  int64_t n = ag__numel(x->p->ni - 1, x->p->i + 1);
  for (int k = 0; k < 3; k++)
    if (x->out[k].numel) memset(x->out[k].data, 0, (size_t)x->out[k].numel * (size_t)size);
  if (a->numel == 0) return AG_OK;
  ag_temp t[5] = {{NULL, 0}}, ts = {NULL, 0};
  const char *d[5] = {NULL};
  for (int k = 0; k < x->n_in && !st; k++)
    if (!(d[k] = ag__contig(&x->in[k], &t[k]))) st = AG_ERR_MEMORY;
  char *sums = st ? NULL : ag__temp(&ts, (size_t)(2 * n * size));
  if (sums) {
    void *token = ag__long_begin(a->numel * 8, AG_LONG_MATH);
    ag__k->layer_norm_bwd[dtype](a->numel / n, n, d[0], d[1], d[2], d[3], d[4], want & 1 ? x->out[0].data : NULL,
                                 want & 2 ? x->out[1].data : NULL, want & 4 ? x->out[2].data : NULL, sums);
    ag__blocking_end(token);
  } else
    st = AG_ERR_MEMORY;
  ag__temp_free(&ts);
  for (int k = 0; k < 5; k++) ag__temp_free(&t[k]);
  return st;
}

/* ---- scale_shift: x a[c] + b[c], channel_dot: sum of u v for each channel; channels are dim 1 ---- */

static int one_per_channel(const ag_infer *c, int k, const ag_array *x) {
  ag_array *a = c->in[k];
  if (a->dtype != x->dtype || a->ndim != 1 || a->numel != ag__shape(x)[1])
    return ag__fail(AG_ERR_RUNTIME, "%s(): expected one number of type %s for each channel", c->row->name, ag__scalar_name(x->dtype));
  return AG_OK;
}

int ag__infer_scale_shift(ag_infer *c) {
  ag_array *x = c->in[0];
  int st = ag__need(c, 2, 0, 0);
  if (!st) st = ag__need_float(c, x->dtype);
  if (!st && x->ndim < 2) st = ag__fail(AG_ERR_RUNTIME, "scale_shift(): expected at least 2 dimensions");
  for (int k = 1; k < c->n_in && !st; k++) st = one_per_channel(c, k, x);
  if (!st) ag__set_out(c, 0, x->dtype, x->ndim, ag__shape(x));
  return st;
}

int ag__infer_channel_dot(ag_infer *c) {
  ag_array *u = c->in[0], *v = c->in[1];
  int st = ag__need_float(c, u->dtype);
  if (st) return st;
  if (u->ndim < 2 || u->dtype != v->dtype || !ag__same_shape(u->ndim, ag__shape(u), v->ndim, ag__shape(v)))
    return ag__fail(AG_ERR_RUNTIME, "channel_dot(): expected two tensors of one shape and type with at least 2 dimensions");
  ag__set_out(c, 0, u->dtype, 1, ag__shape(u) + 1);
  return AG_OK;
}

static int exec_channels(const ag_exec *x, bool dot) {
  const ag_raw *a = &x->in[0];
  int64_t outer, ch, inner;
  if (a->numel == 0) {
    if (dot && x->out[0].numel) memset(x->out[0].data, 0, (size_t)x->out[0].numel * (size_t)ag__dtype_size(a->dtype));
    return AG_OK;
  }
  ag__split3(a->ndim, a->shape, 1, &outer, &ch, &inner);
  ag_temp t[3] = {{NULL, 0}};
  const char *d[3] = {NULL};
  int st = contig_operands(x, 3, d, t);
  if (!st) {
    void *token = ag__long_begin(a->numel * 4, AG_LONG_MATH);
    if (dot) ag__k->channel_dot[a->dtype](outer, ch, inner, x->out[0].data, d[0], d[1]);
    else ag__par_scale_shift(a->dtype, outer, ch, inner, x->out[0].data, d[0], d[1], d[2]);
    ag__blocking_end(token);
  }
  for (int k = 0; k < 3; k++) ag__temp_free(&t[k]);
  return st;
}
int ag__exec_scale_shift(const ag_exec *x) { return exec_channels(x, false); }
int ag__exec_channel_dot(const ag_exec *x) { return exec_channels(x, true); }

int ag__vjp_scale_shift(ag_vjp *c) {
  ag_tensor *g = c->g[0];
  if (c->need[0]) ag__give(c, 0, ag__b2(c, AG_OP_scale_shift, g, ag__vx(c, 1)));
  if (c->need[1] && !c->status) ag__give(c, 1, ag__b2(c, AG_OP_channel_dot, g, ag__vx(c, 0)));
  if (c->node->n_in > 2 && c->need[2] && !c->status && g) {
    ag_params p = {.ni = 1, .i = {0}};
    for (int k = 0; k < g->arr->ndim; k++)
      if (k != 1) p.i[p.ni++] = k;
    ag__give(c, 2, ag__b(c, AG_OP_sum, 1, &g, &p));
  }
  return c->status;
}

int ag__vjp_channel_dot(ag_vjp *c) {
  if (c->need[0]) ag__give(c, 0, ag__b2(c, AG_OP_scale_shift, ag__vx(c, 1), c->g[0]));
  if (c->need[1] && !c->status) ag__give(c, 1, ag__b2(c, AG_OP_scale_shift, ag__vx(c, 0), c->g[0]));
  return c->status;
}

/* ---- mse_loss; ints: reduction ---- */

int ag__infer_mse_loss(ag_infer *c) {
  int st = ag__need(c, 2, 1, 0);
  if (st) return st;
  ag_array *a = c->in[0], *b = c->in[1];
  int64_t shape[AG_MAX_NDIM];
  int ndim;
  if ((st = ag__need_float(c, a->dtype))) return st;
  if (a->dtype != b->dtype)
    return ag__fail(AG_ERR_RUNTIME, "Found dtype %s but expected %s", ag__scalar_name(b->dtype), ag__scalar_name(a->dtype));
  if (c->p->i[0] < 0 || c->p->i[0] > 2)
    return ag__fail(AG_ERR_VALUE, "%lld is not a valid value for reduction", (long long)c->p->i[0]);
  if ((st = ag__broadcast(a->ndim, ag__shape(a), b->ndim, ag__shape(b), &ndim, shape))) return st;
  ag__set_out(c, 0, a->dtype, c->p->i[0] ? 0 : ndim, shape);
  return AG_OK;
}

int ag__exec_mse_loss(const ag_exec *x) {
  int red = (int)x->p->i[0], dtype = x->in[0].dtype, ndim;
  int64_t shape[AG_MAX_NDIM], strides[AG_MAX_NDIM];
  int st = ag__broadcast(x->in[0].ndim, x->in[0].shape, x->in[1].ndim, x->in[1].shape, &ndim, shape);
  if (st) return st;
  ag__strides_contiguous(ndim, shape, strides);
  ag_raw d = {x->out[0].data, shape, strides, ag__numel(ndim, shape), (uint8_t)dtype, (uint8_t)ndim, true};
  ag_temp t = {NULL, 0};
  if (red && !(d.data = ag__temp(&t, (size_t)d.numel * (size_t)ag__dtype_size(dtype)))) return AG_ERR_MEMORY;
  st = ag__exec_ew(ag__k->ew[AG_OP_sub].fwd[dtype], 2, x->in, &d, NULL, 1);
  if (!st) {
    ag_raw dd[2] = {d, d};
    st = ag__exec_ew(ag__k->ew[AG_OP_mul].fwd[dtype], 2, dd, &d, NULL, 1);
  }
  if (!st && red) {
    st = ag__par_reduce(AG_R_SUM, dtype, 1, d.numel, 1, x->out[0].data, d.data);
    if (!st && red == 1) {
      if (dtype == AG_FLOAT32) *(float *)(void *)x->out[0].data /= (float)d.numel;
      else *(double *)(void *)x->out[0].data /= (double)d.numel;
    }
  }
  ag__temp_free(&t);
  return st;
}

int ag__vjp_mse_loss(ag_vjp *c) {
  ag_tensor *d = ag__b2(c, AG_OP_sub, ag__vx(c, 0), ag__vx(c, 1));
  if (!d) return c->status;
  double scale = c->p.i[0] == 1 ? 2.0 / (double)d->arr->numel : 2.0;
  ag_tensor *r = ag__b2(c, AG_OP_mul, d, ag__bscale(c, c->g[0], scale));
  if (c->need[0]) ag__give(c, 0, r);
  if (c->need[1] && !c->status) ag__give(c, 1, ag__b1(c, AG_OP_neg, r));
  return c->status;
}
