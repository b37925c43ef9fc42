/* A two-layer net learns the sine, in C alone: first dynamically, where every step builds a graph and walks it
 * backward; then the same step is recorded once and replayed.  Both must end with the same bits.
 *
 * Errors: what makes a tensor returns NULL on failure, everything else a negative code; ag_last_error() is the text of
 * this thread's latest failure.  So a chain of calls stops at the first NULL and is looked at where it ends. */
#include "autograd_c.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { POINTS = 64, HIDDEN = 24, STEPS = 500, PARAMS = 4 };

typedef struct net {
  ag_tensor *p[PARAMS];        /* w1 (1, HIDDEN), b1 (HIDDEN), w2 (HIDDEN, 1), b2 (1) */
  ag_tensor *momentum[PARAMS]; /* the optimizer's state */
  ag_tensor *lr;
} net;

static int failed(const char *where) {
  fprintf(stderr, "%s: %s\n", where, ag_last_error());
  return 1;
}

/* ---- the net ---- */

static int net_init(net *n, uint64_t seed) {
  static const int64_t shape[PARAMS][2] = {{1, HIDDEN}, {HIDDEN, 0}, {HIDDEN, 1}, {1, 0}};
  ag_params bounds = {.nf = 2, .f = {-1, 1}};
  memset(n, 0, sizeof *n);
  if (ag_manual_seed(seed)) return AG_ERR_RUNTIME;
  n->lr = ag_scalar(0.05, AG_FLOAT32);
  for (int k = 0; k < PARAMS; k++) {
    int ndim = shape[k][1] ? 2 : 1;
    n->p[k] = ag_full(ndim, shape[k], AG_FLOAT32, 0);
    n->momentum[k] = ag_full(ndim, shape[k], AG_FLOAT32, 0);
    if (!n->p[k] || !n->momentum[k] || !n->lr) return AG_ERR_MEMORY;
    ag_tensor *fill[2] = {n->p[k], ag_default_generator()};
    int st = ag_apply_inplace(AG_OP_uniform, 2, fill, &bounds);
    if (!st) st = ag_tensor_set_requires_grad(n->p[k], 1);
    if (st) return st;
  }
  return AG_OK;
}

static void net_free(net *n) {
  for (int k = 0; k < PARAMS; k++) {
    ag_tensor_release(n->p[k]);
    ag_tensor_release(n->momentum[k]);
  }
  ag_tensor_release(n->lr);
}

/* bias + a @ b; a new tensor. */
static ag_tensor *addmm(ag_tensor *bias, ag_tensor *a, ag_tensor *b) {
  ag_tensor *const in[3] = {bias, a, b};
  return ag_calln(AG_OP_addmm, 3, in, 0, NULL, 0, NULL, 0, 0);
}

/* One step: forward, backward, update.  The loss (new), or NULL. */
static ag_tensor *step(net *n, ag_tensor *x, ag_tensor *t) {
  for (int k = 0; k < PARAMS; k++) ag_tensor_set_grad(n->p[k], NULL);
  ag_tensor *a = addmm(n->p[1], x, n->p[0]);
  ag_tensor *h = a ? ag_tanh(a) : NULL;
  ag_tensor *o = h ? addmm(n->p[3], h, n->p[2]) : NULL;
  ag_tensor *e = o ? ag_sub(o, t) : NULL;
  ag_tensor *q = e ? ag_square(e) : NULL;
  ag_tensor *loss = q ? ag_mean(q) : NULL;
  int st = loss ? ag_backward(1, &loss, NULL, 0, 0, 0, NULL) : ag_last_status();
  if (!st) st = ag_sgd_step(PARAMS, n->p, n->momentum, n->lr, 0.9, 0, 0, 0, 0);
  ag_tensor *made[] = {a, h, o, e, q}; /* the graph keeps what it needs; our references can go */
  for (int k = 0; k < 5; k++) ag_tensor_release(made[k]);
  if (st) {
    ag_tensor_release(loss);
    loss = NULL;
  }
  return loss;
}

/* ---- two ways to train it ---- */

static int train_dynamic(net *n, ag_tensor *x, ag_tensor *t, double *last) {
  for (int s = 0; s < STEPS; s++) {
    ag_tensor *loss = step(n, x, t);
    if (!loss || ag_tensor_item(loss, last)) return failed("step");
    ag_tensor_release(loss);
  }
  return 0;
}

static int train_frozen(net *n, ag_tensor *x, ag_tensor *t, double *last) {
  ag_tensor *inputs[2] = {x, t};
  ag_trace *trace = ag_trace_begin(2, inputs); /* from here every operation is run and recorded */
  if (!trace) return failed("trace");
  ag_tensor *loss = step(n, x, t);
  if (!loss) {
    ag_trace_abort(trace);
    return failed("step");
  }
  ag_plan *plan = ag_trace_end(trace, 1, &loss, 0);
  ag_tensor_release(loss);
  if (!plan) return failed("freeze");
  int bad = 0;
  for (int s = 1; s < STEPS && !bad; s++) {
    if (ag_plan_run(plan, 2, inputs, &loss) || ag_tensor_item(loss, last)) bad = failed("replay");
    else ag_tensor_release(loss);
  }
  ag_plan_info info;
  ag_plan_get_info(plan, &info);
  printf("plan: %lld operations traced, %lld steps a run, arena of %lld bytes\n", (long long)info.traced,
         (long long)info.kernels_per_run, (long long)info.arena_bytes);
  ag_plan_release(plan);
  return bad;
}

int main(void) {
  float xs[POINTS], ts[POINTS];
  for (int k = 0; k < POINTS; k++) {
    xs[k] = (float)(-3 + 6.0 * k / (POINTS - 1));
    ts[k] = sinf(xs[k]);
  }
  const int64_t shape[2] = {POINTS, 1};
  ag_tensor *x = ag_from_data(2, shape, AG_FLOAT32, xs), *t = ag_from_data(2, shape, AG_FLOAT32, ts);
  net dynamic, frozen;
  double loss[2] = {0, 0};
  ag_counters c[3];
  if (!x || !t || net_init(&dynamic, 1) || net_init(&frozen, 1)) return failed("init");

  ag_counters_get(&c[0]);
  if (train_dynamic(&dynamic, x, t, &loss[0])) return 1;
  ag_counters_get(&c[1]);
  if (train_frozen(&frozen, x, t, &loss[1])) return 1;
  ag_counters_get(&c[2]);

  int same = loss[0] == loss[1];
  for (int k = 0; k < PARAMS; k++) {
    float a[HIDDEN], b[HIDDEN];
    size_t n = sizeof(float) * (size_t)ag_tensor_numel(dynamic.p[k]);
    if (ag_tensor_read(dynamic.p[k], a) || ag_tensor_read(frozen.p[k], b)) return failed("read");
    same = same && memcmp(a, b, n) == 0;
  }
  printf("dynamic: %lld graphs, loss %.6f\n", (long long)(c[1].graphs_built - c[0].graphs_built), loss[0]);
  printf("frozen:  %lld graph,  loss %.6f, %lld replays\n", (long long)(c[2].graphs_built - c[1].graphs_built), loss[1],
         (long long)(c[2].replays - c[1].replays));
  printf("parameters and loss: %s\n", same ? "equal bits" : "DIFFERENT");

  net_free(&dynamic);
  net_free(&frozen);
  ag_tensor_release(x);
  ag_tensor_release(t);
  ag_counters_get(&c[0]);
  printf("left alive: %lld nodes\n", (long long)c[0].nodes);
  return same ? 0 : 1;
}
