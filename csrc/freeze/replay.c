#include "freeze/plan.h"

#include "ops/exec.h"
#include "ops/par.h"

#include <stdio.h>

/* Elements from which a run lets the host language's other threads go on meanwhile. */
enum { LONG_WORK = 1 << 17 };

/* ---- steps ---- */

static void fill(char *out, const char *x, int size, int64_t n) {
  if (size == 4) {
    uint32_t v, *b = (uint32_t *)(void *)out;
    memcpy(&v, x, 4);
    for (int64_t k = 0; k < n; k++) b[k] = v;
  } else if (size == 8) {
    uint64_t v, *b = (uint64_t *)(void *)out;
    memcpy(&v, x, 8);
    for (int64_t k = 0; k < n; k++) b[k] = v;
  } else {
    memset(out, *x, (size_t)n);
  }
}

static void tile(char *out, const char *x, int size, int64_t period, int64_t n) {
  int64_t done = period < n ? period : n;
  memcpy(out, x, (size_t)(done * size));
  /* Doubles what is there: few calls also for short rows. */
  while (done < n) {
    int64_t m = done < n - done ? done : n - done;
    memcpy(out + done * size, out, (size_t)(m * size));
    done += m;
  }
}

static void runs(char *out, const char *x, int size, const ag_spread *q, int64_t start, int64_t n) {
  int64_t k = start / q->period, left = q->period - start % q->period;
  k %= q->distinct;
  while (n > 0) {
    int64_t m = left < n ? left : n;
    fill(out, x + k * size, size, m);
    out += m * size;
    n -= m;
    left = q->period;
    if (++k == q->distinct) k = 0;
  }
}

static inline void simple_step(const ag_step *s, char *out, const char *a, const char *b, const char *c, int64_t start, int64_t n) {
  switch (s->kind) {
    case AG_STEP_EW: s->f.ew(n, out, a, b, c, s->p); break;
    case AG_STEP_CAST: s->f.cast(n, out, a); break;
    case AG_STEP_COPY:
      if (out != a) memcpy(out, a, (size_t)(n * s->size));
      break;
    case AG_STEP_FILL: fill(out, a, s->size, n); break;
    case AG_STEP_TILE: tile(out, a, s->size, s->f.spread->period, n); break;
    case AG_STEP_RUNS: runs(out, a, s->size, s->f.spread, start, n); break;
    default: ag__k->pack(s->f.spread->ndim, s->f.spread->shape, s->f.spread->strides, start, n, out, a, s->size); break;
  }
}

/* A loop as a task over its blocks.  A thread of the pool has blocks of its own for what stays in the cache: all
 * pointers into the plan's scratch move by its distance from there. */
typedef struct loop_run {
  const ag_plan *p;
  const ag_loop *l;
} loop_run;

static char *moved(const ag_plan *p, const char *x, int64_t by) {
  uintptr_t at = (uintptr_t)x - (uintptr_t)p->scratch;
  return (char *)(uintptr_t)x + (at < (uintptr_t)p->scratch_bytes ? by : 0);
}

static int loop_blocks(void *ctx, int slot, int64_t from, int64_t to) {
  const loop_run *r = ctx;
  const ag_loop *l = r->l;
  int64_t by = slot ? r->p->more + (slot - 1) * r->p->scratch_bytes - r->p->scratch : 0, end = to * l->block;
  if (end > l->numel) end = l->numel;
  for (int32_t k = 0; k < l->n_pro; k++)
    simple_step(&l->pro[k], moved(r->p, l->pro[k].out, by), l->pro[k].in[0], NULL, NULL, 0, l->block);
  for (int64_t start = from * l->block; start < end; start += l->block) {
    int64_t n = end - start < l->block ? end - start : l->block;
    for (int32_t k = 0; k < l->n_steps; k++) {
      const ag_step *s = &l->steps[k];
      const uint8_t *inc = l->inc[k];
      char *out = s->out + start * inc[0];
      const char *in[3];
      for (int j = 0; j < 3; j++) in[j] = s->in[j] ? s->in[j] + start * inc[1 + j] : NULL;
      if (by) {
        if (!inc[0]) out = moved(r->p, out, by);
        for (int j = 0; j < 3; j++)
          if (!inc[1 + j]) in[j] = moved(r->p, in[j], by);
      }
      simple_step(s, out, in[0], in[1], in[2], start, n);
    }
  }
  return AG_OK;
}

