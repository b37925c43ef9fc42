#include "freeze/program.h"

#include <stdlib.h>

/* Elementwise fusion: which instructions run together, block by block.
 *
 * The walk goes backward and sinks an instruction into the unit of its first user, where that is a group over
 * the same number of elements.  So a value is made where it is needed: what backward recomputes from a saved
 * tensor is computed in backward's loop, not stored by forward's.
 *
 * Every unit has a place: a number that orders the units, whose lower half is the unit's last instruction.
 * Instruction i may go to place q when every later unit that conflicts with it (reads or overwrites what it writes,
 * overwrites what it reads) is there or behind.  So one number per storage is enough: the first later unit that
 * reads it, the first that writes it.  Within a group everything that is written there is read and written element
 * by element at the same place, so that blocks do not meet.
 *
 * A reduction whose operand could be made in a later loop that reads the same tensors (the loss, seen from the
 * first loop of backward) waits until after that loop: so forward's and backward's loop become one. */

enum { GROUP_MAX = 64, MOVE_MAX = 4096, TINY = 64, WORTH = 1024, LOOK = 48 };
#define NOWHERE INT64_MAX

bool ag__ins_elementwise(const ag_ins *i) {
  if (!i->out[0].geo->contiguous || i->out[0].geo->numel == 0) return false;
  const ag_row *row = ag__ins_row(i);
  if (ag__row_elementwise(row)) return !ag__row_checks(row, i->in[0].geo->dtype);
  switch (i->op) {
    case AG_OP_clone:
    case AG_OP_copy: {
      /* Large transposes are better moved as a whole than block by block. */
      const ag_geo *x = i->in[i->op == AG_OP_copy].geo;
      return x->contiguous || x->uniform || x->numel <= MOVE_MAX;
    }
    case AG_OP_cast:
    case AG_OP_fill: return true;
    default: return false;
  }
}

typedef struct group {
  int32_t head, n; /* first member in program order; the next ones by fuse.next */
} group;

typedef struct fuse {
  ag_program *g;
  int64_t *reader, *writer; /* per storage: place of the first later unit, or NOWHERE */
  int32_t *maker;           /* per storage: its only writer, or -1 */
  int32_t *hint;            /* per storage: last instruction of the group it would best be made in, or -1 */
  int32_t *group_at;        /* per instruction: group whose last member it is, or -1 */
  int32_t *next;            /* per instruction: next member of its group, or -1; -2: in no group */
  int64_t *place;           /* per instruction: its unit's place where it is the last member */
  group *groups;
  int64_t n_groups, cap_groups;
} fuse;

static int64_t place_at(int64_t position, int32_t last) { return (int64_t)((uint64_t)position << 32 | (uint32_t)last); }
static int64_t position_of(int64_t place) { return place >> 32; }
static int32_t last_of(int64_t place) { return (int32_t)(place & 0x7fffffff); }

static bool aligned(const ag_val *v, int64_t numel) { return v->geo->contiguous && v->geo->numel == numel; }

static bool same_place(const ag_val *a, const ag_val *b) {
  return a->offset == b->offset && a->geo->dtype == b->geo->dtype;
}

/* a reads or writes (aw) and b reads or writes (bw) one storage in one loop. */
static bool agree(const ag_val *a, bool aw, const ag_val *b, bool bw, int64_t numel) {
  if (a->st != b->st || (!aw && !bw)) return true;
  return aligned(a, numel) && aligned(b, numel) && same_place(a, b);
}

static bool compatible(const ag_ins *a, const ag_ins *b, int64_t numel) {
  for (int w = 0; w < 2; w++) {
    const ag_ins *x = w ? a : b, *y = w ? b : a;
    if (!agree(&x->out[0], true, &y->out[0], true, numel)) return false;
    for (uint32_t k = ag__ins_first_read(y); k < y->n_in; k++)
      if (!agree(&x->out[0], true, &y->in[k], false, numel)) return false;
  }
  return true;
}

/* An instruction whose own operands overlap its result elsewhere than element by element runs alone. */
static bool self_compatible(const ag_ins *i, int64_t numel) {
  for (uint32_t k = ag__ins_first_read(i); k < i->n_in; k++)
    if (!agree(&i->out[0], true, &i->in[k], false, numel)) return false;
  return true;
}

static bool loops(const ag_ins *i) { return ag__ins_elementwise(i) && self_compatible(i, i->out[0].geo->numel); }

