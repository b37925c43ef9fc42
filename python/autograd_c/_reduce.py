"""Reductions and scans.  dim= and keepdim= may also be spelled axis= and keepdims=."""
from collections import namedtuple as _namedtuple
import math as _math
from sys import _getframe

from ._call import apply, apply1, apply_multi, as_number, binary_at, not_a_tensor
from ._dtypes import as_dtype, get_default_dtype
from ._elementwise import abs as _abs
from ._elementwise import cast_at, exp, isfinite, log, sign, sqrt, square, where
from ._ffi import OPS, lib, push_site, refuse
from ._tensor import Tensor, spelled, wrap_dim


_SUM, _MEAN, _SOFTMAX, _LOG_SOFTMAX = OPS["sum"], OPS["mean"], OPS["softmax"], OPS["log_softmax"]


class _Pair(_namedtuple("_Pair", "values indices")):
    """(values, indices), printed as PyTorch's named tuples."""

    __slots__ = ()

    def __repr__(self):
        return f"torch.return_types.{type(self).__name__}(\nvalues={self[0]!r},\nindices={self[1]!r})"

    def __reduce__(self):
        return _pair, (type(self).__name__, *self)


_PAIRS = {name: type(name, (_Pair,), {"__slots__": (), "__module__": "autograd_c.return_types"})
          for name in "max min sort topk median nanmedian mode kthvalue cummax cummin".split()}


def _pair(name, values, indices):
    return _PAIRS[name](values, indices)


def pair_at(name, pair):
    """The named tuple that the function `name` returns."""
    return _PAIRS[name](*pair)


def _dims(t, dim, axis):
    """Normalised dims; empty: all of them."""
    if dim is None:
        dim = axis
        if dim is None:
            return ()
    n = lib.ag_tensor_ndim(t._h)
    if type(dim) is int:
        return (wrap_dim(dim, n),) if n else _check0(dim)
    dims = tuple([wrap_dim(d, n) for d in dim])
    if len(set(dims)) != len(dims):
        raise refuse(RuntimeError, f"dim {next(d for d in dims if dims.count(d) > 1)} appears multiple times in the list of dims")
    return dims if n else ()


def _check0(dim):
    wrap_dim(dim, 0)
    return ()


def _ints(t, dim, keepdim, axis, keepdims):
    return (int(keepdim if keepdims is None else keepdims), *_dims(t, dim, axis))


def _typed(f, t, dtype):
    return t if dtype is None else cast_at(f, t, as_dtype(dtype))


def _back(f, t, dtype):
    """A result in the dtype asked for: whole numbers add up in int64, whatever was asked."""
    return t if dtype is None or lib.ag_tensor_dtype(t._h) >= lib.AG_FLOAT32 else cast_at(f, t, as_dtype(dtype))


def sum(input, dim=None, keepdim=False, *, dtype=None, axis=None, keepdims=None):
    """Sum over all elements or over dim (a number or several).  Integers and bools add up in int64."""
    f = _getframe(1)
    if not isinstance(input, Tensor):
        raise not_a_tensor("sum", "input", 1, input)
    if dtype is not None:
        return _back(f, apply(f, "sum", (_typed(f, input, dtype),), _ints(input, dim, keepdim, axis, keepdims)), dtype)
    if axis is None and keepdims is None:
        if dim is None:
            return apply1(f, _SUM, input, 1 if keepdim else 0, 1)
        if type(dim) is int:
            return apply1(f, _SUM, input, 2, keepdim, dim)
    return apply(f, "sum", (input,), _ints(input, dim, keepdim, axis, keepdims))


def mean(input, dim=None, keepdim=False, *, dtype=None, axis=None, keepdims=None):
    """Mean over all elements or over dim; floating point only."""
    f = _getframe(1)
    if dtype is not None:
        input = _typed(f, input, dtype)
    if lib.ag_tensor_dtype(input._h) < lib.AG_FLOAT32:
        kind = {"int64": "Long", "int32": "Int", "uint8": "Byte", "bool": "Bool"}[input.dtype.name]
        raise refuse(RuntimeError, "mean(): could not infer output dtype. Input dtype must be either a floating point or complex dtype. "
                     f"Got: {kind}")
    if axis is None and keepdims is None:
        if dim is None:
            return apply1(f, _MEAN, input, 1 if keepdim else 0, 1)
        if type(dim) is int:
            return apply1(f, _MEAN, input, 2, keepdim, dim)
    return apply(f, "mean", (input,), _ints(input, dim, keepdim, axis, keepdims))


