"""The C core as cffi sees it, the exceptions its status codes become, and source positions.

Everything above this file calls `lib` and turns failures into exceptions through `check` or `fail`.
"""
from array import array as _array
import os as _os
import re as _re
from sys import _getframe

try:
    from ._core import ffi, lib
except ImportError as _error:  # OpenBLAS may lie in another site-packages folder than ours: its package knows where
    if "openblas" not in str(_error):
        raise
    import scipy_openblas32  # noqa: F401  (loads the library for the whole process)

    from ._core import ffi, lib

NULL = ffi.NULL
lib.agpy_init()
core = {}  # TensorBase and the functions of csrc/python/*.inc
if lib.agpy_types(id(core), id(ffi.typeof("ag_tensor *"))) < 0:
    raise ImportError("autograd_c: the types of the core could not be made")


class Error(Exception):
    """Base of all exceptions that come from the C core; each is also a built-in exception."""


class OpError(Error, RuntimeError):
    """An operation failed: shapes, the graph, in-place rules."""


class IndexOutOfRange(Error, IndexError):
    """An index or a dim lies outside of its range."""


class IndexOutOfBounds(IndexOutOfRange, RuntimeError):
    """Of gather and scatter, where PyTorch raises RuntimeError and everything else IndexError."""


class InvalidValue(Error, ValueError):
    """An argument has a value that makes no sense."""


class InvalidType(Error, TypeError):
    """An argument is of the wrong kind or dtype."""


class OutOfMemory(Error, MemoryError):
    """Memory for a tensor or a node could not be had; every operand is as it was."""


class NotSupported(Error, NotImplementedError):
    """The operation is not defined for this dtype or these arguments."""


class TracedDataError(Error, RuntimeError):
    """Python asked for the value of a tensor while a graph was being frozen."""


class LinAlgError(OpError):
    """A matrix is singular or not positive definite, or an iteration on it did not converge."""


class RetraceError(Error, RuntimeError):
    """A frozen plan no longer fits the tensors it was traced with."""


_CLASSES = {
    lib.AG_ERR_RUNTIME: OpError,
    lib.AG_ERR_INDEX: IndexOutOfRange,
    lib.AG_ERR_VALUE: InvalidValue,
    lib.AG_ERR_TYPE: InvalidType,
    lib.AG_ERR_MEMORY: OutOfMemory,
    lib.AG_ERR_NOT_IMPLEMENTED: NotSupported,
    lib.AG_ERR_TRACED: TracedDataError,
    lib.AG_ERR_RETRACE: RetraceError,
    lib.AG_ERR_LINALG: LinAlgError,
}


_PACKAGE = _os.path.dirname(_os.path.abspath(__file__)) + _os.sep


def last_error():
    return ffi.string(lib.ag_last_error()).decode("utf-8", "replace")


def fail():
    """Raises this thread's latest failure."""
    status, text = lib.ag_last_status(), last_error()
    text = _explained(text)
    kind = _CLASSES.get(status, OpError)
    if kind is IndexOutOfRange and _GATHERS.search(text):
        kind = IndexOutOfBounds
    raise kind(text)


_KINDS = {RuntimeError: OpError, IndexError: IndexOutOfRange, ValueError: InvalidValue, TypeError: InvalidType,
          NotImplementedError: NotSupported}
_GATHERS = _re.compile(r" out of bounds .* (\[|in )(gather|scatter)")
_OP_AND_LINE = _re.compile(r" \[(\w+)\(([^()]*)\)(, at [^\[\]]+)?\]$")


def refuse(kind, text):
    """The exception for bad arguments: `raise refuse(RuntimeError, "...")`.

    It is of the package's class for that built-in kind.  To the text it adds what a failure of the core has too: the
    function that the user called, its tensors, and the user's line, all read off the stack.
    """
    name, tensors, line = _called()
    return _KINDS.get(kind, kind)(f"{text} [{name}({tensors}){line}]")


