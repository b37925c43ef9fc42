"""utils.data: what batches hold and in which order."""
from collections import namedtuple

import numpy as np
import pytest

import autograd_c as ac
from autograd_c.utils import data as D


def dataset(n=10):
    return D.TensorDataset(ac.arange(2 * n).float().view(n, 2), ac.arange(n))


def test_batches_in_order():
    batches = list(D.DataLoader(dataset(), batch_size=4))
    assert [t.tolist() for _, t in batches] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    assert batches[1][0].tolist() == [[8.0, 9.0], [10.0, 11.0], [12.0, 13.0], [14.0, 15.0]]
    assert isinstance(batches[0], list)


def test_sizes_and_drop_last():
    for n, size, drop, want in ((10, 4, False, 3), (10, 4, True, 2), (8, 4, True, 2), (3, 4, True, 0)):
        loader = D.DataLoader(dataset(n), size, drop_last=drop)
        assert len(loader) == want == len(list(loader))


def test_shuffling_is_seeded_and_complete():
    def order(seed):
        g = ac.Generator().manual_seed(seed)
        loader = D.DataLoader(dataset(50), 8, shuffle=True, generator=g)
        return [[k for _, t in loader for k in t.tolist()] for _ in range(2)]

    first, second = order(1)
    assert sorted(first) == sorted(second) == list(range(50))
    assert first != second and first != list(range(50)) and order(1) == [first, second] and order(2)[0] != first
    ac.manual_seed(3)
    a = [t.tolist() for _, t in D.DataLoader(dataset(), 4, shuffle=True)]
    ac.manual_seed(3)
    assert a == [t.tolist() for _, t in D.DataLoader(dataset(), 4, shuffle=True)]


def test_the_fast_path_equals_the_slow_one():
    class Slow(D.Dataset):
        def __init__(self, d):
            self.d = d

        def __getitem__(self, k):
            return self.d[k]

        def __len__(self):
            return len(self.d)

    part = D.Subset(D.Subset(dataset(20), range(0, 20, 2)), [7, 1, 4, 4])
    for a, b in zip(D.DataLoader(part, 3), D.DataLoader(Slow(part), 3)):
        assert [t.tolist() for t in a] == [t.tolist() for t in b]
        assert [t.dtype for t in a] == [t.dtype for t in b]


def test_split_and_concat():
    ac.manual_seed(0)
    a, b = D.random_split(dataset(), [7, 3])
    assert (len(a), len(b)) == (7, 3)
    assert sorted([int(t) for _, t in a] + [int(t) for _, t in b]) == list(range(10))
    assert [len(s) for s in D.random_split(dataset(), [0.5, 0.25, 0.25])] == [6, 2, 2]
    with pytest.raises(ValueError, match="Sum of input lengths does not equal the length of the input dataset!"):
        D.random_split(dataset(), [7, 4])
    both = dataset(3) + dataset(2)
    assert [int(both[k][1]) for k in range(5)] == [0, 1, 2, 0, 1] and int(both[-1][1]) == 1
    with pytest.raises(AssertionError, match="Size mismatch between tensors"):
        D.TensorDataset(ac.ones(2), ac.ones(3))


def test_collating():
    Point = namedtuple("Point", "x y")
    got = D.default_collate([{"a": 1, "b": (2.0, "s"), "c": np.ones(2, "float32"), "d": Point(ac.ones(1), True)}] * 2)
    assert got["a"].tolist() == [1, 1] and got["a"].dtype is ac.int64
    assert got["b"][0].dtype is ac.float64 and got["b"][1] == ["s", "s"]
    assert got["c"].shape == (2, 2) and got["c"].dtype is ac.float32
    assert got["d"].x.shape == (2, 1) and got["d"].y.tolist() == [True, True]
    with pytest.raises(TypeError, match="batch must contain tensors"):
        D.default_collate([object()])
    own = D.DataLoader([1, 2, 3], 2, collate_fn=tuple)
    assert list(own) == [(1, 2), (3,)]
    assert [b.tolist() for b in D.DataLoader([1.0, 2.0, 3.0], batch_size=2)] == [[1.0, 2.0], [3.0]]
    assert list(D.DataLoader([1, 2], batch_size=None)) == [1, 2]


def test_samplers():
    ac.manual_seed(0)
    assert list(D.SequentialSampler([5, 6])) == [0, 1]
    assert sorted(D.RandomSampler(range(5))) == list(range(5))
    assert len(list(D.RandomSampler(range(3), replacement=True, num_samples=9))) == 9
    assert sorted(D.SubsetRandomSampler([4, 2])) == [2, 4]
    assert set(D.WeightedRandomSampler([0, 0, 1], 5)) == {2}
    assert list(D.BatchSampler(range(5), 2, False)) == [[0, 1], [2, 3], [4]]
    assert [t.tolist() for _, t in D.DataLoader(dataset(), batch_sampler=[[3, 1], [0]])] == [[3, 1], [0]]
    assert [t.tolist() for _, t in D.DataLoader(dataset(), sampler=[2, 1, 0], batch_size=2)] == [[2, 1], [0]]
    for kw, text in (({"sampler": [0], "shuffle": True}, "sampler option is mutually exclusive with shuffle"),
                     ({"batch_sampler": [[0]], "batch_size": 2}, "batch_sampler option is mutually exclusive"),
                     ({"batch_size": 0}, "batch_size should be a positive integer value, but got batch_size=0"),
                     ({"num_workers": -1}, "num_workers option should be non-negative")):
        with pytest.raises(ValueError, match=text):
            D.DataLoader(dataset(), **kw)


def test_iterable_and_stacked_datasets():
    class Stream(D.IterableDataset):
        def __iter__(self):
            return iter(range(5))

    assert [b.tolist() for b in D.DataLoader(Stream(), 2)] == [[0, 1], [2, 3], [4]]
    assert [b.tolist() for b in D.DataLoader(Stream(), 2, drop_last=True)] == [[0, 1], [2, 3]]
    with pytest.raises(ValueError, match="expected unspecified shuffle option"):
        D.DataLoader(Stream(), shuffle=True)
    s = D.StackDataset(x=[1, 2], y=[3, 4])
    assert s[1] == {"x": 2, "y": 4} and len(s) == 2
    assert D.get_worker_info() is None


def test_options_that_change_nothing():
    loader = D.DataLoader(dataset(), 5, num_workers=4, pin_memory=True, persistent_workers=True, prefetch_factor=2)
    assert [t.tolist() for _, t in loader] == [[0, 1, 2, 3, 4], [5, 6, 7, 8, 9]]
