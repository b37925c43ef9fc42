"""Operands of any shape and stride give the bits of their contiguous copies; in-place forms those of the others."""
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from autograd_c._ffi import lib
from table import (ELEMENTWISE, FLOATS, ROWS, call, call_inplace, close, grad, over, same_bits, shape_of, tensor, values)
from table_ew import EW, operands

NAMES = [n for n in ELEMENTWISE if n in EW]
quick = settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])


def dtype_of(name):
    return np.int32 if EW[name].types == "integer" else np.float32


def fill(row, k, shape, dtype, seed):
    """Operand k of a row in the given shape, as a plain array."""
    rng = np.random.default_rng([seed, k])
    return operands(row, rng, int(np.prod(shape)), dtype)[k].reshape(shape)


def transposed(a):
    return np.ascontiguousarray(a.transpose()).transpose()


def backwards(a):
    return np.flip(np.flip(a).copy())


def with_gaps(a):
    whole = np.zeros(tuple(3 * n + 2 for n in a.shape), a.dtype)
    part = whole[tuple(slice(1, 3 * n, 3) for n in a.shape)]
    part[...] = a
    return part


def half_transposed(a):
    return np.swapaxes(np.ascontiguousarray(np.swapaxes(a, 0, 1)), 0, 1)


def spread_first(a):
    return np.broadcast_to(a[:1].copy(), a.shape)


def spread_last(a):
    return np.broadcast_to(a[..., :1].copy(), a.shape)


def one_number(a):
    return np.broadcast_to(a.reshape(-1)[:1].reshape((1,) * a.ndim).copy(), a.shape)


ARRANGEMENTS = [np.ascontiguousarray, transposed, backwards, with_gaps, half_transposed, spread_first, spread_last, one_number]
SHAPES = [(3, 5, 7), (2, 9, 131)]  # one block of the strided path; several, and a tail




@pytest.mark.parametrize("shape", SHAPES, ids=["small", "large"])
@pytest.mark.parametrize("name", NAMES)
def test_strides(name, shape):
    """Every arrangement of the operands' memory, alone and mixed, against row-major copies."""
    row, params = ROWS[name], EW[name].params[0]
    base = [fill(row, k, shape, dtype_of(name), 1) for k in range(row.n_in)]
    for shift in range(len(ARRANGEMENTS)):
        arranged = [ARRANGEMENTS[(shift * (k + 1) + k) % len(ARRANGEMENTS)](a) for k, a in enumerate(base)]
        want = call(name, [tensor(np.ascontiguousarray(a)) for a in arranged], floats=params)
        got = call(name, [over(a) for a in arranged], floats=params)
        same_bits(got, want, f"{name}: {[ARRANGEMENTS[(shift * (k + 1) + k) % len(ARRANGEMENTS)].__name__ for k in range(row.n_in)]}")


@pytest.mark.parametrize("name", NAMES)
def test_broadcasting(name):
    """Shapes that meet as NumPy's do, 0-d and empty ones among them."""
    row, params = ROWS[name], EW[name].params[0]
    sets = [((4, 1, 3), (5, 1), (1,)), ((), (2, 3), (3,)), ((2, 3), (), ()), ((0, 3), (3,), (1, 1)), ((2, 0), (2, 1), ()), ((), (), ()), ((1, 1), (4,), (3, 1)),
            ((0,), (1,), (1,)), ((700,), (1,), (1,)), ((30, 1), (1, 40), (40,))]
    for shapes in sets:
        xs = [fill(row, k, shapes[k], dtype_of(name), 2) for k in range(row.n_in)]
        whole = np.broadcast_shapes(*shapes[:row.n_in])
        got = call(name, [tensor(x) for x in xs], floats=params)
        assert shape_of(got) == whole
        same_bits(got, call(name, [tensor(np.broadcast_to(x, whole)) for x in xs], floats=params), f"{name} of {shapes[:row.n_in]}")


@pytest.mark.parametrize("name", [n for n in NAMES if ROWS[n].n_in > 1])
def test_shapes_that_do_not_meet(name):
    row, params = ROWS[name], EW[name].params[0]
    xs = [tensor(fill(row, k, ((2, 3), (2, 4), (1,))[k], dtype_of(name), 3)) for k in range(row.n_in)]
    with pytest.raises(RuntimeError, match=r"The size of tensor a \(3\) must match the size of tensor b \(4\) at non-singleton dimension 1"):
        call(name, xs, floats=params)


