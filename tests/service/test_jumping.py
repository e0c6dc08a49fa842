"""Jumping connections: what all layers give out, side by side or the largest of each column."""

import pytest
import torch

from hetune import nn
from hetune.service.core.models.stack import describe
from hetune.variants.errors import InputError

LAYERS = (nn.RGCN(4, 6, 2), torch.nn.ReLU(), nn.RGAT(6, 6, 2))


def joined(jumping, layers):
    return torch.cat(layers, 1) if jumping == "cat" else torch.maximum(*layers)


@pytest.fixture(params=["cat", "max"])
def jumping(request, service):
    service.models.add("j", 1, *describe(LAYERS, request.param))
    return request.param


def test_the_model_gives_out_what_its_layers_do(jumping, service, graph, x):
    run = service.inference.run
    plain = run("j", graph, x, outputs=[0, 1]).outputs
    found = run("j", graph, x)
    assert found.outputs.keys() == {2}
    assert torch.equal(found.out, joined(jumping, [plain[0], plain[1]]))
    assert run("j", graph, x, outputs=[1, 2]).outputs.keys() == {1, 2}


def test_by_node_type_and_of_some_nodes(jumping, service, graph, x):
    whole = service.inference.run("j", graph, x).out
    by_type = {"author": x[:3], "paper": x[3:]}
    found = service.inference.run("j", graph, by_type).out
    assert torch.equal(torch.cat([found["author"], found["paper"]]), whole)
    for subset in ("full", "reach"):
        some = service.inference.run("j", graph, x, nodes=torch.tensor([5, 0]), subset=subset)
        assert torch.allclose(some.out, whole[[5, 0]], atol=1e-5)


def test_the_protocol_tells_the_width(jumping, service, http):
    (output, *_) = http.get("/v2/models/j").json()["outputs"]
    assert output["shape"][-1] == {"cat": 12, "max": 6}[jumping]


def test_there_is_no_output_after_the_last(jumping, service, graph, x):
    with pytest.raises(InputError, match="from 0 to 2"):
        service.inference.run("j", graph, x, outputs=[3])


def test_columns_of_different_widths_have_no_largest():
    with pytest.raises(InputError, match="make them of one width, or take 'cat'"):
        describe([nn.RGCN(4, 6, 2), nn.RGCN(6, 2, 2)], "max")
