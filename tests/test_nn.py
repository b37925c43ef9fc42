"""nn against PyTorch (values, gradients, printing, messages) and, without it, against plain loops."""
import copy
import math
import pickle
import warnings

import numpy as np
import pytest

import autograd_c as ac
from autograd_c import nn
import autograd_c.nn.functional as F


def arrays(*shapes, seed=0, low=None):
    r = np.random.default_rng(seed)
    return [r.uniform(low, 1 - low, s) if low is not None else r.standard_normal(s) for s in shapes]


def leaf(t, a, grad=True):
    return t.tensor(np.asarray(a).tolist(), dtype=t.float64, requires_grad=grad)


# ---- functional against PyTorch ---------------------------------------------------------------------------
# name: (function of (F, t, tensors...), shapes, options of arrays)

CASES = {
    "relu": (lambda F, t, x: F.relu(x), [(3, 4)]),
    "silu": (lambda F, t, x: F.silu(x), [(3, 4)]),
    "gelu": (lambda F, t, x: F.gelu(x), [(3, 4)]),
    "gelu_tanh": (lambda F, t, x: F.gelu(x, approximate="tanh"), [(3, 4)]),
    "leaky_relu": (lambda F, t, x: F.leaky_relu(x, 0.2), [(3, 4)]),
    "elu": (lambda F, t, x: F.elu(x, 1.5), [(3, 4)]),
    "celu": (lambda F, t, x: F.celu(x, 1.5), [(3, 4)]),
    "selu": (lambda F, t, x: F.selu(x), [(3, 4)]),
    "softplus": (lambda F, t, x: F.softplus(x * 5, 2.0, 3.0), [(3, 4)]),
    "logsigmoid": (lambda F, t, x: F.logsigmoid(x * 30), [(3, 4)]),
    "hardtanh": (lambda F, t, x: F.hardtanh(x, -0.5, 0.7), [(3, 4)]),
    "relu6": (lambda F, t, x: F.relu6(x * 9), [(3, 4)]),
    "hardswish": (lambda F, t, x: F.hardswish(x * 4), [(3, 4)]),
    "softsign": (lambda F, t, x: F.softsign(x), [(3, 4)]),
    "tanhshrink": (lambda F, t, x: F.tanhshrink(x), [(3, 4)]),
    "hardshrink": (lambda F, t, x: F.hardshrink(x), [(3, 4)]),
    "softshrink": (lambda F, t, x: F.softshrink(x), [(3, 4)]),
    "threshold": (lambda F, t, x: F.threshold(x, 0.1, 20.0), [(3, 4)]),
    "mish": (lambda F, t, x: F.mish(x), [(3, 4)]),
    "prelu": (lambda F, t, x, w: F.prelu(x, w), [(2, 3, 4), (3,)]),
    "glu": (lambda F, t, x: F.glu(x, 1), [(3, 4)]),
    "softmax": (lambda F, t, x: F.softmax(x, dim=1), [(3, 4, 2)]),
    "log_softmax": (lambda F, t, x: F.log_softmax(x, dim=-1), [(3, 4)]),
    "softmin": (lambda F, t, x: F.softmin(x, dim=0), [(3, 4)]),
    "linear": (lambda F, t, x, w, b: F.linear(x, w, b), [(3, 4), (2, 4), (2,)]),
    "linear_1d": (lambda F, t, x, w, b: F.linear(x, w, b), [(4,), (2, 4), (2,)]),
    "linear_3d": (lambda F, t, x, w, b: F.linear(x, w, b), [(2, 3, 4), (2, 4), (2,)]),
    "linear_no_bias": (lambda F, t, x, w: F.linear(x, w), [(2, 3, 4), (2, 4)]),
    "bilinear": (lambda F, t, x, y, w, b: F.bilinear(x, y, w, b), [(5, 3), (5, 4), (2, 3, 4), (2,)]),
    "embedding": (lambda F, t, w: F.embedding(t.tensor([[0, 2], [1, 2]]), w, padding_idx=1), [(3, 4)]),
    "layer_norm": (lambda F, t, x, w, b: F.layer_norm(x, (4,), w, b), [(3, 4), (4,), (4,)]),
    "layer_norm_2": (lambda F, t, x: F.layer_norm(x, (3, 4)), [(2, 3, 4)]),
    "rms_norm": (lambda F, t, x, w: F.rms_norm(x, (4,), w, 1e-5), [(3, 4), (4,)]),
    "group_norm": (lambda F, t, x, w, b: F.group_norm(x, 2, w, b), [(3, 4, 5), (4,), (4,)]),
    "batch_norm": (lambda F, t, x, w, b: F.batch_norm(x, None, None, w, b, training=True), [(5, 3, 2), (3,), (3,)]),
    "instance_norm": (lambda F, t, x, w, b: F.instance_norm(x, weight=w, bias=b), [(2, 3, 7), (3,), (3,)]),
    "local_response_norm": (lambda F, t, x: F.local_response_norm(x, 3), [(2, 5, 3, 3)]),
    "normalize": (lambda F, t, x: F.normalize(x, dim=1), [(3, 4)]),
    "cosine_similarity": (lambda F, t, x, y: F.cosine_similarity(x, y), [(3, 4), (3, 4)]),
    "pairwise_distance": (lambda F, t, x, y: F.pairwise_distance(x, y), [(3, 4), (3, 4)]),
    "pdist": (lambda F, t, x: F.pdist(x), [(4, 3)]),
    "attention": (lambda F, t, q, k, v: F.scaled_dot_product_attention(q, k, v), [(2, 3, 4), (2, 5, 4), (2, 5, 6)]),
    "attention_causal": (lambda F, t, q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True), [(2, 4, 3)] * 3),
    "conv1d": (lambda F, t, x, w, b: F.conv1d(x, w, b, stride=2, padding=1), [(2, 3, 8), (4, 3, 3), (4,)]),
    "conv2d": (lambda F, t, x, w, b: F.conv2d(x, w, b, padding=(1, 2), dilation=2), [(2, 3, 7, 6), (4, 3, 3, 2), (4,)]),
    "conv2d_groups": (lambda F, t, x, w: F.conv2d(x, w, groups=2), [(2, 4, 5, 5), (6, 2, 3, 3)]),
    "conv2d_same": (lambda F, t, x, w: F.conv2d(x, w, padding="same"), [(2, 3, 5, 5), (2, 3, 4, 2)]),
    "conv2d_unbatched": (lambda F, t, x, w: F.conv2d(x, w), [(3, 5, 5), (2, 3, 3, 3)]),
    "conv3d": (lambda F, t, x, w, b: F.conv3d(x, w, b), [(1, 2, 4, 4, 4), (2, 2, 2, 3, 2), (2,)]),
    "conv_transpose1d": (lambda F, t, x, w, b: F.conv_transpose1d(x, w, b, stride=2, padding=1, output_padding=1),
                         [(2, 3, 5), (3, 4, 3), (4,)]),
    "conv_transpose2d": (lambda F, t, x, w: F.conv_transpose2d(x, w, stride=2, groups=2), [(2, 4, 3, 3), (4, 2, 3, 2)]),
    "max_pool1d": (lambda F, t, x: F.max_pool1d(x, 3, 2, 1), [(2, 3, 8)]),
    "max_pool2d": (lambda F, t, x: F.max_pool2d(x, 2), [(2, 3, 6, 6)]),
    "max_pool2d_ceil": (lambda F, t, x: F.max_pool2d(x, 3, 2, ceil_mode=True), [(2, 6, 6)]),
    "avg_pool1d": (lambda F, t, x: F.avg_pool1d(x, 3, 2, 1), [(2, 3, 8)]),
    "avg_pool2d": (lambda F, t, x: F.avg_pool2d(x, 2), [(2, 3, 6, 6)]),
    "avg_pool2d_pad": (lambda F, t, x: F.avg_pool2d(x, 3, 2, 1, ceil_mode=True, count_include_pad=False), [(2, 3, 6, 5)]),
    "avg_pool2d_ceil": (lambda F, t, x: F.avg_pool2d(x, 3, 2, 1, ceil_mode=True), [(2, 3, 6, 5)]),
    "avg_pool2d_divisor": (lambda F, t, x: F.avg_pool2d(x, 3, divisor_override=2), [(2, 3, 6, 6)]),
    "lp_pool2d": (lambda F, t, x: F.lp_pool2d(x * x + 0.1, 2, 2), [(2, 3, 4, 4)]),
    "adaptive_avg_pool2d": (lambda F, t, x: F.adaptive_avg_pool2d(x, (3, 2)), [(2, 3, 6, 6)]),
    "adaptive_avg_pool2d_uneven": (lambda F, t, x: F.adaptive_avg_pool2d(x, (4, 3)), [(2, 3, 6, 7)]),
    "adaptive_avg_pool2d_1": (lambda F, t, x: F.adaptive_avg_pool2d(x, 1), [(2, 3, 5, 5)]),
    "adaptive_max_pool2d": (lambda F, t, x: F.adaptive_max_pool2d(x, (4, 3)), [(2, 3, 6, 7)]),
    "pad": (lambda F, t, x: F.pad(x, (1, 2, -1, 1), value=3.0), [(3, 4)]),
    "pad_reflect": (lambda F, t, x: F.pad(x, (2, 1), mode="reflect"), [(2, 3, 4)]),
    "pad_replicate": (lambda F, t, x: F.pad(x, (2, 1, 1, 0), mode="replicate"), [(2, 3, 4, 4)]),
    "pad_circular": (lambda F, t, x: F.pad(x, (2, 1), mode="circular"), [(2, 3, 4)]),
    "unfold": (lambda F, t, x: F.unfold(x, (2, 3), padding=1, stride=2), [(2, 3, 5, 6)]),
    "pixel_shuffle": (lambda F, t, x: F.pixel_shuffle(x, 2), [(2, 8, 3, 3)]),
    "pixel_unshuffle": (lambda F, t, x: F.pixel_unshuffle(x, 2), [(2, 2, 4, 6)]),
    "channel_shuffle": (lambda F, t, x: F.channel_shuffle(x, 2), [(2, 6, 3, 3)]),
    "interpolate_nearest": (lambda F, t, x: F.interpolate(x, scale_factor=1.7), [(2, 3, 4, 5)]),
    "interpolate_bilinear": (lambda F, t, x: F.interpolate(x, size=(7, 3), mode="bilinear"), [(2, 3, 4, 5)]),
    "interpolate_corners": (lambda F, t, x: F.interpolate(x, size=(7, 3), mode="bilinear", align_corners=True), [(2, 3, 4, 5)]),
    "mse": (lambda F, t, x, y: F.mse_loss(x, y), [(3, 4), (3, 4)]),
    "mse_sum": (lambda F, t, x, y: F.mse_loss(x, y, reduction="sum"), [(3, 4), (3, 4)]),
    "mse_none": (lambda F, t, x, y: F.mse_loss(x, y, reduction="none"), [(3, 4), (3, 4)]),
    "l1": (lambda F, t, x, y: F.l1_loss(x, y), [(3, 4), (3, 4)]),
    "smooth_l1": (lambda F, t, x, y: F.smooth_l1_loss(x, y, beta=0.7), [(3, 4), (3, 4)]),
    "huber": (lambda F, t, x, y: F.huber_loss(x, y, delta=0.7), [(3, 4), (3, 4)]),
    "nll": (lambda F, t, x, w: F.nll_loss(x, t.tensor([0, 3, 1]), w.detach()), [(3, 4), (4,)]),
    "nll_2d": (lambda F, t, x: F.nll_loss(x, t.tensor([[0, 1], [3, -100]])), [(2, 4, 2)]),
    "cross_entropy": (lambda F, t, x: F.cross_entropy(x, t.tensor([0, 3, 1])), [(3, 4)]),
    "cross_entropy_1d": (lambda F, t, x: F.cross_entropy(x, t.tensor(2)), [(4,)]),
    "cross_entropy_all": (lambda F, t, x, w: F.cross_entropy(x, t.tensor([0, 2, 1]), w.detach().abs(), ignore_index=2, label_smoothing=0.2),
                          [(3, 4), (4,)]),
    "cross_entropy_smooth_none": (lambda F, t, x: F.cross_entropy(x, t.tensor([0, 2, 1]), ignore_index=2, label_smoothing=0.2,
                                                                  reduction="none"), [(3, 4)]),
    "cross_entropy_soft": (lambda F, t, x, y, w: F.cross_entropy(x, y.softmax(1), w.detach().abs(), label_smoothing=0.1),
                           [(3, 4), (3, 4), (4,)]),
    "bce": (lambda F, t, x, y: F.binary_cross_entropy(x.sigmoid(), y.detach().sigmoid()), [(3, 4), (3, 4)]),
    "bce_logits": (lambda F, t, x, y, w: F.binary_cross_entropy_with_logits(x * 20, y.detach().sigmoid(), pos_weight=w.detach().abs()),
                   [(3, 4), (3, 4), (4,)]),
    "kl_div": (lambda F, t, x, y: F.kl_div(x.log_softmax(1), y.softmax(1), reduction="batchmean"), [(3, 4), (3, 4)]),
    "kl_div_log": (lambda F, t, x, y: F.kl_div(x, y, reduction="sum", log_target=True), [(3, 4), (3, 4)]),
    "poisson_nll": (lambda F, t, x, y: F.poisson_nll_loss(x, y.detach().abs() * 3, full=True), [(3, 4), (3, 4)]),
    "gaussian_nll": (lambda F, t, x, y, v: F.gaussian_nll_loss(x, y, v.abs(), full=True), [(3, 4), (3, 4), (3, 4)]),
    "soft_margin": (lambda F, t, x, y: F.soft_margin_loss(x, y.detach().sign()), [(3, 4), (3, 4)]),
    "hinge_embedding": (lambda F, t, x, y: F.hinge_embedding_loss(x, y.detach().sign()), [(3, 4), (3, 4)]),
    "margin_ranking": (lambda F, t, x, y, z: F.margin_ranking_loss(x, y, z.detach().sign(), 0.3), [(5,), (5,), (5,)]),
    "cosine_embedding": (lambda F, t, x, y, z: F.cosine_embedding_loss(x, y, z.detach().sign(), -0.5), [(3, 4), (3, 4), (3,)]),
    "multilabel_soft_margin": (lambda F, t, x, y: F.multilabel_soft_margin_loss(x, y.detach().sigmoid()), [(3, 4), (3, 4)]),
    "multi_margin": (lambda F, t, x, w: F.multi_margin_loss(x, t.tensor([0, 3, 1]), p=2, weight=w.detach().abs()), [(3, 4), (4,)]),
    "multilabel_margin": (lambda F, t, x: F.multilabel_margin_loss(x, t.tensor([[0, 3, -1, 1], [2, -1, 0, 0]])), [(2, 4)]),
    "linear_cross_entropy": (lambda F, t, x, w: F.linear_cross_entropy(x, w, t.tensor([0, 3, 1])), [(3, 2), (4, 2)]),
    "max_unpool2d": (lambda F, t, x: F.max_unpool2d(*F.max_pool2d(x, 2, return_indices=True), 2), [(2, 3, 6, 6)]),
    "adaptive_max_pool2d_indices": (lambda F, t, x: F.adaptive_max_pool2d(x, (4, 3), return_indices=True)[1] * x.sum(), [(2, 6, 7)]),
    "fold": (lambda F, t, x: F.fold(x, (4, 5), (2, 3), padding=(0, 1), stride=(1, 2)), [(2, 18, 9)]),
    "unfold_dilated": (lambda F, t, x: F.unfold(x, (2, 2), dilation=(2, 1), stride=2, padding=1), [(2, 3, 5, 6)]),
    "bilinear_smooth": (lambda F, t, x: F.interpolate(x, size=(3, 4), mode="bilinear", antialias=True), [(2, 2, 9, 7)]),
    "bicubic_smooth": (lambda F, t, x: F.interpolate(x, size=(5, 9), mode="bicubic", antialias=True, align_corners=True), [(1, 2, 9, 7)]),
    "adaptive_avg_uneven": (lambda F, t, x: F.adaptive_avg_pool2d(x, (3, 4)), [(2, 2, 7, 9)]),
    "avg_pool3d_ceil": (lambda F, t, x: F.avg_pool3d(x, 2, 2, 1, ceil_mode=True, count_include_pad=False), [(1, 2, 3, 4, 5)]),
    "conv_transpose_far": (lambda F, t, x, w: F.conv_transpose1d(x, w, padding=2, stride=2, dilation=4, output_padding=3),
                           [(2, 3, 5), (3, 2, 3)]),
    "interpolate_bicubic": (lambda F, t, x: F.interpolate(x, size=(7, 3), mode="bicubic"), [(2, 3, 4, 5)]),
    "interpolate_area": (lambda F, t, x: F.interpolate(x, size=(3, 3), mode="area"), [(2, 3, 4, 5)]),
    "embedding_bag": (lambda F, t, w: F.embedding_bag(t.tensor([0, 2, 1, 2]), w, t.tensor([0, 2, 2]), padding_idx=1), [(3, 4)]),
    "triplet": (lambda F, t, x, y, z: F.triplet_margin_loss(x, y, z, swap=True), [(3, 4)] * 3),
}


