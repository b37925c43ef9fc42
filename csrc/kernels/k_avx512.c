/* k_avx512.c: the kernels for AVX-512 F, DQ, BW, VL.  Compiled with flags of its own; see table.inc. */
#include "simd_avx512.h"

#include "table.inc"
