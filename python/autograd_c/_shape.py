"""Views and copies of other shape.  What PyTorch makes a view is one here."""
import math as _math
import operator as _operator
from sys import _getframe

from ._call import reshape as _reshape
from ._call import apply, apply1, not_a_tensor
from ._dtypes import as_size, dtype
from ._ffi import OPS, OpError, lib, push_site, refuse
from ._tensor import Tensor, wrap_dim

_UNSQUEEZE, _SQUEEZE, _TRANSPOSE, _T, _ALIAS = [OPS[n] for n in ("unsqueeze", "squeeze", "transpose", "t", "alias")]
_SELECT, _SLICE = OPS["select"], OPS["slice"]


def _shape_error(shape, t):
    return refuse(RuntimeError, f"shape '{list(shape)}' is invalid for input of size {t.numel()}")


def resolve_shape(shape, t):
    """shape with a -1 worked out from t's number of elements."""
    n = lib.ag_tensor_numel(t._h)
    if -1 in shape:
        if shape.count(-1) > 1:
            raise refuse(RuntimeError, "only one dimension can be inferred")
        k = shape.index(-1)
        rest = _math.prod(shape[:k]) * _math.prod(shape[k + 1:])
        if rest == 0:
            raise refuse(RuntimeError, f"cannot reshape tensor of 0 elements into shape {list(shape)} because the unspecified dimension size "
                         "-1 can be any value and is ambiguous" if n == 0 else
                         f"shape '{list(shape)}' is invalid for input of size {n}")
        if rest < 0 or n % rest:
            raise _shape_error(shape, t)
        return (*shape[:k], n // rest, *shape[k + 1:])
    if _math.prod(shape) != n or any(s < 0 for s in shape):
        bad = [s for s in shape if s < -1]
        if bad:
            raise refuse(RuntimeError, f"invalid shape dimension {bad[0]} at index {shape.index(bad[0])} of shape {list(shape)}")
        raise _shape_error(shape, t)
    return shape


def view(self, *shape):
    """The same memory under another shape (one size may be -1); RuntimeError where strides forbid it.

    view(dtype) converts the way to() does when the sizes of the elements agree and raises otherwise.
    """
    if len(shape) == 1:
        first = shape[0]
        if isinstance(first, (tuple, list)):
            shape = first
        elif type(first) is dtype:
            return _view_dtype(_getframe(1), self, first)
    return view_at(_getframe(1), self, shape)


def _view_dtype(f, self, d):
    if d is self.dtype:
        return apply(f, "alias", (self,))
    raise refuse(NotImplementedError, "view(dtype) to another dtype would reinterpret bytes; use to(dtype) to convert values")


def view_at(f, t, shape):
    try:
        return apply(f, "view", (t,), shape)
    except OpError:
        resolve_shape(as_size((shape,)), t)  # says better what is wrong with the sizes
        raise


def reshape_at(f, t, shape):
    """A view where strides allow it, otherwise a copy."""
    r = _reshape(f, t, shape)
    if r is None:
        resolve_shape(as_size((shape,)), t)  # says better what is wrong with the sizes
        return view_at(f, t, shape)
    return r


def reshape(input, *args, shape=None):
    """A view under the new shape where possible, a copy otherwise; one size may be -1."""
    if not isinstance(input, Tensor):
        raise not_a_tensor("reshape", "input", 1, input)
    if shape is None:
        shape = args[0] if len(args) == 1 and isinstance(args[0], (tuple, list)) else args
    return reshape_at(_getframe(1), input, shape)


def view_as(self, other):
    return view_at(_getframe(1), self, tuple(other.shape))


def reshape_as(self, other):
    return reshape_at(_getframe(1), self, tuple(other.shape))


def flatten(input, start_dim=0, end_dim=-1):
    """Dims start_dim .. end_dim as one."""
    s = tuple(input.shape)
    if not s:
        return reshape_at(_getframe(1), input, (1,))
    a, b = wrap_dim(start_dim, len(s)), wrap_dim(end_dim, len(s))
    if a > b:
        raise refuse(RuntimeError, "flatten() has invalid args: start_dim cannot come after end_dim")
    if a == b:
        return input
    return reshape_at(_getframe(1), input, (*s[:a], _math.prod(s[a:b + 1]), *s[b + 1:]))


def ravel(input):
    return reshape_at(_getframe(1), input, (input.numel(),))


def unflatten(input, dim, sizes):
    """dim split into `sizes`, one of which may be -1."""
    s = tuple(input.shape)
    d = wrap_dim(dim, len(s))
    sizes = tuple(sizes)
    if -1 in sizes:
        k = sizes.index(-1)
        sizes = (*sizes[:k], s[d] // max(-_math.prod(sizes), 1), *sizes[k + 1:])
    if _math.prod(sizes) != s[d]:
        raise refuse(RuntimeError, f"unflatten: Provided sizes {list(sizes)} don't multiply up to the size of dim {dim} ({s[d]}) in the input tensor")
    return reshape_at(_getframe(1), input, (*s[:d], *sizes, *s[d + 1:]))


def squeeze(input, dim=None, *, axis=None):
    """Without the dims of size 1 (or without `dim`, one or several, where its size is 1)."""
    if axis is not None:
        dim = axis
    if dim is None:
        return apply1(_getframe(1), _SQUEEZE, input, 0)
    n = input.dim()
    dims = [wrap_dim(d, n) for d in (dim if isinstance(dim, (tuple, list)) else (dim,))]
    s = input.shape
    dims = [d for d in dims if n and s[d] == 1]
    if not dims:
        return apply(_getframe(1), "alias", (input,))
    return apply(_getframe(1), "squeeze", (input,), dims)


def unsqueeze(input, dim=None, *, axis=None):
    """With a dim of size 1 inserted at `dim`."""
    if axis is not None:
        dim = axis
    if dim is None:
        raise refuse(TypeError, 'unsqueeze() missing 1 required positional arguments: "dim"')
    return apply1(_getframe(1), _UNSQUEEZE, input, 1, dim)


def transpose(input, dim0, dim1):
    """Two dims exchanged."""
    return apply1(_getframe(1), _TRANSPOSE, input, 2, dim0, dim1)


swapaxes = swapdims = transpose


def t(input):
    """Transpose of a matrix; vectors and numbers stay."""
    n = input.dim()
    if n > 2:
        raise refuse(RuntimeError, f"t() expects a tensor with <= 2 dimensions, but self is {n}D")
    return apply1(_getframe(1), _T if n == 2 else _ALIAS, input, 0)


def T_of(self):
    """The transpose."""
    n = lib.ag_tensor_ndim(self._h)
    if n == 2:
        return apply1(_getframe(1), _T, self, 0)
    return apply(_getframe(1), "permute", (self,), tuple(range(n - 1, -1, -1))) if n > 1 else apply(_getframe(1), "alias", (self,))


def mT_of(self):
    """The last two dims exchanged."""
    n = self.dim()
    if n < 2:
        raise refuse(RuntimeError, f"tensor.mT is only supported on matrices or batches of matrices. Got {n}-D tensor.")
    return apply(_getframe(1), "transpose", (self,), (n - 2, n - 1))


def adjoint(input):
    push_site()
    return mT_of(input)


def permute(input, *args, dims=None):
    """Dims in another order."""
    dims = as_size(args) if dims is None else tuple(dims)
    n = input.dim()
    if len(dims) != n:
        raise refuse(RuntimeError, f"permute(sparse_coo): number of dimensions in the tensor input does not match the length of the desired "
                     f"ordering of dimensions i.e. input.dim() = {n} is not equal to len(dims) = {len(dims)}")
    dims = tuple([wrap_dim(d, n) for d in dims])
    if len(set(dims)) != n:
        raise refuse(RuntimeError, "permute(): duplicate dims are not allowed.")
    return apply(_getframe(1), "permute", (input,), dims)


def movedim(input, source, destination):
    """Dims `source` moved to the places `destination`, the others in their order."""
    n = input.dim()
    src = [wrap_dim(d, n) for d in (source if isinstance(source, (tuple, list)) else (source,))]
    dst = [wrap_dim(d, n) for d in (destination if isinstance(destination, (tuple, list)) else (destination,))]
    if len(src) != len(dst):
        raise refuse(RuntimeError, f"movedim: Invalid source or destination dims: source ({src} dims) should contain the same number of dims "
                     f"as destination ({dst} dims)")
    if len(set(src)) != len(src) or len(set(dst)) != len(dst):
        raise refuse(RuntimeError, "movedim: repeated dim in `source` or `destination`")
    order = [None] * n
    for a, b in zip(src, dst):
        order[b] = a
    rest = iter([d for d in range(n) if d not in src])
    return apply(_getframe(1), "permute", (input,), [next(rest) if d is None else d for d in order])


moveaxis = movedim


def expand_at(f, t, shape):
    s = tuple(t.shape)
    lead = len(shape) - len(s)
    if lead < 0:
        raise refuse(RuntimeError, f"expand(torch.{t.dtype.tensor_name}{{{list(s)}}}, size={list(shape)}): the number of sizes provided ({len(shape)}) "
                     f"must be greater or equal to the number of dimensions in the tensor ({len(s)})")
    full = []
    for k in range(len(shape) - 1, -1, -1):
        n = shape[k]
        own = s[k - lead] if k >= lead else None
        if n == -1:
            if own is None:
                raise refuse(RuntimeError, f"expand(torch.{t.dtype.tensor_name}{{{list(s)}}}, size={list(shape)}): the expanded size of the tensor "
                             f"(-1) isn't allowed in a leading, non-existing dimension {k}")
            n = own
        elif own is not None and own != n and own != 1:
            raise refuse(RuntimeError, f"The expanded size of the tensor ({n}) must match the existing size ({own}) at non-singleton dimension "
                         f"{k}.  Target sizes: {list(shape)}.  Tensor sizes: {list(s)}")
        full.append(n)
    full.reverse()
    return apply(f, "expand", (t,), full)


def expand(self, *args, size=None, implicit=False):
    """Dims of size 1 repeated to `size` without copying; -1 keeps a size, new dims come first."""
    return expand_at(_getframe(1), self, as_size(args) if size is None else tuple(size))


def broadcast_to(input, size):
    return expand_at(_getframe(1), input, tuple(size))


def expand_as(self, other):
    return expand_at(_getframe(1), self, tuple(other.shape))


def broadcast_shapes(*shapes):
    """The shape that these shapes meet in."""
    from ._dtypes import Size

    n = max([len(s) for s in shapes], default=0)
    out = [1] * n
    for s in shapes:
        for k, m in enumerate(s, n - len(s)):
            if m != 1 and out[k] != m:
                if out[k] != 1:
                    raise refuse(RuntimeError, "Shape mismatch: objects cannot be broadcast to a single shape")
                out[k] = m
    return Size(out)


def broadcast_tensors(*tensors):
    if len(tensors) == 1 and isinstance(tensors[0], (tuple, list)):
        tensors = tensors[0]
    shape = broadcast_shapes(*[x.shape for x in tensors])
    f = _getframe(1)
    return tuple([expand_at(f, x, shape) for x in tensors])


def repeat(self, *args, repeats=None):
    """The tensor repeated repeats[d] times along each dim; new dims come first."""
    reps = as_size(args) if repeats is None else as_size((repeats,))
    s = tuple(self.shape)
    if len(reps) < len(s):
        raise refuse(RuntimeError, "Number of dimensions of repeat dims can not be smaller than number of dimensions of tensor")
    f = _getframe(1)
    s = (1,) * (len(reps) - len(s)) + s
    # A dim of size n repeated r times is (r, n) with stride 0 in front, folded together by one copy.
    inner, outer, final = [], [], []
    for r, n in zip(reps, s):
        if r != 1:
            inner.append(1)
            outer.append(r)
        inner.append(n)
        outer.append(n)
        final.append(r * n)
    if outer == list(s):
        return apply(f, "clone", (apply(f, "view", (self,), s) if len(s) != self.dim() else self,))
    return reshape_at(f, expand_at(f, reshape_at(f, self, tuple(inner)), outer), tuple(final))


def tile(input, *args, dims=None):
    """As repeat, with ones in front of dims."""
    push_site()
    dims = as_size(args) if dims is None else tuple(dims)
    return repeat(input, *((1,) * (input.dim() - len(dims)) + dims))


def repeat_interleave(input, repeats, dim=None, *, output_size=None):
    """Each element (along dim; None: of the flattened tensor) repeated, a number or one number for each."""
    push_site()
    if dim is None:
        input, dim = input.flatten(), 0
    d = wrap_dim(dim, input.dim())
    s = tuple(input.shape)
    if isinstance(repeats, Tensor) and repeats.numel() == 1:
        repeats = int(repeats.item())
    if isinstance(repeats, int):
        f = None  # the pushed position; a frame kept in its own locals would live until gc
        x = expand_at(f, unsqueeze(input, d + 1), (*s[:d + 1], repeats, *s[d + 1:]))
        return reshape_at(f, x, (*s[:d], s[d] * repeats, *s[d + 1:]))
    from ._create import tensor
    from ._index import index_select

    counts = repeats.tolist() if isinstance(repeats, Tensor) else list(repeats)
    if len(counts) != s[d]:
        raise refuse(RuntimeError, f"repeats must have the same size as input along dim, but got repeats.size(0) = {len(counts)} and input.size({dim}) = {s[d]}")
    return index_select(input, d, tensor([k for k, n in enumerate(counts) for _ in range(n)]).long())


# ---- parts --------------------------------------------------------------------------------------------


def select(input, dim, index):
    """One slice along dim, without that dim."""
    return apply1(_getframe(1), _SELECT, input, 2, dim, _operator.index(index))


def narrow(input, dim, start, length):
    """`length` places along dim from `start`."""
    if not input.dim():
        raise refuse(RuntimeError, "narrow() cannot be applied to a 0-dim tensor.")
    d = wrap_dim(dim, input.dim())
    n = input.shape[d]
    if isinstance(start, Tensor):
        if start.dim() or start.is_floating_point() or start.dtype.name == "bool":
            raise refuse(RuntimeError, "start must be an 0-dim integral Tensor.")
        start = start.item()
    start = int(start)
    if not -n <= start <= n:
        raise refuse(IndexError, f"Dimension out of range (expected to be in range of [{-n}, {n}], but got {start})")
    start += n if start < 0 else 0
    if length < 0:
        raise refuse(RuntimeError, "narrow(): length must be non-negative.")
    if start + length > n:
        raise refuse(RuntimeError, f"start ({start}) + length ({length}) exceeds dimension size ({n}).")
    return apply(_getframe(1), "slice", (input,), (d, start, start + length, 1))


def split_at(f, t, size, dim):
    d = wrap_dim(dim, t.dim())
    n = t.shape[d]
    if isinstance(size, int):
        if size < 0 or size == 0 and n:
            raise refuse(RuntimeError, f"split expects split_size be non-negative, but got split_size={size}" if size < 0 else
                         f"split_size can only be 0 if dimension size is 0, but got dimension size of {n}")
        sizes = [min(size, n - k) for k in range(0, n, size)] if n else [0]
    else:
        sizes = list(size)
        if sum(sizes) != n:
            raise refuse(RuntimeError, f"split_with_sizes expects split_sizes to sum exactly to {n} (input tensor's size at dimension {d}), "
                         f"but got split_sizes={sizes}")
    parts, at = [], 0
    for s in sizes:
        parts.append(apply1(f, _SLICE, t, 4, d, at, at + s, 1))
        at += s
    return tuple(parts)


def split(tensor, split_size_or_sections, dim=0):
    """Tuple of parts along dim: of one size (the last may be smaller) or of the listed sizes."""
    return split_at(_getframe(1), tensor, split_size_or_sections, dim)


def split_with_sizes(input, split_sizes, dim=0):
    """Tuple of parts of the listed sizes along dim."""
    return split_at(_getframe(1), input, list(split_sizes), dim)


def unsafe_split(tensor, split_size, dim=0):
    """As split: its views, too, may be written."""
    return split_at(_getframe(1), tensor, split_size, dim)




def chunk(input, chunks, dim=0, *, axis=None):
    """Tuple of at most `chunks` parts of equal size along dim."""
    if axis is not None:
        dim = axis
    if chunks < 1:
        raise refuse(RuntimeError, f"chunk expects `chunks` to be greater than 0, got: {chunks}")
    n = input.shape[wrap_dim(dim, input.dim())]
    size = -(-n // chunks)
    return split_at(_getframe(1), input, size, dim) if n else split_at(_getframe(1), input, [0] * chunks, dim)


unsafe_chunk, unsafe_split_with_sizes = chunk, split_with_sizes  # views here, too


def tensor_split(input, indices_or_sections, dim=0, *, axis=None):
    """Tuple of parts along dim: n nearly equal ones, or cut at the listed places."""
    if axis is not None:
        dim = axis
    d = wrap_dim(dim, input.dim())
    n = input.shape[d]
    if isinstance(indices_or_sections, Tensor):
        indices_or_sections = indices_or_sections.tolist()
    if isinstance(indices_or_sections, int):
        k = indices_or_sections
        return split_at(_getframe(1), input, [n // k + (i < n % k) for i in range(k)], d)
    f = _getframe(1)
    cuts = [0, *indices_or_sections, n]
    spans = [slice(a, b).indices(n) for a, b in zip(cuts, cuts[1:])]
    return tuple([apply(f, "slice", (input,), (d, a, max(a, b), 1)) for a, b, _ in spans])


def _xsplit(name, input, cuts, dim, least):
    if input.dim() < least:
        raise refuse(RuntimeError, f"torch.{name} requires a tensor with at least {least} dimension{'s' if least > 1 else ''}, but got a "
                     f"tensor with {input.dim()} dimensions!")
    if isinstance(cuts, int):
        n = input.shape[dim]
        if cuts <= 0 or n % cuts:
            raise refuse(RuntimeError, f"torch.{name} attempted to split along dimension {dim}, but the size of the dimension {n} is not "
                         f"divisible by the split_size {cuts}!")
    return tensor_split(input, cuts, dim)


def hsplit(input, indices_or_sections=None, *, indices=None, sections=None):
    """Parts along dim 1 (of a vector: dim 0): a number of equal ones, or cut at the listed places."""
    push_site()
    return _xsplit("hsplit", input, _first(indices_or_sections, indices, sections), 0 if input.dim() == 1 else 1, 1)


def vsplit(input, indices_or_sections=None, *, indices=None, sections=None):
    """Parts along dim 0: a number of equal ones, or cut at the listed places."""
    push_site()
    return _xsplit("vsplit", input, _first(indices_or_sections, indices, sections), 0, 2)


def dsplit(input, indices_or_sections=None, *, indices=None, sections=None):
    """Parts along dim 2: a number of equal ones, or cut at the listed places."""
    push_site()
    return _xsplit("dsplit", input, _first(indices_or_sections, indices, sections), 2, 3)


def _first(*values):
    return next((v for v in values if v is not None), None)


def unbind_at(f, t, d):
    return tuple([apply1(f, _SELECT, t, 2, d, k) for k in range(t.shape[d])])


def unbind(input, dim=0, *, axis=None):
    """Tuple of the slices along dim."""
    if axis is not None:
        dim = axis
    return unbind_at(_getframe(1), input, wrap_dim(dim, input.dim()))


def diagonal(input, offset=0, dim1=0, dim2=1):
    """Diagonals of the planes (dim1, dim2), as the last dim of a view."""
    n = input.dim()
    return apply(_getframe(1), "diagonal", (input,), (offset, wrap_dim(dim1, n), wrap_dim(dim2, n)))


def as_strided(input, size, stride, storage_offset=None):
    """A view of any sizes and strides (in elements) over the storage."""
    own = input.storage_offset()
    start = 0 if storage_offset is None else storage_offset - own
    return apply(_getframe(1), "as_strided", (input,), (len(size), *size, *stride, start))


# ---- joins -------------------------------------------------------------------------------------------


def _common(f, tensors):
    """The tensors in the one dtype they meet in."""
    code = lib.ag_tensor_dtype
    d = code(tensors[0]._h)
    for x in tensors:
        if code(x._h) != d:
            break
    else:
        return tensors
    from ._elementwise import cast_at, promoted

    d = promoted(*tensors)
    return [cast_at(f, x, d) for x in tensors]


def cat(tensors, dim=0, *, axis=None):
    """Tensors put one after the other along dim; other sizes must agree."""
    if isinstance(tensors, Tensor):
        raise refuse(TypeError, "cat(): argument 'tensors' (position 1) must be tuple of Tensors, not Tensor")
    tensors = list(tensors)
    if not tensors:
        raise refuse(ValueError, "torch.cat(): expected a non-empty list of Tensors")
    f = _getframe(1)
    if axis is not None:
        dim = axis
    ndim = lib.ag_tensor_ndim
    try:
        ranks = {ndim(x._h) for x in tensors}
    except AttributeError:
        k = next(k for k, x in enumerate(tensors) if not isinstance(x, Tensor))
        raise refuse(TypeError, f"expected Tensor as element {k} in argument 0, but got {type(tensors[k]).__name__}") from None
    if len(ranks) == 2 and 1 in ranks:  # an empty vector joins anything
        tensors = [x for x in tensors if ndim(x._h) != 1 or x.numel()]
    n = ndim(tensors[0]._h)
    if not n:
        raise refuse(RuntimeError, "zero-dimensional tensor (at position 0) cannot be concatenated")
    return apply(f, "cat", _common(f, tensors), (wrap_dim(dim, n),))


concat = concatenate = cat


def stack(tensors, dim=0, *, axis=None):
    """Tensors of one shape along a new dim."""
    if axis is not None:
        dim = axis
    tensors = list(tensors)
    if not tensors:
        raise refuse(RuntimeError, "stack expects a non-empty TensorList")
    f = _getframe(1)
    d = wrap_dim(dim, lib.ag_tensor_ndim(tensors[0]._h) + 1)
    try:
        return apply(f, "cat", _common(f, [apply1(f, _UNSQUEEZE, x, 1, d) for x in tensors]), (d,))
    except (RuntimeError, IndexError):
        s = tensors[0].shape
        for k, x in enumerate(tensors):
            if x.shape != s:
                raise refuse(RuntimeError, f"stack expects each tensor to be equal size, but got {list(s)} at entry 0 and {list(x.shape)} at "
                             f"entry {k}") from None
        raise


def atleast_1d(*tensors):
    return _atleast(tensors, lambda x: x if x.dim() else x.reshape(1))


def atleast_2d(*tensors):
    return _atleast(tensors, lambda x: x if x.dim() > 1 else x.reshape(1, -1))


def atleast_3d(*tensors):
    return _atleast(tensors, lambda x: x if x.dim() > 2 else x.unsqueeze(-1) if x.dim() == 2 else x.reshape(1, -1, 1))


def _atleast(tensors, up):
    push_site(2)
    if len(tensors) == 1 and not isinstance(tensors[0], (tuple, list)):
        return up(tensors[0])
    return tuple([up(x) for x in (tensors[0] if len(tensors) == 1 else tensors)])


def hstack(tensors):
    """Tensors joined along dim 1 (vectors: dim 0)."""
    push_site()
    if not len(tensors):
        raise refuse(RuntimeError, "hstack expects a non-empty TensorList")
    tensors = [atleast_1d(x) for x in tensors]
    return cat(tensors, 0 if tensors[0].dim() == 1 else 1)


def vstack(tensors):
    """Tensors joined along dim 0, as matrices."""
    push_site()
    if not len(tensors):
        raise refuse(RuntimeError, "vstack expects a non-empty TensorList")
    return cat([atleast_2d(x) for x in tensors], 0)


def dstack(tensors):
    """Tensors joined along dim 2."""
    push_site()
    if not len(tensors):
        raise refuse(RuntimeError, "dstack expects a non-empty TensorList")
    return cat([atleast_3d(x) for x in tensors], 2)


def column_stack(tensors):
    """Tensors joined as columns."""
    push_site()
    if not len(tensors):
        raise refuse(RuntimeError, "column_stack expects a non-empty TensorList")
    return cat([x.reshape(-1, 1) if x.dim() < 2 else x for x in tensors], 1)


row_stack = vstack


def meshgrid(*tensors, indexing="ij"):
    """Grids of coordinates from vectors; indexing "ij" or "xy" (first two dims exchanged)."""
    if len(tensors) == 1 and isinstance(tensors[0], (tuple, list)):
        tensors = tensors[0]
    if indexing not in ("ij", "xy"):
        raise refuse(RuntimeError, f'torch.meshgrid: indexing must be one of "xy" or "ij", but received: {indexing}')
    f = _getframe(1)
    swap = indexing == "xy" and len(tensors) > 1
    if swap:
        tensors = (tensors[1], tensors[0], *tensors[2:])
    shape = tuple([x.numel() for x in tensors])
    n = len(shape)
    grids = [expand_at(f, reshape_at(f, x, (1,) * k + (shape[k],) + (1,) * (n - k - 1)), shape) for k, x in enumerate(tensors)]
    if swap:
        grids[0], grids[1] = grids[1], grids[0]
    return tuple(grids)


def cartesian_prod(*tensors):
    push_site()
    if len(tensors) == 1:
        return tensors[0]
    return stack([g.reshape(-1) for g in meshgrid(*tensors)], 1)


# ---- copies in another order ---------------------------------------------------------------------------


def flip(input, *args, dims=None):
    """Order along dims reversed (a copy)."""
    n = input.dim()
    out = [wrap_dim(d, n) for d in (as_size(args) if dims is None else as_size((dims,)))]
    if len(set(out)) != len(out):
        raise refuse(RuntimeError, f"dim {next(d for d in out if out.count(d) > 1)} appears multiple times in the list of dims")
    return apply(_getframe(1), "flip", (input,), out if n else ())


def fliplr(input):
    """The order along dim 1 reversed."""
    push_site()
    if input.dim() < 2:
        raise refuse(RuntimeError, "Input must be >= 2-d.")
    return flip(input, 1)


def flipud(input):
    """The order along dim 0 reversed."""
    push_site()
    if input.dim() < 1:
        raise refuse(RuntimeError, "Input must be >= 1-d.")
    return flip(input, 0)


def rot90(input, k=1, dims=(0, 1)):
    """Turned k times by 90 degrees in the plane of dims, from the first towards the second."""
    push_site()
    n = input.dim()
    if len(dims) != 2:
        raise refuse(RuntimeError, f"expected total rotation dims == 2, but got dims = {len(dims)}")
    if n < 2:
        raise refuse(RuntimeError, f"expected total dims >= 2, but got total dims = {n}")
    if dims[0] == dims[1] or abs(dims[0] - dims[1]) == n:
        raise refuse(RuntimeError, f"expected rotation dims to be different, but got dim0 = {dims[0]} and dim1 = {dims[1]}")
    for d in dims:
        if not -n <= d < n:
            raise refuse(RuntimeError, f"Rotation dim{dims.index(d)} out of range, dim{dims.index(d)} = {d}")
    k %= 4
    if k == 1:
        return transpose(flip(input, dims[1]), *dims)
    if k == 2:
        return flip(input, *dims)
    return flip(transpose(input, *dims), dims[1]) if k == 3 else input.clone()


def roll(input, shifts, dims=None):
    """Elements moved along dims (None: of the flattened tensor), those that fall off come in again."""
    push_site()
    if dims is None:
        return reshape(roll(flatten(input), shifts, 0), tuple(input.shape))
    shifts = shifts if isinstance(shifts, (tuple, list)) else (shifts,)
    dims = dims if isinstance(dims, (tuple, list)) else (dims,)
    if len(shifts) != len(dims):
        raise refuse(RuntimeError, f"shifts and dimensions must align. shifts: {len(shifts)}, dims:{len(dims)}")
    for s, d in zip(shifts, dims):
        d = wrap_dim(d, input.dim())
        n = input.shape[d]
        s = s % n if n else 0
        input = cat((narrow(input, d, n - s, s), narrow(input, d, 0, n - s)), d) if s else input
    return input.clone() if not any(shifts) else input


def tril(input, diagonal=0):
    """The lower triangle, zeros above `diagonal`."""
    return apply(_getframe(1), "tril", (input,), (diagonal,))


def triu(input, diagonal=0):
    """The upper triangle, zeros below `diagonal`."""
    return apply(_getframe(1), "triu", (input,), (diagonal,))


def diag(input, diagonal=0):
    """The diagonal of a matrix, or a matrix with this vector as its diagonal."""
    push_site()
    if input.dim() == 1:
        return diag_embed(input, diagonal)
    if input.dim() != 2:
        raise refuse(RuntimeError, f"diag(): Supports 1D or 2D tensors. Got {input.dim()}D")
    return apply(None, "diagonal", (input,), (diagonal, 0, 1)).clone()


def diag_embed(input, offset=0, dim1=-2, dim2=-1):
    """Matrices with the last dim as their diagonal, in the planes (dim1, dim2)."""
    n = input.dim() + 1
    size = input.shape[-1] + abs(offset)
    d1, d2 = wrap_dim(dim1, n), wrap_dim(dim2, n)
    if d1 == d2:
        raise refuse(RuntimeError, f"diagonal dimensions cannot be identical {dim1}, {dim2}")
    batch = iter(input.shape[:-1])
    shape = [size if d in (d1, d2) else next(batch) for d in range(n)]
    steps = [_math.prod(shape[d + 1:]) for d in range(n)]
    places = [steps[d] for d in range(n) if d not in (d1, d2)] + [steps[d1] + steps[d2]]
    start = offset * steps[d2] if offset >= 0 else -offset * steps[d1]
    return apply(_getframe(1), "view_scatter", (input,), (n, *shape, n - 1, *input.shape, *places, start))


def diagflat(input, offset=0):
    push_site()
    return diag_embed(flatten(input), offset)


def unfold(self, dimension, size, step):
    """Windows of `size` along a dim, `step` apart, as a last dim (a view)."""
    d = wrap_dim(dimension, self.dim())
    s, st = list(self.shape), list(self.stride())
    if not s:
        if size > 1:
            raise refuse(RuntimeError, f"maximum size for tensor at dimension 0 is 1 but size is {size}")
        return apply(_getframe(1), "as_strided", (self,), (1, size, 1, 0))
    count = (s[d] - size) // step + 1 if s else 1
    if s and size > s[d]:
        raise refuse(RuntimeError, f"maximum size for tensor at dimension {d} is {s[d]} but size is {size}")
    shape = s[:d] + [count] + s[d + 1:] + [size]
    strides = st[:d] + [st[d] * step] + st[d + 1:] + [st[d]]
    return apply(_getframe(1), "as_strided", (self,), (len(shape), *shape, *strides, 0))


def contiguous(self, memory_format=None):
    """self when it lies row by row in memory, otherwise a copy that does."""
    return self if lib.ag_tensor_contiguous(self._h) else apply(_getframe(1), "clone", (self,))


def clone(input, *, memory_format=None):
    """A copy with its own memory; gradients flow through."""
    return apply(_getframe(1), "clone", (input,))
