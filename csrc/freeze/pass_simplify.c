#include "freeze/program.h"

#include "ops/exec.h"

/* One walk forward over the program does three passes at once, because each feeds the others:
 *
 *   fold    instructions on constants made inside are computed now; x*1, x/1, x-0 are x.  Bound tensors are
 *           live and never folded.  A constant of one repeated value is kept as one element with strides 0.
 *   copies  clone(x) is x while neither is written to afterwards; where the copy is a result, x is computed
 *           straight into its memory.
 *   cse     the same op on the same values is the earlier one.
 *
 * What an instruction made is then read from elsewhere; the instruction itself goes with dead code. */

enum { FOLD_MAX = 1 << 16 }; /* bytes of a folded result */

typedef struct simplify {
  ag_program *g;
  ag_val *instead;   /* per storage: read from here, st -1: from itself */
  int32_t *rename;   /* per storage: written into that storage */
  int32_t *table;    /* cse: instruction numbers */
  int64_t table_cap;
  ag_pmap uniform[AG_NDTYPE]; /* bits of a value to its constant */
  bool fold, copies, cse;
} simplify;

static bool is_uniform_const(const ag_program *g, const ag_val *v) {
  return g->st[v->st].kind == AG_P_CONST && v->geo->uniform && v->geo->numel > 0;
}

/* Storage that is written once, by the instruction at hand, and seen by nobody outside. */
static bool private_once(const ag_program *g, const ag_val *out) {
  const ag_pst *s = &g->st[out->st];
  return s->kind == AG_P_INTERNAL && s->writes == 1 && !s->visible && out->geo->numel > 0;
}

static bool final_version(const ag_program *g, const ag_val *v) { return v->ver == g->st[v->st].writes; }

/* v over one element repeated. */
static bool spread(ag_program *g, const ag_val *one, const ag_geo *like, ag_val *out) {
  int64_t zero[AG_MAX_NDIM] = {0};
  const ag_geo *q = ag__program_geo(g, like->dtype, like->ndim, ag__geo_shape(like), zero);
  *out = (ag_val){one->st, one->ver, one->offset, q};
  return q != NULL;
}

/* Operand j of i seen through what replaced its storage. */
static int redirect(simplify *s, ag_ins *i, uint32_t j) {
  ag_val *v = &i->in[j];
  const ag_val *to = &s->instead[v->st];
  if (to->st < 0) return AG_OK;
  if (to->geo->contiguous && to->geo->numel == s->g->st[v->st].nbytes / ag__dtype_size(v->geo->dtype)) {
    *v = (ag_val){to->st, to->ver, to->offset + v->offset, v->geo};
    return AG_OK;
  }
  /* Other rows might take another way through their kernels for strides of 0, with other bits. */
  if (!ag__ins_elementwise(i)) return AG_OK;
  ag_val w;
  if (!spread(s->g, to, v->geo, &w)) return AG_ERR_MEMORY;
  *v = w;
  return AG_OK;
}

/* The constant of one element that holds these bits. */
static int32_t uniform_const(simplify *s, int dtype, const void *bits) {
  ag_program *g = s->g;
  int size = ag__dtype_size(dtype);
  uint64_t key = 0;
  memcpy(&key, bits, (size_t)size);
  /* The map wants pointers that are not NULL: any one-to-one disguise does. */
  int32_t *slot = ag__pmap_add(&s->uniform[dtype], (const void *)(uintptr_t)(key ^ 0x5bd1e9955bd1e995u));
  if (!slot) return -1;
  if (*slot >= 0) return *slot;
  ag_storage *st = ag__storage_new((size_t)size);
  if (!st) return -1;
  memcpy(st->data, bits, (size_t)size);
  int32_t id = ag__program_storage(g, AG_P_CONST, size, dtype);
  const ag_geo *q = id >= 0 ? ag__program_geo(g, dtype, 0, NULL, NULL) : NULL;
  if (!q) {
    ag_storage_release(st);
    return -1;
  }
  g->st[id].st = st;
  g->st[id].geo = q;
  return *slot = id;
}

