"""Calls rows of the op table straight through the C interface, and compares what comes back.

Nothing here goes through the Python names of the operations: `call("mm", (a, b))` is `ag_calln` on the row
`mm`, so that a test of the table tests the table.  References are NumPy's or those of plain Python.
"""
from collections import namedtuple

import numpy as np

from autograd_c._ffi import NULL, check, ffi, lib
from autograd_c._tensor import Tensor, _wrap

DTYPES = {lib.AG_BOOL: np.bool_, lib.AG_UINT8: np.uint8, lib.AG_INT32: np.int32, lib.AG_INT64: np.int64,
          lib.AG_FLOAT32: np.float32, lib.AG_FLOAT64: np.float64}
CODES = {np.dtype(d): code for code, d in DTYPES.items()}
FLOATS = (np.float32, np.float64)

Row = namedtuple("Row", "op name grad_name kind n_in n_out n_params differentiable in_place random mutates lo hi grad_text")


def _rows():
    rows = {}
    info = ffi.new("ag_op_info *")
    for op in range(lib.ag_op_count()):
        check(lib.ag_op_describe(op, info))
        name = ffi.string(info.name).decode()
        texts = tuple(ffi.string(t).decode() if t else None for t in info.grad_text)
        rows[name] = Row(op, name, ffi.string(info.grad_name).decode(), ffi.string(info.kind).decode(), info.n_in, info.n_out,
                         info.n_params, bool(info.differentiable), info.in_place, bool(info.random), bool(info.mutates), info.lo,
                         info.hi, texts)
    return rows


ROWS = _rows()
ELEMENTWISE = [r.name for r in ROWS.values() if r.kind not in ("function", "view")]
FUNCTIONS = [r.name for r in ROWS.values() if r.kind in ("function", "view")]


# ---- arrays to tensors and back -----------------------------------------------------------------------


def tensor(a, grad=False):
    """Tensor of a's values, row-major."""
    a = np.ascontiguousarray(a).reshape(np.shape(a))
    data = ffi.from_buffer(a.reshape(-1).view(np.uint8)) if a.size else NULL
    t = _wrap(lib.ag_from_data(a.ndim, a.shape, CODES[a.dtype], data))
    if grad:
        check(lib.ag_tensor_set_requires_grad(t._h, 1))
    return t


