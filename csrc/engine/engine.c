#include "engine/engine.h"

#include "ops/exec.h"

#include <stdlib.h>

/* Every edge leads to a node with a smaller sequence number, so taking ready nodes in falling order visits each
 * one after all that feed it: no counting of dependencies, no walk ahead, and the order of additions (hence the
 * bits) is the same each time.  Leaves have number 0 and come last. */

typedef struct task {
  ag_node *node; /* alive as long as the run: the roots' edges lead to it */
  ag_tensor *g[AG_MAX_OUT];
  uint8_t zero; /* bit k: output k has a gradient, of zeros if g[k] stays NULL */
  struct task *next; /* among the spare ones */
} task;

/* Tasks by node: open addressing; and a heap by sequence number. */
typedef struct work {
  task **slots;
  size_t cap, count; /* cap a power of two */
  task **heap;
  size_t heap_cap, heap_n;
  task *slot_buf[64], *heap_buf[64];
  task *spare;
} work;

static size_t hash_of(const ag_node *n, size_t cap) {
  return (size_t)(((uintptr_t)n >> 6) * (uintptr_t)0x9E3779B97F4A7C15u >> 20) & (cap - 1);
}

static void work_init(work *w) {
  memset(w->slot_buf, 0, sizeof w->slot_buf);
  w->slots = w->slot_buf;
  w->cap = AG_COUNT(w->slot_buf);
  w->count = 0;
  w->heap = w->heap_buf;
  w->heap_cap = AG_COUNT(w->heap_buf);
  w->heap_n = 0;
  w->spare = NULL;
}

static void task_done(work *w, task *t) {
  for (int k = 0; k < AG_MAX_OUT; k++)
    if (t->g[k]) ag_tensor_release(t->g[k]);
  t->next = w->spare;
  w->spare = t;
}

static void work_clear(work *w) {
  for (size_t k = 0; k < w->heap_n; k++) task_done(w, w->heap[k]);
  while (w->spare) {
    task *t = w->spare;
    w->spare = t->next;
    ag__free(t, sizeof *t);
  }
  if (w->slots != w->slot_buf) ag__free(w->slots, w->cap * sizeof(task *));
  if (w->heap != w->heap_buf) ag__free(w->heap, w->heap_cap * sizeof(task *));
}

static int grow_slots(work *w) {
  size_t cap = w->cap * 2;
  task **s = ag__alloc(cap * sizeof(task *));
  if (!s) return AG_ERR_MEMORY;
  memset(s, 0, cap * sizeof(task *));
  for (size_t k = 0; k < w->cap; k++) {
    task *t = w->slots[k];
    if (!t) continue;
    size_t h = hash_of(t->node, cap);
    while (s[h]) h = (h + 1) & (cap - 1);
    s[h] = t;
  }
  if (w->slots != w->slot_buf) ag__free(w->slots, w->cap * sizeof(task *));
  w->slots = s;
  w->cap = cap;
  return AG_OK;
}

static bool before(const task *a, const task *b) { return a->node->seq > b->node->seq; }

static int heap_push(work *w, task *t) {
  if (w->heap_n == w->heap_cap) {
    size_t cap = w->heap_cap * 2;
    task **h = ag__alloc(cap * sizeof(task *));
    if (!h) return AG_ERR_MEMORY;
    memcpy(h, w->heap, w->heap_n * sizeof(task *));
    if (w->heap != w->heap_buf) ag__free(w->heap, w->heap_cap * sizeof(task *));
    w->heap = h;
    w->heap_cap = cap;
  }
  size_t k = w->heap_n++;
  while (k > 0 && before(t, w->heap[(k - 1) / 2])) {
    w->heap[k] = w->heap[(k - 1) / 2];
    k = (k - 1) / 2;
  }
  w->heap[k] = t;
  return AG_OK;
}

