"""Optimizers that add a training operation to the graph (tf.train)."""
from .. import autograd as _autograd
from .. import optim as _optim
from .._create import zeros_like
from ._graph import Effect, Node, Variable, constant, get_default_graph


class Gradients(Node):
    """Gradients of ys in xs; the symbolic tensors of `parts` stand for the single ones."""

    def __init__(self, ys, xs, name="gradients"):
        super().__init__("Gradients", None, (*ys, *xs), name)
        self.sources, self.targets = list(ys), list(xs)

    def compute(self, values):
        ys = [values[y].sum() for y in self.sources]
        grads = _autograd.grad(ys, [values[x] for x in self.targets], create_graph=True, allow_unused=True)
        values[self] = [zeros_like(values[x]) if g is None else g for g, x in zip(grads, self.targets)]


def gradients(ys, xs, name="gradients"):
    """List of the gradients of sum(ys) in each of xs, as nodes."""
    ys = list(ys) if isinstance(ys, (list, tuple)) else [ys]
    xs = list(xs) if isinstance(xs, (list, tuple)) else [xs]
    g = Gradients(ys, xs, name)
    return [Node("Gradient", lambda grads, k=k: grads[k], (g,), f"{g._base}/{x._base}_grad", x.shape, x.dtype)
            for k, x in enumerate(xs)]


class TrainOp(Effect):
    """One step of an optimizer: gradients of the loss (or given ones) in the variables, then their update."""

    def __init__(self, optimizer, loss, grads, variables, global_step, name):
        extra = () if global_step is None else (global_step,)
        super().__init__("Train", None, (*(grads or (loss,)), *variables, *extra), name)
        self.optimizer, self.loss, self.grads = optimizer, loss, grads
        self.variables, self.global_step = variables, global_step

    def optimizer_in(self, session):
        """The eager optimizer over the session's tensors, made once."""
        opt = session._optimizers.get(self)
        if opt is None:
            opt = session._optimizers[self] = self.optimizer._make([session._value(v) for v in self.variables])
        return opt

    def gradients(self, values, session, retain):
        if self.grads:
            return [values[g] for g in self.grads]
        return _autograd.grad(values[self.loss].sum(), [session._value(v) for v in self.variables], retain_graph=retain, allow_unused=True)

    def update(self, grads, session):
        opt = self.optimizer_in(session)
        tensors = [session._value(v) for v in self.variables]
        for t, g in zip(tensors, grads):
            t.grad = None if g is None else g.detach()
        opt.step()
        opt.zero_grad()
        if self.global_step is not None:
            session._value(self.global_step).detach().add_(1)


class Optimizer:
    """Base of the optimizers."""

    def __init__(self, learning_rate, name):
        self.learning_rate, self.name = learning_rate, name
        if isinstance(learning_rate, Node):
            raise TypeError("learning_rate is a number: a rate that changes belongs into a new optimizer or into eager code")

    def minimize(self, loss, global_step=None, var_list=None, name=None, **ignored):
        """Operation that takes one step down the gradient of loss in var_list (all trainable variables)."""
        if loss.dtype is not None and not loss.dtype.is_floating_point:
            raise ValueError(f"'{loss.name}' (made at {loss.site}) is {loss.dtype.name}: only floating-point losses have gradients")
        return TrainOp(self, loss, None, self._variables(var_list), global_step, name or self.name)

    def _variables(self, var_list):
        variables = list(var_list) if var_list is not None else [v for v in get_default_graph().variables if v.trainable]
        if not variables:
            raise ValueError("No variables to optimize.")
        return variables

    def compute_gradients(self, loss, var_list=None, **ignored):
        """List of (gradient, variable)."""
        variables = self._variables(var_list)
        return list(zip(gradients(loss, variables), variables))

    def apply_gradients(self, grads_and_vars, global_step=None, name=None):
        """Operation that applies what compute_gradients gave."""
        pairs = [(g, v) for g, v in grads_and_vars if g is not None]
        if not pairs:
            raise ValueError("No gradients provided for any variable.")
        return TrainOp(self, None, [g for g, _ in pairs], [v for _, v in pairs], global_step, name or self.name)


class GradientDescentOptimizer(Optimizer):
    """p = p - learning_rate grad."""

    def __init__(self, learning_rate, use_locking=False, name="GradientDescent"):
        super().__init__(learning_rate, name)

    def _make(self, params):
        return _optim.SGD(params, lr=self.learning_rate)


class MomentumOptimizer(Optimizer):
    """b = momentum b + grad; p = p - learning_rate b."""

    def __init__(self, learning_rate, momentum, use_locking=False, name="Momentum", use_nesterov=False):
        super().__init__(learning_rate, name)
        self.momentum, self.use_nesterov = momentum, use_nesterov

    def _make(self, params):
        return _optim.SGD(params, lr=self.learning_rate, momentum=self.momentum, nesterov=self.use_nesterov)


class AdamOptimizer(Optimizer):
    """Adam; see optim.Adam."""

    def __init__(self, learning_rate=0.001, beta1=0.9, beta2=0.999, epsilon=1e-8, use_locking=False, name="Adam"):
        super().__init__(learning_rate, name)
        self.betas, self.epsilon = (beta1, beta2), epsilon

    def _make(self, params):
        return _optim.Adam(params, lr=self.learning_rate, betas=self.betas, eps=self.epsilon)


class RMSPropOptimizer(Optimizer):
    """RMSprop; see optim.RMSprop."""

    def __init__(self, learning_rate, decay=0.9, momentum=0.0, epsilon=1e-10, use_locking=False, centered=False, name="RMSProp"):
        super().__init__(learning_rate, name)
        self.options = {"alpha": decay, "momentum": momentum, "eps": epsilon, "centered": centered}

    def _make(self, params):
        return _optim.RMSprop(params, lr=self.learning_rate, **self.options)


class AdagradOptimizer(Optimizer):
    """Adagrad; see optim.Adagrad."""

    def __init__(self, learning_rate, initial_accumulator_value=0.1, use_locking=False, name="Adagrad"):
        super().__init__(learning_rate, name)
        self.initial = initial_accumulator_value

    def _make(self, params):
        return _optim.Adagrad(params, lr=self.learning_rate, initial_accumulator_value=self.initial)


def get_or_create_global_step(graph=None):
    """The int64 variable "global_step" of the default graph."""
    for v in get_default_graph().variables:
        if v._base == "global_step":
            return v
    return Variable(constant(0, "int64"), trainable=False, name="global_step")