static ag_raw raw_of(const ag_program *g, const ag_val *v) {
  const ag_geo *q = v->geo;
  char *base = g->st[v->st].st->data;
  return (ag_raw){base + v->offset * ag__dtype_size(q->dtype), ag__geo_shape(q), ag__geo_strides(q), q->numel, q->dtype, q->ndim,
                  q->contiguous};
}

/* The tables were made for n storages; constants made since have numbers beyond. */
static int set_instead(simplify *s, const ag_val *out, ag_val to) {
  s->instead[out->st] = to;
  return AG_OK;
}

/* Every operand is one repeated constant: so is the result. */
static int fold_uniform(simplify *s, const ag_ins *i, bool *done) {
  ag_program *g = s->g;
  const ag_row *row = ag__ins_row(i);
  ag_raw in[3], out;
  _Alignas(16) char bits[16] = {0};
  for (uint32_t k = 0; k < i->n_in; k++) {
    in[k] = raw_of(g, &i->in[k]);
    in[k].ndim = 0;
    in[k].numel = 1;
    in[k].contiguous = true;
  }
  out = (ag_raw){bits, NULL, NULL, 1, i->out[0].geo->dtype, 0, true};
  ag_exec x = {row, (int)i->n_in, 1, in, &out, i->p};
  if (ag__exec(&x)) return AG_OK;
  int32_t id = uniform_const(s, out.dtype, bits);
  if (id < 0) return AG_ERR_MEMORY;
  *done = true;
  g->folded++;
  return set_instead(s, &i->out[0], (ag_val){id, 0, 0, g->st[id].geo});
}

/* All operands are constants: the result becomes one. */
static int fold_whole(simplify *s, const ag_ins *i, bool *done) {
  ag_program *g = s->g;
  ag_raw in[8], out[AG_MAX_OUT];
  ag_storage *made[AG_MAX_OUT] = {NULL};
  int st = AG_OK;
  for (uint32_t k = 0; k < i->n_in; k++) in[k] = raw_of(g, &i->in[k]);
  for (int k = 0; k < i->n_out && !st; k++) {
    const ag_geo *q = i->out[k].geo;
    made[k] = ag__storage_new((size_t)g->st[i->out[k].st].nbytes);
    if (!made[k]) st = AG_ERR_MEMORY;
    else out[k] = (ag_raw){made[k]->data, ag__geo_shape(q), ag__geo_strides(q), q->numel, q->dtype, q->ndim, q->contiguous};
  }
  ag_exec x = {ag__ins_row(i), (int)i->n_in, i->n_out, in, out, i->p};
  bool ran = !st && ag__exec(&x) == AG_OK;
  for (int k = 0; k < i->n_out; k++) {
    int32_t id = ran && !st ? ag__program_storage(g, AG_P_CONST, g->st[i->out[k].st].nbytes, i->out[k].geo->dtype) : -1;
    if (id < 0) {
      if (made[k]) ag_storage_release(made[k]);
      if (ran) st = AG_ERR_MEMORY;
      continue;
    }
    g->st[id].st = made[k];
    g->st[id].geo = i->out[k].geo;
    st = set_instead(s, &i->out[k], (ag_val){id, 0, 0, i->out[k].geo});
  }
  if (ran && !st) {
    *done = true;
    g->folded++;
  }
  return st;
}

static int fold(simplify *s, const ag_ins *i, bool *done) {
  ag_program *g = s->g;
  if (!ag__ins_pure(i) || i->n_in > 3) return AG_OK;
  int64_t bytes = 0;
  for (int k = 0; k < i->n_out; k++) {
    if (!private_once(g, &i->out[k])) return AG_OK;
    bytes += g->st[i->out[k].st].nbytes;
  }
  bool uniform = true;
  for (uint32_t k = 0; k < i->n_in; k++) {
    if (g->st[i->in[k].st].kind != AG_P_CONST) return AG_OK;
    uniform &= is_uniform_const(g, &i->in[k]);
  }
  if (uniform && (i->op == AG_OP_full || (ag__ins_elementwise(i) && i->n_out == 1))) return fold_uniform(s, i, done);
  return i->n_in && bytes <= FOLD_MAX ? fold_whole(s, i, done) : AG_OK;
}

