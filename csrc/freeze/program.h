/* program.h: floor 9.  The static graph: what a trace recorded, as a typed list of instructions.
 *
 * A value is a storage at a version: (storage, version) is written once, so the list is in single
 * assignment although ops may write in place.  Views are no instructions: every operand says with which
 * shape, strides and offset it looks at its storage.
 *
 *   version 0   what the storage holds before the program runs (bound, constant, input, gradient); internal
 *               storages have none
 *   version v   what the v-th write left; a write to a part keeps the rest of version v-1
 *
 * Everything lives in the program's own memory and goes with it; passes only rewrite. */
#ifndef AG_PROGRAM_H
#define AG_PROGRAM_H

#include "ops/apply.h"

/* ---- memory that is given back as a whole ---- */
typedef struct ag_chunk {
  struct ag_chunk *next;
  size_t size;
} ag_chunk;
typedef struct ag_bump {
  ag_chunk *chunks;
  char *at, *end;
} ag_bump;
void *ag__bump(ag_bump *b, size_t size); /* zeroed, 16-byte aligned; NULL when out of memory */
void ag__bump_free(ag_bump *b);

/* Room for one more element of a growing array; false when out of memory. */
bool ag__grow(void *array, int64_t n, int64_t *cap, size_t elem);
#define AG_PUSH(a, n, cap) (ag__grow(&(a), (n), &(cap), sizeof *(a)) ? &(a)[(n)++] : NULL)
#define AG_VEC_FREE(a, cap) ag__free((a), sizeof *(a) * (size_t)(cap))

/* Pointer to number, open addressing. */
typedef struct ag_pmap {
  const void **key;
  int32_t *value;
  int64_t n, cap;
} ag_pmap;
int32_t *ag__pmap_find(const ag_pmap *m, const void *key); /* NULL when absent */
int32_t *ag__pmap_add(ag_pmap *m, const void *key);        /* slot, -1 when new; NULL when out of memory */
void ag__pmap_free(ag_pmap *m);

static inline uint64_t ag__mix(uint64_t h, uint64_t v) {
  h = (h ^ v) * 0x9E3779B97F4A7C15u;
  return h ^ (h >> 29);
}

/* ---- geometry, interned: equal geometries are the same pointer ---- */
typedef struct ag_geo {
  uint8_t dtype, ndim;
  bool contiguous, uniform; /* uniform: all elements are one (a single one, or strides 0) */
  int64_t numel;
  struct ag_geo *next;
  int64_t dims[]; /* shape, then strides */
} ag_geo;

typedef struct ag_val {
  int32_t st;
  uint32_t ver;
  int64_t offset; /* elements of the geometry's type from the start of the storage */
  const ag_geo *geo;
} ag_val;

typedef struct ag_ins {
  int16_t op;
  bool inplace, dead;
  uint8_t n_out, n_written; /* outputs of the row; then storages that are written beside (generator, optimizer state) */
  uint32_t n_in;
  ag_val *in, *out;
  const ag_params *p;
  ag_site site;
} ag_ins;

enum ag_pkind {
  AG_P_INTERNAL, /* made by the program */
  AG_P_CONST,    /* never changes; held by the program */
  AG_P_BOUND,    /* lives outside, reached by reference: parameters, optimizer state, captured tensors */
  AG_P_INPUT,    /* of the caller, another one at each run */
  AG_P_GRAD      /* the .grad a leaf has when the program starts, another one at each run */
};

typedef struct ag_pst {
  uint8_t kind, dtype;
  bool visible;    /* internal, but outlives a run: result or gradient */
  int32_t index;   /* AG_P_INPUT: input number, AG_P_GRAD: leaf number */
  uint32_t writes; /* latest version */
  int64_t nbytes;
  ag_storage *st;  /* AG_P_CONST, AG_P_BOUND: reference held */
  const ag_geo *geo; /* as first seen */
} ag_pst;

/* Where a resulting tensor comes from. */
enum ag_srckind { AG_SRC_NONE, AG_SRC_INPUT, AG_SRC_GRAD, AG_SRC_BOUND, AG_SRC_FRESH };
typedef struct ag_src {
  uint8_t kind;
  int32_t index; /* input, leaf or fresh number */
  ag_tensor *t;  /* AG_SRC_BOUND: reference held */
} ag_src;

/* A tensor that each run makes. */
typedef struct ag_fresh {
  ag_val v;
  bool leaf_grad, result; /* result: among the outputs */
  int32_t leaf;           /* becomes the gradient of this leaf alone, else -1: may be used again */
  ag_src grad;            /* its own .grad */
} ag_fresh;

/* A leaf whose .grad the program meets. */
typedef struct ag_leaf {
  ag_tensor *t;     /* reference held; NULL for an input */
  int32_t input;    /* -1 when bound */
  bool entry_read;  /* the program depends on the .grad it starts with .. */
  bool entry;       /* .. which is a tensor (else None) */
  bool change;      /* .grad is replaced at the end, by exit */
  ag_val entry_val; /* st < 0: bound by reference, see guards */
  ag_tensor *entry_t; /* during the trace, and where bound: which tensor; reference held */
  ag_src exit;
} ag_leaf;

