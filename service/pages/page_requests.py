"""Which paths are pages, and whether a form is one of ours."""

from __future__ import annotations

from hetune.service.http.asgi import Scope, header

HOME = "/"
LOGIN = "/ui/login"
_SAFE = frozenset({"GET", "HEAD"})


def is_page(path: str) -> bool:
    """Whether a path is one of the pages, or would be."""
    return path == HOME or f"{path}/".startswith("/ui/")


def is_own(scope: Scope) -> bool:
    """Whether a request to a page changes nothing, or was made by one of these pages.

    A browser sends the cookie of a session with whatever form asks for it. So a form has to prove
    where it is from, by `Sec-Fetch-Site` or, where a browser sends none, by `Origin`: what says
    neither is refused.
    """
    if scope["method"] in _SAFE:
        return True
    site, origin = header(scope, b"sec-fetch-site"), header(scope, b"origin")
    if origin is not None and origin.partition("://")[2] != header(scope, b"host"):
        return False
    return site == "same-origin" if site is not None else origin is not None


def local(target: str) -> str:
    """A place to go on to: a page of this service, its home if something else was asked for."""
    path = target.partition("?")[0]
    is_plain = target.isascii() and target.isprintable() and "\\" not in target
    return target if is_plain and is_page(path) else HOME
