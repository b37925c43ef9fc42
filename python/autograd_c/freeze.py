"""freeze: a function of tensors becomes a static graph that is replayed.

    @freeze
    def step(x, y):
        loss = ((model(x) - y) ** 2).mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss

The first call runs the function as it stands and records every operation, backward and optimizer included.
Later calls with the same signature replay the recording from C: same bits, no Python in between.  Parameters,
optimizer state, learning rates, the random generator and captured tensors are used by reference: they show the
new values afterwards, and changes made to them outside are seen.

A call is traced anew when something it depended on has changed: structure, dtype, shape or requires_grad of the
arguments, numbers and strings among them, grad mode, values the function reads from its closure, from globals and
from plain attributes, attributes of the modules it can reach.  `why_retraced()` tells what it was.  What Python
does beside the operations (printing, counting, drawing from `random`) happens during a trace only.  Reading the
value of a tensor inside raises TracedDataError with the line.
"""
import functools as _functools
from itertools import chain as _chain, repeat as _repeat
import sys as _sys
import types as _types
import warnings as _warnings

from . import _guards
from ._ffi import NULL, check, fail, ffi, last_error, lib, made
from ._tensor import Tensor, _new

_run = lib.ag_plan_run
_STRICT = 1 << 63
_MANY = 8  # plans kept for one signature; traces after which a changing value is worth a warning
_TRIES = 3  # traces of a function that keeps making something of its own, before it is left alone

PASSES = tuple(ffi.string(lib.ag_pass_name(k)).decode() for k in range(lib.ag_pass_count()))


# ---- structures of arguments and results ------------------------------------------------------------

_PLAIN = (bool, int, float, complex, str, bytes, type(None))


def _flatten(x, leaves):
    """Key of x's structure; its tensors are appended to leaves."""
    t = type(x)
    if t in _PLAIN:
        return t, x
    if isinstance(x, Tensor):
        leaves.append(x)
        return Tensor
    if t is tuple or t is list or isinstance(x, tuple):
        return (t,) + tuple([_flatten(v, leaves) for v in x])
    if isinstance(x, dict):
        return (t, tuple(x)) + tuple([_flatten(v, leaves) for v in x.values()])
    return t, id(x)


def _signature(tensors):
    sig = []
    for t in tensors:
        h = t._h
        n = lib.ag_tensor_ndim(h)
        sig.append((lib.ag_tensor_dtype(h), lib.ag_tensor_requires_grad(h), tuple(ffi.unpack(lib.ag_tensor_shape(h), n)),
                    None if lib.ag_tensor_contiguous(h) else tuple(ffi.unpack(lib.ag_tensor_strides(h), n))))
    return tuple(sig)


def _others(x, out):
    """Objects among the arguments that a key knows by address: kept alive with the plan."""
    if isinstance(x, (tuple, list)):
        for v in x:
            _others(v, out)
    elif isinstance(x, dict):
        for v in x.values():
            _others(v, out)
    elif type(x) not in _PLAIN and not isinstance(x, Tensor):
        out.append(x)


def _rebuild(x, tensors):
    """x with its tensors (or holes) replaced, in _flatten's order, by those of an iterator."""
    if x is _HOLE or isinstance(x, Tensor):
        return next(tensors)
    t = type(x)
    if t is list or t is tuple:
        return t([_rebuild(v, tensors) for v in x])
    if isinstance(x, tuple):
        return t(*[_rebuild(v, tensors) for v in x]) if hasattr(x, "_fields") else tuple([_rebuild(v, tensors) for v in x])
    if isinstance(x, dict):
        r = x.copy()
        for k, v in x.items():
            r[k] = _rebuild(v, tensors)
        return r
    return x


_HOLE = object()  # stands for a tensor in a skeleton


def _skeleton(x):
    """x without its tensors, so that a plan does not keep the first results alive."""
    return _rebuild(x, _repeat(_HOLE))


# ---- one plan ---------------------------------------------------------------------------------------


