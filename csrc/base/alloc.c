#define _DEFAULT_SOURCE /* posix_memalign, madvise */
#include "base/base.h"

#ifndef AG_NO_THREADS
#include <pthread.h>
#endif
#include <sched.h>
#include <stdlib.h>
#ifdef __linux__
#include <sys/mman.h>
#endif

/* Small blocks: per-thread free lists of 64-byte classes, so that the tensors, nodes and little
 * buffers of one op cost a few nanoseconds.  Large ones: a shared, bounded cache of freed blocks in
 * eighth-of-an-octave classes, since fresh memory from the system costs a page fault per 4 kB. */

enum { CLASS = 64, NCLASS = AG_POOL_MAX / CLASS, SLAB = 32, BIG_CLASSES = 8 * 48 };
#define BIG_CACHE_MAX ((int64_t)512 << 20)

typedef struct block {
  struct block *next;
} block;

AG_TLS ag_tls_counters ag__cnt;

typedef struct thread_state {
  block *lists[NCLASS];
  ag_tls_counters *cnt;
  ag_scratch *scratch;
  struct thread_state *prev, *next;
} thread_state;

static thread_state nobody;                  /* empty lists: what a thread has before it is known here */
static AG_TLS thread_state *self = &nobody;
static ag_lock lock = AG_LOCK_INIT;
static thread_state *threads;            /* under lock */
static ag_tls_counters gone;             /* counts of finished threads, under lock */
static block *orphans[NCLASS];           /* lists of finished threads, under lock */
static block *big[BIG_CLASSES];          /* under lock */
static int64_t big_bytes;                /* under lock */
static _Atomic int64_t live_bytes, peak_bytes;
static _Atomic int64_t fail_countdown;
static bool pooling = true;

void ag__lock(ag_lock *l) {
  for (int spin = 0; atomic_flag_test_and_set_explicit(l, memory_order_acquire);)
    if (++spin > 100) sched_yield();
}
void ag__unlock(ag_lock *l) { atomic_flag_clear_explicit(l, memory_order_release); }

static void add_counts(ag_tls_counters *to, const ag_tls_counters *c) {
  to->tensors += c->tensors;
  to->nodes += c->nodes;
  to->storages += c->storages;
  to->graphs_built += c->graphs_built;
  to->nodes_built += c->nodes_built;
  to->allocations += c->allocations;
  to->replays += c->replays;
  to->bytes += c->bytes;
}

#ifndef AG_NO_THREADS
static pthread_key_t key;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static bool keyed;

static void thread_gone(void *arg) {
  thread_state *t = arg;
  ag__lock(&lock);
  if (t->prev) t->prev->next = t->next;
  else threads = t->next;
  if (t->next) t->next->prev = t->prev;
  add_counts(&gone, t->cnt);
  for (int c = 0; c < NCLASS; c++)
    while (t->lists[c]) {
      block *b = t->lists[c];
      t->lists[c] = b->next;
      b->next = orphans[c];
      orphans[c] = b;
    }
  ag__unlock(&lock);
  memset(t->cnt, 0, sizeof *t->cnt);
  self = &nobody;
  free(t);
  ag__scratch_free();
}

/* A fork while another thread held the lock would leave it held for ever in the child. */
static void before_fork(void) { ag__lock(&lock); }
static void in_parent(void) { ag__unlock(&lock); }

/* The other threads are not in the child, and the memory of their variables is given to new ones: what they counted
 * is kept.  Their lists may lie in the middle of a change, so those blocks are left alone. */
static void in_child(void) {
  for (thread_state *t = threads, *next; t; t = next) {
    next = t->next;
    if (t == self) continue;
    add_counts(&gone, t->cnt);
    free(t->scratch);
    free(t);
  }
  threads = self == &nobody ? NULL : self;
  if (threads) threads->prev = threads->next = NULL;
  ag__unlock(&lock);
}

