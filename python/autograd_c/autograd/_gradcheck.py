"""gradcheck and gradgradcheck: derivatives against central differences."""
from . import grad
from .._create import empty, tensor
from .._tensor import Tensor


class GradcheckError(RuntimeError):
    """Analytical and numerical derivatives differ."""


def _tuple(x):
    return tuple(x) if isinstance(x, (tuple, list)) else (x,)


def _outputs(func, inputs):
    return tuple([y for y in _tuple(func(*inputs)) if isinstance(y, Tensor) and y.is_floating_point()])


def _numerical(func, inputs, x, eps):
    """Lists over outputs of rows: d(output)/d(element of x)."""
    flat = x.detach().reshape(-1)  # x's own memory: contiguous by the check below
    columns = []
    for k in range(flat.numel()):  # grad mode stays on: func may differentiate
        old = flat[k].item()
        flat[k] = old + eps
        high = [y.detach().double().clone().reshape(-1) for y in _outputs(func, inputs)]
        flat[k] = old - eps
        low = [y.detach().double().clone().reshape(-1) for y in _outputs(func, inputs)]
        flat[k] = old
        columns.append([((a - b) / (2 * eps)).tolist() for a, b in zip(high, low)])
    return columns


def gradcheck(func, inputs, *, eps=1e-6, atol=1e-5, rtol=1e-3, raise_exception=True, nondet_tol=0.0, check_undefined_grad=True,
              check_grad_dtypes=False, check_batched_grad=False, check_batched_forward_grad=False, check_forward_ad=False,
              check_backward_ad=True, fast_mode=False, masked=None):
    """Whether every derivative of func's outputs in every input that requires grad is right, by central differences.

    Inputs should be float64.  Raises GradcheckError with the largest difference, or returns False.
    """
    inputs = tuple([x.detach().contiguous().requires_grad_() if isinstance(x, Tensor) and x.requires_grad and not x.is_contiguous() else x
                    for x in _tuple(inputs)])
    wanted = [x for x in inputs if isinstance(x, Tensor) and x.requires_grad]
    if not wanted:
        raise ValueError("gradcheck expects at least one input tensor to require gradient, but none of the them have requires_grad=True.")
    outputs = _outputs(func, inputs)
    if not any(y.requires_grad for y in outputs):
        return True
    analytical = []  # [output][input]: rows of the transposed Jacobian by output element
    for y in outputs:
        rows = []
        flat = y.reshape(-1)
        for k in range(flat.numel()):
            gs = grad(flat[k], wanted, retain_graph=True, allow_unused=True) if y.requires_grad else [None] * len(wanted)
            rows.append([[0.0] * x.numel() if g is None else g.detach().double().reshape(-1).tolist() for g, x in zip(gs, wanted)])
        analytical.append(rows)
    for i, x in enumerate(wanted):
        numerical = _numerical(func, inputs, x, eps)
        for o, rows in enumerate(analytical):
            for k, row in enumerate(rows):
                for e in range(x.numel()):
                    a, n = row[i][e], numerical[e][o][k]
                    if not abs(a - n) <= atol + rtol * abs(n) and not (a != a and n != n):
                        if raise_exception:
                            raise GradcheckError(f"Jacobian mismatch for output {o} with respect to input {i}, element {k} by element {e}: "
                                                 f"numerical {n!r}, analytical {a!r}")
                        return False
    return True


def gradgradcheck(func, inputs, grad_outputs=None, *, eps=1e-6, atol=1e-5, rtol=1e-3, gen_non_contig_grad_outputs=False,
                  raise_exception=True, nondet_tol=0.0, **options):
    """gradcheck of the gradients themselves: whether second derivatives are right."""
    inputs = _tuple(inputs)
    wanted = [k for k, x in enumerate(inputs) if isinstance(x, Tensor) and x.requires_grad]
    outputs = [y for y in _outputs(func, inputs) if y.requires_grad]
    if grad_outputs is None:
        seeds, state = [], 1
        for y in outputs:  # fixed numbers of no symmetry
            values = []
            for _ in range(y.numel()):
                state = (state * 1103515245 + 12345) % 2**31
                values.append(state / 2**30 - 1)
            s = tensor(values, dtype=y.dtype).reshape(tuple(y.shape)) if y.numel() else empty(tuple(y.shape), dtype=y.dtype)
            seeds.append(s.requires_grad_())
    else:
        seeds = [g if g.requires_grad else g.detach().clone().requires_grad_() for g in _tuple(grad_outputs)]
    n = len(inputs)

    def gradients(*args):
        ys = [y for y in _outputs(func, args[:n]) if y.requires_grad]
        gs = grad(ys, [args[k] for k in wanted], list(args[n:]), create_graph=True, allow_unused=True)
        return tuple([g for g in gs if g is not None])

    return gradcheck(gradients, (*inputs, *seeds), eps=eps, atol=atol, rtol=rtol, raise_exception=raise_exception)
