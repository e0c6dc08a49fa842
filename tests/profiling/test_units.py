"""What tells units apart."""

from dataclasses import replace

import pytest

from hetune.profiling.testing.jobs import some_units

KEYS = {
    "cpu": "6d7a4d7e00817d20f051b1616619b523a7e00df8ff91945c5139db65a26fd9f7",
    "cuda": "82f410919e03aae294960830328f119dcb77dc82e32b3300fb654cce08c1d1d5",
}


@pytest.mark.parametrize("device", KEYS)
def test_a_unit_that_is_measured_as_before_keeps_its_key(device):
    """Stores know by it what is done: it changes with the protocol."""
    unit = some_units(1)[0]
    assert replace(unit, problem=replace(unit.problem, device=device)).key == KEYS[device]
