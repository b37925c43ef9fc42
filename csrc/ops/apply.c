#include "ops/apply.h"

#include "ops/exec.h"
#include "ops/fn_util.h"

#include <stdio.h>

AG_TLS ag_thread ag__thread;

enum { FEW = 16 }; /* operands kept on the stack; rows of any number of inputs take memory beyond */

/* ---- words for failures ---- */

void ag__explain(const ag_row *row, int n_in, ag_tensor *const *in) {
  char b[256];
  ag__fail_append(" [%s(", row->name);
  for (int k = 0; k < n_in && k < 4; k++)
    if (in[k])
      ag__fail_append("%s%s%s", k ? ", " : "", ag_dtype_name(in[k]->arr->dtype),
                      ag__shape_text(in[k]->arr->ndim, ag__shape(in[k]->arr), b, sizeof b));
  ag__fail_append("%s)", n_in > 4 ? ", ..." : "");
  ag__site_text(ag__site_now(), b, sizeof b);
  ag__fail_append("%s%s]", b[0] ? ", at " : "", b);
}

int ag__check_read(ag_array *arr, const char *what) {
  if (ag__recording()) return ag__thread.recorder->read(ag__thread.recorder, arr, what);
  return AG_OK;
}

/* ---- types: PyTorch's promotion, tensors with dims before those without ---- */

static int category(int dtype) { return dtype == AG_BOOL ? 0 : ag__is_float(dtype) ? 2 : 1; }

static int common_dtype(int n, ag_tensor *const *in) {
  int best[2] = {-1, -1}; /* of tensors with dims, of those without */
  for (int k = 0; k < n; k++) {
    int z = in[k]->arr->ndim == 0, d = in[k]->arr->dtype;
    if (d > best[z]) best[z] = d;
  }
  if (best[0] < 0) return best[1];
  if (best[1] < 0 || category(best[1]) <= category(best[0])) return best[0];
  return best[1];
}

/* Operands brought to one type by casts of their own, which graph and trace see; temps[k] owns what was made. */
static int unify(const ag_row *row, int n_in, ag_tensor *const *in, ag_tensor **use, ag_tensor **temps, int *dtype) {
  int first = row->kind == AG_KIND_SEL3 ? 1 : 0;
  int d = common_dtype(n_in - first, in + first);
  if (AG_UNLIKELY(row->op == AG_OP_sub && (in[0]->arr->dtype == AG_BOOL || in[1]->arr->dtype == AG_BOOL)))
    return ag__fail(AG_ERR_RUNTIME, "Subtraction, the `-` operator, with a bool tensor is not supported. If you are trying to invert a "
                    "mask, use the `~` or `logical_not()` operator instead.");
  if (row->types == AG_TYPES_FLT && !ag__is_float(d)) d = ag__default_float();
  *dtype = d;
  for (int k = 0; k < n_in; k++) {
    use[k] = in[k];
    temps[k] = NULL;
    if (k < first || in[k]->arr->dtype == d) continue;
    ag_params p = {.ni = 1, .nf = 0};
    p.i[0] = d;
    temps[k] = use[k] = ag__apply1(AG_OP_cast, 1, &in[k], &p);
    if (!use[k]) {
      while (--k >= 0) ag_tensor_release(temps[k]);
      return ag_last_status();
    }
  }
  return AG_OK;
}

static bool same_dtype(const ag_row *row, int n_in, ag_tensor *const *in) {
  int first = row->kind == AG_KIND_SEL3 ? 1 : 0;
  int d = in[first]->arr->dtype;
  if (row->types == AG_TYPES_FLT && !ag__is_float(d)) return false;
  for (int k = first + 1; k < n_in; k++)
    if (in[k]->arr->dtype != d) return false;
  return true;
}

/* ---- nodes ---- */

