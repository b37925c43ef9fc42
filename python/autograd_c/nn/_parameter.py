"""Parameter and Buffer: tensors that a Module lists when they are set as its attributes."""
from .._ffi import lib, made, refuse
from .._tensor import Tensor, _new


class Parameter(Tensor):
    """A leaf that a Module registers when it is assigned to an attribute.

    data: tensor whose memory is taken over (None: an empty one); requires_grad: whether backward fills .grad.
    """

    def __new__(cls, data=None, requires_grad=True):
        if data is None:
            data = Tensor()
        elif not isinstance(data, Tensor):
            raise refuse(TypeError, f"Parameter(): argument 'data' (position 1) must be Tensor, not {type(data).__name__}")
        r = _new(cls, made(lib.ag_tensor_detach(data._h)))
        if requires_grad:
            r.requires_grad = True
        return r

    def __init__(self, data=None, requires_grad=True):
        pass

    def __repr__(self, *, tensor_contents=None):
        return "Parameter containing:\n" + super().__repr__()


class Buffer(Tensor):
    """A tensor that a Module registers as a buffer when it is assigned to an attribute; persistent: part of state_dict."""

    def __new__(cls, data=None, *, persistent=True):
        r = _new(cls, made(lib.ag_tensor_detach((Tensor() if data is None else data)._h)))
        r.persistent = persistent
        return r

    def __init__(self, data=None, *, persistent=True):
        pass
