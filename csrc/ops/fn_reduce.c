/* fn_reduce.c: sums, products, extrema over any set of dims, running sums and products.
 *
 * The operand is brought into outer x n x inner form.  Groups of neighbouring reduced dims are taken one after
 * the other from the right, so that no permuted copy is made: the first step reads everything, the next ones
 * read what is left.  Operands that are row-major in another order of their dims are taken in that order. */
#include "ops/fn_util.h"
#include "ops/move.h"

#define INTS(n) (sizeof(int64_t) * (size_t)(n))

/* Set of dims named by p->i[first..] (none: all), which are wrapped. */
static int dim_set(ag_params *p, int first, int ndim, uint32_t *set) {
  uint32_t s = 0;
  for (int k = first; k < p->ni; k++) {
    int d, st = ag__wrap_dim(p->i[k], ndim, &d);
    if (st) return st;
    if (s >> d & 1) return ag__fail(AG_ERR_RUNTIME, "dim %d appears multiple times in the list of dims", d);
    s |= 1u << d;
    p->i[k] = d;
  }
  uint32_t all = (1u << ndim) - 1;
  *set = p->ni <= first ? all : s & all;
  return AG_OK;
}

/* The same for parameters that infer has wrapped. */
static uint32_t dim_set_of(const ag_params *p, int first, int ndim) {
  uint32_t s = 0, all = (1u << ndim) - 1;
  if (p->ni <= first) return all;
  for (int k = first; k < p->ni; k++) s |= 1u << p->i[k];
  return s & all;
}

static bool keeps(const ag_params *p) { return p->ni > 0 && p->i[0]; }

static int reduced_shape(int ndim, const int64_t *shape, uint32_t set, bool keep, int64_t *out) {
  int n = 0;
  for (int k = 0; k < ndim; k++) {
    if (!(set >> k & 1)) out[n++] = shape[k];
    else if (keep) out[n++] = 1;
  }
  return n;
}

static int infer_reduce(ag_infer *c, int dtype, uint32_t *set) {
  ag_array *a = c->in[0];
  int64_t shape[AG_MAX_NDIM];
  int st = dim_set(c->p, 1, a->ndim, set);
  if (st) return st;
  int n = reduced_shape(a->ndim, ag__shape(a), *set, keeps(c->p), shape);
  ag__set_out(c, 0, dtype, n, shape);
  return AG_OK;
}

/* ---- one reduction ---- */

static int result_dtype(int r, int dtype) {
  switch (r) {
    case AG_R_SUM:
    case AG_R_PROD: return ag__is_float(dtype) ? dtype : AG_INT64;
    case AG_R_ANY:
    case AG_R_ALL: return AG_BOOL;
    default: return dtype;
  }
}

/* Order of dims by descending strides when the operand is row-major in it. */
static bool dense_order(const ag_raw *x, int *order) {
  for (int k = 0; k < x->ndim; k++) {
    int j = k;
    for (; j > 0 && x->strides[order[j - 1]] < x->strides[k]; j--) order[j] = order[j - 1];
    order[j] = k;
  }
  int64_t s = 1;
  for (int j = x->ndim - 1; j >= 0; j--) {
    if (x->shape[order[j]] == 1) continue;
    if (x->strides[order[j]] != s) return false;
    s *= x->shape[order[j]];
  }
  return true;
}

typedef struct group {
  int64_t n;
  bool reduced;
} group;

static void add_group(group *g, int *n, int64_t size, bool reduced) {
  if (size == 1) return;
  if (*n && g[*n - 1].reduced == reduced) g[*n - 1].n *= size;
  else g[(*n)++] = (group){size, reduced};
}

