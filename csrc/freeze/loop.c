#include "freeze/plan.h"

#include "ops/par.h"

/* Elementwise units become loops over blocks that fit the first-level cache.
 *
 * Operands come in five ways: aligned (the block lies in memory as it stands), one value (spread over a block once
 * per run, or once for all when it is a constant), a row repeated (likewise, the block being a multiple of the
 * row), a column (each element a run of equal ones), anything else (packed for each block).  Where many values and
 * rows would fill the cache they are spread anew for each block.  Values that only this unit uses are blocks themselves.  The
 * kernels are eager's, and an element's bits do not depend on its place: so the results are eager's. */

enum { L1 = 24 << 10, BLOCK_MIN = 256, BLOCK_MAX = 4096, SLOTS = 256, RESIDENT = 6 };

enum how { ALIGNED, REGISTER, VALUE, ROW, RUNS, PACKED };

typedef struct operand {
  ag_val v;
  const ag_geo *o; /* of the result beside which it is read; NULL for one value */
  uint8_t how;
  int32_t slot, last; /* block that holds it; last member that uses it */
  bool ready, constant;
  bool resident;      /* in its block for the whole loop */
  int64_t run;        /* RUNS: length of a run */
} operand;

typedef struct builder {
  ag_plan *p;
  const ag_unit *u;
  operand *ops; /* distinct operands that are not aligned */
  int64_t n_ops, cap_ops;
  ag_pmap slot_of; /* storage (as pointer-sized key) to its block */
  ag_pmap last_of; /* storage to the last member that touches it */
  bool busy[SLOTS];
  int32_t n_slots, width; /* blocks in use at once; bytes of the widest element */
  int64_t block;
  bool flat;
  ag_step *pro, *steps;
  uint8_t (*inc)[4];
  int64_t n_pro, n_steps;
} builder;

static const void *key(int32_t st) { return (const void *)((uintptr_t)st + 1); }

static const ag_ins *member(const builder *b, int32_t k) { return &b->p->g->ins[b->p->g->members[b->u->first + k]]; }

static uint32_t reads_from(const ag_ins *i) { return i->op == AG_OP_fill ? i->n_in : ag__ins_first_read(i); }

/* v repeats along leading dims of a result of shape o: its row's length, else 0. */
static int64_t row_of(const ag_geo *v, const ag_geo *o) {
  int nd = v->ndim, lead = 0;
  while (lead < nd && ag__geo_shape(v)[lead] == 1) lead++;
  if (!v->contiguous || nd > o->ndim) return 0;
  for (int d = lead; d < nd; d++)
    if (ag__geo_shape(v)[d] != ag__geo_shape(o)[o->ndim - nd + d]) return 0;
  return v->numel;
}

static enum how how_of(const builder *b, const ag_ins *i, const ag_val *v) {
  const ag_geo *q = v->geo;
  if (b->p->life[v->st].home == AG_HOME_REGISTER) return REGISTER;
  if (q->contiguous && q->numel == b->u->numel) return ALIGNED;
  if (q->uniform) return VALUE;
  int64_t row = row_of(q, i->out[0].geo);
  return row > 0 && row <= BLOCK_MAX ? ROW : PACKED;
}

/* v is constant over trailing dims of o and row-major in the others: length of a run, else 0. */
static int64_t run_of(const ag_geo *v, const ag_geo *o) {
  int shift = o->ndim - v->ndim, d = v->ndim - 1;
  int64_t run = 1, step = 1;
  if (shift < 0) return 0;
  for (; d >= 0; d--) {
    bool repeats = ag__geo_shape(v)[d] == 1 || ag__geo_strides(v)[d] == 0;
    if (!repeats) break;
    run *= ag__geo_shape(o)[shift + d];
  }
  for (; d >= 0; d--) {
    if (ag__geo_shape(v)[d] != ag__geo_shape(o)[shift + d]) break;
    if (ag__geo_shape(v)[d] != 1 && ag__geo_strides(v)[d] != step) return 0;
    step *= ag__geo_shape(v)[d];
  }
  /* Beyond that it may only repeat as a whole. */
  for (; d >= 0; d--)
    if (ag__geo_shape(v)[d] != 1) return 0;
  return run;
}

