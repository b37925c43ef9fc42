"""Gradients under create_graph of every differentiable row: what can be differentiated again, and what is a constant, as in PyTorch.

PyTorch's backward of, say, relu is a function of the gradient and of relu's operand, with derivative zero in the operand: the gradient
asks for gradients even when the incoming one does not, and its derivative in the operand is zeros.  The backward of sum is a function
of the incoming gradient alone.  Every row is one or the other.
"""
import numpy as np
import pytest

import autograd_c as ag
import autograd_c.nn.functional as F
from table import ELEMENTWISE, FUNCTIONS, ROWS, as_list, call, call_inplace, grad, is_float, tensor, values, wants_grad
from table_ew import EW, operands
from table_fn import S
import table_fn_linalg  # noqa: F401  (more rows)
import table_fn_nn  # noqa: F401

# Rows whose gradient is made of the incoming one alone, in every operand.
CONSTANT = set("""
    add alias amax amin as_strided as_strided_scatter cast cat ceil cholesky_solve clamp clone cofactor_grad copy ctc_loss_hessian
    cummax cummin cumsum diagonal embedding expand fill flip floor fmax fmin fold gather index index_add index_put index_select
    kthvalue max_all max_dim maximum mean median median_dim min_all min_dim minimum mode nanmedian nanmedian_dim neg nextafter
    nll_loss_backward pad permute pool_gather pool_scatter resample resample_back round scatter_add select sign slice solve_lu
    sort squeeze sub sum sum_to t topk transpose tril triu trunc unfold unsafe_view unsqueeze view view_scatter where""".split())
ROWS_WITH_GRADIENT = [n for n in ELEMENTWISE + FUNCTIONS if ROWS[n].differentiable]


def samples(name):
    """(operands, numbers of those that ask for gradients, ints, floats); without samples whose second derivative is left out."""
    if name in EW:
        row = ROWS[name]
        xs = operands(row, np.random.default_rng(0), 7, np.float64)
        diff = [k for k in range(row.n_in) if row.grad_text[k] not in (None, "NOGRAD") and xs[k].dtype == np.float64]
        return [(xs, diff, (), p) for p in EW[name].params] if diff else []
    return [(s.inputs, diff, s.ints, s.floats) for s in S[name]
            if s.second and (diff := s.diff if s.diff is not None else [k for k, a in enumerate(s.inputs) if a.dtype == np.float64])]


def gradients(name, sample):
    arrays, diff, ints, floats = sample
    ts = [tensor(a, k in diff) for k, a in enumerate(arrays)]
    if ROWS[name].mutates:
        outs = [call_inplace(name, [call("clone", ts[:1])] + ts[1:], ints, floats)]
    else:
        outs = as_list(call(name, ts, ints, floats))
    outs = [o for o in outs if is_float(o)]
    xs = [ts[k] for k in diff]
    return xs, [g for g in grad(outs, xs, [tensor(np.ones(values(o).shape)) for o in outs], True) if g is not None]


@pytest.mark.parametrize("name", ROWS_WITH_GRADIENT)
def test_row(name):
    live = []
    chosen = samples(name)
    if not chosen:
        pytest.skip("its samples have no operand that may move by itself: see test_linalg.py")
    for sample in chosen:
        xs, gs = gradients(name, sample)
        live += [wants_grad(g) for g in gs]
        again = [g for g in gs if wants_grad(g)]
        if again and values(again[0]).size:
            second = grad(again, xs, [tensor(np.ones(values(g).shape)) for g in again])
            assert any(s is not None for s in second), "a gradient that leads to no operand"
    assert any(live) == (name not in CONSTANT), "a gradient that is a constant: list the row in CONSTANT, or flag it OF_TIED if PyTorch ties it"


X = np.array([[[0.3, -1.2, 2.1, 0.7], [1.1, -0.4, 0.9, -2.2], [0.2, 3.1, -0.6, 1.4]]])
W = np.linspace(-1, 1, 18).reshape(2, 3, 3)

