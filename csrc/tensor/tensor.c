#include "tensor/tensor.h"

/* Data up to this many bytes shares the block of its storage header. */
enum { INLINE_MAX = 1024, HEADER = (sizeof(ag_storage) + 63) & ~63 };

void (*ag__tensor_drop_graph)(ag_tensor *t);
AG_TLS ag_births ag__births;

/* A storage with `extra` bytes of room before its inline data. */
static ag_storage *storage_new(size_t extra, size_t nbytes) {
  bool in = nbytes <= INLINE_MAX;
  size_t head = HEADER + extra + (in ? nbytes : 0);
  ag_storage *s = ag__alloc(head);
  if (!s) return NULL;
  s->data = (char *)s + HEADER + extra;
  s->head = head;
  s->block = 0;
  if (!in) {
    s->block = nbytes;
    s->data = ag__alloc(nbytes);
    if (!s->data) {
      ag__free(s, head);
      return NULL;
    }
  }
  atomic_init(&s->refs, 1);
  s->version = 0;
  s->nbytes = nbytes;
  s->free_fn = NULL;
  s->ctx = NULL;
  s->written.code = 0;
  atomic_init(&s->trace, 0);
  ag__cnt.storages++;
  ag__bytes_add((int64_t)nbytes);
  return s;
}

ag_storage *ag__storage_new(size_t nbytes) { return storage_new(0, nbytes); }

ag_storage *ag__storage_foreign(void *data, size_t nbytes, void (*free_fn)(void *), void *ctx) {
  ag_storage *s = ag__storage_new(0);
  if (!s) return NULL;
  s->data = data;
  s->nbytes = nbytes;
  s->free_fn = free_fn;
  s->ctx = ctx;
  ag__bytes_add((int64_t)nbytes);
  return s;
}

void ag_storage_release(ag_storage *s) {
  if (!s || !ag__unref(&s->refs)) return;
  ag__cnt.storages--;
  ag__bytes_add(-(int64_t)s->nbytes);
  if (s->block) ag__free(s->data, s->block);
  else if (s->free_fn) s->free_fn(s->ctx);
  ag__free(s, s->head);
}

static ag_array *array_block(int ndim) {
  ag_array *a = ag__alloc(sizeof(ag_array) + sizeof(int64_t) * 2 * (size_t)ndim);
  if (!a) return NULL;
  atomic_init(&a->refs, 1);
  a->with_storage = false;
  return a;
}

ag_array *ag__array_new(int dtype, int ndim, const int64_t *shape) {
  int64_t numel = ag__numel(ndim, shape), bytes;
  if (numel < 0 || __builtin_mul_overflow(numel, ag__dtype_size(dtype), &bytes))
    return ag__fail_null(AG_ERR_MEMORY, "out of memory: the number of elements does not fit 64 bits");
  for (int k = 0; k < ndim; k++)
    if (shape[k] < 0) {
      char b[256];
      return ag__fail_null(AG_ERR_RUNTIME, "Trying to create tensor with negative dimension %lld: %s", (long long)shape[k],
                           ag__shape_text(ndim, shape, b, sizeof b));
    }
  /* Inline data starts on a 32-byte line behind header and array. */
  size_t extra = (sizeof(ag_array) + sizeof(int64_t) * 2 * (size_t)ndim + 31) & ~(size_t)31;
  ag_storage *st = storage_new(extra, (size_t)bytes);
  if (!st) return NULL;
  ag_array *a = (ag_array *)(void *)((char *)st + HEADER);
  atomic_init(&a->refs, 1);
  a->with_storage = true;
  a->st = st;
  a->dtype = (uint8_t)dtype;
  a->ndim = (uint8_t)ndim;
  a->contiguous = true;
  a->numel = numel;
  a->offset = 0;
  for (int k = 0; k < ndim; k++) a->dims[k] = shape[k];
  ag__strides_contiguous(ndim, shape, a->dims + ndim);
  return a;
}

ag_array *ag__array_like(const ag_array *a) {
  size_t dims = sizeof(int64_t) * 2 * (size_t)a->ndim, extra = (sizeof(ag_array) + dims + 31) & ~(size_t)31;
  ag_storage *st = storage_new(extra, (size_t)a->numel * (size_t)ag__dtype_size(a->dtype));
  if (AG_UNLIKELY(!st)) return NULL;
  ag_array *r = (ag_array *)(void *)((char *)st + HEADER);
  memcpy(r, a, sizeof(ag_array) + dims);
  atomic_init(&r->refs, 1);
  r->with_storage = true;
  r->offset = 0;
  r->st = st;
  return r;
}

ag_array *ag__array_view(ag_storage *st, int dtype, int ndim, const int64_t *shape, const int64_t *strides, int64_t offset) {
  ag_array *a = array_block(ndim);
  if (!a) return NULL;
  a->st = st;
  if (st) ag__storage_retain(st);
  a->dtype = (uint8_t)dtype;
  a->ndim = (uint8_t)ndim;
  a->numel = ag__numel(ndim, shape);
  a->offset = offset;
  memcpy(a->dims, shape, sizeof(int64_t) * (size_t)ndim);
  memcpy(a->dims + ndim, strides, sizeof(int64_t) * (size_t)ndim);
  a->contiguous = ag__is_contiguous(ndim, shape, strides);
  return a;
}

void ag__array_release(ag_array *a) {
  if (!a || !ag__unref(&a->refs)) return;
  if (!a->with_storage) {
    ag_storage_release(a->st);
    ag__free(a, sizeof(ag_array) + sizeof(int64_t) * 2 * (size_t)a->ndim);
  } else {
    ag_storage_release(a->st);
  }
}

ag_tensor *ag__tensor_wrap(ag_array *a) {
  if (!a) return NULL;
  ag_tensor *t = ag__alloc(sizeof *t);
  if (!t) {
    ag__array_release(a);
    return NULL;
  }
  *t = (ag_tensor){0};
  atomic_init(&t->refs, 1);
  t->arr = a;
  t->born = ag__births.trace;
  ag__births.alive++; /* read only while a trace runs, which starts it at 0 */
  ag__cnt.tensors++;
  return t;
}

void ag_tensor_retain(ag_tensor *t) { ag__ref(&t->refs); }

void ag_tensor_release(ag_tensor *t) {
  /* A gradient may hold a gradient (create_graph), a view its base: walk the chain instead of recursing. */
  while (t && ag__unref(&t->refs)) {
    ag_tensor *grad = t->grad, *base = t->base;
    if (t->fn || t->acc) ag__tensor_drop_graph(t);
    if (t->born == ag__births.trace) ag__births.alive--;
    ag__array_release(t->arr);
    ag__free(t, sizeof *t);
    ag__cnt.tensors--;
    if (grad && base) ag_tensor_release(base);
    t = grad ? grad : base;
  }
}
