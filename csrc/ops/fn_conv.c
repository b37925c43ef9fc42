/* fn_conv.c: convolution in one to three dimensions, max pooling, and what their derivatives are made of.
 *
 * y = convolution(x, w), gx = conv_grad_input(g, w) and gw = conv_grad_weight(g, x) are three readings of one trilinear
 * form <g, x * w>: each is linear in both operands, and the derivatives of any of them are the other two.
 * All run by unfolding samples into columns and a matrix product. */
#include "ops/fn_util.h"

#include <stdio.h>

typedef struct conv {
  int nd;
  int64_t n, groups, cin, cout; /* batch, channels of x and y */
  int64_t cg, og, ck;           /* of one group: channels of x and y, columns of the weight */
  int64_t nin, nout;            /* elements of one plane of x and y */
  ag_k_convgeom geom;
  bool direct; /* the columns are x itself */
} conv;

/* ints: nd, stride[nd], padding[nd], dilation[nd], groups */
static int64_t conv_ints(int64_t nd) { return 2 + 3 * nd; }

static int conv_params(const ag_infer *c, conv *v) {
  const ag_params *p = c->p;
  int st = ag__need(c, 2, 1, 0);
  if (st) return st;
  if (p->i[0] < 1 || p->i[0] > 3)
    return ag__fail(AG_ERR_VALUE, "%s(): 1 to 3 spatial dimensions are supported, not %lld", c->row->name, (long long)p->i[0]);
  v->nd = (int)p->i[0];
  if ((st = ag__need(c, 2, (int)conv_ints(v->nd), 0))) return st;
  for (int d = 0; d < v->nd; d++) {
    if (p->i[1 + d] <= 0) return ag__fail(AG_ERR_RUNTIME, "non-positive stride is not supported");
    if (p->i[1 + v->nd + d] < 0) return ag__fail(AG_ERR_RUNTIME, "negative padding is not supported");
    if (p->i[1 + 2 * v->nd + d] <= 0) return ag__fail(AG_ERR_RUNTIME, "dilation should be greater than zero");
  }
  if (p->i[1 + 3 * v->nd] <= 0) return ag__fail(AG_ERR_RUNTIME, "non-positive groups is not supported");
  return AG_OK;
}

/* Numbers of a convolution of x with w whose parameters and shapes have been checked. */
static void conv_geometry(conv *v, const ag_params *p, const int64_t *xs, const int64_t *ws) {
  v->nd = (int)p->i[0];
  v->groups = p->i[1 + 3 * v->nd];
  v->n = xs[0];
  v->cin = xs[1];
  v->cout = ws[0];
  v->cg = v->cin / v->groups;
  v->og = v->cout / v->groups;
  v->ck = v->cg;
  v->nin = v->nout = 1;
  v->direct = true;
  ag_k_convgeom *g = &v->geom;
  memset(g, 0, sizeof *g);
  g->nd = v->nd;
  g->c = v->cg;
  for (int d = 0; d < v->nd; d++) {
    g->in[d] = xs[2 + d];
    g->k[d] = ws[2 + d];
    g->stride[d] = p->i[1 + d];
    g->pad[d] = p->i[1 + v->nd + d];
    g->dil[d] = p->i[1 + 2 * v->nd + d];
    g->out[d] = (g->in[d] + 2 * g->pad[d] - g->dil[d] * (g->k[d] - 1) - 1) / g->stride[d] + 1;
    v->ck *= g->k[d];
    v->nin *= g->in[d];
    v->nout *= g->out[d];
    v->direct &= g->k[d] == 1 && g->stride[d] == 1 && g->pad[d] == 0;
  }
}

static char *by_text(int n, const int64_t *s, char *buf, size_t size) {
  size_t at = 0;
  buf[0] = 0;
  for (int k = 0; k < n && at < size; k++) at += (size_t)snprintf(buf + at, size - at, k ? " x %lld" : "%lld", (long long)s[k]);
  return buf;
}

