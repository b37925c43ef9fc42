"""The surface against PyTorch's: spellings of arguments, results and their types for whole numbers and bools, what is refused and how."""
import numpy as np
import pytest

import autograd_c as ag

X = np.array([[0.3, -1.2, 2.1, 0.7], [1.1, -0.4, 0.9, -2.2], [0.2, 3.1, -0.6, 1.4]])
NAN = np.where(X > 2, np.nan, X)
I, B = np.array([[3, 1, 4], [1, 5, 9]]), np.array([[True, False, True], [False, False, True]])
SMALL = np.array([[200, 100, 3], [1, 255, 9]], np.uint8)


def flat(r):
    return list(r) if isinstance(r, tuple) else [r]


def same(f, *arrays, grad=(), atol=1e-9):
    """f(module, *tensors) gives what it gives with torch: shapes, types, values, and gradients in the operands named by grad."""
    torch = pytest.importorskip("torch")
    results = []
    for m in (torch, ag):
        ts = [m.tensor(a) for a in arrays]
        for k in grad:
            ts[k].requires_grad_()
        outs = flat(f(m, *ts))
        sides = [o for o in outs if o.requires_grad]
        gs = []
        if grad:
            assert sides
            loss = sum([(o * m.tensor(np.cos(np.arange(o.numel())).reshape(tuple(o.shape)))).sum() for o in sides])
            gs = m.autograd.grad(loss, [ts[k] for k in grad], allow_unused=True)
        results.append(([(str(o.dtype).rpartition(".")[2], o.detach().numpy()) for o in outs], [None if g is None else g.numpy() for g in gs]))
    (want, want_g), (got, got_g) = results
    assert len(got) == len(want)
    for (d, a), (e, b) in zip(got, want):
        assert d == e and a.shape == b.shape
        np.testing.assert_allclose(a, b, rtol=1e-6, atol=atol)
    for a, b in zip(got_g, want_g):
        np.testing.assert_allclose(np.zeros(1) if a is None else a, np.zeros(1) if b is None else b, rtol=1e-9, atol=atol)


# ---- spellings ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name, args", [
    ("sum", ()), ("mean", ()), ("prod", ()), ("amax", ()), ("argmax", ()), ("std", ()), ("var", ()), ("std_mean", ()), ("var_mean", ()), ("nansum", ()),
    ("nanmean", ()), ("logsumexp", ()), ("median", ()), ("nanmedian", ()), ("mode", ()), ("kthvalue", (2,)), ("quantile", (0.3,)),
    ("nanquantile", (0.3,)), ("any", ()), ("all", ())])
def test_axis_and_keepdims(name, args):
    same(lambda m, x: tuple(getattr(m, name)(x, *args, axis=1, keepdims=True)) if name in ("std_mean", "var_mean", "median", "nanmedian", "mode", "kthvalue")
         else getattr(m, name)(x, *args, axis=1, keepdims=True), X)


@pytest.mark.parametrize("name, args", [
    ("sort", ()), ("argsort", ()), ("topk", (2,)), ("softmax", ()), ("log_softmax", ()), ("cumsum", ()), ("cumprod", ()), ("cummax", ()), ("logcumsumexp", ()),
    ("unsqueeze", ()), ("squeeze", ()), ("unbind", ()), ("chunk", (2,)), ("tensor_split", (2,)), ("diff", ()), ("trapezoid", ()), ("count_nonzero", ())])
def test_axis(name, args):
    same(lambda m, x: tuple(r) if isinstance(r := getattr(m, name)(x, *args, axis=0), (tuple, list)) else r, X)


def test_numpy_names_of_operands():
    a, b = ag.tensor([1.0, 4.0]), ag.tensor([3.0, 2.0])
    assert ag.maximum(x1=a, x2=b).tolist() == [3, 4] and ag.exp(x=a * 0).tolist() == [1, 1] and ag.add(a, other=b).tolist() == [4, 6]
    with pytest.raises(TypeError):
        ag.maximum(a, wrong=b)


