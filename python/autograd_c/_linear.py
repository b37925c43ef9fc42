"""Matrix products, composed of mm, mv, dot and bmm as PyTorch composes them."""
from functools import lru_cache as _lru_cache
import math as _math
from sys import _getframe

from ._call import apply, apply2, not_a_tensor
from ._ffi import OPS, push_site, refuse
from ._shape import broadcast_shapes, expand_at, reshape_at, unsqueeze
from ._tensor import Tensor, wrap_dim

_BY_DIMS = {(2, 2): OPS["mm"], (2, 1): OPS["mv"], (1, 1): OPS["dot"]}


def matmul_at(f, a, b):
    try:
        m, n = a.ndim, b.ndim
    except AttributeError:
        raise not_a_tensor("matmul", "other", 2, b if isinstance(a, Tensor) else a) from None
    op = _BY_DIMS.get((m, n))
    if op is not None:
        return apply2(f, op, a, b)
    if not m or not n:
        raise refuse(RuntimeError, f"both arguments to matmul need to be at least 1D, but they are {m}D and {n}D")
    if m == 1 and n == 2:
        return apply(f, "squeeze", (apply(f, "mm", (apply(f, "unsqueeze", (a,), (0,)), b)),), (0,))
    if n <= 2:  # the batch dims of a fold into its rows
        s = tuple(a.shape)
        rows = reshape_at(f, a, (_math.prod(s[:-1]), s[-1]))
        if n == 1:
            return apply(f, "view", (apply(f, "mv", (rows, b)),), s[:-1])
        return apply(f, "view", (apply(f, "mm", (rows, b)),), (*s[:-1], b.shape[1]))
    x = apply(f, "unsqueeze", (a,), (0,)) if m == 1 else a
    y = apply(f, "unsqueeze", (b,), (n,)) if n == 1 else b
    xs, ys = tuple(x.shape), tuple(y.shape)
    if xs[-1] != ys[-2]:
        raise refuse(RuntimeError, f"Expected size for first two dimensions of batch2 tensor to be: [{_math.prod(xs[:-2])}, {xs[-1]}] but got: "
                     f"[{_math.prod(ys[:-2])}, {ys[-2]}]." if m > 2 else
                     f"mat1 and mat2 shapes cannot be multiplied ({xs[-2]}x{xs[-1]} and {ys[-2]}x{ys[-1]})")
    try:
        batch = broadcast_shapes(xs[:-2], ys[:-2])
    except RuntimeError:
        lead = max(len(xs), len(ys)) - 2
        p, q = [(1,) * (lead - len(s) + 2) + s[:-2] for s in (xs, ys)]
        k = next(k for k in range(lead - 1, -1, -1) if p[k] != q[k] and 1 not in (p[k], q[k]))
        raise refuse(RuntimeError, f"The size of tensor a ({p[k]}) must match the size of tensor b ({q[k]}) at non-singleton dimension {k}") from None
    count = _math.prod(batch)
    if xs[:-2] != batch:
        x = expand_at(f, x, (*batch, *xs[-2:]))
    if ys[:-2] != batch:
        y = expand_at(f, y, (*batch, *ys[-2:]))
    if len(batch) != 1:
        x = reshape_at(f, x, (count, *xs[-2:]))
        y = reshape_at(f, y, (count, *ys[-2:]))
    r = apply(f, "bmm", (x, y))
    shape = (*batch, *xs[-2:-1], *ys[-1:])
    if m == 1:
        shape = (*shape[:-2], shape[-1])
    if n == 1:
        shape = shape[:-1]
    return r if len(shape) == 3 and len(batch) == 1 else apply(f, "view", (r,), shape)


def matmul(input, other):
    """Matrix product: vectors, matrices, and batches of them broadcast over the leading dims."""
    return matmul_at(_getframe(1), input, other)


def mm(input, mat2):
    """(n, m) times (m, p)."""
    for name, x in (("self", input), ("mat2", mat2)):
        if x.dim() != 2:
            raise refuse(RuntimeError, f"{name} must be a matrix")
    return matmul_at(_getframe(1), input, mat2)


def mv(input, vec):
    """(n, m) times (m,)."""
    if input.dim() != 2 or vec.dim() != 1:
        raise refuse(RuntimeError, f"vector + matrix @ vector expected, got {input.dim()}, {vec.dim()}")
    return matmul_at(_getframe(1), input, vec)


