"""Names of PyTorch's forward-mode differentiation, which this package does not have.

A derivative along a direction comes from two passes backward instead: `func.jvp`, `func.linearize`,
`autograd.functional.jvp`.  Dual tensors would have to carry their tangent through every operation, also under no_grad.
"""
from .._ffi import refuse


def _absent(name):
    def absent(*args, **kwargs):
        raise refuse(NotImplementedError, f"forward_ad.{name}: there is no forward mode here. Use func.jvp(f, (x,), (tangent,)), or func.linearize for "
                     "several tangents: the same derivative by two passes backward.")

    absent.__name__ = name
    absent.__doc__ = "Raises NotImplementedError: see func.jvp."
    return absent


dual_level, make_dual, unpack_dual, enter_dual_level, exit_dual_level = map(
    _absent, ("dual_level", "make_dual", "unpack_dual", "enter_dual_level", "exit_dual_level"))

__all__ = ["dual_level", "enter_dual_level", "exit_dual_level", "make_dual", "unpack_dual"]
