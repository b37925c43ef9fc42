"""Convolution layers of one to three dims, plain, transposed and lazy."""
import math as _math

from .._ffi import refuse
from . import functional as F, init
from .._create import empty
from ._lazy import LazyModule, uninitialized
from ._parameter import Parameter
from ._spatial import same_padding, tuple_of
from .module import Module


class _ConvNd(Module):
    _nd = 0
    _transposed = False

    def __init__(self, in_channels, out_channels, kernel_size, stride=1, padding=0, dilation=1, groups=1, bias=True,
                 padding_mode="zeros", device=None, dtype=None, output_padding=0):
        super().__init__()
        if groups <= 0:
            raise refuse(ValueError, "groups must be a positive integer")
        if in_channels % groups:
            raise refuse(ValueError, "in_channels must be divisible by groups")
        if out_channels % groups:
            raise refuse(ValueError, "out_channels must be divisible by groups")
        nd = self._nd
        if isinstance(padding, str):
            if padding not in ("same", "valid"):
                raise refuse(ValueError, f"Invalid padding string '{padding}', should be one of {{'same', 'valid'}}")
            if padding == "same" and any(s != 1 for s in tuple_of(nd, stride)):
                raise refuse(ValueError, "padding='same' is not supported for strided convolutions")
        if padding_mode not in ("zeros", "reflect", "replicate", "circular"):
            raise refuse(ValueError, "padding_mode must be one of {'zeros', 'reflect', 'replicate', 'circular'}, but got "
                         f"padding_mode='{padding_mode}'")
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.kernel_size = tuple_of(nd, kernel_size)
        self.stride = tuple_of(nd, stride)
        self.padding = padding if isinstance(padding, str) else tuple_of(nd, padding)
        self.dilation = tuple_of(nd, dilation)
        self.transposed = self._transposed
        self.output_padding = tuple_of(nd, output_padding)
        self.groups = groups
        self.padding_mode = padding_mode
        self.weight = Parameter(empty(self._weight_shape(), device=device, dtype=dtype))
        if bias:
            self.bias = Parameter(empty(out_channels, device=device, dtype=dtype))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def _weight_shape(self):
        a, b = (self.in_channels, self.out_channels) if self._transposed else (self.out_channels, self.in_channels)
        return (a, b // self.groups, *self.kernel_size)

    def reset_parameters(self):
        """U(-b, b) with b = 1 / sqrt(fan_in), as PyTorch."""
        if not self.weight.numel():
            return
        init.kaiming_uniform_(self.weight, a=_math.sqrt(5))
        if self.bias is not None:
            fan_in, _ = init._calculate_fan_in_and_fan_out(self.weight)
            if fan_in:
                bound = 1 / _math.sqrt(fan_in)
                init.uniform_(self.bias, -bound, bound)

    def _padded(self, input):
        """Input and padding of the convolution when the border is not zeros."""
        if self.padding == "valid":
            sides = [(0, 0)] * self._nd
        elif self.padding == "same":
            sides = same_padding(self.kernel_size, self.dilation)
        else:
            sides = [(p, p) for p in self.padding]
        return F.pad(input, [v for side in reversed(sides) for v in side], self.padding_mode), 0

    def forward(self, input):
        p = self._parameters
        x, padding = (input, self.padding) if self.padding_mode == "zeros" else self._padded(input)
        return self._function(x, p["weight"], p["bias"], self.stride, padding, self.dilation, self.groups)

    def extra_repr(self):
        nd = self._nd
        s = f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, stride={self.stride}"
        if self.padding != (0,) * nd:
            s += f", padding={self.padding!r}" if not isinstance(self.padding, str) else f", padding={self.padding}"
        if self.dilation != (1,) * nd:
            s += f", dilation={self.dilation}"
        if self.output_padding != (0,) * nd:
            s += f", output_padding={self.output_padding}"
        if self.groups != 1:
            s += f", groups={self.groups}"
        if self.bias is None:
            s += ", bias=False"
        if self.padding_mode != "zeros":
            s += f", padding_mode={self.padding_mode}"
        return s


class Conv1d(_ConvNd):
    """(N, C, L) -> (N, O, L'); weight (O, C / groups, K).  See functional.conv1d."""

    _nd, _function = 1, staticmethod(F.conv1d)


class Conv2d(_ConvNd):
    """(N, C, H, W) -> (N, O, H', W'); weight (O, C / groups, KH, KW).  See functional.conv2d."""

    _nd, _function = 2, staticmethod(F.conv2d)


class Conv3d(_ConvNd):
    """(N, C, D, H, W) -> (N, O, D', H', W').  See functional.conv3d."""

    _nd, _function = 3, staticmethod(F.conv3d)


class _ConvTransposeNd(_ConvNd):
    _transposed = True

    def __init__(self, in_channels, out_channels, kernel_size, stride=1, padding=0, output_padding=0, groups=1, bias=True, dilation=1,
                 padding_mode="zeros", device=None, dtype=None):
        if padding_mode != "zeros":
            raise refuse(ValueError, f'Only "zeros" padding mode is supported for {type(self).__name__}')
        super().__init__(in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias, padding_mode, device, dtype,
                         output_padding)

    def forward(self, input, output_size=None):
        extra = self.output_padding
        if output_size is not None:
            nd = self._nd
            smallest = [(n - 1) * s - 2 * p + d * (k - 1) + 1 for n, s, p, d, k in
                        zip(input.shape[-nd:], self.stride, self.padding, self.dilation, self.kernel_size)]
            extra = tuple([o - m for o, m in zip(tuple(output_size)[-nd:], smallest)])
            if any(not 0 <= e < max(s, d) for e, s, d in zip(extra, self.stride, self.dilation)):
                raise refuse(ValueError, f"requested an output size of {list(output_size)}, but valid sizes range from {smallest} to "
                             f"{[m + s - 1 for m, s in zip(smallest, self.stride)]} (for an input of {input.shape[2:]})")
        return self._function(input, self.weight, self.bias, self.stride, self.padding, extra, self.groups, self.dilation)


class ConvTranspose1d(_ConvTransposeNd):
    """(N, C, L) -> (N, O, (L - 1) stride - 2 padding + dilation (K - 1) + output_padding + 1)."""

    _nd, _function = 1, staticmethod(F.conv_transpose1d)


class ConvTranspose2d(_ConvTransposeNd):
    """Transposed convolution of (N, C, H, W); weight (C, O / groups, KH, KW)."""

    _nd, _function = 2, staticmethod(F.conv_transpose2d)


class ConvTranspose3d(_ConvTransposeNd):
    """Transposed convolution of (N, C, D, H, W)."""

    _nd, _function = 3, staticmethod(F.conv_transpose3d)


class _LazyConv(LazyModule):
    def __init__(self, out_channels, kernel_size, *args, **kw):
        bias = kw.pop("bias", True)
        groups = kw.pop("groups", 1)
        dtype = kw.get("dtype")
        super().__init__(0, 0, kernel_size, *args, groups=1, bias=False, **kw)
        self.out_channels = out_channels
        self.groups = groups
        self.weight = uninitialized(dtype)
        if bias:
            self.bias = uninitialized(dtype)

    def _shapes(self, input):
        if input.dim() not in (self._nd + 1, self._nd + 2):
            raise refuse(RuntimeError, f"Expected {self._nd + 1}D (unbatched) or {self._nd + 2}D (batched) input to {type(self).__name__}, but got "
                         f"input of size: {list(input.shape)}")
        self.in_channels = input.shape[-self._nd - 1]
        if self.in_channels % self.groups:
            raise refuse(ValueError, "in_channels must be divisible by groups")
        return {"weight": self._weight_shape(), "bias": (self.out_channels,)}


class LazyConv1d(_LazyConv, Conv1d):
    """Conv1d that learns in_channels from its first input."""

    _becomes = Conv1d


class LazyConv2d(_LazyConv, Conv2d):
    """Conv2d that learns in_channels from its first input."""

    _becomes = Conv2d


class LazyConv3d(_LazyConv, Conv3d):
    """Conv3d that learns in_channels from its first input."""

    _becomes = Conv3d
