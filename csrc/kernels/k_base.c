/* k_base.c: the kernels for any machine.  Compiled with flags of its own; see table.inc. */
#include "simd_base.h"

#include "table.inc"
