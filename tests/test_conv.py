"""Convolutions at random sizes against PyTorch, and what a NaN may reach."""
import numpy as np
import pytest

import autograd_c as ac
import autograd_c.nn.functional as F


def config(rng):
    """One convolution: function, arrays, keywords."""
    r = lambda a, b: int(rng.integers(a, b + 1))  # noqa: E731
    nd = r(1, 3)
    groups, cg, og = [1, 1, 2, 3][r(0, 3)], r(1, [9, 5, 3][nd - 1]), r(1, [60, 20, 6][nd - 1])
    if r(0, 4) == 0:
        groups, cg, og = r(1, 20), 1, r(1, 2)
    few = lambda a, b: [r(a, b) for _ in range(nd)]  # noqa: E731
    k, size = few(1, [7, 4, 3][nd - 1]), few(1, [60, 20, 8][nd - 1])
    kw = dict(stride=few(1, 4), padding=few(0, 4), dilation=few(1, 3), groups=groups)
    n = r(0, 3)
    x = rng.standard_normal((n, cg * groups, *size))
    b = rng.standard_normal(og * groups) if r(0, 1) else None
    if r(0, 2) == 0:
        kw["output_padding"] = [r(0, max(s, d) - 1) for s, d in zip(kw["stride"], kw["dilation"])]
        return f"conv_transpose{nd}d", x, rng.standard_normal((cg * groups, og, *k)), b, kw
    if r(0, 5) == 0:
        kw["stride"] = [1] * nd
        if all(v % 2 or d % 2 == 0 for v, d in zip(k, kw["dilation"])):
            kw["padding"] = "same"
    return f"conv{nd}d", x, rng.standard_normal((og * groups, cg, *k)), b, kw


@pytest.mark.parametrize("dtype,tol", [("float64", 1e-11), ("float32", 3e-4)])
@pytest.mark.parametrize("seed", range(6))
def test_random_against_torch(seed, dtype, tol):
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(seed)
    for _ in range(40):
        name, x, w, b, kw = config(rng)
        arrays = [a.astype(dtype) for a in (x, w, b) if a is not None]
        theirs = [torch.tensor(a).requires_grad_() for a in arrays]
        ours = [ac.tensor(a).requires_grad_() for a in arrays]
        about = (name, x.shape, w.shape, kw)
        try:
            want = getattr(torch.nn.functional, name)(*theirs, **kw)
        except RuntimeError:
            with pytest.raises(RuntimeError):
                getattr(F, name)(*ours, **kw)
            continue
        if 0 in want.shape[2:]:  # PyTorch refuses it or not, by dtype
            continue
        got = getattr(F, name)(*ours, **kw)
        assert tuple(got.shape) == tuple(want.shape), about
        g = rng.standard_normal(tuple(want.shape)).astype(dtype)
        pairs = [(got, want), *zip(ac.autograd.grad(got, ours, ac.tensor(g)), torch.autograd.grad(want, theirs, torch.tensor(g)))]
        for p, q in pairs:
            p, q = p.detach().numpy(), q.detach().numpy()
            assert p.size == 0 or np.abs(p - q).max() <= tol * max(1.0, np.abs(q).max()), about


@pytest.mark.parametrize("shape,wshape,kw", [
    ((2, 3, 9, 7), (20, 3, 3, 3), dict(padding=1)),
    ((2, 3, 9, 7), (2, 3, 3, 3), dict(padding=1)),
    ((1, 4, 9, 8), (4, 1, 3, 2), dict(groups=4, stride=2)),
    ((2, 2, 5, 4, 6), (18, 2, 2, 3, 3), dict(padding=(0, 1, 1), dilation=(1, 2, 1))),
    ((2, 2, 30), (17, 2, 5), dict(stride=3, padding=2)),
])
@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_what_a_nan_reaches(shape, wshape, kw, bad):
    """Of the weight's gradient: the taps that see the place, no others (every result reads a tap once)."""
    rng = np.random.default_rng(1)
    nd = len(shape) - 2
    conv = getattr(F, f"conv{nd}d")
    for _ in range(6):
        at = tuple(int(rng.integers(0, n)) for n in shape)
        spot = np.zeros(shape)
        spot[at] = 1.0
        w = ac.tensor(rng.standard_normal(wshape)).requires_grad_()
        y = conv(ac.tensor(spot), w, **kw)
        g = ac.tensor(rng.uniform(0.5, 1.0, tuple(y.shape)))
        seen = ac.autograd.grad(y, w, g)[0].numpy() != 0
        x = rng.standard_normal(shape)
        x[at] = bad
        gw = ac.autograd.grad(conv(ac.tensor(x), w, **kw), w, g)[0].numpy()
        assert (~np.isfinite(gw) == seen).all()


def test_too_small():
    with pytest.raises(RuntimeError, match="Output size is too small"):
        F.conv_transpose1d(ac.ones(1, 1, 2), ac.ones(1, 1, 1), padding=1)
    with pytest.raises(RuntimeError, match="Kernel size can't be greater than actual input size"):
        F.conv2d(ac.ones(1, 1, 2, 2), ac.ones(1, 1, 3, 3))
