"""What a measurement has to be like: checked before it is stored, and again when it is read."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

from hetune.profiling.records import Measurement, Status

LEAST_SECONDS, MOST_SECONDS = 1e-9, 86_400.0
"""A run takes between a nanosecond and a day."""
_MOST_COUNT = 2**63 - 1
_MOST_NUMBER = 1e18
"""Features, columns and clocks are counts, shares and megahertz."""
_MOST_NUMBERS = 10_000
_MOST_TEXT = 100_000
_COUNTS = ("threads", "peak_bytes", "protocol")
_TEXTS = (
    *("unit", "campaign", "machine", "graph", "graph_fingerprint", "family", "variant"),
    *("plan", "error", "code_version", "device"),
)


def wrong_with(measurement: Measurement) -> str:
    """What is wrong with a measurement; empty if nothing is.

    Raises:
        TypeError: A field is of another type than it should be.
    """
    return next(_wrong(measurement), "")


def _wrong(measurement: Measurement) -> Iterator[str]:
    is_ok, samples = measurement.status is Status.OK, measurement.samples
    if is_ok != bool(samples):
        yield f"its status is {measurement.status}, and it has {len(samples)} samples"
    if not is_ok and measurement.launches:
        yield f"its status is {measurement.status}, and it has times of launches"
    yield from _long(measurement)
    launches = [seconds for launch in measurement.launches for seconds in launch.samples]
    if not all(launch.samples for launch in measurement.launches):
        yield "a launch has no samples"
    # One that has nothing to do may take less than the clock can tell.
    if not all(map(_is_time, samples)) or not all(s == 0 or _is_time(s) for s in launches):
        yield "a sample is no time: seconds are between 1e-09 and 86400"
    numbers = [*measurement.graph_features, *measurement.preparation, *measurement.clocks]
    for launch in measurement.launches:
        numbers += launch.columns
    if not all(math.isfinite(number) and abs(number) <= _MOST_NUMBER for number in numbers):
        yield "a feature, a column or a clock is not finite, or larger than 1e+18"
    for name in _COUNTS:
        count = getattr(measurement, name)
        if not isinstance(count, int) or not 0 <= count <= _MOST_COUNT:
            yield f"{name} is {count!r}, and no count"
    if not _is_share(measurement.prepare_seconds, MOST_SECONDS):
        yield f"prepare_seconds is {measurement.prepare_seconds}, and no time"
    for name in ("relative_error", "drift"):
        if not _is_share(getattr(measurement, name), math.inf):
            yield f"{name} is {getattr(measurement, name)}, and no share"
    if measurement.measured_at.tzinfo is None:
        yield "measured_at has no time zone: use datetime.now(UTC)"


def _long(measurement: Measurement) -> Iterator[str]:
    rows: list[Iterable[object]] = [
        *(measurement.samples, measurement.graph_features, measurement.preparation),
        *(measurement.clocks, measurement.launches),
        *(launch.columns for launch in measurement.launches),
        *(launch.samples for launch in measurement.launches),
    ]
    if any(len(tuple(row)) > _MOST_NUMBERS for row in rows):
        yield f"it has more than {_MOST_NUMBERS} numbers of one kind"
    program = measurement.program
    texts = {name: getattr(measurement, name) for name in _TEXTS}
    for name, text in {**texts, "label": program.label, "program": program.text}.items():
        if not isinstance(text, str) or len(text) > _MOST_TEXT:
            yield f"{name} is no text of at most {_MOST_TEXT} characters"


def _is_time(seconds: float) -> bool:
    return LEAST_SECONDS <= seconds <= MOST_SECONDS


def _is_share(number: float, most: float) -> bool:
    """Whether it is a share of at most that. NaN: not measured."""
    return math.isnan(number) or 0 <= number <= most
