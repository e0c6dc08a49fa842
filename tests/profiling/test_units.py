"""What tells units apart."""

from dataclasses import replace

import pytest
from tests.profiling._made_up import some_units

from hetune.variants.program.labeled import LabeledProgram

KEYS = {
    "cpu": "b920a6462fa5372bbf598592c3b9a05f38f1a7f2ff2c0d3e3fca6264078a3fac",
    "cuda": "29398dfdcc17ed7f53b414675fa2b79b6138aff07eefe0e612956cb18cef6815",
}


@pytest.mark.parametrize("device", KEYS)
def test_a_unit_that_is_measured_as_before_keeps_its_key(device):
    """Stores know by it what is done: it changes with the protocol."""
    unit = some_units(1)[0]
    program = LabeledProgram("ab" * 32, "its text", "its label")
    assert (
        replace(unit, problem=replace(unit.problem, program=program, device=device)).key
        == KEYS[device]
    )