static uint32_t save_mask_fn(const ag_row *row, int n_in, const bool *need) {
  uint32_t f = row->flags, m = 0;
  if (f & OF_X0) m |= 1;
  if (f & OF_X1) m |= 2;
  if (f & OF_X2) m |= 4;
  if (f & OF_BILIN01) m |= (need[1] ? 1u : 0) | (need[0] ? 2u : 0);
  if (f & OF_BILIN12) m |= (need[2] ? 2u : 0) | (need[1] ? 4u : 0);
  if (f & OF_XREST)
    for (int k = 1; k < n_in && k < 24; k++) m |= 1u << k;
  return n_in >= 24 ? m : m & ((1u << n_in) - 1);
}

static uint32_t save_mask(const ag_row *row, int n_in, const bool *need) {
  uint32_t m = 0;
  if (row->kind == AG_KIND_FN) {
    m = save_mask_fn(row, n_in, need);
    if (row->flags & OF_Y0) m |= 1u << 24;
    if (row->flags & OF_Y1) m |= 1u << 25;
    if (row->flags & OF_Y2) m |= 1u << 26;
    return m;
  }
  for (int k = 0; k < n_in; k++)
    if (need[k]) m |= (row->needs[k] & 7u) | (row->needs[k] & 8u ? 1u << 24 : 0);
  return m;
}

/* The value of a about to be overwritten: a copy of its own (new), made by an op so that traces see it. */
static ag_array *copy_of(ag_array *a) {
  ag_tensor *t = ag__tensor_of(a), *c = t ? ag__apply1(AG_OP_clone, 1, &t, NULL) : NULL;
  ag_array *r = c ? ag__array_retain(c->arr) : NULL;
  ag_tensor_release(c);
  ag_tensor_release(t);
  return r;
}

/* Makes the node of a call: edges of the inputs that need a gradient, saved values.  target: the array that the
 * call will overwrite, or NULL; what is saved of it is saved as a copy. */
static ag_node *record_node(const ag_row *row, int n_in, ag_tensor *const *in, const bool *need, const ag_params *p,
                            ag_array *const *out, const ag_array *target) {
  uint32_t mask = save_mask(row, n_in, need);
  ag_node *n = ag__node_new(row->op, (uint32_t)n_in, (uint32_t)row->n_out, (uint32_t)__builtin_popcount(mask), p, out);
  if (!n) return NULL;
  ag_saved *s = n->saved;
  for (int k = 0; k < n_in; k++) {
    if (need[k] && ag__tensor_edge(in[k], &n->in[k])) goto failed;
    /* Rows of any number of operands: an edge to nowhere tells how many elements its operand had. */
    if (!need[k] && row->n_in < 0) n->in[k].nr = in[k]->arr->numel < UINT32_MAX ? (uint32_t)in[k]->arr->numel : UINT32_MAX;
    if (k < 24 && mask >> k & 1) {
      s->arr = AG_UNLIKELY(target && target->st == in[k]->arr->st) ? copy_of(in[k]->arr) : ag__array_retain(in[k]->arr);
      if (!s->arr) goto failed;
      s->version = s->arr->st->version;
      s->which = (int8_t)k;
      if (n->in[k].node) {
        s->node = ag__node_retain(n->in[k].node);
        s->nr = n->in[k].nr;
        s->leaf = n->in[k].node->op == AG_OP_ACCUMULATE;
      }
      s++;
    }
  }
  for (int k = 0; k < row->n_out; k++)
    if (mask >> (24 + k) & 1) {
      s->arr = ag__array_retain(out[k]);
      s->version = out[k]->st->version;
      s->which = (int8_t)(-1 - k);
      s++;
    }
  ag__node_number(n);
  return n;
failed:
  ag_node_release(n);
  return NULL;
}

/* ---- the dispatcher ---- */

typedef struct call {
  const ag_row *row;
  int n_in;
  ag_tensor *const *in;
  ag_params p;
  bool any_grad;
  ag_tensor *use_buf[FEW], *temps[FEW];
  ag_array *arr_buf[FEW], **arr;
  bool need_buf[FEW], *need;
  ag_raw raw_buf[FEW], *raw;
  char *heap;
  size_t heap_size;
  bool unified;
} call;

