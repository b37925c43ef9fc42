"""Sorting and what rests on it.  NaN is the largest number, equal elements keep their order."""
from sys import _getframe

from ._call import apply, apply1, apply_multi, scalar_tensor
from ._dtypes import float64, int64, promote_types
from ._elementwise import ceil, floor, lerp, where
from ._elementwise import round as _round
from ._ffi import OPS, lib, push_site, refuse
from ._index import gather, index_select
from ._reduce import pair_at
from ._shape import movedim
from ._tensor import Tensor, spelled, wrap_dim

_CUMMAX = OPS["cummax"]
_CUMMIN = OPS["cummin"]
_KTHVALUE = OPS["kthvalue"]
_MEDIAN = OPS["median"]
_MEDIAN_DIM = OPS["median_dim"]
_MODE = OPS["mode"]
_NANMEDIAN = OPS["nanmedian"]
_NANMEDIAN_DIM = OPS["nanmedian_dim"]
_SORT = OPS["sort"]
_TOPK = OPS["topk"]


def argsort(input, dim=-1, descending=False, stable=False, *, axis=None):
    """Indices that sort along dim: int64 of input's shape."""
    if axis is not None:
        dim = axis
    return apply_multi(_getframe(1), _SORT, (input,), 2, (dim, descending))[1]


def sort(input, dim=-1, descending=False, stable=False, *, axis=None):
    """(values, indices) sorted along dim, each of input's shape; always stable."""
    if axis is not None:
        dim = axis
    return pair_at("sort", apply_multi(_getframe(1), _SORT, (input,), 2, (dim, descending)))


def msort(input):
    """input sorted along its first dim."""
    return apply_multi(_getframe(1), _SORT, (input,), 2, (0, 0))[0]


def topk(input, k, dim=-1, largest=True, sorted=True, *, axis=None):
    """(values, indices) of the k largest (or smallest) along dim, in order; of equal ones the first."""
    if axis is not None:
        dim = axis
    return pair_at("topk", apply_multi(_getframe(1), _TOPK, (input,), 2, (dim, k, largest)))


def kthvalue(input, k, dim=-1, keepdim=False, *, axis=None, keepdims=None):
    """(value, index) of the k-th smallest along dim, k from 1; in sorted order, equal ones as they stand."""
    dim, keepdim = spelled(dim, keepdim, axis, keepdims)
    return pair_at("kthvalue", apply_multi(_getframe(1), _KTHVALUE, (input,), 2, (keepdim, dim, k)))


def median(input, dim=None, keepdim=False, *, axis=None, keepdims=None):
    """The (lower) median of all elements, or (values, indices) along dim; NaN if there is one."""
    dim, keepdim = spelled(dim, keepdim, axis, keepdims)
    if dim is None:
        return apply1(_getframe(1), _MEDIAN, input, 0)
    return pair_at("median", apply_multi(_getframe(1), _MEDIAN_DIM, (input,), 2, (keepdim, dim)))


def nanmedian(input, dim=None, keepdim=False, *, axis=None, keepdims=None):
    """median of the elements that are no NaN."""
    dim, keepdim = spelled(dim, keepdim, axis, keepdims)
    if dim is None:
        return apply1(_getframe(1), _NANMEDIAN, input, 0)
    return pair_at("nanmedian", apply_multi(_getframe(1), _NANMEDIAN_DIM, (input,), 2, (keepdim, dim)))


def mode(input, dim=-1, keepdim=False, *, axis=None, keepdims=None):
    """(values, indices) of the most frequent, smallest element along dim; the index of its last occurrence."""
    dim, keepdim = spelled(dim, keepdim, axis, keepdims)
    return pair_at("mode", apply_multi(_getframe(1), _MODE, (input,), 2, (keepdim, dim)))


def cummax(input, dim=None, *, axis=None):
    """(values, indices) of the largest element so far along dim; of equal ones the last."""
    if axis is not None:
        dim = axis
    if dim is None:
        raise refuse(TypeError, 'cummax() missing 1 required positional arguments: "dim"')
    return pair_at("cummax", apply_multi(_getframe(1), _CUMMAX, (input,), 2, (dim,)))


def cummin(input, dim=None, *, axis=None):
    """(values, indices) of the smallest element so far along dim; of equal ones the last."""
    if axis is not None:
        dim = axis
    if dim is None:
        raise refuse(TypeError, 'cummin() missing 1 required positional arguments: "dim"')
    return pair_at("cummin", apply_multi(_getframe(1), _CUMMIN, (input,), 2, (dim,)))


# ---- quantiles ------------------------------------------------------------------------------------------


