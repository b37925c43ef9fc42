"""Gradient clipping, in place."""
import math as _math
import warnings as _warnings

from ..._create import tensor
from ..._ffi import lib
from ..._modes import no_grad
from ..._reduce import norm as _norm
from ..._shape import stack
from ..._tensor import Tensor


def _grads(parameters):
    return [p.grad for p in ([parameters] if isinstance(parameters, Tensor) else list(parameters)) if p.grad is not None]


def get_total_norm(tensors, norm_type=2.0, error_if_nonfinite=False, foreach=None):
    """p-norm of all elements of all tensors, as a 0-d tensor."""
    tensors = [tensors] if isinstance(tensors, Tensor) else list(tensors)
    if not tensors:
        return tensor(0.0)
    with no_grad():
        norms = [_norm(t.detach(), float(norm_type)) for t in tensors]
        total = norms[0] if len(norms) == 1 else _norm(stack(norms), float(norm_type))
    if error_if_nonfinite and not _math.isfinite(total.item()):
        raise RuntimeError(f"The total norm of order {norm_type} for gradients from `parameters` is non-finite, so it cannot be clipped. To "
                           "disable this error and scale the gradients by the non-finite norm anyway, set `error_if_nonfinite=False`")
    return total


def clip_grad_norm_(parameters, max_norm, norm_type=2.0, error_if_nonfinite=False, foreach=None):
    """Scales all gradients by max_norm / norm when their common norm is larger; returns the norm before, a 0-d tensor.

    No value is read in Python, so that a frozen step clips as well.
    """
    if not isinstance(parameters, Tensor):
        parameters = list(parameters)
        if not parameters:
            _warnings.warn("`parameters` is an empty generator, no gradient clipping will occur.", UserWarning, stacklevel=2)
    grads = _grads(parameters)
    total = get_total_norm(grads, norm_type, error_if_nonfinite and not lib.ag_tracing())
    with no_grad():
        scale = (float(max_norm) / (total + 1e-6)).clamp(max=1.0)
        for g in grads:
            g.detach().mul_(scale)
    return total


def clip_grad_norm(parameters, max_norm, norm_type=2.0, error_if_nonfinite=False, foreach=None):
    """Old name of clip_grad_norm_."""
    _warnings.warn("`torch.nn.utils.clip_grad_norm` is now deprecated in favor of `torch.nn.utils.clip_grad_norm_`.", FutureWarning,
                   stacklevel=2)
    return clip_grad_norm_(parameters, max_norm, norm_type, error_if_nonfinite, foreach)


def clip_grad_value_(parameters, clip_value, foreach=None):
    """Limits every element of the gradients to [-clip_value, clip_value]."""
    with no_grad():
        for g in _grads(parameters):
            g.detach().clamp_(-float(clip_value), float(clip_value))
