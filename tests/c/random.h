/* random.h: Marsaglia's xorshift64 (2003), the same numbers in every run of the C tests. */
#ifndef AG_TEST_RANDOM_H
#define AG_TEST_RANDOM_H

#include <stdint.h>

static uint64_t seed = 88172645463325252u;
static inline uint64_t rnd(void) {
  seed ^= seed << 13;
  seed ^= seed >> 7;
  seed ^= seed << 17;
  return seed;
}
static inline double unit(void) { return (double)(rnd() >> 11) * 0x1p-53; }

#endif