static task *heap_pop(work *w) {
  task *top = w->heap[0], *last = w->heap[--w->heap_n];
  size_t k = 0;
  for (;;) {
    size_t c = 2 * k + 1;
    if (c >= w->heap_n) break;
    if (c + 1 < w->heap_n && before(w->heap[c + 1], w->heap[c])) c++;
    if (!before(w->heap[c], last)) break;
    w->heap[k] = w->heap[c];
    k = c;
  }
  if (w->heap_n) w->heap[k] = last;
  /* Out of the table: move later entries of the run back over the gap. */
  size_t h = hash_of(top->node, w->cap);
  while (w->slots[h] != top) h = (h + 1) & (w->cap - 1);
  size_t gap = h;
  w->slots[gap] = NULL;
  for (size_t j = (gap + 1) & (w->cap - 1); w->slots[j]; j = (j + 1) & (w->cap - 1)) {
    size_t home = hash_of(w->slots[j]->node, w->cap);
    if (((j - home) & (w->cap - 1)) >= ((j - gap) & (w->cap - 1))) {
      w->slots[gap] = w->slots[j];
      w->slots[j] = NULL;
      gap = j;
    }
  }
  w->count--;
  return top;
}

/* The task of a node, made when first met. */
static task *task_of(work *w, ag_node *n) {
  size_t h = hash_of(n, w->cap);
  while (w->slots[h]) {
    if (w->slots[h]->node == n) return w->slots[h];
    h = (h + 1) & (w->cap - 1);
  }
  if ((w->count + 1) * 2 > w->cap) {
    if (grow_slots(w)) return NULL;
    h = hash_of(n, w->cap);
    while (w->slots[h]) h = (h + 1) & (w->cap - 1);
  }
  task *t = w->spare;
  if (t) w->spare = t->next;
  else t = ag__alloc(sizeof *t);
  if (!t) return NULL;
  *t = (task){.node = n};
  if (heap_push(w, t)) {
    task_done(w, t);
    return NULL;
  }
  w->slots[h] = t;
  w->count++;
  return t;
}

/* ---- gradients on their way ---- */

static bool sole(const ag_tensor *t) {
  ag_tensor *m = (ag_tensor *)(uintptr_t)t;
  return ag__ref_sole(&m->refs) && ag__ref_sole(&m->arr->refs) && ag__ref_sole(&m->arr->st->refs) && m->arr->contiguous &&
         !m->arr->st->free_fn;
}

/* *into += g (takes over g). */
static int add_to(ag_tensor **into, ag_tensor *g) {
  ag_tensor *a = *into;
  if (!a) {
    *into = g;
    return AG_OK;
  }
  int st = AG_OK;
  if (!ag__grad_on() && !ag__recording() && sole(a) && a->arr->dtype == g->arr->dtype) {
    ag_raw in[2] = {ag__raw(a->arr), ag__raw(g->arr)};
    st = ag__exec_ew(ag__k->ew[AG_OP_add].fwd[a->arr->dtype], 2, in, &in[0], NULL, 1);
  } else {
    ag_tensor *sum = ag__apply1(AG_OP_add, 2, (ag_tensor *[]){a, g}, NULL);
    if (sum) {
      ag_tensor_release(a);
      *into = sum;
    } else {
      st = ag_last_status();
    }
  }
  ag_tensor_release(g);
  return st;
}

/* g (taken over) brought to the shape and type of the value it belongs to: broadcasting is undone here, once for
 * all rules.  NULL on failure. */
static ag_tensor *fit(ag_tensor *g, const ag_meta *m) {
  ag_tensor *r = g;
  if (AG_UNLIKELY(!ag__same_shape(g->arr->ndim, ag__shape(g->arr), m->ndim, m->shape))) {
    ag_params p = {.ni = m->ndim, .nf = 0};
    memcpy(p.i, m->shape, sizeof(int64_t) * m->ndim);
    r = ag__apply1(AG_OP_sum_to, 1, &g, &p);
    ag_tensor_release(g);
    g = r;
  }
  if (r && AG_UNLIKELY(r->arr->dtype != m->dtype)) {
    ag_params p = {.ni = 1, .nf = 0};
    p.i[0] = m->dtype;
    r = ag__apply1(AG_OP_cast, 1, &g, &p);
    ag_tensor_release(g);
  }
  return r;
}