/* Reduces contiguous data through the groups, from the right, into out. */
static int reduce_groups(int r, int dtype, const char *data, group *g, int n_groups, char *out) {
  ag_temp t[2] = {{0, 0}, {0, 0}};
  int todo = 0, turn = 0, st = AG_OK;
  for (int k = 0; k < n_groups; k++) todo += g[k].reduced;
  while (todo-- > 0) {
    int j = n_groups - 1;
    while (!g[j].reduced) j--;
    int64_t outer = 1, inner = j + 1 < n_groups ? g[j + 1].n : 1;
    for (int k = 0; k < j; k++) outer *= g[k].n;
    int to = result_dtype(r, dtype);
    char *dst = out;
    if (todo) {
      dst = ag__temp(&t[turn], (size_t)(outer * inner) * (size_t)ag__dtype_size(to));
      if (!dst) {
        st = AG_ERR_MEMORY;
        break;
      }
    }
    st = ag__par_reduce(r, dtype, outer, g[j].n, inner, dst, data);
    if (st) break;
    turn = !turn;
    ag__temp_free(&t[turn]); /* what this step read */
    data = dst;
    dtype = to;
    n_groups = j;
    add_group(g, &n_groups, inner, false);
  }
  ag__temp_free(&t[0]);
  ag__temp_free(&t[1]);
  return st;
}

static void copy_as(int from, int to, int64_t n, void *out, const void *data) {
  if (from == to) ag__par_copy(out, data, n * ag__dtype_size(to));
  else ag__par_cast(from, to, n, out, data);
}

static const double identity[AG_R_COUNT] = {[AG_R_SUM] = 0, [AG_R_PROD] = 1, [AG_R_ANY] = 0, [AG_R_ALL] = 1};

/* out (contiguous, of result_dtype) = x reduced over the dims of set. */
static int reduce(int r, const ag_raw *x, uint32_t set, const ag_raw *out) {
  int order[AG_MAX_NDIM], kept[AG_MAX_NDIM], nd = x->ndim, n_groups = 0, n_kept = 0, st;
  group g[AG_MAX_NDIM];
  ag_temp copy = {0, 0}, aside = {0, 0};
  if (out->numel == 0) return AG_OK;
  if (x->numel == 0) {
    ag__move_fill(out->dtype, out->numel, out->data, identity[r]);
    return AG_OK;
  }
  const char *data = x->data;
  if (x->contiguous || !dense_order(x, order)) {
    for (int k = 0; k < nd; k++) order[k] = k;
    data = ag__contig(x, &copy);
    if (!data) return AG_ERR_MEMORY;
  }
  bool sorted = true;
  for (int j = 0; j < nd; j++) {
    int k = order[j];
    bool reduced = set >> k & 1;
    add_group(g, &n_groups, x->shape[k], reduced);
    if (reduced || x->shape[k] == 1) continue;
    if (n_kept && kept[n_kept - 1] > k) sorted = false;
    kept[n_kept++] = k;
  }
  char *dst = out->data;
  int size = ag__dtype_size(out->dtype);
  if (!sorted && !(dst = ag__temp(&aside, (size_t)out->numel * (size_t)size))) {
    st = AG_ERR_MEMORY;
  } else {
    bool any = false;
    for (int k = 0; k < n_groups; k++) any |= g[k].reduced;
    st = AG_OK;
    if (any) st = reduce_groups(r, x->dtype, data, g, n_groups, dst);
    else copy_as(x->dtype, out->dtype, x->numel, dst, data);
  }
  if (!st && !sorted) {
    /* The kept dims lie in the operand's order of memory: read them in their own. */
    int64_t at[AG_MAX_NDIM], shape[AG_MAX_NDIM], strides[AG_MAX_NDIM], s = 1;
    int n = 0;
    for (int j = n_kept - 1; j >= 0; j--) {
      at[kept[j]] = s;
      s *= x->shape[kept[j]];
    }
    for (int k = 0; k < nd; k++) {
      if ((set >> k & 1) || x->shape[k] == 1) continue;
      shape[n] = x->shape[k];
      strides[n++] = at[k];
    }
    ag__par_pack(n, shape, strides, out->numel, out->data, dst, size);
  }
  ag__temp_free(&aside);
  ag__temp_free(&copy);
  return st;
}

