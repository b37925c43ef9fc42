#include "freeze/program.h"

/* ---- memory ---- */

enum { CHUNK = 1 << 16 };

void *ag__bump(ag_bump *b, size_t size) {
  size = size ? (size + 15) & ~(size_t)15 : 16;
  if ((size_t)(b->end - b->at) < size) {
    size_t want = size + 64 > CHUNK ? size + 64 : CHUNK;
    ag_chunk *c = ag__alloc(want);
    if (!c) return NULL;
    c->next = b->chunks;
    c->size = want;
    b->chunks = c;
    b->at = (char *)c + 64;
    b->end = (char *)c + want;
  }
  void *p = b->at;
  b->at += size;
  return memset(p, 0, size);
}

void ag__bump_free(ag_bump *b) {
  while (b->chunks) {
    ag_chunk *c = b->chunks;
    b->chunks = c->next;
    ag__free(c, c->size);
  }
  b->at = b->end = NULL;
}

bool ag__grow(void *array, int64_t n, int64_t *cap, size_t elem) {
  if (n < *cap) return true;
  void *old;
  memcpy(&old, array, sizeof old);
  int64_t more = *cap ? *cap * 2 : 16;
  void *p = ag__alloc(elem * (size_t)more);
  if (!p) return false;
  if (old) {
    memcpy(p, old, elem * (size_t)n);
    ag__free(old, elem * (size_t)*cap);
  }
  *cap = more;
  memcpy(array, &p, sizeof p);
  return true;
}

static uint64_t hash_pointer(const void *p) { return ag__mix(0, (uint64_t)(uintptr_t)p >> 4); }

int32_t *ag__pmap_find(const ag_pmap *m, const void *key) {
  if (!m->cap) return NULL;
  for (uint64_t k = hash_pointer(key);; k++) {
    uint64_t s = k & (uint64_t)(m->cap - 1);
    if (m->key[s] == key) return &m->value[s];
    if (!m->key[s]) return NULL;
  }
}

int32_t *ag__pmap_add(ag_pmap *m, const void *key) {
  int32_t *found = ag__pmap_find(m, key);
  if (found) return found;
  if (m->n * 2 >= m->cap) {
    ag_pmap bigger = {NULL, NULL, 0, m->cap ? m->cap * 2 : 64};
    bigger.key = ag__alloc(sizeof *bigger.key * (size_t)bigger.cap);
    bigger.value = ag__alloc(sizeof *bigger.value * (size_t)bigger.cap);
    if (!bigger.key || !bigger.value) {
      ag__pmap_free(&bigger);
      return NULL;
    }
    memset(bigger.key, 0, sizeof *bigger.key * (size_t)bigger.cap);
    for (int64_t k = 0; k < m->cap; k++)
      if (m->key[k]) *ag__pmap_add(&bigger, m->key[k]) = m->value[k];
    ag__pmap_free(m);
    *m = bigger;
  }
  uint64_t k = hash_pointer(key);
  while (m->key[k & (uint64_t)(m->cap - 1)]) k++;
  k &= (uint64_t)(m->cap - 1);
  m->key[k] = key;
  m->value[k] = -1;
  m->n++;
  return &m->value[k];
}

void ag__pmap_free(ag_pmap *m) {
  if (m->key) ag__free(m->key, sizeof *m->key * (size_t)m->cap);
  if (m->value) ag__free(m->value, sizeof *m->value * (size_t)m->cap);
  memset(m, 0, sizeof *m);
}

/* ---- interning ---- */

typedef struct ag_pparam {
  struct ag_pparam *next;
  ag_params p;
} ag_pparam;

/* Doubles a table of chains; next_at: offset of the link in an entry. */
static bool rehash(void **table, int64_t *cap, size_t next_at, uint64_t (*hash)(const void *)) {
  int64_t more = *cap ? *cap * 2 : 128;
  void **old = *table, **t = ag__alloc(sizeof *t * (size_t)more);
  if (!t) return false;
  memset(t, 0, sizeof *t * (size_t)more);
  for (int64_t k = 0; k < *cap; k++)
    for (char *e = old[k], *next; e; e = next) {
      memcpy(&next, e + next_at, sizeof next);
      void **slot = &t[hash(e) & (uint64_t)(more - 1)];
      memcpy(e + next_at, slot, sizeof *slot);
      *slot = e;
    }
  if (old) ag__free(old, sizeof *old * (size_t)*cap);
  *table = t;
  *cap = more;
  return true;
}

