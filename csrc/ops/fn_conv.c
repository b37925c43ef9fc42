/* fn_conv.c: convolution in one to three dimensions and what its derivatives are made of.
 *
 * y = convolution(x, w), gx = conv_grad_input(g, w) and gw = conv_grad_weight(g, x) are three readings of one trilinear
 * form <g, x * w>: each is linear in both operands, and the derivatives of any of them are the other two.
 * Kernels in conv_direct.inc; those of one step are matrix products. */
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
  int st = a->dtype == AG_INT64 && c->row->op != AG_OP_conv_grad_weight ? AG_OK : ag__need_float(c, a->dtype);
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
 * Kernels of one step without padding are matrix products as they stand.  All others run on planes (conv_direct.inc): x
 * is copied with its padding, one plane for each residue of the stride, so that each tap sees the positions of a line of
 * results as they follow one another in memory.  The gradient in x is a convolution of g for each residue of x's places,
 * with the taps that reach it; the gradient in w sums over the positions. */

enum { CONV_POSITIONS = 512 }; /* of one sum of the gradient in w */
enum { MANY_GROUPS = 8, W_PARTS = 8, W_PART_FLOPS = 4000000, W_POSITIONS = 400, W_PART_BYTES = 8 << 20 };

typedef struct conv_run {
  conv v;
  int dtype, size;
  int64_t in[3], out[3], k[3], stride[3], dil[3], pad[3], taps; /* in three dims, the first ones of size 1 */
  ag_k_planes planes;
  int64_t plane;    /* elements of the planes of one channel */
  int64_t low[3];   /* gradient in x: where the planes of g begin */
  int64_t blocks;   /* elements of the weights of one group, made ready */
  int64_t some;     /* samples in the planes at a time */
  bool dense;       /* columns side by side */
  int width;        /* threads: each has planes, gradient or panel and, where groups are shared out, weights of its own */
  bool by_group;
  int64_t grain, xbytes, wbytes, gbytes; /* from the memory of one thread to that of the next */
  int64_t *off, *at; /* of the taps in the planes; in a panel */
  ag_temp ta, tb, tc, tx, tw, toff, tat, tg;
  char *a, *b, *x, *w, *g, *sum; /* operands; planes, weights, turned gradient or panel, sums of one group */
} conv_run;

static int64_t floor_div(int64_t a, int64_t b) { return a / b - (a % b != 0 && (a < 0) != (b < 0)); }

static void conv_end(conv_run *r) {
  ag_temp *t[] = {&r->tg, &r->tat, &r->toff, &r->tw, &r->tx, &r->tc, &r->tb, &r->ta};
  for (int k = 0; k < AG_COUNT(t); k++) ag__temp_free(t[k]);
}

/* Memory for n1 * n2 elements; false when there is none. */
static bool room(ag_temp *t, char **p, int64_t n1, int64_t n2, int64_t size, bool zero) {
  int64_t n;
  *p = NULL;
  if (__builtin_mul_overflow(n1, n2, &n) || __builtin_add_overflow(n, AG_K_SLACK, &n) || __builtin_mul_overflow(n, size, &n)) {
    ag__fail(AG_ERR_MEMORY, "convolution: padded planes are too large");
    return false;
  }
  *p = ag__temp(t, (size_t)n);
  if (*p && zero) memset(*p, 0, (size_t)n);
  return *p != NULL;
}

/* The same for each of `width` threads, *step bytes apart. */
static bool rooms(ag_temp *t, char **p, int64_t n1, int64_t n2, int64_t size, int width, int64_t *step, bool zero) {
  int64_t n;
  if (__builtin_mul_overflow(n1, n2, &n) || __builtin_add_overflow(n, 2 * AG_K_SLACK, &n)) n = INT64_MAX / 64;
  n = (n + 15) & ~(int64_t)15;
  *step = n * size;
  return room(t, p, n, width, size, zero);
}

