"""grad, vjp, jvp, linearize, jacobians and hessians of functions, under the names and rules of torch.func.

Costs, in units of one run of the function f forward (a pass backward costs about two):
  grad, vjp           forward + one pass backward
  jvp                 forward + two passes: the pass backward is itself differentiated (a vjp of the vjp), which is exact
                      and needs no forward-mode rule of any operation, but keeps the graph of f meanwhile
  linearize           the first of those two once, the second for each use of the result
  jacrev, jacobian    forward + one walk with all rows of the output as a batch
  jacfwd              as jacrev, or one walk over all elements of the input where they are fewer
  hessian             two nested ones of these
"""
import functools

from .._ffi import refuse
from .._tensor import Tensor
from ._core import Level, filled, pull, pull_batch, tensors_of, unit_rows
from ._tree import LEAF, flatten, in_words, unflatten


def _positions(argnums, n):
    """argnums as a list of positions from 0."""
    if isinstance(argnums, tuple):
        if not argnums:
            raise refuse(RuntimeError, "argnums must be non-empty")
        if len(set(argnums)) != len(argnums):
            raise refuse(RuntimeError, f"argnums elements must be unique, got {argnums}")
    elif not isinstance(argnums, int) or isinstance(argnums, bool):
        raise refuse(RuntimeError, f"argnums must be int or Tuple[int, ...], got: {type(argnums)}")
    out = []
    for k in argnums if isinstance(argnums, tuple) else (argnums,):
        if not isinstance(k, int):
            raise refuse(RuntimeError, f"argnum must be int, got: {type(k)}")
        if not -n <= k < n:
            raise refuse(RuntimeError, f"Got argnum={k}, but only {n} positional inputs")
        out.append(k % n)
    return out


class _Inputs:
    """The arguments that argnums picks, flattened, each through a level."""

    def __init__(self, level, argnums, args, api):
        self.many = isinstance(argnums, tuple)
        at = _positions(argnums, len(args))
        self.leaves, self.structure = flatten(tuple([args[k] for k in at]))
        for x in self.leaves:
            if not isinstance(x, Tensor):
                raise refuse(ValueError, f"{api}: Thing passed to transform API must be Tensor, got {type(x)}")
        self.xs = [level.enter(x) for x in self.leaves]
        inside = unflatten(self.xs, self.structure)
        self.args = list(args)
        for k, x in zip(at, inside):
            self.args[k] = x

    def shaped(self, values):
        """Values for the leaves in the container that argnums picked."""
        t = unflatten(values, self.structure)
        return t if self.many else t[0]


def _with_aux(result, has_aux, api):
    if not has_aux:
        return result, None
    if not isinstance(result, tuple) or len(result) != 2:
        raise refuse(RuntimeError, f"{api}: output of function f should be a tuple: (output, aux) if has_aux is True")
    return result


def _outside(level, tree):
    leaves, structure = flatten(tree)
    return unflatten([level.leave(x) for x in leaves], structure)


def grad_and_value(func, argnums=0, has_aux=False):
    """A function that returns (gradient, value) of func, which returns one element: a 0-d tensor.

    argnums: which positional argument(s) to differentiate in, an int or a tuple of ints; each may be a container of
    tensors.  With has_aux func returns (value, aux) and the result is (gradient, (value, aux)).  Raises RuntimeError for
    a value that is no 0-d tensor and for argnums that do not fit.
    """
    api = "grad_and_value(f)(*args)"

    @functools.wraps(func)
    def gradient_and_value(*args, **kwargs):
        level = Level()
        inputs = _Inputs(level, argnums, args, "grad")
        y, aux = _with_aux(level.run(func, *inputs.args, **kwargs), has_aux, api)
        if not isinstance(y, Tensor):
            raise refuse(RuntimeError, f"{api}: Expected f(*args) to return a Tensor, got {type(y)}")
        if y.dim() != 0:
            raise refuse(RuntimeError, f"{api}: Expected f(*args) to return a scalar Tensor, got tensor with {y.dim()} dims. Maybe you wanted to "
                         "use the vjp or jacrev APIs instead?")
        create = level.look([y])
        g = inputs.shaped([level.leave(g) for g in filled(pull([y], inputs.xs, [y.detach().new_ones(())], create, create), inputs.xs)])
        if has_aux:
            level.look([y, *flatten(aux)[0]])
            return g, (_outside(level, y), _outside(level, aux))
        return g, level.leave(y)

    return gradient_and_value


def grad(func, argnums=0, has_aux=False):
    """A function that returns the gradient of func, which returns one element: a 0-d tensor.

    argnums and has_aux as in grad_and_value; with has_aux the result is (gradient, aux).
    """
    both = grad_and_value(func, argnums, has_aux)

    @functools.wraps(func)
    def gradient(*args, **kwargs):
        g, y = both(*args, **kwargs)
        return (g, y[1]) if has_aux else g

    return gradient


