"""x[key] and x[key] = value: by hand, and random keys against PyTorch (NumPy where it is not installed)."""
import math
import random

import pytest

import autograd_c as ag

np = pytest.importorskip("numpy")
pytest.importorskip("hypothesis")
from hypothesis import HealthCheck, assume, given, settings, strategies as st  # noqa: E402

try:
    import torch
except ImportError:
    torch = None


def grid():
    return ag.arange(12.0).reshape(3, 4)


@pytest.mark.parametrize("key, want", [
    (1, [4, 5, 6, 7]),
    (-1, [8, 9, 10, 11]),
    ((1, 2), 6),
    (slice(1, None), [[4, 5, 6, 7], [8, 9, 10, 11]]),
    ((slice(None), 0), [0, 4, 8]),
    ((slice(None), slice(None, None, 2)), [[0, 2], [4, 6], [8, 10]]),
    ((Ellipsis, -1), [3, 7, 11]),
    ((None, 0), [[0, 1, 2, 3]]),
    ([0, 2], [[0, 1, 2, 3], [8, 9, 10, 11]]),
    (([0, 2], [1, 3]), [1, 11]),
    ((slice(None), [3, 0]), [[3, 0], [7, 4], [11, 8]]),
    (([[0], [1]], [1, 2]), [[1, 2], [5, 6]]),
    (slice(5, 9), []),
])
def test_get(key, want):
    assert grid()[key].tolist() == want


def test_get_by_tensors():
    x = grid()
    assert x[ag.tensor([2, 0])].tolist() == [[8, 9, 10, 11], [0, 1, 2, 3]]
    assert x[ag.tensor(1)].tolist() == [4, 5, 6, 7]
    assert x[x > 8].tolist() == [9, 10, 11]
    assert x[ag.tensor([True, False, True]), 1].tolist() == [1, 9]
    assert x[ag.tensor([True, False, True])].shape == (2, 4)
    assert x[:, ag.tensor([1, 2]).int()].tolist() == [[1, 2], [5, 6], [9, 10]]


def test_indices_apart_come_first():
    x = ag.arange(24.0).reshape(2, 3, 4)
    assert x[[0, 1], :, [1, 2]].shape == (2, 3)
    assert x[[0, 1], :, [1, 2]].tolist() == [[1, 5, 9], [14, 18, 22]]


def test_views_share_memory():
    x = grid()
    x[1][2] = 100
    assert x[1, 2].item() == 100
    v = x[:, 1]
    v += 1
    assert x[:, 1].tolist() == [2, 6, 10]
    y = x[[0]]
    y += 1
    assert x[0, 0].item() == 0


def test_set():
    x = grid()
    x[0] = 1
    x[1, 1:3] = ag.tensor([7.0, 8.0])
    x[2] = ag.tensor(9.0)
    assert x.tolist() == [[1, 1, 1, 1], [4, 7, 8, 7], [9, 9, 9, 9]]
    x[x > 7] = -1.0
    assert x.tolist() == [[1, 1, 1, 1], [4, 7, -1, 7], [-1, -1, -1, -1]]
    x[[0, 2], [0, 3]] = ag.tensor([5.0, 6.0])
    assert x[0, 0].item() == 5 and x[2, 3].item() == 6
    x[..., 0] = [1, 2, 3]
    assert x[:, 0].tolist() == [1, 2, 3]
    i = ag.arange(4)
    i[1] = 2.9
    assert i.tolist() == [0, 2, 2, 3]


def test_augmented_assignment():
    x = grid()
    x[1] += 1
    x[:, 0] *= 2
    assert x.tolist() == [[0, 1, 2, 3], [10, 6, 7, 8], [16, 9, 10, 11]]


def test_gradients():
    x = grid().requires_grad_()
    (x[1:, ::2].sum() + x[0, 3] * 5 + x[[0, 0], [1, 1]].sum()).backward()
    assert x.grad.tolist() == [[0, 2, 0, 5], [1, 0, 1, 0], [1, 0, 1, 0]]


