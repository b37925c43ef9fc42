"""Threads inside an operation: the same bits for any number of them, eager and frozen; forks; several callers at once."""
import multiprocessing
import os
import subprocess
import sys
import threading

import numpy as np
import pytest

import autograd_c as torch
from autograd_c._ffi import lib
from table import ELEMENTWISE, ROWS, call, same_bits, tensor, values
import test_table_frozen as frozen

COUNTS = (2, 3, 8)
NO_THREADS = "threads: none" in torch.build_info()


@pytest.fixture(autouse=True)
def as_before():
    before = torch.get_num_threads()
    yield
    lib.ag_test_grain(1)
    torch.set_num_threads(before)


def across_threads(fn, make, what, passes=0):
    """Eager runs, a plan traced on one thread and plans traced on more, all against one thread.  Everything is cut."""
    lib.ag_test_grain(1 << 30)
    torch.set_num_threads(1)
    plan, _ = frozen.freeze(fn, make(0), passes)
    plans = []
    try:
        want = [fn(make(which)) for which in (0, 1)]
        for which in (0, 1):
            for k, (a, b) in enumerate(zip(frozen.replay(plan, make(which)), want[which])):
                same_bits(a, b, f"{what}: result {k} of replay, 1 thread")
        for count in COUNTS:
            torch.set_num_threads(count)
            other, first = frozen.freeze(fn, make(0), passes)
            plans.append(other)
            runs = [("traced call", 0, first)]
            for which in (0, 1):
                runs += [("eager", which, fn(make(which))), ("replay", which, frozen.replay(plan, make(which))),
                         ("replay of a plan of its own", which, frozen.replay(other, make(which)))]
            for kind, which, got in runs:
                assert len(got) == len(want[which])
                for k, (a, b) in enumerate(zip(got, want[which])):
                    same_bits(a, b, f"{what}: result {k}, {kind}, {count} threads")
    finally:
        for p in [plan, *plans]:
            lib.ag_plan_release(p)
        lib.ag_test_grain(1)


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_elementwise_rows(name, monkeypatch):
    monkeypatch.setattr(frozen, "compare", across_threads)
    frozen.test_elementwise_rows(name)


@pytest.mark.parametrize("sample", frozen.SAMPLES, ids=[f"{s.row}{k}" for k, s in enumerate(frozen.SAMPLES)])
def test_function_rows(sample, monkeypatch):
    monkeypatch.setattr(frozen, "compare", across_threads)
    frozen.test_function_rows(sample)


# ---- sizes at which threads are used ---------------------------------------------------------------------


def rand(rng, *shape, dtype=np.float32, grad=False):
    return torch.tensor(rng.standard_normal(shape).astype(dtype), requires_grad=grad)


def train_conv(rng, dtype):
    x, w, b = rand(rng, 12, 16, 24, 24, dtype=dtype, grad=True), rand(rng, 24, 16, 3, 3, dtype=dtype, grad=True), rand(rng, 24, dtype=dtype, grad=True)
    y = torch.nn.functional.conv2d(x, w, b, padding=1)
    y = torch.nn.functional.max_pool2d(torch.relu(y), 2)
    y.square().mean().backward()
    return [y, x.grad, w.grad, b.grad]


def depthwise(rng, dtype):
    x, w = rand(rng, 6, 48, 30, 30, dtype=dtype, grad=True), rand(rng, 48, 1, 3, 3, dtype=dtype, grad=True)
    y = torch.nn.functional.conv2d(x, w, stride=2, groups=48)
    y.sin().sum().backward()
    return [y, x.grad, w.grad]


def products(rng, dtype):
    outs = []
    for m, k, n in ((300, 290, 410), (64, 512, 600), (1500, 40, 70), (1100, 30, 1030), (1, 1200, 900), (2000, 900, 1)):
        a, b = rand(rng, m, k, dtype=dtype), rand(rng, k, n, dtype=dtype)
        outs += [a @ b, a @ rand(rng, n, k, dtype=dtype).t(), rand(rng, k, m, dtype=dtype).t() @ b, torch.addmm(rand(rng, n, dtype=dtype), a, b)]
    return outs + [torch.bmm(rand(rng, 33, 70, 60, dtype=dtype), rand(rng, 33, 60, 50, dtype=dtype)),
                   torch.bmm(rand(rng, 3, 200, 160, dtype=dtype), rand(rng, 3, 160, 300, dtype=dtype))]


