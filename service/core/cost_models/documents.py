"""Cost models as documents."""

from __future__ import annotations

from hetune.costmodel.registry.aliases import AliasChange
from hetune.service.core.formats.documents import Document


class CostModelDocument(Document):
    """A cost model in the model registry.

    Attributes:
        id: Its id.
        aliases: "candidate", "champion", both or none.
        created_at: When it was trained, in UTC, ISO 8601.
        code_version: hetune's version and commit then.
        machine: Digest of the fingerprint of the machine that was measured.
        cpu: That machine's processor.
        target: What its trees predict.
        inputs: How many measured inputs it was fitted to.
        graph_families: Families of graphs among these.
        regret: Geometric mean on graph families that were held out; None where none were.
        has_card: Whether there is a page about it.
    """

    id: str
    aliases: tuple[str, ...]
    created_at: str
    code_version: str
    machine: str
    cpu: str
    target: str
    inputs: int
    graph_families: tuple[str, ...]
    regret: float | None
    has_card: bool


class ActiveModel(Document):
    """What chooses variants in the service that answers.

    Attributes:
        model: Id of a cost model; "package" for the one in the package, "roofline" for none,
            "given" for one that the service was made with.
        since: When it took over, in UTC, ISO 8601.
        problem: Why the champion is not what chooses; None if it is.
    """

    model: str
    since: str
    problem: str | None


class CostModelList(Document):
    """The model registry.

    Attributes:
        models: The newest first.
        active: What chooses, which another champion follows within about a second.
        candidate: Id of the model that was added last.
        champion: Id of the model that should choose; None where it is the one in the package.
        history: Changes of these two, in order.
    """

    models: tuple[CostModelDocument, ...]
    active: ActiveModel
    candidate: str | None
    champion: str | None
    history: tuple[AliasChange, ...]


class PromotedModel(Document):
    """A model that is the champion now.

    Attributes:
        champion: Its id.
        regret: Geometric mean on what it was judged on.
        inputs: How many inputs that were.
    """

    champion: str
    regret: float
    inputs: int


class RolledBack(Document):
    """Id of the model that is the champion again; None where it is the one in the package."""

    champion: str | None
