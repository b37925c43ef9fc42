"""Symbolic graphs: nodes that say what to compute once values are fed.

A node keeps its operation (a function of eager tensors), its inputs, its name and the line that made it.  Shape and dtype
are found by running the operation on small zeros, so a mistake shows where the graph is built.
"""
import os as _os
from sys import _getframe

from .. import _create, _ffi
from .._dtypes import as_dtype, float32
from .._modes import no_grad
from .._tensor import Tensor as _Eager

_PACKAGE = _os.path.dirname(_os.path.dirname(_os.path.abspath(__file__))) + _os.sep
_LARGE = 1 << 22  # operands above this many elements are not tried out


def frame():
    """The nearest frame outside of this package."""
    f = _getframe(1)
    while f.f_back is not None and f.f_code.co_filename.startswith(_PACKAGE):
        f = f.f_back
    return f


def where(f=None):
    """A frame's line (the nearest of the user's), as "file.py:12 in train"."""
    f = f or frame()
    code = f.f_code
    return f"{_os.path.basename(code.co_filename)}:{f.f_lineno} in {getattr(code, 'co_qualname', code.co_name)}"


def position(f):
    """Code id and offset under which the core knows a frame's line."""
    if not _ffi.lib.ag_site_known(id(f.f_code)):
        _ffi.describe(f.f_code)
    return id(f.f_code), f.f_lasti


class Graph:
    """Nodes under unique names.  `with graph.as_default():` adds what is built inside to it."""

    def __init__(self):
        self._names = {}
        self._nodes = []
        self.variables = []

    def as_default(self):
        return _Default(self)

    def unique_name(self, name):
        n = self._names.get(name)
        if n is None:
            self._names[name] = 1
            return name
        while f"{name}_{n}" in self._names:
            n += 1
        self._names[name] = n + 1
        self._names[f"{name}_{n}"] = 1
        return f"{name}_{n}"

    def get_tensor_by_name(self, name):
        """The node of a name, with or without ":0"."""
        base = name[:-2] if name.endswith(":0") else name
        for node in self._nodes:
            if node._base == base:
                return node
        raise KeyError(f"The name '{name}' refers to a Tensor which does not exist in this graph; it has "
                       f"{', '.join([n._base for n in self._nodes][:20]) or 'no nodes'}")

    get_operation_by_name = as_graph_element = get_tensor_by_name

    def get_operations(self):
        return list(self._nodes)

    def __repr__(self):
        return f"<Graph: {len(self._nodes)} nodes, {len(self.variables)} variables>"


_stack = [Graph()]


class _Default:
    def __init__(self, graph):
        self.graph = graph

    def __enter__(self):
        _stack.append(self.graph)
        return self.graph

    def __exit__(self, *error):
        _stack.pop()


def get_default_graph():
    return _stack[-1]


def reset_default_graph():
    """Starts a new, empty default graph."""
    if len(_stack) > 1:
        raise AssertionError("Do not use tf.reset_default_graph() to clear nested graphs. If you need a cleared graph, exit the nesting and "
                             "create a new graph.")
    _stack[0] = Graph()


class Node:
    """A symbolic tensor or operation.

    Attributes: name, graph, op (the operation's name), inputs, shape (a tuple with None where unknown, or None), dtype, site.
    """

    __array_priority__ = 1000
    is_effect = False  # whether it changes variables

    def __init__(self, op, fn, inputs=(), name=None, shape=None, dtype=None):
        self.graph = get_default_graph()
        for x in inputs:
            if isinstance(x, Node) and x.graph is not self.graph:
                raise ValueError(f"'{x.name}' (made at {x.site}) belongs to another graph than the default one")
        self._base = self.graph.unique_name(name or op)
        self.op = op
        self.fn = fn
        self.inputs = tuple(inputs)
        self.shape = shape
        self.dtype = dtype
        f = frame()
        self.site = where(f)
        self.position = position(f)
        self.graph._nodes.append(self)

    @property
    def name(self):
        return self._base + ":0"

    def get_shape(self):
        return self.shape

    def set_shape(self, shape):
        self.shape = tuple(shape)

    def eval(self, feed_dict=None, session=None):
        """Its value in the given or the default session."""
        from ._session import get_default_session

        session = session or get_default_session()
        if session is None:
            raise ValueError("Cannot evaluate tensor using `eval()`: No default session is registered. Use `with sess.as_default()` or "
                             "pass an explicit session to `eval(session=sess)`")
        return session.run(self, feed_dict)

    run = eval

    def __repr__(self):
        shape = "<unknown>" if self.shape is None else "(" + ", ".join("?" if n is None else str(n) for n in self.shape) + ")"
        return f"<Tensor '{self.name}' shape={shape} dtype={self.dtype.name if self.dtype else '?'}>"

    __hash__ = object.__hash__

    def __bool__(self):
        raise TypeError(f"'{self.name}' is a place in a graph (made at {self.site}) and has no value yet: `if` and `while` cannot ask it. "
                        "Run it in a Session, or use where().")

    def __iter__(self):
        raise TypeError(f"'{self.name}' (made at {self.site}) cannot be iterated over: it has no value before a Session runs it")

    def __getitem__(self, key):
        return make("strided_slice", lambda x: x[key], [self])


