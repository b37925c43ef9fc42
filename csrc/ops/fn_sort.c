/* fn_sort.c: sorting and what rests on order.  Rows are brought together where they lie apart, run one after the other,
 * and go back.  Values are those of the operand at the indices that come with them, so derivatives gather and scatter. */
#include "kernels/sort.h"
#include "ops/fn_util.h"

/* ---- rows ---- */

/* x as rows along dim, one behind the other: its own memory or a copy in *t. */
static const char *rows_of(const ag_raw *x, int dim, ag_temp *t) {
  int64_t shape[AG_MAX_NDIM], strides[AG_MAX_NDIM];
  int n = 0;
  t->data = NULL;
  for (int k = 0; k < x->ndim; k++)
    if (k != dim) {
      shape[n] = x->shape[k];
      strides[n++] = x->strides[k];
    }
  if (x->ndim) {
    shape[n] = x->shape[dim];
    strides[n++] = x->strides[dim];
  }
  if (ag__is_contiguous(n, shape, strides)) return x->data;
  int size = ag__dtype_size(x->dtype);
  if (!ag__temp(t, (size_t)x->numel * (size_t)size)) return NULL;
  ag__k->pack(n, shape, strides, 0, x->numel, t->data, x->data, size);
  return t->data;
}

/* Memory for rows along dim of out (which is contiguous); rows_back moves them there. */
static void *rows_for(const ag_raw *out, int dim, ag_temp *t) {
  int64_t outer, n, inner;
  t->data = NULL;
  ag__split3(out->ndim, out->shape, dim, &outer, &n, &inner);
  if (inner == 1 || n == 1) return out->data;
  return ag__temp(t, (size_t)out->numel * (size_t)ag__dtype_size(out->dtype));
}

static void rows_back(const ag_raw *out, int dim, ag_temp *t) {
  int64_t outer, n, inner;
  if (t->data) {
    ag__split3(out->ndim, out->shape, dim, &outer, &n, &inner);
    int64_t shape[3] = {outer, n, inner}, strides[3] = {n * inner, 1, n};
    ag__k->pack(3, shape, strides, 0, out->numel, out->data, t->data, ag__dtype_size(out->dtype));
  }
  ag__temp_free(t);
}

/* Parameters p->i[at] is a dim: wrapped.  Rows must be numbered by 32 bits. */
static int infer_rows(ag_infer *c, int at) {
  int d, st = ag__wrap_dim(c->p->i[at], c->in[0]->ndim, &d);
  if (st) return st;
  c->p->i[at] = d;
  if (c->in[0]->ndim && ag__shape(c->in[0])[d] >= (int64_t)UINT32_MAX)
    return ag__fail(AG_ERR_NOT_IMPLEMENTED, "%s(): dimension %d has 2^32 elements or more", c->row->name, d);
  return AG_OK;
}

static void set_pair(ag_infer *c, int ndim, const int64_t *shape) {
  ag__set_out(c, 0, c->in[0]->dtype, ndim, shape);
  ag__set_out(c, 1, AG_INT64, ndim, shape);
}

/* The gradient of values[i] goes to the element at indices[i]. */
static int give_scattered(ag_vjp *c, int dim, bool reduced) {
  const ag_meta *m = ag__vmeta(c, 0);
  ag_tensor *g = c->g[0], *at = ag__vy(c, 1);
  if (!g) return AG_OK;
  if (m->ndim == 0) return ag__give(c, 0, g);
  if (reduced) {
    g = ag__bi(c, AG_OP_unsqueeze, g, 1, (int64_t)dim);
    at = ag__bi(c, AG_OP_unsqueeze, at, 1, (int64_t)dim);
  }
  ag_params p = {.ni = 1, .nf = 0, .i = {dim}};
  ag_tensor *in[3] = {ag__bzeros(c, m->dtype, m->ndim, m->shape), at, g};
  return ag__give(c, 0, ag__b(c, AG_OP_scatter_add, 3, in, &p));
}

/* ---- sort, topk ---- */

