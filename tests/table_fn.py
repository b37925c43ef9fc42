"""Samples for each row of the op table that is a named function: operands, attributes, a plain NumPy reference.

A row without samples fails test_table_functions.py.  Operands are float64 arrays (tested in float32, too) unless they
are indices, conditions or whole numbers.  `ref(arrays, ints, floats)` gives the result or a tuple of results;
it is written from the definition, never from the C code.
"""
from dataclasses import dataclass, field
from typing import Callable

import numpy as np
from numpy.lib.stride_tricks import as_strided

from autograd_c._ffi import lib

S, T = {}, {}  # row: samples; row: what is common to them


@dataclass
class Sample:
    row: str
    inputs: list
    ints: list = field(default_factory=list)
    floats: list = field(default_factory=list)
    diff: list = None          # operands to differentiate; None: all float ones (none of rows without a derivative)
    second: bool = True
    note: str = ""

    def __str__(self):
        return f"{self.row}{tuple(a.shape for a in self.inputs)}{self.ints or ''}{self.note}".replace(" ", "")


@dataclass
class About:
    ref: Callable
    exact: bool = False        # moves values about: one right answer in any type
    types: tuple = ()          # whole types beside the float ones; samples are converted (where they have float operands)
    layout: bool = True        # the result depends on operands' values, not on how they lie in memory
    atol: float = 0.0          # beside the relative tolerance of the type, relative to the largest value
    sums: bool = False         # terms may cancel: the error is relative to the result of the operands' magnitudes


WHOLE = (np.int64, np.int32, np.uint8)
ANY = WHOLE + (np.bool_,)


def row(name, ref, samples, **about):
    T[name] = About(ref, **about)
    S[name] = [Sample(name, *s) if isinstance(s, tuple) else Sample(name, **s) for s in samples]


def rnd(*shape, seed=0, lo=-2.0, hi=2.0):
    """Values that differ from each other by more than the steps of the differences: no ties, no kinks."""
    n = int(np.prod(shape))
    rng = np.random.default_rng(n * 31 + len(shape) + seed)
    a = lo + (hi - lo) * (np.arange(n) + 0.25 + 0.5 * rng.random(n)) / max(n, 1)
    return rng.permutation(a).reshape(shape)


def idx(*shape, n, seed=0, lo=0):
    return np.random.default_rng(n + seed).integers(lo, n, shape)


# ---- reductions -----------------------------------------------------------------------------------------


def _axes(a, ints):
    """keepdims and axes of ints; a 0-d operand has a dim 0 in name only."""
    axes = tuple(ints[1:]) or None
    return (bool(ints[0]) if ints else False), (None if a.ndim == 0 else axes)


def reduction(f):
    def ref(arrays, ints, floats):
        keep, axes = _axes(arrays[0], ints)
        return f(arrays[0], axis=axes, keepdims=keep)

    return ref


def _sum_like(f):
    def g(a, **k):
        return f(a, dtype=np.int64 if a.dtype.kind in "iub" else a.dtype, **k)

    return reduction(g)


REDUCED = [([rnd(3, 4, 2)], []), ([rnd(3, 4, 2)], [0]), ([rnd(3, 4, 2)], [1]), ([rnd(3, 4, 2)], [0, 1]), ([rnd(3, 4, 2)], [1, -1]),
           ([rnd(3, 4, 2)], [0, 0, 2]), ([rnd(3, 4, 2)], [1, -3, 1]), ([rnd(2, 3, 2, 2)], [0, 3, 1]), ([rnd()], []), ([rnd()], [1, 0]),
           ([rnd(5)], [0, -1]), ([rnd(1, 3)], [0, 0]), ([rnd(3, 1, 2)], [1, 1, 2])]
EMPTY = [([rnd(0, 3)], []), ([rnd(0, 3)], [0, 0]), ([rnd(2, 0)], [1, 0]), ([rnd(2, 0)], [0, 1])]
LONG = [dict(inputs=[rnd(2, 1500)], ints=[0, 1], diff=[]), dict(inputs=[rnd(1500, 3)], ints=[0, 0], diff=[]), dict(inputs=[rnd(4099)], diff=[])]
FULL_NONEMPTY = REDUCED + [([rnd(2, 0)], [0, 0])] + LONG  # extrema of nothing are errors

