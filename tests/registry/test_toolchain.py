"""The compiler is found, asked, run; and each way in which it breaks gives a clear error."""

import os
import time
from dataclasses import replace
from pathlib import Path

import pytest

from hetune.variants.errors import CompileError
from hetune.variants.registry import KernelSource, Registry, Toolchain
from hetune.variants.registry.vectors import WIDEST, Vectors, vectors_of

from .alive import wait_for_end

MEND = "install one (`apt-get install g++`), or set HETUNE_CXX to a C++20 compiler with OpenMP"


def test_detect_names_all_that_decides_what_a_binary_is(toolchain):
    assert Path(toolchain.compiler).is_absolute()
    assert toolchain.identity
    assert "\n" not in toolchain.identity
    assert toolchain.flags[-1] in ("-march=native", "-march=x86-64-v3")
    assert "-ffast-math" not in toolchain.flags
    assert not any("gomp" in flag for flag in toolchain.link_flags)
    assert toolchain.cpu == Toolchain.detect().cpu


def test_variables_come_before_the_path(monkeypatch, scripted):
    mine = scripted('exec $CXX "$@"').compiler
    monkeypatch.setenv("CXX", "/nowhere/g++")
    monkeypatch.setenv("HETUNE_CXX", mine)
    assert Toolchain.detect().compiler == mine
    monkeypatch.delenv("HETUNE_CXX")
    monkeypatch.setenv("CXX", f"{mine} -DX=1")
    assert Toolchain.detect().compiler == f"{mine} -DX=1"


def test_a_variable_that_names_nothing(monkeypatch):
    monkeypatch.setenv("HETUNE_CXX", "no-such-compiler")
    with pytest.raises(CompileError) as error:
        Toolchain.detect()
    assert str(error.value) == (
        "HETUNE_CXX='no-such-compiler' names a C++ compiler that is not there: mend or unset "
        f"HETUNE_CXX, or {MEND}"
    )


def test_no_compiler_on_the_path(monkeypatch, tmp_path):
    monkeypatch.delenv("HETUNE_CXX", raising=False)
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(CompileError) as error:
        Toolchain.detect()
    assert str(error.value) == (
        f"there is no C++ compiler (g++, clang++ or c++) on the PATH: {MEND}"
    )


def test_a_compiler_without_a_version(monkeypatch, scripted):
    fake = scripted("exit 3")
    monkeypatch.setenv("HETUNE_CXX", fake.compiler)
    with pytest.raises(CompileError) as error:
        Toolchain.detect()
    assert str(error.value) == (
        f"the C++ compiler `{fake.compiler}` does not answer `--version` (exit status 3): {MEND}"
    )


@pytest.mark.parametrize(
    ("said", "found"),
    [
        ("#define __AVX2__ 1\n#define __AVX__ 1\n#define __AVX512F__ 1\n", WIDEST),
        ("#define __AVX__ 1\n#define __AVX2__ 1\n#define NOT__AVX512F__ 1\n", Vectors(8, 16)),
        ("#define __SSE2__ 1\n", Vectors(4, 16)),
        ("#define __ARM_NEON 1\n#define __aarch64__ 1\n", Vectors(4, 32)),
        ("__AVX__\n", Vectors(4, 16)),
        ("", Vectors(4, 16)),
    ],
)
def test_what_a_compiler_defines_tells_the_registers(monkeypatch, scripted, said, found):
    assert vectors_of(said) == found
    fake = scripted(f'case "$*" in *-dM*) printf \'{said}\';; *) exec $CXX "$@";; esac')
    monkeypatch.setenv("HETUNE_CXX", fake.compiler)
    assert Toolchain.detect().vectors == found


@pytest.mark.skipif(os.uname().machine not in ("x86_64", "amd64"), reason="x86-64 only")
def test_options_decide_which_registers_there_are(monkeypatch, scripted, toolchain):
    fake = scripted('exec $CXX "$@" -mno-avx')
    monkeypatch.setenv("HETUNE_CXX", fake.compiler)
    assert Toolchain.detect().vectors == Vectors(4, 16)
    assert toolchain.vectors.lanes in (4, 8, 16)


