"""Every elementwise row of the op table: values, types, gradients of order 1 and 2, the fused backward kernels."""
import itertools

import numpy as np
import pytest

from autograd_c._ffi import lib
from table import (ELEMENTWISE, FLOATS, ROWS, call, close, difference, grad, same_bits, shape_of, tensor, ulps, values)
from table_ew import DIVISIONS, EW, TYPES, WHOLE_TYPES, differentiable_operands, operands, reference

N = 531  # several vectors of any width, one block of the strided path, and a tail
CASES = [(name, p) for name in ELEMENTWISE if name in EW for p in EW[name].params]
DIFFERENTIABLE = [(name, p) for name, p in CASES if ROWS[name].differentiable]


def cases(which):
    return pytest.mark.parametrize("name, params", which, ids=[f"{n}{p if p else ''}" for n, p in which])


def rng_of(name):
    return np.random.default_rng(sum(name.encode()))


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_row_has_an_entry(name):
    assert name in EW, f"row {name} of ag_ops.inc is not tested: add it to EW in tests/table_ew.py"
    row = ROWS[name]
    assert len(EW[name].params[0]) == row.n_params
    assert row.n_out == 1 and row.lo < row.hi


def test_no_entry_without_a_row():
    assert set(EW) <= set(ELEMENTWISE)


def check_values(name, got, xs, params, dtype):
    entry = EW[name]
    want = reference(entry, xs, params, dtype)
    if entry.exact or np.dtype(dtype).kind != "f":
        want = np.asarray(want)
        if got.dtype.kind == "f" and not entry.sign_of_zero:
            got, want = np.where(got == 0, got.dtype.type(0), got), np.where(want == 0, want.dtype.type(0), want)
        same_bits(got, want, f"{name}{params} in {np.dtype(dtype)}")
        return
    assert got.dtype == dtype
    if entry.scale:
        with np.errstate(all="ignore"):
            off = np.abs(got.astype(np.longdouble) - want) / (np.finfo(dtype).eps * entry.scale(*xs))
    else:
        off = ulps(got, want)
        if entry.grain:
            with np.errstate(all="ignore"):
                fine = np.abs(got - want) <= entry.grain(*xs).astype(np.longdouble) * np.finfo(dtype).smallest_subnormal
            off = np.where(fine, 0, off)
    worst = int(np.argmax(off))
    assert off.max() <= entry.ulp, (
        f"{name}{params} in {np.dtype(dtype)}: off by {off.max():.2f} at {[x.ravel()[worst] for x in xs]!r}: "
        f"{got.ravel()[worst]!r}, not {want.ravel()[worst]!r}")
    if entry.sign_of_zero:
        zero = (got == 0) & (want == 0)
        assert np.array_equal(np.signbit(got[zero]), np.signbit(want[zero])), f"{name}: sign of zero at {[x[zero] for x in xs]}"


# ---- values -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", FLOATS, ids=lambda d: d.__name__)
@cases(CASES)
def test_values(name, params, dtype):
    row, entry = ROWS[name], EW[name]
    if entry.types == "integer":
        with pytest.raises((RuntimeError, TypeError), match="not implemented|integer (or|and) [Bb]ool"):
            call(name, [tensor(np.ones(3, dtype))] * row.n_in, floats=params)
        return
    xs = operands(row, rng_of(name), N, dtype)
    got = values(call(name, [tensor(x) for x in xs], floats=params))
    check_values(name, got, xs, params, dtype)


def special_points(dtype, pairs):
    info = np.finfo(dtype)
    few = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0, -2.0, 2.5, -3.5, 3.0, 1e-3, -1e-3, np.inf, -np.inf, np.nan]
    more = [1.5, -1.5, 0.25, 7.0, -7.0, 10.0, 1e-5, -1e-5, 1e-8, 30.0, -30.0, 80.0, -80.0, 88.5, -88.5, 104.0, -104.0, 700.0, -745.0, 1e5, -1e5,
            float(info.tiny), -float(info.tiny), float(info.eps), float(info.max), -float(info.max), float(info.smallest_subnormal)]
    return np.array(few if pairs else few + more, dtype)


