"""Loss functions.  reduction: "mean" (over what the note says), "sum" or "none" (one number for each element)."""
from sys import _getframe
import warnings as _warnings

from .._call import apply, apply_multi
from .._create import arange as _arange
from .._elementwise import cast_at
from .._ffi import ffi, lib, push_site, refuse
from .._shape import broadcast_tensors
from .._special import xlogy
from .._tensor import Tensor

_unpack = ffi.unpack
_REDUCTIONS = {"none": 0, "mean": 1, "sum": 2, "elementwise_mean": 1}


def _reduction(name, size_average=None, reduce=None):
    """The core's number of a reduction."""
    if size_average is not None or reduce is not None:  # the spelling before 2018
        name = "none" if reduce is False else "sum" if size_average is False else "mean"
    try:
        return _REDUCTIONS[name]
    except (KeyError, TypeError):
        raise refuse(ValueError, f"{name} is not a valid value for reduction") from None


def _reduced(loss, reduction):
    r = _reduction(reduction)
    return loss.mean() if r == 1 else loss.sum() if r == 2 else loss


def _same_shape(a, b):
    """As a.shape == b.shape, without making the two objects."""
    a, b = a._h, b._h
    n = lib.ag_tensor_ndim(a)
    return n == lib.ag_tensor_ndim(b) and _unpack(lib.ag_tensor_shape(a), n) == _unpack(lib.ag_tensor_shape(b), n)


def _pair(input, target, stacklevel=3):
    """Both broadcast to one shape, with PyTorch's warning when they differ."""
    a, b = input.shape, target.shape
    if a == b:
        return input, target
    _warnings.warn(f"Using a target size ({b}) that is different to the input size ({a}). This will likely lead to incorrect results due "
                   "to broadcasting. Please ensure they have the same size.", UserWarning, stacklevel=_stacklevel(stacklevel))
    return broadcast_tensors(input, target)


def _stacklevel(base):
    """stacklevel that names the user's line also when a module of ours called the function."""
    f, n = _getframe(base - 1), base - 1
    while f.f_back is not None and f.f_globals.get("__name__", "").partition(".")[0] == __name__.partition(".")[0]:
        f = f.f_back
        n += 1
    return n


def _promote(f, input, target):
    if lib.ag_tensor_dtype(input._h) != lib.ag_tensor_dtype(target._h):
        from .._elementwise import promoted

        d = promoted(input, target)
        return cast_at(f, input, d), cast_at(f, target, d)
    return input, target


def mse_loss(input, target, size_average=None, reduce=None, reduction="mean", weight=None):
    """(input - target)^2, mean over all elements."""
    f = _getframe(1)
    if not _same_shape(input, target):
        push_site()
        input, target = _pair(input, target)
    input, target = _promote(f, input, target)
    if weight is not None:
        push_site()
        loss = (input - target).square() * weight
        return loss.sum() / weight.expand_as(loss).sum() if _reduction(reduction) == 1 else _reduced(loss, reduction)
    return apply(f, "mse_loss", (input, target), (_reduction(reduction, size_average, reduce),))


def l1_loss(input, target, size_average=None, reduce=None, reduction="mean", weight=None):
    """|input - target|, mean over all elements."""
    push_site()
    _reduction(reduction)
    input, target = _pair(input, target)
    loss = (input - target).abs()
    if weight is not None:
        loss = loss * weight
        if _reduction(reduction) == 1:
            return loss.sum() / weight.expand_as(loss).sum()
    return _reduced(loss, reduction)


def smooth_l1_loss(input, target, size_average=None, reduce=None, reduction="mean", beta=1.0):
    """Half the square over beta where |d| < beta, |d| - beta / 2 elsewhere.  Source: Girshick, Fast R-CNN, 2015."""
    push_site()
    if beta < 0:
        raise refuse(RuntimeError, "smooth_l1_loss does not support negative values for beta.")
    input, target = _pair(input, target)
    if beta == 0:
        return _reduced((input - target).abs(), reduction)
    f = _getframe(1)
    return _reduced(apply(f, "smooth_l1", _promote(f, input, target), (), (float(beta),)), reduction)


