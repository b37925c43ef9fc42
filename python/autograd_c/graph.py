"""The dynamic graph seen from Python: nodes, their edges, saved values and source lines; text and Graphviz."""
import weakref as _weakref

from ._call import wrap
from ._ffi import ffi, fail, lib
from ._tensor import Tensor, _leaves

_alive = _weakref.WeakValueDictionary()  # address -> Node: a node is one Python object as long as someone holds it
_classes = {}


def _address(pointer):
    return int(ffi.cast("uintptr_t", pointer))


class Node:
    """An operation of the dynamic graph, or the place where a leaf's gradient arrives (AccumulateGrad).

    Attributes: next_functions, variable (AccumulateGrad only), metadata (a dict of the user's), site, line,
    sequence_nr, and `_saved_<name>` for each saved value.
    """

    __slots__ = ("_n", "_metadata", "__weakref__")

    def __init__(self, *args):
        raise TypeError("nodes are made by operations")

    def __del__(self, release=lib.ag_node_release):
        release(self._n)

    @property
    def short_name(self):
        return type(self).__name__

    def name(self):
        """The operation's name, as "MulBackward0"."""
        short = type(self).__name__
        return "torch::autograd::AccumulateGrad" if short == "AccumulateGrad" else short

    @property
    def next_functions(self):
        """((node or None, output number), ...): where the gradient of each input goes."""
        out, nr = [], ffi.new("int *")
        for k in range(lib.ag_node_n_inputs(self._n)):
            n = lib.ag_node_next(self._n, k, nr)
            out.append((node(n), nr[0]) if n else (None, 0))
        return tuple(out)

    @property
    def variable(self):
        """The leaf of an AccumulateGrad node."""
        h = lib.ag_node_variable(self._n)
        if not h:
            if type(self).__name__ == "AccumulateGrad":
                return None
            raise AttributeError(f"'{type(self).__name__}' object has no attribute 'variable'")
        kept = _leaves.get(_address(h))
        if kept is not None and kept._h == h:
            lib.ag_tensor_release(h)
            return kept
        return wrap(h)

    @property
    def metadata(self):
        try:
            return self._metadata
        except AttributeError:
            self._metadata = {}
            return self._metadata

    @property
    def sequence_nr(self):
        return lib.ag_node_seq(self._n)

    def _sequence_nr(self):
        return lib.ag_node_seq(self._n)

    @property
    def site(self):
        """Where it was made, as "file.py:12 in train_step"; "" when unknown."""
        return ffi.string(lib.ag_node_site(self._n)).decode("utf-8", "replace")

    @property
    def line(self):
        """(file, line, function) where it was made, or None."""
        file, func, line = ffi.new("const char **"), ffi.new("const char **"), ffi.new("int *")
        if lib.ag_node_line(self._n, file, func, line) < 0 or not file[0]:
            return None
        return ffi.string(file[0]).decode(), line[0], ffi.string(func[0]).decode()

    @property
    def params(self):
        """(ints, floats): the attributes of the operation."""
        p = lib.ag_node_params(self._n)
        return (tuple(p.i[0:p.ni]), tuple(p.f[0:p.nf])) if p else ((), ())

    def saved_names(self):
        return [ffi.string(lib.ag_node_saved_name(self._n, k)).decode() for k in range(lib.ag_node_n_saved(self._n))]

    @property
    def saved_tensors(self):
        return tuple([self._saved(k) for k in range(lib.ag_node_n_saved(self._n))])

    def _saved(self, k):
        h = lib.ag_node_saved(self._n, k)
        if not h:
            fail()
        return wrap(h)

    def __getattr__(self, name):
        if name.startswith("_saved_"):
            names = self.saved_names()
            if name[7:] in names:
                return self._saved(names.index(name[7:]))
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def __dir__(self):
        return [*object.__dir__(self), *["_saved_" + n for n in self.saved_names()]]

    def __eq__(self, other):
        return isinstance(other, Node) and self._n == other._n

    def __hash__(self):
        return hash(_address(self._n))

    def __repr__(self):
        return f"<{type(self).__name__} object at 0x{_address(self._n):x}>"


def node(n):
    """Node around a handle, whose reference it takes over."""
    address = _address(n)
    known = _alive.get(address)
    if known is not None:
        lib.ag_node_release(n)
        return known
    name = ffi.string(lib.ag_node_name(n)).decode().rpartition("::")[2]
    cls = _classes.get(name)
    if cls is None:
        cls = _classes[name] = type(name, (Node,), {"__slots__": (), "__module__": __name__})
    r = cls.__new__(cls)
    r._n = n
    _alive[address] = r
    return r


def _roots(tensors):
    if isinstance(tensors, (Tensor, Node)):
        tensors = [tensors]
    out = []
    for t in tensors:
        n = t if isinstance(t, Node) else t.grad_fn
        if n is None and t.requires_grad:
            h = lib.ag_tensor_acc_node(t._h)
            n = node(h) if h else None
        if n is not None:
            out.append(n)
    return out


def nodes(tensors):
    """Every node below the tensors, latest first."""
    seen, stack = {}, _roots(tensors)
    while stack:
        n = stack.pop()
        if n not in seen:
            seen[n] = None
            stack.extend(m for m, _ in n.next_functions if m is not None)
    return sorted(seen, key=lambda n: -n.sequence_nr)


def _label(n, names):
    v = n.variable if n.short_name == "AccumulateGrad" else None
    if v is not None:
        return f"{names.get(id(v)) or v.name or 'leaf'} {list(v.shape)}"
    return n.short_name


def _names(params):
    if params is None:
        return {}
    items = params.items() if hasattr(params, "items") else params
    return {id(t): name for name, t in items}


def graph_text(tensors, params=None):
    """The graph as text: one line for each node, with its inputs' numbers and its source line.

    params: names of leaves, as (name, tensor) pairs or a dict, such as dict(module.named_parameters()).
    """
    order = nodes(tensors)
    names = _names(params)
    number = {n: k for k, n in enumerate(order)}
    lines = []
    for k, n in enumerate(order):
        ins = ", ".join(f"%{number[m]}" if m is not None else "-" for m, _ in n.next_functions)
        site = n.site
        lines.append(f"%{k} = {_label(n, names)}" + (f"({ins})" if ins else "") + (f"  # {site}" if site else ""))
    return "\n".join(lines)


def to_dot(tensors, params=None):
    """The graph in Graphviz's language; arrows point the way values flow, labels carry source lines."""
    order = nodes(tensors)
    names = _names(params)
    number = {n: k for k, n in enumerate(order)}
    out = ["digraph autograd_c {", '  node [shape=box, fontname="monospace", fontsize=10];']
    for n in order:
        label = _label(n, names).replace("\\", "\\\\").replace('"', '\\"')
        leaf = n.short_name == "AccumulateGrad"
        site = n.site.replace("\\", "\\\\").replace('"', '\\"')
        style = ', style=filled, fillcolor="lightblue"' if leaf else ""
        out.append(f'  n{number[n]} [label="{label}' + (f"\\n{site}" if site else "") + f'"{style}];')
        out.extend(f"  n{number[m]} -> n{number[n]};" for m, _ in n.next_functions if m is not None)
    out.append("}")
    return "\n".join(out)


def picture(tensors, params=None):
    """The graph as a graphviz.Source, which notebooks draw; needs the package graphviz."""
    import graphviz

    return graphviz.Source(to_dot(tensors, params))
