"""Linear algebra under PyTorch's names: values against NumPy, derivatives of order 1 and 2 against differences, refusals."""
import pickle

import numpy as np
import pytest

import autograd_c as torch
from autograd_c import linalg as L
from table import call, check_gradients, same_bits, tensor, values
from table_fn_linalg import HAS_LAPACK, mats, spd

RNG = np.random.default_rng(11)


@pytest.fixture(autouse=True)
def lapack(request):
    if not HAS_LAPACK and "without_blas" not in request.node.name:
        pytest.skip("this build has no LAPACK")


def t(a, dtype=None):
    return tensor(np.asarray(a, dtype))


def near(got, want, tol=1e-10):
    np.testing.assert_allclose(values(got), want, rtol=tol, atol=tol * max(1.0, np.abs(want).max(initial=0.0)))


def sym(x):
    return x + x.mT


SHAPES = [(1, 1), (3, 3), (2, 4, 4), (2, 1, 3, 3), (0, 3, 3), (2, 0, 0)]
RECT = [(4, 2), (2, 4), (2, 5, 3), (2, 3, 5), (0, 3, 2)]
shapes = pytest.mark.parametrize("shape", SHAPES, ids=str)
both = pytest.mark.parametrize("dtype", [np.float32, np.float64], ids=["float32", "float64"])


# ---- values -----------------------------------------------------------------------------------------------


@both
@shapes
def test_square_matrices(shape, dtype):
    tol = 1e-10 if dtype == np.float64 else 1e-4
    a = mats(*shape).astype(dtype)
    eye = np.broadcast_to(np.eye(shape[-1]), shape)
    A = tensor(a)
    near(L.inv(A) @ A, eye, tol)
    near(torch.inverse(A), np.linalg.inv(a), tol)
    near(L.det(A), np.linalg.det(a), tol)
    near(A.det(), np.linalg.det(a), tol)
    sign, logabs = L.slogdet(A)
    near(sign, np.linalg.slogdet(a)[0], tol)
    near(logabs, np.linalg.slogdet(a)[1], tol)
    b = RNG.standard_normal((*shape[:-1], 2)).astype(dtype)
    near(A @ L.solve(A, tensor(b)), b, tol)
    near(L.solve(A, tensor(b.swapaxes(-1, -2)), left=False) @ A, b.swapaxes(-1, -2), tol)
    result, info = L.solve_ex(A, tensor(b))
    near(A @ result, b, tol)
    assert not values(info).any() and info.dtype is torch.int32
    near(L.matrix_power(A, 3), np.linalg.matrix_power(a, 3), tol)
    near(L.matrix_power(A, 0), eye, tol)
    near(L.matrix_power(A, -2) @ A @ A, eye, tol * 10)
    LU, pivots = L.lu_factor(A)
    P, low, up = torch.lu_unpack(LU, pivots)
    near(P @ low @ up, a, tol)
    for x, y in zip(L.lu(A), (P, low, up)):
        same_bits(x, values(y))
    for left in (True, False):
        for adjoint in (True, False):
            rhs = b if left else b.swapaxes(-1, -2)
            x = L.lu_solve(LU, pivots, tensor(rhs), left=left, adjoint=adjoint)
            M = A.mT if adjoint else A
            near(M @ x if left else x @ M, rhs, tol)
    assert values(L.cond(A)).shape == shape[:-2]
    near(L.matrix_exp(A * 0), eye, tol)


