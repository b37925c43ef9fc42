"""What every test is held to: it leaves no tensor, node or storage behind.

Tests run against the installed package (or, while working on it, PYTHONPATH=python with a built _core).
"""
import gc

import pytest

import autograd_c


def pytest_configure(config):
    config.addinivalue_line("markers", "keeps_alive(reason): the test leaves tensors alive on purpose, the check of live objects is left out")


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    report = (yield).get_result()
    if call.when == "call":
        item.passed_call = report.passed


def alive():
    c = autograd_c.counters()
    return {"tensors": c.tensors, "nodes": c.nodes, "storages": c.storages}


@pytest.fixture(autouse=True)
def nothing_stays_alive(request):
    """Live tensors, nodes and storages are no more after the test than before it.

    What only a cycle of Python's keeps (an exception's frames, hypothesis) is collected first; that the core makes no
    cycles of its own is tested in test_lifetime.py.  Module-level tensors are made before the first test and stay.
    """
    mark = request.node.get_closest_marker("keeps_alive")
    if mark:
        assert mark.args or mark.kwargs, "keeps_alive wants a reason"
        yield
        return
    autograd_c.default_generator.initial_seed()  # made at its first use
    before = alive()
    yield
    if not getattr(request.node, "passed_call", False):
        return  # the traceback holds on to what the test made
    after = alive()
    if any(after[k] > before[k] for k in before):
        gc.collect()
        after = alive()
    more = {k: after[k] - before[k] for k in before if after[k] > before[k]}
    assert not more, f"left alive: {more}"
