"""x[key] and x[key] = value, and indexing by tensors."""
import operator as _operator
import warnings as _warnings
from sys import _getframe

from ._call import apply, apply1, apply_inplace, as_number, scalar_tensor
from ._dtypes import bool_, int64
from ._elementwise import cast_at, copy_at, where_at
from ._ffi import OPS, lib, push_site, refuse
from ._shape import broadcast_shapes, expand_at, resolve_shape
from ._tensor import Tensor, wrap_dim

_SELECT, _SLICE, _ALIAS, _UNSQUEEZE = OPS["select"], OPS["slice"], OPS["alias"], OPS["unsqueeze"]
_ndim, _sizes = lib.ag_tensor_ndim, lib.ag_tensor_shape

_BASIC = (int, slice, type(Ellipsis), type(None))
_SEQUENCES = (list, tuple, range)


def _index_tensor(key):
    """key as an index tensor, or None when it is something else."""
    if isinstance(key, Tensor):
        return key
    if isinstance(key, _SEQUENCES) or hasattr(key, "__array__"):
        from ._create import tensor

        t = tensor(list(key) if isinstance(key, _SEQUENCES) else key)
        return t.long() if not t.numel() and (t.dim() or t.is_floating_point()) and t.dtype is not bool_ else t
    return None


def _several(key):
    """Does a list stand for a tuple of keys?  As NumPy once and PyTorch still has it: one that holds more than numbers does."""
    if not isinstance(key, list) or len(key) >= 32 or not any(isinstance(k, (Tensor, slice, *_SEQUENCES)) or k is None or k is Ellipsis
                                                              or hasattr(k, "__array__") and getattr(k, "shape", ()) for k in key):
        return False
    _warnings.warn("Using a non-tuple sequence for multidimensional indexing is deprecated; use x[tuple(seq)] instead of x[seq].",
                   UserWarning, stacklevel=4)
    return True


def _count(key):
    """Dims of the indexed tensor that a key uses up."""
    if key is None or key is Ellipsis or isinstance(key, bool):
        return 0
    if isinstance(key, Tensor) and key.dtype.code <= 1:  # masks: bool and, as PyTorch still allows, uint8
        return key.dim()
    return 1


def _whole(k):
    """An int-like key (also NumPy's and 0-d integer tensors outside of traces) as an int, or None."""
    if type(k) is int:
        return k
    if isinstance(k, Tensor):
        if k.dim() or k.dtype.code <= 1 or k.is_floating_point() or lib.ag_tracing():
            return None
        return k.item()
    if isinstance(k, bool) or not hasattr(k, "__index__") or getattr(k, "shape", ()) != ():
        return None
    return _operator.index(k)


def _slice(f, t, d, s):
    n = _sizes(t._h)[d]
    try:
        start, stop, step = s.indices(n)
    except ValueError:
        raise refuse(ValueError, "step must be greater than zero") from None
    if step <= 0:
        raise refuse(ValueError, "step must be greater than zero")
    if start == 0 and stop == n and step == 1:
        return t
    return apply1(f, _SLICE, t, 4, d, start, stop if stop > start else start, step)


def _basic(f, x, key):
    """x under the ints, slices, None and ... of key; the tensors among them come back as [(dim, tensor)]."""
    keys = list(key) if isinstance(key, tuple) or _several(key) else [key]
    for k, one in enumerate(keys):
        if not isinstance(one, (*_BASIC, Tensor)) and _whole(one) is None:
            t = _index_tensor(one)
            if t is None:
                raise refuse(IndexError, "only integers, slices (`:`), ellipsis (`...`), None and long or byte Variables are valid indices "
                             f"(got {type(one).__name__})")
            keys[k] = t
    used = sum(map(_count, keys))
    n = x.dim()
    if used > n:
        if not n and isinstance(key, int):
            raise refuse(IndexError, "invalid index of a 0-dim tensor. Use `tensor.item()` in Python or `tensor.item<T>()` in C++ to convert "
                         "a 0-dim tensor to a number")
        if not n and isinstance(key, slice):
            raise refuse(IndexError, "slice() cannot be applied to a 0-dim tensor.")
        raise refuse(IndexError, f"too many indices for tensor of dimension {n}")
    t, d, tensors = x, 0, []
    for one in keys:
        if one is None:
            t = apply1(f, _UNSQUEEZE, t, 1, d)
            d += 1
        elif one is Ellipsis:
            d += n - used
        elif isinstance(one, slice):
            t = _slice(f, t, d, one)
            d += 1
        elif isinstance(one, bool):
            from ._create import tensor

            t = apply(f, "unsqueeze", (t,), (d,))
            tensors.append((d, tensor([one])))
            d += 1
        else:
            k = _whole(one)
            if k is not None:
                t = apply1(f, _SELECT, t, 2, d, k)
            else:
                tensors.append((d, one))
                d += max(_count(one), 1) if one.dtype.code > 1 else _count(one)
                if one.dtype.code <= 1 and not one.dim():  # x[tensor(True)]: a new dim of size 0 or 1
                    t = apply(f, "unsqueeze", (t,), (d,))
                    tensors[-1] = (d, one.reshape(1))
                    d += 1
    return t, tensors


