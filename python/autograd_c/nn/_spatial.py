"""Convolutions, pooling and padding: inputs are (N, C, spatial dims) or without N."""
from array import array as _array
from functools import lru_cache as _lru_cache
import math as _math
from sys import _getframe

from .._call import apply, apply_multi, tied_at, wrap
from .._ffi import ffi, lib, push_site, refuse
from .._create import arange, tensor


def tuple_of(n, x, name="argument"):
    """x as n ints: one number stands for all."""
    if isinstance(x, (tuple, list)):
        if len(x) == 1:
            return (int(x[0]),) * n
        if len(x) != n:
            raise refuse(RuntimeError, f"expected {name} to be a single integer value or a list of {n} values to match the convolution "
                         f"dimensions, but got {name}={list(x)}")
        return tuple(map(int, x))
    return (int(x),) * n


def same_padding(kernel, dilation):
    """(left, right) for each dim such that a convolution of stride 1 keeps the sizes."""
    total = [d * (k - 1) for k, d in zip(kernel, dilation)]
    return [(t // 2, t - t // 2) for t in total]


def _conv(f, nd, input, weight, bias, stride, padding, dilation, groups):
    stride, dilation = tuple_of(nd, stride, "stride"), tuple_of(nd, dilation, "dilation")
    if isinstance(padding, str):
        if weight.dim() != nd + 2 or input.dim() not in (nd + 1, nd + 2):
            m = weight.dim()
            raise refuse(RuntimeError, f"Expected {m}-dimensional input for {m}-dimensional weight{list(weight.shape)}, but got "
                         f"{input.dim()}-dimensional input of size {list(input.shape)} instead")
        if padding == "valid":
            padding = (0,) * nd
        elif padding == "same":
            if any(s != 1 for s in stride):
                raise refuse(RuntimeError, "padding='same' is not supported for strided convolutions")
            sides = same_padding(tuple(weight.shape[2:]), dilation)
            padding = tuple([a for a, _ in sides])
            if any(a != b for a, b in sides):  # one more behind, as PyTorch
                extra = [0, 0] * (input.dim() - nd) + [v for a, b in sides for v in (0, b - a)]
                input = apply(f, "pad", (input,), extra, (0.0,))
        else:
            raise refuse(RuntimeError, f"Invalid padding string: '{padding}'")
    else:
        padding = tuple_of(nd, padding, "padding")
    single = input.dim() == nd + 1
    if single:
        input = apply(f, "unsqueeze", (input,), (0,))
    r = apply(f, "convolution", (input, weight) if bias is None else (input, weight, bias),
              (nd, *stride, *padding, *dilation, groups))
    return apply(f, "squeeze", (r,), (0,)) if single else r


def conv1d(input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
    """Cross-correlation over one dim.

    input (N, C, L), weight (O, C / groups, K), bias (O) -> (N, O, (L + 2 padding - dilation (K - 1) - 1) // stride + 1).
    padding: a number or "same", "valid".
    """
    return _conv(_getframe(1), 1, input, weight, bias, stride, padding, dilation, groups)


def conv2d(input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
    """Cross-correlation over two dims: input (N, C, H, W), weight (O, C / groups, KH, KW); see conv1d."""
    return _conv(_getframe(1), 2, input, weight, bias, stride, padding, dilation, groups)


def conv3d(input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
    """Cross-correlation over three dims; see conv1d."""
    return _conv(_getframe(1), 3, input, weight, bias, stride, padding, dilation, groups)


def _conv_transpose(f, nd, input, weight, bias, stride, padding, output_padding, groups, dilation):
    """The gradient of a convolution in its input, read as a function of its own."""
    stride, dilation = tuple_of(nd, stride, "stride"), tuple_of(nd, dilation, "dilation")
    padding, extra = tuple_of(nd, padding, "padding"), tuple_of(nd, output_padding, "output_padding")
    for e, s, d in zip(extra, stride, dilation):
        if e >= s and e >= d:
            raise refuse(RuntimeError, f"output padding must be smaller than either stride or dilation, but got output_padding: {list(extra)} "
                         f"stride: {list(stride)} dilation: {list(dilation)}")
    single = input.dim() == nd + 1
    if single:
        input = apply(f, "unsqueeze", (input,), (0,))
    s, k = tuple(input.shape), tuple(weight.shape)
    if len(s) != nd + 2 or s[1] != k[0]:
        raise refuse(RuntimeError, f"Given transposed=1, weight of size {list(k)}, expected input{list(s)} to have {k[0]} channels, but got "
                     f"{s[1]} channels instead")
    size = [(n - 1) * st - 2 * p + d * (kk - 1) + e + 1
            for n, st, p, d, kk, e in zip(s[2:], stride, padding, dilation, k[2:], extra)]
    if s[0] and min(size) < 1:
        raise refuse(RuntimeError, f"Given input size per channel: ({' x '.join(map(str, s[2:]))}). Calculated output size per channel: "
                     f"({' x '.join(map(str, size))}). Output size is too small")
    if all(e < st for e, st in zip(extra, stride)):
        r = apply(f, "conv_grad_input", (input, weight),
                  (nd, *stride, *padding, *dilation, groups, s[0], k[1] * groups, *size))
    else:  # no convolution leads back from such a size: all of it without padding, then cut or filled up
        whole = [(n - 1) * st + d * (kk - 1) + 1 for n, st, d, kk in zip(s[2:], stride, dilation, k[2:])]
        r = apply(f, "conv_grad_input", (input, weight),
                  (nd, *stride, *[0] * nd, *dilation, groups, s[0], k[1] * groups, *whole))
        r = apply(f, "pad", (r,), [0, 0, 0, 0] + [v for p, n, m in zip(padding, size, whole) for v in (-p, n - m + p)], (0.0,))
    if bias is not None:
        r = apply(f, "add", (r, apply(f, "view", (tied_at(f, bias, input, weight),), (-1, *[1] * nd))))
    return apply(f, "squeeze", (r,), (0,)) if single else r


def conv_transpose1d(input, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1):
    """Transposed convolution over one dim: input (N, C, L), weight (C, O / groups, K)."""
    return _conv_transpose(_getframe(1), 1, input, weight, bias, stride, padding, output_padding, groups, dilation)


def conv_transpose2d(input, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1):
    """Transposed convolution over two dims: input (N, C, H, W), weight (C, O / groups, KH, KW)."""
    return _conv_transpose(_getframe(1), 2, input, weight, bias, stride, padding, output_padding, groups, dilation)


def conv_transpose3d(input, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1):
    """Transposed convolution over three dims."""
    return _conv_transpose(_getframe(1), 3, input, weight, bias, stride, padding, output_padding, groups, dilation)


# ---- pooling -------------------------------------------------------------------------------------------


def _max_pool(f, nd, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices):
    k = tuple_of(nd, kernel_size, "kernel_size")
    s = tuple_of(nd, k if stride is None or stride == () or stride == [] else stride, "stride")
    if input.dim() not in (nd + 1, nd + 2) or 0 in input.shape[input.dim() - nd - 1:]:
        raise refuse(RuntimeError, f"max_pool{nd}d: Expected {nd + 1}D or {nd + 2}D (batch mode) tensor with optional 0 dim batch size for "
                     f"input, but got: {list(input.shape)}")
    ints = (nd, *k, *s, *tuple_of(nd, padding, "padding"), *tuple_of(nd, dilation, "dilation"), int(bool(ceil_mode)))
    r = apply_multi(f, "max_pool", (input,), 2, ints)
    return r if return_indices else r[0]


def max_pool1d(input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False):
    """Maximum of each window; stride None: the kernel's size.  return_indices: also the positions in the plane."""
    return _max_pool(_getframe(1), 1, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


def max_pool2d(input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False):
    """Maximum of each window of (N, C, H, W); stride None: the kernel's size."""
    return _max_pool(_getframe(1), 2, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


def max_pool3d(input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False):
    """Maximum of each window of (N, C, D, H, W)."""
    return _max_pool(_getframe(1), 3, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


def _pool_places(n, k, s, p, ceil_mode):
    """Number of windows along a dim."""
    places = (n + 2 * p - k + (s - 1 if ceil_mode else 0)) // s + 1
    if ceil_mode and (places - 1) * s >= n + p:  # the last window must start inside
        places -= 1
    return places


def _avg_pool(nd, input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override=None):
    """Mean of each window: sums along one dim after the other, over the number of places."""
    f = None  # the pushed position
    k = tuple_of(nd, kernel_size, "kernel_size")
    s = tuple_of(nd, stride or k, "stride")
    p = tuple_of(nd, padding, "padding")
    for a, b in zip(p, k):
        if a < 0:
            raise refuse(RuntimeError, f"pad must be non-negative, but got pad: {a}")
        if 2 * a > b:
            raise refuse(RuntimeError, f"pad should be at most half of effective kernel size, but got pad={a}, kernel_size={b} and dilation=1")
    if divisor_override == 0:
        raise refuse(RuntimeError, "divisor must be not zero")
    if input.dim() not in (nd + 1, nd + 2):
        raise refuse(RuntimeError, f"avg_pool{nd}d: Expected {nd + 1}D or {nd + 2}D input, but got {list(input.shape)}")
    size = tuple(input.shape[-nd:])
    places = [_pool_places(n, kk, st, pp, ceil_mode) for n, kk, st, pp in zip(size, k, s, p)]
    if min(places) < 1:
        raise refuse(RuntimeError, f"Given input size: ({'x'.join(map(str, size))}). Calculated output size: ({'x'.join(map(str, places))}). "
                     "Output size is too small")
    if nd == 3 and any(n < kk for n, kk in zip(size, k)):  # PyTorch's rule for three dims alone
        raise refuse(RuntimeError, f"input image (T: {size[0]} H: {size[1]} W: {size[2]}) smaller than kernel size (kT: {k[0]} kH: {k[1]} kW: {k[2]})")
    x = tied_at(f, input)
    for d, (n, kk, st, pp, o) in enumerate(zip(size, k, s, p, places)):
        x = _resample(f, x, d - nd, _window_table, n, kk, st, pp, o)
    counts = [_window_counts(*v, bool(count_include_pad)) for v in zip(size, k, s, p, places)]
    if not x.is_floating_point():  # the parts behind the point are dropped
        if divisor_override is not None:
            return x.div(divisor_override, rounding_mode="trunc")
        for d, c in enumerate(counts):
            x = x.div(tensor([int(v) for v in c]).view(-1, *[1] * (nd - d - 1)), rounding_mode="trunc")
        return x
    if divisor_override is not None:
        return x / float(divisor_override)
    if all(c[1:] == c[:-1] for c in counts):
        return x / float(_math.prod([c[0] for c in counts]))
    for d, c in enumerate(counts):
        x = x / input.new_tensor(c).view(-1, *[1] * (nd - d - 1))
    return x


def _window_table(n, k, s, p, o):
    """Terms of sums over o windows of k places, s apart, p places of padding in front."""
    return [[(j, 1.0) for j in range(max(i * s - p, 0), min(i * s - p + k, n))] for i in range(o)]


@_lru_cache(maxsize=256)
def _window_counts(n, k, s, p, o, padding_too):
    """How many places each window has; padding behind the input counts up to p places."""
    ends = [(i * s - p, min(i * s - p + k, n + p)) for i in range(o)]
    return tuple([float(b - a if padding_too else min(b, n) - max(a, 0)) for a, b in ends])


@_lru_cache(maxsize=64)
def _table(maker, args, code):
    """maker(*args) as memory: shape, places, weights of the dtype of that code; rows filled up with places of -1."""
    rows = maker(*args)
    most = max([len(row) for row in rows], default=0) or 1
    full = [list(row) + [(-1, 0.0)] * (most - len(row)) for row in rows]
    places = _array("q", [j for row in full for j, _ in row])
    kind = "f" if code == lib.AG_FLOAT32 else "d" if code == lib.AG_FLOAT64 else "q"
    weights = _array(kind, [v if kind != "q" else int(v) for row in full for _, v in row])
    return (len(rows), most), places, weights


def _resample(f, x, dim, maker, *args):
    """Along dim: out[i] = sum over the terms (place, weight) of row i of the table maker(*args)."""
    code = lib.ag_tensor_dtype(x._h)
    if code < lib.AG_FLOAT32 and (code != lib.AG_INT64 or maker not in (_window_table, _whole_table)):
        raise refuse(NotImplementedError, f"not implemented for '{x.dtype.scalar_name}'")
    shape, places, weights = _table(maker, args, code)
    at = wrap(lib.ag_from_data(2, shape, lib.AG_INT64, ffi.from_buffer(places)))
    return apply(f, "resample", (x, at, wrap(lib.ag_from_data(2, shape, code, ffi.from_buffer(weights)))), (dim,))


def avg_pool1d(input, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True):
    """Mean of each window; padding counts unless count_include_pad is False."""
    push_site()
    return _avg_pool(1, input, kernel_size, stride, padding, ceil_mode, count_include_pad)


def avg_pool2d(input, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True, divisor_override=None):
    """Mean of each window of (N, C, H, W); divisor_override: sum over that number instead."""
    push_site()
    return _avg_pool(2, input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)


def avg_pool3d(input, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True, divisor_override=None):
    """Mean of each window of (N, C, D, H, W)."""
    push_site()
    return _avg_pool(3, input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)


def lp_pool1d(input, norm_type, kernel_size, stride=None, ceil_mode=False):
    """(sum of |x|^p)^(1/p) of each window."""
    push_site()
    return _lp_pool(1, input, norm_type, kernel_size, stride, ceil_mode)


def lp_pool2d(input, norm_type, kernel_size, stride=None, ceil_mode=False):
    push_site()
    return _lp_pool(2, input, norm_type, kernel_size, stride, ceil_mode)


def lp_pool3d(input, norm_type, kernel_size, stride=None, ceil_mode=False):
    push_site()
    return _lp_pool(3, input, norm_type, kernel_size, stride, ceil_mode)


def _lp_pool(nd, input, p, kernel_size, stride, ceil_mode):
    total = _avg_pool(nd, input**p, kernel_size, stride, 0, ceil_mode, True)
    return (total.sign() * total.abs().relu() * _math.prod(tuple_of(nd, kernel_size))) ** (1.0 / p)


def _adaptive_sizes(nd, input, output_size):
    out = output_size if isinstance(output_size, (tuple, list)) else (output_size,) * nd
    if input.dim() not in (nd + 1, nd + 2):
        if out is output_size and input.dim() < nd + 1:
            raise refuse(ValueError, f"Input dimension should be at least {nd + 1}")
        raise refuse(RuntimeError, f"adaptive pooling: Expected {nd + 1}D or {nd + 2}D tensor, but got {list(input.shape)}")
    if any(o is not None and o < 0 for o in out):
        raise refuse(RuntimeError, "adaptive pooling: elements of output_size must be greater than or equal to 0 but received "
                     f"{{{', '.join(map(str, out))}}}")
    if len(out) != nd:
        raise refuse(RuntimeError, f"adaptive_avg_pool{nd}d: output_size must be {nd}")
    return [n if o is None else int(o) for o, n in zip(out, input.shape[-nd:])]


def _bins(n, o):
    """Start and end of each of o windows over n places, as PyTorch lays them."""
    return [(i * n // o, -(-(i + 1) * n // o)) for i in range(o)]


def _adaptive_avg_pool(nd, input, output_size):
    out = _adaptive_sizes(nd, input, output_size)
    size = tuple(input.shape[-nd:])
    if not input.is_floating_point():
        raise refuse(NotImplementedError, f"\"adaptive_avg_pool{nd}d\" not implemented for '{input.dtype.scalar_name}'")
    if all(o == 1 for o in out):
        return input.mean(tuple(range(-nd, 0)), keepdim=True)
    if all(o and n % o == 0 for n, o in zip(size, out)):
        return _avg_pool(nd, input, [n // o for n, o in zip(size, out)], None, 0, False, True)
    x = tied_at(None, input)
    for d, (n, o) in enumerate(zip(size, out)):
        x = _resample(None, x, d - nd, _bin_table, n, o)
    return x


def _bin_table(n, o):
    return [[(j, 1.0 / (b - a)) for j in range(a, b)] for a, b in _bins(n, o)]


def adaptive_avg_pool1d(input, output_size):
    """Mean over output_size windows that cover the dim evenly."""
    push_site()
    return _adaptive_avg_pool(1, input, output_size)


def adaptive_avg_pool2d(input, output_size):
    push_site()
    return _adaptive_avg_pool(2, input, output_size)


def adaptive_avg_pool3d(input, output_size):
    push_site()
    return _adaptive_avg_pool(3, input, output_size)


def _adaptive_max_pool(nd, input, output_size, return_indices):
    out = _adaptive_sizes(nd, input, output_size)
    size = tuple(input.shape[-nd:])
    if all(o and n % o == 0 for n, o in zip(size, out)):
        k = [n // o for n, o in zip(size, out)]
        return _max_pool(None, nd, input, k, None, 0, 1, False, return_indices)
    # Windows of different sizes: a table of flat positions, short rows filled up with their first one.
    rows = [[0]]
    count = []
    for n, o in zip(size, out):
        bins = _bins(n, o)
        rows = [[p * n + q for p in row for q in range(a, b)] for row in rows for a, b in bins]
        count.append(o)
    longest = max([len(row) for row in rows], default=1)
    table = tensor([row + row[:1] * (longest - len(row)) for row in rows]).view(-1, longest)
    lead = tuple(input.shape[:-nd])
    windows = tied_at(None, input).reshape(*lead, _math.prod(size)).index_select(-1, table.view(-1)).reshape(*lead, len(rows), longest)
    values, at = windows.max(-1)
    values = values.reshape(*lead, *count)
    if not return_indices:
        return values
    return values, table.view(-1)[at + arange(len(rows)) * longest].reshape(*lead, *count)


def adaptive_max_pool1d(input, output_size, return_indices=False):
    """Maximum over output_size windows that cover the dim evenly."""
    push_site()
    return _adaptive_max_pool(1, input, output_size, return_indices)


def adaptive_max_pool2d(input, output_size, return_indices=False):
    push_site()
    return _adaptive_max_pool(2, input, output_size, return_indices)


def adaptive_max_pool3d(input, output_size, return_indices=False):
    push_site()
    return _adaptive_max_pool(3, input, output_size, return_indices)


# ---- padding, rearranging --------------------------------------------------------------------------------


def pad(input, pad, mode="constant", value=None):
    """Elements before and behind: pad = (before, behind) of the last dim, then of the one before it, ...

    mode: constant (negative numbers cut), reflect, replicate, circular (over the last dims of (N, C, ...)).
    """
    f = _getframe(1)
    n = input.dim()
    if len(pad) % 2:
        raise refuse(RuntimeError, "Padding length must be divisible by 2")
    if len(pad) // 2 > n:
        raise refuse(RuntimeError, "Padding length should be less than or equal to two times the input dimension but got padding length "
                     f"{len(pad)} and input of dimension {n}")
    sides = [(0, 0)] * (n - len(pad) // 2) + [(int(pad[k]), int(pad[k + 1])) for k in range(len(pad) - 2, -1, -2)]
    if mode == "constant":
        return apply(f, "pad", (input,), [v for s in sides for v in s], (0.0 if value is None else float(value),))
    if mode not in ("reflect", "replicate", "circular"):
        raise refuse(NotImplementedError, f"Unrecognised padding mode {mode}")
    if value not in (None, 0):
        raise refuse(ValueError, f'Padding mode "{mode}" doesn\'t take in value argument')
    push_site()
    x = input if mode == "circular" else tied_at(f, input)
    for d, (a, b) in enumerate(sides):
        if (a, b) != (0, 0):
            size = x.shape[d]
            x = x.index_select(d, _places(mode, size, a, b, d))
    return x


def _places(mode, n, a, b, d):
    if mode == "reflect" and (a >= n or b >= n):
        raise refuse(RuntimeError, f"Argument #4: Padding size should be less than the corresponding input dimension, but got: padding ({a}, {b}) "
                     f"at dimension {d} of input of size {n}")
    if mode == "circular" and (a > n or b > n):
        raise refuse(RuntimeError, "Padding value causes wrapping around more than once.")
    out = []
    for k in range(-a, n + b):
        if mode == "replicate":
            k = min(max(k, 0), n - 1)
        elif mode == "circular":  # what was cut off takes no part
            first = max(-a, 0)
            k = first + (k - first) % (n - first - max(-b, 0))
        else:
            k = -k if k < 0 else 2 * (n - 1) - k if k >= n else k
        out.append(k)
    return tensor(out)


def unfold(input, kernel_size, dilation=1, padding=0, stride=1):
    """Windows of (N, C, H, W) as columns: (N, C KH KW, number of windows)."""
    push_site()
    single = input.dim() == 3
    x = input.unsqueeze(0) if single else input
    k, dil, p, s = [tuple_of(2, v) for v in (kernel_size, dilation, padding, stride)]
    flags = x.dtype.name == "bool"
    r = apply(None, "unfold", (x.float() if flags else x,), (*k, *dil, *p, *s, *x.shape[-2:]))
    if flags:
        r = r.bool()
    return r.squeeze(0) if single else r


def fold(input, output_size, kernel_size, dilation=1, padding=0, stride=1):
    """The adjoint of unfold: columns (N, C KH KW, windows) added to their places in (N, C, *output_size)."""
    push_site()
    if input.dim() not in (2, 3):
        raise refuse(RuntimeError, f"Expected 2D or 3D (batch mode) tensor for input with possibly 0 batch size and non-zero dimensions for input, "
                     f"but got: {list(input.shape)}")
    single = input.dim() == 2
    x = input.unsqueeze(0) if single else input
    size, k, dil, p, s = [tuple_of(2, v) for v in (output_size, kernel_size, dilation, padding, stride)]
    r = apply(None, "fold", (x,), (*k, *dil, *p, *s, *size))
    return r.squeeze(0) if single else r


def pixel_shuffle(input, upscale_factor):
    """(.., C r r, H, W) to (.., C, H r, W r)."""
    push_site()
    *lead, c, h, w = input.shape
    r = upscale_factor
    if c % (r * r):
        raise refuse(RuntimeError, f"pixel_shuffle expects its input's 'channel' dimension to be divisible by the square of upscale_factor, but "
                     f"input.size(-3)={c} is not divisible by {r * r}")
    x = input.reshape(*lead, c // (r * r), r, r, h, w)
    n = len(lead)
    return x.permute(*range(n), n, n + 3, n + 1, n + 4, n + 2).reshape(*lead, c // (r * r), h * r, w * r)


def pixel_unshuffle(input, downscale_factor):
    """The inverse of pixel_shuffle."""
    push_site()
    *lead, c, h, w = input.shape
    r = downscale_factor
    n = len(lead)
    x = input.reshape(*lead, c, h // r, r, w // r, r)
    return x.permute(*range(n), n, n + 2, n + 4, n + 1, n + 3).reshape(*lead, c * r * r, h // r, w // r)


def channel_shuffle(input, groups):
    """Channels of `groups` groups dealt out in turn."""
    push_site()
    s = tuple(input.shape)
    return input.reshape(s[0], groups, s[1] // groups, *s[2:]).transpose(1, 2).reshape(s)


def _cubic(t, a=-0.75):
    """Keys' convolution kernel (1981), with PyTorch's a."""
    t = abs(t)
    if t <= 1:
        return ((a + 2) * t - (a + 3)) * t * t + 1
    return (((t - 5) * t + 8) * t - 4) * a if t < 2 else 0.0


def interpolate(input, size=None, scale_factor=None, mode="nearest", align_corners=None, recompute_scale_factor=None, antialias=False):
    """Resizes the dims after (N, C): mode nearest, nearest-exact, area; linear, bilinear, trilinear, bicubic.

    antialias: bilinear and bicubic stretch their filter where the result is the smaller one.
    Bytes: bilinear and bicubic by weights of 16 bits, rounded after each dim, the last one first.
    """
    push_site()
    nd = input.dim() - 2
    sizes = tuple(input.shape[2:])
    if (size is None) == (scale_factor is None):
        raise refuse(ValueError, "only one of size or scale_factor should be defined" if size is not None else
                     "either size or scale_factor should be defined")
    if size is not None:
        out, scales = tuple_of(nd, size), [None] * nd
    else:
        scales = list(scale_factor) if isinstance(scale_factor, (tuple, list)) else [scale_factor] * nd
        out = [int(_math.floor(n * s)) for n, s in zip(sizes, scales)]
        if recompute_scale_factor:
            scales = [None] * nd
    if min(out) < 1 and input.numel() and mode != "area":
        raise refuse(RuntimeError, f"Input and output sizes should be greater than 0, but got input {sizes} output {tuple(out)}")
    if antialias and (nd, mode) not in ((2, "bilinear"), (2, "bicubic")):
        raise refuse(ValueError, "Anti-alias option is restricted to bilinear, bicubic, and lanczos modes and requires a 4-D tensor as input")
    if mode == "area":
        return _adaptive_avg_pool(nd, input, out)
    x = input
    if mode in ("nearest", "nearest-exact"):
        if align_corners is not None:
            raise refuse(ValueError, "align_corners option can only be set with the interpolating modes: linear | bilinear | bicubic | trilinear")
        for d, (n, o, s) in enumerate(zip(sizes, out, scales)):
            step = _array("f", [1.0 / s if s else n / o])[0]  # PyTorch's places are those of float32 arithmetic
            half = 0.5 if mode == "nearest-exact" else 0.0
            places = _array("f", [(i + half) * step for i in range(o)])
            x = x.index_select(2 + d, tensor([min(int(_math.floor(at)), n - 1) for at in places]))
        return x
    if {1: "linear", 2: "bilinear", 3: "trilinear"}.get(nd) != mode and (nd, mode) != (2, "bicubic"):
        raise refuse(NotImplementedError, f"interpolate: mode {mode!r} for {input.dim()}-D input is not supported")
    make = _smooth_table if antialias else _interpolation_table
    if nd == 2 and x.dtype.name == "uint8":
        x = x.long()
        for d in (1, 0):
            if sizes[d] != out[d]:
                args = (make, mode == "bicubic", sizes[d], out[d], float(scales[d]) if scales[d] else None, bool(align_corners))
                x = _resample(None, x, 2 + d, _whole_table, *args)
                bits = _whole_weights(*args)[1]
                x = ((x + (1 << bits >> 1)) // (1 << bits)).clamp(0, 255)
        return x.byte()
    for d, (n, o, s) in enumerate(zip(sizes, out, scales)):
        x = _resample(None, x, 2 + d, make, mode == "bicubic", n, o, float(s) if s else None, bool(align_corners))
    return x


def _interpolation_table(cubic, n, o, s, align_corners):
    if n == o and not cubic:
        return [[(i, 1.0)] for i in range(n)]
    rows = []
    for i in range(o):
        if align_corners:
            at = i * (n - 1) / (o - 1) if o > 1 else 0.0
        else:
            at = (i + 0.5) * (1.0 / s if s else n / o) - 0.5
        if cubic:
            k = int(_math.floor(at))
            taps = [(min(max(k + j, 0), n - 1), _cubic(at - k - j)) for j in (-1, 0, 1, 2)]
        else:
            at = max(at, 0.0)
            k = min(int(at), n - 1)
            taps = [(k, 1.0 - (at - k)), (min(k + 1, n - 1), at - k)]
        rows.append(taps)
    return rows


@_lru_cache(maxsize=64)
def _whole_weights(make, *args):
    """The table make(*args) for bytes: weights as 16-bit whole numbers in units of 2**-bits, and bits."""
    rows = []
    for row in make(*args):
        taps = {}
        for j, v in row:
            taps[j] = taps.get(j, 0.0) + v
        rows.append(taps)
    most = max([v for taps in rows for v in taps.values()])
    bits = 0
    while bits < 22 and int(0.5 + most * (2 << bits)) < 1 << 15:
        bits += 1
    return [[(j, int(v * (1 << bits) + (0.5 if v >= 0 else -0.5))) for j, v in taps.items()] for taps in rows], bits


def _whole_table(*args):
    return _whole_weights(*args)[0]


def _smooth_table(cubic, n, o, s, align_corners):
    """Antialias: the filter is stretched by the step where that is above 1, weights are divided by their sum."""
    step = ((n - 1) / (o - 1) if o > 1 else 0.0) if align_corners else 1.0 / s if s else n / o
    wide = max(step, 1.0)
    reach = (2.0 if cubic else 1.0) * wide
    rows = []
    for i in range(o):
        centre = step * (i + 0.5)
        first, last = max(int(centre - reach + 0.5), 0), min(int(centre + reach + 0.5), n)
        at = [(j - centre + 0.5) / wide for j in range(first, last)]
        shares = [_cubic(t, -0.5) if cubic else max(1.0 - abs(t), 0.0) for t in at]
        total = sum(shares)
        rows.append([(first + j, v / total if total else v) for j, v in enumerate(shares)])
    return rows


def upsample(input, size=None, scale_factor=None, mode="nearest", align_corners=None):
    push_site()
    return interpolate(input, size, scale_factor, mode, align_corners)


def upsample_nearest(input, size=None, scale_factor=None):
    push_site()
    return interpolate(input, size, scale_factor, "nearest")


def upsample_bilinear(input, size=None, scale_factor=None):
    """interpolate, bilinear, with the corners kept."""
    push_site()
    return interpolate(input, size, scale_factor, "bilinear", align_corners=True)


def _max_unpool(nd, input, indices, kernel_size, stride, padding, output_size):
    k = tuple_of(nd, kernel_size, "kernel_size")
    s, p = tuple_of(nd, stride or k, "stride"), tuple_of(nd, padding, "padding")
    size = [(n - 1) * st + kk - 2 * pp for n, st, kk, pp in zip(input.shape[-nd:], s, k, p)]
    if output_size is not None:
        want = list(output_size)[-nd:]
        if any(not n - st < w < n + st for w, n, st in zip(want, size, s)):
            raise refuse(ValueError, f"invalid output_size \"{list(output_size)}\" (dim 0 must be between {[n - st for n, st in zip(size, s)]} and "
                         f"{[n + st for n, st in zip(size, s)]})")
        size = want
    lead = tuple(input.shape[:-nd])
    flat = input.reshape(*lead, _math.prod(input.shape[-nd:]))
    # Places named twice take one of the values; scatter reads from the one that was written last.
    empty = input.detach().new_zeros((*lead, _math.prod(size)))
    return empty.scatter(-1, indices.reshape(flat.shape), flat).reshape(*lead, *size)


def max_unpool1d(input, indices, kernel_size, stride=None, padding=0, output_size=None):
    """Values back at the places that max_pool1d(return_indices=True) found, zeros elsewhere."""
    push_site()
    return _max_unpool(1, input, indices, kernel_size, stride, padding, output_size)


def max_unpool2d(input, indices, kernel_size, stride=None, padding=0, output_size=None):
    push_site()
    return _max_unpool(2, input, indices, kernel_size, stride, padding, output_size)


def max_unpool3d(input, indices, kernel_size, stride=None, padding=0, output_size=None):
    push_site()
    return _max_unpool(3, input, indices, kernel_size, stride, padding, output_size)


def max_pool1d_with_indices(input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False):
    """(maxima, their places): max_pool1d with return_indices."""
    return _max_pool(_getframe(1), 1, input, kernel_size, stride, padding, dilation, ceil_mode, True)


def adaptive_max_pool1d_with_indices(input, output_size, return_indices=False):
    """(maxima, their places): adaptive_max_pool1d with return_indices."""
    push_site()
    return _adaptive_max_pool(1, input, output_size, True)


def max_pool2d_with_indices(input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False):
    """(maxima, their places): max_pool2d with return_indices."""
    return _max_pool(_getframe(1), 2, input, kernel_size, stride, padding, dilation, ceil_mode, True)


def adaptive_max_pool2d_with_indices(input, output_size, return_indices=False):
    """(maxima, their places): adaptive_max_pool2d with return_indices."""
    push_site()
    return _adaptive_max_pool(2, input, output_size, True)


def max_pool3d_with_indices(input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False):
    """(maxima, their places): max_pool3d with return_indices."""
    return _max_pool(_getframe(1), 3, input, kernel_size, stride, padding, dilation, ceil_mode, True)


def adaptive_max_pool3d_with_indices(input, output_size, return_indices=False):
    """(maxima, their places): adaptive_max_pool3d with return_indices."""
    push_site()
    return _adaptive_max_pool(3, input, output_size, True)