row("sum", _sum_like(np.sum), REDUCED + EMPTY + LONG, types=ANY, sums=True)
row("mean", reduction(np.mean), REDUCED + [([rnd(0, 3)], [0, 1])] + LONG, sums=True)
row("prod", _sum_like(np.prod),
    [dict(inputs=[x[0] * 1.5], ints=i) for x, i in REDUCED] + EMPTY +
    [dict(inputs=[np.array([[0.0, 2, 3], [4, 0, 0], [1, 5, 2]])], ints=[0, 1], note="zeros"),
     dict(inputs=[np.array([0.0, 2, 3])], ints=[0, 0], note="zero"), dict(inputs=[np.array([[0.0, 2], [3, 0.5]])], note="zero")], types=ANY)
row("amax", reduction(np.amax), FULL_NONEMPTY, exact=True, types=ANY)
row("amin", reduction(np.amin), FULL_NONEMPTY, exact=True, types=ANY)
row("max_all", reduction(np.amax), [([rnd(3, 4)],), ([rnd()],), ([rnd(7)],)], exact=True, types=ANY)
row("min_all", reduction(np.amin), [([rnd(3, 4)],), ([rnd()],), ([rnd(7)],)], exact=True, types=ANY)


def with_position(f, arg):
    def ref(arrays, ints, floats):
        a, keep, d = arrays[0], bool(ints[0]), ints[1]
        if a.ndim == 0:
            return a, np.zeros((), np.int64)
        return f(a, axis=d, keepdims=keep), np.asarray(arg(a, axis=d, keepdims=keep), np.int64)

    return ref


ONE_DIM = [([rnd(3, 4, 2)], [0, 1]), ([rnd(3, 4, 2)], [1, -1]), ([rnd(3, 4, 2)], [0, 0]), ([rnd(5)], [1, 0]), ([rnd()], [0, 0]), ([rnd(0, 3)], [0, 1]),
           dict(inputs=[np.array([[1.0, 3, 3], [2, 2, 0]])], ints=[0, 1], diff=[], note="ties"),
           dict(inputs=[np.array([[1.0, np.nan, 3], [np.nan, np.nan, 0]])], ints=[0, 1], diff=[], note="nan")]
row("max_dim", with_position(np.amax, np.argmax), ONE_DIM, exact=True, types=WHOLE)
row("min_dim", with_position(np.amin, np.argmin), ONE_DIM, exact=True, types=WHOLE)


def arg_of(f):
    def ref(arrays, ints, floats):
        a, (keep, axes) = arrays[0], _axes(arrays[0], ints)
        if axes is None:
            r = f(a)
            return np.asarray(r, np.int64).reshape((1,) * a.ndim if keep else ())
        return np.asarray(f(a, axis=axes[0], keepdims=keep), np.int64)

    return ref


row("argmax", arg_of(np.argmax), ONE_DIM + [([rnd(3, 4)],), ([rnd(3, 4)], [1])], exact=True, types=WHOLE)
row("argmin", arg_of(np.argmin), ONE_DIM + [([rnd(3, 4)],), ([rnd(3, 4)], [1])], exact=True, types=WHOLE)
SOME = np.round(rnd(3, 4, 2))
row("any", reduction(lambda a, **k: np.any(a != 0, **k)), [([SOME], i) for i in ([], [0, 1], [1, -1], [0, 0, 2])] + EMPTY, exact=True, types=ANY)
row("all", reduction(lambda a, **k: np.all(a != 0, **k)), [([SOME], i) for i in ([], [0, 1], [1, -1], [0, 0, 2])] + EMPTY, exact=True, types=ANY)


def running(f):
    def ref(arrays, ints, floats):
        a = arrays[0]
        return f(a.reshape(-1) if a.ndim == 0 else a, axis=ints[0], dtype=np.int64 if a.dtype.kind in "iub" else a.dtype).reshape(a.shape)

    return ref


