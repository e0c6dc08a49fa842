"""What is kept with a graph has a type and one owner: a `GraphSlot`, never a string."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from hetune.variants.graph.hetero import HeteroGraph

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("variants", "costmodel", "profiling", "service", "clients", "src/hetune")


def accesses(tree: ast.Module) -> Iterator[ast.Call]:
    """Calls of the methods of a graph's state."""
    for node in ast.walk(tree):
        match node:
            case ast.Call(
                func=ast.Attribute(attr="of" | "known", value=ast.Attribute(attr="state"))
            ):
                yield node


def slots(tree: ast.Module) -> set[str]:
    """Names of the slots that a module declares: constants at its top."""
    return {
        target.id
        for node in tree.body
        if isinstance(node, ast.Assign) and _is_slot(node.value)
        for target in node.targets
        if isinstance(target, ast.Name)
    }


def _is_slot(value: ast.expr) -> bool:
    match value:
        case ast.Call(func=ast.Subscript(value=ast.Name(id="GraphSlot"))):
            return True
    return False


def wrong(source: str) -> list[int]:
    """Lines that keep something with a graph, but not under a slot that is declared with a type."""
    tree = ast.parse(source)
    declared = slots(tree)
    imported = {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if alias.name.isupper()
    }
    found = [
        call.lineno
        for call in accesses(tree)
        if not (isinstance(call.args[0], ast.Name) and call.args[0].id in declared | imported)
        or (isinstance(call.args[1], ast.Constant) and isinstance(call.args[1].value, str))
    ]
    made = [node for node in ast.walk(tree) if isinstance(node, ast.expr) and _is_slot(node)]
    top = {id(node.value) for node in tree.body if isinstance(node, ast.Assign)}
    return found + [node.lineno for node in made if id(node) not in top]


def test_everything_kept_with_a_graph_is_in_a_typed_slot():
    uses = 0
    for folder in FOLDERS:
        for path in (ROOT / folder).rglob("*.py"):
            source = path.read_text(encoding="utf-8")
            assert not wrong(source), f"{path.relative_to(ROOT)}: lines {wrong(source)}"
            uses += sum(1 for _ in accesses(ast.parse(source)))
    assert uses > 10


def test_a_graph_has_no_other_drawer():
    graph = HeteroGraph(torch.tensor([0]), torch.tensor([1]))
    kept = [name for name, value in vars(graph).items() if isinstance(value, dict)]
    assert not kept
    with pytest.raises(AttributeError):
        graph.cached  # type: ignore[attr-defined]  # noqa: B018


@pytest.mark.parametrize(
    "source",
    [
        'graph.state.of("replays", None, dict)',
        "_S = GraphSlot[str, int]()\ngraph.state.of(_S, 'replays', int)",
        "def f(graph):\n    graph.state.of(GraphSlot[None, int](), None, int)",
        "_S = GraphSlot()\ngraph.state.of(_S, None, int)",
        "self.graph.state.known(_S, None)",
    ],
)
def test_strings_and_slots_without_types_are_found(source):
    assert wrong(source)


def test_a_typed_constant_is_right():
    assert not wrong("_S = GraphSlot[None, int]()\ngraph.state.of(_S, None, int)")
