/* k_avx2.c: the kernels for AVX2 + FMA.  Compiled with flags of its own; see table.inc. */
#include "simd_avx2.h"

#include "table.inc"
