"""Model cards as HTML: their Markdown is printed, and no HTML in it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token

_TITLE = re.compile(r"\A# .*\n")
_PICTURE = re.compile(r"[a-z_-]+\.png")
_PICTURES = "pictures"


def html_of(markdown: str, url: str) -> str:
    """A card without its title.

    Args:
        markdown: What `hetune.costmodel.evaluate.card` writes.
        url: Of the cost model's page, below which the card's pictures are.
    """
    return str(_MARKDOWN.render(_TITLE.sub("", markdown), {_PICTURES: f"{url}/pictures"}))


class _CardRenderer(RendererHTML):
    """HTML that fits the page: tables scroll, columns are named, pictures have their address."""

    def table_open(self, *_: object) -> str:
        return '<div class="scroll" role="region" aria-label="Table" tabindex="0"><table>'

    def table_close(self, *_: object) -> str:
        return "</table></div>"

    def th_open(self, tokens: Sequence[Token], idx: int, *_: object) -> str:
        return f'<th scope="col"{_aligned(tokens[idx])}>'

    def td_open(self, tokens: Sequence[Token], idx: int, *_: object) -> str:
        return f"<td{_aligned(tokens[idx])}>"

    def image(self, tokens: Sequence[Token], idx: int, options: Any, env: Any) -> str:
        source = str(tokens[idx].attrs["src"])
        if not _PICTURE.fullmatch(source):
            return ""
        tokens[idx].attrs |= {"src": f"{env[_PICTURES]}/{source}", "loading": "lazy"}
        return super().image(tokens, idx, options, env)


def _aligned(cell: Token) -> str:
    return ' class="n"' if cell.attrs else ""  # the page's headers forbid styles


_MARKDOWN = MarkdownIt("commonmark", {"html": False}, renderer_cls=_CardRenderer).enable("table")
