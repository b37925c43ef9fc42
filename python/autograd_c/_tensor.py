"""class Tensor: a handle of the C core and the protocols around it.

Operations are added by _methods.py from the function modules.  The base (csrc/python/tensor_base.inc) owns the handle
`_h` (ag_tensor *) and has the operators, `shape`, `dtype` and the like; `_grad` caches the wrapper of .grad, so that
`x.grad is x.grad`.  Members that quick.inc has too are taken out of the class at import and called for what is rare.
"""
from array import array as _array
from sys import _getframe
import warnings as _warnings
import weakref as _weakref

from . import _ffi
from ._dtypes import CPU, as_dtype, bool_
from ._ffi import NULL, check, fail, ffi, lib, made, push_site, refuse, wrong_kind

_new = _ffi.core["TensorBase"].__new__  # (class, handle): takes over the handle's reference
_dtype, _item, _get_grad = lib.ag_tensor_dtype, lib.agpy_item, lib.ag_tensor_grad

# Leaves that ask for gradients, by address: a graph node's `variable` is the very object the user holds.
_leaves = _weakref.WeakValueDictionary()


class _Memory:
    """What a NumPy array over a tensor's memory keeps alive: a reference to the storage."""

    __slots__ = ("_storage", "__array_interface__")

    def __init__(self, storage, interface):
        self._storage = storage
        self.__array_interface__ = interface

    def __del__(self, release=lib.ag_storage_release):
        release(self._storage)


def _wrap(h):
    if not h:
        fail()
    return _new(Tensor, h)


