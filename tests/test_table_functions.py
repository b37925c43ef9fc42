"""Every row of the op table that is a named function: values, types, memory layouts, gradients of order 1 and 2."""
import numpy as np
import pytest

from autograd_c._ffi import lib
from table import FLOATS, FUNCTIONS, ROWS, as_list, call, call_inplace, check_gradients, grad, over, same_bits, tensor, values
from table_fn import S, T
import table_fn_nn  # noqa: F401  (more rows)

SAMPLES = [s for name in FUNCTIONS for s in S.get(name, ())]
IN_PLACE_ONLY = {r.name for r in ROWS.values() if r.mutates}
RTOL = {np.float32: 2e-6, np.float64: 1e-13}


def samples(keep=lambda s: True):
    chosen = [s for s in SAMPLES if keep(s)]
    return pytest.mark.parametrize("sample", chosen, ids=[f"{s.row}{k}" for k, s in enumerate(chosen)])


@pytest.mark.parametrize("name", FUNCTIONS)
def test_row_has_samples(name):
    assert S.get(name), f"row {name} of ag_ops.inc is not tested: add samples in tests/table_fn.py or table_fn_nn.py"


def test_no_samples_without_a_row():
    assert set(S) <= set(FUNCTIONS)


def convert(sample, dtype):
    return [a.astype(dtype) if a.dtype == np.float64 else a for a in sample.inputs]


def run_arrays(sample, ts):
    """Results of a row; of rows that write, what in[0] and the state become."""
    if sample.row not in IN_PLACE_ONLY:
        return as_list(call(sample.row, ts, sample.ints, sample.floats))
    call_inplace(sample.row, ts, sample.ints, sample.floats)
    return ts


def references(sample, arrays):
    with np.errstate(all="ignore"):
        r = T[sample.row].ref(arrays, sample.ints, sample.floats)
    if sample.row in IN_PLACE_ONLY:
        result, state = r if isinstance(r, tuple) else (r, {})
        return {0: result, **state}
    return dict(enumerate(r if isinstance(r, tuple) else (r,)))


def magnitude(sample, arrays, k):
    """Largest result of the operands' absolute values."""
    with np.errstate(all="ignore"):
        r = references(sample, [np.abs(a) if a.dtype.kind == "f" else a for a in arrays])[k]
    return np.abs(r).max(initial=0.0)


def compare(sample, got, want, dtype, scale):
    about = T[sample.row]
    want = np.asarray(want)
    if about.exact or want.dtype.kind in "iub":
        same_bits(got, want.astype(got.dtype) if want.dtype.kind == "f" and got.dtype.kind == "f" and not about.exact else want, str(sample))
        return
    assert got.shape == want.shape, f"{sample}: shapes {got.shape} and {want.shape}"
    largest = np.abs(want[np.isfinite(want)]).max(initial=0.0)
    np.testing.assert_allclose(got.astype(np.float64), want, rtol=RTOL[dtype] * 4, atol=RTOL[dtype] * max(about.atol, 1e-3) * largest + scale,
                               err_msg=str(sample))


@pytest.mark.parametrize("dtype", FLOATS, ids=lambda d: d.__name__)
@samples()
def test_values(sample, dtype):
    arrays = convert(sample, dtype)
    outs = run_arrays(sample, [tensor(a) for a in arrays])
    random = ROWS[sample.row].random
    exact = T[sample.row].exact or random
    want = references(sample, arrays if exact else [a.astype(np.float64) if a.dtype == dtype else a for a in arrays])
    assert len(outs) == (len(arrays) if sample.row in IN_PLACE_ONLY else ROWS[sample.row].n_out)
    for k, out in enumerate(outs):
        got = values(out)
        if k in want:
            compare(sample, got, want[k], dtype, RTOL[dtype] / 8 * magnitude(sample, arrays, k) if T[sample.row].sums else 0)
            if got.dtype.kind == "f" and np.asarray(want[k]).dtype.kind == "f" and sample.row not in ("cast", "full"):
                assert got.dtype == dtype
        else:
            same_bits(got, arrays[k], f"{sample}: operand {k}")