def elementwise(rng, dtype):
    n = 700_000
    x, y = rand(rng, n, dtype=dtype, grad=True), rand(rng, n, dtype=dtype)
    a, b = rand(rng, 900, 700, dtype=dtype), rand(rng, 700, dtype=dtype)
    z = (torch.tanh(x) * y + torch.exp(-x * x)).sin()
    z.sum().backward()
    c = a.clone()
    c.t().mul_(rand(rng, 900, dtype=dtype))
    c[:, ::2] += 1
    return [z, x.grad, a + b, a * b.view(700, 1)[:700, 0], a.t().contiguous(), a.double(), a.float(), c, (x > y), torch.where(x > y, x, y), a.flip(0)]


def rows(rng, dtype):
    a = rand(rng, 1500, 900, dtype=dtype, grad=True)
    outs = [torch.softmax(a, 1), torch.log_softmax(a, 1), torch.nn.functional.layer_norm(a, (900,)), a.cumsum(1), a.max(1)[0], a.max(1)[1]]
    (outs[0] * outs[1] * outs[2]).sum().backward()
    i = torch.tensor(rng.integers(0, 1500, 4000))
    return outs + [a.grad, a.detach()[i], a.detach().index_select(0, i), torch.nn.functional.embedding(i, a.detach())]


def reductions(rng, dtype):
    outs = []
    for shape, dims in (((3_000_001,), 0), ((2, 1_500_001), 1), ((40_003, 70), 0), ((3, 20_000, 40), 1), ((3000, 900), 1), ((700, 40, 90), (0, 2))):
        a = rand(rng, *shape, dtype=dtype)
        outs += [a.sum(dims), a.mean(dims), a.amax(dims), a.amin(dims), (a > 3).any(), (a > -9).all(), a.prod(), (a > 0).sum(dims), a.argmax(), a.std()]
        if isinstance(dims, int):
            outs += [*a.max(dims), a.argmin(dims)]
    return outs


def noise(rng, dtype):
    torch.manual_seed(5)
    return [torch.rand(600_001, dtype=torch.float32 if dtype == np.float32 else torch.float64), torch.randn(500_003), torch.rand(3)]


def optimizers(rng, dtype):
    outs = []
    for make in (lambda p: torch.optim.SGD(p, 0.1, momentum=0.9, weight_decay=0.01), lambda p: torch.optim.AdamW(p, 0.01)):
        p = rand(rng, 800_000, dtype=dtype, grad=True)
        opt = make([p])
        for _ in range(3):
            p.grad = p.detach() * 0.5
            opt.step()
        outs.append(p)
    return outs


LARGE = [train_conv, depthwise, products, elementwise, rows, reductions, noise, optimizers]


@pytest.mark.parametrize("dtype", [np.float32, np.float64], ids=["float32", "float64"])
@pytest.mark.parametrize("case", LARGE, ids=[c.__name__ for c in LARGE])
def test_large(case, dtype):
    torch.set_num_threads(1)
    want = case(np.random.default_rng(3), dtype)
    for count in COUNTS:
        torch.set_num_threads(count)
        for k, (a, b) in enumerate(zip(case(np.random.default_rng(3), dtype), want)):
            same_bits(a, b, f"result {k}, {count} threads")


def test_cut_sums_have_the_bits_of_whole_ones():
    """The parts of a cut sum are nodes of the tree by which the kernel adds a whole one."""
    rng = np.random.default_rng(8)
    for dtype in (np.float32, np.float64):
        for shape, dim in (((n,), 0) for n in (1023, 1024, 1025, 2048, 5000, 16_384, 70_001)):
            a = torch.tensor(rng.standard_normal(shape).astype(dtype))
            whole = a.sum(dim)
            lib.ag_test_grain(1 << 30)
            same_bits(a.sum(dim), whole, f"{shape}")
            lib.ag_test_grain(1)
        for shape in ((127, 3), (128, 3), (129, 3), (256, 7), (1000, 5), (1029, 70), (2, 700, 33), (5, 1025, 2)):
            a = torch.tensor(rng.standard_normal(shape).astype(dtype))
            a = a * (a > 0) * torch.tensor(rng.choice([-1.0, 1.0], shape).astype(dtype))  # zeros of both signs
            whole = a.sum(-2)
            lib.ag_test_grain(1 << 30)
            same_bits(a.sum(-2), whole, f"{shape}")
            lib.ag_test_grain(1)


