/* fn_ctc.c: connectionist temporal classification (Graves et al., 2006); the sums over states are in kernels/ctc.inc.
 *
 * The gradient is PyTorch's: e^lp - (share of the ways through class c at t).  The first term is no part of the derivative of
 * the loss in log-probabilities, but vanishes behind log_softmax; with it the sum over the classes is zero.  Forward and
 * backward keep nothing for each other: the backward pass computes alpha anew, so that it is a function of lp, and its
 * derivative in lp is a row of its own, ctc_loss_hessian. */
#include "ops/fn_util.h"

#include <math.h>

enum { LP, TARGETS, TIMES, LABELS, N_IN }; /* operands from `first` on */

static int check(ag_infer *c, int first) {
  int st = ag__need(c, first + N_IN, 2, 0);
  if (st) return st;
  const ag_array *lp = c->in[first];
  if (!ag__is_float(lp->dtype))
    return ag__fail(AG_ERR_NOT_IMPLEMENTED, "\"%s\" not implemented for '%s'", c->row->name, ag__scalar_name(lp->dtype));
  if (lp->ndim != 3)
    return ag__fail(AG_ERR_RUNTIME, "Expected 3-dimensional tensor, but got %d-dimensional tensor for argument #1 'log_probs' (while "
                    "checking arguments for ctc_loss)", lp->ndim);
  if (lp->numel == 0) return ag__fail(AG_ERR_RUNTIME, "log_probs tensor must not be empty");
  const int64_t *shape = ag__shape(lp);
  for (int k = TARGETS; k < N_IN; k++)
    if (c->in[first + k]->dtype != AG_INT64)
      return ag__fail(AG_ERR_RUNTIME, "%s(): labels and lengths must be int64, but got %s", c->row->name, ag_dtype_name(c->in[first + k]->dtype));
  const ag_array *targets = c->in[first + TARGETS];
  if (targets->ndim != 1 && (targets->ndim != 2 || ag__shape(targets)[0] != shape[1])) {
    char a[160];
    return ag__fail(AG_ERR_RUNTIME, "ctc_loss(): targets must be in a row or of shape (%lld, labels), but got %s", (long long)shape[1],
                    ag__shape_text(targets->ndim, ag__shape(targets), a, sizeof a));
  }
  const char *name[2] = {"input_lengths", "target_lengths"};
  for (int k = 0; k < 2; k++)
    if (c->in[first + TIMES + k]->ndim != 1 || c->in[first + TIMES + k]->numel != shape[1])
      return ag__fail(AG_ERR_RUNTIME, "%s must be of size batch_size", name[k]);
  if (c->p->i[0] < 0 || c->p->i[0] >= shape[2]) return ag__fail(AG_ERR_RUNTIME, "blank must be in label range");
  return AG_OK;
}

int ag__infer_ctc_loss(ag_infer *c) {
  int st = check(c, 0);
  if (!st) ag__set_out(c, 0, c->in[0]->dtype, 1, ag__shape(c->in[0]) + 1);
  return st;
}

static int infer_like_lp(ag_infer *c, bool g_like_lp) {
  int st = check(c, 1);
  if (st) return st;
  const ag_array *g = c->in[0], *lp = c->in[1];
  if (g->dtype != lp->dtype || !(g_like_lp ? ag__same_shape(g->ndim, ag__shape(g), 3, ag__shape(lp))
                                            : ag__same_shape(g->ndim, ag__shape(g), 1, ag__shape(lp) + 1)))
    return ag__fail(AG_ERR_RUNTIME, "%s(): the first operand has not the type and shape it must have", c->row->name);
  ag__set_out(c, 0, lp->dtype, 3, ag__shape(lp));
  return AG_OK;
}
int ag__infer_ctc_loss_backward(ag_infer *c) { return infer_like_lp(c, false); }
int ag__infer_ctc_loss_hessian(ag_infer *c) { return infer_like_lp(c, true); }

/* ---- a call: operands made contiguous and looked through ---- */

typedef struct call {
  ag_temp temp[N_IN];
  const char *lp;
  const int64_t *targets, *times, *labels;
  int64_t t, n, c, blank, most, start; /* sizes of lp; the most labels a sample has; where the next sample's begin */
  int64_t row;                         /* room for labels of each sample; -1: they lie in a row */
  int dtype;
  bool zero_infinity;
  size_t size; /* bytes of an element of lp */
  ag_temp label, work;
} call;

static void close_call(call *k) {
  for (int i = 0; i < N_IN; i++) ag__temp_free(&k->temp[i]);
  ag__temp_free(&k->label);
  ag__temp_free(&k->work);
}

