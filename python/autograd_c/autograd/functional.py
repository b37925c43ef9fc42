"""Jacobians, Hessians and their products with vectors, for functions of one tensor or of a tuple of them.

Costs, where forward is one run of func and a pass backward costs about two of those:
  vjp             forward + one pass
  jvp             forward + two passes: v^T J is differentiated in v (a vjp of the vjp); no forward-mode rules exist
  jacobian        forward + one walk over the graph with all rows of an output as a batch; strategy="forward-mode": over all
                  elements of an input instead, through the differentiable pass of jvp
  hessian         the same, twice
  vhp, hvp        forward + two passes; the Hessian being symmetric, hvp is vhp
`func` has the same in functional form.
"""
from .._create import zeros_like
from .._ffi import refuse
from .._modes import enable_grad
from .._tensor import Tensor
from ..func._core import pull, pull_batch, unit_rows


def _tuple(x, arg_name, fn_name):
    """(x as a tuple, whether it was one), all of it tensors."""
    many = isinstance(x, tuple)
    for k, t in enumerate(x if many else (x,)):
        if not isinstance(t, Tensor):
            where = f" value at index {k} has type {type(t)}." if many else f" given {arg_name} has type {type(t)}."
            raise refuse(TypeError, f"The {arg_name} given to {fn_name} must be either a Tensor or a tuple of Tensors but the{where}")
    return (x if many else (x,)), many


def _prepare(inputs, create_graph, fn_name):
    xs, many = _tuple(tuple(inputs) if isinstance(inputs, list) else inputs, "inputs", fn_name)
    return tuple([x.view_as(x) if create_graph and x.requires_grad else x.detach().requires_grad_() for x in xs]), many


def _run(func, xs, fn_name):
    y = func(*xs)
    return _tuple(tuple(y) if isinstance(y, list) else y, "outputs of the user-provided function", fn_name)


def _one_value(func, xs, fn_name):
    ys, many = _run(func, xs, fn_name)
    if many:
        raise refuse(RuntimeError, f"The function given to {fn_name} should return a single Tensor")
    if ys[0].numel() != 1:
        raise refuse(RuntimeError, f"The Tensor returned by the function given to {fn_name} should contain a single element")
    return ys[0].reshape(())


def _vectors(v, like, many, text):
    if v is None:
        if not many and like[0].numel() == 1:
            return [zeros_like(like[0], requires_grad=False) + 1]
        raise refuse(RuntimeError, f"The vector v can only be None if {text} a single Tensor with a single element.")
    vs, _ = _tuple(tuple(v) if isinstance(v, list) else v, "v", "the function")
    if len(vs) != len(like):
        if many:
            raise refuse(RuntimeError, f"v is a tuple of invalid length: should be {len(like)} but got {len(vs)}.")
        raise refuse(RuntimeError, "The given v should contain a single Tensor.")
    for k, (a, b) in enumerate(zip(vs, like)):
        if a.shape != b.shape:
            raise refuse(RuntimeError, f"{f'Entry {k} in ' if many else ''}v has invalid size: should be {b.shape} but got {a.shape}.")
    return vs


def _strict_outputs(ys):
    for k, y in enumerate(ys):
        if not y.requires_grad:
            raise refuse(RuntimeError, f"Output {k} of the user-provided function does not require gradients. The outputs must be computed in a "
                         "differentiable manner from the input when running in strict mode.")


_INDEPENDENT = "The output of the user-provided function is independent of input {}. This is not allowed in strict mode."
_OUTPUT_INDEPENDENT = "Output {} of the user-provided function is independent of input {}. This is not allowed in strict mode."
_CONSTANT = ("While computing the hessian, found that the jacobian of the user-provided function with respect to input {} is independent of the "
             "input. This is not allowed in strict mode. You should ensure that your function is twice differentiable and that the jacobian "
             "depends on the inputs (this would be violated by a linear function for example).")
_SECOND = "The jacobian of the user-provided function is independent of input {}. This is not allowed in strict mode."
_PUSHED = ("The gradient with respect to the input is independent of entry {} in the grad_outputs when using the double backward trick to "
           "compute forward mode gradients. This is not allowed in strict mode.")


