"""Elementwise functions: one line for each row of the op table, and what is composed of them."""
import math as _math
from sys import _getframe

from ._call import (METHODS, apply, apply1, apply_inplace, as_number, binary, binary_at, inplace_at, not_a_tensor, scalar_tensor, tensors_only,
                    unary, wrap)
from ._dtypes import BY_CODE, as_dtype, bool_, float64, get_default_dtype, int32, int64, uint8
from ._ffi import OPS, lib, push_site, refuse
from ._tensor import Tensor

# ---- one operand -------------------------------------------------------------------------------------
neg = unary("neg")
abs = unary("abs")
sign = unary("sign")
square = unary("square")
reciprocal = unary("reciprocal")
exp = unary("exp")
exp2 = unary("exp2")
expm1 = unary("expm1")
log = unary("log")
log2 = unary("log2")
log10 = unary("log10")
log1p = unary("log1p")
sqrt = unary("sqrt")
rsqrt = unary("rsqrt")
sin = unary("sin")
cos = unary("cos")
tan = unary("tan")
asin = unary("asin")
acos = unary("acos")
atan = unary("atan")
sinh = unary("sinh")
cosh = unary("cosh")
tanh = unary("tanh")
asinh = unary("asinh")
acosh = unary("acosh")
atanh = unary("atanh")
sinc = unary("sinc")
erf = unary("erf")
erfc = unary("erfc")
relu = unary("relu")
sigmoid = unary("sigmoid")
floor = unary("floor")
ceil = unary("ceil")
trunc = unary("trunc")
isnan = unary("isnan")
isinf = unary("isinf")
isfinite = unary("isfinite")
logical_not = unary("logical_not")
bitwise_not = unary("bitwise_not")
negative, absolute, fix = neg, abs, trunc
arcsin, arccos, arctan = asin, acos, atan

UNARY_INPLACE = ("neg abs sign square reciprocal exp exp2 expm1 log log2 log10 log1p sqrt rsqrt sin cos tan asin acos atan sinh cosh "
                 "tanh erf erfc relu sigmoid floor ceil trunc").split()
IN_PLACE = {name + "_": METHODS[name + "_"] for name in UNARY_INPLACE}

# ---- two operands --------------------------------------------------------------------------------------
mul = binary("mul")
floor_divide = binary("floor_divide")
remainder = binary("remainder")
fmod = binary("fmod")
atan2 = binary("atan2")
logaddexp = binary("logaddexp")
logaddexp2 = binary("logaddexp2")
fmax = binary("fmax")
fmin = binary("fmin")
maximum = binary("maximum")
minimum = binary("minimum")
eq = binary("eq")
ne = binary("ne")
lt = binary("lt")
le = binary("le")
gt = binary("gt")
ge = binary("ge")
logical_and = binary("logical_and")
logical_or = binary("logical_or")
logical_xor = binary("logical_xor")
bitwise_and = binary("bitwise_and")
bitwise_or = binary("bitwise_or")
bitwise_xor = binary("bitwise_xor")
multiply, arctan2, not_equal, greater, greater_equal, less, less_equal = mul, atan2, ne, gt, ge, lt, le

BINARY_INPLACE = ("mul floor_divide remainder fmod atan2 eq ne lt le gt ge logical_and logical_or logical_xor bitwise_and bitwise_or "
                  "bitwise_xor").split()
IN_PLACE.update({name + "_": METHODS[name + "_"] for name in BINARY_INPLACE})

_SQUARE = OPS["square"]
_ADD, _SUB, _DIV, _POW, _MUL = OPS["add"], OPS["sub"], OPS["div"], OPS["pow"], OPS["mul"]


def add(input, other, *, alpha=1):
    """input + alpha * other."""
    f = _getframe(1)
    if alpha != 1:
        other = binary_at(f, _MUL, "add", other, alpha) if isinstance(other, Tensor) else other * alpha
    return binary_at(f, _ADD, "add", input, other)


