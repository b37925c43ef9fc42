/* shape.h: floor 1.  Element types, shapes, strides, broadcasting. */
#ifndef AG_SHAPE_H
#define AG_SHAPE_H

#include "base/base.h"

static inline int ag__dtype_size(int dtype) {
  static const uint8_t size[AG_NDTYPE] = {1, 1, 4, 8, 4, 8};
  return size[dtype];
}
static inline bool ag__is_float(int dtype) { return dtype >= AG_FLOAT32; }
/* Greatest common divisor of numbers that are not negative. */
static inline int64_t ag__gcd(int64_t a, int64_t b) {
  while (b) {
    int64_t t = a % b;
    a = b;
    b = t;
  }
  return a;
}
static inline int ag__promote(int a, int b) { return a > b ? a : b; }
const char *ag__dtype_torch_name(int dtype); /* "torch.FloatTensor", for messages users search for */
int ag__default_float(void);

/* Product of n sizes; -1 when it does not fit. */
int64_t ag__numel(int ndim, const int64_t *shape);
void ag__strides_contiguous(int ndim, const int64_t *shape, int64_t *strides);
bool ag__is_contiguous(int ndim, const int64_t *shape, const int64_t *strides);
static inline bool ag__same_shape(int na, const int64_t *a, int nb, const int64_t *b) {
  return na == nb && memcmp(a, b, sizeof(int64_t) * (size_t)na) == 0;
}
/* Broadcast of a and b into out (room for AG_MAX_NDIM); PyTorch's message on mismatch. */
int ag__broadcast(int na, const int64_t *a, int nb, const int64_t *b, int *nout, int64_t *out);
/* Wraps a negative dim; PyTorch's IndexError outside [-n, n-1] (a 0-d tensor counts as 1-d). */
int ag__wrap_dim(int64_t dim, int ndim, int *out);
/* "[2, 3]" into buf. */
char *ag__shape_text(int ndim, const int64_t *shape, char *buf, size_t size);
/* Strides of a view of another shape, or false when only a copy can have it. */
bool ag__view_strides(int ndim, const int64_t *shape, const int64_t *strides, int nd2, const int64_t *shape2, int64_t *strides2);

#endif
