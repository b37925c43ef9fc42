"""Every operation beside PyTorch (and NumPy, where it has the same), one core, at 1, 64, 4096 and 1e6 elements.

    python benchmarks/ops.py [--only TEXT] [--sizes 1,64,4096,1000000] [--dtype float64] [--grad] [--json FILE] [--slower]

Microseconds a call, the least of interleaved rounds of process time.  --grad: forward and backward of it, from a gradient of
the result's shape.  --slower prints the rows in which PyTorch is ahead by more than 5 %, and the reason where one is known.
"""
import argparse
import json
import math
import os
import time

SIZES = (1, 64, 4096, 1_000_000)

# Operands by letter; n is the size.  x y z: normal; p q: in (0.5, 1.5); u: in (-0.9, 0.9); b c: bool; i j: int64 below 100; k: indices below n;
# m w: square matrices of about n elements; s: symmetric positive; r: (n/10, 10) rows; l: labels below 10 for them; v: a vector as long as m's side;
# h: bool of m's shape; a: an image batch (1, 4, side, side), f: filters (8, 4, 3, 3); e: (side, 16), d: ints below 16 as long as side.
ELEMENTWISE = {
    "x": "neg abs sign square exp exp2 expm1 sin cos atan sinh cosh tanh erf erfc relu sigmoid floor ceil round trunc frac isnan isinf isfinite "
         "logical_not positive sinc nan_to_num deg2rad rad2deg asinh special.i0e special.i1e special.erfcx special.log_ndtr special.ndtr i0 sgn "
         "nn.functional.silu nn.functional.gelu nn.functional.leaky_relu nn.functional.elu nn.functional.selu nn.functional.celu "
         "nn.functional.softplus nn.functional.softsign nn.functional.hardtanh nn.functional.relu6 nn.functional.hardswish "
         "nn.functional.hardsigmoid nn.functional.hardshrink nn.functional.softshrink nn.functional.tanhshrink nn.functional.mish "
         "nn.functional.logsigmoid",
    "p": "reciprocal log log2 log10 log1p sqrt rsqrt digamma lgamma special.entr",
    "u": "tan asin acos atanh erfinv",
    "x, y": "add sub mul div atan2 maximum minimum fmax fmin hypot copysign logaddexp logaddexp2 eq ne lt le gt ge nextafter",
    "p, q": "pow remainder fmod floor_divide xlogy special.xlog1py",
    "i, j": "add sub mul bitwise_and bitwise_or bitwise_xor eq lt maximum",
    "b, c": "logical_and logical_or logical_xor",
}
STATEMENTS = {
    "x + 1.0": "x + 1.0", "x * 2": "x * 2", "x ** 2": "x ** 2", "x ** 3": "x ** 3", "p ** 0.5": "p ** 0.5", "p ** 2.3": "p ** 2.3", "2.0 ** x": "2.0 ** x",
    "acosh": "t.acosh(p + 1)", "logit": "t.logit(p * 0.5)", "polygamma 1": "t.polygamma(1, p)", "ldexp": "t.ldexp(x, y)", "lerp": "t.lerp(x, y, 0.3)",
    "clamp": "t.clamp(x, -1.0, 1.0)", "clamp_min": "t.clamp_min(x, 0.0)", "where": "t.where(b, x, y)", "masked_fill": "x.masked_fill(b, 0.0)",
    "addcmul": "t.addcmul(x, y, z)", "addcdiv": "t.addcdiv(x, y, p)", "threshold": "t.nn.functional.threshold(x, 0.1, 0.0)",
    "int // int": "i // (j + 1)", "int % int": "i % (j + 1)", "to(float64)": "x.to(t.float64)", "to(int64)": "x.to(t.int64)", "int to float": "i.to(t.float32)",
    "add_": "z.add_(1.0)", "mul_": "z.mul_(1.0)", "zero_": "z.zero_()", "copy_": "z.copy_(x)", "clone": "x.clone()",
    "row + column": "m[0] + m[:, :1]", "m + vector": "m + v", "m.t() + w": "m.t() + w", "m.t().contiguous()": "m.t().contiguous()", "m[::2] * 2": "m[::2] * 2.0",
    # reductions and scans
    **{f"{f}": f"t.{f}(x)" for f in ("sum", "mean", "prod", "amax", "amin", "max", "min", "argmax", "argmin", "var", "std", "median", "nansum", "nanmean",
                                      "count_nonzero", "aminmax", "var_mean")},
    **{f"{f} dim {d}": f"t.{f}(m, {d})" for d in (0, 1) for f in ("sum", "mean", "prod", "amax", "max", "argmax", "var", "logsumexp", "softmax", "log_softmax",
                                                                    "cumsum", "cumprod", "cummax", "logcumsumexp")},
    "any": "t.any(b)", "all": "t.all(b)", "norm": "t.linalg.vector_norm(x)", "norm 1": "t.linalg.vector_norm(x, 1)", "norm inf": "t.linalg.vector_norm(x, math.inf)",
    "norm 3": "t.linalg.vector_norm(x, 3)", "int sum": "i.sum()", "int max": "i.max()", "cdist": "t.cdist(m, w)", "softmax rows of 10": "t.softmax(r, 1)",
    "trace": "t.trace(m)", "dist": "t.dist(x, y)", "renorm": "t.renorm(m, 2, 0, 1.0)", "kthvalue": "t.kthvalue(x, 1)", "mode": "t.mode(m, 1)",
    "quantile": "t.quantile(x[:100000], 0.3)", "nanmedian": "t.nanmedian(x)", "diff": "t.diff(x)", "trapezoid": "t.trapezoid(x)",
    # order
    "sort": "t.sort(x)", "sort rows": "t.sort(m, 1)", "argsort": "t.argsort(x)", "topk": "t.topk(x, 1)", "topk rows of 10": "t.topk(r, 3, 1)", "unique": "t.unique(i)",
    "searchsorted": "t.searchsorted(sx, y)", "bucketize": "t.bucketize(x, sx[:64])", "msort": "t.msort(m)", "bincount": "t.bincount(i)",
    # shapes
    "reshape": "x.reshape(-1, 1)", "view": "x.view(-1)", "transpose": "m.transpose(0, 1)", "permute": "m.permute(1, 0)", "unsqueeze": "x.unsqueeze(0)",
    "squeeze": "x.squeeze()", "expand": "v.expand(8, -1)", "narrow": "x.narrow(0, 0, 1)", "select": "m.select(0, 0)", "diagonal": "m.diagonal()", "split": "m.split(1 + m.shape[0] // 2)",
    "chunk": "m.chunk(2)", "unbind": "m[:8].unbind(0)", "cat": "t.cat([x, y])", "stack": "t.stack([x, y])", "cat dim 1": "t.cat([m, w], 1)", "repeat": "x.repeat(2)",
    "tile": "t.tile(x, (2,))", "flip": "t.flip(x, (0,))", "roll": "t.roll(x, 1)", "rot90": "t.rot90(m)", "tril": "t.tril(m)", "triu": "t.triu(m)", "diag": "t.diag(v)",
    "diag_embed": "t.diag_embed(v)", "repeat_interleave": "t.repeat_interleave(x, 2)", "flatten": "m.flatten()", "movedim": "t.movedim(m, 0, 1)", "unfold": "x.unfold(0, 1, 1)",
    "meshgrid": "t.meshgrid(v, v, indexing='ij')", "block_diag": "t.block_diag(m, w)", "broadcast_to": "t.broadcast_to(v, (8, v.shape[0]))", "unflatten": "x.unflatten(0, (-1, 1))",
    # indexing
    "x[0]": "x[0]", "x[1:]": "x[1:]", "m[:, 0]": "m[:, 0]", "x[mask]": "x[b]", "x[index]": "x[k]", "m[rows]": "m[d0]", "z[0] = 1.0": "z[0] = 1.0", "z[mask] = 0": "z[b] = 0.0",
    "z[index] = y": "z[k] = y", "gather": "t.gather(x, 0, k)", "index_select": "t.index_select(m, 0, d0)", "take": "t.take(x, k)", "take_along_dim": "t.take_along_dim(x, k, 0)",
    "scatter": "t.scatter(x, 0, k, y)", "scatter_add": "t.scatter_add(x, 0, k, y)", "index_add": "t.index_add(x, 0, k, y)", "index_put": "x.index_put((k,), y)",
    "masked_select": "t.masked_select(x, b)", "nonzero": "t.nonzero(b)", "masked_scatter": "x.masked_scatter(b, y)", "index_fill": "x.index_fill(0, k, 1.0)",
    "scatter_reduce": "t.scatter_reduce(x, 0, k, y, 'amax')", "index_copy": "x.index_copy(0, k, y)",
    # products
    "mm": "m @ w", "mm t": "m @ w.t()", "mv": "m @ v", "mv t": "m.t() @ v", "dot": "x @ y", "outer": "t.outer(v, v)", "addmm": "t.addmm(v, m, w)", "bmm": "t.bmm(m.unsqueeze(0), w.unsqueeze(0))",
    "batch of 16": "m16 @ w16", "einsum": "t.einsum('ij,jk->ik', m, w)", "linear": "t.nn.functional.linear(m, w, v)", "kron": "t.kron(v, v)", "tensordot": "t.tensordot(m, w, 1)",
    "inner": "t.inner(v, v)", "addmv": "t.addmv(v, m, v)", "addr": "t.addr(m, v, v)", "baddbmm": "t.baddbmm(m16, m16, w16)", "chain": "t.linalg.multi_dot([m, w, m])",
    # nn
    "mse_loss": "t.nn.functional.mse_loss(x, y)", "l1_loss": "t.nn.functional.l1_loss(x, y)", "smooth_l1_loss": "t.nn.functional.smooth_l1_loss(x, y)",
    "huber_loss": "t.nn.functional.huber_loss(x, y)", "cross_entropy": "t.nn.functional.cross_entropy(r, l)", "nll_loss": "t.nn.functional.nll_loss(r, l)",
    "bce": "t.nn.functional.binary_cross_entropy(pu, pu2)", "bce with logits": "t.nn.functional.binary_cross_entropy_with_logits(x, pu)", "kl_div": "t.nn.functional.kl_div(x, pu)",
    "layer_norm": "t.nn.functional.layer_norm(m, (m.shape[1],), v, v)", "rms_norm": "t.nn.functional.rms_norm(m, (m.shape[1],), v)", "group_norm": "t.nn.functional.group_norm(a, 2)",
    "batch_norm": "t.nn.functional.batch_norm(a, None, None, training=True)", "instance_norm": "t.nn.functional.instance_norm(a4)", "embedding": "t.nn.functional.embedding(d, e)",
    "embedding_bag": "t.nn.functional.embedding_bag(d.view(-1, 1), e)", "conv2d": "t.nn.functional.conv2d(a, f, padding=1)", "conv2d depthwise": "t.nn.functional.conv2d(a, f1, padding=1, groups=4)",
    "conv1d": "t.nn.functional.conv1d(a1, f3, padding=1)", "conv_transpose2d": "t.nn.functional.conv_transpose2d(a, ft)", "max_pool2d": "t.nn.functional.max_pool2d(a4, 2)",
    "avg_pool2d": "t.nn.functional.avg_pool2d(a4, 2)", "adaptive_avg_pool2d": "t.nn.functional.adaptive_avg_pool2d(a4, 2)", "interpolate": "t.nn.functional.interpolate(a4, scale_factor=2)",
    "bilinear": "t.nn.functional.interpolate(a4, scale_factor=2, mode='bilinear')", "pad": "t.nn.functional.pad(a, (1, 1, 1, 1))", "pad reflect": "t.nn.functional.pad(a4, (1, 1, 1, 1), mode='reflect')",
    "attention": "t.nn.functional.scaled_dot_product_attention(qkv, qkv, qkv)", "dropout": "t.nn.functional.dropout(x, 0.3)", "normalize": "t.nn.functional.normalize(m)",
    "cosine_similarity": "t.nn.functional.cosine_similarity(m, w)", "glu": "t.nn.functional.glu(x2)", "prelu": "t.nn.functional.prelu(x, a0)", "one_hot": "t.nn.functional.one_hot(d, 16)",
    "pixel_shuffle": "t.nn.functional.pixel_shuffle(a, 2)", "pairwise_distance": "t.nn.functional.pairwise_distance(m, w)",
    # random and new
    "zeros": "t.zeros(n)", "ones": "t.ones(n)", "full": "t.full((n,), 2.0)", "arange": "t.arange(n)", "linspace": "t.linspace(0, 1, n)", "eye": "t.eye(m.shape[0])", "rand": "t.rand(n)",
    "randn": "t.randn(n)", "randint": "t.randint(10, (n,))", "randperm": "t.randperm(n)", "bernoulli": "t.bernoulli(pu)", "uniform_": "z.uniform_()", "normal_": "z.normal_()",
    # linear algebra
    "solve": "t.linalg.solve(s, v)", "inv": "t.linalg.inv(s)", "cholesky": "t.linalg.cholesky(s)", "det": "t.linalg.det(s)", "qr": "t.linalg.qr(ms)", "svdvals": "t.linalg.svdvals(ms)",
    "eigvalsh": "t.linalg.eigvalsh(s)", "lu_factor": "t.linalg.lu_factor(s)", "matrix_power": "t.linalg.matrix_power(ms, 3)", "solve_triangular": "t.linalg.solve_triangular(s, s, upper=True)",
}
for _operands, _names in ELEMENTWISE.items():
    for _name in _names.split():
        STATEMENTS[_name + (" int" if _operands == "i, j" else "")] = f"t.{_name}({_operands})"