def test_gradient_of_assignment():
    x = ag.ones(3, requires_grad=True)
    v = ag.tensor([10.0], requires_grad=True)
    y = x * 2
    y[1:2] = v
    (y * ag.tensor([1.0, 2.0, 3.0])).sum().backward()
    assert x.grad.tolist() == [2, 0, 6]
    assert v.grad.tolist() == [2]


def test_node_names():
    x = grid().requires_grad_()
    assert x[0].grad_fn.name() == "SelectBackward0"
    assert x[0:1].grad_fn.name() == "SliceBackward0"
    assert x[None].grad_fn.name() == "UnsqueezeBackward0"
    assert x[[0]].grad_fn.name() == "IndexBackward0"


@pytest.mark.parametrize("key, kind, text", [
    (5, IndexError, "index 5 is out of bounds for dimension 0 with size 3"),
    ((0, 0, 0), IndexError, "too many indices for tensor of dimension 2"),
    (slice(None, None, -1), ValueError, "step must be greater than zero"),
    ("a", IndexError, "valid indices"),
    (1.0, IndexError, "valid indices"),
    ([7], IndexError, "index 7 is out of bounds for dimension 0 with size 3"),
])
def test_errors(key, kind, text):
    with pytest.raises(kind, match=text.replace("(", r"\(")):
        grid()[key]


def test_error_texts_of_tensor_keys():
    with pytest.raises(IndexError, match="tensors used as indices must be long, int, byte or bool tensors"):
        grid()[ag.ones(2)]
    with pytest.raises(IndexError, match="The shape of the mask"):
        grid()[ag.ones(4) > 0]
    with pytest.raises(IndexError, match="invalid index of a 0-dim tensor"):
        ag.tensor(1.0)[0]


def test_functions():
    x = grid()
    i = ag.tensor([[0, 1, 2, 0]])
    assert x.gather(0, i).tolist() == [[0, 5, 10, 3]]
    assert ag.zeros(3, 4).scatter_add(0, i, ag.ones(1, 4)).sum().item() == 4
    assert ag.zeros(3, 4).scatter(0, i, 2.0)[1].tolist() == [0, 2, 0, 0]
    assert x.index_select(1, ag.tensor([3, 3])).tolist() == [[3, 3], [7, 7], [11, 11]]
    assert ag.zeros(3).index_add(0, ag.tensor([0, 0, 2]), ag.tensor([1.0, 2.0, 3.0])).tolist() == [3, 0, 3]
    assert x.masked_select(x > 9).tolist() == [10, 11]
    assert x.masked_fill(x > 1, 0.0).sum().item() == 1
    assert ag.nonzero(ag.tensor([0, 3, 0, 4])).tolist() == [[1], [3]]
    assert [t.tolist() for t in ag.where(ag.tensor([[0, 1], [1, 0]]) > 0)] == [[0, 1], [1, 0]]
    assert x.take_along_dim(ag.tensor([[1], [0], [3]]), 1).tolist() == [[1], [4], [11]]


# ---- keys that hypothesis makes ---------------------------------------------------------------------------


