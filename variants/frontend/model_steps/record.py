"""A whole model's forward run on symbols, its message-passing layers traced each by itself."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from hetune.variants.frontend.adapt import adapt
from hetune.variants.frontend.adapter import Adapter
from hetune.variants.frontend.message_passing import is_message_passing
from hetune.variants.frontend.model_steps.arguments import ModelCall
from hetune.variants.frontend.model_steps.cut import LayerStart
from hetune.variants.frontend.model_steps.graph_facts import GraphConstants, loops_of
from hetune.variants.frontend.nn import RelationalLayer
from hetune.variants.frontend.tracing.alignment import is_rows, rows_of, squeezed
from hetune.variants.frontend.tracing.arguments import CallArguments, read_arguments
from hetune.variants.frontend.tracing.expressions import Expression, evaluate
from hetune.variants.frontend.tracing.interpreter import Interpreter
from hetune.variants.frontend.tracing.layer import Traced, on_symbols, trace
from hetune.variants.frontend.tracing.not_traceable import NotTraceable, reason_of
from hetune.variants.frontend.tracing.recorder import ProgramRecorder
from hetune.variants.frontend.tracing.symbols import RowValue, Symbol, TailValue, symbol
from hetune.variants.frontend.tracing.tail import key_of, rows
from hetune.variants.frontend.tracing.tape import Tape
from hetune.variants.frontend.tracing.validate import parameters_of, weights_of
from hetune.variants.frontend.wrapper import unwrapped
from hetune.variants.graph.loops import Loops
from hetune.variants.program.nodes import (
    Concat,
    Program,
    Reshape,
    Space,
    Type,
    operands,
    with_operands,
)


def is_message_layer(part: nn.Module) -> bool:
    """Whether a part of a model is a layer that passes messages."""
    inner = unwrapped(part)
    return isinstance(inner, RelationalLayer) or is_message_passing(inner)


class ModelRecorder:
    """Records a model that is called with rows of nodes and an edge_index.

    Args:
        module: The model, float32.
        exact: The same in float64.
        drawn: A call on a random graph.

    Attributes:
        recorder: All values.
        starts: Where each layer's begin.
        weights: By name, float64 ``[types, *row shape]``.
        tables: Rows of nodes that belong to the model, float64, by the name of the input.
        results: Names of the results.
        table_rows: Rows of a table that is not for so many nodes, if one was met.
    """

    def __init__(self, module: nn.Module, exact: nn.Module, drawn: ModelCall) -> None:
        self._module, self._exact, self._drawn = module, exact, drawn
        edges = drawn.edge_index.shape[1]
        self.recorder = ProgramRecorder(Tape({}, drawn.num_nodes, edges))
        self.interpreter = Interpreter(self.recorder, edges, drawn.values, drawn.edge_index.device)
        self.starts: list[LayerStart] = []
        self.weights: dict[str, Tensor] = {}
        self.tables: dict[str, Tensor] = {}
        self.results: tuple[str, ...] = ()
        self.table_rows: int | None = None
        self._parameters, self._known = parameters_of(exact), dict[str, Any]()
        self._inputs: dict[str, str] = {}

    def run(self) -> None:
        """Records all.

        Raises:
            NotTraceable: It is no sequence of programs; says why, and where.
        """
        given = {
            name: self._symbol_of(name, value) if name in self._drawn.features else value
            for name, value in self._drawn.values.items()
        }
        self.results = self._results(called(self._twin(), given))
        self.weights |= {
            name: self.evaluated(weight).reshape(1, *self.recorder.types[name].shape)
            for name, weight in self.recorder.weights.items()
        }

    def _twin(self) -> Any:
        return on_symbols(self._exact, self.interpreter, self._forward_of)

    def evaluated(self, expression: Expression) -> Tensor:
        """What an expression of the model's parameters is, float64."""
        return evaluate(expression, self._parameters, self._known)

    def _forward_of(self, path: str, part: nn.Module) -> Callable[..., Any] | None:
        return partial(self._layer, path) if is_message_layer(part) else None

    def _symbol_of(self, name: str, value: Tensor) -> Symbol:
        return self._rows_symbol(self._input(name, value.shape, Space.NODE), value.shape)

    def _input(self, name: str, shape: torch.Size, space: Space) -> str:
        """The value of an input of the model."""
        if name not in self._inputs:
            self._inputs[name] = self.recorder.feature(name, Type(space, (math.prod(shape[1:]),)))
        return self._inputs[name]

    def _rows_symbol(self, name: str, shape: tuple[int, ...]) -> Symbol:
        own = self.recorder.emit(Reshape(name, squeezed(shape[1:])), f"{name}_rows")
        cpu = torch.device("cpu")
        return symbol(RowValue(own, 0), tuple(shape), torch.float64, cpu, self.interpreter)

    def _results(self, found: Any) -> tuple[str, ...]:
        if not self.starts:
            raise NotTraceable("it has no message-passing layers")
        if self.recorder.sets or self.recorder.kinds:
            raise NotTraceable("it reads rows by edges outside of its layers")
        parts = found if isinstance(found, list | tuple) else (found,)
        names = []
        for part in parts:
            if isinstance(part, Symbol) and isinstance(part.meaning, TailValue):
                raise part.meaning.why
            if not is_rows(part) or part.meaning.axis:
                raise NotTraceable(f"it returns a {type(part).__name__}, not a row for each node")
            width = math.prod(part.shape[1:])
            names.append(self.recorder.emit(Reshape(part.meaning.name, (width,)), "result"))
        return tuple(names)

    # A layer.

    def _layer(self, path: str, *args: Any, **kwargs: Any) -> Any:
        start = len(self.recorder.lets)
        self.recorder.forget()
        plain = unwrapped(self._module.get_submodule(path))
        found = adapt(plain)
        try:
            if isinstance(found, Adapter):
                loops: Loops = "given"
                out = self._adapted(path, found, args, kwargs)
            else:
                exact = unwrapped(self._exact.get_submodule(path))
                out, loops = self._traced(path, exact, args, kwargs)
        except NotTraceable as error:
            raise NotTraceable(f"the layer {path or type(plain).__name__}: {error}") from None
        self.starts.append(LayerStart(start, type(plain).__name__, loops))
        return out

    def _adapted(
        self, path: str, adapter: Adapter, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> Any:
        """What a layer of a class that hetune knows gives."""
        x, *others = _bound(adapter.module, args, kwargs).values()
        given = [id(value) for value in self._drawn.values.values()]
        if any(isinstance(value, Tensor) and id(value) not in given for value in others):
            raise NotTraceable("its edges are not those that the model is called with")
        return self._from_adapter(path, adapter, x)

    def _from_adapter(self, path: str, adapter: Adapter, x: Any) -> Any:
        if adapter.is_reversed:
            raise NotTraceable("flow='target_to_source': turn the edges round")
        (param,) = adapter.inputs
        own = self.recorder.emit(Reshape(self._node_rows(x, path).name, param.type.shape), "rows")
        weights = {name: weight.double() for name, weight in adapter.weights().items()}
        out = self.inlined(adapter.program, {param.name: own}, weights, path)[0]
        width = adapter.result_width
        flat = self.recorder.emit(Reshape(out, (width,)), "out")
        return self._rows_symbol(flat, (self.recorder.counts[Space.NODE], width))

    def _traced(
        self, path: str, exact: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> tuple[Any, Loops]:
        """What any other layer gives, and what it does to loops."""
        given = _bound(exact, args, kwargs)
        numbers = {
            name: torch.randn(value.shape) if isinstance(value, Symbol) else _single(value)
            for name, value in given.items()
        }
        read = read_arguments(exact, (), numbers)
        doubled = {name: _double(value) for name, value in read.values.items()}
        arguments = CallArguments(doubled, read.features, read.edges)
        traced = trace(exact, arguments)
        loops = loops_of(self._drawn.edge_index, traced.src, traced.dst, arguments.num_nodes)
        for space, kinds in traced.kinds.items():
            if space is not Space.EDGE or not self._is_edge_type(kinds.index, loops):
                raise NotTraceable(f"its types of {space}s are not those of the model's edges")
        known = GraphConstants(self.recorder, traced.src, traced.dst)
        inputs: dict[str, str] = {}
        for param in traced.program.params:
            if param.role == "feature":
                name = self._feature(given[param.name], path, param.type, loops)
                inputs[param.name] = self.recorder.emit(Reshape(name, param.type.shape), "rows")
            elif param.role == "constant":
                given_rows = traced.constants[param.name]
                name = self._edge_input(given_rows, loops) or known.value_of(
                    given_rows, param.type.space
                )
                inputs[param.name] = self.recorder.emit(Reshape(name, param.type.shape), "rows")
        weights = weights_of(traced, parameters_of(exact))
        names = self.inlined(traced.program, inputs, weights, path)
        if traced.result_shape is not None:
            shape = (arguments.num_nodes, *traced.result_shape)
            return self._rows_symbol(names[0], shape), loops
        return self._side_by_side(traced, names), loops

    def _side_by_side(self, traced: Traced, names: Sequence[str]) -> Symbol:
        """A result that the program gives in parts."""
        types = traced.program.types
        nodes = self.recorder.counts[Space.NODE]
        for whole, parts in traced.joined.items():
            shape = nodes, sum(types[part].width for part in parts)
            if key_of(traced.output) == key_of(rows(RowValue(whole, 0), shape)):
                found = dict(zip(traced.program.results, names, strict=True))
                own = tuple(found[part] for part in parts)
                return self._rows_symbol(self.recorder.emit(Concat(own), "cat"), shape)
        raise NotTraceable("what it does after its last sum is no program")

    def _feature(self, value: Any, path: str, type_: Type, loops: Loops) -> str:
        if type_.space is Space.NODE:
            return self._node_rows(value, path).name
        found = self._edge_input(value, loops)
        if found is None:
            raise NotTraceable("its features of edges are none that the model is called with")
        return found

    def _edge_input(self, of_edges: Tensor, loops: Loops) -> str | None:
        """The model's input that rows of edges are, if they are one."""
        for name, value in self._drawn.values.items():
            if name in self._drawn.features or not isinstance(value, Tensor) or loops != "given":
                continue
            if value.numel() != of_edges.numel() or not value.is_floating_point():
                continue
            if torch.equal(value.float().flatten(), of_edges.float().flatten()):
                return self._input(name, value.shape, Space.EDGE)
        return None

    def _is_edge_type(self, index: Tensor, loops: Loops) -> bool:
        given = [v for v in self._drawn.values.values() if isinstance(v, Tensor) and v.dim() == 1]
        return loops == "given" and any(torch.equal(index.long(), v) for v in given)

    def _node_rows(self, x: Any, path: str) -> RowValue:
        """Rows of nodes; parameters with a row for each node become an input of their own."""
        if isinstance(x, Symbol) and isinstance(x.meaning, Expression):
            table = self.evaluated(x.meaning)
            if len(table) != self.recorder.counts[Space.NODE]:
                self.table_rows = len(table)
                raise NotTraceable(f"a parameter has {len(table)} rows, not one for each node")
            name = f"table_{len(self.tables)}"
            self.tables[name] = table.flatten(1)
            x = self._symbol_of(name, table)
        if isinstance(x, Symbol) and isinstance(x.meaning, TailValue):
            raise x.meaning.why
        found = rows_of(x)
        if found.axis:
            raise NotTraceable("rows of nodes are on another axis than the first")
        return found

    def inlined(
        self,
        program: Program,
        inputs: Mapping[str, str],
        weights: Mapping[str, Tensor],
        path: str,
    ) -> tuple[str, ...]:
        """The results of a layer's program, whose values become the model's."""
        names = dict(inputs)
        for param in program.params:
            if param.role == "weight":
                hint = f"{path}_{param.name}" if path else param.name
                names[param.name] = self.recorder.feature(hint, param.type)
                self.weights[names[param.name]] = weights[param.name]
        for let in program.lets:
            op = with_operands(let.op, tuple(names[name] for name in operands(let.op)))
            names[let.name] = self.recorder.emit(op, let.name)
        return tuple(names[name] for name in program.results)


def called(twin: Any, given: Mapping[str, Any]) -> Any:
    """What a model on symbols gives.

    Raises:
        NotTraceable: Something has no meaning in a program.
    """
    with torch.no_grad():
        try:
            return twin.forward(**given)
        except Exception as error:
            raise NotTraceable(reason_of(error)) from None


def _bound(module: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments by name, without those that are None."""
    bound = inspect.signature(type(module).forward).bind(module, *args, **kwargs).arguments
    bound.pop(next(iter(bound)))
    return {name: value for name, value in bound.items() if value is not None}


def _single(value: Any) -> Any:
    is_wide = isinstance(value, Tensor) and value.dtype is torch.float64
    return value.float() if is_wide else value


def _double(value: Any) -> Any:
    is_float = isinstance(value, Tensor) and value.is_floating_point()
    return value.double() if is_float else value
