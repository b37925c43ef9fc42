"""Dropout, attention and fractional pooling: against PyTorch where nothing is random, by their statistics where something is."""
import itertools
import math

import numpy as np
import pytest

import autograd_c as ac
from autograd_c import nn
import autograd_c.nn.functional as F

N = 200_000


# ---- dropout ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("p", (0.1, 0.5, 0.9))
def test_dropout(p):
    for dtype in (ac.float32, ac.float64):
        x = ac.full((N,), 3.0, dtype=dtype, requires_grad=True)
        y = F.dropout(x, p)
        kept = y != 0
        assert abs(int(kept.sum()) - N * (1 - p)) < 5.5 * math.sqrt(N * p * (1 - p))
        np.testing.assert_allclose(y.detach().numpy()[kept.numpy()], 3 / (1 - p), rtol=1e-6)
        g, = ac.autograd.grad(y.sum(), x)
        assert ((g != 0) == kept).all()


def test_dropout_off():
    x = ac.rand(5)
    assert F.dropout(x, 0.5, False) is x and F.dropout(x, 0.0) is x and F.dropout(x, 1.0).tolist() == [0.0] * 5
    y = x.clone()
    assert F.dropout(y, 0.5, True, True) is y
    for p in (-0.1, 1.1):
        for f in (F.dropout, F.dropout1d, F.dropout2d, F.dropout3d, F.alpha_dropout, F.feature_alpha_dropout):
            with pytest.raises(ValueError, match="between 0 and 1"):
                f(ac.ones(2, 3, 4, 5) if f is F.dropout3d else ac.ones(2, 3, 4), p, True)
    assert nn.Dropout(0.5).eval()(x) is x


CHANNELS = [(F.dropout1d, (50, 40, 3), 2), (F.dropout1d, (2000, 3), 1), (F.dropout2d, (50, 40, 3, 2), 2), (F.dropout2d, (50, 40, 3), 2), (F.dropout3d, (50, 40, 3, 2, 2), 2),
            (F.dropout3d, (2000, 3, 2, 2), 1), (F.feature_alpha_dropout, (50, 40, 3, 2), 2)]


@pytest.mark.parametrize("f, shape, lead", CHANNELS, ids=range(len(CHANNELS)))
def test_channels_share_one_fate(f, shape, lead):
    y = f(ac.ones(shape), 0.3, True).reshape(math.prod(shape[:lead]), -1)
    assert (y == y[:, :1]).all()
    first = y[:, 0].tolist()
    values = set(first)
    assert len(values) == 2
    kept = sum(v == max(values) for v in first)
    assert abs(kept - 0.7 * len(first)) < 5.5 * math.sqrt(len(first) * 0.21)
    if f is not F.feature_alpha_dropout:
        assert values == {0.0, max(values)} and abs(max(values) - 1 / 0.7) < 1e-6


def test_alpha_dropout_keeps_mean_and_variance():
    x = ac.randn(N, generator=ac.Generator().manual_seed(1), dtype=ac.float64)
    for f in (F.alpha_dropout, F.feature_alpha_dropout):
        y = f(x.reshape(-1, 1), 0.2, True)
        assert abs(float(y.mean())) < 0.02 and abs(float(y.var()) - 1) < 0.03
    # the two values that a one may become, by the formula
    p, alpha = 0.25, -1.7580993408473766
    a = 1 / math.sqrt((1 - p) * (1 + p * alpha**2))
    seen = sorted(set(np.round(F.alpha_dropout(ac.ones(1000, dtype=ac.float64), p, True).tolist(), 12)))
    np.testing.assert_allclose(seen, sorted([a * (1 - alpha * p), a * (alpha - alpha * p)]), rtol=1e-10)
    assert F.alpha_dropout(x, 0.5, False) is x


def test_rrelu():
    x = ac.tensor([-1.0] * N + [2.0] * 1000, requires_grad=True)
    y = F.rrelu(x, 0.2, 0.6, True)
    slopes = -y.detach()[:N]
    assert (y[N:] == 2).all() and float(slopes.min()) >= 0.2 and float(slopes.max()) <= 0.6
    assert abs(float(slopes.mean()) - 0.4) < 5.5 * 0.4 / math.sqrt(12 * N)
    g, = ac.autograd.grad(y.sum(), x)
    np.testing.assert_allclose(g[:N].numpy(), slopes.numpy(), rtol=1e-6)
    assert F.rrelu(ac.tensor([-1.0, 1.0])).tolist() == [-(1 / 8 + 1 / 3) / 2, 1.0] or abs(F.rrelu(ac.tensor([-1.0]))[0] + 11 / 48) < 1e-7


