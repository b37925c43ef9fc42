"""python -m autograd_c, in its quick mode."""
import os
import subprocess
import sys

import pytest


def run(*args, cwd, env=None):
    return subprocess.run([sys.executable, "-m", "autograd_c", *args], capture_output=True, text=True, timeout=300, cwd=cwd,
                          env={**os.environ, **(env or {})})


def test_quick_tour(tmp_path):
    for module in ("sklearn", "matplotlib", "graphviz", "tqdm"):
        pytest.importorskip(module)
    r = run("--quick", "--out", "pictures", cwd=tmp_path)
    assert r.returncode == 0, r.stdout + r.stderr
    out = r.stdout
    assert "w.grad = tensor([5.])" in out
    for line in ("y = 6", "|-- a = 3", "|   |-- w = 1", "|   `-- x = 2", "`-- b = 2"):
        assert line in out
    assert "MulBackward0     dy/dy = 1   article.py:5" in out
    assert out.count("equal       equal") == 2 and "DIFFERENT" not in out
    assert "dynamic: 50 graphs" in out and "frozen: 1 graph" in out
    row = next(line for line in out.splitlines() if "graphs built" in line)
    assert row.split()[-2:] == ["90", "1"]
    assert "Both modes gave the same bits" in out
    written = [line.split(":")[0].strip() for line in out.partition("written:\n")[2].splitlines()[:2]]
    for name in written:
        assert (tmp_path / name).stat().st_size > 500, name


def test_without_the_extra_it_says_what_to_install(tmp_path):
    (tmp_path / "sitecustomize.py").write_text(
        "import importlib.util as u\nold = u.find_spec\nu.find_spec = lambda n, *a: None if n == 'tqdm' else "
        "n if n in ('sklearn', 'matplotlib', 'graphviz') else old(n, *a)\n")
    path = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    r = run(cwd=tmp_path, env={"PYTHONPATH": path})
    assert r.returncode == 1
    assert r.stdout.strip().splitlines() == ['The tour needs tqdm: pip install "autograd_c[demo]"']
