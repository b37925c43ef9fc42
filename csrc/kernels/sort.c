/* sort.c: see sort.h.
 *
 * An element becomes an unsigned key whose order is the wanted one; a descending sort inverts the keys.  A key of 32
 * bits and its place make one 64-bit number: such numbers are distinct, so any way to sort them is stable.  Few are
 * sorted by a network (Batcher's odd-even merge sort, 1968), short rows side by side, some by merging, many by radix
 * from the lowest digit.  A key of 64
 * bits is sorted by the 32 bits from the highest in which keys differ; runs of equals then by the rest.  The k-th
 * element is found by parting the keys around pivots. */
#include "sort.h"

#include <stdbool.h>
#include <string.h>
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

enum { SORT_MERGE = 192, SORT_BIG = 3000, SELECT_BITS = 11, LANES = 8, SHORT = 32, FEW = 16, MIDDLE = SHORT * LANES };

typedef void map_fn(int64_t n, void *key, const void *x, int down);

/* ---- keys ---- */

static void map_b8(int64_t n, void *key, const void *x, int down)
{
  const uint8_t *p = x;
  uint32_t *o = key, flip = down ? UINT32_MAX : 0;
  for (int64_t i = 0; i < n; i++)
    o[i] = p[i] ^ flip;
}

static void map_i32(int64_t n, void *key, const void *x, int down)
{
  const uint32_t *p = x;
  uint32_t *o = key, flip = (down ? UINT32_MAX : 0) ^ UINT32_C(1) << 31;
  for (int64_t i = 0; i < n; i++)
    o[i] = p[i] ^ flip;
}

static void map_i64(int64_t n, void *key, const void *x, int down)
{
  const uint64_t *p = x;
  uint64_t *o = key, flip = (down ? UINT64_MAX : 0) ^ UINT64_C(1) << 63;
  for (int64_t i = 0; i < n; i++)
    o[i] = p[i] ^ flip;
}

/* Negative numbers are inverted, the others lifted above them; -0 becomes 0, NaN the largest key. */
#define MAP_FLOAT(name, U, I, BITS, INF)                                     \
  static void name(int64_t n, void *key, const void *x, int down)           \
  {                                                                         \
    const U *p = x;                                                         \
    U *o = key, flip = down ? (U)-1 : 0;                                    \
    const U sign = (U)1 << (BITS - 1);                                      \
    for (int64_t i = 0; i < n; i++) {                                       \
      U u = p[i], mag = u & ~sign;                                          \
      u = mag == 0 ? 0 : u;                                                 \
      u ^= (U)((I)u >> (BITS - 1)) | sign;                                  \
      u = mag > INF ? (U)-1 : u;                                            \
      o[i] = u ^ flip;                                                      \
    }                                                                       \
  }
MAP_FLOAT(map_f32, uint32_t, int32_t, 32, UINT32_C(0x7f800000))
MAP_FLOAT(map_f64, uint64_t, int64_t, 64, UINT64_C(0x7ff0000000000000))

static map_fn *const maps[6] = {map_b8, map_b8, map_i32, map_i64, map_f32, map_f64};
static const int sizes[6] = {1, 1, 4, 8, 4, 8};
static bool wide(int dtype) { return dtype == 3 || dtype == 5; }
static bool floating(int dtype) { return dtype >= 4; }

static void take(int size, int64_t n, void *out, const void *x, const int64_t *at)
{
  if (size == 4)
    for (int64_t i = 0; i < n; i++)
      ((uint32_t *)out)[i] = ((const uint32_t *)x)[at[i]];
  else if (size == 8)
    for (int64_t i = 0; i < n; i++)
      ((uint64_t *)out)[i] = ((const uint64_t *)x)[at[i]];
  else
    for (int64_t i = 0; i < n; i++)
      ((uint8_t *)out)[i] = ((const uint8_t *)x)[at[i]];
}

/* ---- distinct 64-bit numbers ---- */

#define CE(i, j)                              \
  {                                           \
    const uint64_t u = a[i], v = a[j];        \
    a[i] = u < v ? u : v;                     \
    a[j] = u < v ? v : u;                     \
  }
