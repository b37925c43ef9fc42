"""Static graphs under TF1's names: what they compute, what they remember, and what their errors say."""
import inspect

import numpy as np
import pytest

import autograd_c as ac
import autograd_c.static as tf


@pytest.fixture(autouse=True)
def fresh():
    tf.set_random_seed(0)
    yield
    tf.reset_default_graph()


def here(back=1):
    """The line of the statement `back` lines before the caller's."""
    return f"test_static.py:{inspect.currentframe().f_back.f_lineno - back} in "


def linear_model():
    x = tf.placeholder(tf.float32, shape=(None, 1), name="x")
    y = tf.placeholder(tf.float32, shape=(None, 1), name="y")
    W = tf.Variable([[0.5]], name="weight")
    b = tf.Variable([0.0], name="bias")
    pred = tf.matmul(x, W) + b
    return x, y, W, b, pred, tf.reduce_mean(tf.square(pred - y))


def data(n, seed=0):
    x = np.random.default_rng(seed).standard_normal((n, 1)).astype("float32")
    return x, 2 * x + 1


def by_hand(batches, lr, w=0.5, b=0.0):
    w, b = np.float64(w), np.float64(b)
    losses = []
    for x, y in batches:
        e = x * w + b - y
        losses.append((e**2).mean())
        w, b = w - lr * (2 * e * x).mean(), b - lr * (2 * e).mean()
    return losses, w, b


def test_training_by_hand_with_two_batch_sizes():
    x, y, W, b, pred, loss = linear_model()
    train = tf.train.GradientDescentOptimizer(learning_rate=0.1).minimize(loss)
    batches = [data(10 if k % 3 else 4, k) for k in range(30)]
    with tf.Session() as sess:
        assert sess.run(tf.global_variables_initializer()) is None
        got = [sess.run([train, loss], feed_dict={x: a, y: t}) for a, t in batches]
        w, bias = sess.run([W, b])
        report = sess.report()
    want, w1, b1 = by_hand(batches, 0.1)
    assert all(op is None for op, _ in got)
    np.testing.assert_allclose([l for _, l in got], want, rtol=1e-4)
    assert w.item() == pytest.approx(w1, rel=1e-5) and bias.item() == pytest.approx(b1, rel=1e-5)
    assert "10 nodes, 2 plans" in report  # one program, one plan for each size


def test_replays_equal_eager_bit_for_bit():
    x, y, W, b, pred, loss = linear_model()
    train = tf.train.AdamOptimizer(0.01).minimize(loss)
    w = ac.tensor([[0.5]], requires_grad=True)
    c = ac.tensor([0.0], requires_grad=True)
    opt = ac.optim.Adam([w, c], lr=0.01)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        before = ac.counters()
        for k in range(20):
            a, t = data(8, k)
            _, l = sess.run([train, loss], {x: a, y: t})
            eager = ((ac.from_numpy(a) @ w + c - ac.from_numpy(t)).square()).mean()
            eager.backward()
            opt.step()
            opt.zero_grad()
            assert l == eager.item()
        assert sess.run(W).tolist() == w.tolist() and sess.run(b).tolist() == c.tolist()
        after = ac.counters()
    assert after.replays - before.replays == 19
    assert after.graphs_built - before.graphs_built == 21  # 20 eager ones and the traced one


def test_fetch_structures_and_names():
    x, y, W, b, pred, loss = linear_model()
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        feed = {"x": [[2.0]], "y:0": [[3.0]]}
        assert sess.run(loss, feed) == 4.0
        assert sess.run([loss], feed) == [4.0]
        assert sess.run((loss, [W]), feed) == (4.0, [np.float32([[0.5]])])
        r = sess.run({"l": loss, "p": (pred,)}, feed)
        assert set(r) == {"l", "p"} and r["p"][0].tolist() == [[1.0]]
        assert sess.run("weight:0").tolist() == [[0.5]]
        assert isinstance(sess.run(loss, feed), np.float32)
        assert loss.eval(feed) == 4.0
        with pytest.raises(TypeError, match="Fetch argument 3 has invalid type int"):
            sess.run(3)
        with pytest.raises(KeyError, match="The name 'nope' refers to a Tensor which does not exist"):
            sess.run("nope")


