"""Samples of the rows of linear algebra, with NumPy's functions as reference.

Derivatives in one triangle of a symmetric matrix, in the factor of cholesky_solve and in a matrix that comes beside its
factors are not differences of single elements: test_linalg.py has them.
"""
import numpy as np

from autograd_c._ffi import ffi, lib
from table_fn import S, rnd, row

HAS_LAPACK = "BLAS: none" not in ffi.string(lib.ag_build_info()).decode()
START = set(S)


class Unavailable(list):
    """No samples of a row that this build leaves out."""

    def __bool__(self):
        return True


def mats(*shape, seed=0):
    """Well conditioned matrices, no two elements alike."""
    a = rnd(*shape, seed=seed)
    return a + 2.5 * np.eye(*shape[-2:])


def spd(*shape, seed=0):
    a = rnd(*shape, seed=seed)
    return a @ a.swapaxes(-1, -2) + 2 * np.eye(shape[-1])


def empty(*shape):
    return np.zeros(shape)


def i32(a):
    return np.asarray(a, np.int32)


SQUARE = [(3, 3), (2, 4, 4), (2, 1, 2, 2), (1, 1), (0, 3, 3), (2, 0, 0)]
T_ = lambda a: a.swapaxes(-1, -2)  # noqa: E731


# ---- Cholesky, triangles --------------------------------------------------------------------------------


def cholesky(arrays, ints, floats):
    a = arrays[0]
    L = np.linalg.cholesky(a) if a.size else a
    return (T_(L) if ints[0] else L), np.zeros(a.shape[:-2], np.int32)


row("cholesky", cholesky, [dict(inputs=[spd(*s)], ints=[u, 1], diff=[]) for s in SQUARE for u in (0, 1)], atol=100.0)


def cholesky_solve(arrays, ints, floats):
    b, f = arrays
    f = np.triu(f) if ints[0] else np.tril(f)
    return np.linalg.solve(T_(f) @ f if ints[0] else f @ T_(f), b) if b.size else b


row("cholesky_solve", cholesky_solve, [dict(inputs=[rnd(*s, 2), mats(*s, s[-1])], ints=[u], diff=[0])
                                       for s in ((3,), (2, 4), (0,), (2, 0)) for u in (0, 1)], atol=100.0)


def solve_triangular(arrays, ints, floats):
    a, b = arrays
    upper, left, unit = ints
    a = np.triu(a) if upper else np.tril(a)
    if unit:
        n = np.arange(a.shape[-1])
        a = a.copy()
        a[..., n, n] = 1
    if not b.size:
        return b
    return np.linalg.solve(a, b) if left else T_(np.linalg.solve(T_(a), T_(b)))


row("solve_triangular", solve_triangular,
    [([mats(*s, s[-1]), rnd(*s, 2) if left else rnd(*s[:-1], 2, s[-1])], [u, left, unit])
     for s in ((3,), (2, 4)) for u in (0, 1) for left in (0, 1) for unit in (0, 1)] +
    [([empty(0, 3, 3), empty(0, 3, 2)], [1, 1, 0]), ([empty(2, 0, 0), empty(2, 0, 2)], [1, 1, 0]), ([mats(3, 3), empty(3, 0)], [0, 1, 0])],
    atol=100.0)


# ---- LU -------------------------------------------------------------------------------------------------


def lu_one(a):
    """Gaussian elimination with the largest pivot of each column: LU, pivots from 1."""
    a = a.copy()
    m, n = a.shape
    piv = np.zeros(min(m, n), np.int32)
    for k in range(min(m, n)):
        p = k + int(np.argmax(np.abs(a[k:, k])))
        piv[k] = p + 1
        a[[k, p]] = a[[p, k]]
        a[k + 1:, k] /= a[k, k] or 1.0
        a[k + 1:, k + 1:] -= np.outer(a[k + 1:, k], a[k, k + 1:])
    return a, piv


def lu_of(a):
    lead, (m, n) = a.shape[:-2], a.shape[-2:]
    pairs = [lu_one(x) for x in a.reshape((int(np.prod(lead)), m, n))]
    LU = np.array([p[0] for p in pairs]).reshape(a.shape)
    return LU, i32([p[1] for p in pairs]).reshape(*lead, min(m, n))


def lu_factor(arrays, ints, floats):
    return (*lu_of(arrays[0]), np.zeros(arrays[0].shape[:-2], np.int32))


row("lu_factor", lu_factor, [([mats(*s)], [k % 3]) for k, s in enumerate(SQUARE + [(4, 3), (3, 5), (2, 2, 3), (2, 3, 2), (3, 0)])], atol=100.0)


def perm_of(pivots, m):
    p = list(range(m))
    for i, j in enumerate(pivots):
        p[i], p[j - 1] = p[j - 1], p[i]
    return p


