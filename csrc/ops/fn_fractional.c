/* fn_fractional.c: max pooling over windows that random numbers spread unevenly (Graham, "Fractional max-pooling", 2014). */
#include "ops/fn_util.h"

/* x, samples; ints: nd, kernel, output (nd each) */

int ag__infer_fractional_max_pool(ag_infer *c) {
  const ag_params *p = c->p;
  int st = ag__need(c, 2, 1, 0);
  if (st) return st;
  if (p->i[0] != 2 && p->i[0] != 3) return ag__fail(AG_ERR_VALUE, "fractional_max_pool(): 2 or 3 spatial dimensions are supported");
  int nd = (int)p->i[0];
  ag_array *x = c->in[0], *s = c->in[1];
  if ((st = ag__need(c, 2, 1 + 2 * nd, 0)) || (st = ag__need_float(c, x->dtype))) return st;
  if (x->ndim != nd + 1 && x->ndim != nd + 2)
    return ag__fail(AG_ERR_RUNTIME, "fractional_max_pool%dd(): expected input to have %d or %d dimensions, but got %d", nd, nd + 1, nd + 2, x->ndim);
  int lead = x->ndim - nd;
  int64_t shape[AG_MAX_NDIM], planes = 1;
  char a[160];
  for (int d = 0; d < lead; d++) planes *= shape[d] = ag__shape(x)[d];
  for (int d = 0; d < nd; d++) {
    int64_t in = ag__shape(x)[lead + d], k = p->i[1 + d], out = p->i[1 + nd + d];
    if (k <= 0) return ag__fail(AG_ERR_RUNTIME, "fractional_max_pool%dd(): kernel_size must be greater than zero, but got %lld", nd, (long long)k);
    if (out <= 0) return ag__fail(AG_ERR_RUNTIME, "fractional_max_pool%dd(): output_size must be greater than zero, but got %lld", nd, (long long)out);
    if (in <= 0) return ag__fail(AG_ERR_RUNTIME, "fractional_max_pool%dd(): Expected input to have non-zero size for non-batch dimensions", nd);
    if (k > in || out > in || out + k - 1 > in)
      return ag__fail(AG_ERR_RUNTIME, "fractional_max_pool%dd(): pool size %lld and output size %lld too large relative to input size %lld", nd,
                      (long long)k, (long long)out, (long long)in);
    shape[lead + d] = out;
  }
  if (s->dtype != x->dtype)
    return ag__fail(AG_ERR_RUNTIME, "Expect _random_samples to have the same dtype as input, got %s and %s", ag_dtype_name(s->dtype), ag_dtype_name(x->dtype));
  if (s->ndim != 3 || s->numel != planes * nd || ag__shape(s)[2] != nd)
    return ag__fail(AG_ERR_RUNTIME, "Expect _random_samples of shape (batch, channels, %d), got %s", nd,
                    ag__shape_text(s->ndim, ag__shape(s), a, sizeof a));
  ag__set_out(c, 0, x->dtype, x->ndim, shape);
  ag__set_out(c, 1, AG_INT64, x->ndim, shape);
  return AG_OK;
}

