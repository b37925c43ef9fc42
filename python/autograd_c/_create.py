"""Tensors from Python data, from NumPy, and from sizes.

All take dtype=, device= (the CPU) and requires_grad=.  Nested Python lists are packed without NumPy.
"""
from array import array as _array
from itertools import chain as _chain
import math as _math
import operator as _operator
import sys as _sys
import warnings as _warnings

from ._call import as_number, wrap
from ._dtypes import (BY_TYPESTR, as_dtype, as_size, bool_, check_device, float32, float64, get_default_dtype, int32,
                      int64, promote_types, uint8)
from ._ffi import ffi, lib, refuse
from ._tensor import Tensor

_SEQUENCE = (list, tuple)


def _finish(t, requires_grad):
    if requires_grad:
        t.requires_grad = True
    return t


def _pack(values, shape, d):
    """Tensor of the flat numbers `values` in dtype d."""
    code = d.array_code
    try:
        if d is bool_:
            buf = _array(code, map(bool, values))
        elif d.is_floating_point:
            buf = _array(code, values)
        else:
            buf = _array(code, map(int, values) if any(type(v) is not int for v in values) else values)
    except TypeError:
        bad = next(v for v in values if as_number(v) is None)
        raise refuse(TypeError, f"tensor(): cannot make an element of {type(bad).__name__!r}") from None
    except OverflowError as e:
        raise refuse(RuntimeError, f"value cannot be converted to type {d.name} without overflow ({e})") from None
    return wrap(lib.ag_from_data(len(shape), shape, d.code, ffi.from_buffer(buf)))


def _from_floats(data, code):
    """Tensor of a flat list that starts with a float, or None when something in it is no plain number."""
    try:
        buf = _array("f" if code == lib.AG_FLOAT32 else "d", data)
    except TypeError:
        return None
    return wrap(lib.ag_from_data(1, [len(data)], code, ffi.from_buffer(buf)))


def _infer(values):
    """dtype of a flat list of numbers: float beats int beats bool; NumPy's scalars and tensors keep their own."""
    kinds = set(map(type, values))
    if kinds <= {float, int, bool}:
        return get_default_dtype() if float in kinds else int64 if int in kinds else bool_
    d = None
    for v in values:
        own = getattr(v, "dtype", None)
        if own is not None:
            own = as_dtype(own)
        elif isinstance(v, bool):
            own = bool_
        elif isinstance(v, int):
            own = int64
        elif isinstance(v, float):
            own = get_default_dtype()
        else:
            raise refuse(TypeError, f"tensor(): cannot make an element of {type(v).__name__!r}")
        d = own if d is None else promote_types(d, own)
    return d


def _from_sequence(data, d):
    """Tensor of a nested sequence; d None: inferred."""
    shape = [len(data)]
    while data:
        first = data[0]
        if isinstance(first, _SEQUENCE):
            n = len(first)
            for x in data:
                if not isinstance(x, _SEQUENCE):
                    raise refuse(TypeError, f"not a sequence: {type(x).__name__} beside {type(first).__name__} at dim {len(shape)}")
                if len(x) != n:
                    raise refuse(ValueError, f"expected sequence of length {n} at dim {len(shape)} (got {len(x)})")
            shape.append(n)
            data = list(_chain.from_iterable(data))
        else:
            break
    if data and not isinstance(data[0], (float, int)) and getattr(data[0], "shape", ()) != ():
        parts = [tensor(x, dtype=d) for x in data]
        if d is None:
            d = parts[0].dtype
        inner = parts[0].shape
        for x in parts:
            if x.shape != inner:
                raise refuse(ValueError, f"expected sequence of length {inner[0]} at dim {len(shape)} (got {x.shape[0] if x.dim() else 0})")
        return _pack(list(_chain.from_iterable([x._flat() for x in parts])), (*shape, *inner), d)
    if d is None:
        d = _infer(data) if data else get_default_dtype()
    kinds = set(map(type, data))
    if not kinds <= {float, int, bool}:
        data = [x.item() if hasattr(x, "item") else x for x in data]
    return _pack(data, shape, d)


