from __future__ import annotations

import pytest
import torch

from hetune.variants.errors import ProgramError
from hetune.variants.frontend.functions import (
    dot,
    elu,
    exp,
    leaky_relu,
    maximum,
    minimum,
    outer,
    relu,
    sigmoid,
    silu,
    softmax,
    tanh,
)
from hetune.variants.frontend.trace import edge, etype, layer_program, node, ntype, shared
from hetune.variants.program.nodes import End
from hetune.variants.program.text import parse, show, show_type


@layer_program
def attention(g, x, w, att_src, att_dst, *, slope=0.2):
    hs = g.src(x) @ w
    hd = g.dst(x) @ w
    score = leaky_relu(dot(hs, att_src) + dot(hd, att_dst), slope)
    return g.sum(softmax(score, over=g.nodes) * hs)


def test_a_layer_is_traced_line_by_line():
    program = attention(x=node(8), w=etype(8, 4), att_src=shared(4), att_dst=shared(4), slope=0.1)
    assert (
        show(program)
        == """\
program attention(x: node[8] feature, w: etype[8,4], att_src: shared[4], att_dst: shared[4])
  x_src: edge[8] = take x edge src
  by_w: edge[4] = linear x_src w
  x_dst: edge[8] = take x edge dst
  by_w2: edge[4] = linear x_dst w
  dot: edge[] = dot by_w att_src
  dot2: edge[] = dot by_w2 att_dst
  add: edge[] = add dot dot2
  leaky_relu: edge[] = leaky_relu add 0.1
  softmax: edge[] = softmax leaky_relu node
  mul: edge[4] = mul softmax by_w
  sum: node[4] = sum mul node
  return sum
"""
    )


def traced(body, **types):
    """The operators that ``body(g, x, w)`` emits, as text."""

    @layer_program
    def layer(g, x, w):
        return body(g, x, w)

    types = {"x": edge(2), "w": shared(2)} | types
    lines = show(layer(**types)).splitlines()
    return [line.split(" = ")[1] for line in lines if " = " in line]


@pytest.mark.parametrize(
    ("body", "ops"),
    [
        (lambda g, x, w: 2 * x, ["scale x 2.0"]),
        (lambda g, x, w: x / 4, ["scale x 0.25"]),
        (lambda g, x, w: -x, ["scale x -1.0"]),
        (lambda g, x, w: 1 - x, ["one_minus x"]),
        (lambda g, x, w: 1 / x, ["reciprocal x"]),
        (lambda g, x, w: 3 / x, ["reciprocal x", "scale reciprocal 3.0"]),
        (lambda g, x, w: 3 - x, ["scale x -1.0", "shift scale 3.0"]),
        (lambda g, x, w: 1 + x - 2, ["shift x 1.0", "shift shift -2.0"]),
        (lambda g, x, w: x**2 + x**0.5, ["square x", "pow_c x 0.5", "add square pow_c"]),
        (lambda g, x, w: abs(x) ** w, ["abs x", "pow abs w"]),
        (lambda g, x, w: maximum(minimum(x, w), 0), ["minimum x w", "clamp_min minimum 0.0"]),
        (lambda g, x, w: elu(silu(x)), ["silu x", "elu silu 1.0"]),
        (lambda g, x, w: outer(x, w).fold(-1, "max"), ["outer x w", "fold outer 1 max"]),
        (lambda g, x, w: x.concat(w, x).slice(1, 3), ["concat x w x", "slice concat 1 3"]),
        (lambda g, x, w: x - w, ["sub x w"]),
        (lambda g, x, w: x / w, ["div x w"]),
        (lambda g, x, w: relu(exp(x)), ["exp x", "relu exp"]),
        (lambda g, x, w: tanh(sigmoid(x)), ["sigmoid x", "tanh sigmoid"]),
        (lambda g, x, w: x.reshape(2, 1), ["reshape x [2,1]"]),
        (lambda g, x, w: g.count(), ["count node"]),
        (lambda g, x, w: g.sum(x, over=g.dst_pairs), ["sum x dst_pair"]),
        (
            lambda g, x, w: g.mean(x),
            [
                "count dst_pair",
                "reciprocal count",
                "take reciprocal edge",
                "mul share x",
                "sum mul node",
            ],
        ),
    ],
)
def test_operators(body, ops):
    assert traced(body) == ops


