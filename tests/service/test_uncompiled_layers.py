"""Numbers that outgrow float32 in a variant: the service answers with the module's result."""

from types import SimpleNamespace

import pytest
import torch

import hetune
from hetune import nn
from hetune.service.core.inference import deadline
from hetune.service.core.models.engine import Engine
from hetune.service.core.models.stack import describe
from hetune.variants.backends.torch.backend import TorchBackend
from hetune.variants.errors import DeadlineError, InputError
from hetune.variants.program.interpreter_memory import interpreter_bytes
from hetune.variants.runtime.float32_range import OUTGROWN

from ._device import RecordedDevice
from ._serving import make_service
from .test_metrics import value

WIDTH, SOURCES = 4, 100
HUGE = torch.full((SOURCES + 1, WIDTH), 1e38)


class UnheededBackend(TorchBackend):
    """As a GPU's: its kernels do not tell of overflow."""

    def bind(self, launch, schedule, place):
        run = super().bind(launch, schedule, place)
        return lambda buffers: run(buffers) is None


def star(names=("writes", "reads")):
    """Edges of one type from all others to node 0: a variant sums before it divides."""
    ids, kind = torch.arange(1, SOURCES + 1), names.index("writes")
    return hetune.HeteroGraph(
        ids,
        torch.zeros_like(ids),
        torch.full_like(ids, kind),
        num_nodes=SOURCES + 1,
        etype_names=list(names),
    )


def means():
    """A layer of means of the first relation alone."""
    module = nn.RGCN(WIDTH, WIDTH, 2, self_loop=False, bias=False)
    weight = torch.stack([torch.eye(WIDTH), torch.zeros(WIDTH, WIDTH)])
    module.load_state_dict({"weight": weight})
    return module.requires_grad_(False)


@pytest.fixture(params=["cpp", "torch", "device"])
def service(request, tmp_path):
    unheeded = {"engine": Engine(UnheededBackend(), RecordedDevice(64 << 20))}
    options = unheeded if request.param == "device" else {"backend": request.param}
    service = make_service(tmp_path / "data", **options)
    named = hetune.Vocabulary(relations=("writes", "reads"))
    service.models.add("means", 1, *describe([means(), torch.nn.ReLU(), means()], vocabulary=named))
    return service


def summing(service, graph):
    """Ids of variants that sum before they divide."""
    layers = service.selection.select("means", graph, explain=True).layers
    ids = [each.variant for each in layers[0].explanation.candidates]
    return [next(id for id in ids if id.startswith("dst/"))] * len(layers)


@pytest.fixture
def chosen(service, monkeypatch):
    """A service whose selector chooses these variants."""
    ask, wanted = service.selection.layers, summing(service, star())

    def layers(*args, variants=None, **options):
        return ask(*args, variants=variants or wanted, **options)

    monkeypatch.setattr(service.selection, "layers", layers)
    return service


def run(service, graph=None, x=HUGE, **options):
    return service.inference.run("means", graph or star(), x, **options)


def test_the_module_s_result_is_given_and_the_report_says_so(chosen):
    id = chosen.graphs.add(star())
    answer = run(chosen, id)
    assert torch.equal(answer.out, means()(means()(HUGE, star()).relu(), star()))
    first, second = answer.report.layers
    assert first.uncompiled == OUTGROWN
    assert second.uncompiled is None  # nothing leads to what the first gives
    assert value(chosen, "hetune_variant_chosen_total", layer="rgcn", variant="module") == 1
    assert first.measured_seconds > 0
    use = chosen.models.get("means", 1).compiled[0].use_of(chosen.graphs.get(id))
    assert first.variant not in use.times  # which are the variant's
    ordinary = run(chosen, id, HUGE / 1e30)
    assert all(layer.uncompiled is None for layer in ordinary.report.layers)


def test_types_are_found_by_name(chosen):
    answer = run(chosen, star(("reads", "writes")), outputs=[0])
    assert answer.report.layers[0].uncompiled == OUTGROWN
    assert torch.equal(answer.out, means()(HUGE, star()))


def test_rows_of_some_nodes(chosen):
    answer = run(chosen, nodes=torch.tensor([0]), subset="reach", outputs=[0])
    assert answer.report.layers[0].uncompiled == OUTGROWN
    torch.testing.assert_close(answer.out, HUGE[:1])


def test_infinite_features_stay_the_variant_s(chosen):
    answer = run(chosen, x=torch.full_like(HUGE, torch.inf), outputs=[0])
    assert not answer.out.isfinite().all()
    assert all(layer.uncompiled is None for layer in answer.report.layers)


def test_who_asks_for_a_variant_gets_it_or_an_error(service):
    graph = star()
    first, _ = summing(service, graph)
    with pytest.raises(InputError, match=f"the result of {first} may be wrong"):
        run(service, graph, variants=[first, None])


def test_the_module_keeps_to_the_memory_limit(chosen):
    needed = interpreter_bytes(means().program(), star())
    with pytest.raises(InputError, match="scale features or weights down"):
        run(chosen, memory_limit=needed - 1)
    assert run(chosen, memory_limit=needed).report.layers[0].uncompiled == OUTGROWN


def test_the_module_is_not_begun_after_the_deadline(chosen, monkeypatch):
    times = iter([1, 2, 3])  # before anything, before the first layer, before its module
    monkeypatch.setattr(deadline, "time", SimpleNamespace(monotonic=lambda: next(times)))
    with pytest.raises(DeadlineError):
        run(chosen, deadline=3)
