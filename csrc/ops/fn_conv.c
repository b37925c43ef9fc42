/* fn_conv.c: convolution in one to three dimensions and what its derivatives are made of.
 *
 * y = convolution(x, w), gx = conv_grad_input(g, w) and gw = conv_grad_weight(g, x) are three readings of one trilinear
 * form <g, x * w>: each is linear in both operands, and the derivatives of any of them are the other two.
 * All run by unfolding samples into columns and a matrix product. */
#include "ops/fn_util.h"

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
                    "than actual input size", ag__by_text(nd, padded, a, sizeof a), ag__by_text(nd, span, b, sizeof b));
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

/* ---- execution ----
 *
 * Where the kernel moves by single steps, a plane (with its padding) read as one flat line makes the columns of a tap
 * a shifted piece of that line: columns are long copies, folding them back long additions, whatever the shape of the
 * plane.  The product then has a few results between the rows that belong to no output; they are left out, or zero
 * on the way back.  Columns are made piece by piece, so that they stay in cache.  Other steps unfold whole samples. */

enum { COLUMN_BYTES = 1 << 17 };

typedef struct flat {
  bool on, padded, exact; /* exact: nothing lies between the rows */
  int64_t plane, n, piece; /* elements of a padded plane, results of a line, of a piece of it */
  int64_t inside;          /* where the input begins in a padded plane */
  int64_t k[3], shift[3];  /* taps in three dimensions, and how far each moves */
  int64_t in[4], out[4], at_x[4], at_y[4]; /* shape of x and y with channels first, and their strides in padded planes */
} flat;

typedef struct conv_run {
  conv v;
  flat f;
  int dtype, size;
  ag_temp ta, tb, tc, tcol, tx, ty;
  char *a, *b, *col, *px, *py; /* operands, columns, padded x and y of one group of one sample */
} conv_run;

static void flat_geometry(flat *f, const conv *v, int size) {
  const ag_k_convgeom *g = &v->geom;
  memset(f, 0, sizeof *f);
  f->on = !v->direct;
  f->plane = f->n = 1;
  f->k[0] = f->k[1] = f->k[2] = 1;
  f->in[0] = v->cg;
  f->out[0] = v->og;
  for (int d = v->nd - 1; d >= 0; d--) {
    if (g->stride[d] != 1) f->on = false;
    f->padded |= g->pad[d] != 0;
    f->k[d] = g->k[d];
    f->shift[d] = g->dil[d] * f->plane;
    f->in[1 + d] = g->in[d];
    f->out[1 + d] = g->out[d];
    f->at_x[1 + d] = f->at_y[1 + d] = f->plane;
    f->inside += g->pad[d] * f->plane;
    f->n += (g->out[d] - 1) * f->plane;
    f->plane *= g->in[d] + 2 * g->pad[d];
  }
  f->at_x[0] = f->plane;
  f->at_y[0] = f->n;
  f->exact = f->n == v->nout;
  if (f->n > 2 * v->nout) f->on = false; /* too much between the rows */
  f->piece = COLUMN_BYTES / (v->ck * size) / 16 * 16;
  if (f->piece < 64) f->piece = 64;
  if (f->piece > f->n) f->piece = f->n;
}

static void conv_end(conv_run *r) {
  ag_temp *t[] = {&r->ty, &r->tx, &r->tcol, &r->tc, &r->tb, &r->ta};
  for (int k = 0; k < AG_COUNT(t); k++) ag__temp_free(t[k]);
}

static bool zeros(ag_temp *t, char **p, int64_t n, int size) {
  *p = ag__temp(t, (size_t)(n * size));
  if (*p) memset(*p, 0, (size_t)(n * size));
  return *p != NULL;
}