static inline void sort_8(uint64_t *restrict p)
{
  uint64_t a[8];
  memcpy(a, p, sizeof a);
  CE(0, 1) CE(2, 3) CE(4, 5) CE(6, 7) CE(0, 2) CE(1, 3) CE(4, 6) CE(5, 7) CE(1, 2) CE(5, 6)
  CE(0, 4) CE(1, 5) CE(2, 6) CE(3, 7) CE(2, 4) CE(3, 5) CE(1, 2) CE(3, 4) CE(5, 6)
  memcpy(p, a, sizeof a);
}

static inline void sort_16(uint64_t *restrict p)
{
  uint64_t a[16];
  sort_8(p);
  sort_8(p + 8);
  memcpy(a, p, sizeof a);
  CE(0, 8) CE(1, 9) CE(2, 10) CE(3, 11) CE(4, 12) CE(5, 13) CE(6, 14) CE(7, 15)
  CE(4, 8) CE(5, 9) CE(6, 10) CE(7, 11)
  CE(2, 4) CE(3, 5) CE(6, 8) CE(7, 9) CE(10, 12) CE(11, 13)
  CE(1, 2) CE(3, 4) CE(5, 6) CE(7, 8) CE(9, 10) CE(11, 12) CE(13, 14)
  memcpy(p, a, sizeof a);
}
#undef CE

/* Eight columns side by side, numbers above 0 as doubles: eight rows, or rows of several columns. */
typedef double sort_two __attribute__((vector_size(16)));
typedef union sort_lanes {
  uint64_t u[LANES];
  sort_two v[LANES / 2];
} sort_lanes;

#if defined(__SSE2__)
static inline sort_two two_min(sort_two a, sort_two b) { return (sort_two)_mm_min_pd((__m128d)a, (__m128d)b); }
static inline sort_two two_max(sort_two a, sort_two b) { return (sort_two)_mm_max_pd((__m128d)a, (__m128d)b); }
#else
static inline sort_two two_min(sort_two a, sort_two b) { return (sort_two){a[0] < b[0] ? a[0] : b[0], a[1] < b[1] ? a[1] : b[1]}; }
static inline sort_two two_max(sort_two a, sort_two b) { return (sort_two){a[0] < b[0] ? b[0] : a[0], a[1] < b[1] ? b[1] : a[1]}; }
#endif
static inline sort_two two_swap(sort_two a) { return (sort_two){a[1], a[0]}; }
static inline sort_two two_ends(sort_two a, sort_two b) { return (sort_two){a[0], b[1]}; } /* the first of a, the second of b */

static inline void lanes_step(sort_lanes *p, sort_lanes *q) /* the smaller ones into p */
{
  for (int e = 0; e < LANES / 2; e++) {
    const sort_two c = p->v[e], d = q->v[e];
    p->v[e] = two_min(c, d);
    q->v[e] = two_max(c, d);
  }
}

/* Each column: Batcher's network for the next power of two; without the steps beyond n it sorts n. */
static void sort_columns(int64_t n, sort_lanes *a)
{
  for (int64_t p = 1; p < n; p *= 2)
    for (int64_t k = p; k >= 1; k /= 2)
      for (int64_t j = k % p; j + k < n; j += 2 * k)
        for (int64_t i = j; i < j + k && i + k < n; i++)
          if (((i ^ (i + k)) & ~(2 * p - 1)) == 0) /* in one block of 2p */
            lanes_step(a + i, a + i + k);
}

/* Columns of SHORT sorted numbers, `w` of them (2, 4 or 8) one row whose halves are sorted: the row, sorted.  A bitonic
 * merge (Batcher): the second half turned round, then halves of halves. */
