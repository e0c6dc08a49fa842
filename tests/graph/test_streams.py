"""What other streams may read is there before they find it."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace

import pytest
import torch

from hetune.variants.graph import device_index
from hetune.variants.graph.device_index import DeviceIndex
from hetune.variants.graph.streams import synchronize
from hetune.variants.testing.graphs import AWKWARD

CPU, GPU = torch.device("cpu"), torch.device("cuda:1")


@pytest.mark.parametrize(
    ("device", "recorded", "said"),
    [
        (GPU, False, ["on cuda:1", "wait"]),
        (GPU, True, ["on cuda:1"]),
        (CPU, False, []),
        (None, False, []),
    ],
    ids=["GPU", "recorded", "CPU", "none"],
)
def test_a_gpu_is_waited_for_unless_its_work_is_recorded(device, recorded, said, monkeypatch):
    found = []

    def on(device: torch.device) -> nullcontext:
        found.append(f"on {device}")
        return nullcontext()

    stream = SimpleNamespace(synchronize=lambda: found.append("wait"))
    monkeypatch.setattr(torch.cuda, "device", on)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda: stream)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: recorded)
    assert synchronize(device) != recorded
    assert found == said


def test_steps_of_an_index_are_there_before_others_find_them(monkeypatch):
    index, waits = DeviceIndex(AWKWARD["one relation"](), CPU), []

    def wait(device: torch.device) -> None:
        waits.append((device, index.is_built("in_degree")))

    monkeypatch.setattr(device_index, "synchronize", wait)
    assert index.in_degree is index.in_degree
    assert set(waits) == {(CPU, False)}


def test_edges_of_an_index_are_there_before_others_find_it(monkeypatch):
    waits = []
    monkeypatch.setattr(device_index, "synchronize", waits.append)
    DeviceIndex.on(AWKWARD["one relation"](), CPU)
    assert waits == [CPU]