DRAWN = {
    "dropout": lambda x: F.dropout(x, 0.3), "dropout1d": lambda x: F.dropout1d(x, 0.3), "dropout2d": lambda x: F.dropout2d(x[None], 0.3),
    "dropout3d": lambda x: F.dropout3d(x[None], 0.3), "alpha": lambda x: F.alpha_dropout(x, 0.3, True), "feature_alpha": lambda x: F.feature_alpha_dropout(x, 0.3, True),
    "rrelu": lambda x: F.rrelu(x, training=True), "fractional": lambda x: F.fractional_max_pool2d(x[None], 2, 3),
    "attention": lambda x: F.scaled_dot_product_attention(x, x, x, dropout_p=0.3)}


@pytest.mark.parametrize("name", DRAWN)
def test_frozen_draws_what_eager_draws(name):
    """Values, gradients and the generator, call by call."""

    def step(x):
        y = DRAWN[name](x)
        return y, ac.autograd.grad((y * y).sum(), x)[0]

    frozen = ac.freeze(step)
    runs = []
    for f in (step, frozen):
        ac.manual_seed(3)
        runs.append([])
        for k in range(3):
            x = ac.randn(4, 6, 5, generator=ac.Generator().manual_seed(k)).requires_grad_()
            runs[-1].append([t.tolist() for t in f(x)])
        runs[-1].append(ac.get_rng_state().tolist())
    assert runs[0] == runs[1] and runs[0][0] != runs[0][1]


# ---- against PyTorch ---------------------------------------------------------------------------------------------


def both(torch, a, grad=True):
    a = np.asarray(a)
    grad = grad and a.dtype.kind == "f"
    return torch.tensor(a, requires_grad=grad), ac.tensor(a, requires_grad=grad)


def same(torch, got, want, wrt_got, wrt_want, second=True):
    """Values, gradients, and the gradient of their squares."""
    pairs = [(g, w) for g, w in zip(got, want) if w is not None]
    assert [g is None for g in got] == [w is None for w in want]
    for g, w in pairs:
        np.testing.assert_allclose(g.detach().numpy(), w.detach().numpy(), rtol=1e-9, atol=1e-10)
    cots = [np.random.default_rng(k).standard_normal(tuple(w.shape)) for k, (_, w) in enumerate(pairs)]
    a = ac.autograd.grad(sum((g * ac.tensor(c)).sum() for (g, _), c in zip(pairs, cots)), wrt_got, create_graph=True)
    b = torch.autograd.grad(sum((w * torch.tensor(c)).sum() for (_, w), c in zip(pairs, cots)), wrt_want, create_graph=True)
    for x, y in zip(a, b):
        np.testing.assert_allclose(x.detach().numpy(), y.detach().numpy(), rtol=1e-8, atol=1e-9)
    if second:
        a = ac.autograd.grad(sum((x * x).sum() for x in a), wrt_got, allow_unused=True)
        b = torch.autograd.grad(sum((y * y).sum() for y in b), wrt_want, allow_unused=True)
        for x, y in zip(a, b):
            if y is not None:
                np.testing.assert_allclose(x.numpy(), y.numpy(), rtol=1e-7, atol=1e-8)


RNG = np.random.default_rng(0)
SEEN = RNG.random((2, 3, 4, 5)) < 0.7
BLIND = SEEN.copy()
BLIND[0, 1, 2] = BLIND[1, :, 0] = False
ATTENTION = {
    "plain": {}, "scale": dict(scale=0.3), "causal": dict(is_causal=True), "bool": dict(attn_mask=SEEN | (np.arange(5) == 0)), "blind": dict(attn_mask=BLIND),
    "float": dict(attn_mask=RNG.standard_normal((4, 5))), "float_blind": dict(attn_mask=np.where(BLIND, 0.0, -np.inf)), "broadcast": dict(attn_mask=np.array([True, False, True, True, False])[None])}


