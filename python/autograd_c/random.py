"""Random numbers: Philox streams that depend on the seed and the count of calls alone, not on threads or sizes.

A Generator is a small int64 tensor (seed, counter) that ops advance, so that frozen programs bind it by
reference and draw on.
"""
import os as _os
from sys import _getframe

from ._call import apply, apply_inplace, as_number, wrap
from ._create import _check_sizes, _finish
from ._dtypes import as_dtype, as_size, check_device, float32, float64, get_default_dtype, int64
from ._elementwise import cast_at, copy_at
from ._ffi import check, ffi, lib, made, push_site, refuse
from ._tensor import Tensor


def _signed(seed):
    seed = int(seed) & 0xFFFFFFFFFFFFFFFF
    return seed - (1 << 64) if seed >> 63 else seed


class Generator:
    """A source of random numbers with a seed of its own."""

    def __init__(self, device="cpu", _state=None):
        check_device(device)
        self._state = _state
        if _state is None:
            self._state = wrap(lib.ag_from_data(1, [2], int64.code, ffi.new("int64_t[]", [67280421310721, 0])))

    def manual_seed(self, seed):
        """Sets the seed and starts its stream; returns self."""
        check(lib.ag_tensor_write(self._state._h, ffi.new("int64_t[]", [_signed(seed), 0])))
        return self

    def seed(self):
        """Seeds from the operating system; returns the seed."""
        s = int.from_bytes(_os.urandom(8), "little")
        self.manual_seed(s)
        return s

    def initial_seed(self):
        return self._state.tolist()[0] & 0xFFFFFFFFFFFFFFFF

    def get_state(self):
        return self._state.clone()

    def set_state(self, state):
        check(lib.ag_tensor_write(self._state._h, ffi.new("int64_t[]", state.tolist())))
        return self

    def clone_state(self):
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


def manual_seed(seed):
    """Seeds the default generator and returns it."""
    check(lib.ag_manual_seed(int(seed) & 0xFFFFFFFFFFFFFFFF))
    return default_generator


def seed():
    s = int.from_bytes(_os.urandom(8), "little")
    manual_seed(s)
    return s


def initial_seed():
    return default_generator.initial_seed()


def get_rng_state():
    return default_generator.get_state()


def set_rng_state(state):
    default_generator.set_state(state)


class fork_rng:
    """Context in which random numbers are drawn without moving the generator outside."""

    def __init__(self, *args, **kw):
        pass

    def __enter__(self):
        self._saved = get_rng_state()

    def __exit__(self, *error):
        set_rng_state(self._saved)


def _fill(f, t, kind, a, b, generator):
    return apply_inplace(f, kind, (t, (generator or default_generator)._state), (), (a, b))


def _new(f, size, kind, a, b, dtype, generator, device, requires_grad):
    check_device(device)
    d = as_dtype(dtype) or get_default_dtype()
    if not d.is_floating_point:
        raise refuse(RuntimeError, f'"{kind}" not implemented for {d.name!r}')
    shape = _check_sizes(size)
    t = wrap(lib.ag_empty(len(shape), shape, d.code))
    _fill(f, t, kind, a, b, generator)
    return _finish(t, requires_grad)


def rand(*size, generator=None, dtype=None, device=None, requires_grad=False, out=None):
    """Uniform in [0, 1)."""
    return _new(_getframe(1), as_size(size), "uniform", 0.0, 1.0, dtype, generator, device, requires_grad)


def randn(*size, generator=None, dtype=None, device=None, requires_grad=False, out=None):
    """Normal with mean 0 and standard deviation 1."""
    return _new(_getframe(1), as_size(size), "normal", 0.0, 1.0, dtype, generator, device, requires_grad)


def rand_like(input, *, dtype=None, device=None, requires_grad=False, generator=None, memory_format=None):
    return _new(_getframe(1), tuple(input.shape), "uniform", 0.0, 1.0, dtype or input.dtype, generator, device, requires_grad)


def randn_like(input, *, dtype=None, device=None, requires_grad=False, generator=None, memory_format=None):
    return _new(_getframe(1), tuple(input.shape), "normal", 0.0, 1.0, dtype or input.dtype, generator, device, requires_grad)


def normal(mean=0.0, std=1.0, size=None, *, generator=None, dtype=None, device=None, requires_grad=False, out=None):
    """Normal numbers; mean and std may be tensors, whose shape is then taken."""
    f = _getframe(1)
    if size is not None:
        return _new(f, tuple(size), "normal", float(mean), float(std), dtype, generator, device, requires_grad)
    push_site()
    like = mean if isinstance(mean, Tensor) else std
    if not isinstance(like, Tensor):
        raise refuse(TypeError, "normal() needs a size or a tensor mean or std")
    shape = tuple((mean + std).shape)
    return _new(f, shape, "normal", 0.0, 1.0, like.dtype, generator, None, False) * std + mean


def _integers(f, shape, low, high, d, generator):
    if high <= low:
        raise refuse(RuntimeError, f"random_ expects 'from' to be less than 'to', but got from={low} >= to={high}")
    u = _new(f, shape, "uniform", 0.0, float(high - low), float64, generator, None, False)
    whole = cast_at(f, apply(f, "floor", (u,)), int64)
    from ._elementwise import add, minimum

    return cast_at(f, add(minimum(whole, high - low - 1), low) if low or high - low > 2**52 else whole, d)


