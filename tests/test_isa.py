"""Each instruction set against the widest one of this machine, over every row of the op table.

The kernels are chosen once, when the library is loaded, so each set runs in a process of its own:
`python test_isa.py out.npz` writes all results there.  Rows with one right answer give the same bits everywhere,
transcendental functions differ by a few units of the last place, sums and products by rounding.
"""
import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest

from autograd_c._ffi import ffi, lib
from table import ELEMENTWISE, FLOATS, FUNCTIONS, ROWS, as_list, bits, call, call_inplace, grad, tensor, ulps, values
from table_ew import EW, TYPES, operands
from table_fn import S, T
import table_fn_nn  # noqa: F401  (more rows)

N = 1031
ALSO_EXACT = {"pow_scalar:2.0", "pow_scalar:3.0", "pow_scalar:0.5", "pow_scalar:-1.0"}
LESS = ["neon"] if ffi.string(lib.ag_cpu_isa()) == b"neon" else ["avx512", "avx512,avx2"]


def isa():
    return ffi.string(lib.ag_cpu_isa()).decode()


def elementwise():
    """Key and result for each row, type and choice of numbers: values, and gradients by the fused kernels."""
    for name in ELEMENTWISE:
        row, entry = ROWS[name], EW.get(name)
        if entry is None:
            continue
        floats = () if entry.types == "integer" else FLOATS
        for dtype in floats + TYPES[entry.types]:
            for params in entry.params:
                xs = operands(row, np.random.default_rng(len(name)), N, dtype)
                ts = [tensor(x, x.dtype.kind == "f" and row.differentiable and row.grad_text[k] != "NOGRAD") for k, x in enumerate(xs)]
                y = call(name, ts, floats=params)
                key = f"{name}:{','.join(map(str, params))}:{np.dtype(dtype)}"
                yield key, values(y)
                if row.differentiable and dtype in FLOATS:
                    wanted = [t for t in ts if lib.ag_tensor_requires_grad(t._h)]
                    for k, g in enumerate(grad([y], wanted, [tensor(np.linspace(0.5, 1.5, N).astype(dtype))])):
                        yield f"{key}:grad{k}", values(g)


def functions():
    for name in FUNCTIONS:
        for k, s in enumerate(S.get(name, ())):
            for dtype in FLOATS:
                ts = [tensor(a.astype(dtype) if a.dtype == np.float64 else a) for a in s.inputs]
                if ROWS[name].mutates:
                    call_inplace(name, ts, s.ints, s.floats)
                    outs = ts
                else:
                    outs = as_list(call(name, ts, s.ints, s.floats))
                for j, o in enumerate(outs):
                    yield f"{name}:{k}:{np.dtype(dtype)}:{j}", values(o)


def everything():
    return {**dict(elementwise()), **{"fn " + k: v for k, v in functions()}}


@pytest.fixture(scope="module")
def widest():
    return everything()


@pytest.fixture(scope="module", params=LESS)
def narrower(request, tmp_path_factory):
    """Results of the set that is left, and its name."""
    out = tmp_path_factory.mktemp("isa") / "results.npz"
    here = pathlib.Path(__file__).resolve()
    env = dict(os.environ, AUTOGRAD_C_DISABLE_CPU=request.param)
    r = subprocess.run([sys.executable, str(here), str(out)], capture_output=True, text=True, env=env, cwd=here.parent)
    assert r.returncode == 0, r.stdout + r.stderr
    with np.load(out) as f:
        results = dict(f)
    return str(results.pop("isa")), results


def test_environment_is_obeyed(narrower):
    name, results = narrower
    assert name in ("avx2", "base") and len(results) > 500


def test_elementwise_rows(widest, narrower):
    name, results = narrower
    bad = []
    for key, got in results.items():
        if key.startswith("fn "):
            continue
        want = widest[key]
        row, params = key.split(":")[:2]
        entry = EW[row]
        assert got.dtype == want.dtype and got.shape == want.shape
        if got.dtype.kind != "f" or (entry.exact and "grad" not in key) or f"{row}:{params}" in ALSO_EXACT and "grad" not in key:
            if np.any(bits(got) != bits(want)):
                bad.append((key, "bits"))
            continue
        if "grad" in key or entry.scale:
            # Derivatives combine several functions, and may cancel: relative to the largest value.
            off = np.abs(got.astype(np.float64) - want) / (np.finfo(got.dtype).eps * max(1.0, np.abs(want).max()))
            limit = 8.0
        else:
            off, limit = ulps(got, want), 4.0
        if off.max() > limit:
            bad.append((key, float(off.max())))
    assert not bad, f"{name} against {isa()}: {bad}"


def test_function_rows(widest, narrower):
    name, results = narrower
    bad = []
    for key, got in results.items():
        if not key.startswith("fn "):
            continue
        want = widest[key]
        row = key[3:].split(":")[0]
        if got.dtype.kind != "f" or T[row].exact:
            if np.any(bits(got) != bits(want)):
                bad.append((key, "bits"))
            continue
        finite = np.isfinite(want)
        if not np.array_equal(finite, np.isfinite(got)):
            bad.append((key, "special values"))
        elif got.size and finite.any():
            scale = np.abs(want[finite]).max()
            off = np.abs(got[finite].astype(np.float64) - want[finite]).max() / (np.finfo(got.dtype).eps * max(scale, 1e-3))
            if off > 64:
                bad.append((key, float(off)))
    assert not bad, f"{name} against {isa()}: {bad}"


def test_random_bits_are_the_same(widest, narrower):
    """A seed gives the same uniform numbers on every machine."""
    name, results = narrower
    for key, got in results.items():
        if key.startswith("fn uniform"):
            assert np.array_equal(bits(got), bits(widest[key])), key


if __name__ == "__main__":
    np.savez(sys.argv[1], isa=isa(), **everything())
