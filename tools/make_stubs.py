"""Writes the type stubs of the package from its live signatures and the table of operations.

    python tools/make_stubs.py            writes python/autograd_c/__init__.pyi and _tensor.pyi
    python tools/make_stubs.py --check    exit status 1 when they are not up to date

Names, parameters and defaults are those of the imported package; types of parameters go by their names, types of
results by the tables below: what is in none of them gives a Tensor.
"""
import argparse
import inspect
import pathlib
import sys

import autograd_c
from autograd_c import ops
from autograd_c._ffi import OPS
from autograd_c._tensor import Tensor

PACKAGE = pathlib.Path(__file__).resolve().parent.parent / "python" / "autograd_c"

TENSORS = "tuple[Tensor, ...]"
PAIR = "_ValuesIndices"
RESULTS = {name: result for result, names in {
    "_bool": "allclose equal is_complex is_floating_point is_storage is_tensor is_contiguous is_pinned is_shared is_same_size is_signed "
             "can_cast is_grad_enabled is_inference_mode_enabled",
    "_int": "numel nelement dim ndimension element_size storage_offset data_ptr get_device get_num_threads initial_seed seed",
    "str": "build_info typename",
    "None": "reset_peak_bytes set_default_dtype set_default_tensor_type set_default_device set_num_threads set_num_interop_threads "
            "use_deterministic_algorithms set_printoptions set_rng_state set_line_tracking backward retain_grad setitem",
    TENSORS: "split split_with_sizes split_with_sizes_copy chunk unbind unbind_copy tensor_split hsplit vsplit dsplit broadcast_tensors "
             "meshgrid",
    "tuple[Tensor, Tensor]": "aminmax frexp std_mean var_mean",
    PAIR: "sort topk kthvalue mode cummax cummin",
    "Size": "broadcast_shapes",
    "_dtype": "result_type",
    "Generator": "manual_seed",
    "Counters": "counters",
    "_numpy.ndarray[Any, Any]": "numpy",
    # The type depends on the arguments: left open, so that no correct program is refused.
    "Any": "item tolist type size stride compile get_printoptions cuda fork_rng gradient get_rng_state map_ apply_ max min median nanmedian "
           "unique unique_consecutive where nonzero atleast_1d atleast_2d atleast_3d",
}.items() for name in names.split()}

NUMBER, DIMS = "Tensor | _int | _float | _bool", "_int | Sequence[_int] | None"
PARAMETERS = {name: typ for typ, names in {
    "Tensor": "mask tensor1 tensor2 mat1 mat2 batch1 batch2 vec vec1 vec2 mat condition",
    NUMBER: "other exponent min max",
    DIMS: "dim axis dims",
    "_int": "dim0 dim1 k chunks offset diagonal",
    "_bool": "keepdim keepdims requires_grad accumulate descending largest sorted stable unbiased retain_grad create_graph "
             "return_inverse return_counts pin_memory non_blocking copy",
    "_dtype | None": "dtype",
    "_device | str | None": "device",
    "Sequence[Tensor]": "tensors",
    "Generator | None": "generator",
    "str": "equation",
}.items() for name in names.split()}

ATTRIBUTES = {
    "shape": "Size", "dtype": "_dtype", "device": "_device", "ndim": "_int", "itemsize": "_int", "nbytes": "_int", "is_leaf": "_bool",
    "is_cuda": "_bool", "is_meta": "_bool", "is_quantized": "_bool", "is_sparse": "_bool", "retains_grad": "_bool", "output_nr": "_int",
    "grad_fn": "Any", "H": "Tensor", "T": "Tensor", "mH": "Tensor", "mT": "Tensor",
}
WRITABLE = {"data": "Tensor", "grad": "Tensor | None", "requires_grad": "_bool", "name": "str | None"}

ARITHMETIC = ("add radd sub rsub mul rmul truediv rtruediv floordiv rfloordiv mod rmod pow rpow and rand or ror xor rxor lt le gt ge "
              "iadd isub imul itruediv ifloordiv imod ipow iand ior ixor").split()