@pytest.mark.parametrize("dtype", FLOATS, ids=lambda d: d.__name__)
@cases([(n, p) for n, p in CASES if EW[n].specials and EW[n].types != "integer"])
def test_special_points(name, params, dtype):
    row, entry = ROWS[name], EW[name]
    points = special_points(dtype, row.n_in > 1)
    grid = np.array(list(itertools.product(points, repeat=2 if row.kind == "select" else row.n_in)), dtype).T.copy()
    xs = list(grid)
    if row.kind == "select":
        xs.insert(0, np.arange(xs[0].size) % 3 == 0)
    got = values(call(name, [tensor(x) for x in xs], floats=params))
    check_values(name, got, xs, params, dtype)


@pytest.mark.parametrize("dtype", WHOLE_TYPES + (np.bool_,), ids=lambda d: d.__name__)
@cases([(n, EW[n].params[0]) for n in ELEMENTWISE if n in EW])
def test_whole_numbers(name, params, dtype):
    """Integers and bools: wrap-around arithmetic, float rows convert first, and what a row does not take it refuses."""
    row, entry = ROWS[name], EW[name]
    xs = operands(row, rng_of(name), N, dtype)
    if np.dtype(dtype).kind in "iu":
        info = np.iinfo(dtype)
        edge = np.array([0, 1, info.max, info.min, info.max - 1], dtype)
        first = 1 if row.kind == "select" else 0
        for k in range(first, row.n_in):
            xs[k][:25] = np.tile(edge, 5) if k == first else np.repeat(edge, 5)
        if name in DIVISIONS:
            with pytest.raises(RuntimeError, match="ZeroDivisionError"):
                call(name, [tensor(x) for x in xs], floats=params)
            xs[1][xs[1] == 0] = 3
    ts = [tensor(x) for x in xs]
    if dtype in TYPES[entry.types]:
        got = values(call(name, ts, floats=params))
        with np.errstate(all="ignore"):
            want = np.asarray(reference(entry, xs, params, dtype))
        same_bits(got, want, f"{name} in {np.dtype(dtype)}")
    elif entry.types == "float":
        with np.errstate(all="ignore"):
            fs = [x.astype(np.float32) if x.dtype != np.bool_ or row.kind != "select" else x for x in xs]
        check_values(name, values(call(name, ts, floats=params)), fs, params, np.float32)
    else:
        with pytest.raises(RuntimeError, match="not implemented|is not supported"):
            call(name, ts, floats=params)


@pytest.mark.parametrize("name", [n for n in ELEMENTWISE if ROWS[n].n_in > 1])
def test_types_meet(name):
    """Operands of two types give the result of the later type; 0-d operands give way within their kind."""
    row, entry = ROWS[name], EW.get(name)
    if entry is None:
        pytest.fail("no entry")
    rng, params = rng_of(name), entry.params[0]
    low, high = (np.uint8, np.int64) if entry.types == "integer" else (np.float32, np.float64)
    xs = operands(row, rng, 40, high)
    mixed = [x if k % 2 or x.dtype == np.bool_ else x.astype(low) for k, x in enumerate(xs)]
    up = [x.astype(high) if x.dtype == low else x for x in mixed]
    same_bits(call(name, [tensor(x) for x in mixed], floats=params), call(name, [tensor(x) for x in up], floats=params), name)
    last = xs[-1][:1].reshape(())
    first = [x if x.dtype == np.bool_ else x.astype(low) for x in xs[:-1]]
    got = call(name, [tensor(x) for x in first] + [tensor(last)], floats=params)
    same_bits(got, call(name, [tensor(x) for x in first] + [tensor(last.astype(low))], floats=params), f"{name} with a 0-d operand")


