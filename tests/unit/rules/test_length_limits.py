import pytest

from loopai_trainer.errors import SettingsError
from loopai_trainer.records import Settings
from loopai_trainer.rules.length_limits import LengthLimits, of_plan, of_settings, to_plan


def test_defaults_leave_no_trace_in_the_plan():
    assert of_settings(Settings({}, {})) == LengthLimits(0.05, 20_000, False)
    assert of_settings(Settings({"max_cut_share": 0.05, "length_sample": "20000"}, {})) == LengthLimits()
    assert to_plan(LengthLimits()) == {}
    assert of_plan({}) == (LengthLimits(), [])


@pytest.mark.parametrize(
    "limits", [LengthLimits(0.5), LengthLimits(length_sample=None), LengthLimits(0.0, 7, allow_template_mismatch=True)]
)
def test_what_differs_stands_in_the_plan_and_comes_back(limits):
    assert of_plan({"checks": to_plan(limits)}) == (limits, [])


def test_all_is_a_word():
    assert of_settings(Settings({"length_sample": " ALL "}, {})).length_sample is None


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("max_cut_share", 1.1), ("max_cut_share", -0.1), ("max_cut_share", True), ("max_cut_share", float("nan")),
        ("length_sample", "0"), ("length_sample", "many"), ("length_sample", "-5"), ("length_sample", True),
        ("allow_template_mismatch", "yes"),
    ],
)  # fmt: skip
def test_values_outside_their_range_are_refused(name, value):
    with pytest.raises(SettingsError) as caught:
        of_settings(Settings({name: value}, {}))
    assert caught.value.problems[0].field == name
    limits, problems = of_plan({"checks": {name: value}})
    assert limits == LengthLimits()
    assert [(p.severity, p.code, p.field) for p in problems] == [
        ("error", "LENGTH_LIMIT_INVALID", f"loopai.checks.{name}")
    ]


def test_an_edited_block_of_another_form_is_refused():
    assert of_plan({"checks": 3})[1][0].field == "loopai.checks"
    assert "is not one of max_cut_share" in of_plan({"checks": {"max_cut": 1}})[1][0].message
