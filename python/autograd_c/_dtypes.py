"""Element types, sizes and devices: small immutable objects that print as PyTorch's do."""
import math as _math
import operator as _operator

from ._ffi import check, lib

# What dtype names are printed with; code that runs this package under the name torch may set it.
prefix = "autograd_c"


class dtype:
    """An element type.  Attributes: name, code (the core's number), itemsize, is_floating_point, is_signed, typestr."""

    __slots__ = ("name", "code", "itemsize", "is_floating_point", "is_signed", "is_complex", "typestr", "tensor_name", "scalar_name",
                 "array_code")

    def __init__(self, name, code, typestr, tensor_name, array_code):
        self.name = name
        self.code = code
        self.itemsize = lib.ag_dtype_size(code)
        self.is_floating_point = name.startswith("float")
        self.is_signed = name not in ("bool", "uint8")
        self.is_complex = False
        self.typestr = typestr
        self.tensor_name = tensor_name
        self.scalar_name = tensor_name.removesuffix("Tensor")
        self.array_code = array_code

    def __repr__(self):
        return f"{prefix}.{self.name}"

    def __reduce__(self):
        return dtype_named, (self.name,)

    def __call__(self, x, memory_format=None):
        """x (a tensor or data) in this dtype."""
        if hasattr(x, "_h"):
            return x.to(self)
        from ._create import tensor

        return tensor(x, dtype=self)

    def to_numpy(self):
        import numpy

        return numpy.dtype(self.typestr)


bool_ = dtype("bool", lib.AG_BOOL, "|b1", "BoolTensor", "B")
uint8 = dtype("uint8", lib.AG_UINT8, "|u1", "ByteTensor", "B")
int32 = dtype("int32", lib.AG_INT32, "<i4", "IntTensor", "i")
int64 = dtype("int64", lib.AG_INT64, "<i8", "LongTensor", "q")
float32 = dtype("float32", lib.AG_FLOAT32, "<f4", "FloatTensor", "f")
float64 = dtype("float64", lib.AG_FLOAT64, "<f8", "DoubleTensor", "d")

BY_CODE = (bool_, uint8, int32, int64, float32, float64)
BY_NAME = {d.name: d for d in BY_CODE}
BY_TYPESTR = {d.typestr: d for d in BY_CODE}
_PYTHON = {bool: bool_, int: int64}


def dtype_named(name):
    return BY_NAME[name]


def as_dtype(d):
    """The dtype that d names: one of ours, a string ("float32"), Python's bool, int, float, or NumPy's.  None stays."""
    if d is None or type(d) is dtype:
        return d
    if d is float:
        return get_default_dtype()
    if isinstance(d, type) and d in _PYTHON:
        return _PYTHON[d]
    if isinstance(d, str) and d.rpartition(".")[2] in BY_NAME:
        return BY_NAME[d.rpartition(".")[2]]
    name = getattr(d, "name", None) or getattr(d, "__name__", None)  # numpy.float32 and numpy.dtype("float32")
    if name in BY_NAME and type(d).__module__.partition(".")[0] in ("numpy", "builtins"):
        return BY_NAME[name]
    raise TypeError(f"dtype must be one of {', '.join(BY_NAME)}, not {d!r}")


def get_default_dtype():
    """dtype of tensors made from Python floats: float32 unless set_default_dtype changed it."""
    return BY_CODE[lib.ag_default_dtype()]


def set_default_dtype(d):
    d = as_dtype(d)
    if not d.is_floating_point:
        raise TypeError(f"only floating-point types are supported as the default type, not {d}")
    check(lib.ag_set_default_dtype(d.code))


def promote_types(a, b):
    return BY_CODE[lib.ag_promote(as_dtype(a).code, as_dtype(b).code)]


def can_cast(from_, to):
    def rank(d):
        return 2 if d.is_floating_point else 0 if d is bool_ else 1

    return rank(as_dtype(from_)) <= rank(as_dtype(to))