/* A thread that ends after the library has been unloaded must not look for thread_gone. */
void ag__alloc_end(void) {
  if (keyed) pthread_key_delete(key);
  keyed = false;
}
#endif

static void init(void) {
#ifndef AG_NO_THREADS
  keyed = pthread_key_create(&key, thread_gone) == 0;
  pthread_atfork(before_fork, in_parent, in_child);
#endif
  const char *e = getenv("AUTOGRAD_C_POOL");
#ifdef AG_NO_POOL
  pooling = false;
#endif
  if (e && e[0] == '0') pooling = false;
}

void ag__thread_enter(void) {
  if (self != &nobody) return;
#ifdef AG_NO_THREADS
  static bool done;
  if (!done) init();
  done = true;
#else
  pthread_once(&once, init);
#endif
  thread_state *t = calloc(1, sizeof *t);
  if (!t) return; /* goes on without lists; its counts are lost to the sums */
  t->cnt = &ag__cnt;
  ag__lock(&lock);
  t->next = threads;
  if (threads) threads->prev = t;
  threads = t;
  ag__unlock(&lock);
  self = t;
#ifndef AG_NO_THREADS
  if (keyed) pthread_setspecific(key, t);
#endif
}

/* From HUGE_FROM on the system is asked for pages of 2 MB: a walk through several such blocks would otherwise spend
 * much of its time on looking up pages, and the first touch on one fault per 4 kB. */
enum { HUGE_PAGE = 2 << 20, HUGE_FROM = 2 * HUGE_PAGE };

void ag__thread_scratch(ag_scratch *s) {
  if (self != &nobody) self->scratch = s;
}

static void *from_system(size_t size) {
  void *p = NULL;
  const size_t align = size >= HUGE_FROM ? HUGE_PAGE : 64, n = (size + 63) & ~(size_t)63;
  ag__cnt.allocations++;
  if (posix_memalign(&p, align, n) != 0) p = NULL;
  if (!p) {
    ag_cache_trim();
    if (posix_memalign(&p, align, n) != 0) p = NULL;
  }
#ifdef MADV_HUGEPAGE
  if (p && size >= HUGE_FROM) (void)madvise(p, n, MADV_HUGEPAGE); /* a wish: without it everything works as well */
#endif
  return p;
}

static void *out_of_memory(size_t size) {
  return ag__fail_null(AG_ERR_MEMORY, "out of memory: could not get %zu bytes (%lld bytes of tensors are alive)", size,
                       (long long)atomic_load(&live_bytes));
}

static bool injected(void) {
  if (AG_LIKELY(atomic_load_explicit(&fail_countdown, memory_order_relaxed) == 0)) return false;
  return atomic_fetch_sub(&fail_countdown, 1) == 1;
}

void ag_test_fail_alloc(int64_t k) { atomic_store(&fail_countdown, k); }

/* Class of a large size: its rounded-up capacity in *cap. */
static int big_class(size_t size, size_t *cap) {
  int lg = 63 - __builtin_clzll((unsigned long long)size);
  size_t step = (size_t)1 << (lg - 3);
  size_t r = (size + step - 1) & ~(step - 1);
  lg = 63 - __builtin_clzll((unsigned long long)r);
  *cap = r;
  return lg * 8 + (int)((r >> (lg - 3)) & 7);
}


static void *refill(int c) {
  ag__thread_enter();
  if (!pooling || self == &nobody) return from_system((size_t)(c + 1) * CLASS);
  ag__lock(&lock);
  block *b = orphans[c];
  orphans[c] = NULL;
  ag__unlock(&lock);
  if (!b) {
    size_t size = (size_t)(c + 1) * CLASS;
    char *slab = from_system(size * SLAB);
    if (!slab) return NULL;
    for (int k = SLAB - 1; k >= 0; k--) {
      block *n = (block *)(void *)(slab + (size_t)k * size);
      n->next = b;
      b = n;
    }
  }
  self->lists[c] = b->next;
  return b;
}