/* In C, calls are written into each other: the failure that made the NULL is what the reader needs. */
static int missing_operand(const ag_row *row, int k) {
  char first[400];
  snprintf(first, sizeof first, "%s", ag_last_error());
  return ag__fail(AG_ERR_TYPE, "%s(): operand %d is missing%s%s%s", row->name, k, first[0] ? " (latest failure before: " : "", first,
                  first[0] ? ")" : "");
}

static int setup(call *c, int op, int n_in, ag_tensor *const *in, const ag_params *p) {
  const ag_row *row = c->row = &ag__rows[op];
  c->n_in = n_in;
  c->in = in;
  c->heap = NULL;
  c->unified = false;
  c->arr = c->arr_buf;
  c->need = c->need_buf;
  c->raw = c->raw_buf;
  if (AG_UNLIKELY(row->n_in >= 0 ? n_in != row->n_in : n_in < 1))
    return ag__fail(AG_ERR_TYPE, "%s() takes %d operands but got %d", row->name, row->n_in, n_in);
  for (int k = 0; k < n_in; k++)
    if (AG_UNLIKELY(!in[k])) return missing_operand(row, k);
  if (p) {
    c->p.ni = p->ni;
    c->p.nf = p->nf;
    memcpy(c->p.i, p->i, sizeof(int64_t) * (size_t)p->ni);
    memcpy(c->p.f, p->f, sizeof(double) * (size_t)p->nf);
  } else {
    c->p.ni = c->p.nf = 0;
  }
  if (AG_UNLIKELY(n_in > FEW)) {
    c->heap_size = (size_t)n_in * (sizeof(ag_array *) + sizeof(ag_raw) + sizeof(bool));
    c->heap = ag__alloc(c->heap_size);
    if (!c->heap) return AG_ERR_MEMORY;
    c->raw = (ag_raw *)(void *)c->heap;
    c->arr = (ag_array **)(void *)(c->raw + n_in);
    c->need = (bool *)(c->arr + n_in);
  }
  if (ag__row_elementwise(row)) {
    int want = row->flags & OF_PARAM1 ? 1 : row->flags & OF_PARAM2 ? 2 : 0;
    if (AG_UNLIKELY(c->p.nf < want)) {
      /* addcmul and its like default to 1. */
      for (int k = c->p.nf; k < want; k++) c->p.f[k] = 1;
      c->p.nf = want;
    }
    if (AG_UNLIKELY(!same_dtype(row, n_in, in))) {
      int dtype, st = unify(row, n_in, in, c->use_buf, c->temps, &dtype);
      if (st) return st;
      c->in = c->use_buf;
      c->unified = true;
    }
  }
  bool track = ag__grad_on() && !(row->flags & OF_NODIFF);
  c->any_grad = false;
  for (int k = 0; k < n_in; k++) {
    c->arr[k] = c->in[k]->arr;
    c->need[k] = track && ag__requires_grad(c->in[k]);
    c->any_grad |= c->need[k];
  }
  return AG_OK;
}

static void teardown(call *c) {
  if (AG_UNLIKELY(c->unified))
    for (int k = 0; k < c->n_in; k++) ag_tensor_release(c->temps[k]);
  if (AG_UNLIKELY(c->heap != NULL)) ag__free(c->heap, c->heap_size);
}

static int touch_all(const call *c) {
  ag_recorder *r = ag__thread.recorder;
  for (int k = 0; k < c->n_in; k++) {
    int st = r->touch(r, c->in[k]);
    if (st) return st;
  }
  return AG_OK;
}

static int run(const call *c, ag_array *const *out, int n_out) {
  ag_raw raw_out[AG_MAX_OUT];
  for (int k = 0; k < c->n_in; k++) c->raw[k] = ag__raw(c->arr[k]);
  for (int k = 0; k < n_out; k++) raw_out[k] = ag__raw(out[k]);
  ag_exec x = {c->row, c->n_in, n_out, c->raw, raw_out, &c->p};
  return ag__exec(&x);
}

/* The everyday case, same as below in fewer steps: one or two operands of one type and shape, contiguous, nobody
 * recording.  NULL without a failure set (*tried false): not that case. */