/* Both operands contiguous; planes (zeros) of `channels` channels, offsets of n_off taps. */
static bool conv_room(conv_run *r, int64_t channels, int64_t n_off) {
  char *off = NULL;
  ag_k_planes *p = &r->planes;
  p->channels = channels;
  r->plane = 1;
  for (int d = 0; d < 3; d++)
    if (__builtin_mul_overflow(r->plane, p->slots[d], &r->plane) || __builtin_mul_overflow(r->plane, p->size[d], &r->plane)) {
      ag__fail(AG_ERR_MEMORY, "convolution: padded planes are too large");
      return false;
    }
  if (!rooms(&r->tx, &r->x, channels * r->some, r->plane, r->size, r->width, &r->xbytes, true) || !room(&r->toff, &off, n_off, 1, sizeof(int64_t), false)) return false;
  r->off = (int64_t *)(void *)off;
  return true;
}

static int conv_begin(conv_run *r, const ag_exec *x, const int64_t *xs, const int64_t *ws) {
  memset(r, 0, sizeof *r);
  conv *v = &r->v;
  conv_geometry(v, x->p, xs, ws);
  r->dtype = x->out[0].dtype;
  r->size = ag__dtype_size(r->dtype);
  r->taps = 1;
  for (int d = 0, e = v->nd - 3; d < 3; d++, e++) {
    const ag_k_convgeom *g = &v->geom;
    r->in[d] = e < 0 ? 1 : g->in[e];
    r->out[d] = e < 0 ? 1 : g->out[e];
    r->k[d] = e < 0 ? 1 : g->k[e];
    r->stride[d] = e < 0 ? 1 : g->stride[e];
    r->dil[d] = e < 0 ? 1 : g->dil[e];
    r->pad[d] = e < 0 ? 0 : g->pad[e];
    r->taps *= r->k[d];
  }
  r->some = 1;
  r->width = 1;
  r->a = ag__contig(&x->in[0], &r->ta);
  if (r->a) r->b = ag__contig(&x->in[1], &r->tb);
  if (r->b) return AG_OK;
  conv_end(r);
  return AG_ERR_MEMORY;
}

/* Planes of x, and where each tap (channel, place in the kernel) begins in them. */
static bool planes_of_x(conv_run *r) {
  ag_k_planes *p = &r->planes;
  for (int d = 0; d < 3; d++) {
    int64_t period = r->stride[d] / ag__gcd(r->stride[d], r->dil[d]);
    p->in[d] = r->in[d];
    p->slots[d] = r->k[d] < period ? r->k[d] : period;
    p->size[d] = r->out[d] + r->dil[d] * (r->k[d] - 1) / r->stride[d];
    p->stride[d] = r->stride[d];
    p->dil[d] = r->dil[d];
    p->pad[d] = r->pad[d];
  }
  if (!conv_room(r, r->v.cg, r->v.ck)) return false;
  int64_t *off = r->off;
  for (int64_t c = 0; c < r->v.cg; c++)
    for (int64_t i = 0; i < r->k[0]; i++)
      for (int64_t j = 0; j < r->k[1]; j++)
        for (int64_t k = 0; k < r->k[2]; k++) {
          const int64_t t[3] = {i, j, k};
          int64_t slot = c, at = 0;
          for (int d = 0; d < 3; d++) slot = slot * p->slots[d] + t[d] % p->slots[d];
          for (int d = 0; d < 3; d++) at = at * p->size[d] + t[d] * r->dil[d] / r->stride[d];
          *off++ = slot * p->size[0] * p->size[1] * p->size[2] + at;
        }
  return true;
}

