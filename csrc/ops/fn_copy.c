/* fn_copy.c: copies, casts, fills, joins. */
#include "ops/fn_util.h"
#include "ops/move.h"

#define INTS(n) (sizeof(int64_t) * (size_t)(n))

static int same_as_input(ag_infer *c) {
  ag_array *a = c->in[0];
  ag__set_out(c, 0, a->dtype, a->ndim, ag__shape(a));
  return AG_OK;
}

/* ---- clone, cast ---- */

int ag__infer_clone(ag_infer *c) { return same_as_input(c); }

int ag__exec_clone(const ag_exec *x) {
  void *token = ag__long_begin(x->out[0].numel, AG_LONG_MOVE);
  ag__start_from(&x->out[0], &x->in[0]);
  ag__blocking_end(token);
  return AG_OK;
}

int ag__vjp_clone(ag_vjp *c) { return ag__give(c, 0, c->g[0]); }

int ag__infer_cast(ag_infer *c) {
  ag_array *a = c->in[0];
  int st = ag__need(c, 1, 1, 0);
  if (st) return st;
  if (c->p->i[0] < 0 || c->p->i[0] >= AG_NDTYPE)
    return ag__fail(AG_ERR_TYPE, "cast(): %lld is not the number of a dtype", (long long)c->p->i[0]);
  ag__set_out(c, 0, (int)c->p->i[0], a->ndim, ag__shape(a));
  return AG_OK;
}

static int cast_to_out(const ag_raw *in, const ag_raw *out) {
  void *token = ag__long_begin(out->numel, AG_LONG_MOVE);
  int st = ag__move_cast(in, out->ndim, out->shape, out->dtype, out->data);
  ag__blocking_end(token);
  return st;
}

int ag__exec_cast(const ag_exec *x) { return cast_to_out(&x->in[0], &x->out[0]); }

int ag__vjp_cast(ag_vjp *c) {
  int dtype = ag__vmeta(c, 0)->dtype;
  ag_tensor *g = c->g[0];
  return ag__give(c, 0, g->arr->dtype == dtype ? g : ag__bi(c, AG_OP_cast, g, 1, (int64_t)dtype));
}

/* ---- writes in place ---- */

int ag__infer_copy(ag_infer *c) {
  ag_array *a = c->in[0], *b = c->in[1];
  int64_t shape[AG_MAX_NDIM];
  int n;
  char s[200], t[200];
  int st = ag__broadcast(a->ndim, ag__shape(a), b->ndim, ag__shape(b), &n, shape);
  if (st) return st;
  if (!ag__same_shape(n, shape, a->ndim, ag__shape(a)))
    return ag__fail(AG_ERR_RUNTIME, "output with shape %s doesn't match the broadcast shape %s",
                    ag__shape_text(a->ndim, ag__shape(a), s, sizeof s), ag__shape_text(n, shape, t, sizeof t));
  return same_as_input(c);
}

/* What overlaps in part has been copied by the dispatcher; what is the very same memory needs nothing. */
int ag__exec_copy(const ag_exec *x) { return cast_to_out(&x->in[1], &x->out[0]); }

static int give_zeros(ag_vjp *c, int i) {
  const ag_meta *m = ag__vmeta(c, i);
  return ag__give(c, i, ag__bzeros(c, m->dtype, m->ndim, m->shape));
}

int ag__vjp_copy(ag_vjp *c) {
  int st = c->need[0] ? give_zeros(c, 0) : AG_OK;
  if (!st && c->need[1]) {
    int dtype = ag__vmeta(c, 1)->dtype;
    ag_tensor *g = c->g[0];
    st = ag__give(c, 1, g->arr->dtype == dtype ? g : ag__bi(c, AG_OP_cast, g, 1, (int64_t)dtype));
  }
  return st;
}

int ag__infer_fill(ag_infer *c) {
  int st = ag__need(c, 1, 0, 1);
  return st ? st : same_as_input(c);
}

int ag__exec_fill(const ag_exec *x) {
  ag__move_fill(x->out[0].dtype, x->out[0].numel, x->out[0].data, x->p->f[0]);
  return AG_OK;
}

int ag__vjp_fill(ag_vjp *c) { return give_zeros(c, 0); }