int ag__infer_sort(ag_infer *c) {
  int st = ag__need(c, 1, 2, 0);
  if (!st) st = infer_rows(c, 0);
  if (!st) set_pair(c, c->in[0]->ndim, ag__shape(c->in[0]));
  return st;
}

int ag__infer_topk(ag_infer *c) {
  int st = ag__need(c, 1, 3, 0);
  ag_array *a = c->in[0];
  if (!st) st = infer_rows(c, 0);
  if (st) return st;
  int64_t shape[AG_MAX_NDIM], k = c->p->i[1];
  int d = (int)c->p->i[0];
  if (k < 0 || k > (a->ndim ? ag__shape(a)[d] : 1)) return ag__fail(AG_ERR_RUNTIME, "selected index k out of range");
  for (int j = 0; j < a->ndim; j++) shape[j] = j == d ? k : ag__shape(a)[j];
  set_pair(c, a->ndim, shape);
  return AG_OK;
}

/* Rows by the threads of the pool, each with scratch memory of its own. */
enum { SORT, TOPK, KTH, MODES, SORT_COST = 60 }; /* cost of an element, in additions: 8 ns */
typedef struct order_job {
  int what, dtype, flag, size;
  int64_t n, k, per_row, room;
  char *values;
  int64_t *at;
  const char *x;
  char *scratch;
} order_job;

static int order_rows(void *ctx, int slot, int64_t from, int64_t to) {
  const order_job *j = ctx;
  void *v = j->values ? j->values + from * j->per_row * j->size : NULL, *scratch = j->scratch + slot * j->room;
  int64_t *at = j->at + from * j->per_row, rows = to - from;
  const char *x = j->x + from * j->n * j->size;
  switch (j->what) {
    case SORT: ag__sort_rows(j->dtype, rows, j->n, j->flag, v, at, x, scratch); break;
    case TOPK: ag__topk_rows(j->dtype, rows, j->n, j->k, j->flag, v, at, x, scratch); break;
    case KTH: ag__kth_rows(j->dtype, rows, j->n, j->k, v, at, x, scratch); break;
    default: ag__mode_rows(j->dtype, rows, j->n, v, at, x, scratch); break;
  }
  return AG_OK;
}

static int order_all(order_job *j, int64_t rows) {
  int64_t grain = ag__grain_rows(j->n, j->size, SORT_COST);
  int width = ag__worth(rows, grain) ? ag__parallel_width(rows, grain) : 1;
  ag_temp t;
  j->room = ((int64_t)ag__sort_scratch(j->n) + 63) & ~(int64_t)63;
  if (!(j->scratch = ag__temp(&t, (size_t)(j->room * width)))) return AG_ERR_MEMORY;
  if (width > 1) ag__parallel_run(rows, grain, width, order_rows, j);
  else order_rows(j, 0, 0, rows);
  ag__temp_free(&t);
  return AG_OK;
}

/* k elements of each row along p->i[0], those first in ascending or (down) descending order */
static int exec_first(const ag_exec *x, int64_t k, int down) {
  const ag_raw *in = &x->in[0];
  int dim = (int)x->p->i[0], st = AG_ERR_MEMORY;
  int64_t outer, n, inner;
  ag_temp rows = {0, 0}, v = {0, 0}, at = {0, 0};
  ag__split3(in->ndim, in->shape, dim, &outer, &n, &inner);
  if (x->out[0].numel == 0) return AG_OK;
  void *token = ag__long_begin(in->numel, AG_LONG_MOVE / 8);
  const char *data = rows_of(in, dim, &rows);
  void *values = data ? rows_for(&x->out[0], dim, &v) : NULL, *indices = values ? rows_for(&x->out[1], dim, &at) : NULL;
  if (indices) {
    order_job j = {k == n ? SORT : TOPK, in->dtype, down, ag__dtype_size(in->dtype), n, k, k, 0, values, indices, data, NULL};
    st = order_all(&j, outer * inner);
  }
  if (!st) {
    rows_back(&x->out[0], dim, &v);
    rows_back(&x->out[1], dim, &at);
  }
  ag__temp_free(&at);
  ag__temp_free(&v);
  ag__temp_free(&rows);
  ag__blocking_end(token);
  return st;
}