def over(a, grad=False):
    """Tensor over a's very memory, with a's strides, negative ones too."""
    a = np.asarray(a)
    t = _wrap(lib.agpy_from_object(a.ndim, a.shape, [s // a.itemsize for s in a.strides], CODES[a.dtype], a.ctypes.data, id(a)))
    if grad:
        check(lib.ag_tensor_set_requires_grad(t._h, 1))
    return t


def shape_of(t):
    return tuple(ffi.unpack(lib.ag_tensor_shape(t._h), lib.ag_tensor_ndim(t._h)))


def values(t):
    """Copy of a tensor's values as an array."""
    if not isinstance(t, Tensor):
        return t
    out = np.empty(shape_of(t), DTYPES[lib.ag_tensor_dtype(t._h)])
    if out.size:
        check(lib.ag_tensor_read(t._h, ffi.from_buffer(out.reshape(-1).view(np.uint8))))
    return out


# ---- calls ----------------------------------------------------------------------------------------------


def call(name, inputs, ints=(), floats=()):
    """The result of a row, or a tuple of its results."""
    row = ROWS[name]
    hs = [t._h for t in inputs]
    if row.n_out == 1:
        return _wrap(lib.ag_calln(row.op, len(hs), hs, len(ints), list(ints), len(floats), list(floats), 0, 0))
    outs = ffi.new("ag_tensor *[]", row.n_out)
    check(lib.ag_calln_multi(row.op, len(hs), hs, len(ints), list(ints), len(floats), list(floats), 0, 0, outs))
    return tuple(_wrap(outs[k]) for k in range(row.n_out))


def call_inplace(name, inputs, ints=(), floats=()):
    """Runs a row with its result written into inputs[0], which is returned."""
    hs = [t._h for t in inputs]
    check(lib.ag_call_inplace(ROWS[name].op, len(hs), hs, len(ints), list(ints), len(floats), list(floats), 0, 0))
    return inputs[0]


def as_list(outs):
    return list(outs) if isinstance(outs, tuple) else [outs]


def is_float(t):
    return lib.ag_tensor_dtype(t._h) >= lib.AG_FLOAT32


def wants_grad(t):
    return bool(lib.ag_tensor_requires_grad(t._h))


def grad(outputs, inputs, seeds, create_graph=False):
    """Gradients (None where there is none) of the outputs that have a history, weighted by the seeds."""
    pairs = [(o._h, s._h) for o, s in zip(outputs, seeds) if wants_grad(o)]
    if not pairs:
        return [None] * len(inputs)
    grads = ffi.new("ag_tensor *[]", len(inputs))
    check(lib.ag_grad(len(pairs), [p[0] for p in pairs], [p[1] for p in pairs], len(inputs), [t._h for t in inputs], create_graph,
                      create_graph, 1, grads))
    return [_wrap(g) if g else None for g in grads]


# ---- comparisons ----------------------------------------------------------------------------------------


def bits(a):
    """Integers that are equal where two results are: NaNs are one value, zeros have a sign."""
    a = np.asarray(a)
    if a.dtype.kind != "f":
        return a
    a = np.where(np.isnan(a), np.array(np.nan, a.dtype), a)
    return a.view({4: np.int32, 8: np.int64}[a.itemsize])


def same_bits(got, want, what=""):
    got, want = values(got), values(want)
    assert got.dtype == want.dtype, f"{what}: {got.dtype} and {want.dtype}"
    assert got.shape == want.shape, f"{what}: shapes {got.shape} and {want.shape}"
    differ = bits(got) != bits(want)
    if np.any(differ):
        at = tuple(k[0] for k in np.nonzero(differ)) if got.ndim else ()
        raise AssertionError(f"{what}: {np.count_nonzero(differ)} of {got.size} differ, first at {at}: {got[at]!r}, not {want[at]!r}")


def ulps(got, want):
    """Distance in units of the last place of got's type; want may have more digits.  Equal specials are at 0."""
    dtype = got.dtype
    wide = np.longdouble
    with np.errstate(all="ignore"):
        w = want.astype(dtype)
        tiny = np.finfo(dtype).smallest_subnormal.astype(wide)
        largest = np.full_like(w, np.finfo(dtype).max)
        unit = np.maximum(np.spacing(np.abs(np.where(np.isfinite(w), w, largest))).astype(wide), tiny)
        d = np.abs(got.astype(wide) - want.astype(wide)) / unit
        same = (np.isnan(got) & np.isnan(w)) | (got == w)
        return np.where(same, 0.0, np.where(np.isnan(d), np.inf, d)).astype(np.float64)


def close(got, want, rtol, atol, what=""):
    got, want = values(got), np.asarray(want)
    assert got.shape == want.shape, f"{what}: shapes {got.shape} and {want.shape}"
    np.testing.assert_allclose(got.astype(np.float64), want.astype(np.float64), rtol=rtol, atol=atol, err_msg=what)


# ---- derivatives by differences ---------------------------------------------------------------------------


H = 2.0**-10
STENCIL = ((1, 8 / 12), (-1, -8 / 12), (2, -1 / 12), (-2, 1 / 12))  # error H^4 f'''''/30


def difference(f, arrays, k, each=None):
    """d f / d arrays[k] by central differences of fourth order.

    f takes arrays; each=None: f gives an array of arrays[k]'s shape whose elements depend on the element at their
    place alone; otherwise f gives a number, and every element of arrays[k] is moved in turn.
    """
    x = arrays[k]

    def at(step):
        moved = list(arrays)
        moved[k] = x + step
        return f(moved)

    if each is None:
        return sum(c * at(np.float64(n * H)) for n, c in STENCIL) / H
    d = np.zeros(x.shape)
    for i in np.ndindex(*x.shape):
        step = np.zeros(x.shape)
        step[i] = H
        d[i] = sum(c * at(n * step) for n, c in STENCIL) / H
    return d


def check_gradients(run, arrays, diff, seed=0, rtol=1e-7, atol=1e-8, second=True, what=""):
    """Orders 1 and 2 of run (tensors to tensors) in the arrays of diff, float64, against differences.

    Order 1: L = sum over outputs of sum(w * output), moved element by element.  Order 2: the gradients of
    S = sum(v * dL/dx) in x and in w, against differences of S, whose own gradients come from the eager engine without
    create_graph: so the fused kernels and the rules written in ops check each other, too.
    """
    rng = np.random.default_rng(seed)
    diff = list(diff)

    def forward(xs, need=True):
        ts = [tensor(x, need and k in diff) for k, x in enumerate(xs)]
        outs = [o for o in as_list(run(ts)) if is_float(o)]
        return ts, outs

    ts, outs = forward(arrays)
    keep = [k for k, o in enumerate(outs) if wants_grad(o)]
    ws = [rng.uniform(0.5, 1.5, shape_of(outs[k])) for k in keep]

    def loss(xs):
        _, os = forward(xs, False)
        return sum(float(np.sum(w * values(os[k]))) for k, w in zip(keep, ws))

    def gradients(xs, weights, create_graph=False):
        t, os = forward(xs)
        seeds = [tensor(w, create_graph) for w in weights]
        roots = [t[k] for k in diff]
        return roots, seeds, grad([os[k] for k in keep], roots, seeds, create_graph)

    roots, seeds, g1 = gradients(arrays, ws)
    for k, g in zip(diff, g1):
        want = difference(loss, arrays, k, each=True)
        close(np.zeros(arrays[k].shape) if g is None else values(g), want, rtol, atol, f"{what} gradient in input {k}")
    if not second:
        return
    vs = [rng.uniform(0.5, 1.5, arrays[k].shape) for k in diff]
    everything = list(arrays) + list(ws)
    n = len(arrays)

    def form(xs):
        _, _, gs = gradients(xs[:n], xs[n:])
        return sum(float(np.sum(v * values(g))) for v, g in zip(vs, gs) if g is not None)

    roots, seeds, g = gradients(arrays, ws, True)
    for a, b in zip(g, g1):
        assert (a is None) == (b is None)
        if a is not None:
            same_bits(a, b, f"{what} gradient with and without create_graph")
    live = [(a, tensor(v)) for a, v in zip(g, vs) if a is not None]
    g2 = grad([a for a, _ in live], roots + seeds, [v for _, v in live], False)
    names = [f"input {k}" for k in diff] + [f"the incoming gradient {k}" for k in keep]
    for place, got, name in zip(list(diff) + list(range(n, n + len(ws))), g2, names):
        want = difference(form, everything, place, each=True)
        close(np.zeros(want.shape) if got is None else values(got), want, rtol, atol, f"{what} second gradient in {name}")