void *ag__alloc(size_t size) {
  if (AG_UNLIKELY(injected())) return out_of_memory(size);
  if (AG_LIKELY(size <= AG_POOL_MAX)) {
    int c = size ? (int)((size - 1) / CLASS) : 0;
    block *b = self->lists[c];
    if (AG_LIKELY(b != NULL)) {
      self->lists[c] = b->next;
      return b;
    }
    void *p = refill(c);
    return p ? p : out_of_memory(size);
  }
  if (size > (size_t)1 << 56) return out_of_memory(size);
  ag__thread_enter();
  size_t cap;
  int c = big_class(size, &cap);
  if (pooling && c < BIG_CLASSES) {
    ag__lock(&lock);
    block *b = big[c];
    if (b) {
      big[c] = b->next;
      big_bytes -= (int64_t)cap;
    }
    ag__unlock(&lock);
    if (b) return b;
  }
  void *p = from_system(cap);
  return p ? p : out_of_memory(size);
}

void ag__free(void *p, size_t size) {
  if (!p) return;
  if (AG_LIKELY(size <= AG_POOL_MAX)) {
    if (AG_UNLIKELY(self == &nobody)) ag__thread_enter();
    if (AG_UNLIKELY(!pooling)) {
      free(p);
      return;
    }
    int c = size ? (int)((size - 1) / CLASS) : 0;
    block *b = p;
    if (AG_UNLIKELY(self == &nobody)) { /* no memory for lists of its own */
      ag__lock(&lock);
      b->next = orphans[c];
      orphans[c] = b;
      ag__unlock(&lock);
      return;
    }
    b->next = self->lists[c];
    self->lists[c] = b;
    return;
  }
  size_t cap;
  int c = big_class(size, &cap);
  if (pooling && c < BIG_CLASSES) {
    ag__lock(&lock);
    if (big_bytes + (int64_t)cap <= BIG_CACHE_MAX) {
      block *b = p;
      b->next = big[c];
      big[c] = b;
      big_bytes += (int64_t)cap;
      p = NULL;
    }
    ag__unlock(&lock);
  }
  free(p);
}

void ag_cache_trim(void) {
  ag__lock(&lock);
  block *all = NULL;
  for (int c = 0; c < BIG_CLASSES; c++)
    while (big[c]) {
      block *b = big[c];
      big[c] = b->next;
      b->next = all;
      all = b;
    }
  big_bytes = 0;
  ag__unlock(&lock);
  while (all) {
    block *b = all;
    all = b->next;
    free(b);
  }
}

void ag__bytes_publish(void) {
  int64_t n = ag__cnt.bytes;
  ag__cnt.bytes = 0;
  ag__thread_enter();
  int64_t now = atomic_fetch_add_explicit(&live_bytes, n, memory_order_relaxed) + n;
  if (now > atomic_load_explicit(&peak_bytes, memory_order_relaxed))
    atomic_store_explicit(&peak_bytes, now, memory_order_relaxed);
}

void ag_counters_get(ag_counters *out) {
  ag__thread_enter();
  ag__lock(&lock);
  ag_tls_counters c = gone;
  for (thread_state *t = threads; t; t = t->next) add_counts(&c, t->cnt);
  ag__unlock(&lock);
  out->tensors = c.tensors;
  out->nodes = c.nodes;
  out->storages = c.storages;
  out->bytes = atomic_load(&live_bytes) + c.bytes;
  out->peak_bytes = atomic_load(&peak_bytes);
  if (out->bytes > out->peak_bytes) out->peak_bytes = out->bytes;
  out->graphs_built = c.graphs_built;
  out->nodes_built = c.nodes_built;
  out->allocations = c.allocations;
  out->replays = c.replays;
}

void ag_counters_reset_peak(void) {
  ag__bytes_publish();
  atomic_store(&peak_bytes, atomic_load(&live_bytes));
}