@both
@shapes
def test_symmetric_matrices(shape, dtype):
    tol = 1e-10 if dtype == np.float64 else 2e-4
    a = spd(*shape).astype(dtype)
    A = tensor(a)
    C = L.cholesky(A)
    near(C @ C.mT, a, tol)
    U = L.cholesky(A, upper=True)
    near(U.mT @ U, a, tol)
    near(U.mT, values(C), tol)
    other = A.tril() * 1  # the other triangle is not read
    same_bits(L.cholesky(other), values(C))
    b = RNG.standard_normal((*shape[:-1], 2)).astype(dtype)
    near(A @ torch.cholesky_solve(tensor(b), C), b, tol)
    near(A @ torch.cholesky_solve(tensor(b), U, upper=True), b, tol)
    near(torch.cholesky_inverse(C) @ A, np.broadcast_to(np.eye(shape[-1]), shape), tol)
    w, V = L.eigh(A)
    near(V * w.unsqueeze(-2) @ V.mT, a, tol)
    near(w, np.linalg.eigvalsh(a), tol)
    near(L.eigvalsh(A.triu(), "U"), np.linalg.eigvalsh(a), tol)


@both
@pytest.mark.parametrize("shape", SHAPES + RECT, ids=str)
def test_factors_of_any_shape(shape, dtype):
    tol = 1e-10 if dtype == np.float64 else 1e-4
    a = mats(*shape).astype(dtype)
    A = tensor(a)
    m, n = shape[-2:]
    for mode in ("reduced", "complete"):
        Q, R = L.qr(A, mode)
        near(Q @ R, a, tol)
        near(Q.mT @ Q, np.broadcast_to(np.eye(Q.shape[-1]), (*shape[:-2], Q.shape[-1], Q.shape[-1])), tol)
        assert not values(R.tril(-1)).any()
    near(L.qr(A, "r")[1].abs(), np.abs(values(L.qr(A)[1])), tol)
    for full in (True, False):
        U, S, Vh = L.svd(A, full)
        k = min(m, n)
        near(U[..., :k] * S.unsqueeze(-2) @ Vh[..., :k, :], a, tol)
        assert tuple(U.shape) == (*shape[:-1], m if full else k) and tuple(Vh.shape) == (*shape[:-2], n if full else k, n)
        near(Vh @ Vh.mT, np.broadcast_to(np.eye(Vh.shape[-2]), (*shape[:-2], Vh.shape[-2], Vh.shape[-2])), tol)
    near(L.svdvals(A), values(S), tol)
    P = L.pinv(A)
    near(A @ P @ A, a, tol)
    near(P @ A @ P, values(P), tol)
    LU, pivots, info = L.lu_factor_ex(A)
    near(torch.lu_unpack(LU, pivots).P @ torch.lu_unpack(LU, pivots).L @ torch.lu_unpack(LU, pivots).U, a, tol)


def test_broadcast_batches_and_vectors():
    a, b = mats(2, 1, 3, 3), RNG.standard_normal((4, 3, 2))
    near(L.solve(t(a), t(b)), np.linalg.solve(a, b))
    near(L.solve_triangular(t(a).tril(), t(b), upper=False), np.linalg.solve(np.tril(a), b))
    v = RNG.standard_normal((2, 3))
    near(L.solve(t(mats(2, 3, 3)), t(v)), np.linalg.solve(mats(2, 3, 3), v[..., None])[..., 0])
    near(L.solve(t(mats(2, 3, 3)), t(v[0])), np.linalg.solve(mats(2, 3, 3), np.broadcast_to(v[0], (2, 3))[..., None])[..., 0])
    x = torch.triangular_solve(t(b), t(a[0, 0]), transpose=True)
    near(x.solution, np.linalg.solve(np.triu(a[0, 0]).T, b))
    assert x._fields == ("solution", "cloned_coefficient")


def reflections(k):
    """LAPACK's form of the reflections of a matrix's columns, from NumPy."""
    h, tau = np.linalg.qr(RNG.standard_normal((5, k)), "raw")
    return np.ascontiguousarray(h.T), tau


def test_products_of_reflections():
    a, tau = reflections(3)
    Q = L.householder_product(t(a), t(tau))
    near(Q.mT @ Q, np.eye(3))
    near(Q @ t(np.triu(a[:3])), values(Q) @ np.triu(a[:3]))
    full = values(torch.ormqr(t(a), t(tau), t(np.eye(5))))
    near(Q, full[:, :3])
    c = RNG.standard_normal((5, 5))
    for left in (True, False):
        for transpose in (True, False):
            q = full.T if transpose else full
            near(torch.ormqr(t(a), t(tau), t(c), left, transpose), q @ c if left else c @ q)
    near(L.householder_product(t(a), t(tau * 0)), np.eye(5, 3))


