"""What people read in a language of theirs: one table a page, each text in English beside its Chinese. Pure.

Guide, approval view and overview (`trainer` alone) are spoken in both. Names of settings and YAML keys, codes, commands
and findings stay as they are: they are looked up, typed and searched for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal

from loopai_trainer.rules.messages import approval, guide, overview

Language = Literal["en", "zh"]
LANGUAGES: tuple[Language, ...] = ("en", "zh")
VARIABLE = "LOOPAI_TRAINER_LANGUAGE"

_TABLES: Mapping[str, Mapping[str, tuple[str, str]]] = {
    "approval": approval.TEXTS,
    "guide": guide.TEXTS,
    "overview": overview.TEXTS,
}

Say = Callable[..., str]
"""`say("guide.ready")`, `say("guide.missing", count=2)`: the text of that name, in one language."""


def language_of(name: str | None) -> Language:
    """The language that a setting, flag or locale means ('zh', 'zh_CN.UTF-8', 'Chinese'); English for all others."""
    told = (name or "").strip().lower()
    return "zh" if told.startswith(("zh", "chinese", "cn", "中")) else "en"


def speaker(language: Language) -> Say:
    """The texts in that language."""
    column = LANGUAGES.index(language)

    def say(name: str, /, **values: object) -> str:
        page, _, key = name.partition(".")
        return _TABLES[page][key][column].format(**values)

    return say


def field_help(language: Language, name: str, english: str) -> str:
    """What a setting is, for the guide; the English text of its table where no other one is written."""
    return guide.FIELD_HELP.get(name, english) if language == "zh" else english


def tables() -> Mapping[str, Mapping[str, tuple[str, str]]]:
    """All texts, by page and name: (English, Chinese)."""
    return _TABLES