def test_einsum_by_sublists():
    same(lambda m, x, y: m.einsum(x, [0, 1], y, [2, 1], [0, 2]), X, X[:2], grad=(0, 1))
    same(lambda m, x: m.einsum(x, [Ellipsis, 3], [Ellipsis]), X, grad=(0,))
    same(lambda m, x: m.einsum(x, [1, 0]), X)
    with pytest.raises(RuntimeError, match="valid range"):
        ag.einsum(ag.tensor(X), [0, 52])


def test_splits():
    for f in (lambda m, x: m.hsplit(x, indices=[1, 3]), lambda m, x: m.hsplit(x, sections=2), lambda m, x: m.vsplit(x, 3), lambda m, x: m.split_with_sizes(x, [1, 2]),
              lambda m, x: m.unsafe_split(x, 2), lambda m, x: m.unsafe_chunk(x, 2, 1), lambda m, x: x.split(split_size=2, dim=1), lambda m, x: m.dsplit(x[None], 2)):
        same(lambda m, x: tuple(f(m, x)), X, grad=(0,))
    assert ag.tensor(X).slice(1, 1, -1, 2).tolist() == X[:, 1:-1:2].tolist()


# ---- values and gradients ---------------------------------------------------------------------------------


@pytest.mark.parametrize("interpolation", ["linear", "lower", "higher", "midpoint", "nearest"])
@pytest.mark.parametrize("name", ["quantile", "nanquantile"])
def test_quantiles(name, interpolation):
    q = np.array([0.0, 0.2, 0.55, 1.0])
    for x in (X, NAN):
        for dim in (None, 0, -1):
            for keepdim in (False, True):
                for p in (q, np.array(0.4)):
                    same(lambda m, x, p: getattr(m, name)(x, p, dim, keepdim, interpolation=interpolation), x, p, grad=(0, 1))
    same(lambda m, x: getattr(m, name)(x, 0.7, 0), np.array(2.5), grad=(0,))
    same(lambda m, x: getattr(m, name)(x, 0.5, 1), np.full((2, 3), np.nan))


def test_native_norms():
    w, b = np.array([0.5, -1.0, 2.0, 1.5]), np.array([0.1, 0.2, -0.3, 0.4])
    rows = X.reshape(3, 4)
    for wanted in ((w, b), (None, None)):
        arrays = [a for a in wanted if a is not None]
        pick = lambda ts: ts if ts else (None, None)  # noqa: E731
        every = tuple(range(1 + len(arrays)))
        same(lambda m, x, *ts: m.native_layer_norm(x, [4], *pick(ts), 1e-3)[0], rows, *arrays, grad=every)
        same(lambda m, x, *ts: m.native_layer_norm(x.detach(), [4], *pick(ts), 1e-3), rows, *arrays)
        same(lambda m, x, *ts: m.native_group_norm(x, *pick(ts), 3, 4, 1, 2, 1e-3), rows, *arrays, grad=every)
        same(lambda m, x, *ts: m.native_batch_norm(x, *pick(ts), None, None, True, 0.1, 1e-3)[0], rows, *arrays, grad=every)
        same(lambda m, x, *ts: m.native_batch_norm(x.detach(), *pick(ts), None, None, True, 0.1, 1e-3), rows, *arrays)


def test_backward_functions_by_name():
    torch = pytest.importorskip("torch")
    x, g, mask = np.arange(16.0).reshape(1, 1, 4, 4), np.array([[[[1.0, 2], [3, 4]]]]), X > 0
    y, at = torch.nn.functional.max_pool2d(torch.tensor(x), 2, return_indices=True)
    want = torch.ops.aten.max_pool2d_with_indices_backward(torch.tensor(g), torch.tensor(x), [2, 2], [2, 2], [0, 0], [1, 1], False, at)
    got = ag.max_pool2d_with_indices_backward(ag.tensor(g), ag.tensor(x), 2, 2, 0, 1, False, ag.tensor(at.numpy()))
    assert got.tolist() == want.tolist()
    assert ag.native_dropout_backward(ag.tensor(X), ag.tensor(mask), 2.0).tolist() == (X * mask * 2).tolist()
    y, kept = ag.native_dropout(ag.ones(1000), 0.25, True)
    assert y.tolist() == (kept.float() / 0.75).tolist() and 600 < kept.sum() < 900


