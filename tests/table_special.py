"""References for the special functions of the op table, by mpmath, for tests/table_ew.py: arrays of long double to such arrays."""
import statistics

import mpmath as mp
import numpy as np

L = np.longdouble
NAN, INF = L(np.nan), L(np.inf)


def elementwise(f, ends):
    """f over mpmath numbers, where ends(v) gives None; NaN stays."""
    def one(v):
        if v != v:
            return NAN
        e = ends(v)
        if e is not None:
            return L(e)
        y = f(mp.mpf(float(v)))
        if abs(y) > mp.mpf(10) ** 4900:
            return -INF if y < 0 else INF
        return L(mp.nstr(y, 30)) if abs(y) > mp.mpf(10) ** -4900 else L(0)

    def g(x):
        with mp.workdps(40):
            return np.array([one(v) for v in x.ravel()], L).reshape(x.shape)

    return g


def at(**values):
    """Ends at the infinities and elsewhere: at(inf=1, minf=0)."""
    points = {"inf": INF, "minf": -INF, "zero": L(0), "one": L(1), "mone": L(-1)}
    table = [(points[k], v) for k, v in values.items()]
    return lambda v: next((r for p, r in table if v == p), None)




def _polygamma(n, x):
    if x > 0 and x <= 1e8:
        return mp.psi(n, x)
    s, sign = n + 1, (1 if n % 2 else -1) * mp.factorial(n)
    if x > 0:
        return sign * (x ** (1 - s) / (s - 1) + x**-s / 2 + s * x ** (-s - 1) / 12)
    k = int(-mp.floor(x)) + 1  # steps up to positive numbers
    return sign * mp.fsum((x + j) ** -s for j in range(k)) + _polygamma(n, x + k)


def polygamma(x, n):
    n = int(n)
    if n == 0:
        return digamma(x)
    sign = 1 if n % 2 else -1
    ends = lambda v: NAN if v == -INF else 0 if v == INF else sign * INF if v <= 0 and v == np.floor(v) else None  # noqa: E731
    return elementwise(lambda v: _polygamma(n, v), ends)(x)


def _bessel(order, scaled):
    def f(x):
        a = abs(x)
        if a > 1e4:
            mu, term, total = 4 * order * order, mp.mpf(1), mp.mpf(1)
            for k in range(1, 12):
                term *= -(mu - (2 * k - 1) ** 2) / (8 * k * a)
                total += term
            y = total / mp.sqrt(2 * mp.pi * a) * (1 if scaled else mp.exp(min(a, 1e6)))
        else:
            y = mp.besseli(order, a) * (mp.exp(-a) if scaled else 1)
        return -y if order and x < 0 else y

    def ends(v):
        return v if order and v == 0 else None if abs(v) != INF else 0 if scaled else v if order else INF

    return elementwise(f, ends)


def _erfcx(x):
    if x > 1e3:
        w = 1 / (2 * x * x)
        return (1 - w * (1 - 3 * w * (1 - 5 * w * (1 - 7 * w * (1 - 9 * w))))) / (x * mp.sqrt(mp.pi))
    return mp.exp(min(x * x, 1e6)) * mp.erfc(x)


def _log_ndtr(x):
    if x > 1e3:
        return mp.mpf(0)
    if x > 0:
        return mp.log1p(-mp.erfc(x / mp.sqrt(2)) / 2)
    return mp.log(_erfcx(-x / mp.sqrt(2)) / 2) - x * x / 2


def _ndtri(p):
    if p > 0.5:
        return -_ndtri(1 - p)
    y = mp.mpf(statistics.NormalDist().inv_cdf(float(p))) if p > 1e-300 else -mp.sqrt(-2 * mp.log(p))
    for _ in range(9):
        cdf = mp.erfc(-y / mp.sqrt(2)) / 2
        step = mp.log(cdf / p) * cdf / mp.npdf(y)
        y -= step
        if abs(step) <= mp.mpf(10) ** -28 * abs(y):
            break
    return y


def _erfinv(x):
    a = abs(x)
    if a < 1e-8:
        return mp.sqrt(mp.pi) / 2 * (x + mp.pi / 12 * x**3)
    return -mp.sign(x) * _ndtri((1 - a) / 2) / mp.sqrt(2)


lgamma = elementwise(lambda x: mp.loggamma(x) if x > 0 else mp.log(abs(mp.gamma(x))),
                     lambda v: INF if abs(v) == INF or v <= 0 and v == np.floor(v) else None)
digamma = elementwise(mp.digamma, lambda v: INF if v == INF else (INF if np.signbit(v) else -INF) if v == 0 else NAN if v < 0 and
                      v == np.floor(v) else None)
i0, i1, i0e, i1e = _bessel(0, False), _bessel(1, False), _bessel(0, True), _bessel(1, True)
erfcx = elementwise(_erfcx, at(inf=0, minf=INF))
ndtr = elementwise(lambda x: mp.erfc(-max(-1e3, min(1e3, x)) / mp.sqrt(2)) / 2, at(inf=1, minf=0))
log_ndtr = elementwise(_log_ndtr, at(inf=0, minf=-INF))
ndtri = elementwise(_ndtri, lambda v: NAN if v < 0 or v > 1 else -INF if v == 0 else INF if v == 1 else None)
erfinv = elementwise(_erfinv, lambda v: NAN if abs(v) > 1 else v * INF if abs(v) == 1 else v if v == 0 else None)


def entr(x):
    return np.where(x == 0, L(0), np.where(x < 0, -INF, -x * np.log(x)))


def xlog(log):
    return lambda x, y: np.where(np.isnan(y), y, np.where(x == 0, L(0), x * log(y)))


def _zeta(x, q):
    if x == 1:
        return INF
    if x < 1:
        return NAN
    if q <= 0:  # whole: the only ones that are asked for
        assert q == np.floor(q)
        return INF
    x, q = mp.mpf(float(x)), mp.mpf(float(q))
    small = x * mp.log10(q + 1)  # digits in front of which there are zeros, for mpmath's errors are absolute
    if small > 1000 and q > 1:
        return L(0)
    if x > 1000:
        return L(1) if q == 1 else L(mp.nstr(q**-x, 30))
    with mp.workdps(40 + max(0, int(small))):
        return L(mp.nstr(mp.zeta(x, q), 30))


def zeta(x, q):
    return np.array([_zeta(a, b) for a, b in zip(x.ravel(), q.ravel())], L).reshape(x.shape)
