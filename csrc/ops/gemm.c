/* gemm.c: one door to matrix products of floats: OpenBLAS, or the built-in kernel where a call to BLAS costs
 * more than the work, where its 32-bit sizes end, and in builds without it.  The choice depends on sizes
 * and layout alone, so that equal calls give equal bits. */
#include "ops/exec.h"
#include "ops/par.h"

/* Up to BUILTIN_MAX multiplications the built-in kernel is as quick as BLAS or quicker; measured on AVX2 and AVX-512, where
 * the two run level far beyond it.  With few terms, or few rows against B transposed or not large, neither costs it what BLAS pays
 * for its copies.  Rows times a
 * vector are another matter: there BLAS may sum in many lanes, which the built-in kernel's defined order forbids. */
enum { BUILTIN_MAX = 32 * 32 * 32, BUILTIN_MAX_ROWS = 256, FEW_TERMS = 4, FEW_ROWS = 64, LARGE = 1 << 18 };

#ifdef AG_HAVE_BLAS
#include <limits.h>

#define BLAS_CAT_(a, b) a##b
#define BLAS_CAT(a, b) BLAS_CAT_(a, b)
#ifndef AG_BLAS_PREFIX
#define AG_BLAS_PREFIX
#endif
#define BLAS(name) BLAS_CAT(AG_BLAS_PREFIX, name)

/* Declared by hand: the headers of the BLAS libraries differ, these signatures do not. */
enum { BLAS_ROW_MAJOR = 101, BLAS_AS_IS = 111, BLAS_TURNED = 112 };
void BLAS(cblas_sgemm)(int order, int ta, int tb, int m, int n, int k, float alpha, const float *a, int lda, const float *b,
                       int ldb, float beta, float *c, int ldc);
void BLAS(cblas_dgemm)(int order, int ta, int tb, int m, int n, int k, double alpha, const double *a, int lda,
                       const double *b, int ldb, double beta, double *c, int ldc);
void BLAS(cblas_sgemv)(int order, int ta, int m, int n, float alpha, const float *a, int lda, const float *x, int incx,
                       float beta, float *y, int incy);
void BLAS(cblas_dgemv)(int order, int ta, int m, int n, double alpha, const double *a, int lda, const double *x, int incx,
                       double beta, double *y, int incy);
float BLAS(cblas_sdot)(int n, const float *x, int incx, const float *y, int incy);
double BLAS(cblas_ddot)(int n, const double *x, int incx, const double *y, int incy);
/* OpenBLAS only; another BLAS leaves it undefined. */
#if defined(__APPLE__)
void BLAS(openblas_set_num_threads)(int n) __attribute__((weak_import));
#else
void BLAS(openblas_set_num_threads)(int n) __attribute__((weak));
#endif

/* One thread: the same bits for any number of cores, and no pool that a fork would break. */
void ag__blas_ready(void) {
  static atomic_bool done;
  if (AG_LIKELY(atomic_load_explicit(&done, memory_order_acquire))) return;
  if (BLAS(openblas_set_num_threads)) BLAS(openblas_set_num_threads)(1);
  atomic_store_explicit(&done, true, memory_order_release);
}

/* c = alpha * A x + beta * c for rows of A, each of k contiguous elements. */
static void rows_times_vector(int dtype, int m, int k, double alpha, const void *a, int lda, const void *x, int incx,
                              double beta, void *c, int incc) {
  if (m == 1) {
    if (dtype == AG_FLOAT32) {
      float s = (float)alpha * BLAS(cblas_sdot)(k, a, 1, x, incx), *y = c;
      *y = beta == 0 ? s : s + (float)beta * *y;
    } else {
      double s = alpha * BLAS(cblas_ddot)(k, a, 1, x, incx), *y = c;
      *y = beta == 0 ? s : s + beta * *y;
    }
    return;
  }
  /* Not every BLAS takes beta = 0 for "do not read c", which may hold NaN. */
  if (beta == 0) {
    for (int i = 0; i < m; i++) {
      if (dtype == AG_FLOAT32) ((float *)c)[(int64_t)i * incc] = 0;
      else ((double *)c)[(int64_t)i * incc] = 0;
    }
    beta = 1;
  }
  if (dtype == AG_FLOAT32)
    BLAS(cblas_sgemv)(BLAS_ROW_MAJOR, BLAS_AS_IS, m, k, (float)alpha, a, lda, x, incx, (float)beta, c, incc);
  else
    BLAS(cblas_dgemv)(BLAS_ROW_MAJOR, BLAS_AS_IS, m, k, alpha, a, lda, x, incx, beta, c, incc);
}

