"""Special functions: values over their whole ranges, poles and ends, types, refusals, derivatives of high order."""
import math

import numpy as np
import pytest

import autograd_c as torch
from autograd_c import special
from special_values import VALUES
from table import ulps

INF, NAN = math.inf, math.nan
FUNCTIONS = {"lgamma": torch.lgamma, "zeta": special.zeta}
# Units of the last place in float64 that were measured on samples, rounded up; float32 is computed in float64.
# lgamma is within 2 at positive numbers; at negative ones near its zeros it is the C library's.
# digamma and polygamma of even order lose digits near their zeros at negative numbers: there they are held to the same
# number of epsilons of max(1, |value|).
BOUND = {"lgamma": 7, "digamma": 3, "erfcx": 2, "ndtr": 2, "log_ndtr": 2, "ndtri": 4, "erfinv": 4, "i0": 3, "i0e": 2.5, "i1": 3.5,
         "i1e": 3.5, "polygamma(1)": 3, "polygamma(2)": 3, "polygamma(3)": 4, "polygamma(4)": 5, "polygamma(20)": 30, "zeta": 4}


def function(name):
    if name.startswith("polygamma"):
        n = int(name[10:-1])
        return lambda x: torch.polygamma(n, x)
    return FUNCTIONS.get(name) or getattr(special, name)


@pytest.mark.parametrize("name", VALUES)
def test_values(name):
    args = [np.array(a) for a in zip(*[a for a, _ in VALUES[name]])]
    want = np.array([np.longdouble(v) for _, v in VALUES[name]])
    got = function(name)(*[torch.tensor(a) for a in args]).numpy()
    off = ulps(got, want)
    if name in ("digamma", "polygamma(2)", "polygamma(4)", "polygamma(20)"):
        eps = np.abs(got - want) / (np.finfo(np.float64).eps * np.maximum(1, np.abs(want)))
        off = np.where(args[0] < 0, eps, off)
    worst = int(np.argmax(off))
    assert off[worst] <= BOUND[name], f"{name} off by {off[worst]:.2f} at {[a[worst] for a in args]}"


@pytest.mark.filterwarnings("ignore:overflow")
@pytest.mark.parametrize("name", VALUES)
def test_float32_is_the_float64_value_rounded(name):
    """The fits for float32 are shorter: still about half a unit of the last place."""
    args = [np.array(a, np.float32) for a in zip(*[a for a, _ in VALUES[name]])]
    keep = np.all([np.isfinite(a) & ((np.abs(a) > 1e-30) | (a == 0)) for a in args], axis=0)
    args = [a[keep] for a in args]
    got = function(name)(*[torch.tensor(a) for a in args]).numpy()
    want = function(name)(*[torch.tensor(a.astype(np.float64)) for a in args]).numpy()
    assert got.dtype == np.float32
    assert ulps(got, want).max() <= 0.6


def random_arguments(name, rng, dtype):
    """Arguments over a function's range, mpmath being good there."""
    if name in ("ndtri",):
        x = np.concatenate([rng.uniform(0, 1, 150), np.exp(rng.uniform(-80, -3, 50))])
    elif name == "erfinv":
        x = np.concatenate([rng.uniform(-1, 1, 150), 1 - np.exp(rng.uniform(-15, -3, 50))])
    elif name in ("lgamma", "digamma") or name.startswith("polygamma"):
        x = np.concatenate([rng.uniform(0.02, 4, 150), np.exp(rng.uniform(-3, 20, 100)), rng.uniform(-0.9, -0.1, 20)])
    else:
        x = np.concatenate([rng.uniform(-12, 12, 200), rng.uniform(-20, 20, 50)])
    return x.astype(dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float64], ids=["float32", "float64"])