/* Checks shapes as PyTorch does and leaves the shape of the result in ys. */
static int conv_shapes(const ag_infer *c, conv *v, int nx, const int64_t *xs, int nw, const int64_t *ws, int64_t *ys) {
  char a[160], b[160];
  int nd = v->nd, want = nd + 2;
  int64_t groups = c->p->i[1 + 3 * nd];
  if (nw != want)
    return ag__fail(AG_ERR_RUNTIME, "Expected %d-dimensional weight for conv%dd, but got weight of size: %s", want, nd,
                    ag__shape_text(nw, ws, b, sizeof b));
  if (nx != want)
    return ag__fail(AG_ERR_RUNTIME, "Expected %dD (unbatched) or %dD (batched) input to conv%dd, but got input of size: %s", nd + 1,
                    want, nd, ag__shape_text(nx, xs, a, sizeof a));
  ag__shape_text(nw, ws, b, sizeof b);
  if (ws[0] < groups)
    return ag__fail(AG_ERR_RUNTIME, "Given groups=%lld, expected weight to be at least %lld at dimension 0, but got weight of size %s "
                    "instead", (long long)groups, (long long)groups, b);
  if (ws[0] % groups)
    return ag__fail(AG_ERR_RUNTIME, "Given groups=%lld, expected weight to be divisible by %lld at dimension 0, but got weight of "
                    "size %s instead", (long long)groups, (long long)groups, b);
  int64_t channels;
  if (__builtin_mul_overflow(ws[1], groups, &channels) || channels != xs[1])
    return ag__fail(AG_ERR_RUNTIME, "Given groups=%lld, weight of size %s, expected input%s to have %lld channels, but got %lld "
                    "channels instead", (long long)groups, b, ag__shape_text(nx, xs, a, sizeof a),
                    (long long)(ws[1] * groups), (long long)xs[1]);
  int64_t padded[3], span[3];
  bool small = false;
  for (int d = 0; d < nd; d++) {
    int64_t pad = c->p->i[1 + nd + d], dil = c->p->i[1 + 2 * nd + d], reach;
    if (ws[2 + d] <= 0)
      return ag__fail(AG_ERR_RUNTIME, "Kernel size should be greater than zero, but got weight of size %s", b);
    if (pad > (1 << 30) || __builtin_mul_overflow(dil, ws[2 + d] - 1, &reach) || reach > INT64_MAX / 4)
      return ag__fail(AG_ERR_RUNTIME, "convolution: padding or dilation is too large");
    padded[d] = xs[2 + d] + 2 * pad;
    span[d] = reach + 1;
    small |= padded[d] < span[d];
  }
  if (small)
    return ag__fail(AG_ERR_RUNTIME, "Calculated padded input size per channel: (%s). Kernel size: (%s). Kernel size can't be greater "
                    "than actual input size", by_text(nd, padded, a, sizeof a), by_text(nd, span, b, sizeof b));
  conv_geometry(v, c->p, xs, ws);
  ys[0] = xs[0];
  ys[1] = ws[0];
  for (int d = 0; d < nd; d++) ys[2 + d] = v->geom.out[d];
  return AG_OK;
}

static int same_types(const ag_infer *c) {
  ag_array *a = c->in[0], *b = c->in[1];
  int st = ag__need_float(c, a->dtype);
  if (!st && a->dtype != b->dtype)
    st = ag__fail(AG_ERR_RUNTIME, "Input type (%s) and %s type (%s) should be the same", ag__dtype_torch_name(a->dtype),
                  c->row->op == AG_OP_conv_grad_weight ? "gradient" : "weight", ag__dtype_torch_name(b->dtype));
  return st;
}