/* ---- full ---- */

int ag__infer_full(ag_infer *c) {
  int st = ag__need(c, 0, 1, 1), n = c->p->ni - 1;
  if (st) return st;
  if (c->p->i[0] < 0 || c->p->i[0] >= AG_NDTYPE)
    return ag__fail(AG_ERR_TYPE, "full(): %lld is not the number of a dtype", (long long)c->p->i[0]);
  if (n > AG_MAX_NDIM)
    return ag__fail(AG_ERR_VALUE, "tensors have at most %d dimensions, but %d are asked for", AG_MAX_NDIM, n);
  ag__set_out(c, 0, (int)c->p->i[0], n, c->p->i + 1);
  return AG_OK;
}

int ag__exec_full(const ag_exec *x) { return ag__exec_fill(x); }

/* ---- cat ---- */

/* PyTorch takes a 1-d tensor of no elements for nothing at all. */
static bool nothing(int ndim, const int64_t *shape) { return ndim == 1 && shape[0] == 0; }

int ag__infer_cat(ag_infer *c) {
  int st = ag__need(c, 1, 1, 0), first = -1, dim = 0, dtype = c->in[0]->dtype;
  if (st) return st;
  for (int k = 0; k < c->n_in; k++) {
    ag_array *a = c->in[k];
    if (a->ndim == 0)
      return ag__fail(AG_ERR_RUNTIME, "zero-dimensional tensor (at position %d) cannot be concatenated", k);
    dtype = ag__promote(dtype, a->dtype);
    if (first < 0 && !nothing(a->ndim, ag__shape(a))) first = k;
  }
  ag_array *like = c->in[first < 0 ? 0 : first];
  st = ag__wrap_dim(c->p->i[0], like->ndim, &dim);
  if (st) return st;
  int64_t shape[AG_MAX_NDIM], total = 0;
  memcpy(shape, ag__shape(like), INTS(like->ndim));
  c->p->i[0] = dim;
  c->p->ni = 1;
  for (int k = 0; k < c->n_in; k++) {
    ag_array *a = c->in[k];
    int64_t size = 0;
    if (!nothing(a->ndim, ag__shape(a))) {
      if (a->ndim != like->ndim)
        return ag__fail(AG_ERR_RUNTIME, "Tensors must have same number of dimensions: got %d and %d", like->ndim, a->ndim);
      for (int d = 0; d < a->ndim; d++)
        if (d != dim && ag__shape(a)[d] != shape[d])
          return ag__fail(AG_ERR_RUNTIME,
                          "Sizes of tensors must match except in dimension %d. Expected size %lld but got size %lld for "
                          "tensor number %d in the list.",
                          dim, (long long)shape[d], (long long)ag__shape(a)[d], k);
      size = ag__shape(a)[dim];
    }
    if (__builtin_add_overflow(total, size, &total)) return ag__fail(AG_ERR_MEMORY, "cat(): the result is too large");
  }
  shape[dim] = total;
  ag__set_out(c, 0, dtype, like->ndim, shape);
  return AG_OK;
}

static int cat_parts(const ag_exec *x, int dim) {
  const ag_raw *out = &x->out[0];
  int size = ag__dtype_size(out->dtype);
  char *to = out->data;
  for (int k = 0; k < x->n_in; k++) {
    const ag_raw *a = &x->in[k];
    if (a->numel == 0) continue;
    bool turned = !a->contiguous && a->strides[a->ndim - 1] != 1 && dim > 0;
    if (a->dtype != out->dtype || turned) {
      ag_temp t;
      int64_t strides[AG_MAX_NDIM];
      void *plain = ag__temp(&t, (size_t)a->numel * (size_t)size);
      int st = plain ? ag__move_cast(a, a->ndim, a->shape, out->dtype, plain) : AG_ERR_MEMORY;
      ag__strides_contiguous(a->ndim, a->shape, strides);
      if (!st) ag__move_region(a->ndim, a->shape, to, out->strides, plain, strides, size);
      ag__temp_free(&t);
      if (st) return st;
    } else {
      ag__move_region(a->ndim, a->shape, to, out->strides, a->data, a->strides, size);
    }
    to += a->shape[dim] * out->strides[dim] * size;
  }
  return AG_OK;
}

