/* fn_view.c: the same memory under another shape, and the two ops that undo it.
 *
 * A rule of a view is a function from geometry to geometry, used twice: on the operand (infer) and, for the
 * views that leave elements out, on a row-major geometry of the operand's shape (vjp), where it tells which
 * elements of the gradient the view's gradient belongs to.
 *
 * Note [memory as a value].  as_strided speaks of memory, derivatives of values.  While the operand is
 * row-major and the view stays inside it the two are the same.  Otherwise the rules go through a 1-d tensor
 * that stands for the memory both touch: view_scatter puts the gradient there, as_strided reads the
 * operand's elements out of it.  For that the node must know the operand's strides: infer appends them to the
 * parameters when the operand is not row-major. */
#include "ops/fn_util.h"
#include "ops/move.h"

#include <stdlib.h>

typedef int geom_rule(const ag_geom *in, const ag_params *p, ag_geom *out);

#define INTS(n) (sizeof(int64_t) * (size_t)(n))

static void geom_of(const ag_array *a, ag_geom *g) {
  g->dtype = a->dtype;
  g->ndim = a->ndim;
  g->offset = a->offset;
  memcpy(g->shape, ag__shape(a), INTS(a->ndim));
  memcpy(g->strides, ag__strides(a), INTS(a->ndim));
}

static void geom_rows(int dtype, int ndim, const int64_t *shape, ag_geom *g) {
  g->dtype = dtype;
  g->ndim = ndim;
  g->offset = 0;
  memcpy(g->shape, shape, INTS(ndim));
  ag__strides_contiguous(ndim, shape, g->strides);
}

static void geom_copy(const ag_geom *in, ag_geom *out) {
  out->dtype = in->dtype;
  out->ndim = in->ndim;
  out->offset = in->offset;
  memcpy(out->shape, in->shape, INTS(in->ndim));
  memcpy(out->strides, in->strides, INTS(in->ndim));
}

static void geom_remove(ag_geom *g, int dim) {
  g->ndim--;
  memmove(g->shape + dim, g->shape + dim + 1, INTS(g->ndim - dim));
  memmove(g->strides + dim, g->strides + dim + 1, INTS(g->ndim - dim));
}

static int infer_view(ag_infer *c, int n_ints, geom_rule *rule) {
  int st = ag__need(c, 1, n_ints, 0);
  if (st) return st;
  ag_geom in;
  geom_of(c->in[0], &in);
  c->n_out = 1;
  return rule(&in, c->p, &c->out[0]);
}

static int too_many_dims(int ndim) {
  return ag__fail(AG_ERR_VALUE, "tensors have at most %d dimensions, but %d are asked for", AG_MAX_NDIM, ndim);
}

/* ---- view ---- */

static int rule_view(const ag_geom *in, const ag_params *p, ag_geom *out) {
  int n = p->ni, hole = -1;
  int64_t numel = ag__numel(in->ndim, in->shape), known = 1;
  char b[200];
  if (n > AG_MAX_NDIM) return too_many_dims(n);
  for (int k = 0; k < n; k++) {
    int64_t s = out->shape[k] = p->i[k];
    if (s == -1) {
      if (hole >= 0) return ag__fail(AG_ERR_RUNTIME, "only one dimension can be inferred");
      hole = k;
    } else if (s < 0) {
      return ag__fail(AG_ERR_RUNTIME, "invalid shape dimension %lld", (long long)s);
    } else if (__builtin_mul_overflow(known, s, &known)) {
      known = -1; /* fits no tensor */
      break;
    }
  }
  bool ok = known == numel && hole < 0;
  if (hole >= 0 && known > 0 && numel % known == 0) {
    out->shape[hole] = numel / known;
    ok = true;
  } else if (hole >= 0 && known == 0 && numel == 0) {
    return ag__fail(AG_ERR_RUNTIME,
                    "cannot reshape tensor of 0 elements into shape %s because the unspecified dimension size -1 can be "
                    "any value and is ambiguous",
                    ag__shape_text(n, p->i, b, sizeof b));
  }
  if (!ok)
    return ag__fail(AG_ERR_RUNTIME, "shape '%s' is invalid for input of size %lld", ag__shape_text(n, p->i, b, sizeof b),
                    (long long)numel);
  out->dtype = in->dtype;
  out->ndim = n;
  out->offset = in->offset;
  if (!ag__view_strides(in->ndim, in->shape, in->strides, n, out->shape, out->strides))
    return ag__fail(AG_ERR_RUNTIME,
                    "view size is not compatible with input tensor's size and stride (at least one dimension spans "
                    "across two contiguous subspaces). Use .reshape(...) instead.");
  return AG_OK;
}

