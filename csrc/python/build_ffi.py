"""Emits the C source of autograd_c._core; run by CMake through `python -m cffi.gen_src exec-python`."""
import pathlib

from cffi import FFI

here = pathlib.Path(__file__).resolve().parent

ffibuilder = FFI()
ffibuilder.cdef((here.parent / "include" / "ag_api.h").read_text())
ffibuilder.cdef((here / "preamble.h").read_text())
ffibuilder.set_source("autograd_c._core", (here / "preamble.c").read_text())
