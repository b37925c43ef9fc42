"""What is refused, and in which words: PyTorch's, then operation, operands and the user's line; a refused call changes nothing.

The table is compared with PyTorch itself where it is installed.
"""
import pathlib
import re
import sys

import pytest

import autograd_c as ag
import autograd_c.nn.functional  # noqa: F401

try:
    import torch
except ImportError:
    torch = None

FILE = pathlib.Path(__file__).name


def lib(m):
    return m.nn.functional


def _(m, *sizes):
    return m.ones(*sizes)


def whole(m, *values):
    return m.tensor(list(values), dtype=m.int64)


def assign(m, size, key, value):
    _(m, *size)[key] = value


def twice(m):
    y = m.ones(1, requires_grad=True).exp().sum()
    y.backward()
    y.backward()


def overlapping(m, name):
    x = m.arange(5.0)
    getattr(x[1:], name)(x[:-1])


def flag(m):
    (m.ones(2, requires_grad=True) * 2).requires_grad = False


# Each: built-in kind, words to find (of PyTorch's text), the call.  A third item SAME: the text begins as PyTorch's does.
SAME = True
BAD = {
    # elementwise
    "add": (RuntimeError, "The size of tensor a (3) must match the size of tensor b (4) at non-singleton dimension 1", lambda m: _(m, 2, 3) + _(m, 2, 4)),
    "neg bool": (RuntimeError, "Negation, the `-` operator, on a bool tensor is not supported. If you are trying to invert a mask, use the `~` or "
                               "`logical_not()` operator instead.", lambda m: -m.tensor([True])),
    "sub bool": (RuntimeError, "Subtraction, the `-` operator, with two bool tensors is not supported. Use the `^` or `logical_xor()` operator "
                               "instead.", lambda m: m.tensor([True]) - m.tensor([True])),
    "sub of a bool": (RuntimeError, "Subtraction, the `-` operator, with a bool tensor is not supported.", lambda m: m.tensor([True]) - 1),
    "rsub of a bool": (RuntimeError, "Subtraction, the `-` operator, with a bool tensor is not supported.", lambda m: 1.5 - m.tensor([True])),
    "invert": (TypeError, "~ (operator.invert) is only implemented on integer and Boolean-type tensors", lambda m: ~_(m, 2)),
    "exp kind": (TypeError, "exp(): argument 'input' (position 1) must be Tensor, not list", lambda m: m.exp([1.0])),
    "clamp": (RuntimeError, "At least one of 'min' or 'max' must not be None", lambda m: _(m, 2).clamp()),
    "lerp": (RuntimeError, "The size of tensor a", lambda m: m.lerp(_(m, 2), _(m, 3), 0.5)),
    "where": (RuntimeError, "where expected condition to be a boolean tensor", lambda m: m.where(_(m, 2), _(m, 2), _(m, 2))),
    "pow": (RuntimeError, "Integers to negative integer powers are not allowed.", lambda m: whole(m, 2) ** -1),
    "floor_divide": (RuntimeError, "ZeroDivisionError", lambda m: whole(m, 1, 2) // whole(m, 1, 0)),
    "floor_divide 0": (RuntimeError, "ZeroDivisionError", lambda m: whole(m, 1, 2).int() // 0),
    "remainder": (RuntimeError, "ZeroDivisionError", lambda m: 7 % whole(m, 1, 0)),
    "fmod": (RuntimeError, "ZeroDivisionError", lambda m: m.fmod(whole(m, 1).to(m.uint8), 0)),
    "div floor": (RuntimeError, "ZeroDivisionError", lambda m: m.div(whole(m, 1), 0, rounding_mode="floor")),
    "div trunc": (RuntimeError, "ZeroDivisionError", lambda m: m.div(whole(m, 1), 0, rounding_mode="trunc")),
    "ifloordiv": (RuntimeError, "ZeroDivisionError", lambda m: whole(m, 1, 2).floor_divide_(whole(m, 1, 0))),
    # in place
    "add_ dtype": (RuntimeError, "result type Float can't be cast to the desired output type Long", lambda m: whole(m, 1).add_(_(m, 1))),
    "mul_ dtype": (RuntimeError, "result type Float can't be cast to the desired output type Long", lambda m: whole(m, 1).mul_(1.5)),
    "div_ dtype": (RuntimeError, "result type Float can't be cast to the desired output type Long", lambda m: whole(m, 1).div_(2)),
    "sqrt_ dtype": (RuntimeError, "result type Float can't be cast to the desired output type Long", lambda m: whole(m, 1).sqrt_()),
    "add_ bool": (RuntimeError, "result type Long can't be cast to the desired output type Bool", lambda m: m.tensor([True]).add_(whole(m, 2))),
    "add_ grows": (RuntimeError, "output with shape [3] doesn't match the broadcast shape [2, 3]", lambda m: _(m, 3).add_(_(m, 2, 3))),
    "mul_ grows": (RuntimeError, "output with shape [3, 1] doesn't match the broadcast shape [3, 2]", lambda m: _(m, 3, 1).mul_(_(m, 3, 2))),
    "copy_": (RuntimeError, "The size of tensor a (3) must match the size of tensor b (4) at non-singleton dimension 1", lambda m: _(m, 2, 3).copy_(_(m, 4))),
    "copy_ grows": (RuntimeError, "output with shape [3] doesn't match the broadcast shape [2, 3]", lambda m: _(m, 3).copy_(_(m, 2, 3))),
    "copy_ kind": (TypeError, "copy_(): argument 'other' (position 1) must be Tensor, not list", lambda m: _(m, 3).copy_([1.0])),
    "fill_": (RuntimeError, "fill_ only supports 0-dimension value tensor but got tensor with 1 dimensions.", lambda m: _(m, 3).fill_(_(m, 2))),
    "expanded": (RuntimeError, "unsupported operation: more than one element of the written-to tensor refers to a single memory location. Please "
                               "clone() the tensor before performing the operation.", lambda m: _(m, 1).expand(3).add_(1.0)),
    "overlap": (RuntimeError, "unsupported operation: some elements of the input tensor and the written-to tensor refer to a single memory location. "
                              "Please clone() the tensor before performing the operation.", lambda m: overlapping(m, "add_")),
    "overlap copy_": (RuntimeError, "unsupported operation: some elements of the input tensor and the written-to tensor refer to a single memory "
                                    "location.", lambda m: overlapping(m, "copy_")),
    "leaf": (RuntimeError, "a leaf Variable that requires grad is being used in an in-place operation.", lambda m: m.ones(2, requires_grad=True).add_(1)),
    "leaf view": (RuntimeError, "a view of a leaf Variable that requires grad is being used in an in-place operation.",
                  lambda m: m.ones(2, requires_grad=True)[0].add_(1)),
    "leaf set": (RuntimeError, "a view of a leaf Variable that requires grad is being used in an in-place operation.",
                 lambda m: m.ones(2, requires_grad=True).__setitem__(0, 1.0)),
    # values and flags
    "item": (RuntimeError, "a Tensor with 2 elements cannot be converted to Scalar", lambda m: _(m, 2).item()),
    "bool": (RuntimeError, "Boolean value of Tensor with more than one value is ambiguous", lambda m: bool(_(m, 2))),
    "bool of none": (RuntimeError, "Boolean value of Tensor with no values is ambiguous", lambda m: bool(_(m, 0))),
    "len": (TypeError, "len() of a 0-d tensor", lambda m: len(m.tensor(1.0))),
    "iter": (TypeError, "iteration over a 0-d tensor", lambda m: list(m.tensor(1.0))),
    "index": (TypeError, "only integer tensors of a single element can be converted to an index", lambda m: [1, 2][_(m, 1)]),
    "numpy": (RuntimeError, "Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead.",
              lambda m: m.ones(2, requires_grad=True).numpy()),
    "requires_grad": (RuntimeError, "can require gradients", lambda m: whole(m, 1).requires_grad_()),
    "requires_grad=": (RuntimeError, "you can only change requires_grad flags of leaf variables.", flag),
    "retain_grad": (RuntimeError, "can't retain_grad on Tensor that has requires_grad=False", lambda m: _(m, 1).retain_grad()),
    "backward shape": (RuntimeError, "grad can be implicitly created only for scalar outputs", lambda m: m.ones(2, requires_grad=True).exp().backward()),
    "backward": (RuntimeError, "element 0 of tensors does not require grad and does not have a grad_fn", lambda m: _(m, 1).backward()),
    "backward twice": (RuntimeError, "Trying to backward through the graph a second time", twice),
    "grad": (RuntimeError, "appears to not have been used in the graph.",
             lambda m: m.autograd.grad(m.ones(1, requires_grad=True).sum(), m.ones(1, requires_grad=True))),
    # shapes
    "view": (RuntimeError, "shape '[4]' is invalid for input of size 6", lambda m: _(m, 2, 3).view(4)),
    "view strides": (RuntimeError, "view size is not compatible with input tensor's size and stride", lambda m: _(m, 2, 3).t().view(6)),
    "reshape": (RuntimeError, "shape '[4, -1]' is invalid for input of size 6", lambda m: _(m, 2, 3).reshape(4, -1)),
    "reshape -1": (RuntimeError, "only one dimension can be inferred", lambda m: _(m, 2, 3).reshape(-1, -1)),
    "sum": (IndexError, "Dimension out of range (expected to be in range of [-1, 0], but got 2)", lambda m: _(m, 2).sum(2)),
    "sum twice": (RuntimeError, "dim 0 appears multiple times in the list of dims", lambda m: _(m, 2, 2).sum((0, 0))),
    "expand": (RuntimeError, "The expanded size of the tensor (4) must match the existing size (2) at non-singleton dimension 0.  Target sizes: [4, 3].  "
                             "Tensor sizes: [2, 3]", lambda m: _(m, 2, 3).expand(4, 3)),
    "cat": (RuntimeError, "Sizes of tensors must match except in dimension 0. Expected size 2 but got size 3 for tensor number 1 in the list.",
            lambda m: m.cat([_(m, 2, 2), _(m, 2, 3)])),
    "cat none": (ValueError, "expected a non-empty list of Tensors", lambda m: m.cat([])),
    "cat kind": (TypeError, "expected Tensor as element 1 in argument 0, but got float", lambda m: m.cat([_(m, 2), 1.0])),
    "cat tensor": (TypeError, "argument 'tensors' (position 1) must be tuple of Tensors, not Tensor", lambda m: m.cat(_(m, 2))),
    "stack": (RuntimeError, "stack expects each tensor to be equal size, but got [2] at entry 0 and [3] at entry 1", lambda m: m.stack([_(m, 2), _(m, 3)])),
    "split": (RuntimeError, "split_with_sizes expects split_sizes to sum exactly to 5", lambda m: _(m, 5).split([2, 2])),
    "narrow": (RuntimeError, "start (3) + length (4) exceeds dimension size (5).", lambda m: _(m, 5).narrow(0, 3, 4)),
    "mm": (RuntimeError, "mat1 and mat2 shapes cannot be multiplied (2x3 and 2x3)", lambda m: m.mm(_(m, 2, 3), _(m, 2, 3))),
    "matmul": (RuntimeError, "mat1 and mat2 shapes cannot be multiplied (2x3 and 2x3)", lambda m: _(m, 2, 3) @ _(m, 2, 3)),
    "linear": (RuntimeError, "mat1 and mat2 shapes cannot be multiplied (2x3 and 5x4)", lambda m: lib(m).linear(_(m, 2, 3), _(m, 4, 5))),
    "conv2d": (RuntimeError, "Given groups=1, weight of size [6, 3, 5, 5], expected input[1, 1, 28, 28] to have 3 channels, but got 1 channels instead",
               lambda m: lib(m).conv2d(_(m, 1, 1, 28, 28), _(m, 6, 3, 5, 5))),
    "cross_entropy": (ValueError, "Expected input batch_size (2) to match target batch_size (1).", lambda m: lib(m).cross_entropy(_(m, 2, 3), whole(m, 0))),
    "cross_entropy class": (IndexError, "Target 5 is out of bounds.", lambda m: lib(m).cross_entropy(_(m, 2, 3), whole(m, 0, 5))),
    "embedding": (IndexError, "index out of range in self", lambda m: lib(m).embedding(whole(m, 5), _(m, 3, 2))),
    # subscripts
    "get": (IndexError, "index 5 is out of bounds for dimension 0 with size 3", lambda m: _(m, 3)[5]),
    "get many": (IndexError, "too many indices for tensor of dimension 1", lambda m: _(m, 3)[0, 0]),
    "get 0-d": (IndexError, "invalid index of a 0-dim tensor. Use `tensor.item()` in Python", lambda m: m.tensor(1.0)[0]),
    "get slice of 0-d": (IndexError, "slice() cannot be applied to a 0-dim tensor.", lambda m: m.tensor(1.0)[:1]),
    "get step": (ValueError, "step must be greater than zero", lambda m: _(m, 3)[::-1]),
    "get float": (IndexError, "only integers, slices (`:`), ellipsis (`...`), None and long or byte Variables are valid indices (got float)",
                  lambda m: _(m, 3)[1.0]),
    "get list": (IndexError, "index 7 is out of bounds for dimension 0 with size 3", lambda m: _(m, 3)[[0, 7]]),
    "get tensor": (IndexError, "index -4 is out of bounds for dimension 0 with size 3", lambda m: _(m, 3)[whole(m, 0, -4)]),
    "get mask": (IndexError, "The shape of the mask [2] at index 0 does not match the shape of the indexed tensor [3] at index 0",
                 lambda m: _(m, 3)[_(m, 2) > 0]),
    "get by floats": (IndexError, "tensors used as indices must be long, int, byte or bool tensors", lambda m: _(m, 3)[_(m, 2)]),
    "get shapes": (IndexError, "shape mismatch: indexing tensors could not be broadcast together with shapes [2], [3]",
                   lambda m: _(m, 3, 3)[whole(m, 0, 1), whole(m, 0, 1, 2)]),
    "set": (IndexError, "index 5 is out of bounds for dimension 0 with size 3", lambda m: assign(m, (3,), 5, 1.0)),
    "set shape": (RuntimeError, "The expanded size of the tensor (4) must match the existing size (5) at non-singleton dimension 1.  Target sizes: [3, 4]. "
                                " Tensor sizes: [5]", lambda m: assign(m, (2, 3, 4), 0, _(m, 5))),
    "set shape by list": (RuntimeError, "shape mismatch: value tensor of shape [5] cannot be broadcast to indexing result of shape [2, 3]",
                          lambda m: assign(m, (2, 3), [0, 1], _(m, 5))),
    "set dtype": (RuntimeError, "Index put requires the source and destination dtypes match, got Float for the destination and Double for the source.",
                  lambda m: assign(m, (2, 3), [0], _(m, 3).double())),
    # by dim
    "gather": (RuntimeError, "index 2 is out of bounds for dimension 0 with size 2", lambda m: _(m, 2, 3).gather(0, whole(m, 2, 0, 0).reshape(1, 3))),
    "gather < 0": (RuntimeError, "index -1 is out of bounds for dimension 0 with size 2", lambda m: _(m, 2, 3).gather(0, whole(m, -1, 0, 0).reshape(1, 3))),
    "gather dims": (RuntimeError, "Index tensor must have the same number of dimensions as input tensor", lambda m: _(m, 2, 3).gather(0, whole(m, 0))),
    "gather dtype": (RuntimeError, "gather(): Expected dtype int", lambda m: _(m, 2, 3).gather(0, _(m, 1, 3))),
    "scatter": (RuntimeError, "index 2 is out of bounds for dimension 0 with size 2", lambda m: _(m, 2).scatter(0, whole(m, 2), _(m, 1))),
    "scatter dtype": (RuntimeError, "scatter(): Expected self.dtype to be equal to src.dtype", lambda m: _(m, 2).scatter(0, whole(m, 1), _(m, 1).double())),
    "scatter shape": (RuntimeError, "Expected index [1, 3] to be no larger than self [2, 3] apart from dimension 0 and to be no larger size than src [1, 2]",
                      lambda m: _(m, 2, 3).scatter(0, whole(m, 0, 0, 0).reshape(1, 3), _(m, 1, 2))),
    "scatter_ dims": (RuntimeError, "Index tensor must have the same number of dimensions as self tensor",
                      lambda m: _(m, 2, 3).scatter_(0, whole(m, 0), _(m, 1, 3))),
    "scatter reduce": (RuntimeError, "reduce argument must be either add or multiply.", lambda m: _(m, 3).scatter(0, whole(m, 0), 1.0, reduce="foo")),
    "scatter_add": (RuntimeError, "index 5 is out of bounds for dimension 0 with size 2", lambda m: _(m, 2).scatter_add(0, whole(m, 5), _(m, 1))),
    "scatter_reduce": (RuntimeError, "reduce argument must be either sum, prod, mean, amax or amin, got foo",
                       lambda m: _(m, 3).scatter_reduce(0, whole(m, 0), _(m, 1), "foo")),
    "scatter_reduce index": (RuntimeError, "index 3 is out of bounds for dimension 0 with size 3",
                             lambda m: _(m, 3).scatter_reduce(0, whole(m, 3), _(m, 1), "amax")),
    "index_select": (IndexError, "index out of range in self", lambda m: _(m, 3).index_select(0, whole(m, 3))),
    "index_select dims": (IndexError, "index_select(): Index is supposed to be a vector", lambda m: _(m, 3).index_select(0, whole(m, 0).reshape(1, 1))),
    "index_add": (IndexError, "index out of range in self", lambda m: _(m, 3).index_add(0, whole(m, 3), _(m, 1))),
    "index_add n": (RuntimeError, "Number of indices (2) should be equal to source.size(dim): (1), for dim: 0",
                    lambda m: _(m, 3).index_add(0, whole(m, 0, 1), _(m, 1))),
    "index_copy": (IndexError, "index 3 is out of bounds for dimension 0 with size 3", lambda m: _(m, 3).index_copy(0, whole(m, 3), _(m, 1))),
    "index_copy n": (IndexError, "index_copy_(): Number of indices (2) should be equal to source.size(dim) (1)",
                     lambda m: _(m, 3).index_copy(0, whole(m, 0, 1), _(m, 1))),
    "index_copy shape": (RuntimeError, "index_copy_(): Source/destination tensor must have same slice shapes.",
                         lambda m: _(m, 3, 2).index_copy(0, whole(m, 0), _(m, 1, 3))),
    "index_fill": (IndexError, "index 3 is out of bounds for dimension 0 with size 3", lambda m: _(m, 3).index_fill(0, whole(m, 3), 0.0)),
    "index_fill value": (RuntimeError, "index_fill_ only supports a 0-dimensional value tensor, but got tensor with 1 dimension(s).",
                         lambda m: _(m, 3).index_fill(0, whole(m, 0), _(m, 2))),
    "index_reduce": (RuntimeError, "index_reduce(): Expected reduce to be one of prod, mean, amax or amin but got sum.",
                     lambda m: _(m, 3).index_reduce(0, whole(m, 0), _(m, 1), "sum")),
    "take": (IndexError, "out of range: tried to access index 3 on a tensor of 3 elements.", lambda m: _(m, 3).take(whole(m, 3))),
    "take dtype": (RuntimeError, "take(): Expected a long tensor for index, but got Float", lambda m: _(m, 3).take(_(m, 1))),
    "put": (IndexError, "put_(): Expected source and index to have the same number of elements, but got source.numel() = 1, index.numel() = 2",
            lambda m: _(m, 3).put(whole(m, 0, 1), _(m, 1))),
    "put_ dtype": (RuntimeError, "put_(): self and source expected to have the same dtype, but got self.dtype = Float and source.dtype = Double",
                   lambda m: _(m, 3).put_(whole(m, 0), _(m, 1).double())),
    "take_along_dim": (RuntimeError, "torch.take_along_dim(): input and indices should have the same number of dimensions, but got 2 dimensions for input, "
                                     "and 1 dimensions for indices", lambda m: m.take_along_dim(_(m, 3, 2), whole(m, 0), 0)),
    "masked_fill": (RuntimeError, "masked_fill_ only supports boolean masks, but got mask with dtype float", lambda m: _(m, 3).masked_fill(_(m, 3), 0.0)),
    "masked_fill value": (RuntimeError, "only supports a 0-dimensional value tensor, but got tensor with 1 dimension(s).",
                          lambda m: _(m, 3).masked_fill(_(m, 3) > 0, _(m, 2))),
    "masked_select": (RuntimeError, "masked_select: expected BoolTensor for mask", lambda m: _(m, 3).masked_select(_(m, 3))),
    "masked_select shape": (RuntimeError, "must match the size of tensor b", lambda m: _(m, 3).masked_select(_(m, 2) > 0)),
    "masked_scatter": (RuntimeError, "Number of elements of source < number of ones in mask", lambda m: _(m, 3).masked_scatter(_(m, 3) > 0, _(m, 2))),
    "index_put": (IndexError, "index 3 is out of bounds for dimension 0 with size 3", lambda m: _(m, 3).index_put((whole(m, 3),), _(m, 1))),
    "index_put kind": (TypeError, "index_put(): argument 'indices' (position 1) must be tuple of Tensors, not Tensor",
                       lambda m: _(m, 3).index_put(whole(m, 0), _(m, 1))),
    "select_scatter": (RuntimeError, "expected src to have a size equal to the slice of self. src size = [3], slice size = [2]",
                       lambda m: m.select_scatter(_(m, 3, 2), _(m, 3), 0, 0)),
    "slice_scatter": (RuntimeError, "expected src to have a size equal to the slice of self. src size = [3], slice size = [2]",
                      lambda m: m.slice_scatter(_(m, 3), _(m, 3), 0, 0, 3, 2)),
    "argmax": (IndexError, "argmax(): Expected reduction dim to be specified for input.numel() == 0.", lambda m: _(m, 0).argmax()),
    "topk": (RuntimeError, "selected index k out of range", lambda m: _(m, 2).topk(3)),
    "einsum": (RuntimeError, "einsum(): subscript j has size", lambda m: m.einsum("ij,jk", _(m, 2, 3), _(m, 2, 3))),
}
SUFFIX = re.compile(r" \[\w+\(.*\)( in \w+(\(.*\))?)?, at " + re.escape(FILE) + r":\d+ in \S+\]$")


@pytest.mark.parametrize("case", BAD)
@pytest.mark.parametrize("tracking", [True, False])
def test_words(case, tracking):
    """The exception is of PyTorch's kind and says PyTorch's words, what was called with which operands, and where."""
    kind, words, call = BAD[case]
    ag.set_line_tracking(tracking)
    try:
        with pytest.raises(kind) as info:
            call(ag)
    finally:
        ag.set_line_tracking(True)
    text = str(info.value)
    assert words in text, text
    assert SUFFIX.search(text), text
    assert isinstance(info.value, ag.Error)


@pytest.mark.skipif(torch is None, reason="compares with PyTorch")
@pytest.mark.parametrize("case", BAD)
@pytest.mark.filterwarnings("ignore")
def test_words_are_pytorchs(case):
    kind, words, call = BAD[case]
    with pytest.raises(kind) as info:
        call(torch)
    assert type(info.value) is kind
    assert words.lower() in str(info.value).lower()


def test_line_is_the_users_own():
    """The line of the call, also when the failure is deep in the package, and in a function of several ops."""
    def caller():
        return autograd_c_call()

    def autograd_c_call():
        return ag.nn.functional.huber_loss(ag.ones(2), ag.ones(3))  # this line

    line = autograd_c_call.__code__.co_firstlineno + 1
    with pytest.raises(RuntimeError, match=rf"huber_loss\(float32\[2\], float32\[3\]\)\]?.*, at {FILE}:{line} in autograd_c_call\]$"), \
            pytest.warns(UserWarning, match="target size"):
        caller()


def test_a_module_names_itself():
    with pytest.raises(RuntimeError, match=r"\[addmm\(float32\[2\], float32\[4, 5\], float32\[3, 2\]\) in Linear\(float32\[4, 5\]\), at "):
        ag.nn.Linear(3, 2)(ag.ones(4, 5))


@pytest.mark.parametrize("case", BAD)
@pytest.mark.filterwarnings("ignore")
def test_nothing_changes(case):
    """Operands are bit by bit what they were, with their versions, and nothing stays alive (which conftest looks at)."""
    kept = []

    class Keep:
        """Hands out tensors and remembers them."""

        def __getattr__(self, name):
            value = getattr(ag, name)
            if name not in ("ones", "tensor", "arange"):
                return value

            def make(*args, **options):
                t = value(*args, **options)
                kept.append((t, t.detach().clone(), t._version))
                return t

            return make

    if case == "backward twice":
        return  # its first half is no failure
    with pytest.raises(Exception):
        BAD[case][2](Keep())
    for t, old, version in kept:
        assert t.shape == old.shape and t.tolist() == old.tolist()
        assert t._version == version
        assert t.grad is None and t.is_leaf
    sys.exc_info()


FUNCTIONS_OF_DIM = ("sum mean prod amax amin argmax argmin softmax log_softmax cumsum cumprod logsumexp std var any all median sort argsort "
                    "flip unbind max min squeeze nansum").split()


@pytest.mark.parametrize("name", FUNCTIONS_OF_DIM)
def test_dims(name):
    """A dim out of range names op, shape and line."""
    with pytest.raises(IndexError, match=rf"Dimension out of range \(expected to be in range of \[-2, 1\], but got 2\) \[\w+\(float32\[2, 3\]\).*, at {FILE}:\d+ in test_dims\]$"):
        getattr(ag.ones(2, 3), name)(2)


@pytest.mark.parametrize("name", "add sub mul div atan2 maximum minimum pow eq lt floor_divide remainder fmod logical_and hypot".split())
def test_pairs(name):
    """Two shapes that do not meet."""
    with pytest.raises(RuntimeError, match=rf"The size of tensor a \(3\) must match the size of tensor b \(4\).* \[\w+\(float32\[3\], float32\[4\]\).*, at {FILE}:\d+ in test_pairs\]$"):
        getattr(ag, name)(ag.ones(3), ag.ones(4))
    with pytest.raises(TypeError):
        getattr(ag, name)("a", ag.ones(4))


# ---- frozen ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fn", [lambda a, b: a // b, lambda a, b: a % b, lambda a, b: ag.fmod(a, b), lambda a, b: (a + 1) // (b * 1) + 2])
@pytest.mark.parametrize("dtype", [ag.int32, ag.int64, ag.uint8])
def test_replay_divides_by_zero(fn, dtype):
    frozen = ag.freeze(fn)
    a, b, zero = ag.tensor([7, 8, 9], dtype=dtype), ag.tensor([2, 3, 4], dtype=dtype), ag.tensor([2, 0, 4], dtype=dtype)
    want = fn(a, b).tolist()
    assert frozen(a, b).tolist() == want == frozen(a, b).tolist()
    for _ in range(2):
        with pytest.raises(RuntimeError, match="ZeroDivisionError"):
            frozen(a, zero)
        assert a.tolist() == [7, 8, 9] and zero.tolist() == [2, 0, 4]
        assert frozen(a, b).tolist() == want


def test_replay_leaves_the_target_of_a_failed_write():
    a = ag.tensor([7, 8])

    @ag.freeze
    def step(b):
        a.floor_divide_(b)
        return a + 0

    step(ag.tensor([1, 1]))
    step(ag.tensor([1, 2]))
    assert a.tolist() == [7, 4]
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        step(ag.tensor([1, 0]))
    assert a.tolist() == [7, 4]


@pytest.mark.parametrize("name, call", {
    "get": lambda x, i: x[i],
    "gather": lambda x, i: x.gather(0, i),
    "index_select": lambda x, i: x.index_select(0, i),
    "take": lambda x, i: x.take(i),
    "scatter": lambda x, i: x.scatter(0, i, 5.0),
    "scatter_add": lambda x, i: x.scatter_add(0, i, ag.ones(2)),
    "index_add": lambda x, i: x.index_add(0, i, ag.ones(2)),
    "index_copy": lambda x, i: x.index_copy(0, i, ag.ones(2)),
    "index_fill": lambda x, i: x.index_fill(0, i, 1.0),
    "index_put": lambda x, i: x.index_put((i,), ag.ones(2), accumulate=True),
    "embedding": lambda x, i: ag.nn.functional.embedding(i, x.reshape(4, 1)),
    "take_along_dim": lambda x, i: ag.take_along_dim(x, i, 0),
}.items())
def test_replay_finds_bad_indices(name, call):
    x, good = ag.arange(4.0), ag.tensor([1, 3])
    frozen = ag.freeze(lambda i: call(x, i))
    want = frozen(good).tolist()
    assert frozen(good).tolist() == want
    for bad in ([1, 4], [-5, 0], [2**62, 0], [-(2**63), 1]):
        with pytest.raises((IndexError, RuntimeError), match="out of (range|bounds)"):
            frozen(ag.tensor(bad))
        with pytest.raises((IndexError, RuntimeError), match="out of (range|bounds)"):
            call(x, ag.tensor(bad))
    assert x.tolist() == [0, 1, 2, 3]
    assert frozen(good).tolist() == want


def test_divisions_at_the_ends():
    """The smallest integer by -1 wraps, as in hardware that does not trap; uint8 is unsigned."""
    for dtype, low in ((ag.int32, -2**31), (ag.int64, -2**63)):
        a = ag.tensor([low, 5], dtype=dtype)
        assert (a // -1).tolist() == [low, -5] and (a % -1).tolist() == [0, 0] and ag.fmod(a, -1).tolist() == [0, 0]
        assert ag.div(a, -1, rounding_mode="trunc").tolist() == [low, -5]
    assert ag.div(ag.tensor([2**62 + 1]), 2, rounding_mode="trunc").tolist() == [2**61]
    assert ag.div(ag.tensor([-7, 7]), 2, rounding_mode="trunc").tolist() == [-3, 3]
    assert (ag.tensor([], dtype=ag.int64) // 0).tolist() == []
    assert (ag.tensor([1.0]) // 0).tolist() == [float("inf")]


def test_functions_of_tensors_raise_by_refuse():
    """A bare `raise TypeError(...)` would say neither operands nor line."""
    package = pathlib.Path(ag.__file__).parent
    no_tensors = {"_dtypes.py", "_modes.py", "_ffi.py"}
    files = [p for p in [*package.glob("_*.py"), package / "linalg.py", package / "random.py", *(package / "nn").glob("_*.py"),
                         package / "nn" / "functional.py"] if p.name not in no_tensors]
    assert len(files) > 15
    bare = re.compile(r"raise (RuntimeError|IndexError|ValueError|TypeError|NotImplementedError)\(")
    found = [f"{p.name}:{k}" for p in files for k, line in enumerate(p.read_text(encoding="utf-8").split("\n"), 1) if bare.search(line)]
    assert not found, f"raise refuse(kind, text) instead: {found}"
