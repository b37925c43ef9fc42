/* fn_index.c: gather, scatter and indexing by int64 tensors.
 *
 * Every op first turns its indices into checked positions, then moves data: so a bad index is found before
 * anything is written, and one set of movers serves the whole family.  Repeated positions are visited in
 * ascending order, which fixes the order of sums. */
#include "ops/fn_util.h"

/* outer x m blocks of inner elements; block (o, k) lies at o*step + pos[k] on the indexed side and at
 * (o*m + k)*inner on the other, which is contiguous. */
typedef struct walk {
  int64_t outer, m, inner, step;
  int64_t *pos;
  ag_temp temp;
} walk;

typedef struct taking {
  const walk *w;
  int size;
  char *out;
  const char *x;
} taking;

/* Blocks from .. to of outer * m. */
static int take_part(void *ctx, int slot, int64_t from, int64_t to) {
  const taking *t = ctx;
  const walk *w = t->w;
  int size = t->size;
  size_t block = (size_t)(w->inner * size);
  char *out = t->out + (size_t)from * block;
  (void)slot;
  for (int64_t o = from / w->m, k = from % w->m, left = to - from; left > 0; o++, k = 0) {
    const char *x = t->x + o * w->step * size;
    const int64_t *pos = w->pos + k, n = w->m - k < left ? w->m - k : left;
    if (w->inner == 1 && size == 4) {
      for (int64_t i = 0; i < n; i++) memcpy(out + i * 4, x + pos[i] * 4, 4);
    } else if (w->inner == 1 && size == 8) {
      for (int64_t i = 0; i < n; i++) memcpy(out + i * 8, x + pos[i] * 8, 8);
    } else {
      for (int64_t i = 0; i < n; i++) memcpy(out + (size_t)i * block, x + pos[i] * size, block);
    }
    out += (size_t)n * block;
    left -= n;
  }
  return AG_OK;
}

static void take(const walk *w, int size, char *out, const char *x) {
  taking t = {w, size, out, x};
  ag__parallel(w->outer * w->m, ag__grain_rows(w->inner, size, 2), take_part, &t);
}

static void put(const walk *w, int size, char *out, const char *v) {
  size_t block = (size_t)(w->inner * size);
  for (int64_t o = 0; o < w->outer; o++, out += w->step * size) {
    if (w->inner == 1 && size == 4) {
      for (int64_t k = 0; k < w->m; k++) memcpy(out + w->pos[k] * 4, v + k * 4, 4);
    } else if (w->inner == 1 && size == 8) {
      for (int64_t k = 0; k < w->m; k++) memcpy(out + w->pos[k] * 8, v + k * 8, 8);
    } else {
      for (int64_t k = 0; k < w->m; k++) memcpy(out + w->pos[k] * size, v + (size_t)k * block, block);
    }
    v += (size_t)w->m * block;
  }
}

#define ADD_LOOP(NAME, T, EXPR)                                             \
  static void NAME(const walk *w, void *out, const void *src) {             \
    T *d = out;                                                             \
    const T *s = src;                                                       \
    for (int64_t o = 0; o < w->outer; o++, d += w->step) {                  \
      if (w->inner == 1) {                                                  \
        for (int64_t k = 0; k < w->m; k++) {                                \
          T a = d[w->pos[k]], b = s[k];                                     \
          d[w->pos[k]] = (T)(EXPR);                                         \
        }                                                                   \
        s += w->m;                                                          \
      } else {                                                              \
        for (int64_t k = 0; k < w->m; k++, s += w->inner) {                 \
          T *r = d + w->pos[k];                                             \
          for (int64_t i = 0; i < w->inner; i++) {                          \
            T a = r[i], b = s[i];                                           \
            r[i] = (T)(EXPR);                                               \
          }                                                                 \
        }                                                                   \
      }                                                                     \
    }                                                                       \
  }
ADD_LOOP(add_bool, uint8_t, (a | b) != 0)
ADD_LOOP(add_u8, uint8_t, a + b)
ADD_LOOP(add_i32, int32_t, (uint32_t)a + (uint32_t)b)
ADD_LOOP(add_i64, int64_t, (uint64_t)a + (uint64_t)b)
ADD_LOOP(add_f32, float, a + b)
ADD_LOOP(add_f64, double, a + b)

