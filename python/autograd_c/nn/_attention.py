"""Attention: softmax(query key^T) value, and its form with several heads."""
import math as _math
from sys import _getframe
import warnings as _warnings

from .._create import ones, zeros
from .._ffi import lib, push_site, refuse
from .._linear import baddbmm
from .._shape import cat
from ._activations import softmax
from ._dropout import _check_p, _dropout
from ._spatial import pad


def scaled_dot_product_attention(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False):
    """softmax(query key^T scale + mask) value: (.., L, E), (.., S, E), (.., S, V) -> (.., L, V).

    attn_mask: bool (True takes part) or a number added; is_causal: each place sees itself and earlier ones; a place that
    sees nothing gets zeros; scale: 1 / sqrt(E); enable_gqa: key and value have fewer heads, each for several of query.
    dropout_p applies to the weights whenever it is not 0.  Source: Vaswani et al., 2017.
    """
    f = _getframe(1)
    push_site()
    _check_p(dropout_p)
    if enable_gqa:
        heads = query.shape[-3]
        if heads % key.shape[-3] or heads % value.shape[-3]:
            raise refuse(RuntimeError, "Number of heads in key and value must divide the number of heads in query")
        key = key.repeat_interleave(heads // key.shape[-3], -3)
        value = value.repeat_interleave(heads // value.shape[-3], -3)
    scale = 1.0 / _math.sqrt(query.shape[-1]) if scale is None else scale
    scores = (query * scale) @ key.transpose(-2, -1)
    seen = None  # places that see anything, where some may not
    if is_causal:
        if attn_mask is not None:
            raise refuse(RuntimeError, "_scaled_dot_product_attention: Explicit attn_mask should not be set when is_causal=True")
        scores = scores.masked_fill(ones(query.shape[-2], key.shape[-2]).triu(1) > 0, -_math.inf)
    elif attn_mask is not None:
        boolean = attn_mask.dtype.name == "bool"
        live = attn_mask if boolean else attn_mask.detach() > -_math.inf
        seen = live.any(-1, keepdim=True)
        if not lib.ag_tracing() and bool(seen.all()):
            seen = None
        if seen is not None:  # theirs is a softmax of numbers, times 0
            blind = seen.logical_not()
        if boolean:
            hidden = attn_mask.logical_not()
            scores = scores.masked_fill(hidden if seen is None else hidden & seen, -_math.inf)
        else:
            scores = scores + (attn_mask if seen is None else attn_mask.masked_fill(blind, 0.0))
    weights = softmax(scores, -1)
    if seen is not None:
        weights = weights * seen.to(weights.dtype)
    if dropout_p:
        weights = _dropout(f, weights, dropout_p, True, False)
    return weights @ value


# ---- several heads ---------------------------------------------------------------------------------------------


def _require(condition, message):
    if not condition:
        raise refuse(AssertionError, message)


def _check_shapes(query, key, value, key_padding_mask, attn_mask, num_heads):
    """True: with a batch."""
    n = query.dim()
    _require(n in (2, 3), f"query should be unbatched 2D or batched 3D tensor but received {n}-D query tensor")
    kind = "batched (3-D)" if n == 3 else "unbatched (2-D)"
    _require(key.dim() == n and value.dim() == n, f"For {kind} `query`, expected `key` and `value` to be {n}-D but found {key.dim()}-D and "
             f"{value.dim()}-D tensors respectively")
    _require(key_padding_mask is None or key_padding_mask.dim() == n - 1, f"For {kind} `query`, expected `key_padding_mask` to be `None` or "
             f"{n - 1}-D but found {key_padding_mask is not None and key_padding_mask.dim()}-D tensor instead")
    if attn_mask is not None:
        _require(attn_mask.dim() in (2, 3), f"For {kind} `query`, expected `attn_mask` to be `None`, 2-D or 3-D but found {attn_mask.dim()}-D "
                 "tensor instead")
        want = (num_heads, query.shape[0], key.shape[0])
        _require(n == 3 or attn_mask.dim() == 2 or tuple(attn_mask.shape) == want,
                 f"Expected `attn_mask` shape to be {want} but got {attn_mask.shape}")
    return n == 3


def _added(mask, name, dtype, other=None):
    """A mask as numbers to add: minus infinity where a bool one is True."""
    if mask is None:
        return None
    boolean = mask.dtype.name == "bool"
    _require(boolean or mask.is_floating_point(), f"only bool and floating types of {name} are supported")
    if other is not None and other is not mask.dtype:
        _warnings.warn(f"Support for mismatched {name} and attn_mask is deprecated. Use same type for both instead.", stacklevel=4)
    return zeros(tuple(mask.shape), dtype=dtype).masked_fill_(mask, -_math.inf) if boolean else mask


def _project(query, key, value, weight, bias):
    """query, key and value through the three parts of one matrix, in one product for operands that are the same."""
    from .functional import linear

    e = query.shape[-1]
    if key is value and query is key:
        return linear(query, weight, bias).chunk(3, -1)
    parts = [(0, e, query), (e, 3 * e, key)] if key is value else [(0, e, query), (e, 2 * e, key), (2 * e, 3 * e, value)]
    out = [linear(x, weight[a:b], None if bias is None else bias[a:b]) for a, b, x in parts]
    return (out[0], *out[1].chunk(2, -1)) if key is value else out


def multi_head_attention_forward(query, key, value, embed_dim_to_check, num_heads, in_proj_weight, in_proj_bias, bias_k, bias_v,
                                 add_zero_attn, dropout_p, out_proj_weight, out_proj_bias, training=True, key_padding_mask=None,
                                 need_weights=True, attn_mask=None, use_separate_proj_weight=False, q_proj_weight=None,
                                 k_proj_weight=None, v_proj_weight=None, static_k=None, static_v=None, average_attn_weights=True,
                                 is_causal=False):
    """Attention of num_heads heads: (L, N, E), (S, N, Ek), (S, N, Ev), or without N -> (result (L, N, E), weights or None).

    in_proj_weight (3E, E) and in_proj_bias (3E), or q_proj_weight (E, E), k_proj_weight (E, Ek), v_proj_weight (E, Ev) with
    use_separate_proj_weight; bias_k, bias_v (1, 1, E): one more place; add_zero_attn: one more of zeros; static_k, static_v
    (N heads, S, E / heads) in place of the projected ones.  key_padding_mask (N, S): True is left out, or numbers added;
    attn_mask (L, S) or (N heads, L, S) likewise.  need_weights: weights (N, L, S), averaged over the heads or
    (N, heads, L, S).  Source: Vaswani et al., 2017.
    """
    from .functional import linear

    push_site()
    batched = _check_shapes(query, key, value, key_padding_mask, attn_mask, num_heads)
    if not batched:
        same = key is query, value is key
        query = query.unsqueeze(1)
        key = query if same[0] else key.unsqueeze(1)
        value = key if same[1] else value.unsqueeze(1)
        if key_padding_mask is not None:
            key_padding_mask = key_padding_mask.unsqueeze(0)
    length, n, e = tuple(query.shape)
    places = key.shape[0]
    key_padding_mask = _added(key_padding_mask, "key_padding_mask", query.dtype, None if attn_mask is None else attn_mask.dtype)
    if is_causal and attn_mask is None:
        raise refuse(RuntimeError, "Need attn_mask if specifying the is_causal hint. You may use the Transformer module method "
                     "`generate_square_subsequent_mask` to create this mask.")
    if is_causal and key_padding_mask is None and not need_weights:
        attn_mask = None
    else:
        attn_mask = _added(attn_mask, "attn_mask", query.dtype)
        is_causal = is_causal and key_padding_mask is None
    _require(e == embed_dim_to_check, f"was expecting embedding dimension of {embed_dim_to_check}, but got {e}")
    size = e // num_heads
    _require(size * num_heads == e, f"embed_dim {e} not divisible by num_heads {num_heads}")
    if use_separate_proj_weight:
        _require(tuple(key.shape[:2]) == tuple(value.shape[:2]),
                 f"key's sequence and batch dims {key.shape[:2]} do not match value's {value.shape[:2]}")
        for name, w in (("q_proj_weight", q_proj_weight), ("k_proj_weight", k_proj_weight), ("v_proj_weight", v_proj_weight)):
            _require(w is not None, f"use_separate_proj_weight is True but {name} is None")
        biases = (None,) * 3 if in_proj_bias is None else in_proj_bias.chunk(3)
        q, k, v = [linear(x, w, b) for x, w, b in zip((query, key, value), (q_proj_weight, k_proj_weight, v_proj_weight), biases)]
    else:
        _require(tuple(key.shape) == tuple(value.shape), f"key shape {key.shape} does not match value shape {value.shape}")
        _require(in_proj_weight is not None, "use_separate_proj_weight is False but in_proj_weight is None")
        q, k, v = _project(query, key, value, in_proj_weight, in_proj_bias)

    if attn_mask is not None:
        if attn_mask.dim() not in (2, 3):
            raise refuse(RuntimeError, f"attn_mask's dimension {attn_mask.dim()} is not supported")
        want = (length, places) if attn_mask.dim() == 2 else (n * num_heads, length, places)
        if tuple(attn_mask.shape) != want:
            raise refuse(RuntimeError, f"The shape of the {attn_mask.dim()}D attn_mask is {attn_mask.shape}, but should be {want}.")
        if attn_mask.dim() == 2:
            attn_mask = attn_mask.unsqueeze(0)
    more = 0
    if bias_k is not None and bias_v is not None:
        _require(static_k is None, "bias cannot be added to static key.")
        _require(static_v is None, "bias cannot be added to static value.")
        k, v = cat([k, bias_k.repeat(1, n, 1)]), cat([v, bias_v.repeat(1, n, 1)])
        more += 1
    else:
        _require(bias_k is None, "bias_k is set but bias_v is None")
        _require(bias_v is None, "bias_v is set but bias_k is None")

    def heads(x):
        return x.reshape(x.shape[0], n * num_heads, size).transpose(0, 1)

    q = heads(q)
    for static, name in ((static_k, "static_k"), (static_v, "static_v")):
        if static is not None:
            _require(static.shape[0] == n * num_heads, f"expecting {name}.size(0) of {n * num_heads}, but got {static.shape[0]}")
            _require(static.shape[2] == size, f"expecting {name}.size(2) of {size}, but got {static.shape[2]}")
    k = heads(k) if static_k is None else static_k
    v = heads(v) if static_v is None else static_v
    if add_zero_attn:
        nothing = zeros(n * num_heads, 1, size, dtype=k.dtype)
        k, v = cat([k, nothing], 1), cat([v, nothing], 1)
        more += 1
    if more:
        attn_mask = attn_mask if attn_mask is None else pad(attn_mask, (0, more))
        key_padding_mask = key_padding_mask if key_padding_mask is None else pad(key_padding_mask, (0, more))
    places = k.shape[1]
    if key_padding_mask is not None:
        _require(tuple(key_padding_mask.shape) == (n, places), f"expected key_padding_mask of shape {(n, places)}, but got {key_padding_mask.shape}")
        each = key_padding_mask.view(n, 1, 1, places).expand(-1, num_heads, -1, -1).reshape(n * num_heads, 1, places)
        attn_mask = each if attn_mask is None else attn_mask + each
    if not training:
        dropout_p = 0.0

    if not need_weights:
        if attn_mask is not None:
            attn_mask = attn_mask.unsqueeze(0) if attn_mask.shape[0] == 1 else attn_mask.view(n, num_heads, -1, places)
        r = scaled_dot_product_attention(q.reshape(n, num_heads, length, size), k.reshape(n, num_heads, places, size),
                                         v.reshape(n, num_heads, places, size), attn_mask, dropout_p, is_causal)
        r = linear(r.permute(2, 0, 1, 3).reshape(length * n, e), out_proj_weight, out_proj_bias).view(length, n, -1)
        return (r if batched else r.squeeze(1)), None
    _require(not is_causal or attn_mask is not None, "is_causal needs attn_mask where weights are needed")
    q = q * _math.sqrt(1.0 / size)
    weights = q.bmm(k.transpose(-2, -1)) if attn_mask is None else baddbmm(attn_mask, q, k.transpose(-2, -1))
    weights = softmax(weights, -1)
    if dropout_p > 0.0:
        weights = _dropout(None, weights, dropout_p, True, False)
    r = linear(weights.bmm(v).transpose(0, 1).reshape(length * n, e), out_proj_weight, out_proj_bias).view(length, n, -1)
    weights = weights.view(n, num_heads, length, places)
    if average_attn_weights:
        weights = weights.mean(1)
    return (r, weights) if batched else (r.squeeze(1), weights.squeeze(0))
