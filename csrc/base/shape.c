#include "base/shape.h"

#include <stdio.h>

static _Atomic int default_dtype = AG_FLOAT32;

int ag__default_float(void) { return atomic_load_explicit(&default_dtype, memory_order_relaxed); }
int ag_default_dtype(void) { return ag__default_float(); }
int ag_set_default_dtype(int dtype) {
  if (!(dtype == AG_FLOAT32 || dtype == AG_FLOAT64))
    return ag__fail(AG_ERR_TYPE, "only floating-point types are supported as the default type");
  atomic_store(&default_dtype, dtype);
  return AG_OK;
}
int ag_promote(int a, int b) { return ag__promote(a, b); }
int ag_dtype_size(int dtype) { return dtype >= 0 && dtype < AG_NDTYPE ? ag__dtype_size(dtype) : 0; }

const char *ag_dtype_name(int dtype) {
  static const char *const name[] = {"bool", "uint8", "int32", "int64", "float32", "float64"};
  return dtype >= 0 && dtype < AG_NDTYPE ? name[dtype] : "?";
}

const char *ag__dtype_torch_name(int dtype) {
  static const char *const name[] = {"torch.BoolTensor", "torch.ByteTensor",  "torch.IntTensor",
                                     "torch.LongTensor", "torch.FloatTensor", "torch.DoubleTensor"};
  return dtype >= 0 && dtype < AG_NDTYPE ? name[dtype] : "?";
}

int64_t ag__numel(int ndim, const int64_t *shape) {
  int64_t n = 1;
  bool zero = false, over = false;
  for (int k = 0; k < ndim; k++) {
    if (shape[k] == 0) zero = true;
    else if (__builtin_mul_overflow(n, shape[k], &n)) over = true;
  }
  return zero ? 0 : over ? -1 : n;
}

void ag__strides_contiguous(int ndim, const int64_t *shape, int64_t *strides) {
  int64_t s = 1;
  for (int k = ndim - 1; k >= 0; k--) {
    strides[k] = s;
    s *= shape[k] > 0 ? shape[k] : 1;
  }
}

bool ag__is_contiguous(int ndim, const int64_t *shape, const int64_t *strides) {
  int64_t s = 1;
  for (int k = ndim - 1; k >= 0; k--) {
    if (shape[k] == 0) return true;
    if (shape[k] != 1) {
      if (strides[k] != s) return false;
      s *= shape[k];
    }
  }
  return true;
}

int ag__broadcast(int na, const int64_t *a, int nb, const int64_t *b, int *nout, int64_t *out) {
  int n = na > nb ? na : nb;
  *nout = n;
  for (int k = 0; k < n; k++) {
    int ka = na - n + k, kb = nb - n + k;
    int64_t x = ka >= 0 ? a[ka] : 1, y = kb >= 0 ? b[kb] : 1;
    if (x != y && x != 1 && y != 1)
      return ag__fail(AG_ERR_RUNTIME,
                      "The size of tensor a (%lld) must match the size of tensor b (%lld) at non-singleton dimension %d",
                      (long long)x, (long long)y, k);
    out[k] = x == 1 ? y : x;
  }
  return AG_OK;
}

int ag__wrap_dim(int64_t dim, int ndim, int *out) {
  int n = ndim > 0 ? ndim : 1;
  if (dim < -n || dim >= n)
    return ag__fail(AG_ERR_INDEX, "Dimension out of range (expected to be in range of [%d, %d], but got %lld)", -n, n - 1,
                    (long long)dim);
  *out = (int)(dim < 0 ? dim + n : dim);
  return AG_OK;
}

char *ag__shape_text(int ndim, const int64_t *shape, char *buf, size_t size) {
  size_t n = 0;
  n += (size_t)snprintf(buf, size, "[");
  for (int k = 0; k < ndim && n < size; k++)
    n += (size_t)snprintf(buf + n, size - n, k ? ", %lld" : "%lld", (long long)shape[k]);
  if (n < size) snprintf(buf + n, size - n, "]");
  return buf;
}

bool ag__view_strides(int ndim, const int64_t *shape, const int64_t *strides, int nd2, const int64_t *shape2,
                      int64_t *strides2) {
  if (ag__numel(ndim, shape) == 0) {
    if (ag__same_shape(ndim, shape, nd2, shape2)) memcpy(strides2, strides, sizeof(int64_t) * (size_t)ndim);
    else ag__strides_contiguous(nd2, shape2, strides2);
    return true;
  }
  /* Walk both shapes from the right; each run of old dims that is laid out as one block may be cut anew. */
  int v = nd2 - 1;
  int64_t old_n = 1, new_n = 1;
  int64_t base = ndim ? strides[ndim - 1] : 1;
  for (int k = ndim - 1; k >= 0; k--) {
    old_n *= shape[k];
    bool end = k == 0 || (shape[k - 1] != 1 && strides[k - 1] != old_n * base);
    if (!end) continue;
    while (v >= 0 && (new_n < old_n || shape2[v] == 1)) {
      strides2[v] = new_n * base;
      new_n *= shape2[v];
      v--;
    }
    if (new_n != old_n) return false;
    if (k > 0) {
      base = strides[k - 1];
      old_n = new_n = 1;
    }
  }
  if (ndim == 0)
    while (v >= 0) strides2[v--] = 1;
  return v < 0;
}
