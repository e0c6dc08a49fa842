"""What the commands run: a graph, a layer on it, and features."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import torch
import typer
from torch import Tensor

import hetune
from hetune.clients.cli.files import read_arrays
from hetune.clients.cli.options import Heads, Layer, Seed, Width, read_options
from hetune.variants.errors import GraphFileError, InputError
from hetune.variants.frontend.nn import RelationalLayer
from hetune.variants.frontend.presets import LAYERS, preset_layer, preset_program
from hetune.variants.graph.generate_specs import SPECS
from hetune.variants.program.labeled import needs_canonical_edges


@dataclass(frozen=True, slots=True)
class GraphSource:
    """Where a graph comes from, and what is added to it: options of commands, beside its name.

    Attributes:
        name: A file or folder, or the name of a graph to generate.
    """

    name: str = ""
    format: Annotated[
        str | None, typer.Option(help="Read the file as if it had this ending, such as .txt.")
    ] = None
    scale: Annotated[
        float, typer.Option(help="Factor on nodes and edges of a generated graph.")
    ] = 1.0
    inverse: Annotated[
        bool, typer.Option("--inverse/--no-inverse", help="Add the inverse of every edge.")
    ] = False
    self_loops: Annotated[
        bool,
        typer.Option("--self-loops/--no-self-loops", help="Add an edge from each node to itself."),
    ] = False
    seed: Seed = 0
    read: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE",
            help="How to read the file; may be given several times: columns=src,etype,dst or "
            "columns=src:from,dst:to, header=true, delimiter=;, relabel=true and what else "
            "hetune.load takes.",
        ),
    ] = None

    def check(self) -> None:
        """Before the work rather than in its midst.

        Raises:
            GraphFileError: There is none of that name.
            InputError: An option is given that says nothing of it.
        """
        if Path(self.name).exists():
            if self.scale != 1:
                raise InputError(
                    f"{self.name} is read, not generated: leave --scale {self.scale:g} out"
                )
        elif self.name not in SPECS:
            raise GraphFileError(
                f"{self.name}: no such file or folder, and no graph of that name can be generated: "
                f"give a path, or one of {', '.join(sorted(SPECS))}"
            )
        elif self.format is not None or self.read:
            raise InputError(f"{self.name} is generated, not read: leave --format and --read out")

    def open(self) -> hetune.HeteroGraph:
        """The graph.

        Raises:
            InputError: As `check`, or there is no such option of `read`.
            GraphError: As `check`, or it cannot be read or drawn.
        """
        self.check()
        path = Path(self.name)
        if path.exists():
            graph = hetune.load(path, format=self.format, **read_options(self.read))
        else:
            graph = hetune.generate(self.name, self.scale, self.seed)
        if self.inverse:
            graph = graph.add_inverse()
        return graph.add_self_loops() if self.self_loops else graph


@dataclass(frozen=True, slots=True)
class LayerSource:
    """Which layer: options of commands, beside its weights.

    Attributes:
        weights: A file with the module's state dict; by default `seed` draws them.
    """

    kind: Layer
    width: Width = 64
    heads: Heads = 1
    seed: Seed = 0
    weights: Path | None = None

    def graph_for(self, graph: hetune.HeteroGraph) -> hetune.HeteroGraph:
        """The graph as the layer needs it, which may want edge types by pairs of node types."""
        program = preset_program(self.kind, self.width, self.width, self.heads)
        return graph.canonicalize() if needs_canonical_edges(program) else graph

    def module(self, graph: hetune.HeteroGraph) -> RelationalLayer:
        """The layer, with weights.

        Raises:
            InputError: The widths do not fit, or the weights.
        """
        if self.heads != 1 and not LAYERS[self.kind].has_heads:
            raise InputError(f"{self.kind} has no heads, but --heads is {self.heads}: leave it out")
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.seed)
            layer = preset_layer(self.kind, self.width, self.width, graph, self.heads)
        if self.weights is not None:
            _fill(layer, self.weights)
        return layer.eval()

    def describe(self) -> str:
        """The layer's name with its width and heads, for messages."""
        if not LAYERS[self.kind].has_heads:
            return f"{self.kind}, width {self.width}"
        return f"{self.kind}, width {self.width}, {self.heads} head{'s' * (self.heads != 1)}"


def features(graph: hetune.HeteroGraph, width: int, seed: int, path: Path | None = None) -> Tensor:
    """Rows of all nodes in the graph's order, float32 [N, width]: drawn, or from a file.

    The file is a `.safetensors`, `.npz` or `.npy` with one array [N, width], or with one for each
    node type under its name.

    Raises:
        InputError: The file cannot be read, or its arrays do not fit the graph.
    """
    if path is None:
        return torch.randn(graph.num_nodes, width, generator=torch.Generator().manual_seed(seed))
    arrays = read_arrays(path)
    if len(arrays) == 1:
        (x,) = arrays.values()
    elif set(arrays) == set(graph.ntype_names):
        x = _joined(arrays, graph, path)
    else:
        raise InputError(
            f"{path} has the arrays {', '.join(sorted(arrays))}: give a single one, or one for "
            f"each of the node types {', '.join(graph.ntype_names)}"
        )
    if x.shape != (graph.num_nodes, width):
        raise InputError(
            f"{path} holds features of shape {list(x.shape)}: the graph and --width need "
            f"{[graph.num_nodes, width]}"
        )
    x = x.float().contiguous()
    if not x.isfinite().all():
        row, column = (~x.isfinite()).nonzero()[0].tolist()
        raise InputError(
            f"{path} holds {x[row, column]} in row {row}, column {column}: give features that are "
            "finite in float32"
        )
    return x


def _joined(arrays: dict[str, Tensor], graph: hetune.HeteroGraph, path: Path) -> Tensor:
    widths = {rows.shape[1:] for rows in arrays.values()}
    if len(widths) > 1:
        raise InputError(f"{path}: rows of the node types differ in width: make them alike")
    x = torch.zeros((graph.num_nodes, *widths.pop()))
    for number, name in enumerate(graph.ntype_names):
        mine = graph.ntype == number
        if arrays[name].shape[0] != int(mine.sum()):
            raise InputError(
                f"{path} has {arrays[name].shape[0]} rows for the node type {name!r} but the graph "
                f"has {int(mine.sum())} such nodes: give one row per node"
            )
        x[mine] = arrays[name].float()
    return x


def _fill(layer: RelationalLayer, path: Path) -> None:
    try:
        layer.load_state_dict(read_arrays(path))
    except RuntimeError as error:
        reasons = " ".join(line.strip() for line in str(error).splitlines()[1:])
        raise InputError(f"{path} does not fit the layer: {reasons or error}") from error
