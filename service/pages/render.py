"""Pages from templates: everything is escaped, and a page may load nothing but what is ours."""

from __future__ import annotations

import functools
import hashlib
from pathlib import Path

import jinja2
from fastapi.responses import HTMLResponse
from starlette.requests import Request

import hetune
from hetune.service.pages.figures import FILTERS
from hetune.service.pages.page_requests import LOGIN
from hetune.service.pages.sessions import COOKIE as SESSION_COOKIE

THEMES = ("auto", "light", "dark")
THEME_COOKIE = "hetune_theme"
_FOLDER = Path(__file__).resolve().parent
_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; "
        "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    # Not "no-referrer": forms would come from the origin "null" then.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
MEDIA_TYPES = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
"""Of the files that pages load."""


def page(request: Request, template: str, /, status: int = 200, **context: object) -> HTMLResponse:
    """A page.

    Args:
        request: What it answers.
        template: Name of its template, without endings.
        status: Of the answer.
        context: What the template shows.
    """
    query = f"?{request.url.query}" if request.url.query else ""
    theme = request.cookies.get(THEME_COOKIE, THEMES[0])
    text = (
        _environment()
        .get_template(f"{template}.html.j2")
        .render(
            context
            | {
                "here": request.url.path,
                "back": request.url.path + query,
                "theme": theme if theme in THEMES else THEMES[0],
                "themes": THEMES,
                "has_session": SESSION_COOKIE in request.cookies,
                # With a session alone a browser gets nothing of the API.
                "shows_api": SESSION_COOKIE not in request.cookies and request.url.path != LOGIN,
                "version": hetune.__version__,
            }
        )
    )
    return HTMLResponse(text, status, headers=_HEADERS)


@functools.cache
def static(name: str) -> bytes:
    """A file that pages load.

    Raises:
        FileNotFoundError: There is none of that name.
    """
    known = {path.name: path for path in (_FOLDER / "static").iterdir()}
    if name not in known or known[name].suffix not in MEDIA_TYPES:
        raise FileNotFoundError(name)
    return known[name].read_bytes()


def static_url(name: str) -> str:
    """Where a browser finds such a file: another address for another content."""
    return f"/ui/static/{name}?v={hashlib.sha256(static(name)).hexdigest()[:12]}"


@functools.cache
def _environment() -> jinja2.Environment:
    found = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_FOLDER / "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.filters.update(FILTERS)
    found.globals["static_url"] = static_url
    return found
