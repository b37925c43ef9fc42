"""Linear algebra under PyTorch's names: matrices in the last two dims, batches of them in the dims before.

The factorisations are LAPACK's.  Every result has derivatives of any order, for they are made of operations that are
differentiable themselves; of a factorisation that is not unique (signs of singular vectors) they hold for losses that do
not depend on the choice.  Real numbers only.  Builds without BLAS refuse each of these functions by name.
"""
from collections import namedtuple as _namedtuple
import math as _math
import operator as _operator

from . import _create, _linear, _reduce
from ._call import apply as _apply
from ._call import apply_multi as _apply_multi
from ._call import not_a_tensor as _not_a_tensor
from ._dtypes import as_dtype as _as_dtype
from ._dtypes import finfo as _finfo
from ._dtypes import int64 as _int64
from ._elementwise import where as _where
from ._ffi import LinAlgError, NotSupported as _NotSupported
from ._ffi import ffi as _ffi
from ._ffi import lib as _lib
from ._ffi import push_site as _push_site
from ._ffi import refuse as _refuse
from ._modes import is_grad_enabled as _is_grad_enabled
from ._shape import broadcast_shapes as _broadcast_shapes
from ._shape import cat as _cat
from ._shape import diagonal as _diagonal
from ._tensor import Tensor as _Tensor
from ._tensor import spelled as _spelled
from ._tensor import wrap_dim as _wrap_dim

__all__ = ["LinAlgError", "cholesky", "cholesky_ex", "cond", "cross", "det", "diagonal", "eigh", "eigvalsh", "householder_product", "inv",
           "inv_ex", "lstsq", "lu", "lu_factor", "lu_factor_ex", "lu_solve", "matmul", "matrix_exp", "matrix_norm", "matrix_power",
           "matrix_rank", "multi_dot", "norm", "pinv", "qr", "slogdet", "solve", "solve_ex", "solve_triangular", "svd", "svdvals",
           "tensorinv", "tensorsolve", "vander", "vecdot", "vector_norm"]

_HAS_LAPACK = "BLAS: none" not in _ffi.string(_lib.ag_build_info()).decode()
_KINDS = {"float32": "Float", "float64": "Double", "int64": "Long", "int32": "Int", "uint8": "Byte", "bool": "Bool"}


# ---- named tuples ---------------------------------------------------------------------------------------


_FIELDS = {
    "linalg_cholesky_ex": "L info", "linalg_inv_ex": "inverse info", "linalg_solve_ex": "result info", "linalg_slogdet": "sign logabsdet",
    "linalg_lu_factor": "LU pivots", "linalg_lu_factor_ex": "LU pivots info", "linalg_lu": "P L U", "linalg_qr": "Q R",
    "linalg_eigh": "eigenvalues eigenvectors", "linalg_svd": "U S Vh", "linalg_lstsq": "solution residuals rank singular_values",
    "slogdet": "sign logabsdet", "lu_unpack": "P L U", "qr": "Q R", "svd": "U S V", "triangular_solve": "solution cloned_coefficient"}
_returns = {}  # classes, made when first needed: each takes longer than most of what it holds


class _Fields:
    __slots__ = ()

    def __repr__(self):
        return f"torch.return_types.{type(self).__name__}(" + ",".join(f"\n{k}={v!r}" for k, v in zip(self._fields, self)) + ")"

    def __reduce__(self):
        return _made, (type(self).__name__, *self)


def _made(name, *values):
    """The named tuple that the function `name` returns."""
    kind = _returns.get(name)
    if kind is None:
        kind = _returns[name] = type(name, (_Fields, _namedtuple(name, _FIELDS[name])), {"__slots__": (), "__module__": "autograd_c.return_types"})
    return kind(*values)


# ---- what the functions share -----------------------------------------------------------------------------


def _start(name, *tensors, least=2):
    """Sets the position of what follows; refuses operands that are no batches of floating point matrices."""
    _push_site(2)
    if not _HAS_LAPACK:
        raise _NotSupported(f"{name} needs LAPACK, which this build leaves out (AUTOGRAD_C_BLAS=off): build with -DAUTOGRAD_C_BLAS=scipy "
                            "or system")
    for k, t in enumerate(tensors):
        if not isinstance(t, _Tensor):
            raise _not_a_tensor(name, "AB"[k] if k < 2 else "input", k + 1, t)
        if not t.is_floating_point():
            raise _refuse(RuntimeError, f"{name}: Expected a floating point or complex tensor as input. Got {_KINDS[t.dtype.name]}")
        if t.dim() < least:
            raise _refuse(RuntimeError, f"{name}: The input tensor {'AB'[k] if k < 2 else 'input'} must have at least {least} dimensions.")


