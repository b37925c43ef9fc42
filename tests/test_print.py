"""repr and str of tensors: the rules by hand, and PyTorch as oracle where it is installed."""
import math

import pytest

import autograd_c as ag


@pytest.mark.parametrize("made, text", [
    (lambda: ag.tensor(5.0), "tensor(5.)"),
    (lambda: ag.tensor([5.0]), "tensor([5.])"),
    (lambda: ag.tensor(5), "tensor(5)"),
    (lambda: ag.tensor(True), "tensor(True)"),
    (lambda: ag.tensor([1.5, 2]), "tensor([1.5000, 2.0000])"),
    (lambda: ag.tensor([1e-8, 1.0]), "tensor([1.0000e-08, 1.0000e+00])"),
    (lambda: ag.tensor([123456.0, 0.5]), "tensor([1.2346e+05, 5.0000e-01])"),
    (lambda: ag.tensor([math.nan, math.inf, -0.0]), "tensor([nan, inf, -0.])"),
    (lambda: ag.tensor([True, False]), "tensor([ True, False])"),
    (lambda: ag.tensor([[1, 2], [3, 4]]), "tensor([[1, 2],\n        [3, 4]])"),
    (lambda: ag.tensor([[[1], [20]], [[3], [4]]]), "tensor([[[ 1],\n         [20]],\n\n        [[ 3],\n         [ 4]]])"),
    (lambda: ag.zeros(2, 0), "tensor([], size=(2, 0))"),
    (lambda: ag.tensor([]), "tensor([])"),
    (lambda: ag.tensor([], dtype=ag.int64), "tensor([], dtype=autograd_c.int64)"),
    (lambda: ag.tensor([1.0], dtype=ag.float64), "tensor([1.], dtype=autograd_c.float64)"),
    (lambda: ag.tensor([1], dtype=ag.int32), "tensor([1], dtype=autograd_c.int32)"),
    (lambda: ag.tensor([1.0], requires_grad=True), "tensor([1.], requires_grad=True)"),
    (lambda: ag.tensor([1.0], requires_grad=True) * 2, "tensor([2.], grad_fn=<MulBackward0>)"),
    (lambda: ag.arange(1001), "tensor([   0,    1,    2,  ...,  998,  999, 1000])"),
    (lambda: ag.ones(2, 3).shape, "torch.Size([2, 3])"),
    (lambda: ag.ones(2, 3).device, "device(type='cpu')"),
    (lambda: ag.float64, "autograd_c.float64"),
    (lambda: ag.tensor([[1.0, 3.0]]).max(1), "torch.return_types.max(\nvalues=tensor([3.]),\nindices=tensor([1]))"),
])
def test_by_hand(made, text):
    assert repr(made()) == text


def test_long_lines_break_at_80_columns():
    text = repr(ag.arange(30))
    assert max(map(len, text.splitlines())) <= 80
    assert text.splitlines()[1].startswith("        ")


def test_summary_has_edges_of_every_dim():
    text = repr(ag.zeros(100, 100))
    assert text.count("...") == 7
    assert text.splitlines()[3] == "        ...,"


def test_format():
    assert f"{ag.tensor(3.14159):.2f}" == "3.14"
    assert f"{ag.tensor(7)}" == "tensor(7)"
    assert f"{ag.ones(2)}" == "tensor([1., 1.])"


def test_options():
    try:
        ag.set_printoptions(precision=2)
        assert repr(ag.tensor([1.23456])) == "tensor([1.23])"
        ag.set_printoptions(sci_mode=True)
        assert repr(ag.tensor([1.0])) == "tensor([1.00e+00])"
    finally:
        ag.set_printoptions(profile="default")
    assert repr(ag.tensor([1.23456])) == "tensor([1.2346])"


def _array(np, rng):
    shape = tuple(int(rng.choice([0, 1, 2, 3, 5, 7, 12, 30])) for _ in range(rng.integers(0, 5)))
    if rng.random() < 0.1:
        shape = tuple(int(x) for x in rng.choice([1, 3, 10, 50, 200], size=rng.integers(1, 3)))
    kind = rng.choice(["f4", "f8", "i8", "i4", "?", "u1"], p=[0.35, 0.25, 0.15, 0.1, 0.1, 0.05])
    if kind[0] == "f":
        a = rng.standard_normal(shape)
        style = rng.integers(0, 9)
        if style == 0:
            a = a * 10.0 ** rng.integers(-12, 12)
        elif style == 1:
            a = np.round(a * 10)
        elif style == 2:
            a = np.where(rng.random(shape) < 0.3, np.nan, a)
        elif style == 3:
            a = np.where(rng.random(shape) < 0.3, rng.choice([np.inf, -np.inf], size=shape), np.round(a * 100))
        elif style == 4:
            a = a * 10.0 ** rng.integers(-6, 6, size=shape)
        elif style == 5:
            a = a * 0
        elif style == 6:
            a = np.round(a * 1e9)
        elif style == 7:
            a = np.where(rng.random(shape) < 0.5, -0.0, a * 1e-5)
        return np.asarray(a, dtype=kind)
    if kind == "?":
        return np.asarray(rng.random(shape) < 0.5)
    if kind == "u1":
        return np.asarray(rng.integers(0, 255, size=shape)).astype(kind)
    top = 10 ** int(rng.integers(1, 9))
    return np.asarray(rng.integers(-top, top, size=shape)).astype(kind)


def test_as_torch(monkeypatch):
    torch = pytest.importorskip("torch")
    np = pytest.importorskip("numpy")
    from autograd_c import _dtypes

    monkeypatch.setattr(_dtypes, "prefix", "torch")  # same widths, same line breaks
    rng = np.random.default_rng(7)
    for _ in range(400):
        a = _array(np, rng)
        x, y = torch.tensor(a), ag.tensor(a)
        if a.dtype.kind == "f" and rng.random() < 0.4:
            x.requires_grad_()
            y.requires_grad_()
            if rng.random() < 0.5:
                x, y = x * 2, y * 2
        assert repr(y) == repr(x)
