"""What all derivatives of functions share: inputs of their own, the walk back, results with just the history they need."""
from .._create import zeros_like
from .._ffi import check, lib, refuse
from .._modes import enable_grad, is_grad_enabled
from .._shape import stack
from .._tensor import Tensor
from ..autograd import grad


class Level:
    """One derivative in progress.  `enter` gives inputs to differentiate in, `leave` what the user may see of a result.

    An input that requires grad outside goes in as a view of itself, so that derivatives of it flow on; any other as a
    new leaf, which nobody but this level knows.
    """

    def __init__(self):
        self.outer = is_grad_enabled()
        self.own = []
        self.create = False

    def enter(self, x):
        if self.outer and x.requires_grad:
            return x.view_as(x)
        x = x.detach().requires_grad_()
        self.own.append(x)
        return x

    def run(self, func, *args, **kwargs):
        """func(*args) with grad mode on; afterwards `watched` says of what is differentiated."""
        with enable_grad():
            return func(*args, **kwargs)

    def look(self, ys):
        """Could anybody outside differentiate what is computed from the graph of ys?  Sets `create`."""
        self.create = False
        ys = [y._h for y in ys if isinstance(y, Tensor) and y.requires_grad]
        if self.outer and ys:
            self.create = bool(check(lib.ag_reaches_others(len(ys), ys, len(self.own), [x._h for x in self.own])))
        return self.create

    def leave(self, y):
        return y.detach() if isinstance(y, Tensor) and not self.create and y.requires_grad else y


def pull(ys, xs, seeds, create, retain=True):
    """Gradients of ys, weighted by seeds, in xs; None where there is none."""
    pairs = [(y, s) for y, s in zip(ys, seeds) if y.requires_grad and s is not None]
    wanted = [x for x in xs if x.requires_grad]
    if not pairs or not wanted:
        return [None] * len(xs)
    with enable_grad():
        gs = iter(grad([y for y, _ in pairs], wanted, [s for _, s in pairs], retain_graph=retain, create_graph=create, allow_unused=True))
    return [next(gs) if x.requires_grad else None for x in xs]


def filled(gs, xs):
    return [zeros_like(x, requires_grad=False) if g is None else g for g, x in zip(gs, xs)]


def unit_rows(y):
    """The seeds that pick each element of y: an identity of y.numel() rows of y's shape."""
    from .._create import eye

    return eye(y.numel(), dtype=y.dtype).reshape((y.numel(), *y.shape))


def pull_rows(ys, xs, which, rows, create):
    """For each of the rows (a batch of seeds of ys[which]) the gradients in xs: stacked, None where there is none."""
    y = ys[which]
    n = rows.shape[0]
    if not y.requires_grad or n == 0:
        return [None] * len(xs)
    return pull_batch([y], xs, [rows], create)


def pull_batch(ys, xs, seeds, create):
    """As pull for a batch of seeds along their dim 0."""
    pairs = [(y, s) for y, s in zip(ys, seeds) if y.requires_grad]
    wanted = [x for x in xs if x.requires_grad]
    if not pairs or not wanted:
        return [None] * len(xs)
    with enable_grad():
        gs = iter(grad([y for y, _ in pairs], wanted, [s for _, s in pairs], retain_graph=True, create_graph=create, allow_unused=True,
                       is_grads_batched=True))
    return [next(gs) if x.requires_grad else None for x in xs]


def tensors_of(api, leaves, what):
    if not leaves:
        raise refuse(RuntimeError, f"{api}: Expected {what} to contain at least one Tensor.")
    for x in leaves:
        if not isinstance(x, Tensor):
            raise refuse(RuntimeError, f"{api}: Expected {what} to only contain Tensors, got {type(x)}")
    return leaves


__all__ = ["Level", "filled", "pull", "pull_batch", "pull_rows", "stack", "tensors_of", "unit_rows"]
