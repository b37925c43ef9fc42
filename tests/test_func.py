"""func and autograd.functional: derivatives of functions, against PyTorch's where it is installed and against formulas."""
import numpy as np
import pytest

import autograd_c as ag
import autograd_c.autograd.functional
import autograd_c.nn  # noqa: F401
from autograd_c import func

RNG = np.random.default_rng(3)
X, Y = RNG.standard_normal(3), RNG.standard_normal((4, 3))


def leaves(x):
    if isinstance(x, (tuple, list)):
        return [z for y in x for z in leaves(y)]
    return [z for y in x.values() for z in leaves(y)] if isinstance(x, dict) else [x]


def arrays(x):
    return [t.detach().numpy().copy() for t in leaves(x)]


def sums(x):
    return (x.sin() * x).sum()


def outer(x):
    return x.unsqueeze(1) * x.exp()


def mixed(a, b):
    return (a * b).sin(), {"q": a.exp().sum() + b.sum()}


def scalar(a, b):
    return (a * b).sin().sum() * a.exp().sum()


def tall(x):
    return (x.unsqueeze(0) * x.exp().unsqueeze(1)).sin(), x.sum()


# name -> function of (module, its func, x, y) -> nested results
FUNC = {
    "grad": lambda t, f, x, y: f.grad(sums)(x),
    "grad of grad": lambda t, f, x, y: f.grad(lambda z: f.grad(sums)(z).sum())(x),
    "third": lambda t, f, x, y: f.grad(lambda z: f.grad(lambda q: f.grad(sums)(q).exp().sum())(z).sum())(x),
    "argnums": lambda t, f, x, y: [f.grad(scalar, k)(x, y) for k in (0, 1, -1, (0, 1), (1, 0))],
    "containers": lambda t, f, x, y: f.grad(lambda d: scalar(d["a"], d["b"][0]))({"a": x, "b": [y]}),
    "aux": lambda t, f, x, y: f.grad(lambda z: (sums(z), z * 2), has_aux=True)(x),
    "grad_and_value": lambda t, f, x, y: f.grad_and_value(sums)(x),
    "grad_and_value aux": lambda t, f, x, y: f.grad_and_value(lambda z: (sums(z), {"k": z * 2}), has_aux=True)(x),
    "keywords": lambda t, f, x, y: f.grad(lambda a, *, b: scalar(a, b))(x, b=y),
    "independent": lambda t, f, x, y: f.grad(lambda a, b: b.sum())(x, y),
    "vjp": lambda t, f, x, y: [(o, fn(o), fn(o * 2)) for o, fn in [f.vjp(outer, x)]],
    "vjp of several": lambda t, f, x, y: [(o, fn(o)) for o, fn in [f.vjp(mixed, x, y)]],
    "vjp aux": lambda t, f, x, y: [(o, fn(o), a) for o, fn, a in [f.vjp(lambda z: (outer(z), z), x, has_aux=True)]],
    "jvp": lambda t, f, x, y: f.jvp(outer, (x,), (x * 2,)),
    "jvp of several": lambda t, f, x, y: f.jvp(mixed, (x, y), (x * 2, y)),
    "jvp of jvp": lambda t, f, x, y: f.jvp(lambda z: f.jvp(outer, (z,), (z,))[1], (x,), (x * 2,)),
    "jvp of grad": lambda t, f, x, y: f.jvp(f.grad(sums), (x,), (x * 2,)),
    "jvp aux": lambda t, f, x, y: f.jvp(lambda z: (outer(z), z), (x,), (x,), has_aux=True),
    "jvp independent": lambda t, f, x, y: f.jvp(lambda a, b: a * 2, (x, y), (x, y)),
    "linearize": lambda t, f, x, y: [(o, fn(x), fn(x * 3)) for o, fn in [f.linearize(outer, x)]],
    "jacrev": lambda t, f, x, y: f.jacrev(outer)(x),
    "jacfwd": lambda t, f, x, y: f.jacfwd(outer)(x),
    "jacrev several": lambda t, f, x, y: f.jacrev(mixed, (0, 1))(x, y),
    "jacfwd several": lambda t, f, x, y: f.jacfwd(mixed, (0, 1))(x, y),
    "jacfwd tall": lambda t, f, x, y: f.jacfwd(tall)(x),
    "jacrev aux": lambda t, f, x, y: f.jacrev(lambda z: (outer(z), z), has_aux=True)(x),
    "jacrev chunks": lambda t, f, x, y: [f.jacrev(outer, chunk_size=k)(x) for k in (1, 2, 100)],
    "hessian": lambda t, f, x, y: f.hessian(sums)(x),
    "hessian of several": lambda t, f, x, y: f.hessian(scalar, (0, 1))(x, y),
    "third by jacrev": lambda t, f, x, y: f.jacrev(f.hessian(sums))(x),
}