static uint64_t hash_geo(const void *e) {
  const ag_geo *q = e;
  uint64_t h = ag__mix(q->dtype, q->ndim);
  for (int k = 0; k < 2 * q->ndim; k++) h = ag__mix(h, (uint64_t)q->dims[k]);
  return h;
}

const ag_geo *ag__program_geo(ag_program *g, int dtype, int ndim, const int64_t *shape, const int64_t *strides) {
  union {
    ag_geo q;
    char room[sizeof(ag_geo) + sizeof(int64_t) * 2 * AG_MAX_NDIM];
  } u;
  ag_geo *key = &u.q;
  memset(&u, 0, sizeof(ag_geo));
  key->dtype = (uint8_t)dtype;
  key->ndim = (uint8_t)ndim;
  if (ndim) {
    memcpy(key->dims, shape, sizeof(int64_t) * (size_t)ndim);
    memcpy(key->dims + ndim, strides, sizeof(int64_t) * (size_t)ndim);
  }
  uint64_t h = hash_geo(key);
  size_t n = sizeof(int64_t) * 2 * (size_t)ndim;
  if (g->cap_geos)
    for (ag_geo *q = g->geos[h & (uint64_t)(g->cap_geos - 1)]; q; q = q->next)
      if (q->dtype == dtype && q->ndim == ndim && memcmp(q->dims, key->dims, n) == 0) return q;
  if (g->n_geos >= g->cap_geos) {
    void *t = g->geos;
    if (!rehash(&t, &g->cap_geos, offsetof(ag_geo, next), hash_geo)) return NULL;
    g->geos = t;
  }
  ag_geo *q = ag__bump(&g->mem, sizeof *q + n);
  if (!q) return NULL;
  memcpy(q, key, sizeof *q);
  memcpy(q->dims, key->dims, n);
  q->numel = ag__numel(ndim, q->dims);
  q->contiguous = ag__is_contiguous(ndim, q->dims, q->dims + ndim);
  q->uniform = true;
  for (int k = 0; k < ndim; k++)
    if (shape[k] != 1 && strides[k] != 0) q->uniform = false;
  ag_geo **slot = &g->geos[h & (uint64_t)(g->cap_geos - 1)];
  q->next = *slot;
  *slot = q;
  g->n_geos++;
  return q;
}

static uint64_t hash_params(const void *e) {
  const ag_params *p = &((const ag_pparam *)e)->p;
  uint64_t h = ag__mix((uint64_t)p->ni, (uint64_t)p->nf), v;
  for (int k = 0; k < p->ni; k++) h = ag__mix(h, (uint64_t)p->i[k]);
  for (int k = 0; k < p->nf; k++) {
    memcpy(&v, &p->f[k], sizeof v);
    h = ag__mix(h, v);
  }
  return h;
}

const ag_params *ag__program_params(ag_program *g, const ag_params *p) {
  static const ag_params none;
  if (!p || (p->ni == 0 && p->nf == 0)) return &none;
  ag_pparam key;
  memset(&key, 0, sizeof key);
  key.p.ni = p->ni;
  key.p.nf = p->nf;
  memcpy(key.p.i, p->i, sizeof(int64_t) * (size_t)p->ni);
  memcpy(key.p.f, p->f, sizeof(double) * (size_t)p->nf);
  uint64_t h = hash_params(&key);
  if (g->cap_params)
    for (ag_pparam *q = g->params[h & (uint64_t)(g->cap_params - 1)]; q; q = q->next)
      if (memcmp(&q->p, &key.p, sizeof key.p) == 0) return &q->p;
  if (g->n_params >= g->cap_params) {
    void *t = g->params;
    if (!rehash(&t, &g->cap_params, offsetof(ag_pparam, next), hash_params)) return NULL;
    g->params = t;
  }
  ag_pparam *q = ag__bump(&g->mem, sizeof *q);
  if (!q) return NULL;
  q->p = key.p;
  ag_pparam **slot = &g->params[h & (uint64_t)(g->cap_params - 1)];
  q->next = *slot;
  *slot = q;
  g->n_params++;
  return &q->p;
}

