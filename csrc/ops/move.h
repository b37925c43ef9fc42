/* move.h: floor 5.  Filling, copying and casting strided memory: what the fn_*.c files share. */
#ifndef AG_MOVE_H
#define AG_MOVE_H

#include "ops/exec.h"

/* out[0..n) = v, converted to dtype (to bool: v != 0; what no integer holds becomes the smallest int64). */
void ag__move_fill(int dtype, int64_t n, void *out, double v);
/* Contiguous out of the given shape and dtype = src, broadcast and cast.  src's shape must broadcast. */
int ag__move_cast(const ag_raw *src, int ndim, const int64_t *shape, int dtype, void *out);
/* dst = src, both strided (strides in elements of size bytes), not overlapping. */
void ag__move_region(int ndim, const int64_t *shape, char *dst, const int64_t *dst_strides, const char *src,
                     const int64_t *src_strides, int size);
/* Lowest and highest position, in elements, that a geometry touches; false when it has no element. */
bool ag__move_extent(int ndim, const int64_t *shape, const int64_t *strides, int64_t offset, int64_t *lo, int64_t *hi);

#endif
