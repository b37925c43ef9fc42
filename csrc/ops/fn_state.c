/* fn_state.c: ops that write state in place: the optimizers' updates.
 *
 * They write more than in[0]: momenta, step counts (and random rows their generator).  ag__row_writes tells dispatcher and trace which. */
#include "ops/fn_util.h"

uint32_t ag__row_writes(const ag_row *row, int n_in) {
  if (row->flags & OF_RANDOM) return 1u | 1u << 1;
  switch (row->op) {
  case AG_OP_sgd: return n_in > 3 ? 1u | 1u << 3 : 1u;
  case AG_OP_adam: return 1u | 1u << 3 | 1u << 4 | 1u << 5;
  default: return row->flags & OF_INPLACE_ONLY ? 1u : 0;
  }
}

/* Contiguous memory of an operand that is written: a strided one goes through a copy. */
typedef struct written {
  const ag_raw *raw;
  ag_temp temp;
  char *data;
} written;

static bool open_written(written *w, const ag_raw *r) {
  w->raw = r;
  return (w->data = ag__contig(r, &w->temp)) != NULL;
}
static void close_written(written *w) {
  if (w->temp.data) ag__store(w->raw, w->data);
  ag__temp_free(&w->temp);
}
static void drop_written(written *w) { ag__temp_free(&w->temp); }

static double number(const ag_raw *r) {
  const void *d = r->data;
  switch (r->dtype) {
  case AG_FLOAT32: return (double)*(const float *)d;
  case AG_FLOAT64: return *(const double *)d;
  case AG_INT64: return (double)*(const int64_t *)d;
  default: return (double)*(const int32_t *)d;
  }
}
static void set_number(const ag_raw *r, double v) {
  void *d = r->data;
  switch (r->dtype) {
  case AG_FLOAT32: *(float *)d = (float)v; break;
  case AG_FLOAT64: *(double *)d = v; break;
  case AG_INT64: *(int64_t *)d = (int64_t)v; break;
  default: *(int32_t *)d = (int32_t)v;
  }
}

/* ---- sgd, adam ---- */

static int same_as_parameter(const ag_infer *c, int k, const char *what) {
  ag_array *p = c->in[0], *a = c->in[k];
  if (a->dtype != p->dtype)
    return ag__fail(AG_ERR_RUNTIME, "%s(): %s has type %s, but the parameter has %s", c->row->name, what, ag_dtype_name(a->dtype),
                    ag_dtype_name(p->dtype));
  if (!ag__same_shape(p->ndim, ag__shape(p), a->ndim, ag__shape(a))) {
    char s[160], t[160];
    return ag__fail(AG_ERR_RUNTIME, "%s(): %s of shape %s does not fit a parameter of shape %s", c->row->name, what,
                    ag__shape_text(a->ndim, ag__shape(a), s, sizeof s), ag__shape_text(p->ndim, ag__shape(p), t, sizeof t));
  }
  return AG_OK;
}

/* State that is written must not meet itself in memory (an expanded tensor). */
static int own_memory(const ag_infer *c, int k, const char *what) {
  ag_array *a = c->in[k];
  for (int d = 0; d < a->ndim; d++)
    if (ag__strides(a)[d] == 0 && ag__shape(a)[d] > 1)
      return ag__fail(AG_ERR_RUNTIME, "%s(): more than one element of %s refers to a single memory location", c->row->name, what);
  return AG_OK;
}

static int one_number(const ag_infer *c, int k, const char *what, bool or_integer) {
  ag_array *a = c->in[k];
  if (a->numel != 1 || !(ag__is_float(a->dtype) || (or_integer && a->dtype >= AG_INT32)))
    return ag__fail(AG_ERR_TYPE, "%s(): %s must be a tensor of one number", c->row->name, what);
  return AG_OK;
}

int ag__infer_sgd(ag_infer *c) {
  int st = ag__need(c, 3, 1, 3);
  if (!st) st = ag__need_float(c, c->in[0]->dtype);
  if (!st) st = same_as_parameter(c, 1, "the gradient");
  if (!st) st = one_number(c, 2, "lr", false);
  if (!st && c->n_in > 3) st = same_as_parameter(c, 3, "the momentum buffer");
  if (!st && c->n_in > 3) st = own_memory(c, 3, "the momentum buffer");
  if (!st) ag__set_out(c, 0, c->in[0]->dtype, c->in[0]->ndim, ag__shape(c->in[0]));
  return st;
}

int ag__infer_adam(ag_infer *c) {
  int st = ag__need(c, 6, 1, 4);
  if (!st) st = ag__need_float(c, c->in[0]->dtype);
  if (!st) st = same_as_parameter(c, 1, "the gradient");
  if (!st) st = one_number(c, 2, "lr", false);
  if (!st) st = same_as_parameter(c, 3, "exp_avg");
  if (!st) st = same_as_parameter(c, 4, "exp_avg_sq");
  if (!st) st = own_memory(c, 3, "exp_avg");
  if (!st) st = own_memory(c, 4, "exp_avg_sq");
  if (!st) st = one_number(c, 5, "step", true);
  if (!st) ag__set_out(c, 0, c->in[0]->dtype, c->in[0]->ndim, ag__shape(c->in[0]));
  return st;
}

int ag__exec_sgd(const ag_exec *x) {
  const ag_raw *out = &x->out[0];
  written buf = {NULL, {NULL, 0}, NULL};
  ag_temp tg;
  const char *g = ag__contig(&x->in[1], &tg);
  if (!g) return AG_ERR_MEMORY;
  if (x->n_in > 3 && !open_written(&buf, &x->in[3])) {
    ag__temp_free(&tg);
    return AG_ERR_MEMORY;
  }
  const double h[4] = {number(&x->in[2]), x->p->f[0], x->p->f[1], x->p->f[2]};
  void *token = ag__long_begin(out->numel * 4, AG_LONG_MATH);
  ag__start_from(out, &x->in[0]);
  ag__par_sgd(out->dtype, out->numel, out->data, g, buf.data, h, (int)x->p->i[0]);
  close_written(&buf);
  ag__blocking_end(token);
  ag__temp_free(&tg);
  return AG_OK;
}

int ag__exec_adam(const ag_exec *x) {
  const ag_raw *out = &x->out[0];
  written m, v = {NULL, {NULL, 0}, NULL};
  ag_temp tg;
  const char *g = ag__contig(&x->in[1], &tg);
  if (!g) return AG_ERR_MEMORY;
  if (!open_written(&m, &x->in[3]) || !open_written(&v, &x->in[4])) {
    drop_written(&v);
    drop_written(&m);
    ag__temp_free(&tg);
    return AG_ERR_MEMORY;
  }
  const double *f = x->p->f, step = number(&x->in[5]) + 1;
  const double h[6] = {number(&x->in[2]), f[0], f[1], f[2], f[3], step};
  set_number(&x->in[5], step);
  void *token = ag__long_begin(out->numel * 8, AG_LONG_MATH);
  ag__start_from(out, &x->in[0]);
  ag__par_adam(out->dtype, out->numel, out->data, g, m.data, v.data, h, (int)x->p->i[0]);
  close_written(&v);
  close_written(&m);
  ag__blocking_end(token);
  ag__temp_free(&tg);
  return AG_OK;
}
