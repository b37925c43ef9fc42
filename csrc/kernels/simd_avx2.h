/* simd_avx2.h: the vector layer for AVX2 + FMA, 32 bytes.  The contract is in simd_common.inc. */
#ifndef AG_SIMD_H
#define AG_SIMD_H

#include <immintrin.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#define AG_ISA avx2
#define AG_ISA_NAME "avx2"
#define AG_VBYTES 32
#define AG_HAS_FMA 1

#include "simd_common.inc"

AG_SI int v_bits_m32(vm32 a) { return _mm256_movemask_ps((__m256)a); }
AG_SI int v_bits_m64(vm64 a) { return _mm256_movemask_pd((__m256d)a); }
AG_MASKS(32)
AG_MASKS(64)

AG_SI vf32 v_sel_f32(vm32 m, vf32 a, vf32 b) { return (vf32)_mm256_blendv_ps((__m256)b, (__m256)a, (__m256)m); }
AG_SI vf64 v_sel_f64(vm64 m, vf64 a, vf64 b) { return (vf64)_mm256_blendv_pd((__m256d)b, (__m256d)a, (__m256d)m); }
AG_SI vi32 v_sel_i32(vm32 m, vi32 a, vi32 b) { return (vi32)_mm256_blendv_epi8((__m256i)b, (__m256i)a, (__m256i)m); }
AG_SI vi64 v_sel_i64(vm64 m, vi64 a, vi64 b) { return (vi64)_mm256_blendv_epi8((__m256i)b, (__m256i)a, (__m256i)m); }

AG_SI vf32 v_sqrt_f32(vf32 a) { return (vf32)_mm256_sqrt_ps((__m256)a); }
AG_SI vf64 v_sqrt_f64(vf64 a) { return (vf64)_mm256_sqrt_pd((__m256d)a); }
AG_SI vf32 v_fmax_f32(vf32 a, vf32 b) { return (vf32)_mm256_max_ps((__m256)a, (__m256)b); }
AG_SI vf32 v_fmin_f32(vf32 a, vf32 b) { return (vf32)_mm256_min_ps((__m256)a, (__m256)b); }
AG_SI vf64 v_fmax_f64(vf64 a, vf64 b) { return (vf64)_mm256_max_pd((__m256d)a, (__m256d)b); }
AG_SI vf64 v_fmin_f64(vf64 a, vf64 b) { return (vf64)_mm256_min_pd((__m256d)a, (__m256d)b); }
AG_SI vf32 v_max_f32(vf32 a, vf32 b) { return v_sel_f32(v_ne_f32(a, a), a, v_fmax_f32(a, b)); }
AG_SI vf32 v_min_f32(vf32 a, vf32 b) { return v_sel_f32(v_ne_f32(a, a), a, v_fmin_f32(a, b)); }
AG_SI vf64 v_max_f64(vf64 a, vf64 b) { return v_sel_f64(v_ne_f64(a, a), a, v_fmax_f64(a, b)); }
AG_SI vf64 v_min_f64(vf64 a, vf64 b) { return v_sel_f64(v_ne_f64(a, a), a, v_fmin_f64(a, b)); }

/* A window of this array whose first k lanes are on. */
static const int32_t avx2_lanes[16] = {-1, -1, -1, -1, -1, -1, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0};
AG_SI __m256i avx2_first_words(int64_t k) {
  __m256i m;
  memcpy(&m, avx2_lanes + 8 - k, sizeof m);
  return m;
}
AG_SI vf32 v_loadn_f32(const float *p, int64_t k) { return (vf32)_mm256_maskload_ps(p, avx2_first_words(k)); }
AG_SI vf64 v_loadn_f64(const double *p, int64_t k) { return (vf64)_mm256_maskload_pd(p, avx2_first_words(2 * k)); }
AG_SI vi32 v_loadn_i32(const int32_t *p, int64_t k) {
  return (vi32)_mm256_castps_si256(_mm256_maskload_ps((const float *)(const void *)p, avx2_first_words(k)));
}
AG_SI vi64 v_loadn_i64(const int64_t *p, int64_t k) {
  return (vi64)_mm256_castpd_si256(_mm256_maskload_pd((const double *)(const void *)p, avx2_first_words(2 * k)));
}
AG_SI void v_storen_f32(float *p, vf32 v, int64_t k) { _mm256_maskstore_ps(p, avx2_first_words(k), (__m256)v); }
AG_SI void v_storen_f64(double *p, vf64 v, int64_t k) { _mm256_maskstore_pd(p, avx2_first_words(2 * k), (__m256d)v); }
AG_SI void v_storen_i32(int32_t *p, vi32 v, int64_t k) {
  _mm256_maskstore_ps((float *)(void *)p, avx2_first_words(k), (__m256)v);
}
AG_SI void v_storen_i64(int64_t *p, vi64 v, int64_t k) {
  _mm256_maskstore_pd((double *)(void *)p, avx2_first_words(2 * k), (__m256d)v);
}