def sub(input, other, *, alpha=1):
    """input - alpha * other."""
    f = _getframe(1)
    if alpha != 1:
        other = binary_at(f, _MUL, "sub", other, alpha) if isinstance(other, Tensor) else other * alpha
    return binary_at(f, _SUB, "sub", input, other)


def rsub(input, other, *, alpha=1):
    """other - alpha * input."""
    f = _getframe(1)
    tensors_only("rsub", input)
    if alpha != 1:
        input = binary_at(f, _MUL, "rsub", input, alpha)
    return binary_at(f, _SUB, "rsub", input, other, rev=True)


subtract = sub


def add_(self, other, *, alpha=1):
    f = _getframe(1)
    if alpha != 1:
        other = binary_at(f, _MUL, "add_", other, alpha) if isinstance(other, Tensor) else other * alpha
    return inplace_at(f, _ADD, "add_", self, other)


def sub_(self, other, *, alpha=1):
    f = _getframe(1)
    if alpha != 1:
        other = binary_at(f, _MUL, "sub_", other, alpha) if isinstance(other, Tensor) else other * alpha
    return inplace_at(f, _SUB, "sub_", self, other)


def _rounded(f, t, rounding_mode):
    if rounding_mode not in ("trunc", "floor"):
        raise refuse(RuntimeError, f"div expected rounding_mode to be one of None, 'trunc', or 'floor' but found '{rounding_mode}'")
    return apply(f, rounding_mode, (t,))


def div(input, other, *, rounding_mode=None):
    """input / other as numbers with a fraction; rounding_mode "trunc" or "floor" rounds and keeps integers integer."""
    f = _getframe(1)
    if rounding_mode == "floor":
        r = binary_at(f, OPS["floor_divide"], "div", input, other)
        if not lib.ag_grad_enabled() or not any(isinstance(x, Tensor) and x.requires_grad for x in (input, other)):
            return r
        y = apply(f, "floor", (binary_at(f, _DIV, "div", input, other),))  # carries the derivative, which is 0
        return where_at(f, y.detach() == r, y, r)
    if rounding_mode == "trunc" and not promoted(input, other).is_floating_point:  # exact: no detour over floats
        rest = binary_at(f, OPS["fmod"], "div", input, other)
        return binary_at(f, OPS["floor_divide"], "div", binary_at(f, _SUB, "div", input, rest), other)
    r = binary_at(f, _DIV, "div", input, other)
    return r if rounding_mode is None else _rounded(f, r, rounding_mode)


divide = true_divide = div


def div_(self, other, *, rounding_mode=None):
    f = _getframe(1)
    if rounding_mode is not None:
        return overwrite_at(f, self, lambda x: div(x, other, rounding_mode=rounding_mode))
    return inplace_at(f, _DIV, "div_", self, other)


def promoted(*operands):
    """dtype in which tensors and numbers meet: dims beat 0-d beat Python numbers within a category."""
    best = [None, None]
    number = None
    for x in operands:
        if isinstance(x, Tensor):
            k = 0 if x.dim() else 1
            d = lib.ag_tensor_dtype(x._h)
            best[k] = d if best[k] is None else lib.ag_promote(best[k], d)
        else:
            n = as_number(x)
            d = lib.AG_BOOL if type(n) is bool else lib.AG_INT64 if type(n) is int else lib.ag_default_dtype()
            number = d if number is None else lib.ag_promote(number, d)

    def category(d):
        return 2 if d >= lib.AG_FLOAT32 else 1 if d != lib.AG_BOOL else 0

    result = None
    for d in (best[0], best[1], number):
        if d is not None and (result is None or category(d) > category(result)):
            result = d
    return BY_CODE[result]


def cast_at(f, t, d):
    """t in dtype d: itself when it has it already."""
    if lib.ag_tensor_dtype(t._h) == d.code:
        return t
    return apply(f, "cast", (t,), (d.code,))


def copy_at(f, dst, src):
    return apply_inplace(f, "copy", (dst, src))


def overwrite_at(f, self, fn):
    """self takes the values of fn(self); what fn's nodes keep of it is a copy, which the write cannot spoil."""
    x = apply(f, "clone", (self,)) if self.requires_grad and lib.ag_grad_enabled() else self
    return copy_at(f, self, fn(x))