@pytest.mark.parametrize("driver", [None, "gelsy", "gelsd", "gelss", "gels"])
@pytest.mark.parametrize("shape", [(5, 3), (3, 5), (3, 3), (2, 5, 3)], ids=str)
def test_least_squares(shape, driver):
    a, b = mats(*shape), RNG.standard_normal((*shape[:-1], 2))
    r = L.lstsq(t(a), t(b), driver=driver)
    near(r.solution, np.linalg.pinv(a) @ b)
    tall = shape[-2] > shape[-1]
    if tall and driver in ("gelsd", "gelss", "gels"):
        near(r.residuals, ((a @ (np.linalg.pinv(a) @ b) - b) ** 2).sum(-2))
    else:
        assert r.residuals.numel() == 0
    if driver == "gels":
        assert r.rank.numel() == 0
    else:
        same_bits(r.rank, np.full(shape[:-2], min(shape[-2:]), np.int64))
    if driver in ("gelsd", "gelss"):
        near(r.singular_values, np.linalg.svd(a, compute_uv=False))
    else:
        assert r.singular_values.numel() == 0


def test_least_squares_of_low_rank():
    a = np.outer([1.0, 2, 3, 4], [1.0, -1, 2])
    b = RNG.standard_normal((4, 1))
    for driver in ("gelsy", "gelsd", "gelss"):
        r = L.lstsq(t(a), t(b), driver=driver)
        near(r.solution, np.linalg.pinv(a, 1e-12) @ b)
        assert int(r.rank) == 1
    assert int(L.matrix_rank(t(a))) == 1 and int(L.matrix_rank(t(a @ a.T), hermitian=True)) == 1
    near(L.pinv(t(a)), np.linalg.pinv(a, 1e-12))
    near(L.pinv(t(a @ a.T), hermitian=True), np.linalg.pinv(a @ a.T, 1e-12))


def test_norms():
    a, v = mats(2, 4, 3), RNG.standard_normal(5)
    for ord in ("fro", "nuc", 2, -2, 1, -1, np.inf, -np.inf):
        near(L.matrix_norm(t(a), ord), np.linalg.norm(a, ord, (-2, -1)))
        near(L.matrix_norm(t(a), ord, (0, 2), True), np.linalg.norm(a, ord, (0, 2), True))
        near(L.norm(t(a[0]), ord), np.linalg.norm(a[0], ord))
    for ord in (0, 0.5, 1, 2, 3, -1, np.inf, -np.inf):
        near(L.vector_norm(t(v), ord), np.linalg.norm(v, ord))
        near(L.norm(t(v), ord), np.linalg.norm(v, ord))
    near(L.norm(t(a)), np.linalg.norm(a))
    near(torch.norm(t(a[0]), "nuc"), np.linalg.norm(a[0], "nuc"))
    for p in (None, 2, -2, 1, -1, np.inf, "fro", "nuc"):
        near(L.cond(t(mats(3, 3)), p), np.linalg.cond(mats(3, 3), p))
    assert float(L.cond(t(np.zeros((2, 2))), 1)) == np.inf


@pytest.mark.parametrize("ord", [0.5, 1, 2, 3, -0.5, -1, -2, np.inf, -np.inf])
def test_gradient_of_norms_at_zero(ord):
    """0, the subgradient that PyTorch chooses."""
    for a in ([0.0, 0.0, 0.0], [0.0, 2.0, 0.0]):
        x = t(a).requires_grad_()
        (g,) = torch.autograd.grad(L.vector_norm(x, ord), [x])
        assert np.isfinite(values(g)).all() and values(g)[0] == 0
        if not any(a) or ord < 0:
            assert not values(g).any()


