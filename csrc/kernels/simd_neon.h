/* simd_neon.h: the vector layer for AArch64, 16 bytes with FMA.  The contract is in simd_common.inc. */
#ifndef AG_SIMD_H
#define AG_SIMD_H

#include <arm_neon.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#define AG_ISA neon
#define AG_ISA_NAME "neon"
#define AG_VBYTES 16
#define AG_HAS_FMA 1

#include "simd_common.inc"

AG_SI int v_bits_m32(vm32 a) {
  const uint32x4_t weight = {1, 2, 4, 8};
  return (int)vaddvq_u32(vandq_u32((uint32x4_t)a, weight));
}
AG_SI int v_bits_m64(vm64 a) { return (int)((a[0] & 1) | (a[1] & 2)); }
AG_MASKS(32)
AG_MASKS(64)

AG_SI vf32 v_sel_f32(vm32 m, vf32 a, vf32 b) {
  return (vf32)vbslq_f32((uint32x4_t)m, (float32x4_t)a, (float32x4_t)b);
}
AG_SI vf64 v_sel_f64(vm64 m, vf64 a, vf64 b) {
  return (vf64)vbslq_f64((uint64x2_t)m, (float64x2_t)a, (float64x2_t)b);
}
AG_SI vi32 v_sel_i32(vm32 m, vi32 a, vi32 b) { return (vi32)vbslq_s32((uint32x4_t)m, (int32x4_t)a, (int32x4_t)b); }
AG_SI vi64 v_sel_i64(vm64 m, vi64 a, vi64 b) { return (vi64)vbslq_s64((uint64x2_t)m, (int64x2_t)a, (int64x2_t)b); }

#define NEON_UNARY(name, op)                                                                                           \
  AG_SI vf32 v_##name##_f32(vf32 a) { return (vf32)op##_f32((float32x4_t)a); }                                         \
  AG_SI vf64 v_##name##_f64(vf64 a) { return (vf64)op##_f64((float64x2_t)a); }
NEON_UNARY(sqrt, vsqrtq)
NEON_UNARY(round, vrndnq)
NEON_UNARY(floor, vrndmq)
NEON_UNARY(ceil, vrndpq)
NEON_UNARY(trunc, vrndq)
#undef NEON_UNARY

/* fmax and fmin of AArch64 let NaN win. */
AG_SI vf32 v_max_f32(vf32 a, vf32 b) { return (vf32)vmaxq_f32((float32x4_t)a, (float32x4_t)b); }
AG_SI vf32 v_min_f32(vf32 a, vf32 b) { return (vf32)vminq_f32((float32x4_t)a, (float32x4_t)b); }
AG_SI vf64 v_max_f64(vf64 a, vf64 b) { return (vf64)vmaxq_f64((float64x2_t)a, (float64x2_t)b); }
AG_SI vf64 v_min_f64(vf64 a, vf64 b) { return (vf64)vminq_f64((float64x2_t)a, (float64x2_t)b); }
AG_SI vf32 v_fmax_f32(vf32 a, vf32 b) { return v_sel_f32(v_gt_f32(a, b), a, b); }
AG_SI vf32 v_fmin_f32(vf32 a, vf32 b) { return v_sel_f32(v_lt_f32(a, b), a, b); }
AG_SI vf64 v_fmax_f64(vf64 a, vf64 b) { return v_sel_f64(v_gt_f64(a, b), a, b); }
AG_SI vf64 v_fmin_f64(vf64 a, vf64 b) { return v_sel_f64(v_lt_f64(a, b), a, b); }

#define NEON_PARTIAL(X, T)                                                                                             \
  AG_SI v##X v_loadn_##X(const T *p, int64_t k) {                                                                      \
    v##X v = {0};                                                                                                      \
    for (int64_t i = 0; i < k; i++) v[i] = p[i];                                                                       \
    return v;                                                                                                          \
  }                                                                                                                    \
  AG_SI void v_storen_##X(T *p, v##X v, int64_t k) {                                                                   \
    for (int64_t i = 0; i < k; i++) p[i] = v[i];                                                                       \
  }
NEON_PARTIAL(f32, float)
NEON_PARTIAL(f64, double)
NEON_PARTIAL(i32, int32_t)
NEON_PARTIAL(i64, int64_t)
#undef NEON_PARTIAL

AG_SI vm32 v_loadb_m32(const uint8_t *p) { return (vi32){p[0], p[1], p[2], p[3]} != 0; }
AG_SI vm64 v_loadb_m64(const uint8_t *p) { return (vi64){p[0], p[1]} != 0; }
AG_SI void v_storeb_m32(uint8_t *p, vm32 m) {
  const uint16x4_t h = vmovn_u32(vandq_u32((uint32x4_t)m, vdupq_n_u32(1)));
  const uint8x8_t b = vmovn_u16(vcombine_u16(h, h));
  memcpy(p, &b, 4);
}
AG_SI void v_storeb_m64(uint8_t *p, vm64 m) {
  p[0] = (uint8_t)(m[0] & 1);
  p[1] = (uint8_t)(m[1] & 1);
}

AG_SI vf32 v_fma_f32(vf32 a, vf32 b, vf32 c) {
  return (vf32)vfmaq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b);
}
AG_SI vf64 v_fma_f64(vf64 a, vf64 b, vf64 c) {
  return (vf64)vfmaq_f64((float64x2_t)c, (float64x2_t)a, (float64x2_t)b);
}

AG_SI vi32 v_cvt_i32_f32(vf32 a) { return (vi32)vcvtq_s32_f32((float32x4_t)a); }
AG_SI vf32 v_cvt_f32_i32(vi32 a) { return (vf32)vcvtq_f32_s32((int32x4_t)a); }
AG_SI vf64 v_lo_f64_f32(vf32 a) { return (vf64)vcvt_f64_f32(vget_low_f32((float32x4_t)a)); }
AG_SI vf64 v_hi_f64_f32(vf32 a) { return (vf64)vcvt_high_f64_f32((float32x4_t)a); }
AG_SI vf32 v_narrow_f32_f64(vf64 lo, vf64 hi) {
  return (vf32)vcvt_high_f32_f64(vcvt_f32_f64((float64x2_t)lo), (float64x2_t)hi);
}

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