def prod(input, dim=None, keepdim=False, *, dtype=None, axis=None, keepdims=None):
    """Product over all elements or over dim."""
    f = _getframe(1)
    return _back(f, apply(f, "prod", (_typed(f, input, dtype),), _ints(input, dim, keepdim, axis, keepdims)), dtype)


def nansum(input, dim=None, keepdim=False, *, dtype=None, axis=None, keepdims=None):
    dim, keepdim = spelled(dim, keepdim, axis, keepdims)
    push_site()
    return sum(where(input != input, 0, input), dim, keepdim, dtype=dtype)


def nanmean(input, dim=None, keepdim=False, *, dtype=None, axis=None, keepdims=None):
    dim, keepdim = spelled(dim, keepdim, axis, keepdims)
    push_site()
    ok = input == input
    return sum(where(ok, input, 0), dim, keepdim, dtype=dtype) / sum(ok, dim, keepdim)


def _nonempty(name, t, dims):
    if not lib.ag_tensor_numel(t._h):
        s = t.shape
        if not dims or 0 in [s[d] for d in dims]:
            if not dims:
                raise refuse(IndexError if name.startswith("arg") else RuntimeError, f"{name}(): Expected reduction dim to be specified for input.numel() == 0. "
                             "Specify the reduction dim with the 'dim' argument.")
            raise refuse(IndexError, f"{name}(): Expected reduction dim {dims[0]} to have non-zero size.")


def _extreme(f, name, t, dim, keepdim, axis, keepdims):
    if not isinstance(t, Tensor):
        raise not_a_tensor(name, "input", 1, t)
    if isinstance(dim, Tensor) or (dim is not None and type(dim) is not int and as_number(dim) is None):
        return binary_at(f, OPS["maximum" if name == "max" else "minimum"], name, t, dim)
    if dim is None and axis is None:
        _nonempty(name, t, ())
        return apply(f, name + "_all", (t,))
    ints = _ints(t, dim, keepdim, axis, keepdims)
    _nonempty(name, t, ints[1:])
    if len(ints) == 1:
        ints = (ints[0], 0)
    return pair_at(name, apply_multi(f, name + "_dim", (t,), 2, ints))


def max(input, dim=None, keepdim=False, *, other=None, axis=None, keepdims=None):
    """max(x): the largest element.  max(x, dim): (values, indices) along dim.  max(x, y): elementwise."""
    return _extreme(_getframe(1), "max", input, dim if other is None else other, keepdim, axis, keepdims)


def min(input, dim=None, keepdim=False, *, other=None, axis=None, keepdims=None):
    """min(x): the smallest element.  min(x, dim): (values, indices) along dim.  min(x, y): elementwise."""
    return _extreme(_getframe(1), "min", input, dim if other is None else other, keepdim, axis, keepdims)


def amax(input, dim=(), keepdim=False, *, axis=None, keepdims=None):
    """Largest value over dim (or all); equal ones share the gradient."""
    ints = _ints(input, None if dim == () else dim, keepdim, axis, keepdims)
    _nonempty("amax", input, ints[1:])
    return apply(_getframe(1), "amax", (input,), ints)


def amin(input, dim=(), keepdim=False, *, axis=None, keepdims=None):
    """Smallest value over dim (or all); equal ones share the gradient."""
    ints = _ints(input, None if dim == () else dim, keepdim, axis, keepdims)
    _nonempty("amin", input, ints[1:])
    return apply(_getframe(1), "amin", (input,), ints)


def aminmax(input, *, dim=None, keepdim=False, axis=None, keepdims=None):
    dim, keepdim = spelled(dim, keepdim, axis, keepdims)
    push_site()
    return amin(input, () if dim is None else dim, keepdim), amax(input, () if dim is None else dim, keepdim)


