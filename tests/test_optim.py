"""Optimizers and schedules: against formulas written out here, against PyTorch where it is installed, and frozen."""
import copy
import math
import pickle

import numpy as np
import pytest

import autograd_c as ac
from autograd_c import optim
from autograd_c.optim import lr_scheduler

STEPS = 12


def problem(t, dtype="float64"):
    r = np.random.default_rng(0)
    d = getattr(t, dtype)
    ps = [t.tensor(r.standard_normal(s).tolist(), dtype=d, requires_grad=True) for s in ((3, 4), (5,))]
    x = t.tensor(r.standard_normal((7, 3)).tolist(), dtype=d)

    def loss():
        return ((x @ ps[0]).tanh().square().sum() + (ps[1] ** 2 - 1).square().sum()) * 0.1

    return ps, loss


def train(t, make, dtype="float64", steps=STEPS):
    ps, loss = problem(t, dtype)
    opt = make(t.optim, ps)
    grads = []
    for _ in range(steps):
        opt.zero_grad()
        loss().backward()
        grads.append([p.grad.detach().numpy().copy() for p in ps])
        opt.step()
    return [p.detach().numpy().copy() for p in ps], grads, opt


CASES = {
    "sgd": lambda o, p: o.SGD(p, lr=0.1),
    "sgd_decay": lambda o, p: o.SGD(p, lr=0.1, weight_decay=0.2),
    "sgd_momentum": lambda o, p: o.SGD(p, lr=0.1, momentum=0.9),
    "sgd_nesterov": lambda o, p: o.SGD(p, lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.1),
    "sgd_dampening": lambda o, p: o.SGD(p, lr=0.1, momentum=0.9, dampening=0.3, weight_decay=0.1),
    "sgd_maximize": lambda o, p: o.SGD(p, lr=0.001, momentum=0.9, maximize=True),
    "adam": lambda o, p: o.Adam(p, lr=0.05),
    "adam_decay": lambda o, p: o.Adam(p, lr=0.05, betas=(0.5, 0.7), eps=1e-3, weight_decay=0.1),
    "adam_amsgrad": lambda o, p: o.Adam(p, lr=0.05, amsgrad=True, weight_decay=0.1),
    "adamw": lambda o, p: o.AdamW(p, lr=0.05),
    "adamw_amsgrad": lambda o, p: o.AdamW(p, lr=0.05, amsgrad=True, maximize=True),
    "rmsprop": lambda o, p: o.RMSprop(p, lr=0.05),
    "rmsprop_all": lambda o, p: o.RMSprop(p, lr=0.02, momentum=0.5, centered=True, weight_decay=0.1),
    "adagrad": lambda o, p: o.Adagrad(p, lr=0.1, lr_decay=0.1, weight_decay=0.2, initial_accumulator_value=0.5),
    "groups": lambda o, p: o.SGD([{"params": p[:1]}, {"params": p[1:], "lr": 0.01, "momentum": 0.9}], lr=0.1),
}


