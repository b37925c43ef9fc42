"""Random numbers: Philox streams that depend on the seed and the count of calls alone, not on threads or sizes.

A Generator is a small int64 tensor (seed, counter) that ops advance, so that frozen programs bind it by
reference and draw on.  Every function takes generator=; without it the default one is used.
"""
from contextlib import contextmanager as _contextmanager
import os as _os
from sys import _getframe

from ._call import apply_inplace, wrap
from ._create import _check_sizes, _finish, _sized
from ._dtypes import as_dtype, as_size, bool_, check_device, float32, float64, int32, int64, uint8
from ._ffi import check, ffi, lib, made, push_site, refuse
from ._shape import broadcast_shapes
from ._tensor import Tensor

_empty, _dtype = lib.ag_empty, lib.ag_tensor_dtype


def _signed(n):
    n &= 0xFFFFFFFFFFFFFFFF
    return n - (1 << 64) if n >> 63 else n


def _seed(seed):
    seed = int(seed)
    if not -(1 << 63) <= seed < 1 << 64:
        raise refuse(ValueError, "Overflow when unpacking long long")
    return _signed(seed)


class Generator:
    """A source of random numbers with a seed of its own."""

    def __init__(self, device="cpu", _state=None):
        check_device(device)
        self._state = _state
        if _state is None:
            self._state = wrap(lib.ag_from_data(1, [2], int64.code, ffi.new("int64_t[]", [67280421310721, 0])))

    def manual_seed(self, seed):
        """Sets the seed and starts its stream; returns self."""
        check(lib.ag_tensor_write(self._state._h, ffi.new("int64_t[]", [_seed(seed), 0])))
        return self

    def seed(self):
        """Seeds from the operating system; returns the seed."""
        s = int.from_bytes(_os.urandom(8), "little")
        self.manual_seed(s)
        return s

    def initial_seed(self):
        """The seed, as a number from 0 to 2^64 - 1."""
        return self._state.tolist()[0] & 0xFFFFFFFFFFFFFFFF

    def get_state(self):
        """Seed and counter: an int64 tensor of two elements."""
        return self._state.clone()

    def set_state(self, state):
        """Goes on from where get_state was called."""
        if not isinstance(state, Tensor) or state.dtype is not int64 or state.numel() != 2:
            raise refuse(TypeError, "expected a state as get_state gives it: an int64 tensor of two elements")
        check(lib.ag_tensor_write(self._state._h, ffi.new("int64_t[]", state.tolist())))
        return self

    def clone_state(self):
        """Another generator that draws the same numbers from here on."""
        return Generator(_state=self._state.clone())

    @property
    def device(self):
        from ._dtypes import CPU

        return CPU


def _default():
    h = made(lib.ag_default_generator())
    lib.ag_tensor_retain(h)
    return Generator(_state=wrap(h))


default_generator = _default()
_default_state = default_generator._state


def manual_seed(seed):
    """Seeds the default generator and returns it."""
    check(lib.ag_manual_seed(_seed(seed) & 0xFFFFFFFFFFFFFFFF))
    return default_generator


def seed():
    """Seeds the default generator from the operating system; returns the seed."""
    s = int.from_bytes(_os.urandom(8), "little")
    manual_seed(s)
    return s


def initial_seed():
    """The default generator's seed."""
    return default_generator.initial_seed()


def get_rng_state():
    """The default generator's state."""
    return default_generator.get_state()


def set_rng_state(new_state):
    """Sets the default generator's state."""
    default_generator.set_state(new_state)


@_contextmanager
def fork_rng(devices=None, enabled=True, _caller="fork_rng", _devices_kw="devices", device_type="cpu"):
    """Context (or decorator) in which random numbers are drawn without moving the default generator outside."""
    if not enabled:
        yield
        return
    saved = get_rng_state()
    try:
        yield
    finally:
        set_rng_state(saved)


# ---- new tensors ---------------------------------------------------------------------------------------


def _fill(f, kind, t, generator, ints=(), floats=()):
    return apply_inplace(f, kind, (t, _default_state if generator is None else generator._state), ints, floats)


