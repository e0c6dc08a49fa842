"""hetune compiles every worthwhile way of running a relational GNN layer and picks per graph.

What is public is imported when it is asked for: `hetune --help` needs no torch.
"""

import importlib
from typing import TYPE_CHECKING, Any

from hetune.costmodel.version import release

if TYPE_CHECKING:
    from hetune import distributed, errors, kge, layers, nn
    from hetune.costmodel.selection.compile import compile
    from hetune.costmodel.selection.explanation import Explanation
    from hetune.costmodel.selection.selector import Selector
    from hetune.costmodel.selection.vertex import vertex
    from hetune.variants.errors import HetuneError
    from hetune.variants.frontend.trace import layer_program
    from hetune.variants.graph.generate import generate
    from hetune.variants.graph.hetero import HeteroGraph
    from hetune.variants.graph.loaders import load
    from hetune.variants.graph.vocabulary import Vocabulary
    from hetune.variants.partition.run import run_partitions
    from hetune.variants.runtime.choice import Choice
    from hetune.variants.runtime.compiled import CompiledLayer
    from hetune.variants.runtime.compiled_model import CompiledModel
    from hetune.variants.runtime.fallback import FallbackWarning
    from hetune.variants.runtime.scored import Candidate

__version__ = release()

__all__ = [
    "Candidate",
    "Choice",
    "CompiledLayer",
    "CompiledModel",
    "Explanation",
    "FallbackWarning",
    "HeteroGraph",
    "HetuneError",
    "Selector",
    "Vocabulary",
    "__version__",
    "compile",
    "distributed",
    "errors",
    "generate",
    "kge",
    "layer_program",
    "layers",
    "load",
    "nn",
    "run_partitions",
    "vertex",
]

_HOMES = {
    "Candidate": "variants.runtime.scored",
    "Choice": "variants.runtime.choice",
    "CompiledLayer": "variants.runtime.compiled",
    "CompiledModel": "variants.runtime.compiled_model",
    "Explanation": "costmodel.selection.explanation",
    "FallbackWarning": "variants.runtime.fallback",
    "HeteroGraph": "variants.graph.hetero",
    "HetuneError": "variants.errors",
    "Selector": "costmodel.selection.selector",
    "compile": "costmodel.selection.compile",
    "generate": "variants.graph.generate",
    "layer_program": "variants.frontend.trace",
    "load": "variants.graph.loaders",
    "run_partitions": "variants.partition.run",
    "vertex": "costmodel.selection.vertex",
    "Vocabulary": "variants.graph.vocabulary",
}


def __getattr__(name: str) -> Any:
    if name in ("distributed", "errors", "kge", "layers", "nn"):
        return importlib.import_module(f"{__name__}.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