def dot(input, tensor):
    """Inner product of two vectors of the same length."""
    if input.dim() != 1 or tensor.dim() != 1:
        raise refuse(RuntimeError, f"1D tensors expected, but got {input.dim()}D and {tensor.dim()}D tensors")
    return matmul_at(_getframe(1), input, tensor)


def vdot(input, other):
    """Inner product of two vectors of the same length."""
    push_site()
    return dot(input, other)


def bmm(input, mat2):
    """(b, n, m) times (b, m, p)."""
    for name, x in (("batch1", input), ("batch2", mat2)):
        if x.dim() != 3:
            raise refuse(RuntimeError, f"{name} must be a 3D tensor")
    return apply(_getframe(1), "bmm", (input, mat2))


def addmm(input, mat1, mat2, *, beta=1, alpha=1):
    """beta * input + alpha * (mat1 @ mat2)."""
    f = _getframe(1)
    if beta == 1 and alpha == 1:
        return apply(f, "addmm", (input, mat1, mat2))
    push_site()
    return _combined(input, mm(mat1, mat2), beta, alpha)


def _combined(input, product, beta, alpha, mixed=False):
    """beta * input + alpha * product in input's dtype; beta 0: without input.  mixed: of two dtypes the wider one."""
    if input.dtype is not product.dtype and not mixed:
        raise refuse(RuntimeError, f"self and mat2 must have the same dtype, but got {input.dtype.scalar_name} and {product.dtype.scalar_name}")
    if not input.is_floating_point():
        beta, alpha = (bool(beta), bool(alpha)) if input.dtype.name == "bool" else (int(beta), int(alpha))
    if tuple(input.shape) != tuple(product.shape):
        input = expand_at(_getframe(1), input, tuple(product.shape))
    r = product if alpha == 1 else product * alpha
    if not beta:
        return r
    if input.dtype.name == "bool":
        return r | input
    return (input if beta == 1 else input * beta) + r


def addmv(input, mat, vec, *, beta=1, alpha=1):
    """beta * input + alpha * (mat @ vec)."""
    push_site()
    return _combined(input, mv(mat, vec), beta, alpha)


def addbmm(input, batch1, batch2, *, beta=1, alpha=1):
    """beta * input + alpha * the sum of the products batch1[i] @ batch2[i]."""
    push_site()
    r = bmm(batch1, batch2)
    return _combined(input, r.sum(0, dtype=r.dtype), beta, alpha)


def baddbmm(input, batch1, batch2, *, beta=1, alpha=1):
    """beta * input + alpha * bmm(batch1, batch2)."""
    push_site()
    return _combined(input, bmm(batch1, batch2), beta, alpha)


def addr(input, vec1, vec2, *, beta=1, alpha=1):
    """beta * input + alpha * outer(vec1, vec2)."""
    push_site()
    product = outer(vec1, vec2)
    for name, x in (("beta", beta), ("alpha", alpha)):
        if isinstance(x, float) and not input.is_floating_point() and not product.is_floating_point():
            raise refuse(RuntimeError, f"For integral input tensors, argument {name} must not be a floating point number.")
    return _combined(input, product, beta, alpha, True)


def outer(input, vec2):
    """input[:, None] * vec2."""
    if input.dim() != 1 or vec2.dim() != 1:
        raise refuse(RuntimeError, f"outer: Expected 1-D argument {'self' if input.dim() != 1 else 'vec2'}, but got "
                     f"{input.dim() if input.dim() != 1 else vec2.dim()}-D")
    f = _getframe(1)
    return apply(f, "mul", (apply(f, "unsqueeze", (input,), (1,)), vec2))


ger = outer


def inner(input, other):
    push_site()
    if not input.dim() or not other.dim():
        return input * other
    return tensordot(input, other, ([-1], [-1]))


