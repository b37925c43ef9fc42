"""Learning rates that change over time: call scheduler.step() after optimizer.step(), outside of frozen functions."""
from bisect import bisect_right as _bisect_right
from collections import Counter as _Counter
import math as _math
import warnings as _warnings

from .._tensor import Tensor
from .optimizer import Optimizer


def _set(group, lr):
    old = group["lr"]
    if isinstance(old, Tensor):
        old.detach().fill_(float(lr))
    else:
        group["lr"] = lr


def _number(lr):
    return lr.item() if isinstance(lr, Tensor) else lr


class LRScheduler:
    """Base: subclasses give get_lr(), the rates of all groups at self.last_epoch."""

    def __init__(self, optimizer, last_epoch=-1):
        if not isinstance(optimizer, Optimizer):
            raise TypeError(f"{type(optimizer).__name__} is not an Optimizer")
        self.optimizer = optimizer
        if last_epoch == -1:
            for group in optimizer.param_groups:
                group.setdefault("initial_lr", _number(group["lr"]))
        else:
            for k, group in enumerate(optimizer.param_groups):
                if "initial_lr" not in group:
                    raise KeyError(f"param 'initial_lr' is not specified in param_groups[{k}] when resuming an optimizer")
        self.base_lrs = [group["initial_lr"] for group in optimizer.param_groups]
        self.last_epoch = last_epoch
        self._step_count = 0
        self._is_initial = True
        self.step()
        self._is_initial = False

    def get_lr(self):
        raise NotImplementedError

    def get_last_lr(self):
        """The rates set last, one for each group."""
        return self._last_lr

    def _rates(self):
        return [_number(group["lr"]) for group in self.optimizer.param_groups]

    def step(self, epoch=None):
        """One step of the schedule; epoch: go to that one."""
        opt = self.optimizer
        ours = type(opt).step is Optimizer.step
        if self._step_count == 1 and ours and not opt._opt_called:
            _warnings.warn("Detected call of `lr_scheduler.step()` before `optimizer.step()`. In PyTorch 1.1.0 and later, you should call "
                           "them in the opposite order: `optimizer.step()` before `lr_scheduler.step()`.  Failure to do this will result "
                           "in PyTorch skipping the first value of the learning rate schedule.", UserWarning, stacklevel=2)
        self._step_count += 1
        if epoch is None:
            self.last_epoch += 1
            values = self.get_lr()
        else:
            self.last_epoch = epoch
            values = self._closed_form() if hasattr(self, "_closed_form") else self.get_lr()
        for group, lr in zip(opt.param_groups, values):
            _set(group, lr)
        self._last_lr = self._rates()

    def state_dict(self):
        return {k: v for k, v in self.__dict__.items() if k != "optimizer"}

    def load_state_dict(self, state_dict):
        self.__dict__.update(state_dict)


_LRScheduler = LRScheduler


class LambdaLR(LRScheduler):
    """initial rate times lr_lambda(epoch); a list gives a function for each group."""

    def __init__(self, optimizer, lr_lambda, last_epoch=-1):
        n = len(optimizer.param_groups)
        if isinstance(lr_lambda, (list, tuple)):
            if len(lr_lambda) != n:
                raise ValueError(f"Expected {n} lr_lambdas, but got {len(lr_lambda)}")
            self.lr_lambdas = list(lr_lambda)
        else:
            self.lr_lambdas = [lr_lambda] * n
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        return [base * f(self.last_epoch) for f, base in zip(self.lr_lambdas, self.base_lrs)]

    def state_dict(self):
        """Functions are left out; callable objects keep their attributes."""
        state = {k: v for k, v in super().state_dict().items() if k != "lr_lambdas"}
        state["lr_lambdas"] = [None if hasattr(f, "__code__") else dict(f.__dict__) for f in self.lr_lambdas]
        return state

    def load_state_dict(self, state_dict):
        state = dict(state_dict)
        for f, values in zip(self.lr_lambdas, state.pop("lr_lambdas")):
            if values is not None:
                f.__dict__.update(values)
        self.__dict__.update(state)


