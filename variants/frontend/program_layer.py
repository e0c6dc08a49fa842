"""A program with its weights, as a torch module."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn
from torch.nn import Parameter

from hetune.variants.errors import InputError
from hetune.variants.frontend.adapter import Adapter, Unsupported
from hetune.variants.frontend.nn import RelationalLayer
from hetune.variants.frontend.program_call import CALL_OPTIONS, read_program_call
from hetune.variants.program.nodes import Program, Space
from hetune.variants.program.text import show, show_param


class ProgramLayer(RelationalLayer):
    """A layer of one's own: `hetune.layer_program` says what it computes.

    Args:
        program: What to compute.
        weights: A tensor ``[types, *row shape]`` for each weight of the program, by its name; one
            that all rows share may leave ``types`` out. Those that are no parameters become ones.

    Raises:
        InputError: A weight is missing, unknown, or of another shape, or an input has the name of
            an option of calls.
    """

    def __init__(self, program: Program, weights: Mapping[str, Tensor]) -> None:
        super().__init__()
        inputs = [param for param in program.params if param.role != "weight"]
        if taken := [param.name for param in inputs if param.name in CALL_OPTIONS]:
            raise InputError(f"an option of calls is named {taken[0]}: give the input another name")
        expected = {param.name: param for param in program.params if param.role == "weight"}
        if expected.keys() != weights.keys():
            raise InputError(
                f"the weights are {', '.join(weights) or 'none'}: the program has "
                f"{', '.join(expected) or 'none'}"
            )
        self._program, self.kind = program, program.name
        self.in_channels = inputs[0].type.width if inputs else 0
        self.out_channels = program.type_of(program.results[0]).width
        self.options = {"program": show(program)}
        self.values = nn.ParameterDict()
        self.num_relations = 1
        for name, param in expected.items():
            given, shape = weights[name], param.type.shape
            if param.type.space is Space.SHARED and given.shape == shape:
                given = given[None]
            if given.shape[1:] != shape:
                raise InputError(
                    f"the weight {name} has the shape {list(given.shape)}: give "
                    f"{['types', *shape]} for {show_param(param)}"
                )
            self.values[name] = given if isinstance(given, Parameter) else Parameter(given)
            if param.type.space is Space.ETYPE:
                self.num_relations = given.shape[0]

    def adapter(self) -> Adapter:
        """What `hetune.compile` needs to know of the module."""
        adapter = super().adapter()
        adapter.read = lambda args, kwargs: read_program_call(adapter, args, kwargs)
        return adapter

    def forward(self, *args: Any, **kwargs: Any) -> Tensor | tuple[Tensor, ...]:
        """Runs the layer.

        Args:
            *args: A float tensor [rows, *row shape] for each feature and constant, in the
                program's order, and the edges among them: a `HeteroGraph`, or an ``edge_index``
                [2, E] and, of several edge types, an ``edge_type`` [E].
            **kwargs: The same by name; a graph is called ``edges``.

        Returns:
            Float [rows, width], or a tuple of several results; edges in the caller's order.

        Raises:
            InputError: Something is missing, or does not fit.
            GraphError: The edges are no graph.
        """
        adapter = self.adapter()
        call = read_program_call(adapter, args, kwargs)
        if isinstance(call, Unsupported):
            raise InputError(call.reason)
        found: Tensor | tuple[Tensor, ...] = self._run(adapter, call)
        return found

    def program(self) -> Program:
        """What the module computes."""
        return self._program

    def _parts(self) -> dict[str, Tensor]:
        return dict(self.values.items())
