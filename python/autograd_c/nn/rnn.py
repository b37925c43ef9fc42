"""Recurrent layers: RNN, LSTM, GRU and their cells, composed of matrix products and elementwise ops.

Inputs are (L, N, in), (N, L, in) with batch_first, or (L, in); weights are stacked by gate as PyTorch stacks them.
"""
import math as _math

from .._ffi import refuse
from . import functional as F, init
from .._create import empty, zeros
from .._shape import cat, stack
from ._parameter import Parameter
from .module import Module


def _elman(activation):
    def step(gates_x, h, w, b):
        h = activation(gates_x + F.linear(h[0], w, b))
        return (h,)

    return step


def _lstm(gates_x, state, w, b):
    """i, f, g, o; c = sigmoid(f) c + sigmoid(i) tanh(g); h = sigmoid(o) tanh(c)."""
    h, c = state
    i, f, g, o = (gates_x + F.linear(h, w, b)).chunk(4, -1)
    c = f.sigmoid() * c + i.sigmoid() * g.tanh()
    return o.sigmoid() * c.tanh(), c


def _gru(gates_x, state, w, b):
    """r, z, n; n = tanh(x_n + sigmoid(r) h_n); h = (1 - z) n + z h."""
    h = state[0]
    xr, xz, xn = gates_x.chunk(3, -1)
    hr, hz, hn = F.linear(h, w, b).chunk(3, -1)
    r, z = (xr + hr).sigmoid(), (xz + hz).sigmoid()
    n = (xn + r * hn).tanh()
    return (n + z * (h - n),)


_STEPS = {"RNN_TANH": (_elman(lambda x: x.tanh()), 1, 1), "RNN_RELU": (_elman(F.relu), 1, 1), "LSTM": (_lstm, 4, 2), "GRU": (_gru, 3, 1)}


class RNNBase(Module):
    """Layers of one kind of cell over a sequence; see RNN, LSTM, GRU."""

    def __init__(self, mode, input_size, hidden_size, num_layers=1, bias=True, batch_first=False, dropout=0.0, bidirectional=False,
                 device=None, dtype=None):
        super().__init__()
        if not isinstance(hidden_size, int):
            raise refuse(TypeError, f"hidden_size should be of type int, got: {type(hidden_size).__name__}")
        if hidden_size <= 0:
            raise refuse(ValueError, "hidden_size must be greater than zero")
        if num_layers <= 0:
            raise refuse(ValueError, "num_layers must be greater than zero")
        if not 0 <= dropout <= 1:
            raise refuse(ValueError, "dropout should be a number in range [0, 1] representing the probability of an element being zeroed")
        self.mode, self.input_size, self.hidden_size, self.num_layers = mode, input_size, hidden_size, num_layers
        self.bias, self.batch_first, self.dropout, self.bidirectional = bias, batch_first, float(dropout), bidirectional
        gates = _STEPS[mode][1]
        ways = 2 if bidirectional else 1
        for layer in range(num_layers):
            for way in range(ways):
                end = f"_l{layer}" + ("_reverse" if way else "")
                width = input_size if layer == 0 else hidden_size * ways
                shapes = {"weight_ih": (gates * hidden_size, width), "weight_hh": (gates * hidden_size, hidden_size)}
                if bias:
                    shapes.update(bias_ih=(gates * hidden_size,), bias_hh=(gates * hidden_size,))
                for name, shape in shapes.items():
                    setattr(self, name + end, Parameter(empty(shape, device=device, dtype=dtype)))
        self.reset_parameters()

    def reset_parameters(self):
        """U(-1 / sqrt(hidden), 1 / sqrt(hidden))."""
        bound = 1.0 / _math.sqrt(self.hidden_size)
        for p in self.parameters():
            init.uniform_(p, -bound, bound)

    def flatten_parameters(self):
        """Nothing to do here."""

    def _start(self, hx, x, count):
        """Initial states (num_layers ways, N, hidden), one for each part of the state."""
        n = self.num_layers * (2 if self.bidirectional else 1)
        shape = (n, x.shape[1], self.hidden_size)
        if hx is None:
            return (zeros(*shape, dtype=x.dtype),) * count
        return hx if isinstance(hx, (tuple, list)) else (hx,)

    def forward(self, input, hx=None):
        """(output of the last layer at every step, last states of all layers)."""
        if input.dim() not in (2, 3):
            raise refuse(ValueError, f"{self._get_name()}: Expected input to be 2D or 3D, got {input.dim()}D instead")
        if input.shape[-1] != self.input_size:
            raise refuse(RuntimeError, f"input.size(-1) must be equal to input_size. Expected {self.input_size}, got {input.shape[-1]}")
        step, _, count = _STEPS[self.mode]
        single = input.dim() == 2
        x = input.unsqueeze(1) if single else input.transpose(0, 1) if self.batch_first else input
        if hx is not None:
            hx = [h.unsqueeze(1) if single else h for h in (hx if isinstance(hx, (tuple, list)) else (hx,))]
        states = self._start(hx, x, count)
        want = (self.num_layers * (2 if self.bidirectional else 1), x.shape[1], self.hidden_size)
        for h in states:
            if tuple(h.shape) != want:
                raise refuse(RuntimeError, f"Expected hidden size {want}, got {list(h.shape)}")
        p = self._parameters
        last = []
        for layer in range(self.num_layers):
            outs = []
            for way in range(2 if self.bidirectional else 1):
                end = f"_l{layer}" + ("_reverse" if way else "")
                w_ih, w_hh = p["weight_ih" + end], p["weight_hh" + end]
                b_ih, b_hh = (p["bias_ih" + end], p["bias_hh" + end]) if self.bias else (None, None)
                k = layer * (2 if self.bidirectional else 1) + way
                state = tuple([s[k] for s in states])
                gates = F.linear(x, w_ih, b_ih).unbind(0)  # all steps in one product
                row = [None] * len(gates)
                for t in range(len(gates) - 1, -1, -1) if way else range(len(gates)):
                    state = step(gates[t], state, w_hh, b_hh)
                    row[t] = state[0]
                outs.append(stack(row))
                last.append(state)
            x = outs[0] if len(outs) == 1 else cat(outs, -1)
            if self.dropout and layer < self.num_layers - 1:
                x = F.dropout(x, self.dropout, self.training)
        ends = tuple([stack([state[k] for state in last]) for k in range(count)])
        if single:
            x, ends = x.squeeze(1), tuple([e.squeeze(1) for e in ends])
        elif self.batch_first:
            x = x.transpose(0, 1)
        return x, ends if count > 1 else ends[0]

    def extra_repr(self):
        s = f"{self.input_size}, {self.hidden_size}"
        if self.num_layers != 1:
            s += f", num_layers={self.num_layers}"
        if self.bias is not True:
            s += f", bias={self.bias}"
        if self.batch_first is not False:
            s += f", batch_first={self.batch_first}"
        if self.dropout != 0:
            s += f", dropout={self.dropout}"
        if self.bidirectional is not False:
            s += f", bidirectional={self.bidirectional}"
        return s


