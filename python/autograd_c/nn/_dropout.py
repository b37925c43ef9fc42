"""Dropout, and pooling over random windows: what is drawn comes from the default generator."""
import math as _math
from sys import _getframe
import warnings as _warnings

from .._call import apply, apply_inplace, apply_multi
from .._create import _sized
from .._ffi import lib, push_site, refuse
from ..random import _default_state, rand

_empty = lib.ag_empty


def _check_p(p):
    if not 0.0 <= p <= 1.0:
        raise refuse(ValueError, f"dropout probability has to be between 0 and 1, but got {p}")


def kept_at(f, shape, dtype, p, value=1.0):
    """value with probability 1 - p, else 0."""
    return apply_inplace(f, "bernoulli", (_sized(_empty, (shape,), dtype, None, False), _default_state), (), (1.0 - p, value))


def _dropout(f, input, p, training, inplace, shape=None):
    _check_p(p)
    if not training or p == 0.0:
        return input
    mask = kept_at(f, tuple(input.shape) if shape is None else shape, input.dtype, p, 1.0 / (1.0 - p) if p < 1.0 else 0.0)
    return apply_inplace(f, "mul", (input, mask)) if inplace else apply(f, "mul", (input, mask))


def dropout(input, p=0.5, training=True, inplace=False):
    """Elements set to 0 with probability p, the others divided by 1 - p.  Source: Srivastava et al., 2014."""
    return _dropout(_getframe(1), input, p, training, inplace)


def _features(name, input, dims, lead):
    """Shape of one number for each channel; a warning where input has not the dims that name expects."""
    n = input.dim()
    if n < 2:
        raise refuse(RuntimeError, "Feature dropout requires at least 2 dimensions in the input")
    if n not in dims:
        _warnings.warn(f"{name}: Received a {n}-D input to {name}, which is deprecated and will result in an error in a future release. To "
                       f"retain the behavior and silence this warning, please use another input. Note that {name} exists to provide "
                       "channel-wise dropout.", stacklevel=3)
    return tuple(input.shape[:lead]) + (1,) * (n - lead)


def dropout1d(input, p=0.5, training=True, inplace=False):
    """Whole channels of (N, C, L) or (C, L) set to 0."""
    return _dropout(_getframe(1), input, p, training, inplace, _features("dropout1d", input, (2, 3), 1 if input.dim() == 2 else 2))


def dropout2d(input, p=0.5, training=True, inplace=False):
    """Whole channels of (N, C, H, W) set to 0; (N, C, L) is taken as dropout1d takes it, as in PyTorch."""
    return _dropout(_getframe(1), input, p, training, inplace, _features("dropout2d", input, (3, 4), 2))


def dropout3d(input, p=0.5, training=True, inplace=False):
    """Whole channels of (N, C, D, H, W) or (C, D, H, W) set to 0."""
    return _dropout(_getframe(1), input, p, training, inplace, _features("dropout3d", input, (4, 5), 1 if input.dim() == 4 else 2))


def _alpha_dropout(f, input, p, training, inplace, shape):
    _check_p(p)
    if not training or p == 0.0:
        return input
    alpha = -1.7580993408473766  # selu's value at minus infinity
    keep = 1.0 - p
    a = 1.0 / _math.sqrt(keep * (1.0 + alpha * alpha * p)) if keep else 0.0
    kept = kept_at(f, shape, input.dtype, p, a)  # a where kept: x a, else alpha a; alpha a p taken off
    push_site()
    r = input * kept + (kept * -alpha + (alpha * a * (1.0 - p)))
    return input.copy_(r) if inplace else r


def alpha_dropout(input, p=0.5, training=False, inplace=False):
    """Dropout that keeps mean and variance behind selu.  Source: Klambauer et al., 2017."""
    return _alpha_dropout(_getframe(1), input, p, training, inplace, tuple(input.shape))


def feature_alpha_dropout(input, p=0.5, training=False, inplace=False):
    """alpha_dropout of whole channels: the dims after (N, C) share one fate."""
    _check_p(p)
    shape = _features("feature_alpha_dropout", input, range(2, 13), 2) if training else ()
    return _alpha_dropout(_getframe(1), input, p, training, inplace, shape)


# ---- fractional max pooling ------------------------------------------------------------------------------------


def _fractional(f, nd, input, kernel_size, output_size, output_ratio, samples):
    name = f"fractional_max_pool{nd}d"
    pair = lambda v: tuple(v) if isinstance(v, (tuple, list)) else (v,) * nd  # noqa: E731
    if output_size is None:
        if output_ratio is None:
            raise refuse(ValueError, f"{name} requires specifying either an output_size or an output_ratio")
        ratio = pair(output_ratio)
        if len(ratio) != nd:
            raise refuse(ValueError, f"{name} requires output_ratio to either be a single Int or tuple of Ints.")
        output_size = [int(n * r) for n, r in zip(tuple(input.shape)[-nd:], ratio)]
    if input.dim() not in (nd + 1, nd + 2):
        raise refuse(RuntimeError, f"{name}(): Expected {nd + 1}D or {nd + 2}D tensor, but got: {list(input.shape)}")
    if samples is None:
        samples = rand(1 if input.dim() == nd + 1 else input.shape[0], input.shape[-nd - 1], nd, dtype=input.dtype)
    return apply_multi(f, "fractional_max_pool", (input, samples), 2, (nd, *pair(kernel_size), *pair(output_size)))


def fractional_max_pool2d_with_indices(input, kernel_size, output_size=None, output_ratio=None, return_indices=False, _random_samples=None):
    """(maxima, their places in the planes); see fractional_max_pool2d."""
    return _fractional(_getframe(1), 2, input, kernel_size, output_size, output_ratio, _random_samples)


def fractional_max_pool3d_with_indices(input, kernel_size, output_size=None, output_ratio=None, return_indices=False, _random_samples=None):
    """(maxima, their places in the volumes); see fractional_max_pool2d."""
    return _fractional(_getframe(1), 3, input, kernel_size, output_size, output_ratio, _random_samples)


def fractional_max_pool2d(input, kernel_size, output_size=None, output_ratio=None, return_indices=False, _random_samples=None):
    """Maxima of windows that random numbers spread over (H, W) of (N, C, H, W).

    output_size, or output_ratio of it to the input; _random_samples (N, C, 2) in [0, 1) instead of drawn ones; with
    return_indices (maxima, places).  Source: Graham, 2014.
    """
    r = _fractional(_getframe(1), 2, input, kernel_size, output_size, output_ratio, _random_samples)
    return r if return_indices else r[0]


def fractional_max_pool3d(input, kernel_size, output_size=None, output_ratio=None, return_indices=False, _random_samples=None):
    """fractional_max_pool2d over (D, H, W) of (N, C, D, H, W)."""
    r = _fractional(_getframe(1), 3, input, kernel_size, output_size, output_ratio, _random_samples)
    return r if return_indices else r[0]