int ag__infer_convolution(ag_infer *c) {
  conv v;
  int64_t ys[AG_MAX_NDIM];
  int st = conv_params(c, &v);
  if (!st) st = same_types(c);
  if (st) return st;
  ag_array *x = c->in[0], *w = c->in[1], *b = c->n_in > 2 ? c->in[2] : NULL;
  if ((st = conv_shapes(c, &v, x->ndim, ag__shape(x), w->ndim, ag__shape(w), ys))) return st;
  if (b && (b->ndim != 1 || b->numel != v.cout)) {
    char s[160], t[160];
    return ag__fail(AG_ERR_RUNTIME, "Given weight of size %s, expected bias to be 1-dimensional with %lld elements, but got bias of "
                    "size %s instead", ag__shape_text(w->ndim, ag__shape(w), s, sizeof s), (long long)v.cout,
                    ag__shape_text(b->ndim, ag__shape(b), t, sizeof t));
  }
  if (b && b->dtype != x->dtype)
    return ag__fail(AG_ERR_RUNTIME, "Input type (%s) and bias type (%s) should be the same", ag__dtype_torch_name(x->dtype),
                    ag__dtype_torch_name(b->dtype));
  ag__set_out(c, 0, x->dtype, v.nd + 2, ys);
  return AG_OK;
}

/* The gradients: g must have the shape of y, the other shape comes as integers. */
static int infer_grad(ag_infer *c, bool of_input) {
  conv v;
  int64_t ys[AG_MAX_NDIM];
  int st = conv_params(c, &v);
  if (!st) st = ag__need(c, 2, (int)conv_ints(v.nd) + v.nd + 2, 0);
  if (!st) st = same_types(c);
  if (st) return st;
  ag_array *g = c->in[0], *o = c->in[1];
  const int64_t *shape = c->p->i + conv_ints(v.nd);
  for (int d = 0; d < v.nd + 2; d++)
    if (shape[d] < 0) return ag__fail(AG_ERR_RUNTIME, "%s(): negative size", c->row->name);
  st = of_input ? conv_shapes(c, &v, v.nd + 2, shape, o->ndim, ag__shape(o), ys)
                : conv_shapes(c, &v, o->ndim, ag__shape(o), v.nd + 2, shape, ys);
  if (st) return st;
  if (!ag__same_shape(g->ndim, ag__shape(g), v.nd + 2, ys)) {
    char a[160], b[160];
    return ag__fail(AG_ERR_RUNTIME, "Expected grad_output of size %s, but got %s", ag__shape_text(v.nd + 2, ys, a, sizeof a),
                    ag__shape_text(g->ndim, ag__shape(g), b, sizeof b));
  }
  ag__set_out(c, 0, g->dtype, v.nd + 2, shape);
  return AG_OK;
}
int ag__infer_conv_grad_input(ag_infer *c) { return infer_grad(c, true); }
int ag__infer_conv_grad_weight(ag_infer *c) { return infer_grad(c, false); }

/* ---- execution ---- */

typedef struct conv_run {
  conv v;
  int dtype, size;
  ag_temp ta, tb, tc, tcol;
  char *a, *b, *col;
} conv_run;

static void conv_end(conv_run *r) {
  ag__temp_free(&r->tcol);
  ag__temp_free(&r->tc);
  ag__temp_free(&r->tb);
  ag__temp_free(&r->ta);
}

/* Both operands contiguous, and room for the columns of one sample. */
static int conv_begin(conv_run *r, const ag_exec *x, const int64_t *xs, const int64_t *ws) {
  memset(r, 0, sizeof *r);
  conv_geometry(&r->v, x->p, xs, ws);
  r->dtype = x->out[0].dtype;
  r->size = ag__dtype_size(r->dtype);
  r->a = ag__contig(&x->in[0], &r->ta);
  if (r->a) r->b = ag__contig(&x->in[1], &r->tb);
  if (r->b && !r->v.direct) r->col = ag__temp(&r->tcol, (size_t)(r->v.ck * r->v.nout) * (size_t)r->size);
  if (!r->b || (!r->v.direct && !r->col)) {
    conv_end(r);
    return AG_ERR_MEMORY;
  }
  return AG_OK;
}

