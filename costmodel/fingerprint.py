"""Which machine this is: times measured on one say little about another."""

from __future__ import annotations

import functools
import hashlib
import json
import math
import os
import platform
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import psutil

from hetune.costmodel import system
from hetune.variants.errors import HetuneError
from hetune.variants.kernel.device import Device
from hetune.variants.registry import default_registry

_RECIPE = 1
"""Version of what the digest is made of; a new one makes every machine another one."""

_DIGITS = 16
_DIGEST = re.compile(f"[0-9a-f]{{{_DIGITS}}}")
# The instructions that a compiler may emit for our kernels. Kernels of the operating system invent
# names for everything else (mitigations, virtualisation), and do so from release to release.
_INSTRUCTIONS = re.compile(
    r"s?sse\d\w*|sse|avx\w*|amx\w*|fma\d?|f16c|bmi\d|movbe|popcnt|gfni"
    r"|asimd\w*|neon|sve\w*|sme\d?|bf16|i8mm|fphp"
)
_LATER = ("gpu_capability", "gpu_memory", "triton")
"""Facts that fingerprints of older versions do not have."""
_FLOATS = ("cpu_quota", "memory_gib", "memory_limit_gib")
_LARGEST = 1e9
"""More processors or GiB than any machine has."""


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """What is known of a machine. A fact that the system does not tell is None, or empty.

    Attributes:
        cpu: Name of the processor.
        cpu_identity: Its family, model and stepping (on ARM implementer to revision), with ``/``.
        cpu_flags: SHA-256 digest of everything that it says it can do, 16 digits.
        instructions: Those flags that compiled kernels may use, sorted.
        caches: Names and bytes of the caches that one processor uses, e.g. ``("L2", 1048576)``.
        cores: Physical cores of the machine.
        cpus: Logical processors that this process may run on.
        cpu_quota: Processors' worth of time that a container allows; None without a limit.
        memory_gib: Memory of the machine.
        memory_limit_gib: Memory that a container allows; None without a limit.
        system: Operating system and its kernel's release.
        compiler: First line of what the C++ compiler says of its version.
        compiler_flags: Options that kernels are compiled with.
        gpu: Names of the NVIDIA GPUs.
        gpu_driver: Version of their driver.
        python: Version of Python.
        hetune: Version of hetune.
        torch: Version of PyTorch.
        numpy: Version of NumPy.
        gpu_capability: Compute capabilities of the GPUs, e.g. ``"9.0"``.
        gpu_memory: Memory of the GPUs, e.g. ``"81559 MiB"``.
        triton: Version of Triton.
    """

    cpu: str | None
    cpu_identity: str | None
    cpu_flags: str | None
    instructions: tuple[str, ...]
    caches: tuple[tuple[str, int], ...]
    cores: int | None
    cpus: int | None
    cpu_quota: float | None
    memory_gib: float | None
    memory_limit_gib: float | None
    system: str | None
    compiler: str | None
    compiler_flags: tuple[str, ...]
    gpu: str | None
    gpu_driver: str | None
    python: str | None
    hetune: str | None
    torch: str | None
    numpy: str | None
    gpu_capability: str | None = None
    gpu_memory: str | None = None
    triton: str | None = None

    @property
    def digest(self) -> str:
        """16 hexadecimal digits over the facts that decide speed.

        In it: processor, instructions, caches, cores, processors and time that the process may
        use, memory to the nearest power of two, the compiler's kind and major version, its options,
        and the GPU's name. Not in it: releases of the operating system, the driver and the
        packages, which change on one machine without making it another.
        """
        text = json.dumps([_RECIPE, self._deciding()], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]

    def as_dict(self) -> dict[str, Any]:
        """All facts as JSON values, by name."""
        facts = {field.name: getattr(self, field.name) for field in fields(self)}
        for name in ("instructions", "compiler_flags"):
            facts[name] = list(facts[name])
        return {**facts, "caches": dict(self.caches)}

    @classmethod
    def from_dict(cls, facts: Mapping[str, Any]) -> Fingerprint:
        """What `as_dict` gave, of this version of hetune or an older one with fewer facts of GPUs.

        Raises:
            ValueError: Another fact is missing, unknown, or of the wrong type.
        """
        names = {field.name for field in fields(cls)}
        if not isinstance(facts, Mapping):
            raise ValueError(f"not a fingerprint: {type(facts).__name__}, not an object")
        facts = {**dict.fromkeys(_LATER), **facts}
        if facts.keys() != names:
            raise ValueError(
                f"not a fingerprint: missing {sorted(names - facts.keys())}, "
                f"unknown {sorted(map(str, facts.keys() - names))}"
            )
        wrong = [name for name in names if not _fits(name, facts[name])]
        if wrong:
            raise ValueError(f"not a fingerprint: wrong type of {sorted(wrong)}")
        given: dict[str, Any] = dict(facts)
        for name in ("instructions", "compiler_flags"):
            given[name] = tuple(facts[name])
        for name in _FLOATS:
            given[name] = None if facts[name] is None else float(facts[name])
        return cls(**{**given, "caches": tuple(sorted(facts["caches"].items()))})

    def _deciding(self) -> dict[str, Any]:
        known = [size for size in (self.memory_gib, self.memory_limit_gib) if size]
        return {
            "cpu": self.cpu,
            "cpu_identity": self.cpu_identity,
            "instructions": list(self.instructions),
            "caches": dict(self.caches),
            "cores": self.cores,
            "cpus": self.cpus,
            "cpu_quota": self.cpu_quota,
            # What the system keeps for itself varies: sizes as sold lie far from the boundaries.
            "memory_gib": 2.0 ** round(math.log2(min(known))) if known else None,
            "compiler": _major(self.compiler) if self.compiler else None,
            "compiler_flags": list(self.compiler_flags),
            "gpu": self.gpu,
        }


