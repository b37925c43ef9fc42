#include "freeze/program.h"

/* Elementwise fusion: which instructions run together, block by block.
 *
 * The walk goes backward and sinks an instruction into the unit of its first user, where that is a group over
 * the same number of elements.  So a value is made where it is needed: what backward recomputes from a saved
 * tensor is computed in backward's loop, not stored by forward's.
 *
 * Instruction i may sink to unit U when every later unit that conflicts with it (reads or overwrites what it
 * writes, overwrites what it reads) is U or comes after U.  So one number per storage is enough: the first later
 * unit that reads it, the first that writes it.  Within a group everything that
 * is written there is read and written element by element at the same place, so that blocks do not meet. */

enum { GROUP_MAX = 64, MOVE_MAX = 4096 };

bool ag__ins_elementwise(const ag_ins *i) {
  if (!i->out[0].geo->contiguous || i->out[0].geo->numel == 0) return false;
  if (ag__row_elementwise(ag__ins_row(i))) return true;
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
  int32_t *reader, *writer; /* per storage: first later unit, by the number of its last instruction */
  int32_t *group_at;        /* per instruction: group whose last member it is, or -1 */
  int32_t *next;            /* per instruction: next member of its group, or -1 */
  group *groups;
  int64_t n_groups, cap_groups;
} fuse;

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

static int32_t min32(int32_t a, int32_t b) { return a < b ? a : b; }

/* Takes instruction `at` into the unit whose last member is `unit`, when that is a fitting group. */
static bool join(fuse *f, int32_t at, int32_t unit, int64_t numel) {
  const ag_program *g = f->g;
  if (unit == INT32_MAX || f->group_at[unit] < 0) return false;
  group *u = &f->groups[f->group_at[unit]];
  if (u->n >= GROUP_MAX || g->ins[u->head].out[0].geo->numel != numel) return false;
  for (int32_t k = u->head; k >= 0; k = f->next[k])
    if (!compatible(&g->ins[at], &g->ins[k], numel)) return false;
  f->next[at] = u->head;
  u->head = at;
  u->n++;
  return true;
}

static int32_t place(fuse *f, int32_t at) {
  ag_program *g = f->g;
  const ag_ins *i = &g->ins[at];
  if (!ag__ins_elementwise(i)) return at;
  int64_t numel = i->out[0].geo->numel;
  if (!self_compatible(i, numel)) return at;
  int32_t first = INT32_MAX;
  for (int j = 0; j < i->n_written; j++)
    first = min32(first, min32(f->reader[i->out[j].st], f->writer[i->out[j].st]));
  for (uint32_t j = ag__ins_first_read(i); j < i->n_in; j++) first = min32(first, f->writer[i->in[j].st]);
  if (join(f, at, first, numel)) return first;
  /* Failing that, beside another reader of an operand: it is then read once. */
  for (uint32_t j = ag__ins_first_read(i); j < i->n_in; j++) {
    int32_t r = f->reader[i->in[j].st];
    if (r < first && aligned(&i->in[j], numel) && join(f, at, r, numel)) return r;
  }
  group *u = AG_PUSH(f->groups, f->n_groups, f->cap_groups);
  if (!u) return -1;
  u->n = 1;
  u->head = at;
  f->next[at] = -1;
  f->group_at[at] = (int32_t)(f->n_groups - 1);
  return at;
}

static int sink(fuse *f) {
  ag_program *g = f->g;
  for (int64_t k = g->n_ins - 1; k >= 0; k--) {
    const ag_ins *i = &g->ins[k];
    f->group_at[k] = -1;
    f->next[k] = -2; /* in no group */
    if (i->dead) continue;
    int32_t unit = place(f, (int32_t)k);
    if (unit < 0) return AG_ERR_MEMORY;
    for (uint32_t j = ag__ins_first_read(i); j < i->n_in; j++)
      f->reader[i->in[j].st] = min32(f->reader[i->in[j].st], unit);
    for (int j = 0; j < i->n_written; j++) f->writer[i->out[j].st] = min32(f->writer[i->out[j].st], unit);
  }
  return AG_OK;
}

static void emit(ag_program *g, int32_t at, const int32_t *next, int64_t *m) {
  ag_unit *u = &g->units[g->n_units++];
  const ag_ins *i = &g->ins[at];
  u->first = (int32_t)*m;
  u->n = 0;
  u->ew = ag__ins_elementwise(i) && self_compatible(i, i->out[0].geo->numel);
  u->numel = i->out[0].geo->numel;
  for (int32_t k = at; k >= 0; k = next ? next[k] : -1) {
    g->members[(*m)++] = k;
    u->n++;
  }
}

int ag__pass_fuse(ag_program *g, bool fuse_on) {
  int64_t live = 0, m = 0;
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
  size_t b1 = sizeof(int32_t) * (size_t)(g->n_st + 1), b2 = sizeof(int32_t) * (size_t)(g->n_ins + 1);
  f.reader = ag__alloc(b1);
  f.writer = ag__alloc(b1);
  f.group_at = ag__alloc(b2);
  f.next = ag__alloc(b2);
  int st = f.reader && f.writer && f.group_at && f.next ? AG_OK : AG_ERR_MEMORY;
  if (!st) {
    for (int64_t k = 0; k < g->n_st; k++) f.reader[k] = f.writer[k] = INT32_MAX;
    st = sink(&f);
  }
  for (int32_t k = 0; k < g->n_ins && !st; k++) {
    int32_t q = f.group_at[k];
    if (q >= 0) emit(g, f.groups[q].head, f.next, &m);
    else if (!g->ins[k].dead && f.next[k] == -2) emit(g, k, NULL, &m);
  }
  if (f.reader) ag__free(f.reader, b1);
  if (f.writer) ag__free(f.writer, b1);
  if (f.group_at) ag__free(f.group_at, b2);
  if (f.next) ag__free(f.next, b2);
  AG_VEC_FREE(f.groups, f.cap_groups);
  return st;
}