def test_the_rest():
    a, b, c = RNG.standard_normal((2, 7)), RNG.standard_normal((7, 3)), RNG.standard_normal((3, 5))
    near(L.multi_dot([t(a), t(b), t(c)]), a @ b @ c)
    near(L.multi_dot([t(a[0]), t(b), t(c[:, 0])]), a[0] @ b @ c[:, 0])
    near(torch.chain_matmul(t(a), t(b), t(c)), a @ b @ c)
    x = RNG.standard_normal((2, 3))
    near(L.cross(t(x), t(x[:1] * 2 + 1)), np.cross(x, x[:1] * 2 + 1))
    near(L.vander(t(x[0]), 4), np.vander(x[0], 4, increasing=True))
    near(L.vecdot(t(x), t(x)), (x * x).sum(-1))
    same_bits(L.diagonal(t(x), offset=1), np.diagonal(x, 1))
    big = RNG.standard_normal((4, 6, 8, 3))
    near(L.tensorinv(t(big), 2), np.linalg.tensorinv(big, 2))
    big = mats(6, 6).reshape(2, 3, 6)
    near(L.tensorsolve(t(big), t(x)), np.linalg.tensorsolve(big, x))
    near(L.tensorsolve(t(big.transpose(0, 2, 1)), t(x), (1,)), np.linalg.tensorsolve(big, x))
    near(torch.logdet(t(spd(3, 3))), np.log(np.linalg.det(spd(3, 3))))
    assert np.isnan(values(torch.logdet(t([[-1.0]]))))
    u, s, v = torch.svd(t(b))
    near(u * s @ v.mT, b)


def test_exponentials_of_many_sizes():
    """exp(A) exp(-A) = 1, and the exponential of a rotation's generator is the rotation."""
    for scale in (1e-3, 0.1, 0.8, 2.0, 5.0, 12.0):
        a = scale * mats(4, 4) / 4
        near(torch.matrix_exp(t(a)) @ torch.matrix_exp(t(-a)), np.eye(4), 1e-9)
        w = np.array([[0.0, -scale], [scale, 0.0]])
        near(torch.matrix_exp(t(w)), [[np.cos(scale), -np.sin(scale)], [np.sin(scale), np.cos(scale)]], 1e-12)
    assert np.isnan(values(torch.matrix_exp(t([[np.nan, 0], [0, 1.0]])))).all()


def test_named_tuples():
    r = L.slogdet(t(mats(3, 3)))
    assert r._fields == ("sign", "logabsdet") and repr(r).startswith("torch.return_types.linalg_slogdet(\nsign=tensor(")
    assert type(pickle.loads(pickle.dumps(torch.linalg.svd(t(mats(2, 2)))))) is type(L.svd(t(mats(2, 2))))
    assert torch.svd(t(mats(2, 2)))._fields == ("U", "S", "V") and L.svd(t(mats(2, 2)))._fields == ("U", "S", "Vh")


# ---- derivatives ------------------------------------------------------------------------------------------


def one(*shape, seed=0):
    return mats(*shape, seed=seed)


