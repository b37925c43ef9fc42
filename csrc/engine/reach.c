#include "ops/node.h"

/* A set of nodes (open addressing) that is its own list of work: `list` holds them in the order they were met. */
typedef struct seen {
  ag_node **slots, **list;
  size_t cap, count;
} seen;

static size_t place(const seen *s, const ag_node *n) {
  size_t h = (size_t)(((uintptr_t)n >> 6) * (uintptr_t)0x9E3779B97F4A7C15u >> 20) & (s->cap - 1);
  while (s->slots[h] && s->slots[h] != n) h = (h + 1) & (s->cap - 1);
  return h;
}

static void seen_free(seen *s) {
  if (s->slots) ag__free(s->slots, s->cap * sizeof(ag_node *));
  if (s->list) ag__free(s->list, s->cap / 2 * sizeof(ag_node *));
}

static int seen_init(seen *s, size_t cap) {
  s->cap = cap;
  s->count = 0;
  s->slots = ag__alloc(cap * sizeof(ag_node *));
  s->list = ag__alloc(cap / 2 * sizeof(ag_node *));
  if (!s->slots || !s->list) {
    seen_free(s);
    return AG_ERR_MEMORY;
  }
  memset(s->slots, 0, cap * sizeof(ag_node *));
  return AG_OK;
}

static int add(seen *s, ag_node *n) {
  size_t h = place(s, n);
  if (s->slots[h]) return AG_OK;
  if (s->count * 2 == s->cap) {
    seen bigger;
    if (seen_init(&bigger, s->cap * 2)) return AG_ERR_MEMORY;
    for (size_t k = 0; k < s->count; k++) bigger.slots[place(&bigger, bigger.list[k] = s->list[k])] = s->list[k];
    bigger.count = s->count;
    seen_free(s);
    *s = bigger;
    h = place(s, n);
  }
  s->slots[h] = n;
  s->list[s->count++] = n;
  return AG_OK;
}

int ag_reaches_others(int n, ag_tensor *const *roots, int n_own, ag_tensor *const *own) {
  seen s;
  int st = AG_OK, found = 0;
  if (seen_init(&s, 256)) return AG_ERR_MEMORY;
  for (int k = 0; k < n && !st && !found; k++) {
    ag_node *fn;
    if (!roots[k]) continue;
    st = ag__tensor_fn(roots[k], &fn);
    if (!st && fn) st = add(&s, fn);
    if (!st && !fn && roots[k]->leaf_grad) {
      found = 1;
      for (int j = 0; j < n_own; j++) found &= own[j] != roots[k];
    }
  }
  for (size_t k = 0; !st && !found && k < s.count; k++) {
    ag_node *node = s.list[k];
    if (node->op == AG_OP_ACCUMULATE) {
      found = 1;
      for (int j = 0; j < n_own; j++) found &= own[j]->acc != node;
    }
    for (uint32_t j = 0; j < node->n_in && !st; j++)
      if (node->in[j].node) st = add(&s, node->in[j].node);
  }
  seen_free(&s);
  return st ? st : found;
}