int ag__exec_cat(const ag_exec *x) {
  void *token = ag__long_begin(x->out[0].numel, AG_LONG_MOVE);
  int st = cat_parts(x, (int)x->p->i[0]);
  ag__blocking_end(token);
  return st;
}

/* Size of operand k along the dim.  Of one without a history the node knows how many elements it had. */
static int64_t size_in(const ag_vjp *c, int k, int dim) {
  const ag_array *g = c->g[0]->arr;
  if (c->node->in[k].node) {
    const ag_meta *m = ag__vmeta(c, k);
    return nothing(m->ndim, m->shape) && g->ndim != 1 ? 0 : m->shape[dim];
  }
  int64_t line = 1; /* elements at one place of the dim */
  for (int d = 0; d < g->ndim; d++)
    if (d != dim) line *= ag__shape(g)[d];
  return line ? (int64_t)c->node->in[k].nr / line : 0;
}

int ag__vjp_cat(ag_vjp *c) {
  int dim = (int)c->p.i[0], n = (int)c->node->n_in, st = AG_OK;
  int64_t at = 0;
  for (int k = 0; k < n && !st; k++) {
    if (!c->node->in[k].node && c->node->in[k].nr == UINT32_MAX)
      return ag__fail(AG_ERR_NOT_IMPLEMENTED, "cat: the derivative beside an operand of more than four thousand million elements");
    int64_t size = size_in(c, k, dim);
    if (c->need[k]) {
      const ag_meta *m = ag__vmeta(c, k);
      bool empty = nothing(m->ndim, m->shape);
      st = empty ? give_zeros(c, k)
                 : ag__give(c, k, ag__bi(c, AG_OP_slice, c->g[0], 4, (int64_t)dim, at, at + size, INT64_C(1)));
      /* Builders' results pile up in c; a slice that is given lives on in dx. */
      while (!st && c->n_temps > AG_VJP_TEMPS / 2) ag_tensor_release(c->temps[--c->n_temps]);
    }
    at += size;
  }
  return st;
}

/* ---- flip ---- */

int ag__infer_flip(ag_infer *c) {
  uint32_t seen = 0;
  for (int k = 0; k < c->p->ni; k++) {
    int d, st = ag__wrap_dim(c->p->i[k], c->in[0]->ndim, &d);
    if (st) return st;
    if (seen >> d & 1) return ag__fail(AG_ERR_RUNTIME, "dim %d appears multiple times in the list of dims", d);
    seen |= 1u << d;
    c->p->i[k] = d;
  }
  return same_as_input(c);
}

int ag__exec_flip(const ag_exec *x) {
  const ag_raw *a = &x->in[0];
  int64_t strides[AG_MAX_NDIM], start = 0;
  if (a->numel == 0) return AG_OK;
  memcpy(strides, a->strides, INTS(a->ndim));
  for (int k = 0; k < x->p->ni && a->ndim > 0; k++) {
    int d = (int)x->p->i[k];
    start += (a->shape[d] - 1) * strides[d];
    strides[d] = -strides[d];
  }
  int size = ag__dtype_size(a->dtype);
  void *token = ag__long_begin(a->numel, AG_LONG_MOVE);
  ag__par_pack(a->ndim, a->shape, strides, a->numel, x->out[0].data, a->data + start * size, size);
  ag__blocking_end(token);
  return AG_OK;
}

int ag__vjp_flip(ag_vjp *c) { return ag__give(c, 0, ag__bints(c, AG_OP_flip, c->g[0], c->p.ni, c->p.i)); }

/* ---- pad ---- */

int ag__infer_pad(ag_infer *c) {
  ag_array *a = c->in[0];
  int64_t shape[AG_MAX_NDIM];
  int st = ag__need(c, 1, 2 * a->ndim, 1);
  if (st) return st;
  for (int k = 0; k < a->ndim; k++) {
    int64_t n = ag__shape(a)[k], before = c->p->i[2 * k], after = c->p->i[2 * k + 1];
    if (__builtin_add_overflow(n, before, &shape[k]) || __builtin_add_overflow(shape[k], after, &shape[k]))
      return ag__fail(AG_ERR_MEMORY, "pad(): the result is too large");
    if (shape[k] < 0)
      return ag__fail(AG_ERR_RUNTIME,
                      "The input size %lld, plus negative padding %lld and %lld, resulted in a negative output size, "
                      "which is invalid. Check dimension %d of your input.",
                      (long long)n, (long long)before, (long long)after, k);
  }
  ag__set_out(c, 0, a->dtype, a->ndim, shape);
  return AG_OK;
}