# ---- the public names --------------------------------------------------------------------------------------


def test_number_of_threads():
    torch.set_num_threads(2)
    assert torch.get_num_threads() == (1 if NO_THREADS else 2)
    with pytest.raises(RuntimeError, match="positive number of threads, but got 0"):
        torch.set_num_threads(0)
    with pytest.raises(RuntimeError):
        torch.set_num_threads(-(10**30))
    with pytest.raises(TypeError):
        torch.set_num_threads(1.5)
    assert "threads:" in torch.__config__.show() and f": {torch.get_num_threads()}\n" in torch.__config__.parallel_info()


@pytest.mark.skipif(NO_THREADS, reason="built without threads")
def test_environment_and_affinity():
    program = "import autograd_c; print(autograd_c.get_num_threads())"

    def says(**env):
        return int(subprocess.run([sys.executable, "-c", program], env={**os.environ, **env}, capture_output=True, check=True, text=True).stdout)

    assert says(AUTOGRAD_C_NUM_THREADS="3") == 3
    default = says(AUTOGRAD_C_NUM_THREADS="many")
    assert 1 <= default <= (len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count())
    assert says(AUTOGRAD_C_NUM_THREADS="") == default == says(AUTOGRAD_C_NUM_THREADS="0")


def pool_threads():
    return len(os.listdir("/proc/self/task"))


def work():
    x = torch.arange(400_000, dtype=torch.float64)
    return float((x.sin() * x.cos()).sum())


def child(queue):
    queue.put((work(), pool_threads() if sys.platform == "linux" else 0))


@pytest.mark.skipif(NO_THREADS or not hasattr(os, "fork"), reason="needs threads and fork")
def test_fork():
    torch.set_num_threads(4)
    want = work()
    before = pool_threads() if sys.platform == "linux" else 0
    assert sys.platform != "linux" or before >= 4
    context = multiprocessing.get_context("fork")
    for _ in range(3):
        queue = context.Queue()
        process = context.Process(target=child, args=(queue,))
        process.start()
        got, threads = queue.get(timeout=60)
        process.join(60)
        assert process.exitcode == 0 and got == want
        assert sys.platform != "linux" or threads >= 4  # the child's own
        assert work() == want
    assert sys.platform != "linux" or pool_threads() >= 4


def test_several_python_threads():
    torch.set_num_threads(3)
    want, step = work(), torch.freeze(lambda x: (x.sin() * x.exp()).sum())
    x = torch.linspace(-1, 1, 300_000)
    frozen_want = float(step(x))
    got, errors = [], []

    def run():
        try:
            for _ in range(10):
                got.append(work())
                assert float(step(x)) == frozen_want
        except BaseException as e:  # told in the main thread
            errors.append(e)

    threads = [threading.Thread(target=run) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(120)
        assert not t.is_alive()
    assert not errors and got == [want] * 40


def test_failures_come_from_the_lowest_place():
    torch.set_num_threads(3)
    lib.ag_test_grain(1 << 30)
    x = tensor(np.zeros((50, 4)))
    idx = np.zeros((50, 6), np.int64)
    idx[[7, 8, 31, 49], [3, 0, 1, 5]] = [9, -5, 70, 4]
    for _ in range(20):
        with pytest.raises(IndexError, match="Found an invalid max index: 9 "):
            call("pool_gather", [x, tensor(idx)], [1, 4])


def test_nothing_is_left():
    torch.set_num_threads(3)
    before = torch.counters()
    work()
    step = torch.freeze(lambda x: (x.sin() * x.exp() + x.cos()).sum())
    x = torch.linspace(-1, 1, 300_000)
    for _ in range(3):
        step(x)
    made = torch.counters().allocations
    for _ in range(20):
        step(x)
    assert torch.counters().allocations == made
    del step, x
    after = torch.counters()
    assert (after.tensors, after.storages, after.nodes) == (before.tensors, before.storages, before.nodes)
