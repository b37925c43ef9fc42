/* dispatch.c: which table of kernels is used: the widest that the CPU and the OS allow. */
#include "kernels.h"

#include <stdlib.h>
#include <string.h>

extern const ag_kernels ag__kernels_base;
#if defined(__x86_64__) || defined(__i386__)
#define AG_X86 1
extern const ag_kernels ag__kernels_avx2, ag__kernels_avx512;
#elif defined(__aarch64__)
extern const ag_kernels ag__kernels_neon;
#endif

static const ag_kernels *const all_tables[] = {
#if defined(AG_X86)
    &ag__kernels_avx512, &ag__kernels_avx2,
#elif defined(__aarch64__)
    &ag__kernels_neon,
#endif
    &ag__kernels_base, NULL};

/* Usable before ag__kernels_init has run. */
const ag_kernels *ag__k = &ag__kernels_base;

const ag_kernels *const *ag__kernels_all(void) { return all_tables; }

int ag__kernels_usable(const ag_kernels *k) {
#if defined(AG_X86)
  /* The compiler's run time asks XGETBV too: a set is reported only if the OS saves its registers. */
  __builtin_cpu_init();
  const int avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  if (k == &ag__kernels_avx2) return avx2;
  if (k == &ag__kernels_avx512)
    return avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
#endif
  for (const ag_kernels *const *t = all_tables; *t; t++)
    if (*t == k) return 1;
  return 0;
}

/* Is name one of the comma-separated words of list? */
static int listed(const char *list, const char *name) {
  const size_t len = strlen(name);
  while (list) {
    list += strspn(list, ", ");
    if (strncmp(list, name, len) == 0 && (list[len] == '\0' || list[len] == ',' || list[len] == ' ')) return 1;
    list = strchr(list, ',');
  }
  return 0;
}

void ag__kernels_init(void) {
  const char *off = getenv("AUTOGRAD_C_DISABLE_CPU");
  for (const ag_kernels *const *t = all_tables; *t; t++)
    if (ag__kernels_usable(*t) && !listed(off, (*t)->isa)) {
      ag__k = *t;
      return;
    }
  ag__k = &ag__kernels_base; /* whatever the list says */
}