static int vjp_reshape(ag_vjp *c) {
  const ag_meta *m = ag__vmeta(c, 0);
  return ag__give(c, 0, ag__breshape(c, c->g[0], m->ndim, m->shape));
}

int ag__infer_view(ag_infer *c) { return infer_view(c, 0, rule_view); }
int ag__vjp_view(ag_vjp *c) { return vjp_reshape(c); }
int ag__infer_unsafe_view(ag_infer *c) { return infer_view(c, 0, rule_view); }
int ag__vjp_unsafe_view(ag_vjp *c) { return vjp_reshape(c); }

static int rule_alias(const ag_geom *in, const ag_params *p, ag_geom *out) {
  (void)p;
  geom_copy(in, out);
  return AG_OK;
}

int ag__infer_alias(ag_infer *c) { return infer_view(c, 0, rule_alias); }
int ag__infer_tied(ag_infer *c) { return infer_view(c, 0, rule_alias); }
int ag__vjp_alias(ag_vjp *c) { return ag__give(c, 0, c->g[0]); }

/* ---- order of dims ---- */

static void swap_dims(ag_geom *g, int a, int b) {
  int64_t n = g->shape[a], s = g->strides[a];
  g->shape[a] = g->shape[b];
  g->strides[a] = g->strides[b];
  g->shape[b] = n;
  g->strides[b] = s;
}

static int rule_t(const ag_geom *in, const ag_params *p, ag_geom *out) {
  (void)p;
  if (in->ndim > 2)
    return ag__fail(AG_ERR_RUNTIME, "t() expects a tensor with <= 2 dimensions, but self is %dD", in->ndim);
  geom_copy(in, out);
  if (out->ndim == 2) swap_dims(out, 0, 1);
  return AG_OK;
}

int ag__infer_t(ag_infer *c) { return infer_view(c, 0, rule_t); }
int ag__vjp_t(ag_vjp *c) { return ag__give(c, 0, ag__b1(c, AG_OP_t, c->g[0])); }

static int rule_transpose(const ag_geom *in, const ag_params *p, ag_geom *out) {
  int a, b, st = ag__wrap_dim(p->i[0], in->ndim, &a);
  if (!st) st = ag__wrap_dim(p->i[1], in->ndim, &b);
  if (st) return st;
  geom_copy(in, out);
  if (a != b) swap_dims(out, a, b);
  return AG_OK;
}

int ag__infer_transpose(ag_infer *c) { return infer_view(c, 2, rule_transpose); }
int ag__vjp_transpose(ag_vjp *c) { return ag__give(c, 0, ag__bints(c, AG_OP_transpose, c->g[0], 2, c->p.i)); }

static int rule_permute(const ag_geom *in, const ag_params *p, ag_geom *out) {
  if (p->ni != in->ndim)
    return ag__fail(AG_ERR_RUNTIME,
                    "permute(sparse_coo): number of dimensions in the tensor input does not match the length of the "
                    "desired ordering of dimensions i.e. input.dim() = %d is not equal to len(dims) = %d",
                    in->ndim, p->ni);
  uint32_t seen = 0;
  out->dtype = in->dtype;
  out->ndim = in->ndim;
  out->offset = in->offset;
  for (int k = 0; k < in->ndim; k++) {
    int d, st = ag__wrap_dim(p->i[k], in->ndim, &d);
    if (st) return st;
    if (seen >> d & 1) return ag__fail(AG_ERR_RUNTIME, "permute(): duplicate dims are not allowed.");
    seen |= 1u << d;
    out->shape[k] = in->shape[d];
    out->strides[k] = in->strides[d];
  }
  return AG_OK;
}

int ag__infer_permute(ag_infer *c) { return infer_view(c, 0, rule_permute); }