/* Where the windows of one dim begin: steps of alpha, moved by the sample u, cut to whole numbers; the last at the end. */
#define POOL(T, SUFFIX)                                                                                               \
  static int64_t begin_##SUFFIX(T u, int64_t in, int64_t k, int64_t out, int64_t i) {                                 \
    if (i == out - 1) return in - k;                                                                                  \
    const T alpha = (T)(in - k) / (T)(out - 1);                                                                       \
    int64_t at = (int64_t)(((T)i + u) * alpha) - (int64_t)(u * alpha);                                                \
    return at < 0 ? 0 : at > in - k ? in - k : at; /* samples outside of [0, 1) */                                    \
  }                                                                                                                   \
  static void pool_##SUFFIX(const T *x, const T *u, const int64_t *in, const int64_t *k, const int64_t *out, T *y,    \
                            int64_t *idx) {                                                                           \
    for (int64_t a = 0; a < out[0]; a++)                                                                              \
      for (int64_t b = 0; b < out[1]; b++)                                                                            \
        for (int64_t c = 0; c < out[2]; c++) {                                                                        \
          const int64_t p = begin_##SUFFIX(u[0], in[0], k[0], out[0], a), q = begin_##SUFFIX(u[1], in[1], k[1], out[1], b), \
                        r = begin_##SUFFIX(u[2], in[2], k[2], out[2], c);                                             \
          int64_t best = (p * in[1] + q) * in[2] + r;                                                                 \
          for (int64_t d = p; d < p + k[0]; d++)                                                                      \
            for (int64_t e = q; e < q + k[1]; e++)                                                                    \
              for (int64_t f = r; f < r + k[2]; f++) {                                                                \
                const int64_t at = (d * in[1] + e) * in[2] + f;                                                       \
                if (x[at] > x[best] || x[at] != x[at]) best = at;                                                     \
              }                                                                                                       \
          *y++ = x[best];                                                                                             \
          *idx++ = best;                                                                                              \
        }                                                                                                             \
  }
POOL(float, f32)
POOL(double, f64)

int ag__exec_fractional_max_pool(const ag_exec *e) {
  const ag_raw *x = &e->in[0];
  int nd = (int)e->p->i[0], lead = x->ndim - nd;
  int64_t in[3] = {1, 1, 1}, k[3] = {1, 1, 1}, out[3] = {1, 1, 1}, planes = 1, n, m;
  if (e->out[0].numel == 0) return AG_OK;
  for (int d = 0; d < lead; d++) planes *= x->shape[d];
  for (int d = 0; d < nd; d++) {
    in[3 - nd + d] = x->shape[lead + d];
    k[3 - nd + d] = e->p->i[1 + d];
    out[3 - nd + d] = e->p->i[1 + nd + d];
  }
  n = in[0] * in[1] * in[2];
  m = out[0] * out[1] * out[2];
  ag_temp tx, ts = {NULL, 0};
  const char *xd = ag__contig(x, &tx), *sd = xd ? ag__contig(&e->in[1], &ts) : NULL;
  if (sd) {
    void *token = ag__long_begin(e->out[0].numel * k[0] * k[1] * k[2], AG_LONG_MATH);
    int64_t *idx = (int64_t *)(void *)e->out[1].data;
    for (int64_t p = 0; p < planes; p++) {
      if (x->dtype == AG_FLOAT32) { /* samples: of two dims the last comes first, of three the first */
        const float *s = (const float *)(const void *)sd + p * nd, u[3] = {nd == 3 ? s[0] : 0, s[1], nd == 3 ? s[2] : s[0]};
        pool_f32((const float *)(const void *)xd + p * n, u, in, k, out, (float *)(void *)e->out[0].data + p * m, idx + p * m);
      } else {
        const double *s = (const double *)(const void *)sd + p * nd, u[3] = {nd == 3 ? s[0] : 0, s[1], nd == 3 ? s[2] : s[0]};
        pool_f64((const double *)(const void *)xd + p * n, u, in, k, out, (double *)(void *)e->out[0].data + p * m, idx + p * m);
      }
    }
    ag__blocking_end(token);
  }
  ag__temp_free(&ts);
  ag__temp_free(&tx);
  return sd ? AG_OK : AG_ERR_MEMORY;
}

int ag__vjp_fractional_max_pool(ag_vjp *c) {
  if (!c->need[0] || !c->g[0]) return c->status;
  const ag_meta *m = ag__vmeta(c, 0);
  int nd = (int)c->p.i[0];
  ag_params p = {.ni = 1 + nd, .i = {nd}};
  memcpy(p.i + 1, m->shape + m->ndim - nd, sizeof(int64_t) * (size_t)nd);
  return ag__give(c, 0, ag__b(c, AG_OP_pool_scatter, 2, (ag_tensor *[]){c->g[0], ag__vy(c, 1)}, &p));
}