class Plan:
    """One frozen program with what it depends on.  Made by freeze; see Frozen.plans."""

    def __init__(self, handle, key, guards, result, out_tensors, in_index, others, template):
        self._h = handle
        self._key = key
        self._guards = guards
        self._others = others
        self._in_index = in_index  # which of the arguments' tensors are inputs; the rest is bound by reference
        self._n_in = lib.ag_plan_n_inputs(handle)
        self._n_out = lib.ag_plan_n_outputs(handle)
        self._single = isinstance(result, Tensor)
        self._result = _skeleton(result)
        self._first = out_tensors  # the results of the traced call, until the first replay has looked at them
        self._same = None
        self._pool = []
        self._template = template  # the arguments with holes for tensors, where they are no more than that

    def __del__(self, release=lib.ag_plan_release):
        release(self._h)

    def arrays(self):
        """C arrays for inputs and results; several calls may be under way in several threads."""
        try:
            return self._pool.pop()
        except IndexError:
            return ffi.new("ag_tensor *[]", max(self._n_in, 1)), ffi.new("ag_tensor *[]", max(self._n_out, 1))

    def run(self, tensors):
        """Status, result."""
        pair = self.arrays()
        ins, outs = pair
        for k, j in enumerate(self._in_index):
            ins[k] = tensors[j]._h
        status = _run(self._h, self._n_in, ins, outs)
        result = self.wrap(outs, tensors) if status == 0 else None
        self._pool.append(pair)
        return status, result

    def wrap(self, outs, tensors):
        if self._first is not None:
            self._look(outs)
        same, res = self._same, []
        for k in range(self._n_out):
            h = outs[k]
            if same is not None and k in same and same[k]._h == h:
                lib.ag_tensor_release(h)
                res.append(same[k])
                continue
            # An argument, or the same tensor as an earlier result?
            for t in _chain(tensors, res):
                if t._h == h:
                    lib.ag_tensor_release(h)
                    break
            else:
                t = _new(Tensor, h)
            res.append(t)
        return res[0] if self._single else _rebuild(self._result, iter(res))

    def _look(self, outs):
        """After the first replay: which results are tensors from outside, so the same objects each time?"""
        same = {k: t for k, t in enumerate(self._first) if t._h == outs[k]}
        self._same = same or None
        self._first = None

    @property
    def simple(self):
        """True when a call needs no more than the handle of its one new result."""
        return self._single and self._first is None and self._same is None and self._template is not None

    # ---- looking at it ----

    @property
    def info(self):
        """Facts as a dict: instructions, fused_groups, arena_bytes ... (ag_plan_info of ag_api.h)."""
        f = ffi.new("ag_plan_info *")
        lib.ag_plan_get_info(self._h, f)
        return {name: getattr(f, name) for name, _ in ffi.typeof("ag_plan_info").fields}

    def text(self):
        """The program, one instruction a line, with shapes and source lines."""
        s = made(lib.ag_plan_text(self._h))
        try:
            return ffi.string(s).decode("utf-8", "replace")
        finally:
            lib.ag_free(s)

    def __repr__(self):
        f = self.info
        return (f"<Plan: {f['traced']} traced, {f['instructions']} instructions in {f['kernels_per_run']} steps, "
                f"arena {f['arena_bytes']} bytes, {f['replays']} replays>")


def _template(args, kwargs, tensors, in_index):
    if kwargs or len(in_index) != len(tensors):
        return None
    if not any(isinstance(a, (tuple, list, dict)) for a in args):
        return tuple([_HOLE if isinstance(a, Tensor) else a for a in args])
    return None


class _Eager:
    """Stands in the list of plans for a signature that cannot be frozen."""

    def __init__(self, reason, tries):
        self.reason = reason
        self.tries = tries


# ---- the frozen function ----------------------------------------------------------------------------