def _square(name, A, letter="A"):
    shape = A.shape
    if shape[-1] != shape[-2]:
        raise _refuse(RuntimeError, f"{name}: {letter} must be batches of square matrices, but they are {A.shape[-2]} by {A.shape[-1]} matrices")


def _same_dtype(name, A, B):
    if A.dtype is not B.dtype:
        raise _refuse(RuntimeError, f"{name}: Expected A and B to have the same dtype, but found A of type {_KINDS[A.dtype.name]} and B of type "
                     f"{_KINDS[B.dtype.name]} instead")


def _row(name, *tensors, ints=(), floats=()):
    return _apply(None, name, tensors, ints, floats)


def _rows(name, n_out, *tensors, ints=(), floats=()):
    return _apply_multi(None, name, tensors, n_out, ints, floats)


def _wants_grad(*tensors):
    return _is_grad_enabled() and any([t.requires_grad for t in tensors])


def _batched(*tensors):
    """Matrices expanded to their common batch dims."""
    leads = [tuple(t.shape)[:-2] for t in tensors]
    if all([x == leads[0] for x in leads]):
        return tensors
    lead = tuple(_broadcast_shapes(*leads))
    return [t if x == lead else t.expand(*lead, *t.shape[-2:]) for t, x in zip(tensors, leads)]


def _factors(A, check=0):
    """LU and pivots of A, without a history."""
    return _rows("lu_factor", 3, A.detach(), ints=(check,))


def _equation(name, A, B, left):
    """Refuses shapes for which AX = B (XA = B) makes no sense."""
    if A.shape[-1] != B.shape[-2 if left else -1]:
        raise _refuse(RuntimeError, f"{name}: Incompatible shapes of A and B for the equation {'AX = B' if left else 'XA = B'} "
                     f"({A.shape[-2]}x{A.shape[-1]} and {B.shape[-2]}x{B.shape[-1]})")


def _eye(n, like):
    return _create.eye(n, dtype=like.dtype)


def _by_perm(X, perm):
    """Rows of X in the order perm, batch by batch."""
    index = perm.unsqueeze(-1)
    lead = tuple(_broadcast_shapes(tuple(X.shape[:-2]), tuple(perm.shape[:-1])))
    shape = (*lead, perm.shape[-1], X.shape[-1])
    if tuple(X.shape[:-2]) != lead:
        X = X.expand(*lead, *X.shape[-2:])
    return X.gather(-2, index.expand(*shape))


# ---- Cholesky -------------------------------------------------------------------------------------------


def cholesky(A, *, upper=False):
    """L with A = L L^T (upper: U with A = U^T U) of symmetric positive definite matrices."""
    _start("linalg.cholesky", A)
    _square("linalg.cholesky", A)
    return _rows("cholesky", 2, A, ints=(bool(upper), 1))[0]


def cholesky_ex(A, *, upper=False, check_errors=False):
    """(L, info): as cholesky, with the order of the first minor that is not positive in info instead of an error."""
    _start("linalg.cholesky_ex", A)
    _square("linalg.cholesky_ex", A)
    return _made("linalg_cholesky_ex", *_rows("cholesky", 2, A, ints=(bool(upper), bool(check_errors))))


# ---- LU and systems -------------------------------------------------------------------------------------


def _pivoted(name, pivot):
    if not pivot:
        raise _refuse(RuntimeError, f"{name}: LU without pivoting is not implemented on the CPU")


def lu_factor(A, *, pivot=True):
    """(LU, pivots): L and U of A = P L U in one matrix; RuntimeError where U is singular."""
    _start("linalg.lu_factor", A)
    _pivoted("linalg.lu_factor", pivot)
    return _made("linalg_lu_factor", *_rows("lu_factor", 3, A, ints=(1,))[:2])


def lu_factor_ex(A, *, pivot=True, check_errors=False):
    """(LU, pivots, info): as lu_factor, with the first zero of U's diagonal in info instead of an error."""
    _start("linalg.lu_factor_ex", A)
    _pivoted("linalg.lu_factor_ex", pivot)
    return _made("linalg_lu_factor_ex", *_rows("lu_factor", 3, A, ints=(bool(check_errors),)))


