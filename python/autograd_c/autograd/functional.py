"""Jacobians, Hessians and their products with vectors, for functions of one tensor or several."""
from .._ffi import refuse
from . import grad
from .._create import zeros_like
from .._shape import stack
from .._tensor import Tensor


def _prepare(inputs, create_graph):
    many = isinstance(inputs, (tuple, list))
    xs = tuple(inputs) if many else (inputs,)
    return tuple([x.view_as(x) if create_graph and x.requires_grad else x.detach().requires_grad_() for x in xs]), many


def _call(func, xs):
    y = func(*xs)
    return (tuple(y), True) if isinstance(y, (tuple, list)) else ((y,), False)


def _done(x, create_graph):
    return x if create_graph else x.detach()


def _filled(gs, xs, strict):
    if strict and any(g is None for g in gs):
        raise refuse(RuntimeError, "The output of the user-provided function is independent of one of the inputs. This is not allowed in strict mode.")
    return [zeros_like(x) if g is None else g for g, x in zip(gs, xs)]


def _grad(ys, xs, seeds, create_graph, strict=False):
    pairs = [(y, s) for y, s in zip(ys, seeds) if y.requires_grad]
    if not pairs:
        return _filled([None] * len(xs), xs, strict)
    return _filled(grad([y for y, _ in pairs], xs, [s for _, s in pairs], retain_graph=True, create_graph=create_graph, allow_unused=True),
                   xs, strict)


def _vectors(v, like, many, what):
    if v is None:
        if len(like) == 1 and like[0].numel() == 1:
            return [zeros_like(like[0]) + 1]
        raise refuse(RuntimeError, f"The vector v can only be None if the user-provided function's {what} is a single tensor with one element.")
    vs = list(v) if isinstance(v, (tuple, list)) else [v]
    for a, b in zip(vs, like):
        if a.shape != b.shape:
            raise refuse(RuntimeError, f"v has invalid size: should be {b.shape} but got {a.shape}.")
    return vs


def vjp(func, inputs, v=None, create_graph=False, strict=False):
    """(func(inputs), v^T J)."""
    xs, many = _prepare(inputs, create_graph)
    ys, many_out = _call(func, xs)
    gs = [_done(g, create_graph) for g in _grad(ys, xs, _vectors(v, ys, many_out, "output"), create_graph, strict)]
    ys = tuple([_done(y, create_graph) for y in ys])
    return ys if many_out else ys[0], tuple(gs) if many else gs[0]


def jvp(func, inputs, v=None, create_graph=False, strict=False):
    """(func(inputs), J v), by differentiating v^T J twice."""
    xs, many = _prepare(inputs, create_graph)
    vs = _vectors(v, xs, many, "input")
    ys, many_out = _call(func, xs)
    us = [zeros_like(y).requires_grad_() for y in ys]
    gs = _grad(ys, xs, us, True, strict)
    js = [_done(j, create_graph) for j in _grad(gs, us, vs, create_graph)]
    ys = tuple([_done(y, create_graph) for y in ys])
    return ys if many_out else ys[0], tuple(js) if many_out else js[0]


def jacobian(func, inputs, create_graph=False, strict=False, vectorize=False, strategy="reverse-mode"):
    """Jacobian: shape of the output followed by that of the input; tuples of them for tuples of tensors."""
    xs, many = _prepare(inputs, create_graph)
    ys, many_out = _call(func, xs)
    blocks = []
    for y in ys:
        rows = []
        if y.requires_grad:
            flat = y.reshape(-1)
            rows = [_filled(grad(flat[k], xs, retain_graph=True, create_graph=create_graph, allow_unused=True), xs, strict)
                    for k in range(flat.numel())]
        elif strict:
            raise refuse(RuntimeError, "The output of the user-provided function is independent of the input. This is not allowed in strict mode.")
        block = []
        for i, x in enumerate(xs):
            shape = (*y.shape, *x.shape)
            j = stack([r[i] for r in rows]).reshape(shape) if rows else x.new_zeros(*shape)
            block.append(_done(j, create_graph))
        blocks.append(tuple(block) if many else block[0])
    return tuple(blocks) if many_out else blocks[0]


def _scalar(func):
    def checked(*xs):
        y = func(*xs)
        if not isinstance(y, Tensor) or y.numel() != 1:
            raise refuse(RuntimeError, "The Tensor returned by the function given to hessian should contain a single element")
        return y.reshape(())

    return checked


def hessian(func, inputs, create_graph=False, strict=False, vectorize=False, outer_jacobian_strategy="reverse-mode"):
    """Second derivatives of a function with a single value: shape of the input twice; tuples of tuples for several."""
    many = isinstance(inputs, (tuple, list))
    scalar = _scalar(func)

    def gradient(*xs):
        gs = jacobian(scalar, xs if many else xs[0], create_graph=True, strict=strict)
        return gs

    return jacobian(gradient, inputs, create_graph, strict)


def vhp(func, inputs, v=None, create_graph=False, strict=False):
    """(func(inputs), v^T H)."""
    xs, many = _prepare(inputs, create_graph)
    y = _scalar(func)(*xs)
    gs = _grad([y], xs, [zeros_like(y) + 1], True, strict)
    hs = [_done(h, create_graph) for h in _grad(gs, xs, _vectors(v, xs, many, "input"), create_graph, strict)]
    return _done(y, create_graph), tuple(hs) if many else hs[0]


def hvp(func, inputs, v=None, create_graph=False, strict=False):
    """(func(inputs), H v): H is symmetric, so this is vhp."""
    return vhp(func, inputs, v, create_graph, strict)
