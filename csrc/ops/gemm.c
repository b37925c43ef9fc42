/* gemm.c: one door to matrix products of floats: OpenBLAS, or the built-in kernel where a call to BLAS costs
 * more than the work, where its 32-bit sizes end, and in builds without it.  The choice depends on sizes
 * alone, so that equal calls give equal bits. */
#include "ops/exec.h"

#ifdef AG_HAVE_BLAS
#include <limits.h>

#define BLAS_CAT_(a, b) a##b
#define BLAS_CAT(a, b) BLAS_CAT_(a, b)
#ifndef AG_BLAS_PREFIX
#define AG_BLAS_PREFIX
#endif
#define BLAS(name) BLAS_CAT(AG_BLAS_PREFIX, name)

/* Declared by hand: the headers of the BLAS libraries differ, these two signatures do not. */
enum { BLAS_ROW_MAJOR = 101, BLAS_AS_IS = 111, BLAS_TURNED = 112 };
void BLAS(cblas_sgemm)(int order, int ta, int tb, int m, int n, int k, float alpha, const float *a, int lda, const float *b,
                       int ldb, float beta, float *c, int ldc);
void BLAS(cblas_dgemm)(int order, int ta, int tb, int m, int n, int k, double alpha, const double *a, int lda,
                       const double *b, int ldb, double beta, double *c, int ldc);
/* OpenBLAS only; another BLAS leaves it undefined. */
#if defined(__APPLE__)
void BLAS(openblas_set_num_threads)(int n) __attribute__((weak_import));
#else
void BLAS(openblas_set_num_threads)(int n) __attribute__((weak));
#endif

/* Up to this many multiplications the built-in kernel is quicker than a call to BLAS: measured. */
enum { BUILTIN_MAX = 8192 };

/* One thread: the same bits for any number of cores, and no pool that a fork would break. */
static void single_thread(void) {
  static atomic_bool done;
  if (AG_LIKELY(atomic_load_explicit(&done, memory_order_acquire))) return;
  if (BLAS(openblas_set_num_threads)) BLAS(openblas_set_num_threads)(1);
  atomic_store_explicit(&done, true, memory_order_release);
}

static bool use_blas(int64_t m, int64_t n, int64_t k, int64_t lda, int64_t ldb, int64_t ldc) {
  if (m > INT_MAX || n > INT_MAX || k > INT_MAX || lda > INT_MAX || ldb > INT_MAX || ldc > INT_MAX) return false;
  return (double)m * (double)n * (double)k > BUILTIN_MAX;
}
#endif

void ag__gemm(int dtype, int ta, int tb, int64_t m, int64_t n, int64_t k, double alpha, const void *a, int64_t lda,
              const void *b, int64_t ldb, double beta, void *c, int64_t ldc) {
  if (m <= 0 || n <= 0) return;
#ifdef AG_HAVE_BLAS
  if (use_blas(m, n, k, lda, ldb, ldc)) {
    int opa = ta ? BLAS_TURNED : BLAS_AS_IS, opb = tb ? BLAS_TURNED : BLAS_AS_IS;
    single_thread();
    if (dtype == AG_FLOAT32)
      BLAS(cblas_sgemm)(BLAS_ROW_MAJOR, opa, opb, (int)m, (int)n, (int)k, (float)alpha, a, (int)lda, b, (int)ldb, (float)beta,
                        c, (int)ldc);
    else
      BLAS(cblas_dgemm)(BLAS_ROW_MAJOR, opa, opb, (int)m, (int)n, (int)k, alpha, a, (int)lda, b, (int)ldb, beta, c, (int)ldc);
    return;
  }
#endif
  ag__k->gemm[dtype](ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}