int ag__exec_sort(const ag_exec *x) {
  const ag_raw *in = &x->in[0];
  return exec_first(x, in->ndim ? in->shape[x->p->i[0]] : 1, x->p->i[1] != 0);
}
int ag__vjp_sort(ag_vjp *c) { return give_scattered(c, (int)c->p.i[0], false); }
int ag__exec_topk(const ag_exec *x) { return exec_first(x, x->p->i[1], x->p->i[2] != 0); }
int ag__vjp_topk(ag_vjp *c) { return give_scattered(c, (int)c->p.i[0], false); }

/* ---- one element of each row ---- */

/* ints: keepdim, dim, ... */
static int infer_one_of(ag_infer *c, const char *name, int ni) {
  int st = ag__need(c, 1, ni, 0), n = 0;
  ag_array *a = c->in[0];
  if (!st) st = infer_rows(c, 1);
  if (st) return st;
  int64_t shape[AG_MAX_NDIM];
  int d = (int)c->p->i[1];
  if (a->ndim && ag__shape(a)[d] == 0)
    return ag__fail(AG_ERR_INDEX, "%s(): Expected reduction dim %d to have non-zero size.", name, d);
  for (int k = 0; k < a->ndim; k++)
    if (k != d) shape[n++] = ag__shape(a)[k];
    else if (c->p->i[0]) shape[n++] = 1;
  set_pair(c, n, shape);
  return AG_OK;
}

/* k: as ag__kth_rows takes it; MODE: the most frequent one.  dim -1: the whole operand is one row. */
enum { MODE = -3 };
static int exec_one_of(const ag_raw *in, int dim, int64_t k, void *values, int64_t *at) {
  int64_t outer = 1, n = in->numel, inner = 1;
  int st = AG_ERR_MEMORY;
  ag_temp rows = {0, 0};
  if (dim >= 0) ag__split3(in->ndim, in->shape, dim, &outer, &n, &inner);
  if (outer * n * inner == 0) return AG_OK;
  void *token = ag__long_begin(in->numel, AG_LONG_MOVE / 8);
  const char *data = dim >= 0 ? rows_of(in, dim, &rows) : ag__contig(in, &rows);
  if (data) {
    order_job j = {k == MODE ? MODES : KTH, in->dtype, 0, ag__dtype_size(in->dtype), n, k, 1, 0, values, at, data, NULL};
    st = order_all(&j, outer * inner);
  }
  ag__temp_free(&rows);
  ag__blocking_end(token);
  return st;
}

static int exec_pair(const ag_exec *x, int64_t k) {
  return exec_one_of(&x->in[0], (int)x->p->i[1], k, x->out[0].data, (int64_t *)(void *)x->out[1].data);
}

static int vjp_pair(ag_vjp *c) { return give_scattered(c, (int)c->p.i[1], !c->p.i[0]); }

int ag__infer_kthvalue(ag_infer *c) {
  int st = infer_one_of(c, "kthvalue", 3);
  if (st) return st;
  int64_t d = c->p->i[1], k = c->p->i[2];
  if (k < 1 || k > (c->in[0]->ndim ? ag__shape(c->in[0])[d] : 1))
    return ag__fail(AG_ERR_RUNTIME, "kthvalue(): selected number k out of range for dimension %lld", (long long)d);
  return AG_OK;
}
int ag__exec_kthvalue(const ag_exec *x) { return exec_pair(x, x->p->i[2] - 1); }
int ag__vjp_kthvalue(ag_vjp *c) { return vjp_pair(c); }