# ---- gradients ------------------------------------------------------------------------------------------


@cases(DIFFERENTIABLE)
def test_gradients(name, params):
    """Orders 1 and 2 against differences, all points of a row at once: an element depends on its own operands alone."""
    row, entry = ROWS[name], EW[name]
    rng = rng_of(name)
    xs = operands(row, rng, 97, np.float64, entry.smooth)
    w = rng.uniform(0.5, 1.5, 97)
    diff = differentiable_operands(row)
    vs = [rng.uniform(0.5, 1.5, 97) for _ in diff]

    def first(arrays, create_graph=False, wants=True):
        ts = [tensor(x, wants and k in diff) for k, x in enumerate(arrays[:-1])]
        seed = tensor(arrays[-1], create_graph)
        y = call(name, ts, floats=params)
        if not wants:
            return values(y) * arrays[-1]
        return ts, seed, grad([y], [ts[k] for k in diff], [seed], create_graph)

    def form(arrays):
        gs = first(arrays)[2]
        return sum(v * values(g) for v, g in zip(vs, gs) if g is not None) + np.zeros(97)

    arrays = xs + [w]
    g1 = first(arrays)[2]
    for k, g in zip(diff, g1):
        close(values(g), difference(lambda a: first(a, wants=False), arrays, k), 1e-8, 1e-9, f"{name}{params} in operand {k}")
    ts, seed, g = first(arrays, True)
    g2 = grad(g, [ts[k] for k in diff] + [seed], [tensor(v) for v in vs])
    for k, got in zip(diff + [row.n_in], g2):
        want = difference(form, arrays, k)
        close(np.zeros(97) if got is None else values(got), want, 1e-7, entry.second_atol,
              f"{name}{params} second gradient in {'the incoming gradient' if k == row.n_in else f'operand {k}'}")


def backward(name, params, xs, w, create_graph):
    row = ROWS[name]
    ts = [tensor(x, k in differentiable_operands(row)) for k, x in enumerate(xs)]
    y = call(name, ts, floats=params)
    return grad([y], [ts[k] for k in differentiable_operands(row)], [tensor(w)], create_graph)


@pytest.mark.parametrize("dtype", FLOATS, ids=lambda d: d.__name__)
@cases(DIFFERENTIABLE)
def test_fused_backward_has_the_bits_of_the_ops(name, params, dtype):
    """Backward without create_graph runs one fused kernel, with it the rule in ops: the same bits, also at the special points."""
    row = ROWS[name]
    rng = rng_of(name)
    xs = operands(row, rng, N, dtype)
    points = special_points(dtype, True)
    m = len(points)
    for k in differentiable_operands(row):
        xs[k][:m * m] = (np.tile(points, m) if k % 2 else np.repeat(points, m))[:m * m]
    w = rng.uniform(-2, 2, N).astype(dtype)
    fused, ops = backward(name, params, xs, w, False), backward(name, params, xs, w, True)
    for k, (a, b) in enumerate(zip(fused, ops)):
        same_bits(a, b, f"{name}{params} gradient in operand {k}")


@cases(DIFFERENTIABLE)
def test_float32_gradient(name, params):
    """The float32 gradient is the float64 one, rounded."""
    row, entry = ROWS[name], EW[name]
    rng = rng_of(name)
    xs = operands(row, rng, N, np.float32, entry.smooth)
    w = rng.uniform(0.5, 2, N).astype(np.float32)
    single = backward(name, params, xs, w, False)
    double = backward(name, [np.float64(np.float32(p)) for p in params], [x.astype(np.float64) if x.dtype != bool else x for x in xs],
                      w.astype(np.float64), False)
    for k, (a, b) in enumerate(zip(single, double)):
        close(values(a), values(b), 3e-5 if name in ("pow", "pow_scalar") else 1e-5, 2e-5, f"{name}{params} in operand {k}")