@pytest.mark.parametrize("name", ATTENTION)
def test_scaled_dot_product_attention(name):
    torch = pytest.importorskip("torch")
    shapes = [(2, 3, 4, 6), (2, 3, 5, 6), (2, 3, 5, 7)]
    pairs = [both(torch, np.random.default_rng(k).standard_normal(s)) for k, s in enumerate(shapes)]
    options = ATTENTION[name]
    mask = options.get("attn_mask")
    masks = both(torch, mask, False) if mask is not None else (None, None)
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        want = torch.nn.functional.scaled_dot_product_attention(*[t for t, _ in pairs], **{**options, "attn_mask": masks[0]})
        got = F.scaled_dot_product_attention(*[a for _, a in pairs], **{**options, "attn_mask": masks[1]})
        same(torch, [got], [want], [a for _, a in pairs], [t for t, _ in pairs])


def test_grouped_heads():
    torch = pytest.importorskip("torch")
    pairs = [both(torch, np.random.default_rng(k).standard_normal(s)) for k, s in enumerate([(2, 6, 4, 5), (2, 3, 7, 5), (2, 2, 7, 5)])]
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        want = torch.nn.functional.scaled_dot_product_attention(*[t for t, _ in pairs], enable_gqa=True)
        got = F.scaled_dot_product_attention(*[a for _, a in pairs], enable_gqa=True)
        same(torch, [got], [want], [a for _, a in pairs], [t for t, _ in pairs])


def test_attention_refuses():
    x = ac.ones(2, 3, 4)
    with pytest.raises(RuntimeError, match="Explicit attn_mask"):
        F.scaled_dot_product_attention(x, x, x, ac.ones(3, 3), is_causal=True)
    with pytest.raises(RuntimeError, match="heads"):
        F.scaled_dot_product_attention(x, ac.ones(3, 3, 4), ac.ones(3, 3, 4), enable_gqa=True)
    with pytest.raises(ValueError, match="between 0 and 1"):
        F.scaled_dot_product_attention(x, x, x, dropout_p=2.0)


def test_dropout_of_attention():
    """Of the weights: what comes out is as before in the mean."""
    q, k, v = [ac.randn(1, 4, 8, generator=ac.Generator().manual_seed(s), dtype=ac.float64) for s in range(3)]
    want = F.scaled_dot_product_attention(q, k, v)
    got = F.scaled_dot_product_attention(q.expand(20000, 4, 8), k.expand(20000, 4, 8), v.expand(20000, 4, 8), dropout_p=0.4)
    np.testing.assert_allclose(got.mean(0).numpy(), want[0].numpy(), atol=5.5 * float(got.std(0).max()) / math.sqrt(20000))


def copy_state(torch_module, module):
    """module with the parameters of torch_module."""
    state = {k: ac.tensor(v.numpy()) for k, v in torch_module.state_dict().items()}
    assert list(state) == list(module.state_dict())
    module.load_state_dict(state)
    return module


HEADS = [dict(zip(("bias", "add_bias_kv", "add_zero_attn", "batch_first"), v)) for v in
         [(True, False, False, False), (False, False, False, True), (True, True, False, False), (True, False, True, True), (False, True, True, False)]]
HEADS += [dict(kdim=5, vdim=7), dict(kdim=5, vdim=5, add_bias_kv=True, batch_first=True)]
CALLS = {"plain": {}, "no_weights": dict(need_weights=False), "each_head": dict(average_attn_weights=False), "padding": dict(key_padding_mask="bool"),
         "padding_float": dict(key_padding_mask="float"), "mask": dict(attn_mask="bool"), "mask_each": dict(attn_mask="3d"), "both": dict(key_padding_mask="bool", attn_mask="bool"),
         "both_float": dict(key_padding_mask="float", attn_mask="float", need_weights=False), "causal": dict(attn_mask="causal", is_causal=True, need_weights=False),
         "causal_weights": dict(attn_mask="causal", is_causal=True)}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("options", HEADS, ids=range(len(HEADS)))
