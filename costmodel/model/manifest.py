"""What a cost model says of itself: where it comes from, what it needs, how good it is."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from datetime import datetime
from typing import Any

import numpy as np

from hetune.costmodel.features.devices import Rates, known, rates_from
from hetune.costmodel.fingerprint import Fingerprint
from hetune.costmodel.finite import finite
from hetune.costmodel.model.overhead import Overhead
from hetune.costmodel.problems import Problem
from hetune.variants.errors import ModelError
from hetune.variants.kernel.device import Device
from hetune.variants.registry.sealed_json import sealed, unsealed
from hetune.variants.runtime.table import PREPARATION

FORMAT = 4
"""Version of bundles and their manifests; of another one nothing is read."""


@dataclass(frozen=True, slots=True)
class TrainingData:
    """What a model was fitted to.

    Attributes:
        digest: SHA-256 over all of it.
        problems: How many inputs.
        units: How many variants on them.
        launches: How many launches in those.
        graph_families: Families of graphs, sorted.
    """

    digest: str
    problems: int
    units: int
    launches: int
    graph_families: tuple[str, ...]

    @classmethod
    def of(cls, problems: Sequence[Problem]) -> TrainingData:
        """What there is to say of problems, whose order does not matter."""
        candidates = [candidate for problem in problems for candidate in problem.candidates]
        digests = sorted(_digest(problem) for problem in problems)
        return cls(
            digest=hashlib.sha256("".join(digests).encode()).hexdigest(),
            problems=len(problems),
            units=len(candidates),
            launches=sum(len(candidate.launches) for candidate in candidates),
            graph_families=tuple(sorted({problem.family for problem in problems})),
        )


@dataclass(frozen=True, slots=True)
class FittedFamily:
    """One kernel family's part.

    Attributes:
        rows: Distinct launches that it was fitted to.
        regressor: The regressor's parameters.
        quantiles: Those of the error's quantiles; None where there were too few graphs for any.
        widening: What held-out errors moved the quantiles apart by; 0 without any.
    """

    rows: int
    regressor: Mapping[str, Any]
    quantiles: Mapping[str, Any] | None
    widening: float


@dataclass(frozen=True, slots=True)
class ModelManifest:
    """What a cost model says of itself.

    Attributes:
        format: `FORMAT` when it was written.
        features: Names of a launch's features.
        graph_features: Names of a graph's features.
        columns: Names of the numbers of a launch, which features are made of.
        target: What the regressors predict.
        weighting: How launches counted.
        families: By kernel family.
        overhead: What runs take beyond their launches.
        preparation: Seconds per unit of what preparing a variant takes, `PREPARATION`.
        data: What it was fitted to.
        fingerprint: The machine that was measured.
        machine: That machine's rates, for the roofline model.
        metrics: By target: regret and error on graph families that were held out in turn;
            "roofline" beside them, as trees see it: without what cores fetch from each other.
        code_version: Version and commit of hetune.
        created_at: When, in UTC, ISO 8601.
        files: SHA-256 of each file of the bundle; empty until it is saved.
        device: What the variants are made for whose launches it predicts.
        tie: The factor within which its predictions cannot tell the default variant from a faster
            one: `ties.tie_of`.
    """

    format: int
    features: tuple[str, ...]
    graph_features: tuple[str, ...]
    columns: tuple[str, ...]
    target: str
    weighting: str
    families: Mapping[str, FittedFamily]
    overhead: Overhead
    preparation: tuple[float, ...]
    data: TrainingData
    fingerprint: Fingerprint
    machine: Rates
    metrics: Mapping[str, Mapping[str, float]]
    code_version: str
    created_at: str
    files: Mapping[str, str]
    device: Device
    tie: float

    @property
    def digest(self) -> str:
        """SHA-256 of all but the files' digests: the same before and after the model is saved."""
        text = json.dumps(replace(self, files={})._record(), indent=1) + "\n"
        return hashlib.sha256(text.encode()).hexdigest()

    def as_json(self) -> str:
        """The manifest as JSON text, with the digest of its content."""
        return json.dumps(sealed(self._record()), indent=1) + "\n"

    def _record(self) -> dict[str, Any]:
        record = {field.name: getattr(self, field.name) for field in fields(self)}
        record["families"] = {name: asdict(part) for name, part in self.families.items()}
        record["overhead"] = asdict(self.overhead)
        record["data"] = asdict(self.data)
        record["fingerprint"] = self.fingerprint.as_dict()
        record["machine"] = asdict(self.machine)
        return record

    @classmethod
    def from_json(cls, text: str) -> ModelManifest:
        """The manifest that `as_json` made the text of.

        Raises:
            ModelError: The text is none, or one of another format, or says what cannot be: times
                that are not finite or negative, say.
        """
        try:
            record = unsealed(json.loads(text))
            if record["format"] != FORMAT:
                raise ModelError(
                    f"it has format {record['format']}, and this version of hetune reads {FORMAT}: "
                    "train it again, or use the version that wrote it "
                    f"({record.get('code_version', 'unknown')})"
                )
            for name in ("features", "graph_features", "columns"):
                record[name] = _texts(record[name])
            for name in ("target", "weighting", "code_version"):
                _text(record[name])
            datetime.fromisoformat(record["created_at"])
            record["families"] = {n: _fitted(part) for n, part in record["families"].items()}
            overhead = {n: finite(seconds, 0) for n, seconds in record["overhead"].items()}
            record["overhead"] = Overhead(**overhead)
            record["preparation"] = _preparation(record["preparation"])
            record["data"] = _data(record["data"])
            record["fingerprint"] = Fingerprint.from_dict(record["fingerprint"])
            record["device"] = known(record["device"])
            record["machine"] = rates_from(record["device"], record["machine"])
            record["tie"] = finite(record["tie"], 1)
            record["metrics"] = {n: _scores(found) for n, found in record["metrics"].items()}
            record["files"] = {n: _text(digest) for n, digest in record["files"].items()}
            return cls(**record)
        except ModelError:
            raise
        except Exception as error:  # whatever is in the text
            raise ModelError(
                f"its manifest is damaged ({type(error).__name__}: {error}): copy the bundle "
                "again, or train it again"
            ) from None


