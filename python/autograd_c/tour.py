"""The tour: a dynamic and a static graph side by side, on real data, in the terminal (python -m autograd_c).

It shows the graph of y = (x + w) * (w + 1), then trains two small networks on scikit-learn's 1,797 images of written
digits, once dynamically and once frozen, and compares speed, graphs, memory and every bit of the parameters.
"""
import argparse
import importlib.util
import os
import shutil
import sys
import time
import warnings

import autograd_c as ac
from autograd_c import nn
from autograd_c.nn import functional as F
from autograd_c.utils.data import DataLoader, TensorDataset

NEEDS = {"sklearn": "scikit-learn", "matplotlib": "matplotlib", "graphviz": "graphviz", "tqdm": "tqdm"}
BATCH = 32
WIDTH = 78


def title(text):
    print(f"\n\033[1m{text}\033[0m" if sys.stdout.isatty() else f"\n{text}")
    print("-" * WIDTH)


# ---- one formula -----------------------------------------------------------------------------------------


def draw(root, names):
    """The grad_fn graph below root as lines of text; names: node -> (what it is, what to say of it)."""
    lines, seen = [], set()

    def visit(node, stem, tail):
        first, second = names(node)
        lines.append((stem + first, second))
        if node in seen:  # drawn already: a graph may share nodes
            return
        seen.add(node)
        below = [n for n, _ in node.next_functions if n is not None]
        for k, n in enumerate(below):
            last = k == len(below) - 1
            visit(n, tail + ("`-- " if last else "|-- "), tail + ("    " if last else "|   "))

    visit(root, "", "")
    width = max(len(first) for first, _ in lines) + 3
    return [first.ljust(width) + second for first, second in lines]


PROGRAM = """\
w = tensor([1.0], requires_grad=True)
x = tensor([2.0], requires_grad=True)
a = w + x
b = w + 1
y = a * b
y.backward()
"""


def formula():
    """Draws y = (x + w) * (w + 1) with its gradients; returns the source of its picture."""
    title("1. One formula, one graph: y = (x + w) * (w + 1)")
    # Run from its text, so that its nodes know lines that can be shown beside them.
    space = {"tensor": ac.tensor}
    *build, backward = [compile("\n" * k + line, "article.py", "exec") for k, line in enumerate(PROGRAM.splitlines())]
    for k, line in enumerate(PROGRAM.splitlines(), 1):
        print(f"  {k}  {line}")
    for code in build:
        exec(code, space)  # noqa: S102
    w, x, a, b, y = [space[n] for n in "wxaby"]
    for t in (a, b, y):
        t.retain_grad()
    dot = ac.graph.to_dot(y, {"w": w, "x": x})
    root = y.grad_fn
    results = {t.grad_fn: (n, t) for n, t in (("a", a), ("b", b), ("y", y))}
    leaves = {id(t): n for n, t in (("w", w), ("x", x))}
    exec(backward, space)  # noqa: S102

    def names(node):
        n, t = results.get(node) or (leaves[id(node.variable)], node.variable)
        site = f"   {node.site.partition(' in ')[0]}" if node in results else "   a leaf"
        return f"{n} = {t.item():g}", f"{node.short_name:<14}   dy/d{n} = {t.grad.item():g}{site}"

    print("\nEach line recorded a node; backward() walked them from the top:\n")
    for line in draw(root, names):
        print("  " + line)
    print(f"\n  w.grad = {w.grad}, as by hand: dy/dw = (w + 1) + (x + w) = 5")
    frozen = ac.freeze(lambda: _again(w, x))
    w.grad = x.grad = None
    frozen()
    print("\nFrozen, the same is a list of instructions: made once, then replayed.\n")
    for line in frozen.text().rstrip().splitlines():
        print("  " + line.partition("#")[0].rstrip())
    return dot


def _again(w, x):
    a = w + x
    b = w + 1
    y = a * b
    y.backward()
    return y


# ---- two networks ------------------------------------------------------------------------------------------


