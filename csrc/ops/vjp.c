#include "ops/vjp.h"

#include "ops/exec.h"

#include <math.h>
#include <stdarg.h>

/* ---- what a rule sees of its node ---- */

static ag_tensor *keep(ag_vjp *c, ag_tensor *t) {
  if (!t) {
    if (!c->status) c->status = ag_last_status() ? ag_last_status() : AG_ERR_RUNTIME;
    return NULL;
  }
  if (c->n_temps == AG_VJP_TEMPS) {
    ag_tensor_release(t);
    c->status = ag__fail(AG_ERR_RUNTIME, "%s: derivative rule too long", c->row->name);
    return NULL;
  }
  return c->temps[c->n_temps++] = t;
}

static ag_tensor *saved(ag_vjp *c, int which) {
  ag_node *n = c->node;
  for (uint32_t k = 0; k < n->n_saved; k++)
    if (n->saved[k].which == which) return keep(c, ag__saved_tensor(n, k));
  c->status = ag__fail(AG_ERR_RUNTIME, "%s did not save what its derivative needs", ag_node_name(n));
  return NULL;
}

ag_tensor *ag__vx(ag_vjp *c, int i) { return c->status ? NULL : saved(c, i); }
ag_tensor *ag__vy(ag_vjp *c, int i) { return c->status ? NULL : saved(c, -1 - i); }

const ag_meta *ag__vmeta(const ag_vjp *c, int i) {
  const ag_edge *e = &c->node->in[i];
  return &e->node->out[e->nr];
}

/* ---- builders ---- */

ag_tensor *ag__b(ag_vjp *c, int op, int n_in, ag_tensor *const *in, const ag_params *p) {
  if (c->status) return NULL;
  for (int k = 0; k < n_in; k++)
    if (!in[k]) return NULL;
  ag_tensor *t = ag__apply1(op, n_in, in, p);
  if (!t) c->status = ag_last_status();
  return t ? keep(c, t) : NULL;
}

ag_tensor *ag__b1(ag_vjp *c, int op, ag_tensor *a) { return ag__b(c, op, 1, &a, NULL); }
ag_tensor *ag__b2(ag_vjp *c, int op, ag_tensor *a, ag_tensor *b) { return ag__b(c, op, 2, (ag_tensor *[]){a, b}, NULL); }
ag_tensor *ag__b3(ag_vjp *c, int op, ag_tensor *a, ag_tensor *b, ag_tensor *d) {
  return ag__b(c, op, 3, (ag_tensor *[]){a, b, d}, NULL);
}

ag_tensor *ag__bints(ag_vjp *c, int op, ag_tensor *a, int n, const int64_t *ints) {
  ag_params p = {.ni = n, .nf = 0};
  memcpy(p.i, ints, sizeof(int64_t) * (size_t)n);
  return ag__b(c, op, 1, &a, &p);
}

ag_tensor *ag__bi(ag_vjp *c, int op, ag_tensor *a, int n, ...) {
  int64_t ints[AG_PARAM_INTS];
  va_list ap;
  va_start(ap, n);
  for (int k = 0; k < n; k++) ints[k] = va_arg(ap, int64_t);
  va_end(ap);
  return ag__bints(c, op, a, n, ints);
}

ag_tensor *ag__bshape(ag_vjp *c, int op, ag_tensor *a, int ndim, const int64_t *shape) {
  return ag__bints(c, op, a, ndim, shape);
}

static ag_tensor *full(ag_vjp *c, int dtype, int ndim, const int64_t *shape, double v) {
  if (c->status) return NULL;
  ag_params p = {.ni = 1 + ndim, .nf = 1};
  p.i[0] = dtype;
  if (ndim) memcpy(p.i + 1, shape, sizeof(int64_t) * (size_t)ndim);
  p.f[0] = v;
  return ag__b(c, AG_OP_full, 0, NULL, &p);
}

