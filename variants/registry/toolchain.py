"""The C++ compiler of this machine: found, named, and run."""

import functools
import os
import platform
import shlex
import shutil
import struct
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from hetune.variants.errors import CompileError
from hetune.variants.registry.processes import run
from hetune.variants.registry.vectors import WIDEST, Vectors, vectors_of

_FLAGS = (
    "-std=c++20",
    "-O3",
    # A product and a sum become one FMA instruction: twice the peak, and rounded once, not twice.
    "-ffp-contract=fast",
    # Nobody reads errno after sqrt or exp, so they may be vectorised.
    "-fno-math-errno",
    # Nobody catches floating-point traps, so a select may compute both of its sides.
    "-fno-trapping-math",
    # x + 0 is x: sums that start from zero lose one instruction; only the sign of a zero differs.
    "-fno-signed-zeros",
    # A shared object's code may lie anywhere.
    "-fPIC",
    # Only what is marked is exported: helpers of the same name in two kernels never meet.
    "-fvisibility=hidden",
    "-fopenmp",
)
_NATIVE = "-march=native"  # binaries stay on this machine, so they may use all of its instructions
_PORTABLE_X86 = "-march=x86-64-v3"  # AVX2 and FMA, for compilers that refuse the former

_MEND = "install one (`apt-get install g++`), or set HETUNE_CXX to a C++20 compiler with OpenMP"
_PROBE_SECONDS = 20.0
_MESSAGE_LINES = 20
_ELF64_HEADER_BYTES = 64


@dataclass(frozen=True, slots=True)
class Toolchain:
    """A compiler with everything that decides which binary it makes.

    Attributes:
        compiler: command line prefix, quoted as a shell would have it.
        identity: first line of what the compiler says of its version.
        flags: options for compiling a translation unit.
        cpu: canonical text of this CPU's features, for `-march=native` depends on them.
        link_flags: options for linking the object.
        timeout_s: seconds after which a compiler is killed; not part of a kernel's key.
        vectors: the vector registers that the flags and the CPU allow.
    """

    compiler: str
    identity: str
    flags: tuple[str, ...]
    cpu: str
    link_flags: tuple[str, ...] = ("-shared",)
    timeout_s: float = 120.0
    vectors: Vectors = WIDEST

    @classmethod
    def detect(cls) -> "Toolchain":
        """Find the compiler: HETUNE_CXX, CXX, then g++, clang++ and c++ on the PATH.

        Raises:
            CompileError: there is none, or it does not take the options.
        """
        command = _find_compiler()
        identity = _ask_version(command)
        link_flags: tuple[str, ...] = ("-shared",)
        if platform.system() == "Darwin":
            link_flags = ("-shared", "-undefined", "dynamic_lookup")
        elif "clang" in identity.lower():
            # Clang calls LLVM's OpenMP library, which torch's wheels for Linux do not bring along.
            link_flags = ("-shared", "-fopenmp")
        flags = (*_FLAGS, _NATIVE)
        refusal, macros = _ask_macros(command, flags)
        if refusal and platform.machine().lower() in ("x86_64", "amd64"):
            flags = (*_FLAGS, _PORTABLE_X86)
            refusal, macros = _ask_macros(command, flags)
        if refusal:
            raise CompileError(
                f"the C++ compiler `{shlex.join(command)}` ({identity}) refuses hetune's options: "
                f"{_MEND}. It says:\n{refusal}"
            )
        return cls(
            shlex.join(command),
            identity,
            flags,
            _cpu_features(),
            link_flags,
            vectors=vectors_of(macros),
        )

    def compile(self, source: str, output: Path) -> None:
        """Compile a translation unit into a shared object.

        The object is linked without an OpenMP library, so that its GOMP symbols resolve, when it
        is loaded, to the library that torch uses: one thread pool in the process.

        The source may ask for `HETUNE_LANES`, the float32 elements of a vector register.

        Args:
            source: the whole translation unit.
            output: file to write; its folder also holds the private folder of the compiler's
                temporary files.

        Raises:
            CompileError: the compiler is missing, refuses the source, hangs or writes no binary.
            OSError: the folder of `output` cannot be written.
        """
        command = shlex.split(self.compiler)
        with tempfile.TemporaryDirectory(
            dir=output.parent, prefix="cxx-", ignore_cleanup_errors=True
        ) as private:
            folder = Path(private)
            (folder / "kernel.cpp").write_text(source, encoding="utf-8")
            # No flag, for it follows from them: a machine's fingerprint names the flags.
            lanes = f"-DHETUNE_LANES={self.vectors.lanes}"
            steps = (
                ("compile", [*self.flags, lanes, "-c", "kernel.cpp", "-o", "kernel.o"]),
                ("link", ["kernel.o", *self.link_flags, "-o", "kernel.so"]),
            )
            for verb, arguments in steps:
                status, said = _run([*command, *arguments], folder, self.timeout_s)
                if status != 0:
                    raise CompileError(
                        f"`{self.compiler}` ({self.identity}) did not {verb} a kernel "
                        f"(exit status {status}); if other kernels fail too, check the compiler or "
                        f"set HETUNE_CXX to another one. It says:\n{_head(said)}"
                    )
            binary = folder / "kernel.so"
            if not _is_shared_object(binary):
                raise CompileError(
                    f"`{self.compiler}` ({self.identity}) ended well but wrote no whole "
                    f"shared object: {_MEND}"
                )
            binary.replace(output)