static int exec_reduce(const ag_exec *x, int r) {
  void *token = ag__long_begin(x->in[0].numel, AG_LONG_MOVE);
  int st = reduce(r, &x->in[0], dim_set_of(x->p, 1, x->in[0].ndim), &x->out[0]);
  ag__blocking_end(token);
  return st;
}

/* ---- gradients of reductions: back to the operand's shape ---- */

/* t with the reduced dims as dims of size one. */
static ag_tensor *with_dims(ag_vjp *c, ag_tensor *t, const ag_meta *m, uint32_t set) {
  int64_t shape[AG_MAX_NDIM];
  reduced_shape(m->ndim, m->shape, set, true, shape);
  if (!t || t->arr->ndim == m->ndim) return t;
  return ag__breshape(c, t, m->ndim, shape);
}

static ag_tensor *spread(ag_vjp *c, ag_tensor *t, const ag_meta *m, uint32_t set) {
  if (t && t->arr->ndim > 0) t = with_dims(c, t, m, set);
  return ag__bshape(c, AG_OP_expand, t, m->ndim, m->shape);
}

static int64_t count_of(const ag_meta *m, uint32_t set) {
  int64_t n = 1;
  for (int k = 0; k < m->ndim; k++)
    if (set >> k & 1) n *= m->shape[k];
  return n;
}

/* ---- sum, mean ---- */

int ag__infer_sum(ag_infer *c) {
  uint32_t set;
  return infer_reduce(c, result_dtype(AG_R_SUM, c->in[0]->dtype), &set);
}

int ag__exec_sum(const ag_exec *x) { return exec_reduce(x, AG_R_SUM); }

int ag__vjp_sum(ag_vjp *c) {
  const ag_meta *m = ag__vmeta(c, 0);
  return ag__give(c, 0, spread(c, c->g[0], m, dim_set_of(&c->p, 1, m->ndim)));
}

int ag__infer_mean(ag_infer *c) {
  uint32_t set;
  int dtype = c->in[0]->dtype;
  if (!ag__is_float(dtype))
    return ag__fail(AG_ERR_RUNTIME,
                    "mean(): could not infer output dtype. Input dtype must be either a floating point or complex dtype. "
                    "Got: %s",
                    ag__scalar_name(dtype));
  return infer_reduce(c, dtype, &set);
}

int ag__exec_mean(const ag_exec *x) {
  const ag_raw *in = &x->in[0], *out = &x->out[0];
  int st = exec_reduce(x, AG_R_SUM);
  if (st || out->numel == 0) return st;
  int64_t n = in->numel / out->numel;
  if (out->dtype == AG_FLOAT32) {
    float *p = (float *)(void *)out->data, d = (float)n;
    for (int64_t i = 0; i < out->numel; i++) p[i] /= d;
  } else {
    double *p = (double *)(void *)out->data, d = (double)n;
    for (int64_t i = 0; i < out->numel; i++) p[i] /= d;
  }
  return AG_OK;
}

int ag__vjp_mean(ag_vjp *c) {
  const ag_meta *m = ag__vmeta(c, 0);
  uint32_t set = dim_set_of(&c->p, 1, m->ndim);
  ag_tensor *n = ag__bnum(c, (double)count_of(m, set), m->dtype);
  return ag__give(c, 0, spread(c, ag__b2(c, AG_OP_div, c->g[0], n), m, set));
}

/* sum_to: what broadcasting added is summed away. */
int ag__infer_sum_to(ag_infer *c) {
  ag_array *a = c->in[0];
  int n = c->p->ni, lead = a->ndim - n;
  bool ok = lead >= 0;
  for (int k = 0; ok && k < n; k++) ok = c->p->i[k] == ag__shape(a)[lead + k] || c->p->i[k] == 1;
  if (!ok) {
    char s[200], t[200];
    return ag__fail(AG_ERR_RUNTIME, "size %s is not expandable to size %s", ag__shape_text(n, c->p->i, s, sizeof s),
                    ag__shape_text(a->ndim, ag__shape(a), t, sizeof t));
  }
  ag__set_out(c, 0, a->dtype, n, c->p->i);
  return AG_OK;
}