class Tensor(_ffi.core["TensorBase"]):
    """An array of numbers with a place in the dynamic graph.

    Made by `tensor`, `zeros`, `randn` ... and by operations.  `Tensor(2, 3)` is an uninitialised float tensor of
    that shape, `Tensor([1, 2])` a float tensor of those values.
    """

    __slots__ = ("__dict__", "__weakref__")
    __array_priority__ = 1000

    def __new__(cls, *args, device=None):
        from . import _create

        t = _create.legacy_constructor(args, device)
        if cls is Tensor:
            return t
        lib.ag_tensor_retain(t._h)
        return _new(cls, t._h)

    # ---- what it is ----------------------------------------------------------------------------

    def size(self, dim=None):
        """The shape, or the size of one dim."""
        if dim is None:
            return self.shape
        return self.shape[wrap_dim(dim, self.dim())]

    def stride(self, dim=None):
        """Steps between neighbours along each dim (or one), in elements."""
        h = self._h
        s = tuple(ffi.unpack(lib.ag_tensor_strides(h), lib.ag_tensor_ndim(h)))
        return s if dim is None else s[wrap_dim(dim, len(s))]

    @property
    def device(self):
        return CPU

    is_cuda = is_sparse = is_quantized = is_meta = False

    @property
    def itemsize(self):
        return self.dtype.itemsize

    def element_size(self):
        return self.dtype.itemsize

    @property
    def nbytes(self):
        return self.numel() * self.dtype.itemsize

    def is_floating_point(self):
        return lib.ag_tensor_dtype(self._h) >= lib.AG_FLOAT32

    def is_complex(self):
        return False

    def is_signed(self):
        return self.dtype.is_signed

    def data_ptr(self):
        """Address of the first element."""
        return int(ffi.cast("uintptr_t", lib.ag_tensor_ptr(self._h)))

    def get_device(self):
        return -1

    # ---- the graph -----------------------------------------------------------------------------

    @property
    def requires_grad(self):
        return bool(lib.ag_tensor_requires_grad(self._h))

    @requires_grad.setter
    def requires_grad(self, on):
        if lib.ag_tensor_set_requires_grad(self._h, bool(on)) < 0:
            fail()
        if on:
            _leaves[int(ffi.cast("uintptr_t", self._h))] = self

    def requires_grad_(self, requires_grad=True):
        """Sets requires_grad in place; only leaves may change it."""
        self.requires_grad = requires_grad
        return self

    @property
    def grad(self):
        """What backward added up for this leaf, or None."""
        g = _get_grad(self._h)
        if not g:
            if not lib.ag_tensor_is_leaf(self._h):
                self._warn_grad()
            return None
        try:
            t = self._grad
            if t is not None and t._h == g:
                return t
        except AttributeError:
            pass
        lib.ag_tensor_retain(g)
        t = self._grad = _new(Tensor, g)
        return t

    @grad.setter
    def grad(self, value):
        if value is None:
            lib.ag_tensor_set_grad(self._h, NULL)
            self._grad = None
            return
        if not isinstance(value, Tensor):
            raise refuse(TypeError, f"assigned grad expected to be a Tensor or None but got grad of type {type(value).__name__}")
        if lib.ag_tensor_set_grad(self._h, value._h) < 0:
            fail()
        self._grad = value

    @grad.deleter
    def grad(self):
        self.grad = None

    def _warn_grad(self):
        if self.retains_grad:
            return
        _warnings.warn(
            "The .grad attribute of a Tensor that is not a leaf Tensor is being accessed. Its .grad attribute won't be "
            "populated during autograd.backward(). If you indeed want the .grad field to be populated for a non-leaf Tensor, "
            "use .retain_grad() on the non-leaf Tensor.", UserWarning, stacklevel=3)

    @property
    def grad_fn(self):
        """The node that made this tensor, or None for a leaf."""
        n = lib.ag_tensor_grad_fn(self._h)
        if not n:
            return None
        from .graph import node

        return node(n)

    @property
    def output_nr(self):
        return _info(self).output_nr

    def retain_grad(self):
        """Lets backward fill .grad although this is no leaf."""
        if lib.ag_tensor_retain_grad(self._h) < 0:
            fail()

    @property
    def retains_grad(self):
        return bool(_info(self).retains_grad)

    def backward(self, gradient=None, retain_graph=None, create_graph=False, inputs=None):
        """Adds d(self)/d(leaf), times `gradient`, into the .grad of every leaf below (or of `inputs`).

        gradient has self's shape and may be left out for one element.  The graph is freed unless retain_graph
        (default: create_graph).  create_graph makes the gradients differentiable in turn.
        """
        if _ffi.tracking:
            push_site()
        if gradient is None and inputs is None:
            if lib.agpy_backward(self._h, create_graph if retain_graph is None else retain_graph, create_graph) < 0:
                fail()
            return
        from .autograd import backward

        backward(self, gradient, retain_graph, create_graph, inputs=inputs)

    def detach(self):
        """The same memory without history."""
        return _wrap(lib.ag_tensor_detach(self._h))

    def detach_(self):
        check(lib.ag_tensor_detach_(self._h))
        return self

    @property
    def data(self):
        return _wrap(lib.ag_tensor_detach(self._h))

    @data.setter
    def data(self, value):
        check(lib.ag_tensor_set_data(self._h, value._h))

    @property
    def _base(self):
        b = lib.ag_tensor_base(self._h)
        if not b:
            return None
        lib.ag_tensor_retain(b)
        return _wrap(b)

    def _is_view(self):
        return bool(_info(self).is_view)

    @property
    def name(self):
        """A label of the user's, shown in graphs and messages; None unless set."""
        return self.__dict__.get("_name")

    @name.setter
    def name(self, text):
        self.__dict__["_name"] = text

    # ---- values to Python --------------------------------------------------------------------------

    def item(self):
        """The only element as a Python number."""
        h = self._h
        code = _dtype(h)
        if code >= 4:  # AG_FLOAT32
            v = _item(h)
            if v != v:
                check(lib.ag_tensor_item(h, ffi.new("double *")))
            return v
        v = lib.agpy_item_int(h)
        if v < -9223372036854775807:
            check(lib.ag_tensor_item_int(h, ffi.new("int64_t *")))
        return v if code else bool(v)

    def _flat(self):
        """All elements in row-major order, as a list of Python numbers."""
        n = lib.ag_tensor_numel(self._h)
        d = self.dtype
        buf = _array(d.array_code, bytes(n * d.itemsize))
        check(lib.ag_tensor_read(self._h, ffi.from_buffer(buf)))
        return list(map(bool, buf)) if d is bool_ else buf.tolist()

    def tolist(self):
        """The elements as nested lists, or a number for a 0-d tensor."""
        values = self._flat()
        shape = self.shape
        if not shape:
            return values[0]
        if 0 in shape:
            return _empty_lists(shape)
        for n in shape[:0:-1]:
            values = [values[k:k + n] for k in range(0, len(values), n)]
        return values

    def numpy(self, *, force=False):
        """A NumPy array over the same memory (which it keeps alive)."""
        import numpy

        if not force and lib.ag_tensor_requires_grad(self._h):
            raise refuse(RuntimeError, "Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead.")
        h = self._h
        made(lib.ag_tensor_data(h))
        d = self.dtype
        interface = {"version": 3, "typestr": d.typestr, "shape": tuple(self.shape), "data": (self.data_ptr(), False),
                     "strides": tuple([s * d.itemsize for s in self.stride()])}
        return numpy.asarray(_Memory(made(lib.ag_tensor_storage(h)), interface))

    def __array__(self, dtype=None, copy=None):
        a = self.numpy()
        if dtype is not None and a.dtype != dtype:
            if copy is False:
                raise refuse(ValueError, "Unable to avoid copy while creating an array as requested.")
            return a.astype(dtype)
        return a.copy() if copy else a

    def __array_wrap__(self, array, context=None, return_scalar=False):
        from ._create import from_numpy

        return from_numpy(array)

    def __bool__(self):
        n = lib.ag_tensor_numel(self._h)
        if n != 1:
            raise refuse(RuntimeError, "Boolean value of Tensor with no values is ambiguous" if n == 0 else
                         "Boolean value of Tensor with more than one value is ambiguous")
        return self.item() != 0

    def _scalar(self):
        if lib.ag_tensor_numel(self._h) != 1:
            raise refuse(ValueError, "only one element tensors can be converted to Python scalars")
        return self.item()

    def __float__(self):
        return float(self._scalar())

    def __int__(self):
        return int(self._scalar())

    def __index__(self):
        if lib.ag_tensor_dtype(self._h) >= lib.AG_FLOAT32 or lib.ag_tensor_numel(self._h) != 1:
            raise refuse(TypeError, "only integer tensors of a single element can be converted to an index")
        return int(self.item())

    def __complex__(self):
        return complex(self._scalar())

    def __len__(self):
        if not lib.ag_tensor_ndim(self._h):
            raise refuse(TypeError, "len() of a 0-d tensor")
        return lib.ag_tensor_shape(self._h)[0]

    def __iter__(self):
        if not lib.ag_tensor_ndim(self._h):
            raise refuse(TypeError, "iteration over a 0-d tensor")
        from ._shape import unbind_at

        return iter(unbind_at(_getframe(1), self, 0))

    def __reversed__(self):
        return self.flip(0) if self.dim() else self

    def __contains__(self, x):
        if isinstance(x, Tensor) or _is_number(x):
            return bool((self == x).any())
        raise refuse(RuntimeError, f"Tensor.__contains__ only supports Tensor or scalar, but you passed in a {type(x)}.")

    def __format__(self, spec):
        if not lib.ag_tensor_ndim(self._h) and spec:
            return format(self.item(), spec)
        return object.__format__(self, spec)

    def __repr__(self, *, tensor_contents=None):
        from ._print import tensor_text

        return tensor_text(self)

    # ---- copies -----------------------------------------------------------------------------------

    def __copy__(self):
        r = _new(type(self), made(lib.ag_tensor_detach(self._h)))
        r.__dict__.update(self.__dict__)
        if self.is_leaf and self.requires_grad:
            r.requires_grad = True
        return r

    def __deepcopy__(self, memo):
        if id(self) in memo:
            return memo[id(self)]
        if not lib.ag_tensor_is_leaf(self._h):
            raise refuse(RuntimeError, "Only Tensors created explicitly by the user (graph leaves) support the deepcopy protocol at the "
                         "moment.  If you were attempting to deepcopy a module, this may be because of a torch.nn.utils."
                         "weight_norm usage, see https://github.com/pytorch/pytorch/pull/103001")
        import copy

        source = self.detach().clone()
        lib.ag_tensor_retain(source._h)
        r = _new(type(self), source._h)
        memo[id(self)] = r
        if self.requires_grad:
            r.requires_grad = True
        g = lib.ag_tensor_grad(self._h)
        if g:
            r.grad = copy.deepcopy(self.grad, memo)
        if self.__dict__:
            r.__dict__.update(copy.deepcopy(self.__dict__, memo))
        return r

    def __reduce_ex__(self, protocol):
        d = self.dtype
        buf = bytearray(self.numel() * d.itemsize)
        check(lib.ag_tensor_read(self._h, ffi.from_buffer(buf)))
        return _rebuild, (type(self), bytes(buf), d.name, tuple(self.shape), self.requires_grad), self.__dict__ or None

    def __setstate__(self, state):
        self.__dict__.update(state)