/* Operand v as member i reads it; made when first asked for. */
static operand *operand_of(builder *b, const ag_ins *i, const ag_val *v) {
  const ag_geo *o = v->geo->uniform ? NULL : i->out[0].geo;
  for (int64_t k = 0; k < b->n_ops; k++) {
    const operand *q = &b->ops[k];
    if (q->v.st == v->st && q->v.ver == v->ver && q->v.offset == v->offset && q->v.geo == v->geo && q->o == o) return &b->ops[k];
  }
  operand *q = AG_PUSH(b->ops, b->n_ops, b->cap_ops);
  if (!q) return NULL;
  memset(q, 0, sizeof *q);
  q->v = *v;
  q->o = o;
  q->how = (uint8_t)how_of(b, i, v);
  q->slot = -1;
  if (q->how == PACKED && (q->run = run_of(v->geo, o)) > 1) q->how = RUNS;
  q->resident = q->how == VALUE || q->how == ROW;
  q->constant = q->how == VALUE && b->p->g->st[v->st].kind == AG_P_CONST;
  return q;
}

static int take_slot(builder *b) {
  for (int32_t k = 0; k < SLOTS; k++)
    if (!b->busy[k]) {
      b->busy[k] = true;
      if (k + 1 > b->n_slots) b->n_slots = k + 1;
      return k;
    }
  return -1;
}

/* First look: which operands there are, until when they are needed, how wide elements get. */
static int survey(builder *b) {
  for (int32_t k = 0; k < b->u->n; k++) {
    const ag_ins *i = member(b, k);
    for (uint32_t j = 0; j < i->n_in + 1; j++) {
      const ag_val *v = j < i->n_in ? &i->in[j] : &i->out[0];
      int size = ag__dtype_size(v->geo->dtype);
      if (size > b->width) b->width = size;
      int32_t *last = ag__pmap_add(&b->last_of, key(v->st));
      if (!last) return AG_ERR_MEMORY;
      *last = k;
      if (j >= i->n_in || j < reads_from(i)) continue;
      enum how how = how_of(b, i, v);
      if (how == ALIGNED || how == REGISTER) continue;
      operand *o = operand_of(b, i, v);
      if (!o) return AG_ERR_MEMORY;
      o->last = k;
    }
  }
  return AG_OK;
}

/* Elements per block, from the number of blocks in use: everything at once when it fits. */
static void choose_block(builder *b, int32_t slots) {
  int64_t n = L1 / ((slots + 2) * b->width) & ~(int64_t)63, period = 1;
  if (n < BLOCK_MIN) n = BLOCK_MIN;
  if (n > BLOCK_MAX) n = BLOCK_MAX;
  b->flat = b->u->numel <= n + n / 2;
  b->block = b->u->numel;
  if (b->flat) return;
  for (int64_t k = 0; k < b->n_ops; k++) {
    if (b->ops[k].how != ROW) continue;
    int64_t q = b->ops[k].v.geo->numel, both = period / ag__gcd(period, q) * q;
    if (both <= BLOCK_MAX) period = both;
    else {
      b->ops[k].how = PACKED;
      b->ops[k].resident = false;
    }
  }
  b->block = n < period ? period : n / period * period;
}

/* ---- steps ---- */

static char *slot_at(const builder *b, int32_t slot) { return b->p->scratch + (int64_t)slot * b->block * b->width; }

static ag_step *new_step(builder *b, bool prologue, int64_t *at) {
  ag_plan *p = b->p;
  ag_step *s;
  if (b->flat) {
    s = AG_PUSH(p->code, p->n_code, p->cap_code);
    if (!s) return NULL;
    *at = p->n_code - 1;
  } else {
    s = prologue ? &b->pro[b->n_pro++] : &b->steps[b->n_steps++];
    *at = -1;
  }
  memset(s, 0, sizeof *s);
  s->n = b->block;
  return s;
}

static int bind(builder *b, const ag_val *v, ag_step *s, int64_t at, int field) {
  size_t off = field == 0 ? offsetof(ag_step, out) : offsetof(ag_step, in) + sizeof(char *) * (size_t)(field - 1);
  char **slot = (char **)(void *)((char *)s + off);
  return ag__plan_bind(b->p, v, at >= 0 ? NULL : slot, at, off);
}