static int length_out_of_range(const char *what, const char *bound, int64_t limit, int64_t got) {
  return ag__fail(AG_ERR_RUNTIME, "Expected %s to have value at %s %lld, but got value %lld (while checking arguments for ctc_loss)",
                  what, bound, (long long)limit, (long long)got);
}

static int open_call(call *k, const ag_exec *x, int first) {
  const ag_raw *in = x->in + first;
  const char *d[N_IN];
  memset(k, 0, sizeof *k);
  for (int i = 0; i < N_IN; i++)
    if (!(d[i] = ag__contig(&in[i], &k->temp[i]))) return AG_ERR_MEMORY;
  k->lp = d[LP];
  k->targets = (const int64_t *)(const void *)d[TARGETS];
  k->times = (const int64_t *)(const void *)d[TIMES];
  k->labels = (const int64_t *)(const void *)d[LABELS];
  k->t = in[LP].shape[0];
  k->n = in[LP].shape[1];
  k->c = in[LP].shape[2];
  k->dtype = in[LP].dtype;
  k->blank = x->p->i[0];
  k->zero_infinity = x->p->i[1] != 0;
  k->row = in[TARGETS].ndim == 2 ? in[TARGETS].shape[1] : -1;
  k->size = (size_t)ag__dtype_size(k->dtype);
  int64_t all = 0;
  for (int64_t i = 0; i < k->n; i++) {
    int64_t times = k->times[i], labels = k->labels[i];
    if (times < 0) return length_out_of_range("input_lengths", "least", 0, times);
    if (times > k->t) return length_out_of_range("input_lengths", "most", k->t, times);
    if (labels < 0) return length_out_of_range("target_lengths", "least", 0, labels);
    int64_t limit = k->row >= 0 ? k->row : in[TARGETS].numel - all;
    if (labels > limit)
      return ag__fail(AG_ERR_RUNTIME, "Expected tensor to have size at least %lld at dimension %d, but got size %lld for argument #2 "
                      "'targets' (while checking arguments for ctc_loss)", (long long)(k->row >= 0 ? labels : all + labels),
                      in[TARGETS].ndim - 1, (long long)(k->row >= 0 ? k->row : in[TARGETS].numel));
    const int64_t *l = k->targets + (k->row >= 0 ? i * k->row : all);
    for (int64_t j = 0; j < labels; j++)
      if (l[j] < 0 || l[j] >= k->c)
        return ag__fail(AG_ERR_INDEX, "ctc_loss(): label %lld is out of range for %lld classes", (long long)l[j], (long long)k->c);
    if (labels > k->most) k->most = labels;
    all += labels;
  }
  if (k->row < 0 && all != in[TARGETS].numel)
    return ag__fail(AG_ERR_RUNTIME, "Expected tensor to have size %lld at dimension 0, but got size %lld for argument #2 'targets' (while "
                    "checking arguments for ctc_loss)", (long long)all, (long long)in[TARGETS].numel);
  return ag__temp(&k->label, (size_t)(2 * k->most + 1) * sizeof(int32_t)) ? AG_OK : AG_ERR_MEMORY;
}

/* Samples in order: the states of sample i. */
static ag_k_ctcseq sequence(call *k, int64_t i) {
  const int64_t *l = k->targets + (k->row >= 0 ? i * k->row : k->start);
  int32_t *label = k->label.data;
  int64_t n = 2 * k->labels[i] + 1;
  for (int64_t s = 0; s < n; s++) label[s] = (int32_t)(s & 1 ? l[s / 2] : k->blank);
  k->start += k->labels[i];
  return (ag_k_ctcseq){.times = k->times[i], .stride = k->n * k->c, .classes = k->c, .n = n, .label = label};
}

static double at(const void *p, int dtype, int64_t i) {
  return dtype == AG_FLOAT32 ? (double)((const float *)p)[i] : ((const double *)p)[i];
}
static void put(void *p, int dtype, int64_t i, double v) {
  if (dtype == AG_FLOAT32) ((float *)p)[i] = (float)v;
  else ((double *)p)[i] = v;
}

