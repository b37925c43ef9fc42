"""What a frozen function reads beside its arguments, and whether it is still the same.

A Reader looks at the code of a function once: its closure, the globals it names, attributes it takes from them,
and the same for the plain Python functions it calls.  Reader.guards() takes a picture of the values; Guards.check
is a function written for that picture, a few comparisons by identity long; Guards.changed() takes its time and
says what is different.
"""
import dis as _dis
import operator as _operator
import os as _os
import sys as _sys
import types as _types

from ._tensor import Tensor

_PLAIN = (bool, int, float, complex, str, bytes, type(None))
_PACKAGE = _os.path.dirname(_os.path.abspath(__file__)) + _os.sep
_MAX_FUNCTIONS, _MAX_ITEMS, _MAX_OBJECTS = 64, 512, 2000
_is = _operator.is_


def _nn():
    return _sys.modules.get(__package__ + ".nn.module")


def module_version():
    """Counter of changes to modules and optimizers; 0 when none can exist."""
    m = _nn()
    return m._version[0] if m is not None else 0


def _own(f):
    """True for functions of this package: they read nothing that a user changes."""
    return f.__code__.co_filename.startswith(_PACKAGE)


def _codes(code):
    yield code
    for c in code.co_consts:
        if isinstance(c, _types.CodeType):
            yield from _codes(c)


def _names(f):
    """What f reads: global names, and (kind, name, attribute) for attributes of globals, cells and arguments."""
    seen_globals, attributes = {}, {}
    for code in _codes(f.__code__):
        last = None
        for i in _dis.get_instructions(code):
            op, name = i.opname, i.argval
            if op in ("LOAD_GLOBAL", "LOAD_NAME"):
                seen_globals[name] = None
                last = ("global", name)
            elif op == "LOAD_DEREF":
                last = ("cell", name)
            elif op.startswith("LOAD_FAST") and isinstance(name, str):
                last = ("local", name) if code is f.__code__ else None
            elif op == "LOAD_ATTR" and last is not None:
                attributes[last + (name,)] = None
                last = None
            elif op not in ("CACHE", "PUSH_NULL", "COPY_FREE_VARS", "RESUME"):
                last = None
    return list(seen_globals), list(attributes)


def _same(a, b):
    return a is b or (type(a) is type(b) and type(a) in _PLAIN and (a == b or (a != a and b != b)))


class Reader:
    """What can be known about a function without its values."""

    def __init__(self, fn):
        self.owner = getattr(fn, "__self__", None)
        while isinstance(fn, _types.MethodType):
            fn = fn.__func__
        self.fn = fn if isinstance(fn, _types.FunctionType) else None
        self.names = {}

    def read(self, f):
        r = self.names.get(f.__code__)
        if r is None:
            r = self.names[f.__code__] = _names(f)
        return r

    def guards(self, args, kwargs):
        g = Guards()
        if self.fn is not None:
            self._functions(g, args, kwargs)
        elif callable(self.owner):
            g.roots.append(self.owner)
        g.roots.extend(args)
        g.roots.extend(kwargs.values())
        g.finish()
        return g

    def _functions(self, g, args, kwargs):
        todo, seen = [self.fn], set()
        while todo and len(seen) < _MAX_FUNCTIONS:
            f = todo.pop()
            if f in seen:
                continue
            seen.add(f)
            global_names, attributes = self.read(f)
            where = f.__qualname__
            found = {}
            for name, cell in zip(f.__code__.co_freevars, f.__closure__ or ()):
                try:
                    v = cell.cell_contents
                except ValueError:
                    continue
                found["cell", name] = v, g.add("{}.cell_contents", cell, v, f"{name} (closure of {where})")
            for name in global_names:
                if name not in f.__globals__:
                    continue
                v = f.__globals__[name]
                found["global", name] = v, g.add("{}[%r]" % name, f.__globals__, v, f"{name} (global, read by {where})")
            if f is self.fn:
                local = list(f.__code__.co_varnames[:f.__code__.co_argcount])
                values = ([self.owner] if self.owner is not None else []) + list(args)
                for name, v in zip(local, values):
                    found["local", name] = v, None
                if self.owner is not None and local:
                    g.roots.append(self.owner)
            for kind, name, attribute in attributes:
                if (kind, name) in found:
                    self._attribute(g, found[kind, name][0], name, attribute, where, todo)
            for v, _ in found.values():
                if isinstance(v, _types.FunctionType) and not _own(v):
                    todo.append(v)

    @staticmethod
    def _attribute(g, owner, name, attribute, where, todo):
        """owner.attribute is read: watched when it is data of a plain object or module."""
        if isinstance(owner, (Tensor, type)) or _is_module(owner):
            return
        if isinstance(owner, _types.ModuleType):
            if owner.__name__.partition(".")[0] in _sys.stdlib_module_names or owner.__name__.partition(".")[0] == __package__:
                return
            v = vars(owner).get(attribute, g)
        else:
            v = getattr(owner, "__dict__", {}).get(attribute, g)
        if v is g:
            return
        if isinstance(v, _types.FunctionType) and isinstance(owner, _types.ModuleType) and not _own(v):
            todo.append(v)
        if type(v) in _PLAIN or isinstance(v, (Tensor, _types.FunctionType, _types.BuiltinFunctionType, list, tuple, dict)):
            g.add("{}.%s" % attribute, owner, v, f"{name}.{attribute} (read by {where})")
        g.roots.append(v)