def lu_perm(arrays, ints, floats):
    piv, m = arrays[0], ints[0]
    rows = [perm_of(p, m) for p in piv.reshape(-1, piv.shape[-1])]
    p = np.array(rows, np.int64).reshape(*piv.shape[:-1], m)
    return np.argsort(p, -1) if ints[1] else p


row("lu_perm", lu_perm, [([i32(p)], [m, inverse]) for p, m in (([2, 3, 3], 3), ([[3, 2, 4], [1, 4, 3]], 4), ([4, 4], 5), ([1], 1))
                         for inverse in (0, 1)], exact=True)


def beside(a, *more):
    """A with its factors, as lu_factor gives them."""
    return [a, *lu_of(a), *more]


def solve_lu(arrays, ints, floats):
    a, _, _, b = arrays
    left, turned = ints
    a = T_(a) if turned else a
    if not b.size:
        return b
    return np.linalg.solve(a, b) if left else T_(np.linalg.solve(T_(a), T_(b)))


row("solve_lu", solve_lu,
    [dict(inputs=beside(mats(*s, s[-1]), rnd(*s, 2) if left else rnd(*s[:-1], 2, s[-1])), ints=[left, turned], diff=[3])
     for s in ((3,), (2, 4)) for left in (0, 1) for turned in (0, 1)] +
    [dict(inputs=beside(empty(0, 3, 3), empty(0, 3, 2)), ints=[1, 0], diff=[]), dict(inputs=beside(mats(3, 3), empty(3, 0)), ints=[1, 0], diff=[])],
    atol=200.0)


def inv(arrays, ints, floats):
    return np.linalg.inv(arrays[0]), np.zeros(arrays[0].shape[:-2], np.int32)


row("inv", inv, [([mats(*s)], [1]) for s in SQUARE], atol=200.0)


def det_lu(arrays, ints, floats):
    return np.linalg.det(arrays[0])


def slogdet_lu(arrays, ints, floats):
    return tuple(np.linalg.slogdet(arrays[0]))


def cofactor(arrays, ints, floats):
    """Minors with signs."""
    a = arrays[0]
    out = np.zeros_like(a)
    n = a.shape[-1]
    for i in range(n):
        for j in range(n):
            out[..., i, j] = (-1) ** (i + j) * np.linalg.det(np.delete(np.delete(a, i, -2), j, -1))
    return out


def singular():
    a = np.array([[1.0, 2, 3], [2, 4, 6], [1, 0, 1]])
    lu = np.array([[2.0, 4, 6], [0.5, -2, -2], [0.5, 0, 0]])
    return [a, lu, i32([2, 3, 3])]


row("det_lu", det_lu, [dict(inputs=beside(mats(*s)), diff=[]) for s in SQUARE], atol=200.0)
row("slogdet_lu", slogdet_lu, [dict(inputs=beside(mats(*s)), diff=[]) for s in SQUARE], atol=200.0)
row("cofactor", cofactor, [dict(inputs=beside(mats(*s)), diff=[]) for s in SQUARE] + [dict(inputs=singular(), diff=[], note="singular")], atol=400.0)


def cofactor_grad(arrays, ints, floats):
    """Minors of minors."""
    a, _, _, g = arrays
    out, n = np.zeros_like(a), a.shape[-1]
    for i in range(n):
        for j in range(n):
            for k in range(n):
                for m in range(n):
                    if i == k or j == m:
                        continue
                    minor = np.delete(np.delete(a, (i, k), -2), (j, m), -1)
                    sign = (-1) ** (i + j + k + m) * (1 if (i < k) == (j < m) else -1)
                    out[..., i, j] += sign * g[..., k, m] * np.linalg.det(minor)
    return out


row("cofactor_grad", cofactor_grad, [dict(inputs=beside(mats(*s), rnd(*s, seed=5)), diff=[3]) for s in SQUARE] +
    [dict(inputs=[*singular(), rnd(3, 3)], diff=[3], note="singular"), dict(inputs=beside(empty(2, 2) + 0, rnd(2, 2)), diff=[3], note="zero")], atol=400.0)


# ---- orthogonal factors -----------------------------------------------------------------------------------


def qr(arrays, ints, floats):
    a, mode = arrays[0], ("reduced", "complete", "r")[ints[0]]
    r = np.linalg.qr(a, mode)
    return (np.zeros(0), r) if mode == "r" else tuple(r)


