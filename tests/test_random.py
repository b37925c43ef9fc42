"""Random numbers: distributions against exact distribution functions, streams, generators, frozen against eager.

Every test is seeded: with another seed a bound at p = 1e-6 would fail once in a million runs.
"""
import math
import threading

import numpy as np
import pytest

import autograd_c as ac

N = 1_000_000
FLOATS = (ac.float32, ac.float64)
TINY = 1e-6  # probability of a failure by chance, of each bound


def ks(x, cdf):
    """Probability of a Kolmogorov-Smirnov distance like that of x to a continuous distribution (the asymptotic series)."""
    x = np.sort(np.asarray(x, np.float64))
    n = len(x)
    f = cdf(x)
    d = max((np.arange(1, n + 1) / n - f).max(), (f - np.arange(n) / n).max())
    t = d * (math.sqrt(n) + 0.12 + 0.11 / math.sqrt(n))
    return min(1.0, 2 * sum((-1) ** (k - 1) * math.exp(-2 * (k * t) ** 2) for k in range(1, 101)))


def chi_square(counts, expected):
    """Probability of a chi-square like that of counts (Wilson and Hilferty's cube root)."""
    counts, expected = np.asarray(counts, float), np.asarray(expected, float)
    keep = expected > 5
    rest = expected[~keep].sum()
    c, e = counts[keep], expected[keep]
    if rest > 5:
        c, e = np.append(c, counts[~keep].sum()), np.append(e, rest)
    x, k = ((c - e) ** 2 / e).sum(), len(c) - 1
    z = ((x / k) ** (1 / 3) - (1 - 2 / (9 * k))) / math.sqrt(2 / (9 * k))
    return 0.5 * math.erfc(z / math.sqrt(2))


def erf(x):
    return np.array([math.erf(v) for v in np.asarray(x).reshape(-1)]).reshape(np.shape(x))


def normal_cdf(x):
    return 0.5 * (1 + erf(x / math.sqrt(2)))


def moments(x, mean, var, kurtosis=3.0):
    """Mean and variance within 5.5 standard errors."""
    x = np.asarray(x, np.float64)
    assert abs(x.mean() - mean) < 5.5 * math.sqrt(var / x.size)
    assert abs(x.var() - var) < 5.5 * var * math.sqrt((kurtosis - 1) / x.size)


# name: (draw into a tensor, distribution function, (mean, variance, kurtosis) or None)
CONTINUOUS = {
    "uniform": (lambda x, g: x.uniform_(generator=g), lambda x: x, (0.5, 1 / 12, 1.8)),
    "uniform_between": (lambda x, g: x.uniform_(-3, 5, generator=g), lambda x: (x + 3) / 8, (1.0, 64 / 12, 1.8)),
    "normal": (lambda x, g: x.normal_(generator=g), normal_cdf, (0.0, 1.0, 3.0)),
    "normal_scaled": (lambda x, g: x.normal_(2, 3, generator=g), lambda x: normal_cdf((x - 2) / 3), (2.0, 9.0, 3.0)),
    "exponential": (lambda x, g: x.exponential_(generator=g), lambda x: -np.expm1(-x), (1.0, 1.0, 9.0)),
    "exponential_rate": (lambda x, g: x.exponential_(2.5, generator=g), lambda x: -np.expm1(-2.5 * x), (0.4, 0.16, 9.0)),
    "cauchy": (lambda x, g: x.cauchy_(generator=g), lambda x: 0.5 + np.arctan(x) / np.pi, None),
    "cauchy_scaled": (lambda x, g: x.cauchy_(1, 3, generator=g), lambda x: 0.5 + np.arctan((x - 1) / 3) / np.pi, None),
    "log_normal": (lambda x, g: x.log_normal_(0.5, 0.25, generator=g), lambda x: normal_cdf((np.log(x) - 0.5) / 0.25), None),
}


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("name", CONTINUOUS)
def test_continuous(name, dtype):
    draw, cdf, about = CONTINUOUS[name]
    x = draw(ac.empty(N, dtype=dtype), ac.Generator().manual_seed(11)).numpy()
    assert np.isfinite(x).all()
    f = cdf(np.asarray(x, np.float64))
    assert ks(x, cdf) > TINY
    counts = np.bincount(np.minimum((f * 997).astype(int), 996), minlength=997)  # finer than the greatest distance
    assert chi_square(counts, np.full(997, N / 997)) > TINY
    for tail in (1e-3, 1e-4, 1e-5):  # both ends
        for seen in ((f < tail).sum(), (f > 1 - tail).sum()):
            assert abs(seen - N * tail) < 5.5 * math.sqrt(N * tail) + 3, (tail, seen)
    if about:
        moments(x, *about)