int ag__exec_sum_to(const ag_exec *x) {
  const ag_raw *in = &x->in[0];
  ag_raw out = x->out[0];
  int lead = in->ndim - out.ndim, dtype = result_dtype(AG_R_SUM, in->dtype), st;
  uint32_t set = 0;
  ag_temp t = {0, 0};
  for (int k = 0; k < in->ndim; k++)
    if (k < lead || out.shape[k - lead] != in->shape[k]) set |= 1u << k;
  if (dtype != out.dtype) { /* integers are summed as int64 */
    if (!ag__temp(&t, (size_t)out.numel * sizeof(int64_t))) return AG_ERR_MEMORY;
    out.data = t.data;
    out.dtype = (uint8_t)dtype;
  }
  void *token = ag__long_begin(in->numel, AG_LONG_MOVE);
  st = reduce(AG_R_SUM, in, set, &out);
  if (!st && t.data) copy_as(dtype, x->out[0].dtype, out.numel, x->out[0].data, t.data);
  ag__blocking_end(token);
  ag__temp_free(&t);
  return st;
}

int ag__vjp_sum_to(ag_vjp *c) {
  const ag_meta *m = ag__vmeta(c, 0);
  return ag__give(c, 0, ag__bshape(c, AG_OP_expand, c->g[0], m->ndim, m->shape));
}

/* ---- prod ---- */

int ag__infer_prod(ag_infer *c) {
  uint32_t set;
  return infer_reduce(c, result_dtype(AG_R_PROD, c->in[0]->dtype), &set);
}

int ag__exec_prod(const ag_exec *x) { return exec_reduce(x, AG_R_PROD); }

/* t moved by one along dim, away from its start (by = 1) or towards it (by = -1); v fills the place left. */
static ag_tensor *shifted(ag_vjp *c, ag_tensor *t, int dim, int by, double v) {
  ag_params p = {.nf = 1};
  if (!t) return NULL;
  if (t->arr->ndim == 0) return ag__bnum(c, v, t->arr->dtype);
  p.ni = 2 * t->arr->ndim;
  memset(p.i, 0, INTS(p.ni));
  p.i[2 * dim] = by;
  p.i[2 * dim + 1] = -by;
  p.f[0] = v;
  return ag__b(c, AG_OP_pad, 1, &t, &p);
}

static ag_tensor *on_dim(ag_vjp *c, int op, ag_tensor *t, int dim) { return ag__bi(c, op, t, 1, (int64_t)dim); }

/* Product of all but one element along dim, for each element: of those before times of those behind.  Right at
 * zeros, where the quotient prod / x is not. */
static ag_tensor *others(ag_vjp *c, ag_tensor *x, int dim) {
  ag_tensor *before = shifted(c, on_dim(c, AG_OP_cumprod, x, dim), dim, 1, 1);
  ag_tensor *turned = on_dim(c, AG_OP_cumprod, on_dim(c, AG_OP_flip, x, dim), dim);
  ag_tensor *behind = on_dim(c, AG_OP_flip, shifted(c, turned, dim, 1, 1), dim);
  return ag__b2(c, AG_OP_mul, before, behind);
}

