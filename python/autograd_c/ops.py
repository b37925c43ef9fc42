"""All functions over tensors in one namespace: `ops.tanh`, `ops.cat`, ..., also found in the package itself."""
from . import _create, _elementwise, _grid, _index, _linear, _matrix, _more, _native, _order, _reduce, _shape, _special, random as _random

_MODULES = (_create, _elementwise, _shape, _linear, _reduce, _index, _order, _more, _special, _random, _matrix, _native, _grid)
_HELPERS = {"cast_to", "promoted", "root", "pair_type", "resolve_shape", "legacy_constructor", "new_zeros", "new_ones", "new_empty",
            "new_full", "new_tensor", "trunc_normal", "UNARY_INPLACE"}


def _public(module):
    """Functions that module defines for users: name -> function."""
    return {name: value for name, value in vars(module).items()
            if callable(value) and getattr(value, "__module__", None) in (module.__name__, "autograd_c")
            and not name.startswith("_") and not name.endswith(("_", "_at", "_of", "_type", "_method")) and name not in _HELPERS}


for _module in _MODULES:
    globals().update(_public(_module))
range = _create.range_  # noqa: A001  (PyTorch's name)
__all__ = sorted(name for name in globals() if not name.startswith("_"))
