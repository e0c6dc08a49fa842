"""Imports go one way: along the pipeline, between the folders of a folder, and between files.

A folder may use those before it in the pipeline, never later ones. The subfolders of a folder, and
the files beside them taken together, have an order of their own: if one uses another, that one does
not use it, not by way of others either. No files import each other in a circle.

Everything that an `import` statement says counts, wherever it stands: in functions, and under
`TYPE_CHECKING`.
"""

import ast
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src"

ORDER = (
    "hetune.variants.errors",
    "hetune.variants.extras",
    "hetune.variants.exhaustion",
    "hetune.variants.fork_locks",
    # Text and bytes only (ADR 3).
    "hetune.variants.registry",
    "hetune.variants.graph",
    "hetune.variants.program",
    "hetune.variants.frontend",
    "hetune.variants.passes",
    "hetune.variants.kernel",
    "hetune.variants.plan",
    "hetune.variants.backends",
    "hetune.variants.compiler",
    "hetune.variants.runtime",
    "hetune.variants.partition",
    "hetune.variants.testing",
    "hetune.costmodel",
    "hetune.profiling",
    "hetune",
    "hetune.service.core.formats",
    "hetune.service.core.storage",
    "hetune.service.core.keys",
    "hetune.service.core.graphs",
    "hetune.service.core.models",
    "hetune.service.core.inference",
    "hetune.service.core.runs",
    "hetune.service.core.jobs",
    "hetune.service.core.cost_models",
    "hetune.service.core",
    "hetune.service.http",
    "hetune.service.http.routes",
    "hetune.service.http.oip",
    "hetune.service.pages",
    "hetune.service.server",
    "hetune.service",
    "hetune.clients",
)
# The public names: what users import, and so may the service and the clients.
PUBLIC = {
    "hetune",
    "hetune.dgl",
    "hetune.distributed",
    "hetune.errors",
    "hetune.kge",
    "hetune.layers",
    "hetune.nn",
}
# Both come after programs, and neither needs the other.
STRANGERS = {("hetune.variants.passes", "hetune.variants.frontend")}


def modules() -> dict[str, Path]:
    """All modules of the package by name."""
    found: dict[str, Path] = {}
    for folder, folders, files in os.walk(SOURCE / "hetune", followlinks=True):
        folders[:] = [name for name in folders if name != "__pycache__"]
        for file in files:
            path = Path(folder, file)
            if path.suffix == ".py":
                parts = path.relative_to(SOURCE).with_suffix("").parts
                found[".".join(parts).removesuffix(".__init__")] = path
    return found


def layer_of(module: str) -> str | None:
    """The entry of `ORDER` that the module belongs to; None if it holds no code of its own."""
    if module == "hetune.variants":
        return None
    if module in PUBLIC:
        return "hetune"
    layers = [
        layer for layer in ORDER if layer != "hetune" and f"{module}.".startswith(f"{layer}.")
    ]
    assert layers, f"{module} has no place in the pipeline: add its folder to ORDER"
    return max(layers, key=len)