def huber_loss(input, target, reduction="mean", delta=1.0, weight=None):
    """d^2 / 2 where |d| < delta, delta (|d| - delta / 2) elsewhere.  Source: Huber, 1964."""
    push_site()
    if delta <= 0:
        raise refuse(RuntimeError, "huber_loss does not support non-positive values for delta.")
    input, target = _pair(input, target)
    f = _getframe(1)
    loss = apply(f, "huber", _promote(f, input, target), (), (float(delta),))
    if weight is not None:
        loss = loss * weight
        if _reduction(reduction) == 1:
            return loss.sum() / weight.expand_as(loss).sum()
    return _reduced(loss, reduction)


def nll_loss(input, target, weight=None, size_average=None, ignore_index=-100, reduce=None, reduction="mean"):
    """-input[n, target[n]], weighted; mean: over the sum of the weights of the targets that are not ignored.

    input: log-probabilities (N, C), (C) or (N, C, d..); target: int64 class indices of that shape without C.
    """
    f = _getframe(1)
    if input.dim() < 1:
        raise refuse(ValueError, f"Expected 1 or more dimensions (got {input.dim()})")
    args = (input, target) if weight is None else (input, target, weight)
    return apply_multi(f, "nll_loss", args, 2, (_reduction(reduction, size_average, reduce), int(ignore_index)))[0]


def cross_entropy(input, target, weight=None, size_average=None, ignore_index=-100, reduce=None, reduction="mean", label_smoothing=0.0):
    """nll_loss(log_softmax(input, 1), target).

    input: logits (N, C), (C) or (N, C, d..).  target: class indices (int64, that shape without C) or probabilities
    (the input's shape).  label_smoothing in [0, 1]: share of the target spread evenly over the classes
    (Szegedy et al., 2016).
    """
    f = _getframe(1)
    if not isinstance(target, Tensor):
        raise refuse(TypeError, f"cross_entropy_loss(): argument 'target' (position 2) must be Tensor, not {type(target).__name__}")
    reduction = _reduction(reduction, size_average, reduce)
    if not 0.0 <= label_smoothing <= 1.0:
        raise refuse(RuntimeError, f"label_smoothing must be between 0.0 and 1.0. Got: {label_smoothing}")
    dim = 0 if input.dim() == 1 else 1
    if input.dim() < 1:
        raise refuse(RuntimeError, "cross_entropy(): the input needs at least one dimension")
    if target.is_floating_point() and target.dim() == input.dim():
        if _same_shape(input, target):
            push_site()
            return _soft_cross_entropy(input, target, weight, reduction, label_smoothing, dim)
        raise refuse(RuntimeError, f"cross_entropy(): probabilities must have the input's shape {input.shape}, not {target.shape}")
    if weight is not None and weight.numel() != input.shape[dim]:
        raise refuse(RuntimeError, f"cross_entropy: weight tensor should be defined either for all {input.shape[dim]} classes or no classes but "
                     f"got weight tensor of shape: {list(weight.shape)}")
    logp = apply(f, "log_softmax", (input,), (dim,))
    args = (logp, target) if weight is None else (logp, target, weight)
    loss, total = apply_multi(f, "nll_loss", args, 2, (reduction, int(ignore_index)))
    if not label_smoothing:
        return loss
    push_site()
    n = input.shape[dim]
    if weight is None:
        smooth = -logp.sum(dim)
    else:
        smooth = -(logp * weight.view(-1, *[1] * (input.dim() - dim - 1))).sum(dim)
    ignored = target == ignore_index
    smooth = smooth.masked_fill(ignored, 0.0)
    if reduction == 1:
        smooth = smooth.sum() / total.detach()
    elif reduction == 2:
        smooth = smooth.sum()
    return (1.0 - label_smoothing) * loss + smooth * (label_smoothing / n)


