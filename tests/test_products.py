"""Products at the sizes where the way changes (built-in kernel, BLAS, rows by fours), integers, einsum at random."""
import numpy as np
import pytest

import autograd_c as ac

# rows, terms, columns: few rows, few terms, both sides of 32^3 multiplications and of 64 rows, a large result of few terms
SIZES = [(1, 1, 1), (3, 5, 7), (8, 300, 40), (9, 40, 130), (16, 700, 17), (31, 33, 32), (32, 32, 33), (64, 100, 70), (65, 100, 70), (70, 3, 600),
         (520, 1, 510), (515, 4, 513), (5, 257, 1), (1, 257, 5)]


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64"])
@pytest.mark.parametrize("m,k,n", SIZES)
def test_sizes_and_layouts(m, k, n, dtype):
    rng = np.random.default_rng(m + 7 * k + 31 * n)
    make = (lambda *s: rng.standard_normal(s).astype(dtype)) if dtype[0] == "f" else (lambda *s: rng.integers(-(2**30), 2**30, s).astype(dtype))
    a, b = make(m, k), make(k, n)
    if dtype[0] == "f":
        want = a.astype("float64") @ b.astype("float64")
        room = 4 * k * np.finfo(dtype).eps * (np.abs(a).astype("float64") @ np.abs(b).astype("float64"))
    else:
        want, room = a @ b, 0
    for x in (ac.tensor(a), ac.tensor(np.ascontiguousarray(a.T)).t()):
        for y in (ac.tensor(b), ac.tensor(np.ascontiguousarray(b.T)).t()):
            got = (x @ y).numpy()
            assert got.dtype == want.dtype or dtype == "float32"
            assert (np.abs(got - want) <= room).all()


def test_einsum_at_random():
    rng = np.random.default_rng(0)
    for k in range(600):
        sizes = {c: int(rng.integers(1, 5)) for c in "abcde"}
        terms = ["".join(rng.permutation(list("abcde"))[:int(rng.integers(0, 4))]) for _ in range(int(rng.integers(1, 4)) if k % 2 else 2)]
        used = sorted(set("".join(terms)))
        equation = ",".join(terms) + "->" + "".join(rng.permutation([c for c in used if rng.random() < 0.5]))
        arrays = [rng.standard_normal([sizes[c] for c in t]) for t in terms]
        got, want = ac.einsum(equation, *map(ac.tensor, arrays)).numpy(), np.einsum(equation, *arrays)
        assert got.shape == want.shape and np.allclose(got, want), equation


def test_einsum_edges():
    x, y = ac.ones(2, 3, 4), ac.ones(2, 4, 5)
    assert tuple(ac.einsum("...ij,...jk->...ik", x, y).shape) == (2, 3, 5)
    assert ac.einsum("ij,ij", ac.ones(1, 3), ac.ones(2, 3)).item() == 6  # sizes of 1 broadcast
    with pytest.raises(RuntimeError, match="repeated for operand 0"):
        ac.einsum("ii->i", ac.ones(1, 3))
    with pytest.raises(RuntimeError, match="does not broadcast"):
        ac.einsum("ij,jk->ik", ac.ones(2, 3), ac.ones(4, 5))


def test_einsum_takes_the_cheap_path(monkeypatch):
    """A chain whose cheap order is from the right: left to right makes a 300 x 300 product first."""
    pytest.importorskip("opt_einsum")
    from autograd_c import _linear

    rng = np.random.default_rng(3)
    a, b, c = [rng.standard_normal(s) for s in ((300, 2), (2, 300), (300, 1))]
    _linear._path.cache_clear()
    assert _linear._path(("ij", "jk", "kl"), "il", tuple({"i": 300, "j": 2, "k": 300, "l": 1}.items()))[0] == (1, 2)
    ts = [ac.tensor(x, requires_grad=True) for x in (a, b, c)]
    y = ac.einsum("ij,jk,kl->il", *ts)
    assert np.allclose(y.detach().numpy(), a @ (b @ c))
    grads = ac.autograd.grad(y.sum(), ts)
    monkeypatch.setitem(__import__("sys").modules, "opt_einsum", None)  # not installed: from left to right
    _linear._path.cache_clear()
    assert _linear._path(("ij", "jk", "kl"), "il", ())[0] == (0, 1)
    z = ac.einsum("ij,jk,kl->il", *ts)
    assert np.allclose(z.detach().numpy(), y.detach().numpy())
    for g, h in zip(grads, ac.autograd.grad(z.sum(), ts)):
        assert np.allclose(g.numpy(), h.numpy())
    _linear._path.cache_clear()
    for terms in ("ab,bc,cd,de->ae", "a,b,c->abc", "ij,ij,ij->", "bi,ij,bj->b"):
        left = terms.split("->")[0].split(",")
        xs = [rng.standard_normal([dict(zip("abcdeij", (2, 3, 4, 2, 3, 5, 4)))[k] for k in t]) for t in left]
        want = np.einsum(terms, *xs)
        assert np.allclose(ac.einsum(terms, *map(ac.tensor, xs)).numpy(), want), terms
    monkeypatch.undo()
    _linear._path.cache_clear()
