"""The ways from Python into an op of the core.

The functions themselves are in C (csrc/python/calls.inc): operators and the functions with a row's name, and for
everything else `apply`, `apply1`, `apply2`, `apply_multi` and `apply_inplace`, which take the caller's frame, the op's
name or number, its tensors and its attributes.  Here stands what C asks for in rare cases, and what gives the functions
of rows their names in Python.

Adding an elementwise op is one row in ag_ops.inc and one line in _elementwise.py.
"""
import sys as _sys

from . import _ffi
from ._dtypes import BY_CODE, Size
from ._ffi import NULL, OPS, called_from_c, fail, lib, refuse, wrong_kind
from ._tensor import Tensor

apply, apply1, apply2 = _ffi.core["apply"], _ffi.core["apply1"], _ffi.core["apply2"]
reshape = _ffi.core["reshape"]
apply_multi, apply_inplace, wrap = _ffi.core["apply_multi"], _ffi.core["apply_inplace"], _ffi.core["wrap"]
METHODS = _ffi.core["methods"]  # name of an elementwise row, with and without "_": its method of Tensor

call2s, call2i = lib.ag_call2s, lib.ag_call2i
_TIED = OPS["tied"]


def tied_at(f, t, *others):
    """t, as the operand of a composition that PyTorch has as one function whose gradient it ties to the operand: that gradient
    can be differentiated again, with zeros, even where it is a constant (OF_TIED of csrc/ops/op.h).  With others (None: left
    out), that is so only if one of them asks for gradients: a bias, whose gradient PyTorch ties to them."""
    if not isinstance(t, Tensor) or not lib.ag_tensor_requires_grad(t._h) or not lib.ag_grad_enabled():
        return t
    if others and not any([x is not None and lib.ag_tensor_requires_grad(x._h) for x in others]):
        return t
    return apply1(f, _TIED, t, 0)


# ---- operands that are no tensors ----------------------------------------------------------------------


def as_number(x):
    """x as a bool, int or float when it is a number of Python's or NumPy's, otherwise None."""
    if isinstance(x, (bool, int, float)):
        return x if type(x) in (bool, int, float) else float(x) if isinstance(x, float) else int(x)
    numpy = _sys.modules.get("numpy")
    if numpy is not None and isinstance(x, numpy.generic) and not isinstance(x, numpy.complexfloating):
        return x.item()
    return None


def scalar_tensor(x, like):
    """0-d tensor of the number x in the dtype it takes beside `like`: a Python number only lifts the category."""
    code = lib.ag_tensor_dtype(like._h)
    if type(x) is bool:
        return wrap(lib.ag_full_int(0, NULL, code if code != lib.AG_BOOL else lib.AG_BOOL, x))
    if type(x) is int:
        return wrap(lib.ag_full_int(0, NULL, lib.AG_INT64 if code == lib.AG_BOOL else code, x))
    return wrap(lib.ag_full(0, NULL, code if code >= lib.AG_FLOAT32 else lib.ag_default_dtype(), x))


def not_a_tensor(name, argument, position, x):
    return refuse(TypeError, f"{name}(): argument '{argument}' (position {position}) must be Tensor, not {type(x).__name__}")


def tensors_only(name, input, other=None, wanted="other"):
    """Refuses numbers, as PyTorch does for operands of some functions (input alone, or both)."""
    if not isinstance(input, Tensor):
        raise not_a_tensor(name, "input", 1, input)
    if other is not None and not isinstance(other, Tensor):
        raise not_a_tensor(name, wanted, 2, other)


def _position(f):
    """Code and offset of a frame, as the core takes them."""
    if f is None or not _ffi.tracking:
        return 0, 0
    if not lib.ag_site_known(id(f.f_code)):
        _ffi.describe(f.f_code)
    return id(f.f_code), f.f_lasti


def binary_at(f, op, name, a, b, rev=False, operator=False):
    """a op b (rev: b op a) at frame f, for any operands; NotImplemented or TypeError where b is no number."""
    if not isinstance(a, Tensor):
        if operator or not isinstance(b, Tensor):
            raise not_a_tensor(name, "input", 1, a)
        return binary_at(f, op, name, b, a, not rev)
    if isinstance(b, Tensor):
        return apply2(f, op, b, a) if rev else apply2(f, op, a, b)
    number = as_number(b)
    if number is None:
        if operator:
            return NotImplemented
        raise not_a_tensor(name, "other", 2, b)
    if type(number) is bool:
        return binary_at(f, op, name, a, wrap(lib.ag_full_int(0, NULL, lib.AG_BOOL, number)), rev)
    return wrap((call2s if type(number) is float else call2i)(op, a._h, number, rev, *_position(f)))


def inplace_at(f, op, name, a, b, operator=False):
    """a op= b at frame f for any b."""
    if not isinstance(b, Tensor):
        number = as_number(b)
        if number is None:
            if operator:
                return NotImplemented
            raise not_a_tensor(name, "other", 2, b)
        if type(number) is float:
            if lib.ag_call_inplace_s(op, a._h, number, *_position(f)) < 0:
                fail()
            return a
        b = scalar_tensor(number, a)
    return apply_inplace(f, op, (a, b))


# ---- functions of rows ---------------------------------------------------------------------------------

_ROWS = _ffi.core["functions"]


def unary(name):
    """Function input -> tensor of an elementwise row with one operand; METHODS has the method of the same name."""
    return _ROWS[name]


def binary(name):
    """Function (input, other) -> tensor of a row with two operands; numbers give way to the tensor's dtype."""
    return _ROWS[name]


def set_line_tracking(on):
    """Whether graph nodes keep the Python line that made them (on at start; costs about a tenth of a microsecond an op)."""
    _ffi.tracking = bool(on)
    lib.agpy_track(_ffi.tracking)
    if not on:
        lib.ag_site_set(0, 0)



def bind(**functions):
    """Gives the functions of C what they ask for in rare cases."""
    if lib.agpy_bind(id(functions)) < 0:
        raise ImportError("autograd_c: the core could not be bound to its Python functions")


bind(Tensor=Tensor, Size=Size, dtypes=BY_CODE, OPS=OPS, fail=fail, describe=_ffi.describe, wrong_kind=wrong_kind,
     binary=called_from_c(binary_at), inplace=called_from_c(inplace_at), not_a_tensor=called_from_c(not_a_tensor))