def pow_at(f, a, b, operator=False):
    """a ** b at frame f for any operands."""
    if not isinstance(a, Tensor):
        if not isinstance(b, Tensor):
            raise not_a_tensor("pow", "self", 1, a)
        number = as_number(a)
        if number is None:
            if operator:
                return NotImplemented
            raise not_a_tensor("pow", "self", 1, a)
        return binary_at(f, _POW, "pow", b, number, rev=True)
    if isinstance(b, Tensor):
        return binary_at(f, _POW, "pow", a, b)
    number = as_number(b)
    if number is None:
        if operator:
            return NotImplemented
        raise not_a_tensor("pow", "exponent", 2, b)
    code = lib.ag_tensor_dtype(a._h)
    if code < lib.AG_FLOAT32:
        if type(number) is float:
            a = cast_at(f, a, get_default_dtype())
        elif number < 0:
            raise refuse(RuntimeError, "Integers to negative integer powers are not allowed.")
        elif code == lib.AG_BOOL and type(number) is int:
            a = cast_at(f, a, int64)
    if number == 2:
        return apply1(f, _SQUARE, a, 0)
    return apply(f, "pow_scalar", (a,), (), (float(number),))


def pow(input, exponent):
    """input ** exponent; either may be a number."""
    return pow_at(_getframe(1), input, exponent)


def pow_(self, exponent):
    f = _getframe(1)
    return overwrite_at(f, self, lambda x: pow_at(f, x, exponent))


DUNDERS = {"__ipow__": pow_}


def float_power(input, exponent):
    """input ** exponent in float64; either may be a number."""
    f = _getframe(1)
    if not isinstance(input, Tensor) and not isinstance(exponent, Tensor):
        raise not_a_tensor("float_power", "self", 1, input)
    a, b = [cast_at(f, x, float64) if isinstance(x, Tensor) else float(x) if as_number(x) is not None else x for x in (input, exponent)]
    return pow_at(f, a, b)


def round(input, *, decimals=0):
    """To the nearest integer, halves to even; decimals: digits kept behind the point."""
    f = _getframe(1)
    if not decimals:
        return apply(f, "round", (input,))
    scale = 10.0**decimals
    return binary_at(f, _DIV, "round", apply(f, "round", (binary_at(f, _MUL, "round", input, scale),)), scale)


def round_(self, *, decimals=0):
    return overwrite_at(_getframe(1), self, lambda x: round(x, decimals=decimals))


# Whole numbers of a type that a float64, which is what the core takes as a bound, holds exactly.
_INT_RANGE = {uint8: (0, 255), int32: (-(1 << 31), (1 << 31) - 1), int64: (-(1 << 53), 1 << 53)}


def clamp(input, min=None, max=None):
    """Values limited to [min, max]; bounds are numbers or tensors, None: no bound."""
    f = _getframe(1)
    if min is None and max is None:
        raise refuse(RuntimeError, "torch.clamp: At least one of 'min' or 'max' must not be None")
    if isinstance(min, Tensor) or isinstance(max, Tensor):
        if min is not None:
            input = where_at(f, binary_at(f, OPS["lt"], "clamp", input, min), min, input)
        if max is not None:
            input = where_at(f, binary_at(f, OPS["gt"], "clamp", input, max), max, input)
        return input
    bounds = [x for x in (min, max) if x is not None]
    d = input.dtype
    if not d.is_floating_point:
        if any(type(as_number(x)) is float for x in bounds):
            input = cast_at(f, input, get_default_dtype())
        elif d in _INT_RANGE and all(_INT_RANGE[d][0] <= int(x) <= _INT_RANGE[d][1] for x in bounds):
            low = -_math.inf if min is None else float(int(min))
            return apply(f, "clamp", (input,), (), (low, _math.inf if max is None else float(int(max))))
        else:
            for op, x in (("maximum", min), ("minimum", max)):
                if x is not None:
                    input = binary_at(f, OPS[op], "clamp", input, int(x))
            return input
    low = -_math.inf if min is None else float(min)
    high = _math.inf if max is None else float(max)
    return apply(f, "clamp", (input,), (), (low, high))


