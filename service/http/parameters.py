"""Parameters in paths, as OpenAPI has them. The core checks them, whoever calls it."""

from __future__ import annotations

from typing import Annotated

from fastapi import Path

from hetune.service.core.graphs import ID_PATTERN
from hetune.service.core.models import LATEST, NAME_PATTERN

GraphId = Annotated[str, Path(json_schema_extra={"pattern": f"^{ID_PATTERN}$"})]
ModelName = Annotated[str, Path(json_schema_extra={"pattern": f"^{NAME_PATTERN}$"})]
VersionNumber = Annotated[int, Path(json_schema_extra={"minimum": 1, "maximum": LATEST})]
