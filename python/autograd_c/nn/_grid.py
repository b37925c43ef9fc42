"""Sampling images and volumes at the points of a grid."""
import warnings as _warnings
from sys import _getframe

from .._call import apply
from .._create import linspace, ones
from .._ffi import ffi, lib, push_site, refuse
from .._grid import _sampler
from .._shape import stack

_MODES = {"bilinear": 0, "nearest": 1, "bicubic": 2}
_PADDING = {"zeros": 0, "border": 1, "reflection": 2}
_INTS = {(m, p, a): ffi.new("int64_t[]", [_MODES[m], _PADDING[p], a, 0, 0, 0, 0]) for m in _MODES for p in _PADDING for a in (0, 1)}
_CHANGED = ("Default grid_sample and affine_grid behavior has changed to align_corners=False since 1.3.0. Please specify "
            "align_corners=True if the old behavior is desired. See the documentation of grid_sample for details.")
_dtype = lib.ag_tensor_dtype


def grid_sample(input, grid, mode="bilinear", padding_mode="zeros", align_corners=None):
    """Values of input at the points of grid.

    input (N, C, H, W) and grid (N, ..., 2) of points (x, y), or input (N, C, D, H, W) and grid (N, ..., 3) of points
    (x, y, z), with as many dims as input; result (N, C, ...).  -1 and 1 are the edges of the outermost pixels, or their
    centres with align_corners.  mode: "bilinear" (trilinear in volumes), "nearest", "bicubic" (images alone);
    padding_mode: what lies outside is 0 ("zeros"), the nearest edge ("border") or the mirror image ("reflection").
    Source: Jaderberg et al., 2015; the cubic kernel is that of Keys, 1981, with a = -3/4.
    """
    ints = _INTS.get((mode, padding_mode, align_corners))
    if ints is None:
        if mode not in _MODES:
            raise refuse(ValueError, f"nn.functional.grid_sample(): expected mode to be 'bilinear', 'nearest' or 'bicubic', but got: '{mode}'")
        if padding_mode not in _PADDING:
            raise refuse(ValueError, "nn.functional.grid_sample(): expected padding_mode to be 'zeros', 'border', or 'reflection', but got: "
                         f"'{padding_mode}'")
        if align_corners is None:
            _warnings.warn(_CHANGED, stacklevel=2)
        ints = _INTS[mode, padding_mode, bool(align_corners)]
    if _dtype(input._h) != _dtype(grid._h):
        _sampler(None, None, input, grid, 0, 0, 0)
    return apply(_getframe(1), "grid_sample", (input, grid), ints)


def affine_grid(theta, size, align_corners=None):
    """Grid for grid_sample: theta (N, 2, 3) times (x, y, 1) at each point of size (N, C, H, W), likewise in three dims.

    Result (N, H, W, 2) or (N, D, H, W, 3).
    """
    if align_corners is None:
        _warnings.warn(_CHANGED, stacklevel=2)
    push_site()
    size = [int(n) for n in size]
    if not theta.is_floating_point():
        raise refuse(ValueError, f"Expected theta to have floating point type, but got {theta.dtype}")
    nd = len(size) - 2
    if nd not in (2, 3):
        raise refuse(NotImplementedError, "affine_grid only supports 4D and 5D sizes, for 2D and 3D affine transforms, respectively. Got size "
                     f"{size}.")
    if theta.dim() != 3 or tuple(theta.shape[1:]) != (nd, nd + 1):
        raise refuse(ValueError, f"Expected a batch of {nd}D affine matrices of shape Nx{nd}x{nd + 1} for size {size}. Got {theta.shape}.")
    if min(size) <= 0:
        raise refuse(ValueError, f"Expected non-zero, positive output size. Got {size}")
    sizes = size[2:]
    axes = []
    for k in range(nd - 1, -1, -1):  # x belongs to the last dim
        n = sizes[k]
        steps = linspace(-1.0, 1.0, n, dtype=theta.dtype) if n > 1 else ones(1, dtype=theta.dtype) * 0.0
        if not align_corners and n > 1:
            steps = steps * ((n - 1) / n)
        axes.append(steps.view(*[-1 if j == k else 1 for j in range(nd)]).expand(*sizes))
    base = stack([*axes, ones(1, dtype=theta.dtype).expand(*sizes)], -1).reshape(-1, nd + 1)
    return (base @ theta.transpose(1, 2)).view(theta.shape[0], *sizes, nd)