DISCRETE = {
    "bernoulli": (lambda x, g: x.bernoulli_(0.3, generator=g), lambda k: np.where(k == 1, 0.3, np.where(k == 0, 0.7, 0.0))),
    "bernoulli_rare": (lambda x, g: x.bernoulli_(1e-4, generator=g), lambda k: np.where(k == 1, 1e-4, np.where(k == 0, 1 - 1e-4, 0.0))),
    "geometric": (lambda x, g: x.geometric_(0.3, generator=g), lambda k: np.where(k > 0, 0.3 * 0.7 ** (k - 1.0), 0.0)),
    "geometric_small": (lambda x, g: x.geometric_(0.01, generator=g), lambda k: np.where(k > 0, 0.01 * 0.99 ** (k - 1.0), 0.0)),
    "random": (lambda x, g: x.random_(3, 17, generator=g), lambda k: np.where((k >= 3) & (k < 17), 1 / 14, 0.0)),
}


@pytest.mark.parametrize("dtype", (*FLOATS, ac.int64, ac.int32), ids=str)
@pytest.mark.parametrize("name", DISCRETE)
def test_discrete(name, dtype):
    draw, pmf = DISCRETE[name]
    x = draw(ac.empty(N, dtype=dtype), ac.Generator().manual_seed(12)).numpy().astype(np.int64)
    counts = np.bincount(x, minlength=30)
    expected = N * pmf(np.arange(len(counts)))
    assert (counts[expected == 0] == 0).all()
    assert chi_square(counts, expected) > TINY


@pytest.mark.parametrize("rate", (0.1, 1.0, 4.5, 11.9, 12.1, 30.0, 1000.0, 1e6))
def test_poisson(rate):
    x = ac.poisson(ac.full((N,), rate, dtype=ac.float64), ac.Generator().manual_seed(13)).numpy()
    assert (x == np.floor(x)).all() and (x >= 0).all()
    moments(x, rate, rate, 3 + 1 / rate)
    if rate <= 1000:
        k = np.arange(int(rate + 12 * math.sqrt(rate) + 20))
        expected = N * np.exp(k * math.log(rate) - rate - np.array([math.lgamma(v + 1) for v in k]))
        assert chi_square(np.bincount(x.astype(int), minlength=len(k))[:len(k)], expected) > TINY
    else:
        assert ks(x + np.random.default_rng(0).random(N) - 0.5, lambda v: normal_cdf((v - rate) / math.sqrt(rate))) > 1e-12


def test_poisson_of_each():
    rates = np.array([0.0, 0.5, 20.0, 1e12])
    x = ac.poisson(ac.tensor(np.tile(rates, (20000, 1)))).numpy()
    assert (x[:, 0] == 0).all()
    for k in (1, 2, 3):
        assert abs(x[:, k].mean() - rates[k]) < 5.5 * math.sqrt(rates[k] / 20000)


def test_bernoulli_of_each():
    p = np.array([0.0, 1e-3, 0.25, 0.7, 1.0])
    for dtype in (np.float32, np.float64):
        x = ac.bernoulli(ac.tensor(np.tile(p, (200000, 1)).astype(dtype))).numpy()
        seen = x.sum(0)
        assert seen[0] == 0 and seen[-1] == 200000
        assert (abs(seen - 200000 * p) <= 5.5 * np.sqrt(200000 * p * (1 - p))).all()