@pytest.mark.skipif(os.uname().machine not in ("x86_64", "amd64"), reason="x86-64 only")
def test_native_refused_falls_back_to_a_portable_level(monkeypatch, scripted):
    fake = scripted(
        """
        case "$*" in *-march=native*) echo 'bad value (native)'; exit 1;; esac
        exec $CXX "$@"
        """
    )
    monkeypatch.setenv("HETUNE_CXX", fake.compiler)
    assert Toolchain.detect().flags[-1] == "-march=x86-64-v3"


def test_all_options_refused(monkeypatch, scripted):
    fake = scripted(
        """
        [ "$1" = --version ] && { echo old++ 1.0; exit 0; }
        echo 'error: no C++20 here'; exit 1
        """
    )
    monkeypatch.setenv("HETUNE_CXX", fake.compiler)
    with pytest.raises(CompileError) as error:
        Toolchain.detect()
    assert str(error.value) == (
        f"the C++ compiler `{fake.compiler}` (old++ 1.0) refuses hetune's options: {MEND}. "
        "It says:\nerror: no C++20 here"
    )


def test_compile_leaves_only_the_output(tmp_path, toolchain, source):
    toolchain.compile(source(1).text, tmp_path / "out.so")
    assert [path.name for path in tmp_path.iterdir()] == ["out.so"]


def test_a_refused_source_shows_the_first_lines_of_the_message(tmp_path, scripted):
    fake = replace(scripted("seq 1 50; exit 1"), identity="fake++ 1.0")
    with pytest.raises(CompileError) as error:
        fake.compile("int x;", tmp_path / "out.so")
    shown = "\n".join(str(i) for i in range(1, 21))
    assert str(error.value) == (
        f"`{fake.compiler}` (fake++ 1.0) did not compile a kernel (exit status 1); if other "
        "kernels fail too, check the compiler or set HETUNE_CXX to another one. It says:\n"
        f"{shown}\n... and 30 more lines"
    )
    assert not (tmp_path / "out.so").exists()


def test_a_real_compiler_names_the_line(tmp_path, toolchain):
    with pytest.raises(CompileError, match=r"kernel\.cpp:2:"):
        toolchain.compile("int good;\nint bad = ;\n", tmp_path / "out.so")


def test_a_compiler_that_has_gone(tmp_path, toolchain):
    gone = replace(toolchain, compiler="/nowhere/g++")
    with pytest.raises(CompileError) as error:
        gone.compile("int x;", tmp_path / "out.so")
    assert str(error.value) == (
        f"the C++ compiler `/nowhere/g++` cannot be started (No such file or directory): {MEND}"
    )


def test_a_hanging_compiler_is_killed_with_its_children(tmp_path, scripted):
    note = tmp_path / "child"
    fake = scripted(f"sleep 600 &\necho $! > {note}\nwait", timeout_s=5.0)
    start = time.monotonic()
    with pytest.raises(CompileError) as error:
        fake.compile("int x;", tmp_path / "out.so")
    assert time.monotonic() - start < 300
    assert str(error.value) == (
        f"the C++ compiler `{fake.compiler}` did not end within 5 s and was killed: check that "
        "it works on a small file, or set HETUNE_CXX to another one"
    )
    wait_for_end(note.read_text().strip())


@pytest.mark.parametrize(
    "script",
    [
        pytest.param("exit 0", id="nothing"),
        pytest.param('echo "not a binary" > kernel.so', id="text"),
        pytest.param("printf '\\177ELF' > kernel.so", id="four bytes"),
        pytest.param(
            """
            $CXX "$@" || exit 1
            [ -f kernel.so ] && head -c 5000 kernel.so > half && mv half kernel.so
            exit 0
            """,
            id="half a binary",
        ),
    ],
)
def test_a_compiler_that_writes_garbage(tmp_path, scripted, source, script):
    fake = scripted(script)
    with pytest.raises(CompileError) as error:
        Registry(tmp_path / "kernels", toolchain=fake).load(source(1))
    assert str(error.value) == (
        f"`{fake.compiler}` ({fake.identity}) ended well but wrote no whole shared object: {MEND}"
    )


def test_a_kernel_with_an_undefined_symbol(registry):
    text = 'extern "C" int missing(); extern "C" int answer() { return missing(); }'
    with pytest.raises(CompileError) as error:
        registry.load(KernelSource("broken", text, ""))
    assert "the kernel broken compiles but cannot be loaded" in str(error.value)
    assert "undefined symbol: missing" in str(error.value)
    assert registry.entries() == []