static void (*const adders[AG_NDTYPE])(const walk *, void *, const void *) = {add_bool, add_u8,  add_i32,
                                                                              add_i64,  add_f32, add_f64};

static bool positions_alloc(walk *w, int64_t m) {
  w->m = m;
  w->pos = ag__temp(&w->temp, sizeof(int64_t) * (size_t)m);
  return w->pos != NULL;
}

static int out_of_bounds(int64_t i, int dim, int64_t size) {
  return ag__fail(AG_ERR_INDEX, "index %lld is out of bounds for dimension %d with size %lld", (long long)i, dim,
                  (long long)size);
}

/* ---- positions ---- */

/* gather and scatter: element j of the index names the place along dim, its own coordinates the rest. */
static int along(walk *w, const ag_raw *idx, int ndim, const int64_t *shape, const int64_t *strides, int dim) {
  w->outer = w->inner = 1;
  w->step = 0;
  w->temp.data = NULL;
  ag_temp t;
  const char *data = ag__contig(idx, &t);
  if (!data || !positions_alloc(w, idx->numel)) {
    if (data) ag__temp_free(&t);
    return AG_ERR_MEMORY;
  }
  const int64_t *ix = (const int64_t *)(const void *)data;
  int st = AG_OK;
  if (idx->ndim == 0 || ndim == 0) {
    for (int64_t k = 0; k < idx->numel; k++) {
      if (ix[k]) {
        st = out_of_bounds(ix[k], 0, 1);
        break;
      }
      w->pos[k] = 0;
    }
    ag__temp_free(&t);
    return st;
  }
  int last = ndim - 1;
  int64_t size = shape[dim], sd = strides[dim], step = dim == last ? 0 : strides[last];
  int64_t c[AG_MAX_NDIM] = {0}, base = 0;
  for (int64_t k = 0; k < idx->numel && !st;) {
    for (int64_t j = 0; j < idx->shape[last]; j++, k++) {
      if (AG_UNLIKELY((uint64_t)ix[k] >= (uint64_t)size)) {
        st = out_of_bounds(ix[k], dim, size);
        break;
      }
      w->pos[k] = base + j * step + ix[k] * sd;
    }
    for (int d = last - 1; d >= 0; d--) {
      int64_t s = d == dim ? 0 : strides[d];
      if (++c[d] < idx->shape[d]) {
        base += s;
        break;
      }
      base -= (c[d] - 1) * s;
      c[d] = 0;
    }
  }
  ag__temp_free(&t);
  return st;
}

/* Index tensors broadcast to one shape, indexing dims first .. first+n-1 of an array with the given geometry. */
typedef struct spec {
  int first, n;
  bool wrap;           /* negative indices count from the end */
  const char *message; /* before the usual one */
} spec;

static int blocks(walk *w, const spec *s, const ag_raw *idx, int ndim, const int64_t *shape, const int64_t *strides) {
  int64_t b[AG_MAX_NDIM];
  int nb = 0, st = AG_OK;
  w->temp.data = NULL;
  for (int j = 0; j < s->n; j++) {
    int64_t r[AG_MAX_NDIM];
    st = ag__broadcast(nb, b, idx[j].ndim, idx[j].shape, &nb, r);
    if (st) return st;
    memcpy(b, r, sizeof(int64_t) * (size_t)nb);
  }
  if (!positions_alloc(w, ag__numel(nb, b))) return AG_ERR_MEMORY;
  for (int j = 0; j < s->n && !st; j++) {
    int dim = s->first + j;
    int64_t size = ndim ? shape[dim] : 1, stride = ndim ? strides[dim] : 0, bs[AG_MAX_NDIM];
    ag_raw r = idx[j];
    if (!ag__same_shape(nb, b, r.ndim, r.shape)) {
      for (int k = 0, shift = nb - r.ndim; k < nb; k++)
        bs[k] = k < shift || r.shape[k - shift] != b[k] ? 0 : r.strides[k - shift];
      r = (ag_raw){r.data, b, bs, w->m, r.dtype, (uint8_t)nb, false};
    }
    ag_temp t;
    const char *data = ag__contig(&r, &t);
    if (!data) return AG_ERR_MEMORY;
    const int64_t *ix = (const int64_t *)(const void *)data;
    for (int64_t k = 0; k < w->m; k++) {
      int64_t i = ix[k];
      if (s->wrap && i < 0) i += size;
      if (AG_UNLIKELY((uint64_t)i >= (uint64_t)size)) {
        st = s->message ? ag__fail(AG_ERR_INDEX, "%s: index %lld is out of bounds for dimension %d with size %lld", s->message,
                                   (long long)ix[k], dim, (long long)size)
                        : out_of_bounds(ix[k], dim, size);
        break;
      }
      w->pos[k] = (j ? w->pos[k] : 0) + i * stride;
    }
    ag__temp_free(&t);
  }
  return st;
}