def test_probabilities_finer_than_a_word():
    """p below 2^-32: a success in a million is one in 2^40 words or so; none, then, and p = 1 - 2^-40 has no failure."""
    assert int(ac.empty(N).bernoulli_(2.0**-40).sum()) == 0 and int(ac.empty(N).bernoulli_(1 - 2.0**-40).sum()) == N


def test_ends_are_left_out_as_they_must():
    """Where PyTorch excludes an end, many numbers and the smallest seeds do not reach it."""
    for dtype in FLOATS:
        for seed in range(5):
            g = ac.Generator().manual_seed(seed)
            u = ac.rand(N, dtype=dtype, generator=g)
            assert float(u.min()) >= 0 and float(u.max()) < 1
            assert float(ac.empty(N, dtype=dtype).uniform_(1, 1 + 2.0**-20, generator=g).max()) < 1 + 2.0**-20
            assert float(ac.empty(N, dtype=dtype).exponential_(generator=g).min()) > 0
            assert float(ac.empty(N, dtype=dtype).geometric_(0.999, generator=g).min()) == 1
            assert float(ac.empty(N, dtype=dtype).log_normal_(0, 1, generator=g).min()) > 0
            assert bool(ac.empty(N, dtype=dtype).cauchy_(generator=g).isfinite().all())


def test_normal_tails_in_float32():
    """31 bits below the logarithm: numbers beyond 5.5 sigma occur, as often as they should."""
    g = ac.Generator().manual_seed(3)
    seen = sum(int((ac.empty(4 * N).normal_(generator=g).abs() > 5).sum()) for _ in range(5))
    assert 1 <= seen <= 40  # 11.5 on average


# ---- integers ------------------------------------------------------------------------------------------------


def test_ranges_of_integers():
    for dtype, low, high in ((ac.uint8, 0, 256), (ac.int32, -2**31, 2**31), (ac.int64, -2**63, 2**63)):
        x = ac.empty(200000, dtype=dtype).random_(low, high).numpy().astype(np.float64)
        assert ks((x + (0.5 if dtype is ac.uint8 else 0) + (np.random.default_rng(1).random(len(x)) - 0.5 if dtype is ac.uint8 else 0) - low) / (high - low), lambda v: v) > TINY
        assert ac.empty(0, dtype=dtype).random_(low, high).shape == (0,)
    assert set(ac.empty(1000, dtype=ac.uint8).random_(254, 256).tolist()) == {254, 255}
    assert int(ac.empty(1000, dtype=ac.int64).random_(2**63 - 1, 2**63).min()) == 2**63 - 1
    assert ac.randint(-5, -4, (4,)).tolist() == [-5] * 4
    for dtype, most in ((ac.float32, 2**24), (ac.float64, 2**53), (ac.int32, 2**31 - 1), (ac.int64, 2**63 - 1), (ac.uint8, 255), (ac.bool, 1)):
        x = ac.empty(100000, dtype=dtype).random_().double()
        assert 0 <= float(x.min()) and most * 0.999 <= float(x.max()) <= most