int ag__exec_ctc_loss(const ag_exec *x) {
  call k;
  int st = open_call(&k, x, 0);
  if (!st && !ag__temp(&k.work, (size_t)(2 * k.most + 5) * 4 * k.size)) st = AG_ERR_MEMORY;
  if (!st) {
    void *token = ag__long_begin(k.t * k.n * (2 * k.most + 1) * 32, AG_LONG_MATH);
    for (int64_t i = 0; i < k.n; i++) {
      ag_k_ctcseq q = sequence(&k, i);
      double loss = ag__k->ctc_loss[k.dtype](&q, k.lp + (size_t)(i * k.c) * k.size, k.work.data);
      put(x->out[0].data, k.dtype, i, k.zero_infinity && loss == HUGE_VAL ? 0 : loss);
    }
    ag__blocking_end(token);
  }
  close_call(&k);
  return st;
}

int ag__exec_ctc_loss_backward(const ag_exec *x) {
  call k;
  const ag_raw *g = &x->in[0];
  int st = open_call(&k, x, 1);
  memset(x->out[0].data, 0, (size_t)x->out[0].numel * ag__dtype_size(x->out[0].dtype));
  if (!st && !ag__temp(&k.work, (size_t)(2 * k.most + 5) * (size_t)(k.t + 5) * k.size)) st = AG_ERR_MEMORY;
  if (!st) {
    void *token = ag__long_begin(k.t * k.n * (2 * k.most + 1) * 64, AG_LONG_MATH);
    for (int64_t i = 0; i < k.n; i++) {
      ag_k_ctcseq q = sequence(&k, i);
      size_t sample = (size_t)(i * k.c) * k.size;
      ag__k->ctc_grad[k.dtype](&q, x->out[0].data + sample, k.lp + sample, at(g->data, k.dtype, i * g->strides[0]), k.zero_infinity,
                               k.work.data);
    }
    ag__blocking_end(token);
  }
  close_call(&k);
  return st;
}

/* ---- the derivative of the gradient along u ----
 *
 * With tangents da, db of alpha and beta along u: da_t(s) = u_t(s) + the mean of da_{t-1} over the ways into s, db
 * likewise onward, dloss = minus the mean of da at the end; a share e^(alpha + beta + loss) changes by itself times
 * (da + db + dloss).  Numbers of either type are taken as doubles. */

typedef struct tangent {
  const ag_k_ctcseq *q;
  const char *lp, *u;
  int dtype;
} tangent;

/* Place s of row o from the places s, s + step, s + 2 step of row a; da, where there is no way, is 0. */
static double spread(const ag_k_ctcseq *q, const double *a, const double *da, int64_t s, int step, double *mean) {
  double v[3], m = -HUGE_VAL, sum = 0;
  int64_t to = s + 2 * step, late = step > 0 ? to : s;
  bool skips = late >= 3 && late < q->n && (late & 1) && q->label[late] != q->label[late - 2];
  int ways = skips ? 3 : s + step >= 0 && s + step < q->n ? 2 : 1;
  for (int k = 0; k < ways; k++)
    if ((v[k] = a[s + k * step]) > m) m = v[k];
  *mean = 0;
  if (m == -HUGE_VAL) return m;
  for (int k = 0; k < ways; k++) {
    double e = exp(v[k] - m);
    sum += e;
    *mean += e * da[s + k * step];
  }
  *mean /= sum;
  return m + log(sum);
}

static void hessian(const tangent *h, char *out, bool zero_infinity, double *work) {
  const ag_k_ctcseq *q = h->q;
  int64_t n = q->n;
  double *a = work, *da = a + q->times * n, *b = da + q->times * n, *db = b + 2 * n, dloss = 0, loss;
  double end[2] = {-HUGE_VAL, -HUGE_VAL}, *dend, *last;
  if (q->times == 0) return;
  for (int64_t t = 0; t < q->times; t++)
    for (int64_t s = 0; s < n; s++) {
      double *r = a + t * n + s, *d = da + t * n + s;
      int64_t i = t * q->stride + q->label[s];
      if (t == 0) {
        *r = s < 2 ? 0 : -HUGE_VAL;
        *d = 0;
      } else {
        *r = spread(q, a + (t - 1) * n, da + (t - 1) * n, s, -1, d);
      }
      *r += at(h->lp, h->dtype, i);
      *d += at(h->u, h->dtype, i);
    }
  last = a + q->times * n - 1;
  dend = da + q->times * n - 1;
  end[0] = last[0];
  if (n > 1) end[1] = last[-1];
  double m = end[0] > end[1] ? end[0] : end[1];
  bool none = m == -HUGE_VAL;
  if (none && zero_infinity) return;
  double e0 = exp(end[0] - m), e1 = exp(end[1] - m);
  loss = -(m + log(e0 + e1));
  dloss = -(e0 * dend[0] + (n > 1 ? e1 * dend[-1] : 0)) / (e0 + e1);
  for (int64_t t = q->times - 1; t >= 0; t--) {
    double *now = b + (t & 1) * n, *dnow = db + (t & 1) * n, *next = b + (~t & 1) * n, *dnext = db + (~t & 1) * n;
    for (int64_t c = 0; c < q->classes; c++) {
      int64_t i = t * q->stride + c;
      put(out, h->dtype, i, none ? (double)NAN : exp(at(h->lp, h->dtype, i)) * at(h->u, h->dtype, i));
    }
    for (int64_t s = 0; s < n && !none; s++) {
      int64_t i = t * q->stride + q->label[s];
      double beta = s >= n - 2 ? 0 : -HUGE_VAL, d = 0;
      if (t < q->times - 1) beta = spread(q, next, dnext, s, 1, &d);
      double share = exp(a[t * n + s] + beta + loss);
      if (share > 0) put(out, h->dtype, i, at(out, h->dtype, i) - share * (da[t * n + s] + d + dloss));
      now[s] = beta + at(h->lp, h->dtype, i);
      dnow[s] = d + at(h->u, h->dtype, i);
    }
  }
}