def tensordot(a, b, dims=2):
    """Sum over pairs of dims: the last n of a with the first n of b, or ([of a], [of b])."""
    push_site()
    if isinstance(dims, int):
        da, db = list(range(a.dim() - dims, a.dim())), list(range(dims))
    else:
        da, db = [[x] if isinstance(x, int) else list(x) for x in dims]
    da, db = [wrap_dim(d, a.dim()) for d in da], [wrap_dim(d, b.dim()) for d in db]
    for x, y in zip(da, db):
        if a.shape[x] == 1:  # sizes of 1 broadcast
            b = b.sum(y, True, dtype=b.dtype)
        elif b.shape[y] == 1:
            a = a.sum(x, True, dtype=a.dtype)
        if a.shape[x] != b.shape[y]:
            raise refuse(RuntimeError, f"contracted dimensions need to match, but first has size {a.shape[x]} in dim {x} and second has size "
                         f"{b.shape[y]} in dim {y}")
    fa, fb = [d for d in range(a.dim()) if d not in da], [d for d in range(b.dim()) if d not in db]
    n = _math.prod([a.shape[d] for d in da])
    sa, sb = [a.shape[d] for d in fa], [b.shape[d] for d in fb]
    x = a.permute(fa + da).reshape(_math.prod(sa), n)
    y = b.permute(db + fb).reshape(n, _math.prod(sb))
    return (x @ y).reshape((*sa, *sb))


def kron(input, other):
    """Kronecker product."""
    push_site()
    n = max(input.dim(), other.dim())
    a, b = [x if x.dim() == n else x.reshape((1,) * (n - x.dim()) + tuple(x.shape)) for x in (input, other)]
    sa, sb = tuple(a.shape), tuple(b.shape)
    r = a.reshape([m for k in sa for m in (k, 1)]) * b.reshape([m for k in sb for m in (1, k)])
    return r.reshape([x * y for x, y in zip(sa, sb)])


def _einsum_terms(equation, operands):
    equation = equation.replace(" ", "")
    left, arrow, right = equation.partition("->")
    terms = left.split(",")
    if len(terms) != len(operands):
        raise refuse(RuntimeError, "einsum(): more operands were provided than specified in the equation" if len(terms) < len(operands) else
                     "einsum(): fewer operands were provided than specified in the equation")
    spare = [chr(c) for c in range(ord("\u0391"), ord("\u0391") + 24)]
    widest = 0
    for k, (term, x) in enumerate(zip(terms, operands)):
        if "..." in term:
            n = x.dim() - len(term) + 3
            widest = max(widest, n)
            terms[k] = term.replace("...", "".join(spare[24 - n:]) if n else "")
        elif len(term) != x.dim():
            raise refuse(RuntimeError, f"einsum(): the number of subscripts in the equation ({len(term)}) does not match the number of dimensions "
                         f"({x.dim()}) for operand {k} and no ellipsis was given")
    dots = "".join(spare[24 - widest:]) if widest else ""
    if not arrow:
        letters = [c for c in "".join(terms) if c not in dots]
        right = dots + "".join(sorted(c for c in set(letters) if letters.count(c) == 1))
    else:
        right = right.replace("...", dots)
    return terms, right