@pytest.mark.parametrize("graded", [(), (0,)], ids=["plain", "x requires grad"])
@pytest.mark.parametrize("name", FUNC)
def test_func_as_pytorch(name, graded):
    torch = pytest.importorskip("torch")
    out = []
    for t in (torch, ag):
        x, y = [t.tensor(a, requires_grad=k in graded) for k, a in enumerate((X, Y))]
        out.append(FUNC[name](t, torch.func if t is torch else func, x, y))
    theirs, ours = map(leaves, out)
    assert len(ours) == len(theirs)
    for a, b in zip(arrays(ours), arrays(theirs)):
        assert a.shape == b.shape
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12)
    for a, b in zip(ours, theirs):  # PyTorch's batched blocks that are constant carry a graph all the same
        assert a.requires_grad == b.requires_grad or ("several" in name and b.requires_grad)


def pair(x, y):
    return (x * y).sin(), x.exp().sum() + y.sum()


# name -> function of (module, its autograd.functional, x, y, create_graph)
FUNCTIONAL = {
    "vjp": lambda t, f, x, y, c: f.vjp(sums, x, create_graph=c),
    "vjp several": lambda t, f, x, y, c: f.vjp(pair, (x, y), (y.detach(), x.detach().sum()), create_graph=c),
    "jvp": lambda t, f, x, y, c: f.jvp(outer, x, x.detach() * 2, create_graph=c),
    "jvp several": lambda t, f, x, y, c: f.jvp(pair, (x, y), (x.detach(), y.detach()), create_graph=c),
    "jacobian": lambda t, f, x, y, c: f.jacobian(outer, x, create_graph=c),
    "jacobian several": lambda t, f, x, y, c: f.jacobian(pair, (x, y), create_graph=c),
    "hessian": lambda t, f, x, y, c: f.hessian(sums, x, create_graph=c),
    "hessian several": lambda t, f, x, y, c: f.hessian(scalar, (x, y), create_graph=c),
    "vhp": lambda t, f, x, y, c: f.vhp(sums, x, x.detach() * 2, create_graph=c),
    "hvp several": lambda t, f, x, y, c: f.hvp(scalar, (x, y), (x.detach(), y.detach()), create_graph=c),
}


@pytest.mark.parametrize("create", [False, True], ids=["", "create_graph"])
@pytest.mark.parametrize("name", FUNCTIONAL)
def test_functional_as_pytorch(name, create):
    torch = pytest.importorskip("torch")
    for graded in ((), (0,)):
        out = []
        for t in (torch, ag):
            x, y = [t.tensor(a, requires_grad=k in graded) for k, a in enumerate((X, Y))]
            out.append(leaves(FUNCTIONAL[name](t, t.autograd.functional, x, y, create)))
        for a, b in zip(*map(arrays, out)):
            assert a.shape == b.shape
            np.testing.assert_allclose(b, a, rtol=1e-10, atol=1e-12)
        assert [a.requires_grad for a in out[0]] == [b.requires_grad for b in out[1]]


def test_functional_by_columns_and_vectorized():
    x, y = ag.tensor(X), ag.tensor(Y)
    f = ag.autograd.functional
    rows = f.jacobian(pair, (x, y))
    for other in (f.jacobian(pair, (x, y), vectorize=True), f.jacobian(pair, (x, y), vectorize=True, strategy="forward-mode")):
        for a, b in zip(arrays(rows), arrays(other)):
            np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-14)
    for a, b in zip(arrays(f.hessian(scalar, (x, y))),
                    arrays(f.hessian(scalar, (x, y), vectorize=True, outer_jacobian_strategy="forward-mode"))):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-14)


def test_formulas():
    """Without PyTorch: a quadratic form, whose derivatives are known."""
    m = RNG.standard_normal((3, 3))
    a, x, v = ag.tensor(m), ag.tensor(X), ag.tensor(RNG.standard_normal(3))
    s, vn = m + m.T, v.numpy()

    def form(z):
        return z @ (a @ z)

    np.testing.assert_allclose(func.grad(form)(x).numpy(), s @ X, rtol=1e-12)
    np.testing.assert_allclose(func.hessian(form)(x).numpy(), s, rtol=1e-12)
    np.testing.assert_allclose(func.jvp(func.grad(form), (x,), (v,))[1].numpy(), s @ vn, rtol=1e-12)
    np.testing.assert_allclose(func.value_and_grad(form)(x)[0].item(), X @ m @ X, rtol=1e-12)
    f = ag.autograd.functional
    np.testing.assert_allclose(f.hessian(form, x).numpy(), s, rtol=1e-12)
    np.testing.assert_allclose(f.hvp(form, x, v)[1].numpy(), s @ vn, rtol=1e-12)
    np.testing.assert_allclose(f.vhp(form, x, v)[1].numpy(), s @ vn, rtol=1e-12)
    np.testing.assert_allclose(f.jacobian(lambda z: a @ z, x).numpy(), m, rtol=1e-12)
    np.testing.assert_allclose(f.jvp(lambda z: a @ z, x, v)[1].numpy(), m @ vn, rtol=1e-12)
    np.testing.assert_allclose(f.vjp(lambda z: a @ z, x, v)[1].numpy(), m.T @ vn, rtol=1e-12)