/* Groups are shared out when there are many, samples within each group else.  pieces: of samples, in a group. */
static void share_out(conv_run *r, int64_t pieces) {
  const conv *v = &r->v;
  double work = (double)v->n * (double)v->og * (double)v->ck * (double)v->nout; /* of a group */
  r->by_group = v->groups >= MANY_GROUPS;
  int64_t units = r->by_group ? v->groups : pieces;
  if (!r->by_group) work /= (double)pieces;
  int64_t grain = work < AG_GRAIN_FLOPS ? (int64_t)(AG_GRAIN_FLOPS / (work > 1 ? work : 1)) : 1;
  r->grain = grain;
  r->width = ag__worth(units, grain) ? ag__parallel_width(units, grain) : 1;
}

/* m rows over lines of `width` results and more between them: are columns laid side by side?  Then samples of small planes
 * go together. */
static bool dense_room(conv_run *r, int64_t m, int64_t k, int64_t lines, int64_t width, int64_t pitch, int64_t n) {
  int64_t gaps = ((lines - 1) * pitch + width) - lines * width, lanes = ag__k->conv_lanes / r->size;
  r->dense = m >= 48 && r->in[0] == 1 && r->out[0] == 1 && r->stride[1] == 1 && r->stride[2] == 1 && k < (1 << 16) &&
             gaps * 12 > lines * width;
  while (r->dense && r->some < n && r->some * lines * width < 32 * lanes) r->some++;
  share_out(r, (n + r->some - 1) / r->some);
  if (!r->dense) return true;
  char *at;
  if (!room(&r->tat, &at, 3 * k, 1, sizeof(int64_t), false) || !rooms(&r->tg, &r->g, k, 3 * lanes, r->size, r->width, &r->gbytes, false)) return false;
  r->at = (int64_t *)(void *)at;
  for (int64_t v = 0; v < 3; v++)
    for (int64_t p = 0; p < k; p++) r->at[v * k + p] = p * (v + 1) * lanes;
  return true;
}

/* Weights as conv_rows reads them: m rows of k terms, row and terms anywhere in w. */
static char *make_ready(const conv_run *r, char *to, int64_t m, int64_t row, int nd, const int64_t *shape, const int64_t *strides,
                        const char *w) {
  int64_t s[6], t[6], k = ag__numel(nd, shape), mr = ag__k->conv_mr, full = m / mr;
  if (m <= 2) { /* as they are */
    for (int64_t i = 0; i < m; i++) ag__k->pack(nd, shape, strides, 0, k, to + i * k * r->size, w + i * row * r->size, r->size);
    return to + m * k * r->size;
  }
  memcpy(s, shape, sizeof(int64_t) * (size_t)nd);
  memcpy(t, strides, sizeof(int64_t) * (size_t)nd);
  s[nd] = mr;
  t[nd] = row;
  for (int64_t b = 0; b < full; b++, to += mr * k * r->size, w += mr * row * r->size)
    ag__k->pack(nd + 1, s, t, 0, mr * k, to, w, r->size);
  if (m > full * mr) {
    char *line = r->w + (r->blocks - k) * r->size;
    memset(to, 0, (size_t)(mr * k * r->size));
    for (int64_t i = full * mr; i < m; i++, w += row * r->size) {
      ag__k->pack(nd, shape, strides, 0, k, line, w, r->size);
      ag__k->unpack(1, &k, &mr, 0, k, to + (i - full * mr) * r->size, line, r->size);
    }
    to += mr * k * r->size;
  }
  return to;
}

/* Room for m rows of k terms, and a line beside them. */
static bool weights_room(conv_run *r, int64_t m, int64_t k) {
  int64_t mr = m <= 2 ? 1 : ag__k->conv_mr;
  r->blocks = ((m + mr - 1) / mr * mr + 1) * k;
  return rooms(&r->tw, &r->w, (m + mr - 1) / mr * mr + 1, k, r->size, r->by_group ? r->width : 1, &r->wbytes, false);
}

