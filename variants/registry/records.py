"""The records that go into the registry and come out of it."""

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Protocol

from hetune.variants.errors import KernelError
from hetune.variants.registry.sealed_json import sealed, unsealed

FORMAT = 1
"""Version of the folder's layout and of the key; a new one makes every old entry unreachable."""

_NAME = re.compile(r"[a-z0-9_-]{1,120}")


@dataclass(frozen=True, slots=True)
class KernelSource:
    """What is compiled: one C++20 translation unit, or what else a registry's compiler reads.

    Attributes:
        name: readable name of ``[a-z0-9_-]``; not part of the key.
        text: the whole of it.
        recipe: canonical kernel text and schedule; part of the key, kept in the manifest.

    Raises:
        KernelError: the name has other characters.
    """

    name: str
    text: str
    recipe: str

    def __post_init__(self) -> None:
        if _NAME.fullmatch(self.name) is None:
            raise KernelError(
                f"the kernel's name {self.name!r} is not allowed: use 1 to 120 of a-z, 0-9, _ and -"
            )


class BinaryCompiler(Protocol):
    """What makes binaries, with everything that decides which.

    For C++ it is a `Toolchain`; a backend may bring another one.
    """

    @property
    def compiler(self) -> str:
        """Command line prefix, quoted as a shell would have it."""
        ...

    @property
    def identity(self) -> str:
        """Its name and version."""
        ...

    @property
    def flags(self) -> tuple[str, ...]:
        """Options for compiling."""
        ...

    @property
    def link_flags(self) -> tuple[str, ...]:
        """Options for linking."""
        ...

    @property
    def cpu(self) -> str:
        """The machine that it compiles for."""
        ...

    def compile(self, source: str, output: Path) -> None:
        """Compile a text into a file.

        Raises:
            CompileError: the compiler is missing or refuses the text.
            OSError: the folder of `output` cannot be written.
        """
        ...


@dataclass(frozen=True, slots=True)
class KernelManifest:
    """What the folder keeps beside a binary; it is written last, so it vouches for the binary."""

    format: int
    key: str
    name: str
    recipe: str
    sha256: str
    bytes: int
    created: float
    compiler: str
    flags: str
    cpu: str

    def to_json(self) -> str:
        """The manifest as a JSON object."""
        return json.dumps(sealed(asdict(self)), indent=1)

    @classmethod
    def from_json(cls, text: str) -> "KernelManifest":
        """Read a manifest.

        Raises:
            ValueError: it is not a complete manifest of this format, or is damaged.
        """
        raw = unsealed(json.loads(text))
        if not isinstance(raw, dict) or raw.get("format") != FORMAT:
            raise ValueError("it is not a manifest of this format")
        try:
            manifest = cls(**raw)
        except TypeError:
            raise ValueError("fields are missing or unknown") from None
        texts = (manifest.key, manifest.name, manifest.recipe, manifest.sha256)
        if not all(isinstance(field, str) for field in texts) or (
            not isinstance(manifest.bytes, int) or not isinstance(manifest.created, int | float)
        ):
            raise ValueError("a field has the wrong type")
        return manifest


@dataclass(frozen=True, slots=True)
class KernelEntry:
    """One compiled kernel on disk; times are seconds since the epoch."""

    key: str
    name: str
    recipe: str
    bytes: int
    created: float
    last_used: float


@dataclass(frozen=True, slots=True)
class Loads:
    """How often kernels were asked for, by where they came from.

    Attributes:
        memory: This process had loaded them already.
        disk: They were in the folder.
        compiled: They were compiled now.
        failed: They could not be had.
    """

    memory: int = 0
    disk: int = 0
    compiled: int = 0
    failed: int = 0


@dataclass(frozen=True, slots=True)
class BuildReport:
    """What `Registry.build` did.

    Attributes:
        built: kernels compiled now, by this process.
        reused: kernels that were there (or that another process has just compiled).
        failed: name of each kernel that did not compile -> the compiler's message.
        seconds: wall time.
        bytes: size of all the binaries, built and reused.
    """

    built: int
    reused: int
    failed: Mapping[str, str]
    seconds: float
    bytes: int


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """What `Registry.verify` found: `bad` maps the key of each quarantined entry to the reason."""

    checked: int
    bad: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class GcReport:
    """What `Registry.gc` removed; `bytes` are those still kept."""

    evicted: tuple[str, ...]
    freed_bytes: int
    swept: int
    bytes: int
