"""Gives class Tensor its operations: functions whose first argument is a tensor are methods as they stand."""
from sys import _getframe

from . import _create, _elementwise, _index, _linear, _matrix, _more, _order, _reduce, _shape, _special, random as _random
from types import BuiltinFunctionType as _Builtin

from ._call import METHODS, apply, apply_inplace, as_number, bind
from ._dtypes import BY_NAME, as_dtype, as_size, bool_, check_device, float32, float64, int32, int64, uint8
from ._dtypes import device as _device
from ._dtypes import dtype as _dtype
from ._elementwise import cast_at, copy_at, overwrite_at, where_at
from ._ffi import called_from_c, check, lib, push_site, refuse
from ._tensor import Tensor, wrap_dim

# Functions that take no tensor first, or whose method differs.
_NO_METHODS = {"where", "cat", "stack", "meshgrid", "einsum", "hstack", "vstack", "dstack", "column_stack", "row_stack", "concat",
               "concatenate", "cartesian_prod", "broadcast_tensors", "broadcast_shapes", "chain_matmul", "atleast_1d", "atleast_2d",
               "atleast_3d", "tril_indices", "triu_indices", "combinations", "searchsorted", "bucketize", "tensordot", "cdist", "isin", "block_diag", "gradient", "constant_pad_nd"}


class _Methods:
    """What exists as a method only."""

    def to(self, *args, dtype=None, device=None, non_blocking=False, copy=False, memory_format=None):
        """self in another dtype: to(dtype), to(device), to(device, dtype), to(other).  self itself when nothing changes."""
        for a in args:
            if isinstance(a, Tensor):
                dtype = a.dtype
            elif isinstance(a, _dtype):
                dtype = a
            elif isinstance(a, _device) or isinstance(a, str) and a.rpartition(".")[2] not in BY_NAME:
                device = a
            elif a is not None and a is not True and a is not False:
                dtype = as_dtype(a)
        check_device(device)
        f = _getframe(1)
        if dtype is not None and as_dtype(dtype) is not self.dtype:
            return cast_at(f, self, as_dtype(dtype))
        return apply(f, "clone", (self,)) if copy else self

    def type(self, dtype=None, non_blocking=False):
        """Name of the tensor's type ("torch.FloatTensor"), or the tensor converted to dtype."""
        if dtype is None:
            return "torch." + self.dtype.tensor_name
        if isinstance(dtype, str):
            named = {d.tensor_name: d for d in BY_NAME.values()}
            dtype = named.get(dtype.rpartition(".")[2], dtype)
        elif not isinstance(dtype, _dtype) and getattr(dtype, "__name__", "").endswith("Tensor"):
            dtype = {d.tensor_name: d for d in BY_NAME.values()}[dtype.__name__]
        return cast_at(_getframe(1), self, as_dtype(dtype))

    def type_as(self, other):
        return cast_at(_getframe(1), self, other.dtype)

    def float(self):
        return cast_at(_getframe(1), self, float32)

    def double(self):
        return cast_at(_getframe(1), self, float64)

    def long(self):
        return cast_at(_getframe(1), self, int64)

    def int(self):
        return cast_at(_getframe(1), self, int32)

    def bool(self):
        return cast_at(_getframe(1), self, bool_)

    def byte(self):
        return cast_at(_getframe(1), self, uint8)

    def cpu(self, memory_format=None):
        return self

    def cuda(self, device=None, non_blocking=False, memory_format=None):
        """Raises: there is only the CPU."""
        raise refuse(RuntimeError, "autograd_c computes on the CPU only; there is no CUDA device")

    def pin_memory(self, device=None):
        return self

    def is_pinned(self, device=None):
        return False

    def share_memory_(self):
        return self

    def is_shared(self):
        return False

    def is_same_size(self, other):
        return self.shape == other.shape

    def copy_(self, src, non_blocking=False):
        """Takes the values of src (broadcast, converted); gradients flow to src."""
        if not isinstance(src, Tensor):
            raise refuse(TypeError, f"copy_(): argument 'other' (position 1) must be Tensor, not {src.__class__.__name__}")
        return copy_at(_getframe(1), self, src)

    def fill_(self, value):
        """Sets every element to a number or a 0-d tensor."""
        f = _getframe(1)
        if isinstance(value, Tensor):
            if value.dim():
                raise refuse(RuntimeError, f"fill_ only supports 0-dimension value tensor but got tensor with {value.dim()} dimensions.")
            return copy_at(f, self, value)
        number = as_number(value)
        if number is None:
            raise refuse(TypeError, f"fill_(): argument 'value' must be Number or Tensor, not {value.__class__.__name__}")
        return apply_inplace(f, "fill", (self,), (), (float(number),))

    def zero_(self):
        return apply_inplace(_getframe(1), "fill", (self,), (), (0.0,))

    def fill_diagonal_(self, value, wrap=False):
        push_site()
        self.diagonal().fill_(value)
        return self

    def masked_scatter_(self, mask, source):
        f = _getframe(1)
        push_site()
        return overwrite_at(f, self, lambda x: x.masked_scatter(mask, source))

    def tril_(self, diagonal=0):
        f = _getframe(1)
        return overwrite_at(f, self, lambda x: apply(f, "tril", (x,), (diagonal,)))

    def triu_(self, diagonal=0):
        f = _getframe(1)
        return overwrite_at(f, self, lambda x: apply(f, "triu", (x,), (diagonal,)))

    def split(self, split_size, dim=0):
        """Tuple of parts along dim: of one size (the last may be smaller) or of the listed sizes."""
        return _shape.split_at(_getframe(1), self, split_size, dim)

    def slice(self, dim=0, start=None, end=None, step=1):
        """self[start:end:step] along dim: a view."""
        d = wrap_dim(dim, self.dim())
        return _index.getitem(self, (slice(None),) * d + (slice(start, end, step),))

    def where(self, condition, other):
        """self where condition is true, other elsewhere."""
        return where_at(_getframe(1), condition, self, other)

    def sum_to_size(self, *size):
        """Sums over dims until the shape is `size`: the reverse of broadcasting."""
        f, size = _getframe(1), as_size(size)
        t = self if self.is_floating_point() or size and tuple(self.shape) == size else cast_at(f, self, int64)  # as sum does
        return apply(f, "sum_to", (t,), size)

    def put_(self, index, source, accumulate=False):
        """Writes source at positions of the flattened tensor."""
        push_site()
        _index.check_put_at(self, index, source)
        if not self.is_contiguous():
            raise refuse(NotImplementedError, "put_ on a tensor that is not contiguous")
        self.view(-1).index_put_((index.reshape(-1),), source.reshape(-1), accumulate)
        return self

    def map_(self, other, fn):
        """Sets each element to fn(element, other's element), in Python."""
        values = [fn(a, b) for a, b in zip(self._flat(), other.expand_as(self)._flat())]
        return self.copy_(_create.tensor(values, dtype=self.dtype).reshape(tuple(self.shape)))

    def apply_(self, fn):
        """Sets each element to fn(element), in Python."""
        return self.copy_(_create.tensor([fn(a) for a in self._flat()], dtype=self.dtype).reshape(tuple(self.shape)))

    def set_(self, source):
        check(lib.ag_tensor_set_data(self._h, source._h))
        return self

    def squeeze_(self, dim=None):
        return _take_view(self, self.detach().squeeze() if dim is None else self.detach().squeeze(dim))

    def unsqueeze_(self, dim):
        return _take_view(self, self.detach().unsqueeze(dim))

    def t_(self):
        return _take_view(self, self.detach().t())

    def transpose_(self, dim0, dim1):
        return _take_view(self, self.detach().transpose(dim0, dim1))

    def resize_(self, *size):
        """Takes the shape `size`; elements keep their row-major order, new ones are undefined."""
        shape = as_size(size)
        n = self.numel()
        out = _create.empty(*shape, dtype=self.dtype)
        k = min(n, out.numel())
        out.view(-1)[:k] = self.detach().reshape(-1)[:k]
        check(lib.ag_tensor_set_data(self._h, out._h))
        return self


