"""The ways from Python into an op of the core.

`unary`, `binary`, `inplace` make the functions behind `tanh(x)`, `a + b`, `a += b`: closures written for
speed, in two versions, with and without the caller's source position (`set_line_tracking` swaps them).
Everything else goes through `apply`, `apply_multi` and `apply_inplace`, which take the caller's frame, the
op's name, its tensors and its attributes.

Adding an elementwise op is one row in ag_ops.inc and one line in _elementwise.py.
"""
import sys as _sys
from sys import _getframe

from . import _ffi
from ._ffi import NULL, OPS, enter, fail, here, learn, lib, refuse, wrong_kind
from ._tensor import Tensor

new = object.__new__
call1, call2, call2s, call2i = lib.ag_call1, lib.ag_call2, lib.ag_call2s, lib.ag_call2i
at1, at2, at2s, at2i = lib.agpy_at1, lib.agpy_at2, lib.agpy_at2s, lib.agpy_at2i
calln = lib.ag_calln
call1i = lib.agpy_call1i
_plain1, _plain2 = lib.agpy_call1, lib.agpy_call2
inplace2, inplace_s = lib.agpy_inplace2, lib.ag_call_inplace_s

# Of an operand or attribute of the wrong kind.  The package's own InvalidType passes through `wrong_kind` as it is.
_KINDS = AttributeError, TypeError, OverflowError
_TIED = OPS["tied"]
_pairs = []  # (with positions, without)


def wrap(h):
    """Tensor around a new handle; raises the core's failure when it is NULL."""
    if not h:
        fail()
    r = new(Tensor)
    r._h = h
    return r


# ---- any op ----------------------------------------------------------------------------------------


def apply(f, name, tensors, ints=(), floats=()):
    """Result of the one-output op `name`; f is the frame whose line the node keeps (None: none)."""
    op = OPS[name]
    try:
        hs = [t._h for t in tensors]
        if f is None or not _ffi.tracking:
            h = calln(op, len(hs), hs, len(ints), ints, len(floats), floats, 0, 0)
        else:
            h = calln(op, len(hs), hs, len(ints), ints, len(floats), floats, id(f.f_code), f.f_lasti)
            if not h:
                learn(f)
                h = calln(op, len(hs), hs, len(ints), ints, len(floats), floats, id(f.f_code), f.f_lasti)
    except _KINDS as error:
        raise wrong_kind(error) from None
    if not h:
        fail()
    r = new(Tensor)
    r._h = h
    return r


def apply1(f, op, t, n, i0=0, i1=0, i2=0, i3=0):
    """Result of op (its number) on one tensor with n <= 4 ints: the short way for views and reductions."""
    try:
        if _ffi.tracking and f is not None:
            h = call1i(op, t._h, n, i0, i1, i2, i3, id(f.f_code), f.f_lasti)
            if not h:
                learn(f)
                h = call1i(op, t._h, n, i0, i1, i2, i3, id(f.f_code), f.f_lasti)
        else:
            h = call1i(op, t._h, n, i0, i1, i2, i3, 0, 0)
    except _KINDS as error:
        raise wrong_kind(error) from None
    if not h:
        fail()
    r = new(Tensor)
    r._h = h
    return r


def apply_multi(f, name, tensors, n_out, ints=(), floats=()):
    """Tuple of the n_out results of an op."""
    op = OPS[name]
    outs = _ffi.ffi.new("ag_tensor *[]", n_out)
    code, lasti = (0, 0) if f is None or not _ffi.tracking else (id(f.f_code), f.f_lasti)
    try:
        hs = [t._h for t in tensors]
        if lib.ag_calln_multi(op, len(hs), hs, len(ints), ints, len(floats), floats, code, lasti, outs) < 0:
            learn(f)
            if lib.ag_calln_multi(op, len(hs), hs, len(ints), ints, len(floats), floats, code, lasti, outs) < 0:
                fail()
    except _KINDS as error:
        raise wrong_kind(error) from None
    return tuple([wrap(outs[k]) for k in range(n_out)])


