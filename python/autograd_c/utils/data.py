"""Datasets, samplers and DataLoader.

Everything runs in the calling thread: num_workers, pin_memory and prefetch_factor are accepted and ignored.  Batches of
a TensorDataset are one index_select per tensor.
"""
from collections.abc import Mapping as _Mapping
import bisect as _bisect
import itertools as _itertools
import math as _math

from .._create import arange as _arange, tensor as _tensor
from .._index import index_select as _index_select
from .._shape import stack as _stack
from .._tensor import Tensor
from ..random import randint as _randint, randperm as _randperm


class Dataset:
    """Base of data that is read by index: subclasses give __getitem__ and __len__."""

    def __getitem__(self, index):
        raise NotImplementedError("Subclasses of Dataset should implement __getitem__.")

    def __add__(self, other):
        return ConcatDataset([self, other])


class IterableDataset(Dataset):
    """Base of data that is read in order: subclasses give __iter__."""

    def __iter__(self):
        raise NotImplementedError("Subclasses of IterableDataset should implement __iter__.")


class TensorDataset(Dataset):
    """Tensors of the same first size: item k is the tuple of their k-th rows."""

    def __init__(self, *tensors):
        if not all(t.shape[0] == tensors[0].shape[0] for t in tensors):
            raise AssertionError("Size mismatch between tensors")
        self.tensors = tensors

    def __getitem__(self, index):
        return tuple([t[index] for t in self.tensors])

    def __len__(self):
        return self.tensors[0].shape[0]


class StackDataset(Dataset):
    """Datasets side by side: item k is the tuple (or dict) of their k-th items."""

    def __init__(self, *args, **kwargs):
        if bool(args) == bool(kwargs):
            raise ValueError("Supported either `tuple`- (via `args`) or `dict`- (via `kwargs`) like input/output, but both types are given."
                             if args else "At least one dataset should be passed")
        self.datasets = args or kwargs
        parts = list(args or kwargs.values())
        if any(len(d) != len(parts[0]) for d in parts):
            raise ValueError("Size mismatch between datasets")
        self._length = len(parts[0])

    def __getitem__(self, index):
        if isinstance(self.datasets, dict):
            return {k: d[index] for k, d in self.datasets.items()}
        return tuple([d[index] for d in self.datasets])

    def __len__(self):
        return self._length


class ConcatDataset(Dataset):
    """Datasets one after the other."""

    def __init__(self, datasets):
        self.datasets = list(datasets)
        if not self.datasets:
            raise AssertionError("datasets should not be an empty iterable")
        self.cumulative_sizes = list(_itertools.accumulate(map(len, self.datasets)))

    def __len__(self):
        return self.cumulative_sizes[-1]

    def __getitem__(self, index):
        if index < 0:
            if -index > len(self):
                raise ValueError("absolute value of index should not exceed dataset length")
            index += len(self)
        k = _bisect.bisect_right(self.cumulative_sizes, index)
        return self.datasets[k][index - (self.cumulative_sizes[k - 1] if k else 0)]


class Subset(Dataset):
    """The items of a dataset at the listed indices."""

    def __init__(self, dataset, indices):
        self.dataset, self.indices = dataset, indices

    def __getitem__(self, index):
        if isinstance(index, list):
            return self.dataset[[self.indices[k] for k in index]]
        return self.dataset[self.indices[index]]

    def __len__(self):
        return len(self.indices)


def random_split(dataset, lengths, generator=None):
    """Subsets without common items, drawn at random: of the given sizes, or of shares that add up to 1."""
    n = len(dataset)
    if _math.isclose(sum(lengths), 1) and sum(lengths) <= 1:
        shares, lengths = list(lengths), []
        for k, share in enumerate(shares):
            if not 0 <= share <= 1:
                raise ValueError(f"Fraction at index {k} is not between 0 and 1")
            lengths.append(int(_math.floor(n * share)))
        for k in range(n - sum(lengths)):  # what rounding left over goes round
            lengths[k % len(lengths)] += 1
    if sum(lengths) != n:
        raise ValueError("Sum of input lengths does not equal the length of the input dataset!")
    order = _randperm(n, generator=generator).tolist()
    ends = _itertools.accumulate(lengths)
    return [Subset(dataset, order[end - length:end]) for end, length in zip(ends, lengths)]


# ---- orders ----------------------------------------------------------------------------------------------


class Sampler:
    """Base of orders of indices."""

    def __init__(self, data_source=None):
        pass

    def __iter__(self):
        raise NotImplementedError


class SequentialSampler(Sampler):
    """0, 1, 2 ..."""

    def __init__(self, data_source):
        self.data_source = data_source

    def __iter__(self):
        return iter(range(len(self.data_source)))

    def __len__(self):
        return len(self.data_source)