/* False when the work is the built-in kernel's. */
static bool blas(int dtype, int ta, int tb, int64_t m, int64_t n, int64_t k, double alpha, const void *a, int64_t lda,
                 const void *b, int64_t ldb, double beta, void *c, int64_t ldc) {
  if (m > INT_MAX || n > INT_MAX || k > INT_MAX || lda > INT_MAX || ldb > INT_MAX || ldc > INT_MAX) return false;
  if (m == 1 || n == 1) {
    if (m * n * k <= BUILTIN_MAX_ROWS) return false;
    int im = (int)m, in = (int)n, ik = (int)k, ia = (int)lda, ib = (int)ldb, ic = (int)ldc;
    ag__blas_ready();
    if (m == 1 && n == 1 && ta && !tb) return false; /* neither operand is contiguous */
    if (n == 1 && !ta) rows_times_vector(dtype, im, ik, alpha, a, ia, b, tb ? 1 : ib, beta, c, ic);
    else if (m == 1 && tb) rows_times_vector(dtype, in, ik, alpha, b, ib, a, ta ? ia : 1, beta, c, 1);
    else return false;
    return true;
  }
  if ((double)m * (double)n * (double)k <= BUILTIN_MAX || (k <= FEW_TERMS && !tb)) return false;
  if (m <= FEW_ROWS && (tb || (m > 8 && k * n * ag__dtype_size(dtype) <= 1 << 20))) return false;
  ag__blas_ready();
  int opa = ta ? BLAS_TURNED : BLAS_AS_IS, opb = tb ? BLAS_TURNED : BLAS_AS_IS;
  if (dtype == AG_FLOAT32)
    BLAS(cblas_sgemm)(BLAS_ROW_MAJOR, opa, opb, (int)m, (int)n, (int)k, (float)alpha, a, (int)lda, b, (int)ldb, (float)beta,
                      c, (int)ldc);
  else
    BLAS(cblas_dgemm)(BLAS_ROW_MAJOR, opa, opb, (int)m, (int)n, (int)k, alpha, a, (int)lda, b, (int)ldb, beta, c, (int)ldc);
  return true;
}
#endif

static void one(int dtype, int ta, int tb, int64_t m, int64_t n, int64_t k, double alpha, const void *a, int64_t lda,
                const void *b, int64_t ldb, double beta, void *c, int64_t ldc) {
#ifdef AG_HAVE_BLAS
  if (blas(dtype, ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc)) return;
#endif
  /* Few terms, a large result: four rows at a time are written along their lines. */
  int size = ag__dtype_size(dtype);
  int64_t step = k <= FEW_TERMS && !tb && m * n >= LARGE ? 4 : m;
  for (int64_t i = 0; i < m; i += step)
    ag__k->gemm[dtype](ta, tb, m - i < step ? m - i : step, n, k, alpha, (const char *)a + i * (ta ? 1 : lda) * size, lda, b, ldb,
                       beta, (char *)c + i * ldc * size, ldc);
}

/* ---- large products in blocks ----
 *
 * A block's bits may depend on its sizes, so blocks follow from the sizes of the product alone, on one thread, too.
 * Strips across the longer way pack one operand again for each: n is cut in float32, m in float64, which OpenBLAS
 * takes best.  Time on one core (AVX-512) against the uncut product: 256^3 in two 1.01 to 1.02, 512^3 in two 1.01, 768^3
 * in four 1.02, 128 x 784 x 256 in four 1.03, 32 x 1024 x 1024 in two 1.01, 4096 x 64 x 64 in ten 1.03. */
