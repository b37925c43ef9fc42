/* special.h: functions of one number for which there is no vector code: compiled once, called by the kernels of every
 * instruction set for single lanes. */
#ifndef AG_SPECIAL_H
#define AG_SPECIAL_H

/* log |gamma(x)|, by the C library. */
double ag__scalar_lgamma(double x);
/* Hurwitz' zeta function: the sum of (q + k)^-x over k >= 0.  Infinite at x = 1 and at whole q <= 0; no value for x < 1, nor for other
 * q < 0 when x is not whole. */
double ag__scalar_zeta(double x, double q);

#endif
