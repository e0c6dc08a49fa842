"""A real compiler, broken ones, and small kernels."""

import os
import stat
import subprocess
import sys
import textwrap
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from hetune.variants.registry import KernelSource, Registry, Toolchain


@pytest.fixture(scope="session")
def toolchain() -> Toolchain:
    """What users have, also where other tests compile faster."""
    with pytest.MonkeyPatch.context() as patch:
        if "quick_g++" in os.environ.get("HETUNE_CXX", ""):
            patch.delenv("HETUNE_CXX")
        return Toolchain.detect()


@pytest.fixture
def registry(tmp_path: Path, toolchain: Toolchain) -> Registry:
    return Registry(tmp_path / "kernels", toolchain=toolchain)


@pytest.fixture(scope="session")
def source() -> Callable[[int], KernelSource]:
    """A kernel whose function `answer` returns the number that was asked for."""

    def make(number: int, name: str | None = None) -> KernelSource:
        export = 'extern "C" __attribute__((visibility("default")))'
        text = f"{export} int answer() {{ return {number}; }}\n"
        return KernelSource(name or f"answer-{number}", text, f"answer {number}")

    return make


@pytest.fixture
def scripted(tmp_path: Path, toolchain: Toolchain) -> Callable[[str], Toolchain]:
    """A toolchain whose compiler is a shell script; $CXX is the real one. The keys are equal."""

    def make(script: str, **changes) -> Toolchain:
        path = tmp_path / "fake-cxx"
        path.write_text(f"#!/bin/sh\nCXX={toolchain.compiler}\n{textwrap.dedent(script)}\n")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return replace(toolchain, compiler=str(path), **changes)

    return make


@pytest.fixture
def spawn(tmp_path: Path) -> Callable[[str, Registry, KernelSource], subprocess.Popen[str]]:
    """Start a process that runs code with the same `registry` and `source` in scope."""

    def start(code: str, registry: Registry, source: KernelSource) -> subprocess.Popen[str]:
        program = "\n".join(
            (
                "from pathlib import Path, PosixPath",
                "from hetune.variants.registry import KernelSource, Registry, Toolchain",
                "from hetune.variants.registry.vectors import Vectors",
                f"source = {source!r}",
                f"registry = Registry({registry.root!r}, toolchain={registry.toolchain!r})",
                textwrap.dedent(code),
            )
        )
        return subprocess.Popen(
            [sys.executable, "-c", program],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    return start
