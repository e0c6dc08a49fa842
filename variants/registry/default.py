"""The registry that a process shares."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from hetune.variants.registry.store import Registry

_default: Registry | None = None
_default_mutex = threading.Lock()


def default_registry() -> Registry:
    """The registry that this process shares; its folder is that of `Registry()`."""
    global _default
    with _default_mutex:
        if _default is None:
            _default = Registry()
        return _default


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