int ag__exec_pad(const ag_exec *x) {
  const ag_raw *a = &x->in[0], *out = &x->out[0];
  int size = ag__dtype_size(a->dtype);
  int64_t shape[AG_MAX_NDIM], from = 0, to = 0;
  void *token = ag__long_begin(out->numel, AG_LONG_MOVE);
  bool empty = a->numel == 0, whole = true;
  for (int k = 0; k < a->ndim; k++) {
    int64_t before = x->p->i[2 * k], after = x->p->i[2 * k + 1];
    int64_t lo = before < 0 ? -before : 0, hi = a->shape[k] + (after < 0 ? after : 0);
    shape[k] = hi > lo ? hi - lo : 0;
    from += lo * a->strides[k];
    to += (before > 0 ? before : 0) * out->strides[k];
    empty |= shape[k] == 0;
    whole &= shape[k] == out->shape[k];
  }
  if (!whole || empty) ag__move_fill(out->dtype, out->numel, out->data, x->p->f[0]);
  if (!empty)
    ag__move_region(a->ndim, shape, out->data + to * size, out->strides, a->data + from * size, a->strides, size);
  ag__blocking_end(token);
  return AG_OK;
}

int ag__vjp_pad(ag_vjp *c) {
  ag_params p = {.ni = c->p.ni, .nf = 1};
  p.f[0] = 0;
  for (int k = 0; k < p.ni; k++) p.i[k] = -c->p.i[k];
  return ag__give(c, 0, ag__b(c, AG_OP_pad, 1, &c->g[0], &p));
}

/* ---- triangles ---- */

static int infer_triangle(ag_infer *c) {
  int st = ag__need(c, 1, 1, 0);
  if (st) return st;
  if (c->in[0]->ndim < 2)
    return ag__fail(AG_ERR_RUNTIME, "%s: input tensor must have at least 2 dimensions", c->row->name);
  return same_as_input(c);
}

static int64_t between(int64_t v, int64_t n) { return v < 0 ? 0 : v > n ? n : v; }

/* Copies, then clears what lies outside: right in place, too. */
static int exec_triangle(const ag_exec *x, bool lower) {
  const ag_raw *out = &x->out[0];
  size_t size = (size_t)ag__dtype_size(out->dtype);
  void *token = ag__long_begin(out->numel, AG_LONG_MOVE);
  ag__start_from(out, &x->in[0]);
  int64_t rows = out->shape[out->ndim - 2], cols = out->shape[out->ndim - 1], diagonal = x->p->i[0];
  diagonal = diagonal > cols ? cols : diagonal < -rows ? -rows : diagonal;
  if (out->numel) {
    int64_t all = out->numel / cols;
    for (int64_t r = 0; r < all; r++) {
      char *row = out->data + (size_t)(r * cols) * size;
      int64_t edge = between(r % rows + diagonal + (lower ? 1 : 0), cols);
      if (lower) memset(row + (size_t)edge * size, 0, (size_t)(cols - edge) * size);
      else memset(row, 0, (size_t)edge * size);
    }
  }
  ag__blocking_end(token);
  return AG_OK;
}

int ag__infer_tril(ag_infer *c) { return infer_triangle(c); }
int ag__exec_tril(const ag_exec *x) { return exec_triangle(x, true); }
int ag__vjp_tril(ag_vjp *c) { return ag__give(c, 0, ag__bi(c, AG_OP_tril, c->g[0], 1, c->p.i[0])); }
int ag__infer_triu(ag_infer *c) { return infer_triangle(c); }
int ag__exec_triu(const ag_exec *x) { return exec_triangle(x, false); }
int ag__vjp_triu(ag_vjp *c) { return ag__give(c, 0, ag__bi(c, AG_OP_triu, c->g[0], 1, c->p.i[0])); }