@pytest.mark.parametrize("name", CASES)
def test_functional_as_pytorch(name):
    torch = pytest.importorskip("torch")
    fn, shapes = CASES[name]
    data = arrays(*shapes, seed=len(name))
    results = []
    for t in (ac, torch):
        xs = [leaf(t, a) for a in data]
        y = fn(t.nn.functional, t, *xs)
        w = np.cos(1.0 + np.arange(math.prod(y.shape))).reshape(tuple(y.shape))
        (y * t.tensor(w.tolist(), dtype=t.float64)).sum().backward()
        results.append([y.detach().numpy()] + [None if x.grad is None else x.grad.numpy() for x in xs])
    ours, theirs = results
    for k, (a, b) in enumerate(zip(ours, theirs)):
        what = "value" if k == 0 else f"gradient {k - 1}"
        if b is None:
            assert a is None or not a.any(), what
            continue
        assert a is not None, what
        assert a.shape == b.shape, what
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-10, err_msg=what)


SMOOTH = ["linear", "gelu", "silu", "softmax", "layer_norm", "batch_norm", "conv2d", "conv_transpose1d", "avg_pool2d_pad", "mse",
          "cross_entropy", "kl_div", "logsigmoid", "attention", "instance_norm", "pad_reflect", "interpolate_bilinear"]