def _rebuild(cls, data, dtype, shape, requires_grad):
    h = made(lib.ag_from_data(len(shape), shape, as_dtype(dtype).code, ffi.from_buffer(data)))
    r = _new(cls, h)
    if requires_grad:
        r.requires_grad = True
    return r


def wrap_dim(dim, ndim):
    """dim counted from the front; IndexError outside of the range."""
    low = max(ndim, 1)
    try:
        inside = -low <= dim < low
    except TypeError as error:
        raise wrong_kind(error) from None
    if not inside:
        raise refuse(IndexError, f"Dimension out of range (expected to be in range of [{-low}, {low - 1}], but got {dim})")
    return dim + low if dim < 0 else dim


def spelled(dim, keepdim, axis, keepdims):
    """dim and keepdim, whichever way the user spelled them: axis and keepdims are NumPy's names."""
    return dim if axis is None else axis, keepdim if keepdims is None else keepdims


def _info(t):
    out = ffi.new("ag_info *")
    lib.ag_tensor_info(t._h, out)
    return out


def _empty_lists(shape):
    return [_empty_lists(shape[1:]) for _ in range(shape[0])] if shape else None


def _is_number(x):
    from ._call import as_number

    return as_number(x) is not None


def is_tensor(x):
    return isinstance(x, Tensor)