static void *conv_token(const conv *v) { return ag__long_begin(v->n * v->cout * v->ck * v->nout, AG_LONG_MATH); }

static void fill_rows(int dtype, int64_t rows, int64_t n, void *y, const void *b) {
  if (dtype == AG_FLOAT32)
    for (int64_t r = 0; r < rows; r++)
      for (int64_t i = 0; i < n; i++) ((float *)y)[r * n + i] = ((const float *)b)[r];
  else
    for (int64_t r = 0; r < rows; r++)
      for (int64_t i = 0; i < n; i++) ((double *)y)[r * n + i] = ((const double *)b)[r];
}

int ag__exec_convolution(const ag_exec *x) {
  const ag_raw *out = &x->out[0];
  if (out->numel == 0) return AG_OK;
  conv_run r;
  int st = conv_begin(&r, x, x->in[0].shape, x->in[1].shape);
  if (st) return st;
  const conv *v = &r.v;
  const char *bias = NULL;
  if (x->n_in > 2 && !(bias = ag__contig(&x->in[2], &r.tc))) {
    conv_end(&r);
    return AG_ERR_MEMORY;
  }
  void *token = conv_token(v);
  for (int64_t s = 0; s < v->n; s++)
    for (int64_t k = 0; k < v->groups; k++) {
      const char *xs = r.a + (s * v->cin + k * v->cg) * v->nin * r.size;
      const char *w = r.b + k * v->og * v->ck * r.size;
      char *y = out->data + (s * v->cout + k * v->og) * v->nout * r.size;
      if (!v->direct) ag__k->unfold[r.dtype](&v->geom, r.col, xs);
      if (bias) fill_rows(r.dtype, v->og, v->nout, y, bias + k * v->og * r.size);
      ag__gemm(r.dtype, 0, 0, v->og, v->nout, v->ck, 1, w, v->ck, v->direct ? xs : r.col, v->nout, bias ? 1 : 0, y, v->nout);
    }
  ag__blocking_end(token);
  conv_end(&r);
  return AG_OK;
}

int ag__exec_conv_grad_input(const ag_exec *x) {
  const ag_raw *out = &x->out[0];
  if (out->numel == 0) return AG_OK;
  conv_run r;
  int st = conv_begin(&r, x, out->shape, x->in[1].shape);
  if (st) return st;
  const conv *v = &r.v;
  void *token = conv_token(v);
  if (!v->direct) memset(out->data, 0, (size_t)out->numel * (size_t)r.size);
  for (int64_t s = 0; s < v->n; s++)
    for (int64_t k = 0; k < v->groups; k++) {
      const char *g = r.a + (s * v->cout + k * v->og) * v->nout * r.size;
      const char *w = r.b + k * v->og * v->ck * r.size;
      char *dx = out->data + (s * v->cin + k * v->cg) * v->nin * r.size;
      ag__gemm(r.dtype, 1, 0, v->ck, v->nout, v->og, 1, w, v->ck, g, v->nout, 0, v->direct ? dx : r.col, v->nout);
      if (!v->direct) ag__k->fold[r.dtype](&v->geom, dx, r.col);
    }
  ag__blocking_end(token);
  conv_end(&r);
  return AG_OK;
}

