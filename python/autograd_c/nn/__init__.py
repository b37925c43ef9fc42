"""Layers and losses under PyTorch's names (from autograd_c import nn)."""
from . import functional, init, utils  # noqa: F401
from ._lazy import UninitializedParameter
from ._parameter import Buffer, Parameter
from .activation import *  # noqa: F403
from .attention import MultiheadAttention
from .container import ModuleDict, ModuleList, ParameterDict, ParameterList, Sequential
from .conv import (Conv1d, Conv2d, Conv3d, ConvTranspose1d, ConvTranspose2d, ConvTranspose3d, LazyConv1d, LazyConv2d, LazyConv3d)
from .dropout import AlphaDropout, Dropout, Dropout1d, Dropout2d, Dropout3d, FeatureAlphaDropout
from .flatten import *  # noqa: F403
from .linear import Bilinear, Identity, LazyLinear, Linear
from .loss import *  # noqa: F403
from .module import Module, register_module_forward_hook, register_module_forward_pre_hook
from .normalization import (BatchNorm1d, BatchNorm2d, BatchNorm3d, GroupNorm, InstanceNorm1d, InstanceNorm2d, InstanceNorm3d,
                            LayerNorm, LocalResponseNorm, RMSNorm)
from .pooling import *  # noqa: F403
from .rnn import GRU, LSTM, RNN, GRUCell, LSTMCell, RNNCell
from .sparse import Embedding, EmbeddingBag

for _name in ("F", "empty", "refuse", "tuple_of"):  # helpers of the star imports
    globals().pop(_name, None)