/* Gradients of one tensor may arrive from several threads: its .grad is read and replaced under one of these. */
static ag_lock grad_locks[64];

static ag_lock *lock_grad(const ag_tensor *t) {
  ag_lock *l = &grad_locks[((uintptr_t)t >> 6) % AG_COUNT(grad_locks)];
  if (AG_UNLIKELY(atomic_flag_test_and_set_explicit(l, memory_order_acquire))) {
    /* The holder may be waiting for the host language's lock, which this thread holds: let go of it meanwhile. */
    void *token = ag__blocking_begin();
    ag__lock(l);
    ag__blocking_end(token);
  }
  return l;
}

/* Puts g (taken over, may be NULL) in the place of t->grad; *old is to be released outside the lock. */
static int put_grad(ag_tensor *t, ag_tensor *g, ag_tensor **old) {
  if (ag__recording()) {
    int st = ag__thread.recorder->grad_write(ag__thread.recorder, t, g);
    if (st) {
      *old = g;
      return st;
    }
  }
  *old = t->grad;
  t->grad = g;
  return AG_OK;
}

int ag__set_grad(ag_tensor *t, ag_tensor *g) {
  ag_tensor *old = NULL;
  if (g) ag_tensor_retain(g);
  ag_lock *l = lock_grad(t);
  int st = put_grad(t, g, &old);
  ag__unlock(l);
  ag_tensor_release(old);
  return st;
}

static int accumulate(ag_tensor *t, ag_tensor *g, ag_tensor **old) {
  if (ag__recording()) {
    int st = ag__thread.recorder->grad_read(ag__thread.recorder, t);
    if (st) return st;
  }
  ag_tensor *sum;
  if (!t->grad) {
    /* The gradient becomes t's own: a copy unless nobody else can see it. */
    if (sole(g)) {
      ag_tensor_retain(g);
      sum = g;
    } else {
      sum = ag__apply1(AG_OP_clone, 1, &g, NULL);
    }
  } else {
    if (!ag__grad_on()) return ag__apply_inplace(AG_OP_add, 2, (ag_tensor *[]){t->grad, g}, NULL);
    sum = ag__apply1(AG_OP_add, 2, (ag_tensor *[]){t->grad, g}, NULL);
  }
  return sum ? put_grad(t, sum, old) : ag_last_status();
}

int ag__accumulate_grad(ag_tensor *t, ag_tensor *g) {
  ag_tensor *old = NULL;
  ag_lock *l = lock_grad(t);
  int st = accumulate(t, g, &old);
  ag__unlock(l);
  ag_tensor_release(old);
  return st;
}

static int give_retained(ag_tensor *t, void *ctx) { return ag__accumulate_grad(t, ctx); }

/* ---- which nodes lead to the wanted inputs ---- */

typedef struct node_set {
  ag_node **slots;
  int *first; /* 1 + the first of the inputs that this node gives, 0: none */
  bool *on;   /* leads to an input */
  size_t cap, count;
} node_set;

static size_t set_find(const node_set *s, const ag_node *n) {
  size_t h = hash_of(n, s->cap);
  while (s->slots[h] && s->slots[h] != n) h = (h + 1) & (s->cap - 1);
  return h;
}

static int set_init(node_set *s, size_t cap) {
  s->cap = cap;
  s->count = 0;
  s->slots = ag__alloc(cap * sizeof(ag_node *));
  s->first = ag__alloc(cap * (sizeof(int) + sizeof(bool)));
  if (!s->slots || !s->first) {
    if (s->slots) ag__free(s->slots, cap * sizeof(ag_node *));
    if (s->first) ag__free(s->first, cap * (sizeof(int) + sizeof(bool)));
    s->slots = NULL;
    return AG_ERR_MEMORY;
  }
  s->on = (bool *)(s->first + cap);
  memset(s->slots, 0, cap * sizeof(ag_node *));
  memset(s->first, 0, cap * (sizeof(int) + sizeof(bool)));
  return AG_OK;
}

static void set_free(node_set *s) {
  if (!s->slots) return;
  ag__free(s->slots, s->cap * sizeof(ag_node *));
  ag__free(s->first, s->cap * (sizeof(int) + sizeof(bool)));
}

