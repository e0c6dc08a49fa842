"""Content-addressed compiled kernels: build, verify, load, evict."""

from hetune.variants.registry.default import (
    default_registry,
    load_packaged,
    override_default_registry,
)
from hetune.variants.registry.records import (
    BinaryCompiler,
    BuildReport,
    GcReport,
    KernelEntry,
    KernelSource,
    VerifyReport,
)
from hetune.variants.registry.store import Registry
from hetune.variants.registry.toolchain import Toolchain

__all__ = [
    "BinaryCompiler",
    "BuildReport",
    "GcReport",
    "KernelEntry",
    "KernelSource",
    "Registry",
    "Toolchain",
    "VerifyReport",
    "default_registry",
    "load_packaged",
    "override_default_registry",
]