def test_feeding_an_intermediate_needs_less():
    x, y, W, b, pred, loss = linear_model()
    with tf.Session() as sess:  # no initializer: what is fed hides the variables
        assert sess.run(loss, {pred: [[1.0], [2.0]], y: [[1.0], [4.0]]}) == 2.0
        assert sess.run(pred, {pred: [[7.0]]}).tolist() == [[7.0]]


def test_missing_feed_names_placeholder_line_and_fetch():
    x = tf.placeholder(tf.float32, shape=(None, 1), name="inputs")
    made = here()
    loss = tf.reduce_sum(tf.square(x), name="loss")
    with tf.Session() as sess:
        with pytest.raises(tf.errors.InvalidArgumentError) as e:
            sess.run([loss])
    text = str(e.value)
    assert text.startswith("You must feed a value for placeholder 'inputs' with dtype float32 and shape (None, 1)")
    assert made in text and "fetch 'loss'" in text and "loss -> square -> inputs" in text


def test_wrong_shape_names_both_shapes():
    x = tf.placeholder(tf.float32, shape=(None, 3), name="x")
    made = here()
    z = x * 2
    with tf.Session() as sess:
        with pytest.raises(ValueError) as e:
            sess.run(z, {x: np.zeros((4, 2))})
        assert "Cannot feed value of shape (4, 2) for placeholder 'x', which has shape (None, 3)" in str(e.value)
        assert made in str(e.value) and "fetch 'mul'" in str(e.value)
        with pytest.raises(ValueError, match="for placeholder 'x'"):
            sess.run(z, {x: [1.0, 2.0, 3.0]})
        with pytest.raises(ValueError, match="feed_dict: The name 'q' refers to a Tensor which does not exist"):
            sess.run(z, {"q": 1})


def test_uninitialized_variable():
    W = tf.Variable([1.0], name="weight")
    made = here()
    with tf.Session() as sess:
        with pytest.raises(tf.errors.FailedPreconditionError) as e:
            sess.run(W)
    assert "Attempting to use uninitialized value weight" in str(e.value) and made in str(e.value)


def test_mistakes_show_where_the_graph_is_built():
    x = tf.placeholder(tf.float32, shape=(None, 3))
    with pytest.raises(ValueError) as e:
        tf.matmul(x, tf.ones([2, 2]))
    assert "MatMul does not fit its operands 'Placeholder:0' (None, 3), 'Const:0' (2, 2)" in str(e.value)
    assert "cannot be multiplied" in str(e.value) and here(2) in str(e.value)
    with pytest.raises(TypeError, match="has no value yet"):
        bool(x > 0)
    with pytest.raises(TypeError, match="cannot be iterated over"):
        list(x)
    other = tf.Graph()
    with other.as_default():
        with pytest.raises(ValueError, match="belongs to another graph"):
            x + 1


def test_shapes_and_dtypes_are_known_early():
    x = tf.placeholder(tf.float32, (None, 4))
    assert (x @ tf.ones([4, 2])).shape == (None, 2)
    assert tf.reduce_sum(x, axis=1).shape == (None,) and tf.reduce_mean(x).shape == ()
    assert tf.transpose(x).shape == (4, None)
    assert tf.argmax(x, 1).dtype is ac.int64 and tf.equal(x, 0.0).dtype is ac.bool
    assert tf.concat([x, x], 1).shape == (None, 8)
    assert repr(x) == "<Tensor 'Placeholder:0' shape=(?, 4) dtype=float32>"