class RandomSampler(Sampler):
    """A new random order each time; replacement: num_samples independent draws."""

    def __init__(self, data_source, replacement=False, num_samples=None, generator=None):
        if not isinstance(replacement, bool):
            raise TypeError(f"replacement should be a boolean value, but got replacement={replacement}")
        self.data_source, self.replacement, self.generator = data_source, replacement, generator
        self._num_samples = num_samples
        if not isinstance(self.num_samples, int) or self.num_samples < 0 or (self.num_samples == 0 and num_samples is not None):
            raise ValueError(f"num_samples should be a positive integer value, but got num_samples={self.num_samples}")

    @property
    def num_samples(self):
        return len(self.data_source) if self._num_samples is None else self._num_samples

    def __iter__(self):
        n = len(self.data_source)
        if self.replacement:
            yield from _randint(n, (self.num_samples,), generator=self.generator).tolist()
            return
        left = self.num_samples
        while left > 0 and n:
            order = _randperm(n, generator=self.generator).tolist()
            yield from order[:left]
            left -= n

    def __len__(self):
        return self.num_samples


class SubsetRandomSampler(Sampler):
    """The listed indices in a random order."""

    def __init__(self, indices, generator=None):
        self.indices, self.generator = indices, generator

    def __iter__(self):
        for k in _randperm(len(self.indices), generator=self.generator).tolist():
            yield self.indices[k]

    def __len__(self):
        return len(self.indices)


class WeightedRandomSampler(Sampler):
    """Indices drawn with the given weights."""

    def __init__(self, weights, num_samples, replacement=True, generator=None):
        self.weights = _tensor(list(map(float, weights)), dtype="float64")
        self.num_samples, self.replacement, self.generator = num_samples, replacement, generator

    def __iter__(self):
        from ..random import multinomial

        return iter(multinomial(self.weights, self.num_samples, self.replacement, generator=self.generator).tolist())

    def __len__(self):
        return self.num_samples


class BatchSampler(Sampler):
    """Lists of batch_size indices of another sampler."""

    def __init__(self, sampler, batch_size, drop_last):
        if not isinstance(batch_size, int) or isinstance(batch_size, bool) or batch_size <= 0:
            raise ValueError(f"batch_size should be a positive integer value, but got batch_size={batch_size}")
        if not isinstance(drop_last, bool):
            raise ValueError(f"drop_last should be a boolean value, but got drop_last={drop_last}")
        self.sampler, self.batch_size, self.drop_last = sampler, batch_size, drop_last

    def __iter__(self):
        indices = iter(self.sampler)
        while True:
            batch = list(_itertools.islice(indices, self.batch_size))
            if not batch or (self.drop_last and len(batch) < self.batch_size):
                return
            yield batch

    def __len__(self):
        n = len(self.sampler)
        return n // self.batch_size if self.drop_last else -(-n // self.batch_size)


# ---- batches ---------------------------------------------------------------------------------------------


def default_collate(batch):
    """A list of items as one batch: tensors are stacked, numbers become tensors, tuples and dicts are gone into."""
    first = batch[0]
    kind = type(first)
    if isinstance(first, Tensor):
        return _stack(batch, 0)
    if isinstance(first, float):
        return _tensor(batch, dtype="float64")
    if isinstance(first, (bool, int)):
        return _tensor(batch)
    if isinstance(first, (str, bytes)):
        return batch
    if isinstance(first, _Mapping):
        return {key: default_collate([item[key] for item in batch]) for key in first}
    if isinstance(first, tuple) and hasattr(first, "_fields"):
        return kind(*[default_collate(list(part)) for part in zip(*batch)])
    if isinstance(first, (tuple, list)):
        if any(len(item) != len(first) for item in batch):
            raise RuntimeError("each element in list of batch should be of equal size")
        return [default_collate(list(part)) for part in zip(*batch)]
    if kind.__module__ == "numpy":
        import numpy

        from .._create import as_tensor

        return as_tensor(numpy.stack(batch) if isinstance(first, numpy.ndarray) else numpy.array(batch))
    raise TypeError(f"default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found {kind}")


def default_convert(data):
    """NumPy arrays as tensors, in any nesting; everything else as it is."""
    kind = type(data)
    if kind.__module__ == "numpy":
        from .._create import as_tensor

        return as_tensor(data)
    if isinstance(data, _Mapping):
        return {key: default_convert(value) for key, value in data.items()}
    if isinstance(data, tuple) and hasattr(data, "_fields"):
        return kind(*map(default_convert, data))
    if isinstance(data, (tuple, list)):
        return kind(map(default_convert, data))
    return data


