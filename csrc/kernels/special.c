/* special.c: see special.h.  Compiled with the baseline's flags. */
#include "special.h"

#include <math.h>

double ag__scalar_lgamma(double x) {
#if defined(__unix__) || defined(__APPLE__)
  int sign; /* lgamma would write to a global */
  return lgamma_r(x, &sign);
#else
  return lgamma(x);
#endif
}

/* q > 0: some terms, the rest by Euler and Maclaurin (DLMF 25.11.7 and 2.10.1).  Small terms are added first. */
static double zeta_plus(double s, double q) {
  static const double b[] = {0x1.5555555555555p-4,  -0x1.6c16c16c16c17p-10, 0x1.1566abc011567p-15, -0x1.bbd779334ef0bp-21,
                             0x1.66a8f2bf70ebep-26, -0x1.22805d644267fp-31, 0x1.d6db2c4e09162p-37, -0x1.7da4e1f79955cp-42,
                             0x1.355871d652e9ep-47, -0x1.f57d968caacf1p-53}; /* B_2j/(2j)! */
  enum { TERMS = 9, J = sizeof b / sizeof *b };
  if (q == HUGE_VAL) return 0;
  double term[TERMS], sum = 0;
  const int terms = q < 20 + s ? TERMS : 0;
  int n = 0;
  for (; n < terms; n++) { /* what follows the last term is less than it times its place, by far when s is large */
    term[n] = pow(q + n, -s);
    if (term[n] < 1e-19 * term[0]) break;
  }
  if (n == terms) {
    const double y = q + terms, r = 1 / y, w = r * r;
    double c[J], f = s;
    for (int j = 0; j < J; j++, f *= (s + 2 * j - 1) * (s + 2 * j)) c[j] = b[j] * f;
    sum = c[J - 1];
    for (int j = J - 2; j >= 0; j--) sum = sum * w + c[j];
    const double m = s - 1, lost = (s - m) - 1; /* y^(1 - s), with what the exponent lost */
    const double t = pow(y, -m);
    sum = t > 0 ? t * (1 / m + (r * 0.5 + w * sum)) : 0;
    if (lost != 0) sum -= sum * lost * log(y);
  }
  while (n > 0) sum += term[--n];
  return sum;
}

double ag__scalar_zeta(double x, double q) {
  if (x != x || q != q) return x + q;
  if (x == 1) return HUGE_VAL;
  if (x < 1) return NAN;
  if (q > 0) return zeta_plus(x, q);
  if (q == floor(q)) return q == -HUGE_VAL ? NAN : HUGE_VAL;
  if (x != floor(x)) return NAN;
  /* Over all whole k, from the nearest one on both ways, without the terms below q. */
  const double d = q - nearbyint(q), even = fmod(x, 2) != 0 ? -1 : 1;
  const double near = pow(d, -x), up = zeta_plus(x, 1 + d), down = zeta_plus(x, 1 - d), below = zeta_plus(x, 1 - q);
  return near + (up + even * (down - below));
}
