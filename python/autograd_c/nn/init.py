"""Initial values, written in place under no_grad; formulas and names are PyTorch's.

fan_in is shape[1] times the kernel's size, fan_out shape[0] times it.
"""
import math as _math
import warnings as _warnings

from .._ffi import refuse
from .._modes import no_grad as _no_grad


def calculate_gain(nonlinearity, param=None):
    """Factor that keeps the variance through a nonlinearity."""
    linear = ("linear", "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d")
    if nonlinearity in linear or nonlinearity == "sigmoid":
        return 1
    if nonlinearity == "tanh":
        return 5.0 / 3
    if nonlinearity == "relu":
        return _math.sqrt(2.0)
    if nonlinearity == "leaky_relu":
        if param is None:
            slope = 0.01
        elif isinstance(param, (int, float)) and not isinstance(param, bool):
            slope = param
        else:
            raise refuse(ValueError, f"negative_slope {param} not a valid number")
        return _math.sqrt(2.0 / (1 + slope**2))
    if nonlinearity == "selu":
        return 3.0 / 4
    raise refuse(ValueError, f"Unsupported nonlinearity {nonlinearity}")


def _calculate_fan_in_and_fan_out(tensor):
    if tensor.dim() < 2:
        raise refuse(ValueError, "Fan in and fan out can not be computed for tensor with fewer than 2 dimensions")
    s = tuple(tensor.shape)
    field = _math.prod(s[2:])
    return s[1] * field, s[0] * field


def _calculate_correct_fan(tensor, mode):
    mode = mode.lower()
    if mode not in ("fan_in", "fan_out"):
        raise refuse(ValueError, f"Mode {mode} not supported, please use one of ['fan_in', 'fan_out']")
    return _calculate_fan_in_and_fan_out(tensor)[mode == "fan_out"]


def uniform_(tensor, a=0.0, b=1.0, generator=None):
    """Uniform in [a, b)."""
    with _no_grad():
        return tensor.uniform_(a, b, generator=generator)


def normal_(tensor, mean=0.0, std=1.0, generator=None):
    """Normal with this mean and standard deviation."""
    with _no_grad():
        return tensor.normal_(mean, std, generator=generator)


def trunc_normal_(tensor, mean=0.0, std=1.0, a=-2.0, b=2.0, generator=None):
    """Normal, limited to [a, b]."""
    from ..random import trunc_normal

    with _no_grad():
        return tensor.copy_(trunc_normal(tensor.shape, mean, std, a, b, generator))


def constant_(tensor, val):
    with _no_grad():
        return tensor.fill_(val)


def ones_(tensor):
    return constant_(tensor, 1.0)


def zeros_(tensor):
    return constant_(tensor, 0.0)


def eye_(tensor):
    """The identity, for matrices."""
    if tensor.dim() != 2:
        raise refuse(ValueError, "Only tensors with 2 dimensions are supported")
    from .._create import eye

    with _no_grad():
        return tensor.copy_(eye(*tensor.shape))