static void merge_columns(int w, sort_lanes *a)
{
  for (int i = 0; i < SHORT / 2; i++) {
    sort_lanes p = a[i], q = a[SHORT - 1 - i];
    for (int e = 0; e < LANES / 2; e++) {
      const int far = w == 8 ? 3 - e : w == 4 ? e ^ 1 : e;
      const sort_two c = two_swap(q.v[far]), d = two_swap(p.v[far]);
      if (w == 2) {
        a[i].v[e] = two_ends(two_min(p.v[e], c), two_max(p.v[e], c));
        a[SHORT - 1 - i].v[e] = two_ends(two_min(q.v[e], d), two_max(q.v[e], d));
      } else {
        const int first = w == 8 ? e < 2 : !(e & 1);
        a[i].v[e] = first ? two_min(p.v[e], c) : two_max(p.v[e], c);
        a[SHORT - 1 - i].v[e] = first ? two_min(q.v[e], d) : two_max(q.v[e], d);
      }
    }
  }
  for (int i = 0; i < SHORT && w > 2; i++) {
    sort_two *v = a[i].v;
    for (int e = 0; e < LANES / 2 && w == 8; e += 2) {
      const sort_two c = v[e], d = v[e + 1];
      v[e] = two_min(c, d);
      v[e + 1] = two_max(c, d);
    }
    for (int e = 0; e < LANES / 2; e++) {
      const sort_two c = two_swap(v[e]);
      v[e] = two_ends(two_min(v[e], c), two_max(v[e], c));
    }
  }
  for (int s = SHORT / 2; s >= 1; s /= 2)
    for (int i = 0; i < SHORT; i++)
      if (!(i & s))
        lanes_step(a + i, a + i + s);
}

/* Two sorted runs into one, from both ends at once. */
static void sort_merge(uint64_t *restrict o, const uint64_t *a, int64_t na, const uint64_t *b, int64_t nb)
{
  const int64_t n = na + nb, half = n / 2;
  int64_t i = 0, j = 0, p = na - 1, q = nb - 1;
  if (na == 0 || nb == 0 || a[na - 1] < b[0]) {
    memcpy(o, a, (size_t)na * sizeof *o);
    memcpy(o + na, b, (size_t)nb * sizeof *o);
    return;
  }
  if (na == nb) { /* neither run ends before the middle of the result is reached */
    for (int64_t k = 0; k < half; k++) {
      const uint64_t u = a[i], v = b[j], s = a[p], t = b[q];
      const int less = u < v, more = s > t;
      o[k] = less ? u : v;
      i += less;
      j += !less;
      o[n - 1 - k] = more ? s : t;
      p -= more;
      q -= !more;
    }
    return;
  }
  int64_t k = 0;
  while (i < na && j < nb) {
    const uint64_t u = a[i], v = b[j];
    const int less = u < v;
    o[k++] = less ? u : v;
    i += less;
    j += !less;
  }
  memcpy(o + k, a + i, (size_t)(na - i) * sizeof *o);
  memcpy(o + k + (na - i), b + j, (size_t)(nb - j) * sizeof *o);
}

/* Sorts a; the result is in a or in tmp. */
static uint64_t *sort_by_merging(int64_t n, uint64_t *a, uint64_t *tmp)
{
  for (int64_t i = 0; i < n; i += 16) {
    const int64_t w = n - i < 16 ? n - i : 16;
    if (w == 16) {
      sort_16(a + i);
      continue;
    }
    uint64_t few[16];
    memcpy(few, a + i, (size_t)w * sizeof *few);
    for (int64_t j = w; j < 16; j++)
      few[j] = UINT64_MAX;
    sort_16(few);
    memcpy(a + i, few, (size_t)w * sizeof *few);
  }
  for (int64_t run = 16; run < n; run *= 2) {
    for (int64_t i = 0; i < n; i += 2 * run) {
      const int64_t left = n - i, na = left < run ? left : run, nb = left - na < run ? left - na : run;
      sort_merge(tmp + i, a + i, na, a + i + na, nb);
    }
    uint64_t *t = a;
    a = tmp;
    tmp = t;
  }
  return a;
}

static int sort_top_bit(uint64_t v) { return v ? 63 - __builtin_clzll(v) : -1; }

