"""docs: what the installed version says of itself, page by page."""

from __future__ import annotations

from loopai_trainer.errors import NotFound
from loopai_trainer.files import skill_pages
from loopai_trainer.operations.answer import Answer

EXIT_CODES = "exit-codes"
"""The one topic that is a section of another page."""


def docs(topic: str | None = None) -> Answer:
    """The text of that topic; without one, a line for every topic. Raises NotFound."""
    pages = skill_pages.pages()
    topics = (*pages, EXIT_CODES)
    if topic is None:
        text = "".join(f"trainer docs {name:<12} {_title(pages, name)}\n" for name in topics)
    elif topic in topics:
        text = _text(pages, topic)
    else:
        raise NotFound(f"there is no topic '{topic}'", hint=f"choose one of: {', '.join(topics)}")
    return Answer("docs", {"topic": topic, "text": text}, message=", ".join(topics))


def _text(pages: dict[str, str], topic: str) -> str:
    if topic != EXIT_CODES:
        return skill_pages.read_page(pages[topic])
    heading = "## Exit codes\n"
    rest = skill_pages.read_page(pages["skill"]).partition(heading)[2]
    return heading + rest.partition("\n## ")[0].rstrip("\n") + "\n"


def _title(pages: dict[str, str], topic: str) -> str:
    return _text(pages, topic).partition("\n")[0].lstrip("# ")
