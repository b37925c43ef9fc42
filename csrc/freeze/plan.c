#include "freeze/plan.h"

#include "freeze/trace.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- addresses ---- */

bool ag__plan_address(const ag_plan *p, const ag_val *v, char **out) {
  const ag_life *l = &p->life[v->st];
  int64_t off = v->offset * ag__dtype_size(v->geo->dtype);
  if (l->home == AG_HOME_FIXED) *out = p->g->st[v->st].st->data + off;
  else if (l->home == AG_HOME_ARENA) *out = p->arena + l->at + off;
  else return false;
  return true;
}

int ag__plan_bind(ag_plan *p, const ag_val *v, char **slot, int64_t code, size_t field) {
  char **where = slot ? slot : (char **)(void *)((char *)&p->code[code] + field);
  if (ag__plan_address(p, v, where)) return AG_OK;
  if (p->life[v->st].home != AG_HOME_VAR) return ag__fail(AG_ERR_RUNTIME, "internal: storage %d of a plan has no home", v->st);
  ag_patch *q = AG_PUSH(p->patches, p->n_patches, p->cap_patches);
  if (!q) return AG_ERR_MEMORY;
  *q = (ag_patch){slot, v->offset * ag__dtype_size(v->geo->dtype), code, p->life[v->st].var, (uint32_t)field};
  return AG_OK;
}

/* ---- the other instructions ---- */

static int raw_for(ag_plan *p, const ag_val *v, ag_raw *r) {
  const ag_geo *q = v->geo;
  *r = (ag_raw){NULL, ag__geo_shape(q), ag__geo_strides(q), q->numel, q->dtype, q->ndim, q->contiguous};
  return ag__plan_bind(p, v, &r->data, -1, 0);
}

static int add_exec(ag_plan *p, int32_t number) {
  const ag_ins *i = &p->g->ins[number];
  ag_exec *x = ag__bump(&p->mem, sizeof *x);
  ag_raw *raw = ag__bump(&p->mem, sizeof *raw * (i->n_in + i->n_out));
  ag_step *s = AG_PUSH(p->code, p->n_code, p->cap_code);
  if (!x || !raw || !s) return AG_ERR_MEMORY;
  *x = (ag_exec){ag__ins_row(i), (int)i->n_in, i->n_out, raw, raw + i->n_in, i->p};
  memset(s, 0, sizeof *s);
  s->kind = AG_STEP_EXEC;
  s->ins = number;
  s->f.exec = x;
  int st = AG_OK;
  for (uint32_t k = 0; k < i->n_in && !st; k++) st = raw_for(p, &i->in[k], &raw[k]);
  for (int k = 0; k < i->n_out && !st; k++) st = raw_for(p, &i->out[k], &raw[i->n_in + (uint32_t)k]);
  return st;
}

static int add_code(ag_plan *p) {
  const ag_program *g = p->g;
  int st = AG_OK;
  for (int64_t k = 0; k < g->n_units && !st; k++) {
    const ag_unit *u = &g->units[k];
    if (u->ew) st = ag__plan_loop(p, u);
    else if (p->scratch) st = add_exec(p, g->members[u->first]);
  }
  return st;
}

/* ---- memories that change from run to run ---- */

static int add_vars(ag_plan *p) {
  const ag_program *g = p->g;
  int32_t n = 0;
  for (int64_t k = 0; k < g->n_st; k++) n += p->life[k].home == AG_HOME_VAR;
  p->vars = ag__bump(&p->mem, sizeof *p->vars * (size_t)(n + 1));
  p->memory = ag__bump(&p->mem, sizeof *p->memory * (size_t)(n + 1));
  p->kept = ag__bump(&p->mem, sizeof *p->kept * (size_t)(g->n_fresh + 1));
  p->made = ag__bump(&p->mem, sizeof *p->made * (size_t)(g->n_fresh + 1));
  p->entry = ag__bump(&p->mem, sizeof *p->entry * (size_t)(g->n_leaves + 1));
  p->keeps = ag__bump(&p->mem, sizeof *p->keeps * (size_t)(g->n_fresh + 1));
  p->var_of = ag__bump(&p->mem, sizeof *p->var_of * (size_t)(g->n_fresh + 1));
  p->written = ag__bump(&p->mem, sizeof *p->written * (size_t)(g->n_st + 1));
  if (!p->vars || !p->memory || !p->kept || !p->made || !p->entry || !p->keeps || !p->var_of || !p->written) return AG_ERR_MEMORY;
  for (int32_t k = 0; k < g->n_st; k++) {
    const ag_pst *s = &g->st[k];
    if (s->kind == AG_P_INPUT && s->writes) p->inputs_written = true;
    if (s->kind == AG_P_BOUND && s->writes) p->written[p->n_written++] = (struct ag_written){s->st, s->writes};
    if (p->life[k].home != AG_HOME_VAR) continue;
    p->life[k].var = p->n_vars;
    p->vars[p->n_vars++] = (ag_var){.st = k, .writes = s->writes};
  }
  for (int64_t k = 0; k < g->n_fresh; k++) {
    int32_t var = p->life[g->fresh[k].v.st].var;
    if (var >= 0 && g->st[g->fresh[k].v.st].kind == AG_P_INTERNAL) p->vars[var].users++;
    p->var_of[k] = var;
  }
  for (int64_t k = 0; k < g->n_fresh; k++) p->keeps[k] = p->var_of[k] >= 0 && p->vars[p->var_of[k]].users == 1 && ag__plan_may_keep(p, k);
  return AG_OK;
}