/* Operand k is the constant with this value. */
static bool is_number(const ag_program *g, const ag_val *v, double want) {
  if (!is_uniform_const(g, v)) return false;
  int dtype = v->geo->dtype, size = ag__dtype_size(dtype);
  const char *p = g->st[v->st].st->data + v->offset * size;
  _Alignas(8) char bits[8];
  ag__k->cast[AG_FLOAT64][dtype](1, bits, &want);
  return memcmp(p, bits, (size_t)size) == 0;
}

/* The operand whose bits i passes on, or NULL. */
static const ag_val *passes_on(const simplify *s, const ag_ins *i) {
  const ag_program *g = s->g;
  const ag_val *x = NULL;
  if (i->inplace || i->out[0].geo->dtype == AG_BOOL) return i->op == AG_OP_clone && !i->inplace && s->copies ? &i->in[0] : NULL;
  if (s->fold) {
    if (i->op == AG_OP_mul) x = is_number(g, &i->in[1], 1) ? &i->in[0] : is_number(g, &i->in[0], 1) ? &i->in[1] : NULL;
    else if (i->op == AG_OP_div && is_number(g, &i->in[1], 1)) x = &i->in[0];
    else if (i->op == AG_OP_sub && is_number(g, &i->in[1], 0)) x = &i->in[0];
    if (x && x->geo->numel != i->out[0].geo->numel) x = NULL;
  }
  if (!x && s->copies && (i->op == AG_OP_clone || (i->op == AG_OP_cast && i->in[0].geo->dtype == i->out[0].geo->dtype)))
    x = &i->in[0];
  return x;
}

static void see_through(simplify *s, const ag_ins *i, const ag_val *x) {
  ag_program *g = s->g;
  const ag_val *out = &i->out[0];
  if (out->geo->numel == 0 || !final_version(g, x)) return;
  if (private_once(g, out)) {
    if (x->geo->contiguous || is_uniform_const(g, x)) {
      if (i->op != AG_OP_clone) g->folded++;
      s->instead[out->st] = *x;
    }
    return;
  }
  /* The copy is a result: its source may be computed in its place. */
  const ag_pst *from = &g->st[x->st], *to = &g->st[out->st];
  if (to->kind == AG_P_INTERNAL && to->writes == 1 && from->kind == AG_P_INTERNAL && from->writes == 1 && !from->visible &&
      s->rename[x->st] < 0 && s->rename[out->st] < 0 && ag__val_whole(g, x) && ag__val_whole(g, out))
    s->rename[x->st] = out->st;
}

/* ---- equal instructions ---- */

static uint64_t hash_ins(const ag_ins *i) {
  uint64_t h = ag__mix((uint64_t)i->op, (uint64_t)(uintptr_t)i->p);
  for (uint32_t k = 0; k < i->n_in; k++) {
    const ag_val *v = &i->in[k];
    h = ag__mix(ag__mix(h, (uint64_t)v->st << 32 | v->ver), (uint64_t)v->offset ^ (uint64_t)(uintptr_t)v->geo);
  }
  return h;
}

static bool same_ins(const ag_ins *a, const ag_ins *b) {
  if (a->op != b->op || a->p != b->p || a->n_in != b->n_in || a->n_out != b->n_out) return false;
  for (uint32_t k = 0; k < a->n_in; k++)
    if (a->in[k].st != b->in[k].st || a->in[k].ver != b->in[k].ver || a->in[k].offset != b->in[k].offset ||
        a->in[k].geo != b->in[k].geo)
      return false;
  for (int k = 0; k < a->n_out; k++)
    if (a->out[k].geo != b->out[k].geo) return false;
  return true;
}

