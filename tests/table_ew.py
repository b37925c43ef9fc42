"""What each elementwise row of the op table must give: a plain reference by row name.

A row that has no entry in EW fails test_table_elementwise.py: new rows come with an entry.

`exact` rows have one right answer, computed here in the operands' own type.  The others are computed in NumPy's
long double (erf by mpmath) and may be off by `ulp` units of the last place; where the row is a difference of larger
numbers (gelu far below zero) by `ulp` epsilons of `scale(...)` instead.
"""
from dataclasses import dataclass
import math
from typing import Callable

import mpmath
import numpy as np

import table_special as special

L = np.longdouble


def _mp(f):
    def one(v):
        if v == 0 and f is mpmath.erf:
            return L(v)  # with its sign
        if v != v:
            return L(v)
        y = f(mpmath.mpf(max(-1e4, min(1e4, float(v)))))  # constant long before
        return L(mpmath.nstr(y, 30)) if abs(y) > mpmath.mpf(10) ** -4900 else L(0)

    def g(x):
        with mpmath.workdps(40):
            return np.array([one(v) for v in x.ravel()], L).reshape(x.shape)

    return g


erf, erfc = _mp(mpmath.erf), _mp(mpmath.erfc)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def always(*xs):
    return np.ones(np.broadcast_shapes(*[x.shape for x in xs]), bool)


def away(*points):
    """Smooth where the first operand is far from these points."""
    return lambda x, *rest: np.all([np.abs(x - p) > 0.01 for p in points], axis=0)


def apart(a, b):
    return np.abs(a - b) > 0.05


def whole(x):
    """Distance of x from the next whole number."""
    return np.abs(x - np.round(x))


@dataclass
class Ew:
    ref: Callable                   # arrays (and numbers) to an array
    types: str = "float"            # float, number (integers too), any (bool too), integer (and bool alone)
    params: tuple = ((),)           # numbers P(0), P(1): each is tried
    exact: bool = True
    ulp: float = 2.0
    scale: Callable = None          # see above
    grain: Callable = None          # error allowed where intermediate results are subnormal: times the smallest number
    smooth: Callable = always       # where differences may be taken, domain aside
    specials: bool = True           # reference is right at zeros, infinities and NaN, too
    sign_of_zero: bool = False      # ... even in the sign of zeros
    second_atol: float = 1e-8       # rows whose higher derivatives are large


def _int_pow(a, b):
    """Whole powers modulo 2^bits; of negative exponents only those of 1 and -1 exist."""
    bits, signed = a.dtype.itemsize * 8, a.dtype.kind == "i"
    out = []
    for x, n in zip(a.ravel().tolist(), np.broadcast_to(b, a.shape).ravel().tolist()):
        r = (1 if x == 1 else (-1 if n % 2 else 1) if x == -1 else 0) if n < 0 else pow(x, n, 1 << bits)
        r %= 1 << bits
        out.append(r - (1 << bits) if signed and r >> (bits - 1) else r)
    return np.array(out, a.dtype).reshape(a.shape)


def _pow(a, b):
    return _int_pow(a, b) if a.dtype.kind in "iu" else np.power(a, b)


def _pow_number(x, p):
    if x.dtype.kind in "iu":
        return _int_pow(x, np.array(int(p), np.int64))
    # PyTorch's roots: pow(-inf, 0.5) is NaN and pow(-0., 0.5) is -0. there
    return np.sqrt(x) if p == 0.5 else 1 / np.sqrt(x) if p == -0.5 else np.power(x, x.dtype.type(p))


def _rounded(f):
    return lambda x: x if x.dtype.kind in "iu" else f(x)


def _clamp(x, lo, hi):
    if x.dtype.kind in "iu":
        info = np.iinfo(x.dtype)
        lo, hi = (info.max if v >= info.max else info.min if v <= info.min else int(v) for v in (lo, hi))
    return np.minimum(np.maximum(x, x.dtype.type(lo)), x.dtype.type(hi))


def _sign(x):
    return np.where(x > 0, 1, np.where(x < 0, -1, 0)).astype(x.dtype)  # 0 of NaN, as PyTorch


def _sinc(x):
    pi, n = L("3.14159265358979323846264338327950288"), np.round(x)
    return np.where(x == 0, L(1), np.where(n % 2 == 0, 1, -1) * np.sin(pi * (x - n)) / np.where(x == 0, L(1), pi * x))


def _softshrink(x, p):
    p = x.dtype.type(p)
    return np.where(x > p, x - p, np.where(x < -p, x + p, x * x.dtype.type(0)))