static int set_add(node_set *s, ag_node *n, bool *added) {
  size_t h = set_find(s, n);
  *added = !s->slots[h];
  if (!*added) return AG_OK;
  if ((s->count + 1) * 2 > s->cap) {
    node_set b;
    if (set_init(&b, s->cap * 2)) return AG_ERR_MEMORY;
    for (size_t k = 0; k < s->cap; k++)
      if (s->slots[k]) {
        size_t j = set_find(&b, s->slots[k]);
        b.slots[j] = s->slots[k];
        b.on[j] = s->on[k];
      }
    b.count = s->count;
    set_free(s);
    *s = b;
    h = set_find(s, n);
  }
  s->slots[h] = n;
  s->count++;
  return AG_OK;
}

static int by_seq(const void *a, const void *b) {
  const ag_node *x = *(ag_node *const *)a, *y = *(ag_node *const *)b;
  return x->seq < y->seq ? -1 : x->seq > y->seq;
}

/* Walks all that the roots reach with a list, not by recursion, then marks from the leaves up.  next[k]: 1 + the
 * input after k that the same node gives. */
static int mark_needed(node_set *s, const ag_edge *roots, int n_roots, const ag_edge *targets, int n_targets, int *next) {
  size_t n = 0, cap = 256;
  ag_node **list = ag__alloc(cap * sizeof *list);
  int st = list ? set_init(s, 256) : AG_ERR_MEMORY;
  bool added;
  for (int k = -n_roots; !st && (k < 0 || (size_t)k < n); k++) {
    ag_node *one = k < 0 ? roots[k + n_roots].node : NULL;
    ag_edge e = {one, 0};
    const ag_edge *in = k < 0 ? &e : list[k]->in;
    uint32_t m = k < 0 ? 1 : list[k]->n_in;
    for (uint32_t j = 0; j < m && !st; j++) {
      if (!in[j].node) continue;
      st = set_add(s, in[j].node, &added);
      if (st || !added) continue;
      if (n == cap) {
        ag_node **bigger = ag__alloc(2 * cap * sizeof *list);
        if (!bigger) {
          st = AG_ERR_MEMORY;
          break;
        }
        memcpy(bigger, list, cap * sizeof *list);
        ag__free(list, cap * sizeof *list);
        list = bigger;
        cap *= 2;
      }
      list[n++] = in[j].node;
    }
  }
  if (!st) {
    qsort(list, n, sizeof *list, by_seq);
    for (int k = n_targets - 1; k >= 0; k--) {
      size_t h = set_find(s, targets[k].node);
      if (!s->slots[h]) continue;
      s->on[h] = true;
      next[k] = s->first[h];
      s->first[h] = k + 1;
    }
    for (size_t k = 0; k < n; k++) {
      size_t h = set_find(s, list[k]);
      for (uint32_t j = 0; j < list[k]->n_in && !s->on[h]; j++)
        if (list[k]->in[j].node) s->on[h] = s->on[set_find(s, list[k]->in[j].node)];
    }
  }
  if (list) ag__free(list, cap * sizeof *list);
  return st;
}

/* ---- one run ---- */

typedef struct state {
  const ag_run *r;
  work w;
  node_set needed;
  bool limited;      /* only what leads to inputs */
  ag_edge *targets;  /* edges of the inputs, */
  int *next;         /* those of one node as a list: see mark_needed */
} state;

static bool wanted(const state *s, const ag_node *n) {
  return !s->limited || s->needed.on[set_find(&s->needed, n)];
}

static int send(state *s, const ag_edge *e, ag_tensor *g) {
  g = fit(g, &e->node->out[e->nr]);
  if (!g) return ag_last_status();
  task *t = task_of(&s->w, e->node);
  if (!t) {
    ag_tensor_release(g);
    return AG_ERR_MEMORY;
  }
  return add_to(&t->g[e->nr], g);
}

/* A gradient of zeros: noted, so that it costs no arithmetic on its way. */
static int send_zero(state *s, const ag_edge *e) {
  task *t = task_of(&s->w, e->node);
  if (!t) return AG_ERR_MEMORY;
  t->zero |= (uint8_t)(1u << e->nr);
  return AG_OK;
}

