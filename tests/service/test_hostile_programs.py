"""Programs that somebody sent: whatever they say is refused as documented, or runs as verified."""

import json
import random
import time
import tracemalloc

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hetune.errors import HetuneError, InputError, MalformedError, TooLargeError
from hetune.service.core.formats.documents import parse
from hetune.service.core.inference.model_rows import inputs_of
from hetune.service.core.models.description import ModelDescription
from hetune.service.core.models.engine import Engine
from hetune.service.core.models.models import ModelStore
from hetune.variants.frontend.layers import hgt_program
from hetune.variants.graph.hetero import HeteroGraph
from hetune.variants.program.text import show

MOST_SECONDS, MOST_BYTES = 5, 64 << 20
HEAD = "program p(x: node[4] feature)\n"
NONE: dict[str, torch.Tensor] = {}


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    return ModelStore(tmp_path_factory.mktemp("models"), Engine("torch"), 1 << 20)


def layer(text, width=4, **options):
    return {"layer": "program", "out_channels": width, "program": text, **options}


def put(models, *layers, weights=NONE, **options):
    """Gives the store a model of programs; False where that was refused, cleanly and cheaply."""
    asked = {"in_channels": 4, "num_relations": 1, "layers": layers} | options
    tracemalloc.start()
    start = time.process_time()
    try:
        models.add("m", 1, parse(ModelDescription, json.dumps(asked)), weights)
    except HetuneError as error:
        return type(error), str(error)
    finally:
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert time.process_time() - start < MOST_SECONDS
        assert peak < MOST_BYTES
    models.remove("m", 1)
    return None


def chain(count, first="x", op="relu"):
    lets, last = [], first
    for number in range(count):
        lets.append(f"  v{number}: node[4] = {op} {last}\n")
        last = f"v{number}"
    return "".join(lets) + f"  return {last}\n"


def doubled(count, op, width=4):
    lets, last = [], "x"
    for number in range(count):
        width *= 2
        lets.append(f"  c{number}: node[{width}] = {op} {last} {last}\n")
        last = f"c{number}"
    return HEAD + "".join(lets) + f"  s: node[4] = slice {last} 0 4\n  return s\n"


def weights_product(spec, *shapes):
    params = ", ".join(f"w{i}: shared{list(shape)}" for i, shape in enumerate(shapes))
    names = " ".join(f"w{i}" for i in range(len(shapes)))
    axes = dict(zip("".join(spec.split("->")[0].split(",")), sum(shapes, ()), strict=True))
    shape = [axes[axis] for axis in spec.split("->")[1]]
    body = f'  e: shared{shape} = einsum "{spec}" {names}\n  r: node[4] = relu x\n  return r\n'
    return f"program p(x: node[4] feature, {params})\n{body}".replace("[4, ", "[4,")


LINEAR = (
    "program p(x: node[4] feature, w: shared[4,4])\n"
    + "".join(f"  v{i}: node[4] = linear {f'v{i - 1}' if i else 'x'} w\n" for i in range(100))
    + "  return v99\n"
)
TYPED = ", ".join(f"w{i}: etype[4,4]" for i in range(9))
PRODUCTS = "".join(f"  a{i}: edge[4] = linear s w{i}\n" for i in range(9))