def _fresh(size, dtype, device, out):
    """Memory for the result: out, or new."""
    if out is None:
        return _sized(_empty, size, dtype, device, False)
    shape = as_size(size)
    if tuple(out.shape) != shape:
        raise refuse(RuntimeError, f"out has the shape {tuple(out.shape)}, but the result has {shape}")
    if dtype is not None and as_dtype(dtype) is not out.dtype:
        raise refuse(RuntimeError, f"dtype {as_dtype(dtype)} does not match dtype of out parameter ({out.dtype})")
    return out


def _state(generator):
    return _default_state if generator is None else generator._state


def rand(*size, generator=None, dtype=None, layout=None, device=None, requires_grad=False, out=None, pin_memory=False):
    """Uniform in [0, 1)."""
    if not size:
        raise refuse(TypeError, "rand() needs a size")
    t = _sized(_empty, size, dtype, device, False) if out is None else _fresh(size, dtype, device, out)
    apply_inplace(_getframe(1), "uniform", (t, _default_state if generator is None else generator._state), (), (0.0, 1.0))
    return _finish(t, requires_grad) if requires_grad else t


def randn(*size, generator=None, dtype=None, layout=None, device=None, requires_grad=False, out=None, pin_memory=False):
    """Normal with mean 0 and standard deviation 1."""
    if not size:
        raise refuse(TypeError, "randn() needs a size")
    t = _sized(_empty, size, dtype, device, False) if out is None else _fresh(size, dtype, device, out)
    apply_inplace(_getframe(1), "normal", (t, _default_state if generator is None else generator._state), (), (0.0, 1.0))
    return _finish(t, requires_grad) if requires_grad else t


def rand_like(input, *, dtype=None, layout=None, device=None, requires_grad=False, generator=None, memory_format=None, pin_memory=False):
    """Uniform in [0, 1), of input's shape and dtype."""
    t = _sized(_empty, (tuple(input.shape),), dtype or input.dtype, device, False)
    return _finish(_fill(_getframe(1), "uniform", t, generator, (), (0.0, 1.0)), requires_grad)


def randn_like(input, *, dtype=None, layout=None, device=None, requires_grad=False, generator=None, memory_format=None, pin_memory=False):
    """Normal with mean 0 and standard deviation 1, of input's shape and dtype."""
    t = _sized(_empty, (tuple(input.shape),), dtype or input.dtype, device, False)
    return _finish(_fill(_getframe(1), "normal", t, generator, (), (0.0, 1.0)), requires_grad)


def normal(mean=0.0, std=1.0, size=None, *, generator=None, dtype=None, layout=None, device=None, requires_grad=False, out=None,
           pin_memory=False):
    """Normal numbers: normal(0.0, 1.0, size), or mean and std tensors (one of them may be a number), whose shape is taken.

    No gradient flows to mean and std.
    """
    f = _getframe(1)
    if size is not None:
        t = _fresh((tuple(size),), dtype, device, out)
        return _finish(_fill(f, "normal", t, generator, (), (float(mean), float(std))), requires_grad)
    one, two = isinstance(mean, Tensor), isinstance(std, Tensor)
    if not one and not two:
        raise refuse(TypeError, "normal() needs a size or a tensor mean or std")
    shape = tuple((std if two else mean).shape)
    if two:
        if not lib.ag_tracing() and std.numel() and not std.detach().amin().item() >= 0:
            raise refuse(RuntimeError, "normal expects all elements of std >= 0.0")
        if one and tuple(mean.shape) != shape:
            shape = broadcast_shapes(tuple(mean.shape), shape)
    t = _fresh((shape,), None if out is not None else (mean if one else std).dtype, None, out)
    _fill(f, "normal", t, generator, (), (0.0, 1.0 if two else float(std)))
    push_site()
    if two:
        t.mul_(std.detach())
    return t.add_(mean.detach() if one else mean)


_LIMITS = {bool_: (0, 1, "bool"), uint8: (0, 255, "unsigned char"), int32: (-2**31, 2**31 - 1, "int"), int64: (-2**63, 2**63 - 1, "long"),
           float32: (-2**24, 2**24, "float"), float64: (-2**53, 2**53, "double")}


