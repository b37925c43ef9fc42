"""Linear algebra under its names outside of linalg, among them older spellings of what is there."""
from . import _create, linalg
from ._elementwise import where
from ._ffi import push_site, refuse
from .linalg import _batched, _made, _permutation, _reflectors, _row, _same_dtype, _square, _start, _unpacked


def cholesky(input, upper=False):
    """L with input = L L^T (upper: U with U^T U) of symmetric positive definite matrices."""
    push_site()
    return linalg.cholesky(input, upper=upper)


def cholesky_solve(input, input2, upper=False):
    """X of A X = input from input2, the Cholesky factor of A."""
    name, L = "cholesky_solve", input2
    if input.dim() < 2:
        raise refuse(RuntimeError, f"b should have at least 2 dimensions, but has {input.dim()} dimensions instead")
    if L.dim() < 2:
        raise refuse(RuntimeError, f"u should have at least 2 dimensions, but has {L.dim()} dimensions instead")
    _start(name, L, input)
    _square(name, L)
    _same_dtype(name, L, input)
    if L.shape[-1] != input.shape[-2]:
        raise refuse(RuntimeError, f"Incompatible matrix sizes for {name}: each A matrix is {L.shape[-1]} by {L.shape[-1]} but each b matrix is "
                     f"{input.shape[-2]} by {input.shape[-1]}")
    return _row("cholesky_solve", *_batched(input, L), ints=(bool(upper),))


def cholesky_inverse(input, upper=False):
    """Inverse of A from its Cholesky factor, the input."""
    L = input
    _start("cholesky_inverse", L)
    _square("cholesky_inverse", L)
    return _row("cholesky_solve", *_batched(_create.eye(L.shape[-1], dtype=L.dtype), L), ints=(bool(upper),))


def inverse(input):
    push_site()
    return linalg.inv(input)


def det(input):
    """Determinant of square matrices."""
    push_site()
    return linalg.det(input)


def slogdet(input):
    """(sign, logabsdet) of the determinant."""
    push_site()
    return _made("slogdet", *linalg.slogdet(input))


def logdet(input):
    """Logarithm of the determinant: NaN where it is negative, -inf where it is 0."""
    push_site()
    sign, logabsdet = linalg.slogdet(input)
    return where(sign == -1, float("nan"), logabsdet)


def matrix_exp(input):
    """Exponential of square matrices."""
    push_site()
    return linalg.matrix_exp(input)


def matrix_power(input, n):
    """n-th power of square matrices; negative n: of the inverse."""
    push_site()
    return linalg.matrix_power(input, n)


def pinverse(input, rcond=1e-15):
    """Moore-Penrose inverse."""
    push_site()
    return linalg.pinv(input, rcond)


def lu(A, pivot=True, get_infos=False):
    """(LU, pivots), with get_infos (LU, pivots, info): see linalg.lu_factor_ex."""
    push_site()
    LU, pivots, info = linalg.lu_factor_ex(A, pivot=pivot)
    return (LU, pivots, info) if get_infos else (LU, pivots)


def lu_solve(input, LU_data, LU_pivots):
    """X of A X = input from the factors of A."""
    push_site()
    return linalg.lu_solve(LU_data, LU_pivots, input)


def lu_unpack(LU_data, LU_pivots, unpack_data=True, unpack_pivots=True):
    """(P, L, U) from the factors in one matrix; what is not asked for is empty."""
    _start("lu_unpack", LU_data)
    if unpack_pivots and LU_pivots.dtype.name != "int32":
        raise refuse(RuntimeError, "torch.lu_unpack: LU_pivots is expected to be a contiguous tensor of torch.int32 dtype.\nNote: this function is "
                     "intended to be used with the output produced by torch.linalg.lu_factor")
    empty = LU_data.new_zeros(0)
    P = _permutation(LU_pivots, LU_data.shape[-2], LU_data.dtype) if unpack_pivots else empty
    L, U = _unpacked(LU_data) if unpack_data else (empty, empty)
    return _made("lu_unpack", P, L, U)


def qr(input, some=True):
    """(Q, R) with input = Q R; some=False: Q square."""
    push_site()
    return _made("qr", *linalg.qr(input, "reduced" if some else "complete"))


def svd(input, some=True, compute_uv=True):
    """(U, S, V) with input = U diag(S) V^T; some=False: U and V square; without compute_uv they are zeros."""
    push_site()
    if not compute_uv:
        m, n = input.shape[-2:]
        lead = tuple(input.shape[:-2])
        return _made("svd", input.new_zeros(*lead, m, m), linalg.svdvals(input), input.new_zeros(*lead, n, n))
    U, S, Vh = linalg.svd(input, not some)
    return _made("svd", U, S, Vh.mT)


def orgqr(input, tau):
    """See linalg.householder_product."""
    push_site()
    return linalg.householder_product(input, tau)


def ormqr(input, input2, input3, left=True, transpose=False):
    """Q input3 (left=False: input3 Q; transpose: with Q^T), Q the product of all Householder reflections that input and input2 hold."""
    name, tau, other = "ormqr", input2, input3
    _start(name, input, other)
    m = input.shape[-2]
    if tau.shape[-1] > input.shape[-1]:
        raise refuse(RuntimeError, f"torch.{name}: tau.shape[-1] must be less than or equal to input.shape[-1]")
    if other.shape[-2 if left else -1] != m:
        raise refuse(RuntimeError, f"torch.{name}: other.shape[{-2 if left else -1}] must be equal to input.shape[-2]")
    if tuple(input.shape[:-2]) != tuple(tau.shape[:-1]):
        raise refuse(RuntimeError, f"torch.{name}: Expected batch dimensions of tau to be equal to input.shape[:-2], but got {tuple(tau.shape[:-1])}")
    if tuple(input.shape[:-2]) != tuple(other.shape[:-2]):
        raise refuse(RuntimeError, f"torch.{name}: Expected batch dimensions of other to be equal to input.shape[:-2], but got "
                     f"{tuple(other.shape[:-2])}")
    V, T = _reflectors(input, tau)
    if transpose:
        T = T.mT
    if left:
        return other - V @ (T @ (V.mT @ other))
    return other - ((other @ V) @ T) @ V.mT


def triangular_solve(input, A, upper=True, transpose=False, unitriangular=False):
    """(X of A X = input, a copy of A) for triangular A; transpose: with A^T."""
    name = "triangular_solve"
    if input.dim() < 2:
        raise refuse(RuntimeError, f"torch.{name}: Expected b to have at least 2 dimensions, but it has {input.dim()} dimensions instead")
    if A.dim() < 2:
        raise refuse(RuntimeError, f"torch.{name}: Expected A to have at least 2 dimensions, but it has {A.dim()} dimensions instead")
    _start(name, A, input)
    _square(name, A)
    _same_dtype(name, A, input)
    B, A = _batched(input, A)
    X = linalg.solve_triangular(A.mT if transpose else A, B, upper=bool(upper) != bool(transpose), unitriangular=unitriangular)
    return _made("triangular_solve", X, A.clone())


def chain_matmul(*matrices):
    """Product of matrices in the order that takes the fewest multiplications."""
    push_site()
    return matrices[0].clone() if len(matrices) == 1 else linalg.multi_dot(matrices)


def cross(input, other, dim=None):
    """Vector product along a dim of size 3 (None: the first of that size)."""
    push_site()
    if dim is None:
        dim = next((k for k, n in enumerate(input.shape) if n == 3), None)
        if dim is None:
            raise refuse(RuntimeError, "no dimension of size 3 in input")
    return linalg.cross(input, other, dim=dim)
