"""Samples for indexing, networks and state, as in table_fn.py."""
import itertools

import numpy as np

from table_fn import ANY, WHOLE, idx, rnd, row

# ---- indexing -------------------------------------------------------------------------------------------


def _along(shape, index, d):
    """Positions that `index` names along dim d: a tuple for NumPy's indexing."""
    grid = list(np.indices(index.shape))
    if not grid:
        return (index,) if shape else ()
    grid[d] = index
    return tuple(grid)


def _gather(arrays, ints, floats):
    x, index = arrays
    return x[_along(x.shape, index, ints[0])].reshape(index.shape)


def _scatter_add(arrays, ints, floats):
    x, index, src = arrays
    out = np.array(x)
    if out.ndim == 0:
        return out + src.sum(dtype=out.dtype)
    part = src[tuple(slice(n) for n in index.shape)]
    np.add.at(out, _along(x.shape, index, ints[0]), part)
    return out


def _index_add(arrays, ints, floats):
    x, index, src = arrays
    out = np.array(x)
    if out.ndim == 0:
        return out + src.sum(dtype=out.dtype)
    view, s = np.moveaxis(out, ints[0], 0), np.moveaxis(src, ints[0], 0)
    for k, i in enumerate(index.reshape(-1)):
        view[i] += s[k]
    return out


def _index_select(arrays, ints, floats):
    x, index = arrays
    return x if x.ndim == 0 else np.take(x, index.reshape(-1), ints[0])


def _where(x, indices, first):
    return (slice(None),) * (first % x.ndim) + tuple(indices)


def _index(arrays, ints, floats):
    return arrays[0][_where(arrays[0], arrays[1:], ints[0])]


def _index_put(arrays, ints, floats):
    out = np.array(arrays[0])
    at = _where(out, arrays[2:], ints[0])
    if ints[1]:
        np.add.at(out, at, arrays[1])
    else:
        out[at] = arrays[1]
    return out


row("gather", _gather, [([rnd(3, 4), idx(3, 2, n=4)], [1]), ([rnd(3, 4), idx(5, 4, n=3)], [0]), ([rnd(3, 4), idx(2, 3, n=4)], [-1]), ([rnd(2, 3, 4), idx(2, 5, 4, n=3)], [1]),
                        ([rnd(5), idx(7, n=5)], [0]), ([rnd(), np.zeros((), np.int64)], [0]), ([rnd(3, 4), idx(0, 4, n=3)], [0])], exact=True, types=ANY)
row("scatter_add", _scatter_add,
    [([rnd(3, 4), idx(3, 2, n=4), rnd(3, 2)], [1]), ([rnd(3, 4), idx(5, 4, n=3), rnd(5, 4)], [0]), ([rnd(3, 4), idx(2, 2, n=4), rnd(3, 5)], [-1]),
     ([rnd(5), idx(9, n=2), rnd(9)], [0]), ([rnd(2, 3, 2), idx(2, 4, 2, n=3), rnd(2, 4, 2)], [1]), ([rnd(3), idx(0, n=3), rnd(0)], [0]),
     ([rnd(), np.zeros((), np.int64), rnd(seed=1)], [0])], types=WHOLE)
row("index_select", _index_select, [([rnd(3, 4), idx(5, n=3)], [0]), ([rnd(3, 4), idx(2, n=4)], [-1]), ([rnd(2, 3, 2), idx(4, n=3)], [1]), ([rnd(3, 4), idx(0, n=3)], [0]),
                                    ([rnd(3, 4), np.array(2)], [0]), ([rnd(), np.zeros(1, np.int64)], [0])], exact=True, types=ANY)
row("index_add", _index_add, [([rnd(3, 4), idx(5, n=3), rnd(5, 4)], [0]), ([rnd(3, 4), idx(2, n=4), rnd(3, 2)], [-1]), ([rnd(2, 3, 2), np.array([1, 1, 1, 0]), rnd(2, 4, 2)], [1]),
                              ([rnd(3), idx(0, n=3), rnd(0)], [0])], types=WHOLE)
