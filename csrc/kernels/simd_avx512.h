/* simd_avx512.h: the vector layer for AVX-512 F, DQ, BW, VL, 64 bytes.  The contract is in simd_common.inc. */
#ifndef AG_SIMD_H
#define AG_SIMD_H

#include <immintrin.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#define AG_ISA avx512
#define AG_ISA_NAME "avx512"
#define AG_VBYTES 64
#define AG_HAS_FMA 1
#define AG_HAS_SCALEF 1 /* x * 2^n, mantissa and exponent by one instruction each, for any value */
#define AG_MASK_REGS 1

#include "simd_common.inc"

typedef __mmask16 vm32;
typedef __mmask8 vm64;

#define AVX512_COMPARE(name, mode)                                                                                     \
  AG_SI vm32 v_##name##_f32(vf32 a, vf32 b) { return _mm512_cmp_ps_mask((__m512)a, (__m512)b, mode); }                 \
  AG_SI vm64 v_##name##_f64(vf64 a, vf64 b) { return _mm512_cmp_pd_mask((__m512d)a, (__m512d)b, mode); }
AVX512_COMPARE(eq, _CMP_EQ_OQ)
AVX512_COMPARE(ne, _CMP_NEQ_UQ)
AVX512_COMPARE(lt, _CMP_LT_OQ)
AVX512_COMPARE(le, _CMP_LE_OQ)
AVX512_COMPARE(gt, _CMP_GT_OQ)
AVX512_COMPARE(ge, _CMP_GE_OQ)
#undef AVX512_COMPARE
#define AVX512_COMPARE(name, mode)                                                                                     \
  AG_SI vm32 v_##name##_i32(vi32 a, vi32 b) { return _mm512_cmp_epi32_mask((__m512i)a, (__m512i)b, mode); }            \
  AG_SI vm64 v_##name##_i64(vi64 a, vi64 b) { return _mm512_cmp_epi64_mask((__m512i)a, (__m512i)b, mode); }
AVX512_COMPARE(eq, _MM_CMPINT_EQ)
AVX512_COMPARE(ne, _MM_CMPINT_NE)
AVX512_COMPARE(lt, _MM_CMPINT_LT)
AVX512_COMPARE(le, _MM_CMPINT_LE)
AVX512_COMPARE(gt, _MM_CMPINT_NLE)
AVX512_COMPARE(ge, _MM_CMPINT_NLT)
#undef AVX512_COMPARE

#define AVX512_MASKS(M, T)                                                                                             \
  AG_SI vm##M v_and_m##M(vm##M a, vm##M b) { return (T)(a & b); }                                                      \
  AG_SI vm##M v_or_m##M(vm##M a, vm##M b) { return (T)(a | b); }                                                       \
  AG_SI vm##M v_xor_m##M(vm##M a, vm##M b) { return (T)(a ^ b); }                                                      \
  AG_SI vm##M v_andnot_m##M(vm##M a, vm##M b) { return (T)(a & ~b); }                                                  \
  AG_SI vm##M v_not_m##M(vm##M a) { return (T)~a; }                                                                    \
  AG_SI int v_bits_m##M(vm##M a) { return a; }                                                                         \
  AG_SI int v_any_m##M(vm##M a) { return a != 0; }                                                                     \
  AG_SI int v_all_m##M(vm##M a) { return a == (1 << AG_VLEN_i##M) - 1; }
AVX512_MASKS(32, __mmask16)
AVX512_MASKS(64, __mmask8)
#undef AVX512_MASKS

AG_SI vf32 v_sel_f32(vm32 m, vf32 a, vf32 b) { return (vf32)_mm512_mask_blend_ps(m, (__m512)b, (__m512)a); }
AG_SI vf64 v_sel_f64(vm64 m, vf64 a, vf64 b) { return (vf64)_mm512_mask_blend_pd(m, (__m512d)b, (__m512d)a); }
AG_SI vi32 v_sel_i32(vm32 m, vi32 a, vi32 b) { return (vi32)_mm512_mask_blend_epi32(m, (__m512i)b, (__m512i)a); }
AG_SI vi64 v_sel_i64(vm64 m, vi64 a, vi64 b) { return (vi64)_mm512_mask_blend_epi64(m, (__m512i)b, (__m512i)a); }

