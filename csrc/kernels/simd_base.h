/* simd_base.h: the baseline vector layer: 16 bytes, SSE2 on x86, whatever the compiler makes of vector types elsewhere.
 * No FMA: v_fma_* rounds twice.  The contract is in simd_common.inc. */
#ifndef AG_SIMD_H
#define AG_SIMD_H

#include <math.h>
#include <stdint.h>
#include <string.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#define AG_ISA base
#define AG_ISA_NAME "base"
#define AG_VBYTES 16
#define AG_HAS_FMA 0

#include "simd_common.inc"

#ifdef __SSE2__
#define AG_HAS_STREAM 1
AG_SI void v_stream_f32(float *p, vf32 v) { _mm_stream_ps(p, (__m128)v); }
AG_SI void v_stream_end(void) { _mm_sfence(); }
AG_SI int v_bits_m32(vm32 a) { return _mm_movemask_ps((__m128)a); }
AG_SI int v_bits_m64(vm64 a) { return _mm_movemask_pd((__m128d)a); }
AG_SI vf32 v_sqrt_f32(vf32 a) { return (vf32)_mm_sqrt_ps((__m128)a); }
AG_SI vf64 v_sqrt_f64(vf64 a) { return (vf64)_mm_sqrt_pd((__m128d)a); }
AG_SI vf32 v_fmax_f32(vf32 a, vf32 b) { return (vf32)_mm_max_ps((__m128)a, (__m128)b); }
AG_SI vf32 v_fmin_f32(vf32 a, vf32 b) { return (vf32)_mm_min_ps((__m128)a, (__m128)b); }
AG_SI vf64 v_fmax_f64(vf64 a, vf64 b) { return (vf64)_mm_max_pd((__m128d)a, (__m128d)b); }
AG_SI vf64 v_fmin_f64(vf64 a, vf64 b) { return (vf64)_mm_min_pd((__m128d)a, (__m128d)b); }
#else
AG_SI int v_bits_m32(vm32 a) { return (a[0] & 1) | (a[1] & 2) | (a[2] & 4) | (a[3] & 8); }
AG_SI int v_bits_m64(vm64 a) { return (int)((a[0] & 1) | (a[1] & 2)); }
AG_SI vf32 v_sqrt_f32(vf32 a) { return (vf32){sqrtf(a[0]), sqrtf(a[1]), sqrtf(a[2]), sqrtf(a[3])}; }
AG_SI vf64 v_sqrt_f64(vf64 a) { return (vf64){sqrt(a[0]), sqrt(a[1])}; }
#define AG_MINMAX_BY_SELECT 1
#endif
AG_MASKS(32)
AG_MASKS(64)

#define AG_SELECT(X, M)                                                                                                \
  AG_SI v##X v_sel_##X(vm##M m, v##X a, v##X b) { return (v##X)(((vi##M)a & m) | ((vi##M)b & ~m)); }
AG_SELECT(f32, 32)
AG_SELECT(f64, 64)
AG_SELECT(i32, 32)
AG_SELECT(i64, 64)
#undef AG_SELECT

#ifdef AG_MINMAX_BY_SELECT
AG_SI vf32 v_fmax_f32(vf32 a, vf32 b) { return v_sel_f32(v_gt_f32(a, b), a, b); }
AG_SI vf32 v_fmin_f32(vf32 a, vf32 b) { return v_sel_f32(v_lt_f32(a, b), a, b); }
AG_SI vf64 v_fmax_f64(vf64 a, vf64 b) { return v_sel_f64(v_gt_f64(a, b), a, b); }
AG_SI vf64 v_fmin_f64(vf64 a, vf64 b) { return v_sel_f64(v_lt_f64(a, b), a, b); }
#endif
AG_SI vf32 v_max_f32(vf32 a, vf32 b) { return v_sel_f32(v_ne_f32(a, a), a, v_fmax_f32(a, b)); }
AG_SI vf32 v_min_f32(vf32 a, vf32 b) { return v_sel_f32(v_ne_f32(a, a), a, v_fmin_f32(a, b)); }
AG_SI vf64 v_max_f64(vf64 a, vf64 b) { return v_sel_f64(v_ne_f64(a, a), a, v_fmax_f64(a, b)); }
AG_SI vf64 v_min_f64(vf64 a, vf64 b) { return v_sel_f64(v_ne_f64(a, a), a, v_fmin_f64(a, b)); }

#define AG_PARTIAL(X, T)                                                                                               \
  AG_SI v##X v_loadn_##X(const T *p, int64_t k) {                                                                      \
    v##X v = {0};                                                                                                      \
    for (int64_t i = 0; i < k; i++) v[i] = p[i];                                                                       \
    return v;                                                                                                          \
  }                                                                                                                    \
  AG_SI void v_storen_##X(T *p, v##X v, int64_t k) {                                                                   \
    for (int64_t i = 0; i < k; i++) p[i] = v[i];                                                                       \
  }
