"""Names under which PyTorch's own functions call each other: thin compositions, with gradients."""
from ._call import apply, apply_multi, tied_at
from ._ffi import push_site, refuse


def native_layer_norm(input, normalized_shape, weight, bias, eps):
    """(nn.functional.layer_norm, mean, 1 / sqrt(variance + eps)); the statistics keep the normalized dims as ones."""
    push_site()
    shape = tuple(normalized_shape)
    if not shape:
        raise refuse(RuntimeError, "Expected normalized_shape to be at least 1-dimensional, i.e., containing at least one element, but got "
                     "normalized_shape = []")
    args = (input,) if weight is None else (input, weight) if bias is None else (input, weight, bias)
    y, mean, rstd = apply_multi(None, "layer_norm", args, 3, shape, (float(eps),))
    return y if weight is not None or bias is None else y + tied_at(None, bias), mean.detach(), rstd.detach()


def native_group_norm(input, weight, bias, N, C, HxW, group, eps):
    """(nn.functional.group_norm, mean, 1 / sqrt(variance + eps)); the statistics are (N, group)."""
    push_site()
    if input.numel() != N * C * HxW:
        raise refuse(RuntimeError, f"Expected input of {N * C * HxW} elements but got {input.numel()}")
    if group < 1 or C % group:
        raise refuse(RuntimeError, f"Expected number of channels in input to be divisible by num_groups, but got input of shape "
                     f"{list(input.shape)} and num_groups={group}")
    x = input.clone()
    mean = rstd = x.new_zeros((N, group))
    if input.numel():
        x, mean, rstd = apply_multi(None, "layer_norm", (input.reshape(N, group, -1),), 3, (C // group * HxW,), (float(eps),))
    x = x.reshape(tuple(input.shape))
    along = (1, C) + (1,) * (input.dim() - 2)
    if weight is not None:
        x = x * weight.reshape(along)
    if bias is not None:
        x = x + tied_at(None, bias, input, weight).reshape(along)
    return x, mean.reshape(N, group), rstd.reshape(N, group)


def native_batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps):
    """(nn.functional.batch_norm, mean, 1 / sqrt(variance + eps)) of each channel; the statistics are empty unless training."""
    from .nn.functional import batch_norm

    push_site()
    y = batch_norm(input, running_mean, running_var, weight, bias, training, momentum, eps)
    if not training:
        return y, input.new_zeros(0), input.new_zeros(0)
    x = input.detach()
    dims = [k for k in range(x.dim()) if k != 1]
    return y, x.mean(dims), (x.var(dims, correction=0) + eps).rsqrt()


def native_dropout(input, p, train):
    """(nn.functional.dropout, mask of what was kept)."""
    push_site()
    if not train:
        return input.clone(), input.new_ones(tuple(input.shape)).bool()
    mask = input.detach().new_empty(tuple(input.shape)).uniform_() >= p
    return native_dropout_backward(input, mask, 1 / (1 - p) if p < 1 else 0.0), mask


def native_dropout_backward(grad_output, mask, scale):
    """grad_output * mask * scale."""
    push_site()
    return grad_output * (mask.to(grad_output.dtype) * scale)


def max_pool2d_with_indices_backward(grad_output, self, kernel_size, stride, padding, dilation, ceil_mode, indices):
    """grad_output added up at the places `indices` of zeros of self's shape: the gradient of max_pool2d in its input."""
    push_site()
    if grad_output.shape != indices.shape:
        raise refuse(RuntimeError, f"max_pool2d_with_indices_backward: grad_output of shape {list(grad_output.shape)} and indices of shape "
                     f"{list(indices.shape)}")
    return apply(None, "pool_scatter", (grad_output, indices), (2, *self.shape[-2:]))
