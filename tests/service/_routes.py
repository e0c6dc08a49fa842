"""All routes of an application, those that its description leaves out, too."""

import re
from collections.abc import Iterator

from fastapi import FastAPI, routing


def every_route(app: FastAPI) -> Iterator[tuple[str, str]]:
    """Method and path of each, parameters by name."""
    # FastAPI's newer versions keep routers as they are, older ones copy their routes.
    unfold = getattr(routing, "iter_route_contexts", iter)
    for route in unfold(app.routes):
        methods = getattr(route, "methods", None)
        if methods is None:  # a folder of files
            yield "GET", f"{route.path.rstrip('/')}/{{path:path}}"
        for method in sorted(set(methods or ()) - {"HEAD"}):
            yield method, route.path


def concrete(path: str) -> str:
    """A path with 1 for every parameter."""
    return re.sub("{.*?}", "1", path)
