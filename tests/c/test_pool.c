/* test_pool.c: the pool by itself: every index once, whatever the number of threads; nested use, several callers at
 * once, failures, fork, and threads that end.  Worth most when built with -fsanitize=thread. */
#include "base/pool.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

/* ThreadSanitizer cannot follow threads that a forked child starts. */
#if defined(__SANITIZE_THREAD__)
#define FORKS 0
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define FORKS 0
#endif
#endif
#ifndef FORKS
#define FORKS 1
#endif
/* AddressSanitizer's allocator takes no locks around a fork: a child hangs if another thread allocated at that moment. */
#if defined(__SANITIZE_ADDRESS__)
#define FORKS_AMID_WORK 0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define FORKS_AMID_WORK 0
#endif
#endif
#ifndef FORKS_AMID_WORK
#define FORKS_AMID_WORK FORKS
#endif

static int failed;
#define CHECK(c) ((c) ? (void)0 : (void)(failed++, printf("%s:%d: %s\n", __FILE__, __LINE__, #c)))

enum { N = 5000 };

typedef struct marks {
  unsigned char seen[N];
  int width;
  _Atomic int wrong;
  _Atomic int in_slot[128];
} marks;

static int mark(void *ctx, int slot, int64_t from, int64_t to) {
  marks *m = ctx;
  if (slot < 0 || slot >= m->width || atomic_fetch_add(&m->in_slot[slot], 1) != 0) atomic_fetch_add(&m->wrong, 1);
  for (int64_t k = from; k < to; k++) m->seen[k]++;
  if (slot >= 0 && slot < 128) atomic_fetch_sub(&m->in_slot[slot], 1);
  return AG_OK;
}

static int once_each(int64_t n, int64_t grain) {
  marks *m = calloc(1, sizeof *m);
  m->width = ag__parallel_width(n, grain);
  int ok = ag__parallel_run(n, grain, m->width, mark, m) == AG_OK && m->wrong == 0;
  for (int k = 0; k < N; k++) ok &= m->seen[k] == (k < n);
  free(m);
  return ok;
}

/* ---- nested: runs alone, in the thread that asks ---- */

static int inner(void *ctx, int slot, int64_t from, int64_t to) {
  (void)slot;
  if (from != 0 || to != 100) return AG_ERR_RUNTIME;
  for (int64_t k = from; k < to; k++) ((unsigned char *)ctx)[k]++;
  return AG_OK;
}
static int outer(void *ctx, int slot, int64_t from, int64_t to) {
  (void)slot;
  for (int64_t k = from; k < to; k++)
    if (ag__parallel(100, 1, inner, (unsigned char *)ctx + 100 * k)) return AG_ERR_RUNTIME;
  return AG_OK;
}

/* ---- failures: the lowest one is told ---- */

static int fails(void *ctx, int slot, int64_t from, int64_t to) {
  (void)slot;
  for (int64_t k = from; k < to; k++)
    if (k >= *(int64_t *)ctx && k % 7 == 3) return ag__fail(AG_ERR_INDEX, "index %lld", (long long)k);
  return AG_OK;
}

/* ---- several callers ---- */

static void *caller(void *arg) {
  long bad = 0;
  for (int k = 0; k < 300; k++) bad += !once_each(N - k, 1 + k % 40);
  (void)arg;
  return (void *)bad;
}

static int in_child(void) {
  if (ag__pool_started() != 0) return 1;
  for (int k = 0; k < 50; k++)
    if (!once_each(N, 3)) return 2;
  if (ag_get_num_threads() > 1 && ag__pool_started() == 0) return 3;
  return 0;
}

int main(void) {
  int most = 8;
#ifdef AG_NO_THREADS
  most = 1;
#endif
  CHECK(ag_get_num_threads() >= 1);
  CHECK(ag_set_num_threads(0) == AG_ERR_RUNTIME && ag_set_num_threads(-3) == AG_ERR_RUNTIME);
  CHECK(ag__pool_started() == 0);
  for (int t = 1; t <= most; t = t == 3 ? 8 : t + 1) {
    CHECK(ag_set_num_threads(t) == AG_OK && ag_get_num_threads() == t);
    static const int64_t sizes[] = {0, 1, 2, 3, 7, 64, 65, 127, 1000, 4999, 5000};
    for (int k = 0; k < AG_COUNT(sizes); k++)
      for (int64_t grain = 1; grain < 300; grain = grain * 3 + 1) CHECK(once_each(sizes[k], grain));
    CHECK(ag__pool_started() < t + (t == 1));
    static unsigned char count[40][100];
    memset(count, 0, sizeof count);
    if (t > 1) {
      CHECK(ag__parallel(40, 1, outer, count) == AG_OK);
      for (int k = 0; k < 4000; k++) CHECK(count[k / 100][k % 100] == 1);
    }
    for (int64_t from = 0; from < 3000; from += 211) {
      int64_t first = from;
      while (first % 7 != 3) first++;
      char text[40];
      snprintf(text, sizeof text, "index %lld", (long long)first);
      CHECK(ag__parallel(N, 5, fails, &from) == AG_ERR_INDEX && strcmp(ag_last_error(), text) == 0);
    }
    int64_t never = N;
    CHECK(ag__parallel(N, 5, fails, &never) == AG_OK);
  }
#ifndef AG_NO_THREADS
  ag_set_num_threads(3);
  pthread_t thread[5];
  for (int k = 0; k < 5; k++) CHECK(pthread_create(&thread[k], NULL, caller, NULL) == 0);
  for (int round = 0; round < 3 && FORKS_AMID_WORK; round++) { /* fork while others use the pool */
    pid_t child = fork();
    if (child == 0) _exit(in_child());
    int st = -1;
    CHECK(waitpid(child, &st, 0) == child && WIFEXITED(st) && WEXITSTATUS(st) == 0);
    CHECK(once_each(N, 3));
  }
  for (int k = 0; k < 5; k++) {
    void *bad;
    pthread_join(thread[k], &bad);
    CHECK(bad == NULL);
  }
  fflush(stdout);
  if (FORKS) {
    pid_t child = fork(); /* which ends as programs do, with a pool of its own */
    if (child == 0) exit(in_child());
    int st = -1;
    CHECK(waitpid(child, &st, 0) == child && WIFEXITED(st) && WEXITSTATUS(st) == 0);
  }
  CHECK(once_each(N, 3) && ag__pool_started() >= 2);
#endif
  printf("pool: %d failed\n", failed);
  return failed != 0;
}