def test_corners():
    same(lambda m, x: m.gather(x, 0, m.zeros(2, 0, dtype=m.int64)), X[0])
    same(lambda m, x: m.diff(x, 0, prepend=x, append=x), X, grad=(0,))
    same(lambda m, x: m.nn.functional.batch_norm(x, m.zeros(0), m.ones(0)), np.zeros(0, np.float32))


# ---- whole numbers and bools ----------------------------------------------------------------------------


def whole(*arrays):
    return pytest.mark.parametrize("a", arrays, ids=[str(a.dtype) for a in arrays])


@whole(I, I.astype(np.int32), SMALL, B)
def test_sums_in_a_type(a):
    for d in ("int32", "int64", "uint8", "float64"):
        for name in ("sum", "prod", "cumsum", "cumprod", "nansum"):
            same(lambda m, x: getattr(m, name)(x, 1, dtype=getattr(m, d)), a)
    same(lambda m, x: x.sum_to_size(1, 3), a)
    if a.dtype != bool:
        same(lambda m, x: m.cov(x), a)
    same(lambda m, x: m.float_power(x, 2), a)
    same(lambda m, x: m.sign(x), a)
    same(lambda m, x: m.fmax(x, x.flip(0)), a)


@whole(I, I.astype(np.int32), SMALL)
def test_products_keep_their_type(a):
    same(lambda m, x: m.addmv(x[:, 0], x, x[0], beta=2, alpha=3), a)
    same(lambda m, x: m.addbmm(x[:, :2], x.reshape(1, 2, 3), x.reshape(1, 3, 2)), a)
    same(lambda m, x: m.baddbmm(x[:, :2][None], x.reshape(1, 2, 3), x.reshape(1, 3, 2), beta=0), a)
    same(lambda m, x: m.tensordot(x[:, :1], x, ([1], [1])), a)
    same(lambda m, x: m.trapezoid(x, dim=1), a)
    same(lambda m, x: m.cumulative_trapezoid(x, dim=1), a)
    if a.dtype != np.uint8:
        same(lambda m, x: m.gradient(x, spacing=(m.tensor([1, 3]), m.tensor([0, 1, 4]))), a)


@whole(I, I.astype(np.int32), SMALL)
@pytest.mark.parametrize("reduce", ["sum", "prod", "mean", "amax", "amin"])
@pytest.mark.parametrize("own", [True, False])
def test_scatter_reduce_of_whole_numbers(a, reduce, own):
    at = np.array([[0, 1, 1], [1, 1, 1]])
    same(lambda m, x, i: m.scatter_reduce(x, 0, i, x.flip(0), reduce, include_self=own), a, at)
    if reduce != "sum":
        same(lambda m, x, i: m.index_reduce(x, 1, i, x.flip(1), reduce, include_self=own), a, np.array([0, 2, 0]))


def test_scatter_reduce_of_bools():
    at = np.array([[0, 1, 1], [1, 1, 1]])
    for reduce in ("sum", "prod", "amax", "amin"):
        same(lambda m, x, i: m.scatter_reduce(x, 0, i, ~x, reduce), B, at)
    same(lambda m, x: m.addr(x, x[:, 0], x[0]), B)
    same(lambda m, x: m.addr(x, x[:, 0], x[0], beta=False, alpha=2), B)


