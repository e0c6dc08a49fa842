"""The model registry: what is in it, and which of them answers."""

from __future__ import annotations

from hetune.costmodel.evaluate.model_card import MARKDOWN, PAGE
from hetune.costmodel.registry.model_registry import ModelRegistry, RegisteredModel
from hetune.costmodel.selection.champion import ChampionFollower
from hetune.profiling.cost_model_training import promotion
from hetune.profiling.cost_model_training.train import cards_folder
from hetune.service.core.cost_models.documents import (
    ActiveModel,
    CostModelDocument,
    CostModelList,
    PromotedModel,
    RolledBack,
)
from hetune.service.core.jobs.measurements import Measurements
from hetune.variants.errors import NotFoundError, PromotionError


class CostModels:
    """The cost models of a model registry.

    Models are named by id or alias. Every method also raises `ModelError` where the model registry,
    or the model that is named, cannot be used.

    Args:
        registry: Where they are.
        measurements: What candidates are judged on.
        follower: What chooses; looks at the model registry at once when an alias was set here.
    """

    def __init__(
        self, registry: ModelRegistry, measurements: Measurements, follower: ChampionFollower
    ) -> None:
        self._registry, self._measurements, self._follower = registry, measurements, follower

    def list(self) -> CostModelList:
        """All of them, what chooses, and the history of the aliases."""
        self._follower.refresh()
        active = self._follower.active
        aliases = self._registry.aliases()
        return CostModelList(
            models=tuple(map(self._document, self._registry.entries())),
            active=ActiveModel(
                model=active.model,
                since=active.since.isoformat(timespec="seconds"),
                problem=self._follower.problem,
            ),
            candidate=aliases.candidate,
            champion=aliases.champion,
            history=aliases.history,
        )

    def ids(self) -> frozenset[str]:
        """Ids of all of them. Jobs may have trained others: for a GPU, or in other registries."""
        return frozenset(self._registry.ids())

    def get(self, name: str) -> CostModelDocument:
        """One of them.

        Raises:
            NotFoundError: There is none of that name.
        """
        return self._document(self._entry(name))

    def card(self, name: str) -> bytes:
        """The page about a model, as HTML.

        Raises:
            NotFoundError: There is no such model, or no page about it.
        """
        path = cards_folder(self._registry, self._entry(name).id) / PAGE
        try:
            return path.read_bytes()
        except FileNotFoundError:
            raise NotFoundError(
                "there is no page about this cost model: train models where the extra 'report' is "
                "installed"
            ) from None

    def card_text(self, name: str) -> str | None:
        """What the page about a model says, as Markdown; None where there is none.

        Raises:
            NotFoundError: There is no such model.
        """
        path = cards_folder(self._registry, self._entry(name).id) / MARKDOWN
        return path.read_text(encoding="utf-8") if path.is_file() else None

    def picture(self, name: str, picture: str) -> bytes:
        """A picture of the page about a model, as PNG.

        Raises:
            NotFoundError: There is no such model, or no such picture.
        """
        folder = cards_folder(self._registry, self._entry(name).id)
        for path in folder.glob("*.png"):
            if path.name == picture:  # compared, and never a part of a path
                return path.read_bytes()
        raise NotFoundError("the page about this cost model has no such picture")

    def promote(self, name: str, machine: str | None = None) -> PromotedModel:
        """Makes a model the champion, unless it loses; see `promotion.promote`.

        Args:
            name: Id or alias.
            machine: Digest of the machine whose measurements it is judged on; by default that
                which it was trained on.

        Raises:
            NotFoundError: There is no such model.
            PromotionError: It loses, or there is nothing to judge it on.
            StoreError: The database cannot be used.
        """
        entry = self._entry(name)
        machine = machine or entry.manifest.fingerprint.digest
        store = self._measurements.store
        try:
            found = promotion.promote(self._registry, entry.id, store, machine)
        except promotion.NothingUnseenError as error:
            raise PromotionError(
                f"the cost model {entry.id} is not promoted: on machine {machine} nothing was "
                "measured on graphs of families that it and the champion were not trained on"
                f"{error.reasons}; run a job that does"
            ) from error
        self._follower.refresh()
        return PromotedModel(
            champion=found.model, regret=found.regret, inputs=len(found.report.outcomes)
        )

    def rollback(self) -> RolledBack:
        """Makes the champion before the present one the champion again.

        Raises:
            PromotionError: There is no champion.
        """
        if self._registry.aliases().champion is None:
            raise PromotionError("there is no champion to roll back: promote a model first")
        champion = self._registry.rollback()
        self._follower.refresh()
        return RolledBack(champion=champion)

    def _entry(self, name: str) -> RegisteredModel:
        entry = self._registry.entry(name)
        if entry is None:
            raise NotFoundError(
                f"there is no cost model {name[:64]!r}: list them to see which there are"
            )
        return entry

    def _document(self, entry: RegisteredModel) -> CostModelDocument:
        papers = entry.manifest
        return CostModelDocument(
            id=entry.id,
            aliases=entry.aliases,
            created_at=papers.created_at,
            code_version=papers.code_version,
            machine=papers.fingerprint.digest,
            cpu=papers.fingerprint.cpu or "",
            target=papers.target,
            inputs=papers.data.problems,
            graph_families=papers.data.graph_families,
            regret=papers.metrics.get(papers.target, {}).get("regret"),
            has_card=(cards_folder(self._registry, entry.id) / PAGE).is_file(),
        )
