#include "freeze/trace.h"

static _Atomic uint64_t epochs = 1;

/* ---- storages and values ---- */

/* Trace and number are one word: traces of other threads may leave their marks meanwhile. */
static uint64_t mark(const ag_trace *tr) { return tr->epoch << 32; }

static int32_t known(const ag_trace *tr, const ag_storage *s) {
  uint64_t m = atomic_load_explicit(&s->trace, memory_order_relaxed);
  return (m ^ mark(tr)) >> 32 == 0 ? (int32_t)m : -1;
}

static void know(ag_trace *tr, ag_storage *s, int32_t id) {
  atomic_store_explicit(&s->trace, mark(tr) | (uint32_t)id, memory_order_relaxed);
}

/* A storage from outside.  It may be met by traces of several threads at once, each of which leaves its mark on
 * it, so what counts is the trace's own table. */
static int32_t adopt(ag_trace *tr, ag_array *a, int kind) {
  int32_t *slot = ag__pmap_add(&tr->outside, a->st);
  if (!slot) return -1;
  if (*slot < 0) {
    int32_t id = ag__program_storage(tr->g, kind, (int64_t)a->st->nbytes, a->dtype);
    if (id < 0) return -1;
    ag_pst *s = &tr->g->st[id];
    s->geo = ag__program_geo(tr->g, a->dtype, a->ndim, ag__shape(a), ag__strides(a));
    if (!s->geo) return -1;
    /* While the trace runs every outside storage is held, so that its address stays its own. */
    ag__storage_retain(a->st);
    s->st = a->st;
    *slot = id;
  }
  know(tr, a->st, *slot);
  return *slot;
}

static int32_t storage_of(ag_trace *tr, ag_array *a) {
  int32_t id = known(tr, a->st);
  return AG_LIKELY(id >= 0) ? id : adopt(tr, a, AG_P_BOUND);
}

static bool value_of(ag_trace *tr, ag_array *a, ag_val *v) {
  v->st = storage_of(tr, a);
  if (v->st < 0) return false;
  v->ver = tr->g->st[v->st].writes;
  v->offset = a->offset;
  v->geo = ag__program_geo(tr->g, a->dtype, a->ndim, ag__shape(a), ag__strides(a));
  return v->geo != NULL;
}

/* A storage the program makes: version 1 is its first content. */
static bool define(ag_trace *tr, ag_array *a, ag_val *v) {
  int32_t id = ag__program_storage(tr->g, AG_P_INTERNAL, (int64_t)a->st->nbytes, a->dtype);
  if (id < 0) return false;
  know(tr, a->st, id);
  tr->g->st[id].writes = 1;
  if (!value_of(tr, a, v)) return false;
  tr->g->st[id].geo = v->geo;
  return true;
}

/* ---- what the dispatcher tells ---- */

static int record(ag_recorder *r, int op, int n_in, ag_array *const *in, const ag_params *p, int n_out,
                      ag_array *const *out, bool inplace) {
  ag_trace *tr = (ag_trace *)r;
  ag_program *g = tr->g;
  uint32_t side = inplace ? ag__op_side_writes(op, n_in) : 0;
  ag_ins *i = ag__program_ins(g, op, (uint32_t)n_in, n_out, n_out + __builtin_popcount(side));
  if (!i) return AG_ERR_MEMORY;
  i->inplace = inplace;
  i->site = ag__site_now();
  i->p = ag__program_params(g, p);
  if (!i->p) return AG_ERR_MEMORY;
  for (int k = 0; k < n_in; k++)
    if (!value_of(tr, in[k], &i->in[k])) return AG_ERR_MEMORY;
  if (inplace) {
    i->out[0] = i->in[0];
    i->out[0].ver = ++g->st[i->in[0].st].writes;
    int w = n_out;
    for (int k = 1; k < n_in && side >> k; k++)
      if (side >> k & 1) {
        i->out[w] = i->in[k];
        i->out[w++].ver = ++g->st[i->in[k].st].writes;
      }
  } else {
    for (int k = 0; k < n_out; k++)
      if (!define(tr, out[k], &i->out[k])) return AG_ERR_MEMORY;
  }
  g->traced++;
  return AG_OK;
}

