"""Dropout layers: active in training mode only."""
from . import functional as F
from .module import Module


class _DropoutNd(Module):
    def __init__(self, p=0.5, inplace=False):
        super().__init__()
        if not 0 <= p <= 1:
            raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
        self.p = p
        self.inplace = inplace

    def forward(self, input):
        return self._function(input, self.p, self.training, self.inplace)

    def extra_repr(self):
        return f"p={self.p}, inplace={self.inplace}"


class Dropout(_DropoutNd):
    """Elements set to 0 with probability p, the others divided by 1 - p."""

    _function = staticmethod(F.dropout)


class Dropout1d(_DropoutNd):
    """Whole channels of (N, C, L) set to 0."""

    _function = staticmethod(F.dropout1d)


class Dropout2d(_DropoutNd):
    """Whole channels of (N, C, H, W) set to 0."""

    _function = staticmethod(F.dropout2d)


class Dropout3d(_DropoutNd):
    """Whole channels of (N, C, D, H, W) set to 0."""

    _function = staticmethod(F.dropout3d)


class AlphaDropout(_DropoutNd):
    """Dropout that keeps mean and variance behind SELU."""

    _function = staticmethod(F.alpha_dropout)


class FeatureAlphaDropout(_DropoutNd):
    """AlphaDropout of whole channels."""

    _function = staticmethod(F.feature_alpha_dropout)