def _unpacked(LU):
    m, n = LU.shape[-2:]
    k = min(m, n)
    L = LU if m >= n else LU.narrow(-1, 0, k)
    U = LU if m <= n else LU.narrow(-2, 0, k)
    return L.tril(-1) + _create.eye(m, k, dtype=LU.dtype), U.triu()


def _permutation(pivots, m, dtype):
    perm = _row("lu_perm", pivots, ints=(m, 0))
    return (perm.unsqueeze(-2) == _create.arange(m).unsqueeze(-1)).to(dtype)


def lu(A, *, pivot=True):
    """(P, L, U) with A = P L U."""
    _start("linalg.lu", A)
    _pivoted("linalg.lu", pivot)
    LU, pivots, _ = _rows("lu_factor", 3, A, ints=(0,))
    return _made("linalg_lu", _permutation(pivots, A.shape[-2], A.dtype), *_unpacked(LU))


def lu_solve(LU, pivots, B, *, left=True, adjoint=False):
    """X of A X = B (left=False: X A = B; adjoint: with A^T) from the factors of A."""
    _start("linalg.lu_solve", LU, B)
    _square("linalg.lu_solve", LU, "LU")
    _same_dtype("linalg.lu_solve", LU, B)
    _equation("linalg.lu_solve", LU, B, left)
    if pivots.dtype.name != "int32":
        raise _refuse(RuntimeError, "linalg.lu_solve: pivots should be a Tensor of scalar type torch.int32. Got " + str(pivots.dtype))
    if tuple(pivots.shape) != tuple(LU.shape[:-1]):
        raise _refuse(RuntimeError, "linalg.lu_solve: Number of pivots per batch should be same as the dimension of the matrix")
    if not left:
        return _lu_solve(LU, pivots, B.mT, not adjoint).mT
    return _lu_solve(LU, pivots, B, adjoint)


def _lu_solve(LU, pivots, B, adjoint):
    LU, B = _batched(LU, B)
    if adjoint:  # U^T L^T P^T X = B
        Y = _row("solve_triangular", LU.mT, B, ints=(0, 1, 0))
        Y = _row("solve_triangular", LU.mT, Y, ints=(1, 1, 1))
        return _by_perm(Y, _row("lu_perm", pivots, ints=(LU.shape[-1], 1)))
    Y = _row("solve_triangular", LU, _by_perm(B, _row("lu_perm", pivots, ints=(LU.shape[-1], 0))), ints=(0, 1, 1))
    return _row("solve_triangular", LU, Y, ints=(1, 1, 0))


def _solve(name, A, B, left, check):
    _start(name, A)
    _start(name, B, least=1)
    _square(name, A)
    _same_dtype(name, A, B)
    shape = tuple(A.shape)
    vector = B.dim() == 1 or (B.dim() == len(shape) - 1 and tuple(B.shape) == shape[:-1])
    if vector:
        if not left:
            raise _refuse(RuntimeError, f"{name}: Vector broadcasting of the left hand side is not supported for left=False. In this case "
                         "linalg.solve is equivalent to B / A.squeeze(-1)")
        B = B.unsqueeze(-1)
    _equation(name, A, B, left)
    LU, pivots, info = _factors(A, 2 if check else 0)
    have, want = shape[:-2], tuple(B.shape)[:-2]
    if have != want:
        lead = tuple(_broadcast_shapes(have, want))
        if have != lead:
            A, LU, pivots = [t.expand(*lead, *t.shape[len(have):]) for t in (A, LU, pivots)]
        if want != lead:
            B = B.expand(*lead, *B.shape[-2:])
    X = _row("solve_lu", A, LU, pivots, B, ints=(bool(left), 0))
    return (X.squeeze(-1) if vector else X), info


def solve(A, B, *, left=True):
    """X of A X = B (left=False: X A = B) for square A; B may hold vectors.  RuntimeError where A is singular."""
    return _solve("linalg.solve", A, B, left, True)[0]


def solve_ex(A, B, *, left=True, check_errors=False):
    """(result, info): as solve, with the first zero of U's diagonal in info instead of an error."""
    return _made("linalg_solve_ex", *_solve("linalg.solve_ex", A, B, left, check_errors))