def randint(low, high=None, size=None, *, generator=None, dtype=None, device=None, requires_grad=False, out=None):
    """randint(high, size) or randint(low, high, size): integers in [low, high), int64."""
    if size is None:
        low, high, size = 0, low, high
    check_device(device)
    push_site()
    return _integers(_getframe(1), _check_sizes(as_size((size,))), int(low), int(high), as_dtype(dtype) or int64, generator)


def randint_like(input, low, high=None, *, dtype=None, device=None, generator=None):
    if high is None:
        low, high = 0, low
    push_site()
    return _integers(_getframe(1), tuple(input.shape), int(low), int(high), as_dtype(dtype) or input.dtype, generator)


def randperm(n, *, generator=None, dtype=None, device=None, requires_grad=False, out=None):
    """A random order of 0 .. n-1, int64."""
    from ._order import argsort

    check_device(device)
    u = _new(_getframe(1), (n,), "uniform", 0.0, 1.0, float64, generator, None, False)
    r = argsort(u, stable=True)
    return r if dtype is None else r.to(dtype)


def bernoulli(input, p=None, *, generator=None, out=None):
    """1 with probability input (or p), else 0."""
    f = _getframe(1)
    push_site()
    d = input.dtype if input.is_floating_point() else get_default_dtype()
    u = _new(f, tuple(input.shape), "uniform", 0.0, 1.0, d, generator, None, False)
    return cast_at(f, u < (input.detach() if p is None else p), input.dtype)


def multinomial(input, num_samples, replacement=False, *, generator=None, out=None):
    """num_samples indices for each row of weights."""
    from ._order import topk

    f = _getframe(1)
    push_site()
    w = input.detach()
    if not w.is_floating_point():
        raise refuse(RuntimeError, "multinomial only supports floating-point dtypes for input")
    if w.dim() not in (1, 2):
        raise refuse(RuntimeError, "prob_dist must be 1 or 2 dim")
    if bool((w < 0).any()) or not bool(w.isfinite().all()):
        raise refuse(RuntimeError, "probability tensor contains either `inf`, `nan` or element < 0")
    if not bool((w.sum(-1) > 0).all()):
        raise refuse(RuntimeError, "invalid multinomial distribution (sum of probabilities <= 0)")
    n = w.shape[-1]
    if not replacement:
        if num_samples > n:
            raise refuse(RuntimeError, "cannot sample n_sample > prob_dist.size(-1) samples without replacement")
        # The first arrivals of exponential clocks with these rates.
        u = _new(f, tuple(w.shape), "uniform", 0.0, 1.0, float64, generator, None, False)
        return topk(w.double() / -(-u).log1p(), num_samples, -1)[1]
    edges = w.double().cumsum(-1)
    u = _new(f, (*w.shape[:-1], num_samples), "uniform", 0.0, 1.0, float64, generator, None, False) * edges[..., -1:]
    return (edges.unsqueeze(-2) <= u.unsqueeze(-1)).sum(-1).clamp(max=n - 1)


def poisson(input, generator=None):
    """Poisson numbers with these rates (through NumPy, seeded from the generator)."""
    import numpy

    from ._create import tensor

    s = _integers(_getframe(1), (2,), 0, 2**31, int64, generator).tolist()
    return tensor(numpy.random.default_rng(s).poisson(input.detach().numpy())).to(input.dtype)


# ---- in place ------------------------------------------------------------------------------------------


def uniform_(self, a=0.0, b=1.0, *, generator=None, **kw):
    """Fills self with uniform numbers in [a, b)."""
    a, b = kw.get("from_", a), kw.get("to", b)
    if a > b:
        raise refuse(RuntimeError, f"uniform_ expects to return a [from, to) range, but found from={a} > to={b}")
    return _fill(_getframe(1), self, "uniform", float(a), float(b), generator)


def normal_(self, mean=0.0, std=1.0, *, generator=None):
    """Fills self with normal numbers."""
    if std < 0:
        raise refuse(RuntimeError, f"normal expects std >= 0.0, but found std {std}")
    return _fill(_getframe(1), self, "normal", float(mean), float(std), generator)


def exponential_(self, lambd=1.0, *, generator=None):
    f = _getframe(1)
    push_site()
    u = _new(f, tuple(self.shape), "uniform", 0.0, 1.0, self.dtype, generator, None, False)
    return copy_at(f, self, -(-u).log1p() / lambd)


def bernoulli_(self, p=0.5, *, generator=None):
    f = _getframe(1)
    push_site()
    u = _new(f, tuple(self.shape), "uniform", 0.0, 1.0, float32, generator, None, False)
    return copy_at(f, self, cast_at(f, u < p, self.dtype))


def random_(self, low=0, high=None, *, generator=None):
    """Fills self with integers in [low, high)."""
    f = _getframe(1)
    push_site()
    if high is None and as_number(low) == 0:
        high = 2**24 if self.dtype is float32 else 2**53 if self.is_floating_point() else {1: 256}.get(self.dtype.itemsize, 2**31)
    elif high is None:
        low, high = 0, low
    return copy_at(f, self, _integers(f, tuple(self.shape), int(low), int(high), int64, generator).to(self.dtype))


def trunc_normal(shape, mean, std, a, b, generator=None):
    """Normal numbers redrawn until they lie in [a, b] (by the inverse of the distribution function)."""
    import math

    def cdf(x):
        return (1 + math.erf(x / math.sqrt(2))) / 2

    push_site()
    low, high = cdf((a - mean) / std), cdf((b - mean) / std)
    u = _new(_getframe(1), tuple(shape), "uniform", 2 * low - 1, 2 * high - 1, float64, generator, None, False)
    from ._elementwise import erfinv

    return (erfinv(u) * (std * math.sqrt(2)) + mean).clamp(a, b)