B32 = RNG.standard_normal((2, 3, 2))
REFLECT = reflections(3)
SING = np.array([[1.0, 2, 3], [2, 4, 6], [1, 0, 1]])
CASES = {
    "cholesky": (lambda a: L.cholesky(sym(a)), [spd(2, 3, 3)]),
    "cholesky_upper": (lambda a: torch.cholesky(sym(a), True), [spd(3, 3)]),
    "cholesky_ex": (lambda a: L.cholesky_ex(sym(a)).L, [spd(2, 2)]),
    "cholesky_solve": (lambda b, a: torch.cholesky_solve(b, L.cholesky(sym(a))), [B32, spd(3, 3)]),
    "cholesky_inverse": (lambda a: torch.cholesky_inverse(L.cholesky(sym(a))), [spd(3, 3)]),
    "solve": (L.solve, [one(2, 3, 3), B32]),
    "solve_broadcast": (L.solve, [one(3, 3), B32]),
    "solve_vector": (L.solve, [one(2, 3, 3), B32[..., 0]]),
    "solve_right": (lambda a, b: L.solve(a, b.mT, left=False), [one(2, 3, 3), B32]),
    "solve_ex": (lambda a, b: L.solve_ex(a, b).result, [one(3, 3), B32[0]]),
    "solve_triangular": (lambda a, b: L.solve_triangular(a, b, upper=True, unitriangular=True), [one(3, 3), B32]),
    "triangular_solve": (lambda b, a: tuple(torch.triangular_solve(b, a, upper=False, transpose=True)), [B32, one(3, 3)]),
    "inv": (L.inv, [one(2, 3, 3)]),
    "det": (L.det, [one(2, 3, 3)]),
    "det_singular": (L.det, [SING]),
    "det_zero": (L.det, [np.zeros((2, 2))]),
    "slogdet": (lambda a: L.slogdet(a).logabsdet, [one(2, 3, 3)]),
    "logdet": (torch.logdet, [spd(3, 3)]),
    "lu": (lambda a: L.lu(a)[1:], [one(2, 3, 3)]),
    "lu_wide": (lambda a: L.lu(a)[1:], [one(2, 4)]),
    "lu_tall": (lambda a: L.lu(a)[1:], [one(4, 2)]),
    "lu_solve": (lambda a, b: L.lu_solve(*L.lu_factor(a), b), [one(2, 3, 3), B32]),
    "lu_solve_right": (lambda a, b: L.lu_solve(*L.lu_factor(a), b.mT, left=False, adjoint=True), [one(2, 3, 3), B32]),
    "qr": (lambda a: tuple(L.qr(a)), [one(2, 4, 3)]),
    "qr_wide": (lambda a: tuple(L.qr(a)), [one(2, 2, 4)]),
    "qr_r": (lambda a: L.qr(a).R, [one(2, 4)]),
    "qr_q": (lambda a: L.qr(a).Q, [one(2, 4)]),
    "eigh": (lambda a: tuple(L.eigh(sym(a))), [spd(2, 3, 3)]),
    "eigvalsh": (lambda a: L.eigvalsh(sym(a)), [spd(3, 3)]),
    "svd": (lambda a: tuple(L.svd(a, False)), [one(2, 3, 3)]),
    "svd_tall": (lambda a: tuple(L.svd(a, False)), [one(4, 2)]),
    "svd_wide": (lambda a: tuple(L.svd(a, False)), [one(2, 4)]),
    "svd_full": (lambda a: L.svd(a)[0][..., :2], [one(4, 2)]),
    "svdvals": (L.svdvals, [one(2, 3, 2)]),
    "pinv": (L.pinv, [one(2, 4, 3)]),
    "pinv_low_rank": (lambda a, b: L.pinv(a @ b), [one(4, 2), one(2, 3)]),
    "pinv_hermitian": (lambda a: L.pinv(sym(a), hermitian=True), [spd(3, 3)]),
    "lstsq_tall": (lambda a, b: L.lstsq(a, b).solution, [one(4, 2), one(4, 1)]),
    "lstsq_wide": (lambda a, b: L.lstsq(a, b, driver="gels").solution, [one(2, 4), one(2, 3)]),
    "lstsq_low_rank": (lambda a, b, c: L.lstsq(a @ b, c, driver="gelsd").solution, [one(4, 2), one(2, 3), one(4, 1)]),
    "lstsq_residuals": (lambda a, b: L.lstsq(a, b, driver="gels").residuals, [one(4, 2), one(4, 3)]),
    "householder_product": (L.householder_product, list(REFLECT)),
    "householder_of_nothing": (L.householder_product, [REFLECT[0], REFLECT[1] * 0]),
    "ormqr": (lambda a, tau, c: torch.ormqr(a, tau, c, False, True), [*REFLECT, one(2, 5)]),
    "matrix_exp": (torch.matrix_exp, [one(2, 3, 3) / 2]),
    "matrix_power": (lambda a: L.matrix_power(a, -3), [one(3, 3)]),
    "multi_dot": (lambda a, b, c: L.multi_dot([a, b, c]), [one(2, 4), one(4, 3), one(3, 2)]),
    "nuc": (lambda a: L.matrix_norm(a, "nuc"), [one(3, 2)]),
    "spectral": (lambda a: L.matrix_norm(a, 2), [one(2, 3, 3)]),
    "cond": (L.cond, [one(3, 3)]),
    "cond_1": (lambda a: L.cond(a, 1), [one(3, 3)]),
    "tensorinv": (lambda a: L.tensorinv(a, 1), [one(4, 4).reshape(4, 2, 2)]),
    "tensorsolve": (L.tensorsolve, [one(4, 4).reshape(4, 2, 2), one(4, 1)[:, 0]]),
    "vander": (lambda a: L.vander(a, 4), [np.array([0.5, -1.5, 0.0])]),
    "cross": (L.cross, [one(2, 3), one(1, 3, seed=1)]),
}