/* By the upper 32 bits, those of them that are on in `differ`; numbers equal in them stay in order. */
static uint64_t *sort_by_radix(int64_t n, uint64_t *a, uint64_t *tmp, uint32_t differ)
{
  enum { BITS = 11, SIZE = 1 << BITS };
  uint32_t count[4][SIZE];
  const int bits = n < SORT_BIG ? 8 : BITS;
  const int low = differ ? __builtin_ctz(differ) : 0, high = differ ? 32 - __builtin_clz(differ) : 0;
  const int digits = (high - low + bits - 1) / bits, base = 32 + low;
  if (digits == 0)
    return a;
  const uint32_t mask = (1u << bits) - 1;
  for (int d = 0; d < digits; d++)
    memset(count[d], 0, sizeof(uint32_t) << bits);
  for (int64_t i = 0; i < n; i++) {
    const uint64_t v = a[i] >> base;
    for (int d = 0; d < digits; d++)
      count[d][v >> (d * bits) & mask]++;
  }
  for (int d = 0; d < digits; d++) {
    const int shift = base + d * bits;
    uint32_t *c = count[d], sum = 0;
    for (uint32_t k = 0; k <= mask; k++) {
      const uint32_t m = c[k];
      c[k] = sum;
      sum += m;
    }
    for (int64_t i = 0; i < n; i++)
      tmp[c[a[i] >> shift & mask]++] = a[i];
    uint64_t *t = a;
    a = tmp;
    tmp = t;
  }
  return a;
}

/* Numbers whose lower half ascends: sorts them, into a or tmp. */
static uint64_t *sort_packed(int64_t n, uint64_t *a, uint64_t *tmp, uint32_t differ)
{
  return n <= SORT_MERGE ? sort_by_merging(n, a, tmp) : sort_by_radix(n, a, tmp, differ);
}

/* ---- the order of n keys: in the lower half of each number of the result (a or tmp) the place ---- */

static const uint64_t *order_32(int64_t n, const uint32_t *key, uint64_t *a, uint64_t *tmp)
{
  uint32_t all = UINT32_MAX, none = 0;
  for (int64_t i = 0; i < n; i++) {
    a[i] = (uint64_t)key[i] << 32 | (uint64_t)i;
    all &= key[i];
    none |= key[i];
  }
  return sort_packed(n, a, tmp, all ^ none);
}

static const uint64_t *order_64(int64_t n, const uint64_t *key, uint64_t *a, uint64_t *tmp)
{
  uint64_t all = UINT64_MAX, none = 0;
  for (int64_t i = 0; i < n; i++) {
    all &= key[i];
    none |= key[i];
  }
  const int top = sort_top_bit(all ^ none), shift = top > 31 ? top - 31 : 0;
  for (int64_t i = 0; i < n; i++)
    a[i] = (key[i] >> shift & UINT32_MAX) << 32 | (uint64_t)i;
  uint64_t *b = sort_packed(n, a, tmp, (uint32_t)((all ^ none) >> shift));
  if (!shift)
    return b;
  tmp = b == a ? tmp : a;
  const uint64_t low = (UINT64_C(1) << shift) - 1;
  for (int64_t i = 0; i + 1 < n; i++) {
    if (b[i] >> 32 != b[i + 1] >> 32)
      continue;
    int64_t m = 2;
    while (i + m < n && b[i + m] >> 32 == b[i] >> 32)
      m++;
    const uint64_t head = b[i] & ~(uint64_t)UINT32_MAX;
    if (m <= 16) {
      for (int64_t j = 1; j < m; j++) {
        const uint64_t v = b[i + j], kv = key[(uint32_t)v];
        int64_t t = j;
        for (; t > 0 && key[(uint32_t)b[i + t - 1]] > kv; t--)
          b[i + t] = b[i + t - 1];
        b[i + t] = v;
      }
    } else {
      uint64_t all_low = UINT64_MAX, none_low = 0, *run = b + i;
      for (int64_t j = 0; j < m; j++) {
        const uint64_t k = key[(uint32_t)run[j]] & low;
        all_low &= k;
        none_low |= k;
        run[j] = k << 32 | (uint32_t)run[j]; /* at most 32 bits are left; places ascend in the run */
      }
      const uint64_t *s = all_low == none_low ? run : sort_packed(m, run, tmp + i, (uint32_t)(all_low ^ none_low));
      for (int64_t j = 0; j < m; j++)
        run[j] = head | (uint32_t)s[j];
    }
    i += m - 1;
  }
  return b;
}