int ag__infer_median_dim(ag_infer *c) { return infer_one_of(c, "median", 2); }
int ag__exec_median_dim(const ag_exec *x) { return exec_pair(x, AG_MEDIAN); }
int ag__vjp_median_dim(ag_vjp *c) { return vjp_pair(c); }
int ag__infer_nanmedian_dim(ag_infer *c) { return infer_one_of(c, "nanmedian", 2); }
int ag__exec_nanmedian_dim(const ag_exec *x) { return exec_pair(x, AG_NANMEDIAN); }
int ag__vjp_nanmedian_dim(ag_vjp *c) { return vjp_pair(c); }
int ag__infer_mode(ag_infer *c) { return infer_one_of(c, "mode", 2); }
int ag__exec_mode(const ag_exec *x) { return exec_pair(x, MODE); }
int ag__vjp_mode(ag_vjp *c) { return vjp_pair(c); }

/* The median of everything: of nothing NaN, or what a conversion of NaN to the type gives. */
int ag__infer_median(ag_infer *c) {
  if (c->in[0]->numel >= (int64_t)UINT32_MAX)
    return ag__fail(AG_ERR_NOT_IMPLEMENTED, "%s(): 2^32 elements or more", c->row->name);
  ag__set_out(c, 0, c->in[0]->dtype, 0, NULL);
  return AG_OK;
}

static int exec_median(const ag_exec *x, int64_t k) {
  const ag_raw *out = &x->out[0];
  int64_t at;
  if (x->in[0].numel) return exec_one_of(&x->in[0], -1, k, out->data, &at);
  switch (out->dtype) {
    case AG_FLOAT32: *(float *)(void *)out->data = __builtin_nanf(""); break;
    case AG_FLOAT64: *(double *)(void *)out->data = __builtin_nan(""); break;
    case AG_INT64: *(int64_t *)(void *)out->data = INT64_MIN; break;
    case AG_INT32: *(int32_t *)(void *)out->data = INT32_MIN; break;
    default: *out->data = 0; break;
  }
  return AG_OK;
}
int ag__exec_median(const ag_exec *x) { return exec_median(x, AG_MEDIAN); }
int ag__vjp_median(ag_vjp *c) { return ag__vjp_max_all(c); }
int ag__infer_nanmedian(ag_infer *c) { return ag__infer_median(c); }
int ag__exec_nanmedian(const ag_exec *x) { return exec_median(x, AG_NANMEDIAN); }
int ag__vjp_nanmedian(ag_vjp *c) { return ag__vjp_max_all(c); }

/* ---- running extrema ---- */

static int infer_cumext(ag_infer *c) {
  int d, st = ag__need(c, 1, 1, 0);
  if (!st) st = ag__wrap_dim(c->p->i[0], c->in[0]->ndim, &d);
  if (st) return st;
  c->p->i[0] = d;
  set_pair(c, c->in[0]->ndim, ag__shape(c->in[0]));
  return AG_OK;
}

static int exec_cumext(const ag_exec *x, int least) {
  const ag_raw *in = &x->in[0];
  int64_t outer, n, inner;
  if (in->numel == 0) return AG_OK;
  ag__split3(in->ndim, in->shape, (int)x->p->i[0], &outer, &n, &inner);
  ag_temp t;
  void *token = ag__long_begin(in->numel, AG_LONG_MOVE);
  const char *data = ag__contig(in, &t);
  if (data)
    ag__cumext_rows(in->dtype, outer, n, inner, least, x->out[0].data, (int64_t *)(void *)x->out[1].data, data);
  ag__temp_free(&t);
  ag__blocking_end(token);
  return data ? AG_OK : AG_ERR_MEMORY;
}

int ag__infer_cummax(ag_infer *c) { return infer_cumext(c); }
int ag__exec_cummax(const ag_exec *x) { return exec_cumext(x, 0); }
int ag__vjp_cummax(ag_vjp *c) { return give_scattered(c, (int)c->p.i[0], false); }
int ag__infer_cummin(ag_infer *c) { return infer_cumext(c); }
int ag__exec_cummin(const ag_exec *x) { return exec_cumext(x, 1); }
int ag__vjp_cummin(ag_vjp *c) { return give_scattered(c, (int)c->p.i[0], false); }

/* ---- order of slices ---- */

