"""The programs of the three founding articles, each in a process of its own, with only the import changed.

The code is what the articles show; what it must print stands there too, or follows from the formulas.
"""
import re
import subprocess
import sys
import textwrap

import pytest


def run(program):
    r = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, timeout=120)
    assert r.returncode == 0, r.stderr
    assert r.stderr == "" or "UserWarning: The .grad attribute of a Tensor that is not a leaf" in r.stderr
    return r.stdout.splitlines()


GRAPH = """
import autograd_c as torch
w = torch.tensor([1.], requires_grad=True)
x = torch.tensor([2.], requires_grad=True)

a = w + x
{hold}
b = w + 1
y = a * b

y.backward()
"""
PLAIN, HELD = GRAPH.format(hold=""), GRAPH.format(hold="a.retain_grad()")


def test_gradient_of_the_formula():
    assert run(PLAIN + "print(w.grad)") == ["tensor([5.])"]


def test_leaves_and_their_gradients():
    out = run(PLAIN + "print(w.is_leaf, x.is_leaf, a.is_leaf, b.is_leaf, y.is_leaf)\n"
                      "print(w.grad, x.grad, a.grad, b.grad, y.grad)")
    assert out == ["True True False False False", "tensor([5.]) tensor([2.]) None None None"]


def test_retain_grad():
    out = run(HELD + "print(w.is_leaf, x.is_leaf, a.is_leaf, b.is_leaf, y.is_leaf)\n"
                     "print(w.grad, x.grad, a.grad, b.grad, y.grad)")
    assert out == ["True True False False False", "tensor([5.]) tensor([2.]) tensor([2.]) None None"]


def test_grad_fn():
    out = run(HELD + "print(y.grad_fn)\nprint(a.grad_fn)\nprint(w.grad_fn)")
    assert re.fullmatch(r"<MulBackward0 object at 0x[0-9a-f]+>", out[0])
    assert re.fullmatch(r"<AddBackward0 object at 0x[0-9a-f]+>", out[1])
    assert out[2:] == ["None"]


LINEAR = """
import autograd_c as torch
import autograd_c.nn as nn
import autograd_c.optim as optim

torch.manual_seed({seed})

class SimpleModel(nn.Module):
    def __init__(self):
        super(SimpleModel, self).__init__()
        self.linear = nn.Linear(1, 1)

    def forward(self, x):
        return self.linear(x)

model = SimpleModel()
criterion = nn.MSELoss()
optimizer = optim.SGD(model.parameters(), lr=0.01)

for step in range({steps}):
    inputs = torch.randn(10, 1)
    targets = 2 * inputs + 1

    outputs = model(inputs)
    loss = criterion(outputs, targets)

    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

    print(f'Step {{step}}, Loss: {{loss.item()}}')
"""


def losses(lines):
    found = [re.fullmatch(r"Step (\d+), Loss: ([0-9.e+-]+)", line) for line in lines]
    assert all(found)
    assert [int(m[1]) for m in found] == list(range(len(found)))
    return [float(m[2]) for m in found]


def test_dynamic_training_loop():
    found = losses(run(LINEAR.format(seed=0, steps=100)))
    assert len(found) == 100 and found[-1] < 0.2 * found[0]
    assert losses(run(LINEAR.format(seed=3, steps=500)))[-1] < 1e-2


STATIC = """
import numpy
rng = numpy.random.default_rng(0)

import autograd_c.static as tf

x = tf.placeholder(tf.float32, shape=(None, 1))
y = tf.placeholder(tf.float32, shape=(None, 1))

W = tf.Variable(tf.random_normal([1, 1]), name='weight')
b = tf.Variable(tf.random_normal([1]), name='bias')
pred = tf.matmul(x, W) + b

loss = tf.reduce_mean(tf.square(pred - y))

optimizer = tf.train.GradientDescentOptimizer(learning_rate=0.01)
train_op = optimizer.minimize(loss)

with tf.Session() as sess:
    sess.run(tf.global_variables_initializer())
    for step in range(100):
        {data}
        train_labels = 2 * train_data + 1
        _, l = sess.run([train_op, loss], feed_dict={{x: train_data, y: train_labels}})
        print(f'Step {{step}}, Loss: {{l}}')
{after}
"""


@pytest.mark.parametrize("data", ["train_data = rng.standard_normal((10, 1))", "train_data = rng.standard_normal((10 if step % 2 else 25, 1))"])
def test_static_training_loop(data):
    out = run(STATIC.format(data=data, after="    print(sess.run([W, b]))\n    import autograd_c; print(autograd_c.counters().replays)"))
    found = losses(out[:100])
    assert found[-1] < 0.2 * found[0]
    sizes = 2 if "if step" in data else 1
    assert int(out[-1]) == 100 - sizes  # traced once for each batch size, replayed otherwise


def test_fifty_batches_build_fifty_graphs_or_one():
    out = run("""
        import autograd_c as torch
        import autograd_c.nn as nn

        def train(freeze):
            torch.manual_seed(0)
            model = nn.Linear(1, 1)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

            def step(inputs):
                loss = nn.functional.mse_loss(model(inputs), 2 * inputs + 1)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                return loss

            if freeze:
                step = torch.freeze(step)
            before = torch.counters()
            last = [step(torch.randn(10, 1)).item() for _ in range(50)]
            after = torch.counters()
            print(after.graphs_built - before.graphs_built, after.replays - before.replays)
            return last, model.weight.tolist(), model.bias.tolist()

        print(train(False) == train(True))
        """)
    assert out == ["50 0", "1 49", "True"]


def test_debugging_is_python():
    """The articles' reason for dynamic graphs: a mistake shows at the line that made it."""
    r = subprocess.run([sys.executable, "-c", "import autograd_c as torch\nx = torch.ones(2, 3)\n\ny = x @ x\n"], capture_output=True,
                       text=True, timeout=60)
    assert r.returncode == 1
    assert 'line 4, in <module>' in r.stderr and "mat1 and mat2 shapes cannot be multiplied (2x3 and 2x3)" in r.stderr
