/* pool.h: floor 0.  Threads inside an operation.
 *
 * One pool for the process, started when work first asks for it, of ag_get_num_threads() - 1 threads; the caller is
 * the last one.  Work is an index range cut into chunks.  Who takes which chunk is left to chance, so a task must
 * give the same bits for any cut: elements and rows are, sums are not, except over parts that the sizes alone define.
 *
 * The pool serves one caller at a time.  Whoever finds it taken (another thread, or a task that asks again from
 * inside) runs its work alone: nothing waits for a lock, and there are never more threads than asked for per caller.
 * A thread of the pool that comes late (a loaded machine) is not waited for: its chunks are taken by the others.
 * After a fork the child starts threads of its own when it first needs them. */
#ifndef AG_POOL_H
#define AG_POOL_H

#include "base/base.h"

/* Works on from .. to (of 0 .. n).  slot: number of the thread within this call, 0 (the caller) .. width - 1; no two
 * chunks that run at the same time share one, so scratch memory may go by it.  Returns AG_OK or the code of a failure
 * whose text is in this thread's hand (ag__fail).  May run in any thread: nothing of the caller's thread (grad mode,
 * trace, position) is known there, and no reference may be dropped there. */
typedef int ag_task(void *ctx, int slot, int64_t from, int64_t to);

/* grain: elements or pieces below which a chunk does not pay.  Tests make it small, so that small work is cut too. */
extern int64_t ag__grain_divisor;
static inline bool ag__worth(int64_t n, int64_t grain) { return n * ag__grain_divisor >= 2 * grain; }

/* Runs fn over 0 .. n, by threads when that is worth it, else by one call.  The failure that is reported is that of the
 * lowest chunk, as without threads; chunks behind it may not have run. */
int ag__parallel_run(int64_t n, int64_t grain, int width, ag_task *fn, void *ctx);
static inline int ag__parallel(int64_t n, int64_t grain, ag_task *fn, void *ctx) {
  if (AG_LIKELY(!ag__worth(n, grain))) return n > 0 ? fn(ctx, 0, 0, n) : AG_OK;
  return ag__parallel_run(n, grain, 0, fn, ctx);
}

/* How many slots a call over n pieces may see, 1 when it is not worth it; give it to ag__parallel_run so that it holds
 * (0 there: any number). */
int ag__parallel_width(int64_t n, int64_t grain);

/* Threads of the pool alive now, for tests. */
int ag__pool_started(void);

#endif
