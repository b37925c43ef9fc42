"""Operations of static graphs under TF1's names: each makes a node."""
from .. import random as _random
from .. import _create, _elementwise as _e, _reduce, _shape
from .._call import binary_at
from .._dtypes import as_dtype, float32, int64
from .._ffi import OPS
from ..nn import functional as _F
from . import _graph
from ._graph import Group, Initializer, Node, constant, get_default_graph, make


def _elementwise(op, fn, n, doc):
    if n == 1:
        def f(x, name=None):
            return make(op, fn, [x], name)
    else:
        def f(x, y, name=None):
            return make(op, fn, [x, y], name)
    f.__name__ = f.__qualname__ = op
    f.__doc__ = doc
    return f


_ONE = {"square": _e.square, "sqrt": _e.sqrt, "rsqrt": _e.rsqrt, "exp": _e.exp, "log": _e.log, "log1p": _e.log1p, "tanh": _e.tanh,
        "sigmoid": _e.sigmoid, "sin": _e.sin, "cos": _e.cos, "negative": _e.neg, "abs": _e.abs, "sign": _e.sign, "floor": _e.floor,
        "ceil": _e.ceil, "round": _e.round, "logical_not": _e.logical_not, "is_nan": _e.isnan, "reciprocal": _e.reciprocal, "erf": _e.erf}
_TWO = {"add": _graph.add, "subtract": _graph.subtract, "multiply": _graph.multiply, "divide": _graph.divide, "truediv": _graph.divide,
        "div": _graph.divide, "pow": _graph.power, "floordiv": _graph.floordiv, "mod": _graph.mod,
        "maximum": lambda x, y: _pairwise("maximum", x, y), "minimum": lambda x, y: _pairwise("minimum", x, y),
        "equal": lambda x, y: x == y, "not_equal": lambda x, y: x != y, "less": lambda x, y: x < y, "less_equal": lambda x, y: x <= y,
        "greater": lambda x, y: x > y, "greater_equal": lambda x, y: x >= y,
        "logical_and": lambda x, y: _pairwise("logical_and", x, y), "logical_or": lambda x, y: _pairwise("logical_or", x, y),
        "squared_difference": lambda x, y: _e.square(x - y)}


def _pairwise(name, x, y):
    """A row of two operands, either of which may be a number."""
    return binary_at(None, OPS[name], name, x, y)


for _name, _fn in _ONE.items():
    globals()[_name] = _elementwise(_name, _fn, 1, f"{_name}(x), elementwise.")
for _name, _fn in _TWO.items():
    globals()[_name] = _elementwise(_name, _fn, 2, f"{_name}(x, y), elementwise over the broadcast shape.")
sub, mul, neg = globals()["subtract"], globals()["multiply"], globals()["negative"]


def matmul(a, b, transpose_a=False, transpose_b=False, name=None):
    """Matrix product; transpose_a, transpose_b: of the last two dims."""
    def fn(x, y):
        return (x.transpose(-1, -2) if transpose_a else x) @ (y.transpose(-1, -2) if transpose_b else y)

    return make("MatMul", fn, [a, b], name)


def _reduction(op, fn):
    def f(input_tensor, axis=None, keepdims=False, name=None, reduction_indices=None, keep_dims=None):
        dim = axis if axis is not None else reduction_indices
        dim = tuple(dim) if isinstance(dim, (list, tuple)) else dim
        keep = bool(keepdims if keep_dims is None else keep_dims)
        return make(op, lambda x: fn(x, dim, keep), [input_tensor], name)

    f.__name__ = f.__qualname__ = op
    f.__doc__ = f"{op}(x, axis, keepdims): over all elements, or over axis (a number or a list)."
    return f


def _all_dims(fn):
    return lambda x, dim, keep: fn(x, tuple(range(x.dim())) if dim is None else dim, keep)


reduce_sum = _reduction("reduce_sum", lambda x, dim, keep: _reduce.sum(x, dim, keep))
reduce_mean = _reduction("reduce_mean", lambda x, dim, keep: _reduce.mean(x, dim, keep))
reduce_max = _reduction("reduce_max", _all_dims(_reduce.amax))
reduce_min = _reduction("reduce_min", _all_dims(_reduce.amin))
reduce_prod = _reduction("reduce_prod", lambda x, dim, keep: _reduce.prod(x, dim, keep) if dim is not None else _reduce.prod(x))
reduce_any = _reduction("reduce_any", lambda x, dim, keep: _reduce.any(x, dim, keep) if dim is not None else _reduce.any(x))
reduce_all = _reduction("reduce_all", lambda x, dim, keep: _reduce.all(x, dim, keep) if dim is not None else _reduce.all(x))
reduce_logsumexp = _reduction("reduce_logsumexp", _all_dims(_reduce.logsumexp))