@pytest.mark.parametrize("name", CASES)
def test_as_pytorch(name):
    torch = pytest.importorskip("torch")
    a, _, ours = train(ac, CASES[name])
    b, _, theirs = train(torch, CASES[name])
    for u, v in zip(a, b):
        np.testing.assert_allclose(u, v, rtol=1e-10, atol=1e-12)
    assert repr(ours) == repr(theirs)
    mine, other = ours.state_dict(), theirs.state_dict()
    assert mine["param_groups"] == other["param_groups"] and list(mine) == list(other)
    for k, values in other["state"].items():
        for key, v in values.items():
            if v is not None:
                np.testing.assert_allclose(np.asarray(mine["state"][k][key].tolist()), np.asarray(v.tolist()), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", CASES)
def test_frozen_steps_are_eager_steps(name):
    eager, _, _ = train(ac, CASES[name], "float32")
    ps, loss = problem(ac, "float32")
    opt = CASES[name](optim, ps)

    @ac.freeze
    def step():
        opt.zero_grad()
        value = loss()
        value.backward()
        opt.step()
        return value

    before = ac.counters().replays
    for _ in range(STEPS):
        step()
    assert ac.counters().replays - before == STEPS - 1
    for u, p in zip(eager, ps):
        assert u.tobytes() == p.detach().numpy().tobytes()


# ---- against formulas, without PyTorch ------------------------------------------------------------------------


def replay(name, update):
    """Runs update(p, g, state, t) over the gradients of a training and compares the parameters."""
    end, grads, _ = train(ac, CASES[name])
    start = [p.detach().numpy().copy() for p in problem(ac)[0]]
    for k, p in enumerate(start):
        state = {}
        for t, g in enumerate(grads, 1):
            p = update(p, g[k], state, t)
        np.testing.assert_allclose(p, end[k], rtol=1e-11, atol=1e-13)


def test_sgd_by_hand():
    replay("sgd", lambda p, g, s, t: p - 0.1 * g)
    replay("sgd_decay", lambda p, g, s, t: p - 0.1 * (g + 0.2 * p))


def test_momentum_by_hand():
    def update(p, g, s, t):
        s["b"] = 0.9 * s["b"] + g if "b" in s else g
        return p - 0.1 * s["b"]

    def nesterov(p, g, s, t):
        g = g + 0.1 * p
        s["b"] = 0.9 * s["b"] + g if "b" in s else g
        return p - 0.1 * (g + 0.9 * s["b"])

    def damped(p, g, s, t):
        g = g + 0.1 * p
        s["b"] = 0.9 * s["b"] + 0.7 * g if "b" in s else g
        return p - 0.1 * s["b"]

    replay("sgd_momentum", update)
    replay("sgd_nesterov", nesterov)
    replay("sgd_dampening", damped)


def adam(lr, b1=0.9, b2=0.999, eps=1e-8, decay=0.0, decoupled=False):
    def update(p, g, s, t):
        if decoupled:
            p = p * (1 - lr * decay)
        else:
            g = g + decay * p
        s["m"] = b1 * s.get("m", 0) + (1 - b1) * g
        s["v"] = b2 * s.get("v", 0) + (1 - b2) * g * g
        return p - lr * (s["m"] / (1 - b1**t)) / (np.sqrt(s["v"] / (1 - b2**t)) + eps)

    return update


def test_adam_by_hand():
    replay("adam", adam(0.05))
    replay("adam_decay", adam(0.05, 0.5, 0.7, 1e-3, 0.1))
    replay("adamw", adam(0.05, decay=0.01, decoupled=True))


def test_rmsprop_and_adagrad_by_hand():
    def rmsprop(p, g, s, t):
        s["v"] = 0.99 * s.get("v", 0) + 0.01 * g * g
        return p - 0.05 * g / (np.sqrt(s["v"]) + 1e-8)

    def adagrad(p, g, s, t):
        g = g + 0.2 * p
        s["s"] = s.get("s", 0.5) + g * g
        return p - 0.1 / (1 + (t - 1) * 0.1) * g / (np.sqrt(s["s"]) + 1e-10)

    replay("rmsprop", rmsprop)
    replay("adagrad", adagrad)


# ---- parameter groups, state, messages --------------------------------------------------------------------------


def parameter(*values):
    return ac.nn.Parameter(ac.tensor(list(values)))


def test_learning_rate_is_read_at_each_step_also_frozen():
    p = parameter(1.0)
    opt = optim.SGD([p], lr=0.5)

    @ac.freeze
    def step():
        p.sum().backward()
        opt.step()
        opt.zero_grad()

    step(), step()
    assert p.item() == 0.0
    opt.param_groups[0]["lr"] = 2.0
    step()
    assert p.item() == -2.0 and opt.param_groups[0]["lr"] == 2.0
    opt.param_groups[0].update(lr=1.0)
    step()
    assert p.item() == -3.0
    schedule = lr_scheduler.StepLR(opt, 1, gamma=0.5)
    schedule.step()
    step()
    assert p.item() == -3.5
    assert step.why_retraced() == ["first call"]
    tensor_lr = optim.SGD([p], lr=ac.tensor(0.25))
    p.grad = ac.tensor([2.0])
    tensor_lr.step()
    assert p.item() == -4.0


def test_setting_the_rate_inside_a_frozen_function_is_refused():
    p = parameter(1.0)
    opt = optim.SGD([p], lr=0.5)

    @ac.freeze
    def step():
        opt.param_groups[0]["lr"] = 0.1
        return p * 2

    with pytest.raises(ac.TracedDataError, match="a learning rate was set while a graph was being frozen"):
        step()


def test_changed_momentum_is_seen_by_a_frozen_step():
    p = parameter(0.0)
    opt = optim.SGD([p], lr=1.0, momentum=0.5)

    @ac.freeze
    def step():
        p.sum().backward()
        opt.step()
        opt.zero_grad()

    step(), step()  # buffers 1, 1.5
    assert p.item() == -2.5
    opt.param_groups[0]["momentum"] = 0.0
    step()
    assert p.item() == -3.5


def test_parameters_without_gradient_stay():
    p, q = parameter(1.0), parameter(1.0)
    opt = optim.Adam([p, q])
    p.grad = ac.tensor([1.0])
    opt.step()
    assert q.item() == 1.0 and p.item() == pytest.approx(0.999)
    assert opt.state[q]["step"].item() == 0.0 and opt.state[p]["step"].item() == 1.0


def test_zero_grad():
    p = parameter(1.0)
    opt = optim.SGD([p], lr=0.1)
    p.grad = ac.tensor([3.0])
    kept = p.grad
    opt.zero_grad(set_to_none=False)
    assert p.grad is kept and kept.item() == 0.0
    opt.zero_grad()
    assert p.grad is None


def test_closure_and_hooks():
    p = parameter(3.0)
    opt = optim.SGD([p], lr=0.5)
    seen = []
    opt.register_step_pre_hook(lambda o, a, k: seen.append("pre"))
    handle = opt.register_step_post_hook(lambda o, a, k: seen.append("post"))

    def closure():
        opt.zero_grad()
        loss = (p * p).sum()
        loss.backward()
        return loss

    with ac.no_grad():
        assert opt.step(closure).item() == 9.0
    assert p.item() == 0.0 and seen == ["pre", "post"]
    handle.remove()
    opt.step()
    assert seen == ["pre", "post", "pre"]


def test_state_dict_continues_a_training():
    for name in ("sgd_momentum", "adam", "rmsprop_all", "adagrad", "adam_amsgrad"):
        want, _, _ = train(ac, CASES[name], steps=6)
        ps, loss = problem(ac)
        opt = CASES[name](optim, ps)

        def steps(n):
            for _ in range(n):
                opt.zero_grad()
                loss().backward()
                opt.step()

        steps(3)
        saved = pickle.loads(pickle.dumps(opt.state_dict()))
        opt = CASES[name](optim, ps)
        opt.load_state_dict(saved)
        steps(3)
        for u, p in zip(want, ps):
            np.testing.assert_array_equal(u, p.detach().numpy(), err_msg=name)


def test_load_state_dict_messages():
    a = optim.SGD([parameter(1.0)], lr=0.1)
    b = optim.SGD([{"params": [parameter(1.0)]}, {"params": [parameter(2.0)]}], lr=0.1)
    c = optim.SGD([parameter(1.0), parameter(2.0)], lr=0.1)
    with pytest.raises(ValueError, match="loaded state dict has a different number of parameter groups"):
        a.load_state_dict(b.state_dict())
    with pytest.raises(ValueError, match="loaded state dict contains a parameter group that doesn't match the size of optimizer's group"):
        a.load_state_dict(c.state_dict())


def test_add_param_group():
    p, q = parameter(1.0), parameter(2.0)
    opt = optim.Adam([p], lr=0.1)
    opt.add_param_group({"params": [q], "lr": 1.0})
    q.grad = ac.tensor([1.0])
    opt.step()
    assert q.item() == pytest.approx(1.0) and len(opt.param_groups) == 2
    with pytest.raises(ValueError, match="some parameters appear in more than one parameter group"):
        opt.add_param_group({"params": [p]})


@pytest.mark.parametrize("make, error, text", [
    (lambda p: optim.SGD([], lr=0.1), ValueError, "optimizer got an empty parameter list"),
    (lambda p: optim.SGD([p * 2], lr=0.1), ValueError, "can't optimize a non-leaf Tensor"),
    (lambda p: optim.SGD([p], lr=-1), ValueError, "Invalid learning rate: -1"),
    (lambda p: optim.SGD([p], momentum=-1), ValueError, "Invalid momentum value: -1"),
    (lambda p: optim.SGD([p], weight_decay=-1), ValueError, "Invalid weight_decay value: -1"),
    (lambda p: optim.SGD([p], nesterov=True), ValueError, "Nesterov momentum requires a momentum and zero dampening"),
    (lambda p: optim.Adam([p], eps=-1), ValueError, "Invalid epsilon value: -1"),
    (lambda p: optim.Adam([p], betas=(1.2, 0)), ValueError, "Invalid beta parameter at index 0: 1.2"),
    (lambda p: optim.SGD(p), TypeError, "params argument given to the optimizer should be an iterable of Tensors or dicts, but got torch.FloatTensor"),
    (lambda p: optim.SGD([3]), TypeError, "optimizer can only optimize Tensors, but one of the params is int"),
    (lambda p: lr_scheduler.StepLR(3, 1), TypeError, "int is not an Optimizer"),
])
def test_messages(make, error, text):
    with pytest.raises(error) as e:
        make(parameter(1.0))
    assert str(e.value) == text


def test_printing():
    assert repr(optim.SGD([parameter(1.0)], lr=0.1)) == (
        "SGD (\nParameter Group 0\n    dampening: 0\n    differentiable: False\n    foreach: None\n    fused: None\n    lr: 0.1\n"
        "    maximize: False\n    momentum: 0\n    nesterov: False\n    weight_decay: 0\n)")


def test_own_optimizer_and_deepcopy():
    class Sign(optim.Optimizer):
        def __init__(self, params, lr=0.1):
            super().__init__(params, {"lr": lr})

        @ac.no_grad()
        def step(self, closure=None):
            for group in self.param_groups:
                for p in group["params"]:
                    if p.grad is not None:
                        p.add_(p.grad.sign(), alpha=-group["lr"])

    p = parameter(1.0, -1.0)
    opt = Sign([p], lr=0.5)
    (p * p).sum().backward()
    opt.step()
    assert p.tolist() == [0.5, -0.5]
    model = ac.nn.Linear(1, 1)
    both = copy.deepcopy((model, optim.SGD(model.parameters(), lr=0.1)))
    assert both[1].param_groups[0]["params"][0] is both[0].weight


# ---- schedules ------------------------------------------------------------------------------------------------

SCHEDULES = {
    "StepLR": lambda s, o: s.StepLR(o, 3, 0.5),
    "MultiStepLR": lambda s, o: s.MultiStepLR(o, [2, 5, 5], 0.5),
    "ExponentialLR": lambda s, o: s.ExponentialLR(o, 0.9),
    "CosineAnnealingLR": lambda s, o: s.CosineAnnealingLR(o, 4, 0.01),
    "CosineAnnealingWarmRestarts": lambda s, o: s.CosineAnnealingWarmRestarts(o, 3, 2, 0.01),
    "LambdaLR": lambda s, o: s.LambdaLR(o, lambda e: 1 / (1 + e)),
    "MultiplicativeLR": lambda s, o: s.MultiplicativeLR(o, lambda e: 0.95),
    "LinearLR": lambda s, o: s.LinearLR(o, 0.3, 1.0, 4),
    "ConstantLR": lambda s, o: s.ConstantLR(o, 0.5, 3),
    "PolynomialLR": lambda s, o: s.PolynomialLR(o, 5, 2.0),
    "OneCycleLR": lambda s, o: s.OneCycleLR(o, 1.0, 12, cycle_momentum=False),
    "SequentialLR": lambda s, o: s.SequentialLR(o, [s.ConstantLR(o, 0.1, 2), s.ExponentialLR(o, 0.9)], [3]),
}


def rates(t, name, n=11):
    p = t.nn.Parameter(t.ones(1))
    opt = t.optim.SGD([p], lr=0.8)
    schedule = SCHEDULES[name](t.optim.lr_scheduler, opt)
    out = [opt.param_groups[0]["lr"]]
    for _ in range(n):
        opt.step()
        schedule.step()
        assert schedule.get_last_lr() == [opt.param_groups[0]["lr"]]
        out.append(opt.param_groups[0]["lr"])
    return out


@pytest.mark.parametrize("name", SCHEDULES)
def test_schedules_as_pytorch(name):
    torch = pytest.importorskip("torch")
    np.testing.assert_allclose(rates(ac, name), rates(torch, name), rtol=1e-12)


def test_schedules_by_hand():
    np.testing.assert_allclose(rates(ac, "StepLR"), [0.8 * 0.5 ** (e // 3) for e in range(12)])
    np.testing.assert_allclose(rates(ac, "MultiStepLR"), [0.8 * 0.5 ** ((e >= 2) + 2 * (e >= 5)) for e in range(12)])
    np.testing.assert_allclose(rates(ac, "ExponentialLR"), [0.8 * 0.9**e for e in range(12)])
    np.testing.assert_allclose(rates(ac, "CosineAnnealingLR"), [0.01 + 0.79 * (1 + math.cos(math.pi * e / 4)) / 2 for e in range(12)])
    np.testing.assert_allclose(rates(ac, "LambdaLR"), [0.8 / (1 + e) for e in range(12)])


def test_plateau():
    opt = optim.SGD([parameter(1.0)], lr=1.0)
    s = lr_scheduler.ReduceLROnPlateau(opt, patience=1, factor=0.5, cooldown=1)
    seen = []
    for value in [3.0, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0]:
        s.step(ac.tensor(value))
        seen.append(opt.param_groups[0]["lr"])
    assert seen == [1.0, 1.0, 1.0, 0.5, 0.5, 0.5, 0.25]


def test_schedule_state_and_order_warning():
    opt = optim.SGD([parameter(1.0)], lr=1.0)
    s = lr_scheduler.StepLR(opt, 2)
    with pytest.warns(UserWarning, match="Detected call of `lr_scheduler.step\\(\\)` before `optimizer.step\\(\\)`"):
        s.step()
    t = lr_scheduler.StepLR(optim.SGD([parameter(1.0)], lr=1.0), 5)
    t.load_state_dict(s.state_dict())
    assert (t.step_size, t.last_epoch, t.base_lrs) == (2, 1, [1.0])


@pytest.mark.parametrize("make", [lambda ps: optim.SGD(ps, lr=0.05, momentum=0.9), lambda ps: optim.Adam(ps, lr=0.05)])
def test_cleared_state_starts_anew(make):
    def run(clear):
        p = ac.tensor([1.0, 2.0], requires_grad=True)
        o = make([p])
        for k in range(2):
            if k and clear:
                o.state.clear()
            elif k:
                o = make([p])
            with ac.no_grad():
                p.copy_(ac.tensor([1.0, 2.0]))
            p.grad = ac.tensor([0.5, -1.0])
            o.step()
        return p.tolist()

    assert run(True) == run(False)
