#include "ops/node.h"

static AG_TLS uint64_t seq_counter; /* of this thread; see ag__node_number */
static ag_lock weak_lock = AG_LOCK_INIT; /* guards node->var and node->retain against dying tensors */

/* A number above those of all nodes it leads to and of all that this thread made before: so a thread's graph is
 * numbered in the order it was built, and graphs that cross threads stay sorted. */
void ag__node_number(ag_node *n) {
  uint64_t s = seq_counter;
  for (uint32_t k = 0; k < n->n_in; k++)
    if (n->in[k].node && n->in[k].node->seq > s) s = n->in[k].node->seq;
  n->seq = seq_counter = s + 1;
}

ag_node *ag__node_new(int op, uint32_t n_in, uint32_t n_out, uint32_t n_saved, const ag_params *p, ag_array *const *outs) {
  size_t ni = p ? (size_t)p->ni : 0, nf = p ? (size_t)p->nf : 0, dims = 0;
  for (uint32_t k = 0; k < n_out; k++) dims += outs[k]->ndim;
  size_t size = sizeof(ag_node) + n_in * sizeof(ag_edge) + n_saved * sizeof(ag_saved) + n_out * sizeof(ag_meta) +
                (ni + dims) * sizeof(int64_t) + nf * sizeof(double);
  ag_node *n = ag__alloc(size);
  if (!n) return NULL;
  memset(n, 0, size);
  atomic_init(&n->refs, 1);
  n->op = (int16_t)op;
  n->n_in = n_in;
  n->n_out = n_out;
  n->n_saved = n_saved;
  n->block = size;
  n->in = (ag_edge *)(n + 1);
  n->saved = (ag_saved *)(n->in + n_in);
  n->out = (ag_meta *)(n->saved + n_saved);
  n->pi = (int64_t *)(n->out + n_out);
  n->pf = (double *)(n->pi + ni);
  n->ni = (int32_t)ni;
  n->nf = (int32_t)nf;
  if (ni) memcpy(n->pi, p->i, ni * sizeof(int64_t));
  if (nf) memcpy(n->pf, p->f, nf * sizeof(double));
  int64_t *shape = (int64_t *)(void *)(n->pf + nf);
  for (uint32_t k = 0; k < n_out; k++) {
    n->out[k].dtype = outs[k]->dtype;
    n->out[k].ndim = outs[k]->ndim;
    n->out[k].shape = shape;
    memcpy(shape, ag__shape(outs[k]), sizeof(int64_t) * outs[k]->ndim);
    shape += outs[k]->ndim;
  }
  n->site = ag__site_now();
  ag__cnt.nodes++;
  if (op != AG_OP_ACCUMULATE) ag__cnt.nodes_built++;
  return n;
}

void ag__node_params(const ag_node *n, ag_params *p) {
  p->ni = n->ni;
  p->nf = n->nf;
  memcpy(p->i, n->pi, sizeof(int64_t) * (size_t)n->ni);
  memcpy(p->f, n->pf, sizeof(double) * (size_t)n->nf);
}

/* ---- release: a work list per thread instead of recursion, so that depth costs no stack ---- */

static AG_TLS ag_node *dead;
static AG_TLS bool draining;

static void drop(ag_node *n) {
  if (n && ag__unref(&n->refs)) {
    n->next_dead = dead;
    dead = n;
  }
}

static void drain(void) {
  if (draining) return;
  draining = true;
  while (dead) {
    ag_node *n = dead;
    dead = n->next_dead;
    for (uint32_t k = 0; k < n->n_in; k++) drop(n->in[k].node);
    for (uint32_t k = 0; k < n->n_saved; k++) {
      ag__array_release(n->saved[k].arr);
      drop(n->saved[k].node);
    }
    while (n->retain) {
      ag_retain *r = n->retain;
      n->retain = r->next;
      ag__free(r, sizeof *r);
    }
    ag__cnt.nodes--;
    ag__free(n, n->block);
  }
  draining = false;
}

void ag_node_release(ag_node *n) {
  drop(n);
  drain();
}
void ag_node_retain(ag_node *n) { ag__ref(&n->refs); }

void ag__node_release_saved(ag_node *n) {
  for (uint32_t k = 0; k < n->n_saved; k++) {
    ag_array *a = n->saved[k].arr;
    ag_node *e = n->saved[k].node;
    n->saved[k].arr = NULL;
    n->saved[k].node = NULL;
    ag__array_release(a);
    drop(e);
  }
  n->released = true;
  drain();
}

/* ---- leaves ---- */

ag_node *ag__tensor_acc(ag_tensor *t) {
  if (t->acc) return t->acc;
  ag_node *n = ag__node_new(AG_OP_ACCUMULATE, 0, 1, 0, NULL, &t->arr);
  if (!n) return NULL;
  ag__lock(&weak_lock);
  if (t->acc) {
    ag_node *mine = n;
    n = t->acc;
    ag__unlock(&weak_lock);
    ag_node_release(mine);
    return n;
  }
  n->var = t;
  t->acc = n;
  ag__unlock(&weak_lock);
  return n;
}

ag_tensor *ag__node_var(ag_node *n) {
  ag__lock(&weak_lock);
  ag_tensor *t = n->var;
  if (t) {
    /* A tensor on its way out has lost its last reference: leave it alone. */
    int32_t r = atomic_load(&t->refs);
    while (r > 0 && !atomic_compare_exchange_weak(&t->refs, &r, r + 1)) {}
    if (r <= 0) t = NULL;
  }
  ag__unlock(&weak_lock);
  return t;
}