ag_tensor *ag__bnum(ag_vjp *c, double v, int dtype) { return full(c, dtype, 0, NULL, v); }
ag_tensor *ag__bzeros(ag_vjp *c, int dtype, int ndim, const int64_t *shape) { return full(c, dtype, ndim, shape, 0); }
ag_tensor *ag__bscale(ag_vjp *c, ag_tensor *a, double v) {
  return a ? ag__b2(c, AG_OP_mul, a, ag__bnum(c, v, a->arr->dtype)) : NULL;
}

ag_tensor *ag__breshape(ag_vjp *c, ag_tensor *a, int ndim, const int64_t *shape) {
  if (!a || c->status) return NULL;
  int64_t strides[AG_MAX_NDIM];
  bool can = ag__view_strides(a->arr->ndim, ag__shape(a->arr), ag__strides(a->arr), ndim, shape, strides);
  if (!can) a = ag__b1(c, AG_OP_clone, a);
  return ag__bshape(c, AG_OP_view, a, ndim, shape);
}

int ag__give(ag_vjp *c, int i, ag_tensor *r) {
  if (c->status || !r) return c->status ? c->status : (c->status = ag_last_status());
  ag_tensor_retain(r);
  c->dx[i] = r;
  return AG_OK;
}

/* ---- the derivatives of elementwise rows, read as ops ---- */

#define NUM_TYPE (c->node->out[0].dtype)
#define C(v) ag__bnum(c, (v), NUM_TYPE)
#define P(k) ag__bnum(c, c->p.f[k], NUM_TYPE)
#define ADD(a, b) ag__b2(c, AG_OP_add, a, b)
#define SUB(a, b) ag__b2(c, AG_OP_sub, a, b)
#define MUL(a, b) ag__b2(c, AG_OP_mul, a, b)
#define DIV(a, b) ag__b2(c, AG_OP_div, a, b)
#define POW(a, b) ag__b2(c, AG_OP_pow, a, b)
#define MAX(a, b) ag__b2(c, AG_OP_maximum, a, b)
#define MIN(a, b) ag__b2(c, AG_OP_minimum, a, b)
#define ATAN2(a, b) ag__b2(c, AG_OP_atan2, a, b)
#define NEG(a) ag__b1(c, AG_OP_neg, a)
#define ABS(a) ag__b1(c, AG_OP_abs, a)
#define SIGN(a) ag__b1(c, AG_OP_sign, a)
#define SQRT(a) ag__b1(c, AG_OP_sqrt, a)
#define RSQRT(a) ag__b1(c, AG_OP_rsqrt, a)
#define RECIP(a) ag__b1(c, AG_OP_reciprocal, a)
#define EXP(a) ag__b1(c, AG_OP_exp, a)
#define EXP2(a) ag__b1(c, AG_OP_exp2, a)
#define EXPM1(a) ag__b1(c, AG_OP_expm1, a)
#define LOG(a) ag__b1(c, AG_OP_log, a)
#define LOG1P(a) ag__b1(c, AG_OP_log1p, a)
#define SIN(a) ag__b1(c, AG_OP_sin, a)
#define COS(a) ag__b1(c, AG_OP_cos, a)
#define SINH(a) ag__b1(c, AG_OP_sinh, a)
#define COSH(a) ag__b1(c, AG_OP_cosh, a)
#define TANH(a) ag__b1(c, AG_OP_tanh, a)
#define ERF(a) ag__b1(c, AG_OP_erf, a)
#define DIGAMMA(a) ag__b1(c, AG_OP_digamma, a)
#define ERFCX(a) ag__b1(c, AG_OP_erfcx, a)
#define NDTR(a) ag__b1(c, AG_OP_ndtr, a)
#define I0(a) ag__b1(c, AG_OP_i0, a)
#define I1(a) ag__b1(c, AG_OP_i1, a)
#define I0E(a) ag__b1(c, AG_OP_i0e, a)
#define I1E(a) ag__b1(c, AG_OP_i1e, a)
#define TRIGAMMA(a) polygamma(c, a, 1)
#define POLYGAMMA_D(a, n) polygamma(c, a, c->p.f[0] + 1)
#define XLOGY(a, b) ag__b2(c, AG_OP_xlogy, a, b)
#define XLOG1PY(a, b) ag__b2(c, AG_OP_xlog1py, a, b)
#define ZETA(a, b) ag__b2(c, AG_OP_zeta, a, b)
#define SIGMOID(a) ag__b1(c, AG_OP_sigmoid, a)
#define FLOOR(a) ag__b1(c, AG_OP_floor, a)
#define TRUNC(a) ag__b1(c, AG_OP_trunc, a)
#define EQ(a, b) ag__b2(c, AG_OP_eq, a, b)
#define NE(a, b) ag__b2(c, AG_OP_ne, a, b)
#define LT(a, b) ag__b2(c, AG_OP_lt, a, b)
#define LE(a, b) ag__b2(c, AG_OP_le, a, b)
#define GT(a, b) ag__b2(c, AG_OP_gt, a, b)
#define GE(a, b) ag__b2(c, AG_OP_ge, a, b)
#define AND(a, b) ag__b2(c, AG_OP_logical_and, a, b)
#define OR(a, b) ag__b2(c, AG_OP_logical_or, a, b)
#define NOT(a) ag__b1(c, AG_OP_logical_not, a)
#define SEL(m, a, b) ag__b3(c, AG_OP_where, m, a, b)
/* The exponent of pow_scalar is a number of the node, not a tensor. */
#define POWS_D(a, p) power_less_one(c, a)
#define NOGRAD no_rule(c)