def _gelu_tanh(x):
    return x / 2 * (1 + np.tanh(L("0.79788456080286535588") * (x + L("0.044715") * x**3)))


def _off_corner(a, b):
    d = np.abs(a - b)
    return (np.abs(d - 1.0) > 0.01) & (np.abs(d - 0.5) > 0.01)


def _lerp(a, b, w):
    d = b - a
    return np.where(np.abs(w) < 0.5, a + w * d, b - d * (1 - w)).astype(a.dtype)


def _softplus(x, beta, threshold):
    with np.errstate(all="ignore"):
        return np.where(x * beta > threshold, x, np.log1p(np.exp(np.minimum(x * beta, 1e4))) / beta)


def _quotient_smooth(a, b):
    return whole(a / b) > 0.02


def _logical(f):
    return lambda a, b: f(a != 0, b != 0)


def _magnitude(*xs):
    return np.maximum(1, np.max([np.abs(x) for x in np.broadcast_arrays(*xs)], axis=0))


EW = {
    # arithmetic
    "add": Ew(np.add, "any", sign_of_zero=True),
    "sub": Ew(np.subtract, "number", sign_of_zero=True),
    "mul": Ew(np.multiply, "any", sign_of_zero=True),
    "div": Ew(np.divide, sign_of_zero=True),
    "floor_divide": Ew(np.floor_divide, "number"),
    "remainder": Ew(np.remainder, "number", smooth=_quotient_smooth),
    "fmod": Ew(np.fmod, "number", smooth=_quotient_smooth, sign_of_zero=True),
    "neg": Ew(np.negative, "number", sign_of_zero=True),
    "abs": Ew(np.abs, "number", smooth=away(0), sign_of_zero=True),
    "sign": Ew(_sign, "any", smooth=away(0)),
    "square": Ew(lambda x: x * x, "number"),
    "reciprocal": Ew(lambda x: 1 / x, sign_of_zero=True),
    "pow": Ew(_pow, "number", exact=False, second_atol=1e-6),
    "pow_scalar": Ew(_pow_number, "number", params=((2.0,), (3.0,), (1.0,), (0.0,), (0.5,), (-1.0,), (-2.0,), (2.7,), (1.7,), (-0.5,)), exact=False,
                     second_atol=1e-6),
    "atan2": Ew(np.arctan2, exact=False, sign_of_zero=True),
    "maximum": Ew(np.maximum, "any", smooth=apart),
    "minimum": Ew(np.minimum, "any", smooth=apart),
    "addcmul": Ew(lambda a, b, c, p: (a + a.dtype.type(p) * (b * c)).astype(a.dtype), "number", params=((1.0,), (-2.0,))),
    "addcdiv": Ew(lambda a, b, c, p: (a + a.dtype.type(p) * (b / c)).astype(a.dtype), params=((1.0,), (0.3,))),
    "lerp": Ew(_lerp, smooth=lambda a, b, w: np.abs(np.abs(w) - 0.5) > 0.01, specials=False),
    # exponentials, logarithms, roots
    "exp": Ew(np.exp, exact=False),
    "exp2": Ew(np.exp2, exact=False),
    "expm1": Ew(np.expm1, exact=False, sign_of_zero=True),
    "log": Ew(np.log, exact=False),
    "log2": Ew(np.log2, exact=False),
    "log10": Ew(np.log10, exact=False),
    "log1p": Ew(np.log1p, exact=False, sign_of_zero=True),
    "sqrt": Ew(np.sqrt, sign_of_zero=True),
    "rsqrt": Ew(lambda x: 1 / np.sqrt(x)),
    # trigonometric and hyperbolic
    "sin": Ew(np.sin, exact=False, sign_of_zero=True),
    "cos": Ew(np.cos, exact=False),
    "tan": Ew(np.tan, exact=False, sign_of_zero=True),
    "asin": Ew(np.arcsin, exact=False, sign_of_zero=True),
    "acos": Ew(np.arccos, exact=False),
    "atan": Ew(np.arctan, exact=False, sign_of_zero=True),
    "sinh": Ew(np.sinh, exact=False, sign_of_zero=True),
    "cosh": Ew(np.cosh, exact=False),
    "tanh": Ew(np.tanh, exact=False, sign_of_zero=True),
    "erf": Ew(erf, exact=False, sign_of_zero=True),
    "erfc": Ew(erfc, exact=False),
    # special functions: errors over wide ranges are in test_special.py
    "lgamma": Ew(special.lgamma, exact=False, ulp=4.0),
    "digamma": Ew(special.digamma, exact=False, ulp=4.0),
    "polygamma": Ew(special.polygamma, params=((0.0,), (1.0,), (2.0,), (3.0,), (6.0,)), exact=False, ulp=6.0, specials=False, second_atol=1e-6),
    "zeta": Ew(special.zeta, exact=False, ulp=3.0, specials=False, second_atol=1e-6),
    "i0": Ew(special.i0, exact=False, ulp=4.0),
    "i0e": Ew(special.i0e, exact=False, ulp=3.0, smooth=away(0)),
    "i1": Ew(special.i1, exact=False, ulp=4.0, sign_of_zero=True),
    "i1e": Ew(special.i1e, exact=False, ulp=4.0, smooth=away(0)),
    "erfcx": Ew(special.erfcx, exact=False),
    "erfinv": Ew(special.erfinv, exact=False, ulp=4.0, sign_of_zero=True, second_atol=1e-6),
    "ndtr": Ew(special.ndtr, exact=False),
    "log_ndtr": Ew(special.log_ndtr, exact=False, ulp=3.0),
    "ndtri": Ew(special.ndtri, exact=False, ulp=4.0, second_atol=1e-6),
    "entr": Ew(special.entr, exact=False),
    "xlogy": Ew(special.xlog(np.log), exact=False),
    "xlog1py": Ew(special.xlog(np.log1p), exact=False),
    "nextafter": Ew(np.nextafter, smooth=apart, sign_of_zero=True),
    # activations
    "relu": Ew(lambda x: np.where(x <= 0, x.dtype.type(0), x), "number", smooth=away(0)),
    "sigmoid": Ew(sigmoid, exact=False),
    "silu": Ew(lambda x: x * sigmoid(x), exact=False, ulp=3.0, grain=np.abs),
    "gelu": Ew(lambda x: x * (L(0.5) * (1 + erf(x * L("0.70710678118654752440")))), exact=False, scale=_magnitude, specials=False),
    "gelu_tanh": Ew(_gelu_tanh, exact=False, ulp=4.0, scale=_magnitude, specials=False),
    "huber": Ew(lambda a, b, p: np.where(np.abs(a - b) < p, 0.5 * np.square(a - b), p * (np.abs(a - b) - 0.5 * p)).astype(a.dtype), exact=False, ulp=4.0,
                params=((1.0,), (0.5,)), smooth=_off_corner),
    "smooth_l1": Ew(lambda a, b, p: np.where(np.abs(a - b) < p, 0.5 * np.square(a - b) / p, np.abs(a - b) - 0.5 * p).astype(a.dtype), exact=False, ulp=4.0,
                    params=((1.0,), (0.5,)), smooth=_off_corner),
    "asinh": Ew(np.arcsinh, exact=False, ulp=3.0, sign_of_zero=True),
    "acosh": Ew(np.arccosh, exact=False, ulp=3.0),
    "atanh": Ew(np.arctanh, exact=False, ulp=3.0, sign_of_zero=True),
    "sinc": Ew(_sinc, exact=False, ulp=4.0, scale=lambda x: np.minimum(1, 1 / np.abs(x)), specials=False, smooth=away(0)),
    "logaddexp": Ew(np.logaddexp, exact=False, ulp=3.0, scale=lambda a, b: 1 + np.minimum(np.maximum(np.abs(a), np.abs(b)), 1e300), smooth=apart, specials=False),
    "logaddexp2": Ew(np.logaddexp2, exact=False, ulp=3.0, scale=lambda a, b: 1 + np.minimum(np.maximum(np.abs(a), np.abs(b)), 1e300), smooth=apart, specials=False),
    "hardswish": Ew(lambda x: x * np.minimum(np.maximum(x + x.dtype.type(3), x.dtype.type(0)), x.dtype.type(6)) / x.dtype.type(6), smooth=away(-3, 3)),
    "hardsigmoid": Ew(lambda x: np.minimum(np.maximum(x + x.dtype.type(3), x.dtype.type(0)), x.dtype.type(6)) / x.dtype.type(6), smooth=away(-3, 3)),
    "hardshrink": Ew(lambda x, p: np.where(np.abs(x) <= x.dtype.type(p), x.dtype.type(0), x), params=((0.5,), (0.0,)), smooth=away(-0.5, 0, 0.5)),
    "softshrink": Ew(_softshrink, params=((0.5,), (0.0,)), smooth=away(-0.5, 0, 0.5)),
    "threshold": Ew(lambda x, p, v: np.where(x <= x.dtype.type(p), x.dtype.type(v), x), types="number", params=((1.0, 5.0), (-1.0, 0.0)), smooth=away(1, -1)),
    "fmax": Ew(np.fmax, types="any", smooth=apart),
    "fmin": Ew(np.fmin, types="any", smooth=apart),
    "copysign": Ew(np.copysign, smooth=away(0)),
    "leaky_relu": Ew(lambda x, p: np.where(x > 0, x, x * x.dtype.type(p)), params=((0.01,), (0.3,), (0.0,)), smooth=away(0)),
    "elu": Ew(lambda x, p: np.where(x > 0, x, L(p) * np.expm1(x)), params=((1.0,), (0.7,)), exact=False, ulp=3.0, smooth=away(0)),
    "softplus": Ew(_softplus, params=((1.0, 20.0), (2.0, 3.0)), exact=False, ulp=4.0, smooth=away(1.5)),
    "clamp": Ew(_clamp, "number", params=((-1.0, 1.5), (-math.inf, 0.5), (0.25, math.inf), (1.0, -1.0)), smooth=away(-1, 1.5, 0.5, 0.25, 1)),
    # rounding
    "floor": Ew(_rounded(np.floor), "number", smooth=lambda x: whole(x) > 0.01, sign_of_zero=True),
    "ceil": Ew(_rounded(np.ceil), "number", smooth=lambda x: whole(x) > 0.01, sign_of_zero=True),
    "round": Ew(_rounded(np.rint), "number", smooth=lambda x: whole(x + 0.5) > 0.01, sign_of_zero=True),
    "trunc": Ew(_rounded(np.trunc), "number", smooth=lambda x: whole(x) > 0.01, sign_of_zero=True),
    # conditions
    "eq": Ew(np.equal, "any"),
    "ne": Ew(np.not_equal, "any"),
    "lt": Ew(np.less, "any"),
    "le": Ew(np.less_equal, "any"),
    "gt": Ew(np.greater, "any"),
    "ge": Ew(np.greater_equal, "any"),
    "isnan": Ew(np.isnan),
    "isinf": Ew(np.isinf),
    "isfinite": Ew(np.isfinite),
    "logical_not": Ew(np.logical_not, "any"),
    "logical_and": Ew(_logical(np.logical_and), "any"),
    "logical_or": Ew(_logical(np.logical_or), "any"),
    "logical_xor": Ew(_logical(np.logical_xor), "any"),
    "bitwise_and": Ew(np.bitwise_and, "integer"),
    "bitwise_or": Ew(np.bitwise_or, "integer"),
    "bitwise_xor": Ew(np.bitwise_xor, "integer"),
    "bitwise_not": Ew(np.invert, "integer"),
    "where": Ew(np.where, "any"),
}