AG_SI vf32 v_sqrt_f32(vf32 a) { return (vf32)_mm512_sqrt_ps((__m512)a); }
AG_SI vf64 v_sqrt_f64(vf64 a) { return (vf64)_mm512_sqrt_pd((__m512d)a); }
AG_SI vf32 v_fmax_f32(vf32 a, vf32 b) { return (vf32)_mm512_max_ps((__m512)a, (__m512)b); }
AG_SI vf32 v_fmin_f32(vf32 a, vf32 b) { return (vf32)_mm512_min_ps((__m512)a, (__m512)b); }
AG_SI vf64 v_fmax_f64(vf64 a, vf64 b) { return (vf64)_mm512_max_pd((__m512d)a, (__m512d)b); }
AG_SI vf64 v_fmin_f64(vf64 a, vf64 b) { return (vf64)_mm512_min_pd((__m512d)a, (__m512d)b); }
AG_SI vf32 v_max_f32(vf32 a, vf32 b) { return v_sel_f32(v_ne_f32(a, a), a, v_fmax_f32(a, b)); }
AG_SI vf32 v_min_f32(vf32 a, vf32 b) { return v_sel_f32(v_ne_f32(a, a), a, v_fmin_f32(a, b)); }
AG_SI vf64 v_max_f64(vf64 a, vf64 b) { return v_sel_f64(v_ne_f64(a, a), a, v_fmax_f64(a, b)); }
AG_SI vf64 v_min_f64(vf64 a, vf64 b) { return v_sel_f64(v_ne_f64(a, a), a, v_fmin_f64(a, b)); }

AG_SI __mmask16 avx512_first(int64_t k) { return (__mmask16)((1u << k) - 1u); }
AG_SI vf32 v_loadn_f32(const float *p, int64_t k) { return (vf32)_mm512_maskz_loadu_ps(avx512_first(k), p); }
AG_SI vf64 v_loadn_f64(const double *p, int64_t k) { return (vf64)_mm512_maskz_loadu_pd((__mmask8)avx512_first(k), p); }
AG_SI vi32 v_loadn_i32(const int32_t *p, int64_t k) { return (vi32)_mm512_maskz_loadu_epi32(avx512_first(k), p); }
AG_SI vi64 v_loadn_i64(const int64_t *p, int64_t k) {
  return (vi64)_mm512_maskz_loadu_epi64((__mmask8)avx512_first(k), p);
}
AG_SI void v_storen_f32(float *p, vf32 v, int64_t k) { _mm512_mask_storeu_ps(p, avx512_first(k), (__m512)v); }
AG_SI void v_storen_f64(double *p, vf64 v, int64_t k) {
  _mm512_mask_storeu_pd(p, (__mmask8)avx512_first(k), (__m512d)v);
}
AG_SI void v_storen_i32(int32_t *p, vi32 v, int64_t k) { _mm512_mask_storeu_epi32(p, avx512_first(k), (__m512i)v); }
AG_SI void v_storen_i64(int64_t *p, vi64 v, int64_t k) {
  _mm512_mask_storeu_epi64(p, (__mmask8)avx512_first(k), (__m512i)v);
}

AG_SI vm32 v_loadb_m32(const uint8_t *p) {
  const __m128i b = _mm_loadu_si128((const __m128i *)(const void *)p);
  return _mm_test_epi8_mask(b, b);
}
AG_SI vm64 v_loadb_m64(const uint8_t *p) {
  const __m128i b = _mm_loadl_epi64((const __m128i *)(const void *)p);
  return (__mmask8)_mm_test_epi8_mask(b, b);
}
AG_SI void v_storeb_m32(uint8_t *p, vm32 m) {
  _mm_storeu_si128((__m128i *)(void *)p, _mm_maskz_set1_epi8(m, 1));
}
AG_SI void v_storeb_m64(uint8_t *p, vm64 m) {
  _mm_storel_epi64((__m128i *)(void *)p, _mm_maskz_set1_epi8((__mmask16)m, 1));
}