@st.composite
def keys(draw, max_dims=4):
    """A shape and a key for it: parts (kind, value), from which `key_for` makes a key of each library's own tensors."""
    shape = draw(st.lists(st.integers(0, 4), max_size=max_dims))
    parts, d, dots = [], 0, False
    for _ in range(draw(st.integers(0, 5))):
        kind = draw(st.sampled_from(["none", "dots", "int", "int", "slice", "slice", "slice", "list", "range", "numpy", "tensor", "tensor", "int32",
                                     "0-d", "numpy int", "mask", "list mask", "True", "False", "0-d mask"]))
        if kind in ("none", "True", "False", "0-d mask"):
            parts.append((kind, draw(st.booleans()) if kind == "0-d mask" else None))
        elif kind == "dots":
            if not dots:
                dots = True
                parts.append((kind, None))
                d += draw(st.integers(0, len(shape) - d))
        elif d < len(shape):
            n = shape[d]
            if kind in ("mask", "list mask"):
                m = draw(st.integers(1, len(shape) - d)) if kind == "mask" else 1
                size = shape[d:d + m]
                bits = draw(st.lists(st.booleans(), min_size=math.prod(size), max_size=math.prod(size)))
                parts.append((kind, np.array(bits, bool).reshape(size)))
                d += m
                continue
            if kind == "slice":
                ends = st.none() | st.integers(-n - 2, n + 2)
                parts.append((kind, slice(draw(ends), draw(ends), draw(st.none() | st.integers(1, 3)))))
            elif kind == "range":
                parts.append((kind, range(draw(st.integers(0, n)), n, draw(st.integers(1, 2)))))
            elif kind in ("int", "0-d", "numpy int"):
                if not n:
                    continue
                parts.append((kind, draw(st.integers(-n, n - 1))))
            else:
                size = draw(st.sampled_from([(1,), (3,), (2, 1), (2, 3), (0,)] if n else [(0,)]))
                if kind == "list":
                    size = size[:1]
                count = math.prod(size)
                at = draw(st.lists(st.integers(-n, n - 1), min_size=count, max_size=count)) if count else []
                parts.append((kind, np.array(at, np.int64).reshape(size)))
            d += 1
    return tuple(shape), parts


def key_for(parts, lib):
    def one(kind, value):
        if kind in ("none", "dots", "True", "False"):
            return {"none": None, "dots": Ellipsis, "True": True, "False": False}[kind]
        if kind in ("list", "list mask"):
            return value.tolist()
        if kind in ("tensor", "mask", "int32"):
            value = value.astype(np.int32) if kind == "int32" else value
            return value if lib is np else lib.tensor(value)
        if kind in ("0-d", "0-d mask"):
            return np.array(value) if lib is np else lib.tensor(value)
        return np.int64(value) if kind == "numpy int" else value

    made = [one(*p) for p in parts]
    return made[0] if len(made) == 1 else tuple(made)


WHOLE, BASIC = {"int", "0-d", "numpy int"}, {"slice", "none", "dots"}


def numpy_get(a, parts):
    """a[key] in NumPy; None where the key is refused."""
    kinds = {k for k, _ in parts}
    if kinds & (WHOLE | {"dots"}) and kinds - WHOLE - BASIC:
        # Beside index arrays single ints are index arrays too in NumPy, in PyTorch they are taken out first; and an ellipsis
        # over no dims keeps its neighbours apart in NumPy only.
        assume(torch is not None)
        try:
            return torch.tensor(a)[key_for(parts, torch)].numpy()
        except IndexError:
            return None
    parts = [("tensor", np.array(list(v), np.int64)) if k in ("range", "list") else (k, v) for k, v in parts]
    try:
        return a[key_for(parts, np)]
    except IndexError:
        return None


SETTINGS = settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow], database=None)


@SETTINGS
@given(keys())
def test_get_as_numpy(case):
    """Values, and whether the result is a view, as in NumPy."""
    shape, parts = case
    a = np.arange(float(math.prod(shape))).reshape(shape)
    want = numpy_get(a, parts)
    x = ag.tensor(a)
    if want is None:
        with pytest.raises(IndexError):
            x[key_for(parts, ag)]
        return
    got = x[key_for(parts, ag)]
    assert tuple(got.shape) == want.shape and got.tolist() == want.tolist()
    basic = all(k in WHOLE | BASIC for k, _ in parts)
    assert (got._base is not None) == basic
    if basic and want.size:
        version = x._version
        got.fill_(-1.0)
        assert x._version == version + 1 and (x == -1).sum().item() == want.size


