"""RMSprop and Adagrad, composed of in-place ops."""
from .._create import full_like, zeros, zeros_like
from .._dtypes import float32
from .optimizer import Optimizer, check_at_least_0, check_lr


class RMSprop(Optimizer):
    """v = alpha v + (1 - alpha) g^2; p = p - lr g / (sqrt(v) + eps), through a momentum buffer when momentum > 0.

    centered: v less the square of the moving mean of g.  Source: Hinton's lecture 6; Graves, 2013 (centered).
    """

    def __init__(self, params, lr=1e-2, alpha=0.99, eps=1e-8, weight_decay=0, momentum=0, centered=False, capturable=False, foreach=None,
                 maximize=False, differentiable=False):
        check_lr(lr)
        if not 0.0 <= eps:
            raise ValueError(f"Invalid epsilon value: {eps}")
        check_at_least_0(momentum=momentum, weight_decay=weight_decay, alpha=alpha)
        super().__init__(params, {"lr": lr, "momentum": momentum, "alpha": alpha, "eps": eps, "centered": centered,
                                  "weight_decay": weight_decay, "capturable": capturable, "foreach": foreach, "maximize": maximize,
                                  "differentiable": differentiable})

    def _init_group(self, group):
        names = ["square_avg"] + ["momentum_buffer"] * (group["momentum"] > 0) + ["grad_avg"] * bool(group["centered"])
        for p in group["params"]:
            state = self.state[p]
            if "step" not in state:
                state["step"] = zeros((), dtype=float32)
            for name in names:
                if name not in state:
                    state[name] = zeros_like(p.detach())

    def _update(self, group):
        self._init_group(group)
        alpha, decay = group["alpha"], group["weight_decay"]
        for p in group["params"]:
            g = p.grad
            if g is None:
                continue
            g = -g if group["maximize"] else g.detach()
            s = self.state[p]
            s["step"].add_(1.0)
            if decay != 0:
                g = g + p * decay
            v = s["square_avg"]
            v.mul_(alpha).add_(g * g * (1 - alpha))
            if group["centered"]:
                mean = s["grad_avg"]
                mean.add_((g - mean) * (1 - alpha))
                v = v - mean * mean
            d = g / (v.sqrt() + group["eps"])
            if group["momentum"] > 0:
                d = s["momentum_buffer"].mul_(group["momentum"]).add_(d)
            p.sub_(d * group.lr_tensor)


class Adagrad(Optimizer):
    """s = s + g^2; p = p - lr' g / (sqrt(s) + eps), lr' = lr / (1 + (t - 1) lr_decay).  Source: Duchi et al., 2011."""

    def __init__(self, params, lr=1e-2, lr_decay=0, weight_decay=0, initial_accumulator_value=0, eps=1e-10, foreach=None, *, maximize=False,
                 differentiable=False, fused=None):
        check_lr(lr)
        check_at_least_0(lr_decay=lr_decay, weight_decay=weight_decay, initial_accumulator_value=initial_accumulator_value)
        if not 0.0 <= eps:
            raise ValueError(f"Invalid epsilon value: {eps}")
        super().__init__(params, {"lr": lr, "lr_decay": lr_decay, "eps": eps, "weight_decay": weight_decay,
                                  "initial_accumulator_value": initial_accumulator_value, "foreach": foreach, "maximize": maximize,
                                  "differentiable": differentiable, "fused": fused})

    def _init_group(self, group):
        for p in group["params"]:
            state = self.state[p]
            if "step" not in state:
                state["step"] = zeros((), dtype=float32)
                state["sum"] = full_like(p.detach(), float(group["initial_accumulator_value"]))

    def _update(self, group):
        self._init_group(group)
        for p in group["params"]:
            g = p.grad
            if g is None:
                continue
            g = -g if group["maximize"] else g.detach()
            s = self.state[p]
            if group["weight_decay"] != 0:
                g = g + p * group["weight_decay"]
            lr = group.lr_tensor
            if group["lr_decay"] != 0:
                lr = lr / (s["step"].double() * group["lr_decay"] + 1.0)
            s["step"].add_(1.0)
            s["sum"].add_(g * g)
            p.sub_(g / (s["sum"].sqrt() + group["eps"]) * lr)
