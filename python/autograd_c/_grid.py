"""Sampling at the points of a grid, as the functions of the top level spell it (nn.functional.grid_sample says more)."""
from sys import _getframe

from ._call import apply
from ._ffi import lib, refuse

_dtype = lib.ag_tensor_dtype


def _sampler(f, dims, input, grid, mode, padding, align):
    if dims is not None and input.dim() != dims:
        raise refuse(RuntimeError, f"grid_sampler_{dims - 2}d(): expected {dims}D input, but got input with sizes {list(input.shape)}")
    if _dtype(input._h) != _dtype(grid._h):
        raise refuse(RuntimeError, f"grid_sampler(): expected scalar type {input.dtype} but found {grid.dtype}")
    return apply(f, "grid_sample", (input, grid), (mode, padding, 1 if align else 0, 0, 0, 0, 0))


def grid_sampler(input, grid, interpolation_mode, padding_mode, align_corners):
    """grid_sample with numbers: mode 0 bilinear, 1 nearest, 2 bicubic; padding 0 zeros, 1 border, 2 reflection."""
    return _sampler(_getframe(1), None, input, grid, interpolation_mode, padding_mode, align_corners)


def grid_sampler_2d(input, grid, interpolation_mode, padding_mode, align_corners):
    """grid_sampler of (N, C, H, W)."""
    return _sampler(_getframe(1), 4, input, grid, interpolation_mode, padding_mode, align_corners)


def grid_sampler_3d(input, grid, interpolation_mode, padding_mode, align_corners):
    """grid_sampler of (N, C, D, H, W)."""
    return _sampler(_getframe(1), 5, input, grid, interpolation_mode, padding_mode, align_corners)
