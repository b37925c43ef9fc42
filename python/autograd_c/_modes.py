"""Grad modes, as context managers and decorators; the number of threads."""
import functools as _functools
import operator as _operator

from ._ffi import check, lib

_set = lib.ag_grad_set_enabled
_new = object.__new__


class _Mode:
    """Base: enters with grad mode `_on`, leaves with the former one."""

    _on = False
    __slots__ = ("_former",)

    def __new__(cls, fn=None, *args):
        self = _new(cls)
        return self if fn is None else self._decorate(fn)

    def __enter__(self):
        self._former = _set(self._on)
        return None

    def __exit__(self, *error):
        _set(self._former)

    def _again(self):
        return type(self)()

    def _decorate(self, fn):
        if isinstance(fn, type):
            raise TypeError(f"{type(self).__name__} decorates functions, not classes")
        if getattr(getattr(fn, "__code__", None), "co_flags", 0) & 0x20:

            @_functools.wraps(fn)
            def generate(*args, **kw):
                with self._again():
                    gen = fn(*args, **kw)
                value, error = None, None
                while True:
                    try:
                        with self._again():
                            item = gen.throw(error) if error is not None else gen.send(value)
                    except StopIteration as stop:
                        return stop.value
                    value = error = None
                    try:
                        value = yield item
                    except GeneratorExit:
                        gen.close()
                        raise
                    except BaseException as e:
                        error = e

            return generate

        @_functools.wraps(fn)
        def call(*args, **kw):
            with self._again():
                return fn(*args, **kw)

        return call

    def __call__(self, fn):
        return self._decorate(fn)


class no_grad(_Mode):
    """Nothing done inside is recorded: `with no_grad():` or `@no_grad()`."""

    __slots__ = ()


class enable_grad(_Mode):
    """Operations inside are recorded, also under no_grad."""

    __slots__ = ()
    _on = True


class inference_mode(_Mode):
    """As no_grad; inference_mode(False) changes nothing."""

    __slots__ = ("_on",)

    def __new__(cls, mode=True):
        self = object.__new__(cls)
        if callable(mode):
            self._on = False
            return self._decorate(mode)
        self._on = False if mode else bool(lib.ag_grad_enabled())
        return self

    def _again(self):
        return type(self)(not self._on)


class set_grad_enabled(_Mode):
    """Sets grad mode at once; as a context restores the former mode at its end."""

    __slots__ = ("_on",)

    def __new__(cls, mode):
        self = object.__new__(cls)
        self._on = bool(mode)
        self._former = _set(self._on)
        return self

    def __enter__(self):
        _set(self._on)

    def _again(self):
        return type(self)(self._on)

    def __call__(self, fn):
        _set(self._former)
        return self._decorate(fn)


def is_grad_enabled():
    return bool(lib.ag_grad_enabled())


def is_inference_mode_enabled():
    return False


def get_num_threads():
    """Threads that large work may use, the calling one included: what set_num_threads said last, else
    AUTOGRAD_C_NUM_THREADS, else the cores this process may use."""
    return lib.ag_get_num_threads()


def set_num_threads(n):
    """Lets large work use n threads, the calling one included.  Results do not depend on it, bit for bit.

    Raises TypeError when n is no integer, RuntimeError when it is below 1.
    """
    check(lib.ag_set_num_threads(min(max(_operator.index(n), -1 << 20), 1 << 20)))
