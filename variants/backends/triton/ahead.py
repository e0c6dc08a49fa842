"""Compiling ahead of time, for a GPU that need not be here."""

from __future__ import annotations

import functools
import importlib.metadata
import os
import re
import shlex
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from hetune.variants.errors import CompileError, InputError
from hetune.variants.extras import installing
from hetune.variants.registry import Registry
from hetune.variants.registry.processes import run

_SCRIPT = Path(__file__).with_name("compile_unit.py")
_MESSAGE_LINES = 20
_DEVICE = re.compile(r"cuda:sm_(\d{2,3})a?")
OLDEST = 80
"""The oldest compute capability (Ampere's, times ten) that kernels are compiled for."""


def capability_of(device: str) -> int:
    """The compute capability, times ten, that a device's name ends in: 90 for ``cuda:sm_90``.

    Raises:
        InputError: It names none, or one that is too old.
    """
    match = _DEVICE.fullmatch(device)
    if match is None:
        raise InputError(f"no device {device!r}: take cpu, or cuda:sm_80, cuda:sm_90, ...")
    capability = int(match[1])
    if capability < OLDEST:
        raise InputError(f"{device} is too old: take cuda:sm_{OLDEST} or newer")
    return capability


@dataclass(frozen=True, slots=True)
class TritonCompiler:
    """Triton in a process of its own, as the compiler of a registry.

    Attributes:
        capability: Compute capability of the GPU, times ten.
        timeout_s: Seconds after which it is killed; not part of a kernel's key.
    """

    capability: int
    timeout_s: float = 300.0

    @property
    def compiler(self) -> str:
        """The interpreter that runs the script; its path is no part of a kernel's key."""
        return shlex.quote(sys.executable)

    @property
    def identity(self) -> str:
        """Triton's version."""
        return f"triton {triton_version()}"

    @property
    def flags(self) -> tuple[str, ...]:
        """What the script asks of Triton beside what the text says."""
        return ("aligned=16", "fp_fusion=1", "line_info=0")

    @property
    def link_flags(self) -> tuple[str, ...]:
        """None: there is nothing to link."""
        return ()

    @property
    def cpu(self) -> str:
        """The GPU."""
        return f"cuda:sm_{self.capability}"

    def compile(self, source: str, output: Path) -> None:
        """Compile a generated module into a zip file of cubins and `launch.json`.

        Raises:
            CompileError: Triton is missing, refuses the module, or hangs.
            OSError: The folder of `output` cannot be written.
        """
        with tempfile.TemporaryDirectory(
            dir=output.parent, prefix="triton-", ignore_cleanup_errors=True
        ) as private:
            module, made = Path(private, "kernels.py"), Path(private, "kernels.zip")
            module.write_text(source, encoding="utf-8")
            said = self._run([str(module), str(self.capability), str(made)], private)
            if not made.is_file():
                raise CompileError(
                    f"{self.identity} ended well but wrote nothing. It says:\n{said}"
                )
            made.replace(output)

    def _run(self, arguments: list[str], private: str) -> str:
        hidden = ("TRITON_INTERPRET", "PYTHONPATH")
        environment = {k: v for k, v in os.environ.items() if k not in hidden}
        environment |= {
            "TRITON_CACHE_DIR": str(Path(private, "cache")),
            # Nobody has the file whose lines they are, and they are more than half of a cubin.
            "TRITON_DISABLE_LINE_INFO": "1",
            "TMPDIR": private,
        }
        try:
            status, said = run(
                [sys.executable, "-I", str(_SCRIPT), *arguments], environment, self.timeout_s
            )
        except subprocess.TimeoutExpired:
            raise CompileError(
                f"{self.identity} did not compile a kernel for {self.cpu} within "
                f"{self.timeout_s:g} s and was killed: take smaller tiles"
            ) from None
        if status != 0:
            last = "\n".join(said.strip().splitlines()[-_MESSAGE_LINES:])
            raise CompileError(
                f"{self.identity} did not compile a kernel for {self.cpu} (exit status "
                f"{status}): check that it knows this GPU. It says:\n{last}"
            )
        return said.strip()


def gpu_registry(capability: int, root: Path | None = None) -> Registry:
    """The store of what is compiled for a GPU; by default in the folder of the default registry."""
    return Registry(root, toolchain=TritonCompiler(capability))


@functools.cache
def triton_version() -> str:
    """Triton's version.

    Raises:
        CompileError: There is no Triton.
    """
    try:
        return importlib.metadata.version("triton")
    except importlib.metadata.PackageNotFoundError:
        raise CompileError(f"compiling for GPUs needs triton: {installing('triton')}") from None