class MultiplicativeLR(LambdaLR):
    """Former rate times lr_lambda(epoch)."""

    def get_lr(self):
        if self.last_epoch <= 0:
            return self._rates()
        return [lr * f(self.last_epoch) for lr, f in zip(self._rates(), self.lr_lambdas)]


class StepLR(LRScheduler):
    """Times gamma every step_size epochs."""

    def __init__(self, optimizer, step_size, gamma=0.1, last_epoch=-1):
        self.step_size, self.gamma = step_size, gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        if self.last_epoch == 0 or self.last_epoch % self.step_size:
            return self._rates()
        return [lr * self.gamma for lr in self._rates()]

    def _closed_form(self):
        return [base * self.gamma ** (self.last_epoch // self.step_size) for base in self.base_lrs]


class MultiStepLR(LRScheduler):
    """Times gamma at each of the milestones."""

    def __init__(self, optimizer, milestones, gamma=0.1, last_epoch=-1):
        self.milestones, self.gamma = _Counter(milestones), gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        return [lr * self.gamma ** self.milestones[self.last_epoch] for lr in self._rates()]

    def _closed_form(self):
        n = _bisect_right(sorted(self.milestones.elements()), self.last_epoch)
        return [base * self.gamma**n for base in self.base_lrs]


class ConstantLR(LRScheduler):
    """Times factor until total_iters, then as it was."""

    def __init__(self, optimizer, factor=1.0 / 3, total_iters=5, last_epoch=-1):
        if not 0 <= factor <= 1:
            raise ValueError("Constant multiplicative factor expected to be between 0 and 1.")
        self.factor, self.total_iters = factor, total_iters
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        f = self.factor if self.last_epoch == 0 else 1 / self.factor if self.last_epoch == self.total_iters else 1
        return [lr * f for lr in self._rates()]

    def _closed_form(self):
        return [base * (self.factor if self.last_epoch < self.total_iters else 1) for base in self.base_lrs]


class LinearLR(LRScheduler):
    """Factor from start_factor to end_factor in total_iters steps."""

    def __init__(self, optimizer, start_factor=1.0 / 3, end_factor=1.0, total_iters=5, last_epoch=-1):
        if not 0 < start_factor <= 1:
            raise ValueError("Starting multiplicative factor expected to be greater than 0 and less or equal to 1.")
        if not 0 <= end_factor <= 1:
            raise ValueError("Ending multiplicative factor expected to be between 0 and 1.")
        self.start_factor, self.end_factor, self.total_iters = start_factor, end_factor, total_iters
        super().__init__(optimizer, last_epoch)

    def _closed_form(self):
        f = self.start_factor + (self.end_factor - self.start_factor) * min(self.total_iters, self.last_epoch) / self.total_iters
        return [base * f for base in self.base_lrs]

    get_lr = _closed_form


class ExponentialLR(LRScheduler):
    """Times gamma every epoch."""

    def __init__(self, optimizer, gamma, last_epoch=-1):
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        return self._rates() if self.last_epoch == 0 else [lr * self.gamma for lr in self._rates()]

    def _closed_form(self):
        return [base * self.gamma**self.last_epoch for base in self.base_lrs]


class PolynomialLR(LRScheduler):
    """initial rate times (1 - epoch / total_iters)^power."""

    def __init__(self, optimizer, total_iters=5, power=1.0, last_epoch=-1):
        self.total_iters, self.power = total_iters, power
        super().__init__(optimizer, last_epoch)

    def _closed_form(self):
        return [base * (1.0 - min(self.total_iters, self.last_epoch) / self.total_iters) ** self.power for base in self.base_lrs]

    get_lr = _closed_form


class CosineAnnealingLR(LRScheduler):
    """eta_min + (initial - eta_min) (1 + cos(pi epoch / T_max)) / 2.  Source: Loshchilov and Hutter, SGDR, 2017."""

    def __init__(self, optimizer, T_max, eta_min=0.0, last_epoch=-1):
        self.T_max, self.eta_min = T_max, eta_min
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        """From the former rate, so that other schedules may act beside this one (PyTorch's recursion)."""
        e, T = self.last_epoch, self.T_max
        if e == 0:
            return self._rates()
        if self._step_count == 1 and e > 0:
            return [self.eta_min + (base - self.eta_min) * (1 + _math.cos(e * _math.pi / T)) / 2 for base in self.base_lrs]
        if (e - 1 - T) % (2 * T) == 0:
            return [lr + (base - self.eta_min) * (1 - _math.cos(_math.pi / T)) / 2 for base, lr in zip(self.base_lrs, self._rates())]
        return [(1 + _math.cos(_math.pi * e / T)) / (1 + _math.cos(_math.pi * (e - 1) / T)) * (lr - self.eta_min) + self.eta_min
                for lr in self._rates()]

    def _closed_form(self):
        return [self.eta_min + (base - self.eta_min) * (1 + _math.cos(_math.pi * self.last_epoch / self.T_max)) / 2
                for base in self.base_lrs]


class CosineAnnealingWarmRestarts(LRScheduler):
    """Cosine from the initial rate to eta_min in T_0 epochs, then again in T_0 T_mult, ...  Source: as CosineAnnealingLR."""

    def __init__(self, optimizer, T_0, T_mult=1, eta_min=0.0, last_epoch=-1):
        if T_0 <= 0 or not isinstance(T_0, int):
            raise ValueError(f"Expected positive integer T_0, but got {T_0}")
        if T_mult < 1 or not isinstance(T_mult, int):
            raise ValueError(f"Expected integer T_mult >= 1, but got {T_mult}")
        self.T_0, self.T_mult, self.eta_min = T_0, T_mult, eta_min
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        at, period = self.last_epoch, self.T_0
        while at >= period:
            at -= period
            period *= self.T_mult
        return [self.eta_min + (base - self.eta_min) * (1 + _math.cos(_math.pi * at / period)) / 2 for base in self.base_lrs]

    _closed_form = get_lr


class OneCycleLR(LRScheduler):
    """From max_lr / div_factor up to max_lr, then down to that over final_div_factor, in total_steps.  Source: Smith, 2018.

    The momentum is left alone.
    """

    def __init__(self, optimizer, max_lr, total_steps=None, epochs=None, steps_per_epoch=None, pct_start=0.3, anneal_strategy="cos",
                 cycle_momentum=False, base_momentum=0.85, max_momentum=0.95, div_factor=25.0, final_div_factor=1e4, three_phase=False,
                 last_epoch=-1):
        if total_steps is None:
            if epochs is None or steps_per_epoch is None:
                raise ValueError("You must define either total_steps OR (epochs AND steps_per_epoch)")
            total_steps = epochs * steps_per_epoch
        if three_phase or anneal_strategy not in ("cos", "linear"):
            raise ValueError("OneCycleLR: anneal_strategy is 'cos' or 'linear', and there are two phases")
        n = len(optimizer.param_groups)
        self.max_lrs = list(max_lr) if isinstance(max_lr, (list, tuple)) else [max_lr] * n
        self.total_steps, self.pct_start, self.anneal_strategy = total_steps, pct_start, anneal_strategy
        self.div_factor, self.final_div_factor = div_factor, final_div_factor
        for group, lr in zip(optimizer.param_groups, self.max_lrs):
            _set(group, lr / div_factor)
        super().__init__(optimizer, last_epoch)

    def _between(self, a, b, share):
        return b + (a - b) / 2 * (1 + _math.cos(_math.pi * share)) if self.anneal_strategy == "cos" else a + (b - a) * share

    def get_lr(self):
        e = self.last_epoch
        if e > self.total_steps:
            raise ValueError(f"Tried to step {e} times. The specified number of total steps is {self.total_steps}")
        up = self.pct_start * self.total_steps - 1
        out = []
        for top in self.max_lrs:
            low = top / self.div_factor
            if e <= up:
                out.append(self._between(low, top, e / up))
            else:
                out.append(self._between(top, low / self.final_div_factor, (e - up) / (self.total_steps - 1 - up)))
        return out


class SequentialLR(LRScheduler):
    """Schedulers one after the other, changing at the milestones."""

    def __init__(self, optimizer, schedulers, milestones, last_epoch=-1):
        if len(milestones) != len(schedulers) - 1:
            raise ValueError("Sequential Schedulers expects number of schedulers provided to be one more than the number of milestone "
                             f"points, but got number of schedulers {len(schedulers)} and the number of milestones to be equal to "
                             f"{len(milestones)}")
        self.optimizer = optimizer
        self._schedulers, self._milestones = list(schedulers), list(milestones)
        self.last_epoch = last_epoch + 1
        for group in optimizer.param_groups:
            _set(group, group["initial_lr"])
        for s in schedulers:
            s.last_epoch -= 1
            s._step_count = 0
        self._schedulers[0].step()
        self._last_lr = schedulers[0].get_last_lr()

    def step(self):
        self.last_epoch += 1
        k = _bisect_right(self._milestones, self.last_epoch)
        s = self._schedulers[k]
        if k and self._milestones[k - 1] == self.last_epoch:
            s.step(0)
        else:
            s.step()
        self._last_lr = s.get_last_lr()

    def state_dict(self):
        state = {k: v for k, v in self.__dict__.items() if k not in ("optimizer", "_schedulers")}
        state["_schedulers"] = [s.state_dict() for s in self._schedulers]
        return state

    def load_state_dict(self, state_dict):
        state = dict(state_dict)
        for s, values in zip(self._schedulers, state.pop("_schedulers")):
            s.load_state_dict(values)
        self.__dict__.update(state)


class ReduceLROnPlateau(LRScheduler):
    """Times factor when the metric has not got better for `patience` epochs: step(metric)."""

    def __init__(self, optimizer, mode="min", factor=0.1, patience=10, threshold=1e-4, threshold_mode="rel", cooldown=0, min_lr=0,
                 eps=1e-8):
        if factor >= 1.0:
            raise ValueError("Factor should be < 1.0.")
        if not isinstance(optimizer, Optimizer):
            raise TypeError(f"{type(optimizer).__name__} is not an Optimizer")
        if mode not in ("min", "max"):
            raise ValueError("mode " + mode + " is unknown!")
        if threshold_mode not in ("rel", "abs"):
            raise ValueError("threshold mode " + threshold_mode + " is unknown!")
        n = len(optimizer.param_groups)
        if isinstance(min_lr, (list, tuple)):
            if len(min_lr) != n:
                raise ValueError(f"expected {n} min_lrs, got {len(min_lr)}")
            self.min_lrs = list(min_lr)
        else:
            self.min_lrs = [min_lr] * n
        self.optimizer = optimizer
        self.mode, self.factor, self.patience, self.threshold = mode, factor, patience, threshold
        self.threshold_mode, self.cooldown, self.eps = threshold_mode, cooldown, eps
        self.last_epoch = 0
        self._last_lr = self._rates()
        self._reset()

    def _reset(self):
        self.best = _math.inf if self.mode == "min" else -_math.inf
        self.cooldown_counter = self.num_bad_epochs = 0

    @property
    def in_cooldown(self):
        return self.cooldown_counter > 0

    def is_better(self, a, best):
        if self.mode == "min":
            return a < (best * (1.0 - self.threshold) if self.threshold_mode == "rel" else best - self.threshold)
        return a > (best * (1.0 + self.threshold) if self.threshold_mode == "rel" else best + self.threshold)

    def step(self, metrics, epoch=None):
        value = float(metrics)
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        if self.is_better(value, self.best):
            self.best = value
            self.num_bad_epochs = 0
        else:
            self.num_bad_epochs += 1
        if self.in_cooldown:
            self.cooldown_counter -= 1
            self.num_bad_epochs = 0
        if self.num_bad_epochs > self.patience:
            for group, least in zip(self.optimizer.param_groups, self.min_lrs):
                old = _number(group["lr"])
                new = max(old * self.factor, least)
                if old - new > self.eps:
                    _set(group, new)
            self.cooldown_counter = self.cooldown
            self.num_bad_epochs = 0
        self._last_lr = self._rates()