def test_values_per_node_type_are_taken_to_edge_types():
    ops = traced(lambda g, x, w: x * g.src(w), w=ntype(2))
    assert ops == ["take w etype src", "mul x w_src"]


def test_reductions_go_to_every_coarser_space_by_either_end():
    ops = traced(
        lambda g, x, w: (
            g.reduce(x)
            + g.reduce(x, fn="max", end=End.SRC)
            + g.reduce(g.reduce(x, g.src_pairs, "prod"), g.nodes, "min")
        )
    )
    assert ops[:2] == ["sum x node", "max x node src"]
    assert ops[3:5] == ["prod x src_pair", "min prod node src"]
    assert traced(lambda g, x, w: g.reduce(g.reduce(x, g.etypes), g.ntypes, end=End.DST)) == [
        "sum x etype",
        "sum sum ntype dst",
    ]


def test_several_results():
    @layer_program
    def layer(g, x):
        score = softmax(dot(g.src(x), g.dst(x)), over=g.nodes)
        return g.sum(score * g.src(x)), score

    program = layer(x=node(3))
    assert [show_type(program.type_of(name)) for name in program.results] == ["node[3]", "edge[]"]
    assert parse(show(program)) == program


def test_parameters_may_be_left_out():
    @layer_program
    def layer(g, x, bias):
        return x if bias is None else x + bias

    assert [param.name for param in layer(x=node(3), bias=None).params] == ["x"]
    assert show(layer(x=node(3), bias=shared(3))).count("add x bias") == 1


OTHER = []


@layer_program
def _leak(g, y):
    OTHER.append(y)
    return y


_leak(node(2))


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            lambda g, x, w: x + "1",
            "no + of x: edge[2] and the str '1': make it a parameter of the layer",
        ),
        (
            lambda g, x, w: x * torch.ones(2),
            "no * of x: edge[2] and the Tensor tensor([1., 1.]): make",
        ),
        (
            lambda g, x, w: x + OTHER[0],
            "y: node[2] belongs to another program than x: edge[2]: pass",
        ),
        (
            lambda g, x, w: g.sum(OTHER[0]),
            "y: node[2] is no value of this program: pass it in as a",
        ),
        (
            lambda g, x, w: x if x else w,
            "x: edge[2] has no truth value while it is traced: branch on",
        ),
        (lambda g, x, w: sum(x), "x: edge[2] cannot be iterated over: use operators on whole rows"),
        (lambda g, x, w: exp(3), "exp of 3: give it a value of the program"),
        (lambda g, x, w: dot(3, x), "dot of 3: give it values of the program"),
        (lambda g, x, w: softmax(3, g.nodes), "softmax of 3: give it a value of the program"),
        (lambda g, x, w: softmax(x, "edge"), "softmax x edge: no softmax over edge: take node or"),
        (lambda g, x, w: x @ w, "linear x w: row shapes [2] and [3] do not multiply: give [K] and"),
        (lambda g, x, w: None, "layer layer returned None: return a value of the program, or a"),
    ],
)
def test_misuse(body, message):
    with pytest.raises(ProgramError) as error:
        traced(body, w=shared(3))
    assert str(error.value).startswith(message)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"x": node(3)}, "layer attention: missing a required argument: 'w'"),
        (
            {"x": 3, "w": etype(3), "att_src": None, "att_dst": None},
            "layer attention: parameter 'x' is 3: give a type, such as node(64) or etype(64, 64)",
        ),
    ],
)
def test_wrong_types(arguments, message):
    with pytest.raises(ProgramError) as error:
        attention(**arguments)
    assert str(error.value).startswith(message)