@samples(lambda s: T[s.row].types and any(a.dtype == np.float64 for a in s.inputs))
def test_whole_numbers(sample):
    """Integers and bools, in each type the row takes: exact, and sums of them in int64."""
    for dtype in T[sample.row].types:
        if dtype == np.bool_:
            arrays = [np.round(a) != 0 if a.dtype == np.float64 else a for a in sample.inputs]
        else:
            arrays = [np.round(np.abs(np.nan_to_num(a)) * 3).astype(dtype) if a.dtype == np.float64 else a for a in sample.inputs]
        for k, (out, want) in enumerate(zip(run_arrays(sample, [tensor(a) for a in arrays]), references(sample, arrays).values())):
            want = np.asarray(want)
            if dtype == np.bool_ and sample.row in ("prod", "cumprod", "sum", "cumsum"):
                want = want.astype(np.int64)
            elif want.dtype.kind == "f" and sample.row != "cast":
                want = want.astype(dtype)
            same_bits(values(out), want, f"{sample} in {np.dtype(dtype)}")


def layouts(a):
    """The values of a in other arrangements of memory."""
    if a.ndim == 0 or a.size == 0:
        return
    yield "transposed", np.asfortranarray(a) if a.ndim > 1 else np.repeat(a, 2)[::2]
    yield "reversed", np.flip(np.flip(a).copy())
    gaps = np.empty(tuple(2 * n + 1 for n in a.shape), a.dtype)
    gaps[...] = 77
    gaps[tuple(slice(1, None, 2) for _ in a.shape)] = a
    yield "gaps", gaps[tuple(slice(1, None, 2) for _ in a.shape)]


# Other arrangements let these take their sums in another order (several dims at once, OpenBLAS).
ANY_ORDER = {"sum", "mean", "prod", "sum_to", "mm", "mv", "dot", "bmm", "addmm"}


@samples(lambda s: T[s.row].layout and s.inputs)
def test_layouts(sample):
    """Transposed, reversed and sparse operands give the bits that row-major ones give."""
    arrays = convert(sample, np.float64)
    want = [values(t) for t in run_arrays(sample, [tensor(a) for a in arrays])]
    for k, a in enumerate(arrays):
        if ROWS[sample.row].random and k == 1:
            continue  # a generator is two numbers in a row
        for kind, other in layouts(a):
            ts = [over(other) if j == k else tensor(b) for j, b in enumerate(arrays)]
            for got, w in zip(run_arrays(sample, ts), want):
                if sample.row in ANY_ORDER:
                    np.testing.assert_allclose(values(got), w, rtol=1e-12, atol=1e-12, err_msg=f"{sample} operand {k} {kind}")
                else:
                    same_bits(got, w, f"{sample} operand {k} {kind}")


# ---- gradients --------------------------------------------------------------------------------------------


def differentiable(sample):
    if not ROWS[sample.row].differentiable:
        return []
    if sample.diff is not None:
        return sample.diff
    return [k for k, a in enumerate(sample.inputs) if a.dtype == np.float64]


def run(sample):
    """The row as a function of tensors; a row that writes works on a copy, so that the copy's history is its own."""

    def f(ts):
        if sample.row not in IN_PLACE_ONLY:
            return call(sample.row, ts, sample.ints, sample.floats)
        return call_inplace(sample.row, [call("clone", ts[:1])] + ts[1:], sample.ints, sample.floats)

    return f


@samples(differentiable)
def test_gradients(sample):
    """Orders 1 and 2 against differences; with and without create_graph the same bits."""
    check_gradients(run(sample), sample.inputs, differentiable(sample), second=sample.second, rtol=1e-7, atol=2e-8, what=str(sample))


def backward(sample, arrays, diff, create_graph):
    ts = [tensor(a, k in diff) for k, a in enumerate(arrays)]
    outs = [o for o in as_list(run(sample)(ts)) if values(o).dtype.kind == "f"]
    rng = np.random.default_rng(5)
    seeds = [tensor(rng.uniform(0.5, 1.5, values(o).shape).astype(values(o).dtype)) for o in outs]
    return grad(outs, [ts[k] for k in diff], seeds, create_graph)


