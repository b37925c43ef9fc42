"""Tensors from Python: making, reading, arithmetic, in-place rules, copies, modes, the graph's face, messages."""
import copy
import gc
import math
import pickle
import subprocess
import sys
import warnings

import pytest

import autograd_c as ag

# ---- making --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("data, dtype, shape", [
    (1.5, "float32", ()), (3, "int64", ()), (True, "bool", ()), ([1, 2.5], "float32", (2,)), ([True, 2], "int64", (2,)),
    ([[1], [2]], "int64", (2, 1)), ([], "float32", (0,)), ([[], []], "float32", (2, 0)), ([[[1.0, 2.0]]], "float32", (1, 1, 2)),
])
def test_tensor_infers(data, dtype, shape):
    t = ag.tensor(data)
    assert (t.dtype.name, tuple(t.shape)) == (dtype, shape)
    if 0 not in shape:
        assert t.tolist() == data


def test_tensor_of_dtype():
    assert ag.tensor([1, 0, 2], dtype=ag.bool).tolist() == [True, False, True]
    assert ag.tensor([1.9, -1.9], dtype=ag.int64).tolist() == [1, -1]
    assert ag.tensor([1, 2], dtype=ag.float64).dtype is ag.float64
    assert ag.tensor(3, dtype=float).dtype is ag.float32
    assert ag.tensor([ag.tensor(1.0), ag.tensor(2.0)]).tolist() == [1, 2]


@pytest.mark.parametrize("data, kind, text", [
    ([[1, 2], [3]], ValueError, "expected sequence of length 2 at dim 1"),
    ("abc", TypeError, "str"),
    ([1, "a"], TypeError, "str"),
    ([2**70], RuntimeError, "overflow"),
])
def test_tensor_refuses(data, kind, text):
    with pytest.raises(kind, match=text):
        ag.tensor(data)


def test_makers():
    assert ag.zeros(2, 3).tolist() == [[0, 0, 0], [0, 0, 0]]
    assert ag.ones((2,), dtype=ag.int32).tolist() == [1, 1]
    assert ag.full((2,), 7).dtype is ag.int64
    assert ag.full((2,), 7.0).tolist() == [7, 7]
    assert ag.eye(2).tolist() == [[1, 0], [0, 1]]
    assert ag.eye(2, 3).shape == (2, 3)
    assert ag.arange(3).tolist() == [0, 1, 2]
    assert ag.arange(1, 2, 0.25).tolist() == [1, 1.25, 1.5, 1.75]
    assert ag.arange(5, 0, -2).tolist() == [5, 3, 1]
    assert ag.linspace(0, 1, 5).tolist() == [0, 0.25, 0.5, 0.75, 1]
    assert ag.zeros_like(ag.ones(2, dtype=ag.float64)).dtype is ag.float64
    assert ag.ones(2).new_full((1,), 3).dtype is ag.float32
    assert ag.Tensor(2, 3).shape == (2, 3) and ag.Tensor([1, 2]).tolist() == [1, 2]
    assert ag.LongTensor([1, 2]).dtype is ag.int64
    assert ag.empty(3, requires_grad=True).requires_grad


def test_default_dtype():
    try:
        ag.set_default_dtype(ag.float64)
        assert ag.tensor(1.0).dtype is ag.float64
        assert repr(ag.tensor(1.0)) == "tensor(1., dtype=autograd_c.float64)".replace(", dtype=autograd_c.float64", "")
    finally:
        ag.set_default_dtype(ag.float32)


def test_random():
    ag.manual_seed(3)
    a = ag.randn(1000)
    ag.manual_seed(3)
    assert ag.randn(1000).equal(a)
    assert abs(a.mean().item()) < 0.15 and abs(a.std().item() - 1) < 0.1
    u = ag.rand(1000)
    assert 0 <= u.min().item() and u.max().item() < 1
    r = ag.randint(2, 5, (1000,))
    assert r.dtype is ag.int64 and set(r.tolist()) == {2, 3, 4}
    assert sorted(ag.randperm(50).tolist()) == list(range(50))
    g = ag.Generator().manual_seed(1)
    first = ag.rand(4, generator=g)
    assert ag.rand(4, generator=ag.Generator().manual_seed(1)).equal(first)
    state = ag.get_rng_state()
    x = ag.rand(3)
    ag.set_rng_state(state)
    assert ag.rand(3).equal(x)
    assert ag.normal(ag.zeros(3), 1.0).shape == (3,)
    assert set(ag.multinomial(ag.tensor([0.0, 1.0, 1.0]), 2).tolist()) == {1, 2}
    assert ag.bernoulli(ag.tensor([0.0, 1.0])).tolist() == [0, 1]