def _positions(f, t, tensors):
    """Masks become positions, integers int64: [(dim, int64 tensor)] of one shape, and that shape."""
    out = []
    for number, (d, i) in enumerate(tensors):
        if i.dtype.code <= 1:
            for j, n in enumerate(i.shape):
                if t.shape[d + j] != n:
                    raise refuse(IndexError, f"The shape of the mask {list(i.shape)} at index {j} does not match the shape of the indexed "
                                 f"tensor {list(t.shape)} at index {d + j}")
            at = apply(f, "nonzero", (i,))
            for j in range(i.dim()):
                out.append((d + j, apply(f, "select", (at,), (1, j))))
        elif i.is_floating_point():
            raise refuse(IndexError, "tensors used as indices must be long, int, byte or bool tensors")
        else:
            out.append((d, cast_at(f, i, int64)))
    try:
        shape = broadcast_shapes(*[i.shape for _, i in out])
    except RuntimeError:
        shapes = ", ".join(str(list(i.shape)) for _, i in out)
        raise refuse(IndexError, f"shape mismatch: indexing tensors could not be broadcast together with shapes {shapes}") from None
    return [(d, i if i.shape == shape else expand_at(f, i, shape)) for d, i in out], shape


def _together(f, t, places):
    """t with the indexed dims side by side: (t, first indexed dim)."""
    dims = [d for d, _ in places]
    if dims == list(range(dims[0], dims[0] + len(dims))):
        return t, dims[0]
    rest = [d for d in range(t.dim()) if d not in dims]
    return apply(f, "permute", (t,), dims + rest), 0


def getitem(self, key):
    f = _getframe(1)
    kind = type(key)
    if _ndim(self._h):  # the two everyday keys first
        if kind is int:
            return apply1(f, _SELECT, self, 2, 0, key)
        if kind is slice:
            t = _slice(f, self, 0, key)
            return apply1(f, _ALIAS, self, 0) if t is self else t
    t, tensors = _basic(f, self, key)
    if tensors:
        places, _ = _positions(f, t, tensors)
        t, first = _together(f, t, places)
        return apply(f, "index", (t, *[i for _, i in places]), (first,))
    return apply1(f, _ALIAS, self, 0) if t is self else t


def _value(f, value, like, cast=True):
    """value as a tensor of like's dtype; cast False: a tensor with dims of another dtype stays as it is (the core refuses it)."""
    if isinstance(value, Tensor):
        return cast_at(f, value, like.dtype) if cast else value
    number = as_number(value)
    if number is None:
        from ._create import tensor

        return tensor(value, dtype=like.dtype)
    d = like.dtype
    return scalar_tensor(bool(number) if d is bool_ else float(number) if d.is_floating_point else int(number), like)


def _fit(f, value, shape):
    """value for a target of this shape: leading ones may be in excess."""
    s = list(value.shape)
    while len(s) > len(shape) and s[0] == 1:
        s.pop(0)
    if len(s) < value.dim():
        value = apply(f, "view", (value,), s) if value.is_contiguous() else value.reshape(s)
    try:
        return expand_at(f, value, shape)
    except RuntimeError:
        while s and s[0] == 1:
            s.pop(0)
        raise refuse(RuntimeError, f"shape mismatch: value tensor of shape {s} cannot be broadcast to indexing result of shape "
                     f"{list(shape)}") from None