static void run_loop(ag_plan *p, const ag_loop *l) {
  void *token = l->numel * l->n_steps >= LONG_WORK ? ag__blocking_begin() : NULL;
  loop_run r = {p, l};
  int64_t n = (l->numel + l->block - 1) / l->block, grain = (ag__grain(4, l->cost) + l->block - 1) / l->block;
  int width = ag__worth(n, grain) ? ag__parallel_width(n, grain) : 1;
  int64_t room = (width - 1) * p->scratch_bytes;
  if (room > p->more_bytes) {
    if (p->more) ag__free(p->more, (size_t)p->more_bytes);
    p->more = ag__alloc((size_t)room);
    p->more_bytes = p->more ? room : 0;
    if (!p->more) width = 1; /* alone, then */
  }
  if (width == 1) loop_blocks(&r, 0, 0, n);
  else ag__parallel_run(n, grain, width, loop_blocks, &r);
  ag__blocking_end(token);
}

/* One kernel over whole operands. */
static int step_part(void *ctx, int slot, int64_t from, int64_t to) {
  const ag_step *s = ctx;
  const char *in[3];
  (void)slot;
  for (int j = 0; j < 3; j++) in[j] = s->in[j] ? s->in[j] + from * s->in_size[j] : NULL;
  simple_step(s, s->out + from * s->size, in[0], in[1], in[2], from, to - from);
  return AG_OK;
}

static void run_large(const ag_step *s) {
  void *token = s->n >= LONG_WORK ? ag__blocking_begin() : NULL;
  ag__parallel(s->n, s->grain, step_part, (void *)(uintptr_t)s);
  ag__blocking_end(token);
}

static int failed_at(const ag_plan *p, const ag_step *s, int st) {
  char site[300];
  const ag_ins *i = &p->g->ins[s->ins];
  ag__site_text(i->site, site, sizeof site);
  ag__fail_append(" [in a frozen plan: %s%s%s]", ag__ins_row(i)->name, site[0] ? ", traced at " : "", site);
  return st;
}

static int run_code(ag_plan *p) {
  const ag_step *s = p->code, *end = s + p->n_code;
  for (; s < end; s++) {
    switch (s->kind) {
      case AG_STEP_EW:
        if (AG_LIKELY(!s->grain)) s->f.ew(s->n, s->out, s->in[0], s->in[1], s->in[2], s->p);
        else run_large(s);
        break;
      case AG_STEP_EXEC: {
        int st = ag__exec(s->f.exec);
        if (AG_UNLIKELY(st)) return failed_at(p, s, st);
        break;
      }
      case AG_STEP_LOOP: run_loop(p, s->f.loop); break;
      default:
        if (AG_LIKELY(!s->grain)) simple_step(s, s->out, s->in[0], s->in[1], s->in[2], 0, s->n);
        else run_large(s);
        break;
    }
  }
  return AG_OK;
}

/* ---- is everything as it was? ---- */

static int changed(const ag_geo *q, const char *what, const char *how) {
  char b[200];
  return ag__fail(AG_ERR_RETRACE, "%s %s%s %s since the plan was traced", what, ag_dtype_name(q->dtype),
                  ag__shape_text(q->ndim, ag__geo_shape(q), b, sizeof b), how);
}

static int guard_failed(const ag_guard *u) {
  char b[200];
  const ag_array *a = u->arr;
  return ag__fail(AG_ERR_RETRACE, "a captured tensor %s%s %s since the plan was traced", ag_dtype_name(a->dtype),
                  ag__shape_text(a->ndim, ag__shape(a), b, sizeof b),
                  u->t->arr != a ? "has other memory or another shape (x.data = ...)" : "changed its requires_grad");
}

static bool like(const ag_array *a, const ag_geo *q) {
  return a->dtype == q->dtype && ag__same_shape(a->ndim, ag__shape(a), q->ndim, ag__geo_shape(q)) &&
         (a->contiguous ? q->contiguous : memcmp(ag__strides(a), ag__geo_strides(q), sizeof(int64_t) * a->ndim) == 0);
}