@pytest.mark.parametrize("name", [n for n in VALUES if n != "zeta"])
def test_random_points(name, dtype):
    pytest.importorskip("mpmath")
    import table_special

    x = random_arguments(name, np.random.default_rng(len(name)), dtype)
    if name.startswith("polygamma"):
        want = table_special.polygamma(x, name[10:-1])
    else:
        want = getattr(table_special, name)(x)
    off = ulps(function(name)(torch.tensor(x)).numpy(), want)
    if name in ("digamma", "polygamma(2)", "polygamma(4)", "polygamma(20)"):
        off = off[x > 0]
    assert off.max() <= (BOUND[name] if dtype is np.float64 else 0.6)


def test_bits_do_not_depend_on_place():
    """Branches that skip work when no lane needs it change no other lane."""
    rng = np.random.default_rng(5)
    for name in VALUES:
        if name == "zeta":
            continue
        for dtype in (np.float32, np.float64):
            x = np.concatenate([random_arguments(name, rng, dtype), np.array([0, -0.5, INF, -INF, NAN, 1e-300, 700], dtype)])
            rng.shuffle(x)
            whole = function(name)(torch.tensor(x)).numpy()
            single = np.array([function(name)(torch.tensor(x[k:k + 1])).numpy()[0] for k in range(x.size)])
            assert np.array_equal(whole, single, equal_nan=True), (name, dtype)


ENDS = {  # function: ((argument, value), ..)
    "lgamma": ((0.0, INF), (-0.0, INF), (-1.0, INF), (-7.0, INF), (1.0, 0.0), (2.0, 0.0), (INF, INF), (-INF, INF), (NAN, NAN), (1e308, INF), (-1e308, INF),
               (5e-324, 744.4400719213812), (-5e-324, 744.4400719213812)),
    "digamma": ((0.0, -INF), (-0.0, INF), (-1.0, NAN), (-7.0, NAN), (INF, INF), (-INF, NAN), (NAN, NAN), (1e-308, -1e308)),
    "polygamma(1)": ((0.0, INF), (-3.0, INF), (INF, 0.0), (NAN, NAN), (1e300, 1e-300)),
    "polygamma(2)": ((0.0, -INF), (-3.0, -INF), (INF, 0.0), (NAN, NAN)),
    "polygamma(20)": ((0.0, -INF), (1e-200, -INF), (INF, 0.0)),
    "erfcx": ((INF, 0.0), (-INF, INF), (-30.0, INF), (0.0, 1.0), (NAN, NAN), (5e-324, 1.0)),
    "ndtr": ((INF, 1.0), (-INF, 0.0), (0.0, 0.5), (40.0, 1.0), (-40.0, 0.0), (NAN, NAN)),
    "log_ndtr": ((INF, 0.0), (-INF, -INF), (NAN, NAN), (1e300, 0.0), (-1e300, -INF)),
    "ndtri": ((0.0, -INF), (1.0, INF), (0.5, 0.0), (-0.1, NAN), (1.1, NAN), (NAN, NAN), (5e-324, -38.46740561714435)),
    "erfinv": ((1.0, INF), (-1.0, -INF), (0.0, 0.0), (-0.0, -0.0), (1.1, NAN), (NAN, NAN), (-INF, NAN)),
    "i0": ((0.0, 1.0), (INF, INF), (-INF, INF), (NAN, NAN), (800.0, INF)),
    "i0e": ((0.0, 1.0), (INF, 0.0), (-INF, 0.0), (NAN, NAN)),
    "i1": ((0.0, 0.0), (-0.0, -0.0), (INF, INF), (-INF, -INF), (NAN, NAN), (-800.0, -INF)),
    "i1e": ((0.0, 0.0), (INF, 0.0), (NAN, NAN)),
    "entr": ((0.0, 0.0), (-0.0, 0.0), (1.0, 0.0), (-1.0, -INF), (-INF, -INF), (INF, -INF), (NAN, NAN)),
}