/* Samples are added one after the other, in their order. */
int ag__exec_conv_grad_weight(const ag_exec *x) {
  const ag_raw *out = &x->out[0];
  if (out->numel == 0) return AG_OK;
  memset(out->data, 0, (size_t)out->numel * (size_t)ag__dtype_size(out->dtype));
  if (x->in[0].numel == 0) return AG_OK;
  conv_run r;
  int st = conv_begin(&r, x, x->in[1].shape, out->shape);
  if (st) return st;
  const conv *v = &r.v;
  void *token = conv_token(v);
  for (int64_t s = 0; s < v->n; s++)
    for (int64_t k = 0; k < v->groups; k++) {
      const char *g = r.a + (s * v->cout + k * v->og) * v->nout * r.size;
      const char *xs = r.b + (s * v->cin + k * v->cg) * v->nin * r.size;
      char *dw = out->data + k * v->og * v->ck * r.size;
      if (!v->direct) ag__k->unfold[r.dtype](&v->geom, r.col, xs);
      ag__gemm(r.dtype, 0, 1, v->og, v->ck, v->nout, 1, g, v->nout, v->direct ? xs : r.col, v->nout, 1, dw, v->ck);
    }
  ag__blocking_end(token);
  conv_end(&r);
  return AG_OK;
}

/* ---- derivatives ---- */

/* op(a, b) with the convolution's parameters, followed by a shape where the op wants one. */
static ag_tensor *conv_op(ag_vjp *c, int op, ag_tensor *a, ag_tensor *b, const int64_t *shape) {
  ag_params p = {.ni = (int32_t)conv_ints(c->p.i[0])};
  memcpy(p.i, c->p.i, sizeof(int64_t) * (size_t)p.ni);
  if (shape) {
    int n = (int)c->p.i[0] + 2;
    memcpy(p.i + p.ni, shape, sizeof(int64_t) * (size_t)n);
    p.ni += n;
  }
  ag_tensor *in[2] = {a, b};
  return ag__b(c, op, 2, in, &p);
}

int ag__vjp_convolution(ag_vjp *c) {
  ag_tensor *g = c->g[0];
  if (c->need[0]) ag__give(c, 0, conv_op(c, AG_OP_conv_grad_input, g, ag__vx(c, 1), ag__vmeta(c, 0)->shape));
  if (c->need[1] && !c->status)
    ag__give(c, 1, conv_op(c, AG_OP_conv_grad_weight, g, ag__vx(c, 0), ag__vmeta(c, 1)->shape));
  if (c->node->n_in > 2 && c->need[2] && !c->status) {
    int64_t dims[5] = {0, 0, 2, 3, 4}; /* keepdim, then all dims but the channels */
    ag__give(c, 2, ag__bints(c, AG_OP_sum, g, 2 + (int)c->p.i[0], dims));
  }
  return c->status;
}

int ag__vjp_conv_grad_input(ag_vjp *c) {
  ag_tensor *G = c->g[0]; /* has the shape of x */
  if (c->need[0]) ag__give(c, 0, conv_op(c, AG_OP_convolution, G, ag__vx(c, 1), NULL));
  if (c->need[1] && !c->status)
    ag__give(c, 1, conv_op(c, AG_OP_conv_grad_weight, ag__vx(c, 0), G, ag__vmeta(c, 1)->shape));
  return c->status;
}

int ag__vjp_conv_grad_weight(ag_vjp *c) {
  ag_tensor *G = c->g[0]; /* has the shape of w */
  if (c->need[0]) ag__give(c, 0, conv_op(c, AG_OP_convolution, ag__vx(c, 1), G, NULL));
  if (c->need[1] && !c->status)
    ag__give(c, 1, conv_op(c, AG_OP_conv_grad_input, ag__vx(c, 0), G, ag__vmeta(c, 1)->shape));
  return c->status;
}

/* ---- max pooling; ints: nd, kernel, stride, padding, dilation (nd each), ceil_mode ---- */

static int64_t floor_div(int64_t a, int64_t b) { return a / b - (a % b != 0 && (a < 0) != (b < 0)); }