def test_every_number_equally_often():
    """Counts that no power of two divides, also just below the end of a word, where words are drawn again."""
    for count in (3, 1000, 3 * 2**30, 2**32 - 1, 2**32, 2**32 + 1, 3 * 2**40):
        x = ac.randint(0, count, (N,), generator=ac.Generator().manual_seed(5)).numpy()
        assert x.min() >= 0 and x.max() < count
        bins = min(count, 997)
        edges = np.array([-(-k * count // bins) for k in range(bins + 1)], np.float64)
        assert chi_square(np.histogram(x, edges)[0], N * np.diff(edges) / count) > TINY


def test_randperm():
    for n in (0, 1, 2, 5, 1000, 100003):
        assert sorted(ac.randperm(n).tolist()) == list(range(n))
    assert ac.randperm(5, dtype=ac.float32).dtype is ac.float32 and ac.randperm(5, dtype=ac.int32).dtype is ac.int32
    g = ac.Generator().manual_seed(1)
    orders = {}
    for _ in range(24000):
        k = tuple(ac.randperm(4, generator=g).tolist())
        orders[k] = orders.get(k, 0) + 1
    assert len(orders) == 24 and chi_square(list(orders.values()), [1000] * 24) > TINY
    x = ac.randperm(N, generator=g).numpy()  # where the first ones went, and how far all moved
    moved = np.abs(x - np.arange(N)).mean() / N
    assert abs(moved - 1 / 3) < 5.5 * 0.24 / math.sqrt(N)


def test_multinomial():
    w = np.array([1.0, 0.0, 3.0, 0.5, 5.5])
    for dtype in (np.float32, np.float64):
        x = ac.multinomial(ac.tensor(w.astype(dtype)), N, True).numpy()
        assert chi_square(np.bincount(x, minlength=5), N * w / w.sum()) > TINY and not (x == 1).any()
    rows = np.array([[1.0, 2.0, 1.0], [0.0, 0.0, 7.0]])
    x = ac.multinomial(ac.tensor(rows), 100000, True).numpy()
    assert (x[1] == 2).all() and chi_square(np.bincount(x[0]), 100000 * rows[0] / 4) > TINY
    # without replacement: the first as with, the second among the rest
    x = ac.multinomial(ac.tensor(np.tile(w, (100000, 1))), 3).numpy()
    assert all(len(set(v)) == 3 for v in x[:100].tolist()) and not (x == 1).any()
    p = w / w.sum()
    assert chi_square(np.bincount(x[:, 0], minlength=5), 100000 * p) > TINY
    second = np.array([[p[a] * p[b] / (1 - p[a]) if a != b else 0 for b in range(5)] for a in range(5)])
    assert chi_square(np.bincount(x[:, 0] * 5 + x[:, 1], minlength=25), 100000 * second.reshape(-1)) > TINY
    many = ac.rand(100000, dtype=ac.float64) + 0.01
    assert len(set(ac.multinomial(many, 1000).tolist())) == 1000


# ---- streams ---------------------------------------------------------------------------------------------------


def uncorrelated(x, y):
    x, y = np.asarray(x, np.float64), np.asarray(y, np.float64)
    assert abs(np.corrcoef(x, y)[0, 1]) < 5.5 / math.sqrt(len(x))


def test_streams_are_independent():
    """Of different seeds (neighbours too), of calls one after the other, of neighbours within a call."""
    for dtype in FLOATS:
        a, b = [ac.rand(N, dtype=dtype, generator=ac.Generator().manual_seed(s)).numpy() for s in (1, 2)]
        uncorrelated(a, b)
        g = ac.Generator().manual_seed(1)
        a, b = ac.rand(N, dtype=dtype, generator=g).numpy(), ac.rand(N, dtype=dtype, generator=g).numpy()
        uncorrelated(a, b)
        for lag in (1, 2, 3, 4, 7, 128):
            uncorrelated(a[:-lag], a[lag:])
        pairs = np.floor(a.reshape(-1, 2) * 31).astype(int)
        assert chi_square(np.bincount(pairs[:, 0] * 31 + pairs[:, 1], minlength=961), np.full(961, N / 2 / 961)) > TINY
        z = ac.randn(N, dtype=dtype, generator=g).numpy()
        uncorrelated(z[::2], z[1::2])
        uncorrelated(z[::2] ** 2, z[1::2] ** 2)
    g = ac.Generator().manual_seed(4)
    ones = np.array([ac.rand(1, dtype=ac.float64, generator=g).item() for _ in range(20000)])  # many small calls
    assert ks(ones, lambda x: x) > TINY
    uncorrelated(ones[:-1], ones[1:])


SAMPLERS = {
    "uniform_": lambda n, d, g: ac.empty(n, dtype=d).uniform_(generator=g), "normal_": lambda n, d, g: ac.empty(n, dtype=d).normal_(generator=g),
    "exponential_": lambda n, d, g: ac.empty(n, dtype=d).exponential_(generator=g), "cauchy_": lambda n, d, g: ac.empty(n, dtype=d).cauchy_(generator=g),
    "log_normal_": lambda n, d, g: ac.empty(n, dtype=d).log_normal_(generator=g), "geometric_": lambda n, d, g: ac.empty(n, dtype=d).geometric_(0.2, generator=g),
    "random_": lambda n, d, g: ac.empty(n, dtype=d).random_(0, 1000, generator=g), "bernoulli_": lambda n, d, g: ac.empty(n, dtype=d).bernoulli_(0.3, generator=g),
    "bernoulli": lambda n, d, g: ac.bernoulli(ac.full((n,), 0.3, dtype=d), generator=g), "poisson": lambda n, d, g: ac.poisson(ac.full((n,), 20.0, dtype=d), generator=g),
    "rand": lambda n, d, g: ac.rand(n, dtype=d, generator=g), "randn": lambda n, d, g: ac.randn(n, dtype=d, generator=g),
    "randint": lambda n, d, g: ac.randint(3 * 2**30, (n,), generator=g), "normal": lambda n, d, g: ac.normal(ac.zeros(n, dtype=d), 2.0, generator=g),
}
WHOLE_CALL = {"randperm": lambda n, d, g: ac.randperm(n, generator=g), "multinomial": lambda n, d, g: ac.multinomial(ac.ones(n, dtype=d), 4, generator=g),
              "multinomial_again": lambda n, d, g: ac.multinomial(ac.ones(n, dtype=d), n, True, generator=g)}


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("name", SAMPLERS)
def test_an_element_depends_on_its_place_alone(name, dtype):
    """The first n of a longer call are those of a shorter one: nothing of blocks or ends."""
    draw = SAMPLERS[name]
    long = draw(5000, dtype, ac.Generator().manual_seed(9)).tolist()
    for n in (1, 2, 3, 5, 8, 63, 64, 65, 127, 129, 511, 512, 513, 1025, 4999):
        assert draw(n, dtype, ac.Generator().manual_seed(9)).tolist() == long[:n], n


@pytest.mark.parametrize("name", [*SAMPLERS, *WHOLE_CALL])
def test_generator_and_threads(name):
    """generator= alone is advanced; threads, calls from other threads and strides do not change a number."""
    draw = {**SAMPLERS, **WHOLE_CALL}[name]
    before = ac.get_rng_state().tolist()
    g, h = ac.Generator().manual_seed(21), ac.Generator().manual_seed(21)
    first, second = draw(100000, ac.float32, g).tolist(), draw(100000, ac.float32, g).tolist()
    assert first != second and ac.get_rng_state().tolist() == before
    threads = ac.get_num_threads()
    try:
        ac.set_num_threads(3)
        assert draw(100000, ac.float32, h).tolist() == first
    finally:
        ac.set_num_threads(threads)
    got = []
    t = threading.Thread(target=lambda: got.append(draw(100000, ac.float32, h).tolist()))
    t.start()
    t.join()
    assert got[0] == second
    ac.manual_seed(21)
    default = draw(100000, ac.float32, None)
    assert default.tolist() == first


@pytest.mark.parametrize("name", [*SAMPLERS, *WHOLE_CALL])
def test_frozen_draws_what_eager_draws(name):
    """A plan goes on with the generator where the calls before it left it, and leaves it where eager would."""
    draw = {**SAMPLERS, **WHOLE_CALL}[name]
    f = lambda x: (draw(700, ac.float32, None).double() * x, draw(3000, ac.float64, None).double() + x)  # noqa: E731
    frozen = ac.freeze(f)
    x = ac.tensor(2.0, dtype=ac.float64)
    ac.manual_seed(5)
    want = [[t.tolist() for t in f(x)] for _ in range(3)]
    end = ac.get_rng_state().tolist()
    ac.manual_seed(5)
    got = [[t.tolist() for t in frozen(x)] for _ in range(3)]
    assert got == want and ac.get_rng_state().tolist() == end and want[0] != want[1]


def test_strided_and_small_tensors():
    whole = ac.zeros(6, 8)
    whole[:, ::2].exponential_(generator=ac.Generator().manual_seed(2))
    assert whole[:, 1::2].abs().sum().item() == 0
    same = ac.empty(6, 4).exponential_(generator=ac.Generator().manual_seed(2))
    assert whole[:, ::2].tolist() == same.tolist()
    assert ac.empty(()).normal_().shape == () and ac.rand(()).shape == () and ac.randn(0, 3).shape == (0, 3)


# ---- generators -----------------------------------------------------------------------------------------------


def test_generators():
    g = ac.Generator()
    assert g.initial_seed() == 67280421310721 and str(g.device) == "cpu"
    assert g.manual_seed(-1) is g and g.initial_seed() == 2**64 - 1
    a = ac.rand(3, generator=g).tolist()
    assert ac.rand(3, generator=g).tolist() != a
    assert ac.rand(3, generator=g.manual_seed(2**64 - 1)).tolist() == a
    state = g.get_state()
    twin = g.clone_state()
    b = ac.rand(3, generator=g).tolist()
    assert ac.rand(3, generator=twin).tolist() == b and ac.rand(3, generator=g.set_state(state)).tolist() == b
    assert g.seed() == g.initial_seed() and g.seed() != g.seed()
    with pytest.raises(ValueError, match="Overflow"):
        g.manual_seed(2**64)
    with pytest.raises(TypeError):
        g.set_state(ac.zeros(2))


def test_the_default_generator():
    assert ac.manual_seed(3) is ac.default_generator and ac.initial_seed() == 3
    state = ac.get_rng_state()
    a = ac.rand(4).tolist()
    with ac.random.fork_rng():
        ac.rand(100)
        ac.manual_seed(9)
    b = ac.rand(4).tolist()
    ac.set_rng_state(state)
    assert ac.rand(4).tolist() == a and ac.rand(4).tolist() == b

    @ac.random.fork_rng()
    def inside():
        return ac.rand(1)

    state = ac.get_rng_state().tolist()
    inside()
    assert ac.get_rng_state().tolist() == state
    with ac.random.fork_rng(enabled=False):
        ac.rand(1)
    assert ac.get_rng_state().tolist() != state
    with pytest.raises(ZeroDivisionError), ac.random.fork_rng():
        ac.seed()
        raise ZeroDivisionError
    assert ac.initial_seed() == 3


def test_arguments():
    x = ac.ones(2, 3, dtype=ac.float64)
    for f in (ac.rand_like, ac.randn_like):
        assert f(x).dtype is ac.float64 and f(x).shape == (2, 3) and f(x, dtype=ac.float32, requires_grad=True, device="cpu").requires_grad
    assert ac.randint_like(x, 3).dtype is ac.float64 and ac.randint_like(x, 2, 5, dtype=ac.int64).dtype is ac.int64
    assert ac.rand(2, 3).shape == ac.rand((2, 3)).shape == ac.rand([2, 3]).shape == (2, 3) and ac.randn(2, requires_grad=True).requires_grad
    out = ac.empty(2, 3)
    assert ac.rand(2, 3, out=out) is out and ac.randn(2, 3, out=out) is out and ac.normal(0, 1, (2, 3), out=out) is out
    assert ac.normal(ac.zeros(2, 3), ac.ones(2, 3), out=out) is out and ac.bernoulli(ac.rand(2, 3), out=out) is out
    with pytest.raises(RuntimeError):
        ac.rand(3, out=out)
    assert ac.normal(ac.zeros(3, 1), ac.ones(2)).shape == (3, 2) and ac.normal(1.0, ac.ones(4)).shape == (4,) and ac.normal(ac.ones(4), 1.0).shape == (4,)
    n = ac.normal(ac.arange(3).double() * 10, ac.tensor([0.0, 1.0, 2.0]).double())
    assert n.dtype is ac.float64 and n[0] == 0
    y = ac.normal(ac.zeros(2, requires_grad=True), ac.ones(2, requires_grad=True))
    assert not y.requires_grad
    assert ac.randint(5, (2,)).dtype is ac.int64 and ac.randint(low=1, high=2, size=(3,)).tolist() == [1] * 3 and ac.randint(high=1, size=(2,)).tolist() == [0, 0]
    assert ac.bernoulli(ac.zeros(3), 1.0).tolist() == [1.0] * 3 and ac.bernoulli(ac.zeros(3, dtype=ac.int64), 1.0).dtype is ac.int64
    assert ac.zeros(2, 3).bernoulli_(ac.tensor([0.0, 1.0, 0.0])).tolist() == [[0.0, 1.0, 0.0]] * 2


@pytest.mark.parametrize("f, words", [
    (lambda t: t.empty(2).exponential_(0), "lambda > 0"), (lambda t: t.empty(2).cauchy_(0, 0), "sigma > 0"), (lambda t: t.empty(2).log_normal_(0, -1), "std > 0"),
    (lambda t: t.empty(2).geometric_(0), r"p to be in \(0, 1\)"), (lambda t: t.empty(2).geometric_(1), r"p to be in \(0, 1\)"), (lambda t: t.empty(2).bernoulli_(1.5), r"p to be in \[0, 1\]"),
    (lambda t: t.bernoulli(t.tensor([0.5, 1.5])), "p_in"), (lambda t: t.empty(2).uniform_(2, 1), r"\[from, to\) range"), (lambda t: t.empty(2).normal_(0, -1), "std >= 0"),
    (lambda t: t.normal(t.zeros(2), t.tensor([-1.0, 1.0])), "elements of std >= 0"), (lambda t: t.normal(t.zeros(2), -1.0), "std >= 0"), (lambda t: t.randint(3, 3, (2,)), "'from' to be less than 'to'"),
    (lambda t: t.randint(0, 2**40, (2,), dtype=t.int32), "to - 1 is out of bounds for int"), (lambda t: t.empty(2, dtype=t.uint8).random_(0, 300), "to - 1 is out of bounds"),
    (lambda t: t.poisson(t.tensor([-1.0])), "invalid Poisson rate"), (lambda t: t.multinomial(t.rand(3), 4), "without replacement"), (lambda t: t.multinomial(t.zeros(3), 1), "sum of probabilities <= 0"),
    (lambda t: t.multinomial(t.tensor([1.0, -1.0]), 1), "element < 0"), (lambda t: t.multinomial(t.tensor([1.0, math.nan]), 1, True), "element < 0"), (lambda t: t.multinomial(t.rand(2, 2, 2), 1), "1 or 2 dim"),
    (lambda t: t.multinomial(t.rand(3), 0), "n_sample <= 0"), (lambda t: t.randperm(300, dtype=t.uint8), "without overflow"),
    (lambda t: t.empty(2, dtype=t.int64).uniform_(), "not implemented for 'Long'"), (lambda t: t.poisson(t.tensor([1])), "not implemented")])
def test_refusals_are_pytorchs(f, words):
    with pytest.raises((RuntimeError, NotImplementedError), match=words):
        f(ac)
    torch = pytest.importorskip("torch")
    with pytest.raises((RuntimeError, NotImplementedError), match=words):
        f(torch)


def test_a_refused_call_leaves_the_generator():
    g = ac.Generator().manual_seed(1)
    state = g.get_state().tolist()
    for f in (lambda: ac.poisson(ac.tensor([-1.0]), g), lambda: ac.multinomial(ac.zeros(2), 1, generator=g), lambda: ac.empty(2).exponential_(-1, generator=g)):
        with pytest.raises(RuntimeError):
            f()
        assert g.get_state().tolist() == state
