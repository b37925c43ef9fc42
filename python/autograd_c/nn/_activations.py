"""Activation functions.  Each takes a tensor of any shape and returns one of the same shape, unless said."""
import math as _math
from sys import _getframe

from .._call import apply, apply_inplace, tied_at
from .._elementwise import copy_at, sigmoid, tanh  # noqa: F401  (part of the surface)
from .._ffi import push_site, refuse
from .._reduce import log_softmax, softmax  # noqa: F401  (part of the surface)
from .._tensor import wrap_dim

_inf = _math.inf


def _one(f, name, input, inplace, floats=()):
    if inplace:
        if floats:
            return copy_at(f, input, apply(f, name, (input,), (), floats))
        return apply_inplace(f, name, (input,))
    return apply(f, name, (tied_at(f, input) if name == "clamp" else input,), (), floats)


def relu(input, inplace=False):
    """max(x, 0)."""
    return _one(_getframe(1), "relu", input, inplace)


def relu_(input):
    return _one(_getframe(1), "relu", input, True)


def silu(input, inplace=False):
    """x sigmoid(x)."""
    f = _getframe(1)
    r = apply(f, "silu", (input,))
    return copy_at(f, input, r) if inplace else r


def gelu(input, approximate="none"):
    """x Phi(x), Phi the normal distribution function; approximate "tanh": its usual approximation.

    Source: Hendrycks and Gimpel, Gaussian Error Linear Units, 2016.
    """
    if approximate not in ("none", "tanh"):
        raise refuse(RuntimeError, "approximate argument must be either none or tanh.")
    return apply(_getframe(1), "gelu" if approximate == "none" else "gelu_tanh", (input,))


def leaky_relu(input, negative_slope=0.01, inplace=False):
    """x where x > 0, else negative_slope x."""
    return _one(_getframe(1), "leaky_relu", input, inplace, (float(negative_slope),))


def elu(input, alpha=1.0, inplace=False):
    """x where x > 0, else alpha (exp(x) - 1)."""
    return _one(_getframe(1), "elu", input, inplace, (float(alpha),))


def softplus(input, beta=1.0, threshold=20.0):
    """log(1 + exp(beta x)) / beta; x itself where beta x > threshold."""
    return apply(_getframe(1), "softplus", (input,), (), (float(beta), float(threshold)))


def logsigmoid(input):
    """log(sigmoid(x)), without overflow."""
    f = _getframe(1)
    # Past 40, log1p(exp(x)) and x are the same number in both types.
    return apply(f, "neg", (apply(f, "softplus", (apply(f, "neg", (input,)),), (), (1.0, 40.0)),))


def hardtanh(input, min_val=-1.0, max_val=1.0, inplace=False):
    """x limited to [min_val, max_val]; no gradient outside."""
    if min_val > max_val:
        raise refuse(ValueError, "min_val cannot be greater than max_val")
    return _one(_getframe(1), "clamp", input, inplace, (float(min_val), float(max_val)))


def relu6(input, inplace=False):
    """min(max(x, 0), 6)."""
    return _one(_getframe(1), "clamp", input, inplace, (0.0, 6.0))


def hardsigmoid(input, inplace=False):
    """min(max(x + 3, 0), 6) / 6."""
    return _one(_getframe(1), "hardsigmoid", input, inplace)


def hardswish(input, inplace=False):
    """x hardsigmoid(x)."""
    return _one(_getframe(1), "hardswish", input, inplace)


def softsign(input):
    """x / (1 + |x|)."""
    push_site()
    return input / (input.abs() + 1.0)


def tanhshrink(input):
    """x - tanh(x)."""
    push_site()
    return input - input.tanh()


def hardshrink(input, lambd=0.5):
    """x where |x| > lambd, else 0."""
    return apply(_getframe(1), "hardshrink", (input,), (), (float(lambd),))


def softshrink(input, lambd=0.5):
    """x moved towards 0 by lambd, 0 where |x| <= lambd."""
    if lambd < 0:
        raise refuse(RuntimeError, f"lambda must be greater or equal to 0, but found to be {lambd}.")
    return apply(_getframe(1), "softshrink", (input,), (), (float(lambd),))


def threshold(input, threshold, value, inplace=False):
    """x where x > threshold, else value."""
    return _one(_getframe(1), "threshold", input, inplace, (float(threshold), float(value)))


def selu(input, inplace=False):
    """Scaled elu whose fixed point is mean 0, variance 1.  Source: Klambauer et al., 2017."""
    push_site()
    r = apply(None, "elu", (input,), (), (1.6732632423543772848170429916717,)) * 1.0507009873554804934193349852946
    return input.copy_(r) if inplace else r