def test_multihead_attention(options, call):
    """Every option of the module with every kind of call, batched and not."""
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(1)
    t = torch.nn.MultiheadAttention(6, 2, dtype=torch.float64, **options)
    with torch.no_grad():
        for p in t.parameters():
            p.copy_(torch.tensor(rng.standard_normal(tuple(p.shape)) * 0.5))
    m = copy_state(t, nn.MultiheadAttention(6, 2, dtype=ac.float64, **options))
    assert repr(m) == repr(t)
    length, places, n = 3, 4, 2
    masks = {"key_padding_mask": {"bool": lambda s: rng.random(s) < 0.3, "float": lambda s: rng.standard_normal(s)},
             "attn_mask": {"bool": lambda s: (rng.random(s) < 0.3) & (np.arange(places) > 0), "float": lambda s: rng.standard_normal(s),
                           "causal": lambda s: np.triu(np.ones(s, bool), 1), "3d": lambda s: (rng.random((2 * n, *s)) < 0.3) & (np.arange(places) > 0)}}
    for batched in (True, False):
        shapes = [(length, n, 6), (places, n, m.kdim), (places, n, m.vdim)]
        if not batched:
            shapes = [(a, c) for a, _, c in shapes]
        elif m.batch_first:
            shapes = [(b, a, c) for a, b, c in shapes]
        arguments = dict(CALLS[call])
        for name in ("key_padding_mask", "attn_mask"):
            if name in arguments:
                a = masks[name][arguments[name]]((n, places) if name == "key_padding_mask" else (length, places))
                if name == "key_padding_mask":
                    a[:, 0] = False if a.dtype == bool else 0.0
                    a = a if batched else a[0]
                elif a.ndim == 3 and not batched:
                    a = a[:2]
                arguments[name] = a
        pairs = [both(torch, rng.standard_normal(s)) for s in shapes]
        if m.kdim == m.vdim == 6 and call == "plain":  # self-attention: one tensor three times
            pairs = [pairs[0]] * 3
        ta = {k: torch.tensor(v) if isinstance(v, np.ndarray) else v for k, v in arguments.items()}
        aa = {k: ac.tensor(v) if isinstance(v, np.ndarray) else v for k, v in arguments.items()}
        with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
            want, got = t(*[x for x, _ in pairs], **ta), m(*[y for _, y in pairs], **aa)
            same(torch, got, want, [pairs[0][1], *m.parameters()], [pairs[0][0], *t.parameters()])


def test_static_keys_and_values():
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(2)
    q = both(torch, rng.standard_normal((3, 2, 6)))
    k, v = [both(torch, rng.standard_normal((4, 5, 3))) for _ in range(2)]
    w = [both(torch, rng.standard_normal(s)) for s in ((18, 6), (18,), (6, 6), (6,))]

    def run(F, side):
        x = [p[side] for p in w]
        return F.multi_head_attention_forward(q[side], q[side], q[side], 6, 2, x[0], x[1], None, None, False, 0.0, x[2], x[3], static_k=k[side], static_v=v[side])

    same(torch, run(F, 1), run(torch.nn.functional, 0), [q[1], k[1], v[1]], [q[0], k[0], v[0]])


def test_multihead_attention_refuses():
    m = nn.MultiheadAttention(4, 2)
    x = ac.ones(3, 2, 4)
    for words, f in [("divisible", lambda: nn.MultiheadAttention(5, 2)), ("2-D", lambda: m(ac.ones(3, 4), x, x)), ("embedding dimension", lambda: m(ac.ones(3, 2, 6), ac.ones(3, 2, 6), ac.ones(3, 2, 6))),
                     ("does not match value", lambda: m(x, x, ac.ones(5, 2, 4))), ("unbatched 2D or batched 3D", lambda: m(x[None], x, x)),
                     ("only bool and floating", lambda: m(x, x, x, attn_mask=ac.ones(3, 3).long()))]:
        with pytest.raises(AssertionError, match=words):
            f()
    for words, f in [("should be", lambda: m(x, x, x, attn_mask=ac.ones(2, 3))), ("Need attn_mask", lambda: m(x, x, x, is_causal=True))]:
        with pytest.raises(RuntimeError, match=words):
            f()
    with pytest.raises(ValueError, match="greater than 0"):
        nn.MultiheadAttention(0, 2)


