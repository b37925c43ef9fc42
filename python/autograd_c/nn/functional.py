"""Functions of neural networks under PyTorch's names (import autograd_c.nn.functional as F)."""
import math as _math
from sys import _getframe

from .._call import apply, apply_multi, tied_at
from .._elementwise import where_at
from .._ffi import lib, push_site, refuse
from .._linear import matmul_at
from .._modes import no_grad as _no_grad
from .._reduce import norm as _norm
from .._shape import broadcast_tensors as _broadcast_tensors, reshape_at as _reshape_at
from .._tensor import Tensor
from ._activations import (celu, celu_, elu, elu_, gelu, glu, gumbel_softmax, hardshrink, hardsigmoid, hardswish, hardtanh, hardtanh_,
                           leaky_relu, leaky_relu_, log_softmax, logsigmoid, mish, prelu, relu, relu6, relu_, rrelu, rrelu_, selu, selu_,
                           sigmoid, silu, softmax, softmin, softplus, softshrink, softsign, tanh, tanhshrink, threshold, threshold_)
from ._attention import multi_head_attention_forward, scaled_dot_product_attention
from ._ctc import ctc_loss
from ._dropout import (alpha_dropout, dropout, dropout1d, dropout2d, dropout3d, feature_alpha_dropout, fractional_max_pool2d,
                       fractional_max_pool2d_with_indices, fractional_max_pool3d, fractional_max_pool3d_with_indices)
from ._grid import affine_grid, grid_sample
from ._losses import (binary_cross_entropy, binary_cross_entropy_with_logits, cosine_embedding_loss, cross_entropy, gaussian_nll_loss,
                      hinge_embedding_loss, huber_loss, kl_div, l1_loss, linear_cross_entropy, margin_ranking_loss, mse_loss,
                      multi_margin_loss, multilabel_margin_loss, multilabel_soft_margin_loss, nll_loss, poisson_nll_loss,
                      smooth_l1_loss, soft_margin_loss, triplet_margin_loss, triplet_margin_with_distance_loss)
from ._spatial import (adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d, adaptive_max_pool1d, adaptive_max_pool2d,
                       adaptive_max_pool3d, avg_pool1d, avg_pool2d, avg_pool3d, channel_shuffle, conv1d, conv2d, conv3d,
                       conv_transpose1d, conv_transpose2d, conv_transpose3d, fold, interpolate, lp_pool1d, lp_pool2d, lp_pool3d, max_pool1d,
                       max_pool2d, max_pool3d, max_unpool1d, max_unpool2d, max_unpool3d, pad, pixel_shuffle, pixel_unshuffle, unfold,
                       upsample, upsample_bilinear, upsample_nearest,
                       max_pool1d_with_indices, max_pool2d_with_indices, max_pool3d_with_indices, adaptive_max_pool1d_with_indices,
                       adaptive_max_pool2d_with_indices, adaptive_max_pool3d_with_indices)

__all__ = [n for n in globals() if not n.startswith("_") and n not in (
    "apply", "apply_multi", "tied_at", "where_at", "lib", "push_site", "refuse", "matmul_at", "Tensor")]
__all__ += ["linear", "bilinear", "embedding", "embedding_bag", "one_hot", "layer_norm", "rms_norm", "group_norm", "batch_norm",
            "instance_norm", "local_response_norm", "normalize", "cosine_similarity", "pairwise_distance", "pdist"]


def linear(input, weight, bias=None):
    """input @ weight.T + bias: (.., in) with weight (out, in), bias (out) -> (.., out)."""
    f = _getframe(1)
    try:
        n = input.ndim
    except AttributeError:
        raise refuse(TypeError, f"linear(): argument 'input' (position 1) must be Tensor, not {type(input).__name__}") from None
    wt = apply(f, "t", (weight,)) if weight.dim() == 2 else weight
    if bias is not None and n == 2 and bias.dim() == 1 and weight.dim() == 2:
        return apply(f, "addmm", (bias, input, wt))
    if bias is not None and n > 2 and bias.dim() == 1 and weight.dim() == 2:  # the leading dims fold into the rows
        s = tuple(input.shape)
        rows = _reshape_at(f, input, (_math.prod(s[:-1]), s[-1]))
        return apply(f, "view", (apply(f, "addmm", (bias, rows, wt)),), (*s[:-1], weight.shape[0]))
    r = matmul_at(f, input, wt)
    return r if bias is None else apply(f, "add", (r, bias))


def bilinear(input1, input2, weight, bias=None):
    """x1 W x2 for each output: (.., in1), (.., in2), weight (out, in1, in2) -> (.., out)."""
    push_site()
    lead = tuple(input1.shape[:-1])
    a = input1.reshape(-1, input1.shape[-1])
    b = input2.reshape(-1, input2.shape[-1])
    r = ((a @ weight) * b).sum(-1, dtype=input1.dtype).t().reshape(*lead, weight.shape[0])
    return r if bias is None else r + bias


