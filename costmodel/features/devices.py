"""What cost models see depends on the device that variants are made for, and so do its rates.

A device's rates know which device they are of, so that nothing else has to be handed along.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any, TypeAlias

import numpy as np

from hetune.costmodel.features import gpu_launch, launch
from hetune.costmodel.finite import finite
from hetune.variants.errors import ModelError
from hetune.variants.kernel.device import DEVICES, Device, device_named
from hetune.variants.runtime.gpu_roofline import GpuModel, gpu_roofline_seconds
from hetune.variants.runtime.roofline import MachineModel, roofline_seconds

Rates: TypeAlias = MachineModel | GpuModel
"""What the roofline model takes a machine for: a core and its caches, or a GPU."""
_MAY_BE_0 = ("exchange_seconds", "launch_seconds", "unevenness")


def known(device: str) -> Device:
    """The device of that name.

    Raises:
        ModelError: There is none.
    """
    if (found := device_named(device)) is None:
        raise ModelError(
            f"there are no cost models for the device {device!r}: take one of {', '.join(DEVICES)}"
        )
    return found


def device_of(rates: Rates) -> Device:
    """The device that rates are of."""
    return "cuda" if isinstance(rates, GpuModel) else "cpu"


def default_rates(device: Device) -> Rates:
    """Rates of a machine that was not measured."""
    return GpuModel() if device == "cuda" else MachineModel()


def rates_from(device: Device, record: Mapping[str, Any]) -> Rates:
    """Rates that `dataclasses.asdict` made a record of.

    Raises:
        ValueError: A number is missing, unknown, or none that a rate may be.
    """
    kind = type(default_rates(device))
    names = {field.name for field in fields(kind)}
    if device == "cpu":
        record = {"exchange_seconds": 0.0, **record}  # older records lack it
    if record.keys() != names:
        raise ValueError(f"rates: expected {sorted(names)}, found {sorted(record)}")
    for name, value in record.items():
        if finite(value) < 0 or (value == 0 and name not in _MAY_BE_0):
            raise ValueError(f"{name} is {value}")
    return kind(**record)


def names_of(device: Device) -> tuple[str, ...]:
    """Names of a launch's features."""
    return gpu_launch.NAMES if device == "cuda" else launch.NAMES


def increasing_of(device: Device) -> frozenset[str]:
    """Those in which time cannot fall."""
    return gpu_launch.INCREASING if device == "cuda" else launch.INCREASING


def features_of(
    columns: np.ndarray, graph_features: np.ndarray, rates: Rates, threads: int
) -> tuple[np.ndarray, np.ndarray]:
    """The features of launches on a graph, and what the roofline model predicts for them.

    On a CPU that is without what cores fetch from each other. It is not the same from one hour to
    the next, so trees learn what it costs on the average.

    Args:
        columns: `CandidateTable.columns` of a table for the device of the rates, float64 [rows,
            `column_names`].
        graph_features: `graph_features` of the graph, float64.
        rates: Of the machine.
        threads: How many share a launch's blocks on a CPU.

    Returns:
        float32 [rows, `names_of`], finite; and seconds, float64 [rows].
    """
    if isinstance(rates, GpuModel):
        return gpu_launch.gpu_launch_features(columns, graph_features, rates)
    steady = replace(rates, exchange_seconds=0.0)
    return launch.launch_features(columns, graph_features, steady, threads)


def roofline_of(columns: np.ndarray, rates: Rates, threads: int) -> np.ndarray:
    """What the roofline model of the rates' device predicts, in seconds, float64 [rows].

    Args:
        columns: As of `features_of`.
        rates: Of the machine.
        threads: How many share a launch's blocks on a CPU.
    """
    if isinstance(rates, GpuModel):
        return gpu_roofline_seconds(columns, rates)
    return roofline_seconds(columns, rates, threads)
