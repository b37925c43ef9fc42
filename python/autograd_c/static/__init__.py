"""Define first, then run: static graphs under the names of TensorFlow 1.

    import autograd_c.static as tf

    x = tf.placeholder(tf.float32, shape=(None, 1))
    W = tf.Variable(tf.random_normal([1, 1]), name="weight")
    loss = tf.reduce_mean(tf.square(tf.matmul(x, W) - 2 * x))
    train = tf.train.GradientDescentOptimizer(0.01).minimize(loss)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        _, l = sess.run([train, loss], feed_dict={x: [[1.0], [2.0]]})

What a run needs becomes one frozen program for each shape that is fed: it is traced once and replayed from then on.
"""
import types as _types

from .._dtypes import bool_ as bool, float32, float64, int32, int64, uint8  # noqa: A004
from . import _ops, _train
from ._graph import Graph, Node, Placeholder, Variable, constant, get_default_graph, reset_default_graph
from ._ops import *  # noqa: F401,F403
from ._session import FailedPreconditionError, InteractiveSession, InvalidArgumentError, Session, get_default_session
from ._train import gradients

Tensor = Node


def placeholder(dtype, shape=None, name=None):
    """A node whose value is fed at each run: shape (None, 1) takes any number of rows, None any shape."""
    return Placeholder(dtype, shape, name)


def convert_to_tensor(value, dtype=None, name=None):
    return value if isinstance(value, Node) else constant(value, dtype, name=name)


def get_variable(name, shape=None, dtype=float32, initializer=None, trainable=True, **ignored):
    """A variable by name: initializer is a value, a node or a function of the shape (None: Glorot's uniform)."""
    for v in get_default_graph().variables:
        if v._base == name:
            raise ValueError(f"Variable {name} already exists (made at {v.site})")
    if initializer is None:
        fan = sum(shape) if len(shape) > 1 else 2 * shape[0] if shape else 2
        a = (6.0 / fan) ** 0.5
        initializer = _ops.random_uniform(shape, -a, a, dtype)
    elif callable(initializer) and not isinstance(initializer, Node):
        initializer = initializer(shape)
    return Variable(initializer, trainable=trainable, name=name)


def _space(name, doc, names):
    m = _types.SimpleNamespace(**names)
    m.__doc__ = doc
    return m


train = _space("train", "Optimizers.", {n: getattr(_train, n) for n in (
    "Optimizer GradientDescentOptimizer MomentumOptimizer AdamOptimizer RMSPropOptimizer AdagradOptimizer get_or_create_global_step").split()})
nn = _space("nn", "Functions of neural networks.", {n: getattr(_ops, n) for n in (
    "relu softmax log_softmax softplus elu leaky_relu bias_add l2_loss dropout softmax_cross_entropy_with_logits "
    "softmax_cross_entropy_with_logits_v2 sparse_softmax_cross_entropy_with_logits sigmoid_cross_entropy_with_logits tanh sigmoid").split()})
losses = _space("losses", "Losses.", {"mean_squared_error": _ops.mean_squared_error})
math = _space("math", "Elementwise functions and reductions.", {n: getattr(_ops, n) for n in [*_ops._ONE, *_ops._TWO] + [
    m for m in dir(_ops) if m.startswith("reduce_")]})
errors = _space("errors", "What runs raise.", {"FailedPreconditionError": FailedPreconditionError,
                                               "InvalidArgumentError": InvalidArgumentError})