@pytest.mark.parametrize("name", [n for n in ELEMENTWISE if ROWS[n].differentiable and ROWS[n].n_in > 1])
def test_gradient_of_broadcast_operands(name):
    """An operand that was spread gets the sum over what it was spread to, in its own shape."""
    row, entry = ROWS[name], EW[name]
    params, diff = entry.params[0], differentiable_operands(ROWS[name])
    shapes = [(4, 1, 3), (5, 1), (1,)][:row.n_in] if row.n_in == 3 else [(4, 1, 3), (5, 1)]
    xs = [x.reshape(s) for x, s in zip([operands(row, rng_of(name), int(np.prod(s)), np.float64)[k] for k, s in enumerate(shapes)], shapes)]
    whole = np.broadcast_shapes(*shapes)
    w = rng_of(name).uniform(0.5, 1.5, whole)
    dense = backward(name, params, [np.broadcast_to(x, whole).copy() for x in xs], w, False)
    for k, g in enumerate(backward(name, params, xs, w, False)):
        at = diff[k]
        want = values(dense[k])
        lead = len(whole) - len(shapes[at])
        axes = tuple(d for d in range(len(whole)) if d < lead or shapes[at][d - lead] != whole[d])
        close(values(g), want.sum(axes, keepdims=True).reshape(shapes[at]), 1e-12, 1e-12, f"{name} operand {at}")


@pytest.mark.parametrize("name", ["maximum", "minimum"])
def test_ties_share_the_gradient(name):
    x = np.array([1.0, 2.0, 0.0])
    for g in backward(name, (), [x, x.copy()], np.ones(3), False):
        same_bits(values(g), np.full(3, 0.5), name)


@pytest.mark.parametrize("name, at, want", [("relu", 0.0, 0.0), ("abs", 0.0, 0.0), ("sign", 0.0, 0.0), ("leaky_relu", 0.0, 0.01), ("elu", 0.0, 1.0)])
def test_gradient_at_the_kink(name, at, want):
    """PyTorch's choice where there is no derivative."""
    g, = backward(name, EW[name].params[0], [np.array([at])], np.ones(1), False)
    close(values(g), [want], 0, 1e-15, name)


def test_gradient_of_powers_of_zero():
    """x**2 at 0 has slope 0, and 0**y at y > 0, too: no NaN comes of log(0)."""
    gx, gy = backward("pow", (), [np.zeros(3), np.array([1.0, 2.0, 0.0])], np.ones(3), False)
    same_bits(values(gx), np.array([1.0, 0.0, 0.0]), "base")
    same_bits(values(gy), np.zeros(3), "exponent")


def test_where_keeps_the_other_branch_out():
    """The gradient of the branch not taken is zero (not NaN) in the operand itself."""
    cond = np.array([True, False])
    a, b = backward("where", (), [cond, np.array([1.0, np.nan]), np.array([np.inf, 2.0])], np.ones(2), False)
    same_bits(values(a), np.array([1.0, 0.0]), "first")
    same_bits(values(b), np.array([0.0, 1.0]), "second")


@pytest.mark.parametrize("name", [n for n in ELEMENTWISE if not ROWS[n].differentiable])
def test_no_gradient(name):
    """Conditions and integer rows record nothing, whatever their operands ask for."""
    row, entry = ROWS[name], EW[name]
    dtype = np.int64 if entry.types == "integer" else np.float64
    xs = [tensor(x, dtype is np.float64) for x in operands(row, rng_of(name), 5, dtype)]
    assert not lib.ag_tensor_requires_grad(call(name, xs, floats=entry.params[0])._h)


def test_only_wanted_gradients_are_computed():
    """An operand that needs no gradient costs none: its value is not even saved."""
    x, y = tensor(np.ones(3), True), tensor(np.full(3, 2.0))
    z = call("mul", [x, y])
    n = lib.ag_tensor_grad_fn(z._h)
    saved = lib.ag_node_n_saved(n)
    lib.ag_node_release(n)
    assert saved == 1 and shape_of(z) == (3,)
