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