/* Layout around the indexed dims: false when the inner dims are not one block or the outer ones not one step. */
static bool layout(walk *w, int ndim, const int64_t *shape, const int64_t *strides, int first, int n) {
  w->outer = w->inner = 1;
  w->step = 0;
  for (int d = ndim - 1; d >= first + n; d--) {
    if (shape[d] != 1 && strides[d] != w->inner) return false;
    w->inner *= shape[d];
  }
  for (int d = first - 1; d >= 0; d--) {
    if (shape[d] == 1) continue;
    if (w->outer == 1) w->step = strides[d];
    else if (strides[d] != w->step * w->outer) return false;
    w->outer *= shape[d];
  }
  return true;
}

/* out = x at the indices. */
static int take_blocks(const spec *s, const ag_raw *x, const ag_raw *idx, const ag_raw *out) {
  walk w;
  int64_t own[AG_MAX_NDIM];
  const int64_t *strides = x->strides;
  ag_temp t = {NULL, 0};
  const char *data = x->data;
  if (!layout(&w, x->ndim, x->shape, x->strides, s->first, s->n)) {
    if (!(data = ag__contig(x, &t))) return AG_ERR_MEMORY;
    ag__strides_contiguous(x->ndim, x->shape, own);
    strides = own;
    layout(&w, x->ndim, x->shape, own, s->first, s->n);
  }
  int st = blocks(&w, s, idx, x->ndim, x->shape, strides);
  if (!st && out->numel) {
    void *token = ag__long_begin(out->numel, AG_LONG_MOVE);
    take(&w, ag__dtype_size(x->dtype), out->data, data);
    ag__blocking_end(token);
  }
  ag__temp_free(&w.temp);
  ag__temp_free(&t);
  return st;
}

static bool overlap(const ag_raw *a, const ag_raw *b) {
  const char *lo = b->data, *hi = b->data;
  int size = ag__dtype_size(b->dtype);
  for (int k = 0; k < b->ndim; k++) {
    int64_t far = (b->shape[k] - 1) * b->strides[k] * size;
    if (far < 0) lo += far;
    else hi += far;
  }
  return lo < a->data + a->numel * size && hi + size > a->data;
}

/* Contiguous values to write: a copy when they lie in the memory that is about to be written. */
static char *values_of(const ag_raw *v, const ag_raw *out, ag_temp *t) {
  ag_raw r = *v;
  if (r.contiguous && r.numel && overlap(out, &r)) r.contiguous = false;
  return ag__contig(&r, t);
}

/* Writes or adds v (already of the indexed shape) to out, which starts as x. */
static int write_positions(walk *w, const ag_raw *x, const ag_raw *v, const ag_raw *out, bool add) {
  ag_temp t;
  char *data = values_of(v, out, &t);
  if (!data) return AG_ERR_MEMORY;
  void *token = ag__long_begin(out->numel + v->numel, AG_LONG_MOVE);
  ag__start_from(out, x);
  if (v->numel) {
    if (add) adders[x->dtype](w, out->data, data);
    else put(w, ag__dtype_size(x->dtype), out->data, data);
  }
  ag__blocking_end(token);
  ag__temp_free(&t);
  return AG_OK;
}

static int write_blocks(const spec *s, const ag_raw *x, const ag_raw *v, const ag_raw *idx, const ag_raw *out, bool add) {
  walk w;
  int64_t strides[AG_MAX_NDIM];
  ag__strides_contiguous(out->ndim, out->shape, strides);
  layout(&w, out->ndim, out->shape, strides, s->first, s->n);
  int st = blocks(&w, s, idx, out->ndim, out->shape, strides);
  if (!st) st = write_positions(&w, x, v, out, add);
  ag__temp_free(&w.temp);
  return st;
}

/* ---- shape rules ---- */