def _quantile(name, input, q, dim, keepdim, interpolation, skip_nan):
    if not input.is_floating_point():
        raise refuse(RuntimeError, f"{name}() input tensor must be either float or double dtype")
    if not input.numel():
        raise refuse(RuntimeError, f"{name}() input tensor must be non-empty")
    if interpolation not in ("linear", "lower", "higher", "midpoint", "nearest"):
        raise refuse(RuntimeError, f"{name}() interpolation must be one of linear, lower, higher, midpoint or nearest, but got "
                     f"{interpolation}")
    if isinstance(q, Tensor):
        if q.dim() > 1:
            raise refuse(RuntimeError, f"{name}() q must be a scalar or 1D tensor")
        if q.dtype is not input.dtype:
            raise refuse(RuntimeError, f"{name}() q tensor must be same dtype as the input tensor")
        if not lib.ag_tracing() and not all([0 <= x <= 1 for x in q._flat()]):
            raise refuse(RuntimeError, f"{name}() q values must be in the range [0, 1]")
        scalar = not q.dim()
    else:
        if not 0 <= q <= 1:
            raise refuse(RuntimeError, f"{name}() q must be in the range [0, 1] but got {q}")
        q, scalar = input.new_full((), float(q)), True
    d = 0 if dim is None else wrap_dim(dim, input.dim())
    x = input.reshape(-1) if dim is None or not input.dim() else movedim(input, d, -1)
    x = sort(x, -1)[0]  # NaN come last
    number = x == x
    if skip_nan:
        ranks = q.reshape(-1) * (number.sum(-1, True) - 1).clamp(min=0).to(x.dtype)
    else:
        last = x.shape[-1] - 1
        ranks = where(number.all(-1, True), q.reshape(-1) * last, float(last))
    if interpolation in ("lower", "higher", "nearest"):
        ranks = {"lower": floor, "higher": ceil, "nearest": _round}[interpolation](ranks)
    low = ranks.detach().long()
    r = gather(x, -1, low)
    if interpolation in ("linear", "midpoint"):
        share = ranks - low if interpolation == "linear" else 0.5
        r = lerp(r, gather(x, -1, ceil(ranks.detach()).long()), share)
    if keepdim and input.dim():
        r = r.reshape((1,) * input.dim() + (-1,)) if dim is None else movedim(r.unsqueeze(-1), -1, d)
    return r.squeeze(-1) if scalar else movedim(r, -1, 0)


def quantile(input, q, dim=None, keepdim=False, *, interpolation="linear", axis=None, keepdims=None):
    """Quantiles q (a number or a vector) along dim, between neighbours by `interpolation`; NaN where there is one."""
    dim, keepdim = spelled(dim, keepdim, axis, keepdims)
    push_site()
    return _quantile("quantile", input, q, dim, keepdim, interpolation, False)


def nanquantile(input, q, dim=None, keepdim=False, *, interpolation="linear", axis=None, keepdims=None):
    """quantile of the elements that are no NaN."""
    dim, keepdim = spelled(dim, keepdim, axis, keepdims)
    push_site()
    return _quantile("nanquantile", input, q, dim, keepdim, interpolation, True)


# ---- distinct elements ----------------------------------------------------------------------------------


def _distinct(new, order, shape, return_inverse, return_counts):
    """(places of the first of each run, [inverse], [counts]) from marks where a run begins and the places' order."""
    from ._create import empty, full
    from ._shape import cat

    first = new.nonzero().reshape(-1)
    more = []
    if return_inverse:
        number = new.cumsum(0) - 1
        if order is not None:
            number = empty(new.shape, dtype=int64).scatter_(0, order, number)
        more.append(number.reshape(shape))
    if return_counts:
        ends = cat([first[1:], full((1,), new.shape[0], dtype=int64)]) if first.shape[0] else first
        more.append(ends - first)
    return first, more


def _begins(x, d):
    """Marks where a slice of x along d differs from the one before."""
    from ._create import ones
    from ._dtypes import bool_
    from ._shape import cat

    n = x.shape[d]
    start = ones((min(n, 1),), dtype=bool_)
    if n < 2:
        return start
    differs = x.narrow(d, 1, n - 1) != x.narrow(d, 0, n - 1)
    others = [k for k in range(x.dim()) if k != d]
    return cat([start, differs.any(others) if others else differs])


def _slices(input, dim):
    """dim wrapped, for slices that have elements (or are none)."""
    d = wrap_dim(dim, input.dim())
    if not input.numel() and 0 in [n for k, n in enumerate(input.shape) if k != d]:
        raise refuse(RuntimeError, "There are 0 sized dimensions, and they aren't selected, so unique cannot be applied")
    return d


def _result(values, more):
    return (values, *more) if more else values


def unique(input, sorted=True, return_inverse=False, return_counts=False, dim=None):
    """Sorted distinct elements (or slices along dim); optionally where each came from, and how often.  NaN differ."""
    push_site()
    x = input.detach()
    if dim is None or not x.dim():
        s, order = sort(x.reshape(-1), 0)
        first, more = _distinct(_begins(s, 0), order, tuple(x.shape), return_inverse, return_counts)
        return _result(index_select(s, 0, first), more)
    d = _slices(x, dim)
    order = apply(None, "sort_slices", (x,), (d,))
    s = index_select(x, d, order)
    first, more = _distinct(_begins(s, d), order, (-1,), return_inverse, return_counts)
    return _result(index_select(s, d, first), more)