@SETTINGS
@given(keys(), st.sampled_from(["number", "0-d", "same", "broadcast", "+=", "*="]), st.data())
def test_set_as_numpy(case, how, data):
    shape, parts = case
    a = np.arange(float(math.prod(shape))).reshape(shape)
    old = numpy_get(a, parts)
    if old is None:
        return
    places = numpy_get(np.arange(a.size).reshape(shape), parts)
    if how not in ("number", "0-d") and len(np.unique(places)) != places.size:
        return  # which of two values stays is not promised
    value = {"number": 2.5, "0-d": np.array(1.5)}.get(how)
    if how in ("same", "+=", "*="):
        value = np.arange(float(old.size)).reshape(old.shape) - 3
    elif how == "broadcast":
        size = [1 if data.draw(st.booleans()) else n for n in old.shape][data.draw(st.integers(0, old.ndim)):]
        value = np.arange(float(math.prod(size))).reshape(size) - 3
    x, key, number = ag.tensor(a), key_for(parts, ag), value if how == "number" else ag.tensor(value)
    want = a.copy()
    want.reshape(-1)[places] = {"+=": lambda: old + value, "*=": lambda: old * value}.get(how, lambda: np.broadcast_to(value, old.shape))()
    if how == "+=":
        x[key] += number
    elif how == "*=":
        x[key] *= number
    else:
        x[key] = number
    assert x.tolist() == want.tolist()


@SETTINGS
@given(keys(max_dims=3))
def test_gradients_of_get_and_set(case):
    """Against sums over positions: repeated ones add up; the second derivative too."""
    shape, parts = case
    n = math.prod(shape)
    places = numpy_get(np.arange(n).reshape(shape), parts)
    if places is None:
        return
    rng = np.random.default_rng(1)
    a, w = rng.standard_normal(shape), rng.standard_normal(places.shape)
    x = ag.tensor(a, requires_grad=True)
    y = x[key_for(parts, ag)]
    (g,) = ag.autograd.grad((y ** 3 * ag.tensor(w)).sum(), x, create_graph=True)
    count = np.zeros(n)
    np.add.at(count, places.reshape(-1), w.reshape(-1))
    flat = a.reshape(-1)
    assert np.allclose(g.detach().numpy().reshape(-1), 3 * flat ** 2 * count)
    (h,) = ag.autograd.grad((g ** 2).sum(), x)
    assert np.allclose(h.numpy().reshape(-1), 36 * flat ** 3 * count ** 2)
    if len(np.unique(places)) != places.size:
        return
    v, z = ag.tensor(w, requires_grad=True), x * 1
    z[key_for(parts, ag)] = v
    gx, gv = ag.autograd.grad((z ** 3).sum(), (x, v), allow_unused=True)
    left = flat.copy()
    left[places.reshape(-1)] = 0
    assert np.allclose(gx.numpy().reshape(-1), 3 * left ** 2)
    assert gv is None and not v.numel() or np.allclose(gv.numpy(), 3 * w ** 2)


def test_lists_of_keys():
    """A list that holds more than numbers stands for a tuple, as PyTorch still has it."""
    x = ag.arange(24.0).reshape(2, 3, 4)
    with pytest.warns(UserWarning, match="non-tuple sequence"):
        assert x[[[0, 1], [1, 0]]].tolist() == x[[0, 1], [1, 0]].tolist()
    with pytest.warns(UserWarning, match="non-tuple sequence"):
        assert x[[0, slice(None), 1]].tolist() == x[0, :, 1].tolist()
    assert x[[True, False]].shape == (1, 3, 4) and x[range(1)].shape == (1, 3, 4) and x[[]].shape == (0, 3, 4)
    assert x[0, (0, 2)].tolist() == x[0, [0, 2]].tolist()


def test_python_bools():
    x = ag.arange(3.0)
    assert x[True].shape == (1, 3) and x[False].shape == (0, 3)
    x[False] = 7.0
    assert x.tolist() == [0, 1, 2]
    x[True] = ag.tensor([3.0, 4.0, 5.0])
    assert x.tolist() == [3, 4, 5]