@pytest.mark.parametrize("name", SMOOTH)
def test_second_derivatives_by_differences(name):
    fn, shapes = CASES[name]
    xs = [leaf(ac, a) for a in arrays(*shapes, seed=3)]
    assert ac.autograd.gradcheck(lambda *a: fn(F, ac, *a), tuple(xs))
    assert ac.autograd.gradgradcheck(lambda *a: fn(F, ac, *a), tuple(xs))


# ---- against plain loops, without PyTorch ------------------------------------------------------------------


def test_linear_by_hand():
    x, w, b = arrays((3, 4), (2, 4), (2,))
    np.testing.assert_allclose(F.linear(leaf(ac, x), leaf(ac, w), leaf(ac, b)).detach().numpy(), x @ w.T + b, rtol=1e-12)


def test_conv2d_by_hand():
    x, w, b = arrays((2, 3, 6, 5), (4, 3, 3, 2), (4,))
    stride, pad = (2, 1), (1, 0)
    p = np.zeros((2, 3, 8, 5))
    p[:, :, 1:7] = x
    want = np.zeros((2, 4, 3, 4))
    for n, o, i, j in np.ndindex(want.shape):
        want[n, o, i, j] = b[o] + (p[n, :, i * 2:i * 2 + 3, j:j + 2] * w[o]).sum()
    got = F.conv2d(leaf(ac, x), leaf(ac, w), leaf(ac, b), stride=stride, padding=pad)
    np.testing.assert_allclose(got.detach().numpy(), want, rtol=1e-12)


def test_pools_by_hand():
    x, = arrays((1, 2, 4, 6))
    blocks = x.reshape(1, 2, 2, 2, 3, 2)
    np.testing.assert_array_equal(F.max_pool2d(leaf(ac, x), 2).detach().numpy(), blocks.max((3, 5)))
    np.testing.assert_allclose(F.avg_pool2d(leaf(ac, x), 2).detach().numpy(), blocks.mean((3, 5)), rtol=1e-13)


