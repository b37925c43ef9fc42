#include "base/pool.h"

#include <stdio.h>
#include <stdlib.h>
#if defined(__linux__)
#include <sched.h>
#endif
#include <unistd.h>

enum { MOST = 128 };

/* ---- how many ---- */

static _Atomic int wanted; /* 0: not yet asked */
int64_t ag__grain_divisor = 1;
void ag_test_grain(int64_t divisor) { ag__grain_divisor = divisor < 1 ? 1 : divisor; }
static inline int64_t fine(int64_t grain) { return grain > ag__grain_divisor ? grain / ag__grain_divisor : 1; }

#if defined(__linux__)
/* What the control group of this process may use of the machine, in cores; 0: no bound is known. */
static int group_share(void) {
  char line[512], path[600], quota[32];
  long long period = 0;
  int cores = 0;
  FILE *f = fopen("/proc/self/cgroup", "r");
  snprintf(path, sizeof path, "/sys/fs/cgroup/cpu.max");
  while (f && fgets(line, sizeof line, f))
    if (strncmp(line, "0::", 3) == 0 && line[3]) {
      line[strcspn(line, "\n")] = 0;
      snprintf(path, sizeof path, "/sys/fs/cgroup%s/cpu.max", line[4] ? line + 3 : "");
    }
  if (f) fclose(f);
  f = fopen(path, "r");
  if (!f) f = fopen("/sys/fs/cgroup/cpu.max", "r"); /* inside a container the path may be the host's */
  if (f) {
    if (fscanf(f, "%31s %lld", quota, &period) != 2) period = 0;
    fclose(f);
  } else {
    FILE *q = fopen("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "r"), *p = fopen("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "r");
    if (!q || !p || fscanf(q, "%31s", quota) != 1 || fscanf(p, "%lld", &period) != 1) period = 0;
    if (q) fclose(q);
    if (p) fclose(p);
  }
  long long share = period > 0 ? atoll(quota) : 0; /* "max" and -1: no bound */
  if (share > 0) cores = (int)((share + period - 1) / period);
  return cores;
}
#endif

static int cores(void) {
  int n = 0;
#if defined(__linux__)
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) n = CPU_COUNT(&set);
#endif
  if (n < 1) n = (int)sysconf(_SC_NPROCESSORS_ONLN);
#if defined(__linux__)
  int share = group_share();
  if (share > 0 && share < n) n = share;
#endif
  return n < 1 ? 1 : n;
}

static int threads_wanted(void) {
  int n = atomic_load_explicit(&wanted, memory_order_relaxed);
  if (AG_LIKELY(n > 0)) return n;
#ifdef AG_NO_THREADS
  n = 1;
#else
  const char *e = getenv("AUTOGRAD_C_NUM_THREADS");
  char *end = NULL;
  long given = e && *e ? strtol(e, &end, 10) : 0;
  n = given > 0 && !*end ? (given > MOST ? MOST : (int)given) : cores();
  if (n > MOST) n = MOST;
#endif
  int none = 0;
  atomic_compare_exchange_strong(&wanted, &none, n);
  return atomic_load(&wanted);
}

int ag_get_num_threads(void) { return threads_wanted(); }

int ag_set_num_threads(int n) {
  if (n < 1) return ag__fail(AG_ERR_RUNTIME, "set_num_threads: expected a positive number of threads, but got %d", n);
#ifndef AG_NO_THREADS
  atomic_store(&wanted, n > MOST ? MOST : n);
#endif
  return AG_OK;
}

#ifdef AG_NO_THREADS

int ag__parallel_width(int64_t n, int64_t grain) {
  (void)n, (void)grain;
  return 1;
}
int ag__pool_started(void) { return 0; }
int ag__parallel_run(int64_t n, int64_t grain, int width, ag_task *fn, void *ctx) {
  (void)grain, (void)width;
  return n > 0 ? fn(ctx, 0, 0, n) : AG_OK;
}

#else

#include <pthread.h>
#include <signal.h>

/* ---- the gate ----
 *
 * One word says all: how many threads of the pool are inside, how many may be, whether work is there, and its number.
 * A thread enters by raising the count of an open gate, and can do so only then; the caller closes it and waits until
 * the count is zero.  So whoever is inside may use what the caller left in `job`, and late comers stay outside. */
#define COUNT UINT64_C(0xffff)
#define ONE UINT64_C(1)
#define LIMIT_SHIFT 16
#define OPEN (UINT64_C(1) << 32)
#define EPOCH (UINT64_C(1) << 33)

static _Atomic uint64_t gate;

/* Each thread begins with a range of its own, so that equal calls meet the same memory in the same cache. */
typedef struct range {
  _Alignas(64) _Atomic int64_t next;
  int64_t end;
} range;