/* ---- one element of a sorted row ---- */

/* Which of n sorted elements, of which the first `numbers` are no NaN. */
static int64_t kth_rank(int64_t n, int64_t numbers, int64_t k)
{
  if (k >= 0)
    return k;
  if (k == AG_MEDIAN)
    return numbers < n ? numbers : (n - 1) / 2;
  return numbers ? (numbers - 1) / 2 : 0;
}

typedef struct mode_run {
  uint64_t last;
  int64_t length, most, best;
} mode_run;

static inline void mode_step(mode_run *m, int64_t i, uint64_t v, uint64_t nan)
{
  m->length = i && v == m->last && !(nan && v == nan) ? m->length + 1 : 1;
  m->last = v;
  if (m->length > m->most) {
    m->most = m->length;
    m->best = i;
  }
}

typedef int64_t place_fn(int64_t n, const uint64_t *sorted, uint64_t nan, int64_t k);

static int64_t kth_place(int64_t n, const uint64_t *sorted, uint64_t nan, int64_t k)
{
  int64_t numbers = n;
  while (nan && numbers && sorted[numbers - 1] == nan)
    numbers--;
  return kth_rank(n, numbers, k);
}

static int64_t mode_place(int64_t n, const uint64_t *sorted, uint64_t nan, int64_t k)
{
  mode_run m = {0, 0, 0, 0};
  (void)k;
  for (int64_t i = 0; i < n; i++)
    mode_step(&m, i, sorted[i], nan);
  return m.best;
}

/* Columns of a row that is sorted beside others, and whether rows should be: few columns would leave most lanes idle. */
static int sort_width(int64_t n) { return n <= SHORT ? 1 : n <= 2 * SHORT ? 2 : n <= 4 * SHORT ? 4 : 8; }
static bool sort_beside(int64_t rows, int64_t n) { return n <= 16 || (n <= MIDDLE && rows * sort_width(n) > 3); }

#define SK uint32_t
#define S(name) name##_32
#define SORT_WIDE 0
#include "sort_rows.inc"
#define SK uint64_t
#define S(name) name##_64
#define SORT_WIDE 1
#include "sort_rows.inc"

/* Two arrays of numbers and the keys; `few` and `topk` make do with it, too. */
size_t ag__sort_scratch(int64_t n) { return (size_t)(n > 64 ? n : 64) * 3 * sizeof(uint64_t); }

void ag__sort_rows(int dtype, int64_t rows, int64_t n, int descending, void *values, int64_t *at, const void *x,
                   void *scratch)
{
  (wide(dtype) ? sort_64 : sort_32)(maps[dtype], sizes[dtype], rows, n, n, descending, values, at, x, scratch);
}

void ag__topk_rows(int dtype, int64_t rows, int64_t n, int64_t k, int largest, void *values, int64_t *at, const void *x,
                   void *scratch)
{
  if (k > 0)
    (wide(dtype) ? topk_64 : topk_32)(maps[dtype], sizes[dtype], rows, n, k, largest, values, at, x, scratch);
}

void ag__kth_rows(int dtype, int64_t rows, int64_t n, int64_t k, void *values, int64_t *at, const void *x, void *scratch)
{
  const int f = floating(dtype);
  if (wide(dtype))
    kth_64(maps[dtype], sizes[dtype], f ? UINT64_MAX : 0, rows, n, k, values, at, x, scratch);
  else
    kth_32(maps[dtype], sizes[dtype], f ? UINT32_MAX : 0, rows, n, k, values, at, x, scratch);
}

