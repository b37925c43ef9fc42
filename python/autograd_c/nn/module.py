"""class Module: parameters, buffers and submodules under attribute names, hooks, state dicts, printing.

Names, order and messages are PyTorch's.  `_version[0]` counts what may change what a forward pass computes
(attributes of any module, train and eval, registration): freeze reads it to know when a look is needed.
"""
from collections import OrderedDict, namedtuple
import itertools as _itertools
import weakref as _weakref

from .._dtypes import as_dtype, check_device, dtype as _dtype
from .._ffi import push_site
from .._modes import no_grad
from .._tensor import Tensor
from ._parameter import Buffer, Parameter

_version = [0]
_PLAIN = (int, float, str, bool, type(None), tuple)


class RemovableHandle:
    """What register_..._hook returns; remove() takes the hook away, also at the end of a with block."""

    _next = _itertools.count()

    def __init__(self, hooks):
        self.id = next(RemovableHandle._next)
        self._hooks = _weakref.ref(hooks)

    def remove(self):
        hooks = self._hooks()
        if hooks is not None and self.id in hooks:
            del hooks[self.id]
            _version[0] += 1

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.remove()


class _Hooks(OrderedDict):
    """Hooks by the id of their handle."""


_global_pre, _global_post = _Hooks(), _Hooks()  # on all modules


def _add_hook(hooks, hook, prepend=False):
    handle = RemovableHandle(hooks)
    hooks[handle.id] = hook
    if prepend:
        hooks.move_to_end(handle.id, last=False)
    _version[0] += 1
    return handle


def register_module_forward_pre_hook(hook):
    """hook(module, args) before the forward of every module."""
    return _add_hook(_global_pre, hook)


def register_module_forward_hook(hook):
    """hook(module, args, output) after the forward of every module."""
    return _add_hook(_global_post, hook)


class _IncompatibleKeys(namedtuple("IncompatibleKeys", ["missing_keys", "unexpected_keys"])):
    __slots__ = ()

    def __repr__(self):
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        return super().__repr__()

    __str__ = __repr__


def _indent(text, n):
    lines = text.split("\n")
    return "\n".join([lines[0]] + [" " * n + line for line in lines[1:]])


def _type_name(x):
    if isinstance(x, Tensor):
        return "torch." + x.dtype.tensor_name if type(x) is Tensor else f"torch.nn.parameter.{type(x).__name__}"
    t = type(x)
    return t.__qualname__ if t.__module__ == "builtins" else f"{t.__module__}.{t.__qualname__}"