def test_cross_entropy_by_hand():
    x, = arrays((3, 4))
    p = np.exp(x) / np.exp(x).sum(1, keepdims=True)
    t = [2, 0, 3]
    logits = leaf(ac, x)
    loss = F.cross_entropy(logits, ac.tensor(t))
    assert loss.item() == pytest.approx(-np.log(p[range(3), t]).mean(), rel=1e-12)
    loss.backward()
    want = p.copy()
    want[range(3), t] -= 1
    np.testing.assert_allclose(logits.grad.numpy(), want / 3, rtol=1e-11)


def test_norms_by_hand():
    x, = arrays((5, 4))
    got = F.layer_norm(leaf(ac, x), 4).detach().numpy()
    np.testing.assert_allclose(got, (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5), rtol=1e-10)
    bn = nn.BatchNorm1d(4).double()
    got = bn(leaf(ac, x)).detach().numpy()
    np.testing.assert_allclose(got, (x - x.mean(0)) / np.sqrt(x.var(0) + 1e-5), rtol=1e-10)
    np.testing.assert_allclose(bn.running_mean.numpy(), 0.1 * x.mean(0), rtol=1e-10)
    np.testing.assert_allclose(bn.running_var.numpy(), 0.9 + 0.1 * x.var(0, ddof=1), rtol=1e-10)
    assert bn.num_batches_tracked.item() == 1
    bn.eval()
    got = bn(leaf(ac, x)).detach().numpy()
    np.testing.assert_allclose(got, (x - bn.running_mean.numpy()) / np.sqrt(bn.running_var.numpy() + 1e-5), rtol=1e-10)


def test_losses_by_hand():
    x, y = arrays((3, 4), (3, 4))
    d = np.abs(x - y)
    a, b = leaf(ac, x), leaf(ac, y)
    assert F.mse_loss(a, b).item() == pytest.approx((d**2).mean(), rel=1e-12)
    assert F.l1_loss(a, b, reduction="sum").item() == pytest.approx(d.sum(), rel=1e-12)
    assert F.huber_loss(a, b, delta=0.5).item() == pytest.approx(np.where(d < 0.5, d**2 / 2, 0.5 * (d - 0.25)).mean(), rel=1e-12)
    assert F.smooth_l1_loss(a, b, beta=0.5).item() == pytest.approx(np.where(d < 0.5, d**2, d - 0.25).mean(), rel=1e-12)
    p, t = 1 / (1 + np.exp(-x)), (y > 0).astype(float)
    want = -(t * np.log(p) + (1 - t) * np.log(1 - p)).mean()
    assert F.binary_cross_entropy(leaf(ac, p), leaf(ac, t, False)).item() == pytest.approx(want, rel=1e-10)
    assert F.binary_cross_entropy_with_logits(a, leaf(ac, t, False)).item() == pytest.approx(want, rel=1e-10)


def test_binary_cross_entropy_at_its_ends():
    p = ac.tensor([0.0, 1.0, 0.0, 1.0], requires_grad=True)
    loss = F.binary_cross_entropy(p, ac.tensor([0.0, 1.0, 1.0, 0.0]), reduction="none")
    assert loss.tolist() == [0.0, 0.0, 100.0, 100.0]
    loss.sum().backward()
    assert all(math.isfinite(v) for v in p.grad.tolist())


def test_hardsigmoid_by_hand():
    x = leaf(ac, [-4.0, -1.0, 0.5, 4.0])
    y = F.hardsigmoid(x)
    np.testing.assert_allclose(y.tolist(), [0.0, 1 / 3, 3.5 / 6, 1.0], rtol=1e-15)
    y.sum().backward()
    np.testing.assert_allclose(x.grad.tolist(), [0.0, 1 / 6, 1 / 6, 0.0], rtol=1e-15)


def test_dropout():
    ac.manual_seed(1)
    x = ac.ones(10000, requires_grad=True)
    y = F.dropout(x, 0.25)
    values = set(y.tolist())
    assert values == {0.0, float(np.float32(1 / 0.75))}
    assert y.mean().item() == pytest.approx(1.0, abs=0.03)
    y.sum().backward()
    assert x.grad.tolist() == y.tolist()
    assert F.dropout(x, 0.25, training=False) is x
    assert F.dropout(x, 1.0).sum().item() == 0
    channels = F.dropout2d(ac.ones(8, 16, 3, 3), 0.5)
    assert all(len(set(c)) == 1 for c in channels.view(128, 9).tolist())
    with pytest.raises(ValueError, match="dropout probability has to be between 0 and 1, but got 1.5"):
        nn.Dropout(1.5)


def test_one_hot():
    assert F.one_hot(ac.tensor([0, 2]), 4).tolist() == [[1, 0, 0, 0], [0, 0, 1, 0]]
    assert F.one_hot(ac.tensor([[1]])).tolist() == [[[0, 1]]]
    with pytest.raises(RuntimeError, match="Class values must be smaller than num_classes."):
        F.one_hot(ac.tensor([5]), 3)


def test_grad_fn_names():
    x = ac.randn(3, 4)
    layer = nn.Linear(4, 2)
    y = layer(x)
    assert y.grad_fn.name() == "AddmmBackward0"
    assert [None if n is None else n.name() for n, _ in y.grad_fn.next_functions] == [
        "torch::autograd::AccumulateGrad", None, "TBackward0"]
    assert nn.MSELoss()(y, ac.zeros(3, 2)).grad_fn.name() == "MseLossBackward0"
    loss = nn.CrossEntropyLoss()(y, ac.tensor([0, 1, 1]))
    assert loss.grad_fn.name() == "NllLossBackward0"
    assert loss.grad_fn.next_functions[0][0].name() == "LogSoftmaxBackward0"
    assert nn.Conv2d(1, 1, 3)(ac.ones(1, 1, 4, 4)).grad_fn.name() == "ConvolutionBackward0"
    assert nn.Linear(4, 2)(ac.randn(2, 3, 4)).grad_fn.name() == "ViewBackward0"


# ---- Module -----------------------------------------------------------------------------------------------


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 2)
        self.body = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
        self.scale = nn.Parameter(ac.ones(2))
        self.register_buffer("mean", ac.zeros(2))
        self.register_buffer("cache", ac.zeros(1), persistent=False)

    def forward(self, x):
        return self.body(self.fc(x)) * self.scale - self.mean


def test_registration_and_names():
    m = Net()
    assert [n for n, _ in m.named_parameters()] == ["scale", "fc.weight", "fc.bias", "body.0.weight", "body.0.bias"]
    assert [n for n, _ in m.named_buffers()] == ["mean", "cache"]
    assert [n for n, _ in m.named_modules()] == ["", "fc", "body", "body.0", "body.1"]
    assert [n for n, _ in m.named_children()] == ["fc", "body"]
    assert list(m.state_dict()) == ["scale", "mean", "fc.weight", "fc.bias", "body.0.weight", "body.0.bias"]
    assert m.get_submodule("body.0") is m.body[0]
    assert m.get_parameter("fc.weight") is m.fc.weight
    assert m.get_buffer("mean") is m.mean
    assert "scale" in dir(m) and "fc" in dir(m)
    del m.scale
    with pytest.raises(AttributeError, match="'Net' object has no attribute 'scale'"):
        m.scale
    shared = nn.Module()
    shared.a = shared.b = nn.Linear(1, 1)
    assert len(list(shared.parameters())) == 2


