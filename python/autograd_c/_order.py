"""Sorting and what rests on it.  The order comes from NumPy; values are then gathered by it, so gradients flow."""
from sys import _getframe

from ._call import apply
from ._dtypes import int64
from ._elementwise import ceil, floor, lerp, where
from ._elementwise import round as _round
from ._ffi import lib, push_site, refuse
from ._index import gather
from ._reduce import pair_at
from ._shape import movedim
from ._tensor import Tensor, wrap_dim


def _tensor(a):
    import numpy

    from ._create import from_numpy

    return from_numpy(numpy.ascontiguousarray(a, dtype=numpy.int64))


def _order(input, dim, descending):
    """NumPy indices that sort along dim, equal ones in their order, NaN the largest."""
    import numpy

    a = input.detach().numpy()
    if not descending:
        return numpy.argsort(a, axis=dim, kind="stable")
    # Reversed twice, so that equal elements keep their order.
    n = a.shape[dim]
    back = numpy.flip(numpy.argsort(numpy.flip(a, dim), axis=dim, kind="stable"), dim)
    return n - 1 - back


def _indices(input, dim, descending):
    if not input.dim():
        wrap_dim(dim, 0)
        return input.new_zeros((), dtype=int64), 0
    d = wrap_dim(dim, input.dim())
    return _tensor(_order(input, d, descending)), d


def argsort(input, dim=-1, descending=False, stable=False, *, axis=None):
    """Indices that sort along dim."""
    if axis is not None:
        dim = axis
    return _indices(input, dim, descending)[0]


def sort(input, dim=-1, descending=False, stable=False, *, axis=None):
    """(values, indices) sorted along dim."""
    if axis is not None:
        dim = axis
    push_site()
    i, d = _indices(input, dim, descending)
    if not input.dim():
        return pair_at("sort", (input.clone(), i))
    return pair_at("sort", (gather(input, d, i), i))


def msort(input):
    push_site()
    return sort(input, 0)[0]


def topk(input, k, dim=-1, largest=True, sorted=True, *, axis=None):
    """(values, indices) of the k largest (or smallest) along dim."""
    if axis is not None:
        dim = axis
    push_site()
    if not input.dim():
        return pair_at("topk", (input.clone(), input.new_zeros((), dtype=int64)))
    d = wrap_dim(dim, input.dim())
    if not 0 <= k <= input.shape[d]:
        raise refuse(RuntimeError, "selected index k out of range")
    i = _tensor(_order(input, d, largest).take(range(k), axis=d))
    return pair_at("topk", (gather(input, d, i), i))


def kthvalue(input, k, dim=-1, keepdim=False, *, axis=None, keepdims=None):
    """(value, index) of the k-th smallest along dim, k from 1."""
    if axis is not None:
        dim = axis
    if keepdims is not None:
        keepdim = keepdims
    push_site()
    d = wrap_dim(dim, input.dim())
    if not 1 <= k <= (input.shape[d] if input.dim() else 1):
        raise refuse(RuntimeError, "kthvalue(): selected number k out of range for dimension " + str(dim))
    if not input.dim():
        return pair_at("kthvalue", (input.clone(), input.new_zeros((), dtype=int64)))
    i = _tensor(_order(input, d, False).take([k - 1], axis=d))
    v = gather(input, d, i)
    return pair_at("kthvalue", (v, i) if keepdim else (v.squeeze(d), i.squeeze(d)))


