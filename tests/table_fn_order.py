"""Samples for the rows whose results rest on the order of elements (see table_fn.py)."""
import numpy as np

from table_fn import ANY, WHOLE, row, rnd

NAN = float("nan")
TIES = np.array([[2.0, 1, 2, 1, 3, 1], [0, -0.0, 0, -1, -1, 5]])
HOLES = np.array([[2.0, NAN, -np.inf, 1, NAN, np.inf], [NAN, NAN, NAN, NAN, NAN, NAN], [3, 3, 1, 2, 0, 1]])


def _rows(a, d):
    """a with dim d last, at least one dim."""
    return np.moveaxis(a, d, -1) if a.ndim else a.reshape(1)


def order(v, down=False):
    """Places of a vector's elements in sorted order, by insertion: NaN largest, equal ones as they stand."""
    before = (lambda a, b: b > a or (b != b and a == a)) if down else (lambda a, b: b < a or (a != a and b == b))
    # before(a, b): b goes in front of a
    out = []
    for k, x in enumerate(v.tolist()):
        at = len(out)
        while at and before(v[out[at - 1]].item(), x):
            at -= 1
        out.insert(at, k)
    return np.array(out, np.int64)


def _chosen(a, d, pick, keep):
    """(values, indices) of pick(vector) -> places along d; keep None: places are as many as asked, else one."""
    r = _rows(a, d)
    at = np.array([pick(v) for v in r.reshape(-1, r.shape[-1])], np.int64).reshape(*r.shape[:-1], -1)
    v = np.take_along_axis(r, at, -1)
    if not a.ndim:
        return v.reshape(()), at.reshape(())
    if keep is False:
        return v[..., 0], at[..., 0]
    return np.moveaxis(v, -1, d), np.moveaxis(at, -1, d)


def _sort(arrays, ints, floats):
    return _chosen(arrays[0], ints[0], lambda v: order(v, ints[1]), None) if arrays[0].size else (arrays[0], np.zeros(arrays[0].shape, np.int64))


def _topk(arrays, ints, floats):
    a, (d, k, largest) = arrays[0], ints
    if not k or not a.size:
        s = list(a.shape)
        s[d] = k
        return np.zeros(s, a.dtype), np.zeros(s, np.int64)
    return _chosen(a, d, lambda v: order(v, largest)[:k], None)


def one(pick):
    def ref(arrays, ints, floats):
        return _chosen(arrays[0], ints[1], lambda v: [pick(v, ints)], bool(ints[0]))

    return ref