int ag__vjp_prod(ag_vjp *c) {
  const ag_meta *m = ag__vmeta(c, 0);
  uint32_t set = dim_set_of(&c->p, 1, m->ndim);
  ag_tensor *x = ag__vx(c, 0), *d;
  if (!x) return c->status;
  int64_t n = count_of(m, set);
  if (n == 1) return ag__give(c, 0, ag__breshape(c, c->g[0], m->ndim, m->shape));
  if (__builtin_popcount(set) == 1) {
    d = others(c, x, __builtin_ctz(set));
  } else {
    /* Several dims: behind the others, as one. */
    int64_t to[AG_MAX_NDIM], from[AG_MAX_NDIM], shape[AG_MAX_NDIM], flat[AG_MAX_NDIM + 1];
    int k = 0, kept;
    for (int i = 0; i < m->ndim; i++)
      if (!(set >> i & 1)) to[k++] = i;
    kept = k;
    for (int i = 0; i < m->ndim; i++)
      if (set >> i & 1) to[k++] = i;
    for (int i = 0; i < m->ndim; i++) {
      from[to[i]] = i;
      shape[i] = m->shape[to[i]];
      if (i < kept) flat[i] = shape[i];
    }
    flat[kept] = n;
    d = ag__breshape(c, ag__bints(c, AG_OP_permute, x, m->ndim, to), kept + 1, flat);
    d = ag__breshape(c, others(c, d, kept), m->ndim, shape);
    d = ag__bints(c, AG_OP_permute, d, m->ndim, from);
  }
  ag_tensor *g = with_dims(c, c->g[0], m, set);
  return ag__give(c, 0, ag__b2(c, AG_OP_mul, g, d));
}

/* ---- extrema ---- */

/* Without dims an empty operand has no extremum; with them the reduced dims must not be empty. */
static int check_extremum(const ag_infer *c, const char *name, uint32_t set) {
  const ag_array *a = c->in[0];
  if (a->numel != 0) return AG_OK;
  if (c->p->ni <= 1)
    return ag__fail(AG_ERR_RUNTIME,
                    "%s: Expected reduction dim to be specified for input.numel() == 0. Specify the reduction dim with "
                    "the 'dim' argument.",
                    name);
  for (int k = 0; k < a->ndim; k++)
    if ((set >> k & 1) && ag__shape(a)[k] == 0)
      return ag__fail(AG_ERR_INDEX, "%s: Expected reduction dim %d to have non-zero size.", name, k);
  return AG_OK;
}

static int infer_extremum(ag_infer *c, const char *name) {
  uint32_t set;
  int st = infer_reduce(c, c->in[0]->dtype, &set);
  return st ? st : check_extremum(c, name, set);
}

/* Elements that tie share the gradient.  Of a whole tensor (as in PyTorch, not along dims) NaN ties with NaN. */
static int vjp_extremum(ag_vjp *c, bool whole) {
  const ag_meta *m = ag__vmeta(c, 0);
  uint32_t set = dim_set_of(&c->p, 1, m->ndim);
  ag_params keep = {.ni = 1, .nf = 0};
  keep.i[0] = 1;
  for (int k = 0; k < m->ndim; k++)
    if (set >> k & 1) keep.i[keep.ni++] = k;
  ag_tensor *x = ag__vx(c, 0), *y = with_dims(c, ag__vy(c, 0), m, set), *g = with_dims(c, c->g[0], m, set);
  ag_tensor *same = ag__b2(c, AG_OP_eq, x, y);
  if (whole)
    same = ag__b2(c, AG_OP_logical_or, same,
                  ag__b2(c, AG_OP_logical_and, ag__b1(c, AG_OP_isnan, x), ag__b1(c, AG_OP_isnan, y)));
  ag_tensor *mask = ag__bi(c, AG_OP_cast, same, 1, (int64_t)m->dtype);
  if (!mask) return c->status;
  /* No dims reduced (the list would mean all): each element is its own extremum. */
  ag_tensor *count = keep.ni == 1 && m->ndim > 0 ? mask : ag__b(c, AG_OP_sum, 1, &mask, &keep);
  return ag__give(c, 0, ag__b2(c, AG_OP_mul, ag__b2(c, AG_OP_div, g, count), mask));
}

