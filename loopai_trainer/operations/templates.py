"""templates: what is bundled."""

from __future__ import annotations

from loopai_trainer.files.templates import list_templates
from loopai_trainer.operations.answer import Answer


def templates() -> Answer:
    """Name, stage, path and title of every bundled template."""
    return Answer("templates", {"templates": [dict(template._asdict()) for template in list_templates()]})