static ag_tensor *power_less_one(ag_vjp *c, ag_tensor *x) {
  if (!x) return NULL;
  ag_params p = {.ni = 0, .nf = 1};
  p.f[0] = c->p.f[0] - 1;
  if (c->p.f[0] == 0) return ag__bzeros(c, x->arr->dtype, x->arr->ndim, ag__shape(x->arr));
  return ag__b(c, AG_OP_pow_scalar, 1, &x, &p);
}

static ag_tensor *polygamma(ag_vjp *c, ag_tensor *x, double n) {
  ag_params p = {.ni = 0, .nf = 1};
  p.f[0] = n;
  return x ? ag__b(c, AG_OP_polygamma, 1, &x, &p) : NULL;
}

/* An operand for which there is no formula, in a row that has one for another operand. */
static ag_tensor *no_rule(ag_vjp *c) {
  c->status = ag__fail(AG_ERR_NOT_IMPLEMENTED, "the derivative for '%s' is not implemented.", c->row->name);
  return NULL;
}

/* A constant derivative has no shape of its own. */
static void give(ag_vjp *c, int i, ag_tensor *r) {
  const ag_meta *m = &c->node->out[0];
  if (r && r->arr->ndim == 0 && m->ndim > 0) r = ag__bshape(c, AG_OP_expand, r, m->ndim, m->shape);
  if (!c->status) ag__give(c, i, r);
}

#define x0 ag__vx(c, 0)
#define x1 ag__vx(c, 1)
#define x2 ag__vx(c, 2)
#define y ag__vy(c, 0)
#define EW1(name, Grad, types, flags, lo, hi, kernel, D0) \
  int ag__vjp_##name(ag_vjp *c) {                         \
    ag_tensor *g = c->g[0];                               \
    (void)g;                                              \
    if (c->need[0]) give(c, 0, D0);                       \
    return c->status;                                     \
  }
#define EW2(name, Grad, types, flags, lo, hi, kernel, D0, D1) \
  int ag__vjp_##name(ag_vjp *c) {                             \
    ag_tensor *g = c->g[0];                                   \
    (void)g;                                                  \
    if (c->need[0]) give(c, 0, D0);                           \
    if (c->need[1]) give(c, 1, D1);                           \
    return c->status;                                         \
  }
#define EW3(name, Grad, types, flags, lo, hi, kernel, D0, D1, D2) \
  int ag__vjp_##name(ag_vjp *c) {                                 \
    ag_tensor *g = c->g[0];                                       \
    (void)g;                                                      \
    if (c->need[0]) give(c, 0, D0);                               \
    if (c->need[1]) give(c, 1, D1);                               \
    if (c->need[2]) give(c, 2, D2);                               \
    return c->status;                                             \
  }
