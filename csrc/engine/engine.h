/* engine.h: floor 8.  Runs the dynamic graph backward. */
#ifndef AG_ENGINE_H
#define AG_ENGINE_H

#include "ops/vjp.h"

/* One run.  roots/seeds as ag_grad (seeds[i] NULL: ones).  inputs NULL: gradients go to the .grad of every leaf.
 * Otherwise only what leads to the inputs is computed; grads[i] is new or NULL, or with accumulate goes to
 * inputs[i]'s .grad. */
typedef struct ag_run {
  int n_roots, n_inputs;
  ag_tensor *const *roots, *const *seeds, *const *inputs;
  ag_tensor **grads;
  bool retain_graph, create_graph, accumulate;
} ag_run;
int ag__engine_run(const ag_run *r);

/* t->grad += g as backward does it. */
int ag__accumulate_grad(ag_tensor *t, ag_tensor *g);
/* Replaces t->grad; g may be NULL.  Tells a running trace. */
int ag__set_grad(ag_tensor *t, ag_tensor *g);

#endif