def argmax(input, dim=None, keepdim=False, *, axis=None, keepdims=None):
    """Index of the first largest element, in the flattened tensor or along dim."""
    ints = _ints(input, dim, keepdim, axis, keepdims)
    _nonempty("argmax", input, ints[1:])
    return apply(_getframe(1), "argmax", (input,), ints)


def argmin(input, dim=None, keepdim=False, *, axis=None, keepdims=None):
    """Index of the first smallest element, in the flattened tensor or along dim."""
    ints = _ints(input, dim, keepdim, axis, keepdims)
    _nonempty("argmin", input, ints[1:])
    return apply(_getframe(1), "argmin", (input,), ints)


def any(input, dim=None, keepdim=False, *, axis=None, keepdims=None):
    """Whether some element (along dim) is not zero."""
    return apply(_getframe(1), "any", (input,), _ints(input, dim, keepdim, axis, keepdims))


def all(input, dim=None, keepdim=False, *, axis=None, keepdims=None):
    """Whether every element (along dim) is not zero."""
    return apply(_getframe(1), "all", (input,), _ints(input, dim, keepdim, axis, keepdims))


def count_nonzero(input, dim=None, *, axis=None):
    if axis is not None:
        dim = axis
    push_site()
    return sum(input != 0, dim)


def _moments(t, dim, keepdim, correction):
    """(variance, mean) over dims."""
    if lib.ag_tensor_dtype(t._h) < lib.AG_FLOAT32:
        raise refuse(RuntimeError, "std and var only support floating point and complex dtypes")
    dims = _dims(t, dim, None)
    s = t.shape
    n = _math.prod([s[d] for d in dims]) if dims else t.numel()
    m = mean(t, dims or None, True)
    d = t - m
    left = n - correction
    v = sum(d * d, dims or None, keepdim)
    v = v / float(left) if left > 0 else v * _math.nan if n == 0 or v.numel() == 0 or left == 0 and n == 1 else v / 0.0
    return v, m, dims


def _correction(unbiased, correction):
    if correction is not None:
        return correction
    return 1 if unbiased is None or unbiased else 0


def _swap_bool(dim, unbiased):
    """var(x, False) means unbiased."""
    return (None, dim) if isinstance(dim, bool) else (dim, unbiased)


def var(input, dim=None, unbiased=None, keepdim=False, *, correction=None, axis=None, keepdims=None):
    """Variance over all elements or over dim; divides by n - correction (default 1)."""
    push_site()
    dim, unbiased = _swap_bool(dim if dim is not None else axis, unbiased)
    return _moments(input, dim, keepdim if keepdims is None else keepdims, _correction(unbiased, correction))[0]


def root(v):
    """sqrt whose derivative at 0 is 0, as PyTorch's std and norm have it."""
    if not lib.ag_tensor_requires_grad(v._h):
        return sqrt(v)
    return sqrt(v + (v == 0)) * (v != 0)


def std(input, dim=None, unbiased=None, keepdim=False, *, correction=None, axis=None, keepdims=None):
    """Standard deviation over all elements or over dim; divides by n - correction (default 1)."""
    push_site()
    dim, unbiased = _swap_bool(dim if dim is not None else axis, unbiased)
    return root(_moments(input, dim, keepdim if keepdims is None else keepdims, _correction(unbiased, correction))[0])


def var_mean(input, dim=None, unbiased=None, keepdim=False, *, correction=None, axis=None, keepdims=None):
    """(variance, mean)."""
    dim, keepdim = spelled(dim, keepdim, axis, keepdims)
    push_site()
    dim, unbiased = _swap_bool(dim, unbiased)
    v = _moments(input, dim, keepdim, _correction(unbiased, correction))[0]
    return v, mean(input, dim, keepdim)


def std_mean(input, dim=None, unbiased=None, keepdim=False, *, correction=None, axis=None, keepdims=None):
    """(standard deviation, mean)."""
    dim, keepdim = spelled(dim, keepdim, axis, keepdims)
    v, m = var_mean(input, dim, unbiased, keepdim, correction=correction)
    return root(v), m