/* Patches sorted by the memory they wait for, places resolved. */
static int settle_patches(ag_plan *p) {
  ag_patch *sorted = ag__bump(&p->mem, sizeof *sorted * (size_t)(p->n_patches + 1));
  if (!sorted) return AG_ERR_MEMORY;
  for (int64_t k = 0; k < p->n_patches; k++) p->vars[p->patches[k].var].n++;
  int32_t at = 0;
  for (int32_t k = 0; k < p->n_vars; k++) {
    p->vars[k].first = at;
    at += p->vars[k].n;
    p->vars[k].n = 0;
  }
  for (int64_t k = 0; k < p->n_patches; k++) {
    ag_patch q = p->patches[k];
    if (!q.slot) q.slot = (char **)(void *)((char *)&p->code[q.code] + q.field);
    ag_var *v = &p->vars[q.var];
    sorted[v->first + v->n++] = q;
  }
  AG_VEC_FREE(p->patches, p->cap_patches);
  p->patches = sorted;
  p->cap_patches = 0;
  return AG_OK;
}

/* ---- facts ---- */

static int64_t flops_of(const ag_ins *i) {
  int64_t out = i->out[0].geo->numel, most = out;
  switch (i->op) {
    case AG_OP_mm:
    case AG_OP_mv:
    case AG_OP_dot:
    case AG_OP_bmm:
    case AG_OP_addmm: {
      const ag_geo *a = i->in[i->op == AG_OP_addmm ? 1 : 0].geo;
      return 2 * out * ag__geo_shape(a)[a->ndim - 1];
    }
    case AG_OP_convolution: {
      const ag_geo *w = i->in[1].geo;
      return ag__geo_shape(w)[0] ? 2 * out * (w->numel / ag__geo_shape(w)[0]) : 0;
    }
    case AG_OP_clone:
    case AG_OP_copy:
    case AG_OP_fill:
    case AG_OP_full: return 0;
    default:
      for (uint32_t k = 0; k < i->n_in; k++)
        if (i->in[k].geo->numel > most) most = i->in[k].geo->numel;
      return most;
  }
}

static void facts(ag_plan *p) {
  const ag_program *g = p->g;
  ag_plan_info *f = &p->info;
  f->traced = g->traced;
  f->removed_dead = g->removed_dead;
  f->removed_cse = g->removed_cse;
  f->folded = g->folded;
  f->in_place = g->in_place;
  f->arena_bytes = p->arena_bytes;
  f->lower_bound_bytes = p->lower_bound;
  f->inputs = g->n_inputs;
  f->outputs = g->n_outputs;
  for (int64_t k = 0; k < g->n_st; k++) f->bound += g->st[k].kind == AG_P_BOUND && p->life[k].first >= 0;
  for (int64_t k = 0; k < p->n_code; k++)
    f->kernels_per_run += p->code[k].kind == AG_STEP_LOOP ? p->code[k].f.loop->n_pro + p->code[k].f.loop->n_steps : 1;
  for (int64_t u = 0; u < g->n_units; u++) {
    f->instructions += g->units[u].n;
    if (g->units[u].n > 1) {
      f->fused_groups++;
      f->fused_ops += g->units[u].n;
    }
    for (int32_t k = 0; k < g->units[u].n; k++) {
      const ag_ins *i = &g->ins[g->members[g->units[u].first + k]];
      f->flops += flops_of(i);
      for (uint32_t j = ag__ins_first_read(i); j < i->n_in; j++)
        if (p->life[i->in[j].st].home != AG_HOME_REGISTER) f->bytes_moved += i->in[j].geo->uniform ? 0 : ag__val_bytes(&i->in[j]);
      for (int j = 0; j < i->n_written; j++)
        if (p->life[i->out[j].st].home != AG_HOME_REGISTER) f->bytes_moved += ag__val_bytes(&i->out[j]);
    }
  }
}

/* ---- the build ---- */

static bool verifying(void) {
#ifdef NDEBUG
  const char *e = getenv("AUTOGRAD_C_VERIFY");
  return e && e[0] == '1';
#else
  return true;
#endif
}