/* A constant spread over a block, made once and shared by the loops. */
static const char *constant_tile(builder *b, const ag_val *v) {
  ag_plan *p = b->p;
  int size = ag__dtype_size(v->geo->dtype);
  const char *x = p->g->st[v->st].st->data + v->offset * size;
  int32_t *known = ag__pmap_add(&p->tile_of, x);
  if (!known) return NULL;
  if (*known >= 0 && p->tiles[*known].n >= b->block) return p->tiles[*known].data;
  ag_tile *keep = AG_PUSH(p->tiles, p->n_tiles, p->cap_tiles);
  char *t = keep ? ag__bump(&p->mem, (size_t)(b->block * size) + 64) : NULL;
  if (!t) return NULL;
  t = (char *)(((uintptr_t)t + 63) & ~(uintptr_t)63);
  for (int64_t k = 0; k < b->block; k++) memcpy(t + k * size, x, (size_t)size);
  *keep = (ag_tile){t, b->block};
  *known = (int32_t)(p->n_tiles - 1);
  return t;
}

static const ag_spread *spread_of(builder *b, const operand *q) {
  ag_spread *s = ag__bump(&b->p->mem, sizeof *s);
  const ag_geo *v = q->v.geo, *o = q->o;
  if (!s) return NULL;
  s->ndim = o->ndim;
  int shift = o->ndim - v->ndim;
  int64_t distinct = 1;
  for (int k = 0; k < o->ndim; k++) {
    s->shape[k] = ag__geo_shape(o)[k];
    bool repeat = k < shift || (ag__geo_shape(v)[k - shift] == 1 && s->shape[k] != 1);
    s->strides[k] = repeat ? 0 : ag__geo_strides(v)[k - shift];
    if (s->strides[k] != 0) distinct *= s->shape[k];
  }
  s->period = q->how == RUNS ? q->run : v->numel;
  s->distinct = distinct;
  return s;
}

/* Makes operand o ready in its block. */
static int prepare(builder *b, operand *o) {
  if (o->ready || o->constant) return AG_OK;
  int64_t at;
  o->ready = true;
  ag_step *s = new_step(b, o->resident, &at);
  if (!s) return AG_ERR_MEMORY;
  s->size = (uint8_t)ag__dtype_size(o->v.geo->dtype);
  s->ins = b->p->g->members[b->u->first];
  s->out = slot_at(b, o->slot);
  if (o->how == VALUE) {
    s->kind = AG_STEP_FILL;
  } else {
    s->kind = o->how == ROW ? AG_STEP_TILE : o->how == RUNS ? AG_STEP_RUNS : AG_STEP_PACK;
    s->f.spread = spread_of(b, o);
    if (!s->f.spread) return AG_ERR_MEMORY;
  }
  return bind(b, &o->v, s, at, 1);
}

/* Where member i finds operand v: either a block (returned) or memory (bound to the step). */
static int source(builder *b, const ag_ins *i, const ag_val *v, ag_step *s, int64_t at, int field, uint8_t *inc) {
  enum how how = how_of(b, i, v);
  if (how == REGISTER) {
    s->in[field - 1] = slot_at(b, *ag__pmap_find(&b->slot_of, key(v->st)));
    return AG_OK;
  }
  if (how == ALIGNED) {
    *inc = (uint8_t)ag__dtype_size(v->geo->dtype);
    return bind(b, v, s, at, field);
  }
  operand *o = operand_of(b, i, v);
  if (!o) return AG_ERR_MEMORY;
  if (!o->constant) s->in[field - 1] = slot_at(b, o->slot);
  else if (!(s->in[field - 1] = constant_tile(b, v))) return AG_ERR_MEMORY;
  return AG_OK;
}