def test_history_only_where_somebody_could_ask():
    x, p = ag.tensor(X), ag.tensor(X + 1, requires_grad=True)
    g = func.grad(lambda z: (z * p).sin().sum())(x)
    g.sum().backward()  # through the closure
    np.testing.assert_allclose(p.grad.numpy(), np.cos(X * (X + 1)) - X * (X + 1) * np.sin(X * (X + 1)), rtol=1e-10)
    assert not func.grad(sums)(x).requires_grad
    g = None
    before = ag.counters().nodes
    g = func.grad(sums)(x)
    o, fn = func.vjp(outer, x)
    assert ag.counters().nodes > before  # kept by fn alone
    del fn
    assert ag.counters().nodes == before and not o.requires_grad
    with ag.no_grad():
        assert not func.grad(sums)(p).requires_grad
    assert func.grad(sums)(p).requires_grad
    assert p.grad is not None and x.grad is None


def test_functional_call():
    class Twice(ag.nn.Module):
        def __init__(self):
            super().__init__()
            self.one = ag.nn.Linear(3, 3)
            self.two = self.one
            self.register_buffer("count", ag.zeros(1))

        def forward(self, x, scale=1.0):
            self.count += 1
            return self.two(self.one(x)) * scale

    m = Twice()
    own = {n: p.detach().clone() for n, p in m.named_parameters()}
    x, w = ag.ones(2, 3), ag.eye(3)
    count = ag.zeros(1)
    out = func.functional_call(m, {"one.weight": w, "one.bias": ag.zeros(3), "count": count}, x, {"scale": 2.0})
    assert (out == 2 * x).all() and count.item() == 1 and m.count.item() == 0
    assert all((own[n] == p).all() for n, p in m.named_parameters())
    g = func.grad(lambda p: func.functional_call(m, (p, {"count": count}), (x,)).sum())({"one.weight": w, "one.bias": ag.zeros(3)})
    assert set(g) == {"one.weight", "one.bias"} and (g["one.bias"] == 4).all()  # both uses of it count
    with pytest.raises(ValueError, match="multiple values for keys .'one.weight', 'two.weight'.*tie_weights=False"):
        func.functional_call(m, {"one.weight": w, "two.weight": w + 1}, x)
    with pytest.raises(RuntimeError, match="Error.s. in reparametrizing for Twice"):
        func.functional_call(m, {"one.weight": w, "nothing": w}, x, strict=True)
    with pytest.raises(ValueError, match="appeared in multiple dictionaries"):
        func.functional_call(m, ({"one.weight": w}, {"one.weight": w}), x)

    class Fails(ag.nn.Linear):
        def forward(self, x):
            raise KeyError("inside")

    bad = Fails(3, 2)
    weight = bad.weight
    with pytest.raises(KeyError, match="inside"):
        func.functional_call(bad, {"weight": w}, x)
    assert bad.weight is weight


def test_stack_module_state():
    models = [ag.nn.Linear(3, 2) for _ in range(4)]
    p, b = func.stack_module_state(models)
    assert p["weight"].shape == (4, 2, 3) and p["weight"].requires_grad and p["weight"].is_leaf and b == {}
    with pytest.raises(RuntimeError, match="same class"):
        func.stack_module_state([models[0], ag.nn.ReLU()])