int ag__infer_amax(ag_infer *c) { return infer_extremum(c, "amax()"); }
int ag__exec_amax(const ag_exec *x) { return exec_reduce(x, AG_R_MAX); }
int ag__vjp_amax(ag_vjp *c) { return vjp_extremum(c, false); }
int ag__infer_amin(ag_infer *c) { return infer_extremum(c, "amin()"); }
int ag__exec_amin(const ag_exec *x) { return exec_reduce(x, AG_R_MIN); }
int ag__vjp_amin(ag_vjp *c) { return vjp_extremum(c, false); }
int ag__infer_max_all(ag_infer *c) { return infer_extremum(c, "max()"); }
int ag__exec_max_all(const ag_exec *x) { return exec_reduce(x, AG_R_MAX); }
int ag__vjp_max_all(ag_vjp *c) { return vjp_extremum(c, true); }
int ag__infer_min_all(ag_infer *c) { return infer_extremum(c, "min()"); }
int ag__exec_min_all(const ag_exec *x) { return exec_reduce(x, AG_R_MIN); }
int ag__vjp_min_all(ag_vjp *c) { return vjp_extremum(c, true); }

/* ---- extrema with position ---- */

/* At most one dim; none: the position in the flattened operand.  values may be NULL. */
static int exec_arg(const ag_exec *x, ag_k_argreduce *const *table, void *values, int64_t *indices) {
  const ag_raw *in = &x->in[0];
  int64_t outer = 1, n = in->numel, inner = 1;
  if (x->p->ni > 1) ag__split3(in->ndim, in->shape, (int)x->p->i[1], &outer, &n, &inner);
  if (outer * inner == 0) return AG_OK;
  if (!table[in->dtype])
    return ag__fail(AG_ERR_NOT_IMPLEMENTED, "\"%s\" not implemented for '%s'", x->row->name, ag__scalar_name(in->dtype));
  ag_temp t;
  void *token = ag__long_begin(in->numel, AG_LONG_MOVE);
  const char *data = ag__contig(in, &t);
  int st = data ? ag__par_argreduce(table[in->dtype], in->dtype, outer, n, inner, values, indices, data) : AG_ERR_MEMORY;
  ag__temp_free(&t);
  ag__blocking_end(token);
  return st;
}

static int infer_arg(ag_infer *c, const char *name) {
  uint32_t set;
  if (c->p->ni > 2) return ag__fail(AG_ERR_TYPE, "%s: takes one dim at most", name);
  int st = infer_reduce(c, AG_INT64, &set);
  return st ? st : check_extremum(c, name, set);
}

int ag__infer_argmax(ag_infer *c) { return infer_arg(c, "argmax()"); }
int ag__exec_argmax(const ag_exec *x) { return exec_arg(x, ag__k->argmax, NULL, (int64_t *)(void *)x->out[0].data); }
int ag__infer_argmin(ag_infer *c) { return infer_arg(c, "argmin()"); }
int ag__exec_argmin(const ag_exec *x) { return exec_arg(x, ag__k->argmin, NULL, (int64_t *)(void *)x->out[0].data); }

static int infer_with_position(ag_infer *c, const char *name) {
  int st = ag__need(c, 1, 2, 0);
  if (!st) st = infer_arg(c, name);
  if (st) return st;
  ag__set_out(c, 1, AG_INT64, c->out[0].ndim, c->out[0].shape);
  c->out[0].dtype = c->in[0]->dtype;
  return AG_OK;
}

static int vjp_with_position(ag_vjp *c) {
  const ag_meta *m = ag__vmeta(c, 0);
  ag_tensor *g = c->g[0], *at = ag__vy(c, 1);
  if (!g) return AG_OK;
  if (m->ndim == 0) return ag__give(c, 0, ag__breshape(c, g, 0, m->shape));
  if (!c->p.i[0]) {
    g = on_dim(c, AG_OP_unsqueeze, g, (int)c->p.i[1]);
    at = on_dim(c, AG_OP_unsqueeze, at, (int)c->p.i[1]);
  }
  ag_params p = {.ni = 1, .nf = 0};
  p.i[0] = c->p.i[1];
  ag_tensor *in[3] = {ag__bzeros(c, m->dtype, m->ndim, m->shape), at, g};
  return ag__give(c, 0, ag__b(c, AG_OP_scatter_add, 3, in, &p));
}

