"""What workers on other machines lease, and what they give back, as documents."""

from __future__ import annotations

from dataclasses import asdict, replace
from datetime import UTC, datetime
from math import inf, isinf, isnan, nan
from typing import Annotated, ClassVar, Literal, Self

from pydantic import AwareDatetime, Field, JsonValue

from hetune.costmodel.fingerprint import Fingerprint
from hetune.profiling.jobs.records import Lease, MeasureTask
from hetune.profiling.measure.limits import Limits
from hetune.profiling.measure.record import GraphFacts, Stamp, record
from hetune.profiling.records import LaunchRecord, Measurement, Status
from hetune.profiling.units import ProblemSpec, Unit
from hetune.service.core.formats.documents import Document
from hetune.service.core.formats.number_fields import Samples
from hetune.variants.errors import InputError
from hetune.variants.kernel.device import Device

MOST_TEXT = 10_000
"""Most characters of a reason."""
Name = Annotated[str, Field(min_length=1, max_length=200)]
Text = Annotated[str, Field(max_length=MOST_TEXT)]
Key = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
_FIRST = datetime(2000, 1, 1, tzinfo=UTC)
Number = float | Literal["infinity"] | None
"""JSON has no infinity; null is "not a number"."""


class ClaimRequest(Document):
    """A worker asks for something to do.

    Attributes:
        owner: Its name, for readers.
        machine: Digest of its machine's fingerprint.
        version: Of its hetune: other releases have other variants.
        idempotency_key: Asking under the same key again gives the same lease, as long as it holds.
        devices: What its machine can measure on.
    """

    owner: Name
    machine: Name
    version: Name
    idempotency_key: Annotated[str, Field(pattern=r"^[!-~]{1,200}$")] | None = None
    devices: tuple[Device, ...] = ("cpu",)


class LeaseDocument(Document):
    """A unit that a worker has for a time, and alone; `Lease` explains what is not said here.

    Attributes:
        problem: What to measure.
        variants: Ids and plans of the variants to measure on it.
        limits: What measuring may cost.
        known: Keys of those units that the machine has measured before.
    """

    unit: int
    job: int
    campaign: str
    token: int
    owner: str
    machine: str
    attempt: int
    expires: datetime
    problem: ProblemSpec
    variants: tuple[tuple[str, str], ...]
    limits: Limits
    known: tuple[str, ...]

    @classmethod
    def of(cls, lease: Lease) -> Self:
        """The document of a lease to measure."""
        work = lease.work
        assert isinstance(work, MeasureTask)
        return cls(
            unit=lease.unit,
            job=lease.job,
            campaign=lease.campaign,
            token=lease.token,
            owner=lease.owner,
            machine=lease.machine,
            attempt=lease.attempt,
            expires=lease.expires,
            problem=work.units[0].problem,
            variants=tuple((unit.variant, unit.plan) for unit in work.units),
            limits=work.limits,
            known=tuple(sorted(work.known)),
        )

    def lease(self) -> Lease:
        """The lease."""
        units = tuple(Unit(self.problem, variant, plan) for variant, plan in self.variants)
        return Lease(
            unit=self.unit,
            job=self.job,
            campaign=self.campaign,
            token=self.token,
            owner=self.owner,
            machine=self.machine,
            attempt=self.attempt,
            expires=self.expires,
            work=MeasureTask(units, self.limits, frozenset(self.known)),
        )


class WantedDocument(Document):
    """Whether the work is still wanted; if not, the worker should give it back."""

    wanted: bool


class MeasuredLaunch(Document):
    """A launch; `hetune.profiling.records.LaunchRecord` explains each field."""

    kernel: Text
    family: Text
    columns: Samples
    samples: Samples


class MeasuredUnit(Document):
    """What was measured of a variant, without what the lease says of it.

    `hetune.profiling.records.Measurement` explains each field.
    """

    unit: Key
    graph_fingerprint: Text
    graph_features: Samples
    status: Status
    error: str
    samples: Samples
    launches: tuple[MeasuredLaunch, ...]
    prepare_seconds: Number
    preparation: Samples
    relative_error: Number
    peak_bytes: Annotated[int, Field(ge=0, lt=2**63)]
    drift: Number
    code_version: Text
    measured_at: AwareDatetime
    clocks: Samples = ()

    @classmethod
    def of(cls, found: Measurement) -> Self:
        """The document of a measurement."""
        given = {name: getattr(found, name) for name in cls.model_fields}
        for name in ("prepare_seconds", "relative_error", "drift"):
            given[name] = _number(given[name])
        launches = tuple(MeasuredLaunch(**asdict(launch)) for launch in found.launches)
        return cls(**given | {"launches": launches})

    def measurement(self, unit: Unit, lease: Lease) -> Measurement:
        """The measurement of a unit that was leased.

        Raises:
            InputError: It was made before there was hetune.
        """
        if self.measured_at < _FIRST:
            raise InputError(f"measured_at is {self.measured_at}: set the clock of the machine")
        launches = tuple(
            LaunchRecord(launch.kernel, launch.family, launch.columns, launch.samples)
            for launch in self.launches
        )
        found = record(
            unit,
            Stamp(lease.campaign, lease.machine, self.code_version),
            GraphFacts(self.graph_fingerprint, self.graph_features),
            samples=self.samples,
            launches=launches,
            prepare_seconds=_float(self.prepare_seconds),
            preparation=self.preparation,
            relative_error=_float(self.relative_error),
            peak_bytes=self.peak_bytes,
            drift=_float(self.drift),
            clocks=self.clocks,
        )
        # What came of it is what the worker says, also where it contradicts its times.
        return replace(found, status=self.status, error=self.error, measured_at=self.measured_at)


class MeasuredRequest(Document):
    """What came of a lease.

    Attributes:
        fingerprint: All facts of the machine.
        measurements: Of all variants that were leased, but those that were known.
    """

    has_arrays: ClassVar[bool] = True
    fingerprint: dict[str, JsonValue]
    measurements: tuple[MeasuredUnit, ...]

    def facts(self) -> Fingerprint:
        """The machine's fingerprint.

        Raises:
            InputError: It is none.
        """
        try:
            found = Fingerprint.from_dict(self.fingerprint)
            found.digest  # noqa: B018  numbers of a machine that cannot be fail here
        except (ValueError, OverflowError) as error:
            raise InputError(f"fingerprint: {error}") from None
        return found

    def of(self, lease: Lease) -> list[Measurement]:
        """The measurements.

        Raises:
            InputError: They are of something else than was leased.
        """
        units = lease.work.units if isinstance(lease.work, MeasureTask) else ()
        leased = {unit.key: unit for unit in units}
        if not {found.unit for found in self.measurements} <= leased.keys():
            raise InputError("measurements of other units than those that were leased")
        return [found.measurement(leased[found.unit], lease) for found in self.measurements]


class AddedDocument(Document):
    """What became of measurements: `new` ones were stored, `known` ones were there before."""

    new: int
    known: int


class FailureRequest(Document):
    """Why a unit could not be done.

    Attributes:
        error: For a reader.
        final: It would go wrong again.
    """

    error: Text
    final: bool = False


class ReleaseRequest(Document):
    """Why a unit is given back."""

    why: Text = ""


def _number(value: float) -> Number:
    return None if isnan(value) else "infinity" if isinf(value) else value


def _float(value: Number) -> float:
    return nan if value is None else inf if value == "infinity" else float(value)