RUNNING = [([rnd(3, 4, 2)], [1]), ([rnd(3, 4, 2)], [-1]), ([rnd(3, 4, 2)], [0]), ([rnd(6)], [0]), ([rnd()], [0]), ([rnd(0, 3)], [0]), ([rnd(3, 0)], [1])]
row("cumsum", running(np.cumsum), RUNNING, types=ANY, sums=True)
row("cumprod", running(np.cumprod), RUNNING + [dict(inputs=[np.array([[2.0, 0, 3, 4], [0, 0, 1, 2]])], ints=[1], note="zeros")], types=ANY)


def _scan(arrays, ints, floats):
    a, b = (np.moveaxis(x, ints[0], 0) if x.ndim else x.reshape(1) for x in arrays)
    if ints[1]:
        a, b = a[::-1], b[::-1]
    s = np.array(b)
    for k in range(1, len(s)):
        s[k] = a[k] * s[k - 1] + b[k]
    s = s[::-1] if ints[1] else s
    return np.moveaxis(s, 0, ints[0]) if arrays[0].ndim else s.reshape(())


row("linear_scan", _scan, [([rnd(3, 4, 2), rnd(3, 4, 2, seed=1)], [1, 0]), ([rnd(3, 4), rnd(3, 4, seed=1)], [-1, 1]), ([rnd(5), rnd(5, seed=1)], [0, 0]),
                           ([rnd(), rnd(seed=1)], [0, 0]), ([rnd(0, 2), rnd(0, 2)], [0, 1])])


def _sum_to(arrays, ints, floats):
    a, shape = arrays[0], tuple(ints)
    lead = a.ndim - len(shape)
    axes = tuple(d for d in range(a.ndim) if d < lead or shape[d - lead] != a.shape[d])
    return a.sum(axes, keepdims=True, dtype=a.dtype).reshape(shape)


row("sum_to", _sum_to, [([rnd(3, 4, 2)], []), ([rnd(3, 4, 2)], [4, 1]), ([rnd(3, 4, 2)], [1, 4, 1]), ([rnd(3, 4, 2)], [3, 4, 2]), ([rnd(3, 4)], [1, 1]),
                        ([rnd(0, 4)], [4]), ([rnd()], [])], types=WHOLE)

# ---- matrix products --------------------------------------------------------------------------------------


def product(arrays, ints, floats):
    return np.matmul(*arrays)


row("mm", product, [([rnd(3, 4), rnd(4, 2)],), ([rnd(1, 3), rnd(3, 1)],), ([rnd(2, 0), rnd(0, 3)],), ([rnd(0, 2), rnd(2, 3)],), ([rnd(2, 3), rnd(3, 0)],),
                    dict(inputs=[rnd(37, 41), rnd(41, 29)], diff=[])], types=WHOLE, sums=True)
row("mv", product, [([rnd(3, 4), rnd(4)],), ([rnd(0, 4), rnd(4)],), ([rnd(3, 0), rnd(0)],), dict(inputs=[rnd(60, 70), rnd(70)], diff=[])], types=WHOLE, sums=True)
row("dot", product, [([rnd(5), rnd(5, seed=1)],), ([rnd(0), rnd(0)],), dict(inputs=[rnd(900), rnd(900, seed=1)], diff=[])], types=WHOLE, sums=True)
row("bmm", product, [([rnd(3, 2, 4), rnd(3, 4, 2)],), ([rnd(0, 2, 4), rnd(0, 4, 3)],), ([rnd(2, 3, 0), rnd(2, 0, 2)],),
                     dict(inputs=[rnd(3, 20, 30), rnd(3, 30, 17)], diff=[])], types=WHOLE, sums=True)
row("addmm", lambda a, i, f: a[0] + np.matmul(a[1], a[2]),
    [([rnd(2), rnd(3, 4), rnd(4, 2)],), ([rnd(3, 2), rnd(3, 4), rnd(4, 2)],), ([rnd(3, 1), rnd(3, 4), rnd(4, 2)],), ([rnd(), rnd(3, 4), rnd(4, 2)],),
     ([rnd(2), rnd(3, 0), rnd(0, 2)],), dict(inputs=[rnd(33), rnd(40, 50), rnd(50, 33)], diff=[])], types=WHOLE, sums=True)