@pytest.mark.parametrize("dtype", ["uint8", "int32", "int64"])
def test_whole_numbers_stay_whole(dtype):
    """Values worked out by hand."""
    d = getattr(ag, dtype)
    x = ag.tensor([[200, 100, 3], [1, 255, 9]], dtype=d)
    at = ag.tensor([[0, 1, 1], [1, 1, 1]])
    wrap = (lambda v: v % 256) if dtype == "uint8" else (lambda v: v)
    for own, reduce, want in ((True, "amax", [[200, 100, 3], [200, 255, 9]]), (True, "amin", [[1, 100, 3], [1, 100, 3]]), (False, "amax", [[1, 100, 3], [200, 255, 9]]),
                              (True, "sum", [[wrap(201), 100, 3], [201, wrap(610), 21]]), (False, "mean", [[1, 100, 3], [200, wrap(355) // 2, 6]]),
                              (True, "prod", [[200, 100, 3], [200, wrap(255 * 25500), 243]])):
        got = ag.scatter_reduce(x, 0, at, x.flip(0), reduce, include_self=own)
        assert got.dtype is d and got.tolist() == want, (reduce, own)
    two = ag.tensor([[1, 2], [3, 4]], dtype=d)
    for got, want in ((ag.addmm(two, two, two, beta=2, alpha=3), [[23, 34], [51, 74]]), (ag.addr(two, two[0], two[1], alpha=2), [[7, 10], [15, 20]]),
                      (ag.addmv(two[0], two, two[1], beta=0), [11, 25]), (ag.addbmm(two, two[None], two[None], alpha=2), [[15, 22], [33, 48]]),
                      (ag.baddbmm(two[None], two[None], two[None]), [[[8, 12], [18, 26]]]), (ag.tensordot(two[:, :1], two, ([1], [1])), [[3, 7], [9, 21]])):
        assert got.dtype is d and got.tolist() == want
    assert ag.sum(x, dtype=d).tolist() == wrap(568) and ag.sum(x, dtype=d).dtype is d and ag.sum(x).dtype is ag.int64
    assert ag.float_power(two, 2).tolist() == [[1, 4], [9, 16]] and ag.float_power(two, 2).dtype is ag.float64
    assert ag.trapezoid(two).tolist() == [1.5, 3.5] and ag.cumulative_trapezoid(two).tolist() == [[1.5], [3.5]]
    assert ag.tensor([[True, False]]).sum_to_size(1, 1).tolist() == [[1]] and two.sum_to_size(1, 2).dtype is ag.int64
    assert ag.cov(two).tolist() == [[0.5, 0.5], [0.5, 0.5]] and ag.logit(ag.tensor([1, 0], dtype=d)).tolist() == [np.inf, -np.inf]


def test_the_least_whole_number():
    low, high = -2**63, 2**63 - 1
    x, s, at = ag.tensor([low, high, 5]), ag.tensor([low, low, high]), ag.tensor([0, 1, 2])
    assert ag.scatter_reduce(x, 0, at, s, "amin").tolist() == [low, low, 5]
    assert ag.scatter_reduce(x, 0, at, s, "amax", include_self=False).tolist() == [low, low, high]


def test_signs_and_order_of_bools():
    a, b = ag.tensor([True, False, True]), ag.tensor([True, True, False])
    assert ag.sign(a).tolist() == a.tolist() and ag.fmax(a, b).tolist() == [True] * 3 and ag.fmin(a, b).tolist() == [True, False, False]
    assert ag.sign(a).dtype is ag.bool and ag.fmin(a, ag.tensor([2, 2, -2])).tolist() == [1, 0, -2]


def test_empty_trapezoids():
    for n in (0, 1):
        same(lambda m, x: (m.trapezoid(x), m.cumulative_trapezoid(x)), np.zeros((2, n), np.int64))
        same(lambda m, x: m.trapezoid(x, x[0]), np.zeros((2, n)))


@whole(I, I.astype(np.int32), SMALL)
def test_max_pools_of_whole_numbers(a):
    x = (np.arange(2 * 3 * 6 * 7).reshape(2, 3, 6, 7) * 37 % 251 - (0 if a.dtype == np.uint8 else 100)).astype(a.dtype)
    x[0, 0, :3] = x.min()
    for k in (dict(kernel_size=2), dict(kernel_size=3, stride=2, padding=1), dict(kernel_size=(2, 3), stride=1, padding=(1, 0), dilation=2, ceil_mode=True)):
        same(lambda m, x: m.nn.functional.max_pool2d(x, return_indices=True, **k), x)
    same(lambda m, x: m.nn.functional.max_pool3d(x, 2, 1, 1, return_indices=True), x)
    y, at = ag.nn.functional.max_pool2d(ag.tensor([[[0, 7, 3], [5, 0, 7]]], dtype=getattr(ag, a.dtype.name)), 2, 1, return_indices=True)
    assert y.tolist() == [[[7, 7]]] and at.tolist() == [[[1, 1]]] and y.dtype.name == a.dtype.name


def test_average_pools_of_whole_numbers():
    F = "avg_pool1d", "avg_pool2d", "avg_pool3d"
    x = np.arange(2 * 3 * 6 * 7 * 5).reshape(2, 3, 6, 7, 5) * 37 % 251 - 100
    for nd in (1, 2, 3):
        for k in (dict(kernel_size=2), dict(kernel_size=3, stride=2, padding=1), dict(kernel_size=3, stride=2, padding=1, ceil_mode=True, count_include_pad=False)):
            same(lambda m, x: getattr(m.nn.functional, F[nd - 1])(x, **k), x[(0,) * (3 - nd)])
    same(lambda m, x: m.nn.functional.avg_pool2d(x, 2, divisor_override=-3), x[0])
    same(lambda m, x: m.nn.functional.local_response_norm(x, 3), x)
    same(lambda m, x: m.nn.functional.unfold(x, 2, padding=1), x[0] > 0)
    huge = 2**60 + 1  # no float holds it
    assert ag.nn.functional.avg_pool1d(ag.tensor([[huge, huge, -5, -6]]), 2).tolist() == [[huge, -5]]


def test_convolutions_of_whole_numbers():
    rng = np.random.default_rng(0)
    for nd in (1, 2, 3):
        x, w, b = rng.integers(-9, 9, (2, 4) + (6, 5, 4)[:nd]), rng.integers(-9, 9, (6, 2) + (3, 2, 2)[:nd]), rng.integers(-9, 9, 6)
        conv, back = f"conv{nd}d", f"conv_transpose{nd}d"
        for k in (dict(), dict(stride=2, padding=1), dict(dilation=2, padding=2)):
            same(lambda m, x, w, b: getattr(m.nn.functional, conv)(x, w, b, groups=2, **k), x, w, b)
            same(lambda m, x, w: getattr(m.nn.functional, back)(x[:, :1], w[:1], groups=1, **k), x, w)
            same(lambda m, x, w, b: getattr(m.nn.functional, back)(x, w[:4], b[:4], groups=2, **k), x, w, b)
        same(lambda m, x, w: getattr(m.nn.functional, conv)(x[0, :2], w, padding="same"), x, w)
        same(lambda m, x, w: getattr(m.nn.functional, back)(x, w[:4], stride=2, output_padding=1), x, w)
    huge = 2**60 + 1
    one = ag.nn.functional.conv1d(ag.tensor([[1, huge, 2, 3]]), ag.tensor([[[1, -1]]]))
    assert one.tolist() == [[1 - huge, huge - 2, -1]] and one.dtype is ag.int64
    assert ag.nn.functional.conv_transpose1d(ag.tensor([[1, huge]]), ag.tensor([[[1, -1]]])).tolist() == [[1, huge - 1, -huge]]
    none = ag.zeros(1, 0, 4, dtype=ag.int64), ag.zeros(2, 0, 2, dtype=ag.int64)  # no channels: the bias alone
    assert ag.nn.functional.conv1d(*none, ag.tensor([3, 4])).tolist() == [[[3] * 3, [4] * 3]] and ag.nn.functional.conv1d(*none).tolist() == [[[0] * 3] * 2]
    assert ag.nn.functional.conv1d(ag.zeros(0, 2, 4, dtype=ag.int64), ag.ones(2, 2, 2, dtype=ag.int64)).shape == (0, 2, 3)
    with pytest.raises(NotImplementedError):
        ag.nn.functional.conv1d(ag.tensor([[1, 2]], dtype=ag.int32), ag.tensor([[[1]]], dtype=ag.int32))


@pytest.mark.parametrize("antialias", [False, True])
@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
def test_pictures_of_bytes(mode, antialias):
    x = (np.arange(2 * 3 * 11 * 8).reshape(2, 3, 11, 8) * 97 % 256).astype(np.uint8)
    for k in (dict(size=(5, 9)), dict(size=(13, 4), align_corners=True), dict(size=(20, 31)), dict(scale_factor=0.7), dict(size=(1, 2))):
        same(lambda m, x: m.nn.functional.interpolate(x, mode=mode, antialias=antialias, **k), x)
        same(lambda m, x: m.nn.functional.interpolate(x, mode=mode, antialias=antialias, **k), np.concatenate([x, x], 1))
    y = ag.nn.functional.interpolate(ag.tensor([[[[0, 255], [100, 200]]]], dtype=ag.uint8), size=(2, 4), mode="bilinear", antialias=antialias)
    assert y.tolist() == [[[[0, 64, 191, 255], [100, 125, 175, 200]]]] and y.dtype is ag.uint8


def test_windows_of_whole_numbers_frozen():
    F = ag.nn.functional

    def step(x, w):
        return F.conv2d(x, w, padding=1), F.conv_transpose2d(x, w), F.max_pool2d(x, 2, 1), F.max_pool2d(x.int(), 2, 1), F.avg_pool2d(x, 2, 1), ag.sum(x, 1, dtype=ag.uint8)

    frozen = ag.freeze(step)
    for seed in (0, 1, 2):
        rng = np.random.default_rng(seed)
        x, w = ag.tensor(rng.integers(-99, 99, (2, 1, 6, 5))), ag.tensor(rng.integers(-9, 9, (1, 1, 3, 3)))
        for a, b in zip(step(x, w), frozen(x, w)):
            assert a.dtype is b.dtype and a.tolist() == b.tolist()


# ---- refusals ------------------------------------------------------------------------------------------


REFUSED = [
    lambda m, x: m.maximum(x, 2), lambda m, x: m.maximum(2, x), lambda m, x: m.atan2(x, 1.0), lambda m, x: m.hypot(x, 1.0), lambda m, x: m.fmod(2, x),
    lambda m, x: m.eq(2, x), lambda m, x: m.logical_and(x, True), lambda m, x: m.logaddexp(x, 1.0), lambda m, x: m.fmax(x, 1.0), lambda m, x: m.rsub(2, x),
    lambda m, x: m.copysign(2, x), lambda m, x: m.ldexp(x, 2), lambda m, x: m.xlogy(2, 3), lambda m, x: m.clamp_min(2, x), lambda m, x: m.max(2, x),
    lambda m, x: m.cov(x[None]), lambda m, x: m.cov(x > 0), lambda m, x: m.cov(x, fweights=x[0]), lambda m, x: m.cov(x, aweights=-x[0].abs()), lambda m, x: m.diff(x, -1),
    lambda m, x: m.gradient(x, spacing=[0.1], dim=(0, 1)), lambda m, x: m.gradient(x, edge_order=3), lambda m, x: m.gradient(x, dim=(1, 1)),
    lambda m, x: m.fliplr(x[0]), lambda m, x: m.flipud(x[0, 0]), lambda m, x: m.rot90(x, dims=(0,)), lambda m, x: m.rot90(x[0]), lambda m, x: m.rot90(x, dims=(1, 1)),
    lambda m, x: m.narrow(x[0, 0], 0, 0, 1), lambda m, x: m.narrow(x, 0, m.tensor([1, 2]), 1), lambda m, x: m.hstack([]), lambda m, x: m.cat([]),
    lambda m, x: m.cat([x, None]), lambda m, x: m.renorm(x[0], 2, 0, 1.0), lambda m, x: m.masked_scatter(x, x, x), lambda m, x: m.masked_scatter(x, (x > 0).to(m.uint8), x),
    lambda m, x: m.gather(x, 1, m.tensor([[23]])), lambda m, x: m.scatter(x, 1, m.tensor([[34]]), x), lambda m, x: m.scatter_add(x, 1, m.tensor([[34]]), x),
    lambda m, x: m.scatter(x, 1, m.tensor([[0]]), x.double()), lambda m, x: m.hsplit(x, 3), lambda m, x: m.vsplit(x[0], 2), lambda m, x: m.dsplit(x, 2),
    lambda m, x: m.quantile(x, 1.5), lambda m, x: m.quantile(x, m.tensor([0.5]).double()), lambda m, x: m.quantile(x.long(), 0.5), lambda m, x: m.quantile(x[:0], 0.5),
    lambda m, x: m.quantile(x, 0.5, interpolation="other"), lambda m, x: m.logsumexp(x),
    lambda m, x: m.scatter_reduce(x, 0, m.tensor([[0]]), x.double(), "sum"), lambda m, x: m.index_reduce(x, 0, m.tensor([0]), x[:1].double(), "prod"),
    lambda m, x: m.scatter_reduce(x > 0, 0, m.tensor([[0]]), x > 0, "mean"), lambda m, x: m.trapezoid(x > 0), lambda m, x: m.float_power(2, 3),
    lambda m, x: m.addr(x[:, :3].long(), x[:, 0].long(), x[0, :3].long(), beta=1.5), lambda m, x: m.addmm(x, x.long(), x.T.long(), alpha=2),
    lambda m, x: m.addmm(x[:, :3], x[:2], x.T, alpha=2), lambda m, x: m.baddbmm(x[:, :3], x[None, :2], x.T[None]),
    lambda m, x: m.nn.functional.rrelu(x, 0.3, 0.1), lambda m, x: m.nn.functional.adaptive_avg_pool2d(x, 2), lambda m, x: m.nn.functional.adaptive_max_pool2d(x, 2), lambda m, x: m.nn.functional.avg_pool1d(x, 2, 1, -1),
    lambda m, x: m.nn.functional.max_pool1d(x[:0], 1), lambda m, x: m.nn.functional.max_pool1d(x, 2, 0), lambda m, x: m.nn.functional.rms_norm(x, []),
    lambda m, x: m.nn.functional.rms_norm(x, [3]), lambda m, x: m.nn.functional.layer_norm(x, []), lambda m, x: m.nn.functional.prelu(x, x),
    lambda m, x: m.nn.functional.prelu(x[0, 0], x[0]), lambda m, x: m.nn.functional.triplet_margin_loss(x, x, x, margin=-1.0),
    lambda m, x: m.nn.functional.multi_margin_loss(x, m.tensor([0, 1, 2]), reduction="abc"), lambda m, x: m.nn.functional.multi_margin_loss(x, m.tensor([0, 1, 2]), weight=x),
    lambda m, x: m.nn.functional.multilabel_margin_loss(x, m.tensor([0, 1, 2])), lambda m, x: m.nn.functional.batch_norm(x[0], x[0], x[0]),
    lambda m, x: m.nn.functional.conv2d(x[None, None], x[None], padding="same")]


@pytest.mark.parametrize("k", range(len(REFUSED)))
def test_refused_as_in_pytorch(k):
    torch = pytest.importorskip("torch")
    kinds = []
    for m in (torch, ag):
        with pytest.raises((TypeError, ValueError, IndexError, RuntimeError)) as e:
            REFUSED[k](m, m.tensor(X.astype(np.float32)))
        kinds.append(e.value)
    assert isinstance(kinds[1], type(kinds[0])), f"{kinds[1]!r}, not {kinds[0]!r}"