def setitem(self, key, value):
    f = _getframe(1)
    if key is False:
        return
    if key is True:  # x under a new dim of size 1
        key = None
    t, tensors = _basic(f, self, key)
    if not tensors:
        number = as_number(value)
        if number is not None:
            apply_inplace(f, "fill", (t,), (), (float(number),)) if abs(number) <= 2**53 or t.is_floating_point() \
                else copy_at(f, t, _value(f, number, t))
            return
        value = _value(f, value, t)
        s = list(value.shape)
        while len(s) > t.dim() and s[0] == 1:
            s.pop(0)
        if len(s) < value.dim():
            value = value.reshape(s)
        if value.shape != t.shape:
            value = expand_at(f, value, tuple(t.shape))
        copy_at(f, t, value)
        return
    mask = tensors[0][1]
    if len(tensors) == 1 and mask.dtype is bool_ and (as_number(value) is not None or isinstance(value, Tensor) and not value.dim()):
        # A number under a mask: no positions needed, so it can be traced.
        d = tensors[0][0]
        for j, n in enumerate(mask.shape):
            if t.shape[d + j] != n:
                raise refuse(IndexError, f"The shape of the mask {list(mask.shape)} at index {j} does not match the shape of the indexed tensor "
                             f"{list(t.shape)} at index {d + j}")
        rest = t.dim() - d - mask.dim()
        if rest:
            mask = apply(f, "view", (mask.contiguous(),), resolve_shape((*mask.shape, *[1] * rest), mask))
        copy_at(f, t, where_at(f, mask, _value(f, value, t), t))
        return
    places, shape = _positions(f, t, tensors)
    t, first = _together(f, t, places)
    s = t.shape
    value = _fit(f, _value(f, value, t, False), (*s[:first], *shape, *s[first + len(places):]))
    apply_inplace(f, "index_put", (t, value, *[i for _, i in places]), (first, 0))


def _listed(indices):
    """[(dim, index tensor)] of what index_put was given."""
    if not isinstance(indices, (tuple, list)):
        raise refuse(TypeError, f"index_put(): argument 'indices' (position 1) must be tuple of Tensors, not {type(indices).__name__}")
    return list(enumerate(indices))


def index_put_(self, indices, values, accumulate=False):
    """self[indices] = values, or += with accumulate (repeated positions then add up)."""
    f = _getframe(1)
    places, shape = _positions(f, self, _listed(indices))
    s = self.shape
    values = _fit(f, _value(f, values, self, False), (*shape, *s[len(places):]))
    return apply_inplace(f, "index_put", (self, values, *[i for _, i in places]), (0, int(accumulate)))


def index_put(input, indices, values, accumulate=False):
    f = _getframe(1)
    places, shape = _positions(f, input, _listed(indices))
    s = input.shape
    values = _fit(f, _value(f, values, input, False), (*shape, *s[len(places):]))
    return apply(f, "index_put", (input, values, *[i for _, i in places]), (0, int(accumulate)))


# ---- by dim ------------------------------------------------------------------------------------------


def same_dtype(t, source, text):
    if isinstance(source, Tensor) and source.dtype is not t.dtype:
        raise refuse(RuntimeError, text.format(t.dtype.scalar_name, source.dtype.scalar_name))


def _ix(f, index, name):
    if index.dtype.code not in (2, 3) and index.numel():
        raise refuse(RuntimeError, f"{name}(): Expected dtype int64 for index")
    return cast_at(f, index, int64)


def _in_range(call, f, name, tensors, ints):
    """call(..), where an index out of range is what it is to PyTorch's functions by dim: a RuntimeError."""
    try:
        return call(f, name, tensors, ints)
    except IndexError as error:
        raise refuse(RuntimeError, str(error).partition(" [")[0]) from None


def gather(input, dim, index, *, sparse_grad=False):
    """out[i, j] = input[index[i, j], j] for dim 0, and so on: index's shape."""
    f = _getframe(1)
    if not index.numel() and index.dim() != input.dim():  # nothing to look up: any shape will do
        push_site()
        return gather(input.reshape(-1), 0, index.reshape(-1)).reshape(index.shape)
    return _in_range(apply, f, "gather", (input, _ix(f, index, "gather")), (wrap_dim(dim, input.dim()),))


