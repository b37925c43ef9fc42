"""Type stubs: up to date with the package, and good for a type checker."""
import importlib.util
import pathlib
import subprocess
import sys
import textwrap

import pytest

import autograd_c

ROOT = pathlib.Path(__file__).resolve().parent.parent
STUBS = [ROOT / "python" / "autograd_c" / n for n in ("__init__.pyi", "_tensor.pyi")]


def test_stubs_are_up_to_date():
    r = subprocess.run([sys.executable, str(ROOT / "tools" / "make_stubs.py"), "--check"], capture_output=True, text=True, timeout=120)
    assert r.returncode == 0, r.stderr


def test_every_public_name_is_there():
    text = STUBS[0].read_text(encoding="utf-8")
    words = set(text.replace("(", " ").replace(":", " ").replace(",", " ").split())
    for name in dir(autograd_c):
        if not name.startswith("_") and hasattr(autograd_c, name):
            assert name in words, name
    methods = STUBS[1].read_text(encoding="utf-8")
    for name in dir(autograd_c.Tensor):
        if not name.startswith("_"):
            assert f"def {name}(" in methods or f"    {name}: " in methods, name


PROGRAM = """
    from __future__ import annotations

    import autograd_c as torch
    from autograd_c import nn, optim
    from autograd_c.nn import functional as F
    from autograd_c.utils.data import DataLoader, TensorDataset


    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Linear(4, 8)
            self.outer = nn.Linear(8, 1)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y: torch.Tensor = self.outer(torch.tanh(self.inner(x)))
            return y


    net = Net()
    optimizer = optim.Adam(net.parameters(), lr=1e-2)


    @torch.freeze
    def step(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad()
        loss: torch.Tensor = F.mse_loss(net(x), y)
        loss.backward()
        optimizer.step()
        return loss


    x = torch.randn(16, 4)
    y = x.sum(dim=1, keepdim=True) * 2.0 - 1
    for a, b in DataLoader(TensorDataset(x, y), batch_size=8):
        print(step(a, b).item())
    values, indices = torch.topk(x.detach().flatten(), 3)
    halves = x.split(8)
    joined: torch.Tensor = torch.cat([halves[0], halves[1]], dim=0).float()
    shape: tuple[int, ...] = joined.shape
    same: bool = torch.equal(joined, x)
    count: int = torch.counters().graphs_built
    d: torch.dtype = x.double().dtype
    with torch.no_grad():
        x += 1
        x[0, :2] = 0.0
    g = torch.autograd.grad((x.requires_grad_() ** 2).sum(), x)
    print(values, indices, shape, same, count, d, g, x == 1, torch.pi)
"""


def test_mypy_takes_a_program(tmp_path):
    if importlib.util.find_spec("mypy") is None:
        pytest.skip("mypy is not installed")
    program, wrong = tmp_path / "program.py", tmp_path / "wrong.py"
    program.write_text(textwrap.dedent(PROGRAM), encoding="utf-8")
    wrong.write_text("import autograd_c as torch\n\nx = torch.ones(2).reshap(1)\nn: int = torch.tanh(x)\ntorch.tanh()\n", encoding="utf-8")
    folder = pathlib.Path(autograd_c.__file__).parent.parent
    env = {"PATH": ""}
    if folder.name != "site-packages":  # where mypy looks by itself
        env["MYPYPATH"] = str(folder)

    def mypy(*args):
        return subprocess.run([sys.executable, "-m", "mypy", "--follow-imports=silent", "--cache-dir", str(tmp_path / "cache"), *map(str, args)],
                              capture_output=True, text=True, timeout=300, env=env, cwd=tmp_path)

    r = mypy(program)
    assert r.returncode == 0, r.stdout + r.stderr
    r = mypy(wrong)
    assert r.returncode == 1 and r.stdout.count("error:") == 3, r.stdout + r.stderr
    r = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, timeout=120)
    assert r.returncode == 0, r.stderr


def test_mypy_takes_the_stubs(tmp_path):
    if importlib.util.find_spec("mypy") is None:
        pytest.skip("mypy is not installed")
    r = subprocess.run([sys.executable, "-m", "mypy", "--follow-imports=silent", "--cache-dir", str(tmp_path / "cache"), *map(str, STUBS)],
                       capture_output=True, text=True, timeout=300, cwd=tmp_path)
    assert r.returncode == 0, r.stdout + r.stderr