typedef struct conv_job {
  const conv_run *r;
  const char *bias;
  char *out, *parts; /* gradient in w: parts behind the first */
  int64_t group;
  bool ready, few;
  void (*piece)(const struct conv_job *j, conv_run *q, int64_t group, int64_t piece);
  void (*finish)(const struct conv_job *j, conv_run *q, int64_t group);
  int64_t pieces, part_bytes;
} conv_job;

static int conv_pieces(void *ctx, int slot, int64_t from, int64_t to) {
  const conv_job *j = ctx;
  conv_run q = *j->r;
  if (q.x) q.x += slot * q.xbytes;
  if (q.g) q.g += slot * q.gbytes;
  if (q.by_group && q.w) q.w += slot * q.wbytes;
  if (q.by_group && q.sum) q.sum += slot * j->part_bytes;
  for (int64_t u = from; u < to; u++) {
    if (!q.by_group) j->piece(j, &q, j->group, u);
    else {
      for (int64_t p = -1; p < j->pieces; p++) j->piece(j, &q, u, p);
      if (j->finish) j->finish(j, &q, u);
    }
  }
  return AG_OK;
}

/* All groups; piece -1 of a group makes its weights ready. */
static void conv_all(conv_job *j) {
  const conv_run *r = j->r;
  int64_t units = r->by_group ? r->v.groups : j->pieces;
  for (int64_t k = 0; k < (r->by_group ? 1 : r->v.groups); k++) {
    j->group = k;
    if (!r->by_group) j->piece(j, (conv_run *)(uintptr_t)r, k, -1);
    if (r->width > 1) ag__parallel_run(units, r->grain, r->width, conv_pieces, j);
    else conv_pieces(j, 0, 0, units);
    if (j->finish && !r->by_group) j->finish(j, (conv_run *)(uintptr_t)r, k);
  }
}