row("index", _index, [([rnd(3, 4), idx(5, n=3)], [0]), ([rnd(3, 4), idx(2, 2, n=4)], [1]), ([rnd(3, 4), idx(5, n=3), idx(5, n=4)], [0]), ([rnd(2, 3, 4), idx(3, 1, n=3), idx(2, n=4)], [1]),
                      ([rnd(2, 3, 4), np.array([-1, 0, -2])], [0]), ([rnd(3, 4), np.array(-1)], [1]), ([rnd(3, 4), idx(0, n=3)], [0]), ([rnd(3, 0), idx(2, n=3)], [0])],
    exact=True, types=ANY)
row("index_put", _index_put,
    [([rnd(3, 4), rnd(2, 4), np.array([2, 0])], [0, 0]), ([rnd(3, 4), rnd(2, 4), np.array([2, 2])], [0, 1]), ([rnd(3, 4), rnd(), np.array([-1, 0])], [1, 0]),
     ([rnd(3, 4), rnd(3), np.array([0, 1, 0]), np.array([1, 1, 1])], [0, 1]), ([rnd(3, 4), rnd(3), np.array([0, 1, 2]), np.array([3, 3, 0])], [0, 0]), ([rnd(2, 3, 2), rnd(2), np.array([1, 1, 0])], [1, 1]), ([rnd(3, 4), rnd(0, 4), idx(0, n=3)], [0, 0])],
    types=WHOLE)
row("embedding", lambda a, i, f: a[0][a[1]], [([rnd(5, 3), idx(4, n=5)],), ([rnd(5, 3), idx(2, 3, n=5)],), ([rnd(5, 3), np.array(2)],), ([rnd(5, 3), idx(0, n=5)],),
                                              ([rnd(3, 2), np.array([1, 1, 1])],)], exact=True)
row("nonzero", lambda a, i, f: np.stack(np.nonzero(np.atleast_1d(a[0])), 1).reshape(-1, a[0].ndim) if a[0].ndim else np.zeros((int(a[0] != 0), 0), np.int64),
    [([np.round(rnd(3, 4))],), ([np.round(rnd(7))],), ([np.zeros((2, 2))],), ([np.ones(())],), ([rnd(0, 3)],), ([np.array([np.nan, 0.0, -0.0])],)], exact=True, types=ANY)

# ---- networks ---------------------------------------------------------------------------------------------


def _softmax(x, d):
    if x.size == 0:
        return x
    e = np.exp(x - x.max(axis=d, keepdims=True))
    return e / e.sum(axis=d, keepdims=True)


def _log_softmax(x, d):
    if x.size == 0:
        return x
    x = x - x.max(axis=d, keepdims=True)
    return x - np.log(np.exp(x).sum(axis=d, keepdims=True))


def _dim(x, f, d):
    return f(x.reshape(1), 0).reshape(()) if x.ndim == 0 else f(x, d)


def _softmax_backward(arrays, ints, floats):
    g, y = (a.reshape(1) if a.ndim == 0 else a for a in arrays)
    return (y * (g - (g * y).sum(axis=ints[0], keepdims=True))).reshape(arrays[0].shape)


def _log_softmax_backward(arrays, ints, floats):
    g, y = (a.reshape(1) if a.ndim == 0 else a for a in arrays)
    return (g - np.exp(y) * g.sum(axis=ints[0], keepdims=True)).reshape(arrays[0].shape)


ALONG = [([rnd(3, 4)], [1]), ([rnd(3, 4)], [0]), ([rnd(2, 3, 2)], [-2]), ([rnd(5)], [0]), ([rnd()], [0]), ([rnd(0, 3)], [1]), ([rnd(3, 0)], [1]),
         dict(inputs=[rnd(3, 40, lo=-300, hi=300)], ints=[1], diff=[], note="far"), dict(inputs=[rnd(2, 1200)], ints=[1], diff=[])]
PAIRS = [([rnd(3, 4), rnd(3, 4, seed=1)], [1]), ([rnd(2, 3, 2), rnd(2, 3, 2, seed=1)], [1]), ([rnd(4), rnd(4, seed=1)], [-1]), ([rnd(0, 3), rnd(0, 3)], [1])]
row("softmax", lambda a, i, f: _dim(a[0], _softmax, i[0]), ALONG)
row("log_softmax", lambda a, i, f: _dim(a[0], _log_softmax, i[0]), ALONG, atol=1.0)
row("softmax_backward", _softmax_backward, PAIRS, atol=1.0)
row("log_softmax_backward", _log_softmax_backward, PAIRS, atol=1.0)