static int run_passes(ag_program *g, uint64_t off) {
  bool v = verifying();
  int st = v ? ag__program_verify(g, "trace") : AG_OK;
  if (!st) st = ag__pass_simplify(g, off);
  if (!st && v) st = ag__program_verify(g, "fold, copies, cse");
  if (!st && !(off >> AG_PASS_dce & 1)) st = ag__pass_dce(g);
  if (!st && v) st = ag__program_verify(g, "dce");
  if (!st) st = ag__pass_fuse(g, !(off >> AG_PASS_fuse & 1));
  if (!st && v) st = ag__program_verify(g, "fuse");
  if (!st && !(off >> AG_PASS_combine & 1)) st = ag__pass_combine(g);
  if (!st && v) st = ag__program_verify(g, "combine");
  return st;
}

static void build_free(ag_plan *p) {
  if (p->life) ag__free(p->life, sizeof *p->life * (size_t)(p->g->n_st + 1));
  p->life = NULL;
  AG_VEC_FREE(p->tiles, p->cap_tiles);
  p->tiles = NULL;
  p->cap_tiles = p->n_tiles = 0;
  ag__pmap_free(&p->tile_of);
}

ag_plan *ag__plan_new(ag_program *g, uint64_t off) {
  ag_plan *p = ag__alloc(sizeof *p);
  if (!p) {
    ag__program_free(g);
    return NULL;
  }
  memset(p, 0, sizeof *p);
  atomic_init(&p->refs, 1);
  atomic_flag_clear(&p->lock);
  p->g = g;
  int st = run_passes(g, off);
  if (!st) {
    p->life = ag__alloc(sizeof *p->life * (size_t)(g->n_st + 1));
    if (!p->life) st = AG_ERR_MEMORY;
  }
  if (!st) st = ag__plan_memory(p, !(off >> AG_PASS_inplace & 1), !(off >> AG_PASS_arena & 1));
  if (!st) st = add_vars(p);
  if (!st && p->arena_bytes && !(p->arena = ag__alloc((size_t)p->arena_bytes))) st = AG_ERR_MEMORY;
  /* Twice over the units: once for the size of the loops' blocks, once for the code. */
  if (!st) st = add_code(p);
  if (!st) {
    p->scratch_bytes = (p->scratch_bytes + 127) & ~(int64_t)63;
    p->scratch = ag__alloc((size_t)p->scratch_bytes);
    if (!p->scratch) st = AG_ERR_MEMORY;
  }
  if (!st) st = add_code(p);
  if (!st) st = settle_patches(p);
  if (!st) facts(p);
  build_free(p);
  if (st) {
    ag_plan_release(p);
    return NULL;
  }
  return p;
}

void ag_plan_retain(ag_plan *p) { ag__ref(&p->refs); }

void ag_plan_release(ag_plan *p) {
  if (!p || !ag__unref(&p->refs)) return;
  build_free(p);
  for (int64_t k = 0; p->kept && k < p->g->n_fresh; k++) ag_tensor_release(p->kept[k]);
  if (p->cap_patches) AG_VEC_FREE(p->patches, p->cap_patches);
  AG_VEC_FREE(p->code, p->cap_code);
  if (p->arena) ag__free(p->arena, (size_t)p->arena_bytes);
  if (p->scratch) ag__free(p->scratch, (size_t)p->scratch_bytes);
  if (p->more) ag__free(p->more, (size_t)p->more_bytes);
  ag__program_free(p->g);
  ag__bump_free(&p->mem);
  ag__free(p, sizeof *p);
}

ag_plan *ag_trace_end(ag_trace *tr, int n_outputs, ag_tensor *const *outputs, uint64_t flags) {
  if (!tr) return ag__fail_null(AG_ERR_TYPE, "ag_trace_end: there is no trace");
  ag_program *g = ag__trace_finish(tr, n_outputs, outputs, (flags & AG_TRACE_STRICT) != 0);
  return g ? ag__plan_new(g, flags & ~AG_TRACE_STRICT) : NULL;
}

/* ---- asking ---- */

int ag_plan_n_inputs(const ag_plan *p) { return p->g->n_inputs; }
int ag_plan_n_outputs(const ag_plan *p) { return p->g->n_outputs; }
void ag_plan_get_info(const ag_plan *p, ag_plan_info *out) { *out = p->info; }
char *ag_plan_text(const ag_plan *p) { return ag__program_text(p->g); }
void ag_free(void *text) { free(text); }

static const char *const pass_names[AG_PASS_COUNT] = {"fold", "copies", "cse", "dce", "fuse", "combine", "inplace", "arena"};
int ag_pass_count(void) { return AG_PASS_COUNT; }
const char *ag_pass_name(int k) { return k >= 0 && k < AG_PASS_COUNT ? pass_names[k] : NULL; }