static bool foreign(const ag_storage *s) {
  ptrdiff_t d = s->data - (const char *)s;
  return s->free_fn || (s->block == 0 && (d < 0 || d > 4096));
}

/* Host data: the trace keeps a copy as a constant and takes it from there at each run.  Where nothing writes to
 * the tensor the copy is seen through later.  Memory of the host's own stays bound by reference. */
static int constant(ag_recorder *r, ag_array *a) {
  ag_trace *tr = (ag_trace *)r;
  if (foreign(a->st)) return adopt(tr, a, AG_P_BOUND) < 0 ? AG_ERR_MEMORY : AG_OK;
  ag_storage *copy = ag__storage_new(a->st->nbytes);
  if (!copy) return AG_ERR_MEMORY;
  memcpy(copy->data, a->st->data, a->st->nbytes);
  int32_t id = ag__program_storage(tr->g, AG_P_CONST, (int64_t)a->st->nbytes, a->dtype);
  if (id < 0) {
    ag_storage_release(copy);
    return AG_ERR_MEMORY;
  }
  tr->g->st[id].st = copy;
  ag_ins *i = ag__program_ins(tr->g, AG_OP_clone, 1, 1, 1);
  if (!i || !define(tr, a, &i->out[0])) return AG_ERR_MEMORY;
  i->site = ag__site_now();
  i->p = ag__program_params(tr->g, NULL);
  i->in[0] = i->out[0];
  i->in[0].st = id;
  i->in[0].ver = 0;
  tr->g->st[id].geo = i->in[0].geo;
  tr->g->traced++;
  return AG_OK;
}

/* Bindings add the line that read: the position of an op would name the latest op's. */
static int rec_read(ag_recorder *r, ag_array *a, const char *what) {
  char shape[200];
  (void)r;
  return ag__fail(AG_ERR_TRACED,
                  "%s a tensor %s%s was read while a graph was being frozen: replay could not take another course. Return the "
                  "tensor and read it outside, or keep the choice inside with where()",
                  what, ag_dtype_name(a->dtype), ag__shape_text(a->ndim, ag__shape(a), shape, sizeof shape));
}

static int touch(ag_recorder *r, ag_tensor *t) {
  ag_trace *tr = (ag_trace *)r;
  ag_program *g = tr->g;
  int32_t id = known(tr, t->arr->st);
  if (AG_LIKELY(id >= 0 && g->st[id].kind == AG_P_INTERNAL)) return AG_OK;
  if (id < 0) id = storage_of(tr, t->arr);
  if (id < 0) return AG_ERR_MEMORY;
  if (g->st[id].kind == AG_P_GRAD && g->leaves[g->st[id].index].entry_t == t) return AG_OK;
  int32_t *slot = ag__pmap_add(&tr->tensors, t);
  if (!slot) return AG_ERR_MEMORY;
  if (*slot != -1) return AG_OK;
  ag_guard *u = AG_PUSH(g->guards, g->n_guards, g->cap_guards);
  if (!u) return AG_ERR_MEMORY;
  ag_tensor_retain(t);
  *u = (ag_guard){t, ag__array_retain(t->arr), ag__requires_grad(t)};
  *slot = (int32_t)(g->n_guards - 1);
  return AG_OK;
}

/* The leaf's entry, made when first met. */
static ag_leaf *leaf_of(ag_trace *tr, ag_tensor *t, bool read) {
  ag_program *g = tr->g;
  int32_t *slot = ag__pmap_add(&tr->leaves, t);
  if (!slot) return NULL;
  if (*slot >= 0) return &g->leaves[*slot];
  int32_t *as_input = ag__pmap_find(&tr->tensors, t);
  ag_leaf *l = AG_PUSH(g->leaves, g->n_leaves, g->cap_leaves);
  if (!l) return NULL;
  memset(l, 0, sizeof *l);
  *slot = (int32_t)(g->n_leaves - 1);
  ag_tensor_retain(t);
  l->t = t;
  l->input = as_input && *as_input <= -2 ? -2 - *as_input : -1;
  l->entry_val.st = -1;
  l->entry_read = read;
  l->entry = t->grad != NULL;
  if (l->entry) {
    ag_tensor *e = t->grad;
    ag_tensor_retain(e);
    l->entry_t = e;
    /* A gradient that nothing else shares may be another one at each run. */
    if (read && known(tr, e->arr->st) < 0 && !ag__pmap_find(&tr->outside, e->arr->st) && ag__ref_sole(&e->arr->refs) &&
        ag__ref_sole(&e->arr->st->refs)) {
      int32_t id = adopt(tr, e->arr, AG_P_GRAD);
      if (id < 0 || !value_of(tr, e->arr, &l->entry_val)) return NULL;
      g->st[id].index = *slot;
    }
  }
  return l;
}