def _take_view(t, view):
    if t.requires_grad:
        raise refuse(RuntimeError, "in-place changes of shape are supported for tensors without gradient only; use the function of the same "
                     "name without the underscore")
    check(lib.ag_tensor_set_data(t._h, view._h))
    return t


class _Attribute(property):
    """A property that can also be called as a function: Tensor.T(x)."""

    def __call__(self, t):
        return self.fget(t)


def attach():
    from .ops import _public

    bind(matmul=called_from_c(_linear.matmul_at, "matmul"), pow=called_from_c(_elementwise.pow_at, "pow"))
    for module in (_elementwise, _shape, _linear, _reduce, _index, _order, _more, _special, _matrix):
        for name, fn in _public(module).items():
            if name not in _NO_METHODS:
                setattr(Tensor, name, METHODS[fn.__name__] if type(fn) is _Builtin else fn)
    for module in (_elementwise, _index, _special, _random):  # in-place versions
        for name, fn in vars(module).items():
            if name.endswith("_") and not name.startswith("_") and callable(fn) and name != "bool_":
                setattr(Tensor, name, fn)
    for name, fn in vars(_Methods).items():
        if callable(fn) and not name.startswith("__"):
            setattr(Tensor, name, fn)
    for name, fn in {**_elementwise.DUNDERS, **_elementwise.IN_PLACE, **_special.IN_PLACE}.items():
        setattr(Tensor, name, fn)
    for name in ("new_zeros", "new_ones", "new_empty", "new_full", "new_tensor"):
        setattr(Tensor, name, getattr(_create, name))
    Tensor.polygamma = _special.polygamma_method
    Tensor.multinomial, Tensor.bernoulli = _random.multinomial, _random.bernoulli
    Tensor.__div__, Tensor.__rdiv__ = Tensor.__truediv__, Tensor.__rtruediv__
    Tensor.__getitem__, Tensor.__setitem__ = _index.getitem, _index.setitem
    Tensor.T = Tensor.H = _Attribute(_shape.T_of, doc="The dims in reverse order.")
    Tensor.mT = Tensor.mH = _Attribute(_shape.mT_of, doc="The last two dims exchanged.")


attach()
if lib.agpy_quick() < 0:
    raise ImportError("autograd_c: class Tensor lacks what the core stands in for")
