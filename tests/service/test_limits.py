"""Limits that are shares of memory."""

from types import SimpleNamespace

import pytest

from hetune.service.core.formats import limits
from hetune.service.core.formats.limits import ServiceLimits


@pytest.mark.parametrize(
    ("machine", "container", "memory"),
    [(1000, None, 1000), (1000, 400, 400), (1000, 4000, 1000)],
)
def test_shares_are_of_what_the_process_may_have(monkeypatch, machine, container, memory):
    monkeypatch.setattr(limits.psutil, "virtual_memory", lambda: SimpleNamespace(total=machine))
    monkeypatch.setattr(limits, "read_memory_limit", lambda: container)
    assert (ServiceLimits().run_bytes, ServiceLimits().loaded_bytes) == (memory // 2, memory // 4)
