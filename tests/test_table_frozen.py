"""Every row of the op table frozen: replay gives the bits of the eager run, for values, gradients and their gradients.

A row is traced on one set of values and replayed on another, so that nothing of the trace can have been kept by mistake.
"""
import itertools

import numpy as np
import pytest

from autograd_c._ffi import check, ffi, lib, made
from autograd_c._tensor import _wrap
from table import ELEMENTWISE, FLOATS, FUNCTIONS, ROWS, as_list, call, call_inplace, grad, is_float, same_bits, tensor, values, wants_grad
from table_ew import EW, TYPES, differentiable_operands, operands
from table_fn import S
import table_fn_nn  # noqa: F401  (more rows)

SAMPLES = [s for name in FUNCTIONS for s in S.get(name, ())]


def freeze(fn, inputs, flags=0):
    """The plan of fn, which takes and gives lists of tensors; and what the traced call gave, without its history."""
    hs = [t._h for t in inputs]
    tr = made(lib.ag_trace_begin(len(hs), hs))
    try:
        outs = [_wrap(lib.ag_tensor_detach(o._h)) for o in fn(inputs)]
    except BaseException:
        lib.ag_trace_abort(tr)
        raise
    return made(lib.ag_trace_end(tr, len(outs), [t._h for t in outs], flags)), outs


def replay(plan, inputs):
    outs = ffi.new("ag_tensor *[]", max(1, lib.ag_plan_n_outputs(plan)))
    check(lib.ag_plan_run(plan, len(inputs), [t._h for t in inputs], outs))
    return [_wrap(outs[k]) for k in range(lib.ag_plan_n_outputs(plan))]


def derivatives(run, n_diff, second=True):
    """A function of operands, of which the first n_diff want gradients, and of seeds: results and gradients of orders 1 and 2."""

    def fn(ts):
        wanted, seeds = ts[:n_diff], itertools.cycle(ts[-len(SEEDS):])
        roots = as_list(run(ts))
        outs = list(roots)
        live = [o for o in roots if is_float(o) and wants_grad(o)]
        if not live or not wanted:
            return outs
        gs = grad(live, wanted, [call("expand", [next(seeds)], values_shape(o)) for o in live], True)
        outs += [g for g in gs if g is not None]
        again = [g for g in gs if g is not None and wants_grad(g)]
        if again and second:
            hs = grad(again, wanted, [call("expand", [next(seeds)], values_shape(g)) for g in again])
            outs += [h for h in hs if h is not None]
        return outs

    return fn


def values_shape(t):
    return ffi.unpack(lib.ag_tensor_shape(t._h), lib.ag_tensor_ndim(t._h)) if lib.ag_tensor_ndim(t._h) else []


def compare(fn, make, what, passes=0):
    """make(which) gives the operands: 0 to trace, 1 and 2 to replay."""
    plan, first = freeze(fn, make(0), passes)
    try:
        for out, want in zip(first, fn(make(0))):
            same_bits(out, want, f"{what}: the traced call")
        for which in (1, 2, 1):
            want, got = fn(make(which)), replay(plan, make(which))
            assert len(want) == len(got)
            for k, (a, b) in enumerate(zip(got, want)):
                same_bits(a, b, f"{what}: result {k} of replay with values {which}")
    finally:
        lib.ag_plan_release(plan)


SEEDS = np.array([1.25, 0.75, -0.5, 1.5, 0.3, 2.0])


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_elementwise_rows(name):
    row, entry = ROWS[name], EW[name]
    floats = () if entry.types == "integer" else FLOATS
    for dtype in floats + TYPES[entry.types][:2]:
        for params in entry.params:
            diff = differentiable_operands(row) if row.differentiable and dtype in FLOATS else []
            order = diff + [k for k in range(row.n_in) if k not in diff]

            def make(which):
                xs = operands(row, np.random.default_rng(which), 613, dtype)
                ts = [tensor(xs[k], k in diff) for k in order]
                return ts + ([tensor(np.asarray(s * (1 + which), dtype)) for s in SEEDS] if diff else [])

            def run(ts, params=params):
                return call(name, [ts[order.index(k)] for k in range(row.n_in)], floats=params)

            compare(derivatives(run, len(diff)), make, f"{name}{params} in {np.dtype(dtype)}")


@pytest.mark.parametrize("sample", SAMPLES, ids=[f"{s.row}{k}" for k, s in enumerate(SAMPLES)])
def test_function_rows(sample):
    row = ROWS[sample.row]
    if sample.row in ("nonzero", "bincount"):
        with pytest.raises(RuntimeError, match="frozen"):
            freeze(lambda ts: [call(sample.row, ts, sample.ints)], [tensor(a) for a in sample.inputs])
        return
    diff = [] if not row.differentiable else sample.diff if sample.diff is not None else [k for k, a in enumerate(sample.inputs) if a.dtype == np.float64]
    order = list(diff) + [k for k in range(len(sample.inputs)) if k not in diff]
    for dtype in FLOATS:

        def make(which):
            arrays = [(a * (1 - 0.125 * which)).astype(dtype) if a.dtype == np.float64 else a for a in sample.inputs]
            return [tensor(arrays[k], k in diff) for k in order] + ([tensor(np.asarray(s, dtype)) for s in SEEDS] if diff else [])

        def run(ts):
            xs = [ts[order.index(k)] for k in range(len(sample.inputs))]
            if not row.mutates:
                return call(sample.row, xs, sample.ints, sample.floats)
            xs[0] = call("clone", [xs[0]])
            call_inplace(sample.row, xs, sample.ints, sample.floats)
            return tuple(xs)  # momenta, step counts, generators as the call leaves them

        compare(derivatives(run, len(diff), sample.second), make, f"{sample} in {np.dtype(dtype)}")


@pytest.mark.parametrize("name", [n for n in ELEMENTWISE if ROWS[n].in_place == 1 and EW[n].types != "integer" and ROWS[n].kind in ("unary", "binary", "ternary")])
def test_in_place_rows(name):
    """A row in place on part of a value, inside a plan."""
    row, params = ROWS[name], EW[name].params[0]

    def make(which):
        xs = operands(row, np.random.default_rng(which + 10), 90, np.float64)
        return [tensor(np.stack([xs[0].reshape(9, 10), xs[0].reshape(9, 10)]), row.differentiable)] + [tensor(x.reshape(9, 10)) for x in xs[1:]] + [tensor(np.array(1.5))]

    def fn(ts):
        y = call("mul", [ts[0], ts[-1]])
        call_inplace(name, [call("slice", [call("select", [y], [0, 1])], [1, 1, 10, 2])] + [call("slice", [t], [1, 1, 10, 2]) for t in ts[1:-1]], floats=params)
        outs = [y]
        if wants_grad(y):
            outs += grad([y], [ts[0]], [call("expand", [ts[-1]], [2, 9, 10])])
        return outs

    compare(fn, make, name)