def wrong_kind(error, culprit=None):
    """What to raise for an error met while a call was handed to the core, or for what is no tensor (culprit).

    The argument that the user gave is looked up on the stack, so no function needs a check of its own.
    """
    if isinstance(error, Error):
        return error
    inner = _boundary(_getframe(1))[1]
    name = "call" if inner is None else _name(inner)
    if inner is None or error is not None:
        return refuse(TypeError, f"{name}(): {error or 'expected a Tensor, not ' + type(culprit).__name__}")
    for k, key in enumerate(_parameters(inner.f_code)):
        if inner.f_locals.get(key) is culprit:
            return refuse(TypeError, f"{name}(): argument '{key}' (position {k + 1}) must be Tensor, not {type(culprit).__name__}")
    return refuse(TypeError, f"{name}(): expected a Tensor, not {type(culprit).__name__}")


def _explained(text):
    """A failure of the core with the user's line; a function made of several ops is named beside the op that failed."""
    if ", created at " in text:  # a node's own line stands last
        return text
    name, tensors, line = _called()
    op = _OP_AND_LINE.search(text)
    if op is None:
        return f"{text} [{name}({tensors}){line}]"
    inside = "" if op[1] in name or name == "call" else f" in {name}" if op[2] == tensors else f" in {name}({tensors})"
    return f"{text[:op.start()]} [{op[1]}({op[2]}){inside}{line}]"


def _boundary(f):
    """The user's frame above f (None: there is none) and the frame of the library's function that it called."""
    inner = None
    while f is not None and f.f_code.co_filename.startswith(_PACKAGE):
        f, inner = f.f_back, f
    return f, inner


_from_c = {}  # code of functions that C calls beside a user's frame -> what the user called (None: in their variable `name`)


def called_from_c(fn, name=None):
    """Says that fn stands for the C function `name` in messages; returns fn."""
    _from_c[fn.__code__] = name
    return fn


def _parameters(code):
    return code.co_varnames[:code.co_argcount + code.co_kwonlyargcount + bool(code.co_flags & 4)]  # 4: *args


def _name(inner):
    code, values = inner.f_code, inner.f_locals
    if code in _from_c:
        return _from_c[code] or values["name"]
    name = values["public"] if "public" in code.co_freevars else code.co_name
    first = values.get(code.co_varnames[0]) if code.co_argcount else None
    if first is not None and not hasattr(first, "_h") and name.startswith("__"):  # a module or a function object
        name = getattr(first, "__name__", type(first).__name__)
    return name


def _called():
    """What the user called: name, tensors in words, ', at file.py:12 in train_step'."""
    f, inner = _boundary(_getframe(2))
    line = "" if f is None else f", at {_os.path.basename(f.f_code.co_filename)}:{f.f_lineno} in {f.f_code.co_name}"
    if inner is None:
        return "call", "", line
    words, values = [], inner.f_locals
    for key in _parameters(inner.f_code):
        value = values.get(key)
        many = isinstance(value, (tuple, list)) and len(value) > 0
        words += [_in_words(t) for t in (value[:8] if many else (value,)) if hasattr(t, "_h")]
    return _name(inner), ", ".join(words[:4]) + (", ..." if len(words) > 4 else ""), line


called_from_c(fail, "call")
called_from_c(wrong_kind, "call")


def _in_words(t):
    return f"{t.dtype.name}{list(t.shape)}" if hasattr(t, "dtype") else type(t).__name__


def check(status):
    """Raises unless status is AG_OK; returns it otherwise."""
    if status < 0:
        fail()
    return status


def made(handle):
    """Raises when a maker returned NULL; returns the handle otherwise."""
    if not handle:
        fail()
    return handle


OPS = {ffi.string(lib.ag_op_name(k)).decode(): k for k in range(lib.ag_op_count())}

# ---- source positions ----------------------------------------------------------------------------
# The core knows a piece of source by the address of its code object.  `_codes` keeps each one that was
# described alive (an address must not be used again) and tells library code from the user's.

_codes = {}
tracking = True


def describe(code):
    """Tells the core about a code object: its file, its name, its lines; True for the library's own."""
    internal = code.co_filename.startswith(_PACKAGE)
    table = _array("i")
    for start, _, line in code.co_lines():
        if line is not None:
            table.append(start)
            table.append(line)
    name = getattr(code, "co_qualname", code.co_name).rpartition("<locals>.")[2]
    check(lib.ag_site_register(id(code), code.co_filename.encode("utf-8", "replace"), name.encode("utf-8", "replace"),
                               internal, len(table) // 2, ffi.from_buffer("int32_t[]", table)))
    _codes[id(code)] = code, internal
    return internal


push_site = core["push_site"]
