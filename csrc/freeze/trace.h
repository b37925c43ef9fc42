/* trace.h: floor 9.  A trace listens to the dispatcher and writes a program. */
#ifndef AG_TRACE_H
#define AG_TRACE_H

#include "freeze/program.h"

/* Flag of ag_trace_end beside the pass bits: fail with AG_ERR_NOT_IMPLEMENTED when a tensor made inside the
 * trace lives on without being a result (kept in an attribute or a list): replay would not renew it. */
#define AG_TRACE_STRICT ((uint64_t)1 << 63)

struct ag_trace {
  ag_recorder rec; /* first: the dispatcher calls back with its address */
  ag_program *g;
  uint64_t epoch;
  ag_pmap tensors; /* tensors from outside: guard number, or -2 - input number */
  ag_pmap outside; /* their storages */
  ag_pmap leaves;
  ag_tensor **inputs; /* references held */
  int32_t room;       /* of inputs */
  bool failed;
};

/* Turns a finished trace into a program (given to the caller), before any pass; frees the trace. */
ag_program *ag__trace_finish(ag_trace *tr, int n_outputs, ag_tensor *const *outputs, bool strict);

#endif