clip = clamp


def clamp_min(input, min):
    push_site()
    tensors_only("clamp_min", input)
    return clamp(input, min=min)


def clamp_max(input, max):
    push_site()
    tensors_only("clamp_max", input)
    return clamp(input, max=max)


def clamp_(self, min=None, max=None):
    f = _getframe(1)
    push_site()
    return overwrite_at(f, self, lambda x: clamp(x, min, max))


clip_ = clamp_


def _operand(x, other, d):
    if isinstance(x, Tensor):
        return x
    number = as_number(x)
    if number is None:
        raise refuse(TypeError, f"where(): expected a Tensor or a number, not {type(x).__name__}")
    if type(number) is bool and d is not bool_:
        number = float(number) if d.is_floating_point else int(number)
    if type(number) is int and d.is_floating_point:
        number = float(number)
    return scalar_tensor(number, other if isinstance(other, Tensor) else _ZERO())


def _ZERO():
    from ._create import tensor

    return tensor(0.0)


def where_at(f, condition, a, b):
    """a where condition holds, else b; a or b may be numbers."""
    if type(condition) is type(a) is type(b) is Tensor:
        d = lib.ag_tensor_dtype(a._h)
        if d == lib.ag_tensor_dtype(b._h) and lib.ag_tensor_dtype(condition._h) == 0:
            return apply(f, "where", (condition, a, b))
    elif type(condition) is Tensor and not lib.ag_tensor_dtype(condition._h):
        if type(a) is Tensor and type(b) in (int, float) and (d := lib.ag_tensor_dtype(a._h)) >= 4:
            return apply(f, "where", (condition, a, wrap(lib.ag_scalar(b, d))))
        if type(b) is Tensor and type(a) in (int, float) and (d := lib.ag_tensor_dtype(b._h)) >= 4:
            return apply(f, "where", (condition, wrap(lib.ag_scalar(a, d)), b))
    d = promoted(a, b)
    if not isinstance(condition, Tensor):
        raise refuse(TypeError, f"where(): argument 'condition' (position 1) must be Tensor, not {type(condition).__name__}")
    if condition.dtype is not bool_:
        if condition.dtype.name != "uint8":
            raise refuse(RuntimeError, f"where expected condition to be a boolean tensor, but got a tensor with dtype {condition.dtype}")
        condition = cast_at(f, condition, bool_)
    a = cast_at(f, _operand(a, b, d), d)
    b = cast_at(f, _operand(b, a, d), d)
    return apply(f, "where", (condition, a, b))


def where(condition, input=None, other=None):
    """input where condition is true, other elsewhere, broadcast together.  where(condition): the indices of the true elements."""
    if input is None and other is None:
        push_site()
        from ._index import nonzero

        return nonzero(condition, as_tuple=True)
    return where_at(_getframe(1), condition, input, other)


def where_method(self, condition, other):
    """self where condition is true, other elsewhere."""
    return where_at(_getframe(1), condition, self, other)


def _mask(mask, text):
    if isinstance(mask, Tensor) and lib.ag_tensor_dtype(mask._h):
        raise refuse(RuntimeError, f"{text} {mask.dtype.name}")


def masked_fill(input, mask, value):
    """input with `value` (a number or 0-d tensor) where mask is true."""
    if isinstance(value, Tensor):
        if value.dim():
            raise refuse(RuntimeError, f"masked_fill_ only supports a 0-dimensional value tensor, but got tensor with {value.dim()} dimension(s).")
        f = _getframe(1)
        _mask(mask, "masked_fill_ only supports boolean masks, but got mask with dtype")
        return where_at(f, mask, cast_at(f, value, input.dtype), input)
    _mask(mask, "masked_fill_ only supports boolean masks, but got mask with dtype")
    d = input.dtype
    if not d.is_floating_point:
        value = bool(value) if d is bool_ else int(value)
    return where_at(_getframe(1), mask, value, input)