def embedding(input, weight, padding_idx=None, max_norm=None, norm_type=2.0, scale_grad_by_freq=False, sparse=False):
    """Rows of weight (n, d) at the int indices `input`: (.., d).

    padding_idx: a row without gradient.  max_norm: looked-up rows longer than this are scaled down in place.
    """
    f = _getframe(1)
    if input.dtype.is_floating_point:
        raise refuse(RuntimeError, "Expected tensor for argument #1 'indices' to have one of the following scalar types: Long, Int; but "
                     f"got torch.{input.dtype.tensor_name} instead (while checking arguments for embedding)")
    if max_norm is not None:
        push_site()
        with _no_grad():
            rows = input.reshape(-1)
            found = weight.detach().index_select(0, rows)
            length = _norm(found, norm_type, 1, True)
            weight.detach().index_copy_(0, rows, found * (max_norm / (length + 1e-7)).clamp(max=1.0))
    r = apply(f, "embedding", (weight, input))
    if padding_idx is None or not r.requires_grad:
        return r
    n = weight.shape[0]
    if not -n <= padding_idx < n:
        raise AssertionError("Padding_idx must be within num_embeddings")
    push_site()
    return where_at(f, (input == padding_idx % n).unsqueeze(-1), r.detach(), r)


def embedding_bag(input, weight, offsets=None, max_norm=None, norm_type=2, scale_grad_by_freq=False, mode="mean", sparse=False,
                  per_sample_weights=None, include_last_offset=False, padding_idx=None):
    """Sum, mean or max of the rows of each bag: input (B, n), or (n) cut into bags at `offsets`."""
    push_site()
    if per_sample_weights is not None and mode != "sum":
        raise refuse(NotImplementedError, "embedding_bag: per_sample_weights was not None. per_sample_weights is only supported for mode='sum' (got "
                     f"mode='{mode}'). Please open a feature request on GitHub.")
    if mode not in ("sum", "mean", "max"):
        raise refuse(ValueError, "mode has to be one of sum, mean or max")
    if input.dim() == 2:
        if offsets is not None:
            raise refuse(ValueError, "if input is 2D, then offsets has to be None, as input is treated is a mini-batch of fixed length sequences.")
        bags = input
    elif offsets is None:
        raise refuse(ValueError, "offsets has to be a 1D Tensor but got None")
    else:
        bags, hole = _bags(input, offsets.tolist() + ([] if include_last_offset else [input.numel()]))
        if per_sample_weights is not None and hole is not None:
            per_sample_weights = _bags(per_sample_weights, offsets.tolist() + ([] if include_last_offset else [input.numel()]))[0]
        if hole is not None and not bags.shape[1]:
            return weight.detach().new_zeros((bags.shape[0], weight.shape[1]))
    if input.dim() == 2:
        hole = None
    if padding_idx is not None:
        padded = bags == padding_idx % weight.shape[0]
        hole = padded if hole is None else hole | padded
    rows = embedding(bags, weight, None, max_norm, norm_type)
    if not bags.numel():
        return rows.sum(1)
    if hole is None:
        if per_sample_weights is not None:
            return matmul_at(None, per_sample_weights.reshape(bags.shape[0], 1, bags.shape[1]), rows).squeeze(1)
        return rows.sum(1) if mode == "sum" else rows.mean(1) if mode == "mean" else rows.max(1)[0]
    out = hole.unsqueeze(2)
    if mode == "max":
        return rows.masked_fill(out, -_math.inf).max(1)[0].masked_fill(hole.all(1).unsqueeze(1), 0.0)
    rows = rows.masked_fill(out, 0.0)
    if per_sample_weights is not None:
        rows = rows * per_sample_weights.reshape(*bags.shape, 1)
    total = rows.sum(1)
    return total if mode == "sum" else total / hole.logical_not().sum(1).clamp(min=1).to(total.dtype).unsqueeze(1)


def _bags(flat, cuts):
    """Pieces of a vector between the cuts as rows of equal length, and where these hold nothing (None: nowhere)."""
    from .._create import tensor

    lengths = [b - a for a, b in zip(cuts, cuts[1:])]
    longest = max(lengths, default=0)
    if lengths and min(lengths) == longest and cuts[0] == 0 and longest * len(lengths) == flat.numel():
        return flat.reshape(len(lengths), longest), None
    n = len(lengths)
    places = [[a + k if k < length else 0 for k in range(longest)] for a, length in zip(cuts, lengths)]
    holes = [[k >= length for k in range(longest)] for length in lengths]
    if not longest:
        return flat[:0].reshape(0, 0).expand(0, 0) if not n else flat.new_zeros((n, 0)), tensor(holes).bool().reshape(n, 0)
    return flat.index_select(0, tensor([p for row in places for p in row])).reshape(n, longest), tensor(holes)