# ---- views ------------------------------------------------------------------------------------------------


def _geometry(ints, itemsize):
    n = ints[0]
    return tuple(ints[1:1 + n]), tuple(s * itemsize for s in ints[1 + n:1 + 2 * n]), ints[1 + 2 * n]


def _strided(arrays, ints, floats):
    flat = np.ascontiguousarray(arrays[0]).reshape(-1)
    shape, strides, offset = _geometry(ints, flat.itemsize)
    return as_strided(flat[offset:], shape, strides).copy()


def _positions(shape, geometry):
    size = int(np.prod(shape))
    return _strided([np.arange(size, dtype=np.int64)], geometry, [])


def _view_scatter(arrays, ints, floats):
    n = ints[0]
    out = np.zeros(ints[1:1 + n], arrays[0].dtype)
    np.add.at(out.reshape(-1), _positions(out.shape, ints[1 + n:]), arrays[0])
    return out


def _strided_scatter(arrays, ints, floats):
    out = np.array(arrays[0])
    out.reshape(-1)[_positions(out.shape, ints)] = arrays[1]
    return out


def _squeeze(arrays, ints, floats):
    a = arrays[0]
    dims = {d % max(a.ndim, 1) for d in ints} if ints else set(range(a.ndim))
    return a.reshape([n for d, n in enumerate(a.shape) if n != 1 or d not in dims])


def _expand(arrays, ints, floats):
    a = arrays[0]
    lead = len(ints) - a.ndim
    return np.broadcast_to(a, [a.shape[d - lead] if n == -1 else n for d, n in enumerate(ints)])


def _slice(arrays, ints, floats):
    d, start, stop, step = ints
    where = [slice(None)] * arrays[0].ndim
    where[d] = slice(start, stop, step)
    return arrays[0][tuple(where)]


BIG = 2**62
row("view", lambda a, i, f: a[0].reshape(i),
    [([rnd(3, 4, 2)], [12, 2]), ([rnd(3, 4, 2)], [-1]), ([rnd(3, 4, 2)], [2, -1, 3]), ([rnd(1)], []), ([rnd()], [1, 1]), ([rnd(0, 3)], [3, 0]), ([rnd(0, 3)], [-1, 3])],
    exact=True, types=ANY, layout=False)
row("unsafe_view", lambda a, i, f: a[0].reshape(i), [([rnd(3, 4)], [2, 6]), ([rnd(3, 4)], [-1])], exact=True, types=ANY, layout=False)
row("t", lambda a, i, f: a[0].T, [([rnd(3, 4)],), ([rnd(3)],), ([rnd()],), ([rnd(0, 2)],)], exact=True, types=ANY)
row("transpose", lambda a, i, f: np.swapaxes(a[0], *i) if a[0].ndim else a[0], [([rnd(2, 3, 4)], [0, 2]), ([rnd(2, 3, 4)], [-1, 1]), ([rnd(2, 3)], [1, 1]), ([rnd()], [0, -1])],
    exact=True, types=ANY)
row("permute", lambda a, i, f: np.transpose(a[0], i), [([rnd(2, 3, 4)], [2, 0, 1]), ([rnd(2, 3, 4)], [-2, -1, 0]), ([rnd(3)], [0]), ([rnd()], [])], exact=True, types=ANY)
row("expand", _expand, [([rnd(3, 1)], [3, 4]), ([rnd(3, 1)], [2, -1, 4]), ([rnd()], [2, 2]), ([rnd(1, 3)], [0, 3]), ([rnd(3)], [-1]), ([rnd()], [])], exact=True, types=ANY)
row("unsqueeze", lambda a, i, f: np.expand_dims(a[0], i[0]), [([rnd(2, 3)], [0]), ([rnd(2, 3)], [1]), ([rnd(2, 3)], [-1]), ([rnd(2, 3)], [2]), ([rnd()], [0])],
    exact=True, types=ANY)
row("squeeze", _squeeze, [([rnd(1, 3, 1)], []), ([rnd(1, 3, 1)], [0]), ([rnd(1, 3, 1)], [-1, 0]), ([rnd(1, 3, 1)], [1]), ([rnd()], []), ([rnd()], [0]), ([rnd(1, 0)], [])],
    exact=True, types=ANY)
