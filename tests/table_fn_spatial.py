"""Samples of the rows about grids and alignments; see table_fn.py.  References go point by point and path by path."""
import itertools

import numpy as np

from table_fn import rnd, row

# ---- sampling at the points of a grid ------------------------------------------------------------------------

A = -0.75
# Keys' kernel as polynomials in the distance, nearer and farther than one place
NEAR, FAR = np.poly1d([A + 2, -(A + 3), 0, 1]), np.poly1d([A, -5 * A, 8 * A, -4 * A])


def _place(u, size, padding, align):
    """Where coordinate u lies among the places 0 .. size - 1, padded, and the slope of that."""
    p, m = ((u + 1) / 2 * (size - 1), (size - 1) / 2) if align else (((u + 1) * size - 1) / 2, size / 2)
    return _padded(p, m, size, padding, align)


def _padded(p, m, size, padding, align):
    if padding == 2:
        low, high = (0.0, size - 1.0) if align else (-0.5, size - 0.5)
        if high <= low:
            return 0.0, 0.0
        q = (p - low) % (2 * (high - low))
        p, m = (low + q, m) if q <= high - low else (high - (q - (high - low)), -m)
    if padding:
        m = m if 0 < p < size - 1 else 0.0
        p = min(max(p, 0.0), size - 1.0)
    return p, m


def _taps(u, size, mode, padding, align, order):
    """Places in one dim (None: outside) and the order-th derivatives of their weights in u."""
    inside = lambda k: int(k) if 0 <= k < size else None  # noqa: E731
    if mode == 2:
        p, m = _place(u, size, 0, align)
        first = np.floor(p)
        for k in range(-1, 3):
            d = p - (first + k)
            f = (NEAR if abs(d) <= 1 else FAR).deriv(order)
            place, _ = _padded(first + k, 1.0, size, padding, align)
            yield inside(place), f(abs(d)) * np.sign(d) ** order * m**order
        return
    p, m = _place(u, size, padding, align)
    if mode == 1:
        yield inside(np.round(p)), float(order == 0)
        return
    t = p - np.floor(p)
    for k, w in ((0, np.poly1d([-1, 1])), (1, np.poly1d([1, 0]))):
        yield inside(np.floor(p) + k), w.deriv(order)(t) * m**order


def _points(x, grid, ints, up=None):
    """(sample, point, place in x, weight) of all taps; up: one order more in that coordinate."""
    nd = x.ndim - 2
    orders = [o + (j == up) for j, o in enumerate(ints[4:4 + nd])]
    for n in range(x.shape[0]):
        for at in np.ndindex(*grid.shape[1:-1]):
            taps = [list(_taps(grid[(n, *at, j)], x.shape[-1 - j], ints[0], ints[1], ints[2], orders[j])) for j in range(nd)]
            for each in itertools.product(*reversed(taps)):
                if all(k is not None for k, _ in each):
                    yield n, at, tuple(k for k, _ in each), np.prod([w for _, w in each])


def _grid_sample(arrays, ints, floats):
    x, grid = arrays
    y = np.zeros(x.shape[:2] + grid.shape[1:-1])
    for n, at, k, w in _points(x, grid, ints):
        y[(n, slice(None), *at)] += w * x[(n, slice(None), *k)]
    return y


def _grid_sample_backward(arrays, ints, floats):
    g, x, grid = arrays
    dx, dgrid = np.zeros(x.shape if ints[3] & 1 else 0), np.zeros(grid.shape if ints[3] & 2 else 0)
    if ints[3] & 1:
        for n, at, k, w in _points(x, grid, ints):
            dx[(n, slice(None), *k)] += w * g[(n, slice(None), *at)]
    if ints[3] & 2:
        for j in range(x.ndim - 2):
            for n, at, k, w in _points(x, grid, ints, j):
                dgrid[(n, *at, j)] += w * (g[(n, slice(None), *at)] * x[(n, slice(None), *k)]).sum()
    return dx, dgrid


def _grid(n, points, spatial, align, seed=0):
    """Points in and around a plane, none near a kink: thirds and quarters between two places."""
    rng = np.random.default_rng(seed)
    axes = []
    for size in reversed(spatial):
        p = rng.integers(-2, size + 2, (n, *points)) + rng.choice([0.22, 0.29, 0.37, 0.68, 0.74], (n, *points))
        axes.append(2 * p / max(size - 1, 1) - 1 if align else (2 * p + 1) / size - 1)
    return np.stack(axes, -1)


SHAPES = [((1, 2, 3, 4), (2, 3)), ((2, 1, 2, 3, 3), (1, 2, 2))]
GRIDS = [(x, points, mode, padding, align) for x, points in SHAPES for mode in (0, 1, 2) for padding in (0, 1, 2) for align in (0, 1)
         if len(x) == 4 or mode < 2]