enum { STRIP = 192, STRIP_MIN = 256, STRIP_AREA = 16384, BLOCK_FLOPS = 1500000, VECTOR_FLOPS = 500000 };

typedef struct product {
  int dtype, ta, tb, size;
  int64_t m, n, k, lda, ldb, ldc, bm, bn, across; /* bm x bn: a block; across: blocks along n */
  double alpha, beta;
  const char *a, *b;
  char *c;
} product;

/* How long the pieces of `length` should be, at most `most` of them, beside `other` of the other side. */
static int64_t strip_of(int64_t length, int64_t other, int64_t most) {
  int64_t least = STRIP_AREA / other > STRIP ? STRIP_AREA / other : STRIP, parts = length / least;
  if (parts < 2 && length >= STRIP_MIN && length / 2 * other >= STRIP_AREA) parts = 2;
  if (parts > most) parts = most;
  if (parts < 2) return length;
  parts &= ~(int64_t)1; /* even, as threads mostly are */
  return ((length + parts - 1) / parts + 15) & ~(int64_t)15;
}

static void cut(product *p) {
  double work = (double)p->m * (double)p->n * (double)p->k;
  p->bm = p->m;
  p->bn = p->n;
  if (p->m == 1 || p->n == 1) {
    int64_t most = work < 2 * VECTOR_FLOPS ? 1 : work < 64.0 * VECTOR_FLOPS ? (int64_t)(work / VECTOR_FLOPS) : 64;
    int64_t *side = p->n == 1 ? &p->bm : &p->bn, parts = most < *side / 64 ? most : *side / 64;
    if (parts > 1) *side = ((*side + parts - 1) / parts + 15) & ~(int64_t)15;
    return;
  }
  if (work < 2.0 * BLOCK_FLOPS) return;
  int64_t most = work < 4096.0 * BLOCK_FLOPS ? (int64_t)(work / BLOCK_FLOPS) : 4096;
  bool by_n = p->dtype == AG_FLOAT32 ? p->n >= STRIP_MIN : p->m < STRIP_MIN;
  if (by_n) p->bn = strip_of(p->n, p->m, most);
  else p->bm = strip_of(p->m, p->n, most);
  /* What is large both ways is cut both ways. */
  if (p->m >= 1024 && p->n >= 1024) *(by_n ? &p->bm : &p->bn) = 512;
}

static int product_blocks(void *ctx, int slot, int64_t from, int64_t to) {
  const product *p = ctx;
  (void)slot;
  for (int64_t k = from; k < to; k++) {
    int64_t i = k / p->across * p->bm, j = k % p->across * p->bn;
    int64_t m = p->m - i < p->bm ? p->m - i : p->bm, n = p->n - j < p->bn ? p->n - j : p->bn;
    one(p->dtype, p->ta, p->tb, m, n, p->k, p->alpha, p->a + (p->ta ? i : i * p->lda) * p->size, p->lda,
        p->b + (p->tb ? j * p->ldb : j) * p->size, p->ldb, p->beta, p->c + (i * p->ldc + j) * p->size, p->ldc);
  }
  return AG_OK;
}

void ag__gemm(int dtype, int ta, int tb, int64_t m, int64_t n, int64_t k, double alpha, const void *a, int64_t lda,
              const void *b, int64_t ldb, double beta, void *c, int64_t ldc) {
  if (m <= 0 || n <= 0) return;
  if (AG_LIKELY((double)m * (double)n * (double)k < 2.0 * VECTOR_FLOPS)) {
    one(dtype, ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
    return;
  }
  product p = {dtype, ta, tb, ag__dtype_size(dtype), m, n, k, lda, ldb, ldc, m, n, 1, alpha, beta, a, b, c};
  cut(&p);
  p.across = (n + p.bn - 1) / p.bn;
  ag__parallel((m + p.bm - 1) / p.bm * p.across, 1, product_blocks, &p);
}
