"""The steps of workloads.py as JAX writes them: value_and_grad and update in one jitted function, parameters donated."""
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

import workloads as W


def trained(loss_fn, params, lr=0.01):
    """step() over loss_fn(params) with SGD."""
    @partial(jax.jit, donate_argnums=0)
    def update(params):
        loss, grads = jax.value_and_grad(loss_fn)(params)
        return [p - lr * g for p, g in zip(params, grads)], loss
    state = [[jnp.array(p) for p in params]]

    def step():
        state[0], loss = update(state[0])
        return loss.block_until_ready()
    return step


def differentiated(fn, *args):
    """step() over the value and gradients of fn(*args)."""
    f = jax.jit(jax.value_and_grad(fn, argnums=tuple(range(len(args)))))

    def step():
        value, grads = f(*args)
        jax.block_until_ready(grads)
        return value
    return step


def toy():
    return differentiated(lambda w, x: ((w + x) * (w + 1))[0], jnp.array([1.]), jnp.array([2.]))


def chain(n=100):
    def fn(w):
        y = w
        for _ in range(n):
            y = y * w
        return y[0]
    return differentiated(fn, jnp.array([1.01]))


def linreg():
    rng = W.generator()
    x = jnp.array(rng.standard_normal((10, 1)).astype(W.F32))
    y = 2 * x + 1
    params = [W.uniform(rng, 1, 1), W.uniform(rng, 1)]
    return trained(lambda p: ((x @ p[0].T + p[1] - y) ** 2).mean(), params)


def mlp(batch=32, sizes=(8, 64, 64, 4)):
    xn, yn, params = W.mlp_data(batch, sizes)
    x, y = jnp.array(xn), jnp.array(yn)

    def loss(p):
        h = x
        for i in range(0, len(p), 2):
            h = h @ p[i].T + p[i + 1]
            if i < len(p) - 2:
                h = jnp.tanh(h)
        return ((h - y) ** 2).mean()
    return trained(loss, params)


def elementwise(n=1_000_000):
    x = jnp.array(W.generator().standard_normal(n).astype(W.F32))

    def fn(x):
        u = 0.7978845608 * (x + 0.044715 * x * x * x)
        return (0.5 * x * (1 + jnp.tanh(u)) * jax.nn.sigmoid(x) + x * x).sum()
    return differentiated(fn, x)


def rnn(hidden=64, lengths=(20, 35, 50, 27)):
    xn, params = W.rnn_data(hidden, lengths)
    xs = [jnp.array(a) for a in xn]

    def loss(p):
        wx, wh, b, wo = p
        total = 0.
        for s in xs:
            h, _ = jax.lax.scan(lambda h, v: (jnp.tanh(wx @ v + wh @ h + b), None), jnp.zeros(hidden), s)
            total = total + ((wo @ h) ** 2).sum()
        return total
    return trained(loss, params)


def lenet(batch=32):
    xn, labels, params = W.lenet_data(batch)
    x, y = jnp.array(xn), jnp.array(labels)

    def conv(h, w, b):
        return jax.lax.conv(h, w, (1, 1), "VALID") + b[None, :, None, None]

    def pool(h):
        return jax.lax.reduce_window(h, -jnp.inf, jax.lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID")

    def loss(p):
        h = pool(jax.nn.relu(conv(x, p[0], p[1])))
        h = pool(jax.nn.relu(conv(h, p[2], p[3])))
        h = h.reshape(h.shape[0], -1)
        h = jax.nn.relu(h @ p[4].T + p[5])
        h = jax.nn.relu(h @ p[6].T + p[7])
        z = jax.nn.log_softmax(h @ p[8].T + p[9])
        return -z[jnp.arange(batch), y].mean()
    return trained(loss, params)


def scalars(width=16, n_in=2, batch=8):
    w1, w2, data = W.scalar_data(width, n_in, batch)

    def loss(w1, w2):
        total = 0.
        for row in data:
            o = 0.
            for ws, v in zip(w1, w2):
                o = o + jax.nn.relu(sum(w * xi for w, xi in zip(ws, row))) * v
            total = total + (o - 1.) * (o - 1.)
        return total
    return differentiated(loss, *jax.tree.map(jnp.float32, (w1, w2)))


def rosenbrock(n=1000):
    jax.config.update("jax_enable_x64", True)
    x = jnp.array(W.generator().standard_normal(n))

    def fn(x):
        a, b = x[1:], x[:-1]
        return (100 * (a - b * b) ** 2 + (1 - b) ** 2).sum()
    return differentiated(fn, x)


def block(seq=64, d=64, heads=4, batch=4):
    xn, tn, params, mn = W.block_data(seq, d, heads, batch)
    x, target, mask = jnp.array(xn), jnp.array(tn), jnp.array(mn)
    hd = d // heads

    def norm(h, g, b):
        m = h.mean(-1, keepdims=True)
        v = ((h - m) ** 2).mean(-1, keepdims=True)
        return (h - m) / jnp.sqrt(v + 1e-5) * g + b

    def loss(p):
        wqkv, wo, w1, w2, g1, b1, g2, b2 = p
        h = norm(x, g1, b1)
        q, k, v = (h @ wqkv.T).reshape(batch, seq, 3, heads, hd).transpose(2, 0, 3, 1, 4)
        att = jax.nn.softmax(q @ k.swapaxes(-1, -2) / np.sqrt(hd).astype(W.F32) + mask, -1)
        h = (att @ v).swapaxes(1, 2).reshape(batch, seq, d)
        y = x + h @ wo.T
        y = y + jax.nn.gelu(norm(y, g2, b2) @ w1.T, approximate=False) @ w2.T
        return ((y - target) ** 2).mean()
    return trained(loss, params)