def one_hot(tensor, num_classes=-1):
    """int64 (..) -> int64 (.., num_classes) of zeros and a one; -1: the largest index + 1."""
    from .._create import arange

    push_site()
    if tensor.dtype.name != "int64":
        raise refuse(RuntimeError, "one_hot is only applicable to index tensor of type LongTensor.")
    if num_classes == -1:
        if not tensor.numel():
            raise refuse(RuntimeError, "Can not infer total number of classes from empty tensor.")
        num_classes = int(tensor.max()) + 1
    elif num_classes <= 0:
        raise refuse(RuntimeError, "num_classes should be positive")
    if not lib.ag_tracing() and tensor.numel():
        if int(tensor.min()) < 0:
            raise refuse(RuntimeError, "Class values must be non-negative.")
        if int(tensor.max()) >= num_classes:
            raise refuse(RuntimeError, "Class values must be smaller than num_classes.")
    return (tensor.unsqueeze(-1) == arange(num_classes)).long()


# ---- normalization ---------------------------------------------------------------------------------------


def layer_norm(input, normalized_shape, weight=None, bias=None, eps=1e-5):
    """(x - mean) / sqrt(var + eps) over the last dims, times weight plus bias.  Source: Ba et al., 2016."""
    f = _getframe(1)
    shape = tuple([int(n) for n in (normalized_shape if isinstance(normalized_shape, (tuple, list)) else (normalized_shape,))])
    if not shape:
        raise refuse(RuntimeError, "Expected normalized_shape to be at least 1-dimensional, i.e., containing at least one element, but got "
                     "normalized_shape = []")
    if weight is None and bias is not None:
        push_site()
        return apply_multi(f, "layer_norm", (input,), 3, shape, (float(eps),))[0] + tied_at(None, bias)
    args = (input,) if weight is None else (input, weight) if bias is None else (input, weight, bias)
    return apply_multi(f, "layer_norm", args, 3, shape, (float(eps),))[0]


def rms_norm(input, normalized_shape, weight=None, eps=None):
    """x / sqrt(mean of squares + eps) over the last dims, times weight.  Source: Zhang and Sennrich, 2019."""
    push_site()
    n = len(normalized_shape)
    if not n:
        raise refuse(RuntimeError, "Expected normalized_shape to be at least 1-dimensional, i.e., containing at least one element, but got "
                     "normalized_shape = []")
    if tuple(input.shape[-n:]) != tuple(normalized_shape):
        raise refuse(RuntimeError, f"Given normalized_shape={list(normalized_shape)}, expected input with shape "
                     f"[*{', '.join(map(str, normalized_shape))}], but got input of size{list(input.shape)}")
    if eps is None:
        eps = 2.0**-52 if input.dtype.itemsize == 8 else 2.0**-23
    r = input * (input.square().mean(tuple(range(-n, 0)), keepdim=True) + eps).rsqrt()
    return r if weight is None else r * weight


def _affine(f, x, weight, bias):
    """x times weight plus bias, one number for each channel (dim 1)."""
    if weight is not None:
        return apply(f, "scale_shift", (x, weight) if bias is None else (x, weight, bias))
    return x if bias is None else x + _channels(bias, x.dim())


def _channels(t, n):
    """A vector of channels ready to broadcast over (N, C, ...) of n dims."""
    return t.view(1, -1, *[1] * (n - 2))


def group_norm(input, num_groups, weight=None, bias=None, eps=1e-5):
    """layer_norm over each of num_groups groups of channels of (N, C, ...).  Source: Wu and He, 2018."""
    push_site()
    s = tuple(input.shape)
    if len(s) < 2:
        raise refuse(RuntimeError, f"Expected at least 2 dimensions for input tensor but received {len(s)}")
    if s[1] % num_groups:
        raise refuse(RuntimeError, f"Expected number of channels in input to be divisible by num_groups, but got input of shape {list(s)} and "
                     f"num_groups={num_groups}")
    if not input.numel():
        x = input.clone()
    else:
        x = input.reshape(s[0], num_groups, -1)
        x = apply_multi(None, "layer_norm", (x,), 3, (x.shape[-1],), (float(eps),))[0].reshape(s)
    return _affine(None, x, weight, bias)


