"""Nested containers of tensors: flattened to a list and built up again.

Tuples (named ones too), lists and dicts are containers, anything else (None included) is a leaf.
"""
from collections import OrderedDict, defaultdict


def flatten(tree):
    """(leaves, structure) of a nested container, dicts in the order of their keys' insertion."""
    leaves = []
    return leaves, _flatten(tree, leaves)


def _flatten(tree, leaves):
    kind = type(tree)
    if isinstance(tree, tuple):
        return kind, None, tuple([_flatten(x, leaves) for x in tree])
    if kind is list:
        return kind, None, tuple([_flatten(x, leaves) for x in tree])
    if kind in (dict, OrderedDict, defaultdict):
        extra = tree.default_factory if kind is defaultdict else None
        return kind, (tuple(tree), extra), tuple([_flatten(x, leaves) for x in tree.values()])
    leaves.append(tree)
    return None


LEAF = None  # the structure of a leaf


def unflatten(leaves, structure):
    """The container of that structure over the leaves."""
    return _build(iter(leaves), structure)


def _build(leaves, structure):
    if structure is LEAF:
        return next(leaves)
    kind, keys, parts = structure
    built = [_build(leaves, p) for p in parts]
    if keys is not None:
        pairs = zip(keys[0], built)
        return defaultdict(keys[1], pairs) if kind is defaultdict else kind(pairs)
    return kind(*built) if hasattr(kind, "_fields") else kind(built)


def tree_map(fn, tree):
    leaves, structure = flatten(tree)
    return unflatten([fn(x) for x in leaves], structure)


def spread(prefix, structure):
    """A list with an entry for each leaf of `structure`: those of `prefix`, a container whose leaves may stand for a whole
    part of it; None where prefix does not fit."""
    out = []
    return out if _spread(prefix, structure, out) else None


def _count(structure):
    return 1 if structure is LEAF else sum([_count(p) for p in structure[2]])


def _spread(prefix, structure, out):
    if not isinstance(prefix, (tuple, list, dict)):
        out.extend([prefix] * _count(structure))
        return True
    if structure is LEAF:
        return False
    kind, keys, parts = structure
    if keys is not None:
        if not isinstance(prefix, dict) or set(prefix) != set(keys[0]):
            return False
        return all([_spread(prefix[key], part, out) for key, part in zip(keys[0], parts)])
    if isinstance(prefix, dict) or len(prefix) != len(parts) or isinstance(prefix, tuple) != issubclass(kind, tuple):
        return False
    return all([_spread(p, part, out) for p, part in zip(prefix, parts)])


def in_words(structure):
    """The structure as PyTorch's messages show one, * for a leaf."""
    if structure is LEAF:
        return "*"
    kind, keys, parts = structure
    inner = [in_words(p) for p in parts]
    if keys is not None:
        return "{" + ", ".join([f"{k!r}: {p}" for k, p in zip(keys[0], inner)]) + "}"
    if kind is list:
        return "[" + ", ".join(inner) + "]"
    return "(" + ", ".join(inner) + ("," if len(inner) == 1 else "") + ")"