def dirac_(tensor, groups=1):
    """Convolution weights that pass as many channels through as they can."""
    if tensor.dim() not in (3, 4, 5):
        raise refuse(ValueError, "Only tensors with 3, 4, or 5 dimensions are supported")
    s = tuple(tensor.shape)
    if s[0] % groups:
        raise refuse(ValueError, "dim 0 must be divisible by groups")
    out = s[0] // groups
    centre = tuple([k // 2 for k in s[2:]])
    with _no_grad():
        tensor.zero_()
        for g in range(groups):
            for d in range(min(out, s[1])):
                tensor[(g * out + d, d, *centre)] = 1
    return tensor


def xavier_uniform_(tensor, gain=1.0, generator=None):
    """U(-a, a), a = gain sqrt(6 / (fan_in + fan_out)).  Source: Glorot and Bengio, 2010."""
    fan_in, fan_out = _calculate_fan_in_and_fan_out(tensor)
    a = _math.sqrt(3.0) * gain * _math.sqrt(2.0 / (fan_in + fan_out))
    return uniform_(tensor, -a, a, generator)


def xavier_normal_(tensor, gain=1.0, generator=None):
    """N(0, std^2), std = gain sqrt(2 / (fan_in + fan_out)).  Source: Glorot and Bengio, 2010."""
    fan_in, fan_out = _calculate_fan_in_and_fan_out(tensor)
    return normal_(tensor, 0.0, gain * _math.sqrt(2.0 / (fan_in + fan_out)), generator)


def _empty(tensor):
    if 0 in tensor.shape:
        _warnings.warn("Initializing zero-element tensors is a no-op", UserWarning, stacklevel=3)
        return True
    return False


def kaiming_uniform_(tensor, a=0, mode="fan_in", nonlinearity="leaky_relu", generator=None):
    """U(-b, b), b = gain sqrt(3 / fan).  Source: He et al., 2015."""
    if _empty(tensor):
        return tensor
    fan = _calculate_correct_fan(tensor, mode)
    bound = _math.sqrt(3.0) * calculate_gain(nonlinearity, a) / _math.sqrt(fan)
    return uniform_(tensor, -bound, bound, generator)


def kaiming_normal_(tensor, a=0, mode="fan_in", nonlinearity="leaky_relu", generator=None):
    """N(0, std^2), std = gain / sqrt(fan).  Source: He et al., 2015."""
    if _empty(tensor):
        return tensor
    fan = _calculate_correct_fan(tensor, mode)
    return normal_(tensor, 0.0, calculate_gain(nonlinearity, a) / _math.sqrt(fan), generator)


def orthogonal_(tensor, gain=1, generator=None):
    """A (semi-)orthogonal matrix of the dims (shape[0], the rest), times gain.  Source: Saxe et al., 2013.

    Q of the QR factorisation (NumPy's) of a normal matrix, signs fixed so that it is uniformly distributed.
    """
    if tensor.dim() < 2:
        raise refuse(ValueError, "Only tensors with 2 or more dimensions are supported")
    if tensor.numel() == 0:
        return tensor
    import numpy

    from .._create import empty, tensor as make

    rows = tensor.shape[0]
    cols = tensor.numel() // rows
    with _no_grad():
        a = empty(max(rows, cols), min(rows, cols), dtype="float64").normal_(generator=generator).numpy()
        q, r = numpy.linalg.qr(a)
        q = q * numpy.sign(numpy.diag(r))
        q = (q if rows >= cols else q.T) * gain
        return tensor.copy_(make(numpy.ascontiguousarray(q)).view(tensor.shape).to(tensor.dtype))


def sparse_(tensor, sparsity, std=0.01, generator=None):
    """Normal columns with a share `sparsity` of zeros.  Source: Martens, 2010."""
    if tensor.dim() != 2:
        raise refuse(ValueError, "Only tensors with 2 dimensions are supported")
    from ..random import randperm

    rows, cols = tensor.shape
    zeros = int(_math.ceil(sparsity * rows))
    with _no_grad():
        tensor.normal_(0.0, std, generator=generator)
        for c in range(cols):
            tensor[randperm(rows, generator=generator)[:zeros], c] = 0
    return tensor


def _deprecated(new):
    def old(tensor, *args, **kw):
        _warnings.warn(f"`nn.init.{old.__name__}` is now deprecated in favor of `nn.init.{new.__name__}`.", FutureWarning, stacklevel=2)
        return new(tensor, *args, **kw)

    old.__name__ = old.__qualname__ = new.__name__[:-1]
    return old


uniform, normal, constant, eye, dirac = map(_deprecated, (uniform_, normal_, constant_, eye_, dirac_))
xavier_uniform, xavier_normal = _deprecated(xavier_uniform_), _deprecated(xavier_normal_)
kaiming_uniform, kaiming_normal = _deprecated(kaiming_uniform_), _deprecated(kaiming_normal_)
orthogonal, sparse = _deprecated(orthogonal_), _deprecated(sparse_)
