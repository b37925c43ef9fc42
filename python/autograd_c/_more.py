"""The long tail: functions composed of others, rarely used, wanted all the same."""
import math as _math
from sys import _getframe

from ._call import apply, binary_at, tensors_only
from ._dtypes import get_default_dtype
from ._elementwise import abs as _abs
from ._elementwise import exp2, isnan, log2, maximum, minimum, where
from ._ffi import OPS, push_site, refuse
from ._index import check_put_at, gather, index_put, same_dtype, scatter, scatter_add
from ._reduce import norm
from ._shape import (as_strided, cat, diagonal, expand, narrow, permute, reshape, split, squeeze, t, transpose,
                     unbind, unfold, unsqueeze, view)
from ._tensor import Tensor, wrap_dim


def _copying(fn, name):
    def copy(input, *args, **kw):
        push_site()
        r = fn(input, *args, **kw)
        return tuple([x.clone() for x in r]) if isinstance(r, tuple) else r.clone()

    copy.__name__ = copy.__qualname__ = name
    copy.__doc__ = f"As {fn.__name__}, but a copy."
    return copy


expand_copy = _copying(expand, "expand_copy")
diagonal_copy = _copying(diagonal, "diagonal_copy")
alias_copy = _copying(lambda input: input, "alias_copy")
as_strided_copy = _copying(as_strided, "as_strided_copy")
narrow_copy = _copying(narrow, "narrow_copy")
view_copy = _copying(view, "view_copy")
permute_copy = _copying(permute, "permute_copy")
split_with_sizes_copy = _copying(split, "split_with_sizes_copy")
unbind_copy = _copying(unbind, "unbind_copy")
unfold_copy = _copying(unfold, "unfold_copy")
squeeze_copy = _copying(squeeze, "squeeze_copy")
unsqueeze_copy = _copying(unsqueeze, "unsqueeze_copy")
transpose_copy = _copying(transpose, "transpose_copy")
t_copy = _copying(t, "t_copy")


def conj(input):
    """Real numbers are their own conjugates."""
    return input


resolve_conj = resolve_neg = conj_physical = real = conj


def angle(input):
    """0 for positive numbers, pi for negative ones."""
    push_site()
    return where(isnan(input), input, where(input < 0, _math.pi, input * 0))


def _sign_bit(x):
    """Whether x is negative, -0.0 included."""
    return (x < 0) | ((x == 0) & (1 / x < 0))


def copysign(input, other):
    """|input| with the sign of other, a tensor or a number."""
    tensors_only("copysign", input)
    return binary_at(_getframe(1), OPS["copysign"], "copysign", input, other)


def ldexp(input, other):
    """input * 2**other."""
    push_site()
    tensors_only("ldexp", input, other)
    return input * exp2(other.to(input.dtype) if not other.is_floating_point() else other)


def fill(input, value):
    """input's shape, filled with a number or a 0-d tensor."""
    push_site()
    return input.clone().fill_(value)


def put(input, index, source, accumulate=False):
    """input with source written at positions of the flattened tensor."""
    push_site()
    check_put_at(input, index, source)
    flat = reshape(input, (-1,))
    return reshape(index_put(flat, (reshape(index, (-1,)),), reshape(source, (-1,)), accumulate), tuple(input.shape))


def block_diag(*tensors):
    """Matrices along the diagonal of one matrix."""
    push_site()
    blocks = [x if x.dim() == 2 else reshape(x, (1, -1)) for x in tensors]
    width = sum([b.shape[1] for b in blocks])
    rows, at = [], 0
    for b in blocks:
        n, m = b.shape
        rows.append(cat([b.new_zeros(n, at), b, b.new_zeros(n, width - at - m)], 1))
        at += m
    return cat(rows, 0)


