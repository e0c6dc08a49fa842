"""All candidates, by layer and by name."""

from collections.abc import Sequence
from fnmatch import fnmatchcase
from importlib.util import find_spec

from _peers import dgl, hetune, pyg, torch_expert
from _peers.problem import Candidate, Layer


def candidates(
    layer: Layer, *, compiled: bool = False, only: Sequence[str] = ()
) -> list[Candidate]:
    """Candidates of `layer` in the order in which tables show them.

    Args:
        layer: Which layer.
        compiled: Also those under torch.compile.
        only: Families or name patterns ("pyg", "expert/*"); if empty, all that do not want to be
            asked for by name.
    """
    modules = (hetune, torch_expert, dgl, pyg)
    found = [candidate for module in modules for candidate in module.candidates(layer)]
    return matching(found, compiled=compiled, only=only)


def matching(found: Sequence[Candidate], *, compiled: bool, only: Sequence[str]) -> list[Candidate]:
    """Those of some candidates that are asked for, as of `candidates`."""
    return [
        candidate
        for candidate in found
        if (compiled or not candidate.compiled)
        and (not only or any(_matches(candidate, pattern) for pattern in only))
        and (not candidate.by_name or candidate.name in only)
    ]


def missing(candidate: Candidate) -> str | None:
    """Which package the candidate lacks here; None if it can run."""
    packages = {"dgl": "dgl", "pyg": "torch_geometric", "pykeen": "pykeen"}
    package = packages.get(candidate.family)
    if package is not None and find_spec(package) is None:
        return f"{package} is not installed"
    return None


def _matches(candidate: Candidate, pattern: str) -> bool:
    return candidate.family == pattern or fnmatchcase(candidate.name, pattern)
