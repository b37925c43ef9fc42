"""Attention layers."""
from .._create import empty
from .._ffi import refuse
from . import functional as F, init
from ._parameter import Parameter
from .linear import Linear
from .module import Module


class NonDynamicallyQuantizableLinear(Linear):
    """Linear, under the name that PyTorch gives to the last one of MultiheadAttention."""


class MultiheadAttention(Module):
    """Attention of num_heads heads over query, key, value: (L, N, E), (S, N, kdim), (S, N, vdim); batch_first: (N, L, E) ..

    Parameters as PyTorch's: in_proj_weight (3E, E), or q_proj_weight, k_proj_weight, v_proj_weight where kdim or vdim is not
    E; in_proj_bias; out_proj; bias_k, bias_v.  See functional.multi_head_attention_forward.
    """

    def __init__(self, embed_dim, num_heads, dropout=0.0, bias=True, add_bias_kv=False, add_zero_attn=False, kdim=None, vdim=None,
                 batch_first=False, device=None, dtype=None):
        if embed_dim <= 0 or num_heads <= 0:
            raise refuse(ValueError, f"embed_dim and num_heads must be greater than 0, got embed_dim={embed_dim} and num_heads={num_heads} "
                         "instead")
        super().__init__()
        self.embed_dim = embed_dim
        self.kdim = embed_dim if kdim is None else kdim
        self.vdim = embed_dim if vdim is None else vdim
        self._qkv_same_embed_dim = self.kdim == embed_dim and self.vdim == embed_dim
        self.num_heads, self.dropout, self.batch_first, self.add_zero_attn = num_heads, dropout, batch_first, add_zero_attn
        self.head_dim = embed_dim // num_heads
        if self.head_dim * num_heads != embed_dim:
            raise refuse(AssertionError, "embed_dim must be divisible by num_heads")

        def parameter(name, wanted, *shape):
            self.register_parameter(name, Parameter(empty(*shape, device=device, dtype=dtype)) if wanted else None)

        same = self._qkv_same_embed_dim
        if same:
            parameter("in_proj_weight", True, 3 * embed_dim, embed_dim)
        parameter("q_proj_weight", not same, embed_dim, embed_dim)
        parameter("k_proj_weight", not same, embed_dim, self.kdim)
        parameter("v_proj_weight", not same, embed_dim, self.vdim)
        if not same:
            parameter("in_proj_weight", False)
        parameter("in_proj_bias", bias, 3 * embed_dim)
        self.out_proj = NonDynamicallyQuantizableLinear(embed_dim, embed_dim, bias=bias, device=device, dtype=dtype)
        parameter("bias_k", add_bias_kv, 1, 1, embed_dim)
        parameter("bias_v", add_bias_kv, 1, 1, embed_dim)
        self._reset_parameters()

    def _reset_parameters(self):
        for name in ("in_proj_weight", "q_proj_weight", "k_proj_weight", "v_proj_weight"):
            if getattr(self, name) is not None:
                init.xavier_uniform_(getattr(self, name))
        if self.in_proj_bias is not None:
            init.constant_(self.in_proj_bias, 0.0)
            init.constant_(self.out_proj.bias, 0.0)
        for p in (self.bias_k, self.bias_v):
            if p is not None:
                init.xavier_normal_(p)

    def forward(self, query, key, value, key_padding_mask=None, need_weights=True, attn_mask=None, average_attn_weights=True,
                is_causal=False):
        """(result, weights or None)"""
        turn = self.batch_first and query.dim() == 3
        if turn:  # what is one tensor stays one
            same = key is query, value is key
            query = query.transpose(1, 0)
            key = query if same[0] else key.transpose(1, 0)
            value = key if same[1] else value.transpose(1, 0)
        r, weights = F.multi_head_attention_forward(
            query, key, value, self.embed_dim, self.num_heads, self.in_proj_weight, self.in_proj_bias, self.bias_k, self.bias_v,
            self.add_zero_attn, self.dropout, self.out_proj.weight, self.out_proj.bias, training=self.training,
            key_padding_mask=key_padding_mask, need_weights=need_weights, attn_mask=attn_mask,
            use_separate_proj_weight=not self._qkv_same_embed_dim, q_proj_weight=self.q_proj_weight, k_proj_weight=self.k_proj_weight,
            v_proj_weight=self.v_proj_weight, average_attn_weights=average_attn_weights, is_causal=is_causal)
        return (r.transpose(1, 0) if turn else r), weights
