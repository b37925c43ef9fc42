/* optim.c: one call for all parameters of a group: a loop over the update ops, gradients read from the leaves. */
#include "ops/apply.h"

/* Gradient of a parameter, borrowed; NULL when there is none.  A running trace hears of it. */
static int gradient(ag_tensor *p, ag_tensor **g) {
  *g = NULL;
  if (!p) return ag__fail(AG_ERR_TYPE, "a parameter is missing");
  if (ag__recording()) {
    int st = ag__thread.recorder->grad_read(ag__thread.recorder, p);
    if (st) return st;
  }
  *g = p->grad;
  return AG_OK;
}

int ag_sgd_step(int n, ag_tensor *const *params, ag_tensor *const *momentum_buffers, ag_tensor *lr, double momentum,
                double dampening, double weight_decay, int nesterov, int maximize) {
  ag_params p = {.ni = 1, .nf = 3, .i = {(nesterov ? 1 : 0) | (maximize ? 2 : 0)}, .f = {momentum, dampening, weight_decay}};
  int st = AG_OK, former = ag__thread.no_grad;
  ag__thread.no_grad = 1;
  for (int k = 0; k < n && !st; k++) {
    ag_tensor *in[4] = {params[k], NULL, lr, NULL};
    st = gradient(params[k], &in[1]);
    if (st || !in[1]) continue;
    if (momentum != 0) {
      in[3] = momentum_buffers ? momentum_buffers[k] : NULL;
      if (!in[3]) {
        st = ag__fail(AG_ERR_VALUE, "sgd: momentum needs a buffer for each parameter, but number %d has none", k);
        break;
      }
    }
    st = ag__apply_inplace(AG_OP_sgd, in[3] ? 4 : 3, in, &p);
  }
  ag__thread.no_grad = former;
  return st;
}

int ag_adam_step(int n, ag_tensor *const *params, ag_tensor *const *exp_avg, ag_tensor *const *exp_avg_sq,
                 ag_tensor *const *steps, ag_tensor *lr, double beta1, double beta2, double eps, double weight_decay,
                 int decoupled, int maximize) {
  ag_params p = {.ni = 1, .nf = 4, .i = {(decoupled ? 1 : 0) | (maximize ? 2 : 0)}, .f = {beta1, beta2, eps, weight_decay}};
  int st = AG_OK, former = ag__thread.no_grad;
  ag__thread.no_grad = 1;
  for (int k = 0; k < n && !st; k++) {
    ag_tensor *in[6] = {params[k], NULL, lr, exp_avg[k], exp_avg_sq[k], steps[k]};
    st = gradient(params[k], &in[1]);
    if (!st && in[1]) st = ag__apply_inplace(AG_OP_adam, 6, in, &p);
  }
  ag__thread.no_grad = former;
  return st;
}