NUMPY = {"add": "x + y", "mul": "x * y", "div": "x / y", "exp": "np.exp(x)", "log": "np.log(p)", "sin": "np.sin(x)", "tanh": "np.tanh(x)", "sqrt": "np.sqrt(p)", "pow": "p ** q", "sum": "x.sum()",
         "max": "x.max()", "argmax": "x.argmax()", "sort": "np.sort(x)", "mm": "m @ w", "mv": "m @ v", "dot": "x @ y", "cumsum dim 1": "m.cumsum(1)", "x[0]": "x[0]", "x[1:]": "x[1:]",
         "x[mask]": "x[b]", "x[index]": "x[k]", "where": "np.where(b, x, y)", "cat": "np.concatenate([x, y])", "zeros": "np.zeros(n)", "var": "x.var(ddof=1)", "clone": "x.copy()",
         "m.t() + w": "m.T + w", "rand": "rng.random(n)", "randn": "rng.standard_normal(n)", "sum dim 0": "m.sum(0)", "sum dim 1": "m.sum(1)", "floor": "np.floor(x)", "maximum": "np.maximum(x, y)"}
# Rows in which PyTorch is ahead, and why we leave it so.
REASONS = {}


def operands(n, dtype):
    """name -> NumPy array."""
    import numpy as np

    rng = np.random.default_rng(0)
    side = max(int(math.isqrt(n)), 1)
    f = lambda *s: rng.standard_normal(s).astype(dtype)  # noqa: E731
    o = {"x": f(n), "y": f(n), "z": f(n), "p": rng.uniform(0.5, 1.5, n).astype(dtype), "q": rng.uniform(0.5, 1.5, n).astype(dtype),
         "u": rng.uniform(-0.9, 0.9, n).astype(dtype), "pu": rng.uniform(0.01, 0.99, n).astype(dtype), "pu2": rng.uniform(0.01, 0.99, n).astype(dtype),
         "b": rng.random(n) < 0.5, "c": rng.random(n) < 0.5, "i": rng.integers(0, 100, n), "j": rng.integers(0, 100, n), "k": rng.permutation(n),
         "m": f(side, side), "w": f(side, side), "v": f(side), "r": f(max(n // 10, 1), 10), "l": rng.integers(0, 10, max(n // 10, 1)),
         "e": f(max(n // 16, 16), 16), "d": rng.integers(0, 16, side), "d0": rng.permutation(side), "a0": np.array([0.25], dtype), "x2": f(max(n, 2)),
         "a": f(1, 4, side, side), "f": f(8, 4, 3, 3), "f1": f(4, 1, 3, 3), "ft": f(4, 8, 3, 3), "a1": f(1, 4, max(n // 4, 3)), "f3": f(8, 4, 3),
         "a4": f(1, 4, max(side // 2, 4), max(side // 2, 4)), "qkv": f(1, 2, max(side // 4, 1), 16), "m16": f(16, max(side // 4, 1), max(side // 4, 1)),
         "w16": f(16, max(side // 4, 1), max(side // 4, 1))}
    small = min(side, 256)
    o["ms"] = f(small, small)
    o["s"] = (o["ms"] @ o["ms"].T + small * np.eye(small)).astype(dtype)
    o["sx"] = np.sort(o["x"])
    o["x2"] = o["x2"][:len(o["x2"]) // 2 * 2]
    if small != side:
        o["v256"] = f(small)
    return o


def timed(run, seconds=0.01):
    """A function that returns the time of one call, in us: a loop long enough to be read."""
    run()
    t0 = time.process_time()
    run()
    once = max(time.process_time() - t0, 1e-7)
    count = max(1, min(int(seconds / once), 20000))
    loop = compile("for _ in it: run()", "loop", "exec")

    def measure():
        scope = {"run": run, "it": range(count)}
        t0 = time.process_time()
        exec(loop, scope)
        return (time.process_time() - t0) / count * 1e6
    return measure


def runner(statement, scope, grad, t):
    """The statement as a function of no arguments; with grad, forward and backward.  None where there is nothing to differentiate."""
    if not grad:
        body = f"def run():\n    {statement}\n"
        exec(body, scope)
        return scope["run"]
    if " = " in statement or "_(" in statement:
        return None
    leaves = []
    for name in ("x", "y", "p", "q", "u", "m", "w", "v", "r", "a", "f", "e"):
        scope[name] = scope[name].detach().requires_grad_(True)
        leaves.append(scope[name])
    exec(f"def value():\n    return {statement}\n", scope)
    try:
        y = scope["value"]()
        y = y if hasattr(y, "grad_fn") else y[0]
    except Exception:  # noqa: BLE001  (an operation that takes no part in gradients)
        return None
    if y.grad_fn is None:
        return None
    g = t.ones_like(y.detach())
    value = scope["value"]
    grad_of, used = t.autograd.grad, [x for x, d in zip(leaves, t.autograd.grad(y, leaves, g, allow_unused=True)) if d is not None]

    def run():
        y = value()
        if type(y) is not type(g):
            y = y[0]
        grad_of(y, used, g)
    return run


def main():
    ap = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    ap.add_argument("--only", default="", help="rows whose name holds one of these, separated by commas")
    ap.add_argument("--sizes", default=",".join(map(str, SIZES)))
    ap.add_argument("--dtype", default="float32")
    ap.add_argument("--grad", action="store_true")
    ap.add_argument("--rounds", type=int, default=5)
    ap.add_argument("--json", default="")
    ap.add_argument("--slower", action="store_true", help="only the rows in which PyTorch is ahead by more than 5 %%")
    a = ap.parse_args()
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    import numpy as np
    import torch

    import autograd_c

    torch.set_num_threads(1)
    autograd_c.set_num_threads(1)
    rows = []
    print(f"{'operation':24} {'n':>8} {'ours us':>11} {'PyTorch us':>11} {'ahead':>7} {'NumPy us':>11}")
    for n in map(int, a.sizes.split(",")):
        arrays = operands(n, a.dtype)
        for name, statement in STATEMENTS.items():
            if a.only and not any(part in name for part in a.only.split(",")):
                continue
            if n > 100_000 and name in ("cdist", "kron", "meshgrid", "outer", "diag_embed", "diag", "block_diag", "mode", "renorm"):
                continue  # their results, or their work, grow faster than n
            measures, failed = [], ""
            for t in (autograd_c, torch):
                make = t.tensor if t is autograd_c else torch.tensor
                scope = {"t": t, "n": n, "math": math, **{k: make(v) for k, v in arrays.items()}}
                if n > 100_000:  # linear algebra at 256
                    scope["v"] = scope["v256"] if name == "solve" else scope["v"]
                try:
                    run = runner(statement, scope, a.grad, t)
                    measures.append(run and timed(run))
                except Exception as error:  # noqa: BLE001  (shown in the row)
                    failed = f"{t.__name__}: {type(error).__name__}: {str(error)[:60]}"
            if failed or len(measures) < 2 or None in measures:
                if failed:
                    print(f"{name:24} {n:8} {failed}")
                continue
            if name in NUMPY and not a.grad:
                scope = {"np": np, "n": n, "rng": np.random.default_rng(0), **arrays}
                exec(f"def run():\n    {NUMPY[name]}\n", scope)
                measures.append(timed(scope["run"]))
            best = [min(v) for v in zip(*[[m() for m in measures] for _ in range(a.rounds)])]
            row = {"name": name, "n": n, "ours": best[0], "torch": best[1], "numpy": best[2] if len(best) > 2 else None}
            rows.append(row)
            if not a.slower or row["ours"] > 1.05 * row["torch"]:
                extra = f"{row['numpy']:11.3f}" if row["numpy"] else " " * 11
                print(f"{name:24} {n:8} {best[0]:11.3f} {best[1]:11.3f} {best[1] / best[0]:6.2f}x {extra} {REASONS.get(name, '') if row['ours'] > 1.05 * row['torch'] else ''}",
                      flush=True)
    behind = [r for r in rows if r["ours"] > 1.05 * r["torch"]]
    mean = math.exp(sum(math.log(r["torch"] / r["ours"]) for r in rows) / len(rows)) if rows else 0.0
    print(f"{len(rows)} rows, geometric mean {mean:.2f}x, PyTorch ahead by more than 5 % in {len(behind)}, of which with a reason: {sum(r['name'] in REASONS for r in behind)}")
    if a.json:
        with open(a.json, "w", encoding="utf-8") as file:
            json.dump(rows, file)


if __name__ == "__main__":
    main()
