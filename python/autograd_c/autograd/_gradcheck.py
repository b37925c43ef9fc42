"""gradcheck and gradgradcheck: derivatives against central differences."""
import warnings as _warnings

from . import grad
from .._create import empty, tensor, zeros_like
from .._ffi import refuse
from .._tensor import Tensor


class GradcheckError(RuntimeError):
    """Analytical and numerical derivatives differ, or a gradient breaks a rule that is checked beside them."""


def _tuple(x):
    return tuple(x) if isinstance(x, (tuple, list)) else (x,)


def _outputs(func, inputs):
    return tuple([y for y in _tuple(func(*inputs)) if isinstance(y, Tensor) and y.is_floating_point()])


def _flat(t):
    return t.detach().double().reshape(-1).tolist()


def _numerical(func, inputs, x, eps, like):
    """columns[element of x][output]: d(output)/d(that element)."""
    flat = x.detach().reshape(-1)  # x's own memory: contiguous by the check before
    columns = []

    def values():
        ys = _outputs(func, inputs)
        for y, o in zip(ys, like):
            if y.shape != o.shape:
                raise GradcheckError(f"Expected `func` to return outputs with the same shape when inputs are perturbed by {eps}, but got: shapes "
                                     f"{o.shape} and {y.shape}.")
        return [y.detach().double().clone().reshape(-1) for y in ys]

    for k in range(flat.numel()):  # grad mode stays on: func may differentiate
        old = flat[k].item()
        flat[k] = old + eps
        high = values()
        flat[k] = old - eps
        low = values()
        flat[k] = old
        columns.append([((a - b) / (2 * eps)).tolist() for a, b in zip(high, low)])
    return columns


def _analytical(y, wanted):
    """rows[element of y][input]: the gradient as a list."""
    rows, flat = [], y.reshape(-1)
    for k in range(flat.numel()):
        gs = grad(flat[k], wanted, retain_graph=True, allow_unused=True) if y.requires_grad else [None] * len(wanted)
        rows.append([[0.0] * x.numel() if g is None else _flat(g) for g, x in zip(gs, wanted)])
    return rows


def _close(a, n, atol, rtol):
    return abs(a - n) <= atol + rtol * abs(n) or a == n or (a != a and n != n)


def _checked_inputs(inputs):
    """Inputs with memory of their own that can be nudged; those that require grad apart."""
    out, any_double = [], False
    for k, x in enumerate(inputs):
        if isinstance(x, Tensor) and x.requires_grad:
            if x.dtype.itemsize < 8:
                _warnings.warn(f"Input #{k} requires gradient and is not a double precision floating point or complex. This check will likely fail if "
                               "all the inputs are not of double precision floating point or complex. ", stacklevel=4)
            if any([s == 0 and n > 1 for s, n in zip(x.stride(), x.shape)]):
                raise refuse(RuntimeError, f"The {k}th input has a dimension with stride 0. gradcheck only supports inputs that are non-overlapping to be "
                             "able to compute the numerical gradients correctly. You should call .contiguous on the input before passing it to "
                             "gradcheck.")
            any_double = True
            if not x.is_contiguous():
                x = x.detach().contiguous().requires_grad_()
        out.append(x)
    if not any_double:
        raise refuse(ValueError, "gradcheck expects at least one input tensor to require gradient, but none of them have requires_grad=True.")
    return tuple(out)


def _check_values(func, inputs, wanted, outputs, eps, atol, rtol, nondet_tol):
    numerical = [_numerical(func, inputs, x, eps, outputs) for x in wanted]
    outputs = _outputs(func, inputs)  # anew: what the first ones saved of the inputs has been written to since
    for o, y in enumerate(outputs):
        rows = _analytical(y, wanted)
        for i, x in enumerate(wanted):
            for e in range(x.numel()):
                for k, row in enumerate(rows):
                    a, n = row[i][e], numerical[i][e][o][k]
                    if not y.requires_grad and abs(n) > atol:
                        raise GradcheckError("Numerical gradient for function expected to be zero")
                    if not _close(a, n, atol, rtol):
                        j = tensor([[numerical[i][c][o][r] for r in range(len(rows))] for c in range(x.numel())])
                        b = tensor([[rows[r][i][c] for r in range(len(rows))] for c in range(x.numel())])
                        raise GradcheckError(f"Jacobian mismatch for output {o} with respect to input {i},\nnumerical:{j}\nanalytical:{b}\n"
                                             f"first difference: element {k} of the output by element {e} of the input: numerical {n!r}, "
                                             f"analytical {a!r}")
        again = _analytical(y, wanted) if y.requires_grad else rows
        if any([abs(a - b) > nondet_tol for r, q in zip(rows, again) for c, d in zip(r, q) for a, b in zip(c, d)]):
            raise GradcheckError("Backward is not reentrant, i.e., running backward with same input and grad_output multiple times gives different "
                                 f"values, although analytical gradient matches numerical gradient.The tolerance for nondeterminism was {nondet_tol}.")