/* Zeros that somebody will see take on a shape. */
static int fill_zeros(task *t) {
  for (uint32_t k = 0; k < t->node->n_out && t->zero >> k; k++) {
    if (!(t->zero >> k & 1) || t->g[k]) continue;
    const ag_meta *m = &t->node->out[k];
    ag_params p = {.ni = 1 + m->ndim, .nf = 1};
    p.i[0] = m->dtype;
    memcpy(p.i + 1, m->shape, sizeof(int64_t) * m->ndim);
    p.f[0] = 0;
    t->g[k] = ag__apply1(AG_OP_full, 0, NULL, &p);
    if (!t->g[k]) return ag_last_status();
  }
  return AG_OK;
}

static int deliver(state *s, task *t) {
  int st = AG_OK;
  if (s->limited) {
    for (int k = s->needed.first[set_find(&s->needed, t->node)] - 1; k >= 0 && !st; k = s->next[k] - 1) {
      ag_tensor *g = t->g[s->targets[k].nr];
      if (!g) continue;
      if (s->r->accumulate) {
        st = ag__accumulate_grad(s->r->inputs[k], g);
      } else {
        ag_tensor_retain(g);
        s->r->grads[k] = g;
      }
    }
    return st;
  }
  if (t->node->op == AG_OP_ACCUMULATE && t->g[0]) {
    ag_tensor *var = ag__node_var(t->node);
    if (var) {
      st = ag__accumulate_grad(var, t->g[0]);
      ag_tensor_release(var);
    }
  }
  return st;
}

enum { FEW = 16 };

static int step(state *s, task *t) {
  ag_node *n = t->node;
  int st = AG_OK;
  /* With create_graph the zeros of a tie are values with a history, as PyTorch's; otherwise a note will do. */
  bool tie = n->op == AG_OP_tied && n->n_in > 1 && !s->r->create_graph;
  if (AG_UNLIKELY(t->zero) && (n->retain || n->op == AG_OP_ACCUMULATE || (s->limited && s->needed.first[set_find(&s->needed, n)])))
    st = fill_zeros(t);
  if (AG_UNLIKELY(n->retain != NULL))
    for (int k = 0; k < AG_MAX_OUT && !st; k++)
      if (t->g[k]) st = ag__node_retained(n, (uint32_t)k, give_retained, t->g[k]);
  if (!st && (s->limited || n->op == AG_OP_ACCUMULATE)) st = deliver(s, t);
  if (st || n->op == AG_OP_ACCUMULATE) return st;

  bool need_buf[FEW], *need = need_buf, any = false;
  ag_tensor *dx_buf[FEW], **dx = dx_buf;
  size_t heap = 0;
  if (n->n_in > FEW) {
    heap = n->n_in * (sizeof(ag_tensor *) + sizeof(bool));
    dx = ag__alloc(heap);
    if (!dx) return AG_ERR_MEMORY;
    need = (bool *)(dx + n->n_in);
  }
  for (uint32_t k = 0; k < n->n_in; k++) {
    dx[k] = NULL;
    need[k] = n->in[k].node && wanted(s, n->in[k].node);
    if (AG_UNLIKELY(tie && k && need[k])) {
      need[k] = false;
      if (!st) st = send_zero(s, &n->in[k]);
    }
    any |= need[k];
  }
  if (any && AG_UNLIKELY(t->zero)) {
    bool all = true;
    for (int k = 0; k < AG_MAX_OUT; k++) all &= !t->g[k];
    for (uint32_t k = 0; k < n->n_in && all && !st; k++)
      if (need[k]) st = send_zero(s, &n->in[k]);
    if (all) any = false;
  }
  if (any && !st) {
    st = ag__run_vjp(n, t->g, need, dx);
    /* The incoming gradients are spent: what passes through becomes its receiver's own. */
    if (!st)
      for (int k = 0; k < AG_MAX_OUT; k++) {
        ag_tensor_release(t->g[k]);
        t->g[k] = NULL;
      }
    for (uint32_t k = 0; k < n->n_in; k++) {
      if (!dx[k]) {
        if (AG_UNLIKELY(t->zero) && need[k] && !st) st = send_zero(s, &n->in[k]);
        continue;
      }
      if (st) ag_tensor_release(dx[k]);
      else st = send(s, &n->in[k], dx[k]);
    }
  }
  if (!st && !s->r->retain_graph) ag__node_release_saved(n);
  if (heap) ag__free(dx, heap);
  return st;
}