@pytest.mark.filterwarnings("ignore:overflow|invalid")
@pytest.mark.parametrize("name", ENDS)
def test_ends_and_poles(name):
    x, want = (np.array(v) for v in zip(*ENDS[name]))
    got = function(name)(torch.tensor(x)).numpy()
    same = (got == want) | (np.isnan(got) & np.isnan(want)) | (np.abs(got - want) <= 1e-13 * np.abs(want))
    assert same.all(), [(a, g, w) for a, g, w, s in zip(x, got, want, same) if not s]
    single = function(name)(torch.tensor(x.astype(np.float32))).numpy()
    keep = np.abs(x) > 1e-30
    keep |= x == 0
    assert np.array_equal(np.isnan(single[keep]), np.isnan(want[keep]))


def test_ends_of_two_operands():
    a = torch.tensor([0.0, 0, 0, 0, 1, 1, NAN, 0, -1.0], dtype=torch.float64)
    b = torch.tensor([0.0, -1, NAN, INF, 0, -1, 2, 2, 2.0], dtype=torch.float64)
    want = [0, 0, NAN, 0, -INF, NAN, NAN, 0, -math.log(2)]
    np.testing.assert_allclose(torch.xlogy(a, b).numpy(), want, rtol=1e-15)
    want = [0, 0, NAN, 0, 0, -INF, NAN, 0, -math.log(3)]
    np.testing.assert_allclose(special.xlog1py(a, b).numpy(), want, rtol=1e-15)
    x = torch.tensor([1.0, 0.5, 2, 2, 2, 2.5, NAN, 3, 3.0], dtype=torch.float64)
    q = torch.tensor([2.0, 2, 0, -3, 1, -0.5, 2, INF, -0.5], dtype=torch.float64)
    want = [INF, NAN, INF, INF, math.pi**2 / 6, NAN, NAN, 0, 0.41439832211716]
    np.testing.assert_allclose(special.zeta(x, q).numpy(), want, rtol=1e-12, atol=1e-300)


@pytest.mark.filterwarnings("ignore:overflow")
def test_nextafter():
    cases = [(0.0, 1.0, 5e-324), (0.0, -1.0, -5e-324), (0.0, -0.0, -0.0), (1.0, 2.0, 1 + 2**-52), (1.0, 0.0, 1 - 2**-53), (-1.0, 0.0, -1 + 2**-53),
             (INF, 0.0, 1.7976931348623157e308), (1.7976931348623157e308, INF, INF), (5e-324, 0.0, 0.0), (-5e-324, 1.0, -0.0), (NAN, 1.0, NAN),
             (1.0, NAN, NAN), (-INF, 0.0, -1.7976931348623157e308)]
    x, y, want = (np.array(v) for v in zip(*cases))
    got = torch.nextafter(torch.tensor(x), torch.tensor(y)).numpy()
    assert np.array_equal(got, want, equal_nan=True) and np.array_equal(np.signbit(got), np.signbit(np.where(np.isnan(want), got, want)))
    x, y = x.astype(np.float32), y.astype(np.float32)
    got, want = torch.nextafter(torch.tensor(x), torch.tensor(y)).numpy(), np.nextafter(x, y)
    assert np.array_equal(got, want, equal_nan=True)
    t = torch.tensor([1.0, 2.0])
    assert t.nextafter_(torch.tensor([2.0, 2.0])) is t and t.tolist() == [1 + 2**-23, 2.0]


def test_types_and_numbers():
    whole = torch.tensor([1, 2, 3])
    for f in (torch.lgamma, torch.digamma, torch.i0, special.i1e, special.ndtr, special.entr, lambda x: torch.polygamma(2, x),
              lambda x: torch.mvlgamma(x, 1), lambda x: torch.xlogy(x, 2), lambda x: special.zeta(x, x)):
        assert f(whole).dtype is torch.float32
    d = torch.tensor([0.5, 2.0], dtype=torch.float64)
    assert torch.xlogy(2, d).tolist() == [2 * math.log(0.5), 2 * math.log(2)] and torch.xlogy(d, 2.0).tolist() == [0.5 * math.log(2), 2 * math.log(2)]
    assert special.zeta(2, d).dtype is torch.float64 and special.zeta(d, 1)[1].item() == pytest.approx(math.pi**2 / 6, rel=1e-15)
    assert special.xlog1py(2, torch.tensor(1.0)).item() == pytest.approx(2 * math.log(2))
    assert d.polygamma(1).tolist() == torch.polygamma(1, d).tolist()
    for name, args in (("lgamma", ()), ("digamma", ()), ("i0", ()), ("erfinv", ()), ("polygamma", (1,)), ("mvlgamma", (2,)), ("xlogy", (2.0,))):
        x = torch.tensor([0.6, 0.9])
        want = getattr(x, name)(*args).tolist()
        assert getattr(x, name + "_")(*args) is x and x.tolist() == want
    assert torch.polygamma(0, d).tolist() == torch.digamma(d).tolist()


