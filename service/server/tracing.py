"""Traces of requests for OpenTelemetry, of which nothing is imported unless they are wanted."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

import hetune
from hetune.service.core.inference.steps import request_tracer
from hetune.service.http.asgi import App, Event, Receive, Scope, Send
from hetune.service.http.observe import METHODS, UNMATCHED, template_of
from hetune.service.http.route_scopes import is_public
from hetune.variants.errors import InputError
from hetune.variants.extras import installing

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.trace import Tracer

_ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
_EXPORTER = "OTEL_TRACES_EXPORTER"
_PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
_HTTP = "http/protobuf"
_NANOSECONDS = 1e9
_MOST_HEADERS = {b"traceparent": 55, b"tracestate": 512}
_SERVER_ERROR = 500


def is_wanted(asked: bool | None, environment: Mapping[str, str]) -> bool:
    """Whether requests shall be traced.

    Args:
        asked: By an option; None where it was not given: then the environment decides.
        environment: `OTEL_SDK_DISABLED`, `OTEL_TRACES_EXPORTER` and the endpoints of OTLP count.
    """
    if environment.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return False
    exporter = environment.get(_EXPORTER, "").strip().lower()
    if exporter == "none" or asked is False:
        return False
    return bool(asked or exporter or any(environment.get(name) for name in _ENDPOINTS))


def open_tracing(environment: Mapping[str, str]) -> TracerProvider:
    """Sends spans where the environment says, in a thread of its own. Shut it down in the end.

    OpenTelemetry's own variables count: `OTEL_EXPORTER_OTLP_*`, `OTEL_SERVICE_NAME`,
    `OTEL_RESOURCE_ATTRIBUTES`, `OTEL_TRACES_SAMPLER`, `OTEL_BSP_*` and `OTEL_SPAN_*`.

    Args:
        environment: Says where to: over OTLP, or to the console.

    Raises:
        InputError: Packages are missing, or it names an exporter or protocol that there is none of.
    """
    exporter = environment.get(_EXPORTER, "").strip().lower() or "otlp"
    protocol = next((environment[name] for name in _PROTOCOLS if environment.get(name)), _HTTP)
    if exporter not in ("otlp", "console"):
        raise InputError(f"{_EXPORTER} is {exporter!r}: set it to otlp, console or none")
    if exporter == "otlp" and protocol != _HTTP:
        raise InputError(f"{_PROTOCOLS[0]} is {protocol!r}: only {_HTTP} is supported")
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter
    except ModuleNotFoundError as error:
        raise InputError(
            f"tracing needs more packages: {installing('tracing')} ({error.name} is missing)"
        ) from error
    facts = {"service.version": hetune.__version__}
    if not environment.get("OTEL_SERVICE_NAME"):
        facts["service.name"] = "hetune"
    provider = TracerProvider(resource=Resource.create(facts))
    sink = ConsoleSpanExporter() if exporter == "console" else OTLPSpanExporter()
    provider.add_span_processor(BatchSpanProcessor(sink))
    return provider


class RequestTracing:
    """Traces every request but probes, as a part of its client's trace if it names one.

    The answer's header `traceparent` names the span. Spans hold templates of routes, statuses,
    names of errors, layers, variants and the request's id: nothing else that a client sent.

    Args:
        app: What answers.
        tracer: Makes spans.
    """

    def __init__(self, app: App, tracer: Tracer) -> None:
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        self._app, self._tracer = app, tracer
        self._propagator = TraceContextTextMapPropagator()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serves an ASGI event."""
        if scope["type"] != "http" or is_public(scope["method"], scope["path"]):
            await self._app(scope, receive, send)
            return
        from opentelemetry.trace import SpanKind, Status, StatusCode, set_span_in_context

        method = scope["method"] if scope["method"] in METHODS else "_OTHER"
        parent = self._propagator.extract(_given(scope))
        attributes = {"http.request.method": method}
        span = self._tracer.start_span(method, parent, SpanKind.SERVER, attributes)
        carrier: dict[str, str] = {}
        context = set_span_in_context(span)
        self._propagator.inject(carrier, context)
        headers = [(name.encode(), value.encode("latin-1")) for name, value in carrier.items()]
        status = 0

        async def noted(event: Event) -> None:
            nonlocal status
            if event["type"] == "http.response.start":
                status = event["status"]
                event["headers"] = [*event.get("headers", ()), *headers]
            await send(event)

        token = request_tracer.set(_Spans(self._tracer, context))
        try:
            await self._app(scope, receive, noted)
        finally:
            request_tracer.reset(token)
            route, failure = template_of(scope), scope["state"].get("failure")
            span.set_attribute("hetune.request_id", scope["state"]["request_id"])
            if route != UNMATCHED:
                span.update_name(f"{method} {route}")
                span.set_attribute("http.route", route)
            span.set_attribute("http.response.status_code", status)
            if failure is not None:
                span.set_attribute("error.type", failure)
            if status >= _SERVER_ERROR or status == 0:
                span.set_status(Status(StatusCode.ERROR))
            span.end()


class _Spans:
    """Makes spans of a request's steps, each within the request's own."""

    def __init__(self, tracer: Tracer, context: Context) -> None:
        self._tracer, self._context = tracer, context

    @contextmanager
    def step(self, name: str, facts: dict[str, str | int | float]) -> Iterator[None]:
        """A step while it lasts; an error that ends it is named."""
        attributes = {f"hetune.{key}": value for key, value in facts.items()}
        span = self._tracer.start_span(name, self._context, attributes=attributes)
        try:
            yield
        except BaseException as error:
            span.set_attribute("error.type", type(error).__name__)
            raise
        finally:
            span.end()

    def waited(self, name: str, seconds: float) -> None:
        """A step that has just ended."""
        now = time.time_ns()
        start = now - int(seconds * _NANOSECONDS)
        self._tracer.start_span(name, self._context, start_time=start).end(now)


def _given(scope: Scope) -> dict[str, str]:
    """The headers that name a client's trace, where each is there once and is not too long."""
    found = {}
    for name, most in _MOST_HEADERS.items():
        values = [value for key, value in scope["headers"] if key == name]
        if len(values) == 1 and len(values[0]) <= most:
            found[name.decode()] = values[0].decode("latin-1")
    return found