/* ---- the program ---- */

ag_program *ag__program_new(void) {
  ag_program *g = ag__alloc(sizeof *g);
  if (g) memset(g, 0, sizeof *g);
  return g;
}

void ag__program_free(ag_program *g) {
  if (!g) return;
  for (int64_t k = 0; k < g->n_st; k++)
    if (g->st[k].st) ag_storage_release(g->st[k].st);
  for (int32_t k = 0; k < g->n_inputs; k++)
    if (g->inputs[k].pin) ag_storage_release(g->inputs[k].pin);
  for (int32_t k = 0; k < g->n_outputs; k++)
    if (g->outputs[k].t) ag_tensor_release(g->outputs[k].t);
  for (int64_t k = 0; k < g->n_fresh; k++)
    if (g->fresh[k].grad.t) ag_tensor_release(g->fresh[k].grad.t);
  for (int64_t k = 0; k < g->n_leaves; k++) {
    ag_tensor_release(g->leaves[k].t);
    ag_tensor_release(g->leaves[k].entry_t);
    ag_tensor_release(g->leaves[k].exit.t);
  }
  for (int64_t k = 0; k < g->n_guards; k++) {
    ag_tensor_release(g->guards[k].t);
    ag__array_release(g->guards[k].arr);
  }
  AG_VEC_FREE(g->ins, g->cap_ins);
  AG_VEC_FREE(g->st, g->cap_st);
  AG_VEC_FREE(g->fresh, g->cap_fresh);
  AG_VEC_FREE(g->leaves, g->cap_leaves);
  AG_VEC_FREE(g->guards, g->cap_guards);
  AG_VEC_FREE(g->geos, g->cap_geos);
  AG_VEC_FREE(g->params, g->cap_params);
  ag__bump_free(&g->mem);
  ag__free(g, sizeof *g);
}

int32_t ag__program_storage(ag_program *g, int kind, int64_t nbytes, int dtype) {
  if (g->n_st >= INT32_MAX - 1) {
    ag__fail(AG_ERR_MEMORY, "a frozen program has at most 2^31 values");
    return -1;
  }
  ag_pst *s = AG_PUSH(g->st, g->n_st, g->cap_st);
  if (!s) return -1;
  memset(s, 0, sizeof *s);
  s->kind = (uint8_t)kind;
  s->dtype = (uint8_t)dtype;
  s->nbytes = nbytes;
  s->index = -1;
  return (int32_t)(g->n_st - 1);
}

ag_ins *ag__program_ins(ag_program *g, int op, uint32_t n_in, int n_out, int n_written) {
  if (g->n_ins >= INT32_MAX - 1) return ag__fail_null(AG_ERR_MEMORY, "a frozen program has at most 2^31 instructions");
  ag_val *v = ag__bump(&g->mem, sizeof *v * (n_in + (uint32_t)n_written));
  ag_ins *i = v ? AG_PUSH(g->ins, g->n_ins, g->cap_ins) : NULL;
  if (!i) return NULL;
  memset(i, 0, sizeof *i);
  i->op = (int16_t)op;
  i->n_in = n_in;
  i->n_out = (uint8_t)n_out;
  i->n_written = (uint8_t)n_written;
  i->in = v;
  i->out = v + n_in;
  return i;
}

bool ag__program_whole(ag_program *g, int32_t st, uint32_t ver, ag_val *out) {
  const ag_pst *s = &g->st[st];
  int64_t n = s->nbytes / ag__dtype_size(s->dtype), one = 1;
  *out = (ag_val){st, ver, 0, ag__program_geo(g, s->dtype, 1, &n, &one)};
  return out->geo != NULL;
}

uint32_t ag__op_side_writes(int op, int n_in) {
  switch (op) {
    case AG_OP_uniform:
    case AG_OP_normal: return 1u << 1;                    /* the generator moves on */
    case AG_OP_sgd: return n_in > 3 ? 1u << 3 : 0;        /* momentum buffer */
    case AG_OP_adam: return 1u << 3 | 1u << 4 | 1u << 5;  /* both moments, step count */
    default: return 0;
  }
}