int ag__vjp_permute(ag_vjp *c) {
  int64_t inverse[AG_MAX_NDIM];
  int n = c->p.ni;
  for (int k = 0; k < n; k++) inverse[c->p.i[k] < 0 ? c->p.i[k] + n : c->p.i[k]] = k;
  return ag__give(c, 0, ag__bints(c, AG_OP_permute, c->g[0], n, inverse));
}

/* ---- dims of size one, broadcasting ---- */

static int rule_expand(const ag_geom *in, const ag_params *p, ag_geom *out) {
  int n = p->ni, lead = n - in->ndim;
  char a[200], b[200];
  if (n > AG_MAX_NDIM) return too_many_dims(n);
  if (lead < 0)
    return ag__fail(AG_ERR_RUNTIME,
                    "expand(%s{%s}, size=%s): the number of sizes provided (%d) must be greater or equal to the number of "
                    "dimensions in the tensor (%d)",
                    ag__dtype_torch_name(in->dtype), ag__shape_text(in->ndim, in->shape, a, sizeof a),
                    ag__shape_text(n, p->i, b, sizeof b), n, in->ndim);
  out->dtype = in->dtype;
  out->ndim = n;
  out->offset = in->offset;
  for (int k = 0; k < n; k++) {
    int64_t want = p->i[k], have = k < lead ? 1 : in->shape[k - lead], stride = k < lead ? 0 : in->strides[k - lead];
    if (want < 0) {
      if (want != -1 || k < lead)
        return ag__fail(AG_ERR_RUNTIME,
                        "The expanded size of the tensor (%lld) isn't allowed in a leading, non-existing dimension %d",
                        (long long)want, k);
      want = have;
    }
    if (want != have && have != 1)
      return ag__fail(AG_ERR_RUNTIME,
                      "The expanded size of the tensor (%lld) must match the existing size (%lld) at non-singleton "
                      "dimension %d.  Target sizes: %s.  Tensor sizes: %s",
                      (long long)want, (long long)have, k, ag__shape_text(n, p->i, a, sizeof a),
                      ag__shape_text(in->ndim, in->shape, b, sizeof b));
    out->shape[k] = want;
    out->strides[k] = want != have ? 0 : stride;
  }
  return AG_OK;
}

int ag__infer_expand(ag_infer *c) { return infer_view(c, 0, rule_expand); }
/* The engine sums a gradient down to its input's shape. */
int ag__vjp_expand(ag_vjp *c) { return ag__give(c, 0, c->g[0]); }

static int rule_unsqueeze(const ag_geom *in, const ag_params *p, ag_geom *out) {
  int d;
  if (in->ndim == AG_MAX_NDIM) return too_many_dims(in->ndim + 1);
  int st = ag__wrap_dim(p->i[0], in->ndim + 1, &d);
  if (st) return st;
  geom_copy(in, out);
  memmove(out->shape + d + 1, out->shape + d, INTS(in->ndim - d));
  memmove(out->strides + d + 1, out->strides + d, INTS(in->ndim - d));
  out->shape[d] = 1;
  out->strides[d] = d < in->ndim ? in->shape[d] * in->strides[d] : 1;
  out->ndim++;
  return AG_OK;
}

int ag__infer_unsqueeze(ag_infer *c) { return infer_view(c, 1, rule_unsqueeze); }
int ag__vjp_unsqueeze(ag_vjp *c) { return vjp_reshape(c); }

static int rule_squeeze(const ag_geom *in, const ag_params *p, ag_geom *out) {
  uint32_t which = 0;
  for (int k = 0; k < p->ni; k++) {
    int d, st = ag__wrap_dim(p->i[k], in->ndim, &d);
    if (st) return st;
    if (which >> d & 1) return ag__fail(AG_ERR_RUNTIME, "dim %d appears multiple times in the list of dims", d);
    which |= 1u << d;
  }
  geom_copy(in, out);
  for (int k = in->ndim - 1; k >= 0; k--)
    if (in->shape[k] == 1 && (p->ni == 0 || which >> k & 1)) geom_remove(out, k);
  return AG_OK;
}

int ag__infer_squeeze(ag_infer *c) { return infer_view(c, 0, rule_squeeze); }
int ag__vjp_squeeze(ag_vjp *c) { return vjp_reshape(c); }