def solve_triangular(A, B, *, upper, left=True, unitriangular=False):
    """X of A X = B (left=False: X A = B) for triangular A, of which the other triangle is not read."""
    name = "linalg.solve_triangular"
    if _HAS_LAPACK and isinstance(A, _Tensor) and isinstance(B, _Tensor) and tuple(A.shape)[:-2] == tuple(B.shape)[:-2]:
        _push_site()  # the row itself refuses what does not fit
        return _row("solve_triangular", A, B, ints=(bool(upper), bool(left), bool(unitriangular)))
    _start(name, A, B)
    _square(name, A)
    _same_dtype(name, A, B)
    _equation(name, A, B, left)
    return _row("solve_triangular", *_batched(A, B), ints=(bool(upper), bool(left), bool(unitriangular)))


def inv(A):
    """Inverse of square matrices; RuntimeError where there is none."""
    _start("linalg.inv", A)
    _square("linalg.inv", A)
    return _rows("inv", 2, A, ints=(1,))[0]


def inv_ex(A, *, check_errors=False):
    """(inverse, info): as inv, with the first zero of U's diagonal in info instead of an error."""
    _start("linalg.inv_ex", A)
    _square("linalg.inv_ex", A)
    return _made("linalg_inv_ex", *_rows("inv", 2, A, ints=(bool(check_errors),)))


def det(A):
    """Determinant of square matrices."""
    _start("linalg.det", A)
    _square("linalg.det", A)
    return _row("det_lu", A, *_factors(A)[:2])


def slogdet(A):
    """(sign, logabsdet) of the determinant."""
    _start("linalg.slogdet", A)
    _square("linalg.slogdet", A)
    return _made("linalg_slogdet", *_rows("slogdet_lu", 2, A, *_factors(A)[:2]))


def tensorinv(A, ind=2):
    """Inverse of A as a map from its last dims to its first `ind` ones, under tensordot."""
    _start("linalg.tensorinv", A, least=0)
    if ind <= 0:
        raise _refuse(RuntimeError, "Expected a strictly positive integer for 'ind'")
    first, last = tuple(A.shape[:ind]), tuple(A.shape[ind:])
    if _math.prod(first) != _math.prod(last):
        raise _refuse(RuntimeError, f"Expected self to satisfy the requirement prod(self.shape[ind:]) == prod(self.shape[:ind]), but got "
                     f"{_math.prod(last)} != {_math.prod(first)}")
    return inv(A.reshape(_math.prod(first), _math.prod(last))).reshape(*last, *first)


def tensorsolve(A, B, dims=None):
    """X with tensordot(A, X, X.dim()) = B; dims of A are moved to its end first."""
    _start("linalg.tensorsolve", A, least=0)
    if dims is not None:
        moved = [_wrap_dim(d, A.dim()) for d in dims]
        A = A.permute(*[d for d in range(A.dim()) if d not in moved], *moved)
    shape = tuple(A.shape[B.dim():])
    if _math.prod(shape) != _math.prod(A.shape[:B.dim()]):
        raise _refuse(RuntimeError, f"Expected self to satisfy the requirement prod(self.shape[other.ndim:]) == prod(self.shape[:other.ndim]), but "
                     f"got {_math.prod(shape)} != {_math.prod(A.shape[:B.dim()])}")
    return solve(A.reshape(-1, _math.prod(shape)), B.reshape(-1)).reshape(*shape)


# ---- orthogonal factors -----------------------------------------------------------------------------------


def qr(A, mode="reduced"):
    """(Q, R) with A = Q R; mode "reduced", "complete" (Q square) or "r" (Q left out)."""
    _start("linalg.qr", A)
    modes = ("reduced", "complete", "r")
    if mode not in modes:
        raise _refuse(RuntimeError, f"qr received unrecognized mode '{mode}' but expected one of 'reduced' (default), 'r', or 'complete'")
    return _made("linalg_qr", *_rows("qr", 2, A, ints=(modes.index(mode),)))


def _reflectors(A, tau):
    """V, T with H_1 H_2 .. H_k = 1 - V T V^T for H_i = 1 - tau_i v_i v_i^T, v_i below the diagonal of A's column i.

    T = (1 + D striu(V^T V))^-1 D with D = diag(tau): the compact form of Schreiber and Van Loan (1989) by Puglisi's
    formula (1992), which is good for any tau, 0 included.
    """
    k = tau.shape[-1]
    V = A.narrow(-1, 0, k).tril(-1) + _create.eye(A.shape[-2], k, dtype=A.dtype)
    D = tau.unsqueeze(-1)
    S = _eye(k, A) + D * (V.mT @ V).triu(1)
    return V, _row("solve_triangular", *_batched(S, _eye(k, A) * D), ints=(1, 1, 1))


