"""Sequential, ModuleList, ModuleDict, ParameterList, ParameterDict."""
from collections import OrderedDict
from itertools import chain as _chain
import operator as _operator

from .._tensor import Tensor
from ._parameter import Parameter
from .module import Module, _indent, _type_name, _version


def _place(n, index, what="index"):
    index = _operator.index(index)
    if not -n <= index < n:
        raise IndexError(f"index {index} is out of range")
    return index + n if index < 0 else index


class Sequential(Module):
    """Modules applied one after the other: Sequential(a, b, ...) or Sequential(OrderedDict(name=a, ...))."""

    def __init__(self, *args):
        super().__init__()
        if len(args) == 1 and isinstance(args[0], OrderedDict):
            for name, module in args[0].items():
                self.add_module(name, module)
        else:
            for k, module in enumerate(args):
                self.add_module(str(k), module)

    def forward(self, input):
        for module in self._modules.values():
            input = module(input)
        return input

    def __len__(self):
        return len(self._modules)

    def __iter__(self):
        return iter(self._modules.values())

    def __getitem__(self, index):
        if isinstance(index, slice):
            return type(self)(OrderedDict(list(self._modules.items())[index]))
        return list(self._modules.values())[_place(len(self), index)]

    def __setitem__(self, index, module):
        setattr(self, list(self._modules)[_place(len(self), index)], module)

    def __delitem__(self, index):
        names = list(self._modules)
        for name in names[index] if isinstance(index, slice) else [names[_place(len(self), index)]]:
            delattr(self, name)
        self._renumber(list(self._modules.values()))

    def _renumber(self, modules):
        self.__dict__["_modules"] = {str(k): m for k, m in enumerate(modules)}
        _version[0] += 1

    def __add__(self, other):
        if not isinstance(other, Sequential):
            raise ValueError("add operator supports only objects of Sequential class, but " + str(type(other)) + " is given.")
        return Sequential(*self, *other)

    def __iadd__(self, other):
        return self.extend(other)

    def append(self, module):
        """Adds a module at the end; returns self."""
        self.add_module(str(len(self)), module)
        return self

    def insert(self, index, module):
        if not isinstance(module, Module):
            raise AssertionError(f"module should be of type: {Module}")
        n = len(self._modules)
        if not -n <= index <= n:
            raise IndexError(f"Index out of range: {index}")
        modules = list(self._modules.values())
        modules.insert(index, module)
        self._renumber(modules)
        return self

    def extend(self, sequential):
        for module in sequential:
            self.append(module)
        return self

    def pop(self, key):
        v = self[key]
        del self[key]
        return v


class ModuleList(Module):
    """A list of modules; it has no forward."""

    def __init__(self, modules=None):
        super().__init__()
        if modules is not None:
            self.extend(modules)

    def __getitem__(self, index):
        modules = list(self._modules.values())
        return type(self)(modules[index]) if isinstance(index, slice) else modules[_place(len(modules), index)]

    def __setitem__(self, index, module):
        setattr(self, str(_place(len(self), index)), module)

    def __delitem__(self, index):
        modules = list(self._modules.values())
        if isinstance(index, slice):
            del modules[index]
        else:
            del modules[_place(len(modules), index)]
        self._renumber(modules)

    _renumber = Sequential._renumber

    def __len__(self):
        return len(self._modules)

    def __iter__(self):
        return iter(self._modules.values())

    def __iadd__(self, modules):
        return self.extend(modules)

    def __add__(self, other):
        return type(self)(_chain(self, other))

    def insert(self, index, module):
        modules = list(self._modules.values())
        modules.insert(index, module)
        self._renumber(modules)

    def append(self, module):
        self.add_module(str(len(self)), module)
        return self

    def pop(self, key):
        v = self[key]
        del self[key]
        return v

    def extend(self, modules):
        if isinstance(modules, (str, bytes)) or not hasattr(modules, "__iter__"):
            raise TypeError(f"ModuleList.extend should be called with an iterable, but got {type(modules).__name__}")
        for m in modules:
            self.append(m)
        return self

    def __repr__(self):
        if not len(self):
            return self._get_name() + "()"
        # Neighbours that print alike share a line.
        groups = []
        for k, text in enumerate(map(repr, self)):
            if groups and groups[-1][2] == text:
                groups[-1][1] = k
            else:
                groups.append([k, k, text])
        lines = [_indent(f"({a}): {t}" if a == b else f"({a}-{b}): {b - a + 1} x {t}", 2) for a, b, t in groups]
        return self._get_name() + "(\n  " + "\n  ".join(lines) + "\n)"


