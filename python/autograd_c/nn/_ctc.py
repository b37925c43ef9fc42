"""Connectionist temporal classification."""
from sys import _getframe

from .._call import apply
from .._create import tensor
from .._dtypes import int64
from .._elementwise import cast_at
from .._ffi import push_site, refuse
from .._tensor import Tensor
from ._losses import _reduction


def _lengths(f, x, name):
    if not isinstance(x, Tensor):
        return tensor([int(n) for n in x], dtype=int64)
    if x.is_floating_point() or x.dtype.name == "bool":
        raise refuse(RuntimeError, f"{name} must be integral")
    return cast_at(f, x.reshape(1) if x.dim() == 0 else x, int64)


def ctc_loss(log_probs, targets, input_lengths, target_lengths, blank=0, reduction="mean", zero_infinity=False):
    """-log of the probability that the steps of log_probs spell the targets, over all alignments.

    log_probs (T, N, C) or (T, C), after log_softmax; targets: labels in [0, C), (N, S) padded, or all in a row, or (S) for
    log_probs (T, C); input_lengths, target_lengths: N ints or an integer tensor.  reduction "mean" divides each loss by its
    target's length (at least 1) and takes the mean.  zero_infinity: samples whose targets are too long count 0, and so does
    their gradient.  The gradient is that of PyTorch: exact behind log_softmax.  A second derivative exists (PyTorch has
    none).  Source: Graves et al., 2006.
    """
    f = _getframe(1)
    push_site()
    r = _reduction(reduction)
    batched = log_probs.dim() == 3
    if log_probs.dim() == 2:
        log_probs = log_probs.unsqueeze(1)
    times, labels = _lengths(f, input_lengths, "input_lengths"), _lengths(f, target_lengths, "target_lengths")
    loss = apply(f, "ctc_loss", (log_probs, cast_at(f, targets, int64), times, labels), (int(blank), bool(zero_infinity)))
    if r == 1:
        sizes = (labels.clamp(min=1).to(loss.dtype) if isinstance(target_lengths, Tensor)
                 else tensor([max(int(n), 1) for n in target_lengths], dtype=loss.dtype))
        return (loss / sizes).mean()
    return loss.sum() if r == 2 else loss if batched else loss.squeeze(0)