def _soft_cross_entropy(input, target, weight, reduction, label_smoothing, dim):
    n = input.shape[dim]
    if label_smoothing:
        target = target * (1.0 - label_smoothing) + label_smoothing / n
    logp = apply(None, "log_softmax", (input,), (dim,))
    if weight is not None:
        target = target * weight.view(-1, *[1] * (input.dim() - dim - 1))
    loss = -(logp * target).sum(dim)
    if reduction == 1:
        return loss.sum() / (input.numel() / n)  # PyTorch: over the batch, whatever the weights
    return loss.sum() if reduction == 2 else loss


def binary_cross_entropy(input, target, weight=None, size_average=None, reduce=None, reduction="mean"):
    """-(t log x + (1 - t) log(1 - x)) for probabilities x in [0, 1]; logarithms are not below -100."""
    push_site()
    if input.shape != target.shape:
        raise refuse(ValueError, f"Using a target size ({target.shape}) that is different to the input size ({input.shape}) is deprecated. Please "
                     "ensure they have the same size.")
    # Where the logarithm is cut the gradient would be 0 * inf; the smallest number instead of 0 keeps it 0.
    tiny = 1.401298464324817e-45 if input.dtype.itemsize == 4 else 5e-324
    log_x = input.clamp(min=tiny).log().clamp(min=-100.0)
    log_1 = (1.0 - input).clamp(min=tiny).log().clamp(min=-100.0)
    loss = (target - 1.0) * log_1 - target * log_x
    return _reduced(loss if weight is None else loss * weight, reduction)


def binary_cross_entropy_with_logits(input, target, weight=None, size_average=None, reduce=None, reduction="mean", pos_weight=None):
    """binary_cross_entropy of sigmoid(input), without overflow; pos_weight multiplies the part of the positive class."""
    push_site()
    if input.shape != target.shape:
        raise refuse(ValueError, f"Target size ({target.shape}) must be the same as input size ({input.shape})")
    f = _getframe(1)
    soft = apply(f, "softplus", (-input,), (), (1.0, 40.0))  # -log sigmoid(x)
    if pos_weight is not None:
        soft = soft * ((pos_weight - 1.0) * target + 1.0)
    loss = (1.0 - target) * input + soft
    return _reduced(loss if weight is None else loss * weight, reduction)


def kl_div(input, target, size_average=None, reduce=None, reduction="mean", log_target=False):
    """target (log target - input): divergence of the distribution `target` from log-probabilities `input`.

    reduction "batchmean": the sum over the batch size (the mathematical value).  log_target: target holds logarithms.
    """
    push_site()
    if log_target:
        loss = target.exp() * (target - input)
    else:
        loss = xlogy(target, target) - target * input
    if reduction == "batchmean":
        return loss.sum() / input.shape[0] if input.dim() else loss.sum()
    if reduction == "mean":
        _warnings.warn("reduction: 'mean' divides the total loss by both the batch size and the support size.'batchmean' divides only by "
                       "the batch size, and aligns with the KL div math definition.'mean' will be changed to behave the same as "
                       "'batchmean' in the next major release.", UserWarning, stacklevel=_stacklevel(2))
    return _reduced(loss, reduction)


def poisson_nll_loss(input, target, log_input=True, full=False, size_average=None, eps=1e-8, reduce=None, reduction="mean"):
    """exp(input) - target input (log_input), or input - target log(input + eps); full adds Stirling's term."""
    import math

    push_site()
    loss = input.exp() - target * input if log_input else input - target * (input + eps).log()
    if full:
        stirling = target * target.log() - target + 0.5 * (2 * math.pi * target).log()
        loss = loss + stirling.masked_fill(target <= 1, 0.0)
    return _reduced(loss, reduction)