static ag_tensor *apply_plain(const ag_row *row, int n_in, ag_tensor *const *in, const ag_params *p, bool *tried) {
  *tried = false;
  if (row->kind > AG_KIND_EW2 || row->flags & (OF_PARAM1 | OF_PARAM2) || ag__recording() || n_in != row->n_in) return NULL;
  if (!in[0] || !in[n_in - 1]) return NULL;
  ag_array *a = in[0]->arr, *b = in[n_in - 1]->arr;
  if (ag__row_checks(row, a->dtype)) return NULL;
  ag_k_ew *fn = ag__k->ew[row->op].fwd[a->dtype];
  if (!fn || a->dtype != b->dtype || !a->contiguous || !b->contiguous || a->numel > 4096) return NULL;
  ag_array *shape = a;
  if (a != b && !ag__same_shape(a->ndim, ag__shape(a), b->ndim, ag__shape(b))) {
    /* One element beside another single one of fewer dims is as plain. */
    if (a->numel != 1 || b->numel != 1) return NULL;
    if (b->ndim > a->ndim) shape = b;
  }
  *tried = true;
  ag_array *out = ag__array_like(shape);
  if (AG_UNLIKELY(!out)) return NULL;
  fn(out->numel, ag__data(out), ag__data(a), ag__data(b), NULL, NULL);
  ag_tensor *t = ag__tensor_wrap(out);
  if (AG_UNLIKELY(!t)) return NULL;
  if (ag__grad_on() && !(row->flags & OF_NODIFF) && ag__is_float(out->dtype)) {
    bool need[2] = {ag__requires_grad(in[0]), ag__requires_grad(in[n_in - 1])};
    if (need[0] | need[1]) {
      t->fn = record_node(row, n_in, in, need, p, &out, NULL);
      if (AG_UNLIKELY(!t->fn)) {
        ag_tensor_release(t);
        return NULL;
      }
    }
  }
  return t;
}

int ag__apply(int op, int n_in, ag_tensor *const *in, const ag_params *p, ag_tensor **outs) {
  bool tried;
  ag_tensor *plain = apply_plain(&ag__rows[op], n_in, in, p, &tried);
  if (AG_LIKELY(tried)) {
    outs[0] = plain;
    if (AG_LIKELY(plain != NULL)) return AG_OK;
    ag__explain(&ag__rows[op], n_in, in);
    return ag_last_status();
  }
  call c;
  ag_array *out[AG_MAX_OUT] = {NULL};
  ag_tensor *t[AG_MAX_OUT] = {NULL};
  ag_node *node = NULL;
  ag_infer inf;
  int st = setup(&c, op, n_in, in, p);
  const ag_row *row = c.row;
  int n_out = row->n_out;
  if (AG_UNLIKELY(st)) goto done;
  if (AG_UNLIKELY(row->flags & OF_INPLACE_ONLY)) {
    st = ag__fail(AG_ERR_TYPE, "%s writes its first operand in place: call it so", row->name);
    goto done;
  }
  if (ag__recording()) {
    if (row->flags & OF_DATA_SHAPE)
      st = ag__check_read(c.arr[0], "a shape that depends on the values of");
    if (!st) st = touch_all(&c);
    if (st) goto done;
  }
  inf.row = row;
  inf.n_in = n_in;
  inf.in = c.arr;
  inf.p = &c.p;
  inf.n_out = n_out;
  st = row->infer(&inf);
  if (AG_UNLIKELY(st)) goto done;
  if (row->flags & OF_VIEW) {
    ag_geom *g = &inf.out[0];
    out[0] = ag__array_view(c.arr[0]->st, c.arr[0]->dtype, g->ndim, g->shape, g->strides, g->offset);
    if (!out[0]) st = AG_ERR_MEMORY;
  } else {
    for (int k = 0; k < n_out && !st; k++) {
      out[k] = ag__array_new(inf.out[k].dtype, inf.out[k].ndim, inf.out[k].shape);
      if (!out[k]) st = ag_last_status();
    }
    if (!st) st = run(&c, out, n_out);
  }
  if (AG_UNLIKELY(st)) goto done;
  for (int k = 0; k < n_out; k++) {
    t[k] = ag__tensor_wrap(ag__array_retain(out[k]));
    if (AG_UNLIKELY(!t[k])) {
      st = AG_ERR_MEMORY;
      goto done;
    }
  }
  if (c.any_grad) {
    node = record_node(row, n_in, c.in, c.need, &c.p, out, NULL);
    if (AG_UNLIKELY(!node)) {
      st = ag_last_status();
      goto done;
    }
    for (int k = 0; k < n_out; k++)
      if (ag__is_float(out[k]->dtype)) {
        t[k]->fn = ag__node_retain(node);
        t[k]->out_nr = (uint32_t)k;
      }
  }
  if ((row->flags & OF_VIEW) && ag__is_float(out[0]->dtype)) {
    ag_tensor *base = c.in[0]->base ? c.in[0]->base : c.in[0];
    ag_tensor_retain(base);
    t[0]->base = base;
    t[0]->view_version = out[0]->st->version;
    t[0]->no_grad_view = !ag__grad_on() || c.in[0]->no_grad_view;
  }
  if (ag__recording() && !(row->flags & OF_VIEW))
    st = ag__thread.recorder->record(ag__thread.recorder, op, n_in, c.arr, &c.p, n_out, out, false);
done:
  ag_node_release(node);
  for (int k = 0; k < n_out; k++) {
    ag__array_release(out[k]);
    if (AG_UNLIKELY(st != AG_OK)) ag_tensor_release(t[k]);
    else outs[k] = t[k];
  }
  if (AG_UNLIKELY(st)) ag__explain(row, n_in, in);
  teardown(&c);
  return st;
}

