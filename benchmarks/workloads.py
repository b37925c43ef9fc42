"""One step of each workload, written once against the names that PyTorch and autograd_c share.

make(t, **options) -> step: t is the namespace under test; step() does forward, backward and, where there are
parameters, a plain SGD update, and returns the loss as a 0-d tensor.  Data and initial parameters come from
NumPy with a fixed seed, so that every framework computes the same losses; peers_jax.py has the same steps as
pure functions.  Steps without parameters to update clear .grad before, not after, the work: the gradients are a
result that remains, and a frozen step may not skip computing them.
"""
import numpy as np

F32 = np.float32


def generator():
    return np.random.default_rng(0)


def uniform(rng, *shape, bound=None):
    b = bound if bound is not None else 1.0 / np.sqrt(shape[-1])
    return rng.uniform(-b, b, size=shape).astype(F32)


# ---- data ---------------------------------------------------------------------------------------------


def mlp_data(batch, sizes):
    rng = generator()
    x = rng.standard_normal((batch, sizes[0])).astype(F32)
    y = rng.standard_normal((batch, sizes[-1])).astype(F32)
    rng.integers(0, sizes[-1], size=batch)
    params = []
    for i, o in zip(sizes[:-1], sizes[1:]):
        params += [uniform(rng, o, i), uniform(rng, o)]
    return x, y, params


def rnn_data(hidden, lengths):
    rng = generator()
    xs = [rng.standard_normal((n, hidden)).astype(F32) for n in lengths]
    return xs, [uniform(rng, hidden, hidden), uniform(rng, hidden, hidden), uniform(rng, hidden), uniform(rng, 1, hidden)]


def lenet_data(batch):
    rng = generator()
    x = rng.standard_normal((batch, 1, 28, 28)).astype(F32)
    labels = rng.integers(0, 10, size=batch).astype(np.int64)
    params = [uniform(rng, 6, 1, 5, 5, bound=.2), uniform(rng, 6, bound=.2), uniform(rng, 16, 6, 5, 5, bound=.08),
              uniform(rng, 16, bound=.08), uniform(rng, 120, 256), uniform(rng, 120), uniform(rng, 84, 120), uniform(rng, 84),
              uniform(rng, 10, 84), uniform(rng, 10)]
    return x, labels, params


def block_data(seq, d, heads, batch):
    rng = generator()
    x = rng.standard_normal((batch, seq, d)).astype(F32)
    target = rng.standard_normal((batch, seq, d)).astype(F32)
    params = [uniform(rng, 3 * d, d), uniform(rng, d, d), uniform(rng, 4 * d, d), uniform(rng, d, 4 * d),
              np.ones(d, F32), np.zeros(d, F32), np.ones(d, F32), np.zeros(d, F32)]
    return x, target, params, np.triu(np.full((seq, seq), -1e9, F32), 1)


def scalar_data(width, n_in, batch):
    rng = generator()
    w1 = [[float(v) for v in row] for row in rng.uniform(-1, 1, (width, n_in))]
    w2 = [float(v) for v in rng.uniform(-1, 1, width)]
    return w1, w2, rng.standard_normal((batch, n_in)).tolist()


# ---- steps --------------------------------------------------------------------------------------------


def leaves(t, arrays):
    return [t.tensor(a, requires_grad=True) for a in arrays]


def sgd(t, params, lr):
    with t.no_grad():
        for p in params:
            p -= lr * p.grad
    for p in params:
        p.grad = None


def toy(t):
    """y = (x + w) * (w + 1), the articles' graph."""
    w, x = t.tensor([1.], requires_grad=True), t.tensor([2.], requires_grad=True)

    def step():
        w.grad = None
        x.grad = None
        a = w + x
        b = w + 1
        y = a * b
        y.backward()
        return y
    return step


def chain(t, n=100):
    w = t.tensor([1.01], requires_grad=True)

    def step():
        w.grad = None
        y = w
        for _ in range(n):
            y = y * w
        y.backward()
        return y
    return step


def linreg(t):
    rng = generator()
    x = t.tensor(rng.standard_normal((10, 1)).astype(F32))
    y = 2 * x + 1
    params = leaves(t, [uniform(rng, 1, 1), uniform(rng, 1)])

    def step():
        loss = ((x @ params[0].T + params[1] - y) ** 2).mean()
        loss.backward()
        sgd(t, params, 0.01)
        return loss
    return step


def mlp(t, batch=32, sizes=(8, 64, 64, 4)):
    """tanh layers, mean squared error."""
    xn, yn, pn = mlp_data(batch, sizes)
    x, y, params = t.tensor(xn), t.tensor(yn), leaves(t, pn)

    def step():
        h = x
        for i in range(0, len(params), 2):
            h = h @ params[i].T + params[i + 1]
            if i < len(params) - 2:
                h = t.tanh(h)
        loss = ((h - y) ** 2).mean()
        loss.backward()
        sgd(t, params, 0.01)
        return loss
    return step