/* Both operands contiguous, and room for columns and padded planes. */
static int conv_begin(conv_run *r, const ag_exec *x, const int64_t *xs, const int64_t *ws) {
  memset(r, 0, sizeof *r);
  const conv *v = &r->v;
  const flat *f = &r->f;
  conv_geometry(&r->v, x->p, xs, ws);
  r->dtype = x->out[0].dtype;
  r->size = ag__dtype_size(r->dtype);
  flat_geometry(&r->f, v, r->size);
  r->a = ag__contig(&x->in[0], &r->ta);
  if (r->a) r->b = ag__contig(&x->in[1], &r->tb);
  bool ok = r->b != NULL;
  if (ok && !v->direct) {
    r->col = ag__temp(&r->tcol, (size_t)(v->ck * (f->on ? f->piece : v->nout)) * (size_t)r->size);
    ok = r->col != NULL;
    if (ok && f->on && f->padded) ok = zeros(&r->tx, &r->px, v->cg * f->plane, r->size);
    if (ok && f->on && !f->exact) ok = zeros(&r->ty, &r->py, v->og * f->n, r->size);
  }
  if (ok) return AG_OK;
  conv_end(r);
  return AG_ERR_MEMORY;
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

/* x among its padding; results spread to their places on the line. */
static const char *flat_x(const conv_run *r, const char *x) {
  const flat *f = &r->f;
  if (!f->padded) return x;
  ag__k->unpack(r->v.nd + 1, f->in, f->at_x, 0, r->v.cg * r->v.nin, r->px + f->inside * r->size, x, r->size);
  return r->px;
}
static const char *flat_y(const conv_run *r, const char *y) {
  const flat *f = &r->f;
  if (f->exact) return y;
  ag__k->unpack(r->v.nd + 1, f->out, f->at_y, 0, r->v.og * r->v.nout, r->py, y, r->size);
  return r->py;
}

/* Columns start .. start+n of all taps, copied from x or added to it. */
static void flat_columns(const conv_run *r, char *x, int64_t start, int64_t n, bool add) {
  const flat *f = &r->f;
  ag_k_ew *sum = ag__k->ew[AG_OP_add].fwd[r->dtype];
  size_t bytes = (size_t)(n * r->size);
  char *col = r->col;
  x += start * r->size;
  for (int64_t c = 0; c < r->v.cg; c++, x += f->plane * r->size)
    for (int64_t i = 0; i < f->k[0]; i++)
      for (int64_t j = 0; j < f->k[1]; j++)
        for (int64_t k = 0; k < f->k[2]; k++, col += bytes) {
          char *p = x + (i * f->shift[0] + j * f->shift[1] + k * f->shift[2]) * r->size;
          if (add) sum(n, p, p, col, NULL, NULL);
          else memcpy(col, p, bytes);
        }
}

/* One group of one sample: y += w * columns of x. */
static void forward(const conv_run *r, const char *x, const char *w, const char *bias, char *y) {
  const conv *v = &r->v;
  const flat *f = &r->f;
  double beta = bias ? 1 : 0;
  if (!f->on) {
    if (!v->direct) ag__k->unfold[r->dtype](&v->geom, r->col, x);
    if (bias) fill_rows(r->dtype, v->og, v->nout, y, bias);
    ag__gemm(r->dtype, 0, 0, v->og, v->nout, v->ck, 1, w, v->ck, v->direct ? x : r->col, v->nout, beta, y, v->nout);
    return;
  }
  char *line = f->exact ? y : r->py;
  x = flat_x(r, x);
  if (bias) fill_rows(r->dtype, v->og, f->n, line, bias);
  for (int64_t s = 0; s < f->n; s += f->piece) {
    int64_t n = f->n - s < f->piece ? f->n - s : f->piece;
    flat_columns(r, (char *)(uintptr_t)x, s, n, false);
    ag__gemm(r->dtype, 0, 0, v->og, n, v->ck, 1, w, v->ck, r->col, n, beta, line + s * r->size, f->n);
  }
  if (!f->exact) ag__k->pack(v->nd + 1, f->out, f->at_y, 0, v->og * v->nout, y, line, r->size);
}

/* dx = columns of w^T g folded. */
static void backward_x(const conv_run *r, const char *g, const char *w, char *dx) {
  const conv *v = &r->v;
  const flat *f = &r->f;
  if (v->direct) {
    ag__gemm(r->dtype, 1, 0, v->ck, v->nout, v->og, 1, w, v->ck, g, v->nout, 0, dx, v->nout);
    return;
  }
  char *to = f->on && f->padded ? r->px : dx;
  memset(to, 0, (size_t)(v->cg * (to == dx ? v->nin : f->plane) * r->size));
  if (!f->on) {
    ag__gemm(r->dtype, 1, 0, v->ck, v->nout, v->og, 1, w, v->ck, g, v->nout, 0, r->col, v->nout);
    ag__k->fold[r->dtype](&v->geom, dx, r->col);
    return;
  }
  g = flat_y(r, g);
  for (int64_t s = 0; s < f->n; s += f->piece) {
    int64_t n = f->n - s < f->piece ? f->n - s : f->piece;
    ag__gemm(r->dtype, 1, 0, v->ck, n, v->og, 1, w, v->ck, g + s * r->size, f->n, 0, r->col, n);
    flat_columns(r, to, s, n, true);
  }
  if (f->padded)
    ag__k->pack(v->nd + 1, f->in, f->at_x, 0, v->cg * v->nin, dx, to + f->inside * r->size, r->size);
}

/* dw += g columns^T. */
static void backward_w(const conv_run *r, const char *g, const char *x, char *dw) {
  const conv *v = &r->v;
  const flat *f = &r->f;
  if (!f->on) {
    if (!v->direct) ag__k->unfold[r->dtype](&v->geom, r->col, x);
    ag__gemm(r->dtype, 0, 1, v->og, v->ck, v->nout, 1, g, v->nout, v->direct ? x : r->col, v->nout, 1, dw, v->ck);
    return;
  }
  x = flat_x(r, x);
  g = flat_y(r, g);
  for (int64_t s = 0; s < f->n; s += f->piece) {
    int64_t n = f->n - s < f->piece ? f->n - s : f->piece;
    flat_columns(r, (char *)(uintptr_t)x, s, n, false);
    ag__gemm(r->dtype, 0, 1, v->og, v->ck, n, 1, g + s * r->size, f->n, r->col, n, 1, dw, v->ck);
  }
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
    for (int64_t k = 0; k < v->groups; k++)
      forward(&r, r.a + (s * v->cin + k * v->cg) * v->nin * r.size, r.b + k * v->og * v->ck * r.size,
              bias ? bias + k * v->og * r.size : NULL, out->data + (s * v->cout + k * v->og) * v->nout * r.size);
  ag__blocking_end(token);
  conv_end(&r);
  return AG_OK;
}

int ag__exec_conv_grad_input(const ag_exec *x) {
  const ag_raw *out = &x->out[0];
  if (out->numel == 0) return AG_OK;
  if (x->in[0].numel == 0) {
    memset(out->data, 0, (size_t)out->numel * (size_t)ag__dtype_size(out->dtype));
    return AG_OK;
  }
  conv_run r;
  int st = conv_begin(&r, x, out->shape, x->in[1].shape);
  if (st) return st;
  const conv *v = &r.v;
  void *token = conv_token(v);
  for (int64_t s = 0; s < v->n; s++)
    for (int64_t k = 0; k < v->groups; k++)
      backward_x(&r, r.a + (s * v->cout + k * v->og) * v->nout * r.size, r.b + k * v->og * v->ck * r.size,
                 out->data + (s * v->cin + k * v->cg) * v->nin * r.size);
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
    for (int64_t k = 0; k < v->groups; k++)
      backward_w(&r, r.a + (s * v->cout + k * v->og) * v->nout * r.size, r.b + (s * v->cin + k * v->cg) * v->nin * r.size,
                 out->data + k * v->og * v->ck * r.size);
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