def norm(input, p="fro", dim=None, keepdim=False, dtype=None):
    """(sum |x|**p) ** (1/p) over all elements or over dim; p may be inf, -inf or 0; "fro" is 2."""
    push_site()
    if dtype is not None:
        input = input.to(dtype)
    if not input.is_floating_point():
        raise refuse(RuntimeError, f"linalg.vector_norm: Expected a floating point or complex tensor as input. Got {input.dtype.name}")
    if p is None or p == "fro" or p == 2:
        return root(sum(input * input, dim, keepdim))
    if p == "nuc":
        from .linalg import matrix_norm

        return matrix_norm(input, "nuc", (-2, -1) if dim is None else dim, keepdim)
    p = float(p)
    a = _abs(input)
    if p == 1:
        return sum(a, dim, keepdim)
    if p == _math.inf:
        return amax(a, () if dim is None else dim, keepdim)
    if p == -_math.inf:
        return amin(a, () if dim is None else dim, keepdim)
    if p == 0:
        return sum(square(sign(input)), dim, keepdim)
    if p < 1:  # no derivative at 0, where PyTorch takes 0 for it
        zero = a.detach() == 0
        powers = where(zero, 1.0, a) ** p
        if p < 0:
            none = amin(a.detach(), () if dim is None else dim, keepdim) == 0
            return where(none, 0.0, sum(powers, dim, keepdim) ** (1 / p))
        s = sum(where(zero, 0.0, powers), dim, keepdim)
    else:
        s = sum(a**p, dim, keepdim)
    zero = s == 0
    return where(zero, s, where(zero, 1.0, s) ** (1 / p))


def dist(input, other, p=2):
    push_site()
    return norm(input - other, p)


def cumsum(input, dim=None, *, dtype=None, axis=None):
    """Running sum along dim."""
    f = _getframe(1)
    t = _typed(f, input, dtype)
    return _back(f, apply(f, "cumsum", (t,), (wrap_dim(dim if dim is not None else axis, t.dim()),)), dtype)


def cumprod(input, dim=None, *, dtype=None, axis=None):
    """Running product along dim."""
    f = _getframe(1)
    t = _typed(f, input, dtype)
    return _back(f, apply(f, "cumprod", (t,), (wrap_dim(dim if dim is not None else axis, t.dim()),)), dtype)


def logsumexp(input, dim=None, keepdim=False, *, axis=None, keepdims=None):
    """log(sum(exp(x))) over dim, without overflow."""
    dim, keepdim = spelled(dim, keepdim, axis, keepdims)
    if dim is None:
        raise refuse(TypeError, 'logsumexp() missing 1 required positional arguments: "dim"')
    push_site()
    if not input.is_floating_point():
        input = input.to(get_default_dtype())
    m = amax(input.detach(), dim, True)
    m = where(isfinite(m), m, 0.0)
    s = log(sum(exp(input - m), dim, True)) + m
    return s if keepdim else s.squeeze(dim)


def logcumsumexp(input, dim=None, *, axis=None):
    if axis is not None:
        dim = axis
    if dim is None:
        raise refuse(TypeError, 'logcumsumexp() missing 1 required positional arguments: "dim"')
    push_site()
    m = amax(input.detach(), dim, True)
    m = where(isfinite(m), m, 0.0)
    return log(cumsum(exp(input - m), dim)) + m


def softmax(input, dim=None, *, dtype=None, _stacklevel=3, axis=None):
    """exp(x) / sum(exp(x)) along dim."""
    if axis is not None:
        dim = axis
    f = _getframe(1)
    t = _typed(f, input, dtype)
    return apply1(f, _SOFTMAX, t, 1, _softmax_dim("softmax", dim, t) if dim is None else dim)


def log_softmax(input, dim=None, *, dtype=None, _stacklevel=3, axis=None):
    """log of softmax, without overflow."""
    if axis is not None:
        dim = axis
    f = _getframe(1)
    t = _typed(f, input, dtype)
    return apply1(f, _LOG_SOFTMAX, t, 1, _softmax_dim("log_softmax", dim, t) if dim is None else dim)


def _softmax_dim(name, dim, t):
    if dim is not None:
        return dim
    import warnings

    warnings.warn(f"Implicit dimension choice for {name} has been deprecated. Change the call to include dim=X as an argument.",
                  UserWarning, stacklevel=3)
    return 0 if t.dim() in (0, 1, 3) else 1


