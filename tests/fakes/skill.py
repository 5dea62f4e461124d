"""The bundle for coding agents as its tests read it: files, code spans, and the lines that the program would write."""

import re
from collections.abc import Iterator
from pathlib import Path

from loopai_trainer.backends.agentlightning import fields as agentlightning
from loopai_trainer.backends.llamafactory_sft.fields import FIELDS as LLAMAFACTORY
from loopai_trainer.backends.verl_grpo.fields import FIELDS as VERL
from loopai_trainer.records import Field
from loopai_trainer.rules import sinks
from loopai_trainer.rules.settings import GENERAL

ROOT = Path(__file__).parents[2]
SKILL = ROOT / "skills" / "loopai-trainer"
REFERENCES = SKILL / "references"
PAGES = (SKILL / "SKILL.md", *sorted(REFERENCES.glob("*.md")))
_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
_SPAN = re.compile(r"`([^`\n]+)`")


def blocks(text: str, language: str = "bash") -> list[str]:
    """The fenced blocks of that language, in order, each without its fence."""
    return [body for word, body in _BLOCK.findall(text) if word == language]


def section(text: str, heading: str) -> str:
    """What stands under that heading, up to the next one of its own level or above; comments in blocks are none."""
    level = len(heading) - len(heading.lstrip("#"))
    _, found, rest = text.partition(f"{heading}\n")
    assert found, f"no section {heading!r}"
    lines, in_block = [], False
    for line in rest.splitlines(keepends=True):
        in_block ^= line.startswith("```")
        if not in_block and re.match(rf"#{{1,{level}}} ", line):
            break
        lines.append(line)
    return "".join(lines)


def spans(text: str) -> list[str]:
    """Every code span outside of fenced blocks."""
    return _SPAN.findall(_BLOCK.sub("", text))


def settings() -> dict[str, tuple[Field, ...]]:
    """Heading of config-keys.md -> the settings that its table lists, in the program's order."""
    shared = {field.name for field in sinks.fields()}
    return {
        "## All frameworks": GENERAL,
        "## LLaMA-Factory": _without(LLAMAFACTORY, shared),
        "## verl": _without(VERL, shared),
        "## Agent Lightning": _without(agentlightning.fields("grpo"), {field.name for field in GENERAL}),
        "## Further places for metrics (LLaMA-Factory and verl)": sinks.fields(),
    }


def setting_line(field: Field) -> str:
    """The line of config-keys.md that says what that setting is."""
    names = " ".join((*((f"`{field.flag}`",) if field.flag else ()), *(f"`{name}`" for name in field.env)))
    choices = f" ({', '.join(field.choices)})" if field.choices else ""
    default = (
        "" if field.default is None else f"`{str(field.default).lower() if field.kind == 'bool' else field.default}`"
    )
    return f"| `{field.name}` | {names} | {default} | {field.help}{choices} |"


def _without(fields: tuple[Field, ...], names: set[str]) -> tuple[Field, ...]:
    return tuple(field for field in fields if field.name not in names)


def codes(text: str) -> Iterator[str]:
    """Every word of the form of an error code, outside of environment variables' own columns."""
    yield from re.findall(r"(?<![\w$<-])[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+(?![\w>-])", text)
