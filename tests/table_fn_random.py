"""Samples of the random rows; see table_fn.py.  References compute the stream's words one block at a time."""
import math

import numpy as np

from table_fn import ANY, rnd, row
from table_fn_nn import DRAWS, GENERATOR, _drawn, philox


def _words(generator, n, each=1):
    """Words of n elements: (n, each)."""
    return philox(*generator.tolist(), n * each // 4 + 1).reshape(-1)[:n * each].reshape(n, each)


def _open(w):
    """Numbers in (0, 1) of one word or of two."""
    if w.shape[1] == 1:
        return np.minimum((w[:, 0] >> np.uint64(1)).astype(np.float64) * 2.0**-31 + 2.0**-32, 1 - 2.0**-24)
    return np.minimum(_unit(w) + 2.0**-54, 1 - 2.0**-53)


def _unit(w):
    return ((w[:, 1] << np.uint64(32) | w[:, 0]) >> np.uint64(11)).astype(np.float64) * 2.0**-53


def _each(x):
    return 1 if x.dtype == np.float32 else 2


def drawn(f):
    def ref(arrays, ints, floats):
        x, generator = arrays[:2]
        return np.asarray(f(arrays, ints, floats)).reshape(x.shape), _drawn(x, floats, generator)

    return ref


def _exponential(arrays, ints, floats):
    x, generator = arrays
    return -np.log(_open(_words(generator, x.size, _each(x)))) / floats[0]


def _cauchy(arrays, ints, floats):
    x, generator = arrays
    w = _words(generator, x.size, _each(x))
    v = (w[:, 0] >> np.uint64(1)).astype(np.float64) * 2.0**-32 + 2.0**-33 if _each(x) == 1 else _unit(w) / 2 + 2.0**-55
    return floats[0] + floats[1] * np.where(w[:, 0] & np.uint64(1), 1, -1) / np.tan(np.pi * v)


def _log_normal(arrays, ints, floats):
    from table_fn_nn import _normal

    return np.exp(_normal(arrays, ints, floats)[0])


def _geometric(arrays, ints, floats):
    x, generator = arrays
    return np.maximum(np.ceil(np.log(_open(_words(generator, x.size, 2))) / np.log1p(-floats[0])), 1)


def _random_int(arrays, ints, floats):
    x, generator = arrays
    low, count = ints[0], ints[1] % 2**64 or 2**64
    if count <= 2**32:
        w = [int(v) for v in _words(generator, x.size)[:, 0]]
        assert all((v * count) % 2**32 >= 2**32 % count for v in w), "a sample that is drawn again has no reference"
        values = [low + (v * count >> 32) for v in w]
    else:
        values = [low + ((int(b) << 32 | int(a)) * count >> 64) for a, b in _words(generator, x.size, 2)]
    return np.array([v - 2**64 if v >= 2**63 else v for v in values], np.int64).astype(x.dtype) if x.dtype.kind != "f" else np.array(values, float)


def _bernoulli(arrays, ints, floats):
    x, generator = arrays
    one = floats[1] if x.dtype.kind == "f" else 1.0
    return np.where(_words(generator, x.size)[:, 0].astype(np.float64) < floats[0] * 2.0**32, one, 0.0)


def _bernoulli_each(arrays, ints, floats):
    x, generator, p = arrays
    return (_words(generator, x.size)[:, 0].astype(np.float64) < p.reshape(-1).astype(np.float64) * 2.0**32).astype(np.float64)


def _poisson(arrays, ints, floats):
    """Rates below 12: the number of terms of the distribution function that do not exceed a uniform number."""
    x, generator, rates = arrays
    out = []
    for u, rate in zip(_unit(_words(generator, x.size, 4)), rates.reshape(-1).astype(np.float64)):
        total, k = math.exp(-rate), 0
        term = total
        while u >= total:
            k += 1
            term *= rate / k
            total += term
        out.append(float(k))
    return np.array(out)


def _randperm(arrays, ints, floats):
    x, generator = arrays
    order = list(range(x.size))
    for k, w in enumerate(_words(generator, x.size)[:, 0]):
        j = k + (int(w) * (x.size - k) >> 32)
        order[k], order[j] = order[j], order[k]
    return np.array(order, np.int64)


def _multinomial(arrays, ints, floats):
    x, generator, weights = arrays
    weights = weights.reshape(-1, weights.shape[-1]).astype(np.float64)
    samples, n = x.shape[-1], weights.shape[1]
    if ints[0]:
        u = _unit(_words(generator, x.size, 2)).reshape(-1, samples)
        return np.stack([np.searchsorted(np.cumsum(w), v * w.sum(), side="right") for w, v in zip(weights, u)])
    with np.errstate(divide="ignore"):
        times = -np.log(_open(_words(generator, weights.size, 2))).reshape(-1, n) / weights
    return np.argsort(times, axis=1, kind="stable")[:, :samples]


def many(params, extra=()):
    return [dict(inputs=[x, GENERATOR, *[f(x) for f in extra]], floats=p) for x in DRAWS for p in params]


row("exponential", drawn(_exponential), many(([1.0], [0.25])), atol=1.0)
row("cauchy", drawn(_cauchy), many(([0.0, 1.0], [2.0, 0.5])), atol=1.0)
row("log_normal", drawn(_log_normal), many(([1.0, 2.0], [0.0, 0.25])), atol=10.0)
row("geometric", drawn(_geometric), many(([0.3], [0.9])), types=ANY)
row("random_int", drawn(_random_int), [dict(inputs=[x, GENERATOR], ints=i) for x in DRAWS for i in ([0, 7], [3, 20], [5, 1])], types=ANY)
row("bernoulli", drawn(_bernoulli), many(([0.3, 1.0], [0.5, 2.0], [0.0, 1.0], [1.0, 1.0])), types=ANY)
row("bernoulli_each", drawn(_bernoulli_each), [dict(inputs=[x, GENERATOR, rnd(*x.shape, seed=4, lo=0.0, hi=1.0)]) for x in DRAWS] +
    [dict(inputs=[rnd(4), GENERATOR, np.array([0.0, 1.0, 0.0, 1.0])])])
row("poisson", drawn(_poisson), [dict(inputs=[x, GENERATOR, rnd(*x.shape, seed=4, lo=0.0, hi=9.0)]) for x in DRAWS] + [dict(inputs=[rnd(2), GENERATOR, np.zeros(2)])])
row("randperm", drawn(_randperm), [dict(inputs=[np.arange(n), GENERATOR]) for n in (0, 1, 7, 1300)])
WEIGHTS = [(np.zeros(5, np.int64), rnd(9, lo=0.0, hi=3.0)), (np.zeros((3, 40), np.int64), rnd(3, 70, lo=0.0, hi=1.0)), (np.zeros((2, 2), np.int64), np.array([[0.0, 1, 0, 2], [3, 0, 1, 0]]))]
row("multinomial", drawn(_multinomial), [dict(inputs=[x, GENERATOR, w], ints=[again]) for x, w in WEIGHTS for again in (0, 1)])