static int need_long(const ag_infer *c, int k) {
  if (c->in[k]->dtype == AG_INT64) return AG_OK;
  return ag__fail(AG_ERR_RUNTIME, "%s(): Expected dtype int64 for index", c->row->name);
}

static int same_dtype(const ag_infer *c, int k) {
  if (c->in[k]->dtype == c->in[0]->dtype) return AG_OK;
  return ag__fail(AG_ERR_RUNTIME, "%s(): Expected self.dtype to be equal to src.dtype, but got %s and %s", c->row->name,
                  ag__scalar_name(c->in[0]->dtype), ag__scalar_name(c->in[k]->dtype));
}

static int infer_along(ag_infer *c, int *dim) {
  ag_array *x = c->in[0], *ix = c->in[1];
  int st = ag__need(c, 2, 1, 0);
  if (!st) st = need_long(c, 1);
  if (!st) st = ag__wrap_dim(c->p->i[0], x->ndim, dim);
  if (st) return st;
  c->p->i[0] = *dim;
  if ((ix->ndim ? ix->ndim : 1) != (x->ndim ? x->ndim : 1))
    return ag__fail(AG_ERR_RUNTIME, "Index tensor must have the same number of dimensions as input tensor");
  return AG_OK;
}

static int fits(const ag_array *ix, const ag_array *x, int skip, const char *name) {
  if (ix->numel == 0) return AG_OK;
  for (int d = 0; d < ix->ndim; d++)
    if (d != skip && ag__shape(ix)[d] > (x->ndim ? ag__shape(x)[d] : 1)) {
      char a[160], b[160];
      ag__shape_text(ix->ndim, ag__shape(ix), a, sizeof a);
      ag__shape_text(x->ndim, ag__shape(x), b, sizeof b);
      if (skip >= 0)
        return ag__fail(AG_ERR_RUNTIME, "Size does not match at dimension %d expected index %s to be no larger than %s %s "
                        "apart from dimension %d", d, a, name, b, skip);
      return ag__fail(AG_ERR_RUNTIME, "Size does not match at dimension %d expected index %s to be no larger than %s %s", d, a,
                      name, b);
    }
  return AG_OK;
}

int ag__infer_gather(ag_infer *c) {
  int dim, st = infer_along(c, &dim);
  if (!st) st = fits(c->in[1], c->in[0], dim, "self");
  if (st) return st;
  ag__set_out(c, 0, c->in[0]->dtype, c->in[1]->ndim, ag__shape(c->in[1]));
  return AG_OK;
}

int ag__infer_scatter_add(ag_infer *c) {
  ag_array *ix = c->in[1], *src = c->in[2];
  int dim, st = infer_along(c, &dim);
  if (!st) st = same_dtype(c, 2);
  if (!st && (ix->ndim ? ix->ndim : 1) != (src->ndim ? src->ndim : 1))
    st = ag__fail(AG_ERR_RUNTIME, "Index tensor must have the same number of dimensions as src tensor");
  if (!st) st = fits(ix, c->in[0], dim, "self");
  if (!st) st = fits(ix, src, -1, "src");
  if (st) return st;
  ag__set_out(c, 0, c->in[0]->dtype, c->in[0]->ndim, ag__shape(c->in[0]));
  return AG_OK;
}

static int infer_one_dim(ag_infer *c, int *dim) {
  int st = ag__need(c, 2, 1, 0);
  if (!st) st = need_long(c, 1);
  if (!st && c->in[1]->ndim > 1)
    st = ag__fail(AG_ERR_INDEX, "%s(): Index is supposed to be a vector, but got dim: %d", c->row->name, c->in[1]->ndim);
  if (!st) st = ag__wrap_dim(c->p->i[0], c->in[0]->ndim, dim);
  if (!st) c->p->i[0] = *dim;
  return st;
}

int ag__infer_index_select(ag_infer *c) {
  int dim, st = infer_one_dim(c, &dim);
  if (st) return st;
  ag_array *x = c->in[0];
  if (x->ndim == 0 && c->in[1]->numel != 1)
    return ag__fail(AG_ERR_INDEX, "index_select(): Index to scalar can have only 1 value, got %lld value(s)",
                    (long long)c->in[1]->numel);
  ag__set_out(c, 0, x->dtype, x->ndim, ag__shape(x));
  if (x->ndim) c->out[0].shape[dim] = c->in[1]->numel;
  return AG_OK;
}