class Module:
    """Base of all layers and models: subclass it, call super().__init__(), write forward().

    Attributes that are Parameters, Modules or registered buffers are found by parameters(), modules(), state_dict().
    """

    training: bool
    call_super_init = False

    def __init__(self, *args, **kwargs):
        if args or kwargs:
            name = type(self).__name__
            what = f"unexpected keyword argument '{next(iter(kwargs))}'" if kwargs else f"{len(args) + 1} were given"
            raise TypeError(f"{name}.__init__() got an {what}" if kwargs else f"{name}.__init__() takes 1 positional argument but {what}")
        d = self.__dict__
        d["training"] = True
        d["_parameters"] = {}
        d["_buffers"] = {}
        d["_non_persistent_buffers_set"] = set()
        d["_modules"] = {}
        d["_hooked"] = False  # whether __call__ has more to do than forward
        d["_forward_pre_hooks"] = _Hooks()
        d["_forward_hooks"] = _Hooks()
        d["_backward_hooks"] = _Hooks()
        d["_backward_pre_hooks"] = _Hooks()
        d["_with_kwargs"] = set()
        d["_always_call"] = set()
        d["_state_dict_hooks"] = _Hooks()
        d["_load_state_dict_pre_hooks"] = _Hooks()
        d["_load_state_dict_post_hooks"] = _Hooks()

    def forward(self, *input):
        """What the module computes; every subclass defines its own."""
        raise NotImplementedError(f'Module [{type(self).__name__}] is missing the required "forward" function')

    def __call__(self, *args, **kwargs):
        # Nodes made in library code keep the line of the nearest caller that is not library code.
        push_site()
        try:
            hooked = self._hooked or _global_pre or _global_post
        except AttributeError:
            hooked = False
        if hooked:
            return self._call_hooked(args, kwargs)
        return self.forward(*args, **kwargs)

    def _call_hooked(self, args, kwargs):
        for key, hook in [*_global_pre.items(), *self._forward_pre_hooks.items()]:
            if key in self._with_kwargs:
                r = hook(self, args, kwargs)
                if r is not None:
                    if not (isinstance(r, tuple) and len(r) == 2):
                        raise RuntimeError(f"forward pre-hook must return None or a tuple of (new_args, new_kwargs), but got {r}.")
                    args, kwargs = r
            else:
                r = hook(self, args)
                if r is not None:
                    args = r if isinstance(r, tuple) else (r,)
        backward = None
        if self._backward_hooks or self._backward_pre_hooks:
            backward = _BackwardHooks(self)
            args = backward.inputs(args)
        post = [*_global_post.items(), *self._forward_hooks.items()]
        try:
            result = self.forward(*args, **kwargs)
        except Exception:
            for key, hook in post:
                if key in self._always_call:
                    hook(self, args, kwargs, None) if key in self._with_kwargs else hook(self, args, None)
            raise
        for key, hook in post:
            r = hook(self, args, kwargs, result) if key in self._with_kwargs else hook(self, args, result)
            if r is not None:
                result = r
        return result if backward is None else backward.outputs(result)

    # ---- attributes -------------------------------------------------------------------------------

    def __getattr__(self, name):
        d = self.__dict__
        for kind in ("_parameters", "_buffers", "_modules"):
            table = d.get(kind)
            if table is not None and name in table:
                return table[name]
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'", name=name, obj=self)

    def __setattr__(self, name, value):
        d = self.__dict__
        parameters = d.get("_parameters")
        if isinstance(value, Parameter):
            if parameters is None:
                raise AttributeError("cannot assign parameters before Module.__init__() call")
            self._forget(name, "_parameters")
            self.register_parameter(name, value)
        elif parameters is not None and name in parameters:
            if value is not None:
                raise TypeError(f"cannot assign '{_type_name(value)}' as parameter '{name}' (torch.nn.Parameter or None expected)")
            self.register_parameter(name, value)
        elif isinstance(value, Module):
            if "_modules" not in d:
                raise AttributeError("cannot assign module before Module.__init__() call")
            self._forget(name, "_modules")
            d["_modules"][name] = value
            _version[0] += 1
        elif parameters is not None and name in d["_modules"]:
            if value is not None:
                raise TypeError(f"cannot assign '{_type_name(value)}' as child module '{name}' (torch.nn.Module or None expected)")
            d["_modules"][name] = value
            _version[0] += 1
        elif isinstance(value, Buffer) or (parameters is not None and name in d["_buffers"]):
            if parameters is None:
                raise AttributeError("cannot assign buffer before Module.__init__() call")
            if value is not None and not isinstance(value, Tensor):
                raise TypeError(f"cannot assign '{_type_name(value)}' as buffer '{name}' (torch.nn.Buffer, torch.Tensor or None expected)")
            if name in d["_buffers"]:
                d["_buffers"][name] = value
                _version[0] += 1
            else:
                self._forget(name, "_buffers")
                self.register_buffer(name, value, value.persistent)
        else:
            # Writing the same plain value again changes nothing a guard would want to know.
            old = d.get(name, d)
            if not (old is value or (type(old) is type(value) and type(value) in _PLAIN and old == value)):
                _version[0] += 1
            object.__setattr__(self, name, value)

    def _forget(self, name, keep):
        d = self.__dict__
        if name in d:
            del d[name]
        for kind in ("_parameters", "_buffers", "_modules"):
            if kind != keep and name in d[kind]:
                del d[kind][name]
        d["_non_persistent_buffers_set"].discard(name)

    def __delattr__(self, name):
        d = self.__dict__
        _version[0] += 1
        for kind in ("_parameters", "_buffers", "_modules"):
            if name in d.get(kind, ()):
                del d[kind][name]
                d["_non_persistent_buffers_set"].discard(name)
                return
        object.__delattr__(self, name)

    def __dir__(self):
        d = self.__dict__
        names = [*dir(type(self)), *d, *d.get("_parameters", ()), *d.get("_buffers", ()), *d.get("_modules", ())]
        return sorted({n for n in names if not n[:1].isdigit()})

    def __setstate__(self, state):
        self.__dict__.update(state)
        _version[0] += 1

    def _check_name(self, kind, name):
        if "_parameters" not in self.__dict__:
            raise AttributeError(f"cannot assign {kind} before Module.__init__() call")
        if not isinstance(name, str):
            raise TypeError(f"{kind} name should be a string. Got {_type_name(name)}")
        if "." in name:
            raise KeyError(f'{kind} name can\'t contain "."' + (f", got: {name}" if kind == "module" else ""))
        if name == "":
            raise KeyError(f'{kind} name can\'t be empty string ""')

    def register_parameter(self, name, param):
        """Adds a Parameter (or None: a place that stays empty) under `name`."""
        self._check_name("parameter", name)
        if hasattr(self, name) and name not in self._parameters:
            raise KeyError(f"attribute '{name}' already exists")
        if param is not None and not isinstance(param, Parameter):
            raise TypeError(f"cannot assign '{_type_name(param)}' object to parameter '{name}' (torch.nn.Parameter or None "
                            "required)")
        if param is not None and not param.is_leaf:
            raise ValueError(f"Cannot assign non-leaf Tensor to parameter '{name}'. Model parameters must be created explicitly. To express "
                             f"'{name}' as a function of another Tensor, compute the value in the forward() method.")
        self._parameters[name] = param
        _version[0] += 1

    def register_buffer(self, name, tensor, persistent=True):
        """Adds a tensor that is state but no parameter (running means); persistent: part of state_dict."""
        self._check_name("buffer", name)
        if hasattr(self, name) and name not in self._buffers:
            raise KeyError(f"attribute '{name}' already exists")
        if tensor is not None and not isinstance(tensor, Tensor):
            raise TypeError(f"cannot assign '{_type_name(tensor)}' object to buffer '{name}' (torch Tensor or None required)")
        self._buffers[name] = tensor
        (self._non_persistent_buffers_set.discard if persistent else self._non_persistent_buffers_set.add)(name)
        _version[0] += 1

    def add_module(self, name, module):
        """Adds a child under `name`."""
        if module is not None and not isinstance(module, Module):
            raise TypeError(f"{_type_name(module)} is not a Module subclass")
        self._check_name("module", name)
        if hasattr(self, name) and name not in self._modules:
            raise KeyError(f"attribute '{name}' already exists")
        self._modules[name] = module
        _version[0] += 1

    register_module = add_module

    def get_submodule(self, target):
        """The module at a dotted path ("net.0"); "" is self."""
        m = self
        for item in target.split(".") if target else ():
            if not hasattr(m, item):
                raise AttributeError(f"{m._get_name()} has no attribute `{item}`")
            m = getattr(m, item)
            if not isinstance(m, Module):
                raise AttributeError(f"`{item}` is not an nn.Module")
        return m

    def get_parameter(self, target):
        """The parameter at a dotted path."""
        path, _, name = target.rpartition(".")
        m = self.get_submodule(path)
        if not hasattr(m, name):
            raise AttributeError(f"{m._get_name()} has no attribute `{name}`")
        p = getattr(m, name)
        if not isinstance(p, Parameter):
            raise AttributeError(f"`{name}` is not an nn.Parameter")
        return p

    def get_buffer(self, target):
        """The buffer at a dotted path."""
        path, _, name = target.rpartition(".")
        m = self.get_submodule(path)
        if not hasattr(m, name):
            raise AttributeError(f"{m._get_name()} has no attribute `{name}`")
        if name not in m._buffers:
            raise AttributeError(f"`{name}` is not a buffer")
        return m._buffers[name]

    # ---- what is inside ---------------------------------------------------------------------------

    def named_modules(self, memo=None, prefix="", remove_duplicate=True):
        """(dotted name, module) for self and all below, each once."""
        memo = set() if memo is None else memo
        if self in memo:
            return
        if remove_duplicate:
            memo.add(self)
        yield prefix, self
        for name, m in self._modules.items():
            if m is not None:
                yield from m.named_modules(memo, prefix + ("." if prefix else "") + name, remove_duplicate)

    def modules(self):
        for _, m in self.named_modules():
            yield m

    def named_children(self):
        memo = set()
        for name, m in self._modules.items():
            if m is not None and m not in memo:
                memo.add(m)
                yield name, m

    def children(self):
        for _, m in self.named_children():
            yield m

    def _named_members(self, kind, prefix, recurse, remove_duplicate):
        memo = set()
        for path, m in self.named_modules(prefix=prefix, remove_duplicate=remove_duplicate) if recurse else [(prefix, self)]:
            for name, t in m.__dict__[kind].items():
                if t is None or t in memo:
                    continue
                if remove_duplicate:
                    memo.add(t)
                yield path + ("." if path else "") + name, t

    def named_parameters(self, prefix="", recurse=True, remove_duplicate=True):
        """(dotted name, Parameter), shared ones once."""
        yield from self._named_members("_parameters", prefix, recurse, remove_duplicate)

    def parameters(self, recurse=True):
        for _, p in self.named_parameters(recurse=recurse):
            yield p

    def named_buffers(self, prefix="", recurse=True, remove_duplicate=True):
        yield from self._named_members("_buffers", prefix, recurse, remove_duplicate)

    def buffers(self, recurse=True):
        for _, b in self.named_buffers(recurse=recurse):
            yield b

    # ---- modes and types ---------------------------------------------------------------------------

    def train(self, mode=True):
        """Training mode (Dropout drops, BatchNorm learns) for self and all below."""
        if not isinstance(mode, bool):
            raise ValueError("training mode is expected to be boolean")
        self.training = mode
        for m in self.children():
            m.train(mode)
        return self

    def eval(self):
        return self.train(False)

    def requires_grad_(self, requires_grad=True):
        for p in self.parameters():
            p.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none=True):
        """Clears the parameters' gradients: None, or zeros in the same memory."""
        for p in self.parameters():
            if set_to_none:
                p.grad = None
            elif p.grad is not None:
                p.grad.detach_()
                p.grad.zero_()

    def apply(self, fn):
        """fn(module) for all below, then self."""
        for m in self.children():
            m.apply(fn)
        fn(self)
        return self

    def _apply(self, fn, recurse=True):
        if recurse:
            for m in self.children():
                m._apply(fn)
        with no_grad():
            for p in self._parameters.values():
                if p is None:
                    continue
                grad = p.grad
                data = fn(p.data)
                if data.data_ptr() != p.data_ptr() or data.dtype is not p.dtype:
                    p.grad = None
                    p.data = data
                    if grad is not None:
                        p.grad = fn(grad.detach())
            for name, b in self._buffers.items():
                if b is not None:
                    self._buffers[name] = fn(b)
        _version[0] += 1
        return self

    def to(self, *args, dtype=None, device=None, non_blocking=False, copy=False, memory_format=None):
        """to(dtype), to("cpu"), to(tensor): floating-point parameters and buffers take the dtype, in place."""
        for a in args:
            if isinstance(a, Tensor):
                dtype, device = a.dtype, a.device
            elif isinstance(a, _dtype):
                dtype = a
            elif a is not None and not isinstance(a, bool):
                device = a
        check_device(device)
        if dtype is None:
            return self
        d = as_dtype(dtype)
        if not d.is_floating_point:
            raise TypeError(f"nn.Module.to only accepts floating point or complex dtypes, but got desired dtype={d}")
        return self._apply(lambda t: t.to(d) if t.is_floating_point() else t)

    def type(self, dst_type):
        return self._apply(lambda t: t.to(as_dtype(dst_type)))

    def float(self):
        return self.to("cpu", dtype="float32")

    def double(self):
        return self.to("cpu", dtype="float64")

    def cpu(self):
        return self

    def cuda(self, device=None):
        check_device("cuda")

    def share_memory(self):
        return self

    # ---- state ------------------------------------------------------------------------------------

    def get_extra_state(self):
        raise RuntimeError("Reached a code path in Module.get_extra_state() that should never be called.")

    set_extra_state = get_extra_state

    def _save_to_state_dict(self, destination, prefix, keep_vars):
        for name, p in self._parameters.items():
            if p is not None:
                destination[prefix + name] = p if keep_vars else p.detach()
        for name, b in self._buffers.items():
            if b is not None and name not in self._non_persistent_buffers_set:
                destination[prefix + name] = b if keep_vars else b.detach()
        if type(self).get_extra_state is not Module.get_extra_state:
            destination[prefix + "_extra_state"] = self.get_extra_state()

    def state_dict(self, *, destination=None, prefix="", keep_vars=False):
        """OrderedDict of dotted name to tensor: parameters and persistent buffers, sharing the module's memory."""
        if destination is None:
            destination = OrderedDict()
        self._save_to_state_dict(destination, prefix, keep_vars)
        for name, m in self._modules.items():
            if m is not None:
                m.state_dict(destination=destination, prefix=prefix + name + ".", keep_vars=keep_vars)
        for hook in self._state_dict_hooks.values():
            r = hook(self, destination, prefix, {})
            if r is not None:
                destination = r
        return destination

    def register_state_dict_post_hook(self, hook):
        return _add_hook(self._state_dict_hooks, hook)

    def register_load_state_dict_pre_hook(self, hook):
        """hook(module, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)."""
        return _add_hook(self._load_state_dict_pre_hooks, hook)

    def register_load_state_dict_post_hook(self, hook):
        """hook(module, incompatible_keys), may change the two lists."""
        return _add_hook(self._load_state_dict_post_hooks, hook)

    def _load_from_state_dict(self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs, assign=False):
        for hook in self._load_state_dict_pre_hooks.values():
            hook(self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)
        own = [(n, p, self._parameters) for n, p in self._parameters.items()]
        own += [(n, b, self._buffers) for n, b in self._buffers.items() if n not in self._non_persistent_buffers_set]
        known = set()
        for name, t, table in own:
            if t is None:
                continue
            key = prefix + name
            known.add(name)
            if key not in state_dict:
                missing_keys.append(key)
                continue
            value = state_dict[key]
            if not isinstance(value, Tensor):
                error_msgs.append(f'While copying the parameter named "{key}", expected torch.Tensor or Tensor-like object from '
                                  f"checkpoint but received {type(value)}")
            elif value.shape != t.shape:
                error_msgs.append(f"size mismatch for {key}: copying a param with shape {value.shape} from checkpoint, the shape in "
                                  f"current model is {t.shape}.")
            elif assign:
                if table is self._parameters and not isinstance(value, Parameter):
                    value = Parameter(value, requires_grad=t.requires_grad)
                table[name] = value
                _version[0] += 1
            else:
                with no_grad():
                    t.copy_(value)
        if type(self).set_extra_state is not Module.set_extra_state:
            key = prefix + "_extra_state"
            known.add("_extra_state")
            if key in state_dict:
                self.set_extra_state(state_dict[key])
            else:
                missing_keys.append(key)
        if strict:
            for key in state_dict:
                if key.startswith(prefix):
                    name, dot, _ = key[len(prefix):].partition(".")
                    if name not in self._modules and (name not in known or dot):
                        unexpected_keys.append(key)

    def load_state_dict(self, state_dict, strict=True, assign=False):
        """Copies the dict's tensors into parameters and buffers of the same names.

        strict: names must agree exactly, RuntimeError lists all that do not.  assign: the tensors themselves are taken.
        Returns a named tuple (missing_keys, unexpected_keys).
        """
        if not hasattr(state_dict, "keys"):
            raise TypeError(f"Expected state_dict to be dict-like, got {type(state_dict)}.")
        state_dict = OrderedDict(state_dict)
        missing, unexpected, errors = [], [], []
        after = []

        def load(module, part, prefix):
            module._load_from_state_dict(part, prefix, {}, True, missing, unexpected, errors, **({"assign": True} if assign else {}))
            for name, child in module._modules.items():
                if child is not None:
                    below = prefix + name + "."
                    load(child, {k: v for k, v in part.items() if k.startswith(below)}, below)
            after.extend([(module, hook) for hook in module._load_state_dict_post_hooks.values()])

        load(self, state_dict, "")
        keys = _IncompatibleKeys(missing, unexpected)
        for module, hook in after:
            hook(module, keys)
        if strict:
            if unexpected:
                errors.insert(0, "Unexpected key(s) in state_dict: {}. ".format(", ".join(f'"{k}"' for k in unexpected)))
            if missing:
                errors.insert(0, "Missing key(s) in state_dict: {}. ".format(", ".join(f'"{k}"' for k in missing)))
        if errors:
            raise RuntimeError("Error(s) in loading state_dict for {}:\n\t{}".format(type(self).__name__, "\n\t".join(errors)))
        return keys

    # ---- hooks ------------------------------------------------------------------------------------

    def _hook(self, hooks, hook, prepend=False, with_kwargs=False, always_call=False):
        self._hooked = True
        handle = _add_hook(hooks, hook, prepend)
        if with_kwargs:
            self._with_kwargs.add(handle.id)
        if always_call:
            self._always_call.add(handle.id)
        return handle

    def register_forward_pre_hook(self, hook, *, prepend=False, with_kwargs=False):
        """hook(module, args) before forward; what it returns (unless None) replaces the arguments."""
        return self._hook(self._forward_pre_hooks, hook, prepend, with_kwargs)

    def register_forward_hook(self, hook, *, prepend=False, with_kwargs=False, always_call=False):
        """hook(module, args, output) after forward; what it returns (unless None) replaces the output."""
        return self._hook(self._forward_hooks, hook, prepend, with_kwargs, always_call)

    def register_full_backward_hook(self, hook, prepend=False):
        """hook(module, grad_input, grad_output) in backward; what it returns (unless None) replaces grad_input."""
        return self._hook(self._backward_hooks, hook, prepend)

    register_backward_hook = register_full_backward_hook

    def register_full_backward_pre_hook(self, hook, prepend=False):
        """hook(module, grad_output) in backward; what it returns (unless None) replaces grad_output."""
        return self._hook(self._backward_pre_hooks, hook, prepend)

    # ---- printing ---------------------------------------------------------------------------------

    def _get_name(self):
        return type(self).__name__

    def extra_repr(self):
        """Text between the parentheses of repr."""
        return ""

    def __repr__(self):
        extra = self.extra_repr()
        extra_lines = extra.split("\n") if extra else []
        children = [f"({name}): {_indent(repr(m), 2)}" for name, m in self._modules.items()]
        lines = extra_lines + children
        text = self._get_name() + "("
        if lines:
            text += extra if len(extra_lines) == 1 and not children else "\n  " + "\n  ".join(lines) + "\n"
        return text + ")"