static void pool_geometry(ag_k_convgeom *g, const ag_params *p, int ndim, const int64_t *shape) {
  int nd = (int)p->i[0];
  bool ceil_mode = p->i[1 + 4 * nd] != 0;
  memset(g, 0, sizeof *g);
  g->nd = nd;
  g->c = 1;
  for (int d = 0; d < ndim - nd; d++) g->c *= shape[d];
  for (int d = 0; d < nd; d++) {
    g->in[d] = shape[ndim - nd + d];
    g->k[d] = p->i[1 + d];
    g->stride[d] = p->i[1 + nd + d];
    g->pad[d] = p->i[1 + 2 * nd + d];
    g->dil[d] = p->i[1 + 3 * nd + d];
    int64_t room = g->in[d] + 2 * g->pad[d] - g->dil[d] * (g->k[d] - 1) - 1;
    g->out[d] = floor_div(room + (ceil_mode ? g->stride[d] - 1 : 0), g->stride[d]) + 1;
    /* the last window must start inside the input or its left padding */
    if (ceil_mode && (g->out[d] - 1) * g->stride[d] >= g->in[d] + g->pad[d]) g->out[d]--;
  }
}

int ag__infer_max_pool(ag_infer *c) {
  const ag_params *p = c->p;
  int st = ag__need(c, 1, 1, 0);
  if (st) return st;
  if (p->i[0] < 1 || p->i[0] > 3)
    return ag__fail(AG_ERR_VALUE, "max_pool(): 1 to 3 spatial dimensions are supported, not %lld", (long long)p->i[0]);
  int nd = (int)p->i[0];
  ag_array *x = c->in[0];
  if ((st = ag__need(c, 1, 2 + 4 * nd, 0))) return st;
  if (!ag__k->maxpool[x->dtype])
    return ag__fail(AG_ERR_NOT_IMPLEMENTED, "\"max_pool%dd\" not implemented for '%s'", nd, ag__scalar_name(x->dtype));
  char a[160], b[160];
  if (x->ndim < nd)
    return ag__fail(AG_ERR_RUNTIME, "max_pool%dd: Expected %dD or %dD input tensor, but got %s", nd, nd + 1, nd + 2,
                    ag__shape_text(x->ndim, ag__shape(x), a, sizeof a));
  for (int d = 0; d < nd; d++) {
    int64_t k = p->i[1 + d], pad = p->i[1 + 2 * nd + d], dil = p->i[1 + 3 * nd + d];
    if (k <= 0 || k > (1 << 30)) return ag__fail(AG_ERR_RUNTIME, "kernel size should be greater than zero, but got %lld", (long long)k);
    if (p->i[1 + nd + d] <= 0) return ag__fail(AG_ERR_RUNTIME, "stride should be greater than zero, but got %lld", (long long)p->i[1 + nd + d]);
    if (dil <= 0 || dil > (1 << 30)) return ag__fail(AG_ERR_RUNTIME, "dilation should be greater than zero, but got %lld", (long long)dil);
    if (pad < 0) return ag__fail(AG_ERR_RUNTIME, "pad must be non-negative, but got pad: %lld", (long long)pad);
    if (pad > ((k - 1) * dil + 1) / 2)
      return ag__fail(AG_ERR_RUNTIME, "pad should be at most half of effective kernel size, but got pad=%lld, kernel_size=%lld and "
                      "dilation=%lld", (long long)pad, (long long)k, (long long)dil);
  }
  ag_k_convgeom g;
  pool_geometry(&g, p, x->ndim, ag__shape(x));
  int64_t shape[AG_MAX_NDIM];
  memcpy(shape, ag__shape(x), sizeof(int64_t) * x->ndim);
  for (int d = 0; d < nd; d++) {
    if (g.out[d] < 1)
      return ag__fail(AG_ERR_RUNTIME, "Given input size: (%s). Calculated output size: (%s). Output size is too small",
                      by_text(nd, g.in, a, sizeof a), by_text(nd, g.out, b, sizeof b));
    shape[x->ndim - nd + d] = g.out[d];
  }
  ag__set_out(c, 0, x->dtype, x->ndim, shape);
  ag__set_out(c, 1, AG_INT64, x->ndim, shape);
  return AG_OK;
}

