"""The C side on its own: programs, sanitizers, valgrind, headers, exported names, and the rules of the source tree.

Builds the checkout's csrc with CMake in temporary folders (AUTOGRAD_C_BUILD_DIR names a finished build to use for the
plain programs).  What a machine lacks (cmake, valgrind, pkg-config) is skipped with the reason.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[1]
CSRC = ROOT / "csrc"
PROGRAMS = sorted(p.stem for p in (ROOT / "tests" / "c").glob("test_*.c"))

pytestmark = pytest.mark.skipif(not CSRC.is_dir(), reason="needs the source tree, of which the tests are a part")


def tool(*names):
    """Path of the first tool that is there, beside this Python or on the PATH; skips the test otherwise."""
    for name in names:
        beside = pathlib.Path(sys.executable).parent / name
        found = str(beside) if beside.exists() else shutil.which(name)
        if found:
            return found
    pytest.skip(f"{' or '.join(names)} is not installed")


def run(args, ok=0, **more):
    r = subprocess.run([str(a) for a in args], capture_output=True, text=True, timeout=900, **more)
    assert r.returncode == ok, f"{' '.join(map(str, args))}: {r.returncode}\n{r.stdout[-4000:]}\n{r.stderr[-4000:]}"
    return r.stdout + r.stderr


def build(folder, *options, flags="-O1 -g", target="all"):
    cmake = tool("cmake")
    ninja = shutil.which("ninja") or (pathlib.Path(sys.executable).parent / "ninja").exists()
    generator = ["-G", "Ninja"] if ninja else []
    env = dict(os.environ, PATH=f"{pathlib.Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    env.pop("CFLAGS", None)
    run([cmake, "-S", ROOT, "-B", folder, *generator, "-DAUTOGRAD_C_TESTS=ON", "-DAUTOGRAD_C_BLAS=off", "-DAUTOGRAD_C_PYTHON=OFF",
         "-DCMAKE_BUILD_TYPE=None", f"-DCMAKE_C_FLAGS={flags}", *options], env=env)
    run([cmake, "--build", folder, "--parallel", "2", "--target", target], env=env)
    return folder


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    ready = os.environ.get("AUTOGRAD_C_BUILD_DIR")
    return pathlib.Path(ready) if ready else build(tmp_path_factory.mktemp("plain"))


def with_sanitizers(folder, *names, target="all"):
    probe = folder / "probe.c"
    probe.write_text("int main(void) { return 0; }\n")
    cc = tool("cc", "gcc", "clang")
    if subprocess.run([cc, f"-fsanitize={','.join(names)}", probe, "-o", folder / "probe"], capture_output=True).returncode:
        pytest.skip(f"the compiler has no sanitizers for {' and '.join(names)}")
    return build(folder, f"-DAUTOGRAD_C_SANITIZE={';'.join(names)}", target=target)


@pytest.fixture(scope="module")
def sanitized(tmp_path_factory):
    return with_sanitizers(tmp_path_factory.mktemp("sanitized"), "address", "undefined")


def arguments(program, slow):
    return ["50000"] if program == "test_deep" and slow else []


# ---- programs -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("program", PROGRAMS)
def test_program(plain, program):
    run([plain / program])


def test_small_stack(plain):
    """A million nodes with a stack of 256 kB."""
    run(["bash", "-c", f"ulimit -s 256 && exec '{plain}/test_deep'"])


@pytest.mark.parametrize("program", PROGRAMS)
def test_sanitizers(sanitized, program):
    """Addresses, leaks, undefined behaviour; without the pool, so that every block is the system's own."""
    env = dict(os.environ, AUTOGRAD_C_POOL="0", ASAN_OPTIONS="detect_leaks=1:abort_on_error=0", UBSAN_OPTIONS="halt_on_error=1:print_stacktrace=1")
    out = run([sanitized / program, *arguments(program, True)], env=env)
    assert "runtime error" not in out


