"""Stochastic gradient descent."""
from .._create import ones, zeros_like
from .._ffi import NULL, check, lib
from .optimizer import Optimizer, check_at_least_0, check_lr


class SGD(Optimizer):
    """d = grad + weight_decay p; b = momentum b + (1 - dampening) d; p = p - lr (d + momentum b if nesterov, else b).

    Without momentum b is d.  b starts as d (not damped).  maximize: grad counts with the other sign.
    Source: Sutskever et al., 2013, in PyTorch's form.
    """

    def __init__(self, params, lr=1e-3, momentum=0, dampening=0, weight_decay=0, nesterov=False, *, maximize=False, foreach=None,
                 differentiable=False, fused=None):
        check_lr(lr)
        check_at_least_0(momentum=momentum, weight_decay=weight_decay)
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError("Nesterov momentum requires a momentum and zero dampening")
        super().__init__(params, {"lr": lr, "momentum": momentum, "dampening": dampening, "weight_decay": weight_decay,
                                  "nesterov": nesterov, "maximize": maximize, "foreach": foreach, "differentiable": differentiable,
                                  "fused": fused})

    def _init_group(self, group):
        if group["momentum"] != 0:
            for p in group["params"]:
                self._buffer(p)
                if group["dampening"] != 0:
                    self._first(p)

    def _buffer(self, p):
        """Zeros serve as a start: momentum 0 + d = d."""
        state = self.state[p]
        if state.get("momentum_buffer") is None:
            state["momentum_buffer"] = zeros_like(p.detach())
        return state["momentum_buffer"]

    def _first(self, p):
        """1 until the first update of p, then 0: the first d is not damped."""
        state = self.state[p]
        if state.get("first") is None:
            state["first"] = ones((), dtype=p.dtype)
        return state["first"]

    def _update(self, group):
        momentum, dampening = group["momentum"], group["dampening"]
        if momentum != 0 and dampening != 0:
            return self._damped(group)
        params = group.handles("params", lambda p: p)
        buffers = group.handles("momentum_buffer", self._buffer, self.state) if momentum != 0 else NULL
        check(lib.ag_sgd_step(len(params), params, buffers, group.lr_tensor._h, momentum, dampening, group["weight_decay"],
                              group["nesterov"], group["maximize"]))

    def _damped(self, group):
        momentum, dampening, decay = group["momentum"], group["dampening"], group["weight_decay"]
        for p in group["params"]:
            d = p.grad
            if d is None:
                continue
            d = -d if group["maximize"] else d.detach()
            if decay != 0:
                d = d + p * decay
            b, first = self._buffer(p), self._first(p)
            b.mul_(momentum).add_(d * (first * dampening + (1 - dampening)))
            first.zero_()
            p.sub_(b * group.lr_tensor)