def take_along_dim(input, indices, dim=None, *, axis=None):
    """As gather, with the other dims broadcast; dim None: the flattened tensor."""
    if axis is not None:
        dim = axis
    push_site()
    if indices.dtype is not int64:
        raise refuse(RuntimeError, f"torch.take_along_dim(): dtype of indices should be Long but got {indices.dtype.scalar_name}")
    if dim is None:
        return gather(input.reshape(-1), 0, indices.reshape(-1))
    if input.dim() != indices.dim():
        raise refuse(RuntimeError, "torch.take_along_dim(): input and indices should have the same number of dimensions, but got "
                     f"{input.dim()} dimensions for input, and {indices.dim()} dimensions for indices")
    d = wrap_dim(dim, input.dim())
    a, b = list(input.shape), list(indices.shape)
    shape = broadcast_shapes([1 if k == d else n for k, n in enumerate(a)], [1 if k == d else n for k, n in enumerate(b)])
    f = None  # the pushed position; a frame kept in its own locals would live until gc
    indices = where_at(f, indices < 0, indices + a[d], indices)
    x = expand_at(f, input, (*shape[:d], a[d], *shape[d + 1:]))
    return gather(x, d, expand_at(f, indices, (*shape[:d], b[d], *shape[d + 1:])))


def index_select(input, dim, index):
    """The slices of input along dim at the positions of a vector."""
    f = _getframe(1)
    if index.dim() > 1:
        raise refuse(IndexError, "index_select(): Index is supposed to be a vector")
    index = _ix(f, index, "index_select")
    if not input.dim():
        return apply(f, "index_select", (input, apply(f, "view", (index,), (index.numel(),))), (0,))
    if not index.dim():
        index = apply(f, "unsqueeze", (index,), (0,))
    return apply(f, "index_select", (input, index), (wrap_dim(dim, input.dim()),))


def scatter_add(input, dim, index, src):
    """input with src[i, j] added at [index[i, j], j] for dim 0, and so on."""
    f = _getframe(1)
    return _in_range(apply, f, "scatter_add", (input, _ix(f, index, "scatter_add"), src), (wrap_dim(dim, input.dim()),))


def scatter_add_(self, dim, index, src):
    f = _getframe(1)
    return _in_range(apply_inplace, f, "scatter_add", (self, _ix(f, index, "scatter_add"), src), (wrap_dim(dim, self.dim()),))


def _grid(f, index, dim):
    """Positions of every element of index: its own value along dim, its place along the others."""
    from ._create import arange

    n = index.dim()
    shape = tuple(index.shape)
    return [cast_at(f, index, int64) if k == dim else
            expand_at(f, apply(f, "view", (arange(m),), (1,) * k + (m,) + (1,) * (n - k - 1)), shape) for k, m in enumerate(shape)]


def _scatter(f, call, t, dim, index, src, accumulate):
    dim = wrap_dim(dim, t.dim())
    same_dtype(t, src, "scatter(): Expected self.dtype to be equal to src.dtype, but got {} and {}")
    if (t.dim() or 1) != (index.dim() or 1):
        raise refuse(RuntimeError, "Index tensor must have the same number of dimensions as self tensor")
    if isinstance(src, Tensor) and (src.dim() or 1) != (index.dim() or 1):
        raise refuse(RuntimeError, "Index tensor must have the same number of dimensions as src tensor")
    own, given = index.shape or (1,), src.shape or (1,) if isinstance(src, Tensor) else index.shape or (1,)
    if index.numel() and any(n > given[k] or k != dim and n > t.shape[k] for k, n in enumerate(own) if t.dim()):
        raise refuse(RuntimeError, f"Expected index {list(own)} to be no larger than self {list(t.shape)} apart from dimension {dim} and to be "
                     f"no larger size than src {list(given)}")
    if not t.dim():
        t0 = apply(f, "unsqueeze", (t,), (0,))
        return apply(f, "squeeze", (_scatter(f, call, t0, 0, index.reshape(1), src if not isinstance(src, Tensor) else src.reshape(1),
                                            accumulate),), (0,))
    if isinstance(src, Tensor) and src.dtype is not t.dtype:
        raise refuse(RuntimeError, "scatter(): Expected self.dtype to be equal to src.dtype")
    src = _value(f, src, t)
    if not src.dim():
        src = expand_at(f, src, tuple(index.shape))
    for k, n in enumerate(index.shape):
        if src.shape[k] != n:
            src = apply(f, "slice", (src,), (k, 0, n, 1))
    return _in_range(call, f, "index_put", (t, src, *_grid(f, index, dim)), (0, int(accumulate)))