AG_PARTIAL(f32, float)
AG_PARTIAL(f64, double)
AG_PARTIAL(i32, int32_t)
AG_PARTIAL(i64, int64_t)
#undef AG_PARTIAL

AG_SI vm32 v_loadb_m32(const uint8_t *p) { return (vi32){p[0], p[1], p[2], p[3]} != 0; }
AG_SI vm64 v_loadb_m64(const uint8_t *p) { return (vi64){p[0], p[1]} != 0; }
AG_SI void v_storeb_m32(uint8_t *p, vm32 m) {
  const uint32_t b = (uint32_t)v_bits_m32(m);
  const uint32_t w = (b & 1) | (b & 2) << 7 | (b & 4) << 14 | (b & 8) << 21; /* spread: lane i to byte i */
  for (int i = 0; i < 4; i++) p[i] = (uint8_t)(w >> 8 * i);
}
AG_SI void v_storeb_m64(uint8_t *p, vm64 m) {
  p[0] = (uint8_t)(m[0] & 1);
  p[1] = (uint8_t)(m[1] & 1);
}

AG_SI vf32 v_fma_f32(vf32 a, vf32 b, vf32 c) { return a * b + c; }
AG_SI vf64 v_fma_f64(vf64 a, vf64 b, vf64 c) { return a * b + c; }

/* Rounding by adding and taking away 2^23 (2^52), which leaves no bits for a fraction; larger values are whole.
 * The sign is put back for results of zero. */
#define AG_ROUNDING(X, BIG)                                                                                            \
  AG_SI v##X v_round_##X(v##X a) {                                                                                     \
    const v##X big = v_set1_##X(BIG), m = v_abs_##X(a);                                                                \
    return v_sel_##X(v_lt_##X(m, big), v_copysign_##X((m + big) - big, a), a);                                         \
  }                                                                                                                    \
  AG_SI v##X v_floor_##X(v##X a) {                                                                                     \
    const v##X r = v_round_##X(a), one = v_set1_##X(1);                                                                \
    return v_copysign_##X(v_sel_##X(v_gt_##X(r, a), r - one, r), a);                                                   \
  }                                                                                                                    \
  AG_SI v##X v_ceil_##X(v##X a) {                                                                                      \
    const v##X r = v_round_##X(a), one = v_set1_##X(1);                                                                \
    return v_copysign_##X(v_sel_##X(v_lt_##X(r, a), r + one, r), a);                                                   \
  }                                                                                                                    \
  AG_SI v##X v_trunc_##X(v##X a) {                                                                                     \
    const v##X m = v_abs_##X(a), r = v_round_##X(m), one = v_set1_##X(1);                                              \
    return v_copysign_##X(v_sel_##X(v_gt_##X(r, m), r - one, r), a);                                                   \
  }
AG_ROUNDING(f32, 8388608.0f)
AG_ROUNDING(f64, 4503599627370496.0)
#undef AG_ROUNDING

AG_SI vi32 v_cvt_i32_f32(vf32 a) { return __builtin_convertvector(a, vi32); }
AG_SI vf32 v_cvt_f32_i32(vi32 a) { return __builtin_convertvector(a, vf32); }
#ifdef __SSE2__
AG_SI vf64 v_lo_f64_f32(vf32 a) { return (vf64)_mm_cvtps_pd((__m128)a); }
AG_SI vf64 v_hi_f64_f32(vf32 a) { return (vf64)_mm_cvtps_pd(_mm_movehl_ps((__m128)a, (__m128)a)); }
AG_SI vf32 v_narrow_f32_f64(vf64 lo, vf64 hi) {
  return (vf32)_mm_movelh_ps(_mm_cvtpd_ps((__m128d)lo), _mm_cvtpd_ps((__m128d)hi));
}
#else
AG_SI vf64 v_lo_f64_f32(vf32 a) { return (vf64){a[0], a[1]}; }
AG_SI vf64 v_hi_f64_f32(vf32 a) { return (vf64){a[2], a[3]}; }
AG_SI vf32 v_narrow_f32_f64(vf64 lo, vf64 hi) {
  return (vf32){(float)lo[0], (float)lo[1], (float)hi[0], (float)hi[1]};
}
#endif

#define AG_GATHER(X, T)                                                                                                \
  AG_SI v##X v_gather_##X(const T *p, const int32_t *at) {                                                             \
    v##X v;                                                                                                            \
    for (int i = 0; i < AG_VLEN_##X; i++) v[i] = p[at[i]];                                                             \
    return v;                                                                                                          \
  }                                                                                                                    \
  AG_SI v##X v_gatherm_##X(const T *p, const int32_t *at) {                                                            \
    v##X v;                                                                                                            \
    for (int i = 0; i < AG_VLEN_##X; i++) v[i] = at[i] < 0 ? 0 : p[at[i]];                                             \
    return v;                                                                                                          \
  }
AG_GATHER(f32, float)
AG_GATHER(f64, double)
#undef AG_GATHER

#include "simd_tail.inc"
#endif