# ---- NumPy ---------------------------------------------------------------------------------------------


def test_numpy_shares_memory_and_keeps_it():
    np = pytest.importorskip("numpy")
    t = ag.zeros(3)
    a = t.numpy()
    a[0] = 5
    assert t.tolist() == [5, 0, 0]
    del t
    gc.collect()
    assert a.tolist() == [5, 0, 0]
    b = np.arange(6.0).reshape(2, 3)
    s = ag.from_numpy(b.T)
    assert s.stride() == (1, 3)
    s[0, 0] = 9
    assert b[0, 0] == 9
    del b
    gc.collect()
    assert s.tolist() == [[9, 3], [1, 4], [2, 5]]
    assert ag.as_tensor(np.float32([1, 2])).dtype is ag.float32
    assert np.asarray(ag.ones(2, dtype=ag.int32)).dtype == np.int32
    assert np.array_equal(ag.arange(6).reshape(2, 3).t().numpy(), np.arange(6).reshape(2, 3).T)


def test_numpy_operands():
    np = pytest.importorskip("numpy")
    t = ag.tensor([1.0, 2.0])
    assert (t * np.float64(2)).dtype is ag.float32
    assert (np.float64(2) * t).tolist() == [2, 4]
    assert (t + np.int64(1)).tolist() == [2, 3]
    assert t[np.int64(1)].item() == 2
    assert t[np.array([1, 0])].tolist() == [2, 1]
    assert ag.tensor(np.ones((2, 2), np.float16)).dtype is ag.float32
    with pytest.raises(RuntimeError, match="Can't call numpy"):
        ag.ones(1, requires_grad=True).numpy()


def test_import_needs_no_numpy():
    code = ("import sys; import autograd_c as t; x = t.tensor([[1., 2.], [3., 4.]], requires_grad=True); (x @ x).sum().backward(); "
            "repr(x.grad); x[0].tolist(); assert 'numpy' not in sys.modules")
    subprocess.run([sys.executable, "-c", code], check=True)


# ---- numbers -------------------------------------------------------------------------------------------


def test_python_protocol():
    t = ag.tensor([1.0, 2.0, 3.0])
    assert len(t) == 3 and [x.item() for x in t] == [1, 2, 3]
    assert 2.0 in t and 5.0 not in t
    assert float(ag.tensor(2.5)) == 2.5 and int(ag.tensor(7)) == 7 and [10, 20][ag.tensor(1)] == 20
    assert bool(ag.tensor(1.0)) and not bool(ag.tensor([0]))
    assert ag.tensor([True]).item() is True
    assert isinstance(ag.tensor(3).item(), int) and math.isnan(ag.tensor(math.nan).item())
    assert hash(t) != hash(t.clone()) and len({t, t, t.clone()}) == 2
    assert (t == t.clone()).tolist() == [True] * 3
    assert (t == None) is False and (t != None) is True  # noqa: E711
    assert ag.is_tensor(t) and not ag.is_tensor([1])