static struct job {
  ag_task *fn;
  void *ctx;
  int64_t chunk;
  int ranges;
  _Atomic int64_t failed; /* where the lowest failed chunk begins; INT64_MAX: none */
  int status;             /* of it, and its text: under mutex */
  char text[sizeof((ag_scratch *)0)->error];
} job;
static range ranges[MOST];

static atomic_flag busy = ATOMIC_FLAG_INIT; /* the pool has a caller, who owns all of the above and `started` */
static _Atomic int started;
static pthread_t member[MOST];
static bool hooked; /* fork's handlers are in place */

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t work_there = PTHREAD_COND_INITIALIZER, all_left = PTHREAD_COND_INITIALIZER;
static _Atomic int sleepers, caller_sleeps;
static _Atomic bool stop;

/* How long to look before going to sleep: some 20 us.  Waking a thread costs the caller 2 us, and 25 us where its core
 * sleeps (measured in a virtual machine), so one that has just worked waits a while for the next operation of a
 * training step; the caller, for what the others have in hand. */
enum { LOOKS = 1500 };

static inline void breathe(void) {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ __volatile__("yield");
#endif
}

/* ---- work ---- */

static void note_failure(int64_t from, int st) {
  pthread_mutex_lock(&mutex);
  if (from < atomic_load(&job.failed)) {
    atomic_store(&job.failed, from);
    job.status = st;
    snprintf(job.text, sizeof job.text, "%s", ag_last_error());
  }
  pthread_mutex_unlock(&mutex);
}

static void take_part(int slot) {
  const int n = job.ranges;
  for (int k = 0; k < n; k++) {
    range *r = &ranges[(slot + k) % n];
    for (;;) {
      if (atomic_load_explicit(&r->next, memory_order_relaxed) >= r->end) break;
      int64_t from = atomic_fetch_add_explicit(&r->next, job.chunk, memory_order_relaxed);
      if (from >= r->end) break;
      if (AG_UNLIKELY(from > atomic_load_explicit(&job.failed, memory_order_relaxed))) continue;
      int64_t to = r->end - from < job.chunk ? r->end : from + job.chunk;
      int st = job.fn(job.ctx, slot, from, to);
      if (AG_UNLIKELY(st != AG_OK)) note_failure(from, st);
    }
  }
}

/* ---- threads of the pool ---- */

static bool may_enter(uint64_t g, uint64_t seen) {
  return (g & OPEN) && (g & ~(EPOCH - 1)) != seen && (g & COUNT) < (g >> LIMIT_SHIFT & COUNT);
}

/* Waits for work of another number than seen; 0: the pool ends. */
static uint64_t await_work(uint64_t seen) {
  for (int k = 0; k < LOOKS; k++) {
    uint64_t g = atomic_load(&gate);
    if (may_enter(g, seen)) return g;
    if (atomic_load_explicit(&stop, memory_order_relaxed)) return 0;
    breathe();
  }
  pthread_mutex_lock(&mutex);
  atomic_fetch_add(&sleepers, 1);
  uint64_t g;
  while (!may_enter(g = atomic_load(&gate), seen) && !atomic_load(&stop)) pthread_cond_wait(&work_there, &mutex);
  atomic_fetch_sub(&sleepers, 1);
  pthread_mutex_unlock(&mutex);
  return atomic_load(&stop) ? 0 : g;
}

static void *member_main(void *arg) {
  uint64_t seen = (uint64_t)(uintptr_t)arg, g;
  while ((g = await_work(seen)) != 0) {
    if (!atomic_compare_exchange_strong(&gate, &g, g + ONE)) continue;
    seen = g & ~(EPOCH - 1);
    /* Slots are given by the count at entry: a thread leaves only when no chunk is left, so whoever gets its number
     * finds none. */
    take_part((int)(g & COUNT) + 1);
    g = atomic_fetch_sub(&gate, ONE);
    if ((g & COUNT) == 1 && !(g & OPEN) && atomic_load(&caller_sleeps)) {
      pthread_mutex_lock(&mutex);
      pthread_cond_signal(&all_left);
      pthread_mutex_unlock(&mutex);
    }
  }
  return NULL;
}

/* The child has none of the threads, and locks may lie as they were in the middle of something. */
static void in_child(void) {
  atomic_store(&gate, 0);
  atomic_store(&started, 0);
  atomic_store(&sleepers, 0);
  atomic_store(&caller_sleeps, 0);
  pthread_mutex_init(&mutex, NULL);
  pthread_cond_init(&work_there, NULL);
  pthread_cond_init(&all_left, NULL);
  atomic_flag_clear(&busy);
}

