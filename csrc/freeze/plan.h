/* plan.h: floor 9.  A program made ready to run: resolved pointers, one arena, a flat list of steps.
 *
 * Every storage of the program has a home: bound memory, a constant, a place in the arena, a register of an
 * elementwise loop (a block that stays in the first-level cache), or a memory that changes from run to run
 * (inputs, gradients, results).  Only pointers into the last kind are patched when a run begins. */
#ifndef AG_PLAN_H
#define AG_PLAN_H

#include "freeze/program.h"

enum ag_home { AG_HOME_NONE, AG_HOME_FIXED, AG_HOME_ARENA, AG_HOME_REGISTER, AG_HOME_VAR };

/* Where a storage lives and when. */
typedef struct ag_life {
  uint8_t home;
  bool aligned;          /* all accesses are contiguous from the start of the storage, over all of it */
  int32_t first, last;   /* units that touch it; first -1: none */
  int32_t into;          /* shares the place of that storage (it dies where this one is born), or -1 */
  int32_t var;           /* AG_HOME_VAR */
  int64_t at;            /* AG_HOME_ARENA: offset */
} ag_life;

enum ag_stepkind { AG_STEP_EW, AG_STEP_CAST, AG_STEP_COPY, AG_STEP_FILL, AG_STEP_TILE, AG_STEP_RUNS, AG_STEP_PACK, AG_STEP_EXEC, AG_STEP_LOOP };

struct ag_loop;
typedef struct ag_spread { /* a strided or repeated operand */
  int64_t period, distinct; /* TILE: length of the row; RUNS: of a run, and how many there are before they begin again */
  int ndim;
  int64_t shape[AG_MAX_NDIM], strides[AG_MAX_NDIM];
} ag_spread;

typedef struct ag_step {
  uint8_t kind, size; /* size: bytes per element moved */
  uint8_t in_size[3]; /* with a grain: bytes by which the operands advance; 0: stays */
  int32_t ins;
  int64_t n, grain;   /* grain: one kernel over whole operands large enough for the pool; else 0 */
  union {
    ag_k_ew *ew;
    ag_k_cast *cast;
    const ag_spread *spread;
    const ag_exec *exec;
    const struct ag_loop *loop;
  } f;
  char *out;
  const char *in[3];
  const double *p;
} ag_step;

/* Steps run for block after block of numel elements; prologue steps once before. */
typedef struct ag_loop {
  int64_t numel, block, cost; /* cost: of one element in all steps, in additions */
  int32_t n_pro, n_steps;
  ag_step *pro, *steps;
  uint8_t (*inc)[4]; /* bytes per element by which out, in[0..2] advance; 0: stays in its block */
} ag_loop;

typedef struct ag_patch {
  char **slot;
  int64_t off, code; /* while building: step number when slot is NULL, off2 the place in it */
  int32_t var;
  uint32_t field;
} ag_patch;

/* A memory that changes from run to run. */
typedef struct ag_var {
  char *base; /* in the latest run */
  int32_t st, first, n; /* patches */
  int32_t users;        /* fresh tensors over it */
  uint32_t writes;      /* versions the program adds */
} ag_var;

typedef struct ag_tile {
  char *data;
  int64_t n;
} ag_tile;

struct ag_plan {
  ag_refs refs;
  ag_lock lock;
  ag_program *g;
  ag_bump mem;
  ag_life *life; /* freed after the build */
  ag_var *vars;
  int32_t n_vars;
  ag_patch *patches;
  int64_t n_patches, cap_patches;
  ag_step *code;
  int64_t n_code, cap_code;
  char *arena, *scratch;
  char *more; /* scratch of the pool's threads, made when a run first has use for them */
  int64_t arena_bytes, scratch_bytes, more_bytes, lower_bound;
  ag_tile *tiles; /* constants spread over a block, for the loops; freed after the build, as the map */
  int64_t n_tiles, cap_tiles;
  ag_pmap tile_of;
  struct ag_written {
    ag_storage *st;
    uint32_t writes;
  } *written; /* bound storages that the program writes */
  int64_t n_written;
  ag_tensor **kept;    /* per fresh tensor: gradient of the latest run, reference held */
  ag_storage **memory; /* per variable storage of this run, borrowed or owned by the run */
  ag_tensor **made;    /* per fresh tensor, in this run */
  ag_tensor **entry;   /* per leaf, the .grad this run starts with; borrowed */
  bool *keeps;         /* per fresh tensor: the next run may use its memory again */
  int32_t *var_of;     /* per fresh tensor */
  bool inputs_written; /* the program writes into an input */
  ag_plan_info info;
};

/* ---- the steps of the build ---- */
/* Homes and lifetimes; merges places (inplace) and lays out the arena (reuse off: everything apart). */
int ag__plan_memory(ag_plan *p, bool inplace, bool reuse);
/* Offsets for n memories of given sizes and lifetimes; at[] and the total size. */
typedef struct ag_span {
  int64_t size, at;
  int32_t first, last;
} ag_span;
int ag__arena_layout(ag_span *s, int64_t n, int64_t *total, int64_t *lower_bound);
/* Appends the steps of an elementwise unit. */
int ag__plan_loop(ag_plan *p, const ag_unit *u);
/* Address of v, now (false and *out untouched where it changes from run to run). */
bool ag__plan_address(const ag_plan *p, const ag_val *v, char **out);
/* Makes *slot (or field of code step `code` when slot is NULL) point to v, now or at each run. */
int ag__plan_bind(ag_plan *p, const ag_val *v, char **slot, int64_t code, size_t field);

/* The next run may write into fresh tensor k again when nobody but its leaf holds it. */
bool ag__plan_may_keep(const ag_plan *p, int64_t k);

ag_plan *ag__plan_new(ag_program *g, uint64_t off); /* takes over g, also on failure */

#endif
