/* k_neon.c: the kernels for AArch64 (nothing elsewhere).  Compiled with flags of its own; see table.inc. */
#ifdef __aarch64__
#include "simd_neon.h"

#include "table.inc"
#else
typedef int ag__no_neon; /* C wants a declaration in every file */
#endif