@pytest.mark.parametrize(
    ("text", "error", "says"),
    [
        (HEAD + "  y: node[4] = relu x\n" * 2 + "  return y\n", MalformedError, "defined twice"),
        (HEAD + chain(300), TooLargeError, "values of a program"),
        (HEAD + "  # " + "a" * 20_000 + "\n" + chain(1), MalformedError, "20000"),
        (HEAD.replace("4", "9" * 5000) + chain(1), MalformedError, "extent of a row shape"),
        (HEAD.replace("4", "9" * 18) + chain(1), MalformedError, "declared as"),
        ("program p(x: node[99999999] feature)\n  return x\n", TooLargeError, "in a row"),
        (f"program p(x: node[{'1,' * 60}4] feature)\n  return x\n", TooLargeError, "axes"),
        (doubled(9, "concat"), TooLargeError, "side by side"),
        (weights_product("a,b->ab", (1 << 15,), (1 << 15,)), TooLargeError, "elements"),
        (weights_product("ab,bc,cd->ad", *[(1 << 10, 1 << 10)] * 3), TooLargeError, "elements"),
        (
            weights_product("a,b->ab", (1 << 14,), (1 << 14,)).replace(
                "  r: ", "  f: shared[16384,16384] = relu e\n  r: "
            ),
            TooLargeError,
            "weights up to f",
        ),
        (
            f"program p(x: node[4] feature, {TYPED})\n  s: edge[4] = take x edge src\n{PRODUCTS}"
            "  o: node[4] = sum a8 node\n  return o\n",
            TooLargeError,
            "weights by edge type",
        ),
        ("program p(x: etype[4] feature)\n  return x\n", MalformedError, "given per node or edge"),
        (HEAD + "  y: node[4] = import x\n  return y\n", MalformedError, "no operator"),
        ("(" * 10_000, MalformedError, "expected"),
        (HEAD + "  s: edge[4] = take x edge src\n  return s\n", None, ""),
    ],
    ids=range(16),
)
def test_what_a_program_may_be(models, text, error, says):
    found = put(models, layer(text))
    assert (found is None) == (error is None), found
    if error is not None:
        assert found[0] is error
        assert says in found[1]


@pytest.mark.parametrize(
    ("layers", "says"),
    [
        ([layer(HEAD + chain(1), inputs=["y"])], "no layer reads x"),
        ([layer(HEAD + chain(1), inputs=["0"])], "takes 0.0, which no layer before it gives"),
        ([layer(HEAD + chain(1), inputs=["x", "x"])], "has 2 inputs"),
        ([layer(HEAD + chain(1), inputs=["../x"])], "layers.0"),
        ([layer(HEAD + chain(1), 5)], "out_channels is 5"),
        ([layer(HEAD + chain(1), loops="all")], "layers.0"),
        (
            [layer(HEAD + "  s: edge[4] = take x edge src\n  return s\n", loops="added")],
            "rows of edges",
        ),
        (
            [
                layer(HEAD + "  s: edge[4] = take x edge src\n  return s\n"),
                layer(HEAD + chain(1)),
            ],
            "they are edge rows of 4",
        ),
        ([layer(HEAD + "  n: dst_pair[] = count dst_pair\n  return n\n", 1)], "rows of dst_pairs"),
        ([layer(HEAD + "  y: node[4] = relu x\n  return y, y\n")], "gives a result twice"),
        ([layer(HEAD + chain(200))] * 64, "values of a model"),
        ([layer(LINEAR)] * 3, "kernels of a model"),
    ],
    ids=range(12),
)
def test_how_programs_may_be_joined(models, layers, says):
    products = layers[0]["program"] == LINEAR
    weights = {f"{i}.values.w": torch.ones(1, 4, 4) for i in range(3)} if products else {}
    found = put(models, *layers, weights=weights)
    assert found is not None
    assert says in found[1]


def test_an_input_without_axes_is_refused(models):
    text = HEAD.replace(")", ", w: edge[] feature)") + chain(1)
    asked = {"in_channels": 4, "num_relations": 1, "layers": [layer(text, inputs=["x", "w"])]}
    models.add("scalar", 1, parse(ModelDescription, json.dumps(asked)), {})
    graph = HeteroGraph(torch.tensor([0]), torch.tensor([0]), num_nodes=1)
    with pytest.raises(InputError, match=r"has the shape \[\]: give \[1, 1\]"):
        inputs_of(models.get("scalar"), graph, torch.ones(1, 4), {"w": torch.tensor(1.0)})


@settings(max_examples=60, deadline=None, suppress_health_check=[*HealthCheck])
@given(seed=st.integers(0, 2**32))
def test_mutated_programs_are_refused_or_are_programs(models, seed):
    draw = random.Random(seed)
    text = show(hgt_program(4, 4, 2)) if draw.random() < 0.5 else doubled(3, "concat")
    words = text.split(" ")
    for _ in range(draw.randint(1, 4)):
        at = draw.randrange(len(words))
        other = draw.choice(
            [*words, "node[4]", "edge[4]", "etype", "-1", "[", "]", "\n", "1e999", "²"]
        )
        words[at] = draw.choice([other, words[at] + other, ""])
    found = put(models, layer(" ".join(words)))
    assert found is None or found[0] in (MalformedError, InputError, TooLargeError), found