def _is_module(x):
    m = _nn()
    return m is not None and isinstance(x, m.Module)


def _is_optimizer(x):
    m = _sys.modules.get(__package__ + ".optim.optimizer")
    return m is not None and isinstance(x, m.Optimizer)


class Guards:
    """A picture of the values a function reads."""

    def __init__(self):
        self.watched = []  # (format of an expression, object in it, value, words for people)
        self.containers = []  # (object, kind, items, words)
        self.roots = []
        self.tensor_ids = set()
        self.pinned = []
        self._ids = set()
        self._items = 0

    def add(self, form, holder, value, words):
        self.watched.append([form, holder, value, words])
        self.roots.append(value)
        self._value(value, words)

    def _value(self, v, words):
        if isinstance(v, Tensor):
            self.tensor_ids.add(id(v))
        elif isinstance(v, (list, tuple, dict, set)) and id(v) not in self._ids:
            # What a container holds is watched too, as far as it is of a sensible size.
            self._ids.add(id(v))
            if self._items + len(v) > _MAX_ITEMS:
                return
            self._items += len(v)
            items = list(v.values()) if isinstance(v, dict) else list(v)
            if not isinstance(v, tuple):
                kind = "dict" if isinstance(v, dict) else "plain" if all(type(x) in _PLAIN for x in items) else "items"
                self.containers.append((v, kind, items, list(v) if isinstance(v, dict) else None, words))
            for x in items:
                self._value(x, words)

    def pin(self, k, tensor):
        """Argument k is also captured: another tensor there is another case."""
        self.pinned.append((k, tensor))

    # ---- modules and optimizers within reach ----

    def _reach(self):
        """Modules and optimizers that can be reached from what the function reads."""
        found, seen, todo = [], set(), [(r, 0) for r in self.roots]
        while todo and len(seen) < _MAX_OBJECTS:
            x, depth = todo.pop()
            if id(x) in seen or type(x) in _PLAIN or isinstance(x, (Tensor, type, _types.ModuleType)):
                continue
            seen.add(id(x))
            if _is_module(x) or _is_optimizer(x):
                found.append(x)
            elif depth < 4:
                if isinstance(x, dict):
                    todo.extend([(v, depth + 1) for v in list(x.values())[:_MAX_ITEMS]])
                elif isinstance(x, (list, tuple, set)):
                    todo.extend([(v, depth + 1) for v in list(x)[:_MAX_ITEMS]])
                elif isinstance(x, _types.MethodType):
                    todo.append((x.__self__, depth + 1))
                elif hasattr(x, "__dict__") and not isinstance(x, _types.FunctionType):
                    todo.extend([(v, depth + 1) for v in list(vars(x).values())[:_MAX_ITEMS]])
        return found

    def _fingerprint(self):
        out = []
        for x in self._found:
            if _is_optimizer(x):
                for group in x.param_groups:
                    out.append([(k, v) for k, v in group.items() if type(v) in _PLAIN + (tuple,) and k != "lr"])
                    out.append([id(p) for p in group["params"]])
                    out.append(id(group["lr"]) if isinstance(group.get("lr"), Tensor) else None)
                continue
            for m in x.modules():
                d = vars(m)
                out.append((id(m), [(k, v) for k, v in d.items() if type(v) in _PLAIN or type(v) is tuple],
                            [(k, [(n, id(v)) for n, v in w.items()]) for k, w in d.items() if isinstance(w, dict)],
                            [(k, id(v)) for k, v in d.items() if isinstance(v, Tensor)]))
        return out

    def finish(self):
        self._found = self._reach()
        self._version = [module_version()]
        self._print = self._fingerprint() if self._found else None
        self.check = self._compile()

    def moved(self, before):
        """After the trace: did it change modules?  before: module_version() when it began."""
        now = module_version()
        if self._found:
            if now != before and self._fingerprint() != self._print:
                return True
            self._version[0] = now
        return False

    # ---- the quick look ----

    def _compile(self):
        names, terms = {}, []

        def name(v):
            key = id(v)
            if key not in names:
                names[key] = f"v{len(names)}", v
            return names[key][0]

        done = set()
        for form, holder, value, _ in self.watched:
            term = f"{form.format(name(holder))} is {name(value)}"
            if term not in done:
                done.add(term)
                terms.append(term)
        for box, kind, items, keys, _ in self.containers:
            b, i = name(box), name(items)
            if kind == "plain":
                terms.append(f"{b} == {i}" if isinstance(box, list) else f"{b} == {name(type(box)(items))}")
            elif kind == "dict":
                terms.append(f"list({b}) == {name(keys)} and all(map({name(_is)}, {b}.values(), {i}))")
            else:
                terms.append(f"len({b}) == {len(items)} and all(map({name(_is)}, {b}, {i}))")
        if self._found:
            terms.insert(0, f"{name(_nn()._version)}[0] == {name(self._version)}[0]")
        if not terms:
            return _always
        self._keep = list(names.values())
        args = ", ".join(n for n, _ in self._keep)
        body = " and ".join(terms)
        source = (f"def make({args}):\n def check():\n  try:\n   return {body}\n  except Exception:\n   return False\n return check\n")
        scope = {}
        exec(compile(source, "<guards of a frozen function>", "exec"), scope)  # noqa: S102
        return scope["make"](*[v for _, v in self._keep])

    # ---- the long look ----

    def changed(self):
        """None when everything is as it was, else what is not, in words.

        Numbers that are equal but other objects, and module changes that do not concern this function, are
        taken over, so that the quick look passes again.
        """
        if self.check():
            return None
        stale = False
        for w in self.watched:
            form, holder, value, words = w
            try:
                now = eval(form.format("h"), {"h": holder})  # noqa: S307
            except Exception:
                return f"{words} is gone"
            if now is value:
                continue
            if not _same(now, value):
                return f"{words} was {_short(value)}, now it is {_short(now)}"
            w[2] = now
            stale = True
        for box, kind, items, keys, words in self.containers:
            now = list(box.values()) if isinstance(box, dict) else list(box)
            if len(now) != len(items) or (keys is not None and keys != list(box)):
                return f"{words}: the number or names of its items changed"
            if isinstance(box, set):
                if box != set(items):
                    return f"{words}: its items changed"
                continue
            for k, (a, b) in enumerate(zip(now, items)):
                if a is b:
                    continue
                if not _same(a, b):
                    return f"{words}: item {k} was {_short(b)}, now it is {_short(a)}"
                items[k] = a
                stale = True
        if self._found and module_version() != self._version[0]:
            if self._fingerprint() != self._print:
                return "attributes of a module or options of an optimizer changed"
            self._version[0] = module_version()
        if stale:
            self.check = self._compile()
        return None


def _always():
    return True


def _short(v):
    if isinstance(v, Tensor):
        return f"a tensor at {id(v):#x}"
    r = repr(v) if type(v) in _PLAIN else f"a {type(v).__name__} at {id(v):#x}"
    return r if len(r) <= 40 else r[:37] + "..."
