"""What tells units apart."""

from dataclasses import replace

from hetune.profiling.testing.jobs import some_units

KEY = "6fd72be9fb56730622ed61edac55f24b77715825c258d907685a7d79f06cb899"


def test_keys_of_cpus_are_those_of_before_there_were_devices():
    unit = some_units(1)[0]
    assert unit.problem.device == "cpu"
    assert unit.key == KEY


def test_another_device_is_another_unit():
    unit = some_units(1)[0]
    assert replace(unit, problem=replace(unit.problem, device="cuda")).key != KEY