static int check_inputs(const ag_plan *p, ag_tensor *const *in) {
  const ag_program *g = p->g;
  for (int32_t k = 0; k < g->n_inputs; k++) {
    const ag_pinput *q = &g->inputs[k];
    if (AG_UNLIKELY(!in[k])) return ag__fail(AG_ERR_TYPE, "ag_plan_run: input %d is missing", k);
    const ag_array *a = in[k]->arr;
    if (AG_UNLIKELY(!like(a, q->v.geo))) return changed(q->v.geo, "input", "came with another type, shape or strides");
    if (AG_UNLIKELY(ag__requires_grad(in[k]) != q->requires_grad)) return changed(q->v.geo, "input", "changed its requires_grad");
    if (AG_UNLIKELY(q->pinned && q->pin != a->st))
      return changed(q->v.geo, "input", "shares memory with a captured tensor and is another one");
    /* Inputs of one memory stay so, at the same distance; different ones stay apart where it matters. */
    int32_t first = g->st[q->v.st].index;
    if (first != k && (in[first]->arr->st != a->st ||
                       a->offset - q->v.offset != in[first]->arr->offset - g->inputs[first].v.offset))
      return changed(q->v.geo, "input", "no longer shares its memory with another input");
    if (first == k && p->inputs_written)
      for (int32_t j = 0; j < k; j++)
        if (in[j]->arr->st == a->st && g->inputs[j].v.st != q->v.st) return changed(q->v.geo, "input", "shares its memory with another input");
    if (!q->pinned)
      for (int64_t j = 0; j < p->n_written; j++)
        if (p->written[j].st == a->st) return changed(q->v.geo, "input", "is a tensor that the plan writes to");
    if (p->inputs_written && !q->pinned)
      for (int64_t j = 0; j < g->n_st; j++)
        if (g->st[j].kind == AG_P_BOUND && g->st[j].st == a->st) return changed(q->v.geo, "input", "is also a captured tensor");
  }
  return AG_OK;
}

static int check_leaves(ag_plan *p, ag_tensor *const *in) {
  const ag_program *g = p->g;
  for (int64_t k = 0; k < g->n_leaves; k++) {
    const ag_leaf *l = &g->leaves[k];
    ag_tensor *t = l->input >= 0 ? in[l->input] : l->t, *e = t->grad;
    p->entry[k] = e;
    if (!l->entry_read) continue;
    if (AG_UNLIKELY(!l->entry != !e)) return ag__fail(AG_ERR_RETRACE, "the .grad of a tensor was %s when the plan was traced, now it is %s",
                                                      l->entry ? "a tensor" : "None", e ? "a tensor" : "None");
    if (!e) continue;
    if (l->entry_val.st < 0) {
      if (e != l->entry_t) return ag__fail(AG_ERR_RETRACE, "the .grad of a tensor is another tensor than when the plan was traced");
    } else if (!like(e->arr, l->entry_val.geo) || !ag__ref_sole(&e->arr->refs) || !ag__ref_sole(&e->arr->st->refs)) {
      return ag__fail(AG_ERR_RETRACE, "the .grad of a tensor is laid out or shared otherwise than when the plan was traced");
    }
  }
  return AG_OK;
}

static int check(ag_plan *p, ag_tensor *const *in) {
  const ag_program *g = p->g;
  if (AG_UNLIKELY(g->grad_mode != ag__grad_on())) return ag__fail(AG_ERR_RETRACE, "grad mode is not what it was when the plan was traced");
  if (AG_UNLIKELY(g->default_dtype != ag__default_float()))
    return ag__fail(AG_ERR_RETRACE, "the default dtype is not what it was when the plan was traced");
  for (const ag_guard *u = g->guards, *end = u + g->n_guards; u < end; u++)
    if (AG_UNLIKELY(u->t->arr != u->arr || ag__requires_grad(u->t) != u->requires_grad)) return guard_failed(u);
  int st = g->n_inputs ? check_inputs(p, in) : AG_OK;
  return st ? st : check_leaves(p, in);
}

/* ---- memory of this run ---- */

static void point(ag_plan *p, int32_t var, char *base) {
  ag_var *v = &p->vars[var];
  if (v->base == base) return;
  v->base = base;
  for (const ag_patch *q = p->patches + v->first, *end = q + v->n; q < end; q++) *q->slot = base + q->off;
}