class Frozen:
    """State behind a frozen function: its plans, and why they were made."""

    def __init__(self, fn, off):
        self.fn = fn
        self.off = off
        self.entry = None  # the plan of the latest call
        self.quick = None  # setter of the quick half's plan
        self.table = {}
        self.plans = []
        self.reasons = []
        self.warned = False
        self.reader = _guards.Reader(fn)

    # ---- calls ----

    def call(self, args, kwargs):
        """The careful way: finds or makes the plan for these arguments."""
        if lib.ag_tracing():
            return self.fn(*args, **kwargs)
        tensors = []
        key = _flatten(args, tensors), _flatten(kwargs, tensors) if kwargs else None, _signature(tensors), lib.ag_grad_enabled()
        entries = self.table.get(key)
        why = "first call" if not self.table else "first call with these arguments: " + _describe(key)
        tries, reason = 0, None  # of the plan used latest
        if entries is not None:
            for e in entries:
                if type(e) is _Eager:
                    if e.tries >= _TRIES:
                        return self.fn(*args, **kwargs)
                    tries = e.tries
                    why = e.reason
                    entries.remove(e)
                    break
                changed = e._guards.changed()
                if changed:
                    reason = reason or changed
                    continue
                status, result = e.run(tensors)
                if status == 0:
                    self.entry = e
                    if e is not entries[0]:
                        entries.remove(e)
                        entries.insert(0, e)
                    return result
                if status != lib.AG_ERR_RETRACE:
                    check(status)
                reason = reason or last_error()
        return self.trace(args, kwargs, tensors, key, reason or why, tries)

    def trace(self, args, kwargs, tensors, key, why, tries):
        self.reasons.append(why)
        entries = self.table.setdefault(key, [])
        if len(self.reasons) > 2 * _MANY and len(entries) >= _MANY and not self.warned:
            self.warned = True
            _warnings.warn(f"{self._name()} was traced {len(self.reasons)} times, lately because {why}. A value that changes with "
                           "every call is better passed as a tensor.", stacklevel=4)
        guards = self.reader.guards(args, kwargs)
        # An argument that is captured as well is one tensor under two names: bound by reference, not exchangeable.
        captured = guards.tensor_ids
        in_index = [k for k, t in enumerate(tensors) if id(t) not in captured]
        for k, t in enumerate(tensors):
            if id(t) in captured:
                guards.pin(k, t)
        version = _guards.module_version()
        handles = ffi.new("ag_tensor *[]", [tensors[k]._h for k in in_index] or [NULL])
        tr = made(lib.ag_trace_begin(len(in_index), handles))
        try:
            result = self.fn(*args, **kwargs)
        except BaseException:
            lib.ag_trace_abort(tr)
            raise
        outs = []
        _flatten(result, outs)
        h = lib.ag_trace_end(tr, len(outs), [t._h for t in outs], self.off | _STRICT)
        reason = None
        if not h:
            if lib.ag_last_status() != lib.AG_ERR_NOT_IMPLEMENTED:
                fail()
            reason = last_error()
            if "graph" in reason:
                tries = _TRIES
        elif guards.moved(version):
            lib.ag_plan_release(h)
            reason = "attributes of a module or optimizer were set inside the frozen function"
        if reason:
            tries += 1
            if tries >= _TRIES:
                if tries == _TRIES and not self.warned:
                    self.warned = True
                    _warnings.warn(f"{self._name()} runs unfrozen: {reason}", stacklevel=4)
                self.reasons.append(f"runs unfrozen: {reason}")
            entries.insert(0, _Eager(reason, tries))
            return result
        others = []
        _others(args, others)
        _others(kwargs, others)
        e = Plan(h, key, guards, result, outs, in_index, others, _template(args, kwargs, tensors, in_index))
        entries.insert(0, e)
        del entries[_MANY:]
        self.entry = e
        self.list_plans()
        return result

    def _name(self):
        return getattr(self.fn, "__qualname__", repr(self.fn))

    # ---- looking at it ----

    def list_plans(self):
        """Brings `plans` up to date: the latest used first for each signature."""
        self.plans[:] = [e for entries in self.table.values() for e in entries if type(e) is Plan]

    def _plan(self):
        if self.entry is None:
            raise RuntimeError(f"{self._name()} has no plan yet: it is traced at its first call")
        return self.entry

    def text(self):
        """Program of the latest plan as text."""
        return self._plan().text()

    def print(self, file=None):
        """Prints text()."""
        print(self.text(), end="", file=file)

    def report(self):
        """Facts about the latest plan, in words."""
        f = self._plan().info
        return (f"{self._name()}: {f['traced']} operations traced, {f['instructions']} left "
                f"({f['removed_dead']} dead or replaced, {f['removed_cse']} equal, {f['folded']} folded)\n"
                f"fused: {f['fused_ops']} operations in {f['fused_groups']} groups; {f['kernels_per_run']} steps a run\n"
                f"memory: arena {f['arena_bytes']} bytes (at least {f['lower_bound_bytes']}), {f['in_place']} results in place; "
                f"{f['bound']} tensors bound, {f['inputs']} inputs, {f['outputs']} results\n"
                f"work: {f['flops']} operations on numbers, {f['bytes_moved']} bytes moved; {f['replays']} replays")

    def why_retraced(self):
        """Why each trace was made, oldest first."""
        return list(self.reasons)

    def reset(self):
        """Forgets all plans."""
        self.table.clear()
        self.plans.clear()
        self.entry = None
        self.quick(None, _never, NULL)


