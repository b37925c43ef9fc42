"""How the library was built, under PyTorch's names."""
from ._ffi import ffi, lib


def show():
    """Version, compiler, BLAS, threads and instruction set, as text."""
    return ffi.string(lib.ag_build_info()).decode() + "\n"


def parallel_info():
    """How many threads large work may use, as text."""
    return f"autograd_c.get_num_threads() : {lib.ag_get_num_threads()}\n{show()}"