ag_tensor *ag__apply1(int op, int n_in, ag_tensor *const *in, const ag_params *p) {
  ag_tensor *outs[AG_MAX_OUT] = {NULL};
  if (ag__apply(op, n_in, in, p, outs)) return NULL;
  for (int k = 1; k < ag__rows[op].n_out; k++) ag_tensor_release(outs[k]);
  return outs[0];
}

/* ---- writes in place ---- */

static bool overlaps_itself(const ag_array *a) {
  if (a->numel == 0) return false;
  for (int k = 0; k < a->ndim; k++)
    if (ag__strides(a)[k] == 0 && ag__shape(a)[k] > 1) return true;
  return false;
}

/* First and last element an array reaches. */
static void extent(const ag_array *a, int64_t *lo, int64_t *hi) {
  *lo = *hi = a->offset;
  for (int k = 0; k < a->ndim; k++) {
    int64_t d = (ag__shape(a)[k] - 1) * ag__strides(a)[k];
    if (d > 0) *hi += d;
    else *lo += d;
  }
}

static bool same_geometry(const ag_array *a, const ag_array *b) {
  return a->offset == b->offset && ag__same_shape(a->ndim, ag__shape(a), b->ndim, ag__shape(b)) &&
         (a->contiguous ? b->contiguous : memcmp(ag__strides(a), ag__strides(b), sizeof(int64_t) * a->ndim) == 0);
}

/* Does an array fill a range of memory without gaps and without saying anything twice (in any order of dims)? */
static bool dense(const ag_array *a) {
  if (a->contiguous) return true;
  int64_t lo, hi;
  extent(a, &lo, &hi);
  return hi - lo + 1 == a->numel && !overlaps_itself(a);
}

/* Elements that both reach?  Ranges that meet may still interleave, as x[::2] and x[1::2]: when every stride is a multiple
 * of g, the offsets must agree modulo g. */
static bool may_meet(const ag_array *a, const ag_array *b) {
  int64_t l0, h0, l1, h1, g = 0;
  extent(a, &l0, &h0);
  extent(b, &l1, &h1);
  if (l0 > h1 || l1 > h0) return false;
  for (int which = 0; which < 2; which++) {
    const ag_array *x = which ? b : a;
    for (int k = 0; k < x->ndim; k++) {
      int64_t s = ag__shape(x)[k] > 1 ? ag__strides(x)[k] : 0;
      while (s) {
        int64_t r = g % s;
        g = s;
        s = r;
      }
    }
  }
  return !g || (a->offset - b->offset) % g == 0;
}

