"""autograd_c: PyTorch's dynamic graph on a small C core.

    import autograd_c as torch

    x = torch.tensor([1.0, 2.0], requires_grad=True)
    (x * x).sum().backward()
    x.grad                          # tensor([2., 4.])

Names, argument order, printing and messages are PyTorch's.  Beside them: `freeze` turns a training step into a
static graph, `graph` shows the dynamic one, and every node knows the Python line that made it.
"""
from collections import namedtuple as _namedtuple
import importlib as _importlib
import math as _math

from ._ffi import Error, TracedDataError, ffi as _cffi, lib as _lib
from ._dtypes import (Size, can_cast, device, dtype, finfo, float32, float64, get_default_dtype, iinfo, int32, int64, promote_types,
                      set_default_dtype, uint8)
from ._dtypes import bool_ as bool  # noqa: A004
from ._tensor import Tensor, is_tensor
from ._call import set_line_tracking
from . import _methods, autograd, graph, ops, random
from ._modes import (enable_grad, get_num_threads, inference_mode, is_grad_enabled, is_inference_mode_enabled, no_grad,
                     set_grad_enabled, set_num_threads)
from ._print import get_printoptions, set_printoptions
from .ops import *  # noqa: F401,F403
from .random import Generator, default_generator, get_rng_state, initial_seed, manual_seed, seed, set_rng_state

float, double, int, long = float32, float64, int32, int64  # noqa: A001
pi, e, inf, nan = _math.pi, _math.e, _math.inf, _math.nan
newaxis = None
strided = "strided"
contiguous_format = preserve_format = channels_last = None
__version__ = _cffi.string(_lib.ag_version()).decode()

Counters = _namedtuple("Counters", "tensors nodes storages bytes peak_bytes graphs_built nodes_built allocations replays")


def counters():
    """Live objects and totals of the process, as a named tuple: see ag_counters in ag_api.h."""
    c = _cffi.new("ag_counters *")
    _lib.ag_counters_get(c)
    return Counters(*[getattr(c, name) for name in Counters._fields])


def reset_peak_bytes():
    """Starts counters().peak_bytes anew from the bytes held now."""
    _lib.ag_counters_reset_peak()


def build_info():
    """Compiler, BLAS, threads and instruction set in use, as text."""
    return _cffi.string(_lib.ag_build_info()).decode()


def typename(x):
    return x.type() if isinstance(x, Tensor) else type(x).__name__


def is_floating_point(input):
    return input.is_floating_point()


def is_complex(input):
    return False


def numel(input):
    return input.numel()


def is_storage(x):
    return False


def result_type(a, b):
    """dtype of an operation between a and b (tensors or numbers)."""
    return _methods._elementwise.promoted(a, b)


def set_default_tensor_type(t):
    set_default_dtype({"FloatTensor": float32, "DoubleTensor": float64}[getattr(t, "__name__", str(t).rpartition(".")[2])])


def set_default_device(d):
    device(d)


def set_num_interop_threads(n):
    """Accepted and without effect."""


def use_deterministic_algorithms(mode, *, warn_only=False):
    """Accepted and without effect: every algorithm here is deterministic."""


def compile(model=None, **options):
    """Returns its argument: see freeze for static graphs."""
    return (lambda m: m) if model is None else model


# Parts that load when first used: name -> (module, attribute or None for the module itself).
_LAZY = {name: (name, None) for name in ("nn", "optim", "utils", "static", "linalg", "special", "func", "distributions", "distributed",
                                         "__config__", "cuda", "backends", "accelerator", "testing", "fft")}
_LAZY.update(freeze=("freeze", "freeze"), save=("serialization", "save"), load=("serialization", "load"),
             serialization=("serialization", None))


def __getattr__(name):
    if name in _LAZY:
        module, attribute = _LAZY[name]
        full = f"{__name__}.{module}"
        try:
            m = _importlib.import_module(full)
        except ModuleNotFoundError as error:
            if error.name != full:
                raise
        else:
            value = m if attribute is None else getattr(m, attribute)
            globals()[name] = value
            return value
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")


def __dir__():
    return sorted({*globals(), *_LAZY})