/* ---- parts ---- */

static int rule_select(const ag_geom *in, const ag_params *p, ag_geom *out) {
  int d;
  if (in->ndim == 0) return ag__fail(AG_ERR_INDEX, "select() cannot be applied to a 0-dim tensor.");
  int st = ag__wrap_dim(p->i[0], in->ndim, &d);
  if (st) return st;
  int64_t n = in->shape[d], i = p->i[1];
  if (i < -n || i >= n)
    return ag__fail(AG_ERR_INDEX, "index %lld is out of bounds for dimension %d with size %lld", (long long)i, d,
                    (long long)n);
  geom_copy(in, out);
  out->offset += (i < 0 ? i + n : i) * in->strides[d];
  geom_remove(out, d);
  return AG_OK;
}

static int64_t clamp_index(int64_t i, int64_t lo, int64_t n) {
  if (i < 0) i += n;
  return i < lo ? lo : i > n ? n : i;
}

static int rule_slice(const ag_geom *in, const ag_params *p, ag_geom *out) {
  int d;
  if (in->ndim == 0) return ag__fail(AG_ERR_RUNTIME, "slice() cannot be applied to a 0-dim tensor.");
  int st = ag__wrap_dim(p->i[0], in->ndim, &d);
  if (st) return st;
  int64_t n = in->shape[d], step = p->i[3];
  if (step <= 0) return ag__fail(AG_ERR_RUNTIME, "slice step must be positive");
  int64_t start = clamp_index(p->i[1], 0, n), stop = clamp_index(p->i[2], start, n);
  geom_copy(in, out);
  int64_t len = stop > start ? (stop - start - 1) / step + 1 : 0;
  out->shape[d] = len;
  out->offset += start * in->strides[d];
  /* A step larger than the dim is taken once at most: no stride is needed, and none may overflow. */
  out->strides[d] = in->strides[d] * (step > n && n > 0 ? n : step > n ? 1 : step);
  return AG_OK;
}

static int rule_diagonal(const ag_geom *in, const ag_params *p, ag_geom *out) {
  int a, b;
  int64_t off = p->i[0];
  int st = ag__wrap_dim(p->i[1], in->ndim, &a);
  if (!st) st = ag__wrap_dim(p->i[2], in->ndim, &b);
  if (st) return st;
  if (a == b || in->ndim < 2)
    return ag__fail(AG_ERR_RUNTIME, "diagonal dimensions cannot be identical %lld, %lld", (long long)p->i[1],
                    (long long)p->i[2]);
  int64_t na = in->shape[a], nb = in->shape[b], len = 0;
  geom_copy(in, out);
  if (off >= 0 ? off < nb : off > -na) {
    len = off >= 0 ? (na < nb - off ? na : nb - off) : (na + off < nb ? na + off : nb);
    if (len > 0) out->offset += off >= 0 ? off * in->strides[b] : -off * in->strides[a];
  }
  geom_remove(out, a > b ? a : b);
  geom_remove(out, a > b ? b : a);
  out->shape[out->ndim] = len;
  out->strides[out->ndim++] = in->strides[a] + in->strides[b];
  return AG_OK;
}

/* view_scatter of g at geometry v inside a result of the given shape. */
static ag_tensor *scatter(ag_vjp *c, ag_tensor *g, int ndim, const int64_t *shape, const ag_geom *v) {
  int64_t p[AG_PARAM_INTS];
  int n = 0;
  p[n++] = ndim;
  memcpy(p + n, shape, INTS(ndim));
  n += ndim;
  p[n++] = v->ndim;
  memcpy(p + n, v->shape, INTS(v->ndim));
  n += v->ndim;
  memcpy(p + n, v->strides, INTS(v->ndim));
  n += v->ndim;
  p[n++] = v->offset;
  return ag__bints(c, AG_OP_view_scatter, g, n, p);
}

static int vjp_part(ag_vjp *c, geom_rule *rule) {
  const ag_meta *m = ag__vmeta(c, 0);
  ag_geom whole, part;
  geom_rows(m->dtype, m->ndim, m->shape, &whole);
  int st = rule(&whole, &c->p, &part);
  if (st) return st;
  return ag__give(c, 0, scatter(c, c->g[0], m->ndim, m->shape, &part));
}