def _forward(x, points, mode, padding, align, orders=None, **about):
    nd = len(x) - 2
    return dict(inputs=[rnd(*x), _grid(x[0], points, x[2:], align)], ints=[mode, padding, align, 0, *(orders or [0] * nd)], **about)


def _backward(x, points, mode, padding, align, wanted, orders=None, **about):
    nd = len(x) - 2
    return dict(inputs=[rnd(x[0], x[1], *points, seed=1), rnd(*x), _grid(x[0], points, x[2:], align)],
                ints=[mode, padding, align, wanted, *(orders or [0] * nd)], **about)


MORE = [((2, 3, 5, 6), (9, 8), mode, padding, 0) for mode in (0, 1, 2) for padding in (0, 2)]  # more points than a block
row("grid_sample", _grid_sample,
    [_forward(*g) for g in GRIDS] + [_forward(*g, diff=[]) for g in MORE] +
    [_forward((1, 1, 3, 4), (2, 2), 2, 0, 0, [o, q]) for o, q in ((1, 0), (0, 2), (1, 1), (3, 0), (4, 1))] +
    [_forward((1, 1, 3, 4), (2, 2), 0, 0, 0, [1, 1]), _forward((1, 1, 2, 3, 3), (1, 2, 2), 0, 2, 0, [0, 1, 1]),
     _forward((1, 2, 1, 1), (3, 2), 0, 2, 1), _forward((0, 2, 3, 3), (2, 2), 0, 0, 0), _forward((2, 2, 3, 3), (0, 2), 0, 0, 0),
     _forward((1, 0, 3, 3), (2, 2), 0, 0, 0)], atol=20.0)
row("grid_sample_backward", _grid_sample_backward,
    [_backward(*g, 3) for g in GRIDS] + [_backward(*g, 3, diff=[]) for g in MORE] +
    [_backward((1, 2, 3, 4), (2, 3), mode, 0, 0, wanted) for mode in (0, 2) for wanted in (1, 2)] +
    [_backward((1, 1, 3, 4), (2, 2), 2, 1, 1, 3, [1, 0]), _backward((1, 1, 3, 4), (2, 2), 0, 0, 0, 3, [0, 1]),
     _backward((0, 2, 3, 3), (2, 2), 0, 0, 0, 3), _backward((2, 2, 3, 3), (0, 2), 0, 0, 0, 3)], atol=20.0)

# ---- fractional max pooling ------------------------------------------------------------------------------------


def _fractional(arrays, ints, floats):
    x, samples = arrays
    nd, lead = ints[0], x.shape[:x.ndim - ints[0]]
    kernel, out, spatial = ints[1:1 + nd], ints[1 + nd:], x.shape[x.ndim - ints[0]:]
    y, at = np.zeros(lead + tuple(out), x.dtype), np.zeros(lead + tuple(out), np.int64)
    u = samples.reshape(lead + (nd,)).astype(np.float64)
    if nd == 2:
        u = u[..., ::-1]
    for where in itertools.product(np.ndindex(*lead), np.ndindex(*out)):
        first = []
        for i, n, k, m, v in zip(where[1], spatial, kernel, out, u[where[0]]):
            alpha = (n - k) / (m - 1) if m > 1 else 0.0
            first.append(n - k if i == m - 1 else int((i + v) * alpha) - int(v * alpha))
        places = [tuple(a + b for a, b in zip(first, d)) for d in np.ndindex(*kernel)]
        best = max(places, key=lambda p: x[where[0]][p])
        y[where[0] + where[1]], at[where[0] + where[1]] = x[where[0]][best], np.ravel_multi_index(best, spatial)
    return y, at


row("fractional_max_pool", _fractional,
    [dict(inputs=[rnd(2, 3, 7, 6), rnd(2, 3, 2, lo=0.0, hi=1.0)], ints=[2, 2, 3, 4, 3], diff=[0]), dict(inputs=[rnd(2, 5, 5), rnd(1, 2, 2, lo=0.0, hi=1.0)], ints=[2, 2, 2, 1, 4], diff=[0]),
     dict(inputs=[rnd(1, 2, 4, 5, 6), rnd(1, 2, 3, lo=0.0, hi=1.0)], ints=[3, 2, 1, 2, 3, 4, 2], diff=[0]), dict(inputs=[rnd(0, 2, 4, 4), rnd(0, 2, 2)], ints=[2, 2, 2, 2, 2], diff=[0])], exact=True)

# ---- connectionist temporal classification ---------------------------------------------------------------------


