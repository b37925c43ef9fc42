"""Special functions that PyTorch has at the top level and as methods; the others are in `special`."""
import math as _math
from sys import _getframe

from ._call import METHODS, apply, binary, not_a_tensor, unary
from ._dtypes import get_default_dtype
from ._elementwise import cast_at, overwrite_at, promoted
from ._ffi import push_site, refuse
from ._tensor import Tensor

lgamma = unary("lgamma")  # log |gamma|
digamma = unary("digamma")
i0 = unary("i0")
erfinv = unary("erfinv")
xlogy = binary("xlogy")

IN_PLACE = {name + "_": METHODS[name + "_"] for name in ("lgamma", "digamma", "i0", "erfinv", "xlogy")}
_SHORT = {"int64": "Long", "int32": "Int", "uint8": "Byte", "bool": "Bool"}


def _no_whole_numbers(name, *tensors):
    d = promoted(*tensors)
    if not d.is_floating_point:
        raise refuse(NotImplementedError, f"\"{name}_cpu\" not implemented for '{_SHORT[d.name]}'")


def nextafter(input, other):
    """The number after input on the way to other, elementwise over the broadcast shape; other where they are equal.

    Floating point tensors only.  The gradient goes to input where the two differ, to other where they do not, as in PyTorch.
    """
    f = _getframe(1)
    for k, (name, x) in enumerate((("input", input), ("other", other))):
        if not isinstance(x, Tensor):
            raise not_a_tensor("nextafter", name, k + 1, x)
    _no_whole_numbers("nextafter", input, other)
    return apply(f, "nextafter", (input, other))


def nextafter_(self, other):
    """In-place version of nextafter."""
    push_site()
    if not isinstance(other, Tensor):
        raise not_a_tensor("nextafter_", "other", 1, other)
    _no_whole_numbers("nextafter", self, other)
    return METHODS["nextafter_"](self, other)


def _order(name, argument, position, n):
    if type(n) is not int:
        raise refuse(TypeError, f"{name}(): argument '{argument}' (position {position}) must be int, not {type(n).__name__}")
    return n


def polygamma_at(f, n, x, name):
    if _order(name, "n", 1, n) < 0:
        raise refuse(RuntimeError, "polygamma(n, x) does not support negative n.")
    if not isinstance(x, Tensor):
        raise not_a_tensor(name, "input", 2, x)
    if n == 0:
        return apply(f, "digamma", (x,))
    return apply(f, "polygamma", (x,), (), (float(n),))


def polygamma(n, input):
    """The n-th derivative of digamma, elementwise, n >= 0: (-1)**(n + 1) * n! * zeta(n + 1, input) for n >= 1."""
    return polygamma_at(_getframe(1), n, input, "polygamma")


def polygamma_method(self, n):
    """The n-th derivative of digamma, elementwise."""
    return polygamma_at(_getframe(1), n, self, "polygamma")


def polygamma_(self, n):
    """In-place version of polygamma."""
    f = _getframe(1)
    return overwrite_at(f, self, lambda x: polygamma_at(f, n, x, "polygamma_"))


def _mvlgamma_at(f, input, p):
    if _order("mvlgamma", "p", 2, p) < 1:
        raise refuse(RuntimeError, "p has to be greater than or equal to 1")
    if not isinstance(input, Tensor):
        raise not_a_tensor("mvlgamma", "input", 1, input)
    if not input.is_floating_point():
        input = cast_at(f, input, get_default_dtype())
    push_site()
    r = lgamma(input)
    for j in range(1, p):
        r = r + lgamma(input - j / 2)
    return r + p * (p - 1) / 4 * _math.log(_math.pi) if p > 1 else r


def mvlgamma(input, p):
    """Logarithm of the multivariate gamma function of dimension p >= 1, elementwise: the sum of lgamma(input - j/2) over
    0 <= j < p, plus p (p - 1)/4 log(pi).  Shape of input."""
    return _mvlgamma_at(_getframe(1), input, p)


def mvlgamma_(self, p):
    """In-place version of mvlgamma."""
    f = _getframe(1)
    return overwrite_at(f, self, lambda x: _mvlgamma_at(f, x, p))
