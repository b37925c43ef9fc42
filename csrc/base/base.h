/* base.h: floor 0.  Errors, memory, counters, source positions: what every floor above may use. */
#ifndef AG_BASE_H
#define AG_BASE_H

#include "autograd_c.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#define AG_LIKELY(x) __builtin_expect(!!(x), 1)
#define AG_UNLIKELY(x) __builtin_expect(!!(x), 0)
/* Variables of a thread.  In a shared library the default model costs a function call at each access, a dozen in one
 * small op; initial-exec costs none, but draws on a small reserve of the loader: keep their sum below 256 bytes. */
#define AG_TLS _Thread_local __attribute__((tls_model("initial-exec")))
#define AG_COUNT(a) ((int)(sizeof(a) / sizeof((a)[0])))

/* ---- errors ---- */
/* Keeps code and text for this thread and returns code, so that `return ag__fail(...)` reads well. */
int ag__fail(int code, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Adds to the text of the failure in hand (cut at the buffer's end). */
void ag__fail_append(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void *ag__fail_null(int code, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* What a thread needs rarely and in bulk: texts handed out by the API.  Made when first asked for, freed with the
 * thread; never NULL (one block is shared by threads that cannot get their own). */
typedef struct ag_scratch {
  char error[4096], site[512];
  ag_params params;
} ag_scratch;
ag_scratch *ag__scratch(void);
void ag__scratch_free(void); /* of this thread */
void ag__thread_scratch(ag_scratch *s); /* it is this thread's: a forked child frees those of the others */

/* ---- memory ---- */
/* Blocks up to AG_POOL_MAX come from per-thread lists of 64-byte classes, larger ones from a shared cache of
 * freed blocks; both fall back to the system.  All are 64-byte aligned.  NULL (and the error set) when out of
 * memory.  size must be given back at ag__free.  Any thread may free what another took. */
enum { AG_POOL_MAX = 2048 };
void *ag__alloc(size_t size);
void ag__free(void *p, size_t size);

/* ---- counters: one block per thread, added up when asked ---- */
typedef struct ag_tls_counters {
  int64_t tensors, nodes, storages, graphs_built, nodes_built, allocations, replays;
  int64_t bytes; /* not yet added to the process's sum */
} ag_tls_counters;
extern AG_TLS ag_tls_counters ag__cnt;
void ag__bytes_publish(void);
/* Bytes of storages: summed per thread and published every 64 kB, so the peak is exact to that. */
static inline void ag__bytes_add(int64_t n) {
  ag__cnt.bytes += n;
  if (AG_UNLIKELY(ag__cnt.bytes > 65536 || ag__cnt.bytes < -65536)) ag__bytes_publish();
}
void ag__alloc_end(void);      /* the library goes: threads that end later take their blocks with them */
void ag__thread_enter(void);   /* registers this thread's counters and lists; called by ag__alloc's slow path */

/* ---- reference counts ---- */
typedef _Atomic int32_t ag_refs;
static inline void ag__ref(ag_refs *r) { atomic_fetch_add_explicit(r, 1, memory_order_relaxed); }
/* True when the count fell to zero.  A sole owner needs no locked instruction. */
static inline bool ag__unref(ag_refs *r) {
  if (atomic_load_explicit(r, memory_order_acquire) == 1) {
    atomic_store_explicit(r, 0, memory_order_relaxed);
    return true;
  }
  return atomic_fetch_sub_explicit(r, 1, memory_order_acq_rel) == 1;
}
static inline bool ag__ref_sole(ag_refs *r) { return atomic_load_explicit(r, memory_order_acquire) == 1; }

/* ---- a lock for the few short sections that need one ---- */
typedef atomic_flag ag_lock;
#define AG_LOCK_INIT ATOMIC_FLAG_INIT
void ag__lock(ag_lock *l);
void ag__unlock(ag_lock *l);

/* ---- source positions ---- */
typedef struct ag_site {
  uintptr_t code; /* 0: unknown */
  int32_t lasti;
} ag_site;
ag_site ag__site_now(void);          /* the thread's current position */
ag_site ag__site_swap(ag_site s);    /* sets it, returns the former */
/* Position of a call made with (code, lasti): itself, the pushed one for library code; false when unknown. */
bool ag__site_resolve(uintptr_t code, int32_t lasti, ag_site *out);
/* Writes "file.py:12 in func" (or nothing) into buf; returns buf. */
char *ag__site_text(ag_site s, char *buf, size_t size);
bool ag__site_line(ag_site s, const char **file, const char **func, int *line);

/* ---- long work lets the host language's other threads run ---- */
void *ag__blocking_begin(void);
void ag__blocking_end(void *token);

#endif
