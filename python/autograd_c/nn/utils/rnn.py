"""Sequences of different lengths."""
from ..._call import apply
from ..._ffi import push_site
from ..._shape import stack
from ..._tensor import Tensor


def pad_sequence(sequences, batch_first=False, padding_value=0.0, padding_side="right"):
    """Tensors (L_i, ..) as one of shape (max L, N, ..) (batch_first: (N, max L, ..)), filled up with padding_value."""
    if isinstance(sequences, Tensor):
        sequences = sequences.unbind(0)
    elif not hasattr(sequences, "__iter__"):
        raise RuntimeError(f"pad_sequence: Expected iterable for input sequences, but got arg of type: {type(sequences)}")
    if padding_side not in ("left", "right"):
        raise RuntimeError("Expected padding_side to be one of left or right")
    sequences = list(sequences)
    if not sequences:
        raise RuntimeError("received an empty list of sequences")
    push_site()
    longest = max(s.shape[0] for s in sequences)
    padded = []
    for s in sequences:
        gap = longest - s.shape[0]
        if gap:
            sides = [gap, 0] if padding_side == "left" else [0, gap]
            s = apply(None, "pad", (s,), sides + [0, 0] * (s.dim() - 1), (float(padding_value),))
        padded.append(s)
    return stack(padded, 0 if batch_first else 1)


def unpad_sequence(padded_sequences, lengths, batch_first=False):
    """The inverse of pad_sequence: a list of tensors of the given lengths."""
    push_site()
    x = padded_sequences if batch_first else padded_sequences.transpose(0, 1)
    return [x[k, :int(n)] for k, n in enumerate(lengths)]