# Functions that are no single row here: from a module with torch's names and x to the result.
COMPOSED = {
    "relu": lambda m, x: m.relu(x), "leaky_relu": lambda m, x: m.nn.functional.leaky_relu(x), "hardtanh": lambda m, x: m.nn.functional.hardtanh(x),
    "relu6": lambda m, x: m.nn.functional.relu6(x), "hardshrink": lambda m, x: m.nn.functional.hardshrink(x),
    "softshrink": lambda m, x: m.nn.functional.softshrink(x), "threshold": lambda m, x: m.nn.functional.threshold(x, 0.1, 2.0),
    "clamp": lambda m, x: m.clamp(x, -1, 1), "max": lambda m, x: m.max(x, -1)[0],
    "maximum": lambda m, x: m.maximum(x, x.detach() * 0), "where": lambda m, x: m.where(x > 0, x, x.detach()), "sort": lambda m, x: m.sort(x)[0],
    "avg_pool1d": lambda m, x: m.nn.functional.avg_pool1d(x, 2), "avg_pool2d": lambda m, x: m.nn.functional.avg_pool2d(x, 2, padding=1),
    "max_pool1d": lambda m, x: m.nn.functional.max_pool1d(x, 2), "max_pool2d": lambda m, x: m.nn.functional.max_pool2d(x, 2),
    "adaptive_avg_pool1d": lambda m, x: m.nn.functional.adaptive_avg_pool1d(x, 3),
    "adaptive_avg_pool2d": lambda m, x: m.nn.functional.adaptive_avg_pool2d(x, (3, 2)),
    "adaptive_avg_pool2d to 1": lambda m, x: m.nn.functional.adaptive_avg_pool2d(x, 1),
    "adaptive_max_pool1d": lambda m, x: m.nn.functional.adaptive_max_pool1d(x, 3),
    "adaptive_max_pool2d": lambda m, x: m.nn.functional.adaptive_max_pool2d(x, (3, 1)),
    "pad constant": lambda m, x: m.nn.functional.pad(x, (1, 2)), "pad circular": lambda m, x: m.nn.functional.pad(x, (1, 2), "circular"),
    "pad reflect": lambda m, x: m.nn.functional.pad(x, (1, 2), "reflect"), "pad replicate": lambda m, x: m.nn.functional.pad(x, (1, 2), "replicate"),
    "area": lambda m, x: m.nn.functional.interpolate(x, 3, mode="area"), "nearest": lambda m, x: m.nn.functional.interpolate(x, 3),
    "linear": lambda m, x: m.nn.functional.interpolate(x, 3, mode="linear"),
    "conv bias": lambda m, x: m.nn.functional.conv1d(m.tensor(X), m.tensor(W), x[0, 0, :2]),
    "transposed conv bias": lambda m, x: m.nn.functional.conv_transpose1d(m.tensor(X), m.tensor(W).transpose(0, 1), x[0, 0, :2]),
    "batch_norm bias": lambda m, x: m.nn.functional.batch_norm(m.tensor(X), None, None, None, x[0, :, 0], training=True),
    "layer_norm bias": lambda m, x: m.nn.functional.layer_norm(m.tensor(X), (4,), m.ones(4).double(), x[0, 0]),
    "conv": lambda m, x: m.nn.functional.conv1d(x, m.tensor(W)), "linear layer": lambda m, x: m.nn.functional.linear(x, m.ones(2, 4).double()),
    "conv bias, too": lambda m, x: m.nn.functional.conv1d(m.tensor(X), m.tensor(W) + x[0, 0, 0], x[0, 0, :2]),
    "batch_norm bias, too": lambda m, x: m.nn.functional.batch_norm(x, None, None, None, x[0, :, 0], training=True),
    "cross_entropy": lambda m, x: m.nn.functional.nll_loss(x[0], m.tensor([1, 0, 3])),
    "sum": lambda m, x: x.sum(-1), "gather": lambda m, x: x.gather(2, m.tensor([[[0, 1]]])), "abs": lambda m, x: x.abs(), "sign": lambda m, x: x.sign(),
}