def argmax(input, axis=0, name=None, dimension=None, output_type=int64):
    """Index of the largest element along axis."""
    d = axis if dimension is None else dimension
    return make("ArgMax", lambda x: _reduce.argmax(x, d).to(as_dtype(output_type)), [input], name)


arg_max = argmax


def argmin(input, axis=0, name=None, output_type=int64):
    return make("ArgMin", lambda x: _reduce.argmin(x, axis).to(as_dtype(output_type)), [input], name)


def cast(x, dtype, name=None):
    d = as_dtype(dtype)
    return make("Cast", lambda t: t.to(d), [x], name)


def to_float(x, name=None):
    return cast(x, float32, name)


def identity(input, name=None):
    return make("Identity", lambda t: t.clone(), [input], name)


def stop_gradient(input, name=None):
    """The same value, through which no gradient flows."""
    return make("StopGradient", lambda t: t.detach().clone(), [input], name)


def reshape(tensor, shape, name=None):
    s = tuple(shape)
    return make("Reshape", lambda t: t.reshape(s), [tensor], name)


def transpose(a, perm=None, name=None):
    def fn(t):
        return t.permute(*(perm if perm is not None else range(t.dim() - 1, -1, -1)))

    return make("Transpose", fn, [a], name)


def expand_dims(input, axis=None, name=None, dim=None):
    d = axis if axis is not None else dim
    return make("ExpandDims", lambda t: t.unsqueeze(d), [input], name)


def squeeze(input, axis=None, name=None):
    d = tuple(axis) if isinstance(axis, (list, tuple)) else axis
    return make("Squeeze", lambda t: t.squeeze() if d is None else t.squeeze(d), [input], name)


def concat(values, axis, name="concat"):
    return make("ConcatV2", lambda *t: _shape.cat(t, axis), list(values), name)


def stack(values, axis=0, name="stack"):
    return make("Pack", lambda *t: _shape.stack(t, axis), list(values), name)


def gather(params, indices, name=None, axis=0):
    """Slices of params at the indices."""
    def fn(x, k):
        r = x.index_select(axis, k.reshape(-1).long())
        return r.reshape(*x.shape[:axis], *k.shape, *x.shape[axis + 1:])

    return make("Gather", fn, [params, _graph.lift(indices, int64)], name)


def where(condition, x, y, name=None):
    """x where condition holds, else y."""
    return make("Select", lambda c, a, b: _e.where(c, a, b), [condition, x, y], name)


def clip_by_value(t, clip_value_min, clip_value_max, name=None):
    return make("clip_by_value", lambda x: x.clamp(clip_value_min, clip_value_max), [t], name)


def one_hot(indices, depth, on_value=1.0, off_value=0.0, name=None, dtype=float32):
    def fn(k):
        hot = (k.unsqueeze(-1) == _create.arange(depth)).to(as_dtype(dtype))
        return hot * (on_value - off_value) + off_value if (on_value, off_value) != (1.0, 0.0) else hot

    return make("OneHot", fn, [_graph.lift(indices, int64)], name)


def zeros(shape, dtype=float32, name=None):
    return constant(_create.zeros(*shape, dtype=dtype), name=name)


def ones(shape, dtype=float32, name=None):
    return constant(_create.ones(*shape, dtype=dtype), name=name)


def fill(dims, value, name=None):
    return constant(value, shape=tuple(dims), name=name)


def zeros_like(tensor, name=None):
    return make("ZerosLike", lambda t: _create.zeros_like(t), [tensor], name)


def ones_like(tensor, name=None):
    return make("OnesLike", lambda t: _create.ones_like(t), [tensor], name)


# ---- random numbers: new ones at each run ----------------------------------------------------------------


def _drawn(op, shape, dtype, fill, name):
    d, s = as_dtype(dtype), tuple(shape)
    return Node(op, lambda: fill(_create.empty(*s, dtype=d)), (), name, s, d)


def random_normal(shape, mean=0.0, stddev=1.0, dtype=float32, seed=None, name=None):
    return _drawn("random_normal", shape, dtype, lambda t: t.normal_(mean, stddev), name)


