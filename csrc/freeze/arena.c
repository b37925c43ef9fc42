#include "freeze/plan.h"

#include <stdlib.h>

/* ---- lifetimes and homes ---- */

static void meet(ag_plan *p, const ag_val *v, int32_t unit) {
  ag_life *l = &p->life[v->st];
  if (l->first < 0) l->first = unit;
  l->last = unit;
  if (!ag__val_whole(p->g, v)) l->aligned = false;
}

static void lifetimes(ag_plan *p) {
  const ag_program *g = p->g;
  for (int64_t u = 0; u < g->n_units; u++)
    for (int32_t k = 0; k < g->units[u].n; k++) {
      const ag_ins *i = &g->ins[g->members[g->units[u].first + k]];
      for (uint32_t j = 0; j < i->n_in; j++) meet(p, &i->in[j], (int32_t)u);
      for (int j = 0; j < i->n_written; j++) meet(p, &i->out[j], (int32_t)u);
    }
  for (int64_t k = 0; k < g->n_st; k++) {
    const ag_pst *s = &g->st[k];
    ag_life *l = &p->life[k];
    if (s->kind == AG_P_CONST || s->kind == AG_P_BOUND) l->home = AG_HOME_FIXED;
    else if (s->kind != AG_P_INTERNAL || s->visible) l->home = AG_HOME_VAR;
    else if (l->first < 0) l->home = AG_HOME_NONE;
    else {
      const ag_unit *u = &g->units[l->first];
      bool one = l->first == l->last && u->ew && u->n > 1 && l->aligned && s->nbytes == u->numel * ag__dtype_size(s->dtype);
      l->home = one ? AG_HOME_REGISTER : AG_HOME_ARENA;
    }
  }
}

/* ---- results in the place of operands that die ---- */

static bool touches(const ag_ins *i, int32_t st) {
  for (uint32_t j = 0; j < i->n_in; j++)
    if (i->in[j].st == st) return true;
  for (int j = 0; j < i->n_written; j++)
    if (i->out[j].st == st) return true;
  return false;
}

static bool can_give(const ag_plan *p, const ag_unit *u, int32_t unit, int32_t member, int32_t from, int32_t to) {
  const ag_program *g = p->g;
  const ag_life *a = &p->life[from], *o = &p->life[to];
  if (a->home != AG_HOME_ARENA || a->last != unit || a->first == unit || !a->aligned || !o->aligned) return false;
  if (g->st[from].nbytes != g->st[to].nbytes || ag__dtype_size(g->st[from].dtype) != ag__dtype_size(g->st[to].dtype)) return false;
  for (int32_t k = member + 1; k < u->n; k++)
    if (touches(&g->ins[g->members[u->first + k]], from)) return false;
  return true;
}

static void share(ag_plan *p, bool *taken) {
  ag_program *g = p->g;
  for (int64_t q = 0; q < g->n_units; q++) {
    const ag_unit *u = &g->units[q];
    if (!u->ew) continue;
    for (int32_t k = 0; k < u->n; k++) {
      const ag_ins *i = &g->ins[g->members[u->first + k]];
      int32_t to = i->out[0].st;
      if (i->inplace || i->op == AG_OP_cast || p->life[to].home != AG_HOME_ARENA || p->life[to].first != q) continue;
      for (uint32_t j = 0; j < i->n_in; j++) {
        int32_t from = i->in[j].st;
        if (taken[from] || !can_give(p, u, (int32_t)q, k, from, to)) continue;
        taken[from] = true;
        p->life[to].into = from;
        g->in_place++;
        break;
      }
    }
  }
}

/* ---- layout ---- */

enum { LINE = 64, SMALL = 1200 };

static int64_t rounded(int64_t n) { return (n + LINE - 1) & ~(int64_t)(LINE - 1); }

static int by_size(const void *a, const void *b) {
  const ag_span *x = *(ag_span *const *)a, *y = *(ag_span *const *)b;
  if (x->size != y->size) return x->size > y->size ? -1 : 1;
  return x->first < y->first ? -1 : x->first > y->first;
}

/* Largest first, each into the lowest gap of those that live at the same time.  Quadratic, so for short lists. */
static int layout_offline(ag_span *s, int64_t n, int64_t *total) {
  size_t room = sizeof(ag_span *) * (size_t)(n + 1) * 2;
  ag_span **order = ag__alloc(room), **placed;
  if (!order) return AG_ERR_MEMORY;
  placed = order + n + 1;
  int64_t n_placed = 0;
  *total = 0;
  for (int64_t k = 0; k < n; k++) order[k] = &s[k];
  qsort(order, (size_t)n, sizeof *order, by_size);
  for (int64_t k = 0; k < n; k++) {
    ag_span *x = order[k];
    int64_t at = 0, size = rounded(x->size), best = -1, best_gap = INT64_MAX;
    for (int64_t j = 0; j < n_placed; j++) { /* by offset */
      const ag_span *y = placed[j];
      if (y->last < x->first || y->first > x->last) continue;
      if (y->at >= at + size && y->at - at < best_gap) {
        best = at;
        best_gap = y->at - at;
      }
      if (y->at + rounded(y->size) > at) at = y->at + rounded(y->size);
    }
    x->at = best >= 0 ? best : at;
    int64_t j = n_placed++;
    for (; j > 0 && placed[j - 1]->at > x->at; j--) placed[j] = placed[j - 1];
    placed[j] = x;
    if (x->at + size > *total) *total = x->at + size;
  }
  ag__free(order, room);
  return AG_OK;
}