def _fitted(record: Mapping[str, Any]) -> FittedFamily:
    part = FittedFamily(**record)
    finite(part.rows, 0)
    finite(part.widening)
    if not isinstance(part.regressor, dict) or not isinstance(part.quantiles, dict | None):
        raise ValueError("the parameters of trees are no object")
    return part


def _preparation(values: Sequence[Any]) -> tuple[float, ...]:
    rates = tuple(finite(each, 0) for each in values)
    if len(rates) != len(PREPARATION):
        raise ValueError(f"preparation: {len(rates)} rates, not {len(PREPARATION)}")
    return rates


def _data(record: Mapping[str, Any]) -> TrainingData:
    data = TrainingData(**{**record, "graph_families": _texts(record["graph_families"])})
    _text(data.digest)
    for count in (data.problems, data.units, data.launches):
        finite(count, 0)
    return data


def _scores(record: Mapping[str, Any]) -> dict[str, float]:
    if "regret" not in record:
        raise ValueError("metrics without a regret")
    return {name: finite(value) for name, value in record.items()}


def _texts(values: Any) -> tuple[str, ...]:
    if not isinstance(values, list):
        raise ValueError(f"{type(values).__name__} where texts are listed")
    return tuple(map(_text, values))


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{type(value).__name__} where a text should be")
    return value


def _digest(problem: Problem) -> str:
    facts: list[list[Any]] = [
        [problem.graph, problem.family, problem.program.digest],
        [problem.threads, problem.machine],
        [[c.variant, [launch.family for launch in c.launches]] for c in problem.candidates],
    ]
    if problem.device != "cpu":
        facts.append([problem.device])
    digest = hashlib.sha256(json.dumps(facts).encode())
    digest.update(np.array(problem.graph_features, np.float64).tobytes())
    for candidate in problem.candidates:
        times = candidate.seconds, candidate.iqr, candidate.error, candidate.prepare_seconds
        digest.update(np.array([*times, *candidate.preparation]).tobytes())
        for launch in candidate.launches:
            digest.update(np.array([launch.seconds, *launch.columns]).tobytes())
    return digest.hexdigest()
