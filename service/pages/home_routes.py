"""The overview, and what every page needs: its files, the theme, logging in and out."""

from __future__ import annotations

from pathlib import PurePath

from fastapi import APIRouter, HTTPException, Request, Response
from fastapi.responses import RedirectResponse

from hetune.service.http.dispatcher import Dispatcher
from hetune.service.pages.forms import read_form
from hetune.service.pages.login_rate_limit import LoginRateLimit
from hetune.service.pages.overview import overview_of
from hetune.service.pages.page_requests import HOME, LOGIN, local
from hetune.service.pages.render import MEDIA_TYPES, THEME_COOKIE, THEMES, page, static
from hetune.service.pages.sessions import COOKIE, SECONDS, Sessions

_SEE_OTHER, _UNAUTHORIZED = 303, 401
_YEAR = 365 * 24 * 3600
_STATIC_HEADERS = {
    "Cache-Control": "public, max-age=31536000, immutable",  # the address names the content
    "X-Content-Type-Options": "nosniff",
}


def router(work: Dispatcher, sessions: Sessions) -> APIRouter:
    """The routes."""
    routes = APIRouter(include_in_schema=False)
    service, attempts = work.service, LoginRateLimit()

    @routes.get(HOME)
    async def overview(request: Request) -> Response:
        """How the service is, what it keeps, what it has done."""
        return await work.in_database(lambda: page(request, "overview", found=overview_of(service)))

    @routes.get("/ui/static/{name}")
    def static_file(name: str) -> Response:
        """A file that pages load."""
        try:
            content = static(name)
        except FileNotFoundError:
            raise HTTPException(404, "pages load no such file") from None
        kind = MEDIA_TYPES[PurePath(name).suffix]
        return Response(content, media_type=kind, headers=_STATIC_HEADERS)

    @routes.post("/ui/theme")
    async def set_theme(request: Request) -> Response:
        """Remembers how pages shall look, and goes back."""
        form = await read_form(request, service.limits)
        theme = form.one_of("theme", THEMES)
        answer = RedirectResponse(local(form.text("next")), _SEE_OTHER)
        answer.set_cookie(THEME_COOKIE, theme, _YEAR, httponly=True, samesite="strict")
        return answer

    @routes.get(LOGIN)
    def ask_for_key(request: Request, next: str = HOME) -> Response:
        """A form that asks for a key."""
        if sessions.is_open():
            return RedirectResponse(local(next), _SEE_OTHER)
        return page(request, "login", next=local(next), is_wrong=False)

    @routes.post(LOGIN)
    async def log_in(request: Request) -> Response:
        """Begins a session, if the key is good."""
        attempts.record(request.scope)
        form = await read_form(request, service.limits)
        target = local(form.text("next"))
        id = sessions.begin(form.text("key"))
        if id is None:
            request.state.failure = "AccessError"
            return page(request, "login", _UNAUTHORIZED, next=target, is_wrong=True)
        answer = RedirectResponse(target, _SEE_OTHER)
        answer.set_cookie(
            COOKIE,
            id,
            SECONDS,
            secure=request.url.scheme == "https",
            httponly=True,
            samesite="strict",
        )
        return answer

    @routes.post("/ui/logout")
    def log_out(request: Request) -> Response:
        """Ends the session."""
        sessions.end(request.scope)
        answer = RedirectResponse(LOGIN, _SEE_OTHER)
        answer.delete_cookie(COOKIE, httponly=True, samesite="strict")
        return answer

    return routes