void ag__mode_rows(int dtype, int64_t rows, int64_t n, void *values, int64_t *at, const void *x, void *scratch)
{
  const int f = floating(dtype);
  if (wide(dtype))
    mode_64(maps[dtype], sizes[dtype], f ? UINT64_MAX : 0, rows, n, values, at, x, scratch);
  else
    mode_32(maps[dtype], sizes[dtype], f ? UINT32_MAX : 0, rows, n, values, at, x, scratch);
}

/* ---- slices ---- */

/* -1, 0 or 1 as slice i comes before, with or behind slice j */
static int compare_slices(int dtype, int64_t outer, int64_t n, int64_t inner, const char *x, int64_t i, int64_t j)
{
  const int size = sizes[dtype];
  uint64_t a[64], b[64];
  for (int64_t o = 0; o < outer; o++, x += n * inner * size)
    for (int64_t k = 0; k < inner; k += 64) {
      const int64_t w = inner - k < 64 ? inner - k : 64;
      const char *p = x + (i * inner + k) * size, *q = x + (j * inner + k) * size;
      if (!floating(dtype) && memcmp(p, q, (size_t)(w * size)) == 0)
        continue;
      maps[dtype](w, a, p, 0);
      maps[dtype](w, b, q, 0);
      for (int64_t t = 0; t < w; t++) {
        const uint64_t u = wide(dtype) ? a[t] : ((const uint32_t *)a)[t], v = wide(dtype) ? b[t] : ((const uint32_t *)b)[t];
        if (u != v)
          return u < v ? -1 : 1;
      }
    }
  return 0;
}

void ag__sort_slices(int dtype, int64_t outer, int64_t n, int64_t inner, int64_t *at, const void *x, void *scratch)
{
  int64_t *a = at, *b = scratch;
  for (int64_t i = 0; i < n; i++)
    a[i] = i;
  for (int64_t run = 1; run < n; run *= 2) {
    for (int64_t i = 0; i < n; i += 2 * run) {
      const int64_t mid = n - i < run ? n : i + run, end = n - i < 2 * run ? n : i + 2 * run;
      int64_t p = i, q = mid;
      for (int64_t k = i; k < end; k++)
        b[k] = q < end && (p == mid || compare_slices(dtype, outer, n, inner, x, a[q], a[p]) < 0) ? a[q++] : a[p++];
    }
    int64_t *t = a;
    a = b;
    b = t;
  }
  if (a != at)
    memcpy(at, a, (size_t)n * sizeof *at);
}

/* ---- running extrema ---- */

#define CUMEXT(name, T)                                                                                            \
  static void name(int64_t outer, int64_t n, int64_t inner, int least, T *v, int64_t *at, const T *x)              \
  {                                                                                                                \
    for (int64_t o = 0; o < outer; o++, v += n * inner, at += n * inner, x += n * inner) {                         \
      if (inner == 1) {                                                                                            \
        T best = x[0];                                                                                             \
        int64_t place = 0;                                                                                         \
        for (int64_t k = 0; k < n; k++) {                                                                          \
          const T c = x[k];                                                                                        \
          const int better = (c != c) | (least ? c <= best : c >= best);                                           \
          best = better ? c : best;                                                                                \
          place = better ? k : place;                                                                              \
          v[k] = best;                                                                                             \
          at[k] = place;                                                                                           \
        }                                                                                                          \
        continue;                                                                                                  \
      }                                                                                                            \
      memcpy(v, x, (size_t)inner * sizeof(T));                                                                     \
      memset(at, 0, (size_t)inner * sizeof *at);                                                                   \
      for (int64_t k = 1; k < n; k++) {                                                                            \
        const T *restrict c = x + k * inner, *restrict b = v + (k - 1) * inner;                                    \
        T *restrict w = v + k * inner;                                                                             \
        const int64_t *restrict p = at + (k - 1) * inner;                                                          \
        int64_t *restrict q = at + k * inner;                                                                      \
        if (least)                                                                                                 \
          for (int64_t j = 0; j < inner; j++) {                                                                    \
            const int better = (c[j] != c[j]) | (c[j] <= b[j]);                                                    \
            w[j] = better ? c[j] : b[j];                                                                           \
            q[j] = better ? k : p[j];                                                                              \
          }                                                                                                        \
        else                                                                                                       \
          for (int64_t j = 0; j < inner; j++) {                                                                    \
            const int better = (c[j] != c[j]) | (c[j] >= b[j]);                                                    \
            w[j] = better ? c[j] : b[j];                                                                           \
            q[j] = better ? k : p[j];                                                                              \
          }                                                                                                        \
      }                                                                                                            \
    }                                                                                                              \
  }
