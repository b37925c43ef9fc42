"""The same training step twice: as it stands, and frozen.  Losses and parameters agree to the bit.

    python examples/dynamic_and_frozen.py
"""
import time

import autograd_c as torch
from autograd_c import nn, optim
from autograd_c.nn import functional as F

STEPS = 200


def train(frozen):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 2))
    optimizer = optim.Adam(model.parameters(), lr=0.01)

    # Two rings: which one is a point on?
    angle = torch.rand(256) * 2 * torch.pi
    ring = torch.arange(256) % 2
    x = torch.stack([angle.cos(), angle.sin()], 1) * (ring + 1).unsqueeze(1) + 0.1 * torch.randn(256, 2)

    def step(x, ring):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), ring)
        loss.backward()
        optimizer.step()
        return loss

    if frozen:
        step = torch.freeze(step)
    before = torch.counters()
    start = time.perf_counter()
    losses = [step(x, ring).item() for _ in range(STEPS)]
    seconds = time.perf_counter() - start
    after = torch.counters()
    graphs = after.graphs_built - before.graphs_built
    right = (model(x).argmax(1) == ring).double().mean().item()
    print(f"{'frozen: ' if frozen else 'dynamic:'}{graphs:4} graph{'s' * (graphs != 1)}, {after.nodes_built - before.nodes_built} nodes, "
          f"{1e6 * seconds / STEPS:.0f} us a step, {100 * right:.1f} % right")
    if frozen:
        print(step.report())
    return losses, [p.tolist() for p in model.parameters()]


print("equal bits:", train(False) == train(True))