def test_attribute_errors():
    with pytest.raises(AttributeError, match=r"cannot assign module before Module.__init__\(\) call"):
        type("M", (nn.Module,), {"__init__": lambda self: setattr(self, "x", nn.ReLU())})()
    with pytest.raises(AttributeError, match=r"cannot assign parameters before Module.__init__\(\) call"):
        type("M", (nn.Module,), {"__init__": lambda self: setattr(self, "x", nn.Parameter(ac.ones(1)))})()
    m = nn.Linear(1, 1)
    with pytest.raises(TypeError, match=r"cannot assign 'torch.FloatTensor' as parameter 'weight' \(torch.nn.Parameter or None expected\)"):
        m.weight = ac.ones(1, 1)
    with pytest.raises(AttributeError, match="'Linear' object has no attribute 'foo'"):
        m.foo
    with pytest.raises(NotImplementedError, match=r'Module \[Module\] is missing the required "forward" function'):
        nn.Module()(1)
    with pytest.raises(KeyError, match="attribute 'weight' already exists"):
        m.register_buffer("weight", ac.ones(1))
    with pytest.raises(KeyError, match="parameter name can"):
        m.register_parameter("a.b", None)
    with pytest.raises(AttributeError, match="Linear has no attribute `nope`"):
        m.get_submodule("nope")


def test_train_eval_apply_to():
    m = Net()
    assert m.training and not m.eval().body[1].training and m.train().body.training
    seen = []
    m.apply(lambda k: seen.append(type(k).__name__))
    assert seen == ["Linear", "Linear", "ReLU", "Sequential", "Net"]
    weight = m.fc.weight
    m(ac.ones(1, 3)).sum().backward()
    m.double()
    assert m.fc.weight is weight and weight.dtype is ac.float64 and weight.is_leaf and weight.requires_grad
    assert weight.grad.dtype is ac.float64 and m.mean.dtype is ac.float64
    m(ac.ones(1, 3, dtype=ac.float64)).sum().backward()
    m.float()
    assert weight.dtype is ac.float32
    m.zero_grad(set_to_none=False)
    assert weight.grad.tolist() == [[0.0] * 3] * 2
    m.zero_grad()
    assert weight.grad is None
    assert not any(p.requires_grad for p in m.requires_grad_(False).parameters())
    assert m.to("cpu") is m
    with pytest.raises(TypeError, match="nn.Module.to only accepts floating point"):
        m.to(ac.int64)


def test_state_dict_messages():
    m = nn.Linear(3, 2)
    state = m.state_dict()
    assert str(m.load_state_dict(state)) == "<All keys matched successfully>"
    with pytest.raises(RuntimeError) as e:
        m.load_state_dict({"weight": ac.zeros(2, 4), "extra": ac.zeros(1)})
    assert str(e.value) == ('Error(s) in loading state_dict for Linear:\n\tMissing key(s) in state_dict: "bias". \n\tUnexpected key(s) in '
                            'state_dict: "extra". \n\tsize mismatch for weight: copying a param with shape torch.Size([2, 4]) from '
                            "checkpoint, the shape in current model is torch.Size([2, 3]).")
    keys = m.load_state_dict({"weight": ac.ones(2, 3)}, strict=False)
    assert keys.missing_keys == ["bias"] and keys.unexpected_keys == []
    assert m.weight.tolist() == [[1.0] * 3] * 2 and m.weight.requires_grad
    state["weight"].zero_()  # the dict shares memory
    assert m.weight.sum().item() == 0
    n = Net()
    n.load_state_dict(Net().state_dict())
    assert n.load_state_dict({k: v.clone() for k, v in n.state_dict().items()}, assign=True).missing_keys == []
    assert isinstance(n.fc.weight, nn.Parameter)


def test_hooks():
    m = nn.Linear(2, 2)
    calls = []
    a = m.register_forward_pre_hook(lambda mod, args: calls.append("pre") or (args[0] * 2,))
    b = m.register_forward_hook(lambda mod, args, out: calls.append("post") or out + 1)
    x = ac.ones(1, 2)
    y = m(x)
    np.testing.assert_allclose(y.tolist(), (F.linear(x * 2, m.weight, m.bias) + 1).tolist(), rtol=1e-6)
    a.remove()
    b.remove()
    assert calls == ["pre", "post"]
    m(x)
    assert calls == ["pre", "post"]
    handle = nn.register_module_forward_hook(lambda mod, args, out: calls.append(type(mod).__name__))
    nn.Sequential(nn.ReLU())(x)
    handle.remove()
    assert calls[2:] == ["ReLU", "Sequential"]


@pytest.mark.skipif(not hasattr(ac.Tensor, "register_hook"), reason="tensors have no hooks yet")
def test_backward_hooks():
    m = nn.Linear(2, 2)
    got = {}
    with m.register_full_backward_hook(lambda mod, gi, go: got.update(gi=gi, go=go)):
        x = ac.ones(1, 2, requires_grad=True)
        m(x).sum().backward()
    assert got["go"][0].tolist() == [[1.0, 1.0]]
    assert got["gi"][0].tolist() == x.grad.tolist()
    with m.register_full_backward_hook(lambda mod, gi, go: (gi[0] * 0,)):
        x = ac.ones(1, 2, requires_grad=True)
        m(x).sum().backward()
    assert x.grad.tolist() == [[0.0, 0.0]]


def test_version_counter():
    from autograd_c.nn.module import _version

    m = nn.Sequential(nn.Linear(1, 1), nn.Dropout(0.5))

    def moved(fn):
        before = _version[0]
        fn()
        return _version[0] != before

    assert moved(m.eval) and not moved(m.eval)
    assert moved(lambda: setattr(m[1], "p", 0.1)) and not moved(lambda: setattr(m[1], "p", 0.1))
    assert moved(lambda: m.append(nn.ReLU()))
    assert moved(lambda: setattr(m[0], "weight", nn.Parameter(ac.ones(1, 1))))
    assert moved(lambda: m[0].register_forward_hook(lambda *a: None))
    assert not moved(lambda: m(ac.ones(1, 1)))


def test_copy_and_pickle():
    m = Net()
    for n in (copy.deepcopy(m), pickle.loads(pickle.dumps(m))):
        assert isinstance(n.fc.weight, nn.Parameter) and n.fc.weight is not m.fc.weight
        assert n.fc.weight.tolist() == m.fc.weight.tolist() and n.fc.weight.requires_grad
        n(ac.ones(1, 3)).sum().backward()
        assert m.fc.weight.grad is None


