"""The price of small things: one op, one number, one import.

    python benchmarks/micro.py [--json FILE]

Nanoseconds a call, the least of several rounds of process time on one core, of autograd_c, PyTorch and NumPy
side by side where they are installed.
"""
import argparse
import importlib.util
import json
import os
import subprocess
import sys
import time
import timeit

ROWS = [  # label, setup per framework (t: the module), statement
    ("a + b, one element", "a = t.tensor([1.]); b = t.tensor([2.])", "a + b"),
    ("a + b, requires grad", "a = t.tensor([1.], requires_grad=True); b = t.tensor([2.], requires_grad=True)", "a + b"),
    ("a + 1.0, requires grad", "a = t.tensor([1.], requires_grad=True)", "a + 1.0"),
    ("a * 2, requires grad", "a = t.tensor([1.], requires_grad=True)", "a * 2"),
    ("tanh(a), requires grad", "a = t.tensor([1.], requires_grad=True)", "t.tanh(a)"),
    ("a.sum(), requires grad", "a = t.tensor([1., 2.], requires_grad=True)", "a.sum()"),
    ("a @ b, 8x8, requires grad", "a = t.ones(8, 8); a.requires_grad_(); b = t.ones(8, 8)", "a @ b"),
    ("a.T, requires grad", "a = t.ones(8, 8); a.requires_grad_()", "a.T"),
    ("a[1:]", "a = t.ones(8, 8)", "a[1:]"),
    ("a.shape", "a = t.ones(8, 8)", "a.shape"),
    ("a.item()", "a = t.tensor(1.)", "a.item()"),
    ("tensor(1.0)", "", "t.tensor(1.0)"),
    ("tensor([1., 2., 3.])", "", "t.tensor([1., 2., 3.])"),
    ("toy: forward and backward", "w = t.tensor([1.], requires_grad=True); x = t.tensor([2.], requires_grad=True)",
     "y = (w + x) * (w + 1); y.backward(); w.grad = None; x.grad = None"),
]


def least(statement, setup, env):
    scope = dict(env)
    exec(setup, scope)
    timer = timeit.Timer(statement, globals=scope, timer=time.process_time)
    n, _ = timer.autorange(lambda *_: None)
    return min(timer.repeat(repeat=9, number=max(n // 4, 1))) / max(n // 4, 1) * 1e9


def import_ms(module, rounds=5):
    """Wall milliseconds of `import module` in a fresh process, over an empty one."""
    def once(code):
        start = time.perf_counter()
        subprocess.run([sys.executable, "-c", code], check=True)
        return time.perf_counter() - start
    base = min(once("pass") for _ in range(rounds))
    return (min(once(f"import {module}") for _ in range(rounds)) - base) * 1e3


def main():
    ap = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    ap.add_argument("--json", default="")
    a = ap.parse_args()
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    import autograd_c
    columns = {"autograd_c": autograd_c, "no lines": autograd_c}
    if importlib.util.find_spec("torch"):
        import torch
        torch.set_num_threads(1)
        columns["torch"] = torch
    print(f"{'ns a call':28s}" + "".join(f"{c:>13s}" for c in columns))
    out = {}
    for label, setup, statement in ROWS:
        row = {}
        for column, module in columns.items():
            autograd_c.set_line_tracking(column != "no lines")
            row[column] = least(statement, setup, {"t": module})
        out[label] = row
        print(f"{label:28s}" + "".join(f"{v:13.0f}" for v in row.values()), flush=True)
    out["import, ms"] = {m: import_ms(m) for m in ("autograd_c", "numpy", "torch", "jax") if importlib.util.find_spec(m)}
    print("import, ms: " + ", ".join(f"{m} {v:.0f}" for m, v in out["import, ms"].items()))
    if a.json:
        with open(a.json, "w") as f:
            json.dump(out, f, indent=1)


if __name__ == "__main__":
    main()