def householder_product(A, tau):
    """First columns of the product of Householder reflections kept below the diagonal of A, as geqrf leaves them."""
    name = "linalg.householder_product"
    _start(name, A)
    if A.shape[-2] < A.shape[-1]:
        raise _refuse(RuntimeError, f"torch.{name}: input.shape[-2] must be greater than or equal to input.shape[-1]")
    if A.shape[-1] < tau.shape[-1]:
        raise _refuse(RuntimeError, f"torch.{name}: input.shape[-1] must be greater than or equal to tau.shape[-1]")
    if tuple(A.shape[:-2]) != tuple(tau.shape[:-1]):
        raise _refuse(RuntimeError, f"torch.{name}: Expected batch dimensions of tau to be equal to input.shape[:-2], but got {tuple(tau.shape[:-1])}")
    if A.dtype is not tau.dtype:
        raise _refuse(RuntimeError, f"torch.{name}: tau dtype {_KINDS[tau.dtype.name]} does not match input dtype {_KINDS[A.dtype.name]}")
    m, n = A.shape[-2:]
    V, T = _reflectors(A, tau)
    return _create.eye(m, n, dtype=A.dtype) - V @ (T @ V.narrow(-2, 0, n).mT)


def eigh(A, UPLO="L"):
    """(eigenvalues, eigenvectors) of symmetric matrices, ascending; reads the triangle UPLO, "L" or "U", alone."""
    _start("linalg.eigh", A)
    _square("linalg.eigh", A)
    return _made("linalg_eigh", *_rows("eigh", 2, A, ints=(_uplo(UPLO), 1)))


def eigvalsh(A, UPLO="L"):
    """Eigenvalues of symmetric matrices, ascending."""
    _start("linalg.eigvalsh", A)
    _square("linalg.eigvalsh", A)
    return _rows("eigh", 2, A, ints=(_uplo(UPLO), _wants_grad(A)))[0]


def _uplo(UPLO):
    if str(UPLO).upper() not in ("L", "U"):
        raise _refuse(RuntimeError, f"Expected UPLO argument to be 'L' or 'U', but got {UPLO}")
    return str(UPLO).upper() == "U"


def _no_driver(name, driver):
    if driver is not None:
        raise _refuse(RuntimeError, f"torch.{name}: keyword argument `driver=` is only supported on CUDA inputs with cuSOLVER backend.")


def svd(A, full_matrices=True, *, driver=None):
    """(U, S, Vh) with A = U diag(S) Vh; full_matrices: U and Vh square.  Columns beyond S have no derivative."""
    _start("linalg.svd", A)
    _no_driver("linalg.svd", driver)
    return _made("linalg_svd", *_rows("svd", 3, A, ints=(bool(full_matrices), 1)))


def svdvals(A, *, driver=None):
    """Singular values, descending."""
    _start("linalg.svdvals", A)
    _no_driver("linalg.svdvals", driver)
    return _rows("svd", 3, A, ints=(0, _wants_grad(A)))[1]


def _tolerances(name, A, atol, rtol):
    """Absolute and relative tolerance as a tensor each, of the batch's shape."""
    lead = tuple(A.shape[:-2])
    if rtol is None:
        default = _finfo(A.dtype).eps * max(A.shape[-2:])
        if isinstance(atol, _Tensor):
            rtol = _where(atol.detach() > 0, 0.0, default)
        else:
            rtol = 0.0 if atol else default
    tols = []
    for t in (0.0 if atol is None else atol, rtol):
        t = t.detach().to(A.dtype) if isinstance(t, _Tensor) else _create.full((), float(t), dtype=A.dtype)
        try:
            tols.append(t.expand(*lead))
        except RuntimeError:
            raise _refuse(RuntimeError, f"{name}: tolerances of shape {tuple(t.shape)} do not fit batches of shape {lead}") from None
    return tols


def pinv(A, rcond=None, hermitian=False, *, atol=None, rtol=None):
    """Moore-Penrose inverse; singular values up to max(atol, rtol * the largest) count as nothing."""
    _start("linalg.pinv", A)
    if hermitian:
        _square("linalg.pinv", A)
    return _row("pinv", A, *_tolerances("linalg.pinv", A, atol, rcond if rtol is None else rtol), ints=(bool(hermitian),))


