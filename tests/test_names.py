"""Names of the operators in scope: each exists as a function, and as a method where torch.Tensor has one."""
import importlib

import pytest

import autograd_c as ag

NAMES = {
    "": """
        T __getitem__ __radd__ __rdiv__ __rmatmul__ __rmod__ __rmul__ __rpow__ __rsub__ abs acos acosh add addbmm addcdiv addcmul
        addmm addmv addr alias_copy amax amin aminmax as_strided as_strided_copy as_strided_scatter asin asinh atan atan2 atanh
        atleast_1d atleast_2d atleast_3d baddbmm block_diag bmm broadcast_tensors broadcast_to cartesian_prod cat cdist ceil
        cholesky cholesky_inverse cholesky_solve chunk clamp clamp_max clamp_min clone column_stack combinations constant_pad_nd
        contiguous copysign corrcoef cos cosh cov cross cummax cummin cumprod cumsum cumulative_trapezoid deg2rad diag diag_embed
        diagflat diagonal diagonal_copy diagonal_scatter diff digamma dist div dot double dsplit dstack einsum erf erfc erfinv exp
        exp2 expand expand_as expand_copy expm1 fill flatten flip fliplr flipud float float_power floor fmax fmin fmod frac frexp
        gather gradient grid_sampler_2d grid_sampler_3d hsplit hstack hypot i0 index_add index_copy index_fill index_put
        index_reduce index_select inner kron kthvalue ldexp lerp lgamma log log10 log1p log2 log_softmax logaddexp logaddexp2
        logcumsumexp logdet logit logsumexp lu lu_solve lu_unpack mH mT masked_fill masked_scatter masked_select matmul matrix_exp
        max max_pool2d_with_indices_backward maximum mean median meshgrid min minimum mm mode movedim msort mul mv mvlgamma
        nan_to_num nanmean nanmedian nanquantile nansum narrow narrow_copy native_batch_norm native_dropout_backward
        native_group_norm native_layer_norm neg nextafter norm ormqr outer permute permute_copy pinverse polygamma positive pow prod
        put qr quantile rad2deg ravel reciprocal remainder renorm repeat repeat_interleave reshape reshape_as roll rot90 round rsqrt
        rsub scatter scatter_add scatter_reduce select select_scatter sgn sigmoid sign sin sinc sinh slice slice_scatter softmax
        sort split split_with_sizes split_with_sizes_copy sqrt square squeeze squeeze_copy stack std std_mean sub sum sum_to_size
        svd t t_copy take take_along_dim tan tanh tensor_split tensordot tile to topk trace transpose transpose_copy trapezoid trapz
        triangular_solve tril triu true_divide trunc unbind unbind_copy unflatten unfold unfold_copy unsafe_chunk unsafe_split
        unsqueeze unsqueeze_copy var var_mean vdot view view_as view_copy vsplit vstack where xlogy zero_""",
    "nn.functional": """
        adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d adaptive_max_pool1d adaptive_max_pool2d adaptive_max_pool3d
        alpha_dropout avg_pool1d avg_pool2d avg_pool3d batch_norm bilinear binary_cross_entropy binary_cross_entropy_with_logits
        celu channel_shuffle conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d cosine_embedding_loss
        cosine_similarity cross_entropy ctc_loss dropout dropout2d dropout3d elu embedding embedding_bag feature_alpha_dropout
        fractional_max_pool2d fractional_max_pool3d gaussian_nll_loss gelu glu grid_sample group_norm hardshrink hardsigmoid
        hardswish hardtanh hinge_embedding_loss huber_loss instance_norm interpolate kl_div l1_loss layer_norm leaky_relu linear
        linear_cross_entropy local_response_norm logsigmoid margin_ranking_loss max_pool1d max_pool2d max_pool3d max_unpool1d
        max_unpool2d max_unpool3d mish mse_loss multi_head_attention_forward multi_margin_loss multilabel_margin_loss
        multilabel_soft_margin_loss nll_loss normalize pad pairwise_distance pdist pixel_shuffle pixel_unshuffle poisson_nll_loss
        prelu relu relu6 rms_norm rrelu scaled_dot_product_attention selu silu smooth_l1_loss soft_margin_loss softmin softplus
        softshrink softsign tanhshrink threshold triplet_margin_loss triplet_margin_with_distance_loss unfold upsample_bilinear
        upsample_nearest""",
    "linalg": """
        cholesky cholesky_ex cond cross det diagonal eigh eigvalsh householder_product inv inv_ex lstsq lu lu_factor lu_factor_ex
        lu_solve matrix_norm matrix_power multi_dot norm pinv qr slogdet solve solve_ex solve_triangular svd svdvals tensorinv
        tensorsolve vander vecdot vector_norm""",
    "special": """
        entr erfcx i0e i1 i1e log_ndtr ndtr ndtri polygamma xlog1py""",
}

# Methods without a function of that name, and functions without a method.
METHODS_ONLY = set("""T __getitem__ __radd__ __rdiv__ __rmatmul__ __rmod__ __rmul__ __rpow__ __rsub__ contiguous expand expand_as mH mT repeat
    reshape_as slice sum_to_size to unfold view view_as zero_""".split())
FUNCTIONS_ONLY = set("""alias_copy as_strided_copy atleast_1d atleast_2d atleast_3d block_diag broadcast_tensors cartesian_prod cat cdist column_stack
    combinations constant_pad_nd cumulative_trapezoid diagonal_copy dstack einsum expand_copy fill gradient grid_sampler_2d
    grid_sampler_3d hstack lu_unpack max_pool2d_with_indices_backward meshgrid native_batch_norm native_dropout_backward
    native_group_norm native_layer_norm permute_copy rsub slice split_with_sizes_copy squeeze_copy stack std_mean t_copy tensordot
    transpose_copy trapezoid trapz unbind_copy unfold_copy unsqueeze_copy var_mean view_copy vstack""".split())
# Being built.
PENDING = set("""digamma lgamma polygamma mvlgamma i0 nextafter grid_sampler_2d grid_sampler_3d ctc_loss fractional_max_pool2d fractional_max_pool3d
    grid_sample multi_head_attention_forward entr erfcx i0e i1 i1e log_ndtr ndtr ndtri xlog1py""".split())


@pytest.mark.parametrize("space", NAMES)
def test_functions(space):
    names = NAMES[space].split()
    try:
        module = importlib.import_module("autograd_c." + space) if space else ag
    except ModuleNotFoundError:
        module = None
    missing = [n for n in names if not callable(getattr(module, n, None)) and not (not space and n in METHODS_ONLY)]
    assert not set(missing) - PENDING


def test_methods():
    missing = [n for n in NAMES[""].split() if n not in FUNCTIONS_ONLY and not hasattr(ag.Tensor, n)]
    assert not set(missing) - PENDING


def test_methods_are_those_of_pytorch():
    torch = pytest.importorskip("torch")
    assert [n for n in NAMES[""].split() if hasattr(torch.Tensor, n) and not hasattr(ag.Tensor, n) and n not in PENDING] == []
    assert [n for n in METHODS_ONLY if not hasattr(ag.Tensor, n) and n not in PENDING] == []
