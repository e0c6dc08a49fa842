"""Short runs have one thread: what is chosen, told, used, and compared is for that number."""

import pytest
import torch

from hetune.service.core.inference import selection
from hetune.variants.backends.torch.backend import TorchBackend
from hetune.variants.graph.threads import kernel_threads, used_threads, using_threads
from hetune.variants.runtime import bound_run, layer_runner
from hetune.variants.runtime.compiled import CompiledLayer
from hetune.variants.runtime.thread_watch import RUNS

from ._serving import tiny_features, tiny_graph

X = tiny_features()


@pytest.fixture
def two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def used(monkeypatch):
    """The numbers of threads that layers run with."""
    found = []
    forward = CompiledLayer.forward

    def noted(self, *args, **kwargs):
        found.append(kernel_threads())
        return forward(self, *args, **kwargs)

    monkeypatch.setattr(CompiledLayer, "forward", noted)
    return found


@pytest.mark.usefixtures("two_threads")
@pytest.mark.parametrize(("seconds", "threads"), [(1.0, 1), (0.0, 2)])
def test_what_one_thread_should_do_at_once_it_does_alone(
    service, used, seconds, threads, monkeypatch
):
    monkeypatch.setattr(selection, "ALONE_SECONDS", seconds)
    report = service.inference.run("m", service.graphs.add(tiny_graph()), X).report
    assert [layer.threads for layer in report.layers] == used == [threads] * 2
    words = "1 thread," if threads == 1 else "2 threads,"
    assert all(words in layer.reason for layer in report.layers)
    with using_threads(threads):
        choice = service.follower.active.selector.choose(
            service.models.get("m").modules[0], service.graphs.get(report.graph)
        )
    assert report.layers[0].predicted_seconds == choice.seconds
    assert choice.threads == threads


@pytest.mark.usefixtures("two_threads")
def test_a_variant_gives_the_same_bits_with_any_number(service, used, monkeypatch):
    id = service.graphs.add(tiny_graph())
    variants = [layer.variant for layer in service.selection.select("m", id).layers]
    found = []
    for seconds in (1.0, 0.0):
        monkeypatch.setattr(selection, "ALONE_SECONDS", seconds)
        found.append(service.inference.run("m", id, X, variants=variants).out)
    assert used == [1, 1, 2, 2]
    assert torch.equal(*found)


@pytest.mark.usefixtures("two_threads")
def test_samples_of_regret_run_as_the_layer_did(service, used):
    service.regret.rate = 1.0
    service.inference.run("m", service.graphs.add(tiny_graph()), X)
    sample = service.regret.take()
    sample.run(sample.variants[0])
    assert used == [1, 1, 1]
    assert sample.threads == 1


@pytest.mark.usefixtures("two_threads")
def test_runs_that_are_held_up_have_one_thread_and_say_so(service, monkeypatch):
    """As on a machine where other programs keep threads from running."""
    monkeypatch.setattr(selection, "ALONE_SECONDS", 0.0)
    monkeypatch.setattr(layer_runner, "SHORT_SECONDS", 5e-3)
    monkeypatch.setattr(layer_runner, "CppBackend", TorchBackend)
    monkeypatch.setattr(bound_run._Clock, "seconds", property(lambda clock: 0.02 / used_threads()))
    id = service.graphs.add(tiny_graph())
    reports = [service.inference.run("m", id, X).report for _ in range(RUNS + 2)]
    threads = [{layer.threads for layer in report.layers} for report in reports]
    assert threads == [{2}] * RUNS + [{1}] * 2