/* How far a tensor of this run lies from where it lay in its storage when traced. */
static int64_t shift_of(const ag_array *a, const ag_val *v) { return (a->offset - v->offset) * ag__dtype_size(a->dtype); }

/* The gradient of the latest run, when nobody but its leaf has seen it. */
static bool reusable(const ag_plan *p, int64_t k) {
  ag_tensor *t = p->kept[k];
  const ag_leaf *l = &p->g->leaves[p->g->fresh[k].leaf];
  if (l->input >= 0) return false;
  int32_t holders = 1 + (l->t->grad == t);
  return atomic_load_explicit(&t->refs, memory_order_acquire) == holders && ag__ref_sole(&t->arr->refs) &&
         ag__ref_sole(&t->arr->st->refs) && !t->fn && !t->acc && !t->grad && !t->base && !t->leaf_grad &&
         t->arr->offset == 0 && like(t->arr, p->g->fresh[k].v.geo);
}

/* Leaves whose old gradient the program reads get a new one: both live at the same time. */
static bool may_keep(const ag_plan *p, int64_t k) {
  const ag_fresh *x = &p->g->fresh[k];
  return x->leaf >= 0 && !x->result && !p->g->leaves[x->leaf].entry && !x->grad.kind && p->g->st[x->v.st].kind == AG_P_INTERNAL &&
         ag__val_whole(p->g, &x->v) && !x->leaf_grad;
}

static int make_fresh(ag_plan *p, int64_t k, ag_tensor *const *in) {
  const ag_program *g = p->g;
  const ag_fresh *x = &g->fresh[k];
  const ag_pst *s = &g->st[x->v.st];
  const ag_geo *q = x->v.geo;
  int32_t var = p->var_of[k];
  ag_array *a;
  if (p->kept[k] && reusable(p, k)) {
    p->made[k] = p->kept[k];
    ag_tensor_retain(p->made[k]);
    p->made[k]->arr->st->version++;
    point(p, var, p->made[k]->arr->st->data);
    return AG_OK;
  }
  if (s->kind == AG_P_INTERNAL && p->vars[var].users == 1 && ag__val_whole(g, &x->v)) {
    a = ag__array_new(q->dtype, q->ndim, ag__geo_shape(q));
    if (a) point(p, var, a->st->data);
  } else {
    ag_storage *st;
    int64_t shift = 0;
    if (s->kind == AG_P_INTERNAL) {
      if (!p->memory[var]) {
        p->memory[var] = ag__storage_new((size_t)s->nbytes);
        if (!p->memory[var]) return AG_ERR_MEMORY;
        point(p, var, p->memory[var]->data);
      }
      st = p->memory[var];
    } else if (s->kind == AG_P_INPUT) {
      const ag_array *from = in[s->index]->arr;
      st = from->st;
      shift = from->offset - g->inputs[s->index].v.offset;
    } else if (s->kind == AG_P_GRAD) {
      st = p->entry[s->index]->arr->st;
      shift = p->entry[s->index]->arr->offset - g->leaves[s->index].entry_val.offset;
    } else {
      st = s->st;
    }
    a = ag__array_view(st, q->dtype, q->ndim, ag__geo_shape(q), ag__geo_strides(q), x->v.offset + shift);
  }
  p->made[k] = ag__tensor_wrap(a);
  if (!p->made[k]) return AG_ERR_MEMORY;
  p->made[k]->leaf_grad = x->leaf_grad;
  return AG_OK;
}

static void drop_run(ag_plan *p) {
  for (int64_t k = 0; k < p->g->n_fresh; k++) {
    ag_tensor_release(p->made[k]);
    p->made[k] = NULL;
  }
  for (int32_t k = 0; k < p->n_vars; k++)
    if (p->memory[k]) {
      ag_storage_release(p->memory[k]);
      p->memory[k] = NULL;
    }
}

static int set_memory(ag_plan *p, ag_tensor *const *in) {
  const ag_program *g = p->g;
  for (int32_t k = 0; k < p->n_vars; k++) {
    const ag_pst *s = &g->st[p->vars[k].st];
    if (s->kind == AG_P_INPUT) {
      const ag_array *a = in[s->index]->arr;
      point(p, k, a->st->data + shift_of(a, &g->inputs[s->index].v));
    } else if (s->kind == AG_P_GRAD) {
      const ag_array *a = p->entry[s->index]->arr;
      point(p, k, a->st->data + shift_of(a, &g->leaves[s->index].entry_val));
    }
  }
  for (int64_t k = 0; k < g->n_fresh; k++) {
    int st = make_fresh(p, k, in);
    if (st) return st;
  }
  return AG_OK;
}