class DataLoader:
    """Batches of a dataset: `for x, y in DataLoader(dataset, batch_size=32, shuffle=True)`.

    collate_fn joins the items of a batch (default_collate); drop_last leaves out an incomplete last batch; batch_size
    None gives single items.  A new pass draws a new order from `generator` (or the default one).
    """

    def __init__(self, dataset, batch_size=1, shuffle=None, sampler=None, batch_sampler=None, num_workers=0, collate_fn=None,
                 pin_memory=False, drop_last=False, timeout=0, worker_init_fn=None, multiprocessing_context=None, generator=None, *,
                 prefetch_factor=None, persistent_workers=False, pin_memory_device="", in_order=True):
        if num_workers < 0:
            raise ValueError("num_workers option should be non-negative; use num_workers=0 to disable multiprocessing.")
        if sampler is not None and shuffle:
            raise ValueError("sampler option is mutually exclusive with shuffle")
        if batch_sampler is not None and (batch_size != 1 or shuffle or sampler is not None or drop_last):
            raise ValueError("batch_sampler option is mutually exclusive with batch_size, shuffle, sampler, and drop_last")
        self.dataset, self.num_workers, self.pin_memory = dataset, num_workers, pin_memory
        self.generator, self.drop_last, self.timeout = generator, drop_last, timeout
        self._iterable = isinstance(dataset, IterableDataset)
        if self._iterable:
            if shuffle:
                raise ValueError(f"DataLoader with IterableDataset: expected unspecified shuffle option, but got shuffle={shuffle}")
        elif batch_sampler is None and sampler is None:
            sampler = RandomSampler(dataset, generator=generator) if shuffle else SequentialSampler(dataset)
        if batch_sampler is not None:
            batch_size = None
        elif batch_size is None:
            if drop_last:
                raise ValueError("batch_size=None option disables auto-batching and is mutually exclusive with drop_last")
        elif not self._iterable:
            batch_sampler = BatchSampler(sampler, batch_size, drop_last)
        self.batch_size, self.sampler, self.batch_sampler = batch_size, sampler, batch_sampler
        self._batched = batch_size is not None or batch_sampler is not None
        self.collate_fn = collate_fn or (default_collate if self._batched else default_convert)

    def _rows(self):
        """(tensors, indices of their rows or None) when whole batches can be selected at once, otherwise None."""
        d, indices = self.dataset, None
        while type(d) is Subset:
            indices = list(d.indices) if indices is None else [d.indices[k] for k in indices]
            d = d.dataset
        return (d.tensors, indices) if type(d) is TensorDataset and self.collate_fn is default_collate else None

    def __iter__(self):
        if self._iterable:
            return self._stream()
        if not self._batched:
            return (self.collate_fn(self.dataset[k]) for k in self.sampler)
        rows = self._rows()
        if rows is not None:
            return self._select(*rows)
        if hasattr(self.dataset, "__getitems__"):
            return (self.collate_fn(self.dataset.__getitems__(batch)) for batch in self.batch_sampler)
        return (self.collate_fn([self.dataset[k] for k in batch]) for batch in self.batch_sampler)

    def _select(self, tensors, indices):
        for index in self._orders(indices):
            yield [_index_select(t, 0, index) for t in tensors]

    def _orders(self, indices):
        """Row numbers of each batch as a tensor; indices: the rows of a Subset."""
        batches = self.batch_sampler
        order = None
        if type(batches) is BatchSampler:
            sampler, n = batches.sampler, len(self.dataset)
            if type(sampler) is SequentialSampler:
                order = _arange(n)
            elif type(sampler) is RandomSampler and not sampler.replacement and sampler.num_samples == n:
                order = _randperm(n, generator=sampler.generator)
        if order is None:
            for batch in batches:
                yield _tensor(batch if indices is None else [indices[k] for k in batch])
            return
        if indices is not None:  # one order for the whole pass, batches are pieces of it
            order = _index_select(_tensor(indices), 0, order)
        size = batches.batch_size
        for k in range(0, n - size + 1 if batches.drop_last else n, size):
            yield order[k:k + size]

    def _stream(self):
        items = iter(self.dataset)
        if not self._batched:
            yield from map(self.collate_fn, items)
            return
        while True:
            batch = list(_itertools.islice(items, self.batch_size))
            if not batch or (self.drop_last and len(batch) < self.batch_size):
                return
            yield self.collate_fn(batch)

    def __len__(self):
        if self._iterable:
            n = len(self.dataset)
            if self.batch_size is None:
                return n
            return n // self.batch_size if self.drop_last else -(-n // self.batch_size)
        return len(self.batch_sampler if self._batched else self.sampler)


def get_worker_info():
    """None: data is always loaded in the calling thread."""
    return None
