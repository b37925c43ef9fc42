/* test_threads.c: graphs in several threads at once, over shared leaves, with the pool inside every operation; objects freed
 * by another thread than made them; counters right at the end.  Worth most when built with -fsanitize=thread. */
#include "autograd_c.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#ifdef AG_NO_THREADS /* then one thread may call */
enum { THREADS = 1, ROUNDS = 200, N = 300 };
#else
enum { THREADS = 4, ROUNDS = 200, N = 300 };
#endif

static ag_tensor *shared;
static int failures[THREADS];

static void *work(void *arg) {
  const int me = (int)(intptr_t)arg;
  const int64_t n = N;
  ag_tensor *last = NULL;
  for (int k = 0; k < ROUNDS; k++) {
    ag_tensor *c = ag_full(1, &n, AG_FLOAT64, me + 1), *a = ag_mul(shared, c), *b = ag_sin(a), *s = ag_sum(b), *g = NULL;
    int bad = !s || ag_grad(1, &s, NULL, 1, &shared, 0, k % 2, 0, &g) != AG_OK;
    double v[N];
    bad = bad || ag_tensor_read(g, v) != AG_OK || fabs(v[0] - (me + 1) * cos((me + 1) * 0.25)) > 1e-12;
    failures[me] += bad;
    /* Each thread's errors are its own. */
    ag_tensor *none = ag_mm(a, b);
    failures[me] += none != NULL || ag_last_status() != AG_ERR_RUNTIME;
    ag_tensor_release(last);
    last = b;
    ag_tensor_release(g);
    ag_tensor_release(s);
    ag_tensor_release(a);
    ag_tensor_release(c);
  }
  return last; /* for the main thread to free */
}

/* Large work from two threads at once, dynamic and replayed, while a third changes the number of threads. */
static int64_t bits(const float *v, int64_t n) {
  uint64_t h = 1469598103934665603u;
  for (int64_t k = 0; k < n; k++) {
    uint32_t u;
    memcpy(&u, v + k, 4);
    h = (h ^ u) * 1099511628211u;
  }
  return (int64_t)h;
}

static int64_t step(ag_tensor *a, ag_tensor *w, ag_plan **plan) {
  enum { R = 60, C = 70 };
  ag_tensor *out = NULL, *t[6] = {NULL};
  ag_trace *tr = NULL;
  float v[R * C];
  if (*plan) {
    if (ag_plan_run(*plan, 1, &a, &out) != AG_OK) return 0;
  } else {
    tr = ag_trace_begin(1, &a);
    if (!tr) return 0;
    t[0] = ag_mm(a, w);
    t[1] = t[0] ? ag_tanh(t[0]) : NULL;
    t[2] = t[1] ? ag_mul(t[1], t[0]) : NULL;
    t[3] = t[2] ? ag_calln(AG_OP_softmax, 1, &t[2], 1, (int64_t[]){1}, 0, NULL, 0, 0) : NULL;
    t[4] = t[3] ? ag_add(t[3], t[1]) : NULL;
    *plan = ag_trace_end(tr, 1, &t[4], 0);
    out = t[4];
    for (int k = 0; k < 4; k++) ag_tensor_release(t[k]);
  }
  int64_t h = out && ag_tensor_read(out, v) == AG_OK ? bits(v, R * C) : 0;
  ag_tensor_release(out);
  return h;
}

static ag_tensor *large, *weight;
static int64_t wanted;

static void *pooled(void *arg) {
  ag_plan *plan = NULL;
  long bad = 0;
  for (int k = 0; k < 60; k++) {
    if (k % 15 == 14) {
      ag_plan_release(plan);
      plan = NULL;
    }
    bad += step(large, weight, &plan) != wanted;
  }
  ag_plan_release(plan);
  (void)arg;
  return (void *)bad;
}

static int pool_inside(void) {
  int failed = 0;
  float a[60 * 50], w[50 * 70];
  ag_plan *plan = NULL;
  for (int k = 0; k < 60 * 50; k++) a[k] = (float)(k % 37) * 0.01f - 0.2f;
  for (int k = 0; k < 50 * 70; k++) w[k] = (float)(k % 41) * 0.02f - 0.4f;
  large = ag_from_data(2, (int64_t[]){60, 50}, AG_FLOAT32, a);
  weight = ag_from_data(2, (int64_t[]){50, 70}, AG_FLOAT32, w);
  ag_test_grain(INT64_C(1) << 30); /* all work is large enough */
  ag_set_num_threads(1);
  wanted = step(large, weight, &plan);
  failed += wanted == 0 || step(large, weight, &plan) != wanted;
  ag_plan_release(plan);
#ifndef AG_NO_THREADS
  pthread_t thread[3];
  for (int k = 0; k < 3; k++)
    if (pthread_create(&thread[k], NULL, pooled, NULL)) return failed + 1;
  for (int k = 0; k < 200; k++) ag_set_num_threads(1 + k % 5);
  for (int k = 0; k < 3; k++) {
    void *bad = NULL;
    pthread_join(thread[k], &bad);
    failed += bad != NULL;
  }
#endif
  ag_tensor_release(large);
  ag_tensor_release(weight);
  return failed; /* the grain stays: the graphs below run so, too */
}

int main(void) {
  const int64_t n = N;
  int failed = pool_inside();
  ag_set_num_threads(3);
  shared = ag_full(1, &n, AG_FLOAT64, 0.25);
  if (!shared || ag_tensor_set_requires_grad(shared, 1) != AG_OK) return 1;
#ifndef AG_NO_THREADS
  pthread_t thread[THREADS];
#endif
#ifdef AG_NO_THREADS
  ag_tensor_release(work(NULL));
#else
  for (int k = 0; k < THREADS; k++)
    if (pthread_create(&thread[k], NULL, work, (void *)(intptr_t)k)) return 1;
  for (int k = 0; k < THREADS; k++) {
    void *left = NULL;
    pthread_join(thread[k], &left);
    ag_tensor_release(left);
  }
#endif
  for (int k = 0; k < THREADS; k++) failed += failures[k];
  ag_tensor_release(shared);
  ag_counters c;
  ag_counters_get(&c);
  failed += c.tensors != 0 || c.nodes != 0 || c.storages != 0 || c.bytes != 0;
  printf("%d threads, %d failed\n", THREADS, failed);
  return failed != 0;
}