static int emit(builder *b, const ag_ins *i, int32_t number) {
  const ag_row *row = ag__ins_row(i);
  int64_t at;
  ag_step *s = new_step(b, false, &at);
  if (!s) return AG_ERR_MEMORY;
  uint8_t none[4], *inc = b->flat ? none : b->inc[b->n_steps - 1];
  memset(inc, 0, 4);
  s->ins = number;
  int from = 0;
  const ag_geo *o = i->out[0].geo;
  s->size = (uint8_t)ag__dtype_size(o->dtype);
  if (ag__row_elementwise(row)) {
    s->kind = AG_STEP_EW;
    s->f.ew = ag__k->ew[i->op].fwd[i->in[row->kind == AG_KIND_SEL3 ? 1 : 0].geo->dtype];
    s->p = i->p->f;
    if (!s->f.ew) return ag__fail(AG_ERR_NOT_IMPLEMENTED, "\"%s\" is not implemented for '%s'", row->name, ag_dtype_name(o->dtype));
  } else if (i->op == AG_OP_fill) {
    s->kind = AG_STEP_FILL;
    char *x = ag__bump(&b->p->mem, 16);
    if (!x) return AG_ERR_MEMORY;
    ag__k->cast[AG_FLOAT64][o->dtype](1, x, &i->p->f[0]);
    s->in[0] = x;
  } else {
    from = i->op == AG_OP_copy ? 1 : 0;
    int dtype = i->in[from].geo->dtype;
    s->kind = dtype == o->dtype ? AG_STEP_COPY : AG_STEP_CAST;
    if (dtype != o->dtype) s->f.cast = ag__k->cast[dtype][o->dtype];
  }
  if (b->p->life[i->out[0].st].home == AG_HOME_REGISTER) {
    s->out = slot_at(b, *ag__pmap_find(&b->slot_of, key(i->out[0].st)));
  } else {
    inc[0] = s->size;
    int st = bind(b, &i->out[0], s, at, 0);
    if (st) return st;
  }
  uint32_t n = i->op == AG_OP_fill ? 0 : i->n_in;
  for (uint32_t k = (uint32_t)from; k < n; k++) {
    /* Binding may not move the step: code only grows with new_step. */
    int st = source(b, i, &i->in[k], s, at, 1 + (int)k - from, &inc[1 + (int)k - from]);
    if (st) return st;
  }
  return AG_OK;
}

/* ---- blocks for values: the same walk twice, first only to count ---- */

static int too_many(void) { return ag__fail(AG_ERR_RUNTIME, "internal: an elementwise group needs too many blocks"); }

static int give_slot(builder *b, int32_t st) {
  int32_t *s = ag__pmap_add(&b->slot_of, key(st));
  if (!s) return AG_ERR_MEMORY;
  if (*s >= 0 && b->busy[*s]) return AG_OK;
  *s = take_slot(b);
  return *s < 0 ? too_many() : AG_OK;
}

static int walk(builder *b, bool build) {
  memset(b->busy, 0, sizeof b->busy);
  ag__pmap_free(&b->slot_of);
  b->n_slots = 0;
  for (int64_t k = 0; k < b->n_ops; k++) {
    operand *o = &b->ops[k];
    o->slot = -1;
    o->ready = false;
    if (!o->resident || o->constant) continue;
    o->slot = take_slot(b);
    if (o->slot < 0) return too_many();
  }
  for (int64_t k = 0; k < b->n_ops && build; k++) {
    int st = b->ops[k].resident ? prepare(b, &b->ops[k]) : AG_OK;
    if (st) return st;
  }
  for (int32_t k = 0; k < b->u->n; k++) {
    const ag_ins *i = member(b, k);
    for (uint32_t j = reads_from(i); j < i->n_in; j++) {
      enum how how = how_of(b, i, &i->in[j]);
      if (how == ALIGNED || how == REGISTER) continue;
      operand *o = operand_of(b, i, &i->in[j]);
      if (!o) return AG_ERR_MEMORY;
      if (o->resident || o->constant) continue;
      if (o->slot < 0 && (o->slot = take_slot(b)) < 0) return too_many();
      int st = build ? prepare(b, o) : AG_OK;
      if (st) return st;
    }
    int32_t out = i->out[0].st;
    bool reg = b->p->life[out].home == AG_HOME_REGISTER;
    /* A result may take the block of an operand of its own width that ends here. */
    int width = ag__dtype_size(i->out[0].geo->dtype);
    bool free_first = i->op != AG_OP_cast;
    for (uint32_t j = reads_from(i); j < i->n_in; j++)
      if (ag__dtype_size(i->in[j].geo->dtype) != width) free_first = false;
    for (int turn = 0; turn < 2; turn++) {
      int given = turn == (free_first ? 1 : 0) && reg ? give_slot(b, out) : AG_OK;
      if (given) return given;
      if (turn == (free_first ? 0 : 1))
        for (uint32_t j = 0; j < i->n_in; j++) {
          int32_t st = i->in[j].st, *s = ag__pmap_find(&b->slot_of, key(st));
          if (st != out && s && *s >= 0 && *ag__pmap_find(&b->last_of, key(st)) == k) b->busy[*s] = false;
        }
    }
    if (build) {
      int st = emit(b, i, b->p->g->members[b->u->first + k]);
      if (st) return st;
    }
    for (int64_t j = 0; j < b->n_ops; j++)
      if (!b->ops[j].resident && b->ops[j].slot >= 0 && b->ops[j].last == k) b->busy[b->ops[j].slot] = false;
    if (reg && *ag__pmap_find(&b->last_of, key(out)) == k) b->busy[*ag__pmap_find(&b->slot_of, key(out))] = false;
  }
  return AG_OK;
}

