"""The registry that a process shares."""

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import files

from hetune.variants.fork_locks import new_lock
from hetune.variants.registry.records import KernelSource
from hetune.variants.registry.store import Registry

_default: Registry | None = None
_default_mutex = new_lock()


def default_registry() -> Registry:
    """The registry that this process shares; its folder is that of `Registry()`."""
    global _default
    with _default_mutex:
        if _default is None:
            _default = Registry()
        return _default


def load_packaged(package: str, file: str, name: str, recipe: str) -> ctypes.CDLL:
    """The C++ in a file of a package, compiled.

    Args:
        package: Name of the module that the file lies beside.
        file: Its name there.
        name: Of the kernel, as of `KernelSource`.
        recipe: What it is, for people.

    Raises:
        CompileError: There is no compiler, or it refused the source.
        RegistryError: There is no space for what it makes.
    """
    text = files(package).joinpath(file).read_text(encoding="utf-8")
    return default_registry().load(KernelSource(name, text, recipe))


@contextmanager
def override_default_registry(registry: Registry | None) -> Iterator[None]:
    """Let `default_registry` answer another one for a while; None makes a new one at first need."""
    global _default
    with _default_mutex:
        before, _default = _default, registry
    try:
        yield
    finally:
        with _default_mutex:
            _default = before