def _check_rules(func, inputs, wanted, check_undefined_grad, check_grad_dtypes):
    """Gradients have their input's shape (and dtype), scale with the seed, and survive seeds that are not given."""
    outputs = [y for y in _outputs(func, inputs) if y.requires_grad]
    zeros = grad(outputs, wanted, [zeros_like(y, requires_grad=False) for y in outputs], retain_graph=True, allow_unused=True)
    for g, x in zip(zeros, wanted):
        if g is None:
            continue
        if not all([v == 0 or v != v for v in _flat(g)]):
            raise GradcheckError("backward not multiplied by grad_output")
        if g.shape != x.shape:
            raise GradcheckError("grad is incorrect size")
        if check_grad_dtypes and g.dtype is not x.dtype:
            raise GradcheckError("Gradient has dtype mismatch")
    if check_undefined_grad and len(outputs) > 1:
        for y in outputs:
            try:
                grad([y], wanted, [zeros_like(y, requires_grad=False)], retain_graph=True, allow_unused=True)
            except RuntimeError as error:
                raise GradcheckError("Expected backward function to handle undefined output grads. Please look at \"Notes about undefined output "
                                     "gradients\" in \"tools/autograd/derivatives.yaml\"") from error


def _check_batched(func, inputs, wanted):
    """A batch of seeds in one walk gives what the seeds give one by one."""
    from ..random import Generator, randn

    gen = Generator().manual_seed(1)
    for y in _outputs(func, inputs):
        if not y.requires_grad:
            continue
        seeds = randn(2, *y.shape, dtype=y.dtype, generator=gen)
        try:
            batch = grad([y], wanted, [seeds], retain_graph=True, allow_unused=True, is_grads_batched=True)
        except RuntimeError as error:
            raise GradcheckError(f"While computing batched gradients, got: {error}") from error
        for k in range(2):
            one = grad([y], wanted, [seeds[k]], retain_graph=True, allow_unused=True)
            for b, g in zip(batch, one):
                if (b is None) != (g is None) or (b is not None and not all([_close(p, q, 1e-8, 1e-6) for p, q in zip(_flat(b[k]), _flat(g))])):
                    raise GradcheckError("For output, batched gradients differ from those of the seeds one by one")


def gradcheck(func, inputs, *, eps=1e-6, atol=1e-5, rtol=1e-3, raise_exception=True, nondet_tol=0.0, check_undefined_grad=True,
              check_grad_dtypes=False, check_batched_grad=False, check_batched_forward_grad=False, check_forward_ad=False,
              check_backward_ad=True, fast_mode=False, masked=None):
    """Whether every derivative of func's outputs in every input that requires grad is right, by central differences.

    Inputs should be float64 (a warning says so) and are nudged in place, by eps.  Beside the values: gradients are zero for
    seeds of zeros, have their input's shape, are the same twice (to nondet_tol), with check_grad_dtypes have its dtype, with
    check_batched_grad are the same for a batch of seeds.  Raises GradcheckError with both Jacobians, or returns False
    without raise_exception.  ValueError when no input requires grad.  fast_mode is accepted, every element is compared all
    the same; check_forward_ad is refused with NotImplementedError: there is no forward mode.
    """
    if check_forward_ad or check_batched_forward_grad:
        raise refuse(NotImplementedError, "gradcheck: check_forward_ad: there is no forward mode here, func.jvp is made of backward passes")
    if not check_backward_ad:
        raise refuse(ValueError, "Expected at least one of check_forward_ad or check_backward_ad to be True")
    try:
        inputs = _checked_inputs(_tuple(inputs))
        wanted = [x for x in inputs if isinstance(x, Tensor) and x.requires_grad]
        outputs = _outputs(func, inputs)
        _check_values(func, inputs, wanted, outputs, eps, atol, rtol, nondet_tol)
        if any([y.requires_grad for y in outputs]):
            _check_rules(func, inputs, wanted, check_undefined_grad, check_grad_dtypes)
            if check_batched_grad:
                _check_batched(func, inputs, wanted)
    except GradcheckError:
        if raise_exception:
            raise
        return False
    return True


def gradgradcheck(func, inputs, grad_outputs=None, *, eps=1e-6, atol=1e-5, rtol=1e-3, gen_non_contig_grad_outputs=False,
                  raise_exception=True, nondet_tol=0.0, check_undefined_grad=True, check_grad_dtypes=False, check_batched_grad=False,
                  check_fwd_over_rev=False, check_rev_over_rev=True, fast_mode=False, masked=False):
    """gradcheck of the gradients themselves: whether second derivatives are right, also in the seeds grad_outputs (fixed
    numbers of no symmetry where not given)."""
    if check_fwd_over_rev:
        raise refuse(NotImplementedError, "gradgradcheck: check_fwd_over_rev: there is no forward mode here")
    if not check_rev_over_rev:
        raise refuse(ValueError, "Expected at least one of check_fwd_over_rev or check_rev_over_rev to be True")
    inputs = _tuple(inputs)
    wanted = [k for k, x in enumerate(inputs) if isinstance(x, Tensor) and x.requires_grad]
    outputs = [y for y in _outputs(func, inputs) if y.requires_grad]
    if grad_outputs is None:
        seeds, state = [], 1
        for y in outputs:
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

    return gradcheck(gradients, (*inputs, *seeds), eps=eps, atol=atol, rtol=rtol, raise_exception=raise_exception, nondet_tol=nondet_tol,
                     check_undefined_grad=check_undefined_grad, check_grad_dtypes=check_grad_dtypes, check_batched_grad=check_batched_grad)
