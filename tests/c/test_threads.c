/* test_threads.c: graphs in several threads at once, over shared leaves; objects freed by another thread than made
 * them; counters right at the end.  Worth most when built with -fsanitize=thread. */
#include "autograd_c.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>

enum { THREADS = 4, ROUNDS = 200, N = 300 };

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

int main(void) {
  const int64_t n = N;
  int failed = 0;
  shared = ag_full(1, &n, AG_FLOAT64, 0.25);
  if (!shared || ag_tensor_set_requires_grad(shared, 1) != AG_OK) return 1;
  pthread_t thread[THREADS];
  for (int k = 0; k < THREADS; k++)
    if (pthread_create(&thread[k], NULL, work, (void *)(intptr_t)k)) return 1;
  for (int k = 0; k < THREADS; k++) {
    void *left = NULL;
    pthread_join(thread[k], &left);
    ag_tensor_release(left);
    failed += failures[k];
  }
  ag_tensor_release(shared);
  ag_counters c;
  ag_counters_get(&c);
  failed += c.tensors != 0 || c.nodes != 0 || c.storages != 0 || c.bytes != 0;
  printf("%d threads, %d failed\n", THREADS, failed);
  return failed != 0;
}