def imports(tree: ast.Module, known: set[str]) -> Iterator[tuple[int, str]]:
    """Line and module of each import of the package; relative ones start with a dot."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            base = "." * node.level + (node.module or "")
            for alias in node.names:
                name = f"{base}.{alias.name}"
                yield node.lineno, name if name in known else base


def violations(module: str, source: str, known: set[str]) -> list[tuple[int, str]]:
    """Lines of a module that break the order, with the reason."""
    layer = layer_of(module)
    found = []
    for line, target in imports(ast.parse(source), known):
        if target.startswith("."):
            found.append((line, f"imports {target} relatively: name it in full"))
        elif target.split(".")[0] == "hetune" and (other := layer_of(target)) is not None:
            if layer is None or ORDER.index(other) > ORDER.index(layer):
                found.append((line, f"imports {target}, which comes later"))
            elif (layer, other) in STRANGERS:
                found.append((line, f"imports {target}, which it must not know"))
    return found


def test_every_import_points_upwards():
    found = modules()
    wrong = [
        f"{path.resolve().relative_to(ROOT)}:{line}: {reason}"
        for module, path in sorted(found.items())
        for line, reason in violations(module, path.read_text(encoding="utf-8"), set(found))
    ]
    assert not wrong, "\n" + "\n".join(wrong)


def test_every_folder_of_the_pipeline_is_seen():
    layers = {layer_of(module) for module in modules()}
    assert {layer for layer in ORDER if (SOURCE / layer.replace(".", "/")).is_dir()} <= layers


def uses() -> dict[str, set[str]]:
    """The modules of the package that each of them imports."""
    found = modules()
    return {
        module: {
            target
            for _, target in imports(ast.parse(path.read_text(encoding="utf-8")), set(found))
            if target in found and target != module
        }
        for module, path in found.items()
    }


def circles(uses: dict[str, set[str]]) -> set[frozenset[str]]:
    """The sets of those that use each other, directly or by way of others."""

    def reached(start: str) -> set[str]:
        seen, waiting = set[str](), [start]
        while waiting:
            for other in uses[waiting.pop()] - seen:
                seen.add(other)
                waiting.append(other)
        return seen

    ahead = {name: reached(name) for name in uses}
    return {
        frozenset({name, *(other for other in ahead[name] if name in ahead[other])})
        for name in uses
        if name in ahead[name]
    }


def within(folder: str, uses: dict[str, set[str]], folders: set[str]) -> dict[str, set[str]]:
    """What the subfolders of a folder use of each other; "." are the files beside them.

    The folder's ``__init__`` is none of them: it lists what is public of all.
    """

    def part(module: str) -> str | None:
        if not module.startswith(f"{folder}."):
            return None
        first = module.removeprefix(f"{folder}.").split(".")[0]
        return first if f"{folder}.{first}" in folders else "."

    found: dict[str, set[str]] = {}
    for module, targets in uses.items():
        if (own := part(module)) is not None:
            found.setdefault(own, set()).update(
                p for p in map(part, targets) if p not in (None, own)
            )
    return {own: {other for other in others if other in found} for own, others in found.items()}


def test_no_files_import_each_other_in_a_circle():
    assert circles(uses()) == set()


def test_the_parts_of_every_folder_have_an_order():
    found = uses()
    folders = {module for module, path in modules().items() if path.name == "__init__.py"}
    wrong = {
        folder: found_circles
        for folder in folders - {"hetune"}
        if (found_circles := circles(within(folder, found, folders)))
    }
    assert wrong == {}


def test_circles_are_found():
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}) == {frozenset("abc")}
    assert circles({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == set()
    used = {"p": {"p.q.r"}, "p.q": set(), "p.q.r": {"p.s"}, "p.s": {"p.t"}, "p.t": {"p.q.r"}}
    assert within("p", used, {"p", "p.q"}) == {"q": {"."}, ".": {"q"}}


KNOWN = {"hetune", "hetune.variants", "hetune.variants.errors", "hetune.variants.graph.index"}


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("hetune.variants.graph.index", "from hetune.variants.errors import GraphError"),
        ("hetune.variants.graph.index", "from hetune.variants import errors"),
        ("hetune.variants.graph.index", "from hetune.variants.graph.hetero import HeteroGraph"),
        ("hetune.variants.graph.index", "import torch"),
        ("hetune.clients.cli.app", "import hetune\nfrom hetune import nn"),
    ],
)
def test_allowed(module, source):
    assert violations(module, source, KNOWN) == []


@pytest.mark.parametrize(
    ("module", "source", "line"),
    [
        ("hetune.variants.errors", "from hetune.variants.graph import HeteroGraph", 1),
        ("hetune.variants.errors", "from hetune.variants.graph import index", 1),
        ("hetune.variants.registry.store", "\nimport hetune.variants.kernel.text", 2),
        ("hetune.variants.passes.fold", "import ast\nfrom hetune.variants.frontend import nn", 2),
        ("hetune.variants.kernel.text", "def f():\n    from hetune.variants.plan import lower", 2),
        (
            "hetune.variants.graph.index",
            "if TYPE_CHECKING:\n    from hetune.variants.runtime.domain import Domain",
            2,
        ),
        ("hetune.variants.graph.index", "from .hetero import HeteroGraph", 1),
        ("hetune.variants.runtime.domain", "from hetune import compile", 1),
        ("hetune.variants.runtime.domain", "from hetune.costmodel.features import features", 1),
        ("hetune.variants", "from hetune.variants.errors import GraphError", 1),
    ],
)
def test_refused(module, source, line):
    assert [found for found, _ in violations(module, source, KNOWN)] == [line]


def test_a_folder_without_a_place_is_an_error():
    with pytest.raises(AssertionError, match="add its folder to ORDER"):
        layer_of("hetune.variants.surprise.module")