def _median(v, ints=None):
    bad = [k for k, x in enumerate(v.tolist()) if x != x]
    return bad[0] if bad else order(v)[(len(v) - 1) // 2]


def _nanmedian(v, ints=None):
    good = sum(x == x for x in v.tolist())
    return order(v)[(good - 1) // 2 if good else 0]


def _mode(v, ints=None):
    values = v.tolist()
    best = min((x for x in values if x == x), key=lambda x: (-values.count(x), x), default=None)
    return order(v)[0] if best is None else max(k for k, x in enumerate(values) if x == best)


def whole(pick):
    def ref(arrays, ints, floats):
        v = arrays[0].reshape(-1)
        return v[pick(v)] if v.size else np.array(np.nan if v.dtype.kind == "f" else 0).astype(v.dtype)

    return ref


def running(least):
    def ref(arrays, ints, floats):
        r = _rows(arrays[0], ints[0])
        at = np.zeros(r.shape, np.int64)
        for v, p in zip(r.reshape(-1, r.shape[-1]), at.reshape(-1, r.shape[-1])):
            for k in range(1, len(v)):
                best, x = v[p[k - 1]], v[k]
                p[k] = k if x != x or (x <= best if least else x >= best) else p[k - 1]
        values = np.take_along_axis(r, at, -1)
        back = (lambda z: np.moveaxis(z, -1, ints[0])) if arrays[0].ndim else (lambda z: z.reshape(()))
        return back(values), back(at)

    return ref


def no_grad(a, ints, note):
    return dict(inputs=[a], ints=ints, diff=[], note=note)


SHAPES = [(rnd(3, 4, 2), 1), (rnd(3, 4, 2), -1), (rnd(3, 4, 2), 0), (rnd(7), 0), (rnd(2, 20), 1), (rnd(9, 3, 2), 0), (rnd(), 0)]
LARGE = [(rnd(2, 70), 1), (rnd(300, 2), 0), (rnd(5, 33), 1), (rnd(4200), 0)]
row("sort", _sort, [([a], [d, down]) for a, d in SHAPES for down in (0, 1)] + [([rnd(0, 3)], [0, 0]), ([rnd(2, 0)], [1, 1])] +
    [no_grad(a, [d, down], "long") for a, d in LARGE for down in (0, 1)] +
    [no_grad(a, [1, down], note) for a, note in ((TIES, "ties"), (HOLES, "nan"), (np.tile(TIES, 20), "many-ties")) for down in (0, 1)], exact=True, types=ANY)
row("topk", _topk, [([a], [d, min(2, a.shape[d] if a.ndim else 1), down]) for a, d in SHAPES for down in (0, 1)] +
    [([rnd(3, 4)], [1, 0, 1]), ([rnd(3, 4)], [0, 3, 0]), ([rnd(0, 3)], [0, 0, 1])] +
    [no_grad(a, [d, k, down], "long") for a, d in LARGE for k in (3, a.shape[d] // 3, a.shape[d]) for down in (0, 1)] +
    [no_grad(a, [1, 4, down], note) for a, note in ((TIES, "ties"), (HOLES, "nan"), (np.tile(TIES, 500), "many-ties")) for down in (0, 1)], exact=True, types=ANY)
ONE = [([a], [keep, d]) for a, d in SHAPES for keep in (0, 1)] + [no_grad(a, [0, d], "long") for a, d in LARGE] + [no_grad(TIES, [0, 1], "ties"), no_grad(np.tile(TIES, 90), [1, 1], "many-ties")]
row("kthvalue", one(lambda v, ints: order(v)[ints[2] - 1]), [([a], [keep, d, k]) for a, d in SHAPES for keep, k in ((0, 1), (1, a.shape[d] if a.ndim else 1))] +
    [no_grad(a, [0, d, k], "long") for a, d in LARGE for k in (1, a.shape[d] // 2, a.shape[d])] +
    [no_grad(a, [0, 1, k], note) for a, note in ((TIES, "ties"), (HOLES, "nan"), (np.tile(HOLES, 50), "many-ties")) for k in (1, 3, 6)], exact=True, types=ANY)
row("median_dim", one(_median), ONE + [no_grad(HOLES, [0, 1], "nan"), no_grad(np.tile(HOLES, 30), [0, 1], "many-nan")], exact=True, types=ANY)
row("nanmedian_dim", one(_nanmedian), ONE + [no_grad(HOLES, [0, 1], "nan"), no_grad(np.tile(HOLES, 30), [0, 1], "many-nan")], exact=True, types=ANY)
row("mode", one(_mode), [dict(inputs=[np.round(a) + 0.25], ints=[keep, d], diff=[], note="ties") for a, d in SHAPES + LARGE[:3] for keep in (0, 1)] +
    [([rnd(2, 3)], [0, 1]), no_grad(TIES, [0, 1], "zeros")], exact=True, types=ANY)
ALL = [([rnd(3, 4)],), ([rnd()],), ([rnd(9)],), dict(inputs=[TIES], diff=[], note="ties"), dict(inputs=[rnd(20, 30)], diff=[]), dict(inputs=[rnd(0)], diff=[])]
row("median", whole(_median), ALL + [dict(inputs=[HOLES], diff=[], note="nan")], exact=True)
row("nanmedian", whole(_nanmedian), ALL + [dict(inputs=[HOLES], diff=[], note="nan")], exact=True)
RUNS = [([a], [d]) for a, d in SHAPES] + [([rnd(0, 3)], [1]), no_grad(TIES, [1], "ties"), no_grad(HOLES, [1], "nan"), no_grad(HOLES, [0], "nan")]
row("cummax", running(False), RUNS, exact=True, types=WHOLE)
row("cummin", running(True), RUNS, exact=True, types=WHOLE)


def _sort_slices(arrays, ints, floats):
    a = arrays[0].reshape(-1) if not arrays[0].ndim else arrays[0]
    r = np.moveaxis(a, ints[0], 0)
    return np.array(sorted(range(len(r)), key=lambda k: r[k].reshape(-1).tolist()), np.int64)


row("sort_slices", _sort_slices, [([np.round(rnd(6, 2))], [0]), ([np.round(rnd(2, 7))], [1]), ([np.round(rnd(2, 5, 2) / 2)], [1]), ([rnd(4)], [0]), ([rnd()], [0]), ([rnd(0, 2)], [0])],
    exact=True, types=ANY)


def _search(arrays, ints, floats):
    s, v = arrays[:2]
    rows = np.broadcast_to(s, v.shape[:-1] + s.shape[-1:]) if v.ndim else s
    if len(arrays) > 2:
        rows = np.take_along_axis(s, arrays[2], -1)
    out = np.zeros(v.shape, np.int32 if ints[1] else np.int64)
    for place in np.ndindex(*v.shape):
        row_ = rows[place[:-1]] if v.ndim else rows
        out[place] = sum(1 for x in row_.tolist() if (x <= v[place] if ints[0] else x < v[place]))
    return out


EDGES = np.array([-1.0, 0, 0, 0.5, 2])
row("searchsorted", _search, [([EDGES, np.array([[-2.0, 0, 3], [0.5, 2, 1]])], [right, small]) for right in (0, 1) for small in (0, 1)] +
    [([EDGES, np.array(0.0)], [1, 0]), ([np.sort(rnd(3, 6), -1), rnd(3, 11)], [0, 0]), ([rnd(0), rnd(3)], [0, 0]), ([EDGES, rnd(0)], [0, 0]),
     ([rnd(2, 5), rnd(2, 3, seed=1), np.argsort(rnd(2, 5), -1)], [0, 0])], exact=True)


def _bincount(arrays, ints, floats):
    x = arrays[0]
    out = np.zeros(max([ints[0], *(x + 1).tolist()]), np.int64 if len(arrays) < 2 else arrays[1].dtype)
    for k, v in enumerate(x.tolist()):
        out[v] += 1 if len(arrays) < 2 else arrays[1][k]
    return out


COUNTED = np.array([1, 4, 1, 0, 1, 6])
row("bincount", _bincount, [([COUNTED], [0]), ([COUNTED], [9]), ([COUNTED, rnd(6)], [3]), ([COUNTED[:0]], [2]), ([COUNTED[:0]], [0])])


def _histc(arrays, ints, floats):
    x, (low, high) = arrays[0].reshape(-1), floats
    out = np.zeros(ints[0], x.dtype)
    if low == high and x.size:
        low, high = x.min(), x.max()
    if low == high:
        low, high = low - 1, high + 1
    for v in x.tolist():
        if low <= v <= high:
            out[min(int((v - low) / (high - low) * ints[0]), ints[0] - 1)] += 1
    return out


row("histc", _histc, [([rnd(3, 7)], [4], [0.0, 0.0]), ([rnd(20)], [5], [-1.0, 1.0]), ([np.ones(3)], [4], [0.0, 0.0]), ([rnd(0)], [3], [0.0, 0.0]),
                      ([np.array([0.0, 4, 4, -1, 5, NAN])], [4], [0.0, 4.0])], exact=True)