_BY_CODE = {d.code: limits for d, limits in _LIMITS.items()}
_ALL = {code: (0, _signed(limits[1] + 1)) for code, limits in _BY_CODE.items()}


def _integers(f, t, low, high, generator):
    """t filled with whole numbers of [low, high)."""
    low, high = int(low), int(high)
    least, most, name = _BY_CODE[_dtype(t._h)]
    if not least <= low < high <= most + 1:
        if low >= high:
            raise refuse(RuntimeError, f"random_ expects 'from' to be less than 'to', but got from={low} >= to={high}")
        raise refuse(RuntimeError, f"{'to - 1' if least <= low <= most else 'from'} is out of bounds for {name}")
    count = high - low
    return apply_inplace(f, "random_int", (t, _default_state if generator is None else generator._state),
                         (low, count if count < 9223372036854775808 else _signed(count)))


def randint(low=None, high=None, size=None, *, generator=None, dtype=None, layout=None, device=None, requires_grad=False, out=None,
            pin_memory=False):
    """randint(high, size) or randint(low, high, size): whole numbers of [low, high), int64."""
    if size is None:
        low, high, size = 0, low, high
    if high is None:
        low, high = 0, low
    if size is None or high is None:
        raise refuse(TypeError, "randint() needs a bound and a size")
    t = _sized(_empty, (size,), dtype or int64, device, False) if out is None else _fresh((size,), dtype, device, out)
    _integers(_getframe(1), t, low or 0, high, generator)
    return _finish(t, requires_grad) if requires_grad else t


def randint_like(input, low=None, high=None, *, dtype=None, layout=None, device=None, requires_grad=False, generator=None,
                 memory_format=None, pin_memory=False):
    """Whole numbers of [low, high) (one bound: [0, bound)), of input's shape and dtype."""
    if high is None:
        low, high = 0, low
    t = _sized(_empty, (tuple(input.shape),), dtype or input.dtype, device, False)
    return _finish(_integers(_getframe(1), t, low or 0, high, generator), requires_grad)


def randperm(n, *, generator=None, dtype=None, layout=None, device=None, requires_grad=False, out=None, pin_memory=False):
    """A random order of 0 .. n-1, int64."""
    t = _sized(_empty, _check_sizes((int(n),)), int64, device, False)
    _fill(_getframe(1), "randperm", t, generator)
    d = as_dtype(dtype) or (int64 if out is None else out.dtype)
    if n - 1 > _LIMITS[d][1]:
        raise refuse(RuntimeError, f"value cannot be converted to type {_LIMITS[d][2]} without overflow")
    if d is not int64:
        t = t.to(d)
    return _finish(t, requires_grad) if out is None else _fresh((n,), None, None, out).copy_(t)


def bernoulli(input, p=None, *, generator=None, out=None):
    """1 with probability input (or p, a number), else 0; of input's shape and dtype.  No gradient flows to input."""
    f = _getframe(1)
    t = _fresh((tuple(input.shape),), None if out is not None else input.dtype, None, out)
    if p is not None:
        return _fill(f, "bernoulli", t, generator, (), (float(p), 1.0))
    if not input.is_floating_point():
        raise refuse(NotImplementedError, f'"bernoulli" not implemented for {input.dtype}')
    return apply_inplace(f, "bernoulli_each", (t, _state(generator), input))


def multinomial(input, num_samples, replacement=False, *, generator=None, out=None):
    """num_samples indices for each row of weights (n) or (rows, n), int64; weights need not sum to 1.

    Without replacement in the order in which they are drawn.  Source: Efraimidis and Spirakis, 2006.
    """
    if not input.is_floating_point():
        raise refuse(RuntimeError, f"multinomial only supports floating-point dtypes for input, got: {input.dtype}")
    dims = input.dim()
    if dims not in (1, 2):
        raise refuse(RuntimeError, "prob_dist must be 1 or 2 dim")
    if num_samples <= 0:
        raise refuse(RuntimeError, "cannot sample n_sample <= 0 samples")
    t = _sized(_empty, (num_samples,) if dims == 1 else (input.shape[0], num_samples), int64, None, False)
    apply_inplace(_getframe(1), "multinomial", (t, _state(generator), input), (bool(replacement),))
    return t if out is None else _fresh((tuple(t.shape),), None, None, out).copy_(t)