/* A trace that missed something is worthless, even if the program catches the failure and goes on. */
static int whole(ag_recorder *r, int st) {
  if (st) ((ag_trace *)r)->failed = true;
  return st;
}

static int rec_record(ag_recorder *r, int op, int n_in, ag_array *const *in, const ag_params *p, int n_out,
                      ag_array *const *out, bool inplace) {
  return whole(r, record(r, op, n_in, in, p, n_out, out, inplace));
}
static int rec_constant(ag_recorder *r, ag_array *a) { return whole(r, constant(r, a)); }
static int rec_touch(ag_recorder *r, ag_tensor *t) { return whole(r, touch(r, t)); }
static int rec_grad_read(ag_recorder *r, ag_tensor *leaf) {
  return whole(r, leaf_of((ag_trace *)r, leaf, true) ? AG_OK : AG_ERR_MEMORY);
}
static int rec_grad_write(ag_recorder *r, ag_tensor *leaf, ag_tensor *value) {
  (void)value;
  return whole(r, leaf_of((ag_trace *)r, leaf, false) ? AG_OK : AG_ERR_MEMORY);
}

/* ---- begin, abort ---- */

static void trace_free(ag_trace *tr) {
  if (ag__thread.recorder == &tr->rec) ag__thread.recorder = NULL;
  if (ag__births.trace == tr->epoch) ag__births.trace = 0;
  if (tr->g) {
    for (int32_t k = 0; k < tr->g->n_inputs && tr->inputs; k++) ag_tensor_release(tr->inputs[k]);
    if (tr->inputs) ag__free(tr->inputs, sizeof *tr->inputs * (size_t)tr->room);
    ag__program_free(tr->g);
  }
  ag__pmap_free(&tr->tensors);
  ag__pmap_free(&tr->outside);
  ag__pmap_free(&tr->leaves);
  ag__free(tr, sizeof *tr);
}

ag_trace *ag_trace_begin(int n_inputs, ag_tensor *const *inputs) {
  if (ag__recording()) return ag__fail_null(AG_ERR_RUNTIME, "a trace is running in this thread already");
  ag_trace *tr = ag__alloc(sizeof *tr);
  if (!tr) return NULL;
  memset(tr, 0, sizeof *tr);
  tr->rec = (ag_recorder){rec_record, rec_constant, rec_read, rec_grad_read, rec_grad_write, rec_touch};
  tr->epoch = atomic_fetch_add(&epochs, 1);
  tr->g = ag__program_new();
  if (!tr->g) goto failed;
  ag_program *g = tr->g;
  tr->room = n_inputs + 1;
  tr->inputs = ag__alloc(sizeof *tr->inputs * (size_t)tr->room);
  g->inputs = ag__bump(&g->mem, sizeof *g->inputs * (size_t)n_inputs);
  if (!tr->inputs || !g->inputs) goto failed;
  for (int k = 0; k < n_inputs; k++) {
    if (!inputs[k]) {
      ag__fail(AG_ERR_TYPE, "ag_trace_begin: input %d is missing", k);
      goto failed;
    }
    ag_tensor_retain(inputs[k]);
    tr->inputs[g->n_inputs++] = inputs[k];
    int32_t *slot = ag__pmap_add(&tr->tensors, inputs[k]);
    if (!slot) goto failed;
    if (*slot == -1) *slot = -2 - k;
    bool first = known(tr, inputs[k]->arr->st) < 0;
    int32_t id = adopt(tr, inputs[k]->arr, AG_P_INPUT);
    if (id < 0 || !value_of(tr, inputs[k]->arr, &g->inputs[k].v)) goto failed;
    if (first) g->st[id].index = k;
    g->inputs[k].requires_grad = ag__requires_grad(inputs[k]);
  }
  g->grad_mode = ag__grad_on();
  g->default_dtype = ag__default_float();
  ag__births = (ag_births){tr->epoch, 0};
  ag__thread.recorder = &tr->rec;
  return tr;
failed:
  trace_free(tr);
  return NULL;
}