TALL = [(4, 2), (2, 5, 3), (0, 4, 2), (3, 0)]
WIDE = [(2, 4), (2, 3, 5), (0, 2)]
row("qr", qr, [([mats(*s)], [0]) for s in SQUARE + TALL + WIDE] + [([mats(*s)], [1]) for s in [(3, 3)] + WIDE] +
    [dict(inputs=[mats(*s)], ints=[m], diff=[]) for s in TALL for m in (1, 2)] + [dict(inputs=[mats(2, 3)], ints=[2], diff=[])], atol=200.0)


def eigh(arrays, ints, floats):
    w, v = np.linalg.eigh(arrays[0], "LU"[ints[0]])
    return w, v if ints[1] else np.zeros(0)


row("eigh", eigh, [dict(inputs=[spd(*s)], ints=[u, v], diff=[]) for s in SQUARE for u in (0, 1) for v in (0, 1)], atol=400.0)


def svd(arrays, ints, floats):
    u, s, vh = np.linalg.svd(arrays[0], bool(ints[0]))
    return (u, s, vh) if ints[1] else (np.zeros(0), s, np.zeros(0))


row("svd", svd, [([mats(*s)], [0, 1]) for s in SQUARE + TALL + WIDE] + [([mats(*s)], [1, 1]) for s in [(3, 3)]] +
    [dict(inputs=[mats(*s)], ints=[1, 1], diff=[]) for s in TALL + WIDE] + [dict(inputs=[mats(*s)], ints=[0, 0], diff=[]) for s in TALL + WIDE],
    atol=400.0)


def pinv(arrays, ints, floats):
    a, atol, rtol = arrays
    if ints and ints[0]:
        a = np.tril(a) + T_(np.tril(a, -1))
    if not a.size:
        return T_(a)
    u, s, vh = np.linalg.svd(a, False)
    cut = np.maximum(atol, rtol * s[..., 0])[..., None]
    return T_(vh) @ (np.where(s > cut, 1 / s, 0)[..., None] * T_(u))


def tol(*lead):
    return [np.zeros(lead), np.full(lead, 1e-6)]


LOW = rnd(2, 4, 1) @ rnd(2, 1, 3, seed=1)  # rank 1: differences leave it
row("pinv", pinv, [dict(inputs=[mats(*s), *tol(*s[:-2])], diff=[0]) for s in SQUARE + TALL + WIDE] +
    [dict(inputs=[LOW, np.full(2, 1e-4), np.zeros(2)], diff=[]), dict(inputs=[spd(3, 3), *tol()], ints=[1], diff=[])], atol=400.0)


def lstsq(arrays, ints, floats):
    a, b = arrays
    m, n = a.shape[-2:]
    lead = a.shape[:-2]
    x = np.linalg.pinv(a, floats[0]) @ b if a.size else np.zeros((*lead, n, b.shape[-1]))
    s = np.linalg.svd(a, compute_uv=False) if a.size else np.zeros((*lead, min(m, n)))
    rank = (s > floats[0] * s[..., :1]).sum(-1)
    return x, np.asarray(rank, np.int64), s if ints[0] in (1, 2) else np.zeros_like(s)


ROOM = [((4, 2), (4, 1)), ((2, 4), (2, 3)), ((3, 3), (3, 2)), ((2, 4, 3), (2, 4, 2)), ((2, 2, 3), (2, 2, 1))]
row("lstsq", lstsq, [dict(inputs=[mats(*s), rnd(*t, seed=3)], ints=[d], floats=[1e-6]) for s, t in ROOM for d in range(4)] +
    [dict(inputs=[LOW, rnd(2, 4, 2)], ints=[d], floats=[1e-5], diff=[1]) for d in (0, 1, 2)] +
    [dict(inputs=[empty(0, 3, 2), empty(0, 3, 1)], ints=[0], floats=[1e-6], diff=[])], atol=400.0)


# ---- matrix_exp -----------------------------------------------------------------------------------------


def matrix_exp(arrays, ints, floats):
    """Taylor's series of A / 2^k, squared k times."""
    a = arrays[0].astype(np.longdouble)
    n = a.shape[-1]
    k = max(0, int(np.ceil(np.log2(max(np.abs(a).sum(-2).max(initial=0.0), 1e-9)))) + 3)
    a = a / 2.0**k
    term = out = np.broadcast_to(np.eye(n, dtype=np.longdouble), a.shape)
    for i in range(1, 30):
        term = term @ a / i
        out = out + term
    for _ in range(k):
        out = out @ out
    return out.astype(np.float64)


row("matrix_exp", matrix_exp, [([scale * rnd(*s)],) for s in SQUARE for scale in (0.004, 0.1, 1.0)] +
    [dict(inputs=[scale * rnd(3, 3)], diff=[]) for scale in (0.03, 0.3, 6.0)], atol=400.0)

if not HAS_LAPACK:
    for name in set(S) - START - {"lu_perm", "det_lu", "slogdet_lu"}:
        S[name] = Unavailable()
