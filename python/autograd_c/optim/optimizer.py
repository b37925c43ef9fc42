"""Base of the optimizers: parameter groups, state, printing.

A group's learning rate also lives in a 0-d tensor, which updates read.  Setting group["lr"] writes that tensor, so a
frozen step sees the new rate at its next replay.  Other numbers of a group are constants of an update: changing one
counts as a change that freeze's guards look at.
"""
from collections import defaultdict
import copy as _copy
from itertools import chain as _chain
import operator as _operator
import warnings as _warnings

from .._create import zeros
from .._dtypes import float64
from .._ffi import NULL, TracedDataError, check, ffi, lib, push_site
from .._modes import enable_grad, no_grad
from .._tensor import Tensor
from ..nn.module import _Hooks, _add_hook, _version

_set_grad = lib.ag_tensor_set_grad


class _Required:
    def __repr__(self):
        return "<required parameter>"


required = _Required()


class ParamGroup(dict):
    """A parameter group: the dict that PyTorch has, whose "lr" stays in step with the tensor `lr_tensor`."""

    def __init__(self, values=()):
        super().__init__(values)
        self.lr_tensor = None
        self._cache = {}
        if "lr" in self:
            self._lr(dict.__getitem__(self, "lr"))

    def _lr(self, value):
        if isinstance(value, Tensor):
            self.lr_tensor = value
            return
        if self.lr_tensor is None or self.lr_tensor.dtype is not float64:
            self.lr_tensor = zeros((), dtype=float64)
        elif lib.ag_tracing():
            raise TracedDataError("a learning rate was set while a graph was being frozen: replays would never set it again. Set "
                                  "group['lr'], or call scheduler.step(), outside of the frozen function")
        check(lib.ag_tensor_write(self.lr_tensor._h, ffi.new("double *", float(value))))

    def __setitem__(self, key, value):
        if key == "lr":
            if isinstance(value, Tensor) or isinstance(self.get("lr"), Tensor):
                _version[0] += 1  # another tensor is read from now on
            self._lr(value)
        elif key != "initial_lr":  # a note of the schedulers
            _version[0] += 1
        dict.__setitem__(self, key, value)

    def update(self, *args, **kwargs):
        for key, value in dict(*args, **kwargs).items():
            self[key] = value

    def __ior__(self, other):
        self.update(other)
        return self

    def setdefault(self, key, default=None):
        if key not in self:
            self[key] = default
        return self[key]

    def __reduce__(self):
        return ParamGroup, (dict(self),)

    def __deepcopy__(self, memo):
        return ParamGroup({k: _copy.deepcopy(v, memo) for k, v in self.items()})

    def handles(self, name, make, state=None):
        """C array of handles for every parameter, remade when the list of parameters, or what `state` holds, changed."""
        params = self["params"]
        kept = self._cache.get(name)
        if kept is not None and len(kept[0]) == len(params) and all(map(_operator.is_, kept[0], params)):
            if state is None or all((s := state.get(p)) and s.get(name) is t for p, t in zip(params, kept[2])):
                return kept[1]
        tensors = [make(p) for p in params]
        array = ffi.new("ag_tensor *[]", [t._h for t in tensors])
        self._cache[name] = list(params), array, tensors
        return array

    def forget(self):
        self._cache.clear()


