/* apply.h: floor 6.  The dispatcher: the only way to make a tensor from tensors. */
#ifndef AG_APPLY_H
#define AG_APPLY_H

#include "ops/node.h"

/* check - infer shape - exec - record node - append to trace.  outs receives row.n_out new tensors. */
int ag__apply(int op, int n_in, ag_tensor *const *in, const ag_params *p, ag_tensor **outs);
/* The same, result written into in[0]. */
int ag__apply_inplace(int op, int n_in, ag_tensor *const *in, const ag_params *p);
/* One output, NULL on failure. */
ag_tensor *ag__apply1(int op, int n_in, ag_tensor *const *in, const ag_params *p);

/* Who listens while a trace is on (freeze/trace.c, a floor above, fills this in).  All calls happen in the
 * tracing thread; every function returns AG_OK or a failure that ag__apply passes on. */
typedef struct ag_recorder {
  /* op ran: out[] are new arrays, or in[0] again for writes in place (inplace). */
  int (*record)(struct ag_recorder *r, int op, int n_in, ag_array *const *in, const ag_params *p, int n_out,
                ag_array *const *out, bool inplace);
  /* arr was made from data of the host program: a constant of the program. */
  int (*constant)(struct ag_recorder *r, ag_array *arr);
  /* The host is about to read the value of arr: a refusal. */
  int (*read)(struct ag_recorder *r, ag_array *arr, const char *what);
  /* t->grad of a leaf is about to be read or added to / replaced (new may be NULL). */
  int (*grad_read)(struct ag_recorder *r, ag_tensor *leaf);
  int (*grad_write)(struct ag_recorder *r, ag_tensor *leaf, ag_tensor *value);
  /* t takes part in an op: t's array must be the same at replay (external tensors only). */
  int (*touch)(struct ag_recorder *r, ag_tensor *t);
} ag_recorder;

typedef struct ag_thread {
  ag_recorder *recorder; /* NULL: no trace */
  int no_grad;           /* 0: grad mode on */
} ag_thread;
extern AG_TLS ag_thread ag__thread;

static inline bool ag__grad_on(void) { return !ag__thread.no_grad; }
static inline bool ag__recording(void) { return AG_UNLIKELY(ag__thread.recorder != NULL); }
/* Fails when a trace is on: the value of arr is about to be read by the host program. */
int ag__check_read(ag_array *arr, const char *what);

/* Refuses saved values that were released or written to since. */
int ag__saved_check(ag_node *n, uint32_t k);
/* Data of saved value k of n, as a tensor (new) with its
 * place in the graph when grad mode is on. */
ag_tensor *ag__saved_tensor(ag_node *n, uint32_t k);
/* Names op and operand shapes, and the user's line, behind the failure in hand. */
void ag__explain(const ag_row *row, int n_in, ag_tensor *const *in);

#endif
