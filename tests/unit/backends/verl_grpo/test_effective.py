import pytest

from loopai_trainer.backends.verl_grpo.effective import Effective, is_number, is_whole

DEFAULTS = {
    "a": {"n": 4, "same": "${a.n}", "beside": "${.n}", "select": "${oc.select:b.given,7}", "gone": "${oc.select:b.nowhere,7}"},
    "b": {
        "given": 5, "missing": "???", "off": "${oc.select:b.nowhere,false}", "null": "${oc.select:b.nowhere, null}",
        "nested": "${oc.select:b.nowhere,${oc.select:a.n,1}}", "round": "${b.trip}", "trip": "${b.round}", "odd": "${x:1,2}",
        "empty": "${oc.select:b.nowhere,[]}", "word": "${oc.select:b.nowhere,token-mean}", "list": ["x", "y"], "text": "z",
    },
}  # fmt: skip


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("a.n", 4), ("a.same", 4), ("a.beside", 4), ("a.select", 5), ("a.gone", 7), ("b.missing", None), ("b.off", False),
        ("b.null", None), ("b.nested", 4), ("b.round", None), ("b.odd", None), ("b.empty", []), ("b.word", "token-mean"),
        ("nowhere", None),
    ],
)  # fmt: skip
def test_defaults_and_interpolations(key, value):
    assert Effective({}, DEFAULTS).get(key) == value


def test_the_plan_s_own_value_goes_before_and_is_followed_to():
    values = Effective({"a": {"n": 9}, "b": {"given": None}}, DEFAULTS)
    assert [values.get(key) for key in ("a.n", "a.same", "a.beside", "a.select", "b.nested")] == [9, 9, 9, None, 9]


@pytest.mark.parametrize(
    ("value", "whole"), [(3, 3), (0, 1), (-1, 1), (2.0, 1), (True, 1), ("3", 1), (None, 1), (10**13, 1)]
)
def test_only_whole_numbers_above_zero_count(value, whole):
    assert Effective({"a": {"n": value}}, {}).whole("a.n", 1) == whole


def test_switches_and_names():
    values = Effective({}, DEFAULTS)
    assert not values.on("a.n")
    assert Effective({"x": True}, {}).on("x")
    assert (values.names("b.list"), values.names("b.text"), values.names("a.n")) == (("x", "y"), ("z",), ())


def test_what_can_be_computed_with():
    assert [is_whole(value) for value in (1, -1, True, 1.0, 10**12)] == [True, True, False, False, False]
    assert [is_number(value) for value in (1, 1.5, False, float("nan"), float("inf"), "1")] == [
        True,
        True,
        False,
        False,
        False,
        False,
    ]