def digits():
    """Training and test set: images (n, 64) in 0..1 and classes."""
    from sklearn.datasets import load_digits

    d = load_digits()
    x = ac.tensor((d.data / 16.0).astype("float32"))
    t = ac.tensor(d.target.astype("int64"))
    order = ac.randperm(len(x), generator=ac.Generator().manual_seed(0))
    x, t = x[order], t[order]
    return (x[:1440], t[:1440]), (x[1440:], t[1440:])


def mlp():
    return nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))


def convnet():
    return nn.Sequential(nn.Unflatten(1, (1, 8, 8)), nn.Conv2d(1, 16, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(144, 10))


class Run:
    """One training: what it measured."""

    def __init__(self, make, data, test, epochs, freeze, name):
        from tqdm import tqdm

        ac.reset_peak_bytes()
        before = ac.counters()
        ac.manual_seed(1)
        model = make()
        optimizer = ac.optim.Adam(model.parameters(), lr=3e-3)

        def step(x, t):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), t)
            loss.backward()
            optimizer.step()
            return loss

        if freeze:
            step = ac.freeze(step)
        batches = DataLoader(TensorDataset(*data), batch_size=BATCH, shuffle=True, generator=ac.Generator().manual_seed(2))
        self.losses, self.seconds, self.steps = [], 0.0, 0
        bar = tqdm(total=epochs * len(batches), desc=f"  {name}, {'frozen' if freeze else 'dynamic'}", leave=False, ncols=WIDTH,
                   disable=not sys.stderr.isatty())
        for _ in range(epochs):
            losses = []
            for x, t in batches:
                start = time.perf_counter()
                loss = step(x, t)
                self.seconds += time.perf_counter() - start
                losses.append(loss.detach())
            self.losses += ac.stack(losses).tolist()
            del loss, losses, x, t
            bar.update(len(batches))
        bar.close()
        after = ac.counters()
        self.steps = len(self.losses)
        self.graphs = after.graphs_built - before.graphs_built
        self.nodes_built = after.nodes_built - before.nodes_built
        self.peak = after.peak_bytes - before.bytes
        self.rate = self.steps / self.seconds
        with ac.no_grad():
            self.accuracy = (model(test[0]).argmax(1) == test[1]).double().mean().item()
        self.parameters = {n: p.detach().numpy().tobytes() for n, p in model.named_parameters()}
        self.numbers = sum(p.numel() for p in model.parameters())


def rows(name, dynamic, frozen):
    """Lines of the table for one network."""
    same = dynamic.parameters == frozen.parameters and dynamic.losses == frozen.losses
    yield f"{name}, {dynamic.numbers:,} parameters, {dynamic.steps:,} batches of {BATCH}", "", ""
    yield "  graphs built", f"{dynamic.graphs:,}", f"{frozen.graphs:,}"
    yield "  nodes recorded", f"{dynamic.nodes_built:,}", f"{frozen.nodes_built:,}"
    yield "  batches a second", f"{dynamic.rate:,.0f}", f"{frozen.rate:,.0f}"
    yield "  faster", "1.0x", f"{frozen.rate / dynamic.rate:.1f}x"
    yield "  bytes at the most, parameters included", f"{dynamic.peak:,}", f"{frozen.peak:,}"
    yield "  nodes and bytes alive when all is done", f"{dynamic.left[0]}, {dynamic.left[1]}", f"{frozen.left[0]}, {frozen.left[1]}"
    yield "  right on the 357 test images", f"{100 * dynamic.accuracy:.1f} %", f"{100 * frozen.accuracy:.1f} %"
    yield "  parameters and losses, bit by bit", "equal" if same else "DIFFERENT", "equal" if same else "DIFFERENT"


def networks(quick):
    title("2. Two networks on 1,797 written digits: dynamic and frozen")
    print("dynamic: every batch records its own graph, walks it backward and drops it.\n"
          "frozen:  the first batch records the whole step (forward, backward, Adam);\n"
          "         the others replay it from C without building anything.\n")
    train, test = digits()
    runs = {}
    for name, make, epochs in (("MLP 64-128-10", mlp, 2 if quick else 20), ("Conv net 16@3x3", convnet, 1 if quick else 20)):
        runs[name] = []
        for freeze in (False, True):
            before = ac.counters()
            run = Run(make, train, test, epochs, freeze, name)
            after = ac.counters()
            run.left = after.nodes - before.nodes, after.bytes - before.bytes
            runs[name].append(run)
    print(f"{'':<52}{'dynamic':>12}{'frozen':>12}")
    for name, pair in runs.items():
        for label, a, b in rows(name, *pair):
            print(f"{label:<52}{a:>12}{b:>12}".rstrip())
    return runs


