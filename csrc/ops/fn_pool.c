/* fn_pool.c: max pooling, and moving values between planes and the places it chose. */
#include "ops/fn_util.h"

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
  if (x->dtype == AG_BOOL)
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
                      ag__by_text(nd, g.in, a, sizeof a), ag__by_text(nd, g.out, b, sizeof b));
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
  int64_t taps = 1, *at = (int64_t *)(void *)x->out[1].data;
  for (int d = 0; d < g.nd; d++) taps *= g.k[d];
  void *token = ag__long_begin(x->out[0].numel * taps, AG_LONG_MATH);
  int st = AG_OK;
  if (a->dtype == AG_UINT8 || a->dtype == AG_INT32) { /* by way of int64 */
    ag_temp wide = {NULL, 0}, most = {NULL, 0};
    if (ag__temp(&wide, (size_t)a->numel * 8) && ag__temp(&most, (size_t)x->out[0].numel * 8)) {
      ag__par_cast(a->dtype, AG_INT64, a->numel, wide.data, data);
      ag__par_maxpool(AG_INT64, &g, most.data, at, wide.data);
      ag__par_cast(AG_INT64, a->dtype, x->out[0].numel, x->out[0].data, most.data);
    } else st = AG_ERR_MEMORY;
    ag__temp_free(&most);
    ag__temp_free(&wide);
  } else ag__par_maxpool(a->dtype, &g, x->out[0].data, at, data);
  ag__blocking_end(token);
  ag__temp_free(&t);
  return st;
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
  int nd = 0, st = infer_planes(c, &nd);
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
  int nd = 0, st = infer_planes(c, &nd);
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

typedef struct plane_job {
  int dtype;
  bool scatter;
  int64_t m, plane;
  char *out;
  const char *v;
  const int64_t *idx;
} plane_job;

static int some_planes(void *ctx, int slot, int64_t from, int64_t to) {
  const plane_job *j = ctx;
  int64_t n = to - from, size = ag__dtype_size(j->dtype);
  const int64_t *idx = j->idx + from * j->m;
  void *o = j->out + from * (j->scatter ? j->plane : j->m) * size;
  const void *v = j->v + from * (j->scatter ? j->m : j->plane) * size;
  (void)slot;
  if (j->dtype == AG_FLOAT32)
    return j->scatter ? pool_scatter_f32(n, j->m, j->plane, o, v, idx) : pool_gather_f32(n, j->m, j->plane, o, v, idx);
  return j->scatter ? pool_scatter_f64(n, j->m, j->plane, o, v, idx) : pool_gather_f64(n, j->m, j->plane, o, v, idx);
}

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
    void *token = ag__long_begin(large->numel, AG_LONG_MOVE);
    plane_job j = {a->dtype, scatter, m, plane, out->data, v, i};
    if (ag__is_float(a->dtype)) st = ag__parallel(planes, ag__grain_rows(m, 8, 4), some_planes, &j);
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