@pytest.mark.parametrize("dtype", FLOATS, ids=lambda d: d.__name__)
@pytest.mark.parametrize("name", NAMES)
def test_an_element_knows_not_its_place(name, dtype):
    """An element's bits depend on its operands alone: not on the length of the array nor its place in it."""
    row, params = ROWS[name], EW[name].params[0]
    if EW[name].types == "integer":
        dtype = np.int64
    n = 67
    xs = [fill(row, k, (n,), dtype, 4) for k in range(row.n_in)]
    whole = values(call(name, [tensor(x) for x in xs], floats=params))
    for start, stop in ((0, 1), (1, 2), (3, 20), (5, 67), (66, 67), (17, 50)):
        same_bits(call(name, [tensor(x[start:stop]) for x in xs], floats=params), whole[start:stop], f"{name}[{start}:{stop}]")


# ---- in place ---------------------------------------------------------------------------------------------


IN_PLACE = [n for n in NAMES if ROWS[n].in_place == 1 and ROWS[n].kind not in ("unary condition", "comparison", "select")]


@pytest.mark.parametrize("name", IN_PLACE)
def test_in_place_bits(name):
    """x.op_(...) leaves in x what op(x, ...) gives: whole tensors, and every kind of view, whose surroundings stay."""
    row, params = ROWS[name], EW[name].params[0]
    dtype = dtype_of(name)
    xs = [fill(row, k, (4, 9), dtype, 5) for k in range(row.n_in)]
    want = values(call(name, [tensor(x) for x in xs], floats=params))
    rest = [tensor(x) for x in xs[1:]]
    x = tensor(xs[0])
    before = lib.ag_tensor_version(x._h)
    assert call_inplace(name, [x] + rest, floats=params) is x
    same_bits(x, want, name)
    assert lib.ag_tensor_version(x._h) == before + 1
    for arrange in (transposed, backwards, with_gaps):
        a = arrange(xs[0])
        memory = a.base if a.base is not None else a
        while memory.base is not None:
            memory = memory.base
        around = memory.copy()
        call_inplace(name, [over(a)] + rest, floats=params)
        same_bits(a, want, f"{name} in place, {arrange.__name__}")
        if arrange is with_gaps:
            mask = np.ones(memory.shape, bool)
            mask[tuple(slice(1, 3 * n, 3) for n in a.shape)] = False
            same_bits(memory[mask], around[mask], f"{name}: around the view")


@pytest.mark.parametrize("name", IN_PLACE)
def test_in_place_on_a_view(name):
    """Writing to a view counts as writing to its base, and shows there."""
    row, params = ROWS[name], EW[name].params[0]
    xs = [fill(row, k, (4, 9), dtype_of(name), 6) for k in range(row.n_in)]
    base = tensor(xs[0])
    part = call("slice", [base], [1, 2, 9, 3])
    rest = [tensor(x[:, 2:9:3]) for x in xs[1:]]
    want = xs[0].copy()
    want[:, 2:9:3] = values(call(name, [tensor(xs[0][:, 2:9:3])] + rest, floats=params))
    call_inplace(name, [part] + rest, floats=params)
    same_bits(base, want, name)
    assert lib.ag_tensor_version(base._h) == lib.ag_tensor_version(part._h) == 1


@pytest.mark.parametrize("name", [n for n in IN_PLACE if ROWS[n].differentiable and EW[n].types != "integer"])
def test_in_place_gradient(name):
    """The gradient through y = x.clone(); y.op_() is op's own, also where the derivative needs what was overwritten."""
    row, params = ROWS[name], EW[name].params[0]
    xs = [fill(row, k, (6,), np.float64, 7) for k in range(row.n_in)]
    w = np.linspace(0.5, 2, 6)
    for k in range(row.n_in):
        ts = [tensor(x, j == k) for j, x in enumerate(xs)]
        want = values(grad([call(name, ts, floats=params)], [ts[k]], [tensor(w)])[0])
        y = call("clone", [ts[0]])
        call_inplace(name, [y] + ts[1:], floats=params)
        same_bits(grad([y], [ts[k]], [tensor(w)])[0], want, f"{name} in operand {k}")