def _find_compiler() -> list[str]:
    for variable in ("HETUNE_CXX", "CXX"):
        text = os.environ.get(variable, "").strip()
        if not text:
            continue
        command = [text] if shutil.which(text) else shlex.split(text)
        found = shutil.which(command[0])
        if found is None:
            raise CompileError(
                f"{variable}={text!r} names a C++ compiler that is not there: mend or unset "
                f"{variable}, or {_MEND}"
            )
        # Absolute, for the compiler runs in a folder of its own.
        return [str(Path(found).absolute()), *command[1:]]
    for name in ("g++", "clang++", "c++"):
        found = shutil.which(name)
        if found is not None:
            return [found]
    raise CompileError(f"there is no C++ compiler (g++, clang++ or c++) on the PATH: {_MEND}")


def _ask_version(command: list[str]) -> str:
    status, said = _run([*command, "--version"], None, _PROBE_SECONDS)
    lines = said.strip().splitlines()
    if status != 0 or not lines:
        raise CompileError(
            f"the C++ compiler `{shlex.join(command)}` does not answer `--version` "
            f"(exit status {status}): {_MEND}"
        )
    return lines[0].strip()


def _ask_macros(command: list[str], flags: tuple[str, ...]) -> tuple[str, str]:
    """What the compiler has against these options, empty if nothing; and what it then defines."""
    arguments = [*flags, "-dM", "-E", "-x", "c++", os.devnull]
    status, said = _run([*command, *arguments], None, _PROBE_SECONDS)
    if status == 0:
        return "", said
    return _head(said) or f"(nothing; exit status {status})", ""


def _run(command: list[str], folder: Path | None, timeout_s: float) -> tuple[int, str]:
    """Run a compiler; its exit status, and what it said."""
    environment = {**os.environ, "LC_ALL": "C"}
    if folder is not None:
        environment["TMPDIR"] = str(folder)
    try:
        return run(command, environment, timeout_s, folder)
    except OSError as error:
        raise CompileError(
            f"the C++ compiler `{command[0]}` cannot be started ({error.strerror}): {_MEND}"
        ) from error
    except subprocess.TimeoutExpired:
        raise CompileError(
            f"the C++ compiler `{shlex.join(command[:1])}` did not end within {timeout_s:g} s and "
            "was killed: check that it works on a small file, or set HETUNE_CXX to another one"
        ) from None


def _head(said: str) -> str:
    lines = said.strip().splitlines()
    more = [f"... and {len(lines) - _MESSAGE_LINES} more lines"]
    return "\n".join(lines[:_MESSAGE_LINES] + (more if len(lines) > _MESSAGE_LINES else []))


def _is_shared_object(path: Path) -> bool:
    """Whether the file is an ELF file with its end in place, or starts as a Mach-O file does.

    Loading one that is cut off would end the process with a bus error.
    """
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return False
    if data[:4] != b"\x7fELF":
        return data[:4] == b"\xcf\xfa\xed\xfe"
    if len(data) < _ELF64_HEADER_BYTES:
        return False
    # Linkers put the table of sections last.
    (table,) = struct.unpack_from("<Q", data, 0x28)
    size, count = struct.unpack_from("<HH", data, 0x3A)
    return bool(0 < table + size * count <= len(data))


@functools.cache
def _cpu_features() -> str:
    machine = platform.machine()
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return f"{machine} {platform.processor()}".strip()
    fields = {
        name.strip(): value.strip()
        for name, _, value in (line.partition(":") for line in reversed(lines))
    }
    features = fields.get("flags", fields.get("Features", ""))
    # The model decides what `native` tunes for, the features decide what it may emit.
    model = fields.get("model name", fields.get("CPU part", ""))
    return f"{machine}; {model}; {' '.join(sorted(features.split()))}"