int ag__infer_index_add(ag_infer *c) {
  int dim, st = infer_one_dim(c, &dim);
  if (!st) st = same_dtype(c, 2);
  if (st) return st;
  ag_array *x = c->in[0], *src = c->in[2];
  int64_t n = c->in[1]->numel, len = src->ndim ? ag__shape(src)[dim < src->ndim ? dim : 0] : 1;
  if (len != n)
    return ag__fail(AG_ERR_RUNTIME, "index_add(): Number of indices (%lld) should be equal to source.size(dim): (%lld), for dim: %d",
                    (long long)n, (long long)len, dim);
  bool same = src->ndim == x->ndim;
  for (int d = 0; same && d < x->ndim; d++) same = d == dim || ag__shape(src)[d] == ag__shape(x)[d];
  if (!same) {
    char a[160], b[160];
    return ag__fail(AG_ERR_RUNTIME, "source tensor shape must match self tensor shape, excluding the specified dimension. Got "
                    "self.shape = %s source.shape = %s", ag__shape_text(x->ndim, ag__shape(x), a, sizeof a),
                    ag__shape_text(src->ndim, ag__shape(src), b, sizeof b));
  }
  ag__set_out(c, 0, x->dtype, x->ndim, ag__shape(x));
  return AG_OK;
}

/* Shape that x has at index tensors in[at..]. */
static int indexed_shape(ag_infer *c, int at, int *ndim, int64_t *shape) {
  ag_array *x = c->in[0];
  int n = c->n_in - at, nb = 0, first = 0;
  int64_t b[AG_MAX_NDIM], r[AG_MAX_NDIM];
  if (n > x->ndim) return ag__fail(AG_ERR_INDEX, "too many indices for tensor of dimension %d", x->ndim);
  int st = ag__wrap_dim(c->p->i[0], x->ndim, &first);
  if (st) return st;
  if (first + n > x->ndim) return ag__fail(AG_ERR_INDEX, "too many indices for tensor of dimension %d", x->ndim);
  c->p->i[0] = first;
  for (int j = at; j < c->n_in; j++) {
    ag_array *ix = c->in[j];
    if (ix->dtype != AG_INT64)
      return ag__fail(AG_ERR_INDEX, "tensors used as indices must be long, int, byte or bool tensors");
    if (ag__broadcast(nb, b, ix->ndim, ag__shape(ix), &nb, r)) {
      ag__fail(AG_ERR_INDEX, "shape mismatch: indexing tensors could not be broadcast together with shapes ");
      for (int k = at; k < c->n_in; k++) {
        char s[160];
        ag__fail_append("%s%s", k > at ? ", " : "", ag__shape_text(c->in[k]->ndim, ag__shape(c->in[k]), s, sizeof s));
      }
      return AG_ERR_INDEX;
    }
    memcpy(b, r, sizeof(int64_t) * (size_t)nb);
  }
  *ndim = x->ndim - n + nb;
  if (*ndim > AG_MAX_NDIM)
    return ag__fail(AG_ERR_RUNTIME, "%s(): result would have %d dimensions, at most %d are supported", c->row->name, *ndim,
                    AG_MAX_NDIM);
  int d = 0;
  for (int k = 0; k < first; k++) shape[d++] = ag__shape(x)[k];
  for (int k = 0; k < nb; k++) shape[d++] = b[k];
  for (int k = first + n; k < x->ndim; k++) shape[d++] = ag__shape(x)[k];
  for (int k = first; k < first + n; k++)
    if (ag__shape(x)[k] == 0 && ag__numel(nb, b) != 0)
      return ag__fail(AG_ERR_INDEX, "index is out of bounds for dimension with size 0");
  return AG_OK;
}

int ag__infer_index(ag_infer *c) {
  int64_t shape[AG_MAX_NDIM];
  int ndim, st = ag__need(c, 2, 1, 0);
  if (!st) st = indexed_shape(c, 1, &ndim, shape);
  if (!st) ag__set_out(c, 0, c->in[0]->dtype, ndim, shape);
  return st;
}