def _nll_terms(logp, target, weight, ignore):
    """Log-probability at each target, its weight, and the index of it in logp."""
    classes = logp.shape[1 if logp.ndim > 1 else 0]
    w = np.ones(classes, logp.dtype) if weight is None else weight
    at = {}
    for k in np.ndindex(*target.shape):
        c = int(target[k])
        if c != ignore:
            at[k] = ((k[0], c) + k[1:] if logp.ndim > 1 else (c,)), w[c]
    return at


def _nll(arrays, ints, floats):
    logp, target = arrays[:2]
    at = _nll_terms(logp, target, arrays[2] if len(arrays) > 2 else None, ints[1])
    total = np.array(sum((w for _, w in at.values()), np.zeros((), np.float64)))
    loss = np.zeros(target.shape)
    for k, (place, w) in at.items():
        loss[k] = -w * logp[place]
    with np.errstate(all="ignore"):
        return (loss if ints[0] == 0 else np.array(loss.sum() / total) if ints[0] == 1 else np.array(loss.sum())), total


def _nll_backward(arrays, ints, floats):
    g, target, total = arrays[:3]
    out = np.zeros(ints[2:])
    for k, (place, w) in _nll_terms(out, target, arrays[3] if len(arrays) > 3 else None, ints[1]).items():
        out[place] = -w * (g[k] if ints[0] == 0 else g.reshape(()) / total if ints[0] == 1 else g.reshape(()))
    return out


W3 = np.array([0.5, 1.5, 2.0])
IGNORED = np.array([2, -100, 0, 1])
row("nll_loss", _nll,
    [dict(inputs=[rnd(4, 3), idx(4, n=3)], ints=[r, -100], diff=[0]) for r in (0, 1, 2)] +
    [dict(inputs=[rnd(4, 3), IGNORED, W3], ints=[r, -100], diff=[0]) for r in (0, 1, 2)] +
    [dict(inputs=[rnd(2, 3, 4), idx(2, 4, n=3)], ints=[1, 1], diff=[0]), dict(inputs=[rnd(3), np.array(1)], ints=[1, -100], diff=[0]),
     dict(inputs=[rnd(3), np.array(2), W3], ints=[0, -100], diff=[0]), dict(inputs=[rnd(0, 3), idx(0, n=3)], ints=[2, -100], diff=[0]),
     dict(inputs=[rnd(2, 3), np.array([1, 1])], ints=[1, 1], diff=[], note="all-ignored")])
row("nll_loss_backward", _nll_backward,
    [dict(inputs=[rnd(4), idx(4, n=3), np.array(4.0)], ints=[0, -100, 4, 3], diff=[0]), dict(inputs=[rnd(), idx(4, n=3), np.array(4.0)], ints=[1, -100, 4, 3], diff=[0]),
     dict(inputs=[rnd(), IGNORED, np.array(4.0), W3], ints=[1, -100, 4, 3], diff=[0]), dict(inputs=[rnd(), IGNORED, np.array(4.0), W3], ints=[2, -100, 4, 3], diff=[0]),
     dict(inputs=[rnd(2, 4), idx(2, 4, n=3), np.array(8.0)], ints=[0, 1, 2, 3, 4], diff=[0])])


def _conv_ints(ints):
    nd = ints[0]
    return nd, ints[1:1 + nd], ints[1 + nd:1 + 2 * nd], ints[1 + 2 * nd:1 + 3 * nd], ints[1 + 3 * nd]