# Backward alone may use the forward's statistics, where the differentiable rule has to compute them again.
RECOMPUTED = {"layer_norm"}


@samples(differentiable)
def test_float32_gradient(sample):
    """The float32 gradient is the float64 one, rounded; create_graph does not change a bit of it."""
    diff, about = differentiable(sample), T[sample.row]
    single = backward(sample, convert(sample, np.float32), diff, False)
    graph = backward(sample, convert(sample, np.float32), diff, True)
    double = backward(sample, [a.astype(np.float32).astype(np.float64) if a.dtype == np.float64 else a for a in sample.inputs], diff, False)
    for k, a, b, c in zip(diff, single, graph, double):
        assert (a is None) == (b is None) == (c is None)
        if a is None:
            continue
        if sample.row not in RECOMPUTED:
            same_bits(a, b, f"{sample} in operand {k}, with create_graph")
        want = values(c)
        scale = np.abs(want).max(initial=0.0)
        np.testing.assert_allclose(values(a), want, rtol=1e-5, atol=1e-5 * scale * max(about.atol, about.sums, 0.1), err_msg=f"{sample} in operand {k}")


@samples(lambda s: differentiable(s) and T[s.row].layout)
def test_gradient_of_layouts(sample):
    """Gradients do not depend on how operands lie in memory."""
    arrays, diff = sample.inputs, differentiable(sample)
    want = backward(sample, arrays, diff, False)
    for k, a in enumerate(arrays):
        for kind, other in layouts(a):
            ts = [over(other, j in diff) if j == k else tensor(b, j in diff) for j, b in enumerate(arrays)]
            outs = [o for o in as_list(run(sample)(ts)) if values(o).dtype.kind == "f"]
            rng = np.random.default_rng(5)
            seeds = [tensor(rng.uniform(0.5, 1.5, values(o).shape)) for o in outs]
            for j, got, w in zip(diff, grad(outs, [ts[d] for d in diff], seeds), want):
                if w is not None:
                    np.testing.assert_allclose(values(got), values(w), rtol=1e-12, atol=1e-12, err_msg=f"{sample} operand {k} {kind}, gradient {j}")


def test_gradient_of_part_of_the_operands():
    """Of several operands with a history only the wanted ones are computed, each from its own place."""
    ts = [tensor(np.full((k + 1, 2), float(k)), k != 2) for k in range(5)]
    y = call("cat", ts, [0])
    w = np.arange(30.0).reshape(15, 2)
    edges = np.cumsum([0, 1, 2, 3, 4, 5])
    for k in (0, 1, 3, 4):
        same_bits(grad([y], [ts[k]], [tensor(w)], True)[0], w[edges[k]:edges[k + 1]], f"part {k}")


def test_gradients_have_their_operands_types():
    """Joining float32 and float64 gives float64; each gradient comes back in its operand's own type."""
    for name, ints in (("cat", [0]), ("add", []), ("mul", [])):
        a, b = tensor(np.ones(2, np.float32), True), tensor(np.ones(2), True)
        y = call(name, [a, b], ints)
        ga, gb = grad([y], [a, b], [tensor(np.ones(values(y).shape))])
        same_bits(ga, np.ones(2, np.float32), name)
        same_bits(gb, np.ones(2), name)


# ---- what PyTorch gives at ties, and other single points --------------------------------------------------------


def one_gradient(name, x, ints=(), floats=()):
    t = tensor(np.asarray(x, float), True)
    y = as_list(call(name, [t], ints, floats))[0]
    return values(grad([y], [t], [tensor(np.ones(values(y).shape))])[0])


def test_ties_of_extrema():
    """amax shares the gradient among equal elements, max along a dim gives it to the first."""
    x = [[1.0, 3.0, 3.0], [2.0, 2.0, 2.0]]
    same_bits(one_gradient("amax", x, [0, 1]), np.array([[0, 0.5, 0.5], [1 / 3] * 3]))
    same_bits(one_gradient("max_all", [3.0, 1.0, 3.0]), np.array([0.5, 0, 0.5]))
    same_bits(one_gradient("min_all", [1.0, 1.0]), np.array([0.5, 0.5]))
    same_bits(one_gradient("max_dim", x, [0, 1]), np.array([[0.0, 1, 0], [1, 0, 0]]))


