import re
import string
from pathlib import Path

import pytest

import loopai_trainer
from loopai_trainer import backends
from loopai_trainer.cli import list_view
from loopai_trainer.operations import overview
from loopai_trainer.rules import messages, settings

PAGES = [(f"{page}.{name}", *texts) for page, table in messages.tables().items() for name, texts in table.items()]
PACKAGE = Path(loopai_trainer.__file__).parent


def places(text):
    return {name for _, name, _, _ in string.Formatter().parse(text) if name is not None}


@pytest.mark.parametrize(("name", "english", "chinese"), PAGES, ids=[page[0] for page in PAGES])
def test_both_languages_say_it_with_the_same_values(name, english, chinese):
    assert places(english) == places(chinese)
    assert english.strip() and chinese.strip()
    assert english.isascii()
    values = {place: place for place in places(english)}
    for language, text in (("en", english), ("zh", chinese)):
        assert messages.speaker(language)(name, **values) == text.format(**values)


def test_every_text_that_is_spoken_is_written_and_every_written_one_is_spoken():
    speakers = [*PACKAGE.glob("cli/*.py"), PACKAGE / "operations" / "guide.py", PACKAGE / "operations" / "approve.py"]
    said = "".join(path.read_text() for path in speakers)
    names = {name for name, _, _ in PAGES}
    asked = set(re.findall(r"""["'](guide\.\w+|approval\.\w+|overview\.\w+)["']""", said))
    # A finding's severity completes the name, and what the overview lists.
    listed = (*list_view._KINDS, *list_view._COLUMNS, *overview.FIRST_STEPS)
    assert asked | {"approval.error", "approval.warning"} | {f"overview.{name}" for name in listed} == names


@pytest.mark.parametrize(
    ("told", "language"),
    [("zh", "zh"), ("zh_CN.UTF-8", "zh"), ("Chinese", "zh"), ("中文", "zh"), ("en", "en"), ("fr", "en"), ("", "en"), (None, "en")],
)  # fmt: skip
def test_the_language_that_is_meant(told, language):
    assert messages.language_of(told) == language


def test_every_setting_has_its_help_in_chinese():
    fields = [*settings.GENERAL, *backends.get("llamafactory", "sft").fields(), *backends.get("verl", "grpo").fields()]
    for field in fields:
        assert messages.field_help("en", field.name, field.help) == field.help
        chinese = messages.field_help("zh", field.name, field.help)
        assert re.search(r"[\u4e00-\u9fff]", chinese), f"{field.name} has no Chinese help"
    assert messages.field_help("zh", "of_another_backend", "its help") == "its help"