def _describe(key):
    return ", ".join(f"{ffi.string(lib.ag_dtype_name(d)).decode()}{list(shape)}" for d, _, shape, _ in key[2]) or "no tensors"


def _careful(state, setter):
    """The slow half of a call; hands the plan it used, when it is simple enough, to the quick half."""
    state.quick = setter

    def call(args, kwargs):
        r = state.call(args, kwargs)
        e = state.entry
        if e is not None and e.simple:
            setter(e, e._guards.check, e._h)
        else:
            setter(None, _never, NULL)
        return r

    return call


def _never():
    return False


def _without_arguments(state):
    """The call of a function that takes nothing: kept as short as can be."""
    new, run, tensor, retrace = _new, lib.agpy_run1, Tensor, lib.AG_ERR_RETRACE
    entry, ok, plan = None, _never, NULL

    def setter(*to):
        nonlocal entry, ok, plan
        entry, ok, plan = to

    careful = _careful(state, setter)

    def frozen():
        if ok():
            h = run(plan)
            if h:
                return new(tensor, h)
            if lib.ag_last_status() != retrace:
                fail()
        return careful((), {})

    return frozen


def _with_arguments(state):
    """Any call: quick when all arguments are tensors or the same numbers as before."""
    new, run, tensor, retrace, hole = _new, _run, Tensor, lib.AG_ERR_RETRACE, _HOLE
    entry, ok, plan = None, _never, NULL

    def setter(*to):
        nonlocal entry, ok, plan
        entry, ok, plan = to

    careful = _careful(state, setter)

    def frozen(*args, **kwargs):
        if ok() and not kwargs and len(args) == len(entry._template):
            e = entry
            pair = e.arrays()
            ins, outs = pair
            k = 0
            for a, want in zip(args, e._template):
                if want is hole:
                    if not isinstance(a, tensor):
                        break
                    ins[k] = a._h
                    k += 1
                elif a is not want:
                    break
            else:
                status = run(e._h, k, ins, outs)
                if status == 0:
                    r = new(tensor, outs[0])
                    e._pool.append(pair)
                    return r
                if status != retrace:
                    fail()
        return careful(args, kwargs)

    return frozen


def freeze(fn=None, *example, off=()):
    """Frozen version of fn, also as a decorator: traced at the first call, replayed afterwards.

    fn: a function or method of tensors (in tuples, lists, dicts at will), numbers, strings and other objects.
    example: arguments for a first call made at once, which traces.
    off: names of passes to leave out (freeze.PASSES); the bits of the results do not depend on them.

    The result has the attributes print(), text(), report(), why_retraced(), reset(), plans and __wrapped__.
    A function whose result still has a graph (no backward inside) runs as it is; why_retraced() says so.
    Inside another frozen function's trace it runs as part of that.
    """
    if fn is None:
        return lambda f: freeze(f, off=off)
    if not callable(fn):
        raise TypeError(f"freeze() takes a function, not {type(fn).__name__}")
    if isinstance(off, str):
        off = (off,)
    for name in off:
        if name not in PASSES:
            raise ValueError(f"no pass is called {name!r}: there are {', '.join(PASSES)}")
    state = Frozen(fn, sum(1 << PASSES.index(name) for name in set(off)))
    code = getattr(fn, "__code__", None)
    takes = code is None or isinstance(fn, _types.MethodType) or code.co_argcount or code.co_kwonlyargcount or code.co_flags & 0x0C
    frozen = (_with_arguments if takes else _without_arguments)(state)
    try:
        _functools.update_wrapper(frozen, fn)
    except AttributeError:
        frozen.__wrapped__ = fn
    frozen.state = state
    for name in ("print", "text", "report", "why_retraced", "reset", "plans"):
        setattr(frozen, name, getattr(state, name))
    frozen.__wrapped__ = fn
    if example:
        frozen(*example)
    return frozen


freeze.PASSES = PASSES


class _Module(_types.ModuleType):
    """`import autograd_c.freeze` puts this module where the function of the same name is looked for: it takes calls too."""

    def __call__(self, *args, **kwargs):
        return freeze(*args, **kwargs)


_sys.modules[__name__].__class__ = _Module