def test_races(tmp_path):
    """Threads that share leaves, storages and the pool do not race for anything."""
    for program in ("test_threads", "test_pool"):
        folder = with_sanitizers(tmp_path, "thread", target=program)
        r = subprocess.run([folder / program], capture_output=True, text=True, timeout=300, env=dict(os.environ, TSAN_OPTIONS="halt_on_error=0:exitcode=66"))
        if "unexpected memory mapping" in r.stderr:
            pytest.skip("ThreadSanitizer does not run under this kernel's address layout")
        assert r.returncode == 0, r.stdout + r.stderr[-6000:]


def test_valgrind(plain):
    """No uninitialised value is used, nothing is lost."""
    valgrind = tool("valgrind")
    # Valgrind knows no AVX-512.
    env = dict(os.environ, AUTOGRAD_C_POOL="0", AUTOGRAD_C_DISABLE_CPU="avx512")
    run([valgrind, "--error-exitcode=9", "--leak-check=full", "-q", plain / "test_embed"], env=env)


# ---- headers and names ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("language", ["c11", "c++17"])
@pytest.mark.parametrize("header", ["autograd_c.h", "ag_api.h"])
def test_header_alone(tmp_path, header, language):
    compiler = tool("cc", "gcc", "clang") if language == "c11" else tool("c++", "g++", "clang++")
    source = tmp_path / ("one.c" if language == "c11" else "one.cc")
    # ag_api.h, which cffi reads, has no guard and includes nothing; autograd_c.h may come twice.
    first = '#include "autograd_c.h"' if header == "autograd_c.h" else "#include <stdint.h>"
    source.write_text(f'{first}\n#include "{header}"\nint main() {{ return AG_FLOAT64 != 5; }}\n')
    run([compiler, f"-std={language}", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-I", CSRC / "include", "-I", CSRC / "ops",
         "-fsyntax-only", source])


def declared():
    """Functions of ag_api.h."""
    text = re.sub(r"/\*.*?\*/", "", (CSRC / "include" / "ag_api.h").read_text(), flags=re.S)
    text = re.sub(r"\{[^{}]*\}", "", text)
    return {m for m in re.findall(r"\b(ag_\w+)\s*\(", text)}


def test_exported_names(plain):
    """The shared library offers what the header declares, and nothing else."""
    nm = tool("nm")
    library = next(plain.glob("libautograd_c.so"), None)
    if library is None:
        pytest.skip("no ELF shared library on this system")
    names = {line.split()[-1].split("@")[0] for line in run([nm, "-D", "--defined-only", library]).splitlines() if line.split()[-2] in "TDBRVW"}
    assert not {n for n in names if not re.match(r"ag_(?!_)", n)}
    assert names == declared()


def test_module_exports_its_entry_alone():
    import autograd_c._core

    nm = tool("nm")
    lines = run([nm, "-D", "--defined-only", autograd_c._core.__file__]).splitlines()
    assert {line.split()[-1].split("@")[0] for line in lines if line.split()[-2] in "TDBRVW"} <= {"PyInit__core", "_cffi_pypyinit__core"}


@pytest.mark.parametrize("kind", ["static", "shared"])
def test_consumer(plain, tmp_path, kind):
    """Installed, the library is found by CMake, and a program built on it runs."""
    cmake = tool("cmake")
    prefix = tmp_path / "prefix"
    run([cmake, "--install", plain, "--prefix", prefix, "--component", "c"])
    shutil.copy(ROOT / "tests" / "c" / "test_embed.c", tmp_path / "main.c")
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.26)\nproject(consumer LANGUAGES C)\nfind_package(autograd_c REQUIRED)\n"
        f"add_executable(main main.c)\ntarget_link_libraries(main PRIVATE autograd_c::{kind} m)\n")
    run([cmake, "-S", tmp_path, "-B", tmp_path / "build", f"-DCMAKE_PREFIX_PATH={prefix}"])
    run([cmake, "--build", tmp_path / "build"])
    run([tmp_path / "build" / "main"])