def scatter(input, dim, index, src=None, *, value=None, reduce=None):
    """input with src[i, j] (or a number) written at [index[i, j], j] for dim 0, and so on; reduce "add" adds."""
    if reduce not in (None, "add", "multiply"):
        raise refuse(RuntimeError, "reduce argument must be either add or multiply.")
    if reduce == "multiply":
        raise refuse(NotImplementedError, f"scatter with reduce='{reduce}'")
    return _scatter(_getframe(1), apply, input, dim, index, src if value is None else value, reduce == "add")


def scatter_(self, dim, index, src=None, *, value=None, reduce=None):
    if reduce not in (None, "add", "multiply"):
        raise refuse(RuntimeError, "reduce argument must be either add or multiply.")
    if reduce == "multiply":
        raise refuse(NotImplementedError, f"scatter with reduce='{reduce}'")
    return _scatter(_getframe(1), apply_inplace, self, dim, index, src if value is None else value, reduce == "add")


def _vector(f, index, name):
    index = _ix(f, index, name)
    return apply(f, "unsqueeze", (index,), (0,)) if not index.dim() else index


def index_add(input, dim, index, source, *, alpha=1):
    """input with alpha * source's slices added to its slices at index along dim."""
    f = _getframe(1)
    push_site()
    source = source if alpha == 1 else source * alpha
    return apply(f, "index_add", (input, _vector(f, index, "index_add"), source), (wrap_dim(dim, input.dim()),))


def index_add_(self, dim, index, source, *, alpha=1):
    f = _getframe(1)
    push_site()
    source = source if alpha == 1 else source * alpha
    return apply_inplace(f, "index_add", (self, _vector(f, index, "index_add_"), source), (wrap_dim(dim, self.dim()),))


def _index_write(f, call, t, dim, index, source):
    d = wrap_dim(dim, t.dim())
    index = _vector(f, index, "index_copy")
    same_dtype(t, source, "index_copy_(): self and source expected to have the same dtype, but got (self) {} and (source) {}")
    if source.dim() and t.dim():
        if source.dim() == t.dim() and source.shape[d] != index.shape[0]:
            raise refuse(IndexError, f"index_copy_(): Number of indices ({index.shape[0]}) should be equal to source.size(dim) ({source.shape[d]})")
        a, b = list(t.shape), list(source.shape)
        if a[:d] + a[d + 1:] != b[:d] + b[d + 1:]:
            raise refuse(RuntimeError, "index_copy_(): Source/destination tensor must have same slice shapes. Destination slice shape: "
                         f"{a[:d] + a[d + 1:]} at dimension {d} and source slice shape: {b[:d] + b[d + 1:]} at dimension {d}.")
    if not t.dim():
        r = _index_write(f, call, apply(f, "unsqueeze", (t,), (0,)), 0, index, source)
        return t if call is apply_inplace else apply(f, "squeeze", (r,), (0,))
    s = t.shape
    return call(f, "index_put", (t, _fit(f, _value(f, source, t), (*s[:d], index.shape[0], *s[d + 1:])), index), (d, 0))


def index_copy(input, dim, index, source):
    """input with its slices at index along dim replaced by source's."""
    return _index_write(_getframe(1), apply, input, dim, index, source)


def index_copy_(self, dim, index, source):
    return _index_write(_getframe(1), apply_inplace, self, dim, index, source)


def index_fill(input, dim, index, value):
    """input with its slices at index along dim filled with a number or a 0-d tensor."""
    f = _getframe(1)
    return where_at(f, _marked(f, input, dim, index), _filling(f, value, input), input)


def index_fill_(self, dim, index, value):
    f = _getframe(1)
    return copy_at(f, self, where_at(f, _marked(f, self, dim, index), _filling(f, value, self), self))


def _filling(f, value, t):
    if isinstance(value, Tensor) and value.dim():
        raise refuse(RuntimeError, f"index_fill_ only supports a 0-dimensional value tensor, but got tensor with {value.dim()} dimension(s).")
    return _value(f, value, t)


def _marked(f, t, dim, index):
    """Mask of the places along dim that index names, to broadcast with t."""
    from ._create import ones, zeros

    d = wrap_dim(dim, t.dim())
    n = t.dim() or 1
    index = _vector(f, index, "index_fill")
    size = t.shape[d] if t.dim() else 1
    on = apply(f, "index_put", (zeros(size, dtype=bool_), ones(index.shape[0], dtype=bool_), index), (0, 0))
    return apply(f, "view", (on,), (1,) * d + (size,) + (1,) * (n - d - 1) if t.dim() else ())