def fifty():
    """The articles' sentence, counted: 50 batches build 50 graphs dynamically, one when frozen."""
    title("3. Fifty batches")
    w = ac.tensor([[0.0]], requires_grad=True)

    def step(x):
        loss = ((x @ w - 2 * x) ** 2).mean()
        loss.backward()
        with ac.no_grad():
            w.sub_(0.1 * w.grad)
        w.grad = None
        return loss

    counts = []
    data = [ac.full((10, 1), 0.1 * k) for k in range(50)]
    for fn in (step, ac.freeze(step)):
        before = ac.counters()
        for x in data:
            fn(x)
        after = ac.counters()
        counts.append((after.graphs_built - before.graphs_built, after.nodes_built - before.nodes_built))
    (graphs, nodes), (graphs1, nodes1) = counts
    print(f"dynamic: {graphs} graphs of together {nodes} nodes.  frozen: {graphs1} graph of {nodes1} nodes, replayed 49 times.")


# ---- files -----------------------------------------------------------------------------------------------


def write_graph(dot, out):
    """The formula's graph as an SVG through the program `dot`, or as its text.  Returns a line for people."""
    path = os.path.join(out, "graph.dot")
    if shutil.which("dot"):
        import graphviz

        return f"{graphviz.Source(dot).render(outfile=os.path.join(out, 'graph.svg'), cleanup=True)}: the graph of the formula"
    with open(path, "w", encoding="utf-8") as f:
        f.write(dot + "\n")
    return f"{path}: the graph of the formula in Graphviz's language (no program `dot` here to draw it)"


def write_losses(runs, out):
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    fig, axes = plt.subplots(1, len(runs), figsize=(9, 3.2), sharey=True, layout="constrained")
    for ax, (name, (dynamic, frozen)) in zip(axes, runs.items()):
        ax.semilogy(dynamic.losses, color="#9bb8d3", linewidth=3, label="dynamic")
        ax.semilogy(frozen.losses, color="#c0392b", linewidth=0.8, label="frozen")
        ax.set(title=name, xlabel="batch")
        ax.spines[["top", "right"]].set_visible(False)
    axes[0].set_ylabel("cross entropy")
    axes[0].legend(frameon=False)
    path = os.path.join(out, "losses.png")
    fig.savefig(path, dpi=130)
    plt.close(fig)
    return f"{path}: the losses of both modes, one on the other"


def main(argv=None):
    """Runs the tour; exit status 0 when both modes agree to the bit."""
    parser = argparse.ArgumentParser(prog="python -m autograd_c", description=__doc__.splitlines()[0])
    parser.add_argument("--out", default="autograd_c_tour", metavar="DIR", help="where the pictures go (autograd_c_tour)")
    parser.add_argument("--quick", action="store_true", help="a few batches only")
    options = parser.parse_args(argv)
    missing = [package for module, package in NEEDS.items() if importlib.util.find_spec(module) is None]
    if missing:
        print(f'The tour needs {", ".join(missing)}: pip install "autograd_c[demo]"')
        return 1
    start = time.perf_counter()
    begin = ac.counters()
    print(ac.build_info())
    dot = formula()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        runs = networks(options.quick)
    fifty()
    title("4. What is left")
    end = ac.counters()
    print(f"alive before the tour: {begin.nodes} nodes, {begin.bytes:,} bytes; after it: {end.nodes} nodes, {end.bytes:,} bytes.")
    os.makedirs(options.out, exist_ok=True)
    print("written:\n  " + write_graph(dot, options.out) + "\n  " + write_losses(runs, options.out))
    equal = all(a.parameters == b.parameters and a.losses == b.losses for a, b in runs.values())
    print(f"\n{'Both modes gave the same bits' if equal else 'THE MODES DIFFER'}; {time.perf_counter() - start:.0f} seconds.")
    return 0 if equal else 1
