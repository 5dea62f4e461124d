"""HTML that is escaped by construction: whatever is no `Html` is text, and unseen characters in it are spelt out."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence

from loopai_trainer.rules.visible_text import visible


class Html(str):
    """Text that is HTML already. Made by this module alone."""

    __slots__ = ()


Content = object
"""An `Html` as it is, None as nothing, a list or tuple piece by piece, anything else as its escaped text."""


def escaped(content: Content) -> Html:
    """The content as HTML."""
    if isinstance(content, Html):
        return content
    if content is None:
        return Html("")
    if isinstance(content, (list, tuple)):
        return Html("".join(map(escaped, content)))
    return Html(html.escape(visible(str(content)), quote=True))


def element(name: str, *content: Content, **attributes: str | bool | None) -> Html:
    """`<name attributes>content</name>`; `class_` is written `class`, False and None leave an attribute out."""
    told = "".join(_attribute(key, value) for key, value in attributes.items())
    return Html(f"<{name}{told}>{escaped(list(content))}</{name}>")


def image(source: str, alternative: str) -> Html:
    """`<img>`, the only element here that has no end."""
    return Html(f"<img{_attribute('src', source)}{_attribute('alt', alternative)}>")


def table(head: Sequence[Content], rows: Iterable[Sequence[Content]], *, marked: int | None = None) -> Html:
    """A table that scrolls sideways in itself; `marked`: the row that stands out."""
    body = [
        element("tr", [element("td", cell) for cell in row], class_="marked" if index == marked else None)
        for index, row in enumerate(rows)
    ]
    titles = element("thead", element("tr", [element("th", title, scope="col") for title in head]))
    return element("div", element("table", titles, element("tbody", body)), class_="wide", tabindex="0")


def facts(pairs: Iterable[tuple[str, Content]]) -> Html:
    """Names and values; a value of None is a dash."""
    rows = [(element("dt", name), element("dd", "-" if value is None else value)) for name, value in pairs]
    return element("dl", [element("div", row) for row in rows])


def section(title: str, *content: Content) -> Html:
    """A headed part of a page; nothing if there is no content."""
    held = escaped(list(content))
    return element("section", element("h2", title), held) if held else Html("")


def folded(title: str, *content: Content) -> Html:
    """What opens on a click."""
    return element("details", element("summary", title), *content)


def _attribute(name: str, value: str | bool | None) -> str:
    if value is None or value is False:
        return ""
    name = name.rstrip("_").replace("_", "-")
    return f" {name}" if value is True else f' {name}="{escaped(value)}"'
