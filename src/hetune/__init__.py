"""hetune compiles every worthwhile way of running a relational GNN layer and picks per graph."""

from hetune import errors, nn
from hetune.costmodel.compiled import compile
from hetune.costmodel.explain import Explanation
from hetune.costmodel.selector import Selector
from hetune.costmodel.version import release
from hetune.variants.errors import HetuneError
from hetune.variants.graph.generate import generate
from hetune.variants.graph.hetero import HeteroGraph
from hetune.variants.graph.loaders import load
from hetune.variants.graph.vocabulary import Vocabulary
from hetune.variants.runtime.choice import Choice
from hetune.variants.runtime.compiled import CompiledLayer
from hetune.variants.runtime.fallback import FallbackWarning
from hetune.variants.runtime.scored import Candidate

__version__ = release()

__all__ = [
    "Candidate",
    "Choice",
    "CompiledLayer",
    "Explanation",
    "FallbackWarning",
    "HeteroGraph",
    "HetuneError",
    "Selector",
    "Vocabulary",
    "__version__",
    "compile",
    "errors",
    "generate",
    "load",
    "nn",
]