def random_uniform(shape, minval=0.0, maxval=1.0, dtype=float32, seed=None, name=None):
    return _drawn("random_uniform", shape, dtype, lambda t: t.uniform_(minval, maxval), name)


def truncated_normal(shape, mean=0.0, stddev=1.0, dtype=float32, seed=None, name=None):
    """Normal numbers within two standard deviations."""
    return _drawn("truncated_normal", shape, dtype, lambda t: t.copy_(
        _random.trunc_normal(t.shape, mean, stddev, mean - 2 * stddev, mean + 2 * stddev)), name)


def set_random_seed(seed):
    _random.manual_seed(seed)


# ---- variables ------------------------------------------------------------------------------------------------


def global_variables():
    """All variables of the default graph."""
    return list(get_default_graph().variables)


def trainable_variables():
    return [v for v in get_default_graph().variables if v.trainable]


def global_variables_initializer():
    """Operation that gives every variable made so far its first value."""
    return Initializer(global_variables(), "init")


initialize_all_variables, all_variables = global_variables_initializer, global_variables


def variables_initializer(var_list, name="init"):
    return Initializer(list(var_list), name)


def local_variables_initializer():
    return Initializer([], "init_local")


def assign(ref, value, name=None, **ignored):
    return ref.assign(value, name)


def assign_add(ref, value, name=None, **ignored):
    return ref.assign_add(value, name)


def assign_sub(ref, value, name=None, **ignored):
    return ref.assign_sub(value, name)


def group(*inputs, name="group"):
    """One operation for several."""
    return Group("NoOp", None, inputs, name)


def no_op(name="no_op"):
    return Group("NoOp", None, (), name)


# ---- networks ---------------------------------------------------------------------------------------------------


def relu(features, name=None):
    return make("Relu", _e.relu, [features], name)


def softmax(logits, axis=-1, name=None):
    return make("Softmax", lambda x: _reduce.softmax(x, axis), [logits], name)


def log_softmax(logits, axis=-1, name=None):
    return make("LogSoftmax", lambda x: _reduce.log_softmax(x, axis), [logits], name)


def softplus(features, name=None):
    return make("Softplus", lambda x: _F.softplus(x, 1.0, 40.0), [features], name)


def elu(features, name=None):
    return make("Elu", _F.elu, [features], name)


def leaky_relu(features, alpha=0.2, name=None):
    return make("LeakyRelu", lambda x: _F.leaky_relu(x, alpha), [features], name)


def bias_add(value, bias, name=None):
    return make("BiasAdd", _graph.add, [value, bias], name)


def l2_loss(t, name=None):
    """sum(t^2) / 2."""
    return make("L2Loss", lambda x: _e.square(x).sum() * 0.5, [t], name)


def dropout(x, keep_prob=None, rate=None, name=None, **ignored):
    """Elements kept with probability keep_prob (1 - rate), divided by it."""
    if (keep_prob is None) == (rate is None):
        raise ValueError("dropout: give keep_prob or rate")
    p = rate if rate is not None else 1.0 - keep_prob
    return make("dropout", lambda t: _F.dropout(t, p), [x], name)


def softmax_cross_entropy_with_logits(labels=None, logits=None, dim=-1, name=None, axis=None):
    """-sum(labels log softmax(logits)) along dim."""
    d = dim if axis is None else axis
    return make("softmax_cross_entropy", lambda y, x: -(_reduce.log_softmax(x, d) * y).sum(d), [labels, logits], name)


softmax_cross_entropy_with_logits_v2 = softmax_cross_entropy_with_logits


def sparse_softmax_cross_entropy_with_logits(labels=None, logits=None, name=None):
    """The same for class numbers (N) and logits (N, C)."""
    return make("sparse_softmax_cross_entropy", lambda y, x: _F.cross_entropy(x, y.long(), reduction="none"), [labels, logits], name)


def sigmoid_cross_entropy_with_logits(labels=None, logits=None, name=None):
    return make("sigmoid_cross_entropy", lambda y, x: _F.binary_cross_entropy_with_logits(x, y, reduction="none"), [labels, logits], name)


def mean_squared_error(labels, predictions, name=None):
    """Mean of (predictions - labels)^2 over all elements."""
    return make("mean_squared_error", lambda y, x: _e.square(x - y).mean(), [labels, predictions], name)