void ag_trace_abort(ag_trace *tr) {
  if (tr) trace_free(tr);
}

int ag_tracing(void) { return ag__recording(); }

/* ---- end ---- */

typedef struct finish {
  ag_trace *tr;
  ag_pmap made;       /* tensors that each run makes: their number */
  ag_tensor **made_t; /* the same, in order */
  int64_t n_made, cap_made;
} finish;

/* True when backward can still run from t: its graph was built here and not used up. */
static int live_graph(ag_tensor *t, bool *live) {
  ag_pmap seen = {0};
  ag_node **list = NULL;
  int64_t n = 0, cap = 0;
  int st = AG_OK;
  *live = t->fn != NULL;
  if (!t->fn) return AG_OK;
  ag_node **first = AG_PUSH(list, n, cap);
  if (!first) return AG_ERR_MEMORY;
  *first = t->fn;
  for (int64_t k = 0; k < n && *live && !st; k++) {
    ag_node *f = list[k];
    if (f->released) *live = false;
    for (uint32_t j = 0; j < f->n_in && !st; j++) {
      ag_node *next = f->in[j].node;
      if (!next || next->op == AG_OP_ACCUMULATE) continue;
      int32_t *s = ag__pmap_add(&seen, next);
      if (!s) st = AG_ERR_MEMORY;
      else if (*s < 0) {
        *s = 0;
        ag_node **slot = AG_PUSH(list, n, cap);
        if (slot) *slot = next;
        else st = AG_ERR_MEMORY;
      }
    }
  }
  AG_VEC_FREE(list, cap);
  ag__pmap_free(&seen);
  return st;
}

static int source_of(finish *f, ag_tensor *t, int32_t leaf, bool result, ag_src *out) {
  ag_trace *tr = f->tr;
  ag_program *g = tr->g;
  memset(out, 0, sizeof *out);
  out->index = -1;
  if (!t) return AG_OK;
  int32_t *slot = ag__pmap_find(&tr->tensors, t), id = known(tr, t->arr->st);
  if (slot && *slot <= -2) {
    out->kind = AG_SRC_INPUT;
    out->index = -2 - *slot;
    return AG_OK;
  }
  int kind = id >= 0 ? g->st[id].kind : AG_P_BOUND;
  if (kind == AG_P_GRAD && g->leaves[g->st[id].index].entry_t == t) {
    out->kind = AG_SRC_GRAD;
    out->index = g->st[id].index;
    return AG_OK;
  }
  /* A view or an alias of something bound is most likely made inside, anew in each run. */
  bool alias = t->base || atomic_load(&t->arr->refs) > 2;
  if (id < 0 || (slot && kind == AG_P_BOUND && !alias)) {
    out->kind = AG_SRC_BOUND;
    ag_tensor_retain(t);
    out->t = t;
    return AG_OK;
  }
  slot = ag__pmap_add(&f->made, t);
  if (!slot) return AG_ERR_MEMORY;
  if (*slot < 0) {
    bool live;
    int st = live_graph(t, &live);
    if (st) return st;
    if (live)
      return ag__fail(AG_ERR_NOT_IMPLEMENTED,
                      "a result still has a graph (no backward ran through it inside the frozen function)");
    ag_tensor **m = AG_PUSH(f->made_t, f->n_made, f->cap_made);
    ag_fresh *x = m ? AG_PUSH(g->fresh, g->n_fresh, g->cap_fresh) : NULL;
    if (!x) return AG_ERR_MEMORY;
    memset(x, 0, sizeof *x);
    *m = t;
    *slot = (int32_t)(g->n_fresh - 1);
    x->leaf = leaf;
    x->leaf_grad = t->leaf_grad && !t->fn;
    if (!value_of(tr, t->arr, &x->v)) return AG_ERR_MEMORY;
    g->st[x->v.st].visible = g->st[x->v.st].kind == AG_P_INTERNAL;
  }
  ag_fresh *x = &g->fresh[*slot];
  /* A gradient of one leaf and nothing else can be used again by the next run. */
  if (x->leaf != leaf) x->leaf = -1;
  x->result |= result;
  out->kind = AG_SRC_FRESH;
  out->index = *slot;
  return AG_OK;
}