REFUSED = {
    "not 0-d": lambda t, f, x: f.grad(lambda z: z)(x),
    "no tensor": lambda t, f, x: f.grad(lambda z: 3.0)(x),
    "argnums": lambda t, f, x: f.grad(sums, 3)(x),
    "no argnums": lambda t, f, x: f.grad(sums, ())(x),
    "argnums twice": lambda t, f, x: f.grad(scalar, (0, 0))(x, x),
    "primals": lambda t, f, x: f.jvp(outer, x, x),
    "tangents": lambda t, f, x: f.jvp(outer, (x,), (x, x)),
    "tangents' shape": lambda t, f, x: f.jvp(outer, (x,), (x[:2],)),
    "cotangents": lambda t, f, x: f.vjp(outer, x)[1]((x,)),
    "integers": lambda t, f, x: f.grad(lambda z: z.sum())(x.long()),
    "chunks": lambda t, f, x: f.jacrev(outer, chunk_size=0)(x),
    "aux": lambda t, f, x: f.grad(sums, has_aux=True)(x),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals_as_pytorch(name):
    torch = pytest.importorskip("torch")
    kinds = []
    for t in (torch, ag):
        with pytest.raises(Exception) as e:
            REFUSED[name](t, torch.func if t is torch else func, t.tensor(X))
        kinds.append(e.type)
    builtin = next(k for k in kinds[0].__mro__ if k.__module__ == "builtins")
    assert issubclass(kinds[1], builtin), kinds


def test_functional_refusals_as_pytorch():
    torch = pytest.importorskip("torch")
    cases = [
        lambda f, x, y: f.vjp(lambda a, b: a.sin(), (x, y), x, strict=True),
        lambda f, x, y: f.vjp(lambda a, b: (a * 2, b.detach()), (x, y), (x, y), strict=True),
        lambda f, x, y: f.jacobian(lambda a, b: a.sin(), (x, y), strict=True),
        lambda f, x, y: f.jacobian(lambda a, b: a + b, (x, y), strict=True, create_graph=True),
        lambda f, x, y: f.hessian(lambda a, b: a.sum() + 0 * b.sum(), (x, y), strict=True),
        lambda f, x, y: f.vhp(lambda a, b: a.sum() + b.sum(), (x, y), (x, y), strict=True),
        lambda f, x, y: f.vjp(lambda a, b: a, (x, 3)),
        lambda f, x, y: f.vjp(lambda a, b: a, (x, y)),
        lambda f, x, y: f.jvp(lambda a, b: a, (x, y), (x,)),
        lambda f, x, y: f.jvp(lambda a, b: a, (x, y), (y, x)),
        lambda f, x, y: f.hessian(lambda a, b: a, (x, y)),
        lambda f, x, y: f.hessian(lambda a: (a.sum(),), x),
        lambda f, x, y: f.vhp(lambda a: 3, x),
        lambda f, x, y: f.hvp(lambda a: a.sum(), x),
        lambda f, x, y: f.jacobian(outer, x, strict=True, vectorize=True),
    ]
    for k, case in enumerate(cases):
        told = []
        for t in (torch, ag):
            with pytest.raises(Exception) as e:
                case(t.autograd.functional, t.tensor(X), t.tensor(Y))
            told.append(e)
        assert issubclass(told[1].type, told[0].type), k
        assert str(told[1].value).startswith(str(told[0].value)), k


def test_no_forward_mode():
    with pytest.raises(NotImplementedError, match="func.jvp"):
        with ag.autograd.forward_ad.dual_level():
            pass


def test_gradcheck():
    check, check2 = ag.autograd.gradcheck, ag.autograd.gradgradcheck
    x = ag.tensor(X, requires_grad=True)
    assert check(lambda z: (z.sin(), z * 2), (x,), check_batched_grad=True, check_grad_dtypes=True)
    assert check2(lambda z: z.exp() * z, x)
    wrong = [lambda z: z * z.detach(), lambda z: z.detach() * 2]
    for f in wrong:
        assert not check(f, (x,), raise_exception=False)
    with pytest.raises(ag.autograd.GradcheckError, match="Jacobian mismatch for output 0 with respect to input 0,\nnumerical:tensor"):
        check(wrong[0], (x,))
    with pytest.raises(RuntimeError, match="Numerical gradient for function expected to be zero"):
        check(wrong[1], (x,))
    with pytest.raises(ValueError, match="gradcheck expects at least one input tensor to require gradient"):
        check(lambda z: z, (x.detach(),))
    with pytest.warns(UserWarning, match="Input #0 requires gradient and is not a double precision"):
        check(lambda z: z * 2, (x.detach().float().requires_grad_(),), eps=1e-2)
    with pytest.raises(RuntimeError, match="dimension with stride 0"):
        check(lambda z: z, (x.detach().expand(2, 3).requires_grad_(),))
    assert (x.detach().numpy() == X).all()


def test_frozen():
    """A derivative of a function inside a frozen step: the same bits as eager."""
    x, v = ag.tensor(X), ag.tensor(X + 2)

    def step(z, t):
        return func.grad(sums)(z), func.jvp(outer, (z,), (t,))[1], func.hessian(sums)(z)

    frozen = ag.freeze(step)
    for k in range(3):
        for a, b in zip(frozen(x + k, v), step(x + k, v)):
            assert (a == b).all()