int ag__infer_select(ag_infer *c) { return infer_view(c, 2, rule_select); }
int ag__vjp_select(ag_vjp *c) { return vjp_part(c, rule_select); }
int ag__infer_slice(ag_infer *c) { return infer_view(c, 4, rule_slice); }
int ag__vjp_slice(ag_vjp *c) { return vjp_part(c, rule_slice); }
int ag__infer_diagonal(ag_infer *c) { return infer_view(c, 3, rule_diagonal); }
int ag__vjp_diagonal(ag_vjp *c) { return vjp_part(c, rule_diagonal); }

/* ---- any geometry ---- */

/* Reads a geometry (ndim, shape, strides, offset) out of p->i[at..]; *end: what follows. */
static int read_geom(const ag_params *p, int at, const char *op, ag_geom *g, int *end) {
  int64_t n = at < p->ni ? p->i[at] : -1;
  *end = at;
  if (n < 0 || n > AG_MAX_NDIM || at + 2 + 2 * n > p->ni)
    return ag__fail(AG_ERR_VALUE, "%s: the parameters are not a geometry", op);
  g->ndim = (int)n;
  memcpy(g->shape, p->i + at + 1, INTS(n));
  memcpy(g->strides, p->i + at + 1 + n, INTS(n));
  g->offset = p->i[at + 1 + 2 * n];
  for (int k = 0; k < g->ndim; k++)
    if (g->shape[k] < 0)
      return ag__fail(AG_ERR_RUNTIME, "%s: negative size %lld in dimension %d", op, (long long)g->shape[k], k);
  *end = at + 2 + 2 * g->ndim;
  return AG_OK;
}

/* Like ag__move_extent, for numbers that come from outside: false also when they overflow. */
static bool safe_extent(const ag_geom *g, int64_t *lo, int64_t *hi, bool *fits) {
  *lo = *hi = g->offset;
  *fits = true;
  for (int k = 0; k < g->ndim; k++) {
    int64_t d, *side;
    if (g->shape[k] == 0) return false;
    if (__builtin_mul_overflow(g->shape[k] - 1, g->strides[k], &d)) *fits = false;
    else {
      side = d < 0 ? lo : hi;
      if (__builtin_add_overflow(*side, d, side)) *fits = false;
    }
  }
  return true;
}

static int check_inside(const ag_geom *g, const char *op, int64_t first, int64_t count) {
  int64_t lo, hi;
  bool fits;
  char a[200], b[200];
  if (!safe_extent(g, &lo, &hi, &fits)) return AG_OK;
  if (fits && lo >= first && hi - first < count) return AG_OK;
  return ag__fail(AG_ERR_RUNTIME,
                  "%s: sizes %s, strides %s, offset %lld reach out of bounds for memory of %lld elements (%lld before the "
                  "first)",
                  op, ag__shape_text(g->ndim, g->shape, a, sizeof a), ag__shape_text(g->ndim, g->strides, b, sizeof b),
                  (long long)g->offset, (long long)count, (long long)-first);
}

/* Appends the operand's strides where a rule cannot know them: see Note [memory as a value]. */
static void keep_strides(ag_params *p, int end, const ag_array *a) {
  p->ni = end;
  if (a->contiguous) return;
  memcpy(p->i + end, ag__strides(a), INTS(a->ndim));
  p->ni += a->ndim;
}

int ag__infer_as_strided(ag_infer *c) {
  ag_array *a = c->in[0];
  ag_geom *o = &c->out[0];
  int end, st = read_geom(c->p, 0, "as_strided", o, &end);
  if (st) return st;
  if (a->st) {
    int64_t count = (int64_t)(a->st->nbytes / (size_t)ag__dtype_size(a->dtype));
    /* Foreign memory with negative strides begins behind its lowest address: its own extent is all that is known. */
    int64_t lo, hi, first = -a->offset;
    if (ag__move_extent(a->ndim, ag__shape(a), ag__strides(a), 0, &lo, &hi)) {
      if (lo < first) {
        count += first - lo;
        first = lo;
      }
      if (hi - first >= count) count = hi - first + 1;
    }
    st = check_inside(o, "as_strided", first, count);
    if (st) return st;
  }
  keep_strides(c->p, end, a);
  c->n_out = 1;
  o->dtype = a->dtype;
  o->offset += a->offset;
  return AG_OK;
}