static void find_equal(simplify *s, int64_t at) {
  ag_program *g = s->g;
  const ag_ins *i = &g->ins[at];
  if (!ag__ins_pure(i)) return;
  bool mine = true;
  for (int k = 0; k < i->n_out; k++) {
    if (g->st[i->out[k].st].writes != 1) return;
    mine &= private_once(g, &i->out[k]);
  }
  uint64_t h = hash_ins(i) & (uint64_t)(s->table_cap - 1);
  for (; s->table[h] >= 0; h = (h + 1) & (uint64_t)(s->table_cap - 1)) {
    const ag_ins *e = &g->ins[s->table[h]];
    if (!same_ins(e, i)) continue;
    if (!mine) return;
    for (int k = 0; k < i->n_out; k++) s->instead[i->out[k].st] = e->out[k];
    g->removed_cse++;
    return;
  }
  s->table[h] = (int32_t)at;
}

/* ---- the walk ---- */

static int walk(simplify *s, int64_t n_st) {
  ag_program *g = s->g;
  int st = AG_OK;
  for (int64_t k = 0; k < g->n_ins && !st; k++) {
    ag_ins *i = &g->ins[k];
    for (uint32_t j = 0; j < i->n_in && !st; j++)
      if (i->in[j].st < n_st && !(j == 0 && i->inplace)) st = redirect(s, i, j);
    if (st) break;
    bool done = false;
    if (s->fold) st = fold(s, i, &done);
    if (st || done) continue;
    const ag_val *x = passes_on(s, i);
    if (x) see_through(s, i, x);
    if (s->instead[i->out[0].st].st >= 0) continue;
    if (s->cse) find_equal(s, k);
  }
  return st;
}

static void apply_renames(simplify *s, int64_t n_st) {
  ag_program *g = s->g;
  for (int64_t k = 0; k < g->n_ins; k++) {
    ag_ins *i = &g->ins[k];
    bool copy = i->op == AG_OP_clone || i->op == AG_OP_cast || i->op == AG_OP_mul || i->op == AG_OP_div || i->op == AG_OP_sub;
    for (uint32_t j = 0; j < i->n_in; j++) {
      int32_t to = i->in[j].st < n_st ? s->rename[i->in[j].st] : -1;
      if (to < 0) continue;
      /* The copy itself has nothing left to do. */
      if (copy && !i->inplace && i->out[0].st == to) i->dead = true;
      i->in[j].st = to;
    }
    for (int j = 0; j < i->n_written; j++)
      if (i->out[j].st < n_st && s->rename[i->out[j].st] >= 0) i->out[j].st = s->rename[i->out[j].st];
  }
}

int ag__pass_simplify(ag_program *g, uint64_t off) {
  simplify s = {.g = g, .fold = !(off >> AG_PASS_fold & 1), .copies = !(off >> AG_PASS_copies & 1), .cse = !(off >> AG_PASS_cse & 1)};
  if (!s.fold && !s.copies && !s.cse) return AG_OK;
  int64_t n_st = g->n_st;
  size_t b1 = sizeof *s.instead * (size_t)(n_st + 1), b2 = sizeof *s.rename * (size_t)(n_st + 1);
  s.table_cap = 64;
  while (s.table_cap < g->n_ins * 2) s.table_cap *= 2;
  size_t b3 = sizeof *s.table * (size_t)s.table_cap;
  s.instead = ag__alloc(b1);
  s.rename = ag__alloc(b2);
  s.table = ag__alloc(b3);
  int st = s.instead && s.rename && s.table ? AG_OK : AG_ERR_MEMORY;
  if (!st) {
    for (int64_t k = 0; k < n_st; k++) s.instead[k].st = s.rename[k] = -1;
    memset(s.table, 0xff, b3);
    st = walk(&s, n_st);
  }
  if (!st) apply_renames(&s, n_st);
  if (s.instead) ag__free(s.instead, b1);
  if (s.rename) ag__free(s.rename, b2);
  if (s.table) ag__free(s.table, b3);
  for (int k = 0; k < AG_NDTYPE; k++) ag__pmap_free(&s.uniform[k]);
  return st;
}
