/* tensor.h: floor 3.  Storage (memory), array (a typed, strided view of it), tensor (an array in the graph). */
#ifndef AG_TENSOR_H
#define AG_TENSOR_H

#include "base/shape.h"

/* Memory with a version counter.  Small data lies in the same block, behind the header, and so does the array that
 * was made with it (which holds a reference on the storage as any other array does, so the block goes last). */
struct ag_storage {
  ag_refs refs;
  uint32_t version;  /* writes in place so far */
  char *data;
  size_t nbytes, block; /* bytes of data; of the block that holds it when separate (0: inline or foreign) */
  size_t head;          /* bytes of this block */
  void (*free_fn)(void *);
  void *ctx;
  ag_site written;   /* position of the latest write */
  _Atomic uint64_t trace; /* the trace that knows this storage (upper half), and its number there; 0: none */
};

/* Shape and strides of memory; never changes once made, so that graph and trace share it freely. */
typedef struct ag_array {
  ag_refs refs;
  uint8_t dtype, ndim;
  bool contiguous, with_storage; /* with_storage: lies in its storage's block */
  int64_t numel, offset; /* offset in elements */
  ag_storage *st;
  int64_t dims[]; /* shape, then strides */
} ag_array;

static inline const int64_t *ag__shape(const ag_array *a) { return a->dims; }
static inline const int64_t *ag__strides(const ag_array *a) { return a->dims + a->ndim; }
static inline char *ag__data(const ag_array *a) { return a->st->data + a->offset * ag__dtype_size(a->dtype); }

ag_storage *ag__storage_new(size_t nbytes);
ag_storage *ag__storage_foreign(void *data, size_t nbytes, void (*free_fn)(void *), void *ctx);
static inline void ag__storage_retain(ag_storage *s) { ag__ref(&s->refs); }

/* New arrays (one reference).  new: fresh contiguous memory; view: other geometry over a's storage. */
ag_array *ag__array_new(int dtype, int ndim, const int64_t *shape);
/* Fresh memory of a's type and shape; a is contiguous. */
ag_array *ag__array_like(const ag_array *a);
ag_array *ag__array_view(ag_storage *st, int dtype, int ndim, const int64_t *shape, const int64_t *strides, int64_t offset);
static inline ag_array *ag__array_retain(ag_array *a) {
  ag__ref(&a->refs);
  return a;
}
void ag__array_release(ag_array *a);

struct ag_tensor {
  ag_refs refs;
  bool leaf_grad;    /* a leaf that asks for a gradient */
  bool retains_grad; /* not a leaf, .grad wanted all the same */
  bool no_grad_view; /* a view made while grad mode was off: has no part in its base's history */
  uint32_t out_nr;   /* which output of fn */
  uint32_t view_version; /* storage version at which fn was right (views) */
  ag_array *arr;
  ag_node *fn;       /* what made it; NULL for a leaf */
  ag_node *acc;      /* leaf: where its gradients arrive, made when first needed */
  ag_tensor *grad;
  ag_tensor *base;   /* the tensor this one is a view of */
  uint64_t born;     /* the trace it was made in, 0: none */
};

/* Tensors made inside this thread's trace that are still alive (freeze/trace.c asks at its end who kept them). */
typedef struct ag_births {
  uint64_t trace; /* 0: none is running */
  int64_t alive;
} ag_births;
extern AG_TLS ag_births ag__births;

/* New tensor around an array whose reference it takes over (also on failure: NULL). */
ag_tensor *ag__tensor_wrap(ag_array *a);
/* Tensor over the data of arr: borrows nothing, takes its own reference. */
static inline ag_tensor *ag__tensor_of(ag_array *a) { return ag__tensor_wrap(ag__array_retain(a)); }

/* Hooks that the floor above (ops/node.c) fills in: dropping node references of a dying tensor. */
extern void (*ag__tensor_drop_graph)(ag_tensor *t);

#endif