/* The memory an operand and a view of it touch together. */
typedef struct frame {
  bool plain;     /* row-major operand, view inside: the operand's value is that memory */
  int64_t size;   /* else: elements of it, the lowest first, */
  ag_geom in, v;  /* and operand and view in it */
} frame;

static int make_frame(ag_vjp *c, const ag_meta *m, frame *f) {
  int end, st = read_geom(&c->p, 0, c->row->name, &f->v, &end);
  if (st) return st;
  geom_rows(m->dtype, m->ndim, m->shape, &f->in);
  bool rows = c->p.ni < end + m->ndim || m->ndim == 0;
  if (!rows) memcpy(f->in.strides, c->p.i + end, INTS(m->ndim));
  int64_t lo = 0, hi = -1, vlo, vhi;
  bool any = ag__move_extent(m->ndim, m->shape, f->in.strides, 0, &lo, &hi);
  bool anyv = ag__move_extent(f->v.ndim, f->v.shape, f->v.strides, f->v.offset, &vlo, &vhi);
  f->plain = rows && (!anyv || (any && vlo >= 0 && vhi <= hi));
  if (anyv && (!any || vlo < lo)) lo = vlo;
  if (anyv && (!any || vhi > hi)) hi = vhi;
  f->size = any || anyv ? hi - lo + 1 : 0;
  if (!f->plain) {
    f->in.offset -= lo;
    f->v.offset -= lo;
    if (!anyv) f->v.offset = 0;
    if (!any) f->in.offset = 0;
  }
  return AG_OK;
}

static ag_tensor *strided(ag_vjp *c, ag_tensor *t, const ag_geom *v) {
  int64_t p[2 + 2 * AG_MAX_NDIM];
  p[0] = v->ndim;
  memcpy(p + 1, v->shape, INTS(v->ndim));
  memcpy(p + 1 + v->ndim, v->strides, INTS(v->ndim));
  p[1 + 2 * v->ndim] = v->offset;
  return ag__bints(c, AG_OP_as_strided, t, 2 + 2 * v->ndim, p);
}

static ag_tensor *row_major(ag_vjp *c, ag_tensor *t) {
  return !t || t->arr->contiguous ? t : ag__b1(c, AG_OP_clone, t);
}

/* True when no two indices surely meet: each stride is longer than all that smaller ones reach. */
static bool injective(const ag_geom *g) {
  int64_t reach = 0;
  uint32_t done = 0;
  for (int left = g->ndim; left > 0; left--) {
    int best = -1;
    for (int k = 0; k < g->ndim; k++)
      if (!(done >> k & 1) && (best < 0 || llabs(g->strides[k]) < llabs(g->strides[best]))) best = k;
    done |= 1u << best;
    if (g->shape[best] == 0) return true;
    if (g->shape[best] == 1) continue;
    if (llabs(g->strides[best]) <= reach) return false;
    reach += (g->shape[best] - 1) * llabs(g->strides[best]);
  }
  return true;
}

int ag__vjp_as_strided(ag_vjp *c) {
  const ag_meta *m = ag__vmeta(c, 0);
  frame f;
  int st = make_frame(c, m, &f);
  if (st) return st;
  if (f.plain) return ag__give(c, 0, scatter(c, c->g[0], m->ndim, m->shape, &f.v));
  ag_tensor *mem = scatter(c, c->g[0], 1, &f.size, &f.v);
  if (!injective(&f.in)) {
    /* Elements of the operand that share memory share its gradient, as in PyTorch. */
    ag_tensor *one = ag__bshape(c, AG_OP_expand, ag__bnum(c, 1, m->dtype), m->ndim, m->shape);
    ag_tensor *count = one ? scatter(c, one, 1, &f.size, &f.in) : NULL;
    mem = ag__b2(c, AG_OP_div, mem, ag__b2(c, AG_OP_maximum, count, ag__bnum(c, 1, m->dtype)));
  }
  return ag__give(c, 0, strided(c, mem, &f.in));
}

