"""Grids and alignments against PyTorch, and frozen against eager; the rows themselves are in table_fn_spatial.py."""
import itertools

import numpy as np
import pytest

import autograd_c as ac
import autograd_c.nn.functional as F

torch = pytest.importorskip("torch")
TF = torch.nn.functional
MODES = [(nd, mode, padding, align) for nd, mode, padding, align in itertools.product(
    (2, 3), ("bilinear", "nearest", "bicubic"), ("zeros", "border", "reflection"), (False, True)) if nd == 2 or mode != "bicubic"]


def both(a, grad=True):
    return torch.tensor(a, requires_grad=grad), ac.tensor(a, requires_grad=grad)


def close(got, want, tol):
    np.testing.assert_allclose(got.detach().numpy(), want.detach().numpy(), rtol=tol, atol=tol)


@pytest.mark.parametrize("dtype, tol", [(np.float64, 1e-10), (np.float32, 2e-4)])
@pytest.mark.parametrize("nd, mode, padding, align", MODES)
def test_grid_sample(nd, mode, padding, align, dtype, tol):
    rng = np.random.default_rng(nd)
    for spatial in ((5, 6, 7), (1, 1, 1), (2, 1, 3)):
        tx, ax = both(rng.standard_normal((2, 3, *spatial[:nd])).astype(dtype))
        tg, ag = both(rng.uniform(-2.6, 2.6, (2, *(9, 11, 4)[:nd], nd)).astype(dtype))
        ty, ay = TF.grid_sample(tx, tg, mode, padding, align), F.grid_sample(ax, ag, mode, padding, align)
        close(ay, ty, tol)
        tw, aw = both(rng.standard_normal(tuple(ty.shape)).astype(dtype), False)
        for a, t in zip(ac.autograd.grad(ay, [ax, ag], aw), torch.autograd.grad(ty, [tx, tg], tw)):
            close(a, t, tol)


def test_grid_sampler_by_number():
    rng = np.random.default_rng(0)
    tx, ax = both(rng.standard_normal((1, 2, 4, 5)))
    tg, ag = both(rng.uniform(-1, 1, (1, 3, 3, 2)))
    close(ac.grid_sampler(ax, ag, 2, 1, True), torch.grid_sampler(tx, tg, 2, 1, True), 1e-12)
    close(ac.grid_sampler_2d(ax, ag, 0, 2, False), torch.grid_sampler_2d(tx, tg, 0, 2, False), 1e-12)
    tx, ax = both(rng.standard_normal((1, 2, 4, 5, 3)))
    tg, ag = both(rng.uniform(-1, 1, (1, 3, 3, 2, 3)))
    close(ac.grid_sampler_3d(ax, ag, 0, 0, True), torch.grid_sampler_3d(tx, tg, 0, 0, True), 1e-12)


def test_points_that_are_nowhere():
    """NaN and infinity: no crash, NaN where PyTorch gives NaN, and nothing outside is read."""
    x = ac.tensor(np.full((1, 1, 4, 4), np.inf))
    g = ac.tensor(np.array([[[[5.0, 5.0], [-7.0, 0.0]]]]))
    assert F.grid_sample(x, g, align_corners=False).tolist() == [[[[0.0, 0.0]]]]
    bad = np.array([[[[np.nan, 0.0], [np.inf, 0.2], [-np.inf, np.nan], [1e30, -1e30]]]])
    for mode, padding in itertools.product(("bilinear", "nearest", "bicubic"), ("zeros", "border", "reflection")):
        x, g = ac.tensor(np.ones((1, 1, 4, 4)), requires_grad=True), ac.tensor(bad, requires_grad=True)
        F.grid_sample(x, g, mode, padding, False).sum().backward()
        assert x.grad.shape == (1, 1, 4, 4) and g.grad.shape == g.shape
    y = F.grid_sample(ac.ones(1, 1, 4, 4), ac.tensor(bad).float(), "bilinear", "zeros", False)
    assert np.isnan(y.numpy()[0, 0, 0, :3]).all() and y[0, 0, 0, 3] == 0


