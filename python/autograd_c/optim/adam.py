"""Adam and AdamW."""
from .._create import zeros, zeros_like
from .._dtypes import float32
from .._ffi import check, lib
from .optimizer import Optimizer, check_at_least_0, check_lr


class Adam(Optimizer):
    """m, v: moving means of g and g^2; p = p - lr m' / (sqrt(v') + eps), m' = m / (1 - b1^t), v' = v / (1 - b2^t).

    weight_decay adds weight_decay p to g, or with decoupled_weight_decay shrinks p by lr weight_decay first.
    amsgrad: the largest v' so far instead of v'.  Source: Kingma and Ba, 2015; Reddi et al., 2018.
    """

    _decoupled = False

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0, amsgrad=False, *, foreach=None, maximize=False,
                 capturable=False, differentiable=False, fused=None, decoupled_weight_decay=False):
        check_lr(lr)
        if not 0.0 <= eps:
            raise ValueError(f"Invalid epsilon value: {eps}")
        for k in (0, 1):
            if not 0.0 <= betas[k] < 1.0:
                raise ValueError(f"Invalid beta parameter at index {k}: {betas[k]}")
        check_at_least_0(weight_decay=weight_decay)
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "amsgrad": amsgrad,
                                  "maximize": maximize, "foreach": foreach, "capturable": capturable,
                                  "differentiable": differentiable, "fused": fused,
                                  "decoupled_weight_decay": self._decoupled or decoupled_weight_decay})

    def _init_group(self, group):
        for p in group["params"]:
            state = self.state[p]
            if "step" not in state:
                state["step"] = zeros((), dtype=float32)
            names = ("exp_avg", "exp_avg_sq", "max_exp_avg_sq") if group["amsgrad"] else ("exp_avg", "exp_avg_sq")
            for name in names:
                if name not in state:
                    state[name] = zeros_like(p.detach())

    def _state(self, name, group):
        def make(p):
            if name not in self.state[p]:  # the user cleared the state, or changed an option
                self._init_group(group)
            return self.state[p][name]

        return group.handles(name, make, self.state)

    def _update(self, group):
        b1, b2 = group["betas"]
        if group["amsgrad"]:
            return self._amsgrad(group, b1, b2)
        params = group.handles("params", lambda p: p)
        check(lib.ag_adam_step(len(params), params, self._state("exp_avg", group), self._state("exp_avg_sq", group),
                               self._state("step", group), group.lr_tensor._h, b1, b2, group["eps"], group["weight_decay"],
                               group["decoupled_weight_decay"], group["maximize"]))

    def _amsgrad(self, group, b1, b2):
        self._init_group(group)
        lr, decay = group.lr_tensor, group["weight_decay"]
        for p in group["params"]:
            g = p.grad
            if g is None:
                continue
            g = -g if group["maximize"] else g.detach()
            s = self.state[p]
            s["step"].add_(1.0)
            if decay != 0:
                if group["decoupled_weight_decay"]:
                    p.mul_(1.0 - lr * decay)
                else:
                    g = g + p * decay
            m, v, largest = s["exp_avg"], s["exp_avg_sq"], s["max_exp_avg_sq"]
            m.mul_(b1).add_(g * (1 - b1))
            v.mul_(b2).add_(g * g * (1 - b2))
            largest.copy_(largest.maximum(v))
            t = s["step"].double()
            size = lr / (1.0 - b1**t)
            p.sub_(m * size / (largest.sqrt() / (1.0 - b2**t).sqrt() + group["eps"]))


class AdamW(Adam):
    """Adam whose weight decay shrinks the parameters directly.  Source: Loshchilov and Hutter, 2019."""

    _decoupled = True

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=1e-2, amsgrad=False, *, maximize=False, foreach=None,
                 capturable=False, differentiable=False, fused=None):
        super().__init__(params, lr, betas, eps, weight_decay, amsgrad, foreach=foreach, maximize=maximize, capturable=capturable,
                         differentiable=differentiable, fused=fused)
