"""The core over HTTP: routes, formats, limits, errors."""
