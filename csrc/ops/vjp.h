/* vjp.h: floor 7.  Derivative rules: from the gradients of a node's outputs to those of its inputs. */
#ifndef AG_VJP_H
#define AG_VJP_H

#include "ops/apply.h"

enum { AG_VJP_TEMPS = 64 };

typedef struct ag_vjp {
  ag_node *node;
  const ag_row *row;
  ag_params p;
  ag_tensor *const *g;  /* gradient of each output, NULL where none came */
  const bool *need;     /* inputs that want a gradient */
  ag_tensor **dx;       /* result: new references, NULL where none; may have a broader shape than the input
                           (the engine sums it down) */
  ag_tensor *temps[AG_VJP_TEMPS]; /* results of builders, released at the end */
  int n_temps;
  int status;
} ag_vjp;

/* Saved input i / output i of the node, borrowed from c; NULL (and c->status set) on failure. */
ag_tensor *ag__vx(ag_vjp *c, int i);
ag_tensor *ag__vy(ag_vjp *c, int i);
/* Shape and type of input i, known where need[i]. */
const ag_meta *ag__vmeta(const ag_vjp *c, int i);

/* Builders: run one op; the result is borrowed from c.  NULL operands give NULL, so that a failure runs
 * through an expression to its end. */
ag_tensor *ag__b(ag_vjp *c, int op, int n_in, ag_tensor *const *in, const ag_params *p);
ag_tensor *ag__b1(ag_vjp *c, int op, ag_tensor *a);
ag_tensor *ag__b2(ag_vjp *c, int op, ag_tensor *a, ag_tensor *b);
ag_tensor *ag__b3(ag_vjp *c, int op, ag_tensor *a, ag_tensor *b, ag_tensor *d);
/* With integer parameters: ag__bi(c, op, a, n, i0, i1, ...). */
ag_tensor *ag__bi(ag_vjp *c, int op, ag_tensor *a, int n, ...);
ag_tensor *ag__bints(ag_vjp *c, int op, ag_tensor *a, int n, const int64_t *ints);
ag_tensor *ag__bnum(ag_vjp *c, double v, int dtype); /* 0-d constant */
ag_tensor *ag__bscale(ag_vjp *c, ag_tensor *a, double v); /* a * v */
ag_tensor *ag__bzeros(ag_vjp *c, int dtype, int ndim, const int64_t *shape);
ag_tensor *ag__bshape(ag_vjp *c, int op, ag_tensor *a, int ndim, const int64_t *shape); /* view, expand, sum_to */
/* a under another shape: view where it can be, else a copy. */
ag_tensor *ag__breshape(ag_vjp *c, ag_tensor *a, int ndim, const int64_t *shape);
/* dx[i] = r (borrowed from c or an operand); returns c->status. */
int ag__give(ag_vjp *c, int i, ag_tensor *r);

/* Runs the rule of n.  Fused kernels where nobody differentiates or records what happens here. */
int ag__run_vjp(ag_node *n, ag_tensor *const *g, const bool *need, ag_tensor **dx);

#endif