int ag__infer_index_put(ag_infer *c) {
  ag_array *x = c->in[0];
  int64_t shape[AG_MAX_NDIM], r[AG_MAX_NDIM];
  int ndim, nr, st = ag__need(c, 3, 2, 0);
  if (!st) st = indexed_shape(c, 2, &ndim, shape);
  if (st) return st;
  ag_array *v = c->in[1];
  if (v->dtype != x->dtype)
    return ag__fail(AG_ERR_RUNTIME, "Index put requires the source and destination dtypes match, got %s for the destination and %s "
                    "for the source.", ag__scalar_name(x->dtype), ag__scalar_name(v->dtype));
  if (ag__broadcast(ndim, shape, v->ndim, ag__shape(v), &nr, r) || !ag__same_shape(ndim, shape, nr, r)) {
    char a[160], b[160];
    return ag__fail(AG_ERR_RUNTIME, "shape mismatch: value tensor of shape %s cannot be broadcast to indexing result of shape %s",
                    ag__shape_text(v->ndim, ag__shape(v), a, sizeof a), ag__shape_text(ndim, shape, b, sizeof b));
  }
  ag__set_out(c, 0, x->dtype, x->ndim, ag__shape(x));
  return AG_OK;
}

int ag__infer_embedding(ag_infer *c) {
  ag_array *w = c->in[0], *ix = c->in[1];
  if (w->ndim != 2) return ag__fail(AG_ERR_RUNTIME, "'weight' must be 2-D");
  if (ix->dtype != AG_INT64)
    return ag__fail(AG_ERR_RUNTIME, "Expected tensor for argument #1 'indices' to have one of the following scalar types: Long, "
                    "Int; but got %s instead (while checking arguments for embedding)", ag__dtype_torch_name(ix->dtype));
  if (ix->ndim + 1 > AG_MAX_NDIM) return ag__fail(AG_ERR_RUNTIME, "embedding(): too many dimensions");
  ag__set_out(c, 0, w->dtype, ix->ndim + 1, ag__shape(ix));
  c->out[0].shape[ix->ndim] = ag__shape(w)[1];
  return AG_OK;
}

static int64_t count_true(int dtype, const char *data, int64_t n) {
  int64_t count = 0;
  int size = ag__dtype_size(dtype);
  for (int64_t i = 0; i < n; i++, data += size) {
    if (dtype == AG_FLOAT32) {
      float v;
      memcpy(&v, data, sizeof v);
      count += v != 0;
    } else if (dtype == AG_FLOAT64) {
      double v;
      memcpy(&v, data, sizeof v);
      count += v != 0;
    } else {
      bool any = false;
      for (int k = 0; k < size; k++) any |= data[k] != 0;
      count += any;
    }
  }
  return count;
}

int ag__infer_nonzero(ag_infer *c) {
  ag_raw x = ag__raw(c->in[0]);
  ag_temp t;
  const char *data = ag__contig(&x, &t);
  if (!data) return AG_ERR_MEMORY;
  int64_t shape[2] = {count_true(x.dtype, data, x.numel), x.ndim};
  ag__temp_free(&t);
  ag__set_out(c, 0, AG_INT64, 2, shape);
  return AG_OK;
}

/* ---- executions ---- */

int ag__exec_gather(const ag_exec *x) {
  const ag_raw *a = &x->in[0];
  walk w;
  int st = along(&w, &x->in[1], a->ndim, a->shape, a->strides, (int)x->p->i[0]);
  if (!st && w.m) {
    void *token = ag__long_begin(w.m, AG_LONG_MOVE);
    take(&w, ag__dtype_size(a->dtype), x->out[0].data, a->data);
    ag__blocking_end(token);
  }
  ag__temp_free(&w.temp);
  return st;
}

int ag__exec_scatter_add(const ag_exec *x) {
  const ag_raw *out = &x->out[0], *idx = &x->in[1];
  int64_t strides[AG_MAX_NDIM];
  walk w;
  ag__strides_contiguous(out->ndim, out->shape, strides);
  int st = along(&w, idx, out->ndim, out->shape, strides, (int)x->p->i[0]);
  if (!st) {
    ag_raw src = x->in[2]; /* the corner of src that the index covers */
    if (src.ndim == idx->ndim && !ag__same_shape(src.ndim, src.shape, idx->ndim, idx->shape)) {
      src.shape = idx->shape;
      src.numel = idx->numel;
      src.contiguous = false;
    }
    st = write_positions(&w, &x->in[0], &src, out, true);
  }
  ag__temp_free(&w.temp);
  return st;
}

