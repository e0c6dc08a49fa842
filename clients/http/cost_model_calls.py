"""Cost models as calls like those of `calls`. No IO."""

from __future__ import annotations

from urllib.parse import urlencode

from hetune.clients.http.call import ServiceCall, path_segment
from hetune.clients.http.wire import reads
from hetune.service.core.cost_models.documents import (
    CostModelDocument,
    CostModelList,
    PromotedModel,
    RolledBack,
)
from hetune.service.core.formats.documents import parse

_MODELS = "/v1/cost-models"
_PAGE = "text/html"


def list() -> ServiceCall[CostModelList]:
    """All of them, which are candidate and champion, and the history of that."""
    return ServiceCall("GET", _MODELS, reads(CostModelList))


def get(name: str) -> ServiceCall[CostModelDocument]:
    """One of them.

    Raises:
        NotFoundError: There is none of that name.
    """
    return ServiceCall("GET", _path(name), reads(CostModelDocument))


def card(name: str) -> ServiceCall[str]:
    """The page about it, as HTML.

    Raises:
        NotFoundError: There is no such model, or no page about it.
    """
    return ServiceCall("GET", _path(name, "card"), lambda response: response.text, accept=_PAGE)


def promote(name: str = "candidate", *, machine: str | None = None) -> ServiceCall[PromotedModel]:
    """Makes it the champion, unless it loses. It is not sent again where it may have been heard.

    Args:
        name: Id or alias.
        machine: Digest of the machine whose measurements it is judged on; by default that
            which it was trained on.

    Raises:
        NotFoundError: There is no such model.
        PromotionError: It loses, or there is nothing to judge it on.
    """
    query = "" if machine is None else f"?{urlencode({'machine': machine})}"
    return ServiceCall(
        "POST",
        f"{_path(name, 'promote')}{query}",
        reads(PromotedModel),
        is_repeatable=False,
    )


def rollback() -> ServiceCall[str | None]:
    """Makes the champion before the present one the champion again; its id.

    It is not sent again where it may have been heard: twice goes back two champions.

    Returns:
        None where it is the model in the package.

    Raises:
        PromotionError: There is no champion.
    """
    return ServiceCall(
        "POST",
        f"{_MODELS}/rollback",
        lambda response: parse(RolledBack, response.content).champion,
        is_repeatable=False,
    )


def _path(name: str, *more: str) -> str:
    return "/".join((_MODELS, path_segment(name), *more))