def _strict_gradients(gs):
    for k, g in enumerate(gs):
        if not g.requires_grad:
            raise refuse(RuntimeError, _CONSTANT.format(k))


def _filled(gs, xs, strict, text):
    for k, g in enumerate(gs):
        if g is None and strict:
            raise refuse(RuntimeError, text.format(k))
    return [zeros_like(x, requires_grad=False) if g is None else g for g, x in zip(gs, xs)]


def _done(values, create_graph, many):
    values = tuple([v if create_graph else v.detach() for v in values])
    return values if many else values[0]


def vjp(func, inputs, v=None, create_graph=False, strict=False):
    """(func(inputs), v^T J): v of the outputs' shape, None for a single output of one element.

    create_graph lets the result be differentiated.  strict: an input that an output does not depend on is a
    RuntimeError, else its part is zeros.
    """
    with enable_grad():
        xs, many = _prepare(inputs, create_graph, "vjp")
        ys, many_out = _run(func, xs, "vjp")
        if strict:
            _strict_outputs(ys)
        vs = _vectors(v, ys, many_out, "the user-provided function returns")
        gs = _filled(pull(ys, xs, vs, create_graph, create_graph), xs, strict, _INDEPENDENT)
    return _done(ys, create_graph, many_out), _done(gs, create_graph, many)


def _linear(ys, xs):
    """Gradients of ys in xs as a function of seeds us that can be differentiated in them: (gs, us)."""
    us = [zeros_like(y, requires_grad=False).requires_grad_() for y in ys]
    return pull(ys, xs, us, True), us


def _push(gs, us, vs, create_graph, retain=False):
    pairs = [(g, v) for g, v in zip(gs, vs) if g is not None]
    return pull([g for g, _ in pairs], us, [v for _, v in pairs], create_graph, retain or create_graph)


def jvp(func, inputs, v=None, create_graph=False, strict=False):
    """(func(inputs), J v): v of the inputs' shape, None for a single input of one element.

    Computed as the derivative of v^T J in v: two passes backward.  strict and create_graph as in vjp.
    """
    with enable_grad():
        xs, many = _prepare(inputs, create_graph, "jvp")
        vs = _vectors(v, xs, many, "the input to the user-provided function is")
        ys, many_out = _run(func, xs, "jvp")
        if strict:
            _strict_outputs(ys)
        gs, us = _linear(ys, xs)
        gs = _filled(gs, xs, strict, _INDEPENDENT)
        js = _filled(_push(gs, us, vs, create_graph), us, strict, _PUSHED)
    return _done(ys, create_graph, many_out), _done(js, create_graph, many_out)


def _rows(y, xs, create_graph):
    """For each input the gradients of all elements of y, stacked; None where there are none."""
    if not y.requires_grad or not y.numel():
        return [None] * len(xs)
    return pull_batch([y], xs, [unit_rows(y)], create_graph)


def _forward_rows(ys, xs, create_graph):
    """blocks[output][input] from derivatives along each element of the inputs."""
    gs, us = _linear(ys, xs)
    blocks = [[None] * len(xs) for _ in ys]
    for i, x in enumerate(xs):
        js = pull_batch([gs[i]], us, [unit_rows(x)], create_graph) if gs[i] is not None and x.numel() else [None] * len(us)
        for o, j in enumerate(js):
            blocks[o][i] = None if j is None else j.movedim(0, -1)
    return blocks


