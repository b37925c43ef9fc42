"""Modules as functions of their parameters: functional_call, stack_module_state."""
from .._ffi import refuse
from .._shape import stack
from .._tensor import Tensor


def _tables(module):
    """Dotted name -> (table, key, tensor) of every parameter and buffer, an entry for each name."""
    out = {}
    for prefix, m in module.named_modules(remove_duplicate=False):
        for kind in ("_parameters", "_buffers"):
            table = m.__dict__[kind]
            for key, t in table.items():
                out[f"{prefix}.{key}" if prefix else key] = table, key, t
    return out


def functional_call(module, parameter_and_buffer_dicts, args=None, kwargs=None, *, tie_weights=True, strict=False):
    """module(*args, **kwargs) with the parameters and buffers of the given dict (or sequence of dicts) in the place of its own.

    Keys are the names of named_parameters() and named_buffers(); what is not named stays, what the module does not have
    is left aside unless strict.  tie_weights: a tensor that
    the module has under several names is replaced under all of them.  strict: every name must be given, and none too many.
    Writes of the module to its buffers go to the given tensors.  Raises RuntimeError for ties with several values and
    missing or unknown names, ValueError or TypeError for other arguments.
    """
    given = {}
    if isinstance(parameter_and_buffer_dicts, dict):
        given = dict(parameter_and_buffer_dicts)
    elif isinstance(parameter_and_buffer_dicts, (list, tuple)):
        for d in parameter_and_buffer_dicts:
            if not isinstance(d, dict):
                raise refuse(ValueError, "Expected all elements of parameter_and_buffer_dicts to be dictionaries")
            again = sorted(set(given) & set(d))
            if again:
                raise refuse(ValueError, f"{again} appeared in multiple dictionaries; behavior of functional call is ambiguous")
            given.update(d)
    else:
        raise refuse(ValueError, "Expected parameter_and_buffer_dicts to be a dict, or a list/tuple of dicts, but got "
                     f"{type(parameter_and_buffer_dicts)}")
    known = _tables(module)
    for name, value in given.items():
        if value is not None and not isinstance(value, Tensor):
            raise refuse(TypeError, f"{value} is not an instance of torch.Tensor")
    unknown = [n for n in given if n not in known]
    if tie_weights:
        names = {}
        for n, (_, _, t) in known.items():
            if t is not None:
                names.setdefault(id(t), []).append(n)
        for tied in names.values():
            values = {id(given[n]): given[n] for n in tied if n in given}
            if len(values) > 1:
                raise refuse(ValueError, f"functional_call got multiple values for keys {sorted(n for n in tied if n in given)}, which are tied. "
                             "Consider using tie_weights=False")
            if values:
                given.update(dict.fromkeys(tied, next(iter(values.values()))))
    if strict:
        missing = [n for n in known if n not in given]
        words = [f"Unexpected key(s): {', '.join(map(repr, unknown))}."] if unknown else []
        words += [f"Missing key(s): {', '.join(map(repr, missing))}."] if missing else []
        if words:
            raise refuse(RuntimeError, f"Error(s) in reparametrizing for {type(module).__name__}:\n\t" + "\n\t".join(words))
    if args is None:
        args = ()
    elif not isinstance(args, tuple):
        args = (args,)
    before = [(known[n], v) for n, v in given.items() if n in known]
    try:
        for (table, key, _), v in before:
            table[key] = v
        return module(*args, **(kwargs or {}))
    finally:
        for (table, key, t), _ in before:
            table[key] = t


def stack_module_state(models):
    """(parameters, buffers): dicts of the tensors of all models (of one class and one mode), stacked along a new dim 0, to be
    used with vmap and functional_call.  The stacked parameters are leaves that require grad where the models' do."""
    models = list(models)
    if not models:
        raise refuse(RuntimeError, "stack_module_state: Expected at least one model, got 0.")
    if len({m.training for m in models}) > 1:
        raise refuse(RuntimeError, "stack_module_state: Expected all models to have the same training/eval mode.")
    if len({type(m) for m in models}) > 1:
        raise refuse(RuntimeError, "stack_module_state: Expected all models to be of the same class.")

    def stacked(of):
        out = {}
        for name, first in of(models[0]).items():
            each = [of(m)[name] for m in models]
            if len({t.requires_grad for t in each}) > 1:
                raise refuse(RuntimeError, f"Expected {name} from each model to have the same .requires_grad")
            out[name] = stack([t.detach() for t in each]).requires_grad_(first.requires_grad)
        return out

    return stacked(lambda m: dict(m.named_parameters())), stacked(lambda m: dict(m.named_buffers()))


def replace_all_batch_norm_modules_(root):
    """Lets the batch norms of root use the statistics of each batch alone, in place: running ones would be written.  Returns
    root."""
    from ..nn.normalization import _BatchNorm

    for m in root.modules():
        if isinstance(m, _BatchNorm):
            m.running_mean = m.running_var = m.num_batches_tracked = None
            m.track_running_stats = False
    return root