class Optimizer:
    """Base of optimizers: subclasses give defaults and write step().

    params: tensors, (name, tensor) pairs, or dicts with "params" and options of their own.
    """

    def __init__(self, params, defaults):
        self.defaults = defaults
        if isinstance(params, Tensor):
            raise TypeError("params argument given to the optimizer should be an iterable of Tensors or dicts, but got torch."
                            + params.dtype.tensor_name)
        self.state = defaultdict(dict)
        self.param_groups = []
        self._step_pre_hooks, self._step_post_hooks = _Hooks(), _Hooks()
        self._opt_called = False
        groups = list(params)
        if not groups:
            raise ValueError("optimizer got an empty parameter list")
        if not isinstance(groups[0], dict):
            groups = [{"params": groups}]
        for group in groups:
            self.add_param_group(group)

    def add_param_group(self, param_group):
        """Adds parameters with options of their own: a dict with "params", other options from the defaults."""
        if not isinstance(param_group, dict):
            raise TypeError(f"param_group must be a dict, but got {type(param_group)}")
        group = dict(param_group)
        params = group["params"]
        if isinstance(params, Tensor):
            params = [params]
        elif isinstance(params, set):
            raise TypeError("optimizer parameters need to be organized in ordered collections, but the ordering of tensors in sets will "
                            "change between runs. Please use a list instead.")
        params = list(params)
        if params and all(isinstance(p, tuple) and len(p) == 2 for p in params):
            group["param_names"] = [name for name, _ in params]
            params = [p for _, p in params]
        group["params"] = params
        for p in params:
            if not isinstance(p, Tensor):
                raise TypeError(f"optimizer can only optimize Tensors, but one of the params is {type(p).__name__}")
            if not self.defaults.get("differentiable") and not p.is_leaf:
                raise ValueError("can't optimize a non-leaf Tensor")
        for name, default in self.defaults.items():
            if default is required and name not in group:
                raise ValueError(f"parameter group didn't specify a value of required optimization parameter {name}")
            group.setdefault(name, default)
        if len(params) != len(set(map(id, params))):
            _warnings.warn("optimizer contains a parameter group with duplicate parameters; in future, this will cause an error; see "
                           "github.com/pytorch/pytorch/issues/40967 for more information", UserWarning, stacklevel=3)
        known = {id(p) for g in self.param_groups for p in g["params"]}
        if not known.isdisjoint(map(id, params)):
            raise ValueError("some parameters appear in more than one parameter group")
        group = ParamGroup(group)
        self.param_groups.append(group)
        _version[0] += 1
        self._init_group(group)

    def _init_group(self, group):
        """Makes the state of a group's parameters.

        At once, not at the first step: state made inside a frozen function's first call would be a temporary of its
        program instead of memory that replays write.
        """

    def zero_grad(self, set_to_none=True):
        """Clears all gradients: None (the default), or zeros in the same memory."""
        for group in self.param_groups:
            for p in group["params"]:
                if set_to_none:
                    _set_grad(p._h, NULL)
                    p._grad = None
                elif p.grad is not None:
                    g = p.grad
                    g.detach_()
                    g.zero_()

    def step(self, closure=None):
        """Updates the parameters; closure: recomputes and returns the loss, which step then returns."""
        push_site()
        for hook in self._step_pre_hooks.values():
            hook(self, (), {})
        self._opt_called = True
        loss = None
        if closure is not None:
            with enable_grad():
                loss = closure()
        with no_grad():
            for group in self.param_groups:
                self._update(group)
        for hook in self._step_post_hooks.values():
            hook(self, (), {})
        return loss

    def _update(self, group):
        raise NotImplementedError

    def register_step_pre_hook(self, hook):
        """hook(optimizer, args, kwargs) before each step."""
        return _add_hook(self._step_pre_hooks, hook)

    def register_step_post_hook(self, hook):
        """hook(optimizer, args, kwargs) after each step."""
        return _add_hook(self._step_post_hooks, hook)

    # ---- state as a dict -----------------------------------------------------------------------------

    def state_dict(self):
        """{"state": {number: {...}}, "param_groups": [...]} with parameters as numbers, in order."""
        number = {}
        groups = []
        for group in self.param_groups:
            for p in group["params"]:
                number.setdefault(id(p), len(number))
            plain = {k: v for k, v in group.items() if k != "params"}
            plain["params"] = [number[id(p)] for p in group["params"]]
            groups.append(plain)
        state = {(number[id(k)] if isinstance(k, Tensor) else k): dict(v) for k, v in self.state.items()}
        return {"state": state, "param_groups": groups}

    def load_state_dict(self, state_dict):
        """Takes over what state_dict() gave; groups and their sizes must agree.  Values are copied into the state's tensors."""
        groups, saved = self.param_groups, state_dict["param_groups"]
        if len(groups) != len(saved):
            raise ValueError("loaded state dict has a different number of parameter groups")
        if any(len(g["params"]) != len(s["params"]) for g, s in zip(groups, saved)):
            raise ValueError("loaded state dict contains a parameter group that doesn't match the size of optimizer's group")
        by_number = dict(zip(_chain.from_iterable(s["params"] for s in saved), _chain.from_iterable(g["params"] for g in groups)))
        for key, values in state_dict["state"].items():
            p = by_number.get(key)
            if p is None:
                self.state[key] = _copy.deepcopy(values)
                continue
            own = self.state[p]
            for name, value in values.items():
                self._load_value(p, own, name, value)
        for group, s in zip(groups, saved):
            for key, value in s.items():
                if key != "params":
                    group[key] = _copy.deepcopy(value)
            group.forget()
            self._init_group(group)

    def _load_value(self, p, own, name, value):
        old = own.get(name)
        if isinstance(value, Tensor):
            if name != "step" and value.is_floating_point() and p.is_floating_point():
                value = value.to(p.dtype)
            if isinstance(old, Tensor) and old.shape == value.shape and old.dtype is value.dtype:
                with no_grad():
                    old.copy_(value)
                return
            own[name] = value.detach().clone()
        elif isinstance(old, Tensor):  # a plain number, or None for "not started"
            with no_grad():
                old.fill_(0.0 if value is None else float(value))
            return
        else:
            own[name] = _copy.deepcopy(value)
        _version[0] += 1

    def __getstate__(self):
        return {"defaults": self.defaults, "state": self.state, "param_groups": self.param_groups}

    def __setstate__(self, state):
        self.__dict__.update(state)
        self._step_pre_hooks, self._step_post_hooks, self._opt_called = _Hooks(), _Hooks(), False

    def __repr__(self):
        text = type(self).__name__ + " ("
        for k, group in enumerate(self.param_groups):
            text += f"\nParameter Group {k}\n"
            for key in sorted(group):
                if key != "params":
                    text += f"    {key}: {group[key]}\n"
        return text + ")"


def check_lr(lr):
    if isinstance(lr, Tensor):
        if lr.numel() != 1:
            raise ValueError("Tensor lr must be 1-element")
    elif not 0.0 <= lr:
        raise ValueError(f"Invalid learning rate: {lr}")


def check_at_least_0(**values):
    """ValueError "Invalid <name> value: <x>" for negative numbers; underscores are kept as PyTorch keeps them."""
    for name, value in values.items():
        if not 0.0 <= value:
            raise ValueError(f"Invalid {name} value: {value}")