def apply_inplace(f, name, tensors, ints=(), floats=()):
    """Runs op `name` with the result written into tensors[0], which is returned."""
    op = OPS[name]
    code, lasti = (0, 0) if f is None or not _ffi.tracking else (id(f.f_code), f.f_lasti)
    try:
        hs = [t._h for t in tensors]
        if lib.ag_call_inplace(op, len(hs), hs, len(ints), ints, len(floats), floats, code, lasti) < 0:
            learn(f)
            if lib.ag_call_inplace(op, len(hs), hs, len(ints), ints, len(floats), floats, code, lasti) < 0:
                fail()
    except _KINDS as error:
        raise wrong_kind(error) from None
    return tensors[0]


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


def binary_at(f, op, name, a, b, rev=False, operator=False):
    """a op b (rev: b op a) at frame f, for any operands; NotImplemented or TypeError where b is no number.

    The slow way beside the closures of `binary`: also describes code that the core does not know yet.
    """
    if not isinstance(a, Tensor):
        if operator or not isinstance(b, Tensor):
            raise not_a_tensor(name, "input", 1, a)
        return binary_at(f, op, name, b, a, not rev)
    code, lasti = (0, 0) if f is None or not _ffi.tracking else (id(f.f_code), f.f_lasti)
    if isinstance(b, Tensor):
        x, y = (b, a) if rev else (a, b)
        h = call2(op, x._h, y._h, code, lasti)
        if not h:
            learn(f)
            h = call2(op, x._h, y._h, code, lasti)
        return wrap(h)
    number = as_number(b)
    if number is None:
        if operator:
            return NotImplemented
        raise not_a_tensor(name, "other", 2, b)
    if type(number) is bool:
        return binary_at(f, op, name, a, wrap(lib.ag_full_int(0, NULL, lib.AG_BOOL, number)), rev)
    call = call2s if type(number) is float else call2i
    h = call(op, a._h, number, rev, code, lasti)
    if not h:
        learn(f)
        h = call(op, a._h, number, rev, code, lasti)
    return wrap(h)


def inplace_at(f, op, name, a, b, operator=False):
    """a op= b at frame f for any b."""
    code, lasti = (0, 0) if f is None or not _ffi.tracking else (id(f.f_code), f.f_lasti)
    if not isinstance(b, Tensor):
        number = as_number(b)
        if number is None:
            if operator:
                return NotImplemented
            raise not_a_tensor(name, "other", 2, b)
        if type(number) is float:
            if inplace_s(op, a._h, number, code, lasti) < 0:
                learn(f)
                if inplace_s(op, a._h, number, code, lasti) < 0:
                    fail()
            return a
        b = scalar_tensor(number, a)
    if inplace2(op, a._h, b._h, code, lasti) < 0:
        learn(f)
        if inplace2(op, a._h, b._h, code, lasti) < 0:
            fail()
    return a


# ---- factories -----------------------------------------------------------------------------------------


def _named(tracked, plain, name, doc):
    for fn in (tracked, plain):
        fn.__name__ = name
        fn.__qualname__ = name
        fn.__doc__ = doc
        fn.__module__ = "autograd_c"
    _pairs.append((tracked, plain))
    return tracked if _ffi.tracking else plain


def unary(name, public=None, doc=None):
    """Function input -> tensor for a one-operand op."""
    op = OPS[name]
    public = public or name

    def tracked(input):
        f = _getframe(1)
        while f.f_code is not here[0]:
            enter(f)
        try:
            h = at1(op, input._h, f.f_lasti)
        except AttributeError:
            raise not_a_tensor(public, "input", 1, input) from None
        if not h:
            fail()
        r = new(Tensor)
        r._h = h
        return r

    def plain(input):
        try:
            h = _plain1(op, input._h)
        except AttributeError:
            raise not_a_tensor(public, "input", 1, input) from None
        if not h:
            fail()
        r = new(Tensor)
        r._h = h
        return r

    return _named(tracked, plain, public, doc or f"{public}(input) -> Tensor, elementwise: the input's shape.")