def jacobian(func, inputs, create_graph=False, strict=False, vectorize=False, strategy="reverse-mode"):
    """The Jacobian: the shape of the output followed by that of the input; tuples of them where func takes or returns tuples
    (the outer one for the outputs).

    All rows of an output go through the graph as one batch, whatever `vectorize` says.  strategy="forward-mode" takes the
    elements of the inputs as the batch instead, which is fewer for tall Jacobians; PyTorch's conditions on it hold:
    ValueError for other names, RuntimeError with strict or without vectorize.
    """
    if strategy not in ("forward-mode", "reverse-mode"):
        raise refuse(ValueError, 'Expected strategy to be either "forward-mode" or "reverse-mode". Hint: If your function has more outputs than inputs, '
                     '"forward-mode" tends to be more performant. Otherwise, prefer to use "reverse-mode".')
    if strategy == "forward-mode":
        if create_graph:
            raise refuse(NotImplementedError, "torch.autograd.functional.jacobian: `create_graph=True` and `strategy=\"forward-mode\"` are not supported "
                         "together (yet). Please either set `create_graph=False` or `strategy=\"reverse-mode\"`.")
        if strict:
            raise refuse(RuntimeError, "torch.autograd.functional.jacobian: `strict=True` and `strategy=\"forward-mode\"` are not supported together "
                         "(yet). Please either set `strict=False` or `strategy=\"reverse-mode\"`.")
        if not vectorize:
            raise refuse(NotImplementedError, "torch.autograd.functional.jacobian: `vectorize=False` and `strategy=\"forward-mode\"` are not supported "
                         "together (yet).")
    if strict and vectorize:
        raise refuse(RuntimeError, "torch.autograd.functional.jacobian: `strict=True` and `vectorized=True` are not supported together. Please either set "
                     "`strict=False` or `vectorize=False`.")
    with enable_grad():
        xs, many = _prepare(inputs, create_graph, "jacobian")
        ys, many_out = _run(func, xs, "jacobian")
        if strict:
            _strict_outputs(ys)
        blocks = (_forward_rows(ys, xs, create_graph) if strategy == "forward-mode" else
                  [_rows(y, xs, create_graph) for y in ys])
        out = []
        for o, (y, row) in enumerate(zip(ys, blocks)):
            for k, g in enumerate(row):
                if strict and g is None and y.numel():
                    raise refuse(RuntimeError, _OUTPUT_INDEPENDENT.format(o, k))
                if strict and create_graph and g is not None and not g.requires_grad:
                    raise refuse(RuntimeError, _SECOND.format(k)[:-1] + " when create_graph=True.")
            row = [x.detach().new_zeros((*y.shape, *x.shape)) if g is None else g.reshape((*y.shape, *x.shape)) for g, x in zip(row, xs)]
            out.append(_done(row, create_graph, many))
    return tuple(out) if many_out else out[0]


def hessian(func, inputs, create_graph=False, strict=False, vectorize=False, outer_jacobian_strategy="reverse-mode"):
    """Second derivatives of a function with a single value: the shape of the input twice; tuples of tuples for several inputs."""
    if outer_jacobian_strategy not in ("forward-mode", "reverse-mode"):
        raise refuse(ValueError, 'Expected strategy to be either "forward-mode" or "reverse-mode".')
    many = isinstance(inputs, (tuple, list))

    def gradient(*xs):
        y = _one_value(func, xs, "hessian")
        gs = [None] * len(xs) if not y.requires_grad else pull([y], xs, [y.detach() * 0 + 1], True)
        if strict:
            _strict_outputs([y])
        gs = _filled(gs, xs, strict, _INDEPENDENT)
        if strict:
            _strict_gradients(gs)
        return tuple(gs) if many else gs[0]

    if strict:
        return jacobian(gradient, inputs, create_graph, strict)
    return jacobian(gradient, inputs, create_graph, strict, vectorize, outer_jacobian_strategy)


def _second(func, inputs, v, create_graph, strict, name):
    with enable_grad():
        xs, many = _prepare(inputs, create_graph, name)
        vs = _vectors(v, xs, many, "the input to the user-provided function is")
        y = _one_value(func, xs, name)
        if strict:
            _strict_outputs([y])
        gs = _filled(pull([y], xs, [y.detach() * 0 + 1], True), xs, strict, _INDEPENDENT)
        if strict:
            _strict_gradients(gs)
        hs = _filled(pull(gs, xs, vs, create_graph, create_graph), xs, strict, _SECOND)
    return _done([y], create_graph, False), _done(hs, create_graph, many)


def vhp(func, inputs, v=None, create_graph=False, strict=False):
    """(func(inputs), v^T H) for a function with a single value; v of the inputs' shape."""
    return _second(func, inputs, v, create_graph, strict, "vhp")


def hvp(func, inputs, v=None, create_graph=False, strict=False):
    """(func(inputs), H v): H is symmetric, so this is vhp, at two passes backward."""
    return _second(func, inputs, v, create_graph, strict, "hvp")


__all__ = ["hessian", "hvp", "jacobian", "jvp", "vhp", "vjp"]