def matrix_rank(A, tol=None, hermitian=False, *, atol=None, rtol=None):
    """Number of singular values (hermitian: of |eigenvalues|) above max(atol, rtol * the largest)."""
    _start("linalg.matrix_rank", A)
    if tol is not None:
        atol, rtol = tol, 0.0
    atol, rtol = _tolerances("linalg.matrix_rank", A, atol, rtol)
    S = eigvalsh(A.detach()).abs() if hermitian else svdvals(A.detach())
    if not S.shape[-1]:
        return _create.zeros(*A.shape[:-2], dtype=_int64)
    cut = (rtol * S.amax(-1)).maximum(atol)
    return (S > cut.unsqueeze(-1)).sum(-1)


_DRIVERS = ("gelsy", "gelsd", "gelss", "gels")


def lstsq(A, B, rcond=None, *, driver=None):
    """(solution, residuals, rank, singular_values) of least |A X - B|, of least norm where there are many.

    driver: "gelsy" (default), "gelsd", "gelss", or "gels" for matrices of full rank.  What a driver does not compute is
    empty: the residuals of "gelsy" and of matrices that are not tall and of full rank, the rank of "gels", the singular
    values of "gelsy" and "gels".
    """
    name = "linalg.lstsq"
    _start(name, A)
    _start(name, B, least=1)
    _same_dtype(name, A, B)
    driver = "gelsy" if driver is None else driver
    if driver not in _DRIVERS:
        raise _refuse(RuntimeError, f"torch.linalg.lstsq: parameter `driver` should be one of (gels, gelsy, gelsd, gelss), got {driver}")
    vector = B.dim() == 1 or (B.dim() == A.dim() - 1 and tuple(B.shape) == tuple(A.shape[:-1]))
    if A.dim() < B.dim() or (A.dim() > B.dim() and not vector):
        raise _refuse(RuntimeError, "torch.linalg.lstsq: input.dim() must be greater or equal to other.dim() and (input.dim() - other.dim()) <= 1")
    if vector:
        B = B.unsqueeze(-1)
    if A.shape[-2] != B.shape[-2]:
        raise _refuse(RuntimeError, f"torch.linalg.lstsq: input.size(-2) should match other.size({'-1' if vector else '-2'})")
    A, B = _batched(A, B)
    m, n = A.shape[-2:]
    if rcond is None:
        rcond = _finfo(A.dtype).eps * max(m, n)
    X, rank, S = _rows("lstsq", 3, A, B, ints=(_DRIVERS.index(driver),), floats=(float(rcond),))
    empty = A.new_zeros(0)
    residuals = empty
    if m > n and driver != "gelsy" and (driver == "gels" or bool((rank == n).all())):
        residuals = ((A @ X - B) ** 2).sum(-2)
        if vector:
            residuals = residuals.squeeze(-1)
    return _made("linalg_lstsq", X.squeeze(-1) if vector else X, residuals, rank if driver != "gels" else empty.to(_int64),
                 S.detach() if driver in ("gelsd", "gelss") else empty)


# ---- norms ----------------------------------------------------------------------------------------------


def _dims_of(dim):
    return dim if dim is None else (dim,) if isinstance(dim, int) else tuple(dim)


def vector_norm(x, ord=2, dim=None, keepdim=False, *, dtype=None, axis=None, keepdims=None):
    """(sum |x|**ord) ** (1/ord) over dim (None: over everything); inf and -inf: extrema, 0: number of non-zeros."""
    dim, keepdim = _spelled(dim, keepdim, axis, keepdims)
    _push_site()
    if dtype is not None:
        x = x.to(_as_dtype(dtype))
    if not x.is_floating_point():
        raise _refuse(RuntimeError, f"linalg.vector_norm: Expected a floating point or complex tensor as input. Got {_KINDS[x.dtype.name]}")
    ord = float(ord)
    dims = _dims_of(dim)
    if not dims:  # every dim
        dims = None
    if ord < 0 or ord == _math.inf:
        if not x.numel() and (dims is None or any([not x.shape[d] for d in dims])):
            raise _refuse(RuntimeError, f"linalg.vector_norm cannot compute the {ord} norm on an empty tensor because the operation does not have "
                         "an identity")
    return _reduce.norm(x, ord, dims, keepdim)