class Size(tuple):
    """A shape: a tuple of ints."""

    __slots__ = ()

    def __repr__(self):
        return f"torch.Size([{', '.join(map(repr, self))}])"

    __str__ = __repr__

    def numel(self):
        return _math.prod(self)

    def __add__(self, other):
        return Size(tuple.__add__(self, other)) if isinstance(other, tuple) else NotImplemented

    def __radd__(self, other):
        return Size(tuple(other) + tuple(self)) if isinstance(other, tuple) else NotImplemented

    def __mul__(self, n):
        return Size(tuple.__mul__(self, n))

    __rmul__ = __mul__

    def __getitem__(self, k):
        r = tuple.__getitem__(self, k)
        return Size(r) if type(r) is tuple else r

    def __reduce__(self):
        return Size, (tuple(self),)


def as_size(sizes):
    """Sizes given as f(2, 3), f((2, 3)) or f([2, 3]): a tuple of ints."""
    if len(sizes) == 1:
        s = sizes[0]
        if isinstance(s, (tuple, list)):
            sizes = s
    return tuple(map(_operator.index, sizes))


class device:
    """Where data lies; there is only the CPU, other names may be formed but not used."""

    __slots__ = ("type", "index")

    def __init__(self, type="cpu", index=None):
        if isinstance(type, device):
            type, index = type.type, type.index
        elif ":" in type:
            type, _, number = type.partition(":")
            index = int(number)
        self.type = type
        self.index = index

    def __repr__(self):
        return f"device(type='{self.type}')" if self.index is None else f"device(type='{self.type}', index={self.index})"

    def __str__(self):
        return self.type if self.index is None else f"{self.type}:{self.index}"

    def __eq__(self, other):
        return isinstance(other, device) and (self.type, self.index) == (other.type, other.index)

    def __hash__(self):
        return hash((self.type, self.index))

    def __reduce__(self):
        return device, (self.type, self.index)


CPU = device("cpu")


def check_device(d):
    """Raises unless d is None or the CPU."""
    if d is not None and d is not CPU and device(d).type != "cpu":
        raise RuntimeError(f"autograd_c computes on the CPU only, there is no device '{d}'")


class finfo:
    """Limits of a floating-point dtype: bits, eps, max, min, tiny, smallest_normal, resolution."""

    def __init__(self, d=None):
        d = get_default_dtype() if d is None else as_dtype(d)
        if not d.is_floating_point:
            raise TypeError(f"finfo() requires a floating point input type. Use iinfo to handle '{d.name}'")
        f64 = d is float64
        self.dtype = d.name
        self.bits = d.itemsize * 8
        self.eps = 2.0**-52 if f64 else 2.0**-23
        self.max = 1.7976931348623157e308 if f64 else 3.4028234663852886e38
        self.min = -self.max
        self.tiny = self.smallest_normal = 2.0**-1022 if f64 else 2.0**-126
        self.resolution = 1e-15 if f64 else 1e-6

    def __repr__(self):
        return (f"finfo(resolution={self.resolution:g}, min={self.min:g}, max={self.max:g}, eps={self.eps:g}, "
                f"smallest_normal={self.smallest_normal:g}, tiny={self.tiny:g}, dtype={self.dtype})")


class iinfo:
    """Limits of an integer dtype: bits, max, min."""

    def __init__(self, d):
        d = as_dtype(d)
        if d.is_floating_point or d is bool_:
            raise TypeError(f"iinfo() requires an integer input type, not '{d.name}'")
        self.dtype = d.name
        self.bits = d.itemsize * 8
        self.max = 255 if d is uint8 else 2 ** (self.bits - 1) - 1
        self.min = 0 if d is uint8 else -(2 ** (self.bits - 1))

    def __repr__(self):
        return f"iinfo(min={self.min}, max={self.max}, dtype={self.dtype})"