def _sublists(args):
    """The equation of einsum(x, [0, 1], y, [1, 2], [0, 2]): numbers below 52 for letters, ... for the rest."""
    letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

    def term(places):
        if any([p is not Ellipsis and not 0 <= p < 52 for p in places]):
            raise refuse(RuntimeError, "einsum(): not all subscripts in the sublist are within the valid range [0, 52)")
        return "".join(["..." if p is Ellipsis else letters[p] for p in places])

    operands = args[:len(args) // 2 * 2:2]
    left = ",".join([term(places) for places in args[1::2]])
    return left + ("->" + term(args[-1]) if len(args) % 2 else ""), operands


def einsum(equation, *operands):
    """Sum of products by Einstein's convention: einsum("bij,bjk->bik", x, y); "..." stands for any dims.

    The other spelling: einsum(x, [0, 1, 2], y, [0, 2, 3], [0, 1, 3]), numbers for letters, Ellipsis for "...".

    Each pair is contracted as one batched matrix product; three and more operands in the order opt_einsum finds when it
    is installed (extra `einsum`), else from left to right.
    """
    push_site()
    if isinstance(equation, Tensor):
        equation, operands = _sublists((equation, *operands))
    if len(operands) == 1 and isinstance(operands[0], (tuple, list)):
        operands = tuple(operands[0])
    if len(operands) == 2:
        a, b = operands
        if "..." in equation:
            terms, out = _einsum_terms(equation, operands)
            equation = f"{terms[0]},{terms[1]}->{out}"
        plan = _pair_plan(equation, a.dim(), b.dim())
        if plan is not None:
            r = plan(tuple(a.shape), tuple(b.shape), a, b)
            if r is not None:
                return r
    elif len(operands) == 1 and type(equation) is str:
        order = _turn_plan(equation, operands[0].dim())
        if order is not None:
            return operands[0].permute(order)
    terms, out = _einsum_terms(equation, operands)
    ops = []
    for term, x in zip(terms, operands):
        while len(set(term)) < len(term):  # a letter twice in one operand: its diagonal
            c = next(c for c in term if term.count(c) > 1)
            i = term.index(c)
            j = term.index(c, i + 1)
            if x.shape[i] != x.shape[j]:
                raise refuse(RuntimeError, f"einsum(): subscript {c} is repeated for operand {len(ops)} but the sizes don't match, "
                             f"{x.shape[j]} != {x.shape[i]}")
            x = x.diagonal(0, i, j)
            term = term[:i] + term[i + 1:j] + term[j + 1:] + c
        ops.append((term, x))
    sizes = {}
    for term, x in ops:
        for c, n in zip(term, x.shape):
            if sizes.get(c, 1) not in (1, n) and n != 1:
                raise refuse(RuntimeError, f"einsum(): subscript {c} has size {n} for operand which does not broadcast with previously seen "
                             f"size {sizes[c]}")
            sizes[c] = max(n, sizes.get(c, 1)) if n else 0
    for i, j in _path(tuple(t for t, _ in ops), out, tuple(sizes.items())):
        (ta, a), (tb, b) = ops[i], ops[j]
        ops = [o for k, o in enumerate(ops) if k not in (i, j)]
        ops.append(_contract(ta, a, tb, b, set(out).union(*[t for t, _ in ops]), sizes))
    (ta, a), = ops
    gone = [k for k, c in enumerate(ta) if c not in out]
    if gone:
        a = a.sum(gone)
        ta = "".join(c for c in ta if c in out)
    for c in out:
        if c not in ta:
            raise refuse(RuntimeError, f"einsum(): output subscript {c} does not appear in the equation for any input operand")
    return a.permute([ta.index(c) for c in out]) if ta != out else a


@_lru_cache(maxsize=256)
def _path(terms, out, sizes):
    """Pairs of positions to contract: both operands leave the list, their product joins its end."""
    n = len(terms)
    if n > 2:
        try:
            from opt_einsum import contract_path
        except ImportError:
            pass
        else:
            sizes = dict(sizes)
            path, _ = contract_path(f"{','.join(terms)}->{out}", *[tuple(sizes[c] for c in t) for t in terms], shapes=True)
            if all(len(pair) == 2 for pair in path):
                return [tuple(sorted(pair)) for pair in path]
    return [(0, 1)] + [(0, k) for k in range(n - 2, 0, -1)] if n > 2 else [(0, 1)] * (n - 1)


@_lru_cache(maxsize=256)
def _turn_plan(equation, dims):
    """Order of dims of an equation that only turns its one operand, else None."""
    left, arrow, right = equation.replace(" ", "").partition("->")
    if arrow and left.isalpha() and len(left) == dims and len(set(left)) == dims and sorted(left) == sorted(right):
        return [left.index(c) for c in right]
    return None


@_lru_cache(maxsize=256)
def _pair_plan(equation, m, n):
    """How to run a plain equation of two operands: function of shapes and operands, or None.

    Plain: letters once in each operand, no dots, none of them summed in one operand alone.  The function gives None where
    sizes of 1 broadcast or do not fit: the general way takes or refuses those.
    """
    left, arrow, out = equation.replace(" ", "").partition("->")
    ta, comma, tb = left.partition(",")
    letters = ta + tb + out
    if not (comma and ta.isalpha() and tb.isalpha() and len(ta) == m and len(tb) == n) or (out and not out.isalpha()):
        return None
    if not arrow:
        out = "".join(sorted(c for c in set(letters) if letters.count(c) == 1))
    if any(len(set(t)) < len(t) for t in (ta, tb, out)) or not set(out) <= set(ta + tb):
        return None
    if any((c in ta) != (c in tb) and c not in out for c in ta + tb):
        return None
    batch = [c for c in ta if c in tb and c in out]
    gone = [c for c in ta if c in tb and c not in out]
    fa, fb = [c for c in ta if c not in tb], [c for c in tb if c not in ta]
    pa, pb = [ta.index(c) for c in batch + fa + gone], [tb.index(c) for c in batch + gone + fb]
    have = batch + fa + fb
    last = [have.index(c) for c in out]
    pairs = [(ta.index(c), tb.index(c)) for c in ta if c in tb]
    same = lambda p: p == list(range(len(p)))  # noqa: E731
    turn_a, turn_b, turn = not same(pa), not same(pb), not same(last)
    groups = (batch, fa, gone, fb)
    flat = all(len(g) == 1 for g in (fa, gone, fb)) and len(batch) <= 1  # already matrices
    at_a, at_b = [[ta.index(c) if c in ta else None for c in g] for g in groups], [[tb.index(c) if c in tb else None for c in g] for g in groups]

    def run(sa, sb, a, b):
        for i, j in pairs:
            if sa[i] != sb[j]:
                return None
        x, y = a.permute(pa) if turn_a else a, b.permute(pb) if turn_b else b
        if not gone:
            if fb and (fa or batch):  # room for b's own letters
                x = x.reshape([sa[k] for k in pa] + [1] * len(fb))
            if fa and batch:
                y = y.reshape([sb[tb.index(c)] for c in batch] + [1] * len(fa) + [sb[tb.index(c)] for c in fb])
            r = x * y
            return r.permute(last) if turn else r
        if flat:
            r = bmm(x, y) if batch else x @ y
            return r.permute(last) if turn else r
        sizes = [_math.prod([sa[k] if k is not None else sb[j] for k, j in zip(ka, kb)]) for ka, kb in zip(at_a, at_b)]
        nb, na, ng, nf = sizes
        if not batch:
            x, y = x.reshape((na, ng) if fa else (ng,)), y.reshape((ng, nf) if fb else (ng,))
            r = x @ y
        else:
            r = bmm(x.reshape(nb, na, ng), y.reshape(nb, ng, nf))
        r = r.reshape([sa[ta.index(c)] if c in ta else sb[tb.index(c)] for c in have])
        return r.permute(last) if turn else r

    return run


def _contract(ta, a, tb, b, later, sizes):
    """Product of two operands, summed over the letters needed neither by the result nor later."""
    for c in set(ta) | set(tb):  # sizes of 1 broadcast
        for t, x, second in ((ta, a, False), (tb, b, True)):
            if c in t and x.shape[t.index(c)] != sizes[c]:
                shape = [sizes[c] if k == c else n for k, n in zip(t, x.shape)]
                if second:
                    b = x.expand(shape)
                else:
                    a = x.expand(shape)
    alone = [k for k, c in enumerate(ta) if c not in tb and c not in later]
    if alone:
        a, ta = a.sum(alone), "".join(c for k, c in enumerate(ta) if k not in alone)
    alone = [k for k, c in enumerate(tb) if c not in ta and c not in later]
    if alone:
        b, tb = b.sum(alone), "".join(c for k, c in enumerate(tb) if k not in alone)
    batch = [c for c in ta if c in tb and c in later]
    inner_ = [c for c in ta if c in tb and c not in later]
    fa, fb = [c for c in ta if c not in tb], [c for c in tb if c not in ta]
    size = lambda letters: [sizes[c] for c in letters]  # noqa: E731
    x = a.permute([ta.index(c) for c in batch + fa + inner_]).reshape(_math.prod(size(batch)), _math.prod(size(fa)), _math.prod(size(inner_)))
    y = b.permute([tb.index(c) for c in batch + inner_ + fb]).reshape(_math.prod(size(batch)), _math.prod(size(inner_)), _math.prod(size(fb)))
    r = x * y if not inner_ and (not fa or not fb) and 1 in (x.shape[1], y.shape[2]) else bmm(x, y)
    return "".join(batch + fa + fb), r.reshape(size(batch + fa + fb))


def cross(input, other, dim=None):
    """Vector product along a dim of size 3."""
    push_site()
    d = wrap_dim(dim, input.dim()) if dim is not None else next(k for k, n in enumerate(input.shape) if n == 3)
    a, b = [[x.select(d, k) for k in range(3)] for x in (input, other)]
    from ._shape import stack

    return stack([a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]], d)


def vecdot(input, other, dim=-1):
    push_site()
    return (input * other).sum(dim)


def cdist(x1, x2, p=2.0, compute_mode=None):
    """Distances between the rows of x1 and the rows of x2."""
    from ._reduce import norm

    push_site()
    return norm(unsqueeze(x1, -2) - unsqueeze(x2, -3), p, -1)