def _samples(lp, targets, times, labels):
    """(sample, its steps, its labels)"""
    start = 0
    for n in range(lp.shape[1]):
        at = targets[n, :labels[n]] if targets.ndim == 2 else targets[start:start + labels[n]]
        start += labels[n]
        yield n, int(times[n]), [int(c) for c in at]


def _paths(lp, n, times, labels, blank):
    """All paths that spell the labels, with their probabilities: repetitions merged, then blanks left out."""
    for path in itertools.product(range(lp.shape[2]), repeat=times):
        if [c for k, c in enumerate(path) if c != blank and (k == 0 or path[k - 1] != c)] == labels:
            yield path, np.exp(sum(lp[t, n, c] for t, c in enumerate(path)))


def _ctc_loss(arrays, ints, floats):
    loss = np.zeros(arrays[0].shape[1])
    for n, times, labels in _samples(*arrays):
        total = sum(p for _, p in _paths(arrays[0], n, times, labels, ints[0]))
        loss[n] = -np.log(total) if total else 0.0 if ints[1] else np.inf
    return loss


def _ctc_derivatives(arrays, ints, u=None):
    """e^lp less the share of the paths through each place; with u the derivative of that along u."""
    lp = arrays[0]
    out = np.zeros(lp.shape)
    for n, times, labels in _samples(*arrays):
        paths = list(_paths(lp, n, times, labels, ints[0]))
        total = sum(p for _, p in paths)
        if not total:
            out[:times, n] = 0.0 if ints[1] else np.nan
            continue
        moved = [1.0 if u is None else sum(u[t, n, c] for t, c in enumerate(path)) for path, _ in paths]
        mean = 0.0 if u is None else sum(m * p for m, (_, p) in zip(moved, paths)) / total
        out[:times, n] = np.exp(lp[:times, n]) * (1.0 if u is None else u[:times, n])
        for m, (path, p) in zip(moved, paths):
            for t, c in enumerate(path):
                out[t, n, c] -= p / total * (m - mean)
    return out


def _ctc_loss_backward(arrays, ints, floats):
    return arrays[0][None, :, None] * _ctc_derivatives(arrays[1:], ints)


def _ctc_loss_hessian(arrays, ints, floats):
    return _ctc_derivatives(arrays[1:], ints, arrays[0])


def _logs(*shape, seed=0):
    x = rnd(*shape, seed=seed)
    return x - np.log(np.exp(x).sum(-1, keepdims=True))


def _whole(*values):
    return np.array(values, np.int64)


PADDED = _whole([1, 2, 0], [2, 2, 1])
CTC = [  # log-probabilities, labels, steps, numbers of labels, ints
    (_logs(4, 2, 3), PADDED, _whole(4, 4), _whole(2, 2), [0, 0]), (_logs(4, 2, 3), _whole(1, 2, 2, 2), _whole(4, 3), _whole(2, 2), [0, 0]),
    (_logs(3, 2, 3), PADDED, _whole(3, 2), _whole(0, 1), [0, 1]), (_logs(4, 1, 4), _whole([3, 0]), _whole(4), _whole(2), [2, 0]),
    (_logs(5, 1, 2), _whole(1, 1), _whole(5), _whole(2), [0, 0]), (_logs(4, 2, 3), PADDED, _whole(0, 3), _whole(0, 2), [0, 1]),
    (rnd(4, 2, 3), PADDED, _whole(4, 4), _whole(1, 2), [0, 0])]  # the last: numbers that are no log-probabilities
NO_WAY = (_logs(2, 2, 3), PADDED, _whole(2, 1), _whole(2, 2), [0, 1])  # the second: two labels in one step
row("ctc_loss", _ctc_loss,
    # what is differentiated behind log_softmax, where the gradient is that of the loss, is in test_spatial.py
    [dict(inputs=list(c[:4]), ints=c[4], diff=[]) for c in CTC] + [dict(inputs=list(NO_WAY[:4]), ints=[0, zero], diff=[]) for zero in (0, 1)],
    atol=5.0)
row("ctc_loss_backward", _ctc_loss_backward,
    [dict(inputs=[rnd(c[0].shape[1]), *c[:4]], ints=c[4], diff=[0, 1], second=False) for c in CTC] +
    [dict(inputs=[rnd(2), *NO_WAY[:4]], ints=[0, zero], diff=[]) for zero in (0, 1)], atol=20.0)
row("ctc_loss_hessian", _ctc_loss_hessian,
    [dict(inputs=[rnd(*c[0].shape, seed=3), *c[:4]], ints=c[4], diff=[0]) for c in CTC] +
    [dict(inputs=[rnd(2, 2, 3, seed=3), *NO_WAY[:4]], ints=[0, zero], diff=[]) for zero in (0, 1)], atol=20.0)
