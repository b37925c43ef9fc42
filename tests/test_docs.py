"""Every program of README.md and docs/*.md runs, and prints what stands below it.

Python blocks of a file run in order, in one process and one namespace; each is compiled as "example.py".  C blocks that
hold a main() are programs; others are only compiled, as the body of a file that includes autograd_c.h.  A text block
right after a program is its output.
"""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
from types import SimpleNamespace

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent
FILES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.M | re.S)


def blocks(path):
    """(language, text, line, expected output or None) of each fenced block."""
    text = path.read_text(encoding="utf-8")
    found = list(FENCE.finditer(text))
    out = []
    for k, m in enumerate(found):
        after = found[k + 1] if k + 1 < len(found) else None
        expected = None
        if after is not None and after[1] == "text" and text[m.end():after.start()].strip() == "":
            expected = after[2]
        out.append((m[1], m[2], text.count("\n", 0, m.start()) + 2, expected))
    return out


def having(language):
    return [pytest.param(p, id=p.name) for p in FILES if p.exists() and any(b[0] == language for b in blocks(p))]


def tool(*names):
    """Path of the first tool that is there, beside this Python or on the PATH; skips the test otherwise."""
    for name in names:
        beside = pathlib.Path(sys.executable).parent / name
        found = str(beside) if beside.exists() else shutil.which(name)
        if found:
            return found
    pytest.skip(f"{' or '.join(names)} is not installed")


def run(*command, **more):
    r = subprocess.run([str(c) for c in command], capture_output=True, text=True, timeout=1800, **more)
    assert r.returncode == 0, f"{' '.join(map(str, command))}\n{r.stdout}{r.stderr}"


@pytest.fixture(scope="session")
def installed_library(tmp_path_factory):
    """The C library without BLAS, configured, built and installed by the README's commands.

    AUTOGRAD_C_BUILD_DIR names a finished build to install from.
    """
    cc, cmake = tool("cc", "gcc", "clang"), tool("cmake")
    where = tmp_path_factory.mktemp("library")
    configure = ["-S", ".", "-B", "build", "-DAUTOGRAD_C_BLAS=off"]
    build, prefix = pathlib.Path(os.environ.get("AUTOGRAD_C_BUILD_DIR", where / "build")), where / "installed"
    if not (build / "CMakeCache.txt").exists():
        run(cmake, *configure[:3], build, *configure[4:], cwd=ROOT)
        run(cmake, "--build", build, "--parallel", "2")
    run(cmake, "--install", build, "--prefix", prefix, "--component", "c")
    libdir = next(p.parent for p in sorted(prefix.rglob("libautograd_c.*")))

    def compile(source, program):
        command = [cc, "-std=c11", "-Wall", "-Wextra", str(source), "-I", str(prefix / "include")]
        command += ["-L", str(libdir), "-lautograd_c", "-lm", "-pthread", f"-Wl,-rpath,{libdir}", "-o", str(program)] if program else [
            "-fsyntax-only"]
        return subprocess.run(command, capture_output=True, text=True, timeout=120)

    return SimpleNamespace(cmake=cmake, configure=configure, prefix=prefix, compile=compile)


RUNNER = """
import contextlib, io, json, sys
space = {"__name__": "__main__"}
for text in json.load(sys.stdin):
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(text, "example.py", "exec"), space)
    print(json.dumps(out.getvalue()), flush=True)
"""


def tidy(text):
    """Text without what differs from run to run: addresses, spaces at line ends."""
    text = re.sub(r"0x[0-9a-f]+", "0x...", text)
    return "\n".join(line.rstrip() for line in text.strip().splitlines())


@pytest.mark.parametrize("path", having("python"))
def test_python(path):
    programs = [b for b in blocks(path) if b[0] == "python"]
    r = subprocess.run([sys.executable, "-c", RUNNER], input=json.dumps([b[1] for b in programs]), capture_output=True, text=True,
                       timeout=300)
    results = [json.loads(line) for line in r.stdout.splitlines()]
    assert r.returncode == 0, f"{path.name}, block at line {programs[len(results)][2]}:\n{r.stderr}"
    for (_, _, line, expected), printed in zip(programs, results):
        if expected is not None:
            assert tidy(printed) == tidy(expected), f"{path.name}, block at line {line}"
        else:
            assert not printed.strip(), f"{path.name}, block at line {line} prints what the page does not show:\n{printed}"


