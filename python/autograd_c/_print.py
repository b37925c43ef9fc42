"""repr of tensors: PyTorch's rules, to the character."""
import math as _math

from ._dtypes import get_default_dtype
from ._ffi import TracedDataError, lib


class _Options:
    precision = 4
    threshold = 1000
    edgeitems = 3
    linewidth = 80
    sci_mode = None


options = _Options()
_PROFILES = {
    "default": (4, 1000, 3, 80),
    "short": (2, 1000, 2, 80),
    "full": (4, _math.inf, 3, 80),
}


def set_printoptions(precision=None, threshold=None, edgeitems=None, linewidth=None, profile=None, sci_mode=None):
    """How tensors print: digits, the number of elements above which only edges show, edge items, line width, 1e+00 form."""
    if profile is not None:
        options.precision, options.threshold, options.edgeitems, options.linewidth = _PROFILES[profile]
    for name, value in (("precision", precision), ("threshold", threshold), ("edgeitems", edgeitems), ("linewidth", linewidth)):
        if value is not None:
            setattr(options, name, value)
    options.sci_mode = sci_mode


def get_printoptions():
    return {k: getattr(options, k) for k in ("precision", "threshold", "edgeitems", "linewidth", "sci_mode")}


class _Formatter:
    """One width and one style for all shown elements."""

    def __init__(self, values, is_float):
        self.is_float = is_float
        self.whole = True
        self.sci = False
        self.width = 1
        if not is_float:
            self.width = max([len(str(v)) for v in values], default=1)
            return
        shown = [v for v in values if v and _math.isfinite(v)]
        if not shown:
            return
        low, high = min(map(abs, shown)), max(map(abs, shown))
        self.whole = all(v == _math.ceil(v) for v in shown)
        if options.sci_mode is not None:
            self.sci = options.sci_mode
        else:
            self.sci = high / low > 1000.0 or high > 1.0e8 or (not self.whole and low < 1.0e-4)
        self.width = max(len(self._text(v)) for v in shown)

    def _text(self, v):
        if self.sci:
            return f"{v:.{options.precision}e}"
        if self.whole:
            text = f"{v:.0f}"
            return text + "." if _math.isfinite(v) else text
        return f"{v:.{options.precision}f}"

    def __call__(self, v):
        return (self._text(v) if self.is_float else str(v)).rjust(self.width)


def _vector(values, indent, cut, form):
    per_line = max(1, int((options.linewidth - indent) // (form.width + 2)))
    edge = options.edgeitems
    if cut:
        items = [form(v) for v in values[:edge]] + [" ..."] + [form(v) for v in values[len(values) - edge:]]
    else:
        items = [form(v) for v in values]
    lines = [", ".join(items[k:k + per_line]) for k in range(0, len(items), per_line)]
    return "[" + (",\n" + " " * (indent + 1)).join(lines) + "]"


def _nested(values, shape, indent, summarize, form):
    """Text of nested lists of edge elements; shape is the true one."""
    if not shape:
        return form(values)
    cut = summarize and shape[0] > 2 * options.edgeitems
    if len(shape) == 1:
        return _vector(values, indent, cut, form)
    rows = [_nested(v, shape[1:], indent + 1, summarize, form) for v in values]
    if cut:
        rows[options.edgeitems:options.edgeitems] = ["..."]
    return "[" + ("," + "\n" * (len(shape) - 1) + " " * (indent + 1)).join(rows) + "]"


def _edges(t, shape):
    """Nested lists of the elements that a summary shows."""
    n, e = shape[0], options.edgeitems
    if n > 2 * e:
        from ._shape import cat

        t = cat([t[:e], t[n - e:]], 0)
    if len(shape) == 1:
        return t.tolist()
    return [_edges(x, shape[1:]) for x in t]


def _flatten(values, depth):
    for _ in range(depth - 1):
        values = [x for v in values for x in v]
    return values


def _contents(t, indent):
    shape = tuple(t.shape)
    summarize = t.numel() > options.threshold
    former = lib.ag_grad_set_enabled(0)
    try:
        t = t.detach()
        values = _edges(t, shape) if summarize else t.tolist()
    finally:
        lib.ag_grad_set_enabled(former)
    flat = _flatten(values, len(shape)) if shape else [values]
    return _nested(values, shape, indent, summarize, _Formatter(flat, t.is_floating_point()))


def _with_suffixes(text, suffixes, indent):
    parts = [text]
    at = len(text) - text.rfind("\n") + 1
    for s in suffixes:
        if at + len(s) + 2 > options.linewidth:
            parts.append(",\n" + " " * indent + s)
            at = indent + len(s)
        else:
            parts.append(", " + s)
            at += len(s) + 2
    return "".join(parts) + ")"


def tensor_text(t):
    prefix = "tensor("
    indent = len(prefix)
    d = t.dtype
    silent = (get_default_dtype().name, "int64", "bool")
    suffixes = []
    if not t.numel():
        if t.dim() != 1:
            suffixes.append(f"size={tuple(t.shape)}")
        if d.name != silent[0]:
            suffixes.append(f"dtype={d}")
        text = "[]"
    else:
        if d.name not in silent:
            suffixes.append(f"dtype={d}")
        try:
            text = _contents(t, indent)
        except TracedDataError:
            text = f"<traced>, size={tuple(t.shape)}"
    fn = t.grad_fn
    if fn is not None:
        suffixes.append(f"grad_fn=<{fn.short_name}>")
    elif t.requires_grad:
        suffixes.append("requires_grad=True")
    return _with_suffixes(prefix + text, suffixes, indent)