@pytest.mark.parametrize("make, want", [
    (lambda x: x + 1, [2, 3]), (lambda x: 1 + x, [2, 3]), (lambda x: 1 - x, [0, -1]), (lambda x: 2 / x, [2, 1]),
    (lambda x: x**2, [1, 4]), (lambda x: 2**x, [2, 4]), (lambda x: x**0.5, [1, 2**0.5]), (lambda x: -x, [-1, -2]),
    (lambda x: abs(-x), [1, 2]), (lambda x: x % 2, [1, 0]), (lambda x: x // 2, [0, 1]), (lambda x: 7 // x, [7, 3]),
    (lambda x: 5 % x, [0, 1]), (lambda x: x + True, [2, 3]), (lambda x: x @ x, 5), (lambda x: +x, [1, 2]),
    (lambda x: x.add(x, alpha=2), [3, 6]), (lambda x: ag.sub(x, 1, alpha=3), [-2, -1]), (lambda x: ag.rsub(x, 1), [0, -1]),
    (lambda x: x.clamp(min=1.5), [1.5, 2]), (lambda x: x.lerp(x + 2, 0.5), [2, 3]), (lambda x: ag.where(x > 1, x, 0.0), [0, 2]),
    (lambda x: x.pow(x), [1, 4]), (lambda x: ag.div(x, 2, rounding_mode="floor"), [0, 1]), (lambda x: ag.maximum(x, x * 0 + 1.5), [1.5, 2]),
])
def test_arithmetic(make, want):
    got = make(ag.tensor([1.0, 2.0], dtype=ag.float64))
    assert got.tolist() == pytest.approx(want)


def test_promotion():
    i, f, d, b = ag.tensor([1]), ag.tensor([1.0]), ag.tensor([1.0], dtype=ag.float64), ag.tensor([True])
    assert (i + f).dtype is ag.float32 and (f + d).dtype is ag.float64 and (b + i).dtype is ag.int64
    assert (i + 1).dtype is ag.int64 and (i + 1.0).dtype is ag.float32 and (d * 2.0).dtype is ag.float64
    assert (i / i).dtype is ag.float32 and (i // i).dtype is ag.int64 and (b + True).dtype is ag.bool and (b + 1).dtype is ag.int64
    assert (f + ag.tensor(1.0, dtype=ag.float64)).dtype is ag.float32  # 0-d gives way within its category
    assert (i > 0).dtype is ag.bool and (b & b).dtype is ag.bool and (~b).tolist() == [False]
    assert (i | ag.tensor([2])).tolist() == [3] and (i ^ 3).tolist() == [2]
    assert ag.promote_types(ag.int32, ag.float32) is ag.float32
    assert i.sum().dtype is ag.int64 and b.sum().item() == 1


def test_matmul_shapes():
    r = ag.randn
    for a, b in [((3,), (3,)), ((2, 3), (3,)), ((3,), (3, 2)), ((2, 3), (3, 4)), ((5, 2, 3), (3, 4)), ((5, 2, 3), (3,)), ((3,), (5, 3, 2)),
                 ((2, 3), (5, 3, 4)), ((5, 2, 3), (5, 3, 4)), ((6, 1, 2, 3), (5, 3, 4)), ((5, 2, 3), (6, 1, 3, 4)), ((0, 3), (3, 2)),
                 ((2, 0), (0, 2))]:
        np = pytest.importorskip("numpy")
        x, y = r(*a, dtype=ag.float64), r(*b, dtype=ag.float64)
        want = np.matmul(x.numpy(), y.numpy())
        got = x @ y
        assert tuple(got.shape) == want.shape and np.allclose(got.numpy(), want)


def test_reductions():
    x = ag.tensor([[1.0, 5.0, 2.0], [7.0, 3.0, 4.0]])
    assert x.sum().item() == 22 and x.sum(0).tolist() == [8, 8, 6] and x.sum(axis=1, keepdims=True).tolist() == [[8], [14]]
    assert x.sum((0, 1)).item() == 22 and x.mean(-1).tolist() == pytest.approx([8 / 3, 14 / 3])
    values, indices = x.max(1)
    assert values.tolist() == [5, 7] and indices.tolist() == [1, 0]
    assert x.max().item() == 7 and x.min(0).values.tolist() == [1, 3, 2] and x.amax((0, 1)).item() == 7
    assert x.argmax().item() == 3 and x.argmin(1).tolist() == [0, 1]
    assert x.prod(1).tolist() == [10, 84] and (x > 6).any().item() and not (x > 6).all().item()
    assert x.var().item() == pytest.approx(4.6667, abs=1e-4) and x.std(0, unbiased=False).tolist() == [3, 1, 1]
    assert x.norm().item() == pytest.approx(104**0.5) and x.norm(1).item() == 22 and x.norm(math.inf).item() == 7
    assert x.cumsum(1).tolist() == [[1, 6, 8], [7, 10, 14]] and x.cumprod(1).tolist() == [[1, 5, 10], [7, 21, 84]]
    assert x.logsumexp(1).tolist() == pytest.approx([5.0659, 7.0659], abs=1e-3)
    assert x.softmax(1).sum(1).tolist() == pytest.approx([1, 1]) and x.log_softmax(0).exp().sum(0).tolist() == pytest.approx([1, 1, 1])
    assert x.median().item() == 3 and x.sort(1).indices.tolist() == [[0, 2, 1], [1, 2, 0]] and x.topk(2).values.tolist() == [[5, 2], [7, 4]]
    assert ag.std(ag.ones(3, requires_grad=True)).backward() is None


def test_shapes():
    x = ag.arange(24).reshape(2, 3, 4)
    assert x.view(-1).shape == (24,) and x.flatten(1).shape == (2, 12) and x.T.shape == (4, 3, 2) and x.mT.shape == (2, 4, 3)
    assert x.permute(2, 0, 1).stride() == (1, 12, 4) and x.transpose(0, 2)[1, 2, 0].item() == 9
    assert x.unsqueeze(-1).squeeze().shape == (2, 3, 4) and x[:1].squeeze(0).shape == (3, 4)
    assert ag.cat([x, x], 1).shape == (2, 6, 4) and ag.stack([x, x], -1).shape == (2, 3, 4, 2)
    assert [tuple(p.shape) for p in x.split(2, 2)] == [(2, 3, 2)] * 2 and [p.shape[1] for p in x.chunk(2, 1)] == [2, 1]
    assert x.expand(5, -1, -1, -1).shape == (5, 2, 3, 4) and ag.ones(1, 3).repeat(2, 2).shape == (2, 6)
    assert ag.tensor([1, 2]).repeat_interleave(2).tolist() == [1, 1, 2, 2] and ag.tensor([1, 2]).repeat(2).tolist() == [1, 2, 1, 2]
    assert x.movedim(0, -1).shape == (3, 4, 2) and x.flip(0)[0, 0, 0].item() == 12 and ag.arange(4).roll(1).tolist() == [3, 0, 1, 2]
    assert ag.ones(3, 3).tril().sum().item() == 6 and ag.ones(3, 3).triu(1).sum().item() == 3
    assert ag.tensor([1, 2]).diag().tolist() == [[1, 0], [0, 2]] and ag.ones(2, 3).diagonal().shape == (2,)
    assert [g.tolist() for g in ag.meshgrid(ag.arange(2), ag.arange(2), indexing="xy")] == [[[0, 1], [0, 1]], [[0, 0], [1, 1]]]
    assert ag.einsum("ij,jk->ik", ag.ones(2, 3), ag.ones(3, 2)).tolist() == [[3, 3], [3, 3]]
    assert x.is_contiguous() and not x.mT.is_contiguous() and x.mT.contiguous().is_contiguous()
    assert x.unflatten(2, (2, -1)).shape == (2, 3, 2, 2) and x.narrow(2, 1, 2).storage_offset() == 1


def test_einsum_as_numpy():
    np = pytest.importorskip("numpy")
    rng = np.random.default_rng(0)
    for eq, shapes in [("ij->ji", [(2, 3)]), ("ii->i", [(3, 3)]), ("ii", [(3, 3)]), ("i,j", [(2,), (3,)]), ("bij,bjk->bik", [(2, 3, 4), (2, 4, 5)]),
                       ("...ij,jk->...ik", [(2, 3, 4), (4, 5)]), ("ij,ij->", [(2, 3), (2, 3)]), ("ab,bc,cd->ad", [(2, 3), (3, 4), (4, 5)]),
                       ("bhqd,bhkd->bhqk", [(2, 2, 3, 4), (2, 2, 5, 4)]), ("i...,i...->...", [(2, 3), (2, 3)])]:
        a = [rng.standard_normal(s) for s in shapes]
        assert np.allclose(ag.einsum(eq, *map(ag.tensor, a)).numpy(), np.einsum(eq, *a)), eq


# ---- conversions, copies ---------------------------------------------------------------------------------


def test_conversions():
    x = ag.tensor([1.7, -1.7])
    assert x.long().tolist() == [1, -1] and x.double().dtype is ag.float64 and x.int().dtype is ag.int32 and x.bool().all().item()
    assert x.to(ag.float32) is x and x.to("cpu") is x and x.to("cpu", ag.float64).dtype is ag.float64 and x.float() is x
    assert x.to(ag.ones(1, dtype=ag.int64)).dtype is ag.int64 and x.type() == "torch.FloatTensor" and x.type_as(ag.ones(1)) is x
    assert x.cpu() is x and not ag.cuda.is_available()
    with pytest.raises(RuntimeError, match="CPU only"):
        x.cuda()
    with pytest.raises(RuntimeError, match="CPU only"):
        x.to("cuda")
    y = ag.tensor([1.5], requires_grad=True)
    y.double().sum().backward()
    assert y.grad.dtype is ag.float32


def test_copies():
    x = ag.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    (x * x).sum().backward()
    for y in (copy.deepcopy(x), pickle.loads(pickle.dumps(x))):
        assert y.equal(x) and y.requires_grad and y.data_ptr() != x.data_ptr()
    assert copy.deepcopy(x).grad.tolist() == [[2, 4], [6, 8]]
    assert copy.copy(x).data_ptr() == x.data_ptr()
    assert pickle.loads(pickle.dumps(x.t())).tolist() == x.t().tolist()
    for d in (ag.bool, ag.uint8, ag.int32, ag.int64, ag.float64):
        t = ag.tensor([1, 0, 1], dtype=d)
        assert pickle.loads(pickle.dumps(t)).dtype is d and copy.deepcopy(d) is d
    with pytest.raises(RuntimeError, match="graph leaves"):
        copy.deepcopy(x * 2)
    z = x.detach()
    z[0, 0] = 9
    assert x[0, 0].item() == 9 and not z.requires_grad
    x.data = ag.zeros(3)
    assert x.shape == (3,)


# ---- gradients ---------------------------------------------------------------------------------------------


def test_grad_is_one_object():
    x = ag.ones(2, requires_grad=True)
    assert x.grad is None
    (x * 3).sum().backward()
    g = x.grad
    assert g is x.grad and g.tolist() == [3, 3]
    (x * 3).sum().backward()
    assert x.grad.tolist() == [6, 6]
    x.grad = None
    assert x.grad is None
    x.grad = ag.ones(2)
    assert x.grad.tolist() == [1, 1]


def test_autograd_grad():
    x = ag.tensor(2.0, requires_grad=True)
    y = x**3
    (g,) = ag.autograd.grad(y, x, create_graph=True)
    (h,) = ag.autograd.grad(g, x)
    assert (g.item(), h.item(), x.grad) == (12, 12, None)
    z = ag.ones(1, requires_grad=True)
    assert ag.autograd.grad(x * 2, [x, z], allow_unused=True)[1] is None
    assert ag.autograd.grad(x * 2, [x, z], materialize_grads=True)[1].tolist() == [0]
    v = ag.ones(3, requires_grad=True)
    assert ag.autograd.grad(v * 2, v, ag.tensor([1.0, 2.0, 3.0]))[0].tolist() == [2, 4, 6]
    ag.autograd.backward([v.sum(), (v * v).sum()])
    assert v.grad.tolist() == [3, 3, 3]
    a, b = ag.ones(1, requires_grad=True), ag.ones(1, requires_grad=True)
    (a * b).sum().backward(inputs=[a])
    assert a.grad is not None and b.grad is None


def test_modes():
    x = ag.ones(1, requires_grad=True)
    with ag.no_grad():
        assert not (x * 2).requires_grad and not ag.is_grad_enabled()
        with ag.enable_grad():
            assert (x * 2).requires_grad

    @ag.no_grad()
    def f():
        return x * 2

    @ag.no_grad
    def g():
        yield ag.is_grad_enabled()

    @ag.inference_mode()
    def h():
        return x * 2

    assert not f().requires_grad and not h().requires_grad and list(g()) == [False] and ag.is_grad_enabled()
    with ag.set_grad_enabled(False):
        assert not ag.is_grad_enabled()
    assert ag.is_grad_enabled()
    ag.set_grad_enabled(False)
    assert not ag.is_grad_enabled()
    ag.set_grad_enabled(True)
    with pytest.raises(ZeroDivisionError), ag.no_grad():
        1 / 0
    assert ag.is_grad_enabled()


def test_in_place():
    x = ag.ones(3)
    p = x.data_ptr()
    x += 1
    x *= ag.tensor([1.0, 2.0, 3.0])
    x -= 1.0
    x /= 2
    assert x.tolist() == [0.5, 1.5, 2.5] and x.data_ptr() == p and x._version == 4
    x.zero_().fill_(4).sqrt_().add_(1, alpha=2).clamp_(max=3)
    assert x.tolist() == [3, 3, 3]
    x.copy_(ag.tensor([1, 2, 3]))
    assert x.tolist() == [1, 2, 3]
    y = ag.ones(2, requires_grad=True)
    z = y * 1
    z.mul_(3)
    z[0] = 0
    z.sum().backward()
    assert y.grad.tolist() == [0, 3]


def test_retain_grad_and_warning():
    x = ag.ones(1, requires_grad=True)
    y = x * 2
    with pytest.warns(UserWarning, match="The .grad attribute of a Tensor that is not a leaf"):
        assert y.grad is None
    y.retain_grad()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        (y * 3).sum().backward()
        assert y.grad.tolist() == [3] and y.retains_grad


# ---- the graph's face ------------------------------------------------------------------------------------------


def test_graph():
    x = ag.ones(2, requires_grad=True)
    y = x * 2 + 1
    fn = y.grad_fn
    assert fn.name() == "AddBackward0" and type(fn).__name__ == "AddBackward0" and fn is y.grad_fn
    assert repr(fn).startswith("<AddBackward0 object at 0x")
    (mul, nr), *_ = fn.next_functions
    assert mul.name() == "MulBackward0" and nr == 0
    leaf = mul.next_functions[0][0]
    assert leaf.name() == "torch::autograd::AccumulateGrad" and leaf.variable is x and leaf.next_functions == ()
    assert fn.line[1] == test_graph.__code__.co_firstlineno + 2 and fn.line[2] == "test_graph"
    assert f"test_tensor.py:{fn.line[1]} in test_graph" == fn.site
    e = x.exp()
    assert e.grad_fn._saved_result.tolist() == e.tolist()
    text = ag.graph.graph_text(y, {"w": x})
    assert "MulBackward0" in text and "w [2]" in text and "test_tensor.py" in text
    dot = ag.graph.to_dot(y)
    assert dot.startswith("digraph") and dot.count("->") == 2


def test_lines_of_composed_functions():
    x = ag.ones(3, requires_grad=True)
    y = x.std()
    here = test_lines_of_composed_functions.__code__.co_firstlineno + 2
    assert {n.line[1] for n in ag.graph.nodes(y) if n.line} == {here}


def test_line_tracking_switch():
    x = ag.ones(1, requires_grad=True)
    try:
        ag.set_line_tracking(False)
        y = x + x
        assert y.grad_fn.site == "" and (x * 2.0).tanh().tolist() == pytest.approx([math.tanh(2)])
    finally:
        ag.set_line_tracking(True)
    assert (x + x).grad_fn.site


def test_nothing_leaks():
    gc.collect()
    before = ag.counters()
    for _ in range(10):
        x = ag.ones(4, requires_grad=True)
        y = (x * 2).exp().sum()
        (g,) = ag.autograd.grad(y, x, create_graph=True)
        g.sum().backward()
        repr(y.grad_fn.next_functions)
        x.grad.numpy()
    del x, y, g
    after = ag.counters()
    assert (after.tensors, after.nodes, after.storages) == (before.tensors, before.nodes, before.storages)


# ---- messages ---------------------------------------------------------------------------------------------------


def _twice(t):
    y = (t.ones(2, requires_grad=True) ** 2).sum()
    y.backward()
    y.backward()


def _stale(t):
    y = t.ones(2, requires_grad=True).exp()
    y.add_(1)
    y.sum().backward()


MESSAGES = [
    (_twice, RuntimeError, "Trying to backward through the graph a second time"),
    (_stale, RuntimeError, "one of the variables needed for gradient computation has been modified by an inplace operation"),
    (lambda t: (t.ones(2, requires_grad=True) * 2).backward(), RuntimeError, "grad can be implicitly created only for scalar outputs"),
    (lambda t: t.ones(2).sum().backward(), RuntimeError, "element 0 of tensors does not require grad and does not have a grad_fn"),
    (lambda t: t.ones(2, requires_grad=True).add_(1), RuntimeError,
     "a leaf Variable that requires grad is being used in an in-place operation."),
    (lambda t: t.ones(2, requires_grad=True)[0].add_(1), RuntimeError, "a view of a leaf Variable"),
    (lambda t: t.ones(2).retain_grad(), RuntimeError, "can't retain_grad on Tensor that has requires_grad=False"),
    (lambda t: t.tensor([1], requires_grad=True), RuntimeError, "Only Tensors of floating point"),
    (lambda t: t.ones(2).item(), RuntimeError, "a Tensor with 2 elements cannot be converted to Scalar"),
    (lambda t: float(t.ones(2)), ValueError, "only one element tensors can be converted to Python scalars"),
    (lambda t: bool(t.ones(2)), RuntimeError, "Boolean value of Tensor with more than one value is ambiguous"),
    (lambda t: t.ones(2, 3) + t.ones(2, 4), RuntimeError,
     "The size of tensor a (3) must match the size of tensor b (4) at non-singleton dimension 1"),
    (lambda t: t.ones(4, 5) @ t.ones(3, 2), RuntimeError, "mat1 and mat2 shapes cannot be multiplied (4x5 and 3x2)"),
    (lambda t: t.ones(2, 3).t().view(6), RuntimeError, "view size is not compatible with input tensor's size and stride"),
    (lambda t: t.ones(2, 3).reshape(4), RuntimeError, "shape '[4]' is invalid for input of size 6"),
    (lambda t: t.ones(3).sum(2), IndexError, "Dimension out of range (expected to be in range of [-1, 0], but got 2)"),
    (lambda t: setattr(t.ones(2, requires_grad=True) * 2, "requires_grad", False), RuntimeError,
     "you can only change requires_grad flags of leaf variables."),
    (lambda t: t.stack([t.ones(2), t.ones(3)]), RuntimeError,
     "stack expects each tensor to be equal size, but got [2] at entry 0 and [3] at entry 1"),
    (lambda t: t.cat([t.ones(2, 2), t.ones(2, 3)]), RuntimeError,
     "Sizes of tensors must match except in dimension 0. Expected size 2 but got size 3 for tensor number 1 in the list."),
    (lambda t: t.tensor([1, 2]).mean(), RuntimeError, "mean(): could not infer output dtype."),
    (lambda t: t.ones(2, 3).expand(4, 3), RuntimeError, "The expanded size of the tensor (4) must match the existing size (2)"),
    (lambda t: t.tanh(3.0), TypeError, "tanh(): argument 'input' (position 1) must be Tensor, not float"),
    (lambda t: t.ones(2) + "a", TypeError, "unsupported operand type(s) for +"),
    (lambda t: len(t.tensor(1.0)), TypeError, "len() of a 0-d tensor"),
]


@pytest.mark.parametrize("case", MESSAGES, ids=[m[2][:30] for m in MESSAGES])
def test_message(case):
    fails, kind, text = case
    with pytest.raises(kind) as e:
        fails(ag)
    assert text in str(e.value)


@pytest.mark.parametrize("case", MESSAGES, ids=[m[2][:30] for m in MESSAGES])
def test_message_is_torchs(case):
    torch = pytest.importorskip("torch")
    fails, kind, text = case
    with pytest.raises(kind) as e:
        fails(torch)
    assert text in str(e.value)


def test_unused_input():
    with pytest.raises(RuntimeError, match="appears to not have been used in the graph. Set allow_unused=True"):
        ag.autograd.grad(ag.ones(1, requires_grad=True).sum(), ag.ones(1, requires_grad=True))


def test_logaddexp_of_infinities():
    inf = float("inf")
    a, b = ag.tensor([-inf, -inf, inf, inf, 0.0]), ag.tensor([-inf, 1.0, inf, -inf, float("nan")])
    assert ag.logaddexp(a, b).tolist()[:4] == [-inf, 1.0, inf, inf] and ag.logaddexp(a, b)[4].isnan().item()
    assert ag.logaddexp2(a, b).tolist()[:4] == [-inf, 1.0, inf, inf]
