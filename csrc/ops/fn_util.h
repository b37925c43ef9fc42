/* fn_util.h: what the shape rules and executions of named functions share. */
#ifndef AG_FN_UTIL_H
#define AG_FN_UTIL_H

#include "ops/exec.h"
#include "ops/par.h"
#include "ops/vjp.h"

#include <stdio.h>

/* Above this many elements moved (or multiplications) other threads of the host language may run meanwhile. */
enum { AG_LONG_MOVE = 1 << 17, AG_LONG_MATH = 2000000 };
static inline void *ag__long_begin(int64_t work, int64_t limit) { return work >= limit ? ag__blocking_begin() : NULL; }

/* "Long", "Float": the types as PyTorch's messages call them. */
static inline const char *ag__scalar_name(int dtype) {
  static const char *const name[AG_NDTYPE] = {"Bool", "Byte", "Int", "Long", "Float", "Double"};
  return dtype >= 0 && dtype < AG_NDTYPE ? name[dtype] : "?";
}

/* Result k of an op: type and shape. */
static inline void ag__set_out(ag_infer *c, int k, int dtype, int ndim, const int64_t *shape) {
  c->out[k].dtype = dtype;
  c->out[k].ndim = ndim;
  if (ndim) memcpy(c->out[k].shape, shape, sizeof(int64_t) * (size_t)ndim);
  c->n_out = c->row->n_out;
}

/* Fails unless the call brings at least n_in operands, ni integers and nf numbers. */
static inline int ag__need(const ag_infer *c, int n_in, int ni, int nf) {
  if (c->n_in < n_in)
    return ag__fail(AG_ERR_TYPE, "%s(): expected at least %d operands, but got %d", c->row->name, n_in, c->n_in);
  if (c->p->ni < ni || c->p->nf < nf)
    return ag__fail(AG_ERR_TYPE, "%s(): expected %d integer and %d number parameters, but got %d and %d", c->row->name, ni,
                    nf, c->p->ni, c->p->nf);
  return AG_OK;
}

static inline int ag__need_float(const ag_infer *c, int dtype) {
  if (!ag__is_float(dtype))
    return ag__fail(AG_ERR_NOT_IMPLEMENTED, "\"%s\" not implemented for '%s'", c->row->name, ag__scalar_name(dtype));
  return AG_OK;
}

/* out starts as x: nothing to do when the call is in place. */
static inline void ag__start_from(const ag_raw *out, const ag_raw *x) {
  int size = ag__dtype_size(x->dtype);
  if (out->data == x->data || x->numel == 0) return;
  if (x->contiguous) ag__par_copy(out->data, x->data, x->numel * size);
  else ag__par_pack(x->ndim, x->shape, x->strides, x->numel, out->data, x->data, size);
}

/* A convolution of int64 or, back, its adjoint in x (in: x, w and perhaps a bias, or y and w). */
int ag__whole_conv(const ag_exec *x, const ag_k_convgeom *g, int64_t groups, bool back);

/* "2 x 3": sizes as PyTorch's messages about windows give them. */
static inline char *ag__by_text(int n, const int64_t *s, char *buf, size_t size) {
  size_t at = 0;
  buf[0] = 0;
  for (int k = 0; k < n && at < size; k++) at += (size_t)snprintf(buf + at, size - at, k ? " x %lld" : "%lld", (long long)s[k]);
  return buf;
}

#endif