@pytest.mark.parametrize("name", CASES)
def test_derivatives(name):
    f, arrays = CASES[name]
    check_gradients(lambda ts: f(*ts), arrays, range(len(arrays)), rtol=2e-6, atol=2e-6, what=name)


def test_third_derivative_of_the_determinant():
    """x y z's: the determinant of a diagonal matrix is the product of its elements."""
    d = t([2.0, 3.0, 5.0]).requires_grad_()
    y = L.det(torch.diag(d))
    for k, want in enumerate((15.0, 5.0, 1.0)):
        y = torch.autograd.grad(y, d, create_graph=True)[0][k]
        near(y, np.array(want))


def test_derivatives_that_are_refused():
    a = t(mats(4, 2)).requires_grad_()
    for mode, words in (("complete", "not differentiable when mode='complete'"), ("r", "depends on Q, which is not computed")):
        with pytest.raises(RuntimeError, match=words):
            L.qr(a, mode)[1].sum().backward()
    a.grad = None


def test_the_other_triangle_gets_half_of_the_gradient():
    """As PyTorch has it: the gradient in a symmetric matrix is symmetric, whichever triangle was read."""
    a = t(np.tril(spd(3, 3))).requires_grad_()
    for f in (lambda x: L.cholesky(x).sum(), lambda x: L.eigvalsh(x)[0], lambda x: (L.eigh(x)[1] ** 2 * t(one(3, 3))).sum()):
        (g,) = torch.autograd.grad(f(a), [a])
        near(g, values(g).T)


def test_frozen_steps_give_eagers_bits():
    def step(a, b):
        c = L.cholesky(a @ a.mT + torch.eye(3, dtype=torch.float64))
        w = L.eigvalsh(c + c.mT).sum() + L.svdvals(a).prod() + L.det(a) + L.slogdet(a)[1] + torch.matrix_exp(a).sum()
        y = L.solve(a, b).sum() + L.lstsq(a, b).solution.sum() + L.pinv(a).sum() + L.qr(a).R.sum() + torch.cholesky_solve(b, c).sum()
        return torch.autograd.grad(w + y, [a, b])

    frozen = torch.freeze(step)
    for seed in range(3):
        a, b = one(3, 3, seed=seed), one(3, 2, seed=seed + 7)
        want = step(t(a).requires_grad_(), t(b).requires_grad_())
        got = frozen(t(a).requires_grad_(), t(b).requires_grad_())
        for x, y in zip(got, want):
            same_bits(x, values(y))


# ---- refusals ---------------------------------------------------------------------------------------------


