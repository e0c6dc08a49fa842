"""Passes on the trace that a program is in, if it traces by OpenTelemetry."""

from __future__ import annotations

import sys


def trace_headers() -> dict[str, str]:
    """W3C's `traceparent` and `tracestate` of the span that is current; none where there is none.

    Imports nothing unless the program has.
    """
    if "opentelemetry.trace" not in sys.modules:
        return {}
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    found: dict[str, str] = {}
    TraceContextTextMapPropagator().inject(found)
    return found