def test_operators_and_functions_against_numpy():
    a = np.random.default_rng(1).uniform(0.5, 2, (3, 4)).astype("float32")
    x = tf.placeholder(tf.float32, (3, 4))
    cases = {
        "add": (x + 1, a + 1), "radd": (1 + x, 1 + a), "sub": (x - 2.5, a - 2.5), "rsub": (1 - x, 1 - a), "mul": (x * x, a * a),
        "div": (x / 2, a / 2), "rdiv": (1 / x, 1 / a), "pow": (x**2, a**2), "neg": (-x, -a), "abs": (abs(-x), a), "mod": (x % 1, a % 1),
        "matmul": (x @ tf.transpose(x), a @ a.T), "rmatmul": (np.ones((2, 3), "float32") @ x, np.ones((2, 3)) @ a),
        "matmul_t": (tf.matmul(x, x, transpose_b=True), a @ a.T), "slice": (x[1:, 0], a[1:, 0]),
        "square": (tf.square(x), a * a), "sqrt": (tf.sqrt(x), np.sqrt(a)), "exp": (tf.exp(x), np.exp(a)), "log": (tf.log(x), np.log(a)),
        "tanh": (tf.tanh(x), np.tanh(a)), "sigmoid": (tf.nn.sigmoid(x), 1 / (1 + np.exp(-a))), "relu": (tf.nn.relu(x - 1), np.maximum(a - 1, 0)),
        "softmax": (tf.nn.softmax(x), np.exp(a) / np.exp(a).sum(1, keepdims=True)), "maximum": (tf.maximum(x, 1.0), np.maximum(a, 1)),
        "sum": (tf.reduce_sum(x, [0, 1]), a.sum()), "mean": (tf.reduce_mean(x, 0, keepdims=True), a.mean(0, keepdims=True)),
        "max": (tf.reduce_max(x, axis=1), a.max(1)), "prod": (tf.reduce_prod(x), a.prod()), "argmax": (tf.argmax(x, 1), a.argmax(1)),
        "reshape": (tf.reshape(x, [2, -1]), a.reshape(2, -1)), "expand": (tf.expand_dims(x, 1), a[:, None]),
        "concat": (tf.concat([x, x], 0), np.concatenate([a, a])), "stack": (tf.stack([x, x]), np.stack([a, a])),
        "cast": (tf.cast(x, tf.int32), a.astype("int32")), "equal": (tf.cast(tf.equal(x, x), tf.float32), np.ones_like(a)),
        "where": (tf.where(x > 1.0, x, tf.zeros_like(x)), np.where(a > 1, a, 0)), "clip": (tf.clip_by_value(x, 0.8, 1.2), np.clip(a, 0.8, 1.2)),
        "one_hot": (tf.one_hot([1, 0], 3), np.eye(3)[[1, 0]]), "gather": (tf.gather(x, [2, 0]), a[[2, 0]]),
        "l2": (tf.nn.l2_loss(x), (a**2).sum() / 2), "fill": (tf.fill([2], 3.0), [3, 3]), "const": (tf.constant([[1, 2]]), [[1, 2]]),
    }
    with tf.Session() as sess:
        for _ in range(2):  # traced, then replayed
            got = sess.run({k: v for k, (v, _) in cases.items()}, {x: a})
            for k, (_, want) in cases.items():
                np.testing.assert_allclose(got[k], want, rtol=2e-6, atol=1e-6, err_msg=k)
                assert got[k].shape == np.shape(want), k


def test_cross_entropies():
    logits = tf.placeholder(tf.float32, (None, 3))
    a = np.float32([[1, 2, 3], [0, 0, 1]])
    p = np.exp(a) / np.exp(a).sum(1, keepdims=True)
    sparse = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=tf.constant([2, 0]), logits=logits)
    dense = tf.nn.softmax_cross_entropy_with_logits(labels=tf.one_hot([2, 0], 3), logits=logits)
    with tf.Session() as sess:
        for r in sess.run([sparse, dense], {logits: a}):
            np.testing.assert_allclose(r, -np.log(p[[0, 1], [2, 0]]), rtol=1e-5)


def test_variables_keep_state_and_assign():
    v = tf.Variable(1.0, name="v")
    n = tf.Variable(0, trainable=False, name="n")
    up = v.assign(v * 2)
    more = tf.assign_add(n, 1)
    both = tf.group(up, more)
    assert [w.name for w in tf.trainable_variables()] == ["v:0"] and len(tf.global_variables()) == 2
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        assert sess.run(up) == 2.0 and sess.run(v) == 2.0
        assert [sess.run(both) for _ in range(3)] == [None] * 3
        assert sess.run([v, n]) == [16.0, 3]
        v.load(5.0, sess)
        assert sess.run(v) == 5.0 and sess.run(up) == 10.0
        sess.run(v.initializer)
        assert sess.run(v) == 1.0


