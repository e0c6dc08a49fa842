"""The triton package, imported when it is first needed, and modules made of generated source."""

from __future__ import annotations

import functools
import hashlib
import importlib
import linecache
import os
import sys
from importlib.abc import InspectLoader
from importlib.util import module_from_spec, spec_from_loader
from types import CodeType, ModuleType
from typing import Any

from hetune.variants.errors import CompileError
from hetune.variants.extras import installing
from hetune.variants.registry.records import KernelSource


def interpreting() -> bool:
    """Whether Triton is to interpret kernels on the CPU: ``TRITON_INTERPRET=1``."""
    return os.environ.get("TRITON_INTERPRET", "").lower() in ("1", "true", "on", "yes", "y")


@functools.cache
def triton() -> Any:
    """The triton package.

    Raises:
        CompileError: It is not installed.
    """
    try:
        return importlib.import_module("triton")
    except ImportError as error:
        raise CompileError(
            f"the triton backend needs triton ({error}): {installing('triton')}"
        ) from error


def module_of(source: KernelSource) -> ModuleType:
    """The module of a launch's source; its text is found by Triton and by tracebacks.

    Raises:
        CompileError: There is no triton.
    """
    triton()
    return _module(source.text, interpreting())


@functools.lru_cache(maxsize=4096)
def _module(text: str, interpreted: bool) -> ModuleType:
    name = f"_hetune_{hashlib.sha256(text.encode()).hexdigest()[:24]}"
    name += "_interpreted" if interpreted else ""
    loader = _Loader(text)
    spec = spec_from_loader(name, loader)
    assert spec is not None
    module = module_from_spec(spec)
    lines = text.splitlines(keepends=True)
    linecache.cache[f"{name}.py"] = len(text), None, lines, f"{name}.py"
    sys.modules[name] = module
    loader.exec_module(module)
    return module


class _Loader(InspectLoader):
    """Loads a module from text, under a file name that is nobody's."""

    def __init__(self, text: str) -> None:
        self._text = text

    def get_source(self, fullname: str) -> str:
        return self._text

    def get_code(self, fullname: str) -> CodeType:
        return self.source_to_code(self._text, f"{fullname}.py")