def test_singular_and_indefinite_matrices():
    bad = np.stack([np.eye(2), np.ones((2, 2))])
    ones = t(np.ones((2, 2)))
    with pytest.raises(L.LinAlgError, match=r"linalg.inv: The diagonal element 2 is zero, the inversion could not be completed"):
        L.inv(ones)
    with pytest.raises(L.LinAlgError, match=r"linalg.inv: \(Batch element 1\): The diagonal element 2"):
        L.inv(t(bad))
    with pytest.raises(L.LinAlgError, match=r"linalg.solve: \(Batch element 1\): The solver failed because the input matrix is singular"):
        L.solve(t(bad), t(np.ones((2, 2))))
    with pytest.raises(L.LinAlgError, match=r"linalg.lu_factor: U\[2,2\] is zero and using it on lu_solve would result in a division by zero"):
        L.lu_factor(ones)
    with pytest.raises(L.LinAlgError, match=r"linalg.cholesky: The factorization could not be completed because the input is not "
                                            r"positive-definite \(the leading minor of order 2 is not positive-definite\)"):
        L.cholesky(ones)
    with pytest.raises(L.LinAlgError, match=r"\(Batch element 0\)"):
        L.cholesky(t(-bad))
    assert issubclass(L.LinAlgError, RuntimeError)
    same_bits(L.inv_ex(t(bad)).info, np.array([0, 2], np.int32))
    same_bits(L.cholesky_ex(t(-bad)).info, np.array([1, 1], np.int32))
    same_bits(L.lu_factor_ex(t(bad)).info, np.array([0, 2], np.int32))
    with pytest.raises(L.LinAlgError):
        L.inv_ex(t(bad), check_errors=True)
    with pytest.raises(L.LinAlgError, match="linalg.svd: The algorithm failed to converge because the input matrix contained non-finite"):
        L.svd(t([[np.nan, 1], [1, 2]]))
    near(L.det(ones), np.array(0.0))
    assert values(L.slogdet(ones).logabsdet) == -np.inf and values(L.slogdet(ones).sign) == 0
    near(L.lu(ones)[2], np.array([[1.0, 1], [0, 0]]))


SQUARE_ONLY = ["cholesky", "cholesky_ex", "inv", "inv_ex", "det", "slogdet", "eigh", "eigvalsh", "matrix_exp"]


@pytest.mark.parametrize("name", SQUARE_ONLY)
def test_matrices_that_are_not_square(name):
    f = getattr(L, name)
    with pytest.raises(RuntimeError, match=f"linalg.{name}: A must be batches of square matrices, but they are 2 by 3 matrices"):
        f(t(np.ones((2, 3))))


@pytest.mark.parametrize("name", SQUARE_ONLY + ["lu", "lu_factor", "qr", "svd", "svdvals", "pinv", "cond"])
def test_what_is_no_matrix(name):
    f = getattr(L, name)
    with pytest.raises(RuntimeError, match=f"linalg.{name}: The input tensor A must have at least 2 dimensions"):
        f(t(np.ones(3)))
    with pytest.raises(RuntimeError, match=f"linalg.{name}: Expected a floating point or complex tensor as input. Got Long"):
        f(t(np.ones((2, 2), np.int64)))
    with pytest.raises(TypeError, match="must be Tensor, not list"):
        f([[1.0]])