def test_extrema_of_nothing_are_errors():
    for name in ("amax", "amin", "max_all", "argmax"):
        with pytest.raises((IndexError, RuntimeError, ValueError)):
            call(name, [tensor(np.zeros((0, 3)))])
    with pytest.raises((IndexError, RuntimeError)):
        call("max_dim", [tensor(np.zeros((2, 0)))], [0, 1])


@pytest.mark.parametrize("name", ["sum", "mean", "amax", "softmax", "cumsum", "max_dim", "argmin", "flip", "unsqueeze", "select", "cat"])
def test_dims_out_of_range(name):
    ints = {"softmax": [2], "cumsum": [2], "flip": [-3], "unsqueeze": [4], "select": [2, 0], "cat": [2]}.get(name, [0, 2])
    with pytest.raises(IndexError, match="Dimension out of range"):
        call(name, [tensor(np.ones((2, 3)))], ints)


@pytest.mark.parametrize("name", ["sum", "amax", "any", "flip", "permute", "squeeze"])
def test_dims_named_twice(name):
    ints = [1, -1] if name in ("flip", "permute", "squeeze") else [0, 1, -1]
    with pytest.raises(RuntimeError, match="multiple times|duplicate"):
        call(name, [tensor(np.ones((2, 3)))], ints)


@pytest.mark.parametrize("name, inputs, ints", [
    ("gather", [np.ones((2, 3)), np.array([[3, 0]])], [1]), ("gather", [np.ones((2, 3)), np.array([[-1, 0]])], [1]),
    ("index_select", [np.ones((2, 3)), np.array([2])], [0]), ("index", [np.ones((2, 3)), np.array([-3])], [0]),
    ("embedding", [np.ones((2, 3)), np.array([2])], []), ("scatter_add", [np.ones(3), np.array([3]), np.ones(1)], [0]),
    ("index_put", [np.ones(3), np.ones(()), np.array([3])], [0, 1]), ("index_add", [np.ones(3), np.array([-1]), np.ones(1)], [0]),
    ("nll_loss", [np.ones((1, 3)), np.array([3])], [1, -100]), ("pool_gather", [np.ones((1, 3)), np.array([[3]])], [1, 1]),
    ("select", [np.ones(3)], [0, 3])])
def test_indices_out_of_range(name, inputs, ints):
    """Refused before anything is written."""
    with pytest.raises(IndexError, match="out of|invalid"):
        call(name, [tensor(a) for a in inputs], ints)


@pytest.mark.parametrize("name", [n for n in FUNCTIONS if ROWS[n].n_in > 0])
def test_wrong_calls_are_refused(name):
    """Too few operands, missing ones, no attributes: an error, never a crash."""
    row = ROWS[name]
    with pytest.raises(Exception) as e:
        (call_inplace if row.mutates else call)(name, [], [], [])
    assert isinstance(e.value, (TypeError, RuntimeError))
    for ints in ([], [99], [-99, 99], [2**62] * 3, [-2**63] * 12, [1] * 56):
        for make in (lambda: tensor(np.ones((2, 3))), lambda: tensor(np.ones(())), lambda: tensor(np.zeros((0, 2))), lambda: tensor(np.ones(3, np.int64))):
            ts = [make() for _ in range(row.n_in if row.n_in > 0 else 3)]
            for floats in ([], [np.nan] * 8):
                try:
                    (call_inplace if row.mutates else call)(name, ts, ints, floats)
                except (TypeError, RuntimeError, IndexError, ValueError, NotImplementedError, MemoryError):
                    pass


def test_unknown_op():
    assert lib.ag_op_find(b"no such row") == -1
    x = tensor(np.ones(1))
    for op in (-1, lib.ag_op_count()):
        assert not lib.ag_call1(op, x._h, 0, 0) and lib.ag_last_status() == lib.AG_ERR_INDEX
