"""Modules that learn their input's size at the first call."""
from .._create import empty
from .._modes import no_grad
from ._parameter import Parameter


class UninitializedParameter(Parameter):
    """A Parameter whose shape is not known yet: empty until the module's first call."""

    def __repr__(self, *, tensor_contents=None):
        return "<UninitializedParameter>"


def uninitialized(dtype=None):
    return UninitializedParameter(empty(0, dtype=dtype))


class LazyModule:
    """Mixin: `_shapes(input)` gives the parameters' shapes, `_becomes` the class after the first call."""

    _becomes = None

    def has_uninitialized_params(self):
        return any(isinstance(p, UninitializedParameter) for p in self._parameters.values())

    def initialize_parameters(self, input):
        for name, shape in self._shapes(input).items():
            p = self._parameters.get(name)
            if isinstance(p, UninitializedParameter):
                with no_grad():
                    p.data = empty(shape, dtype=p.dtype)
                p.__class__ = Parameter
        self.reset_parameters()
        self.__class__ = self._becomes

    def forward(self, input, *args):
        if self.has_uninitialized_params():
            self.initialize_parameters(input)
        else:
            self.__class__ = self._becomes
        return self.forward(input, *args)

    def _load_from_state_dict(self, state_dict, prefix, *args, **kw):
        for name, p in self._parameters.items():
            value = state_dict.get(prefix + name)
            if isinstance(p, UninitializedParameter) and value is not None:
                p.data = empty(tuple(value.shape), dtype=p.dtype)
                p.__class__ = Parameter
        super()._load_from_state_dict(state_dict, prefix, *args, **kw)