static int64_t earlier(int64_t a, int64_t b) { return a < b ? a : b; }

/* The first later unit that i must come before or be in. */
static int64_t limit_of(const fuse *f, const ag_ins *i) {
  int64_t first = NOWHERE;
  for (int j = 0; j < i->n_written; j++)
    first = earlier(first, earlier(f->reader[i->out[j].st], f->writer[i->out[j].st]));
  for (uint32_t j = ag__ins_first_read(i); j < i->n_in; j++) first = earlier(first, f->writer[i->in[j].st]);
  return first;
}

/* The group at a place, when it is one over numel elements. */
static group *group_of(const fuse *f, int64_t place, int64_t numel) {
  if (place == NOWHERE || f->group_at[last_of(place)] < 0) return NULL;
  group *u = &f->groups[f->group_at[last_of(place)]];
  return f->g->ins[u->head].out[0].geo->numel == numel ? u : NULL;
}

/* Takes instruction `at` into the unit at `place`, when that is a fitting group. */
static bool join(fuse *f, int32_t at, int64_t place, int64_t numel) {
  const ag_program *g = f->g;
  group *u = group_of(f, place, numel);
  if (!u || u->n >= GROUP_MAX) return false;
  for (int32_t k = u->head; k >= 0; k = f->next[k])
    if (!compatible(&g->ins[at], &g->ins[k], numel)) return false;
  f->next[at] = u->head;
  u->head = at;
  u->n++;
  return true;
}

static int64_t place_loop(fuse *f, int32_t at) {
  const ag_program *g = f->g;
  const ag_ins *i = &g->ins[at];
  int64_t numel = i->out[0].geo->numel, limit = limit_of(f, i);
  if (join(f, at, limit, numel)) return limit;
  int32_t hint = f->hint[i->out[0].st];
  if (hint >= 0 && f->place[hint] < limit && join(f, at, f->place[hint], numel)) return f->place[hint];
  /* Failing that, beside another reader of an operand: it is then read once. */
  for (uint32_t j = ag__ins_first_read(i); j < i->n_in; j++) {
    int64_t r = f->reader[i->in[j].st];
    if (r < limit && aligned(&i->in[j], numel) && join(f, at, r, numel)) return r;
  }
  group *u = AG_PUSH(f->groups, f->n_groups, f->cap_groups);
  if (!u) return -1;
  u->n = 1;
  u->head = at;
  f->next[at] = -1;
  f->group_at[at] = (int32_t)(f->n_groups - 1);
  /* Small ones hold no memory worth a thought: as late as can be, so that they stand in nobody's way. */
  if (numel > TINY) return place_at(2 * (int64_t)at, at);
  return place_at(limit == NOWHERE ? 2 * g->n_ins : position_of(limit), at);
}

/* The first loop over numel elements, before limit, that reads something which v is computed from by loops. */
static int64_t loop_sharing(const fuse *f, const ag_val *v, int64_t limit) {
  int32_t list[LOOK];
  int n = 0;
  int64_t best = NOWHERE, numel = v->geo->numel;
  list[n++] = v->st;
  for (int k = 0; k < n; k++) {
    int32_t m = f->maker[list[k]];
    if (m < 0 || f->g->ins[m].dead) continue;
    const ag_ins *i = &f->g->ins[m];
    if (i->inplace || i->out[0].geo->numel != numel || !loops(i)) continue;
    for (uint32_t j = 0; j < i->n_in; j++) {
      if (!aligned(&i->in[j], numel)) continue;
      int64_t r = f->reader[i->in[j].st];
      if (r < limit && r < best && group_of(f, r, numel)) best = r;
      bool known = n == LOOK;
      for (int q = 0; q < n && !known; q++) known = list[q] == i->in[j].st;
      if (!known) list[n++] = i->in[j].st;
    }
  }
  return best;
}

static int64_t place_other(fuse *f, int32_t at) {
  const ag_ins *i = &f->g->ins[at];
  int64_t here = place_at(2 * (int64_t)at, at);
  if (!ag__ins_pure(i) || i->n_in != 1 || i->n_out != 1 || i->out[0].geo->numel > TINY) return here;
  const ag_val *v = &i->in[0];
  if (v->geo->numel < WORTH || !aligned(v, v->geo->numel) || f->hint[v->st] >= 0 || f->reader[v->st] != NOWHERE) return here;
  int64_t limit = limit_of(f, i), loop = loop_sharing(f, v, limit);
  if (loop == NOWHERE) return here;
  int64_t after = place_at(position_of(loop) + 1, at);
  if (after >= limit || after < here) return here;
  f->hint[v->st] = last_of(loop);
  return after;
}

