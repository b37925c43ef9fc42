"""Parameters as one vector and back."""
from ..._modes import no_grad
from ..._shape import cat


def parameters_to_vector(parameters):
    """All elements of the parameters, one after the other."""
    return cat([p.reshape(-1) for p in parameters])


def vector_to_parameters(vec, parameters):
    """Writes the vector's elements into the parameters, in order."""
    if not hasattr(vec, "narrow"):
        raise TypeError(f"expected torch.Tensor, but got: {type(vec).__name__}")
    at = 0
    with no_grad():
        for p in parameters:
            n = p.numel()
            p.detach().copy_(vec.detach().narrow(0, at, n).view(p.shape))
            at += n