static int sources(finish *f, int n_outputs, ag_tensor *const *outputs) {
  ag_program *g = f->tr->g;
  g->outputs = ag__bump(&g->mem, sizeof *g->outputs * (size_t)n_outputs);
  if (!g->outputs) return AG_ERR_MEMORY;
  for (int k = 0; k < n_outputs; k++) {
    if (!outputs[k]) return ag__fail(AG_ERR_TYPE, "ag_trace_end: output %d is missing", k);
    int st = source_of(f, outputs[k], -1, true, &g->outputs[k]);
    if (st) return st;
    g->n_outputs++;
  }
  for (int64_t k = 0; k < g->n_leaves; k++) {
    ag_leaf *l = &g->leaves[k];
    int32_t id = known(f->tr, l->t->arr->st);
    bool inside = id >= 0 && g->st[id].kind == AG_P_INTERNAL;
    /* Leaves that only the trace knows by now have a gradient nobody will ask for. */
    if (inside || (l->input < 0 && ag__ref_sole(&l->t->refs))) l->input = -2;
    else if (l->t->grad != l->entry_t) {
      l->change = true;
      int st = source_of(f, l->t->grad, (int32_t)k, false, &l->exit);
      if (st) return st;
    }
  }
  for (int64_t k = 0; k < g->n_fresh; k++) {
    if (!f->made_t[k]->grad) continue;
    ag_src s;
    int st = source_of(f, f->made_t[k]->grad, -1, false, &s);
    if (st) return st;
    g->fresh[k].grad = s;
  }
  return AG_OK;
}

/* Tensors made inside that somebody outside keeps, beyond the results. */
static int64_t escaped(finish *f) {
  ag_pmap bases = {0};
  int64_t expected = 0;
  uint64_t inside = f->tr->epoch;
  for (int64_t k = 0; k < f->n_made; k++) {
    expected += f->made_t[k]->born == inside;
    for (ag_tensor *b = f->made_t[k]->base; b; b = b->base) {
      if (b->born != inside || ag__pmap_find(&f->made, b)) break;
      int32_t *s = ag__pmap_add(&bases, b);
      if (!s || *s >= 0) break;
      *s = 0;
      expected++;
    }
  }
  ag__pmap_free(&bases);
  return ag__births.alive - expected;
}

/* What must be as it was: tensors from outside.  What only the trace still holds was made inside (a view of a
 * parameter, say): nobody can change it. */
static int settle_guards(ag_trace *tr) {
  ag_program *g = tr->g;
  int64_t n = 0;
  /* From the end: a view made inside holds its base, and was met after it. */
  for (int64_t k = g->n_guards - 1; k >= 0; k--) {
    ag_guard *u = &g->guards[k];
    int32_t id = known(tr, u->arr->st);
    ag_pst *s = id >= 0 ? &g->st[id] : NULL;
    bool alone = ag__ref_sole(&u->t->refs);
    if (s && s->kind == AG_P_INPUT && !alone) {
      ag_pinput *in = &g->inputs[s->index];
      if (!in->pin) {
        ag__storage_retain(u->arr->st);
        in->pin = u->arr->st;
      }
      in->pinned = true;
    }
    if (alone || (s && s->kind != AG_P_BOUND)) {
      ag_tensor_release(u->t);
      ag__array_release(u->arr);
      u->t = NULL;
    }
  }
  for (int64_t k = 0; k < g->n_guards; k++)
    if (g->guards[k].t) g->guards[n++] = g->guards[k];
  g->n_guards = n;
  for (int64_t k = 0; k < g->n_leaves; k++) {
    ag_leaf *l = &g->leaves[k];
    if (l->input != -1) continue;
    /* The leaf itself, also when only its gradient was asked for. */
    int32_t *slot = ag__pmap_find(&tr->tensors, l->t);
    if (!slot || *slot < 0) {
      ag_guard *u = AG_PUSH(g->guards, g->n_guards, g->cap_guards);
      if (!u) return AG_ERR_MEMORY;
      ag_tensor_retain(l->t);
      *u = (ag_guard){l->t, ag__array_retain(l->t->arr), ag__requires_grad(l->t)};
    }
  }
  return AG_OK;
}