static int sink(fuse *f) {
  ag_program *g = f->g;
  for (int64_t k = g->n_ins - 1; k >= 0; k--) {
    const ag_ins *i = &g->ins[k];
    if (i->dead) continue;
    int64_t unit = loops(i) ? place_loop(f, (int32_t)k) : place_other(f, (int32_t)k);
    if (unit < 0) return AG_ERR_MEMORY;
    if (last_of(unit) == k) f->place[k] = unit;
    for (uint32_t j = ag__ins_first_read(i); j < i->n_in; j++) f->reader[i->in[j].st] = earlier(f->reader[i->in[j].st], unit);
    for (int j = 0; j < i->n_written; j++) f->writer[i->out[j].st] = earlier(f->writer[i->out[j].st], unit);
  }
  return AG_OK;
}

static void find_makers(fuse *f) {
  ag_program *g = f->g;
  for (int64_t k = 0; k < g->n_st; k++) f->maker[k] = f->hint[k] = -1;
  for (int64_t k = 0; k < g->n_ins; k++)
    for (int j = 0; j < g->ins[k].n_written && !g->ins[k].dead; j++) {
      int32_t st = g->ins[k].out[j].st;
      f->maker[st] = g->st[st].writes == 1 ? (int32_t)k : -1;
    }
}

static void emit(ag_program *g, int32_t at, const int32_t *next, int64_t *m) {
  ag_unit *u = &g->units[g->n_units++];
  const ag_ins *i = &g->ins[at];
  u->first = (int32_t)*m;
  u->n = 0;
  u->ew = loops(i);
  u->numel = i->out[0].geo->numel;
  for (int32_t k = at; k >= 0; k = next && next[k] != -2 ? next[k] : -1) {
    g->members[(*m)++] = k;
    u->n++;
  }
}

static int by_place(const void *a, const void *b) {
  int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return x < y ? -1 : x > y;
}

int ag__pass_fuse(ag_program *g, bool fuse_on) {
  int64_t live = 0, m = 0, n_places = 0;
  for (int64_t k = 0; k < g->n_ins; k++) live += !g->ins[k].dead;
  g->units = ag__bump(&g->mem, sizeof *g->units * (size_t)(live + 1));
  g->members = ag__bump(&g->mem, sizeof *g->members * (size_t)(live + 1));
  if (!g->units || !g->members) return AG_ERR_MEMORY;
  g->n_units = 0;
  if (!fuse_on) {
    for (int32_t k = 0; k < g->n_ins; k++)
      if (!g->ins[k].dead) emit(g, k, NULL, &m);
    return AG_OK;
  }
  fuse f = {.g = g};
  size_t n_st = (size_t)g->n_st + 1, n_ins = (size_t)g->n_ins + 1;
  size_t room = n_st * (2 * sizeof(int64_t) + 2 * sizeof(int32_t)) + n_ins * (2 * sizeof(int64_t) + 2 * sizeof(int32_t));
  char *mem = ag__alloc(room);
  if (!mem) return AG_ERR_MEMORY;
  f.reader = (int64_t *)(void *)mem;
  f.writer = f.reader + n_st;
  f.place = f.writer + n_st;
  int64_t *places = f.place + n_ins;
  f.maker = (int32_t *)(void *)(places + n_ins);
  f.hint = f.maker + n_st;
  f.group_at = f.hint + n_st;
  f.next = f.group_at + n_ins;
  for (size_t k = 0; k < n_st; k++) f.reader[k] = f.writer[k] = NOWHERE;
  for (size_t k = 0; k < n_ins; k++) {
    f.group_at[k] = -1;
    f.next[k] = -2;
    f.place[k] = -1;
  }
  find_makers(&f);
  int st = sink(&f);
  if (!st) {
    for (int64_t k = 0; k < g->n_ins; k++)
      if (f.place[k] >= 0) places[n_places++] = f.place[k];
    qsort(places, (size_t)n_places, sizeof *places, by_place);
    for (int64_t k = 0; k < n_places; k++) {
      int32_t at = last_of(places[k]), q = f.group_at[at];
      emit(g, q >= 0 ? f.groups[q].head : at, f.next, &m);
    }
  }
  ag__free(mem, room);
  AG_VEC_FREE(f.groups, f.cap_groups);
  return st;
}
