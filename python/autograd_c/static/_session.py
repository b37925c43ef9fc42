"""Session: runs the part of a graph that some fetches need.

What is run is found once for each set of fetches and fed nodes; the eager operations of that part, gradients and
updates included, are one frozen function, traced at the first run of a feed's shape and replayed afterwards.
"""
from .._ffi import lib
from .._modes import enable_grad, no_grad
from .._tensor import Tensor as _Eager
from ..freeze import freeze as _freeze
from ._graph import Group, Initializer, Node, Placeholder, Variable, eager, get_default_graph
from ._train import Gradients, TrainOp

_sessions = []
_site_set = lib.ag_site_set


class FailedPreconditionError(RuntimeError):
    """A variable was read before its initializer ran."""


class InvalidArgumentError(ValueError):
    """A placeholder was not fed."""


def get_default_session():
    return _sessions[-1] if _sessions else None


class _Program:
    """The nodes that some fetches need, in order, and the frozen function over them."""

    def __init__(self, session, fetches, feeds):
        self.session = session
        self.feeds = feeds
        self.fetches = fetches
        self.order = _order(fetches, set(feeds))
        fed = set(feeds)
        self.values = [n for n in self.order if not n.is_effect and n not in fed]
        self.effects = [n for n in self.order if n.is_effect and not isinstance(n, Initializer)]
        self.inits = [n for n in self.order if isinstance(n, Initializer)]
        self.variables = [n for n in self.order if isinstance(n, Variable) and n not in fed]
        self.leaves = {x for n in self.order if isinstance(n, Gradients) for x in n.targets if x in fed}
        self.needs_grad = any(isinstance(n, (TrainOp, Gradients)) for n in self.order)
        self.results = [n for n in fetches if not isinstance(n, (Initializer, TrainOp, Group))]
        self.frozen = None

    def missing(self):
        """The first placeholder that was not fed, with the fetch that needs it."""
        for n in self.order:
            if isinstance(n, Placeholder) and n not in self.feeds:
                return n
        return None

    def compute(self, *feeds):
        values = dict(zip(self.feeds, feeds))
        session = self.session
        with enable_grad() if self.needs_grad else no_grad():
            for n in self.values:
                _site_set(*n.position)  # what runs here was written at the node's line
                if n.op == "Const":
                    values[n] = n.fn
                elif isinstance(n, Variable):
                    values[n] = session._value(n)
                elif isinstance(n, Gradients):
                    n.compute(values)
                else:
                    values[n] = n.fn(*[values[x] if isinstance(x, Node) else x for x in n.inputs])
            train = [n for n in self.effects if isinstance(n, TrainOp)]
            # All gradients are taken before anything is changed.
            grads = [n.gradients(values, session, retain=k + 1 < len(train)) for k, n in enumerate(train)]
        results = [values[n].detach().clone() if isinstance(n, Variable) else values[n] for n in self.results if not n.is_effect]
        for n, g in zip(train, grads):
            _site_set(*n.position)
            n.update(g, session)
        for n in self.effects:
            if not isinstance(n, TrainOp):
                n.apply(values, session)
        results += [values[n].clone() for n in self.results if n.is_effect]
        return [r.detach() if isinstance(r, _Eager) and r.requires_grad else r for r in results]

    def prepare(self):
        """Makes what must exist before a trace: optimizers with their state."""
        for n in self.variables:
            self.session._value(n)
        for n in self.effects:
            if isinstance(n, TrainOp):
                n.optimizer_in(self.session)
        if self.frozen is None:
            compute = self.compute
            self.frozen = _freeze(lambda *feeds: compute(*feeds))


def _order(fetches, fed):
    """Nodes that the fetches need, each after its inputs; fed nodes are not looked behind."""
    order, seen = [], set()
    for fetch in fetches:
        work = [(fetch, False)]
        while work:
            node, done = work.pop()
            if done:
                order.append(node)
                continue
            if node in seen:
                continue
            seen.add(node)
            work.append((node, True))
            if node not in fed:
                work.extend([(x, False) for x in reversed(node.inputs) if isinstance(x, Node) and x not in seen])
    return order