/* How an operand lies to the memory about to be written: as PyTorch, what certainly overlaps in part is refused; where that
 * cannot be told at a glance, the operand is read from a copy. */
enum overlap { APART, PARTLY, PERHAPS };
static enum overlap overlap_of(const ag_array *target, const ag_array *b) {
  if (target->st != b->st || target->numel == 0 || b->numel == 0 || same_geometry(target, b) || !may_meet(target, b)) return APART;
  if (b->numel == 1 || !dense(target) || !dense(b)) return PERHAPS;
  return PARTLY;
}

static int check_target(const call *c, ag_tensor *t) {
  if (ag__grad_on()) {
    if (t->leaf_grad && !t->fn)
      return ag__fail(AG_ERR_RUNTIME, "a leaf Variable that requires grad is being used in an in-place operation.");
    if (t->base && t->base->leaf_grad && !t->base->fn)
      return ag__fail(AG_ERR_RUNTIME,
                      "a view of a leaf Variable that requires grad is being used in an in-place operation.");
    if (t->no_grad_view && (c->any_grad || ag__requires_grad(t->base)))
      return ag__fail(AG_ERR_RUNTIME,
                      "A view was created in no_grad mode and is being modified inplace with grad mode enabled. Given that this "
                      "use case is ambiguous and error-prone, it is forbidden. You can clarify your code by moving both the view "
                      "and the inplace either both inside the no_grad block (if you don't want the inplace to be tracked) or "
                      "both outside (if you want the inplace to be tracked).");
  }
  if (overlaps_itself(t->arr) && c->row->op != AG_OP_fill)
    return ag__fail(AG_ERR_RUNTIME,
                    "unsupported operation: more than one element of the written-to tensor refers to a single memory "
                    "location. Please clone() the tensor before performing the operation.");
  for (int k = 1; k < c->n_in; k++)
    if (overlap_of(t->arr, c->arr[k]) == PARTLY)
      return ag__fail(AG_ERR_RUNTIME,
                      "unsupported operation: some elements of the input tensor and the written-to tensor refer to a "
                      "single memory location. Please clone() the tensor before performing the operation.");
  return AG_OK;
}

static void wrote(ag_array *a) {
  a->st->version++;
  a->st->written = ag__site_now();
}

/* The written tensor's place in the graph: node n made its new value.  A view hands it on to its base. */
static int rebase(ag_tensor *t, ag_node *n) {
  ag_tensor *b = t->base;
  if (!b) {
    ag__tensor_set_fn(t, ag__node_retain(n), 0);
    return AG_OK;
  }
  ag_params p;
  ag__view_params(t, &p);
  ag_node *s = ag__node_new(AG_OP_as_strided_scatter, 2, 1, 0, &p, &b->arr);
  if (!s) return AG_ERR_MEMORY;
  int st = ag__requires_grad(b) ? ag__tensor_edge(b, &s->in[0]) : AG_OK;
  if (st) {
    ag_node_release(s);
    return st;
  }
  s->in[1].node = ag__node_retain(n);
  ag__node_number(s);
  b->leaf_grad = false;
  ag__tensor_set_fn(b, s, 0);
  ag__tensor_set_fn(t, ag__node_retain(n), 0);
  return AG_OK;
}