def tensor(data, *, dtype=None, device=None, requires_grad=False, pin_memory=False):
    """New leaf with a copy of `data`: a number, nested lists, a NumPy array, or anything with __array__.

    dtype: inferred when None: Python floats give the default dtype, ints int64, bools bool.
    Raises ValueError for ragged lists, TypeError for what is no number.
    """
    if device is not None:
        check_device(device)
    d = as_dtype(dtype)
    kind = type(data)
    if kind is float:
        if d is None or d.is_floating_point:
            t = wrap(lib.ag_scalar(data, lib.ag_default_dtype() if d is None else d.code))
        else:
            t = _pack([data], (), d)
    elif kind is int or kind is bool:
        if d is None:
            d = int64 if kind is int else bool_
        t = wrap(lib.ag_scalar(data, d.code)) if d.is_floating_point else _pack([data], (), d)
    elif isinstance(data, _SEQUENCE):
        t = None
        if data and type(data[0]) is float and (d is None or d.is_floating_point):
            t = _from_floats(data, lib.ag_default_dtype() if d is None else d.code)
        if t is None:
            t = _from_sequence(data, d)
    elif isinstance(data, Tensor):
        _warnings.warn("To copy construct from a tensor, it is recommended to use sourceTensor.detach().clone() or "
                       "sourceTensor.detach().clone().requires_grad_(True), rather than torch.tensor(sourceTensor).",
                       UserWarning, stacklevel=2)
        t = data.detach().clone() if d is None or d is data.dtype else data.detach().to(d)
    elif hasattr(data, "__array__") or hasattr(data, "__array_interface__"):
        t = _from_array(data, d)
    else:
        number = as_number(data)
        if number is None and hasattr(data, "__len__") and hasattr(data, "__getitem__") and not isinstance(data, (str, bytes, dict)):
            t = _from_sequence(list(data), d)
        elif number is None:
            raise refuse(TypeError, f"tensor(): argument 'data' must be numbers or (nested) sequences of them, not {kind.__name__}")
        else:
            return tensor(number, dtype=d, requires_grad=requires_grad)
    if requires_grad:
        t.requires_grad = True
    return t


def _numpy_dtype(a):
    d = BY_TYPESTR.get(a.dtype.str)
    if d is None:
        raise refuse(TypeError, f"can't convert np.ndarray of type {a.dtype}. The supported types are: float64, float32, int64, int32, uint8, and bool.")
    return d


def _from_array(data, d):
    import numpy

    a = numpy.asarray(data)
    if a.dtype.str not in BY_TYPESTR:  # other widths and byte orders are converted
        kind = a.dtype.kind
        a = a.astype({"f": "<f4" if a.dtype.itemsize < 4 else "<f8", "i": "<i4" if a.dtype.itemsize < 4 else "<i8", "u": "<i8",
                      "b": "|b1"}.get(kind, a.dtype))
    if d is not None:
        a = a.astype(d.typestr)
    own = _numpy_dtype(a)
    a = numpy.ascontiguousarray(a).reshape(a.shape)
    return wrap(lib.ag_from_data(a.ndim, a.shape, own.code, ffi.cast("void *", a.ctypes.data)))


