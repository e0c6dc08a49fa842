"""A program with its weights, as a torch module."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor, nn
from torch.nn import Parameter

from hetune.variants.errors import InputError
from hetune.variants.frontend.nn import FlatLayer
from hetune.variants.program.nodes import Program, Space
from hetune.variants.program.text import show, show_param


class ProgramLayer(FlatLayer):
    """A layer of one's own: `hetune.layer_program` says what it computes.

    Args:
        program: With one feature, ``x``, in rows of nodes, and a result in rows of nodes.
        weights: A tensor ``[types, *row shape]`` for each weight of the program, by its name; one
            that all rows share may leave ``types`` out. Those that are no parameters become ones.

    Raises:
        InputError: The program has other features, or a weight is missing, unknown, or of another
            shape.
    """

    def __init__(self, program: Program, weights: Mapping[str, Tensor]) -> None:
        super().__init__()
        features = [param for param in program.params if param.role == "feature"]
        if [(param.name, param.type.space) for param in features] != [("x", Space.NODE)]:
            named = ", ".join(map(show_param, features)) or "none"
            raise InputError(f"the program's features are {named}: give it one, x: node[width]")
        expected = {param.name: param for param in program.params if param.role == "weight"}
        if expected.keys() != weights.keys():
            raise InputError(
                f"the weights are {', '.join(weights) or 'none'}: the program has "
                f"{', '.join(expected) or 'none'}"
            )
        self._program, self.kind = program, program.name
        self.in_channels = features[0].type.width
        self.out_channels = program.type_of(program.result).width
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

    def program(self) -> Program:
        """What the module computes."""
        return self._program

    def _parts(self) -> dict[str, Tensor]:
        return dict(self.values.items())