def _path(fetch, target, fed):
    """Names from fetch down to target, or None."""
    came = {fetch: None}
    work = [fetch]
    while work:
        n = work.pop()
        if n is target:
            names = []
            while n is not None:
                names.append(n._base)
                n = came[n]
            return names[::-1]
        if n not in fed:
            for x in n.inputs:
                if isinstance(x, Node) and x not in came:
                    came[x] = n
                    work.append(x)
    return None


class Session:
    """Holds the values of a graph's variables and runs parts of it.  Use as a context, or close() it."""

    def __init__(self, target="", graph=None, config=None):
        self.graph = graph or get_default_graph()
        self._values = {}
        self._programs = {}
        self._optimizers = {}

    # ---- variables ----

    def _value(self, variable):
        try:
            return self._values[variable]
        except KeyError:
            raise FailedPreconditionError(f"Attempting to use uninitialized value {variable._base} (a Variable made at {variable.site}): "
                                          "run global_variables_initializer() first") from None

    def _set(self, variable, value):
        """Writes into the variable's tensor, so that frozen programs keep it."""
        t = self._values.get(variable)
        if t is not None and t.shape == value.shape:
            with no_grad():
                t.detach().copy_(value)
            return
        t = value.detach().clone()
        if variable.trainable:
            t.requires_grad_()
        self._values[variable] = t

    def _initialize(self, init):
        done = {}

        def value(node):  # initial values are small graphs of their own, without placeholders
            for n in _order([node], set()):
                if n in done:
                    continue
                if isinstance(n, Variable):
                    done[n] = self._value(n)
                elif isinstance(n, Placeholder):
                    raise InvalidArgumentError(f"the initial value of a variable needs the placeholder '{n._base}' (made at {n.site})")
                else:
                    done[n] = n.fn if n.op == "Const" else n.fn(*[done[x] if isinstance(x, Node) else x for x in n.inputs])
            return done[node]

        with no_grad():
            for v in init.variables:
                self._set(v, value(v.initial_value))
        for optimizer in self._optimizers.values():  # their state starts anew, too
            for state in optimizer.state.values():
                for t in state.values():
                    t.zero_()

    # ---- runs ----

    def run(self, fetches, feed_dict=None, options=None, run_metadata=None):
        """Values of fetches: a node, a name, or a list, tuple or dict of them; operations give None.

        feed_dict: node or name -> NumPy array, list or number; any node may be fed, not only placeholders.  Values are
        those before the run's updates.  ValueError names a placeholder that is missing or does not fit, its line, and
        the fetch that needs it.
        """
        nodes = []
        pattern = self._flatten(fetches, nodes)
        feeds = {}
        if feed_dict:
            for key, value in feed_dict.items():
                node = key if isinstance(key, Node) else self._named(key)
                feeds[node] = value
        key = tuple(nodes), tuple(feeds)
        program = self._programs.get(key)
        if program is None:
            program = self._programs[key] = _Program(self, list(dict.fromkeys(nodes)), tuple(feeds))
        unfed = program.missing()
        if unfed is not None:
            self._complain(unfed, nodes, feeds)
        for init in program.inits:
            self._initialize(init)
        values = dict.fromkeys(nodes)
        if program.results or program.effects:
            tensors = [self._feed(n, v, nodes, feeds) for n, v in feeds.items()]
            tensors = [t.detach().requires_grad_() if n in program.leaves else t for n, t in zip(feeds, tensors)]
            program.prepare()
            results = program.frozen(*tensors)
            plain = [n for n in program.results if not n.is_effect] + [n for n in program.results if n.is_effect]
            for n, r in zip(plain, results):
                a = r.numpy()
                values[n] = a.copy() if a.ndim else a[()]
        return pattern(values)

    def partial_run(self, *args, **kw):
        raise NotImplementedError("partial_run is not supported: run what is needed at once")

    def _named(self, key):
        if not isinstance(key, str):
            raise TypeError(f"feed_dict: keys are nodes or names, not {type(key).__name__}")
        try:
            return self.graph.get_tensor_by_name(key)
        except KeyError as e:
            raise ValueError(f"feed_dict: {e.args[0]}") from None

    def _flatten(self, x, nodes):
        """Function from values to x's structure; its nodes are appended to nodes."""
        if isinstance(x, str):
            x = self.graph.get_tensor_by_name(x)
        if isinstance(x, Node):
            if x.graph is not self.graph:
                raise ValueError(f"'{x.name}' (made at {x.site}) is not an element of this session's graph")
            nodes.append(x)
            return lambda values: values[x]
        if isinstance(x, dict):
            parts = {k: self._flatten(v, nodes) for k, v in x.items()}
            return lambda values: {k: p(values) for k, p in parts.items()}
        if isinstance(x, (list, tuple)):
            kind, parts = type(x), [self._flatten(v, nodes) for v in x]
            if hasattr(x, "_fields"):
                return lambda values: kind(*[p(values) for p in parts])
            return lambda values: kind([p(values) for p in parts])
        raise TypeError(f"Fetch argument {x!r} has invalid type {type(x).__name__}, must be a node, a name, or a list, tuple or dict of them")

    def _needed_by(self, node, nodes, feeds):
        fed = set(feeds)
        for fetch in nodes:
            path = _path(fetch, node, fed - {node})
            if path:
                return f"fetch '{fetch._base}' (made at {fetch.site}) needs it" + (": " + " -> ".join(path) if len(path) > 2 else "")
        return "no fetch needs it"

    def _complain(self, node, nodes, feeds):
        raise InvalidArgumentError(
            f"You must feed a value for placeholder '{node._base}' with dtype {node.dtype.name} and shape {_shape_text(node.shape)}, made at "
            f"{node.site}; {self._needed_by(node, nodes, feeds)}")

    def _feed(self, node, value, nodes, feeds):
        if isinstance(value, Node):
            raise TypeError("The value of a feed cannot be a node of the graph: feed numbers, lists, NumPy arrays or tensors")
        try:
            t = eager(value, node.dtype)
        except (TypeError, ValueError) as e:
            raise type(e)(f"Cannot make a {node.dtype.name} value for '{node._base}' (made at {node.site}): {e}") from None
        want, given = node.shape, tuple(t.shape)
        if want is not None and (len(want) != len(given) or any(w is not None and w != g for w, g in zip(want, given))):
            kind = "placeholder" if isinstance(node, Placeholder) else "tensor"
            raise ValueError(f"Cannot feed value of shape {_shape_text(given)} for {kind} '{node._base}', which has shape {_shape_text(want)} "
                             f"and was made at {node.site}; {self._needed_by(node, nodes, feeds)}")
        return t.detach()

    def report(self):
        """What has been frozen: one line for each set of fetches."""
        lines = []
        for (nodes, feeds), program in self._programs.items():
            plans = getattr(program.frozen, "plans", None)
            lines.append(f"{', '.join(n._base for n in nodes)} fed {', '.join(n._base for n in feeds) or 'nothing'}: "
                         f"{len(program.order)} nodes, {len(plans) if plans is not None else 0} plans")
        return "\n".join(lines)

    def close(self):
        self._programs.clear()
        self._values.clear()
        self._optimizers.clear()

    def as_default(self):
        return _AsDefault(self)

    def __enter__(self):
        _sessions.append(self)
        return self

    def __exit__(self, *error):
        _sessions.remove(self)
        self.close()


class InteractiveSession(Session):
    """A session that is the default one from its making until close()."""

    def __init__(self, target="", graph=None, config=None):
        super().__init__(target, graph, config)
        _sessions.append(self)

    def close(self):
        if self in _sessions:
            _sessions.remove(self)
        super().close()


class _AsDefault:
    def __init__(self, session):
        self.session = session

    def __enter__(self):
        _sessions.append(self.session)
        return self.session

    def __exit__(self, *error):
        _sessions.remove(self.session)


def _shape_text(shape):
    return "<unknown>" if shape is None else str(tuple(shape))