def _median(input, dim, keepdim, skip_nan):
    import numpy

    d = wrap_dim(dim, input.dim())
    if not input.dim():
        return input.clone(), input.new_zeros((), dtype=int64)
    a = input.detach().numpy()
    order = numpy.argsort(a, axis=d, kind="stable")
    nan = numpy.isnan(a).sum(axis=d, keepdims=True) if input.is_floating_point() else 0
    n = a.shape[d]
    if skip_nan:
        place = numpy.maximum(n - nan - 1, 0) // 2
    else:
        place = numpy.where(nan > 0, n - nan, (n - 1) // 2)
    place = numpy.broadcast_to(place, tuple([1 if k == d else m for k, m in enumerate(a.shape)]))
    i = _tensor(numpy.take_along_axis(order, place, d))
    v = gather(input, d, i)
    return (v, i) if keepdim else (v.squeeze(d), i.squeeze(d))


def median(input, dim=None, keepdim=False, *, axis=None, keepdims=None):
    """The (lower) median of all elements, or (values, indices) along dim."""
    if axis is not None:
        dim = axis
    if keepdims is not None:
        keepdim = keepdims
    push_site()
    if dim is None:
        return _median(input.reshape(-1), 0, False, False)[0]
    return pair_at("median", _median(input, dim, keepdim, False))


def nanmedian(input, dim=None, keepdim=False, *, axis=None, keepdims=None):
    if axis is not None:
        dim = axis
    if keepdims is not None:
        keepdim = keepdims
    push_site()
    if dim is None:
        return _median(input.reshape(-1), 0, False, True)[0]
    return pair_at("nanmedian", _median(input, dim, keepdim, True))


def mode(input, dim=-1, keepdim=False, *, axis=None, keepdims=None):
    """(values, indices) of the most frequent, smallest element along dim."""
    if axis is not None:
        dim = axis
    if keepdims is not None:
        keepdim = keepdims
    import numpy

    push_site()
    d = wrap_dim(dim, input.dim())
    if not input.dim():
        return pair_at("mode", (input.clone(), input.new_zeros((), dtype=int64)))
    a = numpy.moveaxis(input.detach().numpy(), d, -1)
    at = numpy.zeros(a.shape[:-1], numpy.int64)
    for place in numpy.ndindex(*a.shape[:-1]):
        row = a[place]
        values, counts = numpy.unique(row, return_counts=True)
        at[place] = numpy.flatnonzero(row == values[counts.argmax()])[-1]
    i = _tensor(numpy.expand_dims(at, d))
    v = gather(input, d, i)
    return pair_at("mode", (v, i) if keepdim else (v.squeeze(d), i.squeeze(d)))


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
    if axis is not None:
        dim = axis
    if keepdims is not None:
        keepdim = keepdims
    push_site()
    return _quantile("quantile", input, q, dim, keepdim, interpolation, False)


def nanquantile(input, q, dim=None, keepdim=False, *, interpolation="linear", axis=None, keepdims=None):
    """quantile of the elements that are no NaN."""
    if axis is not None:
        dim = axis
    if keepdims is not None:
        keepdim = keepdims
    push_site()
    return _quantile("nanquantile", input, q, dim, keepdim, interpolation, True)


def unique(input, sorted=True, return_inverse=False, return_counts=False, dim=None):
    """Sorted distinct elements (or slices along dim); optionally where each came from, and how often."""
    import numpy

    from ._create import tensor

    r = numpy.unique(input.detach().numpy(), return_inverse=return_inverse, return_counts=return_counts, axis=dim)
    if not return_inverse and not return_counts:
        return tensor(r)
    out = [tensor(r[0])]
    if return_inverse:
        out.append(tensor(r[1].reshape(input.shape if dim is None else -1)))
    if return_counts:
        out.append(tensor(r[-1]))
    return tuple(out)


def unique_consecutive(input, return_inverse=False, return_counts=False, dim=None):
    """Elements that differ from the one before (of the flattened tensor)."""
    import numpy

    from ._create import tensor

    a = input.detach().numpy().reshape(-1)
    new = numpy.concatenate([[True], a[1:] != a[:-1]]) if a.size else numpy.zeros(0, bool)
    out = [tensor(a[new])]
    if return_inverse:
        out.append(tensor((numpy.cumsum(new) - 1).reshape(input.shape)))
    if return_counts:
        out.append(tensor(numpy.diff(numpy.append(numpy.flatnonzero(new), a.size))))
    return out[0] if len(out) == 1 else tuple(out)


def searchsorted(sorted_sequence, values, *, right=False, side=None, out_int32=False):
    """Where values would be inserted to keep the order of the last dim."""
    import numpy

    from ._create import tensor

    side = side or ("right" if right else "left")
    s = sorted_sequence.detach().numpy()
    v = values.detach().numpy() if isinstance(values, Tensor) else numpy.asarray(values)
    if s.ndim == 1:
        return tensor(numpy.searchsorted(s, v, side).astype(numpy.int64))
    out = numpy.empty(v.shape, numpy.int64)
    for place in numpy.ndindex(*s.shape[:-1]):
        out[place] = numpy.searchsorted(s[place], v[place], side)
    return tensor(out)


def bucketize(input, boundaries, *, right=False, out_int32=False):
    return searchsorted(boundaries, input, right=right)


def bincount(input, weights=None, minlength=0):
    import numpy

    from ._create import tensor

    return tensor(numpy.bincount(input.detach().numpy(), None if weights is None else weights.detach().numpy(), minlength))


def histc(input, bins=100, min=0, max=0):
    import numpy

    from ._create import tensor

    a = input.detach().numpy()
    if min == max:
        min, max = (float(a.min()), float(a.max())) if a.size else (0.0, 1.0)
    return tensor(numpy.histogram(a, bins, (min, max))[0]).to(input.dtype)


def isin(elements, test_elements):
    import numpy

    from ._create import tensor

    as_array = lambda x: x.detach().numpy() if isinstance(x, Tensor) else numpy.asarray(x)  # noqa: E731
    return tensor(numpy.isin(as_array(elements), as_array(test_elements)))


def _running(input, dim, sign, name):
    """Cumulative maximum (sign 1) or minimum (-1): the later of equal elements is named."""
    import numpy

    push_site()
    d = wrap_dim(dim, input.dim())
    if not input.dim():
        return pair_at(name, (input.clone(), input.new_zeros((), dtype=int64)))
    a = numpy.moveaxis(input.detach().numpy(), d, 0)
    best = numpy.zeros(a.shape, numpy.int64)
    top = a[:1].copy()
    for k in range(1, a.shape[0]):
        better = (a[k] >= top[0] if sign > 0 else a[k] <= top[0]) | (numpy.isnan(a[k]) if a.dtype.kind == "f" else False)
        top[0] = numpy.where(better, a[k], top[0])
        best[k] = numpy.where(better, k, best[k - 1])
    i = _tensor(numpy.moveaxis(best, 0, d))
    return pair_at(name, (gather(input, d, i), i))


def cummax(input, dim=None, *, axis=None):
    """(values, indices) of the largest element so far along dim."""
    if axis is not None:
        dim = axis
    if dim is None:
        raise refuse(TypeError, 'cummax() missing 1 required positional arguments: "dim"')
    return _running(input, dim, 1, "cummax")


def cummin(input, dim=None, *, axis=None):
    """(values, indices) of the smallest element so far along dim."""
    if axis is not None:
        dim = axis
    if dim is None:
        raise refuse(TypeError, 'cummin() missing 1 required positional arguments: "dim"')
    return _running(input, dim, -1, "cummin")


def tril_indices(row, col, offset=0, *, dtype=None, device=None):
    import numpy

    return _tensor(numpy.stack(numpy.tril_indices(row, offset, col)))


def triu_indices(row, col, offset=0, *, dtype=None, device=None):
    import numpy

    return _tensor(numpy.stack(numpy.triu_indices(row, offset, col)))


def combinations(input, r=2, with_replacement=False):
    import itertools

    from ._create import tensor

    pick = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    rows = list(pick(range(input.shape[0]), r))
    at = tensor(rows).long().reshape(len(rows), r)
    return apply(_getframe(1), "index", (input, at), (0,))