@pytest.mark.parametrize("name", [n for n in IN_PLACE if ROWS[n].differentiable and EW[n].types != "integer"])
def test_in_place_gradient_through_a_view(name):
    """A write to part of y: the part's gradient passes the op, the rest of y goes straight."""
    row, params = ROWS[name], EW[name].params[0]
    xs = [fill(row, k, (6,), np.float64, 8) for k in range(row.n_in)]
    w = np.linspace(0.5, 2, 12).reshape(6, 2)
    x = tensor(np.stack([xs[0], xs[0]], 1), True)
    y = call("clone", [x])
    column = call("select", [y], [1, 1])
    call_inplace(name, [column] + [tensor(v) for v in xs[1:]], floats=params)
    got = values(grad([y], [x], [tensor(w)])[0])
    t = tensor(xs[0], True)
    want = values(grad([call(name, [t] + [tensor(v) for v in xs[1:]], floats=params)], [t], [tensor(w[:, 1])])[0])
    same_bits(got[:, 0].copy(), w[:, 0].copy(), "untouched column")
    same_bits(got[:, 1].copy(), want, "written column")


def test_in_place_on_a_part_of_foreign_memory():
    """The base may lie in any order in memory: what was written gets the gradient."""
    for arrange in (np.ascontiguousarray, transposed, backwards, with_gaps):
        base = over(arrange(np.arange(12.0).reshape(3, 4)))
        w = tensor(np.array([5.0, 6, 7]), True)
        call_inplace("copy", [call("select", [base], [1, 2]), w])
        seed = np.arange(1.0, 13).reshape(3, 4)
        same_bits(grad([base], [w], [tensor(seed)])[0], seed[:, 2].copy(), arrange.__name__)
        same_bits(values(base)[:, 2].copy(), np.array([5.0, 6, 7]), arrange.__name__)


def test_in_place_comparisons():
    """x.lt_(y) leaves 0 and 1 in x's own type."""
    x = tensor(np.array([1.0, 2, 3]))
    call_inplace("lt", [x, tensor(np.array([2.0, 2, 4]))])
    same_bits(x, np.array([1.0, 0, 1]))


def test_in_place_refusals():
    leaf, x = tensor(np.ones((2, 3)), True), tensor(np.ones((2, 3)))
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad is being used in an in-place operation"):
        call_inplace("exp", [leaf])
    with pytest.raises(RuntimeError, match="a view of a leaf Variable that requires grad"):
        call_inplace("exp", [call("select", [leaf], [0, 0])])
    with pytest.raises(RuntimeError, match="more than one element of the written-to tensor refers to a single memory location"):
        call_inplace("exp", [call("expand", [tensor(np.ones((2, 1)))], [2, 3])])
    with pytest.raises(RuntimeError, match=r"output with shape \[3\] doesn't match the broadcast shape \[2, 3\]"):
        call_inplace("add", [tensor(np.ones(3)), x])
    with pytest.raises(RuntimeError, match="can't be cast to the desired output type"):
        call_inplace("div", [tensor(np.ones(3, np.int64)), tensor(np.ones(3))])
    with pytest.raises(RuntimeError, match="some elements of the input tensor and the written-to tensor refer to a single memory location"):
        line = tensor(np.arange(5.0))
        call_inplace("add", [call("slice", [line], [0, 0, 4, 1]), call("slice", [line], [0, 1, 5, 1])])
    for t in (leaf, x):
        same_bits(t, np.ones((2, 3)), "after a refusal")
        assert lib.ag_tensor_version(t._h) == 0


@pytest.mark.parametrize("name", [r.name for r in ROWS.values() if r.in_place == 0])
def test_rows_without_an_in_place_form(name):
    row = ROWS[name]
    with pytest.raises(TypeError, match="no in-place form|takes"):
        call_inplace(name, [tensor(np.ones((2, 2))) for _ in range(max(1, row.n_in))], [1] * 8, [1.0] * 4)