int ag__infer_max_dim(ag_infer *c) { return infer_with_position(c, "max()"); }
int ag__exec_max_dim(const ag_exec *x) {
  return exec_arg(x, ag__k->argmax, x->out[0].data, (int64_t *)(void *)x->out[1].data);
}
int ag__vjp_max_dim(ag_vjp *c) { return vjp_with_position(c); }
int ag__infer_min_dim(ag_infer *c) { return infer_with_position(c, "min()"); }
int ag__exec_min_dim(const ag_exec *x) {
  return exec_arg(x, ag__k->argmin, x->out[0].data, (int64_t *)(void *)x->out[1].data);
}
int ag__vjp_min_dim(ag_vjp *c) { return vjp_with_position(c); }

/* ---- any, all ---- */

int ag__infer_any(ag_infer *c) {
  uint32_t set;
  return infer_reduce(c, AG_BOOL, &set);
}
int ag__exec_any(const ag_exec *x) { return exec_reduce(x, AG_R_ANY); }
int ag__infer_all(ag_infer *c) { return ag__infer_any(c); }
int ag__exec_all(const ag_exec *x) { return exec_reduce(x, AG_R_ALL); }

/* ---- running sums and products ---- */

static int infer_running(ag_infer *c) {
  ag_array *a = c->in[0];
  int d, st = ag__need(c, 1, 1, 0);
  if (!st) st = ag__wrap_dim(c->p->i[0], a->ndim, &d);
  if (st) return st;
  c->p->i[0] = d;
  ag__set_out(c, 0, result_dtype(AG_R_SUM, a->dtype), a->ndim, ag__shape(a));
  return AG_OK;
}

static int exec_running(const ag_exec *x, int prod) {
  const ag_raw *in = &x->in[0];
  int64_t outer, n, inner;
  ag__split3(in->ndim, in->shape, (int)x->p->i[0], &outer, &n, &inner);
  if (in->numel == 0) return AG_OK;
  ag_temp t;
  void *token = ag__long_begin(in->numel, AG_LONG_MOVE);
  const char *data = ag__contig(in, &t);
  if (data) ag__par_cumulate(in->dtype, outer, n, inner, x->out[0].data, data, prod);
  ag__temp_free(&t);
  ag__blocking_end(token);
  return data ? AG_OK : AG_ERR_MEMORY;
}

int ag__infer_cumsum(ag_infer *c) { return infer_running(c); }
int ag__exec_cumsum(const ag_exec *x) { return exec_running(x, 0); }

/* A 0-d tensor has no dim to turn. */
static ag_tensor *turned(ag_vjp *c, ag_tensor *t, int dim) {
  return !t || t->arr->ndim == 0 ? t : on_dim(c, AG_OP_flip, t, dim);
}

int ag__vjp_cumsum(ag_vjp *c) {
  int dim = (int)c->p.i[0];
  return ag__give(c, 0, turned(c, on_dim(c, AG_OP_cumsum, turned(c, c->g[0], dim), dim), dim));
}

int ag__infer_cumprod(ag_infer *c) { return infer_running(c); }
int ag__exec_cumprod(const ag_exec *x) { return exec_running(x, 1); }

/* dx[i] = (product of x before i) * s[i], where s[i] = g[i] + x[i+1] * s[i+1]: nothing is divided, so zeros do no
 * harm, whatever the order of the derivative. */
int ag__vjp_cumprod(ag_vjp *c) {
  int dim = (int)c->p.i[0];
  ag_tensor *x = ag__vx(c, 0);
  ag_tensor *before = shifted(c, ag__vy(c, 0), dim, 1, 1);
  ag_tensor *two[2] = {shifted(c, x, dim, -1, 0), c->g[0]};
  ag_params p = {.ni = 2, .nf = 0};
  p.i[0] = dim;
  p.i[1] = 1;
  ag_tensor *s = ag__b(c, AG_OP_linear_scan, 2, two, &p);
  return ag__give(c, 0, ag__b2(c, AG_OP_mul, before, s));
}