def batch_norm(input, running_mean, running_var, weight=None, bias=None, training=False, momentum=0.1, eps=1e-5):
    """(x - mean) / sqrt(var + eps) for each channel (dim 1), times weight plus bias.

    training: mean and variance of this batch, and the running ones move towards them by `momentum` (the variance by its
    unbiased estimate); otherwise the running ones are used.  Source: Ioffe and Szegedy, 2015.
    """
    push_site()
    n = input.dim()
    if n < 2:
        if not input.numel():
            return input.clone()
        if running_mean is None:
            raise refuse(IndexError, "Dimension out of range (expected to be in range of [-1, 0], but got 1)")
    channels = input.shape[1] if n > 1 else 0
    for name, given in (("running_mean", running_mean), ("running_var", running_var), ("weight", weight), ("bias", bias)):
        if given is not None and given.numel() != channels:
            raise refuse(RuntimeError, f"{name} should contain {channels} elements not {given.numel()}")
    dims = (0, *range(2, n))
    if training:
        count = input.numel() // max(input.shape[1], 1)
        if count <= 1:
            raise refuse(ValueError, f"Expected more than 1 value per channel when training, got input size {input.shape}")
        mean = input.mean(dims, keepdim=True)
        centred = input - mean
        var = centred.square().mean(dims, keepdim=True)
        if running_mean is not None:
            with _no_grad():
                running_mean.mul_(1.0 - momentum).add_(mean.detach().reshape(-1) * momentum)
                running_var.mul_(1.0 - momentum).add_(var.detach().reshape(-1) * (momentum * count / (count - 1)))
    else:
        if running_mean is None or running_var is None:
            raise refuse(RuntimeError, "Expected running_mean and running_var to be defined when training=False")
        scale = (running_var + eps).rsqrt()
        if weight is not None:
            scale = scale * weight
        shift = running_mean * scale
        return _affine(None, input, scale, -shift if bias is None else tied_at(None, bias, input, weight) - shift)
    scale = (var + eps).rsqrt().reshape(-1)
    if weight is not None:
        scale = scale * weight
    return _affine(None, centred, scale, None if bias is None else tied_at(None, bias, input, weight))


def instance_norm(input, running_mean=None, running_var=None, weight=None, bias=None, use_input_stats=True, momentum=0.1, eps=1e-5):
    """batch_norm of each sample by itself.  Source: Ulyanov et al., 2016."""
    push_site()
    n = input.dim()
    dims = tuple(range(2, n))
    if use_input_stats:
        mean = input.mean(dims, keepdim=True)
        centred = input - mean
        var = centred.square().mean(dims, keepdim=True)
        if running_mean is not None:
            count = _math.prod(input.shape[2:])
            with _no_grad():
                running_mean.mul_(1.0 - momentum).add_(mean.detach().mean(0).reshape(-1) * momentum)
                running_var.mul_(1.0 - momentum).add_(var.detach().mean(0).reshape(-1) * (momentum * count / max(count - 1, 1)))
    else:
        centred, var = input - _channels(running_mean, n), _channels(running_var, n)
    return _affine(None, centred * (var + eps).rsqrt(), weight, None if bias is None else tied_at(None, bias, input, weight))


def local_response_norm(input, size, alpha=1e-4, beta=0.75, k=1.0):
    """x / (k + alpha mean of x^2 over `size` neighbouring channels)^beta.  Source: Krizhevsky et al., 2012."""
    push_site()
    s = tuple(input.shape)
    if len(s) < 3:
        raise refuse(ValueError, f"Expected 3D or higher dimensionality input (got {len(s)} dimensions)")
    if not input.numel():
        return input
    squares = pad(input.square().reshape(s[0], 1, s[1], _math.prod(s[2:])), (0, 0, size // 2, (size - 1) // 2))
    mean = avg_pool2d(squares, (size, 1), 1).reshape(s)
    return input / (mean * alpha + k) ** beta


def normalize(input, p=2.0, dim=1, eps=1e-12, out=None):
    """x over its p-norm along dim, the norm not below eps."""
    push_site()
    return input / _norm(input, p, dim, True).clamp(min=eps).expand_as(input)


# ---- distances ----------------------------------------------------------------------------------------------


def cosine_similarity(x1, x2, dim=1, eps=1e-8):
    """Inner product along dim over the lengths, each not below eps."""
    push_site()
    x1, x2 = _broadcast_tensors(x1, x2)
    a = x1 / _norm(x1, 2.0, dim, True).clamp(min=eps)
    b = x2 / _norm(x2, 2.0, dim, True).clamp(min=eps)
    return (a * b).sum(dim)


def pairwise_distance(x1, x2, p=2.0, eps=1e-6, keepdim=False):
    """p-norm of x1 - x2 + eps along the last dim."""
    push_site()
    return _norm(x1 - x2 + eps, float(p), -1, keepdim)


def pdist(input, p=2.0):
    """Distances of all pairs of rows, in the order (0, 1), (0, 2) ..."""
    from .._create import tensor

    push_site()
    n = input.shape[0]
    pairs = [(i, j) for i in range(n) for j in range(i + 1, n)]
    a, b = [input.index_select(0, tensor([pair[k] for pair in pairs]).long()) for k in (0, 1)]
    return _norm(a - b, float(p), -1)