def constant_pad_nd(input, pad, value=0):
    """Padding by pairs (before, after), the last dim first; negative numbers cut."""
    push_site()
    n = input.dim()
    pairs = [0] * (2 * n)
    for k in range(len(pad) // 2):
        pairs[2 * (n - 1 - k)], pairs[2 * (n - 1 - k) + 1] = pad[2 * k], pad[2 * k + 1]
    return apply(None, "pad", (input,), pairs, (float(value),))


def as_strided_scatter(input, src, size, stride, storage_offset=None):
    """input with src written at a geometry over its storage."""
    push_site()
    start = 0 if storage_offset is None else storage_offset - input.storage_offset()
    return apply(None, "as_strided_scatter", (input, src), (len(size), *size, *stride, start))


def renorm(input, p, dim, maxnorm):
    """Slices along dim whose p-norm exceeds maxnorm scaled down to it."""
    push_site()
    if input.dim() < 2:
        raise refuse(RuntimeError, f"renorm: input needs at least 2 dimensions, got {input.dim()} dimensions")
    if maxnorm < 0:
        raise refuse(RuntimeError, f"renorm: expected maxnorm to be >= 0 but got {maxnorm}")
    d = wrap_dim(dim, input.dim())
    others = [k for k in range(input.dim()) if k != d]
    n = norm(input, p, others, True)
    return input * where(n > maxnorm, maxnorm / (n + 1e-7), 1.0)


def cumulative_trapezoid(y, x=None, *, dx=1.0, dim=-1, axis=None):
    """Running integral by the trapezoid rule."""
    if axis is not None:
        dim = axis
    from ._reduce import cumsum, diff

    push_site()
    d = wrap_dim(dim, y.dim())
    n = max(y.shape[d], 1) - 1
    mid = narrow(y, d, min(y.shape[d], 1), n) + narrow(y, d, 0, n)
    if x is None:
        return cumsum(mid * dx, d) / 2
    step = diff(x) if x.dim() == 1 else diff(x, dim=dim)
    if x.dim() == 1 and y.dim() > 1:
        step = reshape(step, (1,) * d + (-1,) + (1,) * (y.dim() - d - 1))
    return cumsum(mid * step, d) / 2


def gradient(input, *, spacing=None, dim=None, edge_order=1):
    """Central differences along dims, one-sided at the edges (of first or second order); a tuple."""
    push_site()
    dims = list(range(input.dim())) if dim is None else [wrap_dim(d, input.dim()) for d in (dim if isinstance(dim, (tuple, list)) else (dim,))]
    spacing = 1 if spacing is None else spacing
    spaces = list(spacing) if isinstance(spacing, (tuple, list)) else [spacing] * len(dims)
    if len(spaces) != len(dims):
        raise refuse(RuntimeError, "torch.gradient expected spacing to be unspecified, a scalar or it's spacing and dim arguments to have the "
                     f"same length, but got a spacing argument of length {len(spaces)} and a dim argument of length {len(dims)}.")
    if len(set(dims)) != len(dims):
        raise refuse(RuntimeError, f"dim {next(d for d in dims if dims.count(d) > 1)} appears multiple times in the list of dims")
    if edge_order not in (1, 2):
        raise refuse(RuntimeError, "torch.gradient only supports edge_order=1 and edge_order=2.")
    for d in dims:
        if input.dim() and input.shape[d] < edge_order + 1:
            raise refuse(RuntimeError, "torch.gradient expected each dimension size to be at least edge_order+1")
    return tuple([_gradient(input, d, s, edge_order) for d, s in zip(dims, spaces)])


def _gradient(x, d, spacing, order):
    n = x.shape[d]
    if not x.is_floating_point():
        x = x.to(get_default_dtype())

    def at(k, length=1):
        return narrow(x, d, k, length)

    if isinstance(spacing, Tensor) and spacing.dim():
        h = (spacing[1:] - spacing[:-1]).to(x.dtype)  # of whole coordinates, too
        h = reshape(h, (1,) * d + (-1,) + (1,) * (x.dim() - d - 1))
    else:
        h = x.new_full((1,) * d + (n - 1,) + (1,) * (x.dim() - d - 1), float(spacing))
    a, b = narrow(h, d, 0, n - 2), narrow(h, d, 1, n - 2)
    middle = -b / (a * (a + b)) * at(0, n - 2) + (b - a) / (a * b) * at(1, n - 2) + a / (b * (a + b)) * at(2, n - 2)
    h0, h1 = narrow(h, d, 0, 1), narrow(h, d, n - 2, 1)
    if order == 1:
        first, last = (at(1) - at(0)) / h0, (at(n - 1) - at(n - 2)) / h1
    else:
        g0, g1 = narrow(h, d, 1, 1), narrow(h, d, n - 3, 1)
        first = -(2 * h0 + g0) / (h0 * (h0 + g0)) * at(0) + (h0 + g0) / (h0 * g0) * at(1) - h0 / (g0 * (h0 + g0)) * at(2)
        last = h1 / (g1 * (g1 + h1)) * at(n - 3) - (g1 + h1) / (g1 * h1) * at(n - 2) + (2 * h1 + g1) / (h1 * (g1 + h1)) * at(n - 1)
    return cat([first, middle, last], d)


# ---- scatter with a reduction -------------------------------------------------------------------------


def _full_index(index, like, dim):
    """A vector index spread over like's other dims."""
    shape = [1] * like.dim()
    shape[dim] = -1
    return expand(reshape(index, shape), tuple(like.shape))


def _reduce_into(input, d, index, src, reduce, include_self):
    """The work of scatter_reduce and index_reduce: index has src's shape."""
    if not input.is_floating_point():  # in int64, without gradients
        return _reduced(input.long(), d, index, src.long(), reduce, include_self, input.dtype).to(input.dtype)
    return _reduced(input, d, index, src, reduce, include_self)


def _reduced(input, d, index, src, reduce, include_self, whole=None):
    """whole: the dtype that int64 operands stand for."""
    src = src[tuple([slice(0, n) for n in index.shape])]
    one = src.new_ones(tuple(index.shape))
    touched = scatter_add(input.new_zeros(tuple(input.shape)), d, index, one)
    hit = touched > 0
    if reduce in ("sum", "mean"):
        base = input if include_self else where(hit, 0, input)
        r = scatter_add(base, d, index, src)
        if reduce == "mean":
            count = touched + 1 if include_self else where(hit, touched, 1)
            if whole:
                r = r.to(whole).long() // count  # the sum as that dtype holds it
            r = where(hit, r if whole else r / count, input)
        return r
    if reduce == "prod":
        return _product_into(input, d, index, src, hit, include_self)
    pick, worst = (maximum, -2**63 if whole else -_math.inf) if reduce == "amax" else (minimum, 2**63 - 1 if whole else _math.inf)
    best = _running(pick, input.detach() if include_self else where(hit, worst, input.detach()), d, index, src.detach())
    if whole:
        return best
    # Equal extremes share the gradient.
    mine = (src == gather(best, d, index)).to(src.dtype)
    own = (input == best).to(src.dtype) if include_self else where(hit, 0, input.new_ones(tuple(input.shape)))
    count = scatter_add(own, d, index, mine)
    r = scatter_add(where(own > 0, input, 0) * own, d, index, where(mine > 0, src, 0) * mine)
    return where(hit, r / count, input)


def _running(pick, best, d, index, src):
    """best or src's values at index along d, whichever pick takes, slice by slice (no graph)."""
    for k in range(index.shape[d]):
        i, s = narrow(index, d, k, 1), narrow(src, d, k, 1)
        best = scatter(best, d, i, pick(gather(best, d, i), s))
    return best


def _product_into(input, d, index, src, hit, include_self):
    r = input if include_self else where(hit, 1, input)
    for k in range(index.shape[d]):
        i, s = narrow(index, d, k, 1), narrow(src, d, k, 1)
        r = scatter(r, d, i, gather(r, d, i) * s)
    return r


def scatter_reduce(input, dim, index, src, reduce, *, include_self=True):
    """input with src gathered in at index along dim by "sum", "prod", "mean", "amax" or "amin"."""
    push_site()
    if reduce not in ("sum", "prod", "mean", "amax", "amin"):
        raise refuse(RuntimeError, f"reduce argument must be either sum, prod, mean, amax or amin, got {reduce}")
    same_dtype(input, src, "scatter(): Expected self.dtype to be equal to src.dtype")
    if reduce == "mean" and input.dtype.name == "bool":
        raise refuse(NotImplementedError, "\"scatter_gather_tensor_cpu_reduce_mean\" not implemented for 'Bool'")
    if not input.dim():
        return reshape(scatter_reduce(reshape(input, (1,)), 0, reshape(index, (1,)), reshape(src, (1,)), reduce, include_self=include_self), ())
    return _reduce_into(input, wrap_dim(dim, input.dim()), index, src, reduce, include_self)


def index_reduce(input, dim, index, source, reduce, *, include_self=True):
    """As scatter_reduce for whole slices: index is a vector."""
    push_site()
    if reduce not in ("prod", "mean", "amax", "amin"):
        raise refuse(RuntimeError, f"index_reduce(): Expected reduce to be one of prod, mean, amax or amin but got {reduce}.")
    same_dtype(input, source, "index_reduce_(): self ({}) and source ({}) must have the same scalar type")
    if not input.dim():
        return reshape(index_reduce(reshape(input, (1,)), 0, reshape(index, (-1,)), reshape(source, (1,)), reduce,
                                    include_self=include_self), ())
    d = wrap_dim(dim, input.dim())
    index = reshape(index, (-1,))
    return _reduce_into(input, d, _full_index(index, source, d), source, reduce, include_self)


def frexp(input):
    """(mantissa, exponent) with input = mantissa * 2**exponent and 0.5 <= |mantissa| < 1."""
    push_site()
    x = input.detach()
    e = where((x == 0) | (_abs(x) == _math.inf) | isnan(x), 0.0, log2(where(x == 0, 1.0, _abs(x))).floor() + 1)
    m = x / exp2(e)
    e = e + (_abs(m) >= 1).to(e.dtype) - ((_abs(m) < 0.5) & (x != 0)).to(e.dtype)
    return input / exp2(e), e.int()