WHOLE_TYPES = (np.int64, np.int32, np.uint8)
TYPES = {"float": (), "number": WHOLE_TYPES, "any": WHOLE_TYPES + (np.bool_,), "integer": WHOLE_TYPES + (np.bool_,)}


DIVISIONS = ("floor_divide", "remainder", "fmod")  # of integers by zero: an error


def differentiable_operands(row):
    return [k for k in range(row.n_in) if not (row.kind == "select" and k == 0) and row.grad_text[k] != "NOGRAD"]


def operands(row, rng, n, dtype, smooth=None):
    """n-element operands of a row from its domain, as arrays of dtype (the condition of where: bool)."""
    dtype = np.dtype(dtype)

    def draw(m):
        xs = []
        for k in range(row.n_in):
            if row.kind == "select" and k == 0:
                xs.append(rng.random(m) < 0.5)
            elif dtype.kind == "f":
                xs.append(rng.uniform(row.lo, row.hi, m).astype(dtype))
            elif dtype.kind == "b":
                xs.append(rng.random(m) < 0.5)
            else:
                xs.append(rng.integers(0 if dtype.kind == "u" else -9, 10, m).astype(dtype))
                if k and row.name in DIVISIONS:
                    xs[k][xs[k] == 0] = 3
        return xs

    if smooth is None:
        return draw(n)
    xs = draw(8 * n)
    good = np.nonzero(smooth(*xs))[0][:n]
    assert len(good) == n, "the domain has too few smooth points"
    return [x[good] for x in xs]


def reference(entry, xs, params, dtype):
    """The right values in dtype (exact rows) or in long double."""
    with np.errstate(all="ignore"):
        if entry.exact or np.dtype(dtype).kind != "f":
            return entry.ref(*xs, *params)
        return entry.ref(*[x.astype(L) if x.dtype.kind == "f" else x for x in xs], *[L(np.dtype(dtype).type(p)) for p in params])