/* Memory as a list of segments in address order; free ones also in lists by the logarithm of their size. */
typedef struct seg {
  int64_t at, size;
  int32_t prev, next, up, down; /* neighbours; in the free list */
  bool used;
} seg;

typedef struct heap {
  seg *seg;
  int64_t n, cap;
  int32_t bin[64], tail, spare;
} heap;

static int bin_of(int64_t size) { return 63 - __builtin_clzll((unsigned long long)size); }

static void unlist(heap *h, int32_t k) {
  seg *x = &h->seg[k];
  if (x->up >= 0) h->seg[x->up].down = x->down;
  else h->bin[bin_of(x->size)] = x->down;
  if (x->down >= 0) h->seg[x->down].up = x->up;
}

static void enlist(heap *h, int32_t k) {
  seg *x = &h->seg[k];
  int32_t *head = &h->bin[bin_of(x->size)];
  x->used = false;
  x->up = -1;
  x->down = *head;
  if (*head >= 0) h->seg[*head].up = k;
  *head = k;
}

static int32_t new_seg(heap *h) {
  if (h->spare >= 0) {
    int32_t k = h->spare;
    h->spare = h->seg[k].next;
    return k;
  }
  seg *s = AG_PUSH(h->seg, h->n, h->cap);
  return s ? (int32_t)(s - h->seg) : -1;
}

static int32_t heap_take(heap *h, int64_t size) {
  int32_t best = -1;
  for (int b = bin_of(size); b < 64 && best < 0; b++) {
    int tries = 0;
    for (int32_t k = h->bin[b]; k >= 0 && tries < 32; k = h->seg[k].down, tries++)
      if (h->seg[k].size >= size && (best < 0 || h->seg[k].size < h->seg[best].size)) best = k;
  }
  if (best < 0) {
    /* Grow at the end, taking in a free tail. */
    int32_t t = h->tail;
    if (t >= 0 && !h->seg[t].used) {
      unlist(h, t);
      h->seg[t].size = size;
      h->seg[t].used = true;
      return t;
    }
    int32_t k = new_seg(h);
    if (k < 0) return -1;
    h->seg[k] = (seg){t >= 0 ? h->seg[t].at + h->seg[t].size : 0, size, t, -1, -1, -1, true};
    if (t >= 0) h->seg[t].next = k;
    return h->tail = k;
  }
  unlist(h, best);
  int64_t rest = h->seg[best].size - size;
  if (rest > 0) {
    int32_t k = new_seg(h);
    if (k < 0) return -1;
    seg *x = &h->seg[best];
    h->seg[k] = (seg){x->at + size, rest, best, x->next, -1, -1, false};
    if (x->next >= 0) h->seg[x->next].prev = k;
    else h->tail = k;
    x->next = k;
    x->size = size;
    enlist(h, k);
  }
  h->seg[best].used = true;
  return best;
}

static void join_next(heap *h, int32_t k) {
  int32_t j = h->seg[k].next;
  h->seg[k].size += h->seg[j].size;
  h->seg[k].next = h->seg[j].next;
  if (h->seg[k].next >= 0) h->seg[h->seg[k].next].prev = k;
  else h->tail = k;
  h->seg[j].next = h->spare;
  h->spare = j;
}

static void heap_give(heap *h, int32_t k) {
  int32_t next = h->seg[k].next, prev = h->seg[k].prev;
  if (next >= 0 && !h->seg[next].used) {
    unlist(h, next);
    join_next(h, k);
  }
  if (prev >= 0 && !h->seg[prev].used) {
    unlist(h, prev);
    join_next(h, prev);
    k = prev;
  }
  enlist(h, k);
}

typedef struct event {
  int32_t unit, span; /* span >= 0: born, else ~span dies */
} event;

static int by_unit(const void *a, const void *b) {
  const event *x = a, *y = b;
  if (x->unit != y->unit) return x->unit < y->unit ? -1 : 1;
  /* What dies at a unit is still read by it: births come first. */
  bool bx = x->span >= 0, by = y->span >= 0;
  if (bx != by) return bx ? -1 : 1;
  return x->span < y->span ? -1 : x->span > y->span;
}

