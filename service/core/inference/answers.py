"""What the service answers about layers that it ran, or would run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from hetune.costmodel.selection.explanation import Explanation
from hetune.service.core.formats.documents import Document
from hetune.service.core.graphs.rows import Rows


class LaunchReport(Document):
    """A launch of the chosen variant, predicted. `features` are factors on the prediction."""

    what: str
    seconds: float
    low: float
    high: float
    features: dict[str, float]


class CandidateReport(Document):
    """A variant that there was to choose from."""

    variant: str
    predicted_seconds: float
    peak_bytes: int


class ExplanationReport(Document):
    """Why a variant was chosen: its launches, and all candidates, fastest prediction first."""

    launches: tuple[LaunchReport, ...]
    candidates: tuple[CandidateReport, ...]


class LayerReport(Document):
    """What was chosen for a layer.

    Attributes:
        layer: Label of the layer's program, for readers.
        variant: Id of the variant.
        reason: Why.
        predicted_seconds: Time that a run was predicted to take.
        peak_bytes: Of a run's temporaries, scratch and result.
        measured_seconds: Time that this run took, preparation included; None if there was none.
        threads: That its kernels use, of a CPU.
        uncompiled: Why the module itself ran in the variant's stead; None where the variant did.
        explanation: Only if it was asked for.
        program: Digest of the layer's program.
    """

    layer: str
    variant: str
    reason: str
    predicted_seconds: float
    peak_bytes: int
    measured_seconds: float | None = None
    threads: int = 1
    uncompiled: str | None = None
    explanation: ExplanationReport | None = None
    program: str = ""


class SubsetReport(Document):
    """How rows of some nodes were computed.

    Attributes:
        how: "full": cut out of a run on the whole graph; "reach": from what they depend on.
        reason: Why.
        full_seconds: Time that the whole run was predicted to take; None if nobody asked.
        reach_seconds: Likewise the other, with the time to cut out smaller graphs.
        nodes: Of the smaller graph of each layer; none if they were not cut out.
        edges: Likewise.
    """

    how: Literal["full", "reach"]
    reason: str
    full_seconds: float | None = None
    reach_seconds: float | None = None
    nodes: tuple[int, ...] = ()
    edges: tuple[int, ...] = ()


class RunReport(Document):
    """An answer without its outputs.

    Attributes:
        model: Name of the model.
        version: Its version.
        graph: Id of the graph.
        layers: One for each of the model's.
        subset: How rows of some nodes were computed, if not all were asked for.
    """

    model: str
    version: int
    graph: str
    layers: tuple[LayerReport, ...]
    subset: SubsetReport | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """What `Inference.run` gives.

    Attributes:
        report: What ran.
        outputs: By the layer's number, float32 [nodes, width]; of all nodes or those asked for.
        request_id: By which the service's log knows the request; empty where it gave none, as it
            does in-process.
    """

    report: RunReport
    outputs: Mapping[int, Rows]
    request_id: str = ""

    @property
    def out(self) -> Rows:
        """The output of the last layer that was asked for."""
        return self.outputs[max(self.outputs)]


def explained(explanation: Explanation) -> ExplanationReport:
    """An explanation as a document."""
    return ExplanationReport(
        launches=tuple(
            LaunchReport(
                what=launch.what,
                seconds=launch.seconds,
                low=launch.low,
                high=launch.high,
                features=dict(launch.features),
            )
            for launch in explanation.launches
        ),
        candidates=tuple(
            CandidateReport(
                variant=candidate.id,
                predicted_seconds=candidate.seconds,
                peak_bytes=candidate.peak_bytes,
            )
            for candidate in explanation.choice.candidates
        ),
    )