/* in[0] = op(in[0], ...) where the op's type is not in[0]'s: computed aside, then copied with a cast. */
static int inplace_by_copy(int op, const call *c, ag_tensor *target) {
  int dtype = c->in[c->row->kind == AG_KIND_SEL3 ? 1 : 0]->arr->dtype;
  if (c->row->kind == AG_KIND_CMP1 || c->row->kind == AG_KIND_CMP2) dtype = AG_BOOL;
  if (category(dtype) > category(target->arr->dtype))
    return ag__fail(AG_ERR_RUNTIME, "result type %s can't be cast to the desired output type %s", ag__scalar_name(dtype),
                    ag__scalar_name(target->arr->dtype));
  /* The node of op may keep the old value, which the copy below overwrites: it gets a copy to keep. */
  ag_tensor *in[FEW], *old = NULL;
  if (c->any_grad && c->n_in <= FEW) {
    memcpy(in, c->in, sizeof in[0] * (size_t)c->n_in);
    for (int k = 0; k < c->n_in; k++)
      if (in[k] == target && !(in[k] = old ? old : (old = ag__apply1(AG_OP_clone, 1, &target, NULL)))) return ag_last_status();
  }
  ag_tensor *r = ag__apply1(op, c->n_in, c->any_grad && c->n_in <= FEW ? in : c->in, &c->p);
  ag_tensor_release(old);
  if (!r) return ag_last_status();
  int st = AG_OK;
  if (!ag__same_shape(r->arr->ndim, ag__shape(r->arr), target->arr->ndim, ag__shape(target->arr))) {
    char a[200], b[200];
    st = ag__fail(AG_ERR_RUNTIME, "output with shape %s doesn't match the broadcast shape %s",
                  ag__shape_text(target->arr->ndim, ag__shape(target->arr), a, sizeof a),
                  ag__shape_text(r->arr->ndim, ag__shape(r->arr), b, sizeof b));
  } else {
    st = ag__apply_inplace(AG_OP_copy, 2, (ag_tensor *[]){target, r}, NULL);
  }
  ag_tensor_release(r);
  return st;
}

/* Operand k may share elements with the target: the same call with a copy of it. */
static int inplace_with_copy(int op, int n_in, ag_tensor *const *in, int k, const ag_params *p) {
  ag_tensor *few[FEW], *copy;
  if (n_in > FEW) return ag__fail(AG_ERR_NOT_IMPLEMENTED, "%s: operands that overlap", ag__rows[op].name);
  if (!(copy = ag__apply1(AG_OP_clone, 1, &in[k], NULL))) return ag_last_status();
  memcpy(few, in, sizeof few[0] * (size_t)n_in);
  few[k] = copy;
  int st = ag__apply_inplace(op, n_in, few, p);
  ag_tensor_release(copy);
  return st;
}

int ag__apply_inplace(int op, int n_in, ag_tensor *const *in, const ag_params *p) {
  call c;
  ag_infer inf;
  ag_node *node = NULL;
  int st = setup(&c, op, n_in, in, p);
  const ag_row *row = c.row;
  ag_tensor *t = n_in > 0 ? in[0] : NULL;
  if (AG_UNLIKELY(st)) goto done;
  if (AG_UNLIKELY(row->flags & (OF_VIEW | OF_NO_INPLACE))) {
    st = ag__fail(AG_ERR_TYPE, "%s has no in-place form", row->name);
    goto done;
  }
  if (ag__recording()) {
    st = touch_all(&c);
    if (st) goto done;
  }
  st = check_target(&c, t);
  if (AG_UNLIKELY(st)) goto done;
  for (int k = 1; k < n_in; k++)
    if (AG_UNLIKELY(overlap_of(t->arr, in[k]->arr) == PERHAPS)) {
      st = inplace_with_copy(op, n_in, in, k, p);
      teardown(&c);
      return st;
    }
  bool cond = row->kind == AG_KIND_CMP1 || row->kind == AG_KIND_CMP2;
  if (ag__row_elementwise(row) && (c.in[0] != t || cond || row->kind == AG_KIND_SEL3)) {
    st = inplace_by_copy(op, &c, t);
    if (st) ag__explain(row, n_in, in);
    teardown(&c);
    return st;
  }
  inf.row = row;
  inf.n_in = n_in;
  inf.in = c.arr;
  inf.p = &c.p;
  inf.n_out = row->n_out;
  st = row->infer(&inf);
  if (AG_UNLIKELY(st)) goto done;
  ag_array *target = t->arr;
  if (!ag__same_shape(inf.out[0].ndim, inf.out[0].shape, target->ndim, ag__shape(target))) {
    char a[200], b[200];
    st = ag__fail(AG_ERR_RUNTIME, "output with shape %s doesn't match the broadcast shape %s",
                  ag__shape_text(target->ndim, ag__shape(target), a, sizeof a),
                  ag__shape_text(inf.out[0].ndim, inf.out[0].shape, b, sizeof b));
    goto done;
  }
  if (inf.out[0].dtype != target->dtype) {
    st = ag__fail(AG_ERR_RUNTIME, "result type %s can't be cast to the desired output type %s",
                  ag__scalar_name(inf.out[0].dtype), ag__scalar_name(target->dtype));
    goto done;
  }
  if (c.any_grad && ag__is_float(target->dtype)) {
    /* Made before the write, so that a failure leaves the tensor as it was. */
    node = record_node(row, n_in, c.in, c.need, &c.p, &target, target);
    if (!node) st = ag_last_status();
  }
  if (!st) st = run(&c, &target, 1);
  if (AG_UNLIKELY(st)) goto done;
  wrote(target);
  uint32_t writes = row->flags & OF_INPLACE_ONLY ? ag__row_writes(row, n_in) : 0;
  for (int k = 1; k < n_in && writes >> k; k++)
    if (writes >> k & 1) wrote(c.arr[k]);
  if (node) {
    for (uint32_t k = 0; k < node->n_saved; k++)
      if (node->saved[k].which < 0) node->saved[k].version = target->st->version;
    st = rebase(t, node);
  } else if (t->base == NULL) {
    t->view_version = target->st->version;
  }
  if (!st && ag__recording())
    st = ag__thread.recorder->record(ag__thread.recorder, op, n_in, c.arr, &c.p, 1, &target, true);
done:
  ag_node_release(node);
  if (AG_UNLIKELY(st)) ag__explain(row, n_in, in);
  teardown(&c);
  return st;
}

