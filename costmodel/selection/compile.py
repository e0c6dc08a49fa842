"""`hetune.compile`: the runtime's, with a selector that has learned."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Literal

from torch import Tensor, nn

from hetune.costmodel.selection.selector import Selector
from hetune.variants.backends.base import Backend
from hetune.variants.errors import InputError
from hetune.variants.frontend.kge.model_scores import CompiledKGEModel, ScoreCompiler
from hetune.variants.frontend.kge.models import compiled_kge_model
from hetune.variants.frontend.program_layer import ProgramLayer
from hetune.variants.graph.vocabulary import VocabularyLike
from hetune.variants.kernel.precision import Precision
from hetune.variants.program.nodes import Program
from hetune.variants.runtime.compile_layer import compile_layer
from hetune.variants.runtime.compiled import CompiledLayer
from hetune.variants.runtime.compiled_model import CompiledModel, compile_model
from hetune.variants.runtime.function_candidates import FunctionCandidates
from hetune.variants.runtime.model_layers import is_model


def compile(
    module: nn.Module | Program,
    *,
    weights: Mapping[str, Tensor] | None = None,
    backend: str | Backend | None = None,
    memory_limit: int | None = None,
    selector: Selector | None = None,
    expected_runs: float | None = None,
    explore: bool = False,
    dynamic: bool = False,
    cuda_graph: bool | None = None,
    vocabulary: VocabularyLike | None = None,
    precision: Precision | None = None,
    mode: Literal["layers", "whole"] = "layers",
) -> CompiledLayer | CompiledModel | CompiledKGEModel:
    """Compiles a layer, or those of a model: for every graph they run the variant that suits it.

    Args:
        module: A layer of `hetune.nn`, or PyG's `RGCNConv`, `FastRGCNConv`, `RGATConv` or
            `HGTConv`. Its parameters are shared, not copied: later changes are seen, but for
            those of single elements by way of ``.data``. A compiled layer is compiled anew, with
            its own options where none are given; compile its `module` to begin from the defaults.
            Or a program that `hetune.layer_program` made: the compiled layer is called with its
            features, in order or by name, and a graph.
            Or a model with such layers, which stays as it is: its layers are compiled in a copy
            that shares all else. Or a model of knowledge graphs, of ``torch_geometric.nn.kge`` or
            a ``pykeen.models.ERModel``: its scores of triples are compiled in an instance of its
            own class that shares all else.
        weights: Of a program: a tensor ``[types, *row shape]`` for each of its weights, by name.
        backend: ``"cpp"`` (compiled for this CPU), ``"triton"`` (compiled for the GPU that the
            features are on) or ``"torch"`` (the interpreter). None: ``"triton"`` if the module's
            parameters are on a GPU, else ``"cpp"``.
        memory_limit: Most bytes that a run's temporaries, scratch and result may take; restricts
            the choice. Copies of features, and what outlives it (indexes, constants of the graph,
            folded weights) are not counted; what a recording copies is. A call that would run in
            the original module is refused: its attribute `module` has no limit.
        selector: Who chooses; if None, `Selector.load` for what the backend compiles for, the CPU
            or a GPU.
        expected_runs: How often a graph will be run on, which tells what is worth preparing. None:
            learned from the calls; a graph that has been run on n times is expected to be run on
            n times more. The variant may change after the 1st, 2nd, 4th, 8th ... call, and with it
            the rounding of results; give a number to rule that out.
        explore: Whether the first calls on a graph try the variants between which the prediction
            cannot tell (3 at most, 4 calls each), and keep the fastest.
        dynamic: Whether every call brings a new graph, as with mini-batches: the variant is chosen
            once for graphs of a size, between two powers of two of nodes and of edges. If False,
            that is noticed after 8 new graphs in a row, until one comes again; not where
            `expected_runs` or `explore` is given.
        cuda_graph: Whether a GPU's kernels are recorded as a CUDA graph on the third call that runs
            the same variant on the same graph, with features and result where they lay before, and
            replayed from then on. Its memory is kept with the graph. If None, that is chosen along
            with the variant.
        vocabulary: Names of the edge types, and optionally of the node types, that the layer's
            weights are for, in their order: what `Vocabulary.of` takes, or a graph to follow. A
            `HeteroGraph` that has other names is refused then; one with the same names in another
            order is run with weights in its order. Edge tensors bring numbers, which are the
            layer's.
        precision: ``"bf16"`` lets variants store the rows that edges read as bfloat16, and products
            on a GPU round their operands to it. Sums, scores and softmaxes stay float32. Results
            are off by at most 1e-2 of the largest value, where scores are below 16 in size.
            None: ``"bf16"`` if all of the module's parameters are of bfloat16, else ``"float32"``.
        mode: ``"whole"`` also compiles a model as one program, through activations, norms and what
            else is between its layers; calls that are no program run layer by layer, and the
            model's ``report()`` says why.

    Returns:
        A module with the same call signature, whose layers also take a `HeteroGraph` in place of
        the edge tensors. What is not supported runs in the original module, with a warning that
        says why.

    Raises:
        InputError: An argument is of no use, or a model has no layers that could be compiled.
    """
    if isinstance(module, Program):
        module = ProgramLayer(module, weights or {})
    elif weights is not None:
        raise InputError("weights= is for programs: a module has its own")
    compiled = partial(
        compile_layer,
        backend=backend,
        memory_limit=memory_limit,
        estimator=selector,
        default_estimator=lambda device: Selector.load(device=device),
        expected_runs=expected_runs,
        explore=explore,
        dynamic=dynamic,
        cuda_graph=cuda_graph,
        vocabulary=vocabulary,
        precision=precision,
    )
    if mode not in ("layers", "whole"):
        raise InputError(f"mode={mode!r}: take 'layers' or 'whole'")
    compiler = ScoreCompiler(partial(compiled, dynamic=True), FunctionCandidates)
    if (kge_model := compiled_kge_model(module, compiler)) is not None:
        return kge_model
    if not is_model(module):
        return compiled(module)
    return compile_model(module, compiled, is_whole=mode == "whole")