SPECIAL = {
    "__new__": "(cls, *args: Any, device: Any = None) -> Tensor",
    "__matmul__": "(self, other: Tensor) -> Tensor", "__rmatmul__": "(self, other: Tensor) -> Tensor",
    "__neg__": "(self) -> Tensor", "__pos__": "(self) -> Tensor", "__abs__": "(self) -> Tensor", "__invert__": "(self) -> Tensor",
    "__bool__": "(self) -> _bool", "__int__": "(self) -> _int", "__float__": "(self) -> _float", "__index__": "(self) -> _int",
    "__len__": "(self) -> _int", "__iter__": "(self) -> Iterator[Tensor]", "__contains__": "(self, x: Any) -> _bool",
    "__hash__": "(self) -> _int", "__getitem__": "(self, index: Any) -> Tensor", "__setitem__": "(self, index: Any, value: Any) -> None",
    "__array__": "(self, dtype: Any = None, copy: _bool | None = None) -> _numpy.ndarray[Any, Any]",
    "__format__": "(self, spec: str) -> str", "__deepcopy__": "(self, memo: dict[_int, Any]) -> Tensor",
}
EQUALITY = f"(self, other: {NUMBER}) -> Tensor: ...  # type: ignore[override]"

HEAD = "# Written by tools/make_stubs.py from the package; do not edit.\n# ruff: noqa"


def default(value):
    if value is None or isinstance(value, (bool, int, float, str)) and value == value and abs_finite(value):
        return repr(value)
    return "..."


def abs_finite(value):
    return not isinstance(value, float) or value not in (float("inf"), float("-inf"))


def annotation(name, p, first):
    if p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD):
        return "Any"
    if first and name == "input":
        return "Tensor"
    typ = PARAMETERS.get(name, "Any")
    if p.default is None and typ != "Any" and "None" not in typ:
        typ += " | None"
    if isinstance(p.default, (int, float, str)) and not isinstance(p.default, bool) and typ in ("_bool", "Tensor"):
        typ = "Any"
    if isinstance(p.default, bool) and typ != "_bool":
        typ = "_bool"
    return typ


def signature(fn, method):
    """Text of fn's parameters, the first one of a method being self."""
    try:
        parameters = list(inspect.signature(fn).parameters.values())
    except (TypeError, ValueError):
        return "self, *args: Any, **kwargs: Any" if method else "*args: Any, **kwargs: Any"
    out, star = [], False
    for k, p in enumerate(parameters):
        if method and k == 0:
            out.append("self")
            if p.kind is p.VAR_POSITIONAL:  # f(*tensors) as a method
                out.append("*args: Any")
                star = True
            continue
        if p.kind is p.KEYWORD_ONLY and not star:
            out.append("*")
            star = True
        star |= p.kind is p.VAR_POSITIONAL
        text = {p.VAR_POSITIONAL: "*", p.VAR_KEYWORD: "**"}.get(p.kind, "") + p.name
        text += f": {annotation(p.name, p, k == 0)}"
        if p.default is not p.empty:
            text += f" = {default(p.default)}"
        out.append(text)
    return ", ".join(out)


def function(name, fn, indent=""):
    method = bool(indent)
    return f"{indent}def {name}({signature(fn, method)}) -> {RESULTS.get(name, 'Tensor')}: ..."


# Names of types as they are written in the stubs: the package and class Tensor have functions called bool, int, dtype ...
ALIASES = ["from builtins import bool as _bool, float as _float, int as _int", "from collections.abc import Callable, Iterator, Sequence",
           "from typing import Any, NamedTuple, TypeVar, overload", "", "import numpy as _numpy", "",
           "from ._dtypes import Size as Size, device as _device, dtype as _dtype"]