def test_empty_and_separated():
    x = ag.arange(24.0).reshape(2, 3, 4)
    assert x[..., 0:0, [-4]].shape == (2, 0, 1)
    assert x[[0], :, [1, 2]].shape == (2, 3) and x[:, [0], [1, 2]].shape == (2, 2) and x[[[0]], None, [1, 2]].shape == (1, 2, 1, 4)
    assert ag.zeros(0, 3)[[]].shape == (0, 3) and ag.zeros(0, 3)[ag.zeros(0, dtype=ag.bool)].shape == (0, 3)


# ---- random keys ----------------------------------------------------------------------------------------


def _key(rng, nprng, shape):
    out, d, ellipsis = [], 0, False
    while d < len(shape) and rng.random() < 0.85 or (rng.random() < 0.15 and len(out) < 6):
        r = rng.random()
        n = shape[d] if d < len(shape) else None
        if r < 0.12:
            out.append(("none",))
        elif r < 0.2 and not ellipsis:
            out.append(("ellipsis",))
            ellipsis = True
            d += rng.randrange(0, len(shape) - d + 1) if len(shape) > d else 0
        elif n is None:
            break
        elif r < 0.4:
            out.append(("int", rng.randrange(-n, n)))
            d += 1
        elif r < 0.65:
            ends = [None if rng.random() < 0.35 else rng.randrange(-n - 2, n + 3) for _ in range(2)]
            out.append(("slice", *ends, None if rng.random() < 0.5 else rng.randrange(1, 4)))
            d += 1
        elif r < 0.75:
            out.append(("list", [rng.randrange(-n, n) for _ in range(rng.randrange(1, 4))]))
            d += 1
        elif r < 0.87:
            out.append(("tensor", nprng.integers(-n, n, size=rng.choice([(3,), (1,), (2, 1), (2, 3)]))))
            d += 1
        else:
            k = min(rng.choice([1, 1, 2]), len(shape) - d)
            out.append(("tensor", nprng.random(shape[d:d + k]) < 0.5))
            d += k
    return out


def _build(key, make):
    parts = [None if k[0] == "none" else Ellipsis if k[0] == "ellipsis" else slice(*k[1:]) if k[0] == "slice" else
             make(k[1]) if k[0] == "tensor" else k[1] for k in key]
    return parts[0] if len(parts) == 1 else tuple(parts)


@pytest.mark.parametrize("seed", range(4))
def test_random_keys_as_torch(seed):
    torch = pytest.importorskip("torch")
    rng, nprng = random.Random(seed), np.random.default_rng(seed)
    done = 0
    for _ in range(300):
        shape = tuple(rng.choice([1, 2, 3, 4, 5]) for _ in range(rng.randrange(0, 5)))
        key = _key(rng, nprng, shape)
        a = nprng.standard_normal(shape)
        x, y = torch.tensor(a, requires_grad=True), ag.tensor(a, requires_grad=True)
        try:
            want = x[_build(key, torch.tensor)]
        except IndexError:
            with pytest.raises(IndexError):
                y[_build(key, ag.tensor)]
            continue
        got = y[_build(key, ag.tensor)]
        assert tuple(got.shape) == tuple(want.shape), (shape, key)
        assert np.array_equal(got.detach().numpy(), want.detach().numpy()), (shape, key)
        w = nprng.standard_normal(tuple(want.shape))
        if want.numel():
            (want * torch.tensor(w)).sum().backward()
            (got * ag.tensor(w)).sum().backward()
            assert np.allclose(y.grad.numpy(), x.grad.numpy()), (shape, key)
        twice = any(k[0] == "list" or k[0] == "tensor" and k[1].dtype != bool for k in key)
        x, y = torch.tensor(a), ag.tensor(a)
        x[_build(key, torch.tensor)] = 2.5 if twice else torch.tensor(w)
        y[_build(key, ag.tensor)] = 2.5 if twice else ag.tensor(w)
        assert np.array_equal(y.numpy(), x.numpy()), (shape, key)
        done += 1
    assert done > 150