static int seed(state *s, int k, const ag_edge *e) {
  ag_tensor *root = s->r->roots[k], *g = s->r->seeds ? s->r->seeds[k] : NULL;
  char a[200], b[200];
  if (!g) {
    if (root->arr->numel != 1)
      return ag__fail(AG_ERR_RUNTIME, "grad can be implicitly created only for scalar outputs");
    ag_params p = {.ni = 1 + root->arr->ndim, .nf = 1};
    p.i[0] = root->arr->dtype;
    memcpy(p.i + 1, ag__shape(root->arr), sizeof(int64_t) * root->arr->ndim);
    p.f[0] = 1;
    g = ag__apply1(AG_OP_full, 0, NULL, &p);
    if (!g) return ag_last_status();
  } else {
    if (!ag__same_shape(g->arr->ndim, ag__shape(g->arr), root->arr->ndim, ag__shape(root->arr)))
      return ag__fail(AG_ERR_RUNTIME,
                      "Mismatch in shape: grad_output[%d] has a shape of torch.Size(%s) and output[%d] has a shape of "
                      "torch.Size(%s).",
                      k, ag__shape_text(g->arr->ndim, ag__shape(g->arr), a, sizeof a), k,
                      ag__shape_text(root->arr->ndim, ag__shape(root->arr), b, sizeof b));
    ag_tensor_retain(g);
  }
  return send(s, e, g);
}

int ag__engine_run(const ag_run *r) {
  state s;
  int st = AG_OK;
  size_t n_edges = (size_t)r->n_roots + (size_t)r->n_inputs;
  size_t size = sizeof(ag_edge) * (n_edges ? n_edges : 1) + sizeof(int) * (size_t)r->n_inputs;
  ag_edge *edges = ag__alloc(size);
  if (!edges) return AG_ERR_MEMORY;
  memset(edges, 0, size);
  s.r = r;
  s.limited = r->inputs != NULL;
  s.targets = edges + r->n_roots;
  s.next = (int *)(edges + n_edges);
  s.needed.slots = NULL;
  work_init(&s.w);
  int mode = ag_grad_set_enabled(r->create_graph);
  for (int k = 0; k < r->n_roots && !st; k++) {
    if (!ag__requires_grad(r->roots[k]))
      st = ag__fail(AG_ERR_RUNTIME, "element %d of tensors does not require grad and does not have a grad_fn", k);
    else st = ag__tensor_edge(r->roots[k], &edges[k]);
  }
  for (int k = 0; k < r->n_inputs && !st; k++) {
    if (!ag__requires_grad(r->inputs[k]))
      st = ag__fail(AG_ERR_RUNTIME, "One of the differentiated Tensors does not require grad");
    else st = ag__tensor_edge(r->inputs[k], &s.targets[k]);
  }
  if (!st && s.limited) st = mark_needed(&s.needed, edges, r->n_roots, s.targets, r->n_inputs, s.next);
  for (int k = 0; k < r->n_roots && !st; k++) {
    if (!edges[k].node->walked) {
      edges[k].node->walked = true;
      ag__cnt.graphs_built++;
    }
    if (wanted(&s, edges[k].node)) st = seed(&s, k, &edges[k]);
  }
  while (!st && s.w.heap_n) {
    task *t = heap_pop(&s.w);
    st = step(&s, t);
    task_done(&s.w, t);
  }
  work_clear(&s.w);
  set_free(&s.needed);
  for (size_t k = 0; k < n_edges; k++) ag_node_release(edges[k].node);
  ag__free(edges, size);
  ag_grad_set_enabled(mode);
  return st;
}