def is_number(x):
    return isinstance(x, (int, float, bool))


def eager(value, dtype=None):
    """A value of the user's as an eager tensor; Python floats and lists of them are float32."""
    if isinstance(value, _Eager):
        return value if dtype is None or value.dtype is dtype else value.to(dtype)
    if hasattr(value, "__array__"):
        return _create.as_tensor(value, dtype)
    t = _create.tensor(value, dtype=dtype)
    return t.to(float32) if dtype is None and t.is_floating_point() else t


def lift(value, dtype=None):
    """value as something a node can take: nodes and plain numbers as they are, data as a constant."""
    if isinstance(value, Node) or (is_number(value) and dtype is None):
        return value
    return constant(value, dtype)


def constant(value, dtype=None, shape=None, name=None):
    """A node of fixed value; shape: a number is repeated to it."""
    t = eager(value, as_dtype(dtype))
    if shape is not None:
        t = t.expand(*shape).clone() if t.numel() == 1 else t.reshape(*shape)
    return Node("Const", t, (), name, tuple(t.shape), t.dtype)


def _zeros(x, n):
    shape = tuple([n if d is None else d for d in x.shape])
    if x.dtype.name == "bool" or not x.dtype.is_floating_point:
        return _create.zeros(*shape, dtype=x.dtype)
    return _create.ones(*shape, dtype=x.dtype)  # ones: logarithms and divisions stay finite


def infer(op, fn, inputs):
    """(shape, dtype) of fn(*inputs) by trying it on small operands; None where it depends on what is fed.

    Raises what the operation raises when no size of the unknown dims lets it run.
    """
    nodes = [x for x in inputs if isinstance(x, Node)]
    if any(x.shape is None or x.dtype is None for x in nodes):
        return None, nodes[0].dtype if nodes else None
    known = {d for x in nodes for d in x.shape if d is not None}
    total = max([1] + [_count(x.shape) for x in nodes])
    if total > _LARGE:
        return None, nodes[0].dtype
    free = any(None in x.shape for x in nodes)
    sizes = [2, 3, *sorted(known - {0, 1, 2, 3})] if free else [1]
    results, error = [], None
    _ffi.push_site()
    with no_grad():
        for n in sizes:
            try:
                r = fn(*[_zeros(x, n) if isinstance(x, Node) else x for x in inputs])
            except (RuntimeError, IndexError, ValueError) as e:
                error = e
                continue
            results.append(r)
            if len(results) == 2:
                break
    if not results:
        if free and op in ("Reshape", "strided_slice"):  # may fit what is fed later
            return None, nodes[0].dtype
        what = ", ".join(f"'{x.name}' {x.shape}" for x in nodes)
        raise ValueError(f"{op} does not fit its operands {what}: {error}" + ("" if " at " in str(error) else f" (at {where()})")) from None
    a, b = results[0], results[-1]
    if not isinstance(a, _Eager):
        return None, None
    if a.dim() != b.dim():
        return None, a.dtype
    if free and len(results) == 1:
        return tuple([None] * a.dim()), a.dtype
    return tuple([p if p == q else None for p, q in zip(a.shape, b.shape)]), a.dtype


def _count(shape):
    n = 1
    for d in shape:
        n *= 2 if d is None else d
    return n


def make(op, fn, inputs, name=None):
    """Node of fn over the inputs (nodes, numbers, data)."""
    inputs = [lift(x) for x in inputs]
    shape, dtype = infer(op, fn, inputs)
    return Node(op, fn, inputs, name, shape, dtype)


class Placeholder(Node):
    """A place for a value that each run is fed."""

    def __init__(self, dtype, shape=None, name=None):
        super().__init__("Placeholder", None, (), name, None if shape is None else tuple(shape), as_dtype(dtype))