int ag__infer_sort_slices(ag_infer *c) {
  int st = ag__need(c, 1, 1, 0);
  if (!st) st = infer_rows(c, 0);
  if (st) return st;
  int64_t n = c->in[0]->ndim ? ag__shape(c->in[0])[c->p->i[0]] : 1;
  ag__set_out(c, 0, AG_INT64, 1, &n);
  return AG_OK;
}

int ag__exec_sort_slices(const ag_exec *x) {
  const ag_raw *in = &x->in[0];
  int64_t outer, n, inner;
  int st = AG_ERR_MEMORY;
  if (x->out[0].numel == 0) return AG_OK;
  ag__split3(in->ndim, in->shape, (int)x->p->i[0], &outer, &n, &inner);
  ag_temp t, scratch = {0, 0};
  void *token = ag__long_begin(in->numel, AG_LONG_MOVE / 8);
  const char *data = ag__contig(in, &t);
  if (data && ag__temp(&scratch, ag__sort_scratch(n))) {
    ag__sort_slices(in->dtype, outer, n, inner, (int64_t *)(void *)x->out[0].data, data, scratch.data);
    st = AG_OK;
  }
  ag__temp_free(&scratch);
  ag__temp_free(&t);
  ag__blocking_end(token);
  return st;
}

/* ---- searchsorted ---- */

/* in: sorted rows, values[, positions that sort the rows]; ints: right, int32 */
int ag__infer_searchsorted(ag_infer *c) {
  int st = ag__need(c, 2, 2, 0);
  if (st) return st;
  ag_array *s = c->in[0], *v = c->in[1], *order = c->n_in > 2 ? c->in[2] : NULL;
  char a[160], b[160];
  if (s->dtype != v->dtype)
    return ag__fail(AG_ERR_RUNTIME, "torch.searchsorted(): boundary tensor and input value tensor should have same dtype, but got "
                    "boundary tensor %s and input value tensor %s", ag__scalar_name(s->dtype), ag__scalar_name(v->dtype));
  if (s->ndim == 0)
    return ag__fail(AG_ERR_RUNTIME, "torch.searchsorted(): boundaries tensor should have positive dimension, but got 0 dimension");
  if (order && order->dtype != AG_INT64)
    return ag__fail(AG_ERR_RUNTIME, "torch.searchsorted(): sorter must be a tensor of long dtype but got dtype %s",
                    ag__scalar_name(order->dtype));
  if (order && !ag__same_shape(s->ndim, ag__shape(s), order->ndim, ag__shape(order)))
    return ag__fail(AG_ERR_RUNTIME, "torch.searchsorted(): boundary and sorter must have the same size, but got boundary tensor %s "
                    "and got sorter tensor %s", ag__shape_text(s->ndim, ag__shape(s), a, sizeof a),
                    ag__shape_text(order->ndim, ag__shape(order), b, sizeof b));
  if (s->ndim > 1 && !(s->ndim == v->ndim && ag__same_shape(s->ndim - 1, ag__shape(s), v->ndim - 1, ag__shape(v))))
    return ag__fail(AG_ERR_RUNTIME, "torch.searchsorted(): boundaries tensor should be 1 dimension or the first N-1 dimensions of "
                    "boundaries tensor and input value tensor must match, but we got boundaries tensor %s and input value "
                    "tensor %s", ag__shape_text(s->ndim, ag__shape(s), a, sizeof a),
                    ag__shape_text(v->ndim, ag__shape(v), b, sizeof b));
  ag__set_out(c, 0, c->p->i[1] ? AG_INT32 : AG_INT64, v->ndim, ag__shape(v));
  return AG_OK;
}