int ag__exec_index_select(const ag_exec *x) {
  spec s = {(int)x->p->i[0], x->in[0].ndim ? 1 : 0, false, "index out of range in self"};
  if (x->in[0].ndim == 0) {
    walk w;
    int st = along(&w, &x->in[1], 0, NULL, NULL, 0);
    if (!st) take(&w, ag__dtype_size(x->in[0].dtype), x->out[0].data, x->in[0].data);
    ag__temp_free(&w.temp);
    return st;
  }
  return take_blocks(&s, &x->in[0], &x->in[1], &x->out[0]);
}

int ag__exec_index_add(const ag_exec *x) {
  const ag_raw *out = &x->out[0];
  if (out->ndim == 0) {
    walk w;
    int st = along(&w, &x->in[1], 0, NULL, NULL, 0);
    if (!st) st = write_positions(&w, &x->in[0], &x->in[2], out, true);
    ag__temp_free(&w.temp);
    return st;
  }
  spec s = {(int)x->p->i[0], 1, false, "index out of range in self"};
  return write_blocks(&s, &x->in[0], &x->in[2], &x->in[1], out, true);
}

int ag__exec_index(const ag_exec *x) {
  spec s = {(int)x->p->i[0], x->n_in - 1, true, NULL};
  return take_blocks(&s, &x->in[0], x->in + 1, &x->out[0]);
}

int ag__exec_index_put(const ag_exec *x) {
  const ag_raw *a = &x->in[0], *idx = x->in + 2;
  spec s = {(int)x->p->i[0], x->n_in - 2, true, NULL};
  int64_t shape[AG_MAX_NDIM], b[AG_MAX_NDIM], r[AG_MAX_NDIM], strides[AG_MAX_NDIM];
  int nb = 0, ndim = 0;
  for (int j = 0; j < s.n; j++) {
    int st = ag__broadcast(nb, b, idx[j].ndim, idx[j].shape, &nb, r);
    if (st) return st;
    memcpy(b, r, sizeof(int64_t) * (size_t)nb);
  }
  for (int k = 0; k < s.first; k++) shape[ndim++] = a->shape[k];
  for (int k = 0; k < nb; k++) shape[ndim++] = b[k];
  for (int k = s.first + s.n; k < a->ndim; k++) shape[ndim++] = a->shape[k];
  ag_raw v = x->in[1];
  if (!ag__same_shape(ndim, shape, v.ndim, v.shape)) {
    for (int k = 0, shift = ndim - v.ndim; k < ndim; k++)
      strides[k] = k < shift || v.shape[k - shift] != shape[k] ? 0 : v.strides[k - shift];
    v = (ag_raw){v.data, shape, strides, ag__numel(ndim, shape), v.dtype, (uint8_t)ndim, false};
  }
  return write_blocks(&s, a, &v, idx, &x->out[0], x->p->i[1] != 0);
}

int ag__exec_embedding(const ag_exec *x) {
  spec s = {0, 1, false, "index out of range in self"};
  return take_blocks(&s, &x->in[0], &x->in[1], &x->out[0]);
}

int ag__exec_nonzero(const ag_exec *x) {
  const ag_raw *a = &x->in[0];
  ag_temp t;
  const char *data = ag__contig(a, &t);
  if (!data) return AG_ERR_MEMORY;
  int64_t *out = (int64_t *)(void *)x->out[0].data, left = x->out[0].shape[0], c[AG_MAX_NDIM] = {0};
  int size = ag__dtype_size(a->dtype);
  for (int64_t i = 0; i < a->numel && left > 0; i++) {
    if (count_true(a->dtype, data + i * size, 1)) {
      for (int d = 0; d < a->ndim; d++) *out++ = c[d];
      left--;
    }
    for (int d = a->ndim - 1; d >= 0 && ++c[d] == a->shape[d]; d--) c[d] = 0;
  }
  ag__temp_free(&t);
  return AG_OK;
}

/* ---- derivatives ---- */

/* Zeros of the shape of input 0, with src added at the indices. */
static ag_tensor *spread(ag_vjp *c, int op, int n_idx, ag_tensor *const *idx, ag_tensor *src, bool src_second,
                         const ag_params *p) {
  const ag_meta *m = ag__vmeta(c, 0);
  ag_tensor *in[2 + AG_MAX_NDIM];
  int n = 0;
  in[n++] = ag__bzeros(c, m->dtype, m->ndim, m->shape);
  if (src_second) in[n++] = src;
  for (int k = 0; k < n_idx; k++) in[n++] = idx[k];
  if (!src_second) in[n++] = src;
  return ag__b(c, op, n, in, p);
}

