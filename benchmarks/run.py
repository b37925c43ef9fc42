"""Time the workloads on every framework that can be imported, side by side.

    python benchmarks/run.py [--only toy,mlp_b32] [--fw torch,jax,ours,ours.freeze] [--rounds 9] [--json FILE]

Each framework runs in a process of its own, so that threads and allocators do not mix, bound to one core
(taskset; --cpu says which, --threads N lifts it).  Rounds are interleaved: all processes are started, then each
is asked in turn for one timed round, so that drift of the machine hits all alike.  Figures are medians of the
rounds; the ratios, not the microseconds, are what carries over to another machine.  Losses of the first three
steps are compared: a framework that computes something else is reported, not ranked.
"""
import argparse
import importlib.util
import json
import math
import os
import platform
import statistics
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
FRAMEWORKS = ("torch", "jax", "ours", "ours.freeze")
MODULE = {"torch": "torch", "jax": "jax", "ours": "autograd_c", "ours.freeze": "autograd_c"}


def child(framework, name):
    """In the process of one framework: build the step, then time a round for each line on standard input."""
    import workloads as W
    maker, options = W.WORKLOADS[name][:2]
    threads = int(os.environ["BENCH_THREADS"])
    start = time.perf_counter()
    if framework == "jax":
        import peers_jax
        step = getattr(peers_jax, maker.__name__)(**options)
    elif framework == "torch":
        import torch
        torch.set_num_threads(threads)
        step = maker(torch, **options)
    else:
        import autograd_c
        step = maker(autograd_c, **options)
        if framework == "ours.freeze":
            step = autograd_c.freeze(step)
    losses = [float(step()) for _ in range(3)]
    ready = time.perf_counter() - start
    n = 1
    while True:  # calls per round: about a tenth of a second
        start = time.perf_counter()
        for _ in range(n):
            step()
        took = time.perf_counter() - start
        if took > 0.1 or n > 10_000_000:
            break
        n = max(2 * n, int(n * 0.12 / max(took, 1e-9)))
    print(json.dumps({"losses": losses, "ready_s": ready}), flush=True)
    for _ in sys.stdin:
        start = time.perf_counter()
        for _ in range(n):
            step()
        print((time.perf_counter() - start) / n, flush=True)


def run_workload(name, frameworks, a, env):
    """{framework: dict(us, min_us, ready_s, losses)} of one workload, or {framework: text} for a failure."""
    kids, out = {}, {}
    for fw in frameworks:
        cmd = [sys.executable, os.path.abspath(__file__), "--child", fw, name]
        if a.threads == 1:
            cmd = ["taskset", "-c", str(a.cpu)] + cmd
        p = subprocess.Popen(cmd, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env, cwd=HERE)
        line = p.stdout.readline()
        if line:
            kids[fw] = (p, json.loads(line), [])
        else:
            err = p.stderr.read().strip().splitlines()
            out[fw] = err[-1][:160] if err else "no output"
            p.wait()
    for _ in range(a.rounds):
        for p, _, times in kids.values():
            p.stdin.write("go\n")
            p.stdin.flush()
            times.append(float(p.stdout.readline()))
    for fw, (p, info, times) in kids.items():
        p.stdin.close()
        p.wait()
        out[fw] = dict(us=statistics.median(times) * 1e6, min_us=min(times) * 1e6, **info)
    return out


def ratio(row, slow, fast):
    if all(isinstance(row.get(k), dict) for k in (slow, fast)):
        return row[slow]["us"] / row[fast]["us"]
    return None


def agree(row):
    """Whether all frameworks computed the same losses (to float32's accuracy)."""
    seen = [r["losses"] for r in row.values() if isinstance(r, dict)]
    return all(math.isclose(x, y, rel_tol=2e-4, abs_tol=1e-5) for other in seen[1:] for x, y in zip(seen[0], other))


def show(results, frameworks, W):
    print(f"\n{'us a step':16s}" + "".join(f"{fw:>13s}" for fw in frameworks) + f"{'eager/torch':>13s}{'goal':>6s}{'frozen/jax':>12s}{'goal':>6s}  losses")
    gains = {"eager": [], "frozen": []}
    for name, row in results.items():
        eager, frozen = ratio(row, "torch", "ours"), ratio(row, "jax", "ours.freeze")
        for key, v in (("eager", eager), ("frozen", frozen)):
            if v:
                gains[key].append(v)
        cells = "".join(f"{row[fw]['us']:13.2f}" if isinstance(row.get(fw), dict) else f"{'-':>13s}" for fw in frameworks)
        goal_e, goal_f = W.WORKLOADS[name][2:4]
        print(f"{name:16s}{cells}" + (f"{eager:12.2f}x" if eager else f"{'-':>13s}") + f"{goal_e:6g}"
              + (f"{frozen:11.2f}x" if frozen else f"{'-':>12s}") + f"{goal_f:6g}  {'agree' if agree(row) else 'DIFFER'}")
        for fw in frameworks:
            if isinstance(row.get(fw), str):
                print(f"    {fw}: {row[fw]}")
    for key, v in gains.items():
        if v:
            print(f"geometric mean, {key}: {math.exp(sum(map(math.log, v)) / len(v)):.2f}x over {len(v)} workloads")


def main():
    ap = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    ap.add_argument("--only", default="", help="workloads, comma-separated")
    ap.add_argument("--fw", default="", help="frameworks: " + ",".join(FRAMEWORKS))
    ap.add_argument("--rounds", type=int, default=9)
    ap.add_argument("--threads", type=int, default=1)
    ap.add_argument("--cpu", type=int, default=(os.cpu_count() or 1) - 1)
    ap.add_argument("--json", default="")
    ap.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    a = ap.parse_args()
    sys.path.insert(0, HERE)
    if a.child:
        return child(*a.child)
    import workloads as W
    asked = a.fw.split(",") if a.fw else FRAMEWORKS
    frameworks = [fw for fw in asked if importlib.util.find_spec(MODULE[fw])]
    for fw in asked:
        if fw not in frameworks:
            print(f"{fw}: not installed, left out")
    env = dict(os.environ, OMP_NUM_THREADS=str(a.threads), BENCH_THREADS=str(a.threads), JAX_PLATFORMS="cpu")
    if a.threads == 1:
        env["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
    results = {}
    for name in (a.only.split(",") if a.only else W.WORKLOADS):
        results[name] = run_workload(name, frameworks, a, env)
        print(name + ": " + ", ".join(f"{fw} {r['us']:.2f} us" if isinstance(r, dict) else f"{fw} failed" for fw, r in results[name].items()), flush=True)
    show(results, frameworks, W)
    if a.json:
        with open(a.json, "w") as f:
            json.dump({"machine": platform.processor() or platform.machine(), "python": platform.python_version(),
                       "rounds": a.rounds, "threads": a.threads, "results": results}, f, indent=1)


if __name__ == "__main__":
    main()
