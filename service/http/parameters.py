"""Parameters in paths, as OpenAPI has them. The core checks them, whoever calls it."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Path

from hetune.service.core.graphs.graph_files import FEATURES_PATTERN, ID_PATTERN
from hetune.service.core.models.aliases import ALIAS_PATTERN, SEPARATOR
from hetune.service.core.models.models import LATEST, NAME_PATTERN
from hetune.service.core.runs.runs import RUN_PATTERN

GraphId = Annotated[str, Path(json_schema_extra={"pattern": f"^{ID_PATTERN}$"})]
FeaturesName = Annotated[str, Path(json_schema_extra={"pattern": f"^{FEATURES_PATTERN}$"})]
RunId = Annotated[str, Path(json_schema_extra={"pattern": f"^{RUN_PATTERN}$"})]
ModelName = Annotated[str, Path(json_schema_extra={"pattern": f"^{NAME_PATTERN}$"})]
AliasName = Annotated[str, Path(json_schema_extra={"pattern": f"^{ALIAS_PATTERN}$"})]
_REFERENCE = f"^{NAME_PATTERN}({SEPARATOR}{ALIAS_PATTERN})?$"
ModelReference = Annotated[str, Path(json_schema_extra={"pattern": _REFERENCE})]
"""A model's name, or ``name@alias``."""
MODEL_REFERENCE: dict[str, Any] = {
    "name": "name",
    "in": "path",
    "required": True,
    "schema": {"type": "string", "pattern": _REFERENCE, "title": "Name"},
}
"""`ModelReference` of a route that reads its path itself, which takes FastAPI a tenth of a
millisecond."""
VersionNumber = Annotated[int, Path(json_schema_extra={"minimum": 1, "maximum": LATEST})]
