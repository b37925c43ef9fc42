/* node.h: floor 4.  Nodes of the dynamic graph.
 *
 * A node owns its edges (references to the nodes before it) and its saved values.  A saved value is data +
 * edge + version, never a tensor, so no cycle can pass through the core: tensor -> node -> earlier nodes.
 * Pointers the other way (a leaf's node to its tensor, a node to tensors that retain their gradient) are
 * weak and cleared when the tensor dies. */
#ifndef AG_NODE_H
#define AG_NODE_H

#include "ops/op.h"

typedef struct ag_edge {
  ag_node *node; /* NULL: no gradient flows here */
  uint32_t nr;   /* which of node's outputs; without a node, in rows of any number of inputs: elements of the input */
} ag_edge;

typedef struct ag_saved {
  ag_array *arr;
  ag_node *node;     /* edge of the value when it was an input; NULL also for the node's own outputs */
  uint32_t nr;
  uint32_t version;  /* of the storage when saved */
  int8_t which;      /* >= 0: input number (FN rows with many inputs: at most 127); < 0: output -1-which */
  bool leaf;         /* node is an AccumulateGrad */
} ag_saved;

typedef struct ag_meta {
  uint8_t dtype, ndim;
  int64_t *shape;
} ag_meta;

typedef struct ag_retain {
  ag_tensor *tensor; /* weak */
  uint32_t nr;
  struct ag_retain *next;
} ag_retain;

struct ag_node {
  ag_refs refs;
  int16_t op;
  bool released;    /* saved values were given up by a backward */
  bool walked;      /* a backward has run here: counts graphs built */
  uint32_t n_in, n_out, n_saved;
  int32_t ni, nf;   /* used parameters */
  uint64_t seq;     /* grows with every node: edges always lead to smaller numbers */
  ag_site site;
  size_t block;
  ag_edge *in;
  ag_saved *saved;
  ag_meta *out;
  int64_t *pi;
  double *pf;
  ag_tensor *var;   /* AccumulateGrad: the leaf, weak */
  ag_retain *retain;
  ag_node *next_dead;
};

/* New node with room for its parts, edges and saved values empty; one reference.  Once its edges stand,
 * ag__node_number gives it its place in the order. */
void ag__node_number(ag_node *n);
ag_node *ag__node_new(int op, uint32_t n_in, uint32_t n_out, uint32_t n_saved, const ag_params *p, ag_array *const *outs);
static inline ag_node *ag__node_retain(ag_node *n) {
  ag__ref(&n->refs);
  return n;
}
/* The AccumulateGrad node of a leaf (borrowed), made when first asked for; NULL on failure. */
ag_node *ag__tensor_acc(ag_tensor *t);
/* Up-to-date function of a tensor (borrowed, may be NULL): views are renewed after writes to their base. */
int ag__tensor_fn(ag_tensor *t, ag_node **out);
/* A view has its base's history once somebody wrote to the base. */
static inline bool ag__view_stale(const ag_tensor *t) {
  return !t->no_grad_view && t->view_version != t->arr->st->version && t->base->arr->st == t->arr->st &&
         (t->base->fn != NULL || t->base->leaf_grad);
}
static inline bool ag__requires_grad(const ag_tensor *t) {
  return t->fn != NULL || t->leaf_grad || (AG_UNLIKELY(t->base != NULL) && ag__view_stale(t));
}
/* Where view t lies in its base, as the parameters of as_strided. */
void ag__view_params(const ag_tensor *t, ag_params *p);
/* Edge along which t's gradient flows; takes a reference on the node. */
int ag__tensor_edge(ag_tensor *t, ag_edge *out);
/* New reference to the leaf of an AccumulateGrad node, NULL when it is gone. */
ag_tensor *ag__node_var(ag_node *n);
/* Gives up saved values. */
void ag__node_release_saved(ag_node *n);
/* Replaces t's function (takes over fn's reference). */
void ag__tensor_set_fn(ag_tensor *t, ag_node *fn, uint32_t nr);
/* Runs fn for every tensor that retains the gradient of output nr of n (holding a reference on it). */
int ag__node_retained(ag_node *n, uint32_t nr, int (*fn)(ag_tensor *t, void *ctx), void *ctx);
void ag__node_params(const ag_node *n, ag_params *p);

#endif