def test_nodes_know_the_users_line():
    m = nn.Sequential(nn.Linear(2, 2), nn.Sequential(nn.Tanh(), nn.Linear(2, 1)))
    y = m(ac.ones(1, 2)); loss = nn.MSELoss()(y, ac.zeros(1, 1))  # noqa: E702
    import inspect

    line = inspect.currentframe().f_lineno - 3
    here = f"test_nn.py:{line} in test_nodes_know_the_users_line"
    assert y.grad_fn.site == here
    assert y.grad_fn.next_functions[1][0].site == here
    assert loss.grad_fn.site == here


def test_parameter_prints():
    assert repr(nn.Parameter(ac.ones(2))) == "Parameter containing:\ntensor([1., 1.], requires_grad=True)"
    p = nn.Parameter(ac.ones(2), requires_grad=False)
    assert not p.requires_grad and isinstance(p, ac.Tensor) and type(p * 2) is ac.Tensor


LAYERS = """Linear(3, 2); Linear(3, 2, bias=False); Identity(5); Sequential(Linear(1, 2), Sequential(ReLU(), Tanh())); Sequential();
ModuleList([Linear(1, 1), Linear(1, 1), ReLU()]); ModuleDict({'a': ReLU()}); ReLU(inplace=True); Tanh(); Sigmoid(); GELU(); SiLU();
LeakyReLU(0.2); ELU(); Softplus(); Softmax(dim=1); LogSoftmax(1); Hardtanh(); PReLU(); Conv2d(1, 6, 5); Conv2d(1, 6, (3, 5), stride=2,
padding=1, bias=False); Conv1d(2, 4, 3, dilation=2, groups=2); Conv3d(1, 1, 2); ConvTranspose2d(1, 2, 3, output_padding=1, stride=2);
MaxPool2d(2); MaxPool1d(3, 1); AvgPool2d(2); AvgPool1d(2); AdaptiveAvgPool2d((1, 1)); Flatten(); Unflatten(1, (2, 3)); Dropout(0.2);
Dropout2d(); Embedding(10, 3); Embedding(10, 3, padding_idx=0); LayerNorm(5); LayerNorm((2, 3), elementwise_affine=False); BatchNorm1d(3);
BatchNorm2d(3, affine=False); GroupNorm(2, 4); InstanceNorm2d(3); RMSNorm(4); MSELoss(); CrossEntropyLoss(); NLLLoss(); L1Loss();
SmoothL1Loss(); HuberLoss(); BCELoss(); BCEWithLogitsLoss(); KLDivLoss(); Bilinear(1, 2, 3); ZeroPad2d(1); ConstantPad1d(1, 2.0);
ReflectionPad2d(1); PixelShuffle(2); Upsample(scale_factor=2); Softmin(dim=0); Threshold(0.1, 2); GLU(); Softshrink(); Hardswish();
Conv2d(2, 2, 3, padding='same', padding_mode='circular'); ConvTranspose1d(2, 2, 3); LSTM(3, 4); LSTM(3, 4, 2, batch_first=True, dropout=0.1, bidirectional=True); GRU(3, 4, bias=False); RNN(3, 4);
LSTMCell(3, 4); GRUCell(3, 4, bias=False); RNNCell(3, 4, nonlinearity='relu')"""


@pytest.mark.parametrize("text", [s.strip() for s in LAYERS.replace("\n", " ").split(";")])
def test_layers_print_as_pytorch(text):
    torch = pytest.importorskip("torch")
    ours, theirs = [eval(text, vars(t.nn).copy()) for t in (ac, torch)]
    assert repr(ours) == repr(theirs)
    assert list(ours.state_dict()) == list(theirs.state_dict())
    assert [tuple(v.shape) for v in ours.state_dict().values()] == [tuple(v.shape) for v in theirs.state_dict().values()]


def test_printing_without_pytorch():
    m = nn.Sequential(nn.Linear(3, 2), nn.Dropout(0.2), nn.Conv2d(1, 6, 5))
    assert repr(m) == ("Sequential(\n  (0): Linear(in_features=3, out_features=2, bias=True)\n  (1): Dropout(p=0.2, inplace=False)\n"
                       "  (2): Conv2d(1, 6, kernel_size=(5, 5), stride=(1, 1))\n)")
    assert repr(nn.MSELoss()) == "MSELoss()"


@pytest.mark.parametrize("text", ["Conv2d(2, 3, 3, padding=1, padding_mode='reflect')", "Conv1d(2, 3, 3, padding='same')",
                                  "ConvTranspose2d(2, 3, 3, stride=2, padding=1)", "BatchNorm2d(2)", "GroupNorm(2, 2)",
                                  "InstanceNorm2d(2, affine=True, track_running_stats=True)", "AvgPool2d(2)", "LayerNorm((4, 4))",
                                  "Sequential(Conv2d(2, 3, 3), ReLU(), MaxPool2d(2), Flatten(), Linear(3, 2))"])
def test_layers_compute_as_pytorch(text):
    torch = pytest.importorskip("torch")
    shape = (2, 2, 4) if "1d" in text else (2, 2, 4, 4)
    x, = arrays(shape)
    theirs = eval(text, vars(torch.nn).copy()).double()
    ours = eval(text, vars(nn).copy()).double()
    ours.load_state_dict({k: ac.tensor(v.tolist(), dtype=getattr(ac, str(v.dtype)[6:])) for k, v in theirs.state_dict().items()})
    for mode in (True, False):
        ours.train(mode), theirs.train(mode)
        a, b = leaf(ac, x), leaf(torch, x)
        u, v = ours(a), theirs(b)
        np.testing.assert_allclose(u.detach().numpy(), v.detach().numpy(), rtol=1e-9, atol=1e-11)
        (u * u).sum().backward(), (v * v).sum().backward()
        np.testing.assert_allclose(a.grad.numpy(), b.grad.numpy(), rtol=1e-8, atol=1e-10)
        for (n, p), q in zip(ours.named_parameters(), theirs.parameters()):
            np.testing.assert_allclose(p.grad.numpy(), q.grad.numpy(), rtol=1e-8, atol=1e-9, err_msg=n)
    for (n, p), q in zip(ours.named_buffers(), theirs.buffers()):
        np.testing.assert_allclose(p.numpy(), q.numpy(), rtol=1e-9, err_msg=n)


@pytest.mark.parametrize("text, shape", [
    ("RNN(3, 4)", (5, 2, 3)), ("RNN(3, 4, 2, nonlinearity='relu', bidirectional=True)", (5, 2, 3)), ("LSTM(3, 4)", (5, 2, 3)),
    ("LSTM(3, 4, 2, batch_first=True, bidirectional=True)", (2, 5, 3)), ("GRU(3, 4, 2)", (5, 2, 3)), ("GRU(3, 4, bias=False)", (5, 3)),
    ("LSTMCell(3, 4)", (2, 3)), ("GRUCell(3, 4)", (2, 3)), ("RNNCell(3, 4, bias=False)", (2, 3))])