def unique_consecutive(input, return_inverse=False, return_counts=False, dim=None):
    """Elements (of the flattened tensor) or slices along dim that differ from the one before."""
    push_site()
    x = input.detach()
    if dim is None or not x.dim():
        flat, d, shape = x.reshape(-1), 0, tuple(x.shape)
    else:
        flat, d, shape = x, _slices(x, dim), (-1,)
    first, more = _distinct(_begins(flat, d), None, shape, return_inverse, return_counts)
    return _result(index_select(flat, d, first), more)


# ---- places and counts ----------------------------------------------------------------------------------


def _alike(a, b):
    """a and b in one dtype, no graph."""
    a, b = a.detach(), b.detach()
    d = a.dtype if a.dtype is b.dtype else promote_types(a.dtype, b.dtype)
    return a.to(d), b.to(d)


def searchsorted(sorted_sequence, input, *, out_int32=False, right=False, side=None, sorter=None):
    """Where input's elements would be inserted to keep the order of the last dim: before equal ones, or behind (right).

    sorted_sequence is a vector, or has input's dims before the last; sorter: indices that sort it.
    """
    push_site()
    if side not in (None, "left", "right"):
        raise refuse(RuntimeError, f"torch.searchsorted(): side can only be 'left' or 'right' but got {side}")
    if side == "left" and right:
        raise refuse(RuntimeError, "torch.searchsorted(): side and right can't be set to opposites, got side of left while right was True")
    if not isinstance(input, Tensor):
        input = scalar_tensor(input, sorted_sequence)
    s, v = _alike(sorted_sequence, input)
    return apply(None, "searchsorted", (s, v) if sorter is None else (s, v, sorter), (right or side == "right", bool(out_int32)))


def bucketize(input, boundaries, *, out_int32=False, right=False):
    """searchsorted with the operands the other way round; boundaries is a vector."""
    push_site()
    if boundaries.dim() != 1:
        raise refuse(RuntimeError, f"boundaries tensor must be 1 dimension, but got dim({boundaries.dim()})")
    return searchsorted(boundaries, input, right=right, out_int32=out_int32)


def bincount(input, weights=None, minlength=0):
    """How often (or with what weight) each of 0, 1, ... occurs in a vector of whole numbers."""
    push_site()
    if weights is None:
        return apply(None, "bincount", (input,), (minlength,))
    w = weights.detach()
    return apply(None, "bincount", (input, w if w.is_floating_point() else w.to(float64)), (minlength,))


def histc(input, bins=100, min=0, max=0):
    """Counts of elements in `bins` equal parts of [min, max] (equal: from the least to the largest element)."""
    push_site()
    return apply(None, "histc", (input.detach(),), (bins,), (float(min), float(max)))


def isin(elements, test_elements, *, assume_unique=False, invert=False):
    """Whether each element is one of test_elements."""
    push_site()
    if not isinstance(elements, Tensor):
        elements = scalar_tensor(elements, test_elements)
    if not isinstance(test_elements, Tensor):
        test_elements = scalar_tensor(test_elements, elements)
    x, t = _alike(elements, test_elements.reshape(-1))
    if not t.shape[0]:
        return (x == x) == bool(invert)
    t = sort(t, 0)[0]
    at = searchsorted(t, x).clamp(max=t.shape[0] - 1)
    found = index_select(t, 0, at.reshape(-1)).reshape(tuple(x.shape))
    return found != x if invert else found == x


def _triangle(rows, dtype):
    """int64 (2, count) of a triangle's places from the range of columns of each row."""
    from array import array

    from ._create import tensor

    at = array("q")
    for i, columns in enumerate(rows):
        at.extend([i] * len(columns))
    for columns in rows:
        at.extend(columns)
    t = tensor(at, dtype=int64).reshape(2, -1)
    return t if dtype is None else t.to(dtype)


def tril_indices(row, col, offset=0, *, dtype=None, device=None):
    """Places (2, count) of a matrix's lower triangle, row by row."""
    return _triangle([range(max(0, min(col, i + offset + 1))) for i in range(row)], dtype)


def triu_indices(row, col, offset=0, *, dtype=None, device=None):
    """Places (2, count) of a matrix's upper triangle, row by row."""
    return _triangle([range(max(0, min(col, i + offset)), col) for i in range(row)], dtype)


def combinations(input, r=2, with_replacement=False):
    """Choices of r elements of a vector, one a row."""
    import itertools

    from ._create import tensor

    push_site()
    pick = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    rows = list(pick(range(input.shape[0]), r))
    at = tensor(rows).long().reshape(len(rows), r)
    return apply(None, "index", (input, at), (0,))