def test_refusals():
    d, whole = torch.tensor([0.5]), torch.tensor([1])
    for kind, text, call in ((RuntimeError, r"polygamma\(n, x\) does not support negative n\.", lambda: torch.polygamma(-1, d)),
                             (RuntimeError, "p has to be greater than or equal to 1", lambda: torch.mvlgamma(d, 0)),
                             (TypeError, r"polygamma\(\): argument 'n' \(position 1\) must be int, not float", lambda: torch.polygamma(1.5, d)),
                             (TypeError, r"polygamma\(\): argument 'n' \(position 1\) must be int, not Tensor", lambda: torch.polygamma(d, 1)),
                             (TypeError, r"nextafter\(\): argument 'other' \(position 2\) must be Tensor, not float", lambda: torch.nextafter(d, 2.0)),
                             (NotImplementedError, "\"nextafter_cpu\" not implemented for 'Long'", lambda: torch.nextafter(whole, whole)),
                             (TypeError, r"lgamma\(\): argument 'input' \(position 1\) must be Tensor, not str", lambda: torch.lgamma("a")),
                             (TypeError, r"entr\(\): argument 'input' \(position 1\) must be Tensor, not float", lambda: special.entr(3.0)),
                             (RuntimeError, "can't be cast to the desired output type|in.?place", lambda: whole.lgamma_())):
        with pytest.raises(kind, match=text):
            call()
    x = torch.tensor([2.0], requires_grad=True)
    with pytest.raises(NotImplementedError, match="the derivative for 'zeta' is not implemented"):
        special.zeta(x, d).backward()


@pytest.mark.parametrize("name, x", [("lgamma", 0.7), ("i0", 1.3), ("i1", 0.0), ("i1", 2.0), ("i0e", 1.3), ("i1e", 2.0), ("ndtr", -0.4),
                                     ("log_ndtr", -3.0), ("ndtri", 0.2), ("erfinv", 0.4), ("erfcx", 0.8), ("entr", 0.6)])
def test_derivatives_of_third_order(name, x):
    """Each order is the derivative of the one before, against differences."""
    f = function(name)

    def order(k, at):
        t = torch.tensor(at, dtype=torch.float64, requires_grad=True)
        y = f(t)
        for _ in range(k):
            y, = torch.autograd.grad(y, t, create_graph=True)
        return y.item()

    h = 2.0**-9
    for k in (1, 2, 3):
        if name == "i1" and x == 0 and k == 3:
            continue  # the value at 0 is set apart, so its derivative is 0
        want = (8 * (order(k - 1, x + h) - order(k - 1, x - h)) - (order(k - 1, x + 2 * h) - order(k - 1, x - 2 * h))) / (12 * h)
        assert order(k, x) == pytest.approx(want, rel=2e-7, abs=1e-9), k


def test_aliases():
    assert special.psi is special.digamma is torch.digamma and special.gammaln is torch.lgamma
    assert special.multigammaln is torch.mvlgamma and special.expit is torch.sigmoid and special.polygamma is torch.polygamma
    for name in special.__all__:
        assert callable(getattr(special, name))
    oracle = pytest.importorskip("torch")
    assert set(special.__all__) <= set(dir(oracle.special))
    for name in ("lgamma", "digamma", "polygamma", "mvlgamma", "i0", "nextafter", "xlogy", "erfinv"):
        assert hasattr(torch, name) and hasattr(torch.Tensor, name) and hasattr(torch.Tensor, name + "_")
    for name in ("i0e", "entr", "zeta", "ndtr", "expit"):
        assert not hasattr(torch, name) and not hasattr(torch.Tensor, name)