AG_SI vf32 v_fma_f32(vf32 a, vf32 b, vf32 c) { return (vf32)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c); }
AG_SI vf64 v_fma_f64(vf64 a, vf64 b, vf64 c) { return (vf64)_mm512_fmadd_pd((__m512d)a, (__m512d)b, (__m512d)c); }

#define AVX512_ROUND(name, mode)                                                                                       \
  AG_SI vf32 v_##name##_f32(vf32 a) { return (vf32)_mm512_roundscale_ps((__m512)a, (mode) | _MM_FROUND_NO_EXC); }      \
  AG_SI vf64 v_##name##_f64(vf64 a) { return (vf64)_mm512_roundscale_pd((__m512d)a, (mode) | _MM_FROUND_NO_EXC); }
AVX512_ROUND(round, _MM_FROUND_TO_NEAREST_INT)
AVX512_ROUND(floor, _MM_FROUND_TO_NEG_INF)
AVX512_ROUND(ceil, _MM_FROUND_TO_POS_INF)
AVX512_ROUND(trunc, _MM_FROUND_TO_ZERO)
#undef AVX512_ROUND

AG_SI vi32 v_cvt_i32_f32(vf32 a) { return (vi32)_mm512_cvttps_epi32((__m512)a); }
AG_SI vf32 v_cvt_f32_i32(vi32 a) { return (vf32)_mm512_cvtepi32_ps((__m512i)a); }
AG_SI vf64 v_lo_f64_f32(vf32 a) { return (vf64)_mm512_cvtps_pd(_mm512_castps512_ps256((__m512)a)); }
AG_SI vf64 v_hi_f64_f32(vf32 a) { return (vf64)_mm512_cvtps_pd(_mm512_extractf32x8_ps((__m512)a, 1)); }
AG_SI vf32 v_narrow_f32_f64(vf64 lo, vf64 hi) {
  return (vf32)_mm512_insertf32x8(_mm512_castps256_ps512(_mm512_cvtpd_ps((__m512d)lo)), _mm512_cvtpd_ps((__m512d)hi), 1);
}

AG_SI vf32 v_scalef_f32(vf32 a, vf32 n) { return (vf32)_mm512_scalef_ps((__m512)a, (__m512)n); }
AG_SI vf64 v_scalef_f64(vf64 a, vf64 n) { return (vf64)_mm512_scalef_pd((__m512d)a, (__m512d)n); }

#define AG_HAS_STREAM 1
AG_SI void v_stream_f32(float *p, vf32 v) { _mm512_stream_ps(p, (__m512)v); }
AG_SI void v_stream_end(void) { _mm_sfence(); }
AG_SI vf32 v_gather_f32(const float *p, const int32_t *at) {
  return (vf32)_mm512_i32gather_ps(_mm512_loadu_si512(at), p, 4);
}
AG_SI vf64 v_gather_f64(const double *p, const int32_t *at) {
  return (vf64)_mm512_i32gather_pd(_mm256_loadu_si256((const __m256i *)(const void *)at), p, 8);
}

AG_SI vf32 v_gatherm_f32(const float *p, const int32_t *at) {
  const __m512i k = _mm512_loadu_si512(at);
  return (vf32)_mm512_mask_i32gather_ps(_mm512_setzero_ps(), (__mmask16)~_mm512_movepi32_mask(k), k, p, 4);
}
AG_SI vf64 v_gatherm_f64(const double *p, const int32_t *at) {
  const __m256i k = _mm256_loadu_si256((const __m256i *)(const void *)at);
  return (vf64)_mm512_mask_i32gather_pd(_mm512_setzero_pd(), (__mmask8)~_mm256_movepi32_mask(k), k, p, 8);
}

#include "simd_tail.inc"
#endif