static int whole_conv(const ag_exec *x, const int64_t *xs, bool back) {
  conv v;
  conv_geometry(&v, x->p, xs, x->in[1].shape);
  return ag__whole_conv(x, &v.geom, v.groups, back);
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

/* One group of n samples. */
static void forward(const conv_run *r, int64_t n, const char *x, const char *w, const char *bias, char *y) {
  const conv *v = &r->v;
  if (v->direct) {
    if (bias) fill_rows(r->dtype, v->og, v->nout, y, bias);
    ag__gemm(r->dtype, 0, 0, v->og, v->nout, v->ck, 1, w, v->ck, x, v->nout, bias ? 1 : 0, y, v->nout);
    return;
  }
  const ag_k_planes *p = &r->planes;
  ag_k_rows c = {v->og, v->ck, r->out[1], r->out[2], p->size[2], r->out[2], 1, v->nout, n, v->cg * r->plane, v->cout * v->nout,
                 r->off, r->at};
  for (int64_t s = 0; s < n; s++)
    ag__k->conv_planes[r->dtype](p, r->x + s * c.xstep * r->size, x + s * v->cin * v->nin * r->size);
  for (int64_t d = 0; d < r->out[0]; d++)
    ag__k->conv_rows[r->dtype](&c, y + d * c.lines * c.width * r->size, w, r->x + d * p->size[1] * p->size[2] * r->size, bias,
                               r->dense ? r->g : NULL);
}

static void forward_piece(const conv_job *j, conv_run *r, int64_t k, int64_t piece) {
  const conv *v = &r->v;
  const char *w = r->b + k * v->og * v->ck * r->size;
  int64_t s = piece * r->some;
  if (piece >= 0)
    forward(r, v->n - s < r->some ? v->n - s : r->some, r->a + (s * v->cin + k * v->cg) * v->nin * r->size, j->ready ? r->w : w,
            j->bias ? j->bias + k * v->og * r->size : NULL, j->out + (s * v->cout + k * v->og) * v->nout * r->size);
  else if (j->ready)
    make_ready(r, r->w, v->og, v->ck, 1, &v->ck, &(int64_t){1}, w);
}

int ag__exec_convolution(const ag_exec *x) {
  const ag_raw *out = &x->out[0];
  if (out->numel == 0) return AG_OK;
  if (out->dtype == AG_INT64) return whole_conv(x, x->in[0].shape, false);
  conv_run r;
  int st = conv_begin(&r, x, x->in[0].shape, x->in[1].shape);
  if (st) return st;
  const conv *v = &r.v;
  const char *bias = NULL;
  bool ready = v->og > 2 && !v->direct;
  int64_t pitch = r.out[2] + r.dil[2] * (r.k[2] - 1) / r.stride[2];
  if (v->direct) share_out(&r, v->n);
  if ((x->n_in > 2 && !(bias = ag__contig(&x->in[2], &r.tc))) ||
      (!v->direct && !(dense_room(&r, v->og, v->ck, r.out[1], r.out[2], pitch, v->n) && planes_of_x(&r))) || (ready && !weights_room(&r, v->og, v->ck))) {
    conv_end(&r);
    return AG_ERR_MEMORY;
  }
  void *token = conv_token(v);
  conv_job j = {.r = &r, .bias = bias, .out = out->data, .ready = ready, .piece = forward_piece, .pieces = (v->n + r.some - 1) / r.some};
  conv_all(&j);
  ag__blocking_end(token);
  conv_end(&r);
  return AG_OK;
}

/* ---- gradient in x ---- */

/* Places place, place + stride, .. of dim d of x are reached by taps first, first + every, ..; how many taps. */
static int64_t taps_of(const conv_run *r, int d, int64_t place, int64_t *first, int64_t *every) {
  *every = r->stride[d] / ag__gcd(r->stride[d], r->dil[d]);
  for (int64_t t = 0; t < r->k[d] && t < *every; t++)
    if ((place + r->pad[d] - t * r->dil[d]) % r->stride[d] == 0) {
      *first = t;
      return (r->k[d] - t + *every - 1) / *every;
    }
  return 0;
}

static int64_t residues(const conv_run *r, int d) { return r->stride[d] < r->in[d] ? r->stride[d] : r->in[d]; }

/* Planes of g: gx at place q * stride + p is the sum over its taps t of w * g[q + (p + pad - t dil) / stride]. */
static bool planes_of_g(conv_run *r) {
  ag_k_planes *p = &r->planes;
  for (int d = 0; d < 3; d++) {
    r->low[d] = floor_div(r->pad[d] - r->dil[d] * (r->k[d] - 1), r->stride[d]);
    p->in[d] = r->out[d];
    p->slots[d] = p->stride[d] = p->dil[d] = 1;
    p->size[d] = (r->in[d] + r->stride[d] - 1) / r->stride[d] + (r->pad[d] + r->stride[d] - 1) / r->stride[d] - r->low[d];
    p->pad[d] = -r->low[d];
  }
  return conv_room(r, r->v.og, r->v.og * r->taps);
}

/* One residue of the places: its taps in each dim. */
typedef struct residue {
  int64_t place[3], first[3], every[3], n[3], k;
} residue;

/* The residues in turn, from place -1 of the last dim; false after the last.  Those without taps are left out. */
static bool next_residue(const conv_run *r, residue *q) {
  for (;;) {
    int d = 2;
    while (d >= 0 && ++q->place[d] >= residues(r, d)) q->place[d--] = 0;
    if (d < 0) return false;
    q->k = r->v.og;
    for (d = 0; d < 3; d++) q->k *= q->n[d] = taps_of(r, d, q->place[d], &q->first[d], &q->every[d]);
    if (q->k) return true;
  }
}

/* Weights of a group and offsets in g's planes, residue after residue. */
static void taps_of_g(conv_run *r, const char *w, bool offsets) {
  const conv *v = &r->v;
  char *to = r->w;
  int64_t *off = r->off;
  for (residue q = {.place = {0, 0, -1}}; next_residue(r, &q);) {
    int64_t kk[3] = {r->k[1] * r->k[2], r->k[2], 1}, shape[4] = {v->og}, strides[4] = {v->ck}, at = 0;
    for (int d = 0; d < 3; d++) {
      shape[1 + d] = q.n[d];
      strides[1 + d] = q.every[d] * kk[d];
      at += q.first[d] * kk[d];
    }
    to = make_ready(r, to, v->cg, r->taps, 4, shape, strides, w + at * r->size);
    if (!offsets) continue;
    for (int64_t o = 0; o < v->og; o++)
      for (int64_t i = 0; i < q.n[0]; i++)
        for (int64_t j = 0; j < q.n[1]; j++)
          for (int64_t k = 0; k < q.n[2]; k++) {
            const int64_t t[3] = {i, j, k};
            int64_t place = 0;
            for (int d = 0; d < 3; d++)
              place = place * r->planes.size[d] +
                      (q.place[d] + r->pad[d] - (q.first[d] + t[d] * q.every[d]) * r->dil[d]) / r->stride[d] - r->low[d];
            *off++ = o * r->plane + place;
          }
  }
}

static void backward_x(const conv_run *r, int64_t samples, const char *g, const char *w, char *dx) {
  const conv *v = &r->v;
  const ag_k_planes *p = &r->planes;
  if (v->direct) {
    ag__gemm(r->dtype, 1, 0, v->ck, v->nout, v->og, 1, w, v->ck, g, v->nout, 0, dx, v->nout);
    return;
  }
  int64_t first, every;
  bool all = true;
  for (int d = 0; d < 3; d++)
    for (int64_t i = 0; i < residues(r, d) && all; i++) all = taps_of(r, d, i, &first, &every) > 0;
  for (int64_t s = 0; s < samples; s++) {
    if (!all) memset(dx + s * v->cin * v->nin * r->size, 0, (size_t)(v->cg * v->nin * r->size));
    ag__k->conv_planes[r->dtype](p, r->x + s * v->og * r->plane * r->size, g + s * v->cout * v->nout * r->size);
  }
  const int64_t *off = r->off;
  int64_t mr = v->cg <= 2 ? 1 : ag__k->conv_mr;
  w = r->w;
  for (residue q = {.place = {0, 0, -1}}; next_residue(r, &q);) {
    int64_t n[3];
    for (int d = 0; d < 3; d++) n[d] = (r->in[d] - q.place[d] + r->stride[d] - 1) / r->stride[d];
    ag_k_rows c = {v->cg, q.k, n[1], n[2], p->size[2], r->stride[1] * r->in[2], r->stride[2], v->nin, samples,
                   v->og * r->plane, v->cin * v->nin, off, r->at};
    for (int64_t i = 0; i < n[0]; i++)
      ag__k->conv_rows[r->dtype](
        &c, dx + (((q.place[0] + i * r->stride[0]) * r->in[1] + q.place[1]) * r->in[2] + q.place[2]) * r->size, w,
        r->x + i * p->size[1] * p->size[2] * r->size, NULL, r->dense ? r->g : NULL);
    off += q.k;
    w += (v->cg + mr - 1) / mr * mr * q.k * r->size;
  }
}

static void backward_x_piece(const conv_job *j, conv_run *r, int64_t k, int64_t piece) {
  const conv *v = &r->v;
  const char *w = r->b + k * v->og * v->ck * r->size;
  int64_t s = piece * r->some;
  if (piece >= 0)
    backward_x(r, v->n - s < r->some ? v->n - s : r->some, r->a + (s * v->cout + k * v->og) * v->nout * r->size, w,
               j->out + (s * v->cin + k * v->cg) * v->nin * r->size);
  else if (!v->direct)
    taps_of_g(r, w, k == 0 && !r->by_group);
}

int ag__exec_conv_grad_input(const ag_exec *x) {
  const ag_raw *out = &x->out[0];
  if (out->numel == 0) return AG_OK;
  if (x->in[0].numel == 0) {
    memset(out->data, 0, (size_t)out->numel * (size_t)ag__dtype_size(out->dtype));
    return AG_OK;
  }
  if (out->dtype == AG_INT64) return whole_conv(x, out->shape, true);
  conv_run r;
  int st = conv_begin(&r, x, out->shape, x->in[1].shape);
  if (st) return st;
  const conv *v = &r.v;
  if (v->direct) share_out(&r, v->n);
  if (!v->direct && !(dense_room(&r, v->cg, v->og * r.taps, r.in[1], r.in[2], r.in[2] + r.dil[2] * (r.k[2] - 1), v->n) &&
                      planes_of_g(&r) && weights_room(&r, v->cg, v->og * r.taps))) {
    conv_end(&r);
    return AG_ERR_MEMORY;
  }
  void *token = conv_token(v);
  if (!v->direct && r.by_group) taps_of_g(&r, r.b, true);
  conv_job j = {.r = &r, .out = out->data, .piece = backward_x_piece, .pieces = (v->n + r.some - 1) / r.some};
  conv_all(&j);
  ag__blocking_end(token);
  conv_end(&r);
  return AG_OK;
}

/* ---- gradient in w: samples are added one after the other, in their order ---- */

/* Few channels: vectors along the positions.  Else along the channels; *first: nothing has been summed yet. */
static void backward_w(const conv_run *r, const char *g, const char *x, char *dw, bool few, bool *first) {
  const conv *v = &r->v;
  const ag_k_planes *p = &r->planes;
  if (v->direct) {
    ag__gemm(r->dtype, 0, 1, v->og, v->ck, v->nout, 1, g, v->nout, x, v->nout, 1, dw, v->ck);
    return;
  }
  ag__k->conv_planes[r->dtype](p, r->x, x);
  ag_k_taps c = {v->ck, v->og, r->out[1], r->out[2], p->size[2], v->og, (v->og + 15) / 16 * 16, r->off};
  int64_t lines = CONV_POSITIONS / r->out[2] > 1 ? CONV_POSITIONS / r->out[2] : 1;
  for (int64_t d = 0; d < r->out[0]; d++) {
    const char *px = r->x + d * p->size[1] * p->size[2] * r->size, *pg = g + d * r->out[1] * r->out[2] * r->size;
    for (int64_t o = 0; o < v->og && few; o++)
      ag__k->conv_dots[r->dtype](&c, dw + o * v->ck * r->size, px, pg + o * v->nout * r->size);
    for (int64_t i = 0; i < r->out[1] && !few; i += lines) {
      c.lines = r->out[1] - i < lines ? r->out[1] - i : lines;
      for (int64_t j = 0; j < r->out[2]; j += CONV_POSITIONS) {
        c.width = r->out[2] - j < CONV_POSITIONS ? r->out[2] - j : CONV_POSITIONS;
        int64_t shape[2] = {c.lines * c.width, v->og}, strides[2] = {1, v->nout};
        ag__k->pack(2, shape, strides, 0, shape[0] * v->og, r->g, pg + (i * r->out[2] + j) * r->size, r->size);
        ag__k->conv_taps[r->dtype](&c, r->sum, px + (i * c.pitch + j) * r->size, r->g, !*first);
        *first = false;
      }
    }
  }
}

/* Into how many parts the samples are cut: by sizes alone, for the parts show in the bits.  Each has sums of its own, which
 * must cost little beside the work. */
static int64_t parts_of_w(const conv *v, int64_t bytes) {
  double work = (double)v->n * (double)v->og * (double)v->ck * (double)v->nout;
  int64_t parts = v->n < W_PARTS ? v->n : W_PARTS, most = W_PART_BYTES / bytes, much = v->n * v->nout / W_POSITIONS;
  if (parts > most) parts = most;
  if (parts > much) parts = much;
  if (work < (double)parts * W_PART_FLOPS) parts = (int64_t)(work / W_PART_FLOPS);
  return v->groups >= MANY_GROUPS || parts < 1 ? 1 : parts;
}

/* A group's parts, added in their order. */
static void finish_w(const conv_job *j, conv_run *r, int64_t k) {
  const conv *v = &r->v;
  bool own = v->direct || j->few;
  int64_t n = j->part_bytes / r->size;
  char *dw = j->out + k * v->og * v->ck * r->size, *sum = own ? dw : r->by_group ? r->sum : j->parts;
  for (int64_t p = 1; p < j->pieces; p++)
    ag__k->ew[AG_OP_add].fwd[r->dtype](n, sum, sum, j->parts + (own ? p - 1 : p) * j->part_bytes, NULL, NULL);
  if (own) return;
  int64_t ldo = (v->og + 15) / 16 * 16;
  ag__k->pack(2, (int64_t[]){v->og, v->ck}, (int64_t[]){1, ldo}, 0, v->og * v->ck, dw, sum, r->size);
}

/* Samples of a part are added one after the other. */
static void backward_w_piece(const conv_job *j, conv_run *r, int64_t k, int64_t part) {
  const conv *v = &r->v;
  int64_t dw_bytes = v->og * v->ck * r->size;
  bool first = true, own = v->direct || j->few;
  if (part < 0) return;
  char *dw = part && own ? j->parts + (part - 1) * dw_bytes : j->out + k * dw_bytes;
  if (own && part) memset(dw, 0, (size_t)dw_bytes);
  if (!own && !r->by_group) r->sum = j->parts + part * j->part_bytes;
  for (int64_t s = v->n * part / j->pieces; s < v->n * (part + 1) / j->pieces; s++)
    backward_w(r, r->a + (s * v->cout + k * v->og) * v->nout * r->size, r->b + (s * v->cin + k * v->cg) * v->nin * r->size, dw, j->few,
               &first);
}

int ag__exec_conv_grad_weight(const ag_exec *x) {
  const ag_raw *out = &x->out[0];
  if (out->numel == 0) return AG_OK;
  memset(out->data, 0, (size_t)out->numel * (size_t)ag__dtype_size(out->dtype));
  if (x->in[0].numel == 0) return AG_OK;
  conv_run r;
  int st = conv_begin(&r, x, x->in[1].shape, out->shape);
  if (st) return st;
  const conv *v = &r.v;
  int64_t lanes = 64 / r.size, most = r.out[2] > CONV_POSITIONS ? r.out[2] : CONV_POSITIONS;
  conv_job j = {.r = &r, .out = out->data, .piece = backward_w_piece, .finish = finish_w};
  j.few = 3 * v->og * ((r.out[2] + lanes - 1) / lanes) < 2 * ((v->og + lanes - 1) / lanes) * r.out[2];
  bool own = v->direct || j.few;
  j.part_bytes = own ? v->og * v->ck * r.size : v->ck * ((v->og + 15) / 16 * 16) * r.size;
  j.pieces = parts_of_w(v, j.part_bytes);
  share_out(&r, j.pieces);
  ag_temp t = {NULL, 0};
  int64_t sums = own ? j.pieces - 1 : r.by_group ? r.width : j.pieces;
  if ((!v->direct && !planes_of_x(&r)) || (!own && !rooms(&r.tg, &r.g, most, v->og, r.size, r.width, &r.gbytes, false)) ||
      (sums && !room(&t, &j.parts, sums, j.part_bytes, 1, false))) {
    ag__temp_free(&t);
    conv_end(&r);
    return AG_ERR_MEMORY;
  }
  void *token = conv_token(v);
  r.sum = j.parts;
  conv_all(&j);
  ag__blocking_end(token);
  ag__temp_free(&t);
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
