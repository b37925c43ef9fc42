/* test_embed.c: what a C program does with autograd_c.h alone: the articles' graph, a training loop, errors,
 * writes in place; at the end every counter is back at zero. */
#include "autograd_c.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static int failures;

#define CHECK(cond, ...)                                   \
  do {                                                     \
    if (!(cond)) {                                         \
      failures++;                                          \
      printf("%s:%d: %s: ", __FILE__, __LINE__, #cond);    \
      printf(__VA_ARGS__);                                 \
      printf(" [%s]\n", ag_last_error());                  \
    }                                                      \
  } while (0)

static ag_tensor *vec(int64_t n, const float *v) { return ag_from_data(1, &n, AG_FLOAT32, v); }

static double item(ag_tensor *t) {
  double v = NAN;
  CHECK(t && ag_tensor_item(t, &v) == AG_OK, "item");
  return v;
}

/* y = (x + w) * (w + 1): dy/dw = x + 2w + 1 = 5, dy/dx = w + 1 = 2 at w = 1, x = 2. */
static void article(void) {
  ag_tensor *w = vec(1, (float[]){1}), *x = vec(1, (float[]){2}), *one = ag_scalar(1, AG_FLOAT32);
  CHECK(ag_tensor_set_requires_grad(w, 1) == AG_OK, "w");
  CHECK(ag_tensor_set_requires_grad(x, 1) == AG_OK, "x");
  ag_tensor *a = ag_add(w, x), *b = ag_add(w, one), *y = ag_mul(a, b);
  CHECK(ag_tensor_retain_grad(a) == AG_OK, "retain_grad");
  CHECK(item(y) == 6, "y = %g", item(y));
  ag_node *fn = ag_tensor_grad_fn(y);
  CHECK(fn && strcmp(ag_node_name(fn), "MulBackward0") == 0, "name");
  int nr;
  ag_node *next = ag_node_next(fn, 0, &nr);
  CHECK(next && strcmp(ag_node_name(next), "AddBackward0") == 0, "next");
  ag_node_release(next);
  ag_node_release(fn);
  CHECK(ag_backward(1, &y, NULL, 0, 0, 0, NULL) == AG_OK, "backward");
  CHECK(item(ag_tensor_grad(w)) == 5, "dw = %g", item(ag_tensor_grad(w)));
  CHECK(item(ag_tensor_grad(x)) == 2, "dx = %g", item(ag_tensor_grad(x)));
  CHECK(item(ag_tensor_grad(a)) == 2, "da = %g", item(ag_tensor_grad(a)));
  CHECK(ag_tensor_grad(b) == NULL, "b keeps no gradient");
  CHECK(ag_tensor_is_leaf(w) && !ag_tensor_is_leaf(y), "leaves");
  CHECK(ag_backward(1, &y, NULL, 0, 0, 0, NULL) == AG_ERR_RUNTIME, "second backward is refused");
  CHECK(strstr(ag_last_error(), "second time") != NULL, "and says so");
  ag_tensor_release(y);
  ag_tensor_release(b);
  ag_tensor_release(a);
  ag_tensor_release(one);
  ag_tensor_release(x);
  ag_tensor_release(w);
}

/* d3/dx3 of x^4 by create_graph: 24 x. */
static void higher(void) {
  ag_tensor *x = ag_scalar(1.5, AG_FLOAT64);
  ag_tensor_set_requires_grad(x, 1);
  ag_tensor *x2 = ag_mul(x, x), *y = ag_mul(x2, x2), *d = y;
  ag_tensor_retain(d);
  double want[3] = {4 * 1.5 * 1.5 * 1.5, 12 * 1.5 * 1.5, 24 * 1.5};
  for (int k = 0; k < 3; k++) {
    ag_tensor *g = NULL;
    CHECK(ag_grad(1, &d, NULL, 1, &x, 1, 1, 0, &g) == AG_OK, "grad %d", k);
    CHECK(fabs(item(g) - want[k]) < 1e-12, "order %d: %g", k + 1, item(g));
    ag_tensor_release(d);
    d = g;
  }
  ag_tensor_release(d);
  ag_tensor_release(y);
  ag_tensor_release(x2);
  ag_tensor_release(x);
}

/* A net 2-8-1, tanh, learns XOR by plain gradient steps. */
static double train(int steps) {
  static const float xs[8] = {0, 0, 0, 1, 1, 0, 1, 1}, ys[4] = {0, 1, 1, 0};
  float w1v[16], w2v[8], b1v[8] = {0}, b2v[1] = {0};
  for (int k = 0; k < 16; k++) w1v[k] = (float)sin(3.0 * k + 1);
  for (int k = 0; k < 8; k++) w2v[k] = (float)cos(2.0 * k + 1);
  ag_tensor *x = ag_from_data(2, (int64_t[]){4, 2}, AG_FLOAT32, xs), *t = ag_from_data(2, (int64_t[]){4, 1}, AG_FLOAT32, ys);
  ag_tensor *p[4] = {ag_from_data(2, (int64_t[]){2, 8}, AG_FLOAT32, w1v), vec(8, b1v),
                     ag_from_data(2, (int64_t[]){8, 1}, AG_FLOAT32, w2v), vec(1, b2v)};
  ag_tensor *lr = ag_scalar(0.3, AG_FLOAT32);
  for (int k = 0; k < 4; k++) ag_tensor_set_requires_grad(p[k], 1);
  double loss = NAN;
  for (int s = 0; s < steps; s++) {
    ag_tensor *a = ag_mm(x, p[0]), *b = ag_add(a, p[1]), *h = ag_tanh(b), *c = ag_mm(h, p[2]), *o = ag_add(c, p[3]);
    ag_tensor *e = ag_sub(o, t), *q = ag_mul(e, e), *l = ag_mean(q);
    CHECK(ag_backward(1, &l, NULL, 0, 0, 0, NULL) == AG_OK, "backward");
    loss = item(l);
    int mode = ag_grad_set_enabled(0);
    for (int k = 0; k < 4; k++) {
      ag_tensor *u = ag_mul(ag_tensor_grad(p[k]), lr);
      CHECK(ag_apply_inplace(AG_OP_sub, 2, (ag_tensor *[]){p[k], u}, NULL) == AG_OK, "update");
      ag_tensor_release(u);
      ag_tensor_set_grad(p[k], NULL);
    }
    ag_grad_set_enabled(mode);
    ag_tensor *all[] = {a, b, h, c, o, e, q, l};
    for (int k = 0; k < 8; k++) ag_tensor_release(all[k]);
  }
  for (int k = 0; k < 4; k++) ag_tensor_release(p[k]);
  ag_tensor_release(lr);
  ag_tensor_release(t);
  ag_tensor_release(x);
  return loss;
}

/* The same step traced once and replayed: the losses agree bit for bit with the dynamic run. */
static void frozen(void) {
  float wv[3] = {.5f, -1, 2}, xv[3] = {1, 2, 3};
  double eager[5], replayed[5];
  ag_tensor *lr = ag_scalar(0.01, AG_FLOAT32);
  for (int round = 0; round < 2; round++) {
    ag_tensor *w = vec(3, wv), *x = vec(3, xv);
    ag_tensor_set_requires_grad(w, 1);
    ag_plan *plan = NULL;
    for (int s = 0; s < 5; s++) {
      if (plan) {
        ag_tensor *out = NULL;
        CHECK(ag_plan_run(plan, 1, &x, &out) == AG_OK, "replay");
        replayed[s] = item(out);
        ag_tensor_release(out);
        continue;
      }
      ag_trace *tr = round ? ag_trace_begin(1, &x) : NULL;
      ag_tensor *y = ag_mul(w, x), *z = ag_tanh(y), *l = ag_sum(z);
      CHECK(ag_backward(1, &l, NULL, 0, 0, 0, NULL) == AG_OK, "backward");
      int mode = ag_grad_set_enabled(0);
      ag_tensor *u = ag_mul(ag_tensor_grad(w), lr);
      CHECK(ag_apply_inplace(AG_OP_sub, 2, (ag_tensor *[]){w, u}, NULL) == AG_OK, "update");
      ag_tensor_set_grad(w, NULL);
      ag_grad_set_enabled(mode);
      if (tr) {
        double v;
        CHECK(ag_tensor_item(l, &v) == AG_ERR_TRACED, "reading inside a trace is refused");
        plan = ag_trace_end(tr, 1, &l, 0);
        CHECK(plan != NULL, "trace_end");
        replayed[s] = item(l);
      } else {
        eager[s] = item(l);
      }
      ag_tensor_release(u);
      ag_tensor_release(l);
      ag_tensor_release(z);
      ag_tensor_release(y);
    }
    ag_plan_release(plan);
    ag_tensor_release(x);
    ag_tensor_release(w);
  }
  for (int s = 0; s < 5; s++) CHECK(eager[s] == replayed[s], "step %d: %.9g, replayed %.9g", s, eager[s], replayed[s]);
  ag_tensor_release(lr);
}

static void errors(void) {
  ag_tensor *a = vec(3, (float[]){1, 2, 3}), *b = vec(4, (float[]){1, 2, 3, 4});
  ag_counters before, after;
  ag_counters_get(&before);
  CHECK(ag_add(a, b) == NULL && ag_last_status() == AG_ERR_RUNTIME, "shapes that do not fit");
  CHECK(strstr(ag_last_error(), "The size of tensor a (3) must match the size of tensor b (4)") != NULL, "text");
  CHECK(ag_apply_inplace(AG_OP_add, 2, (ag_tensor *[]){a, b}, NULL) == AG_ERR_RUNTIME, "also in place");
  CHECK(ag_mm(a, b) == NULL, "mm wants matrices");
  CHECK(ag_backward(1, &a, NULL, 0, 0, 0, NULL) == AG_ERR_RUNTIME, "no graph");
  CHECK(ag_call1(-5, a, 0, 0) == NULL && ag_last_status() == AG_ERR_INDEX, "no such op");
  ag_tensor_set_requires_grad(a, 1);
  CHECK(ag_apply_inplace(AG_OP_neg, 1, &a, NULL) == AG_ERR_RUNTIME, "leaf in place");
  ag_counters_get(&after);
  CHECK(before.tensors == after.tensors && before.nodes == after.nodes, "a failure leaves nothing behind");
  float v[3];
  CHECK(ag_tensor_read(a, v) == AG_OK && v[0] == 1 && v[1] == 2 && v[2] == 3, "and the data is as it was");
  /* Every allocation of a step may fail: an error each time, nothing lost. */
  ag_tensor_set_requires_grad(b, 1);
  int k = 1, oom = 0;
  for (;; k++) {
    ag_test_fail_alloc(k);
    ag_tensor *y = ag_mul(b, b), *s = y ? ag_sum(y) : NULL;
    int st = s ? ag_backward(1, &s, NULL, 0, 0, 0, NULL) : ag_last_status();
    ag_test_fail_alloc(0);
    ag_tensor_release(s);
    ag_tensor_release(y);
    ag_tensor_set_grad(b, NULL);
    if (st == AG_OK) break;
    CHECK(st == AG_ERR_MEMORY, "status %d at allocation %d", st, k);
    oom++;
    if (k > 1000) break;
  }
  CHECK(oom > 5 && k < 1000, "%d failures before success", oom);
  ag_tensor_release(a);
  ag_tensor_release(b);
}

int main(void) {
  ag_counters c0, c;
  ag_tensor_release(ag_scalar(0, AG_FLOAT32));
  ag_counters_get(&c0);
  article();
  higher();
  double loss = train(2000);
  CHECK(loss < 0.01, "XOR: loss %g", loss);
  frozen();
  errors();
  ag_counters_get(&c);
  CHECK(c.tensors == c0.tensors && c.nodes == c0.nodes && c.storages == c0.storages && c.bytes == c0.bytes,
        "alive: %lld tensors, %lld nodes, %lld storages, %lld bytes", (long long)(c.tensors - c0.tensors),
        (long long)(c.nodes - c0.nodes), (long long)(c.storages - c0.storages), (long long)(c.bytes - c0.bytes));
  ag_cache_trim();
  printf("%s; XOR loss %.3g\n%d failed\n", ag_build_info(), loss, failures);
  return failures != 0;
}
