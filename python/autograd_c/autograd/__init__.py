"""Gradients: grad, backward, and the grad modes."""
from .._ffi import NULL, check, ffi, lib, push_site, refuse
from .._modes import enable_grad, inference_mode, is_grad_enabled, no_grad, set_grad_enabled
from .._tensor import Tensor, _wrap
from ..graph import Node

Variable = Tensor


def _list(x):
    return list(x) if isinstance(x, (tuple, list)) else [x]


def _seeds(outputs, grad_outputs):
    """Array of seeds (NULL: ones) and whether any is given."""
    if grad_outputs is None:
        return NULL
    seeds = _list(grad_outputs)
    if len(seeds) != len(outputs):
        raise refuse(RuntimeError, f"got {len(outputs)} tensors and {len(seeds)} gradients")
    for k, (y, s) in enumerate(zip(outputs, seeds)):
        if s is None:
            continue
        if not isinstance(s, Tensor):
            raise refuse(TypeError, f"gradients can be either Tensors or None, but got {type(s).__name__}")
        if s.shape != y.shape:
            raise refuse(RuntimeError, f"Mismatch in shape: grad_output[{k}] has a shape of {s.shape} and output[{k}] has a shape of {y.shape}.")
    return [NULL if s is None else s._h for s in seeds]


def backward(tensors, grad_tensors=None, retain_graph=None, create_graph=False, grad_variables=None, inputs=None):
    """Adds the gradients of `tensors`, weighted by grad_tensors, into the .grad of the leaves (or of `inputs`)."""
    push_site()
    roots = _list(tensors)
    if grad_tensors is None:
        grad_tensors = grad_variables
    seeds = _seeds(roots, grad_tensors)
    if inputs is None:
        wanted = []
    else:
        wanted = _list(inputs)
        if not wanted:
            raise refuse(RuntimeError, "`inputs` argument to `backward()` cannot be empty.")
    check(lib.ag_backward(len(roots), [t._h for t in roots], seeds, create_graph if retain_graph is None else retain_graph, create_graph,
                          len(wanted), [t._h for t in wanted]))


def grad(outputs, inputs, grad_outputs=None, retain_graph=None, create_graph=False, allow_unused=None, is_grads_batched=False,
         materialize_grads=False):
    """Gradients of the outputs, weighted by grad_outputs, in each of the inputs: a tuple; .grad is left alone.

    An input that the outputs do not depend on is an error, None with allow_unused, zeros with materialize_grads.
    """
    push_site()
    roots, wanted = _list(outputs), _list(inputs)
    if is_grads_batched:
        return _batched(roots, wanted, grad_outputs, retain_graph, create_graph, allow_unused, materialize_grads)
    if materialize_grads and allow_unused is False:
        raise refuse(ValueError, "Expected allow_unused to be True or not passed when materialize_grads=True, but got: allow_unused=False.")
    grads = ffi.new("ag_tensor *[]", len(wanted))
    check(lib.ag_grad(len(roots), [t._h for t in roots], _seeds(roots, grad_outputs), len(wanted), [t._h for t in wanted],
                      create_graph if retain_graph is None else retain_graph, create_graph, bool(allow_unused or materialize_grads), grads))
    out = [_wrap(g) if g else None for g in grads]
    if materialize_grads:
        from .._create import zeros_like

        out = [zeros_like(x) if g is None else g for g, x in zip(out, wanted)]
    return tuple(out)


def _batched(roots, wanted, grad_outputs, retain_graph, create_graph, allow_unused, materialize_grads):
    from .._shape import stack

    seeds = _list(grad_outputs)
    sizes = [s.shape[0] for s in seeds if s is not None and s.dim()]
    if not sizes:
        raise refuse(RuntimeError, "is_grads_batched=True wants grad_outputs with a batch dim in front")
    n = sizes[0]
    rows = []
    for k in range(n):
        last = k == n - 1 and not (create_graph if retain_graph is None else retain_graph)
        rows.append(grad(roots, wanted, [None if s is None else s[k] for s in seeds], not last, create_graph, allow_unused,
                         materialize_grads=materialize_grads))
    return tuple([None if any(g is None for g in column) else stack(column) for column in zip(*rows)])


__all__ = ["Node", "Variable", "backward", "enable_grad", "grad", "inference_mode", "is_grad_enabled", "no_grad", "set_grad_enabled"]


def __getattr__(name):
    import importlib

    if name in ("Function", "functional", "gradcheck", "gradgradcheck", "detect_anomaly", "set_detect_anomaly", "graph", "forward_ad",
                "profiler", "GradcheckError"):
        module = {"Function": "function", "gradcheck": "_gradcheck", "GradcheckError": "_gradcheck", "gradgradcheck": "_gradcheck", "detect_anomaly": "anomaly_mode",
                  "set_detect_anomaly": "anomaly_mode"}.get(name, name)
        try:
            m = importlib.import_module(f"{__name__}.{module}")
        except ModuleNotFoundError as e:
            if e.name != f"{__name__}.{module}":
                raise
        else:
            return getattr(m, name, m)
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