def nonzero(input, *, as_tuple=False):
    """Positions of the elements that are not zero: (count, ndim), or a tuple of one vector for each dim."""
    f = _getframe(1)
    if as_tuple and not input.dim():
        input = apply(f, "unsqueeze", (input,), (0,))
    at = apply(f, "nonzero", (input,))
    return tuple([apply(f, "select", (at,), (1, k)) for k in range(input.dim())]) if as_tuple else at


argwhere = nonzero


def _meet(a, b):
    try:
        return broadcast_shapes(a.shape, b.shape)
    except RuntimeError:
        n = max(a.dim(), b.dim())
        x, y = (1,) * (n - a.dim()) + tuple(a.shape), (1,) * (n - b.dim()) + tuple(b.shape)
        k = next(k for k in range(n - 1, -1, -1) if x[k] != y[k] and 1 not in (x[k], y[k]))
        raise refuse(RuntimeError, f"The size of tensor a ({x[k]}) must match the size of tensor b ({y[k]}) at non-singleton dimension {k}") from None


def masked_select(input, mask):
    """Vector of the elements where mask is true."""
    push_site()
    f = None  # the pushed position; a frame kept in its own locals would live until gc
    if mask.dtype is not bool_:
        raise refuse(RuntimeError, "masked_select: expected BoolTensor for mask")
    shape = _meet(input, mask)
    return getitem(expand_at(f, input, shape), expand_at(f, mask, shape)) if shape else getitem(input.reshape(1), mask.reshape(1))


def masked_scatter(input, mask, source):
    """input with the next elements of source where mask is true."""
    push_site()
    if mask.dtype is not bool_:
        raise refuse(RuntimeError, f"masked_scatter_ only supports boolean masks, but got mask with dtype {mask.dtype.scalar_name}")
    same_dtype(input, source, "masked_scatter: expected self and source to have same dtypes but got {} and {}")
    shape = _meet(input, mask)
    f = None  # the pushed position; a frame kept in its own locals would live until gc
    mask = expand_at(f, mask, shape)
    out = expand_at(f, input, shape).clone()
    n = int(mask.sum())
    if source.numel() < n:
        raise refuse(RuntimeError, f"Number of elements of source < number of ones in mask ({source.numel()} < {n})")
    setitem(out, mask, source.reshape(-1)[:n])
    return out


def take(input, index):
    """Elements of the flattened input at index, in index's shape."""
    push_site()
    _long(index, "take")
    n = input.numel()
    try:
        return getitem(input.reshape(-1), index)
    except IndexError as error:
        raise _tried(error, n) from None


def _long(index, name):
    if index.dtype.code not in (2, 3):
        raise refuse(RuntimeError, f"{name}(): Expected a long tensor for index, but got {index.dtype.scalar_name}")


def check_put_at(t, index, source):
    """Raises unless put(t, index, source) makes sense; positions are checked by index_put."""
    _long(index, "put_")
    same_dtype(t, source, "put_(): self and source expected to have the same dtype, but got self.dtype = {} and source.dtype = {}")
    if index.numel() != source.numel():
        raise refuse(IndexError, "put_(): Expected source and index to have the same number of elements, but got source.numel() = "
                     f"{source.numel()}, index.numel() = {index.numel()}")


def _tried(error, n):
    """The out-of-range error of a position in a flattened tensor of n elements."""
    index = str(error).partition("index ")[2].partition(" ")[0]
    return refuse(IndexError, f"out of range: tried to access index {index} on a tensor of {n} elements.") if index else error


def _into(view, src):
    """Writes src, which must have exactly the view's shape."""
    if src.shape != view.shape:
        raise refuse(RuntimeError, f"expected src to have a size equal to the slice of self. src size = {list(src.shape)}, slice size = "
                     f"{list(view.shape)}")
    view.copy_(src)


def select_scatter(input, src, dim, index):
    push_site()
    out = input.clone()
    _into(out.select(dim, index), src)
    return out


def slice_scatter(input, src, dim=0, start=None, end=None, step=1):
    push_site()
    out = input.clone()
    d = wrap_dim(dim, input.dim())
    _into(getitem(out, (slice(None),) * d + (slice(start, end, step),)), src)
    return out


def diagonal_scatter(input, src, offset=0, dim1=0, dim2=1):
    push_site()
    out = input.clone()
    _into(out.diagonal(offset, dim1, dim2), src)
    return out