int ag__exec_max_pool(const ag_exec *x) {
  const ag_raw *a = &x->in[0];
  if (x->out[0].numel == 0) return AG_OK;
  ag_k_convgeom g;
  pool_geometry(&g, x->p, a->ndim, a->shape);
  ag_temp t;
  const char *data = ag__contig(a, &t);
  if (!data) return AG_ERR_MEMORY;
  int64_t taps = 1;
  for (int d = 0; d < g.nd; d++) taps *= g.k[d];
  void *token = ag__long_begin(x->out[0].numel * taps, AG_LONG_MATH);
  ag__k->maxpool[a->dtype](&g, x->out[0].data, (int64_t *)(void *)x->out[1].data, data);
  ag__blocking_end(token);
  ag__temp_free(&t);
  return AG_OK;
}

/* ---- pool_scatter, pool_gather: planes of values at flat positions; ints: nd, spatial shape of the large side ---- */

static int infer_planes(ag_infer *c, int *nd) {
  int st = ag__need(c, 2, 1, 0);
  if (st) return st;
  ag_array *a = c->in[0], *idx = c->in[1];
  if (c->p->i[0] < 1 || c->p->i[0] > 3 || c->p->i[0] > a->ndim || a->ndim != idx->ndim)
    return ag__fail(AG_ERR_RUNTIME, "%s(): operands and number of dimensions do not fit", c->row->name);
  if (idx->dtype != AG_INT64)
    return ag__fail(AG_ERR_RUNTIME, "%s(): expected indices to be Long but found %s", c->row->name, ag__scalar_name(idx->dtype));
  *nd = (int)c->p->i[0];
  int same = c->row->op == AG_OP_pool_scatter ? a->ndim : a->ndim - *nd;
  if (memcmp(ag__shape(a), ag__shape(idx), sizeof(int64_t) * (size_t)same) != 0)
    return ag__fail(AG_ERR_RUNTIME, "%s(): values and indices do not have the same shape", c->row->name);
  return AG_OK;
}

int ag__infer_pool_scatter(ag_infer *c) {
  int64_t shape[AG_MAX_NDIM];
  int nd, st = infer_planes(c, &nd);
  if (!st) st = ag__need(c, 2, 1 + nd, 0);
  if (st) return st;
  ag_array *a = c->in[0];
  memcpy(shape, ag__shape(a), sizeof(int64_t) * a->ndim);
  for (int d = 0; d < nd; d++)
    if ((shape[a->ndim - nd + d] = c->p->i[1 + d]) < 0) return ag__fail(AG_ERR_RUNTIME, "pool_scatter(): negative size");
  ag__set_out(c, 0, a->dtype, a->ndim, shape);
  return AG_OK;
}

int ag__infer_pool_gather(ag_infer *c) {
  int nd, st = infer_planes(c, &nd);
  if (!st) ag__set_out(c, 0, c->in[0]->dtype, c->in[1]->ndim, ag__shape(c->in[1]));
  return st;
}

static int bad_place(int64_t i, int64_t plane) {
  return ag__fail(AG_ERR_INDEX, "Found an invalid max index: %lld (output volumes are of size %lld)", (long long)i, (long long)plane);
}

#define POOL(T, SUFFIX)                                                                                               \
  static int pool_scatter_##SUFFIX(int64_t planes, int64_t m, int64_t plane, T *out, const T *g, const int64_t *idx) { \
    for (int64_t p = 0; p < planes; p++, out += plane, g += m, idx += m)                                              \
      for (int64_t k = 0; k < m; k++) {                                                                               \
        if ((uint64_t)idx[k] >= (uint64_t)plane) return bad_place(idx[k], plane);                                     \
        out[idx[k]] = (T)(out[idx[k]] + g[k]);                                                                        \
      }                                                                                                               \
    return AG_OK;                                                                                                     \
  }                                                                                                                   \
  static int pool_gather_##SUFFIX(int64_t planes, int64_t m, int64_t plane, T *out, const T *x, const int64_t *idx) {  \
    for (int64_t p = 0; p < planes; p++, out += m, x += plane, idx += m)                                              \
      for (int64_t k = 0; k < m; k++) {                                                                               \
        if ((uint64_t)idx[k] >= (uint64_t)plane) return bad_place(idx[k], plane);                                     \
        out[k] = x[idx[k]];                                                                                           \
      }                                                                                                               \
    return AG_OK;                                                                                                     \
  }