/* ---- view_scatter: the gradient of a part in zeros of the whole's shape; elements that meet add up ----
 * ints: ndim and shape of the result, then the geometry (ndim, shape, strides, offset) of the operand in it,
 * for a row-major result. */

int ag__infer_view_scatter(ag_infer *c) {
  const ag_params *p = c->p;
  int64_t n = p->ni > 0 ? p->i[0] : -1, numel;
  ag_geom v;
  int end;
  if (n < 0 || n > AG_MAX_NDIM || 1 + n > p->ni)
    return ag__fail(AG_ERR_VALUE, "view_scatter: the parameters do not begin with a shape");
  int st = read_geom(p, (int)n + 1, "view_scatter", &v, &end);
  if (st) return st;
  for (int k = 0; k < n; k++)
    if (p->i[1 + k] < 0) return ag__fail(AG_ERR_RUNTIME, "view_scatter: negative size in dimension %d", k);
  if (!ag__same_shape(v.ndim, v.shape, c->in[0]->ndim, ag__shape(c->in[0])))
    return ag__fail(AG_ERR_RUNTIME, "view_scatter: the operand's shape is not that of the geometry");
  numel = ag__numel((int)n, p->i + 1);
  st = check_inside(&v, "view_scatter", 0, numel);
  if (st) return st;
  ag__set_out(c, 0, c->in[0]->dtype, (int)n, p->i + 1);
  return AG_OK;
}

#define ADD_AT(T, PLUS)                                                                     \
  for (int64_t i = 0; i < inner; i++) {                                                     \
    T *d = (T *)(void *)out + at + i * step;                                                \
    *d = (T)PLUS(*d, ((const T *)(const void *)x)[i]);                                      \
  }                                                                                         \
  break
#define SUM_OF(a, b) ((a) + (b))
#define WRAP4(a, b) ((uint32_t)(a) + (uint32_t)(b))
#define WRAP8(a, b) ((uint64_t)(a) + (uint64_t)(b))
#define EITHER(a, b) ((a) | (b))

/* Adds contiguous x at the positions of v, in row-major order: one defined order for elements that meet. */
static void add_at(const ag_geom *v, int dtype, char *out, const char *x) {
  int64_t at = v->offset, index[AG_MAX_NDIM] = {0};
  int last = v->ndim - 1, size = ag__dtype_size(dtype);
  int64_t inner = v->ndim ? v->shape[last] : 1, step = v->ndim ? v->strides[last] : 0;
  for (;;) {
    switch (dtype) {
      case AG_FLOAT32: ADD_AT(float, SUM_OF);
      case AG_FLOAT64: ADD_AT(double, SUM_OF);
      case AG_INT64: ADD_AT(int64_t, WRAP8);
      case AG_INT32: ADD_AT(int32_t, WRAP4);
      case AG_UINT8: ADD_AT(uint8_t, SUM_OF);
      default: ADD_AT(uint8_t, EITHER);
    }
    x += inner * size;
    int k = last - 1;
    for (; k >= 0; k--) {
      at += v->strides[k];
      if (++index[k] < v->shape[k]) break;
      at -= v->strides[k] * v->shape[k];
      index[k] = 0;
    }
    if (k < 0) return;
  }
}

int ag__exec_view_scatter(const ag_exec *x) {
  const ag_raw *in = &x->in[0], *out = &x->out[0];
  int size = ag__dtype_size(out->dtype), end;
  ag_geom v;
  int st = read_geom(x->p, (int)x->p->i[0] + 1, "view_scatter", &v, &end);
  if (st) return st;
  if (out->numel == 0) return AG_OK;
  memset(out->data, 0, (size_t)out->numel * (size_t)size);
  if (in->numel == 0) return AG_OK;
  if (injective(&v)) {
    ag__move_region(v.ndim, v.shape, out->data + v.offset * size, v.strides, in->data, in->strides, size);
    return AG_OK;
  }
  ag_temp t;
  const char *data = ag__contig(in, &t);
  if (!data) return AG_ERR_MEMORY;
  add_at(&v, out->dtype, out->data, data);
  ag__temp_free(&t);
  return AG_OK;
}