def test_consumer_by_pkg_config(plain, tmp_path):
    pkg_config, cmake, cc = tool("pkg-config", "pkgconf"), tool("cmake"), tool("cc", "gcc", "clang")
    prefix = tmp_path / "prefix"
    run([cmake, "--install", plain, "--prefix", prefix, "--component", "c"])
    folder = next(prefix.rglob("autograd_c.pc")).parent
    # The file names the prefix of the configuration; here the library lies elsewhere.
    ask = [pkg_config, f"--define-variable=prefix={prefix}"]
    env = dict(os.environ, PKG_CONFIG_PATH=str(folder))
    flags = run([*ask, "--cflags", "--libs", "autograd_c"], env=env).split()
    run([cc, ROOT / "tests" / "c" / "test_embed.c", "-o", tmp_path / "main", *flags, "-lm"])
    run([tmp_path / "main"], env=dict(os.environ, LD_LIBRARY_PATH=str(folder.parent)))


# ---- rules of the tree ----------------------------------------------------------------------------------------

FLOORS = ["include", "base", "kernels", "tensor", "ops", "engine", "freeze"]
TABLE = "ag_ops.inc"  # the op table is data that every floor above it reads, kernels and public header too


def includes(path):
    return re.findall(r'^\s*#\s*include\s+"([^"]+)"', path.read_text(), flags=re.M)


def floor_of(path):
    folder = path.relative_to(CSRC).parts[0]
    return FLOORS.index(folder) if folder in FLOORS else len(FLOORS)


def sources(*suffixes):
    return [p for p in sorted(CSRC.rglob("*")) if p.suffix in suffixes]


@pytest.mark.parametrize("path", sources(".c", ".h", ".inc") if CSRC.is_dir() else [], ids=lambda p: str(p.relative_to(CSRC)))
def test_includes_lead_downwards(path):
    """A file includes headers of its own floor or of lower ones only."""
    for name in includes(path):
        if pathlib.PurePath(name).name == TABLE:
            continue
        candidates = [path.parent / name, CSRC / name, CSRC / "include" / name]
        target = next((c.resolve() for c in candidates if c.exists()), None)
        assert target is not None, f"{path.name} includes {name}, which is not in the tree"
        assert floor_of(target) <= floor_of(path), f"{path.relative_to(CSRC)} includes {target.relative_to(CSRC)}, which lies above it"


def test_kernels_are_called_from_one_place():
    """Only ops (exec and what it is made of) and freeze (which replays the same kernels) know the kernel table."""
    users = {p.relative_to(CSRC).parts[0] for p in sources(".c", ".h") if "kernels/kernels.h" in includes(p) or "kernels.h" in includes(p)}
    assert users <= {"kernels", "ops", "freeze"}
    blas = {str(p.relative_to(CSRC)) for p in sources(".c", ".h", ".inc") if re.search(r"cblas_\w+\s*\(|cblas\.h", p.read_text())}
    assert blas <= {"ops/gemm.c"}, blas


LIMIT = 800
LONGER = {}  # path: reason


def test_files_are_of_a_readable_length():
    files = [p for folder in ("csrc", "python") for p in (ROOT / folder).rglob("*") if p.suffix in (".c", ".h", ".inc", ".py")]
    long = {str(p.relative_to(ROOT)): n for p in files if (n := len(p.read_text().splitlines())) > LIMIT and str(p.relative_to(ROOT)) not in LONGER}
    assert not long


def test_no_unfinished_notes():
    files = [p for folder in ("csrc", "python", "tests") for p in (ROOT / folder).rglob("*") if p.suffix in (".c", ".h", ".inc", ".py")]
    marks = "|".join(["TO" + "DO", "FIX" + "ME", "X" + "XX"])
    assert not [str(p.relative_to(ROOT)) for p in files if re.search(rf"\b({marks})\b", p.read_text())]


def test_public_header_is_half_prose():
    """ag_api.h explains what it declares: about as much of it is comment as is C."""
    text = (CSRC / "include" / "ag_api.h").read_text()
    prose = sum(len(c) for c in re.findall(r"/\*.*?\*/", text, flags=re.S))
    assert prose > 0.45 * len(text)