class _BackwardHooks:
    """Backward hooks of one call of a module: tensors that pass in and out get identity nodes with hooks of their own."""

    def __init__(self, module):
        self.module = module
        self.grad_output = None
        self.n_in = 0
        self.passed = []  # positions of inputs that need gradients
        self.got = {}

    @staticmethod
    def _map(fn, value):
        if isinstance(value, Tensor):
            return fn(value)
        if isinstance(value, (tuple, list)) and not hasattr(value, "_fields"):
            return type(value)([fn(v) if isinstance(v, Tensor) else v for v in value])
        return value

    def inputs(self, args):
        out = []
        self.n_in = sum(isinstance(a, Tensor) for a in args)
        k = 0
        for a in args:
            if isinstance(a, Tensor):
                if a.requires_grad:
                    a = a.view_as(a)
                    self.passed.append(k)
                    a.register_hook(lambda g, k=k: self._input(k, g))
                k += 1
            out.append(a)
        return tuple(out)

    def _input(self, k, g):
        self.got[k] = g
        if len(self.got) < len(self.passed):  # the hook wants all gradients: it runs with the last one
            return None
        grads = tuple([self.got.get(i) for i in range(self.n_in)])
        self.got = {}
        for hook in self.module._backward_hooks.values():
            r = hook(self.module, grads, self.grad_output)
            if r is not None:
                grads = r if isinstance(r, tuple) else (r,)
        return grads[k]

    def outputs(self, result):
        tensors = [t for t in (result if isinstance(result, (tuple, list)) else [result]) if isinstance(t, Tensor)]
        grads = [None] * len(tensors)
        position = iter(range(len(tensors)))

        def one(t):
            k = next(position)
            if not t.requires_grad:
                return t
            t = t.view_as(t)
            t.register_hook(lambda g: self._output(grads, k, g))
            return t

        return self._map(one, result)

    def _output(self, grads, k, g):
        grads[k] = g
        self.grad_output = tuple(grads)
        for hook in self.module._backward_pre_hooks.values():
            r = hook(self.module, self.grad_output)
            if r is not None:
                self.grad_output = r if isinstance(r, tuple) else (r,)
                grads[:] = self.grad_output
        if not self.passed:
            for hook in self.module._backward_hooks.values():
                hook(self.module, (None,) * self.n_in, self.grad_output)
        return self.grad_output[k]