def _taps(x_spatial, w_spatial, stride, padding, dilation):
    """Pairs of positions (in y, in w, in x) that a convolution joins."""
    out = [(n + 2 * p - d * (k - 1) - 1) // s + 1 for n, k, s, p, d in zip(x_spatial, w_spatial, stride, padding, dilation)]
    for o in np.ndindex(*out):
        for k in np.ndindex(*w_spatial):
            i = tuple(a * s - p + b * d for a, b, s, p, d in zip(o, k, stride, padding, dilation))
            if all(0 <= v < n for v, n in zip(i, x_spatial)):
                yield o, k, i


def _y_shape(x, w, ints):
    nd, stride, padding, dilation, _ = _conv_ints(ints)
    return (x[0], w[0]) + tuple((n + 2 * p - d * (k - 1) - 1) // s + 1 for n, k, s, p, d in zip(x[2:], w[2:], stride, padding, dilation))


def _groups(ci, co, groups):
    for g in range(groups):
        yield slice(g * ci // groups, (g + 1) * ci // groups), slice(g * co // groups, (g + 1) * co // groups)


def _conv(arrays, ints, floats):
    x, w = arrays[:2]
    nd, stride, padding, dilation, groups = _conv_ints(ints)
    y = np.zeros(_y_shape(x.shape, w.shape, ints))
    for o, k, i in _taps(x.shape[2:], w.shape[2:], stride, padding, dilation):
        for ci, co in _groups(x.shape[1], w.shape[0], groups):
            y[(slice(None), co) + o] += x[(slice(None), ci) + i] @ w[(co, slice(None)) + k].T
    if len(arrays) > 2:
        y += arrays[2].reshape((1, -1) + (1,) * nd)
    return y


def _conv_grad_input(arrays, ints, floats):
    g, w = arrays
    nd, stride, padding, dilation, groups = _conv_ints(ints)
    x = np.zeros(ints[2 + 3 * nd:])
    for o, k, i in _taps(x.shape[2:], w.shape[2:], stride, padding, dilation):
        for ci, co in _groups(x.shape[1], w.shape[0], groups):
            x[(slice(None), ci) + i] += g[(slice(None), co) + o] @ w[(co, slice(None)) + k]
    return x


def _conv_grad_weight(arrays, ints, floats):
    g, x = arrays
    nd, stride, padding, dilation, groups = _conv_ints(ints)
    w = np.zeros(ints[2 + 3 * nd:])
    for o, k, i in _taps(x.shape[2:], w.shape[2:], stride, padding, dilation):
        for ci, co in _groups(x.shape[1], w.shape[0], groups):
            w[(co, slice(None)) + k] += g[(slice(None), co) + o].T @ x[(slice(None), ci) + i]
    return w


CONVOLUTIONS = [  # x, w, ints
    ((2, 2, 5), (3, 2, 3), [1, 1, 0, 1, 1]), ((2, 2, 6), (4, 1, 2), [1, 2, 1, 2, 2]), ((1, 1, 3), (1, 1, 1), [1, 1, 0, 1, 1]),
    ((2, 2, 4, 3), (2, 2, 2, 2), [2, 1, 1, 0, 0, 1, 1, 1]), ((1, 2, 4, 5), (2, 1, 2, 3), [2, 2, 1, 1, 2, 1, 1, 2]), ((1, 3, 4, 4), (3, 1, 2, 2), [2, 1, 2, 0, 1, 2, 1, 3]),
    ((2, 2, 3, 3), (3, 2, 1, 1), [2, 1, 1, 0, 0, 1, 1, 1]), ((1, 1, 3, 2, 3), (2, 1, 2, 2, 2), [3, 1, 1, 1, 0, 1, 0, 1, 1, 1, 1]), ((0, 2, 4), (3, 2, 2), [1, 1, 0, 1, 1])]
row("convolution", _conv, [([rnd(*x), rnd(*w, seed=1)], i) for x, w, i in CONVOLUTIONS] +
    [([rnd(2, 2, 4), rnd(3, 2, 2, seed=1), rnd(3)], [1, 1, 1, 1, 1]), ([rnd(1, 2, 3, 3), rnd(2, 2, 2, 2, seed=1), rnd(2)], [2, 1, 1, 0, 0, 1, 1, 1])], sums=True,
    types=(np.int64,))
row("conv_grad_input", _conv_grad_input, [([rnd(*_y_shape(x, w, i)), rnd(*w, seed=1)], i + list(x)) for x, w, i in CONVOLUTIONS], sums=True, types=(np.int64,))
row("conv_grad_weight", _conv_grad_weight, [([rnd(*_y_shape(x, w, i)), rnd(*x, seed=1)], i + list(w)) for x, w, i in CONVOLUTIONS], sums=True)


def _max_pool(arrays, ints, floats):
    x, nd = arrays[0], ints[0]
    kernel, stride, padding, dilation = (ints[1 + j * nd:1 + (j + 1) * nd] for j in range(4))
    up = ints[1 + 4 * nd]
    spatial, out = x.shape[x.ndim - nd:], []
    for n, k, s, p, d in zip(spatial, kernel, stride, padding, dilation):
        room = n + 2 * p - d * (k - 1) - 1
        m = (-(-room // s) if up else room // s) + 1
        out.append(m - 1 if up and (m - 1) * s >= n + p else m)
    lead = x.shape[:x.ndim - nd]
    y, at = np.zeros(lead + tuple(out), x.dtype), np.zeros(lead + tuple(out), np.int64)
    for where in itertools.product(np.ndindex(*lead), np.ndindex(*out)):
        plane, o = x[where[0]], where[1]
        best = None
        for k in np.ndindex(*kernel):
            i = tuple(a * s - p + b * d for a, b, s, p, d in zip(o, k, stride, padding, dilation))
            if all(0 <= v < n for v, n in zip(i, spatial)) and (best is None or plane[i] > plane[best] or plane[i] != plane[i]):
                best = i
        y[where[0] + o], at[where[0] + o] = plane[best], np.ravel_multi_index(best, spatial)
    return y, at


row("max_pool", _max_pool,
    [([rnd(2, 2, 6)], [1, 2, 2, 0, 1, 0]), ([rnd(1, 7)], [1, 3, 2, 1, 1, 1]), ([rnd(2, 5, 5)], [2, 2, 2, 2, 2, 0, 0, 1, 1, 0]),
     ([rnd(1, 2, 5, 4)], [2, 3, 2, 2, 1, 1, 1, 1, 1, 1]), ([rnd(1, 6, 6)], [2, 2, 2, 1, 1, 0, 0, 2, 3, 0]), ([rnd(1, 3, 3, 4)], [3, 2, 2, 2, 1, 1, 2, 0, 0, 0, 1, 1, 1, 0]),
     dict(inputs=[np.array([[1.0, np.nan, 0.0, 3.0]])], ints=[1, 2, 2, 0, 1, 0], diff=[], note="nan"), ([rnd(0, 2, 4)], [1, 2, 2, 0, 1, 0])], exact=True, types=WHOLE)


def _pool_scatter(arrays, ints, floats):
    g, at = arrays
    nd = ints[0]
    lead = g.shape[:g.ndim - nd]
    out = np.zeros(lead + tuple(ints[1:]), g.dtype)
    flat, v, k = out.reshape(lead + (-1,)), g.reshape(lead + (-1,)), at.reshape(lead + (-1,))
    for where in np.ndindex(*lead):
        np.add.at(flat[where], k[where], v[where])
    return out


def _pool_gather(arrays, ints, floats):
    x, at = arrays
    lead = x.shape[:x.ndim - ints[0]]
    return np.take_along_axis(x.reshape(lead + (-1,)), at.reshape(lead + (-1,)), -1).reshape(at.shape)


row("pool_scatter", _pool_scatter, [([rnd(2, 3), idx(2, 3, n=5)], [1, 5]), ([rnd(2, 2, 2), idx(2, 2, 2, n=12)], [2, 3, 4]), ([rnd(3), np.array([1, 1, 1])], [1, 4])])
row("pool_gather", _pool_gather, [([rnd(2, 5), idx(2, 3, n=5)], [1, 3]), ([rnd(2, 3, 4), idx(2, 2, 2, n=12)], [2, 2, 2]), ([rnd(4), np.array([1, 1, 1])], [1, 3])], exact=True)


def _layer_norm(arrays, ints, floats):
    x = arrays[0]
    axes = tuple(range(x.ndim - len(ints), x.ndim))
    mean = x.mean(axes, keepdims=True)
    rstd = 1 / np.sqrt(((x - mean) ** 2).mean(axes, keepdims=True) + floats[0])
    y = (x - mean) * rstd
    if len(arrays) > 1:
        y = y * arrays[1]
    return y + arrays[2] if len(arrays) > 2 else y, mean, rstd


def _resample(arrays, ints, floats):
    x, index, w = arrays
    x = np.moveaxis(x, ints[0], -1)
    out = sum(np.where(index[:, t] < 0, 0, w[:, t]) * x[..., index[:, t]] for t in range(index.shape[1]))
    return np.moveaxis(out, -1, ints[0])


def _resample_back(arrays, ints, floats):
    g, index, w = arrays
    g = np.moveaxis(g, ints[0], -1)
    out = np.zeros(g.shape[:-1] + (ints[1],))
    for i, t in np.ndindex(*index.shape):
        if index[i, t] >= 0:
            out[..., index[i, t]] += w[i, t] * g[..., i]
    return np.moveaxis(out, -1, ints[0])


PLACES = np.array([[0, 1], [2, -1], [3, 3]])
row("resample", _resample, [dict(inputs=[rnd(2, 4), PLACES, rnd(3, 2)], ints=[1], diff=[0]), dict(inputs=[rnd(2, 4, 3), PLACES, rnd(3, 2)], ints=[-2], diff=[0]),
                            dict(inputs=[rnd(4), PLACES, rnd(3, 2)], ints=[0], diff=[0]), dict(inputs=[rnd(0, 4), PLACES, rnd(3, 2)], ints=[1], diff=[0])], atol=1.0, types=(np.int64,))
row("resample_back", _resample_back, [dict(inputs=[rnd(2, 3), PLACES, rnd(3, 2)], ints=[1, 4], diff=[0]), dict(inputs=[rnd(2, 3, 2), PLACES, rnd(3, 2)], ints=[1, 5], diff=[0]),
                                      dict(inputs=[rnd(0, 3), PLACES, rnd(3, 2)], ints=[1, 4], diff=[0])], atol=1.0, types=(np.int64,))


def _windows(ints):
    k, dil, pad, stride, size = (ints[2 * j:2 * j + 2] for j in range(5))
    out = [(n + 2 * p - d * (kk - 1) - 1) // s + 1 for n, kk, d, p, s in zip(size, k, dil, pad, stride)]
    for t in np.ndindex(*k):
        for o in np.ndindex(*out):
            i = tuple(b * s - p + a * d for a, b, s, p, d in zip(t, o, stride, pad, dil))
            if all(0 <= v < n for v, n in zip(i, size)):
                yield t[0] * k[1] + t[1], o[0] * out[1] + o[1], i, out


def _unfold(arrays, ints, floats):
    x = arrays[0]
    n, c, taps = x.shape[0], x.shape[1], ints[0] * ints[1]
    out = None
    for t, o, i, places in _windows(ints):
        out = np.zeros((n, c, taps, places[0] * places[1]), x.dtype) if out is None else out
        out[:, :, t, o] = x[(slice(None), slice(None)) + i]
    return out.reshape(n, c * taps, -1)


def _fold(arrays, ints, floats):
    col = arrays[0]
    taps = ints[0] * ints[1]
    col = col.reshape(col.shape[0], -1, taps, col.shape[2])
    out = np.zeros(col.shape[:2] + tuple(ints[8:10]))
    for t, o, i, _ in _windows(ints):
        out[(slice(None), slice(None)) + i] += col[:, :, t, o]
    return out


row("unfold", _unfold, [([rnd(2, 3, 4, 5)], [2, 3, 1, 1, 0, 1, 1, 2, 4, 5]), ([rnd(1, 2, 5, 4)], [2, 2, 2, 1, 1, 0, 2, 1, 5, 4])], exact=True)
row("fold", _fold, [([rnd(2, 18, 9)], [2, 3, 1, 1, 0, 1, 1, 2, 4, 5]), ([rnd(1, 8, 9)], [2, 2, 2, 1, 1, 0, 2, 1, 5, 4])])


def _layer_norm_backward(arrays, ints, floats):
    g, x, mean, rstd = arrays[:4]
    w = arrays[4] if len(arrays) > 4 else 1.0
    dims = tuple(range(x.ndim - len(ints) + 1, x.ndim))
    xhat = (x - mean) * rstd
    h = g * w
    dx = rstd * (h - h.mean(axis=dims, keepdims=True) - xhat * (h * xhat).mean(axis=dims, keepdims=True))
    lead = tuple(range(x.ndim - len(ints) + 1))
    outs = dx, (g * xhat).sum(axis=lead), g.sum(axis=lead)
    return tuple(o if ints[0] >> k & 1 else np.zeros(0) for k, o in enumerate(outs))


def _per_channel(a, x):
    return a.reshape((1, -1) + (1,) * (x.ndim - 2))


def _channel_sum(x):
    return x.sum(axis=tuple(k for k in range(x.ndim) if k != 1))


row("layer_norm_backward", _layer_norm_backward,
    [dict(inputs=[rnd(3, 4), rnd(3, 4, seed=1), rnd(3, 1), rnd(3, 1, lo=0.5, hi=2)], ints=[1, 4], diff=[]),
     dict(inputs=[rnd(70, 5), rnd(70, 5, seed=1), rnd(70, 1), rnd(70, 1, lo=0.5, hi=2), rnd(5)], ints=[7, 5], diff=[]),
     dict(inputs=[rnd(2, 3, 2), rnd(2, 3, 2, seed=1), rnd(2, 1, 1), rnd(2, 1, 1, lo=0.5, hi=2), rnd(3, 2)], ints=[6, 3, 2], diff=[]),
     dict(inputs=[rnd(2, 1500), rnd(2, 1500, seed=1), rnd(2, 1), rnd(2, 1, lo=0.5, hi=2), rnd(1500)], ints=[3, 1500], diff=[])], atol=4.0)
row("scale_shift", lambda a, i, f: a[0] * _per_channel(a[1], a[0]) + (_per_channel(a[2], a[0]) if len(a) > 2 else 0),
    [([rnd(3, 4), rnd(4)],), ([rnd(3, 4), rnd(4), rnd(4, seed=1)],), ([rnd(2, 3, 2), rnd(3)],), ([rnd(2, 3, 2, 2), rnd(3), rnd(3, seed=1)],), ([rnd(0, 3), rnd(3)],)])
row("channel_dot", lambda a, i, f: _channel_sum(a[0] * a[1]),
    [([rnd(3, 4), rnd(3, 4, seed=1)],), ([rnd(2, 3, 2), rnd(2, 3, 2, seed=1)],), ([rnd(0, 3), rnd(0, 3)],), dict(inputs=[rnd(150, 3), rnd(150, 3, seed=1)], diff=[])], atol=1.0)
row("layer_norm", _layer_norm, [([rnd(3, 4)], [4], [1e-5]), ([rnd(2, 3, 2)], [3, 2], [1e-3]), ([rnd(3, 4), rnd(4)], [4], [1e-5]), ([rnd(3, 4), rnd(4), rnd(4, seed=1)], [4], [1e-5]),
                                ([rnd(5)], [5], [0.1]), dict(inputs=[rnd(2, 1500), rnd(1500), rnd(1500, seed=1)], ints=[1500], floats=[1e-5], diff=[])], atol=1.0)


def _mse(arrays, ints, floats):
    d = (arrays[0] - arrays[1]) ** 2
    return d if ints[0] == 0 else d.mean() if ints[0] == 1 else d.sum()


row("mse_loss", _mse, [([rnd(3, 4), rnd(3, 4, seed=1)], [r]) for r in (0, 1, 2)] + [([rnd(3, 1), rnd(4)], [1]), ([rnd(), rnd(seed=1)], [1]), ([rnd(0, 2), rnd(0, 2)], [2])])

# ---- state: what is written is in[0] (and what STATE names) ---------------------------------------------------


def philox(seed, counter, blocks):
    """Blocks 0, 1, ... of stream `counter` by Philox 4x32-10 (Salmon et al. 2011), four words each, one at a time."""
    rows, mask = [], 2**32 - 1
    for block in range(blocks):
        x, k = [block & mask, block >> 32, counter & mask, counter >> 32], [seed & mask, seed >> 32 & mask]
        for _ in range(10):
            a, b = 0xD2511F53 * x[0], 0xCD9E8D57 * x[2]
            x = [b >> 32 ^ x[1] ^ k[0], b & mask, a >> 32 ^ x[3] ^ k[1], a & mask]
            k = [k[0] + 0x9E3779B9 & mask, k[1] + 0xBB67AE85 & mask]
        rows.append(x)
    return np.array(rows, np.uint64).reshape(blocks, 4)


def _wide(w, high, low):
    return ((w[:, high] << np.uint64(32) | w[:, low]) >> np.uint64(11)).astype(np.float64) * 2.0**-53


def _drawn(x, floats, generator):
    """What is left in the generator: the stream moves on by whole blocks of four."""
    return {1: np.array([generator[0], generator[1] + (x.size + 3) // 4 * 4])}


def _uniform(arrays, ints, floats):
    x, generator = arrays
    w = philox(*generator.tolist(), x.size)
    u = (w >> np.uint64(8)).astype(np.float64) * 2.0**-24 if x.dtype == np.float32 else np.stack([_wide(w, 1, 0), _wide(w, 3, 2)], 1)
    return (floats[0] + (floats[1] - floats[0]) * u.reshape(-1)[:x.size]).reshape(x.shape), _drawn(x, floats, generator)


def _normal(arrays, ints, floats):
    """Box and Muller: two numbers of each pair of uniform ones."""
    x, generator = arrays
    w = philox(*generator.tolist(), x.size)
    if x.dtype == np.float32:
        u = (w[:, ::2] >> np.uint64(1)).astype(np.float64) * 2.0**-31 + 2.0**-32
        v = (w[:, 1::2] >> np.uint64(8)).astype(np.float64) * 2.0**-24
    else:
        u, v = _wide(w, 1, 0)[:, None] + 2.0**-54, _wide(w, 3, 2)[:, None]
    r = np.sqrt(-2 * np.log(u))
    z = np.stack([r * np.cos(2 * np.pi * v), r * np.sin(2 * np.pi * v)], -1).reshape(-1)[:x.size]
    return (floats[0] + floats[1] * z).reshape(x.shape), _drawn(x, floats, generator)


def _sgd(arrays, ints, floats):
    """ints: flags (1 nesterov, 2 maximize, 4 first); floats: momentum, dampening, weight decay."""
    p, g, lr = arrays[:3]
    momentum, dampening, decay = floats
    g = -g if ints[0] & 2 else g
    g = g + decay * p
    state = {}
    if len(arrays) > 3:
        buf = g if ints[0] & 4 else momentum * arrays[3] + (1 - dampening) * g
        state[3] = buf
        g = g + momentum * buf if ints[0] & 1 else buf
    return p - lr * g, state


def _adam(arrays, ints, floats):
    """ints: flags (1 decoupled decay, 2 maximize); floats: betas, eps, weight decay."""
    p, g, lr, m, v, step = arrays
    b1, b2, eps, decay = floats
    step = step + 1
    g = -g if ints[0] & 2 else g
    p, g = (p * (1 - lr * decay), g) if ints[0] & 1 else (p, g + decay * p)
    m, v = b1 * m + (1 - b1) * g, b2 * v + (1 - b2) * g * g
    return p - lr / (1 - b1**step) * m / (np.sqrt(v) / np.sqrt(1 - b2**step) + eps), {3: m, 4: v, 5: step}


LR = np.array(0.1)
row("sgd", _sgd, [([rnd(3, 4), rnd(3, 4, seed=1), LR], [0], [0.0, 0.0, 0.0]), ([rnd(3, 4), rnd(3, 4, seed=1), LR], [2], [0.0, 0.0, 0.1])] +
    [([rnd(3, 4), rnd(3, 4, seed=1), LR, rnd(3, 4, seed=2)], [flags], [0.9, 0.3 * (flags == 0), 0.01]) for flags in (0, 1, 2, 4, 5)])
row("adam", _adam, [([rnd(3, 4), rnd(3, 4, seed=1), LR, rnd(3, 4, seed=2), np.abs(rnd(3, 4, seed=3)), np.array(step)], [flags], [0.9, 0.99, 1e-8, 0.02])
                    for flags in (0, 1, 2) for step in (0.0, 7.0)])
GENERATOR = np.array([1234567890123, 2**40 + 8])
DRAWS = [rnd(5), rnd(2, 3), rnd(0), rnd(300)]
row("uniform", _uniform, [([x, GENERATOR], [], p) for x in DRAWS for p in ([-1.0, 3.0], [0.0, 1.0])])
row("normal", _normal, [([x, GENERATOR], [], p) for x in DRAWS for p in ([1.0, 2.0], [0.0, 1.0])], atol=1.0)
import table_fn_linalg  # noqa: E402,F401  (more rows)
import table_fn_spatial  # noqa: E402,F401  (more rows)
import table_fn_order  # noqa: E402,F401
import table_fn_random  # noqa: E402,F401  (more rows)