/* A tensor that must be found as it was. */
typedef struct ag_guard {
  ag_tensor *t;   /* reference held */
  ag_array *arr;  /* reference held */
  bool requires_grad;
} ag_guard;

typedef struct ag_pinput {
  ag_val v;
  bool requires_grad, pinned; /* pinned: another tensor of the program shares its memory, it cannot be exchanged */
  ag_storage *pin;            /* reference held when pinned */
} ag_pinput;

/* What runs at once: one instruction, or an elementwise group. */
typedef struct ag_unit {
  int32_t first, n; /* into members */
  bool ew;          /* all members are elementwise over numel elements, contiguous results */
  int64_t numel;
} ag_unit;

typedef struct ag_program {
  ag_bump mem;
  ag_geo **geos; /* hash table */
  int64_t n_geos, cap_geos;
  struct ag_pparam **params; /* hash table */
  int64_t n_params, cap_params;

  ag_ins *ins;
  int64_t n_ins, cap_ins;
  ag_pst *st;
  int64_t n_st, cap_st;

  ag_pinput *inputs;
  int32_t n_inputs, n_outputs;
  ag_src *outputs;
  ag_fresh *fresh;
  int64_t n_fresh, cap_fresh;
  ag_leaf *leaves;
  int64_t n_leaves, cap_leaves;
  ag_guard *guards;
  int64_t n_guards, cap_guards;

  ag_unit *units; /* set by the fusion pass */
  int32_t *members;
  int64_t n_units;

  bool grad_mode;    /* when the trace began */
  int default_dtype;
  int64_t traced, removed_dead, removed_cse, folded, combined, in_place; /* statistics */
} ag_program;

ag_program *ag__program_new(void);
void ag__program_free(ag_program *g);

const ag_geo *ag__program_geo(ag_program *g, int dtype, int ndim, const int64_t *shape, const int64_t *strides);
const ag_params *ag__program_params(ag_program *g, const ag_params *p);
/* New storage; its number or -1. */
int32_t ag__program_storage(ag_program *g, int kind, int64_t nbytes, int dtype);
/* New instruction with room for its operands, all else zero; borrowed until the next one. */
ag_ins *ag__program_ins(ag_program *g, int op, uint32_t n_in, int n_out, int n_written);
/* Value over the whole of a storage as n contiguous elements. */
bool ag__program_whole(ag_program *g, int32_t st, uint32_t ver, ag_val *out);

static inline const int64_t *ag__geo_shape(const ag_geo *q) { return q->dims; }
static inline const int64_t *ag__geo_strides(const ag_geo *q) { return q->dims + q->ndim; }
static inline const ag_row *ag__ins_row(const ag_ins *i) { return &ag__rows[i->op]; }
static inline int64_t ag__val_bytes(const ag_val *v) { return v->geo->numel * ag__dtype_size(v->geo->dtype); }
/* v covers its storage from end to end. */
static inline bool ag__val_whole(const ag_program *g, const ag_val *v) {
  return v->offset == 0 && v->geo->contiguous && ag__val_bytes(v) == g->st[v->st].nbytes;
}
/* in[0] is overwritten without being read. */
static inline bool ag__ins_overwrites(const ag_ins *i) {
  return i->op == AG_OP_copy || i->op == AG_OP_fill || ag__ins_row(i)->flags & OF_RANDOM;
}
/* First input that is read. */
static inline uint32_t ag__ins_first_read(const ag_ins *i) { return i->inplace && ag__ins_overwrites(i) ? 1 : 0; }
/* No effect beside its outputs, same operands same bits. */
static inline bool ag__ins_pure(const ag_ins *i) {
  return !i->inplace && i->n_written == i->n_out && !(ag__ins_row(i)->flags & (OF_RANDOM | OF_INPLACE_ONLY));
}
/* Inputs beside in[0] that an op writes, as a bit mask. */
uint32_t ag__op_side_writes(int op, int n_in);

/* Outlives a run: writes to it are the program's effect. */
static inline bool ag__st_observed(const ag_pst *s) { return s->visible || (s->kind != AG_P_INTERNAL && s->kind != AG_P_CONST); }

/* Text of the program as the passes left it; NULL when out of memory. */
char *ag__program_text(const ag_program *g);

/* ---- checks and passes ---- */
/* Every read sees the current version, every storage is written before it is read, operands stay inside their
 * memory, elementwise shapes and types agree.  after: name of the pass, for the message. */
int ag__program_verify(const ag_program *g, const char *after);

enum ag_pass { AG_PASS_fold, AG_PASS_copies, AG_PASS_cse, AG_PASS_dce, AG_PASS_fuse, AG_PASS_combine, AG_PASS_inplace, AG_PASS_arena, AG_PASS_COUNT };
/* Forward rewriting: constants are computed, copies and multiplications by one are seen through, equal
 * instructions are done once; off: bits of the passes to leave out. */
int ag__pass_simplify(ag_program *g, uint64_t off);
/* Instructions without effect go. */
int ag__pass_dce(ag_program *g);
/* Groups elementwise instructions; without fuse every instruction is a unit of its own. */
int ag__pass_fuse(ag_program *g, bool fuse);
/* Products and sums in one kernel. */
int ag__pass_combine(ag_program *g);
/* Can run block by block inside a group of v's numel elements. */
bool ag__ins_elementwise(const ag_ins *i);

#endif