CUMEXT(cumext_b8, uint8_t)
CUMEXT(cumext_i32, int32_t)
CUMEXT(cumext_i64, int64_t)
CUMEXT(cumext_f32, float)
CUMEXT(cumext_f64, double)

void ag__cumext_rows(int dtype, int64_t outer, int64_t n, int64_t inner, int least, void *values, int64_t *at, const void *x)
{
  switch (dtype) {
  case 2: cumext_i32(outer, n, inner, least, values, at, x); break;
  case 3: cumext_i64(outer, n, inner, least, values, at, x); break;
  case 4: cumext_f32(outer, n, inner, least, values, at, x); break;
  case 5: cumext_f64(outer, n, inner, least, values, at, x); break;
  default: cumext_b8(outer, n, inner, least, values, at, x); break;
  }
}

/* ---- bisection: eight values at a time, so that their loads overlap ---- */

#define SEARCH(name, T)                                                                                            \
  static void name(int64_t n, int64_t m, int right, int64_t *at, const T *row, const int64_t *order, const T *values) \
  {                                                                                                                \
    enum { B = 8 };                                                                                                \
    for (int64_t i = 0; i < m; i += B) {                                                                           \
      const int w = m - i < B ? (int)(m - i) : B;                                                                  \
      int64_t lo[B] = {0}, hi[B];                                                                                  \
      T v[B] = {0};                                                                                                \
      for (int j = 0; j < B; j++)                                                                                  \
        hi[j] = n;                                                                                                 \
      for (int j = 0; j < w; j++)                                                                                  \
        v[j] = values[i + j];                                                                                      \
      for (int64_t left = n; left > 0; left /= 2) /* the longest interval left */                                  \
        for (int j = 0; j < B; j++) {                                                                              \
          const int64_t mid = lo[j] + (hi[j] - lo[j]) / 2, place = mid < n ? mid : n - 1;                          \
          const T e = row[order ? order[place] : place];                                                           \
          const int beyond = (lo[j] < hi[j]) & (right ? !(e > v[j]) : !(e >= v[j]));                               \
          hi[j] = beyond ? hi[j] : mid;                                                                            \
          lo[j] = beyond ? mid + 1 : lo[j];                                                                        \
        }                                                                                                          \
      for (int j = 0; j < w; j++)                                                                                  \
        at[i + j] = lo[j];                                                                                         \
    }                                                                                                              \
  }
SEARCH(search_b8, uint8_t)
SEARCH(search_i32, int32_t)
SEARCH(search_i64, int64_t)
SEARCH(search_f32, float)
SEARCH(search_f64, double)

void ag__search_rows(int dtype, int64_t rows, int64_t n, int64_t m, int shared, int right, int64_t *at, const void *row,
                     const int64_t *order, const void *values)
{
  const char *p = row, *v = values;
  const int size = sizes[dtype];
  for (int64_t r = 0; r < rows; r++, at += m, v += m * size) {
    switch (dtype) {
    case 2: search_i32(n, m, right, at, (const void *)p, order, (const void *)v); break;
    case 3: search_i64(n, m, right, at, (const void *)p, order, (const void *)v); break;
    case 4: search_f32(n, m, right, at, (const void *)p, order, (const void *)v); break;
    case 5: search_f64(n, m, right, at, (const void *)p, order, (const void *)v); break;
    default: search_b8(n, m, right, at, (const void *)p, order, (const void *)v); break;
    }
    if (!shared) {
      p += n * size;
      order = order ? order + n : NULL;
    }
  }
}