def gaussian_nll_loss(input, target, var, full=False, eps=1e-6, reduction="mean"):
    """(log var + (input - target)^2 / var) / 2, var not below eps; full adds log(2 pi) / 2."""
    import math

    push_site()
    if isinstance(var, float):
        var = input.new_full(input.shape, var)
    if var.shape != input.shape:
        if input.shape[:-1] == var.shape:
            var = var.unsqueeze(-1)
        elif not (input.shape[:-1] == var.shape[:-1] and var.shape[-1] == 1):
            raise refuse(ValueError, "var is of incorrect size")
    if not lib.ag_tracing() and bool((var.detach() < 0).any()):
        raise refuse(ValueError, "var has negative entry/entries")
    var = var + (var.detach().clamp(min=eps) - var.detach())  # the floor takes no part in the gradient
    loss = 0.5 * (var.log() + (input - target).square() / var)
    if full:
        loss = loss + 0.5 * math.log(2 * math.pi)
    return _reduced(loss, reduction)


def soft_margin_loss(input, target, size_average=None, reduce=None, reduction="mean"):
    """log(1 + exp(-target input)), targets 1 and -1."""
    push_site()
    return _reduced(apply(None, "softplus", (-target * input,), (), (1.0, 40.0)), reduction)


def hinge_embedding_loss(input, target, margin=1.0, size_average=None, reduce=None, reduction="mean"):
    """input where target is 1, max(0, margin - input) where it is -1."""
    push_site()
    loss = (margin - input).clamp(min=0.0).masked_fill(target == 1, 0.0) + input.masked_fill(target == -1, 0.0)
    return _reduced(loss, reduction)


def margin_ranking_loss(input1, input2, target, margin=0.0, size_average=None, reduce=None, reduction="mean"):
    """max(0, -target (input1 - input2) + margin)."""
    push_site()
    if not input1.dim() == input2.dim() == target.dim():
        raise refuse(RuntimeError, f"margin_ranking_loss : All input tensors should have same dimension but got sizes: input1: {input1.shape}, "
                     f"input2: {input2.shape}, target: {target.shape} ")
    return _reduced((-target * (input1 - input2) + margin).clamp(min=0.0), reduction)


def cosine_embedding_loss(input1, input2, target, margin=0.0, size_average=None, reduce=None, reduction="mean"):
    """1 - cos where target is 1, max(0, cos - margin) where it is -1."""
    push_site()
    eps = 1e-12
    cos = (input1 * input2).sum(-1) / (((input1 * input1).sum(-1) + eps) * ((input2 * input2).sum(-1) + eps)).sqrt()
    loss = (1.0 - cos).masked_fill(target == -1, 0.0) + (cos - margin).clamp(min=0.0).masked_fill(target == 1, 0.0)
    return _reduced(loss, reduction)


def multilabel_soft_margin_loss(input, target, weight=None, size_average=None, reduce=None, reduction="mean"):
    """Mean over the classes (last dim) of binary_cross_entropy_with_logits."""
    push_site()
    f = _getframe(1)
    loss = target * apply(f, "softplus", (-input,), (), (1.0, 40.0)) + (1.0 - target) * apply(f, "softplus", (input,), (), (1.0, 40.0))
    if weight is not None:
        loss = loss * weight
    return _reduced(loss.sum(-1) / input.shape[-1], reduction)


def triplet_margin_loss(anchor, positive, negative, margin=1.0, p=2, eps=1e-6, swap=False, size_average=None, reduce=None,
                        reduction="mean"):
    """max(0, |anchor - positive| - |anchor - negative| + margin), distances in the p-norm of the last dim."""
    from .functional import pairwise_distance

    push_site()
    if margin <= 0:
        raise refuse(ValueError, f"margin must be greater than 0, got {margin}")
    near, far = pairwise_distance(anchor, positive, p, eps), pairwise_distance(anchor, negative, p, eps)
    if swap:
        far = far.minimum(pairwise_distance(positive, negative, p, eps))
    return _reduced((margin + near - far).clamp(min=0.0), reduction)


def triplet_margin_with_distance_loss(anchor, positive, negative, *, distance_function=None, margin=1.0, swap=False, reduction="mean"):
    """triplet_margin_loss with a distance of the user's (pairwise_distance)."""
    from .functional import pairwise_distance

    push_site()
    if margin <= 0:
        raise refuse(ValueError, f"margin must be greater than 0, got {margin}")
    d = distance_function or pairwise_distance
    near, far = d(anchor, positive), d(anchor, negative)
    if swap:
        far = far.minimum(d(positive, negative))
    return _reduced((margin + near - far).clamp(min=0.0), reduction)


