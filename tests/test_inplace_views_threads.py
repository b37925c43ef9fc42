"""Programs that once went wrong: writes in place, views made without grad mode, leaves shared by threads, frozen state."""
import collections
import threading

import pytest

import autograd_c as torch
from autograd_c import nn


def test_threads_share_a_leaf():
    p = torch.zeros(300_000, requires_grad=True)

    def work():
        for _ in range(20):
            (p * 2).sum().backward()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert p.grad.min().item() == p.grad.max().item() == 160


@pytest.mark.parametrize("write", [
    lambda b: b.pow_(2), lambda b: b.__ipow__(3), lambda b: b[1:3].pow_(2), lambda b: b.clamp_(0.8, 2.5), lambda b: b.mul_(b),
    lambda b: b.lerp_(torch.ones(4, dtype=torch.float64), 0.3), lambda b: b.sigmoid_(), lambda b: b.div_(b + 1)])
def test_in_place_keeps_what_its_derivative_needs(write):
    """Against central differences, away from the bounds' kinks."""
    start = torch.tensor([0.5, 1.0, 2.0, 3.0], dtype=torch.float64)
    a = start.clone().requires_grad_()
    b = a.clone()
    write(b)
    b.sum().backward()
    for k in range(4):
        sums = []
        for h in (1e-5, -1e-5):
            moved = start.clone()
            moved[k] += h
            write(moved)
            sums.append(moved.sum().item())
        assert a.grad[k].item() == pytest.approx((sums[0] - sums[1]) / 2e-5, abs=1e-6)


def test_view_without_grad_mode_refuses_tracked_writes():
    a = torch.ones(3, requires_grad=True)
    b = a * 2
    with torch.no_grad():
        v, leaf_view, plain = b[0], a.view(3), torch.ones(3)[0:1]
    w = torch.tensor(3.0, requires_grad=True)
    for view in (v, plain):
        with pytest.raises(RuntimeError, match="A view was created in no_grad mode"):
            view.mul_(w)
    with pytest.raises(RuntimeError, match="a view of a leaf Variable"):
        leaf_view.add_(1)
    with torch.no_grad():
        v.mul_(2)
        leaf_view.add_(1)
    assert b.tolist() == [4, 2, 2] and a.tolist() == [2, 2, 2]


def recurrences():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("h", torch.zeros(1))

        def forward(self, x):
            self.h = self.h * 0.5 + x
            return self.h * 1

    class Holder:
        h = torch.zeros(1)

    def on_class(x):
        Holder.h = Holder.h * 0.5 + x
        return Holder.h * 1

    queue = collections.deque([torch.zeros(1)])

    def in_deque(x):
        queue.append(queue.popleft() * 0.5 + x)
        return queue[0] * 1

    return {"module": Net(), "class": on_class, "deque": in_deque}


@pytest.mark.parametrize("name", ["module", "class", "deque"])
@pytest.mark.filterwarnings("ignore:.*runs unfrozen")
def test_state_replaced_at_each_call_is_never_stale(name):
    f = torch.freeze(recurrences()[name])
    assert [f(torch.ones(1)).item() for _ in range(5)] == [1, 1.5, 1.75, 1.875, 1.9375]