def value_and_grad(func, argnums=0, has_aux=False):
    """grad_and_value in JAX's order: a function that returns (value, gradient)."""
    both = grad_and_value(func, argnums, has_aux)

    @functools.wraps(func)
    def value_and_gradient(*args, **kwargs):
        g, y = both(*args, **kwargs)
        return y, g

    return value_and_gradient


class _Graph:
    """One run of a function forward, to be walked back: inputs and outputs flattened."""

    def __init__(self, func, primals, has_aux, api):
        self.level = Level()
        self.leaves, self.structure = flatten(primals)
        tensors_of(api, self.leaves, "primals")
        self.xs = [self.level.enter(x) for x in self.leaves]
        out, self.aux = _with_aux(self.level.run(func, *unflatten(self.xs, self.structure)), has_aux, api)
        self.ys, self.out = flatten(out)
        if not self.ys:
            raise refuse(RuntimeError, f"{api}: Expected f to be a function that has non-empty output (got output = {out})")
        for y in self.ys:
            if not isinstance(y, Tensor):
                raise refuse(RuntimeError, f"{api}: expected f(*primals) to return only tensors, got unsupported type {type(y)}")
            if not y.is_floating_point():
                raise refuse(RuntimeError, f"{api}: All outputs of f must be floating-point or complex Tensors, got Tensor with dtype {y.dtype}")
        self.level.look(self.ys)

    def value(self):
        return _outside(self.level, unflatten(self.ys, self.out))

    def auxiliary(self):
        self.level.look([*self.ys, *flatten(self.aux)[0]])
        return _outside(self.level, self.aux)

    def matched(self, tree, structure, wanted, api, what, of):
        """Leaves of a container that must have that structure and the shapes of `wanted`."""
        values, s = flatten(tree)
        if s != structure:
            raise refuse(RuntimeError, f"{api}: Expected pytree structure of {what} to be the same as pytree structure of {of}. "
                         f"{what}: {in_words(s)}, {of}: {in_words(structure)}")
        for v, w in zip(values, wanted):
            if not isinstance(v, Tensor):
                raise refuse(RuntimeError, f"{api}: Expected {what} to only contain Tensors, got {type(v)}")
            if v.shape != w.shape:
                raise refuse(RuntimeError, f"{api}: {what} of shape {v.shape} do not fit {of} of shape {w.shape}")
        return values


def vjp(func, *primals, has_aux=False):
    """(func(*primals), vjp_fn): vjp_fn(cotangents) gives the gradients of the outputs, weighted by cotangents, in primals.

    cotangents have the structure and shapes of the output.  vjp_fn returns a tuple with an entry for each primal, or the
    one gradient for a single primal, and may be called any number of times.  With has_aux func returns (output, aux)
    and the result is (output, vjp_fn, aux).
    """
    api = "vjp(f, *primals)"
    g = _Graph(func, primals, has_aux, api)

    def vjp_fn(cotangents, retain_graph=True, create_graph=None):
        seeds = g.matched(cotangents, g.out, g.ys, api, "cotangents", "primal output")
        now = Level()
        create = now.outer and (g.level.create or any([s.requires_grad for s in seeds])) if create_graph is None else create_graph
        gs = filled(pull(g.ys, g.xs, seeds, create, True), g.xs)
        gs = unflatten([x if create else x.detach() for x in gs], g.structure)
        return gs if len(primals) > 1 else gs[0]

    aux = (g.auxiliary(),) if has_aux else ()
    g.level.look(g.ys)
    return (g.value(), vjp_fn, *aux)


def _tangent_graph(g):
    """Gradients of g's outputs in its inputs as a linear function of cotangents us: (gs, us), differentiable in us."""
    us = [y.detach().new_zeros(y.shape).requires_grad_() for y in g.ys]
    return pull(g.ys, g.xs, us, True), us


def _push(gs, us, tangents, create, retain):
    pairs = [(x, t) for x, t in zip(gs, tangents) if x is not None]
    return filled(pull([x for x, _ in pairs], us, [t for _, t in pairs], create, retain), us)


def jvp(func, primals, tangents, *, strict=False, has_aux=False):
    """(func(*primals), J tangents): the derivative of the outputs along tangents, a tuple like primals.

    By differentiating v^T J in v: forward and two passes backward, whatever the sizes.  With has_aux func returns (output,
    aux) and the result is (output, J tangents, aux).  strict: an output that does not depend on primals is an error, else
    its derivative is zeros.
    """
    api = "jvp(f, primals, tangents)"
    if not isinstance(primals, tuple):
        raise refuse(RuntimeError, f"{api}: Expected primals to be a tuple. E.g. it should be valid to call f(*primals).")
    s, t = flatten(primals)[1], flatten(tangents)[1]
    if s != t:
        raise refuse(RuntimeError, f"{api}: Expected primals and tangents to have the same python structure. For example, if primals is a tuple of "
                     f"3 tensors, tangents also must be. Got primals with structure {in_words(s)} and tangents with structure {in_words(t)}")
    g = _Graph(func, primals, has_aux, api)
    ts = g.matched(tangents, g.structure, g.xs, api, "tangents", "primals")
    if strict and not all([y.requires_grad for y in g.ys]):
        raise refuse(RuntimeError, "jvp(f, primals, tangents, strict=True): The output of f is independent of the inputs. This is not allowed with "
                     "strict=True.")
    create = g.level.outer and (g.level.create or any([x.requires_grad for x in ts]))
    gs, us = _tangent_graph(g)
    js = [x if create else x.detach() for x in _push(gs, us, ts, create, create)]
    aux = (g.auxiliary(),) if has_aux else ()
    g.level.look(g.ys)
    return (g.value(), unflatten(js, g.out), *aux)