def elementwise(t, n=1_000_000):
    """sum of gelu(x) * sigmoid(x) + x * x and its gradient: bound by memory unless fused."""
    x = t.tensor(generator().standard_normal(n).astype(F32), requires_grad=True)

    def step():
        x.grad = None
        u = 0.7978845608 * (x + 0.044715 * x * x * x)
        g = 0.5 * x * (1 + t.tanh(u))
        loss = (g * t.sigmoid(x) + x * x).sum()
        loss.backward()
        return loss
    return step


def rnn(t, hidden=64, lengths=(20, 35, 50, 27)):
    """Elman net over sequences of different length, one at a time: the dynamic graph's home ground."""
    xn, pn = rnn_data(hidden, lengths)
    xs, params = [t.tensor(a) for a in xn], leaves(t, pn)
    wx, wh, b, wo = params

    def step():
        loss = None
        for seq in xs:
            h = t.zeros(hidden)
            for i in range(seq.shape[0]):
                h = t.tanh(wx @ seq[i] + wh @ h + b)
            o = ((wo @ h) ** 2).sum()
            loss = o if loss is None else loss + o
        loss.backward()
        sgd(t, params, 0.01)
        return loss
    return step


def lenet(t, batch=32):
    xn, labels, pn = lenet_data(batch)
    x, y, p = t.tensor(xn), t.tensor(labels), leaves(t, pn)
    F = t.nn.functional

    def step():
        h = F.max_pool2d(t.relu(F.conv2d(x, p[0], p[1])), 2)
        h = F.max_pool2d(t.relu(F.conv2d(h, p[2], p[3])), 2)
        h = h.reshape(h.shape[0], -1)
        h = t.relu(h @ p[4].T + p[5])
        h = t.relu(h @ p[6].T + p[7])
        loss = F.cross_entropy(h @ p[8].T + p[9], y)
        loss.backward()
        sgd(t, p, 0.01)
        return loss
    return step


def scalars(t, width=16, n_in=2, batch=8):
    """A net whose every weight is a tensor of its own: thousands of tiny nodes."""
    w1n, w2n, data = scalar_data(width, n_in, batch)
    w1 = [[t.tensor(v, requires_grad=True) for v in row] for row in w1n]
    w2 = [t.tensor(v, requires_grad=True) for v in w2n]
    params = [p for row in w1 for p in row] + w2

    def step():
        for p in params:
            p.grad = None
        loss = None
        for row in data:
            o = None
            for ws, v in zip(w1, w2):
                s = None
                for w, xi in zip(ws, row):
                    z = w * xi
                    s = z if s is None else s + z
                z = t.relu(s) * v
                o = z if o is None else o + z
            e = (o - 1.0) * (o - 1.0)
            loss = e if loss is None else loss + e
        loss.backward()
        return loss
    return step


def rosenbrock(t, n=1000):
    x = t.tensor(generator().standard_normal(n), dtype=t.float64, requires_grad=True)

    def step():
        x.grad = None
        a, b = x[1:], x[:-1]
        loss = (100 * (a - b * b) ** 2 + (1 - b) ** 2).sum()
        loss.backward()
        return loss
    return step


def block(t, seq=64, d=64, heads=4, batch=4):
    """One causal pre-norm transformer block."""
    xn, tn, pn, mn = block_data(seq, d, heads, batch)
    x, target, mask, params = t.tensor(xn), t.tensor(tn), t.tensor(mn), leaves(t, pn)
    wqkv, wo, w1, w2, g1, b1, g2, b2 = params
    hd = d // heads
    F = t.nn.functional

    def step():
        h = F.layer_norm(x, (d,), g1, b1)
        qkv = (h @ wqkv.T).reshape(batch, seq, 3, heads, hd).permute(2, 0, 3, 1, 4)
        q, k, v = qkv[0], qkv[1], qkv[2]
        att = t.softmax(q @ k.transpose(-1, -2) * (1 / np.sqrt(hd).item()) + mask, dim=-1)
        h = (att @ v).transpose(1, 2).reshape(batch, seq, d)
        y = x + h @ wo.T
        h = F.layer_norm(y, (d,), g2, b2)
        y = y + F.gelu(h @ w1.T) @ w2.T
        loss = ((y - target) ** 2).mean()
        loss.backward()
        sgd(t, params, 0.01)
        return loss
    return step


# name: (maker, options, goal eager against PyTorch eager, goal frozen against JAX jit)
WORKLOADS = {
    "toy": (toy, {}, 12, 15), "chain100": (chain, {}, 10, 3), "linreg": (linreg, {}, 8, 8),
    "mlp_b1": (mlp, dict(batch=1), 8, 8), "mlp_b32": (mlp, dict(batch=32), 6, 2.4),
    "mnist_mlp": (mlp, dict(batch=64, sizes=(784, 256, 128, 10)), 1.3, 1.15),
    "elementwise_1e4": (elementwise, dict(n=10_000), 3, 1.8), "elementwise_1e6": (elementwise, {}, 1.5, 1.5),
    "rnn_varlen": (rnn, {}, 8, 1.5), "lenet_b32": (lenet, {}, 2, 2.5), "scalars": (scalars, {}, 10, 3),
    "rosenbrock_1e3": (rosenbrock, {}, 5, 4), "block_b4": (block, {}, 1.2, 1.2),
}