row("select", lambda a, i, f: np.take(a[0], i[1], axis=i[0]), [([rnd(2, 3, 4)], [1, 2]), ([rnd(2, 3, 4)], [-1, -4]), ([rnd(3)], [0, 0]), ([rnd(0, 3)], [1, 1])],
    exact=True, types=ANY)
row("slice", _slice, [([rnd(4, 5)], [0, 1, 3, 1]), ([rnd(4, 5)], [1, 0, 5, 2]), ([rnd(4, 5)], [-1, -4, -1, 3]), ([rnd(4, 5)], [0, 3, 1, 1]), ([rnd(4, 5)], [0, 1, BIG, BIG]),
                      ([rnd(4, 5)], [1, -BIG, BIG, 1]), ([rnd(0, 3)], [0, 0, 0, 1])], exact=True, types=ANY)
row("diagonal", lambda a, i, f: np.diagonal(a[0], i[0], i[1], i[2]), [([rnd(3, 4)], [0, 0, 1]), ([rnd(3, 4)], [1, 0, 1]), ([rnd(3, 4)], [-2, 0, 1]), ([rnd(3, 4)], [0, 1, 0]),
                                                                      ([rnd(2, 3, 4)], [1, -1, 0]), ([rnd(3, 4)], [4, 0, 1]), ([rnd(3, 4)], [-9, 0, 1])],
    exact=True, types=ANY)
row("as_strided", _strided, [([rnd(12)], [2, 3, 4, 4, 1, 0]), ([rnd(12)], [2, 5, 3, 2, 1, 1]), ([rnd(3, 4)], [1, 3, 5, 0]), ([rnd(12)], [2, 3, 2, 0, 1, 4]),
                             ([rnd(12)], [0, 7]), ([rnd(12)], [2, 0, 3, 1, 1, 0]), ([rnd(3, 4)], [3, 2, 2, 2, 1, 1, 1, 2])], exact=True, types=ANY, layout=False)
row("alias", lambda a, i, f: a[0], [([rnd(2, 3)],), ([rnd()],), ([rnd(0)],)], exact=True, types=ANY)
row("tied", lambda a, i, f: a[0], [([rnd(2, 3)],), ([rnd()],), ([rnd(0)],)], exact=True, types=ANY)
row("view_scatter", _view_scatter, [([rnd(3)], [2, 3, 4, 1, 3, 5, 0]), ([rnd(2, 2)], [1, 9, 2, 2, 2, 4, 1, 2]), ([rnd(5, 3)], [1, 12, 2, 5, 3, 2, 1, 1]),
                                    ([rnd(3, 2)], [1, 8, 2, 3, 2, 0, 1, 4]), ([rnd()], [1, 4, 0, 2]), ([rnd(0)], [1, 4, 1, 0, 1, 0])], types=WHOLE)
row("as_strided_scatter", _strided_scatter, [([rnd(3, 4), rnd(3)], [1, 3, 5, 0]), ([rnd(9), rnd(2, 2)], [2, 2, 2, 4, 1, 2]), ([rnd(3, 4), rnd()], [0, 7]),
                                             ([rnd(4), rnd(0)], [1, 0, 1, 0])], exact=True, types=ANY, layout=False)

# ---- copies and joins ---------------------------------------------------------------------------------------


def _cat(arrays, ints, floats):
    real = [a for a in arrays if a.shape != (0,)] or arrays[:1]
    return np.concatenate(real, ints[0]).astype(np.result_type(*arrays))


def _pad(arrays, ints, floats):
    out = arrays[0]
    for d in range(out.ndim):
        before, after = ints[2 * d:2 * d + 2]
        out = np.take(out, range(max(0, -before), out.shape[d] - max(0, -after)), axis=d)
        widths = [(0, 0)] * out.ndim
        widths[d] = (max(0, before), max(0, after))
        out = np.pad(out, widths, constant_values=np.asarray(floats[0]).astype(out.dtype))
    return out