def masked_fill_(self, mask, value):
    f = _getframe(1)
    push_site()
    return overwrite_at(f, self, lambda x: masked_fill(x, mask, value))


def lerp(input, end, weight):
    """input + weight * (end - input); weight a number or a tensor."""
    f = _getframe(1)
    if not isinstance(weight, Tensor):
        weight = scalar_tensor(float(weight), input)
    return apply(f, "lerp", (input, end, weight))


def lerp_(self, end, weight):
    f = _getframe(1)
    push_site()
    return overwrite_at(f, self, lambda x: lerp(x, end, weight))


def addcmul(input, tensor1, tensor2, *, value=1):
    """input + value * tensor1 * tensor2."""
    return apply(_getframe(1), "addcmul", (input, tensor1, tensor2), (), (float(value),))


def addcdiv(input, tensor1, tensor2, *, value=1):
    """input + value * tensor1 / tensor2."""
    return apply(_getframe(1), "addcdiv", (input, tensor1, tensor2), (), (float(value),))


def addcmul_(self, tensor1, tensor2, *, value=1):
    return copy_at(_getframe(1), self, apply(_getframe(1), "addcmul", (self, tensor1, tensor2), (), (float(value),)))


def addcdiv_(self, tensor1, tensor2, *, value=1):
    return copy_at(_getframe(1), self, apply(_getframe(1), "addcdiv", (self, tensor1, tensor2), (), (float(value),)))


# ---- compositions -----------------------------------------------------------------------------------


def frac(input):
    """The part behind the point, with the input's sign."""
    push_site()
    return input - trunc(input)


def logit(input, eps=None):
    """log(p / (1 - p)); eps clamps p to [eps, 1 - eps]."""
    push_site()
    if not input.is_floating_point():
        input = input.to(get_default_dtype())
    if eps is not None:
        input = clamp(input, eps, 1 - eps)
    return log(input) - log1p(-input)


def hypot(input, other):
    """sqrt(input^2 + other^2)."""
    push_site()
    tensors_only("hypot", input, other)
    return sqrt(input * input + other * other)


def heaviside(input, values):
    push_site()
    return where(input == 0, values, (input > 0).to(promoted(input, values)))


def sgn(input):
    push_site()
    return sign(input)


def positive(input):
    return input


def deg2rad(input):
    push_site()
    return input * (_math.pi / 180)


def rad2deg(input):
    push_site()
    return input * (180 / _math.pi)


def isposinf(input):
    push_site()
    return input == _math.inf


def isneginf(input):
    push_site()
    return input == -_math.inf


def nan_to_num(input, nan=None, posinf=None, neginf=None):
    """input with NaN and the infinities replaced (by default: 0 and the largest numbers of the dtype)."""
    from ._dtypes import finfo

    if not input.is_floating_point():
        return input.clone()
    push_site()
    lim = finfo(input.dtype)
    r = where(isnan(input), nan or 0.0, input)
    r = where(input == _math.inf, lim.max if posinf is None else posinf, r)
    return where(input == -_math.inf, lim.min if neginf is None else neginf, r)


def isclose(input, other, rtol=1e-05, atol=1e-08, equal_nan=False):
    """|input - other| <= atol + rtol * |other|, elementwise."""
    push_site()
    if not input.is_floating_point():
        input, other = input.double(), other.double()
    close = (input == other) | (isfinite(other) & (abs(input - other) <= atol + rtol * abs(other)))
    return close | (isnan(input) & isnan(other)) if equal_nan else close


def allclose(input, other, rtol=1e-05, atol=1e-08, equal_nan=False):
    """Whether all elements are close, as a Python bool."""
    return bool(isclose(input.detach(), other.detach(), rtol, atol, equal_nan).all())


def equal(input, other):
    """Whether shape and all elements are the same, as a Python bool."""
    return input.shape == other.shape and bool((input.detach() == other.detach()).all())


def cast_to(input, dtype):
    return cast_at(_getframe(1), input, as_dtype(dtype))
