/* trig_far.c: reduction of large arguments of sine, cosine and tangent, once for all instruction sets (Payne and Hanek,
 * SIGNUM Newsletter 18, 1983): of a 2/pi only the bits below the quadrant's are computed, from a window of the bits of
 * 2/pi that depends on a's exponent. */
#include "kernels.h"

#include <string.h>

/* 2/pi = 0.w1 w2 .. in words of 64 bits, after one of zeros. */
static const uint64_t two_over_pi[] = {
    0, 0xa2f9836e4e441529, 0xfc2757d1f534ddc0, 0xdb6295993c439041, 0xfe5163abdebbc561,
    0xb7246e3a424dd2e0, 0x06492eea09d1921c, 0xfe1deb1cb129a73e, 0xe88235f52ebb4484, 0xe99c7026b45f7e41,
    0x3991d639835339f4, 0x9c845f8bbdf9283b, 0x1ff897ffde05980f, 0xef2f118b5a0a6d1f, 0x6d367ecf27cb09b7,
    0x4f463f669e5fea2d, 0x7527bac7ebe5f17b, 0x3d0739f78a5292ea, 0x6bfb5fb11f8d5d08, 0x56033046fc7b6bab,
    0xf0cfbc209af4361d,
};

/* The upper word of a product. */
static inline uint64_t upper(uint64_t a, uint64_t b) {
#ifdef __SIZEOF_INT128__
  __extension__ typedef unsigned __int128 wide;
  return (uint64_t)((wide)a * b >> 64);
#else
  const uint64_t al = (uint32_t)a, ah = a >> 32, bl = (uint32_t)b, bh = b >> 32;
  const uint64_t mid = (al * bl >> 32) + (uint32_t)(al * bh) + (uint32_t)(ah * bl);
  return ah * bh + (al * bh >> 32) + (ah * bl >> 32) + (mid >> 32);
#endif
}

static inline double from_bits(uint64_t b) {
  double v;
  memcpy(&v, &b, 8);
  return v;
}

/* The word of 64 bits at bit `at` of the table; 0 <= at. */
static inline uint64_t window(int at) {
  const uint64_t *from = two_over_pi + (at >> 6);
  return from[0] << (at & 63) | (from[1] >> 1) >> (63 - (at & 63));
}

int ag__trig_far_f32(float a, double *r) {
  uint32_t bits;
  memcpy(&bits, &a, 4);
  const int e = (int)(bits >> 23 & 0xff) - 150; /* a = m 2^e */
  if (!(a >= 1) || e > 104) {
    *r = (double)(a - a);
    return 0;
  }
  const uint64_t m = (bits & 0x7fffff) | 0x800000;
  const uint64_t f = m * window(e - 2 + 64) + upper(m, window(e - 2 + 128)); /* two bits of the quadrant, 62 of the fraction */
  *r = (double)(int64_t)(f << 2) * (0x1.921fb54442d18p+0 * 0x1p-64);
  return (int)(f >> 62) + (int)(f >> 61 & 1);
}

int ag__trig_far_f64(double a, double *r, double *lo) {
  uint64_t bits, w[3];
  memcpy(&bits, &a, 8);
  const int e = (int)(bits >> 52 & 0x7ff) - 1075; /* a = m 2^e */
  if (!(a >= 1) || e > 971) {                     /* infinity, NaN: not a number */
    *r = *lo = a - a;
    return 0;
  }
  const uint64_t m = (bits & 0xfffffffffffffu) | 0x10000000000000u;
  /* The 192 bits of 2/pi after bit e - 2: what stands before makes multiples of four. */
  for (int k = 0; k < 3; k++) w[k] = window(e - 2 + 64 * (k + 1));
  /* f = m w mod 2^192: two bits of the quadrant, 190 of the fraction */
  uint64_t f2 = m * w[2], f1 = m * w[1], f0 = m * w[0] + upper(m, w[1]);
  const uint64_t carried = upper(m, w[2]);
  f1 += carried;
  f0 += f1 < carried;
  const int next = (int)(f0 >> 61 & 1); /* nearer to the next quadrant: the fraction less one */
  const int quadrant = (int)(f0 >> 62) + next;
  const uint64_t flip = (uint64_t)0 - (uint64_t)next;
  f0 = (f0 << 2 | f1 >> 62) ^ flip;
  f1 = (f1 << 2 | f2 >> 62) ^ flip;
  f2 = f2 << 2 ^ flip;
  int zeros = 0;
  if (f0 == 0) { /* no double comes closer to a multiple of pi/2 than 2^-62 or so */
    zeros = 64;
    f0 = f1;
    f1 = f2;
  }
  const int s = f0 ? __builtin_clzll(f0) : 0;
  zeros += s;
  const uint64_t p = upper(f0 << s | (f1 >> 1) >> (63 - s), 0xc90fdaa22168c235u); /* by pi/2 = c 2^-63: p 2^(-63 - zeros) */
  const uint64_t main = (p + 1024) >> 11;
  const uint64_t sign = (uint64_t)next << 63;
  *r = (double)(int64_t)main * from_bits(sign | (uint64_t)(1023 - 52 - zeros) << 52);
  *lo = (double)(int64_t)(p - (main << 11)) * from_bits(sign | (uint64_t)(1023 - 63 - zeros) << 52);
  return quadrant;
}