def celu(input, alpha=1.0, inplace=False):
    """x where x > 0, else alpha (exp(x / alpha) - 1)."""
    if alpha == 0:
        raise refuse(RuntimeError, "ZeroDivisionError: alpha cannot be 0 for CELU")
    push_site()
    r = apply(None, "elu", (input / alpha,), (), (1.0,)) * alpha
    return input.copy_(r) if inplace else r


def mish(input, inplace=False):
    """x tanh(softplus(x)).  Source: Misra, 2019."""
    push_site()
    r = input * apply(None, "softplus", (input,), (), (1.0, 40.0)).tanh()
    return input.copy_(r) if inplace else r


def prelu(input, weight):
    """x where x > 0, else weight x; weight has one number or one for each channel (dim 1)."""
    push_site()
    if weight.dim() > 1:
        raise refuse(RuntimeError, f"prelu: Expected `weight` to be a scalar or 1D tensor, but got: ndim = {weight.dim()}")
    if weight.numel() > 1 and not input.dim():
        raise refuse(RuntimeError, "Not allow zero-dim input tensor.")
    if weight.numel() > 1 and input.dim() > 1:
        if input.shape[1] != weight.numel():
            raise refuse(RuntimeError, f"Mismatch of parameter numbers and input channel size. Found parameter numbers = {weight.numel()} and "
                         f"channel size = {input.shape[1]}.")
        weight = weight.view(-1, *[1] * (input.dim() - 2))
    elif weight.numel() == 1:
        weight = weight.reshape(())
    return input.relu() - weight * (-input).relu()


def rrelu(input, lower=1.0 / 8, upper=1.0 / 3, training=False, inplace=False):
    """leaky_relu with a slope drawn from [lower, upper] for each element in training, their mean otherwise."""
    push_site()
    if lower > upper:
        raise refuse(RuntimeError, "Lower bound should be less than or equal to the upper bound")
    if training:
        slope = input.detach().new_empty(input.shape).uniform_(lower, upper)
        r = input * slope.masked_fill(input.detach() > 0, 1.0)
    else:
        r = apply(None, "leaky_relu", (input,), (), ((lower + upper) / 2,))
    return input.copy_(r) if inplace else r


def glu(input, dim=-1):
    """First half along dim times the sigmoid of the second half."""
    d = wrap_dim(dim, input.dim())
    n = input.shape[d]
    if n % 2:
        raise refuse(RuntimeError, f"Halving dimension must be even, but dimension {d} is size {n}")
    push_site()
    return input.narrow(d, 0, n // 2) * input.narrow(d, n // 2, n // 2).sigmoid()


def softmin(input, dim=None, _stacklevel=3, dtype=None):
    """softmax(-x)."""
    push_site()
    return softmax(-input, dim, dtype=dtype)


def gumbel_softmax(logits, tau=1.0, hard=False, eps=1e-10, dim=-1):
    """A sample of the relaxed categorical distribution; hard: one-hot in value, relaxed in gradient.

    Source: Jang et al., Categorical Reparameterization with Gumbel-Softmax, 2017.
    """
    push_site()
    noise = -logits.detach().new_empty(logits.shape).exponential_().log()
    y = softmax((logits + noise) / tau, dim)
    if not hard:
        return y
    index = y.detach().argmax(dim, keepdim=True)
    one = y.detach().new_zeros(y.shape).scatter_(dim, index, 1.0)
    return one - y.detach() + y


# ---- in place -----------------------------------------------------------------------------------------------


def leaky_relu_(input, negative_slope=0.01):
    """leaky_relu in place."""
    push_site()
    return leaky_relu(input, negative_slope, True)


def elu_(input, alpha=1.0):
    """elu in place."""
    push_site()
    return elu(input, alpha, True)


def selu_(input):
    """selu in place."""
    push_site()
    return selu(input, True)


def celu_(input, alpha=1.0):
    """celu in place."""
    push_site()
    return celu(input, alpha, True)


def hardtanh_(input, min_val=-1.0, max_val=1.0):
    """hardtanh in place."""
    push_site()
    return hardtanh(input, min_val, max_val, True)


def threshold_(input, threshold, value):
    """threshold in place."""
    push_site()
    return _threshold(input, threshold, value, True)


def rrelu_(input, lower=1.0 / 8, upper=1.0 / 3, training=False):
    """rrelu in place."""
    push_site()
    return rrelu(input, lower, upper, training, True)


_threshold = threshold