class RNN(RNNBase):
    """h_t = tanh(W_ih x_t + b_ih + W_hh h_{t-1} + b_hh), or relu.  Source: Elman, 1990."""

    def __init__(self, input_size, hidden_size, num_layers=1, nonlinearity="tanh", bias=True, batch_first=False, dropout=0.0,
                 bidirectional=False, device=None, dtype=None):
        if nonlinearity not in ("tanh", "relu"):
            raise refuse(ValueError, f"Unknown nonlinearity '{nonlinearity}'. Select from 'tanh' or 'relu'.")
        self.__dict__["nonlinearity"] = nonlinearity
        super().__init__("RNN_" + nonlinearity.upper(), input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional,
                         device, dtype)


class LSTM(RNNBase):
    """Long short-term memory; the state is (h, c).  Source: Hochreiter and Schmidhuber, 1997, with forget gates."""

    def __init__(self, input_size, hidden_size, num_layers=1, bias=True, batch_first=False, dropout=0.0, bidirectional=False, device=None,
                 dtype=None):
        super().__init__("LSTM", input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, device, dtype)


class GRU(RNNBase):
    """Gated recurrent unit.  Source: Cho et al., 2014."""

    def __init__(self, input_size, hidden_size, num_layers=1, bias=True, batch_first=False, dropout=0.0, bidirectional=False, device=None,
                 dtype=None):
        super().__init__("GRU", input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, device, dtype)


class _Cell(Module):
    """One step: (N, in) or (in,) and a state -> the new state."""

    _mode = None

    def __init__(self, input_size, hidden_size, bias=True, device=None, dtype=None):
        super().__init__()
        self.input_size, self.hidden_size, self.bias = input_size, hidden_size, bias
        n = _STEPS[self._mode][1] * hidden_size
        self.weight_ih = Parameter(empty(n, input_size, device=device, dtype=dtype))
        self.weight_hh = Parameter(empty(n, hidden_size, device=device, dtype=dtype))
        for name in ("bias_ih", "bias_hh"):
            self.register_parameter(name, Parameter(empty(n, device=device, dtype=dtype)) if bias else None)
        RNNBase.reset_parameters(self)

    def forward(self, input, hx=None):
        step, _, count = _STEPS[self._mode]
        if hx is None:
            hx = (zeros(*input.shape[:-1], self.hidden_size, dtype=input.dtype),) * count
        elif not isinstance(hx, (tuple, list)):
            hx = (hx,)
        p = self._parameters
        state = step(F.linear(input, p["weight_ih"], p["bias_ih"]), hx, p["weight_hh"], p["bias_hh"])
        return state if count > 1 else state[0]

    def extra_repr(self):
        s = f"{self.input_size}, {self.hidden_size}"
        return s + (f", bias={self.bias}" if self.bias is not True else "")


class RNNCell(_Cell):
    """One step of RNN."""

    _mode = "RNN_TANH"

    def __init__(self, input_size, hidden_size, bias=True, nonlinearity="tanh", device=None, dtype=None):
        self.__dict__["nonlinearity"] = nonlinearity
        self.__dict__["_mode"] = "RNN_" + nonlinearity.upper()
        super().__init__(input_size, hidden_size, bias, device, dtype)

    def extra_repr(self):
        s = super().extra_repr()
        return s + (f", nonlinearity={self.nonlinearity}" if self.nonlinearity != "tanh" else "")


class LSTMCell(_Cell):
    """One step of LSTM: (h, c)."""

    _mode = "LSTM"


class GRUCell(_Cell):
    """One step of GRU."""

    _mode = "GRU"