AG_SI vm32 v_loadb_m32(const uint8_t *p) {
  return (vi32)_mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)p)) != 0;
}
AG_SI vm64 v_loadb_m64(const uint8_t *p) {
  int32_t w;
  memcpy(&w, p, 4);
  return (vi64)_mm256_cvtepu8_epi64(_mm_cvtsi32_si128(w)) != 0;
}
AG_SI void v_storeb_m32(uint8_t *p, vm32 m) {
  const __m256i v = (__m256i)m;
  const __m128i w = _mm_packs_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
  _mm_storel_epi64((__m128i *)(void *)p, _mm_and_si128(_mm_packs_epi16(w, w), _mm_set1_epi8(1)));
}
AG_SI void v_storeb_m64(uint8_t *p, vm64 m) {
  const __m256i v = (__m256i)m;
  const __m128i w = _mm_packs_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1)); /* lane = 2 words */
  const int32_t b = _mm_cvtsi128_si32(_mm_and_si128(_mm_packs_epi16(_mm_packs_epi32(w, w), w), _mm_set1_epi8(1)));
  memcpy(p, &b, 4);
}

AG_SI vf32 v_fma_f32(vf32 a, vf32 b, vf32 c) { return (vf32)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c); }
AG_SI vf64 v_fma_f64(vf64 a, vf64 b, vf64 c) { return (vf64)_mm256_fmadd_pd((__m256d)a, (__m256d)b, (__m256d)c); }

AG_SI vf32 v_gather_f32(const float *p, const int32_t *at) {
  return (vf32)_mm256_i32gather_ps(p, _mm256_loadu_si256((const __m256i *)(const void *)at), 4);
}
AG_SI vf64 v_gather_f64(const double *p, const int32_t *at) {
  return (vf64)_mm256_i32gather_pd(p, _mm_loadu_si128((const __m128i *)(const void *)at), 8);
}
AG_SI vf32 v_gatherm_f32(const float *p, const int32_t *at) {
  const __m256i k = _mm256_loadu_si256((const __m256i *)(const void *)at);
  return (vf32)_mm256_mask_i32gather_ps(_mm256_setzero_ps(), p, k, (__m256)~(vi32)k, 4);
}
AG_SI vf64 v_gatherm_f64(const double *p, const int32_t *at) {
  const __m128i k = _mm_loadu_si128((const __m128i *)(const void *)at);
  return (vf64)_mm256_mask_i32gather_pd(_mm256_setzero_pd(), p, k, (__m256d)~(vi64)_mm256_cvtepi32_epi64(k), 8);
}

#define AVX2_ROUND(name, mode)                                                                                         \
  AG_SI vf32 v_##name##_f32(vf32 a) { return (vf32)_mm256_round_ps((__m256)a, (mode) | _MM_FROUND_NO_EXC); }           \
  AG_SI vf64 v_##name##_f64(vf64 a) { return (vf64)_mm256_round_pd((__m256d)a, (mode) | _MM_FROUND_NO_EXC); }
AVX2_ROUND(round, _MM_FROUND_TO_NEAREST_INT)
AVX2_ROUND(floor, _MM_FROUND_TO_NEG_INF)
AVX2_ROUND(ceil, _MM_FROUND_TO_POS_INF)
AVX2_ROUND(trunc, _MM_FROUND_TO_ZERO)
#undef AVX2_ROUND

AG_SI vi32 v_cvt_i32_f32(vf32 a) { return (vi32)_mm256_cvttps_epi32((__m256)a); }
AG_SI vf32 v_cvt_f32_i32(vi32 a) { return (vf32)_mm256_cvtepi32_ps((__m256i)a); }
AG_SI vf64 v_lo_f64_f32(vf32 a) { return (vf64)_mm256_cvtps_pd(_mm256_castps256_ps128((__m256)a)); }
AG_SI vf64 v_hi_f64_f32(vf32 a) { return (vf64)_mm256_cvtps_pd(_mm256_extractf128_ps((__m256)a, 1)); }
AG_SI vf32 v_narrow_f32_f64(vf64 lo, vf64 hi) {
  return (vf32)_mm256_insertf128_ps(_mm256_castps128_ps256(_mm256_cvtpd_ps((__m256d)lo)), _mm256_cvtpd_ps((__m256d)hi), 1);
}

#define AG_HAS_STREAM 1
AG_SI void v_stream_f32(float *p, vf32 v) { _mm256_stream_ps(p, (__m256)v); }
AG_SI void v_stream_end(void) { _mm_sfence(); }

#include "simd_tail.inc"
#endif