def test_random_numbers_are_new_at_each_run_and_seeded():
    r = tf.random_normal([3])
    W = tf.Variable(tf.random_uniform([2, 2], -1, 1))
    first = []
    for _ in range(2):
        tf.set_random_seed(7)
        with tf.Session() as sess:
            sess.run(tf.global_variables_initializer())
            values = [sess.run(W).tolist()] + [sess.run(r).tolist() for _ in range(3)]
        assert values[1] != values[2] != values[3]
        first.append(values)
    assert first[0] == first[1]


def test_gradients_and_apply_gradients():
    x = tf.placeholder(tf.float32, (None,), name="x")
    w = tf.Variable(3.0)
    y = w * tf.reduce_sum(x**2)
    gx, gw = tf.gradients(y, [x, w])
    opt = tf.train.MomentumOptimizer(0.1, 0.9)
    clipped = [(tf.clip_by_value(g, -1.0, 1.0), v) for g, v in opt.compute_gradients(y)]
    step = tf.train.get_or_create_global_step()
    train = opt.apply_gradients(clipped, global_step=step)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        a, b = sess.run([gx, gw], {x: [1.0, 2.0]})
        assert a.tolist() == [6.0, 12.0] and b == 5.0
        for _ in range(2):
            sess.run(train, {x: [1.0, 2.0]})
        assert sess.run(w) == pytest.approx(3 - 0.1 - 0.19) and sess.run(step) == 2


@pytest.mark.parametrize("make", [lambda t: t.GradientDescentOptimizer(0.05), lambda t: t.MomentumOptimizer(0.05, 0.9, use_nesterov=True),
                                  lambda t: t.AdamOptimizer(0.1), lambda t: t.RMSPropOptimizer(0.05), lambda t: t.AdagradOptimizer(0.5)])
def test_optimizers_learn(make):
    x, y, W, b, pred, loss = linear_model()
    train = make(tf.train).minimize(loss)
    a, t = data(32)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for _ in range(300):
            sess.run(train, {x: a, y: t})
        assert sess.run(loss, {x: a, y: t}) < 0.01


def test_sessions_are_apart_and_graphs_nest():
    g = tf.Graph()
    with g.as_default():
        v = tf.Variable(1.0)
        up = v.assign_add(1.0)
        init = tf.global_variables_initializer()
    assert tf.get_default_graph() is not g
    with tf.Session(graph=g) as one, tf.Session(graph=g) as two:
        one.run(init), two.run(init)
        one.run(up), one.run(up)
        assert (one.run(v), two.run(v)) == (3.0, 1.0)
    with pytest.raises(ValueError, match="is not an element of this session's graph"):
        tf.Session().run(v)
    with pytest.raises(ValueError, match="No default session is registered"):
        v.eval()
    assert g.get_tensor_by_name("Variable:0") is v


def test_dropout_and_get_variable():
    x = tf.placeholder(tf.float32, (None, 50))
    w = tf.get_variable("w", [50, 2])
    h = tf.nn.dropout(x, keep_prob=0.5) @ w
    with pytest.raises(ValueError, match="Variable w already exists"):
        tf.get_variable("w", [1])
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        a = np.ones((4, 50))
        assert sess.run(h, {x: a}).tolist() != sess.run(h, {x: a}).tolist()
        assert np.abs(sess.run(w)).max() <= (6 / 52) ** 0.5


def test_results_are_the_users_own():
    x = tf.placeholder(tf.float32, (2,))
    v = tf.Variable([1.0, 2.0])
    a = np.float32([1, 2])
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        r, w = sess.run([tf.reshape(x, [2, 1]), v], {x: a})
        r[:] = 9
        w[:] = 9
        assert a.tolist() == [1, 2] and sess.run(v).tolist() == [1, 2]