/* One kernel call does it. */
static bool plain(const builder *b, const ag_ins *i) {
  for (uint32_t j = reads_from(i); j < i->n_in; j++)
    if (how_of(b, i, &i->in[j]) != ALIGNED) return false;
  return true;
}

/* For the pool, when it is large. */
static void set_grain(ag_step *s, const ag_ins *i) {
  const ag_row *row = ag__ins_row(i);
  int size = s->size, from = i->op == AG_OP_copy ? 1 : 0;
  for (uint32_t j = (uint32_t)from, k = 0; j < i->n_in && i->op != AG_OP_fill; j++, k++) {
    s->in_size[k] = (uint8_t)ag__dtype_size(i->in[j].geo->dtype);
    if (s->in_size[k] > size) size = s->in_size[k];
  }
  int64_t grain = ag__grain(size, ag__row_elementwise(row) ? row->cost[0] : 1);
  if (ag__worth(s->n, grain)) s->grain = grain;
}

int ag__plan_loop(ag_plan *p, const ag_unit *u) {
  builder b = {.p = p, .u = u, .width = 1};
  bool build = p->scratch != NULL;
  if (u->n == 1 && plain(&b, member(&b, 0))) {
    b.flat = true;
    b.block = u->numel;
    if (!build) return AG_OK;
    int st = emit(&b, member(&b, 0), p->g->members[u->first]);
    if (!st) set_grain(&p->code[p->n_code - 1], member(&b, 0));
    return st;
  }
  int st = survey(&b);
  int64_t resident = 0;
  for (int64_t k = 0; k < b.n_ops; k++) resident += b.ops[k].resident && !b.ops[k].constant;
  for (int64_t k = 0; k < b.n_ops; k++) b.ops[k].resident &= resident <= RESIDENT || b.ops[k].constant;
  if (!st) st = walk(&b, false);
  if (!st) {
    choose_block(&b, b.n_slots);
    st = walk(&b, false); /* rows may have become packed */
  }
  if (!st && !build) {
    /* First round of the build: only the room is wanted. */
    int64_t need = b.n_slots * b.block * b.width;
    if (need > p->scratch_bytes) p->scratch_bytes = need;
  } else if (!st) {
    ag_loop *loop = NULL;
    if (!b.flat) {
      int64_t most = u->n + b.n_ops;
      loop = ag__bump(&p->mem, sizeof *loop);
      b.pro = ag__bump(&p->mem, sizeof *b.pro * (size_t)(b.n_ops + 1));
      b.steps = ag__bump(&p->mem, sizeof *b.steps * (size_t)most);
      b.inc = ag__bump(&p->mem, sizeof *b.inc * (size_t)most);
      if (!loop || !b.pro || !b.steps || !b.inc) st = AG_ERR_MEMORY;
    }
    if (!st) st = walk(&b, true);
    if (!st && loop) {
      int64_t cost = 1; /* the blocks of a loop wait in the first-level cache: half of what memory costs */
      for (int32_t k = 0; k < u->n; k++) {
        const ag_row *row = ag__ins_row(member(&b, k));
        cost += ag__row_elementwise(row) ? row->cost[0] : 1;
      }
      *loop = (ag_loop){u->numel, b.block, cost / 2 + 1, (int32_t)b.n_pro, (int32_t)b.n_steps, b.pro, b.steps, b.inc};
      ag_step *s = AG_PUSH(p->code, p->n_code, p->cap_code);
      if (!s) st = AG_ERR_MEMORY;
      else {
        memset(s, 0, sizeof *s);
        s->kind = AG_STEP_LOOP;
        s->ins = p->g->members[u->first];
        s->n = u->numel;
        s->f.loop = loop;
      }
    }
  }
  AG_VEC_FREE(b.ops, b.cap_ops);
  ag__pmap_free(&b.slot_of);
  ag__pmap_free(&b.last_of);
  return st;
}