@pytest.mark.parametrize("path", having("c"))
def test_c(path, installed_library, tmp_path):
    for k, (language, text, line, expected) in enumerate(blocks(path)):
        if language != "c":
            continue
        where = f"{path.name}, block at line {line}"
        source = tmp_path / f"block{k}.c"
        if "int main(" not in text:
            source.write_text(f"#include <autograd_c.h>\n#include <stdio.h>\n{text}\n", encoding="utf-8")
            r = installed_library.compile(source, None)
            assert r.returncode == 0, f"{where}:\n{r.stderr}"
            continue
        source.write_text(text, encoding="utf-8")
        program = tmp_path / f"block{k}"
        r = installed_library.compile(source, program)
        assert r.returncode == 0, f"{where}:\n{r.stderr}"
        assert not r.stderr, f"{where}:\n{r.stderr}"
        r = subprocess.run([str(program)], capture_output=True, text=True, timeout=120)
        assert r.returncode == 0, f"{where}:\n{r.stdout}{r.stderr}"
        if expected is not None:
            assert tidy(r.stdout) == tidy(expected), where


def test_readme_builds_the_library_as_the_tests_do(installed_library):
    """The commands of "From C" are those by which the fixture made the library."""
    commands = next(b[1] for b in blocks(ROOT / "README.md") if "cmake -S" in b[1])
    first, second, third = commands.strip().splitlines()
    assert first == f"cmake {' '.join(installed_library.configure)} && cmake --build build --parallel"
    assert second == 'cmake --install build --prefix "$PWD/installed" --component c'
    assert third.replace('"$PWD/installed/lib"', "RPATH") == (
        "cc -std=c11 main.c -I installed/include -L installed/lib -lautograd_c -lm -pthread -Wl,-rpath,RPATH -o main")


def test_links_lead_somewhere():
    for path in FILES:
        for target in re.findall(r"\]\(([^)#]+?)(?:#[^)]*)?\)", path.read_text(encoding="utf-8")):
            if "://" not in target:
                assert (path.parent / target).exists(), f"{path.name}: {target}"


def test_variables_and_options_are_those_of_the_code():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    sources = [*(ROOT / "csrc").rglob("*.[ch]"), *(ROOT / "python").rglob("*.py")]
    read = {v for p in sources for v in re.findall(r'(?:getenv\(|environ\S*?)"(AUTOGRAD_C_\w+)"', p.read_text(encoding="utf-8"))}
    assert read and read == set(re.findall(r"^\| `(AUTOGRAD_C_\w+)` \|", text.partition("## Environment variables")[2], re.M))
    options = set(re.findall(r"^(?:set|option)\((AUTOGRAD_C_\w+)", (ROOT / "CMakeLists.txt").read_text(encoding="utf-8"), re.M))
    table = text.partition("## Options of the build")[2].partition("## Environment")[0]
    assert options == {n for n in re.findall(r"^\| `(\w+)` \|", table, re.M) if n.startswith("AUTOGRAD_C_")}


def test_example_in_python():
    r = subprocess.run([sys.executable, str(ROOT / "examples" / "dynamic_and_frozen.py")], capture_output=True, text=True, timeout=120)
    assert r.returncode == 0, r.stderr
    assert "dynamic: 200 graphs" in r.stdout and "frozen:    1 graph" in r.stdout and "equal bits: True" in r.stdout


def test_example_in_c(installed_library, tmp_path):
    """By find_package, as somebody else's project would."""
    run(installed_library.cmake, "-S", ROOT / "examples" / "from_c", "-B", tmp_path, f"-DCMAKE_PREFIX_PATH={installed_library.prefix}")
    run(installed_library.cmake, "--build", tmp_path)
    assert not (tmp_path / "autograd_c").exists()  # found, not built again
    r = subprocess.run([str(tmp_path / "from_c")], capture_output=True, text=True, timeout=120)
    assert r.returncode == 0, r.stdout + r.stderr
    assert "dynamic: 500 graphs" in r.stdout and "frozen:  1 graph" in r.stdout and "equal bits" in r.stdout
    assert "left alive: 0 nodes" in r.stdout