def test_recurrent_layers_as_pytorch(text, shape):
    torch = pytest.importorskip("torch")
    x, = arrays(shape)
    theirs = eval(text, vars(torch.nn).copy()).double()
    ours = eval(text, vars(nn).copy()).double()
    ours.load_state_dict({k: ac.tensor(v.tolist(), dtype=ac.float64) for k, v in theirs.state_dict().items()})
    a, b = leaf(ac, x), leaf(torch, x)

    def flat(r):
        return [t for part in (r if isinstance(r, tuple) else (r,)) for t in (part if isinstance(part, tuple) else (part,))]

    u, v = flat(ours(a)), flat(theirs(b))
    assert len(u) == len(v)
    for p, q in zip(u, v):
        np.testing.assert_allclose(p.detach().numpy(), q.detach().numpy(), rtol=1e-10, atol=1e-12)
    again = ours(a, (u[1], u[2]) if "LSTM(" in text else tuple(u) if "LSTM" in text else u[-1])
    assert [tuple(t.shape) for t in flat(again)] == [tuple(t.shape) for t in u]
    sum((t * t).sum() for t in u).backward()
    sum((t * t).sum() for t in v).backward()
    np.testing.assert_allclose(a.grad.numpy(), b.grad.numpy(), rtol=1e-9, atol=1e-11)
    for (n, p), q in zip(ours.named_parameters(), theirs.parameters()):
        np.testing.assert_allclose(p.grad.numpy(), q.grad.numpy(), rtol=1e-9, atol=1e-11, err_msg=n)


def test_lstm_by_hand():
    cell = nn.LSTMCell(2, 3).double()
    x, h, c = arrays((1, 2), (1, 3), (1, 3))
    w, u, b, d = [p.detach().numpy() for p in cell.parameters()]
    i, f, g, o = np.split(x @ w.T + b + h @ u.T + d, 4, 1)
    s = lambda v: 1 / (1 + np.exp(-v))  # noqa: E731
    c1 = s(f) * c + s(i) * np.tanh(g)
    h2, c2 = cell(leaf(ac, x), (leaf(ac, h), leaf(ac, c)))
    np.testing.assert_allclose(c2.tolist(), c1, rtol=1e-12)
    np.testing.assert_allclose(h2.tolist(), s(o) * np.tanh(c1), rtol=1e-12)


def test_containers():
    s = nn.Sequential(nn.Linear(1, 2), nn.ReLU(), nn.Linear(2, 3))
    assert len(s) == 3 and isinstance(s[-1], nn.Linear) and len(s[:2]) == 2
    del s[1]
    s.append(nn.Tanh()).insert(0, nn.Identity())
    assert [type(m).__name__ for m in s] == ["Identity", "Linear", "Linear", "Tanh"] and list(s._modules) == ["0", "1", "2", "3"]
    with pytest.raises(IndexError, match="index 9 is out of range"):
        s[9]
    ml = nn.ModuleList([nn.Linear(1, 1)] + [nn.ReLU()])
    ml.extend([nn.Tanh()])
    ml[0] = nn.Identity()
    assert [type(m).__name__ for m in ml] == ["Identity", "ReLU", "Tanh"] and len(ml[1:]) == 2
    md = nn.ModuleDict({"a": nn.ReLU()})
    md["b"] = nn.Linear(1, 1)
    assert list(md) == ["a", "b"] and "b" in md and [n for n, _ in md.named_parameters()] == ["b.weight", "b.bias"]
    pl = nn.ParameterList([nn.Parameter(ac.ones(1)), ac.zeros(2)])
    assert len(pl) == 2 and isinstance(pl[1], nn.Parameter) and [n for n, _ in pl.named_parameters()] == ["0", "1"]
    pd = nn.ParameterDict({"w": nn.Parameter(ac.ones(1))})
    assert pd["w"] is next(iter(pd.parameters()))


def test_lazy_layers():
    m = nn.Sequential(nn.LazyConv2d(4, 3), nn.ReLU(), nn.Flatten(), nn.LazyLinear(2))
    y = m(ac.ones(2, 3, 5, 5))
    assert y.shape == (2, 2) and type(m[3]) is nn.Linear and m[3].weight.shape == (2, 36) and m[0].in_channels == 3
    assert all(p.requires_grad and p.is_leaf for p in m.parameters())
    y.sum().backward()
    assert m[0].weight.grad is not None


def test_embedding_padding_and_pretrained():
    e = nn.Embedding(4, 3, padding_idx=1)
    assert e.weight[1].tolist() == [0.0] * 3
    e(ac.tensor([0, 1, 1])).sum().backward()
    assert e.weight.grad.sum(1).tolist() == [3.0, 0.0, 0.0, 0.0]
    frozen = nn.Embedding.from_pretrained(ac.ones(2, 3))
    assert not frozen.weight.requires_grad
    with pytest.raises(IndexError, match="index out of range in self"):
        e(ac.tensor([7]))


# ---- init ------------------------------------------------------------------------------------------------


def test_default_init_bounds():
    ac.manual_seed(0)
    m = nn.Linear(100, 200)
    b = 1 / math.sqrt(100)
    w = m.weight.detach().numpy()
    assert np.abs(w).max() <= b and w.std() == pytest.approx(b / math.sqrt(3), rel=0.02) and np.abs(m.bias.detach().numpy()).max() <= b
    c = nn.Conv2d(4, 8, 5)
    assert np.abs(c.weight.detach().numpy()).max() <= 0.1


@pytest.mark.parametrize("name, kw, std", [
    ("xavier_uniform_", {}, math.sqrt(2 / 500)), ("xavier_normal_", {"gain": 2.0}, 2 * math.sqrt(2 / 500)),
    ("kaiming_uniform_", {"nonlinearity": "relu"}, math.sqrt(2 / 300)), ("kaiming_normal_", {"mode": "fan_out", "a": 1}, math.sqrt(1 / 200)),
    ("normal_", {"std": 3.0}, 3.0), ("uniform_", {"a": -1.0, "b": 1.0}, math.sqrt(1 / 3)), ("trunc_normal_", {"std": 0.5}, 0.5)])
def test_init_spread(name, kw, std):
    ac.manual_seed(0)
    w = getattr(nn.init, name)(nn.Parameter(ac.empty(200, 300)), **kw)
    assert w.requires_grad and w.is_leaf
    a = w.detach().numpy()
    assert a.std() == pytest.approx(std, rel=0.02) and abs(a.mean()) < 3 * std / math.sqrt(a.size) * 2


def test_init_others():
    w = nn.init.orthogonal_(ac.empty(5, 3), gain=2.0).numpy()
    np.testing.assert_allclose(w.T @ w, 4 * np.eye(3), atol=1e-5)
    assert nn.init.eye_(ac.empty(2, 3)).tolist() == [[1, 0, 0], [0, 1, 0]]
    assert nn.init.dirac_(ac.empty(2, 2, 3)).tolist() == [[[0, 1, 0], [0, 0, 0]], [[0, 0, 0], [0, 1, 0]]]
    assert nn.init.constant_(ac.empty(2), 3.0).tolist() == [3.0, 3.0]
    assert nn.init.calculate_gain("leaky_relu", 0.2) == math.sqrt(2 / 1.04) and nn.init.calculate_gain("tanh") == 5 / 3
    with pytest.raises(ValueError, match="Fan in and fan out can not be computed for tensor with fewer than 2 dimensions"):
        nn.init.xavier_uniform_(ac.empty(3))
    with pytest.raises(ValueError, match="Unsupported nonlinearity foo"):
        nn.init.calculate_gain("foo")