@pytest.mark.parametrize("name", ["copy", "add"])
def test_overlap(name):
    """Ranges that overlap in part are refused; strided parts of one memory that may share elements act as if read from a
    copy; parts that interleave are written as they stand."""
    a = np.arange(8.0)
    op = {"copy": lambda x, y: y, "add": np.add}[name]
    t = tensor(a)
    with pytest.raises(RuntimeError, match="some elements of the input tensor and the written-to tensor refer to a single memory location"):
        call_inplace(name, [call("slice", [t], [0, 1, 8, 1]), call("slice", [t], [0, 0, 7, 1])])
    same_bits(t, a)
    for to, of in (((0, 8, 2), (1, 8, 2)), ((2, 8, 2), (0, 6, 2)), ((0, 6, 2), (2, 8, 2))):
        t, want = tensor(a), a.copy()
        want[slice(*to)] = op(a[slice(*to)], a[slice(*of)])
        call_inplace(name, [call("slice", [t], [0, *to]), call("slice", [t], [0, *of])])
        same_bits(t, want)


def test_stale_saved_value_names_both_lines():
    x = tensor(np.ones(2, np.float32), True)
    y = call("exp", [x])
    call_inplace("add", [y, tensor(np.ones(2, np.float32))])
    with pytest.raises(RuntimeError, match=r"modified by an inplace operation: \[torch.FloatTensor \[2\]\], which is output 0 of ExpBackward0, is at version 1; "
                                           "expected version 0 instead"):
        grad([y], [x], [tensor(np.ones(2, np.float32))])


# ---- hypothesis: chains of views ----------------------------------------------------------------------------


@st.composite
def chains(draw):
    """A shape and steps of views: (row, ints, the same on an array)."""
    shape = tuple(draw(st.lists(st.integers(0 if draw(st.integers(0, 9)) == 0 else 1, 5), min_size=0, max_size=4)))
    a, steps = np.zeros(shape, np.int8), []
    for _ in range(draw(st.integers(1, 5))):
        n = a.ndim
        kinds = ["unsqueeze"] if n < 5 else []
        if n:
            kinds += ["transpose", "slice", "slice", "permute", "squeeze"] + (["select"] if a.size else []) + (["diagonal"] if n > 1 else [])
        if 1 in a.shape:
            kinds.append("expand")
        kind = draw(st.sampled_from(kinds))
        d = draw(st.integers(-n, n - 1)) if n else 0
        if kind == "unsqueeze":
            ints, f = [d], lambda x, d=d: np.expand_dims(x, d) if x.ndim else x.reshape(1)
            if n and d < 0:
                ints = [d - 1 if draw(st.booleans()) else d]
                f = lambda x, d=ints[0]: np.expand_dims(x, d)  # noqa: E731
        elif kind == "transpose":
            e = draw(st.integers(-n, n - 1))
            ints, f = [d, e], lambda x, d=d, e=e: np.swapaxes(x, d, e)
        elif kind == "permute":
            p = draw(st.permutations(range(n)))
            ints, f = list(p), lambda x, p=p: x.transpose(p)
        elif kind == "slice":
            start, stop, step = draw(st.integers(-6, 6)), draw(st.integers(-6, 6)), draw(st.integers(1, 3))
            ints = [d, start, stop, step]
            f = lambda x, d=d, s=slice(start, stop, step): x[(slice(None),) * (d % x.ndim) + (s,)]  # noqa: E731
        elif kind == "select":
            i = draw(st.integers(-a.shape[d], a.shape[d] - 1))
            ints, f = [d, i], lambda x, d=d, i=i: x[(slice(None),) * (d % x.ndim) + (i,)]
        elif kind == "squeeze":
            ints, f = [], np.squeeze
        elif kind == "diagonal":
            e = draw(st.sampled_from([k for k in range(n) if k != d % n]))
            o = draw(st.integers(-2, 2))
            ints, f = [o, d, e], lambda x, o=o, d=d, e=e: np.diagonal(x, o, d, e)
        else:
            to = tuple(draw(st.integers(1, 4)) if k == 1 else k for k in a.shape)
            lead = (draw(st.integers(1, 3)),) if n < 4 and draw(st.booleans()) else ()
            ints, f = list(lead + to), lambda x, s=lead + to: np.broadcast_to(x, s)
        a = f(a)
        steps.append((kind, ints, f))
    return shape, steps