/* As many threads as there is use for; fewer when the system gives no more.  Holds `busy`. */
static int start(int want) {
  int have = atomic_load_explicit(&started, memory_order_relaxed);
  if (AG_LIKELY(have >= want)) return want;
  if (!hooked) {
    if (pthread_atfork(NULL, NULL, in_child)) return have;
    hooked = true;
  }
  /* Signals are for the program's own threads. */
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  uint64_t epoch = atomic_load(&gate) & ~(EPOCH - 1);
  for (; have < want; have++) {
    ag__cnt.allocations++;
    if (pthread_create(&member[have], NULL, member_main, (void *)(uintptr_t)epoch)) break;
    atomic_store(&started, have + 1);
  }
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  return have;
}

int ag__pool_started(void) { return atomic_load(&started); }

/* At the end of the process and when the library is unloaded: nobody may stand in code that goes away. */
static void end_members(void) {
  for (int k = 0; atomic_flag_test_and_set(&busy); k++) { /* stays taken: later calls run alone */
    if (k == 200) return;                                 /* work that runs beyond the end of the process */
    usleep(1000);
  }
  int n = atomic_load(&started);
  atomic_store(&stop, true);
  pthread_mutex_lock(&mutex);
  pthread_cond_broadcast(&work_there);
  pthread_mutex_unlock(&mutex);
  for (int k = 0; k < n; k++) pthread_join(member[k], NULL);
  atomic_store(&started, 0);
}

static __attribute__((destructor)) void end(void) {
  end_members();
  ag__alloc_end();
}

/* ---- the caller ---- */

int ag__parallel_width(int64_t n, int64_t grain) {
  int64_t w = n / fine(grain);
  int t = threads_wanted();
  return w < 2 ? 1 : w < t ? (int)w : t;
}

int ag__parallel_run(int64_t n, int64_t grain, int width, ag_task *fn, void *ctx) {
  int w = ag__parallel_width(n, grain);
  grain = fine(grain);
  if (width > 0 && w > width) w = width;
  if (n <= 0) return AG_OK;
  if (w <= 1 || atomic_flag_test_and_set_explicit(&busy, memory_order_acquire)) return fn(ctx, 0, 0, n);
  int helpers = start(w - 1);
  if (helpers < 1) {
    atomic_flag_clear_explicit(&busy, memory_order_release);
    return fn(ctx, 0, 0, n);
  }
  /* Four chunks a thread even out what comes late; edges fall on lines of the cache where elements are counted. */
  int64_t unit = grain >= 64 ? 64 : 1, chunks = n / grain;
  w = helpers + 1;
  if (chunks > 4 * w) chunks = 4 * w;
  int64_t chunk = (n + chunks - 1) / chunks;
  chunk = (chunk + unit - 1) / unit * unit;
  int64_t share = ((n + chunk - 1) / chunk + w - 1) / w * chunk;
  job.fn = fn;
  job.ctx = ctx;
  job.chunk = chunk;
  job.ranges = w;
  atomic_store_explicit(&job.failed, INT64_MAX, memory_order_relaxed);
  for (int k = 0; k < w; k++) {
    int64_t from = share * k < n ? share * k : n;
    atomic_store_explicit(&ranges[k].next, from, memory_order_relaxed);
    ranges[k].end = n - from < share ? n : from + share;
  }
  uint64_t g = (atomic_load(&gate) & ~(EPOCH - 1)) + EPOCH;
  if (g == 0) g = EPOCH;
  atomic_store(&gate, g | OPEN | (uint64_t)helpers << LIMIT_SHIFT);
  if (atomic_load(&sleepers)) {
    pthread_mutex_lock(&mutex);
    if (helpers == 1) pthread_cond_signal(&work_there);
    else pthread_cond_broadcast(&work_there);
    pthread_mutex_unlock(&mutex);
  }
  take_part(0);
  uint64_t inside = atomic_fetch_and(&gate, ~OPEN) & COUNT;
  for (int k = 0; inside && k < 4 * LOOKS; k++) {
    breathe();
    inside = atomic_load(&gate) & COUNT;
  }
  if (inside) {
    pthread_mutex_lock(&mutex);
    atomic_store(&caller_sleeps, 1);
    while (atomic_load(&gate) & COUNT) pthread_cond_wait(&all_left, &mutex);
    atomic_store(&caller_sleeps, 0);
    pthread_mutex_unlock(&mutex);
  }
  int st = AG_OK;
  if (AG_UNLIKELY(atomic_load_explicit(&job.failed, memory_order_relaxed) != INT64_MAX)) st = ag__fail(job.status, "%s", job.text);
  atomic_flag_clear_explicit(&busy, memory_order_release);
  return st;
}

#endif