def multi_margin_loss(input, target, p=1, margin=1.0, weight=None, size_average=None, reduce=None, reduction="mean"):
    """sum over the other classes of max(0, margin - x[target] + x[i])^p, over the number of classes."""
    push_site()
    if p not in (1, 2):
        raise refuse(ValueError, "only p == 1 and p == 2 supported")
    _reduction(reduction)
    if weight is not None and weight.dim() != 1:
        raise refuse(ValueError, "weight must be one-dimensional")
    x, t = (input.reshape(1, -1), target.reshape(1)) if input.dim() < 2 else (input, target)
    z = (margin - x.gather(1, t.unsqueeze(1)) + x).clamp(min=0.0)
    if p == 2:
        z = z.square()
    if weight is not None:
        z = z * weight.index_select(0, t).unsqueeze(1)
    own = t.unsqueeze(1) == _arange(x.shape[1])
    loss = z.masked_fill(own, 0.0).sum(1) / x.shape[1]
    return _reduced(loss.reshape(target.shape), reduction)


def multilabel_margin_loss(input, target, size_average=None, reduce=None, reduction="mean"):
    """sum over targets j and other classes i of max(0, 1 - (x[j] - x[i])), over the number of classes.

    target: class numbers, those after the first -1 of a row are ignored.
    """
    push_site()
    _reduction(reduction)
    if input.dim() > 2 or not input.numel() and (input.dim() < 2 or not input.shape[1]):
        raise refuse(RuntimeError, f"Expected non-empty vector or matrix with optional 0-dim batch size, but got: {list(input.shape)}")
    if input.shape != target.shape and (input.dim() or target.numel() != 1):
        raise refuse(RuntimeError, f"inconsistent target size: {list(target.shape)} for input of size: {list(input.shape)}")
    x, t = (input.reshape(1, -1), target.reshape(1, -1)) if input.dim() < 2 else (input, target)
    n = x.shape[1]
    named = (t < 0).long().cumsum(1) == 0
    hot = (t.unsqueeze(2) == _arange(n)) & named.unsqueeze(2)
    is_target = hot.any(1)
    z = (1.0 - (x.gather(1, t.clamp(min=0)).unsqueeze(2) - x.unsqueeze(1))).clamp(min=0.0)
    keep = named.unsqueeze(2) & is_target.logical_not().unsqueeze(1)
    loss = z.masked_fill(keep.logical_not(), 0.0).sum((1, 2)) / n
    return _reduced(loss if input.dim() > 1 else loss.reshape(()), reduction)


def linear_cross_entropy(input, linear_weight, target, *, linear_bias=None, weight=None, reduction="mean", ignore_index=None,
                         label_smoothing=0.0, options=None):
    """cross_entropy(linear(input, linear_weight, linear_bias), target); linear_weight (C, in) or (C, d.., in)."""
    from .functional import linear

    push_site()
    shape = tuple(linear_weight.shape)
    if ignore_index is not None and target.is_floating_point():
        raise refuse(RuntimeError, "ignore_index cannot be specified when target contains probabilities")
    if len(shape) > 2 and input.dim() < 2:
        raise refuse(RuntimeError, f"K-dimensional loss defined by linear_weight shape {shape} requires batched input, (N, {shape[-1]}), got "
                     f"unbatched input with shape {tuple(input.shape)}")
    w, b = linear_weight.reshape(-1, shape[-1]), None if linear_bias is None else linear_bias.reshape(-1)
    logits = linear(input, w, b).reshape(*input.shape[:-1], *shape[:-1])
    return cross_entropy(logits, target, weight=weight, reduction=reduction,
                         ignore_index=-100 if ignore_index is None else ignore_index, label_smoothing=label_smoothing)