def diff(input, n=1, dim=-1, prepend=None, append=None, *, axis=None):
    """n-th difference of neighbours along dim."""
    if axis is not None:
        dim = axis
    from ._shape import cat, narrow

    push_site()
    d = wrap_dim(dim, input.dim())
    if n < 0:
        raise refuse(RuntimeError, f"order must be non-negative but got {n}")
    if n == 0:
        return input.clone()
    parts = [x for x in (prepend, input, append) if x is not None]
    x = cat(parts, d) if len(parts) > 1 else input
    for _ in range(n):
        m = x.shape[d]
        if m == 0:
            break
        a, b = narrow(x, d, 1, m - 1), narrow(x, d, 0, m - 1)
        x = a != b if x.dtype.name == "bool" else a - b
    return x


def trace(input):
    """Sum of a matrix's diagonal."""
    push_site()
    if input.dim() != 2:
        raise refuse(RuntimeError, f"trace: expected a matrix, but got tensor with dim {input.dim()}")
    return sum(input.diagonal())


def cov(input, *, correction=1, fweights=None, aweights=None):
    """Covariance matrix of variables in rows and observations in columns (with their repeats and weights)."""
    push_site()
    if input.dim() > 2:
        raise refuse(RuntimeError, f"cov(): expected input to have two or fewer dimensions but got an input with {input.dim()} dimensions")
    if input.dtype.name == "bool":
        raise refuse(RuntimeError, "cov(): bool dtype is not supported for input")
    count = input.shape[-1] if input.dim() else 1
    for name, given in (("fweights", fweights), ("aweights", aweights)):
        if given is None:
            continue
        if given.dim() > 1:
            raise refuse(RuntimeError, f"cov(): expected {name} to have one or fewer dimensions but got {name} with {given.dim()} dimensions")
        if given.is_floating_point() != (name == "aweights"):
            raise refuse(RuntimeError, f"cov(): expected {name} to have {'floating point' if name == 'aweights' else 'integral'} dtype but got "
                         f"{name} with {given.dtype.tensor_name.removesuffix('Tensor')} dtype")
        if given.numel() != count:
            raise refuse(RuntimeError, f"cov(): expected {name} to have the same numel as there are observations in the input but got "
                         f"{given.numel()} != {count}")
        if not lib.ag_tracing() and bool(any(given.detach() < 0)):
            raise refuse(RuntimeError, f"cov(): {name} cannot be negative")
    x = input.reshape(1, -1) if input.dim() < 2 else input
    if not x.is_floating_point():
        x = x.to(get_default_dtype())
    w = None
    for extra in (fweights, aweights):
        if extra is not None:
            w = extra if w is None else w * extra
    if w is None:
        x = x - mean(x, 1, True)
        left = x.shape[1] - correction
        c = (x @ x.T) / (left if left > 0 else 0.0)
    else:
        total = sum(w)
        x = x - sum(x * w, 1, True) / total
        if aweights is None:
            left = total - correction
        else:
            left = total - correction * sum(w * aweights) / total if correction else total
        c = ((x * w) @ x.T) / left.clamp(min=0)
    return c.squeeze()


def corrcoef(input):
    push_site()
    c = cov(input)
    if not c.dim():
        return c / c
    s = sqrt(c.diagonal())
    return c / s.unsqueeze(1) / s.unsqueeze(0)


def trapezoid(y, x=None, *, dx=1.0, dim=-1, axis=None):
    if axis is not None:
        dim = axis
    from ._shape import narrow

    push_site()
    d = wrap_dim(dim, y.dim())
    n = y.shape[d]
    if y.dtype.name == "bool":
        raise refuse(RuntimeError, "trapezoid: received a bool input for `y`, but bool is not supported")
    if not n:
        return sum(y, d, dtype=y.dtype)
    if x is None:
        return (sum(y, d) - (y.select(d, 0) + y.select(d, -1)) * 0.5) * dx
    mid = narrow(y, d, 1, n - 1) + narrow(y, d, 0, n - 1)
    step = diff(x) if x.dim() == 1 else diff(x, dim=dim)
    if x.dim() == 1 and y.dim() > 1:
        step = step.reshape(*([1] * d), -1, *([1] * (y.dim() - d - 1)))
    return sum(mid * step, d) / 2


trapz = trapezoid