@pytest.mark.parametrize("p", [1, 2, 3, 5])
def test_mvlgamma(p):
    x = np.array([2.1, 2.6, 4.0, 10.5])
    want = [p * (p - 1) / 4 * math.log(math.pi) + sum(math.lgamma(v - j / 2) for j in range(p)) for v in x]
    t = torch.tensor(x, requires_grad=True)
    y = torch.mvlgamma(t, p)
    np.testing.assert_allclose(y.detach().numpy(), want, rtol=1e-14, atol=1e-15)
    g, = torch.autograd.grad(y.sum(), t, create_graph=True)
    np.testing.assert_allclose(g.detach().numpy(), sum(torch.digamma(t.detach() - j / 2).numpy() for j in range(p)), rtol=1e-13)
    assert torch.autograd.gradgradcheck(lambda v: torch.mvlgamma(v, p), (t,)) if hasattr(torch.autograd, "gradgradcheck") else True


# Where a branch that is not taken overflows, or a ratio of two exponentials does, the second derivative must still be the true one.
SECOND = {
    "elu": (torch.nn.functional.elu, {800.0: 0, 1e20: 0, 0.0: 1, -2.0: math.exp(-2)}),
    "selu": (torch.nn.functional.selu, {800.0: 0, -2.0: 1.0507009873554805 * 1.6732632423543772 * math.exp(-2)}),
    "celu": (lambda x: torch.nn.functional.celu(x, 2.0), {1600.0: 0, -2.0: math.exp(-1) / 2}),
    "sinc": (torch.sinc, {0.0: -math.pi**2 / 3, 1e-9: -math.pi**2 / 3, 0.049999: -3.26555257525657631, 0.050001: -3.26555063279182195, 1.0: 2.0}),
    "log_ndtr": (special.log_ndtr, {0.0: -2 / math.pi, 100.0: 0, 1e5: 0, -5.0: -0.967303565382887775, 2.0: -0.113548051688576449}),
    "softplus": (torch.nn.functional.softplus, {800.0: 0, -800.0: 0, 0.0: 0.25}),
    "logsigmoid": (torch.nn.functional.logsigmoid, {800.0: 0, -800.0: 0, 0.0: -0.25}),
    "logaddexp": (lambda x: torch.logaddexp(x, x.new_tensor(0.0)), {1600.0: 0, -1600.0: 0, 0.0: 0.25, 1.0: 0.19661193324148185}),
    "logaddexp2": (lambda x: torch.logaddexp2(x, x.new_tensor(0.0)), {1600.0: 0, -1600.0: 0, 0.0: 0.25 * math.log(2)}),
    "copysign": (lambda x: torch.copysign(x * x, x), {3.0: 2, -3.0: -2, 1e-160: 2}),
}


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=["float64", "float32"])
@pytest.mark.parametrize("name", SECOND)
def test_second_derivative_far_out(name, dtype):
    fn, wanted = SECOND[name]
    for v, want in wanted.items():
        if dtype is torch.float32 and 0 < abs(v) < 1e-30:
            continue
        x = torch.tensor(v, dtype=dtype, requires_grad=True)
        g, = torch.autograd.grad(fn(x), x, create_graph=True)
        h, = torch.autograd.grad(g, x)
        rel = 1e-8 if dtype is torch.float64 else 2e-4
        assert h.item() == pytest.approx(want, rel=rel, abs=1e-12), (name, v)


def test_slope_of_power_by_its_exponent_at_zero():
    x, y = torch.tensor(0.0, dtype=torch.float64, requires_grad=True), torch.tensor(2.0, dtype=torch.float64, requires_grad=True)
    g, = torch.autograd.grad(x**y, y, create_graph=True)
    assert [h.item() for h in torch.autograd.grad(g, (x, y))] == [0.0, 0.0]
