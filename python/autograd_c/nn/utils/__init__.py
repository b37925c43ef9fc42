"""Gradient clipping and parameters as one vector."""
from . import rnn  # noqa: F401
from ._clip import clip_grad_norm, clip_grad_norm_, clip_grad_value_, get_total_norm
from ._vector import parameters_to_vector, vector_to_parameters

__all__ = ["clip_grad_norm", "clip_grad_norm_", "clip_grad_value_", "get_total_norm", "parameters_to_vector", "rnn",
           "vector_to_parameters"]
