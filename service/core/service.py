"""All that the service does, over one folder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from hetune.costmodel.registry.model_registry import ModelRegistry
from hetune.costmodel.selection.champion import ChampionFollower
from hetune.costmodel.selection.selector import Selector
from hetune.service.core.cost_models.cost_models import CostModels
from hetune.service.core.formats.limits import ServiceLimits
from hetune.service.core.graphs.features import FeatureStore
from hetune.service.core.graphs.graphs import GraphStore
from hetune.service.core.inference.inference import Inference
from hetune.service.core.inference.metrics import Metrics
from hetune.service.core.inference.regret import RegretSamples
from hetune.service.core.inference.selection import VariantSelection
from hetune.service.core.jobs.jobs import Jobs
from hetune.service.core.jobs.measurements import Measurements
from hetune.service.core.keys.keys import FILE, Keys
from hetune.service.core.models.engine import Engine
from hetune.service.core.models.models import ModelStore
from hetune.service.core.models.warm_up import WarmUp
from hetune.service.core.runs.runs import Runs
from hetune.service.core.runs.sources import RunSources
from hetune.service.core.storage.folder import Folder


@dataclass(frozen=True, slots=True)
class Service:
    """Its parts, each of which can be used alone.

    Attributes:
        limits: What is accepted and held.
        engine: What runs layers.
        folder: Everything else's, and where uploads are received.
        keys: Of who may use it; the file is in the folder.
        graphs: Graphs by id.
        features: Features of their nodes, by name.
        models: Models by name and version.
        selection: Choices without running.
        inference: Runs models.
        runs: Runs them part by part, between requests.
        regret: What is run again when nothing else is to be done.
        measurements: Where measurements and jobs are.
        jobs: Profiling jobs.
        cost_models: Cost models in the model registry.
        follower: Which of them chooses.
        metrics: What all of them count and time.
        warm_up: Models that have to be ready before the service is.
    """

    limits: ServiceLimits
    engine: Engine
    folder: Folder
    keys: Keys
    graphs: GraphStore
    features: FeatureStore
    models: ModelStore
    selection: VariantSelection
    inference: Inference
    runs: Runs
    regret: RegretSamples
    measurements: Measurements
    jobs: Jobs
    cost_models: CostModels
    follower: ChampionFollower
    metrics: Metrics
    warm_up: WarmUp

    @classmethod
    def open(
        cls,
        root: Path,
        *,
        limits: ServiceLimits | None = None,
        selector: Selector | None = None,
        backend: str | None = None,
        engine: Engine | None = None,
        store: str | Path | None = None,
        registry: ModelRegistry | None = None,
        regret_rate: float = 0.0,
        warm: Sequence[str] = (),
        prepares: bool = True,
        large_graphs: Path | None = None,
        ray: str | None = None,
    ) -> Self:
        """The service over a folder, which is created if it is missing.

        Args:
            root: The folder.
            limits: What is accepted and held.
            selector: Who chooses variants; if None, the champion of the registry by then.
            backend: What runs them here: "cpp" (the default), "torch" or "triton".
            engine: What runs them in place of that, also on a GPU.
            store: Where measurements and jobs are, as `Store.open` takes it; it is opened when it
                is first asked for.
            registry: Where cost models are; the user's if None.
            regret_rate: Share of runs, 0 to 1, of which a layer is run again when nothing else is
                to be done, to see what the choice has lost.
            warm: Models, by name or ``name@alias``, without which it is not ready.
            prepares: Whether what choosing needs is compiled before this returns. If not,
                `warm_up.run` does that, and checks that kernels can be compiled; until then
                nothing must run.
            large_graphs: Folder of graphs that runs may name; none if None.
            ray: Address of a Ray cluster that computes runs, with both folders under the same path.

        Raises:
            FolderError: The folder cannot be used.
            InputError: The share is none.
        """
        engine = engine or Engine(backend or "cpp")
        limits = engine.within(limits or ServiceLimits())
        folder = Folder(root)
        registry = (registry or ModelRegistry()).of(engine.target)
        follower = ChampionFollower(registry, selector, begins=prepares)

        def prepare() -> None:
            engine.check_compiler()
            follower.begin()

        graphs = GraphStore(root / "graphs", limits)
        models = ModelStore(root / "models", engine, engine.weight_bytes(limits))
        measurements = Measurements(store)
        metrics = Metrics(graphs, models, follower, lambda: measurements.queue.counts(), engine)
        selection = VariantSelection(graphs, models, follower, engine, limits, metrics)
        regret = RegretSamples(regret_rate, follower, engine, limits, metrics)
        inference = Inference(selection, engine, limits, metrics, regret)
        features = FeatureStore(graphs, limits)
        sources = RunSources(graphs, features, large_graphs)
        return cls(
            limits,
            engine,
            folder,
            Keys(root / FILE),
            graphs,
            features,
            models,
            selection,
            inference,
            Runs(root / "runs", models, sources, follower, engine, limits, ray),
            regret,
            measurements,
            Jobs(measurements, limits, models),
            CostModels(registry, measurements, follower),
            follower,
            metrics,
            WarmUp(models, follower, warm, engine.builds_for, None if prepares else prepare),
        )

    def check_ready(self) -> None:
        """Checks that requests can be served: models, device, store, and room in folders.

        Raises:
            NotReadyError: Kernels cannot be compiled (yet), a model that is wanted at the start is
                not ready, or the keys cannot be read.
            DeviceError: The GPU that layers run on does not answer.
            DiskFullError: There is no space for graphs and models.
            FolderError: The folder cannot be written.
            StoreError: The file of jobs and measurements was deleted or replaced.
        """
        self.measurements.check()
        self.engine.check()
        self.warm_up.check()
        self.keys.check_readable()
        self.folder.check_room()

    def close(self) -> None:
        """Gives connections to databases back."""
        self.measurements.close()