def from_numpy(a):
    """Tensor over the memory of a NumPy array, which it keeps alive; writes are seen on both sides."""
    numpy = _sys.modules.get("numpy")
    if numpy is None or not isinstance(a, numpy.ndarray):
        raise refuse(TypeError, f"expected np.ndarray (got {type(a).__name__})")
    d = _numpy_dtype(a)
    size = a.itemsize
    if not a.flags.writeable:
        _warnings.warn("The given NumPy array is not writable, so the tensor gets a copy of it: writing to the tensor does not "
                       "change the array.", UserWarning, stacklevel=2)
        return _from_array(a, d)
    if any(s % size for s in a.strides):
        raise refuse(ValueError, "given numpy array strides not a multiple of the element byte size. Copy the numpy array to reallocate the memory.")
    if any(s < 0 for s in a.strides):
        raise refuse(ValueError, "At least one stride in the given numpy array is negative, and tensors with negative strides are not "
                     "currently supported. (You can probably work around this by making a copy of your array  with array.copy().)")
    return wrap(lib.agpy_from_object(a.ndim, a.shape, [s // size for s in a.strides], d.code, a.ctypes.data, id(a)))


def as_tensor(data, dtype=None, device=None):
    """`data` itself when it is a tensor of that dtype, otherwise a tensor over or of it; NumPy's memory is shared where it can be."""
    check_device(device)
    d = as_dtype(dtype)
    if isinstance(data, Tensor):
        return data if d is None or data.dtype is d else data.to(d)
    numpy = _sys.modules.get("numpy")
    if numpy is not None and isinstance(data, numpy.ndarray):
        own = BY_TYPESTR.get(data.dtype.str)
        if own is not None and (d is None or own is d) and data.flags.writeable and all(s >= 0 and s % data.itemsize == 0 for s in data.strides):
            return from_numpy(data)
    return tensor(data, dtype=d)


asarray = as_tensor


def from_dlpack(ext):
    """Tensor over the memory of an object that speaks DLPack (through NumPy)."""
    import numpy

    return from_numpy(numpy.from_dlpack(ext))


# ---- from sizes -----------------------------------------------------------------------------------


def _filled(shape, value, d):
    if type(value) is float or d.is_floating_point:
        return wrap(lib.ag_full(len(shape), shape, d.code, value))
    return wrap(lib.ag_full_int(len(shape), shape, d.code, value))


def _check_sizes(shape):
    for n in shape:
        if n < 0:
            raise refuse(RuntimeError, f"Trying to create tensor with negative dimension {n}: {list(shape)}")
    return shape


def _sized(make, size, dtype, device, requires_grad, *value):
    code = lib.ag_default_dtype() if dtype is None else as_dtype(dtype).code
    if device is not None:
        check_device(device)
    shape = size[0] if len(size) == 1 and isinstance(size[0], _SEQUENCE) else size
    try:
        t = wrap(make(len(shape), shape, code, *value))
    except TypeError:  # sizes that are only like integers
        shape = as_size(size)
        t = wrap(make(len(shape), shape, code, *value))
    if requires_grad:
        t.requires_grad = True
    return t


def zeros(*size, dtype=None, device=None, requires_grad=False, out=None):
    """Zeros of the given sizes."""
    return _sized(lib.ag_full, size, dtype, device, requires_grad, 0.0)


def ones(*size, dtype=None, device=None, requires_grad=False, out=None):
    """Ones of the given sizes."""
    return _sized(lib.ag_full, size, dtype, device, requires_grad, 1.0)


def empty(*size, dtype=None, device=None, requires_grad=False, out=None, memory_format=None, pin_memory=False):
    """Uninitialised memory of the given sizes."""
    return _sized(lib.ag_empty, size, dtype, device, requires_grad)


def full(size, fill_value, *, dtype=None, device=None, requires_grad=False, out=None):
    """fill_value everywhere; the dtype follows from it when None."""
    check_device(device)
    if isinstance(fill_value, Tensor):
        fill_value = fill_value.item()
    number = as_number(fill_value)
    if number is None:
        raise refuse(TypeError, f"full(): argument 'fill_value' (position 2) must be Number, not {type(fill_value).__name__}")
    d = as_dtype(dtype) or (bool_ if type(number) is bool else int64 if type(number) is int else get_default_dtype())
    if d is bool_:
        number = bool(number)
    elif not d.is_floating_point:
        number = int(number)
    return _finish(_filled(_check_sizes(as_size((size,))), number, d), requires_grad)


def _like(input, dtype, device):
    if not isinstance(input, Tensor):
        raise refuse(TypeError, f"argument 'input' must be Tensor, not {type(input).__name__}")
    check_device(device)
    return tuple(input.shape), as_dtype(dtype) or input.dtype


def zeros_like(input, *, dtype=None, device=None, requires_grad=False, memory_format=None):
    shape, d = _like(input, dtype, device)
    return _finish(wrap(lib.ag_full(len(shape), shape, d.code, 0.0)), requires_grad)


def ones_like(input, *, dtype=None, device=None, requires_grad=False, memory_format=None):
    shape, d = _like(input, dtype, device)
    return _finish(wrap(lib.ag_full(len(shape), shape, d.code, 1.0)), requires_grad)


def full_like(input, fill_value, *, dtype=None, device=None, requires_grad=False, memory_format=None):
    shape, d = _like(input, dtype, device)
    return full(shape, fill_value, dtype=d, requires_grad=requires_grad)


def empty_like(input, *, dtype=None, device=None, requires_grad=False, memory_format=None):
    shape, d = _like(input, dtype, device)
    return _finish(wrap(lib.ag_empty(len(shape), shape, d.code)), requires_grad)


def new_zeros(self, *size, dtype=None, device=None, requires_grad=False):
    return zeros(*size, dtype=dtype or self.dtype, device=device, requires_grad=requires_grad)


def new_ones(self, *size, dtype=None, device=None, requires_grad=False):
    return ones(*size, dtype=dtype or self.dtype, device=device, requires_grad=requires_grad)


def new_empty(self, *size, dtype=None, device=None, requires_grad=False):
    return empty(*size, dtype=dtype or self.dtype, device=device, requires_grad=requires_grad)


def new_full(self, size, fill_value, *, dtype=None, device=None, requires_grad=False):
    return full(size, fill_value, dtype=dtype or self.dtype, device=device, requires_grad=requires_grad)


def new_tensor(self, data, *, dtype=None, device=None, requires_grad=False):
    if isinstance(data, Tensor):
        data = data.detach().numpy()
    return tensor(data, dtype=dtype or self.dtype, device=device, requires_grad=requires_grad)


def arange(start, end=None, step=1, *, dtype=None, device=None, requires_grad=False, out=None):
    """start, start + step ... below end (arange(end): from 0).  int64 when all are integers."""
    if end is None:
        start, end = 0, start
    start, end, step = [x.item() if hasattr(x, "item") else x for x in (start, end, step)]
    if step == 0:
        raise refuse(RuntimeError, "step must be nonzero")
    if (end - start) * step < 0:
        raise refuse(RuntimeError, "upper bound and lower bound inconsistent with step sign")
    d = as_dtype(dtype)
    whole = all(isinstance(x, int) for x in (start, end, step))
    if d is None:
        d = int64 if whole else get_default_dtype()
    n = -((start - end) // step) if whole else int(_math.ceil((end - start) / step))
    check_device(device)
    return _finish(wrap(lib.ag_arange(float(start), float(step), n, d.code)), requires_grad)


def range_(start, end, step=1, **kw):
    """As arange, but end belongs to it."""
    n = int(_math.floor((end - start) / step)) + 1
    d = as_dtype(kw.get("dtype")) or get_default_dtype()
    return wrap(lib.ag_arange(float(start), float(step), n, d.code))


def linspace(start, end, steps, *, dtype=None, device=None, requires_grad=False, out=None):
    """steps numbers, equally spaced, both ends included."""
    start, end = [x.item() if hasattr(x, "item") else x for x in (start, end)]
    d = as_dtype(dtype) or get_default_dtype()
    check_device(device)
    if steps < 0:
        raise refuse(RuntimeError, "number of steps must be non-negative")
    # From both ends towards the middle, as PyTorch: symmetric, and the last element is end itself.
    step = (end - start) / (steps - 1) if steps > 1 else 0.0
    half = steps // 2
    if d is float32:
        step = _array("f", [step])[0]
    values = [start + step * k if k < half or steps == 1 else end - step * (steps - 1 - k) for k in range(steps)]
    return _finish(_pack(values, (steps,), d), requires_grad)


def logspace(start, end, steps, base=10.0, *, dtype=None, device=None, requires_grad=False):
    """base to the power of linspace."""
    d = as_dtype(dtype) or get_default_dtype()
    step = (end - start) / (steps - 1) if steps > 1 else 0.0
    return _finish(_pack([base ** (start + k * step) for k in range(steps)], (steps,), d), requires_grad)


def eye(n, m=None, *, dtype=None, device=None, requires_grad=False, out=None):
    """(n, m) matrix with ones on the diagonal; m defaults to n."""
    m = n if m is None else m
    t = zeros(n, m, dtype=dtype, device=device)
    if n and m:
        t.diagonal().fill_(1)
    return _finish(t, requires_grad)


def scalar_tensor(s, *, dtype=None, device=None, requires_grad=False):
    return tensor(s, dtype=as_dtype(dtype) or get_default_dtype(), device=device, requires_grad=requires_grad)


# ---- PyTorch's older constructors ---------------------------------------------------------------------


def _legacy(args, d):
    if not args:
        return empty(0, dtype=d)
    if len(args) == 1 and not isinstance(args[0], int):
        x = args[0]
        if isinstance(x, Tensor):
            return x.detach() if x.dtype is d else x.detach().to(d)
        if type(x).__name__ == "Size":
            return empty(*x, dtype=d)
        return tensor(x, dtype=d)
    return empty(*map(_operator.index, args), dtype=d)


def legacy_constructor(args, device=None):
    check_device(device)
    return _legacy(args, get_default_dtype())


def _typed(name, d):
    def make(*args, device=None):
        check_device(device)
        return _legacy(args, d)

    make.__name__ = make.__qualname__ = name
    make.__doc__ = f"{d.name} tensor of the given sizes (uninitialised) or values."
    return make


FloatTensor = _typed("FloatTensor", float32)
DoubleTensor = _typed("DoubleTensor", float64)
LongTensor = _typed("LongTensor", int64)
IntTensor = _typed("IntTensor", int32)
ByteTensor = _typed("ByteTensor", uint8)
BoolTensor = _typed("BoolTensor", bool_)