class Variable(Node):
    """State that runs read and change; it belongs to a session, which gives it its first value in its initializer.

    initial_value: data or a node (random_normal(...)); trainable: optimizers change it.
    """

    def __init__(self, initial_value=None, trainable=True, collections=None, validate_shape=True, caching_device=None, name=None,
                 variable_def=None, dtype=None, **ignored):
        if initial_value is None:
            raise ValueError("initial_value must be specified.")
        if callable(initial_value) and not isinstance(initial_value, Node):
            initial_value = initial_value()
        if not isinstance(initial_value, Node):
            initial_value = constant(initial_value, dtype, name="initial_value")
        if initial_value.shape is None or None in initial_value.shape:
            raise ValueError(f"initial_value must have a shape specified: '{initial_value.name}' has {initial_value.shape}")
        super().__init__("Variable", None, (), name, initial_value.shape, initial_value.dtype)
        self.initial_value = initial_value
        self.trainable = bool(trainable) and self.dtype.is_floating_point
        self.initializer = Initializer([self], self._base + "/Assign")
        self.graph.variables.append(self)

    def read_value(self):
        return make("Read", lambda x: x.clone(), [self])

    value = initialized_value = read_value

    def assign(self, value, name=None, **ignored):
        """Operation that sets the variable; its value is the new one."""
        return Assign(self, value, "copy_", name or "Assign")

    def assign_add(self, delta, name=None, **ignored):
        return Assign(self, delta, "add_", name or "AssignAdd")

    def assign_sub(self, delta, name=None, **ignored):
        return Assign(self, delta, "sub_", name or "AssignSub")

    def load(self, value, session=None):
        """Sets the value in a session at once."""
        from ._session import get_default_session

        (session or get_default_session())._set(self, eager(value, self.dtype))

    def __repr__(self):
        return f"<Variable '{self.name}' shape={self.shape} dtype={self.dtype.name}>"


class Initializer(Node):
    """Operation that gives variables their first values."""

    is_effect = True

    def __init__(self, variables, name="init"):
        super().__init__("Init", None, (), name)
        self.variables = variables


class Effect(Node):
    """An operation that changes variables.  apply(values, session) runs after all plain nodes of a run."""

    is_effect = True


class Assign(Effect):
    def __init__(self, variable, value, method, name):
        value = lift(value)
        super().__init__(name, None, (variable, value), name, variable.shape, variable.dtype)
        self.method = method

    def apply(self, values, session):
        variable, value = self.inputs
        t = session._value(variable)
        v = values[value] if isinstance(value, Node) else value
        with no_grad():
            d = t.detach()
            if not isinstance(v, _Eager):
                v = _create.full(tuple(d.shape), v, dtype=d.dtype)
            getattr(d, self.method)(v)
            values[self] = d


class Group(Effect):
    """Several operations as one."""

    def apply(self, values, session):
        values[self] = None


# ---- operators --------------------------------------------------------------------------------------------


def _binary(op, fn):
    def method(self, other):
        return make(op, fn, [self, other])

    def reverse(self, other):
        return make(op, fn, [other, self])

    return method, reverse


def add(x, y):
    return x + y


def subtract(x, y):
    return x - y


def multiply(x, y):
    return x * y


def divide(x, y):
    return x / y


def power(x, y):
    return x**y


def floordiv(x, y):
    return x // y


def mod(x, y):
    return x % y


def matmul(x, y):
    return x @ y


for _name, _op, _fn in (("add", "add", add), ("sub", "sub", subtract), ("mul", "mul", multiply), ("truediv", "truediv", divide),
                        ("pow", "Pow", power), ("floordiv", "floordiv", floordiv), ("mod", "mod", mod), ("matmul", "MatMul", matmul)):
    _forward, _reverse = _binary(_op, _fn)
    setattr(Node, f"__{_name}__", _forward)
    setattr(Node, f"__r{_name}__", _reverse)
Node.__neg__ = lambda self: make("Neg", lambda x: -x, [self])
Node.__abs__ = lambda self: make("Abs", lambda x: x.abs(), [self])
Node.__lt__ = lambda self, other: make("Less", lambda x, y: x < y, [self, other])
Node.__le__ = lambda self, other: make("LessEqual", lambda x, y: x <= y, [self, other])
Node.__gt__ = lambda self, other: make("Greater", lambda x, y: x > y, [self, other])
Node.__ge__ = lambda self, other: make("GreaterEqual", lambda x, y: x >= y, [self, other])