def binary(name, public=None, rev=False, operator=False, doc=None):
    """Function (input, other) -> tensor for a two-operand op; numbers give way to the tensor's dtype.

    rev: other is the left operand (__rsub__).  operator: unknown operands give NotImplemented.
    """
    op = OPS[name]
    public = public or name
    rev = int(rev)

    def tracked(input, other):
        f = _getframe(1)
        while f.f_code is not here[0]:
            enter(f)
        t = type(other)
        try:
            if t is Tensor and not rev:
                h = at2(op, input._h, other._h, f.f_lasti)
            elif t is float:
                h = at2s(op, input._h, other, rev, f.f_lasti)
            elif t is int:
                h = at2i(op, input._h, other, rev, f.f_lasti)
            elif rev:
                h = at2(op, other._h, input._h, f.f_lasti)
            else:
                h = at2(op, input._h, other._h, f.f_lasti)
        except AttributeError:
            return binary_at(f, op, public, input, other, rev, operator)
        if not h:
            fail()
        r = new(Tensor)
        r._h = h
        return r

    def plain(input, other):
        t = type(other)
        try:
            if t is float:
                h = call2s(op, input._h, other, rev, 0, 0)
            elif t is int:
                h = call2i(op, input._h, other, rev, 0, 0)
            elif rev:
                h = _plain2(op, other._h, input._h)
            else:
                h = _plain2(op, input._h, other._h)
        except AttributeError:
            return binary_at(None, op, public, input, other, rev, operator)
        if not h:
            fail()
        r = new(Tensor)
        r._h = h
        return r

    return _named(tracked, plain, public, doc or f"{public}(input, other) -> Tensor, elementwise over the broadcast shape.")


def inplace(name, public, operator=False):
    """Method that writes `self op other` into self and returns self; the shape of self must not change."""
    op = OPS[name]

    def tracked(self, other):
        f = _getframe(1)
        try:
            if type(other) is float:
                s = inplace_s(op, self._h, other, id(f.f_code), f.f_lasti)
            else:
                s = inplace2(op, self._h, other._h, id(f.f_code), f.f_lasti)
        except AttributeError:
            return inplace_at(f, op, public, self, other, operator)
        if s < 0:
            learn(f)
            return inplace_at(f, op, public, self, other, operator)
        return self

    def plain(self, other):
        try:
            if type(other) is float:
                s = inplace_s(op, self._h, other, 0, 0)
            else:
                s = inplace2(op, self._h, other._h, 0, 0)
        except AttributeError:
            return inplace_at(None, op, public, self, other, operator)
        if s < 0:
            fail()
        return self

    return _named(tracked, plain, public, f"In-place version of {public.rstrip('_')}: writes into self and returns it.")


def unary_inplace(name):
    """Method that writes op(self) into self and returns self."""

    def method(self):
        return apply_inplace(_getframe(1), name, (self,))

    method.__name__ = method.__qualname__ = name + "_"
    method.__doc__ = f"In-place version of {name}: writes into self and returns it."
    return method


def set_line_tracking(on):
    """Whether graph nodes keep the Python line that made them (on at start; costs about a quarter of a microsecond an op)."""
    on = bool(on)
    if on == _ffi.tracking:
        return
    _ffi.tracking = on
    lib.agpy_tracking(on)
    if not on:
        lib.ag_site_set(0, 0)
    other = {id(old): new_ for tracked, plain in _pairs for old, new_ in [(plain, tracked) if on else (tracked, plain)]}
    for key, value in list(vars(Tensor).items()):
        if id(value) in other:
            setattr(Tensor, key, other[id(value)])
    for name, module in list(_sys.modules.items()):
        if module is not None and name.partition(".")[0] == "autograd_c":
            for key, value in list(vars(module).items()):
                if id(value) in other:
                    setattr(module, key, other[id(value)])