def linearize(func, *primals):
    """(func(*primals), jvp_fn): jvp_fn(*tangents) is J tangents at these primals, one pass for each call."""
    api = "linearize(f, *primals)"
    g = _Graph(func, primals, False, api)
    gs, us = _tangent_graph(g)

    def jvp_fn(*tangents):
        ts = g.matched(tangents, g.structure, g.xs, api, "tangents", "primals")
        create = Level().outer and (g.level.create or any([x.requires_grad for x in ts]))
        return unflatten([x if create else x.detach() for x in _push(gs, us, ts, create, True)], g.out)

    return g.value(), jvp_fn


# ---- jacobians -------------------------------------------------------------------------------------------


def _by_rows(ys, xs, create, chunk_size):
    """[output][input] blocks of the Jacobian, all rows of one output in a walk (or chunk_size of them)."""
    blocks = []
    for y in ys:
        rows, n = unit_rows(y), y.numel()
        step = chunk_size or n or 1
        parts = [pull_batch([y], xs, [rows[k:k + step]], create) for k in range(0, n, step)] if y.requires_grad else []
        blocks.append([_block([p[i] for p in parts], y, x) for i, x in enumerate(xs)])
    return blocks


def _block(parts, y, x):
    from .._shape import cat

    if not parts or parts[0] is None:
        return x.detach().new_zeros((*y.shape, *x.shape))
    return (parts[0] if len(parts) == 1 else cat(parts)).reshape((*y.shape, *x.shape))


def _by_columns(g, create):
    """The same from a walk for each input, over all its elements: the derivative along each of them."""
    gs, us = _tangent_graph(g)
    blocks = [[None] * len(g.xs) for _ in g.ys]
    for i, x in enumerate(g.xs):
        n = x.numel()
        js = pull_batch([gs[i]], us, [unit_rows(x)], create) if gs[i] is not None and n else [None] * len(us)
        for o, (y, j) in enumerate(zip(g.ys, js)):
            blocks[o][i] = (j.movedim(0, -1).reshape((*y.shape, *x.shape)) if j is not None else
                            x.detach().new_zeros((*y.shape, *x.shape)))
    return blocks


def _jacobian(api, func, argnums, has_aux, chunk_size, columns):
    if chunk_size is not None and chunk_size <= 0:
        raise refuse(ValueError, f"{api}: `chunk_size` should be greater than 0.")

    @functools.wraps(func)
    def jacobian(*args, **kwargs):
        at = _positions(argnums, len(args))

        def picked(*some):
            rest = list(args)
            for k, x in zip(at, some):
                rest[k] = x
            return func(*rest, **kwargs)

        g = _Graph(picked, tuple([args[k] for k in at]), has_aux, api)
        create = g.level.create
        if columns and sum([x.numel() for x in g.xs]) < sum([y.numel() for y in g.ys]):
            blocks = _by_columns(g, create)
        else:
            blocks = _by_rows(g.ys, g.xs, create, chunk_size)
        inner = [unflatten([b if create else b.detach() for b in row], g.structure) for row in blocks]
        if not isinstance(argnums, tuple):
            inner = [t[0] for t in inner]
        out = inner[0] if g.out is LEAF else unflatten(inner, g.out)
        return (out, g.auxiliary()) if has_aux else out

    return jacobian


def jacrev(func, argnums=0, *, has_aux=False, chunk_size=None):
    """A function that returns the Jacobian of func: for each tensor of its output the derivative in the argument(s) argnums,
    of the output's shape followed by the argument's.

    All rows go through the graph in one walk, or chunk_size rows at a time.  With has_aux func returns (output, aux) and the
    result is (Jacobian, aux).
    """
    return _jacobian("jacrev", func, argnums, has_aux, chunk_size, False)


def jacfwd(func, argnums=0, has_aux=False, *, randomness="error"):
    """jacrev's result, by derivatives along each element of the input where those are fewer than the output's elements:
    one walk forward, one differentiable walk back, one over the batch of elements."""
    return _jacobian("jacfwd", func, argnums, has_aux, None, True)


def hessian(func, argnums=0):
    """A function that returns second derivatives of func: jacfwd(jacrev(func))."""
    return jacfwd(jacrev(func, argnums), argnums)