int ag__exec_searchsorted(const ag_exec *x) {
  const ag_raw *s = &x->in[0], *v = &x->in[1], *out = &x->out[0];
  int64_t n = s->shape[s->ndim - 1], rows = n ? s->numel / n : 1;
  bool shared = s->ndim == 1;
  if (out->numel == 0) return AG_OK;
  if (n == 0) {
    memset(out->data, 0, (size_t)out->numel * (size_t)ag__dtype_size(out->dtype));
    return AG_OK;
  }
  int st = AG_ERR_MEMORY;
  ag_temp a, b = {0, 0}, o = {0, 0}, wide = {0, 0};
  void *token = ag__long_begin(out->numel, AG_LONG_MOVE / 8);
  const char *data = ag__contig(s, &a), *values = data ? ag__contig(v, &b) : NULL;
  const char *order = values && x->n_in > 2 ? ag__contig(&x->in[2], &o) : NULL;
  int64_t *at = (int64_t *)(void *)out->data;
  if (out->dtype == AG_INT32 && values) at = ag__temp(&wide, (size_t)out->numel * sizeof(int64_t));
  if (values && at && (order || x->n_in < 3)) {
    st = AG_OK;
    for (int64_t k = 0; order && k < s->numel && !st; k++)
      if ((uint64_t)((const int64_t *)(const void *)order)[k] >= (uint64_t)n)
        st = ag__fail(AG_ERR_RUNTIME, "torch.searchsorted(): sorter index out of range");
    if (!st)
      ag__search_rows(s->dtype, rows, n, out->numel / rows, shared, x->p->i[0] != 0, at, data,
                      (const int64_t *)(const void *)order, values);
    if (!st && wide.data) ag__k->cast[AG_INT64][AG_INT32](out->numel, out->data, at);
  }
  ag__temp_free(&wide);
  ag__temp_free(&o);
  ag__temp_free(&b);
  ag__temp_free(&a);
  ag__blocking_end(token);
  return st;
}

/* ---- counts ---- */

static int64_t int_at(int dtype, const char *p, int64_t i) {
  switch (dtype) {
    case AG_INT64: return ((const int64_t *)(const void *)p)[i];
    case AG_INT32: return ((const int32_t *)(const void *)p)[i];
    default: return ((const uint8_t *)(const void *)p)[i];
  }
}

/* in: x[, weights of a float type]; ints: least length */
int ag__infer_bincount(ag_infer *c) {
  ag_array *a = c->in[0], *w = c->n_in > 1 ? c->in[1] : NULL;
  int st = ag__need(c, 1, 1, 0);
  if (st) return st;
  if (ag__is_float(a->dtype) || a->dtype == AG_BOOL)
    return ag__fail(AG_ERR_NOT_IMPLEMENTED, "\"bincount_cpu\" not implemented for '%s'", ag__scalar_name(a->dtype));
  if (c->p->i[0] < 0) return ag__fail(AG_ERR_RUNTIME, "minlength should be >= 0");
  if (a->ndim != 1 && !(a->ndim == 0 && a->numel == 0))
    return ag__fail(AG_ERR_RUNTIME, "bincount only supports 1-d non-negative integral inputs.");
  if (w && (w->ndim != 1 || w->numel != a->numel))
    return ag__fail(AG_ERR_RUNTIME, "weights should be 1-d and have the same length as input");
  if (w && !ag__is_float(w->dtype)) return ag__need_float(c, w->dtype);
  ag_raw x = ag__raw(a);
  ag_temp t;
  const char *data = ag__contig(&x, &t);
  if (!data) return AG_ERR_MEMORY;
  int64_t n = 0, low = 0;
  for (int64_t i = 0; i < x.numel; i++) {
    int64_t v = int_at(x.dtype, data, i);
    if (v < low) low = v;
    if (v >= n) n = v == INT64_MAX ? v : v + 1;
  }
  ag__temp_free(&t);
  if (low < 0) return ag__fail(AG_ERR_RUNTIME, "bincount only supports 1-d non-negative integral inputs.");
  if (n < c->p->i[0]) n = c->p->i[0];
  ag__set_out(c, 0, w ? w->dtype : AG_INT64, 1, &n);
  return AG_OK;
}