int ag__vjp_view_scatter(ag_vjp *c) {
  ag_geom v;
  int end, st = read_geom(&c->p, (int)c->p.i[0] + 1, "view_scatter", &v, &end);
  if (st) return st;
  return ag__give(c, 0, strided(c, row_major(c, c->g[0]), &v));
}

/* ---- as_strided_scatter: the base's value after a write to a view of it ---- */

int ag__infer_as_strided_scatter(ag_infer *c) {
  ag_array *a = c->in[0], *b = c->in[1];
  ag_geom v;
  int end, st = read_geom(c->p, 0, "as_strided_scatter", &v, &end);
  if (st) return st;
  if (!ag__same_shape(v.ndim, v.shape, b->ndim, ag__shape(b)))
    return ag__fail(AG_ERR_RUNTIME, "as_strided_scatter: the source's shape is not that of the geometry");
  if (a->dtype != b->dtype)
    return ag__fail(AG_ERR_RUNTIME, "as_strided_scatter: expected both operands to have one dtype, but found %s and %s",
                    ag__scalar_name(a->dtype), ag__scalar_name(b->dtype));
  int64_t lo = 0, hi = -1;
  if (!ag__move_extent(a->ndim, ag__shape(a), ag__strides(a), 0, &lo, &hi)) hi = lo - 1;
  st = check_inside(&v, "as_strided_scatter", lo, hi - lo + 1);
  if (st) return st;
  keep_strides(c->p, end, a);
  ag__set_out(c, 0, a->dtype, a->ndim, ag__shape(a));
  return AG_OK;
}

int ag__exec_as_strided_scatter(const ag_exec *x) {
  const ag_raw *a = &x->in[0], *b = &x->in[1], *out = &x->out[0];
  int size = ag__dtype_size(out->dtype), end;
  ag_geom v;
  int st = read_geom(x->p, 0, "as_strided_scatter", &v, &end);
  if (st || out->numel == 0) return st;
  if (a->contiguous) {
    ag__start_from(out, a);
    ag__move_region(v.ndim, v.shape, out->data + v.offset * size, v.strides, b->data, b->strides, size);
    return AG_OK;
  }
  int64_t lo, hi;
  ag__move_extent(a->ndim, a->shape, a->strides, 0, &lo, &hi);
  ag_temp t;
  char *mem = ag__temp(&t, (size_t)(hi - lo + 1) * (size_t)size);
  if (!mem) return AG_ERR_MEMORY;
  ag__move_region(a->ndim, a->shape, mem - lo * size, a->strides, a->data, a->strides, size);
  ag__move_region(v.ndim, v.shape, mem + (v.offset - lo) * size, v.strides, b->data, b->strides, size);
  ag__par_pack(a->ndim, a->shape, a->strides, out->numel, out->data, mem - lo * size, size);
  ag__temp_free(&t);
  return AG_OK;
}

int ag__vjp_as_strided_scatter(ag_vjp *c) {
  /* Base and result have one shape, and the gradient has the result's. */
  const ag_array *g = c->g[0]->arr;
  int64_t shape[AG_MAX_NDIM];
  memcpy(shape, ag__shape(g), INTS(g->ndim));
  const ag_meta m = {g->dtype, g->ndim, shape};
  frame f;
  int st = make_frame(c, &m, &f);
  if (st) return st;
  ag_tensor *mem = f.plain ? row_major(c, c->g[0]) : scatter(c, c->g[0], 1, &f.size, &f.in);
  if (c->need[0]) {
    ag_params q = {.ni = 2 + 2 * f.v.ndim, .nf = 0};
    q.i[0] = f.v.ndim;
    memcpy(q.i + 1, f.v.shape, INTS(f.v.ndim));
    memcpy(q.i + 1 + f.v.ndim, f.v.strides, INTS(f.v.ndim));
    q.i[1 + 2 * f.v.ndim] = f.v.offset;
    ag_tensor *two[2] = {mem, ag__bzeros(c, m.dtype, f.v.ndim, f.v.shape)};
    ag_tensor *r = ag__b(c, AG_OP_as_strided_scatter, 2, two, &q);
    st = ag__give(c, 0, f.plain ? r : strided(c, r, &f.in));
  }
  if (!st && c->need[1]) st = ag__give(c, 1, strided(c, mem, &f.v));
  return st;
}