static void drop_graph(ag_tensor *t) {
  if (t->acc) {
    ag__lock(&weak_lock);
    if (t->acc->var == t) t->acc->var = NULL;
    ag__unlock(&weak_lock);
    ag_node_release(t->acc);
    t->acc = NULL;
  }
  if (t->fn) {
    if (t->retains_grad) {
      ag__lock(&weak_lock);
      for (ag_retain *r = t->fn->retain; r; r = r->next)
        if (r->tensor == t) r->tensor = NULL;
      ag__unlock(&weak_lock);
    }
    ag_node_release(t->fn);
    t->fn = NULL;
  }
}

__attribute__((constructor)) static void at_load(void) { ag__tensor_drop_graph = drop_graph; }

int ag__node_retained(ag_node *n, uint32_t nr, int (*fn)(ag_tensor *t, void *ctx), void *ctx) {
  int st = AG_OK;
  for (ag_retain *r = n->retain; r && !st; r = r->next) {
    if (r->nr != nr) continue;
    ag__lock(&weak_lock);
    ag_tensor *t = r->tensor;
    int32_t refs = t ? atomic_load(&t->refs) : 0;
    while (refs > 0 && !atomic_compare_exchange_weak(&t->refs, &refs, refs + 1)) {}
    ag__unlock(&weak_lock);
    if (refs <= 0) continue;
    st = fn(t, ctx);
    ag_tensor_release(t);
  }
  return st;
}

int ag_tensor_retain_grad(ag_tensor *t) {
  if (!ag__requires_grad(t)) return ag__fail(AG_ERR_RUNTIME, "can't retain_grad on Tensor that has requires_grad=False");
  ag_node *fn;
  int st = ag__tensor_fn(t, &fn);
  if (st || !fn || t->retains_grad) return st;
  ag_retain *r = ag__alloc(sizeof *r);
  if (!r) return AG_ERR_MEMORY;
  r->tensor = t;
  r->nr = t->out_nr;
  ag__lock(&weak_lock);
  r->next = fn->retain;
  fn->retain = r;
  ag__unlock(&weak_lock);
  t->retains_grad = true;
  return AG_OK;
}

void ag__tensor_set_fn(ag_tensor *t, ag_node *fn, uint32_t nr) {
  ag_node *old = t->fn;
  if (old && t->retains_grad) {
    /* The wish for a gradient moves on to the tensor's new value. */
    ag__lock(&weak_lock);
    for (ag_retain **r = &old->retain; *r;) {
      ag_retain *e = *r;
      if (e->tensor == t) {
        *r = e->next;
        if (fn) {
          e->nr = nr;
          e->next = fn->retain;
          fn->retain = e;
        } else {
          ag__free(e, sizeof *e);
        }
      } else {
        r = &e->next;
      }
    }
    ag__unlock(&weak_lock);
  }
  t->fn = fn;
  t->out_nr = nr;
  t->view_version = t->arr->st->version;
  if (old) ag_node_release(old);
}

/* ---- views whose base was written to: their function becomes as_strided of the base's ---- */

void ag__view_params(const ag_tensor *t, ag_params *p) {
  const ag_array *a = t->arr, *b = t->base->arr;
  int nd = a->ndim;
  p->nf = 0;
  p->ni = 2 + 2 * nd;
  p->i[0] = nd;
  memcpy(p->i + 1, ag__shape(a), sizeof(int64_t) * (size_t)nd);
  memcpy(p->i + 1 + nd, ag__strides(a), sizeof(int64_t) * (size_t)nd);
  p->i[1 + 2 * nd] = a->offset - b->offset;
  /* A base that is not row-major: the rules need its strides too. */
  if (!b->contiguous) {
    memcpy(p->i + p->ni, ag__strides(b), sizeof(int64_t) * b->ndim);
    p->ni += b->ndim;
  }
}

static int renew_view(ag_tensor *t) {
  ag_params p;
  ag__view_params(t, &p);
  ag_node *n = ag__node_new(AG_OP_as_strided, 1, 1, 0, &p, &t->arr);
  if (!n) return AG_ERR_MEMORY;
  int st = ag__tensor_edge(t->base, &n->in[0]);
  if (st) {
    ag_node_release(n);
    return st;
  }
  ag__node_number(n);
  ag__tensor_set_fn(t, n, 0);
  return AG_OK;
}

int ag__tensor_fn(ag_tensor *t, ag_node **out) {
  if (AG_UNLIKELY(t->base != NULL) && ag__view_stale(t)) {
    int st = renew_view(t);
    if (st) return st;
  }
  *out = t->fn;
  return AG_OK;
}

int ag__tensor_edge(ag_tensor *t, ag_edge *out) {
  ag_node *fn;
  out->node = NULL;
  out->nr = 0;
  int st = ag__tensor_fn(t, &fn);
  if (st) return st;
  if (fn) {
    out->node = ag__node_retain(fn);
    out->nr = t->out_nr;
  } else if (t->leaf_grad) {
    fn = ag__tensor_acc(t);
    if (!fn) return AG_ERR_MEMORY;
    out->node = ag__node_retain(fn);
  }
  return AG_OK;
}