# ---- utils, warnings, errors -------------------------------------------------------------------------------


def test_clip_grad():
    ps = [nn.Parameter(ac.zeros(3)), nn.Parameter(ac.zeros(2)), nn.Parameter(ac.zeros(1))]
    ps[0].grad, ps[1].grad = ac.tensor([3.0, 0.0, 0.0]), ac.tensor([0.0, 4.0])
    assert nn.utils.clip_grad_norm_(ps, 1.0).item() == pytest.approx(5.0)
    np.testing.assert_allclose(ps[0].grad.tolist() + ps[1].grad.tolist(), [0.6, 0, 0, 0, 0.8], rtol=1e-5)
    assert nn.utils.clip_grad_norm_(ps, 10.0, norm_type=math.inf).item() == pytest.approx(0.8, rel=1e-5)
    nn.utils.clip_grad_value_(ps, 0.5)
    np.testing.assert_allclose(ps[0].grad.tolist() + ps[1].grad.tolist(), [0.5, 0, 0, 0, 0.5], rtol=1e-5)


def test_vector_and_pad_sequence():
    m = nn.Linear(2, 1)
    v = nn.utils.parameters_to_vector(m.parameters())
    assert v.shape == (3,)
    nn.utils.vector_to_parameters(ac.tensor([1.0, 2.0, 3.0]), m.parameters())
    assert m.weight.tolist() == [[1.0, 2.0]] and m.bias.tolist() == [3.0]
    padded = nn.utils.rnn.pad_sequence([ac.ones(2), ac.ones(3) * 2], batch_first=True, padding_value=9.0)
    assert padded.tolist() == [[1, 1, 9], [2, 2, 2]]
    assert nn.utils.rnn.pad_sequence([ac.ones(2, 5), ac.ones(3, 5)]).shape == (3, 2, 5)


def test_mse_warns_on_broadcast():
    with pytest.warns(UserWarning, match=r"Using a target size \(torch.Size\(\[3\]\)\) that is different to the input size "
                                         r"\(torch.Size\(\[3, 1\]\)\). This will likely lead to incorrect results due to broadcasting.") as seen:
        loss = nn.MSELoss()(ac.ones(3, 1), ac.zeros(3))
    assert loss.item() == 1.0 and seen[0].filename == __file__


@pytest.mark.parametrize("make, error, text", [
    (lambda: nn.Linear(3, 2)(ac.ones(4, 5)), RuntimeError, "mat1 and mat2 shapes cannot be multiplied (4x5 and 3x2)"),
    (lambda: nn.Conv2d(3, 6, 5)(ac.ones(1, 1, 28, 28)), RuntimeError,
     "Given groups=1, weight of size [6, 3, 5, 5], expected input[1, 1, 28, 28] to have 3 channels, but got 1 channels instead"),
    (lambda: F.cross_entropy(ac.ones(1, 3), ac.tensor([5])), IndexError, "Target 5 is out of bounds."),
    (lambda: F.cross_entropy(ac.ones(2, 3), ac.tensor([0])), ValueError, "Expected input batch_size (2) to match target batch_size (1)."),
    (lambda: F.mse_loss(ac.ones(1), ac.ones(1), reduction="foo"), ValueError, "foo is not a valid value for reduction"),
    (lambda: nn.BatchNorm1d(3)(ac.ones(1, 3)), ValueError, "Expected more than 1 value per channel when training"),
    (lambda: nn.BatchNorm2d(3)(ac.ones(1, 3)), ValueError, "expected 4D input (got 2D input)"),
    (lambda: nn.Sequential(3), TypeError, "int is not a Module subclass"),
    (lambda: nn.Conv2d(3, 4, 3, groups=2), ValueError, "in_channels must be divisible by groups"),
])
def test_messages(make, error, text):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(error) as e:
            make()
    assert text in str(e.value)


# ---- frozen ------------------------------------------------------------------------------------------------

NETS = {
    "mlp": (lambda: nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.LayerNorm(8), nn.Linear(8, 3)), (5, 6)),
    "dropout": (lambda: nn.Sequential(nn.Linear(6, 8), nn.Dropout(0.3), nn.ReLU(), nn.Linear(8, 3)), (5, 6)),
    "batch_norm": (lambda: nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Linear(8, 3)), (5, 6)),
    "cumulative_batch_norm": (lambda: nn.Sequential(nn.BatchNorm1d(6, momentum=None), nn.Linear(6, 3)), (5, 6)),
    "conv": (lambda: nn.Sequential(nn.Conv2d(2, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Dropout2d(0.2),
                                   nn.AvgPool2d(2), nn.Flatten(), nn.Linear(4, 3)), (5, 2, 4, 4)),
    "lstm": (lambda: Last(nn.LSTM(6, 4, batch_first=True), nn.Linear(4, 3)), (5, 3, 6)),
    "gru": (lambda: Last(nn.GRU(6, 4, 2, batch_first=True, dropout=0.1), nn.Linear(4, 3)), (5, 3, 6)),
}


class Last(nn.Module):
    def __init__(self, rnn, head):
        super().__init__()
        self.rnn, self.head = rnn, head

    def forward(self, x):
        return self.head(self.rnn(x)[0][:, -1])


@pytest.mark.parametrize("name", NETS)
def test_frozen_training_has_the_bits_of_eager_training(name):
    make, shape = NETS[name]
    xs = [ac.tensor(a.astype("float32")) for a in arrays(*[shape] * 5)]
    target = ac.tensor([0, 2, 1, 1, 0])
    results = []
    for freeze in (False, True):
        ac.manual_seed(0)
        model = make()
        opt = ac.optim.Adam(model.parameters(), lr=0.01)

        def step(x):
            opt.zero_grad()
            loss = F.cross_entropy(model(x), target, label_smoothing=0.1)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 0.5)
            opt.step()
            return loss

        if freeze:
            step = ac.freeze(step)
        before = ac.counters().replays
        losses = [step(x).item() for x in xs]
        replays = ac.counters().replays - before
        results.append((losses, {k: v.tolist() for k, v in model.state_dict().items()}))
    assert results[0] == results[1]
    assert replays == 4


def test_frozen_follows_train_and_eval():
    model = nn.Sequential(nn.Dropout(0.5), nn.Identity())
    f = ac.freeze(lambda x: model(x))
    x = ac.ones(64)
    assert (f(x) == 0).any() and (f(x) == 0).any()
    model.eval()
    assert f(x).tolist() == f(x).tolist() == x.tolist()
    model.train()
    assert (f(x) == 0).any()