def view_of(t, steps):
    for kind, ints, _ in steps:
        t = call(kind, [t], ints)
    return t


def array_of(a, steps):
    for _, _, f in steps:
        a = f(a)
    return a


@quick
@given(chains())
def test_views(chain):
    """A chain of views is NumPy's, shares the memory, and sends each gradient back to where the element came from."""
    shape, steps = chain
    a = np.arange(1.0, np.prod(shape) + 1).reshape(shape)
    t = tensor(a, True)
    v, want = view_of(t, steps), array_of(a, steps)
    same_bits(v, np.ascontiguousarray(want).reshape(want.shape), str(steps))
    assert lib.ag_tensor_version(v._h) == 0
    w = np.random.default_rng(1).uniform(0.5, 1.5, want.shape)
    g = np.zeros(a.size)
    np.add.at(g, array_of(np.arange(a.size).reshape(shape), steps), w)
    close(values(grad([v], [t], [tensor(w)])[0]), g.reshape(shape), 1e-12, 1e-12, str(steps))


CONSUMERS = [("add", 2, []), ("mul", 2, []), ("tanh", 1, []), ("where", 3, []), ("lt", 2, []), ("softmax", 1, [-1]), ("cumsum", 1, [-1]), ("amax", 1, [0, -1]),
             ("sum", 1, [0, -1]), ("argmax", 1, [0, -1]), ("clone", 1, []), ("flip", 1, [-1]), ("cat", 2, [-1]), ("nonzero", 1, []), ("log_softmax", 1, [0])]


@quick
@given(chains(), st.sampled_from(CONSUMERS), st.integers(0, 2**31))
def test_rows_of_views(chain, consumer, seed):
    """What a row makes of a view is what it makes of a copy, to the bit; over memory with negative strides, too."""
    shape, steps = chain
    name, n_in, ints = consumer
    a = np.random.default_rng(seed).uniform(-2, 2, shape).astype(np.float32)
    v, copy = view_of(tensor(a), steps), np.ascontiguousarray(array_of(a, steps)).reshape(array_of(a, steps).shape)
    if copy.ndim == 0 and name not in ("add", "mul", "tanh", "lt", "clone", "nonzero"):
        return
    if name == "amax" and copy.size == 0 or name == "argmax" and copy.size == 0:
        return
    operand = [tensor(copy)] * n_in
    views = [v] * n_in
    if name == "where":
        operand[0] = views[0] = call("lt", [tensor(copy), tensor(np.float32(0.5))])
    same_bits(call(name, views, ints), call(name, operand, ints), f"{name} of {steps}")
    if copy.ndim:
        back = np.flip(copy)
        views[-1], operand[-1] = over(back), tensor(np.ascontiguousarray(back))
        same_bits(call(name, views, ints), call(name, operand, ints), f"{name} of a reversed array")


@quick
@given(chains(), st.sampled_from(["mul", "exp", "copy", "fill", "clamp", "cumsum", "tril"]))
def test_writes_to_views(chain, name):
    """Writing in place to a view changes its elements and no others; what overlaps itself is refused."""
    shape, steps = chain
    a = np.random.default_rng(3).uniform(-1, 1, shape)
    t = tensor(a)
    v, target = view_of(t, steps), array_of(np.arange(a.size).reshape(shape), steps)
    if name == "cumsum" and target.ndim == 0 or name == "tril" and target.ndim < 2:
        return
    ints, floats = {"cumsum": [0], "tril": [0]}.get(name, []), {"fill": [2.5], "clamp": [-0.2, 0.3]}.get(name, [])
    others = [tensor(np.full(target.shape, 1.5))] if name in ("mul", "copy") else []
    old = a.reshape(-1)[target]
    if any(s == 0 and n > 1 for n, s in zip(target.shape, array_of(np.empty(shape), steps).strides)) and target.size and name != "fill":
        with pytest.raises(RuntimeError, match="single memory location"):
            call_inplace(name, [v] + others, ints, floats)
        same_bits(t, a)
        return
    new = a.reshape(-1).copy()
    new[target] = values(call_inplace(name, [tensor(old)] + others, ints, floats))
    call_inplace(name, [v] + others, ints, floats)
    same_bits(t, new.reshape(shape), f"{name} in place on {steps}")