/* ---- results ---- */

/* The tensor a source stands for, borrowed. */
static ag_tensor *source(const ag_plan *p, const ag_src *s, ag_tensor *const *in) {
  switch (s->kind) {
    case AG_SRC_INPUT: return in[s->index];
    case AG_SRC_GRAD: return p->entry[s->index];
    case AG_SRC_BOUND: return s->t;
    case AG_SRC_FRESH: return p->made[s->index];
    default: return NULL;
  }
}

static void bump(ag_storage *s, uint32_t writes) { s->version += writes; }

/* Counts the versions of what the program writes. */
static void written(ag_plan *p, ag_tensor *const *in) {
  const ag_program *g = p->g;
  for (int64_t k = 0; k < p->n_written; k++) bump(p->written[k].st, p->written[k].writes);
  for (int32_t k = 0; k < p->n_vars; k++) {
    const ag_pst *s = &g->st[p->vars[k].st];
    if (!p->vars[k].writes || s->kind == AG_P_INTERNAL) continue;
    bump((s->kind == AG_P_INPUT ? in[s->index] : p->entry[s->index])->arr->st, p->vars[k].writes);
  }
}

static void results(ag_plan *p, ag_tensor *const *in, ag_tensor **outs) {
  const ag_program *g = p->g;
  written(p, in);
  for (int32_t k = 0; k < g->n_outputs; k++) {
    outs[k] = source(p, &g->outputs[k], in);
    ag_tensor_retain(outs[k]);
  }
  for (int64_t k = 0; k < g->n_fresh; k++)
    if (g->fresh[k].grad.kind) {
      ag_tensor *e = source(p, &g->fresh[k].grad, in);
      if (e) ag_tensor_retain(e);
      p->made[k]->grad = e;
    }
  /* The gradients the leaves had may be the exits of others: all new ones first, then the old ones go. */
  for (int64_t k = 0; k < g->n_leaves; k++) {
    const ag_leaf *l = &g->leaves[k];
    if (!l->change) continue;
    ag_tensor *e = source(p, &l->exit, in);
    if (e) ag_tensor_retain(e);
    (l->input >= 0 ? in[l->input] : l->t)->grad = e;
  }
  for (int64_t k = 0; k < g->n_leaves; k++)
    if (g->leaves[k].change) ag_tensor_release(p->entry[k]);
  for (int64_t k = 0; k < g->n_fresh; k++)
    if (p->made[k] != p->kept[k] && p->keeps[k]) {
      ag_tensor_release(p->kept[k]);
      p->kept[k] = p->made[k];
      p->made[k] = NULL;
    }
}

bool ag__plan_may_keep(const ag_plan *p, int64_t k) { return may_keep(p, k); }

int ag_plan_run(ag_plan *p, int n_inputs, ag_tensor *const *inputs, ag_tensor **outs) {
  if (AG_UNLIKELY(n_inputs != p->g->n_inputs))
    return ag__fail(AG_ERR_TYPE, "the plan takes %d inputs but got %d", p->g->n_inputs, n_inputs);
  if (AG_UNLIKELY(ag__recording())) return ag__fail(AG_ERR_RUNTIME, "a frozen plan cannot run while this thread traces");
  if (AG_UNLIKELY(atomic_flag_test_and_set_explicit(&p->lock, memory_order_acquire))) {
    /* Another thread runs it, perhaps waiting for the host language's lock that this one holds. */
    void *token = ag__blocking_begin();
    ag__lock(&p->lock);
    ag__blocking_end(token);
  }
  int st = check(p, inputs);
  if (AG_LIKELY(!st)) {
    st = set_memory(p, inputs);
    if (AG_LIKELY(!st)) st = run_code(p);
    if (AG_LIKELY(!st)) results(p, inputs, outs);
    else written(p, inputs); /* some of it, perhaps */
    drop_run(p);
    ag__cnt.replays++;
    p->info.replays++;
  }
  ag__unlock(&p->lock);
  return st;
}