/* ---- linear_scan: s[k] = a[k] * s[k-1] + b[k] along a dim, from its start or (reverse) from its end ---- */

int ag__infer_linear_scan(ag_infer *c) {
  ag_array *a = c->in[0], *b = c->in[1];
  int d, st = ag__need(c, 2, 2, 0);
  if (!st) st = ag__need_float(c, a->dtype);
  if (!st) st = ag__wrap_dim(c->p->i[0], a->ndim, &d);
  if (st) return st;
  c->p->i[0] = d;
  if (a->dtype != b->dtype || !ag__same_shape(a->ndim, ag__shape(a), b->ndim, ag__shape(b)))
    return ag__fail(AG_ERR_RUNTIME, "linear_scan: expected two operands of one dtype and shape");
  ag__set_out(c, 0, a->dtype, a->ndim, ag__shape(a));
  return AG_OK;
}

/* Row by row of the inner dims, so that the innermost loop has no chain. */
#define SCAN(T)                                                                                \
  static void scan_##T(int64_t n, int64_t inner, int64_t step, T *s, const T *a, const T *b) { \
    for (int64_t j = 0; j < inner; j++) s[j] = b[j];                                           \
    for (int64_t k = 1; k < n; k++) {                                                          \
      s += step;                                                                               \
      a += step;                                                                               \
      b += step;                                                                               \
      for (int64_t j = 0; j < inner; j++) s[j] = a[j] * s[j - step] + b[j];                    \
    }                                                                                          \
  }
SCAN(float)
SCAN(double)

int ag__exec_linear_scan(const ag_exec *x) {
  const ag_raw *out = &x->out[0];
  int64_t outer, n, inner;
  ag__split3(out->ndim, out->shape, (int)x->p->i[0], &outer, &n, &inner);
  if (out->numel == 0) return AG_OK;
  ag_temp t = {0, 0}, u = {0, 0};
  const char *a = ag__contig(&x->in[0], &t), *b = a ? ag__contig(&x->in[1], &u) : NULL;
  if (b) {
    int size = ag__dtype_size(out->dtype);
    bool reverse = x->p->i[1] != 0;
    int64_t first = reverse ? (n - 1) * inner : 0, step = reverse ? -inner : inner;
    for (int64_t o = 0; o < outer; o++) {
      int64_t at = (o * n * inner + first) * size;
      if (out->dtype == AG_FLOAT32)
        scan_float(n, inner, step, (float *)(void *)(out->data + at), (const float *)(const void *)(a + at),
                   (const float *)(const void *)(b + at));
      else
        scan_double(n, inner, step, (double *)(void *)(out->data + at), (const double *)(const void *)(a + at),
                    (const double *)(const void *)(b + at));
    }
  }
  ag__temp_free(&u);
  ag__temp_free(&t);
  return b ? AG_OK : AG_ERR_MEMORY;
}

/* With t[k] = g[k] + a[k+1] * t[k+1], a scan the other way: db = t, da[k] = t[k] * s[k-1]. */
int ag__vjp_linear_scan(ag_vjp *c) {
  int dim = (int)c->p.i[0], by = c->p.i[1] ? -1 : 1;
  ag_tensor *two[2] = {shifted(c, ag__vx(c, 0), dim, -by, 0), c->g[0]};
  ag_params p = {.ni = 2, .nf = 0};
  p.i[0] = dim;
  p.i[1] = !c->p.i[1];
  ag_tensor *t = ag__b(c, AG_OP_linear_scan, 2, two, &p);
  if (c->need[1]) ag__give(c, 1, t);
  if (c->need[0]) ag__give(c, 0, ag__b2(c, AG_OP_mul, t, shifted(c, ag__vy(c, 0), dim, by, 0)));
  return c->status;
}