static int layout_online(ag_span *s, int64_t n, int64_t *total, int64_t *lower) {
  size_t b1 = sizeof(event) * (size_t)(2 * n + 1), b2 = sizeof(int32_t) * (size_t)(n + 1);
  event *e = ag__alloc(b1);
  int32_t *where = ag__alloc(b2);
  heap h = {.tail = -1, .spare = -1};
  int st = e && where ? AG_OK : AG_ERR_MEMORY;
  for (int k = 0; k < 64; k++) h.bin[k] = -1;
  *total = *lower = 0;
  if (!st) {
    for (int64_t k = 0; k < n; k++) {
      e[2 * k] = (event){s[k].first, (int32_t)k};
      e[2 * k + 1] = (event){s[k].last, ~(int32_t)k};
    }
    qsort(e, (size_t)(2 * n), sizeof *e, by_unit);
    int64_t live = 0;
    for (int64_t k = 0; k < 2 * n && !st; k++) {
      if (e[k].span >= 0) {
        ag_span *x = &s[e[k].span];
        int32_t q = where[e[k].span] = heap_take(&h, rounded(x->size));
        if (q < 0) {
          st = AG_ERR_MEMORY;
          break;
        }
        x->at = h.seg[q].at;
        if (x->at + rounded(x->size) > *total) *total = x->at + rounded(x->size);
        live += rounded(x->size);
        if (live > *lower) *lower = live;
      } else {
        live -= rounded(s[~e[k].span].size);
        heap_give(&h, where[~e[k].span]);
      }
    }
  }
  if (e) ag__free(e, b1);
  if (where) ag__free(where, b2);
  AG_VEC_FREE(h.seg, h.cap);
  return st;
}

int ag__arena_layout(ag_span *s, int64_t n, int64_t *total, int64_t *lower_bound) {
  int st = layout_online(s, n, total, lower_bound);
  if (st || n > SMALL || *total == *lower_bound) return st;
  size_t room = sizeof *s * (size_t)(n + 1);
  ag_span *other = ag__alloc(room);
  if (!other) return AG_ERR_MEMORY;
  int64_t t;
  memcpy(other, s, sizeof *s * (size_t)n);
  st = layout_offline(other, n, &t);
  if (!st && t < *total) {
    memcpy(s, other, sizeof *s * (size_t)n);
    *total = t;
  }
  ag__free(other, room);
  return st;
}

/* ---- the arena ---- */

static int32_t root_of(ag_plan *p, int32_t k) {
  while (p->life[k].into >= 0) k = p->life[k].into;
  return k;
}

int ag__plan_memory(ag_plan *p, bool inplace, bool reuse) {
  ag_program *g = p->g;
  size_t b1 = (size_t)g->n_st + 1, b2 = sizeof(ag_span) * (size_t)(g->n_st + 1), b3 = sizeof(int64_t) * (size_t)(g->n_st + 1);
  for (int64_t k = 0; k < g->n_st; k++) p->life[k] = (ag_life){.first = -1, .into = -1, .var = -1, .aligned = true};
  lifetimes(p);
  bool *taken = ag__alloc(b1);
  ag_span *span = ag__alloc(b2);
  int64_t *index = ag__alloc(b3), n = 0;
  int st = taken && span && index ? AG_OK : AG_ERR_MEMORY;
  if (!st) {
    memset(taken, 0, b1);
    if (inplace) share(p, taken);
    for (int32_t k = 0; k < g->n_st; k++) {
      ag_life *l = &p->life[k];
      if (l->home != AG_HOME_ARENA || l->into >= 0) continue;
      index[k] = n;
      span[n++] = (ag_span){g->st[k].nbytes > 0 ? g->st[k].nbytes : 1, 0, l->first, l->last};
    }
    for (int32_t k = 0; k < g->n_st; k++) {
      if (p->life[k].home != AG_HOME_ARENA || p->life[k].into < 0) continue;
      /* Chains get shorter as they are walked, so that long ones stay linear. */
      int32_t r = root_of(p, k);
      for (int32_t j = k, next; p->life[j].into >= 0 && p->life[j].into != r; j = next) {
        next = p->life[j].into;
        p->life[j].into = r;
      }
      if (p->life[k].last > span[index[r]].last) span[index[r]].last = p->life[k].last;
    }
    st = ag__arena_layout(span, n, &p->arena_bytes, &p->lower_bound);
    if (!st && !reuse) {
      p->arena_bytes = 0;
      for (int64_t k = 0; k < n; k++) {
        span[k].at = p->arena_bytes;
        p->arena_bytes += rounded(span[k].size);
      }
    }
    for (int32_t k = 0; k < g->n_st && !st; k++)
      if (p->life[k].home == AG_HOME_ARENA) p->life[k].at = span[index[root_of(p, k)]].at;
  }
  if (taken) ag__free(taken, b1);
  if (span) ag__free(span, b2);
  if (index) ag__free(index, b3);
  return st;
}