/* Leaves the program does not need at run time go; what remains is renumbered. */
static void settle_leaves(finish *f, int32_t *renumber) {
  ag_program *g = f->tr->g;
  int64_t n = 0;
  for (int64_t k = 0; k < g->n_leaves; k++) {
    ag_leaf l = g->leaves[k];
    renumber[k] = -1;
    if (l.input == -2 || (!l.entry_read && !l.change)) {
      ag_tensor_release(l.t);
      ag_tensor_release(l.entry_t);
      ag_tensor_release(l.exit.t);
      continue;
    }
    /* Which tensor it was matters only where it could not be made exchangeable. */
    if (l.entry_val.st >= 0 || !l.entry_read) {
      ag_tensor_release(l.entry_t);
      l.entry_t = NULL;
    }
    if (l.input >= 0) {
      ag_tensor_release(l.t);
      l.t = NULL;
    }
    renumber[k] = (int32_t)n;
    g->leaves[n++] = l;
  }
  g->n_leaves = n;
  for (int64_t k = 0; k < g->n_st; k++)
    if (g->st[k].kind == AG_P_GRAD) g->st[k].index = renumber[g->st[k].index];
  for (int64_t k = 0; k < g->n_fresh; k++) {
    ag_fresh *x = &g->fresh[k];
    if (x->leaf >= 0) x->leaf = renumber[x->leaf];
    if (x->grad.kind == AG_SRC_GRAD) x->grad.index = renumber[x->grad.index];
  }
  for (int32_t k = 0; k < g->n_outputs; k++)
    if (g->outputs[k].kind == AG_SRC_GRAD) g->outputs[k].index = renumber[g->outputs[k].index];
  for (int64_t k = 0; k < g->n_leaves; k++)
    if (g->leaves[k].exit.kind == AG_SRC_GRAD) g->leaves[k].exit.index = renumber[g->leaves[k].exit.index];
}

ag_program *ag__trace_finish(ag_trace *tr, int n_outputs, ag_tensor *const *outputs, bool strict) {
  ag_program *g = tr->g;
  finish f = {tr, {0}, NULL, 0, 0};
  int32_t *renumber = NULL;
  size_t room = sizeof *renumber * (size_t)(g->n_leaves + 1);
  if (ag__thread.recorder != &tr->rec) {
    ag__fail(AG_ERR_RUNTIME, "this trace is not the one that runs in this thread");
    trace_free(tr);
    return NULL;
  }
  ag__thread.recorder = NULL;
  int st = tr->failed ? ag__fail(AG_ERR_MEMORY, "out of memory while tracing: the trace is not complete") : AG_OK;
  if (!st) st = sources(&f, n_outputs, outputs);
  if (!st) st = settle_guards(tr);
  if (!st && !(renumber = ag__alloc(room))) st = AG_ERR_MEMORY;
  if (!st) settle_leaves(&f, renumber);
  if (!st && strict) {
    int64_t n = escaped(&f);
    if (n > 0)
      st = ag__fail(AG_ERR_NOT_IMPLEMENTED,
                    "%lld tensor%s made inside the frozen function %s kept by something else than its results (an attribute, a "
                    "list, optimizer state): replay would not renew %s",
                    (long long)n, n > 1 ? "s" : "", n > 1 ? "are" : "is", n > 1 ? "them" : "it");
  }
  if (renumber) ag__free(renumber, room);
  ag__pmap_free(&f.made);
  AG_VEC_FREE(f.made_t, f.cap_made);
  if (st) {
    trace_free(tr);
    return NULL;
  }
  /* Inputs and gradients are found anew at each run; only what is bound stays held. */
  for (int64_t k = 0; k < g->n_st; k++)
    if (g->st[k].st && (g->st[k].kind == AG_P_INPUT || g->st[k].kind == AG_P_GRAD)) {
      ag_storage_release(g->st[k].st);
      g->st[k].st = NULL;
    }
  tr->g = NULL;
  for (int32_t k = 0; k < g->n_inputs; k++) ag_tensor_release(tr->inputs[k]);
  ag__free(tr->inputs, sizeof *tr->inputs * (size_t)tr->room);
  trace_free(tr);
  return g;
}