@pytest.mark.parametrize("f, words", [
    (lambda F, t: F.grid_sample(t.zeros(1, 1, 2, 2), t.zeros(1, 1, 1, 2), "cubic", align_corners=True), "expected mode"),
    (lambda F, t: F.grid_sample(t.zeros(1, 1, 2, 2), t.zeros(1, 1, 1, 2), "nearest", "wrap", True), "expected padding_mode"),
    (lambda F, t: F.grid_sample(t.zeros(1, 1, 2, 2), t.zeros(1, 1, 1, 3), align_corners=True), "last dimension"),
    (lambda F, t: F.grid_sample(t.zeros(1, 1, 2, 2), t.zeros(2, 1, 1, 2), align_corners=True), "same batch size"),
    (lambda F, t: F.grid_sample(t.zeros(1, 1, 0, 2), t.zeros(1, 1, 1, 2), align_corners=True), "non-empty spatial"),
    (lambda F, t: F.grid_sample(t.zeros(1, 1, 2, 2), t.zeros(1, 1, 1, 2, dtype=t.float64), align_corners=True), "expected scalar type"),
    (lambda F, t: F.affine_grid(t.zeros(1, 2, 3), [1, 1, 2], True), "only supports 4D and 5D"),
    (lambda F, t: F.affine_grid(t.zeros(1, 2, 4), [1, 1, 2, 2], True), "Expected a batch of 2D"),
    (lambda F, t: F.affine_grid(t.zeros(1, 2, 3), [1, 1, 0, 2], True), "non-zero, positive"),
    (lambda F, t: F.ctc_loss(t.zeros(3, 1, 4), t.tensor([[1]]), (4,), (1,)), "at most 3"),
    (lambda F, t: F.ctc_loss(t.zeros(3, 1, 4), t.tensor([[1]]), (3,), (2,)), "at least 2 at dimension 1"),
    (lambda F, t: F.ctc_loss(t.zeros(3, 1, 4), t.tensor([[1]]), (3, 3), (1,)), "batch_size"),
    (lambda F, t: F.ctc_loss(t.zeros(3, 1, 4), t.tensor([[1]]), (3,), (1,), blank=4), "label range"),
    (lambda F, t: F.ctc_loss(t.zeros(3, 1, 4), t.tensor([[1]]), (-3,), (1,)), "at least 0"),
    (lambda F, t: F.ctc_loss(t.zeros(3, 2, 4), t.tensor([1, 2, 3]), (3, 3), (1, 1)), "size 2 at dimension 0|at most 2|but got size 3"),
    (lambda F, t: F.ctc_loss(t.zeros(3, 1, 4), t.tensor([[1]]), (3,), (1,), reduction="x"), "not a valid value for reduction"),
])
def test_refusals(f, words):
    for functions, t in ((F, ac), (TF, torch)):
        with pytest.raises((RuntimeError, ValueError, NotImplementedError), match=words):
            f(functions, t)


def test_labels_out_of_range():
    """PyTorch reads outside of its memory here."""
    with pytest.raises(IndexError, match="label 9"):
        F.ctc_loss(ac.zeros(3, 1, 4), ac.tensor([[9]]), (3,), (1,))


@pytest.mark.parametrize("align", (False, True))
@pytest.mark.parametrize("size", [(2, 1, 3, 4), (1, 1, 1, 2), (2, 3, 2, 1, 5)])
def test_affine_grid(size, align):
    nd = len(size) - 2
    tt, at = both(np.random.default_rng(1).standard_normal((size[0], nd, nd + 1)))
    ty, ay = TF.affine_grid(tt, list(size), align), F.affine_grid(at, size, align)
    close(ay, ty, 1e-12)
    close(ac.autograd.grad(ay.square().sum(), at)[0], torch.autograd.grad(ty.square().sum(), tt)[0], 1e-11)


def test_spatial_transformer_frozen():
    """affine_grid and grid_sample, forward and backward, as a plan."""
    rng = np.random.default_rng(2)
    x = ac.tensor(rng.standard_normal((2, 3, 8, 8)).astype(np.float32))

    def step(theta):
        y = F.grid_sample(x, F.affine_grid(theta, x.shape, False), "bicubic", "reflection", False)
        return ac.autograd.grad((y * y).sum(), theta)[0]

    frozen = ac.freeze(step)
    for k in range(3):
        theta = ac.tensor(rng.standard_normal((2, 2, 3)).astype(np.float32), requires_grad=True)
        assert frozen(theta).tolist() == step(theta).tolist()


# ---- alignments ----------------------------------------------------------------------------------------------


def logits(seed, *shape):
    return np.random.default_rng(seed).standard_normal(shape)