POOL(float, f32)
POOL(double, f64)

static int exec_planes(const ag_exec *x, bool scatter) {
  const ag_raw *a = &x->in[0], *idx = &x->in[1], *out = &x->out[0], *large = scatter ? out : a;
  int nd = (int)x->p->i[0];
  int64_t plane = 1, planes = 1, m = 1;
  if (scatter) memset(out->data, 0, (size_t)out->numel * (size_t)ag__dtype_size(out->dtype));
  if (idx->numel == 0) return AG_OK;
  for (int d = 0; d < large->ndim; d++) *(d < large->ndim - nd ? &planes : &plane) *= large->shape[d];
  m = idx->numel / planes;
  ag_temp ta, ti = {NULL, 0};
  const void *v = ag__contig(a, &ta), *i = v ? ag__contig(idx, &ti) : NULL;
  int st = AG_ERR_MEMORY;
  if (i) {
    void *o = out->data, *token = ag__long_begin(large->numel, AG_LONG_MOVE);
    if (a->dtype == AG_FLOAT32) st = scatter ? pool_scatter_f32(planes, m, plane, o, v, i) : pool_gather_f32(planes, m, plane, o, v, i);
    else if (a->dtype == AG_FLOAT64) st = scatter ? pool_scatter_f64(planes, m, plane, o, v, i) : pool_gather_f64(planes, m, plane, o, v, i);
    else st = ag__fail(AG_ERR_NOT_IMPLEMENTED, "\"%s\" not implemented for '%s'", x->row->name, ag__scalar_name(a->dtype));
    ag__blocking_end(token);
  }
  ag__temp_free(&ti);
  ag__temp_free(&ta);
  return st;
}
int ag__exec_pool_scatter(const ag_exec *x) { return exec_planes(x, true); }
int ag__exec_pool_gather(const ag_exec *x) { return exec_planes(x, false); }

/* op(a, saved indices) over planes of m's spatial shape. */
static ag_tensor *pool_op(ag_vjp *c, int op, ag_tensor *a, ag_tensor *idx, const ag_meta *m) {
  int nd = (int)c->p.i[0];
  ag_params p = {.ni = 1 + nd, .i = {nd}};
  memcpy(p.i + 1, m->shape + m->ndim - nd, sizeof(int64_t) * (size_t)nd);
  ag_tensor *in[2] = {a, idx};
  return ag__b(c, op, 2, in, &p);
}

int ag__vjp_max_pool(ag_vjp *c) {
  if (!c->need[0] || !c->g[0]) return c->status;
  return ag__give(c, 0, pool_op(c, AG_OP_pool_scatter, c->g[0], ag__vy(c, 1), ag__vmeta(c, 0)));
}
int ag__vjp_pool_scatter(ag_vjp *c) {
  if (!c->need[0]) return c->status;
  ag_tensor *in[2] = {c->g[0], ag__vx(c, 1)};
  return ag__give(c, 0, ag__b(c, AG_OP_pool_gather, 2, in, &c->p));
}
int ag__vjp_pool_gather(ag_vjp *c) {
  if (!c->need[0]) return c->status;
  return ag__give(c, 0, pool_op(c, AG_OP_pool_scatter, c->g[0], ag__vx(c, 1), ag__vmeta(c, 0)));
}
