"""Nothing leaks, nothing recurses, nothing is lost when memory runs out."""
import copy
import gc
import os
import subprocess
import sys
import threading

import numpy as np
import pytest

import autograd_c as ag
from autograd_c._ffi import check, ffi, lib
from autograd_c._tensor import _wrap
from table import ROWS, bits, call, call_inplace, grad, same_bits, tensor, values

SMALL_STACK = 256 * 1024


def alive():
    c = ag.counters()
    return c.tensors, c.nodes, c.storages


def resident():
    """Bytes of memory the process holds."""
    with open("/proc/self/statm") as f:
        return int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


needs_proc = pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="resident memory is read from /proc")


@pytest.fixture
def no_collector():
    """Python's cycle collector is off: what goes away does so by reference counts alone."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


# ---- depth and width ------------------------------------------------------------------------------------------


def in_small_thread(work):
    """Runs work in a thread with a stack of 256 kB; failures come back here."""
    failure = []

    def run():
        try:
            work()
        except BaseException as e:
            failure.append(e)

    before = threading.stack_size(SMALL_STACK)
    try:
        t = threading.Thread(target=run)
        t.start()
        t.join()
    finally:
        threading.stack_size(before)
    if failure:
        raise failure.pop()


LONG = 1_000_000


def chain(x, n, ops):
    """n ops one after the other on x, without the cost of Python's names."""
    call1, release, h = lib.ag_call1, lib.ag_tensor_release, x._h
    lib.ag_tensor_retain(h)
    for k in range(n // len(ops)):
        for op in ops:
            new = call1(op, h, 0, 0)
            release(h)
            h = new
    return _wrap(h)


def test_a_million_nodes_in_a_small_stack(no_collector):
    """Built, differentiated and freed; saved values and none; freed with backward and without."""

    def work():
        before = alive()
        x = tensor(np.array(0.5), True)
        y = chain(x, LONG, [ROWS["neg"].op, ROWS["sin"].op])
        assert ag.counters().nodes - before[1] == LONG + 1
        g, = grad([y], [x], [tensor(np.array(1.0))])
        assert 0 < abs(float(values(g))) < 1
        del y, g
        y = chain(x, LONG, [ROWS["neg"].op])
        del y, x  # never run backward: freed as it stands
        assert alive() == before

    in_small_thread(work)


def test_a_deep_graph_of_a_graph(no_collector):
    """create_graph over a long chain: the gradient's own graph is as deep."""

    def work():
        before = alive()
        x = tensor(np.array(0.3), True)
        y = chain(x, 50_000, [ROWS["sin"].op])
        g, = grad([y], [x], [tensor(np.array(1.0))], True)
        h, = grad([g], [x], [tensor(np.array(1.0))])
        assert np.isfinite(values(h))
        del x, y, g, h
        assert alive() == before

    in_small_thread(work)


def test_a_wide_graph(no_collector):
    """One leaf used a hundred thousand times; and a hundred thousand leaves in one node."""
    before = alive()
    n = 100_000
    x, one = tensor(np.array(2.0), True), tensor(np.array(1.0))
    parts = [call("mul", [x, one]) for _ in range(n)]
    row = call("cat", [call("view", [p], [1]) for p in parts], [0])
    g, = grad([row], [x], [tensor(np.ones(n))])
    assert float(values(g)) == n
    leaves = [tensor(np.array([float(k)]), True) for k in range(n)]
    gs = grad([call("cat", leaves, [0])], leaves, [tensor(np.arange(float(n)))])
    assert all(float(values(gs[k])[0]) == k for k in range(0, n, 997))
    roots = [call("mul", [x, one]) for _ in range(1000)]
    g, = grad(roots, [x], [one] * 1000)
    assert float(values(g)) == 1000
    del x, one, parts, row, g, leaves, gs, roots
    assert alive() == before


def test_a_ladder_is_walked_once():
    """y = y * y thirty times: each node is visited once, not once for each path."""
    x = tensor(np.array(1.0), True)
    y = x
    for _ in range(60):
        y = call("add", [y, y])
    g, = grad([y], [x], [tensor(np.array(1.0))])
    assert float(values(g)) == 2.0**60


# ---- loops ------------------------------------------------------------------------------------------------------


def mlp(seed=0, dtype=ag.float32):
    ag.manual_seed(seed)
    ps = [(ag.randn(4, 8, dtype=dtype) * 0.5).requires_grad_(), ag.zeros(8, dtype=dtype, requires_grad=True),
          (ag.randn(8, 1, dtype=dtype) * 0.5).requires_grad_(), ag.zeros(1, dtype=dtype, requires_grad=True)]
    x, y = ag.randn(16, 4, dtype=dtype), ag.randn(16, 1, dtype=dtype)

    def loss():
        h = (x @ ps[0] + ps[1]).tanh()
        return ((h @ ps[2] + ps[3] - y) ** 2).mean()

    return ps, loss


OPTIMIZERS = {"SGD": lambda ps: ag.optim.SGD(ps, lr=0.05, momentum=0.9), "Adam": lambda ps: ag.optim.Adam(ps, lr=0.01)}


@needs_proc
@pytest.mark.parametrize("kind", OPTIMIZERS)
def test_ten_thousand_training_steps(kind, no_collector):
    """Live objects and resident memory are the same after 10,000 steps as after the first few."""
    ps, loss = mlp()
    optimizer = OPTIMIZERS[kind](ps)

    def steps(n):
        for _ in range(n):
            optimizer.zero_grad()
            value = loss()
            value.backward()
            optimizer.step()

    steps(200)
    before, memory, allocations = alive(), resident(), ag.counters().allocations
    steps(10_000)
    assert alive() == before
    assert resident() - memory < 2 << 20
    assert ag.counters().allocations - allocations < 100  # freed blocks are used again


def test_create_graph_in_a_loop(no_collector):
    """The known leak elsewhere: gradients that hold the graph that holds the gradients."""
    ps, loss = mlp()
    for p in ps:
        p.grad = None
    before = alive()
    for _ in range(50):
        loss().backward(create_graph=True)
        penalty = sum((p.grad * p.grad).sum() for p in ps)
        penalty.backward()
        for p in ps:
            p.grad = None
        del penalty
    del p
    leaves = 4  # the AccumulateGrad nodes made with the first graph stay with their leaves
    after = alive()
    assert after[0] == before[0] and after[2] == before[2] and after[1] <= before[1] + leaves
    again = alive()
    loss().backward(create_graph=True)
    for p in ps:
        p.grad = None
    del p
    assert alive() == again


def test_everything_goes_with_the_last_name(no_collector):
    """Graphs, gradients that hold graphs, views and their bases: all gone with their names, whatever the order."""
    before = alive()
    for order in (0, 1, 2):
        x = ag.randn(3, 3, requires_grad=True)
        y = (x * x).sum()
        y.backward(create_graph=True)
        view = x.detach()[1:].t()
        z = x.clone()
        z[0] = y
        w = z[1].exp_()
        names = [x, y, view, z, w]
        del x, y, view, z, w
        for k in range(5):
            names.pop(0 if order == 0 else -1 if order == 1 else len(names) // 2)
    del names
    assert alive() == before


def test_a_graph_outlives_its_leaves(no_collector):
    before = alive()
    x = tensor(np.ones(3), True)
    y = call("mul", [x, x])
    del x
    seed = tensor(np.ones(3))
    check(lib.ag_backward(1, [y._h], [seed._h], 0, 0, 0, ffi.NULL))
    del y, seed
    assert alive() == before


def test_numpy_views_keep_the_memory(no_collector):
    before = alive()
    a = ag.arange(5).numpy()
    assert a.tolist() == [0, 1, 2, 3, 4]
    assert ag.counters().storages == before[2] + 1 and ag.counters().tensors == before[0]
    b = np.arange(3.0)
    count = sys.getrefcount(b)
    t = ag.from_numpy(b)
    assert sys.getrefcount(b) == count + 1
    del a, t
    assert sys.getrefcount(b) == count and alive() == before


def test_threads(no_collector):
    """Graphs built, run and freed in several threads at once, and one graph freed in another thread than built it."""
    before = alive()
    shared = tensor(np.linspace(0, 1, 100), True)
    handed = []

    def work(seed):
        for k in range(200):
            y = call("sin", [call("mul", [shared, tensor(np.full(100, float(seed)))])])
            g, = grad([y], [shared], [tensor(np.ones(100))])
            assert np.allclose(values(g), seed * np.cos(seed * np.linspace(0, 1, 100)))
        handed.append(y)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(1, 5)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(handed) == 4
    handed.clear()
    del shared, threads, t
    assert alive() == before


# ---- memory that cannot be had -------------------------------------------------------------------------------------


def failing_from(k, work):
    """Whether work raised MemoryError with the k-th allocation failing; any other exception passes through."""
    lib.ag_test_fail_alloc(k)
    try:
        work()
        return False
    except MemoryError:
        return True
    finally:
        lib.ag_test_fail_alloc(0)


def every_allocation(work, prepare, look, limit=3000):
    """Lets allocation 1, 2, ... of work fail until none is left; look(state, failed) judges each time.

    Work may get over a failure by trying another way: so the end is where nothing fails for long.  Gives how often work failed.
    """
    failures, last = 0, 0
    for k in range(1, limit):
        state = prepare()
        failed = failing_from(k, lambda: work(state))
        look(state, failed)
        del state
        if failed:
            failures, last = failures + 1, k
        elif k - last > 40:
            return failures
    raise AssertionError("allocations without end")


def old_or_new(now, old, new):
    return np.array_equal(bits(now), bits(old)) or np.array_equal(bits(now), bits(new))


@pytest.mark.parametrize("kind", OPTIMIZERS)
def test_training_step_without_memory(kind):
    """Whatever allocation fails: MemoryError, every parameter whole (as before or as after), and the next step works."""
    ps, loss = mlp()
    start = [values(p).copy() for p in ps]

    def fresh():
        for p, v in zip(ps, start):
            p.grad = None
            check(lib.ag_tensor_write(p._h, ffi.from_buffer(v)))
        return OPTIMIZERS[kind](ps)

    def step(optimizer):
        optimizer.zero_grad()
        loss().backward()
        optimizer.step()

    step(fresh())
    after = [values(p).copy() for p in ps]
    fresh()
    gc.collect()
    before = alive()

    def look(optimizer, failed):
        now = [values(p) for p in ps]
        for p, old, new in zip(now, start, after):
            assert old_or_new(p, old, new) if failed else np.array_equal(p, new)
        if failed and all(np.array_equal(p, old) for p, old in zip(now, start)):
            step(optimizer)  # the same optimizer, whose state may be half made
            for p, new in zip(ps, after):
                same_bits(p, new, "a step after the failure")
        fresh()

    assert every_allocation(step, fresh, look) > 20
    gc.collect()  # frames of the exceptions
    assert alive() == before


def test_frozen_step_without_memory():
    """Tracing, planning and replay, each with every allocation failing."""
    ps, loss = mlp()
    start = [values(p).copy() for p in ps]

    def reset():
        for p, v in zip(ps, start):
            p.grad = None
            check(lib.ag_tensor_write(p._h, ffi.from_buffer(v)))

    def make():
        optimizer = ag.optim.SGD(ps, lr=0.05)

        def step():
            value = loss()
            value.backward()
            optimizer.step()
            optimizer.zero_grad()
            return value

        return ag.freeze(step)

    def run(step):
        reset()
        return [values(step()).copy() for _ in range(3)]

    want = run(make())
    after = [values(p).copy() for p in ps]
    reset()
    step = make()
    step()
    one = [values(p).copy() for p in ps]
    del step
    reset()
    gc.collect()
    before = alive()

    def look(step, failed):
        for p, old, new in zip(ps, start, one):
            assert old_or_new(values(p), old, new)
        for p in ps:
            p.grad = None
        got = run(step)
        for a, b in zip(got, want):
            same_bits(a, b, "loss after a failure")
        for p, v in zip(ps, after):
            same_bits(p, v, "parameters after a failure")
        reset()

    assert every_allocation(lambda step: step(), lambda: reset() or make(), look) > 50
    gc.collect()
    assert alive() == before

    warm = make()
    warm()
    warm()  # from here on, a replay
    reset()

    def look_at_replay(_, failed):
        for p, old, new in zip(ps, start, one):
            assert old_or_new(values(p), old, new)
        reset()

    every_allocation(lambda _: warm(), reset, look_at_replay)


def test_double_backward_without_memory():
    """create_graph, hooks, views, in-place writes: the counters come back whatever fails."""
    x0 = np.linspace(0.1, 1, 6).reshape(2, 3)

    def work(x):
        y = call("clone", [x])
        call_inplace("exp", [call("select", [y], [0, 1])])
        z = call("softmax", [call("mm", [y, call("t", [y])])], [1])
        g, = grad([z], [x], [tensor(np.ones((2, 2)))], True)
        grad([call("mul", [g, g])], [x], [tensor(np.ones((2, 3)))])

    work(tensor(x0, True))
    gc.collect()
    before = alive()

    def look(x, failed):
        same_bits(x, x0)

    assert every_allocation(work, lambda: tensor(x0, True), look) > 60
    gc.collect()
    assert alive() == before


@pytest.mark.parametrize("name", sorted(n for n in ROWS if ROWS[n].kind in ("function", "view")))
def test_rows_without_memory(name):
    """Each named function with each of its allocations failing, on operands that need copies: forward and backward."""
    from table import as_list, is_float, over, wants_grad
    from table_fn import S, T
    import table_fn_nn  # noqa: F401

    samples = [s for s in S.get(name, ()) if all(a.size < 200 for a in s.inputs)][:2]
    row = ROWS[name]

    def operands(s):
        rough = [a if not T[name].layout else np.asfortranarray(a) if a.ndim > 1 else np.repeat(a, 2)[::2] if a.ndim else a for a in s.inputs]
        wanted = row.differentiable and not row.mutates
        return [over(a.copy("K"), wanted and a.dtype == np.float64 and (s.diff is None or k in s.diff)) for k, a in enumerate(rough)]

    for s in samples:
        def work(ts, s=s):
            if row.mutates:
                call_inplace(name, ts, s.ints, s.floats)
                return
            outs = [o for o in as_list(call(name, ts, s.ints, s.floats)) if is_float(o) and wants_grad(o)]
            wanted = [t for t in ts if wants_grad(t)]
            if outs and wanted:
                grad(outs, wanted, [tensor(np.ones(values(o).shape)) for o in outs], True)

        work(operands(s))
        gc.collect()
        before = alive()
        every_allocation(work, lambda s=s: operands(s), lambda ts, failed: None)
        gc.collect()
        assert alive() == before


def test_the_message_names_sizes():
    lib.ag_test_fail_alloc(1)
    with pytest.raises(MemoryError, match=r"out of memory: could not get \d+ bytes"):
        try:
            call("clone", [tensor(np.ones(1000))])
        finally:
            lib.ag_test_fail_alloc(0)
    with pytest.raises((MemoryError, RuntimeError)):
        ag.zeros(2**40, 2**20)
    with pytest.raises((MemoryError, RuntimeError)):
        ag.zeros(2**62, 2)


def test_exit_with_everything_alive():
    """A process may end with graphs, frozen functions and running threads about."""
    code = """
import threading, autograd_c as ag
x = ag.ones(3, requires_grad=True)
y = (x * x).sum()
y.backward(create_graph=True)
f = ag.freeze(lambda a: (a * x).sum())
f(ag.ones(3)); f(ag.ones(3))
keep = [x, y, f, y.grad_fn, x.detach().numpy()]
threading.Thread(target=lambda: [x * 2 for _ in range(2000)], daemon=True).start()
"""
    r = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert r.returncode == 0 and r.stderr == "", r.stderr


def test_no_tensor_without_a_handle():
    """What would be a tensor of nothing is refused where it would be made."""
    base = ag.Tensor.__base__
    for make in (base, lambda: base.__new__(ag.Tensor), lambda: base.__new__(ag.Tensor, None), lambda: object.__new__(ag.Tensor),
                 lambda: base.__new__(ag.Tensor, ag._ffi.NULL), lambda: base.__new__(ag.Tensor, ag.ones(1)._h, 2), lambda: base.__new__(ag.Tensor, handle=3)):
        with pytest.raises(TypeError):
            make()
    x = ag.ones(2)
    for wrong in (ag._ffi.NULL, None, 3):
        with pytest.raises((ValueError, TypeError)):
            x._h = wrong
    with pytest.raises(AttributeError):
        del x._h
    assert x.tolist() == [1, 1] and ag.Tensor.__new__(ag.Tensor).shape == (0,)


def test_classes_of_tensors():
    class Plain(ag.Tensor):
        pass

    class Named(ag.Tensor):
        def __new__(cls, values, name):
            t = ag.Tensor.__new__(cls, values)
            t.name = name
            return t

        def __init__(self, values, name):
            pass

    a, b = Plain([1.0, 2.0]), Named([3.0], "b")
    assert type(a) is Plain and a.tolist() == [1, 2] and type(b) is Named and b.name == "b" and b.tolist() == [3]
    for copied in (copy.copy(b), copy.deepcopy(b)):
        assert type(copied) is Named and copied.name == "b" and copied.tolist() == [3]