def is_digest(text: str) -> bool:
    """Whether a text can be a `Fingerprint.digest`."""
    return _DIGEST.fullmatch(text) is not None


def difference(a: Fingerprint, b: Fingerprint, device: Device = "cpu") -> list[str]:
    """The facts that decide a device's speed and differ, a line for each.

    For the CPU that are those of the digest, and nothing differs where digests are equal. For GPUs
    it is the kinds of cards alone, however many there are of each.
    """
    one, two = a._deciding(), b._deciding()
    if device == "cuda":
        one, two = ({"gpu": _kinds(each.gpu)} for each in (a, b))
    return [f"{name}: {_changed(one[name], two[name])}" for name in one if one[name] != two[name]]


@functools.cache
def this_machine() -> Fingerprint:
    """The fingerprint of this machine, as this process sees it; remembered. Never fails."""
    cpu = system.read_cpu()
    memory, limit = _memory(), system.read_memory_limit()
    if limit is not None and memory is not None and limit >= memory:
        limit = None
    compiler, flags = _compiler()
    gpu, driver = system.read_gpu()
    capability, gpu_memory = (None, None) if gpu is None else system.read_gpu_details()
    quota = system.read_cpu_quota()
    every = hashlib.sha256(" ".join(cpu.flags).encode()).hexdigest()[:_DIGITS]
    return Fingerprint(
        cpu=cpu.name or platform.processor() or platform.machine() or None,
        cpu_identity=cpu.identity,
        cpu_flags=every if cpu.flags else None,
        instructions=tuple(flag for flag in cpu.flags if _INSTRUCTIONS.fullmatch(flag)),
        caches=system.read_caches(),
        cores=_cores(),
        cpus=len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        cpu_quota=None if quota is None else round(quota, 2),
        memory_gib=None if memory is None else round(memory / 2**30, 2),
        memory_limit_gib=None if limit is None else round(limit / 2**30, 2),
        system=f"{platform.system()} {platform.release()}".strip() or None,
        compiler=compiler,
        compiler_flags=flags,
        gpu=gpu,
        gpu_driver=driver,
        python=platform.python_version(),
        hetune=_version("hetune"),
        torch=_version("torch"),
        numpy=_version("numpy"),
        gpu_capability=capability,
        gpu_memory=gpu_memory,
        triton=None if gpu is None else _version("triton"),
    )


def _kinds(cards: str | None) -> str | None:
    return None if cards is None else ", ".join(sorted(set(cards.split(", "))))


def _compiler() -> tuple[str | None, tuple[str, ...]]:
    try:
        chain = default_registry().toolchain
    except (HetuneError, OSError):
        return None, ()
    return chain.identity, (*chain.flags, *chain.link_flags)


def _major(identity: str) -> str:
    """Kind and major version of a compiler: `gcc 12` of "g++ (Debian 12.2.0-14) 12.2.0"."""
    kind = "gcc" if re.match(r"\S*(g\+\+|gcc|c\+\+)", identity) else identity.partition(" ")[0]
    if "clang" in identity.lower():
        kind = "apple clang" if identity.startswith("Apple") else "clang"
    number = re.search(r"(\d+)\.\d", re.sub(r"\(.*?\)", "", identity))
    return f"{kind} {number[1]}" if number else identity


_UNKNOWN = (OSError, RuntimeError, ValueError)
"""What psutil raises where a system does not tell: the fact is left out of the fingerprint then."""


def _memory() -> int | None:
    try:
        return int(psutil.virtual_memory().total) or None
    except _UNKNOWN:
        return None


def _cores() -> int | None:
    try:
        count: int | None = psutil.cpu_count(logical=False)
    except _UNKNOWN:
        return None
    return count


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _changed(before: Any, after: Any) -> str:
    if isinstance(before, list) and isinstance(after, list):
        gone = [f"-{item}" for item in before if item not in after]
        come = [f"+{item}" for item in after if item not in before]
        return " ".join(gone + come) or "another order"
    if isinstance(before, dict):
        before, after = ((f"{name} {size}" for name, size in x.items()) for x in (before, after))
        before, after = ", ".join(before), ", ".join(after)
    return f"{before or 'unknown'} -> {after or 'unknown'}"


def _is_integer(value: object) -> bool:
    return type(value) is int


def _fits(name: str, value: Any) -> bool:
    if name in ("instructions", "compiler_flags"):
        return isinstance(value, list | tuple) and all(isinstance(item, str) for item in value)
    if name == "caches":
        return isinstance(value, dict) and all(
            isinstance(key, str) and _is_integer(size) for key, size in value.items()
        )
    if value is None:
        return True
    if name in _FLOATS:
        return type(value) in (int, float) and bool(0 <= value <= _LARGEST)
    return _is_integer(value) if name in ("cores", "cpus") else isinstance(value, str)
