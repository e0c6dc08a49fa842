"""Models whose layers may store tables as bfloat16."""

import torch

import hetune
from hetune import nn
from hetune.service.core.models.description import ModelDescription
from hetune.service.core.models.stack import describe

LAYERS = (nn.RGCN(4, 32, 2), nn.RGCN(32, 6, 2))


def test_it_is_part_of_a_model_and_of_what_is_chosen_from(service, graph, x):
    description, weights = describe(LAYERS, precision="bf16")
    service.models.add("half", 1, description, weights)
    service.models.add("whole", 1, *describe(LAYERS))
    model = service.models.get("half")
    assert model.description.precision == "bf16"
    first, second = ([name for name in c.variants if "+bf16/" in name] for c in model.compiled)
    assert first
    assert second
    assert not any("+bf16/" in n for c in service.models.get("whole").compiled for n in c.variants)
    run = service.inference.run
    narrow = run("half", graph, x, variants=[first[0], second[0]]).out
    exact = run("whole", graph, x).out
    error = (narrow - exact).abs().max() / exact.abs().max()
    assert 0 < error < 1e-2
    assert torch.allclose(run("half", graph, x).out, exact, atol=1e-2 * float(exact.abs().max()))


def test_narrow_layers_are_sampled_beside_each_other(service, graph):
    service.models.add("half", 1, *describe(LAYERS, precision="bf16"))
    service.regret.rate = 1.0
    chosen = ("src+bf16/b256", "dst+bf16/b256")
    service.regret.offer(service.models.get("half"), graph, chosen)
    assert service.regret.take().variants[0] in chosen


def test_compiled_layers_bring_theirs_and_others_have_none():
    compiled = hetune.compile(nn.RGCN(4, 4, 2), precision="bf16")
    assert describe([compiled])[0].precision == "bf16"
    assert describe([compiled], precision="float32")[0].precision == "float32"
    for both in (
        [compiled, hetune.compile(LAYERS[0])],
        [hetune.compile(nn.RGCN(4, 4, 2)), compiled],
    ):
        assert describe(both)[0].precision == "float32"
    text = describe([nn.RGCN(4, 4, 2)])[0].model_dump_json()
    assert "precision" not in text  # as earlier versions keep it
    assert ModelDescription.model_validate_json(text).precision == "float32"