def matrix_norm(A, ord="fro", dim=(-2, -1), keepdim=False, *, dtype=None):
    """Norm of the matrices in two dims: "fro", "nuc", 2, -2 (singular values), 1, -1 (columns), inf, -inf (rows)."""
    name = "linalg.matrix_norm"
    _push_site()
    if dtype is not None:
        A = A.to(_as_dtype(dtype))
    if not A.is_floating_point():
        raise _refuse(RuntimeError, f"{name}: Expected a floating point or complex tensor as input. Got {_KINDS[A.dtype.name]}")
    if A.dim() < 2:
        raise _refuse(RuntimeError, f"{name}: The input tensor A must have at least 2 dimensions.")
    if isinstance(dim, int) or len(dim) != 2:
        raise _refuse(RuntimeError, f"{name}: dim must be a 2-tuple. Got {dim}")
    rows, cols = [_wrap_dim(d, A.dim()) for d in dim]
    if rows == cols:
        raise _refuse(RuntimeError, f"{name}: dims must be different. Got ({dim[0]}, {dim[1]})")
    if ord == "fro":
        return vector_norm(A, 2, (rows, cols), keepdim)
    if ord == "nuc" or (not isinstance(ord, str) and abs(ord) == 2):
        _start(name, A)
        s = svdvals(A.movedim((rows, cols), (-2, -1)))
        r = s.sum(-1) if ord == "nuc" else s.amax(-1) if ord == 2 else s.amin(-1)
    elif not isinstance(ord, str) and (abs(ord) == 1 or abs(ord) == _math.inf):
        inner, outer = (rows, cols) if abs(ord) == 1 else (cols, rows)
        s = A.abs().sum(inner)
        outer -= outer > inner
        r = s.amax(outer) if ord > 0 else s.amin(outer)
    else:
        raise _refuse(RuntimeError, f"{name}: Order {ord} not supported.")
    return r.unsqueeze(min(rows, cols)).unsqueeze(max(rows, cols)) if keepdim else r


def norm(A, ord=None, dim=None, keepdim=False, *, dtype=None, axis=None, keepdims=None):
    """vector_norm over everything or one dim, matrix_norm where ord is given and there are two dims."""
    dim, keepdim = _spelled(dim, keepdim, axis, keepdims)
    _push_site()
    dims = _dims_of(dim)
    if ord is None:
        return vector_norm(A, 2, dims, keepdim, dtype=dtype)
    if dims is None and A.dim() not in (1, 2):
        raise _refuse(RuntimeError, f"linalg.norm: If dim is not specified but ord is, the input must be 1D or 2D. Got {A.dim()}D.")
    if dims is not None and len(dims) not in (1, 2):
        raise _refuse(RuntimeError, f"linalg.norm: If dim is specified, it must be of length 1 or 2. Got {list(dims)}")
    if (A.dim() if dims is None else len(dims)) == 2:
        return matrix_norm(A, ord, (-2, -1) if dims is None else dims, keepdim, dtype=dtype)
    if isinstance(ord, str):
        raise _refuse(RuntimeError, f"linalg.norm: Order {ord} not supported for vectors")
    return vector_norm(A, ord, dims, keepdim, dtype=dtype)


def cond(A, p=None):
    """Condition number in the norm p of matrix_norm (None: 2)."""
    name = "linalg.cond"
    _start(name, A)
    if p is None or p in (2, -2):
        s = svdvals(A)
        if not s.shape[-1]:
            return _create.zeros(*A.shape[:-2], dtype=A.dtype)
        big, small = s.select(-1, 0), s.select(-1, s.shape[-1] - 1)
        return small / big if p == -2 else big / small
    if A.shape[-1] != A.shape[-2]:
        raise _refuse(RuntimeError, f"linalg.cond: A must be batches of square matrices, but they are {A.shape[-2]} by {A.shape[-1]} matrices")
    if not A.shape[-1]:
        return _create.zeros(*A.shape[:-2], dtype=A.dtype)
    inverse, info = _rows("inv", 2, A, ints=(0,))
    r = matrix_norm(A, p) * matrix_norm(inverse, p)
    return _where(info == 0, r, _math.inf)


# ---- products, powers, vectors ------------------------------------------------------------------------------


matmul = _linear.matmul


def matrix_exp(A):
    """Exponential of square matrices."""
    _start("linalg.matrix_exp", A)
    _square("linalg.matrix_exp", A)
    return _row("matrix_exp", A)