def _full(arrays, ints, floats):
    return np.full(ints[1:], floats[0], {lib.AG_FLOAT32: np.float32, lib.AG_FLOAT64: np.float64, lib.AG_INT64: np.int64, lib.AG_BOOL: np.bool_,
                                         lib.AG_INT32: np.int32, lib.AG_UINT8: np.uint8}[ints[0]])


def _flip(arrays, ints, floats):
    return np.flip(arrays[0], tuple(ints)) if arrays[0].ndim and ints else arrays[0]


row("clone", lambda a, i, f: a[0], [([rnd(2, 3)],), ([rnd()],), ([rnd(0, 2)],)], exact=True, types=ANY)
row("cast", lambda a, i, f: a[0].astype({lib.AG_FLOAT64: np.float64, lib.AG_FLOAT32: np.float32, lib.AG_INT64: np.int64, lib.AG_INT32: np.int32,
                                         lib.AG_UINT8: np.uint8, lib.AG_BOOL: np.bool_}[i[0]]),
    [([rnd(2, 3)], [lib.AG_FLOAT64])] + [dict(inputs=[np.abs(rnd(2, 3, lo=0, hi=200))], ints=[c], diff=[], note="type")
                                         for c in (lib.AG_FLOAT32, lib.AG_INT64, lib.AG_INT32, lib.AG_UINT8, lib.AG_BOOL)], exact=True, types=ANY)
row("copy", lambda a, i, f: np.broadcast_to(a[1], a[0].shape).astype(a[0].dtype),
    [([rnd(2, 3), rnd(2, 3, seed=1)],), ([rnd(2, 3), rnd(3)],), ([rnd(2, 3), rnd()],), ([rnd(0, 3), rnd(3)],)], exact=True, types=ANY)
row("fill", lambda a, i, f: np.full(a[0].shape, f[0]).astype(a[0].dtype), [([rnd(2, 3)], [], [1.5]), ([rnd()], [], [2.0]), ([rnd(0)], [], [2.0])], exact=True, types=ANY)
row("cat", _cat, [([rnd(2, 3), rnd(1, 3)], [0]), ([rnd(2, 3), rnd(2, 1), rnd(2, 2)], [-1]), ([rnd(3)], [0]), ([rnd(0), rnd(2, 3)], [0]), ([rnd(2, 0), rnd(2, 3)], [1]),
                  ([rnd(2, 3)] * 2, [1]), dict(inputs=[rnd(1, 2, seed=k) for k in range(40)], ints=[0], second=False),
                  dict(inputs=[rnd(k % 7 + 1, 1, seed=k) for k in range(70)], ints=[0], diff=[0, 3, 69], second=False)], exact=True, types=ANY)
row("flip", _flip, [([rnd(3, 4)], [0]), ([rnd(3, 4)], [-1, 0]), ([rnd(3, 4)], []), ([rnd()], []), ([rnd(0, 3)], [1])], exact=True, types=ANY)
row("pad", _pad, [([rnd(2, 3)], [1, 0, 0, 2], [0.5]), ([rnd(4, 3)], [-1, 2, -1, -1], [0.0]), ([rnd(3)], [-3, 4], [7.0]), ([rnd()], [], [1.0]), ([rnd(0, 2)], [1, 1, 0, 0], [2.0])],
    exact=True, types=ANY)
row("full", _full, [([], [lib.AG_FLOAT64, 2, 3], [1.5]), ([], [lib.AG_FLOAT32], [0.1]), ([], [lib.AG_INT64, 3], [7.0]), ([], [lib.AG_BOOL, 2], [1.0]),
                    ([], [lib.AG_UINT8, 0, 2], [3.0])], exact=True)
TRIANGLES = [([rnd(3, 4)], [0]), ([rnd(3, 4)], [1]), ([rnd(3, 4)], [-2]), ([rnd(2, 3, 3)], [0]), ([rnd(2, 2)], [9]), ([rnd(2, 2)], [-9]), ([rnd(0, 3)], [0])]
row("tril", lambda a, i, f: np.tril(a[0], i[0]), TRIANGLES, exact=True, types=ANY)
row("triu", lambda a, i, f: np.triu(a[0], i[0]), TRIANGLES, exact=True, types=ANY)