int ag__exec_bincount(const ag_exec *x) {
  const ag_raw *in = &x->in[0], *out = &x->out[0];
  ag_temp t, u = {0, 0};
  memset(out->data, 0, (size_t)out->numel * (size_t)ag__dtype_size(out->dtype));
  const char *data = ag__contig(in, &t), *w = data && x->n_in > 1 ? ag__contig(&x->in[1], &u) : NULL;
  int st = data && (w || x->n_in < 2) ? AG_OK : AG_ERR_MEMORY;
  for (int64_t i = 0; i < in->numel && !st; i++) {
    int64_t k = int_at(in->dtype, data, i);
    if (!w) ((int64_t *)(void *)out->data)[k]++;
    else if (out->dtype == AG_FLOAT32) ((float *)(void *)out->data)[k] += ((const float *)(const void *)w)[i];
    else ((double *)(void *)out->data)[k] += ((const double *)(const void *)w)[i];
  }
  ag__temp_free(&u);
  ag__temp_free(&t);
  return st;
}

/* ints: bins; floats: the range, equal ends: that of the operand */
int ag__infer_histc(ag_infer *c) {
  int st = ag__need(c, 1, 1, 2);
  if (st) return st;
  if (!ag__is_float(c->in[0]->dtype))
    return ag__fail(AG_ERR_NOT_IMPLEMENTED, "\"histogram_cpu\" not implemented for '%s'", ag__scalar_name(c->in[0]->dtype));
  if (c->p->i[0] <= 0)
    return ag__fail(AG_ERR_RUNTIME, "torch.histogram(): bins must be > 0, but got %lld for dimension 0", (long long)c->p->i[0]);
  if (c->p->f[1] < c->p->f[0]) return ag__fail(AG_ERR_RUNTIME, "torch.histc: max must be larger than min");
  ag__set_out(c, 0, c->in[0]->dtype, 1, c->p->i);
  return AG_OK;
}

/* Bin of v: its part of the range times the number of bins, rounded down; the upper end is in the last bin. */
#define HISTC(T)                                                                                                    \
  static void histc_##T(int64_t n, int64_t bins, T *out, const T *x, T low, T high) {                               \
    for (int64_t i = 0; i < n; i++) {                                                                               \
      T v = x[i];                                                                                                   \
      if (!(v >= low && v <= high)) continue;                                                                       \
      int64_t k = (int64_t)((v - low) / (high - low) * (T)bins);                                                    \
      out[k < bins ? k : bins - 1] += 1;                                                                            \
    }                                                                                                               \
  }
HISTC(float)
HISTC(double)

int ag__exec_histc(const ag_exec *x) {
  const ag_raw *in = &x->in[0], *out = &x->out[0];
  bool single = out->dtype == AG_FLOAT32;
  double low = x->p->f[0], high = x->p->f[1];
  int st = AG_OK;
  ag_temp t;
  memset(out->data, 0, (size_t)out->numel * (size_t)ag__dtype_size(out->dtype));
  if (in->numel == 0) return AG_OK;
  const char *data = ag__contig(in, &t);
  if (!data) return AG_ERR_MEMORY;
  if (low == high) {
    double ends[2];
    float few[2];
    void *a = single ? (void *)&few[0] : &ends[0], *b = single ? (void *)&few[1] : &ends[1];
    ag__k->reduce[AG_R_MIN][in->dtype](1, in->numel, 1, a, data);
    ag__k->reduce[AG_R_MAX][in->dtype](1, in->numel, 1, b, data);
    low = single ? (double)few[0] : ends[0];
    high = single ? (double)few[1] : ends[1];
    if (low == high) {
      low -= 1;
      high += 1;
    }
  }
  if (!(low - low == 0 && high - high == 0))
    st = ag__fail(AG_ERR_RUNTIME, "torch.histc: range of [%g, %g] is not finite", low, high);
  else if (single)
    histc_float(in->numel, out->numel, (float *)(void *)out->data, (const float *)(const void *)data, (float)low, (float)high);
  else
    histc_double(in->numel, out->numel, (double *)(void *)out->data, (const double *)(const void *)data, low, high);
  ag__temp_free(&t);
  return st;
}