/* ---- saved values ---- */

static int stale(ag_node *n, const ag_saved *s) {
  char shape[200], line[300];
  const ag_node *maker = s->which < 0 ? n : s->node;
  ag__fail(AG_ERR_RUNTIME,
           "one of the variables needed for gradient computation has been modified by an inplace operation: [%s %s], "
           "which is output %u of %s, is at version %u; expected version %u instead. Hint: clone() the tensor before "
           "writing to it, or write to it after backward().",
           ag__dtype_torch_name(s->arr->dtype), ag__shape_text(s->arr->ndim, ag__shape(s->arr), shape, sizeof shape),
           s->which < 0 ? (unsigned)(-1 - s->which) : s->nr, maker ? ag_node_name(maker) : "a tensor without history",
           s->arr->st->version, s->version);
  ag__site_text(n->site, line, sizeof line);
  if (line[0]) ag__fail_append(" Needed by %s, created at %s", ag_node_name(n), line);
  ag__site_text(s->arr->st->written, line, sizeof line);
  if (line[0]) ag__fail_append("; modified at %s", line);
  return AG_ERR_RUNTIME;
}

int ag__saved_check(ag_node *n, uint32_t k) {
  const ag_saved *s = &n->saved[k];
  if (AG_UNLIKELY(n->released || !s->arr))
    return ag__fail(AG_ERR_RUNTIME,
                         "Trying to backward through the graph a second time (or directly access saved tensors after "
                         "they have already been freed). Saved intermediate values of the graph are freed when you call "
                         ".backward() or autograd.grad(). Specify retain_graph=True if you need to backward through the "
                         "graph a second time or if you need to access saved tensors after calling backward.");
  if (AG_UNLIKELY(s->arr->st->version != s->version)) return stale(n, s);
  return AG_OK;
}

ag_tensor *ag__saved_tensor(ag_node *n, uint32_t k) {
  const ag_saved *s = &n->saved[k];
  if (ag__saved_check(n, k)) return NULL;
  ag_tensor *t = ag__tensor_wrap(ag__array_retain(s->arr));
  if (!t) return NULL;
  if (s->which < 0) {
    if (ag__is_float(s->arr->dtype)) {
      t->fn = ag__node_retain(n);
      t->out_nr = (uint32_t)(-1 - s->which);
    }
  } else if (s->node && s->leaf) {
    t->leaf_grad = true;
    t->acc = ag__node_retain(s->node);
  } else if (s->node) {
    t->fn = ag__node_retain(s->node);
    t->out_nr = s->nr;
  }
  return t;
}