CTC = [  # steps, samples, classes, labels, lengths
    dict(shape=(7, 3, 5), targets=[[1, 2, 2], [3, 3, 0], [4, 1, 0]], times=(7, 5, 6), labels=(3, 2, 1)),
    dict(shape=(7, 3, 5), targets=[1, 2, 2, 3, 3, 4], times=(7, 5, 6), labels=(3, 2, 1)),
    dict(shape=(7, 2, 5), targets=[[1, 2], [0, 4]], times=(7, 7), labels=(2, 0), blank=3),
    dict(shape=(2, 2, 4), targets=[[1, 2], [1, 1]], times=(2, 2), labels=(2, 2), zero=True),
    dict(shape=(6, 5), targets=[1, 2], times=(6,), labels=(2,)), dict(shape=(60, 2, 30), targets=[[5] * 20, list(range(1, 21))], times=(60, 50), labels=(20, 20))]


def ctc(F, t, x, case, reduction, tensors):
    number = (lambda v: t.tensor(v)) if tensors else (lambda v: v)
    return F.ctc_loss(x.log_softmax(-1), t.tensor(case["targets"]), number(case["times"]), number(case["labels"]), case.get("blank", 0),
                      reduction, case.get("zero", False))


@pytest.mark.parametrize("tensors", (False, True))
@pytest.mark.parametrize("reduction", ("none", "mean", "sum"))
@pytest.mark.parametrize("case", CTC, ids=range(len(CTC)))
def test_ctc_loss(case, reduction, tensors):
    for dtype, tol in ((np.float64, 1e-10), (np.float32, 1e-4)):
        tx, ax = both(logits(0, *case["shape"]).astype(dtype))
        ty, ay = ctc(TF, torch, tx, case, reduction, tensors), ctc(F, ac, ax, case, reduction, tensors)
        close(ay, ty, tol)
        close(ac.autograd.grad(ay.sum(), ax)[0], torch.autograd.grad(ty.sum(), tx)[0], tol)


@pytest.mark.parametrize("case", CTC[:5], ids=range(5))
def test_second_derivative_of_ctc_loss(case):
    """Which PyTorch has not: against differences of the first, as a function of what goes into log_softmax."""
    assert ac.autograd.gradgradcheck(lambda x: ctc(F, ac, x, case, "none", False), (both(logits(1, *case["shape"]))[1],))


def test_gradient_of_ctc_loss_is_pytorchs():
    """In log-probabilities themselves, too; and NaN where nothing fits and nobody asked for zero."""
    case = dict(CTC[3], zero=False)
    lp = logits(2, 2, 2, 4)
    for zero in (False, True):
        grads = []
        for t, functions in ((torch, TF), (ac, F)):
            x = t.tensor(lp, requires_grad=True)
            loss = functions.ctc_loss(x, t.tensor(case["targets"]), (2, 2), (2, 2), 0, "none", zero)
            grads.append(t.autograd.grad(loss.sum(), x)[0].numpy())
            assert loss.tolist()[1] == (0 if zero else np.inf)
        np.testing.assert_allclose(grads[1], grads[0], rtol=1e-12, atol=1e-12)
        assert np.isnan(grads[1][:, 1]).all() != zero


def test_third_derivative_of_ctc_loss_is_refused():
    x = both(logits(1, *CTC[4]["shape"]))[1]
    g, = ac.autograd.grad(ctc(F, ac, x, CTC[4], "sum", False), x, create_graph=True)
    h, = ac.autograd.grad(g.square().sum(), x, create_graph=True)
    with pytest.raises(NotImplementedError, match="third derivative of ctc_loss"):
        h.square().sum().backward()


def test_ctc_frozen():
    """Labels and lengths as inputs of a plan."""

    def step(x, targets, times, labels):
        return ac.autograd.grad(F.ctc_loss(x.log_softmax(-1), targets, times, labels), x)[0]

    frozen = ac.freeze(step)
    for k, (times, labels) in enumerate((((7, 5), (2, 1)), ((6, 7), (0, 2)), ((7, 7), (1, 1)))):
        args = (both(logits(k, 7, 2, 4))[1], ac.tensor([[1, 2], [3, k]]), ac.tensor(times), ac.tensor(labels))
        assert frozen(*args).tolist() == step(*args).tolist()
    with pytest.raises(RuntimeError, match="at most 7"):
        frozen(args[0], args[1], ac.tensor((8, 7)), args[3])


def test_ctc_module():
    m, t = ac.nn.CTCLoss(3, "sum", True), torch.nn.CTCLoss(3, "sum", True)
    x, y = both(logits(4, 5, 2, 4))
    args = lambda t: (t.tensor([[1, 2], [0, 1]]), (5, 5), (2, 1))  # noqa: E731
    close(m(y.log_softmax(-1), *args(ac)), t(x.log_softmax(-1), *args(torch)), 1e-12)
    assert repr(m) == repr(t)