int ag__exec_ctc_loss_hessian(const ag_exec *x) {
  call k;
  ag_temp tu = {NULL, 0};
  int st = open_call(&k, x, 1);
  const char *u = st ? NULL : ag__contig(&x->in[0], &tu);
  memset(x->out[0].data, 0, (size_t)x->out[0].numel * ag__dtype_size(x->out[0].dtype));
  if (!st && (!u || !ag__temp(&k.work, (size_t)(2 * k.most + 1) * (size_t)(2 * k.t + 4) * sizeof(double)))) st = AG_ERR_MEMORY;
  if (!st) {
    void *token = ag__long_begin(k.t * k.n * (2 * k.most + 1) * 64, AG_LONG_MATH);
    for (int64_t i = 0; i < k.n; i++) {
      ag_k_ctcseq q = sequence(&k, i);
      size_t sample = (size_t)(i * k.c) * k.size;
      tangent h = {&q, k.lp + sample, u + sample, k.dtype};
      hessian(&h, x->out[0].data + sample, k.zero_infinity, k.work.data);
    }
    ag__blocking_end(token);
  }
  ag__temp_free(&tu);
  close_call(&k);
  return st;
}

/* ---- derivatives ---- */

/* op of `first` and the node's saved operands from `from` on */
static ag_tensor *again(ag_vjp *c, int op, ag_tensor *first, int from) {
  ag_tensor *in[1 + N_IN] = {first};
  for (int k = 0; k < N_IN; k++) in[1 + k] = ag__vx(c, from + k);
  return ag__b(c, op, 1 + N_IN, in, &c->p);
}

int ag__vjp_ctc_loss(ag_vjp *c) {
  if (!c->need[0] || !c->g[0]) return c->status;
  return ag__give(c, 0, again(c, AG_OP_ctc_loss_backward, c->g[0], 0));
}

/* g (N) times f(lp) (T, N, C): in g the sum of u f, in lp g times the derivative of f along u, which is symmetric. */
int ag__vjp_ctc_loss_backward(ag_vjp *c) {
  ag_tensor *u = c->g[0], *g = ag__vx(c, 0);
  if (!u || !g) return c->status;
  if (c->need[0]) {
    ag_tensor *one = ag__bints(c, AG_OP_expand, ag__bnum(c, 1, g->arr->dtype), 1, ag__shape(g->arr));
    ag_tensor *f = again(c, AG_OP_ctc_loss_backward, one, 1);
    ag__give(c, 0, ag__bi(c, AG_OP_sum, ag__b2(c, AG_OP_mul, u, f), 3, INT64_C(0), INT64_C(0), INT64_C(2)));
  }
  if (c->need[1] && !c->status)
    ag__give(c, 1, ag__b2(c, AG_OP_mul, again(c, AG_OP_ctc_loss_hessian, u, 1), ag__bi(c, AG_OP_unsqueeze, g, 1, INT64_C(-1))));
  return c->status;
}

int ag__vjp_ctc_loss_hessian(ag_vjp *c) {
  if (c->need[1])
    return c->status = ag__fail(AG_ERR_NOT_IMPLEMENTED, "the third derivative of ctc_loss in its log-probabilities is not implemented");
  if (!c->need[0] || !c->g[0]) return c->status;
  return ag__give(c, 0, again(c, AG_OP_ctc_loss_hessian, c->g[0], 1));
}
