import math

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from loopai_trainer.errors import ConfigError
from loopai_trainer.rules import yaml_text

TRAPS = [
    "1e-5", "1e5", "1.0e5", "0o17", "017", "0x1f", "1_000", "1:30", "2024-01-01", "2024-01-01T00:00:00Z", "yes", "No",
    "on", "OFF", "y", "N", "true", "null", "~", "", " x", "x ", ".nan", ".inf", "-.inf", "=", "<<", "- a", "a: b", "a #b",
    "#a", "@a", "`a", "%a", "!a", "&a", "*a", "it's", 'say "hi"', "a\nb", "a\tb", "中文", "中文: 值", "\u2028", "[a]", "{a}",
]  # fmt: skip


@pytest.mark.parametrize("text", TRAPS)
def test_text_that_looks_like_something_else_stays_text(text):
    dumped = yaml_text.dump({"key": text})
    assert yaml_text.load(dumped, "x").values == {"key": text}
    assert yaml.safe_load(dumped) == {"key": text}


@given(st.floats())
def test_floats_survive_both_readers(number):
    dumped = yaml_text.dump({"key": number})
    for got in (yaml_text.load(dumped, "x").values["key"], yaml.safe_load(dumped)["key"]):
        assert isinstance(got, float)
        assert got == number or (math.isnan(got) and math.isnan(number))


plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(st.characters(codec="utf-8")),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(st.characters(codec="utf-8")), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(st.dictionaries(st.text(st.characters(codec="utf-8")), plain, max_size=5))
def test_what_is_dumped_is_read_the_same_or_refused_as_interpolation(values):
    dumped = yaml_text.dump(values)
    assert yaml_text.dump(values) == dumped
    assert yaml.safe_load(dumped) == values
    try:
        assert yaml_text.load(dumped, "x").values == values
    except ConfigError as error:
        assert {problem.code for problem in error.problems} <= {"INTERPOLATION"}


def test_numbers_are_read_as_omegaconf_reads_them():
    text = "a: 1e-5\nb: 1e5\nc: 2024-01-01\nd: no\ne: .5\nf: 1.5\ng: 12\n"
    values = yaml_text.load(text, "x").values
    assert values == {"a": 1e-5, "b": 1e5, "c": "2024-01-01", "d": False, "e": 0.5, "f": 1.5, "g": 12}


@pytest.mark.parametrize(
    ("text", "code", "line"),
    [
        ("a: 1\nb: 2\na: 3\n", "DUPLICATE_KEY", 3),
        ("a: 1\nb: ${oc.env:HOME}\n", "INTERPOLATION", 2),
        ("a: ???\n", "INTERPOLATION", 1),
        ("- 1\n", "NOT_A_MAPPING", 1),
        ("", "NOT_A_MAPPING", 1),
        ("1: 2\n", "KEY_NOT_TEXT", 1),
        ("a: 1\n\tb: 2\n", "YAML_INVALID", 2),
        ("a: [1\n", "YAML_INVALID", 2),
        ("a: *x\n", "YAML_INVALID", 1),
        ("a: &x [*x]\n", "YAML_INVALID", None),
        ("a: 1\n---\nb: 2\n", "YAML_INVALID", 2),
        ("[" * 5000, "YAML_INVALID", 1),
        ("a: \x07", "YAML_INVALID", None),
    ],
)
def test_what_cannot_be_trusted_is_refused_with_its_line(text, code, line):
    with pytest.raises(ConfigError) as caught:
        yaml_text.load(text, "file.yaml")
    assert [(problem.code, problem.line) for problem in caught.value.problems] == [(code, line)]
    assert "file.yaml" in caught.value.message


def test_all_faults_are_reported_at_once():
    with pytest.raises(ConfigError) as caught:
        yaml_text.load("a: 1\na: ${x}\n", "file.yaml")
    assert [problem.code for problem in caught.value.problems] == ["DUPLICATE_KEY", "INTERPOLATION"]


def test_alias_bombs_are_refused():
    text = "a: &a [x, x, x, x, x, x, x, x, x, x]\n"
    for previous, name in zip("abcdef", "bcdefg", strict=True):
        text += f"{name}: &{name} [{', '.join(['*' + previous] * 10)}]\n"
    with pytest.raises(ConfigError, match="nodes"):
        yaml_text.load(text, "file.yaml")


def test_lines_of_nested_keys():
    assert yaml_text.load("a:\n  b: 1\n  c:\n    d: 2\n", "x").lines == {"a": 1, "a.b": 2, "a.c": 3, "a.c.d": 4}