#define SEL3(name, Grad, types, flags, lo, hi, kernel, D1, D2) \
  int ag__vjp_##name(ag_vjp *c) {                              \
    ag_tensor *g = c->g[0];                                    \
    if (c->need[1]) give(c, 1, D1);                            \
    if (c->need[2]) give(c, 2, D2);                            \
    return c->status;                                          \
  }
#include "ops/ag_ops.inc"
#undef x0
#undef x1
#undef x2
#undef y

/* ---- running a rule ---- */

/* g may be overwritten: nobody else holds it, its array or its memory. */
static bool spent(ag_tensor *g) {
  return ag__ref_sole(&g->refs) && ag__ref_sole(&g->arr->refs) && ag__ref_sole(&g->arr->st->refs) && !g->arr->st->free_fn &&
         !g->acc && !g->fn;
}

/* One fused kernel per input: what eager backward without create_graph does.  Same expression, same order, so
 * the same bits as the ops above.  The last derivative may take the memory of the gradient it is made from. */
static int fused(ag_node *n, const ag_row *row, ag_tensor *gr, const bool *need, ag_tensor **dx) {
  const ag_array *x[3] = {NULL, NULL, NULL}, *y = NULL, *ga = gr->arr;
  uint8_t want = 0;
  int last = -1;
  for (uint32_t k = 0; k < n->n_in; k++)
    if (need[k]) {
      last = (int)k;
      if (!row->pass_through[k]) want |= row->needs[k];
    }
  bool plain = ga->contiguous && ag__same_shape(ga->ndim, ag__shape(ga), n->out[0].ndim, n->out[0].shape);
  for (uint32_t k = 0; k < n->n_saved; k++) {
    const ag_saved *s = &n->saved[k];
    if (!(want >> (s->which < 0 ? 3 : s->which) & 1)) continue;
    int st = ag__saved_check(n, k);
    if (st) return st;
    *(s->which < 0 ? &y : &x[s->which]) = s->arr;
    plain &= s->arr->contiguous && s->arr->numel == ga->numel;
  }
  plain &= ga->numel < 4096;
  for (uint32_t k = 0; k < n->n_in; k++) {
    if (!need[k]) continue;
    bool reuse = (int)k == last && plain && spent(gr);
    if (row->pass_through[k] || reuse) {
      ag_tensor_retain(gr);
      dx[k] = gr;
      if (!reuse || row->pass_through[k]) continue;
    }
    ag_k_ewd *fn = ag__k->ew[row->op].bwd[k][ga->dtype];
    uint8_t needs = row->needs[k];
    if (AG_LIKELY(plain)) {
      ag_array *out = reuse ? gr->arr : ag__array_like(ga);
      if (AG_UNLIKELY(!out)) return AG_ERR_MEMORY;
      fn(ga->numel, ag__data(out), ag__data(ga), needs & 1 ? ag__data(x[0]) : NULL, needs & 2 ? ag__data(x[1]) : NULL,
         needs & 4 ? ag__data(x[2]) : NULL, needs & 8 ? ag__data(y) : NULL, n->pf);
      if (!reuse) dx[k] = ag__tensor_wrap(out);
    } else {
      ag_raw g = ag__raw(ga), none = {0}, xs[3], ys = needs & 8 ? ag__raw(y) : none;
      for (int i = 0; i < 3; i++) xs[i] = needs >> i & 1 ? ag__raw(x[i]) : none;
      ag_array *out = ag__array_new(ga->dtype, n->out[0].ndim, n->out[0].shape);
      if (!out) return ag_last_status();
      ag_raw o = ag__raw(out);
      int st = ag__exec_ewd(fn, &g, xs, &ys, &o, n->pf, row->cost[1 + k]);
      if (st) {
        ag__array_release(out);
        return st;
      }
      dx[k] = ag__tensor_wrap(out);
    }
    if (AG_UNLIKELY(!dx[k])) return AG_ERR_MEMORY;
  }
  return AG_OK;
}

