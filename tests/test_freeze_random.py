"""Random programs, frozen with random subsets of the passes: the bits are eager's."""
import random

import numpy as np
import pytest

import autograd_c as torch
from autograd_c import freeze
from test_freeze import bits, f32, PASSES, Error


# ---- random programs ------------------------------------------------------------------------------------------

UNARY = ["tanh", "exp", "sigmoid", "relu", "neg", "abs", "square", "sin"]
SHAPES = [(4, 6), (6,), (4, 1), (1,), (), (4, 6), (6, 4), (2, 3, 4), (24,)]


class Program:
    """A function drawn from a seed: elementwise, products, reductions, views, writes in place, backward."""

    def __init__(self, seed):
        self.seed = seed
        r = random.Random(seed)
        self.ps = [torch.tensor(f32(*s, seed=seed + k, scale=0.5), requires_grad=k < 3) for k, s in enumerate(r.sample(SHAPES, 5))]
        self.steps = r.randint(3, 25)
        self.backward = r.random() < 0.6

    def step(self, *xs):
        r = random.Random(self.seed + 1)
        vals = list(self.ps) + list(xs) + [xs[0] * 0.5]
        own = []

        def pick(pool=None):
            return (pool or vals)[r.randrange(len(pool or vals))]

        def fits(a, b):
            return all(x == y or x == 1 or y == 1 for x, y in zip(a.shape[::-1], b.shape[::-1]))

        for _ in range(self.steps):
            k = r.random()
            a = pick()
            if k < 0.25:
                v = getattr(torch, r.choice(UNARY))(torch.clamp(a, -3, 3) if r.random() < 0.5 else a * 0.1)
            elif k < 0.5:
                b = pick()
                if not fits(a, b):
                    continue
                v = r.choice([torch.add, torch.sub, torch.mul, torch.maximum])(a, b)
            elif k < 0.55:
                v = r.choice([lambda: a + 1.5, lambda: 2.0 * a, lambda: a * 1.0, lambda: torch.where(a > 0, a, -a),
                              lambda: a.double().float(), lambda: a + torch.ones(a.shape)])()
            elif k < 0.62:
                b = pick()
                if a.ndim != 2 or b.ndim != 2 or a.shape[1] != b.shape[0]:
                    continue
                v = a @ b
            elif k < 0.70:
                v = r.choice([lambda: a.sum(), lambda: a.mean(), lambda: a.sum(-1, keepdim=True) if a.ndim else a.sum()])()
            elif k < 0.82:
                v = r.choice([lambda: a.reshape(-1), lambda: a.T if a.ndim == 2 else a, lambda: a[1:] if a.ndim and a.shape[0] > 1 else a,
                              lambda: a.unsqueeze(0) if a.ndim < 3 else a, lambda: a.expand(3, *a.shape) if a.ndim < 3 else a,
                              lambda: a.clone(), lambda: a.detach()])()
            elif k < 0.90:
                v = (a * 1.0).detach()
                own.append(v)
            elif own:
                b, c = pick(own), pick()
                with torch.no_grad():
                    if r.random() < 0.3 and b.ndim:
                        b[0] = r.random()
                    elif b.shape == c.shape and c is not b:
                        b.add_(c) if r.random() < 0.5 else b.copy_(c)
                    else:
                        b.mul_(0.5)
                continue
            else:
                continue
            vals.append(v)
        out = [v for v in vals[len(self.ps) + len(xs):] if r.random() < 0.3] or [vals[-1]]
        for p in self.ps[:3]:
            if r.random() < 0.5:
                p.grad = None
        if self.backward:
            loss = None
            for v in vals[-6:]:
                if v.requires_grad:
                    t = v.sum()
                    loss = t if loss is None else loss + t
            if loss is not None:
                loss.backward()
                with torch.no_grad():
                    for p in self.ps[:3]:
                        if p.grad is not None and r.random() < 0.7:
                            p -= 0.01 * p.grad
                            if r.random() < 0.5:
                                p.grad = None
        with torch.no_grad():
            self.ps[4].mul_(0.9)
        return [v.detach() for v in out]


def fuzz(seed, calls=4):
    r = random.Random(seed * 7 + 1)
    off = tuple(p for p in PASSES if r.random() < 0.25)
    e, f = Program(seed), Program(seed)
    g = freeze(f.step, off=off)
    shapes = r.sample(SHAPES, 2)
    for k in range(calls):
        data = [f32(*s, seed=seed + 100 + k + j, scale=0.5) for j, s in enumerate(shapes)]
        try:
            a = e.step(*[torch.tensor(d) for d in data])
        except Error:  # a program that overwrites what its backward needs
            with pytest.raises(Error):
                g(*[torch.tensor(d) for d in data])
            break
        b = g(*[torch.tensor(d) for d in data])
        assert bits(a) == bits(b), (seed, k, off)
        assert bits(e.ps) == bits(f.ps), (seed, k, off)
        assert bits([p.grad for p in e.ps]) == bits([p.grad for p in f.ps]), (seed, k, off)
    return g


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("block", range(8))
def test_random_programs(block):
    for seed in range(block * 25, block * 25 + 25):
        fuzz(seed)