def first_and_second(m, name):
    x = m.tensor(X, requires_grad=True)
    g, = m.autograd.grad(COMPOSED[name](m, x).sum(), x, create_graph=True)
    if not g.requires_grad or name.endswith(("bias", "too")):  # a bias's gradient leads elsewhere
        return g.requires_grad, None
    second, = m.autograd.grad((g * m.tensor(X)).sum(), x, allow_unused=True)
    return True, np.zeros(X.shape) if second is None else second.numpy(force=True)


@pytest.mark.parametrize("name", COMPOSED)
def test_as_pytorch(name):
    torch = pytest.importorskip("torch")
    want, want2 = first_and_second(torch, name)
    got, got2 = first_and_second(ag, name)
    assert got == want
    if want2 is not None:
        np.testing.assert_allclose(got2, want2, rtol=1e-9, atol=1e-12)


def test_zeros_reach_every_operand_behind():
    """A gradient penalty over relu layers: biases get zeros although the penalty does not depend on them."""
    w, b, v = [ag.tensor(np.full(s, 0.5), requires_grad=True) for s in ((3, 3), (3,), (3, 1))]
    x = ag.tensor(X[0, :, :3], requires_grad=True)
    g, = ag.autograd.grad((F.relu(x @ w + b) @ v).sum(), x, create_graph=True)
    (g * g).sum().backward()
    assert b.grad.tolist() == [0, 0, 0] and x.grad.tolist() == [[0, 0, 0]] * 3
    assert float(abs(w.grad).sum()) > 0 and float(abs(v.grad).sum()) > 0


def test_zeros_meet_values_retained_ones_and_higher_orders():
    x = ag.tensor([1.0, -2.0, 3.0], requires_grad=True)
    c = ag.ones(3, requires_grad=True)
    y = x * x
    y.retain_grad()
    g, = ag.autograd.grad(F.relu(y), y, c, create_graph=True)  # both an incoming gradient and a tie
    (g.sum() + y.sum()).backward(retain_graph=True)
    assert c.grad.tolist() == [1, 1, 1] and y.grad.tolist() == [2, 2, 2] and x.grad.tolist() == [2, -4, 6]
    x.grad = None
    g.sum().backward()
    assert x.grad.tolist() == [0, 0, 0]
    h, = ag.autograd.grad(F.relu(x * x).sum(), x, create_graph=True)
    k, = ag.autograd.grad(h.sum(), x, create_graph=True)
    assert k.tolist() == [2, 2, 2] and ag.autograd.grad(k.sum(), x)[0].tolist() == [0, 0, 0]


def test_tied_gradients_hold_no_memory():
    """A tie is an edge: nothing is copied, and nothing stays behind."""
    before = ag.counters()
    x = ag.tensor(X, requires_grad=True)
    y = F.max_pool1d(x, 2)
    g, = ag.autograd.grad(y.sum(), x, create_graph=True)
    held = ag.counters().storages
    plain, = ag.autograd.grad(F.max_pool1d(x, 2).sum(), x)
    assert ag.counters().storages == held + 1
    assert g.tolist() == plain.tolist()
    del x, y, g, plain
    after = ag.counters()
    assert (after.tensors, after.nodes, after.storages) == (before.tensors, before.nodes, before.storages)


def test_frozen_gradient_penalty():
    """Zeros that nobody computes are made in a trace as well."""
    w, b = ag.tensor(np.full((3, 3), 0.5), requires_grad=True), ag.tensor([0.1, 0.2, 0.3], dtype=ag.float64, requires_grad=True)

    def step(x):
        w.grad = b.grad = None
        x = x.detach().requires_grad_(True)
        g, = ag.autograd.grad(F.relu(x @ w + b).sum(), x, create_graph=True)
        loss = (g * g).sum()
        loss.backward(inputs=[w, b])
        return loss

    x = ag.tensor(X[0, :, :3])
    want = step(x).item(), w.grad.tolist(), b.grad.tolist()
    frozen = ag.freeze(step, x)
    for _ in range(2):
        assert (frozen(x).item(), w.grad.tolist(), b.grad.tolist()) == want
    assert want[2] == [0, 0, 0]