static bool has_fused(const ag_node *n, const ag_row *row, const ag_tensor *g, const bool *need) {
  if (!ag__row_elementwise(row) || !g) return false;
  for (uint32_t k = 0; k < n->n_in; k++)
    if (need[k] && !row->pass_through[k] && !ag__k->ew[row->op].bwd[k][g->arr->dtype]) return false;
  return true;
}

/* Where PyTorch's backward is a function of the operands whose derivative in them is zero (OF_TIED: relu's depends on its
 * operand by a condition alone), gradients get edges to the operands beside their own: a node of the row tied, without
 * anything computed or held.  The engine passes the zeros on without arithmetic.  A convolution's bias has no part in its
 * backward. */
static bool tie_to(const ag_vjp *c, uint32_t k) {
  if (!c->node->in[k].node || (k > 1 && c->row->op == AG_OP_convolution)) return false;
  return ag__is_float(ag__vmeta(c, (int)k)->dtype);
}

static int tie(ag_vjp *c) {
  ag_node *n = c->node;
  uint32_t ties = 0;
  for (uint32_t k = 0; k < n->n_in; k++) ties += tie_to(c, k);
  for (uint32_t k = 0; k < n->n_in && ties; k++) {
    ag_tensor *d = c->dx[k];
    if (!d || !ag__is_float(d->arr->dtype)) continue;
    ag_node *node = ag__node_new(AG_OP_tied, 1 + ties, 1, 0, NULL, &d->arr);
    if (!node) return AG_ERR_MEMORY;
    if (ag__requires_grad(d) && ag__tensor_edge(d, &node->in[0])) {
      ag_node_release(node);
      return ag_last_status();
    }
    ag_edge *e = node->in + 1;
    for (uint32_t j = 0; j < n->n_in; j++)
      if (tie_to(c, j)) *e++ = (ag_edge){ag__node_retain(n->in[j].node), n->in[j].nr};
    ag__node_number(node);
    ag_tensor *t = ag__tensor_wrap(ag__array_retain(d->arr));
    if (!t) {
      ag_node_release(node);
      return AG_ERR_MEMORY;
    }
    t->fn = node;
    c->dx[k] = t;
    ag_tensor_release(d);
  }
  return AG_OK;
}

/* The operand's gradient is the result's, that in the operands a gradient was tied to is zero. */
int ag__vjp_tied(ag_vjp *c) {
  if (c->need[0]) ag__give(c, 0, c->g[0]);
  for (uint32_t k = 1; k < c->node->n_in && !c->status; k++) {
    if (!c->need[k]) continue;
    const ag_meta *m = ag__vmeta(c, (int)k);
    ag__give(c, (int)k, ag__bshape(c, AG_OP_expand, ag__bnum(c, 0, m->dtype), m->ndim, m->shape));
  }
  return c->status;
}

int ag__run_vjp(ag_node *n, ag_tensor *const *g, const bool *need, ag_tensor **dx) {
  const ag_row *row = &ag__rows[n->op];
  if (!row->vjp) return ag__fail(AG_ERR_NOT_IMPLEMENTED, "%s has no derivative", row->name);
  if (n->released && n->n_saved) return ag__saved_check(n, 0);
  ag_site here = ag__site_swap(n->site);
  int st;
  if (!ag__grad_on() && !ag__recording() && has_fused(n, row, g[0], need)) {
    st = fused(n, row, g[0], need, dx);
  } else {
    ag_vjp c;
    c.node = n;
    c.row = row;
    ag__node_params(n, &c.p);
    c.g = g;
    c.need = need;
    c.dx = dx;
    c.n_temps = 0;
    c.status = AG_OK;
    st = row->vjp(&c);
    if (!st) st = c.status;
    if (!st && ag__grad_on() && row->flags & OF_TIED && (n->op != AG_OP_tied || n->n_in == 1)) st = tie(&c);
    for (int k = 0; k < c.n_temps; k++) ag_tensor_release(c.temps[k]);
  }
  ag__site_swap(here);
  if (st)
    for (uint32_t k = 0; k < n->n_in; k++)
      if (dx[k]) {
        ag_tensor_release(dx[k]);
        dx[k] = NULL;
      }
  return st;
}