def test_operands_that_do_not_fit():
    a, b = t(np.eye(2)), t(np.ones((3, 1)))
    with pytest.raises(RuntimeError, match=r"linalg.solve: Incompatible shapes of A and B for the equation AX = B \(2x2 and 3x1\)"):
        L.solve(a, b)
    with pytest.raises(RuntimeError, match=r"linalg.solve_triangular: Incompatible shapes of A and B for the equation XA = B \(2x2 and 3x1\)"):
        L.solve_triangular(a, b, upper=True, left=False)
    with pytest.raises(RuntimeError, match="linalg.solve: Expected A and B to have the same dtype"):
        L.solve(a, t(np.ones((2, 1), np.float32)))
    with pytest.raises(RuntimeError, match="hape mismatch|must match|broadcast"):
        L.solve(t(mats(2, 3, 3)), t(np.ones((4, 3, 2))))
    with pytest.raises(RuntimeError, match="Incompatible matrix sizes for cholesky_solve"):
        torch.cholesky_solve(b, a)
    with pytest.raises(RuntimeError, match="parameter `driver` should be one of"):
        L.lstsq(a, a, driver="gelsx")
    with pytest.raises(RuntimeError, match="should match other.size"):
        L.lstsq(a, b)
    with pytest.raises(RuntimeError, match="qr received unrecognized mode 'full'"):
        L.qr(a, "full")
    with pytest.raises(RuntimeError, match="Expected UPLO argument to be 'L' or 'U', but got X"):
        L.eigh(a, "X")
    with pytest.raises(RuntimeError, match="LU without pivoting is not implemented on the CPU"):
        L.lu(a, pivot=False)
    with pytest.raises(RuntimeError, match="greater than or equal to"):
        L.householder_product(t(np.ones((2, 3))), t(np.ones(2)))
    with pytest.raises(RuntimeError, match="linalg.matrix_norm: Order 3 not supported"):
        L.matrix_norm(a, 3)
    with pytest.raises(RuntimeError, match="dims must be different"):
        L.matrix_norm(a, "fro", (0, 0))
    with pytest.raises(RuntimeError, match="tensors 0 and 1 with shapes"):
        L.multi_dot([a, b])
    with pytest.raises(RuntimeError, match="must have length 3"):
        L.cross(a, a)


def test_pivots_out_of_range_are_refused():
    """Factors that no factorisation made must not reach LAPACK."""
    a, b = np.eye(2), np.ones((2, 1))
    for piv in ([0, 2], [1, 3]):
        p = np.array(piv, np.int32)
        with pytest.raises(RuntimeError, match="pivot"):
            call("solve_lu", [t(a), t(a), t(p), t(b)], [1, 0])
        with pytest.raises(RuntimeError, match="pivot"):
            L.lu_solve(t(a), t(p), t(b))
        with pytest.raises(RuntimeError, match="pivot"):
            call("det_lu", [t(a), t(a), t(p)])
        with pytest.raises(RuntimeError, match="pivot"):
            call("cofactor", [t(a), t(a), t(p)])


def test_failures_name_the_line():
    with pytest.raises(L.LinAlgError, match=r"\[inv\(float64\[2, 2\]\), at .*test_linalg.py:\d+ in test_failures_name_the_line\]"):
        L.inv(t(np.ones((2, 2))))


# ---- builds without LAPACK ----------------------------------------------------------------------------------


REFUSED = {"cholesky": 1, "inv": 1, "det": 1, "slogdet": 1, "solve": 2, "lu": 1, "qr": 1, "eigh": 1, "svd": 1, "pinv": 1, "lstsq": 2,
           "matrix_exp": 1, "svdvals": 1, "cond": 1}


@pytest.mark.parametrize("name", REFUSED)
def test_without_blas_functions_say_so(name, monkeypatch):
    monkeypatch.setattr(L, "_HAS_LAPACK", False)
    with pytest.raises(NotImplementedError, match=f"linalg.{name} needs LAPACK, which this build leaves out"):
        getattr(L, name)(*[t(np.eye(2))] * REFUSED[name])


@pytest.mark.skipif(HAS_LAPACK, reason="this build has LAPACK")
@pytest.mark.parametrize("row, n, ints, floats", [("cholesky", 1, [0, 1], []), ("solve_triangular", 2, [1, 1, 0], []), ("lu_factor", 1, [], []),
                                                  ("inv", 1, [], []), ("qr", 1, [0], []), ("eigh", 1, [0, 1], []), ("svd", 1, [0, 1], []),
                                                  ("lstsq", 2, [0], [1e-9]), ("matrix_exp", 1, [], []), ("cholesky_solve", 2, [], [])])
def test_without_blas_rows_say_so(row, n, ints, floats):
    with pytest.raises(NotImplementedError, match=f"{row} needs LAPACK, which this build leaves out"):
        call(row, [t(np.eye(2))] * n, ints, floats)