class ModuleDict(Module):
    """A dict of modules by name; it has no forward."""

    def __init__(self, modules=None):
        super().__init__()
        if modules is not None:
            self.update(modules)

    def __getitem__(self, key):
        return self._modules[key]

    def __setitem__(self, key, module):
        self.add_module(key, module)

    def __delitem__(self, key):
        del self._modules[key]
        _version[0] += 1

    def __len__(self):
        return len(self._modules)

    def __iter__(self):
        return iter(self._modules)

    def __contains__(self, key):
        return key in self._modules

    def clear(self):
        self._modules.clear()
        _version[0] += 1

    def pop(self, key):
        v = self[key]
        del self[key]
        return v

    def keys(self):
        return self._modules.keys()

    def items(self):
        return self._modules.items()

    def values(self):
        return self._modules.values()

    def update(self, modules):
        if not hasattr(modules, "__iter__"):
            raise TypeError(f"ModuleDict.update should be called with an iterable of key/value pairs, but got {type(modules).__name__}")
        for key, module in modules.items() if hasattr(modules, "items") else modules:
            self[key] = module


def _line(name, p):
    if isinstance(p, Tensor):
        kind = "Parameter" if isinstance(p, Parameter) else "Tensor"
        return f"({name}): {kind} containing: [torch.{p.dtype.name} of size {'x'.join(map(str, p.shape))}]"
    return f"({name}): Object of type: {_type_name(p)}"


class ParameterList(Module):
    """A list of Parameters (tensors become Parameters; other values stay what they are)."""

    def __init__(self, values=None):
        super().__init__()
        self._size = 0
        if values is not None:
            self.extend(values)

    def __getitem__(self, index):
        if isinstance(index, slice):
            return type(self)([getattr(self, str(k)) for k in range(*index.indices(self._size))])
        return getattr(self, str(_place(self._size, index)))

    def __setitem__(self, index, value):
        if isinstance(value, Tensor) and not isinstance(value, Parameter):
            value = Parameter(value)
        setattr(self, str(_place(self._size, index)), value)

    def __len__(self):
        return self._size

    def __iter__(self):
        return iter([self[k] for k in range(self._size)])

    def __iadd__(self, values):
        return self.extend(values)

    def append(self, value):
        self._size += 1
        self[self._size - 1] = value
        return self

    def pop(self, index=-1):
        k = _place(self._size, index)
        values = list(self)
        v = values.pop(k)
        for name in range(self._size):
            delattr(self, str(name))
        self._size = 0
        self.extend(values)
        return v

    def extend(self, values):
        if isinstance(values, Tensor) or not hasattr(values, "__iter__"):
            raise TypeError(f"ParameterList.extend should be called with an iterable, but got {type(values).__name__}")
        for v in values:
            self.append(v)
        return self

    def extra_repr(self):
        return "\n".join([_line(k, p) for k, p in enumerate(self)])

    def __call__(self, *args, **kwargs):
        raise RuntimeError("ParameterList should not be called.")


class ParameterDict(Module):
    """A dict of Parameters by name."""

    def __init__(self, parameters=None):
        super().__init__()
        self._names = {}
        if parameters is not None:
            self.update(parameters)

    def __getitem__(self, key):
        return getattr(self, self._names[key])

    def __setitem__(self, key, value):
        if not isinstance(key, str):
            raise TypeError("Index given to ParameterDict cannot be used as a key as it is not a string (type is "
                            f"'{type(key).__name__}'). Open an issue on github if you need non-string keys.")
        if isinstance(value, Tensor) and not isinstance(value, Parameter):
            value = Parameter(value)
        self._names[key] = key
        setattr(self, key, value)

    def __delitem__(self, key):
        delattr(self, self._names.pop(key))

    def __len__(self):
        return len(self._names)

    def __iter__(self):
        return iter(self._names)

    def __contains__(self, key):
        return key in self._names

    def keys(self):
        return self._names.keys()

    def values(self):
        return [self[k] for k in self._names]

    def items(self):
        return [(k, self[k]) for k in self._names]

    def get(self, key, default=None):
        return self[key] if key in self._names else default

    def pop(self, key):
        v = self[key]
        del self[key]
        return v

    def update(self, parameters):
        for k, v in parameters.items() if hasattr(parameters, "items") else parameters:
            self[k] = v

    def extra_repr(self):
        return "\n".join([_line(k, p) for k, p in self.items()])

    def __call__(self, *args, **kwargs):
        raise RuntimeError("ParameterDict should not be called.")
