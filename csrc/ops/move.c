#include "ops/move.h"
#include "ops/par.h"

void ag__move_fill(int dtype, int64_t n, void *out, double v) {
  if (v == 0 && !(dtype == AG_FLOAT32 || dtype == AG_FLOAT64)) {
    memset(out, 0, (size_t)n * (size_t)ag__dtype_size(dtype));
    return;
  }
  /* Converting what does not fit is undefined in C, so the range is asked first. */
  int64_t w = v >= -9223372036854775808.0 && v < 9223372036854775808.0 ? (int64_t)v : INT64_MIN;
  switch (dtype) {
    case AG_BOOL: memset(out, v != 0, (size_t)n); break;
    case AG_UINT8: memset(out, (int)(uint8_t)(uint64_t)w, (size_t)n); break;
    case AG_INT32:
      for (int64_t i = 0; i < n; i++) ((int32_t *)out)[i] = (int32_t)(uint32_t)(uint64_t)w;
      break;
    case AG_INT64:
      for (int64_t i = 0; i < n; i++) ((int64_t *)out)[i] = w;
      break;
    case AG_FLOAT32:
      for (int64_t i = 0; i < n; i++) ((float *)out)[i] = (float)v;
      break;
    default:
      for (int64_t i = 0; i < n; i++) ((double *)out)[i] = v;
      break;
  }
}

int ag__move_cast(const ag_raw *src, int ndim, const int64_t *shape, int dtype, void *out) {
  int64_t n = ag__numel(ndim, shape);
  if (n <= 0) return AG_OK;
  int ssize = ag__dtype_size(src->dtype);
  if (src->contiguous && src->numel == n) {
    if (src->dtype == dtype) ag__par_copy(out, src->data, n * ssize);
    else ag__par_cast(src->dtype, dtype, n, out, src->data);
    return AG_OK;
  }
  int64_t strides[AG_MAX_NDIM];
  for (int k = 0; k < ndim; k++) {
    int s = src->ndim - ndim + k;
    strides[k] = s >= 0 && src->shape[s] == shape[k] ? src->strides[s] : 0;
  }
  if (src->dtype == dtype) {
    ag__par_pack(ndim, shape, strides, n, out, src->data, ssize);
    return AG_OK;
  }
  enum { FEW = 1024 };
  _Alignas(64) char few[FEW * 8];
  ag_temp t = {0, 0};
  void *packed = n <= FEW ? few : ag__temp(&t, (size_t)n * (size_t)ssize);
  if (!packed) return AG_ERR_MEMORY;
  ag__par_pack(ndim, shape, strides, n, packed, src->data, ssize);
  ag__par_cast(src->dtype, dtype, n, out, packed);
  ag__temp_free(&t);
  return AG_OK;
}

static void row_copy(int64_t n, char *d, int64_t ds, const char *s, int64_t ss, int size) {
  if (ds == 1 && ss == 1) {
    memcpy(d, s, (size_t)n * (size_t)size);
    return;
  }
  switch (size) {
    case 1:
      for (int64_t i = 0; i < n; i++) d[i * ds] = s[i * ss];
      break;
    case 4:
      for (int64_t i = 0; i < n; i++) memcpy(d + i * ds * 4, s + i * ss * 4, 4);
      break;
    default:
      for (int64_t i = 0; i < n; i++) memcpy(d + i * ds * 8, s + i * ss * 8, 8);
      break;
  }
}

void ag__move_region(int ndim, const int64_t *shape, char *dst, const int64_t *dst_strides, const char *src,
                     const int64_t *src_strides, int size) {
  int64_t sh[AG_MAX_NDIM], ds[AG_MAX_NDIM], ss[AG_MAX_NDIM], at[AG_MAX_NDIM] = {0};
  int nd = 0;
  for (int k = 0; k < ndim; k++) {
    if (shape[k] == 0) return;
    if (shape[k] == 1) continue;
    /* Dims that lie behind one another in both operands are one. */
    if (nd && ds[nd - 1] == dst_strides[k] * shape[k] && ss[nd - 1] == src_strides[k] * shape[k]) {
      sh[nd - 1] *= shape[k];
      ds[nd - 1] = dst_strides[k];
      ss[nd - 1] = src_strides[k];
      continue;
    }
    sh[nd] = shape[k];
    ds[nd] = dst_strides[k];
    ss[nd++] = src_strides[k];
  }
  if (nd == 0) {
    memcpy(dst, src, (size_t)size);
    return;
  }
  /* The kernels know how to turn; they want one side contiguous. */
  if (ag__is_contiguous(nd, sh, ds)) {
    ag__par_pack(nd, sh, ss, ag__numel(nd, sh), dst, src, size);
    return;
  }
  if (ag__is_contiguous(nd, sh, ss)) {
    ag__par_unpack(nd, sh, ds, ag__numel(nd, sh), dst, src, size);
    return;
  }
  for (;;) {
    row_copy(sh[nd - 1], dst, ds[nd - 1], src, ss[nd - 1], size);
    int k = nd - 2;
    for (; k >= 0; k--) {
      dst += ds[k] * size;
      src += ss[k] * size;
      if (++at[k] < sh[k]) break;
      dst -= ds[k] * sh[k] * size;
      src -= ss[k] * sh[k] * size;
      at[k] = 0;
    }
    if (k < 0) return;
  }
}

bool ag__move_extent(int ndim, const int64_t *shape, const int64_t *strides, int64_t offset, int64_t *lo, int64_t *hi) {
  *lo = *hi = offset;
  for (int k = 0; k < ndim; k++) {
    if (shape[k] == 0) return false;
    int64_t d = (shape[k] - 1) * strides[k];
    *(d < 0 ? lo : hi) += d;
  }
  return true;
}