def tensor_stub():
    """_tensor.pyi: class Tensor."""
    lines = [HEAD, *ALIASES, "from .random import Generator", "", f"class {PAIR}(NamedTuple):", "    values: Tensor", "    indices: Tensor",
             "", "class Tensor:"]
    members = {n: inspect.getattr_static(Tensor, n) for n in dir(Tensor) if not n.startswith("_")}
    properties = {n for n, m in members.items() if isinstance(m, property) or not callable(m)}
    unknown = properties ^ ATTRIBUTES.keys() ^ WRITABLE.keys()
    assert not unknown, f"attributes without a type, or types without an attribute: {sorted(unknown)}"
    lines += [f"    {n}: {t}" for n, t in WRITABLE.items()]
    for n, t in ATTRIBUTES.items():
        lines += ["    @property", f"    def {n}(self) -> {t}: ..."]
    lines += [f"    def __{n}__(self, other: {NUMBER}) -> Tensor: ..." for n in ARITHMETIC if hasattr(Tensor, f"__{n}__")]
    lines += [f"    def {n}{EQUALITY}" for n in ("__eq__", "__ne__")]
    lines += [f"    def {n}{text}: ..." for n, text in SPECIAL.items()]
    lines += [function(n, getattr(Tensor, n), "    ") for n in sorted(members) if n not in properties]
    lines += ["", "def is_tensor(x: Any) -> _bool: ...", ""]
    return "\n".join(lines)


# What the package takes from modules that a type checker reads as they are.
TAKEN = {
    "._dtypes": "can_cast device dtype finfo float32 float64 get_default_dtype iinfo int32 int64 promote_types set_default_dtype uint8",
    "._ffi": "Error TracedDataError",
    "._modes": "enable_grad inference_mode is_grad_enabled is_inference_mode_enabled no_grad set_grad_enabled",
    "._tensor": "Tensor is_tensor",
    ".random": "Generator default_generator",
}


def package_stub():
    """__init__.pyi: everything public of the package."""
    modules = sorted(n for n, (_, attribute) in autograd_c._LAZY.items() if attribute is None and reachable(n))
    modules = sorted({"autograd", "graph", "ops", "random", *modules})
    lines = [HEAD, *ALIASES, f"from ._tensor import {PAIR}"]
    lines += [f"from . import {n} as {n}" for n in modules]
    lines += [f"from {m} import " + ", ".join(f"{n} as {n}" for n in names.split()) for m, names in TAKEN.items()]
    lines += ["from ._dtypes import bool_ as bool", "", "float = float32", "double = float64", "int = int32", "long = int64", "",
              "newaxis: None", "__version__: str", "", "class Counters(NamedTuple):"]
    lines += [f"    {n}: _int" for n in autograd_c.Counters._fields]
    lines += ["", '_F = TypeVar("_F", bound=Callable[..., Any])', "@overload",
              "def freeze(fn: _F, *example: Any, off: str | Sequence[str] = ...) -> _F: ...", "@overload",
              "def freeze(fn: None = None, *, off: str | Sequence[str] = ...) -> Callable[[_F], _F]: ..."]
    done = {*modules, *autograd_c._LAZY, *" ".join(TAKEN.values()).split(), *"Size bool float double int long newaxis Counters".split()}
    for n in sorted(n for n in dir(autograd_c) if not n.startswith("_")):
        if n in done - {"save", "load"} or not reachable(n):
            continue
        value = getattr(autograd_c, n)
        if isinstance(value, float):
            lines.append(f"{n}: _float")
        elif isinstance(value, type):
            lines.append(f"{n}: Any")
        elif n in ("save", "load"):
            lines.append(f"def {n}(*args: Any, **kwargs: Any) -> Any: ...")
        elif callable(value):
            lines.append(function(n, value))
        elif not inspect.ismodule(value):
            lines.append(f"{n}: Any")
    for name in OPS:  # each row that is public by its name has a typed function
        assert name not in ops.__all__ or any(line.startswith(f"def {name}(") for line in lines), name
    return "\n".join(lines) + "\n"


def reachable(name):
    try:
        getattr(autograd_c, name)
    except AttributeError:
        return False
    return True


def texts():
    return {"_tensor.pyi": tensor_stub(), "__init__.pyi": package_stub()}


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing; exit status 1 when the stubs are not up to date")
    options = parser.parse_args(argv)
    stale = 0
    for name, text in texts().items():
        path = PACKAGE / name
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            stale = 1
            if options.check:
                print(f"{path.relative_to(PACKAGE.parent.parent)} is not up to date: python tools/make_stubs.py", file=sys.stderr)
            else:
                path.write_text(text, encoding="utf-8")
                print(f"wrote {path.relative_to(PACKAGE.parent.parent)}")
    return stale if options.check else 0


if __name__ == "__main__":
    sys.exit(main())
