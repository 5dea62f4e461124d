"""The frame of every HTML page: one file that asks the network for nothing, and runs no script but its own."""

from __future__ import annotations

import base64
import hashlib
import json
from importlib import resources
from typing import Any, NamedTuple

from loopai_trainer.results.html_text import Html, element, escaped
from loopai_trainer.version import __version__

CURVES = "curves"
"""The id of the element that the curves are drawn into."""


class Drawing(NamedTuple):
    """Curves for the page: the drawing library's own script, and what it is to draw (strict JSON)."""

    library: str
    item: dict[str, Any]


def document(title: str, body: Html, drawing: Drawing | None = None) -> str:
    """A whole page. Scripts are allowed by their hashes alone, so that text which got in would not run either."""
    scripts = [] if drawing is None else [drawing.library, _own("page.js")]
    head = [
        Html('<meta charset="utf-8">'),
        Html(f'<meta http-equiv="Content-Security-Policy" content="{_policy(scripts)}">'),
        Html('<meta name="viewport" content="width=device-width, initial-scale=1">'),
        Html('<meta name="referrer" content="no-referrer">'),
        Html(f'<meta name="generator" content="loopai-trainer {escaped(__version__)}">'),
        element("title", title),
        Html(f"<style>\n{_own('page.css')}</style>"),
    ]
    tail = [] if drawing is None else [_data(drawing.item), *map(_script, scripts)]
    lines = [element("head", head), Html(f"<body>\n{body}\n{''.join(tail)}</body>")]
    return "<!DOCTYPE html>\n" + f'<html lang="en">\n{"".join(lines)}\n</html>\n'


def _policy(scripts: list[str]) -> str:
    hashes = " ".join(f"'sha256-{_digest(script)}'" for script in scripts) or "'none'"
    # Styles are the page's and the library's own, which sets them from its script.
    return f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; img-src data:; base-uri 'none'"


def _digest(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


def _script(script: str) -> Html:
    return Html(f"<script>{script}</script>")


def _data(item: dict[str, Any]) -> Html:
    # "<" is written as JSON's own escape: no text in it can then end the element or begin another.
    text = json.dumps(item, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")
    return Html(f'<script type="application/json" id="curve-data">{text}</script>')


def _own(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text(encoding="utf-8")
