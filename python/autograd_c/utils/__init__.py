"""Helpers beside the tensors: utils.data (datasets and batches)."""
from . import data  # noqa: F401

__all__ = ["data"]