def matrix_power(A, n):
    """n-th power of square matrices; negative n: of the inverse."""
    name = "linalg.matrix_power"
    _push_site()
    if A.dim() < 2:
        raise _refuse(RuntimeError, f"{name}: The input tensor A must have at least 2 dimensions.")
    _square(name, A)
    n = _operator.index(n)
    if n < 0:
        A, n = inv(A), -n
    if n == 0:  # the identity, which depends on A all the same
        return _where(_create.zeros((), dtype=_create.bool_), A, _eye(A.shape[-1], A))
    r, base = None, A
    while n:
        if n & 1:
            r = base if r is None else r @ base
        n >>= 1
        base = base @ base if n else base
    return r.clone() if r is A else r


def multi_dot(tensors):
    """Product of matrices (the first and the last may be vectors) in the order that takes the fewest multiplications."""
    name = "multi_dot"
    _push_site()
    tensors = list(tensors)
    if len(tensors) < 2:
        raise _refuse(RuntimeError, f"{name}(): expected at least 2 tensors but got {len(tensors)}")
    first, last = tensors[0].dim() == 1, tensors[-1].dim() == 1
    for k, t in enumerate(tensors):
        ends = k in (0, len(tensors) - 1)
        if t.dim() != 2 and not (ends and t.dim() == 1):
            raise _refuse(RuntimeError, f"{name}(): tensor {k} must be {'1D or ' if ends else ''}2D but got {t.dim()}D")
        if t.dtype is not tensors[0].dtype:
            raise _refuse(RuntimeError, f"{name}(): all tensors must have be the same dtype but tensor 0 is {_KINDS[tensors[0].dtype.name]} and tensor "
                         f"{k} {_KINDS[t.dtype.name]}")
    if first:
        tensors[0] = tensors[0].unsqueeze(0)
    if last:
        tensors[-1] = tensors[-1].unsqueeze(-1)
    for k, (a, b) in enumerate(zip(tensors, tensors[1:])):
        if a.shape[1] != b.shape[0]:
            raise _refuse(RuntimeError, f"{name}(): tensors {k} and {k + 1} with shapes {list(a.shape)} and {list(b.shape)} cannot be multiplied")
    r = _chain(tensors)
    if first:
        r = r.squeeze(0)
    return r.squeeze(-1) if last else r


def _chain(tensors):
    """Cormen, Leiserson, Rivest, Stein, Introduction to Algorithms, 15.2."""
    n = len(tensors)
    sizes = [t.shape[0] for t in tensors] + [tensors[-1].shape[1]]
    cost, cut = {(i, i): 0 for i in range(n)}, {}
    for length in range(1, n):
        for i in range(n - length):
            j = i + length
            cost[i, j], cut[i, j] = min((cost[i, k] + cost[k + 1, j] + sizes[i] * sizes[k + 1] * sizes[j + 1], k) for k in range(i, j))

    def product(i, j):
        if i == j:
            return tensors[i]
        k = cut[i, j]
        return product(i, k) @ product(k + 1, j)

    return product(0, n - 1)


def cross(input, other, *, dim=-1, axis=None):
    """Vector product along a dim of size 3; the other dims broadcast."""
    if axis is not None:
        dim = axis
    _push_site()
    if input.dim() != other.dim():
        raise _refuse(RuntimeError, "linalg.cross: inputs must have the same number of dimensions.")
    if input.shape[_wrap_dim(dim, input.dim())] != 3 or other.shape[_wrap_dim(dim, other.dim())] != 3:
        raise _refuse(RuntimeError, f"linalg.cross: inputs dimension {dim} must have length 3. Got {input.shape[dim]} and {other.shape[dim]}")
    return _linear.cross(input, other, dim)


def diagonal(A, *, offset=0, dim1=-2, dim2=-1):
    """View of the diagonals of matrices."""
    _push_site()
    return _diagonal(A, offset, dim1, dim2)


def vander(x, N=None):
    """Powers 0 .. N-1 (None: as many as there are numbers) of x in a new last dim."""
    _push_site()
    x = x if x.dim() else x.unsqueeze(-1)
    N = x.shape[-1] if N is None else N
    if N <= 1:
        raise _refuse(RuntimeError, "N must be greater than 1.")
    powers = x.unsqueeze(-1).expand(*x.shape, N - 1).cumprod(-1)
    return _cat([powers.new_ones(*x.shape, 1), powers], -1)


def vecdot(x, y, *, dim=-1, axis=None):
    """Sum of x * y along dim."""
    if axis is not None:
        dim = axis
    _push_site()
    return _linear.vecdot(x, y, dim)