def test_multihead_attention_starts_as_pytorchs():
    m = nn.MultiheadAttention(64, 4, add_bias_kv=True)
    bound = math.sqrt(6 / (64 + 192))
    assert float(m.in_proj_weight.abs().max()) <= bound and abs(float(m.in_proj_weight.std()) - bound / math.sqrt(3)) < 0.05 * bound
    assert not m.in_proj_bias.any() and not m.out_proj.bias.any() and abs(float(m.bias_k.std()) - math.sqrt(2 / 128)) < 0.05


def test_attention_frozen():
    m = nn.MultiheadAttention(8, 2, dropout=0.2)

    def step(x, mask):
        y, w = m(x, x, x, key_padding_mask=mask)
        return y, w, *ac.autograd.grad((y * y).sum(), list(m.parameters()))

    frozen = ac.freeze(step)
    runs = []
    for f in (step, frozen):
        ac.manual_seed(4)
        runs.append([[t.tolist() for t in f(ac.randn(5, 3, 8, generator=ac.Generator().manual_seed(k)), ac.tensor([[False] * 4 + [k > 0]] * 3))] for k in range(3)])
    assert runs[0] == runs[1]


def test_blind_places_frozen():
    """Whether some place sees nothing is not asked of a plan: the same bits in either case."""
    f = lambda x, mask: F.scaled_dot_product_attention(x, x, x, mask)  # noqa: E731
    frozen = ac.freeze(f)
    for k in range(4):
        x, mask = ac.randn(2, 4, 6, generator=ac.Generator().manual_seed(k)), ac.ones(4, 4).tril(k - 2) > 0
        assert frozen(x, mask).tolist() == f(x, mask).tolist() and f(x, mask).isfinite().all()


@pytest.mark.parametrize("nd", (2, 3))
@pytest.mark.parametrize("batched", (True, False))
def test_fractional_max_pool(nd, batched):
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(3)
    ours, theirs = (getattr(m, f"fractional_max_pool{nd}d") for m in (F, torch.nn.functional))
    for dtype, k in itertools.product((np.float64, np.float32), range(6)):
        spatial = rng.integers(4, 10, nd)  # in three dims PyTorch wants one place more than needed
        x = both(torch, rng.permutation(6 * spatial.prod()).reshape((2, 3, *spatial) if batched else (6, *spatial)).astype(dtype))
        samples = both(torch, rng.random((2, 3, nd) if batched else (1, 6, nd)).astype(dtype), False)
        kernel = [int(v) for v in rng.integers(1, 4, nd)]
        size = dict(output_size=[int(rng.integers(1, n - m + (2 if nd == 2 else 1))) for n, m in zip(spatial, kernel)]) if k % 2 else dict(output_ratio=(0.5, 0.3, 0.4)[:nd])
        want = theirs(x[0], kernel, **size, return_indices=True, _random_samples=samples[0])
        got = ours(x[1], kernel, **size, return_indices=True, _random_samples=samples[1])
        assert got[1].tolist() == want[1].tolist()
        assert ours(x[1], kernel, **size, _random_samples=samples[1]).tolist() == want[0].tolist()
        same(torch, [got[0]], [want[0]], [x[1]], [x[0]], second=False)
    x = ac.arange(81.0).view(1, 1, 9, 9)
    seen = {tuple(F.fractional_max_pool2d(x, 2, 4).flatten().tolist()) for _ in range(50)}
    assert len(seen) > 3 and all(v[-1] == 80 for v in seen)


def test_fractional_max_pool_refuses():
    x = ac.ones(1, 1, 4, 4)
    for error, words, f in [(ValueError, "either an output_size or an output_ratio", lambda: F.fractional_max_pool2d(x, 2)), (RuntimeError, "too large relative to input size", lambda: F.fractional_max_pool2d(x, 2, 4)),
                            (RuntimeError, "Expected 3D or 4D", lambda: F.fractional_max_pool2d(x[0, 0], 2, 2)), (RuntimeError, "_random_samples", lambda: F.fractional_max_pool2d(x, 2, 2, _random_samples=ac.ones(1, 1, 3))),
                            (RuntimeError, "too large", lambda: F.fractional_max_pool2d(x, 5, 1))]:
        with pytest.raises(error, match=words):
            f()