int ag__vjp_gather(ag_vjp *c) {
  if (!c->need[0]) return c->status;
  ag_tensor *idx = ag__vx(c, 1);
  return ag__give(c, 0, spread(c, AG_OP_scatter_add, 1, &idx, c->g[0], false, &c->p));
}

/* src may be larger than the index: what it covers not has no derivative. */
static ag_tensor *grown(ag_vjp *c, ag_tensor *a, const ag_meta *m) {
  if (!a || ag__same_shape(a->arr->ndim, ag__shape(a->arr), m->ndim, m->shape)) return a;
  ag_params p = {.nf = 1};
  for (int d = 0; d < m->ndim; d++) {
    p.i[p.ni++] = 0;
    p.i[p.ni++] = m->shape[d] - ag__shape(a->arr)[d];
  }
  return ag__b(c, AG_OP_pad, 1, &a, &p);
}

int ag__vjp_scatter_add(ag_vjp *c) {
  if (c->need[0]) ag__give(c, 0, c->g[0]);
  if (c->need[2] && !c->status) {
    ag_tensor *in[2] = {c->g[0], ag__vx(c, 1)};
    ag__give(c, 2, grown(c, ag__b(c, AG_OP_gather, 2, in, &c->p), ag__vmeta(c, 2)));
  }
  return c->status;
}

int ag__vjp_index_select(ag_vjp *c) {
  if (!c->need[0]) return c->status;
  ag_tensor *idx = ag__vx(c, 1);
  return ag__give(c, 0, spread(c, AG_OP_index_add, 1, &idx, c->g[0], false, &c->p));
}

int ag__vjp_index_add(ag_vjp *c) {
  if (c->need[0]) ag__give(c, 0, c->g[0]);
  if (c->need[2] && !c->status) {
    ag_tensor *in[2] = {c->g[0], ag__vx(c, 1)};
    ag__give(c, 2, ag__b(c, AG_OP_index_select, 2, in, &c->p));
  }
  return c->status;
}

static int saved_indices(ag_vjp *c, int at, ag_tensor **idx) {
  int n = (int)c->node->n_in - at;
  for (int k = 0; k < n; k++)
    if (!(idx[k] = ag__vx(c, at + k))) return -1;
  return n;
}

int ag__vjp_index(ag_vjp *c) {
  ag_tensor *idx[AG_MAX_NDIM];
  if (!c->need[0]) return c->status;
  int n = saved_indices(c, 1, idx);
  if (n < 0) return c->status;
  ag_params p = {.ni = 2, .i = {c->p.i[0], 1}};
  return ag__give(c, 0, spread(c, AG_OP_index_put, n, idx, c->g[0], true, &p));
}

int ag__vjp_index_put(ag_vjp *c) {
  ag_tensor *in[2 + AG_MAX_NDIM];
  bool add = c->p.i[1] != 0;
  if (c->need[0] && add) ag__give(c, 0, c->g[0]);
  if ((!c->need[0] || add) && !c->need[1]) return c->status;
  int n = saved_indices(c, 2, in + 2);
  if (n < 0) return c->status;
  if (c->need[0] && !add) {
    in[0] = c->g[0];
    in[1] = c->g[0] ? ag__bnum(c, 0, c->g[0]->arr->dtype) : NULL;
    ag__give(c, 0, ag__b(c, AG_OP_index_put, n + 2, in, &c->p));
  }
  if (c->need[1] && !c->status) {
    ag_params p = {.ni = 1, .i = {c->p.i[0]}};
    in[1] = c->g[0];
    ag__give(c, 1, ag__b(c, AG_OP_index, n + 1, in + 1, &p));
  }
  return c->status;
}

int ag__vjp_embedding(ag_vjp *c) {
  if (!c->need[0]) return c->status;
  ag_tensor *idx = ag__vx(c, 1);
  ag_params p = {.ni = 2, .i = {0, 1}};
  return ag__give(c, 0, spread(c, AG_OP_index_put, 1, &idx, c->g[0], true, &p));
}