def poisson(input, generator=None):
    """Poisson numbers with these rates, of input's shape and dtype.  No gradient flows to input.  Source: Hoermann, 1993."""
    if not input.is_floating_point():
        raise refuse(NotImplementedError, f'"poisson" not implemented for {input.dtype}')
    t = _sized(_empty, (tuple(input.shape),), input.dtype, None, False)
    return apply_inplace(_getframe(1), "poisson", (t, _state(generator), input))


# ---- in place ------------------------------------------------------------------------------------------


def uniform_(self, a=0.0, b=1.0, *, generator=None, **kw):
    """Fills self with uniform numbers in [a, b)."""
    if kw:
        a, b = kw.pop("from_", kw.pop("from", a)), kw.pop("to", b)
        if kw:
            raise refuse(TypeError, f"uniform_() got an unexpected keyword argument {next(iter(kw))!r}")
    return apply_inplace(_getframe(1), "uniform", (self, _default_state if generator is None else generator._state), (),
                         (float(a), float(b)))


def normal_(self, mean=0.0, std=1.0, *, generator=None):
    """Fills self with normal numbers."""
    return apply_inplace(_getframe(1), "normal", (self, _default_state if generator is None else generator._state), (),
                         (float(mean), float(std)))


def exponential_(self, lambd=1.0, *, generator=None):
    """Fills self with numbers of density lambd exp(-lambd x), x > 0."""
    return _fill(_getframe(1), "exponential", self, generator, (), (float(lambd),))


def cauchy_(self, median=0.0, sigma=1.0, *, generator=None):
    """Fills self with numbers of density sigma / (pi ((x - median)^2 + sigma^2))."""
    return _fill(_getframe(1), "cauchy", self, generator, (), (float(median), float(sigma)))


def log_normal_(self, mean=1.0, std=2.0, *, generator=None):
    """Fills self with numbers whose logarithms are normal."""
    return _fill(_getframe(1), "log_normal", self, generator, (), (float(mean), float(std)))


def geometric_(self, p, *, generator=None):
    """Fills self with the numbers of trials up to the first success of probability p: 1, 2, .."""
    return _fill(_getframe(1), "geometric", self, generator, (), (float(p),))


def bernoulli_(self, p=0.5, *, generator=None):
    """Fills self with 1 with probability p (a number, or a tensor that broadcasts to self), else 0."""
    if isinstance(p, Tensor):
        return apply_inplace(_getframe(1), "bernoulli_each", (self, _state(generator), p.expand(self.shape)))
    return _fill(_getframe(1), "bernoulli", self, generator, (), (float(p), 1.0))


def random_(self, low=None, high=None, *, generator=None, **kw):
    """random_(high), random_(low, high): whole numbers of [low, high); random_(): of all that self's type counts exactly."""
    if kw:
        low, high = kw.pop("from_", kw.pop("from", low)), kw.pop("to", high)
        if kw:
            raise refuse(TypeError, f"random_() got an unexpected keyword argument {next(iter(kw))!r}")
        if high is None and low is not None:
            high = _BY_CODE[_dtype(self._h)][1] + 1
    elif high is None and low is not None:
        low, high = 0, low
    if high is None:
        return apply_inplace(_getframe(1), "random_int", (self, _default_state if generator is None else generator._state),
                             _ALL[_dtype(self._h)])
    return _integers(_getframe(1), self, low or 0, high, generator)


def trunc_normal(shape, mean, std, a, b, generator=None):
    """Normal numbers redrawn until they lie in [a, b] (by the inverse of the distribution function)."""
    import math

    def cdf(x):
        return (1 + math.erf(x / math.sqrt(2))) / 2

    push_site()
    low, high = cdf((a - mean) / std), cdf((b - mean) / std)
    u = _fill(_getframe(1), "uniform", _sized(_empty, (tuple(shape),), float64, None, False), generator, (), (2 * low - 1, 2 * high - 1))
    from ._special import erfinv

    return (erfinv(u) * (std * math.sqrt(2)) + mean).clamp(a, b)
