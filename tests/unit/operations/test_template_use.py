import pytest

from loopai_trainer.errors import ConfigError, NotFound, SettingsError, UsageError
from loopai_trainer.operations.template_use import as_planned, parse_override, use
from loopai_trainer.records import Settings


def settings(template, description="x", mode="rules"):
    values = {
        "train_input_config_template_path": str(template),
        "train_stage": "sft",
        "train_input_task_description": description,
        "config_mode": mode,
    }
    return Settings(values, {})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a=1", ("a", 1)), ("a=1e-5", ("a", 1e-5)), ("a='1'", ("a", "1")), ("a=true", ("a", True)), ("a=", ("a", None)),
        ("a=q_proj,v_proj", ("a", "q_proj,v_proj")), ("a.b=[1, 2]", ("a.b", [1, 2])), ("a=x=y", ("a", "x=y")),
    ],
)  # fmt: skip
def test_overrides_are_read_as_yaml(text, expected):
    assert parse_override(text) == expected


@pytest.mark.parametrize("text", ["a", "=1", "a=[1", "a=${x}", "loopai.format=2", "result=1", "a=b: c: d"])
def test_overrides_that_cannot_be_meant_are_refused(text):
    with pytest.raises(UsageError):
        parse_override(text)


def test_dotted_overrides_reach_into_mappings(tmp_path):
    template = tmp_path / "t.yaml"
    template.write_text("a:\n  b: 1\n  c: 2\nd: 3\n")
    found = use(settings(template), ["a.b=5", "x.y=6"])
    assert found.values == {"a": {"b": 5, "c": 2}, "d": 3, "x": {"y": 6}}
    assert [(change.key, change.before, change.after) for change in found.changes] == [("a.b", 1, 5), ("x.y", None, 6)]


@pytest.mark.parametrize("given", [["a.n=2"], ["m=x", "m.n=2"], ["m.n=1", "m.n.o=2"]])
def test_a_part_of_what_is_one_value_is_refused_and_does_not_replace_it(tmp_path, given):
    template = tmp_path / "t.yaml"
    template.write_text("a: name\nm: {name: y}\nnothing:\n")
    with pytest.raises(UsageError, match="holds no keys and would be lost"):
        use(settings(template), given)
    assert use(settings(template), ["m.n=2", "nothing.n=1"]).values["nothing"] == {"n": 1}


RENAMED = {"old": "a.n", "older": "a.n", "whole": "a"}


@pytest.mark.parametrize(
    ("given", "values"),
    [
        ([], {"a": {"n": 1, "m": 2}, "older": 3}),
        (["old=5"], {"a": {"m": 2}, "old": 5}),  # neither the present name nor another old one of the template counts
        (["old=5", "a.n=6"], {"a": {"n": 6, "m": 2}, "old": 5}),
        (["whole.x=1"], {"older": 3, "whole": {"x": 1}}),
        (["whole.x=1", "a.m=7"], {"a": {"n": 1, "m": 7}, "older": 3, "whole": {"x": 1}}),
    ],
)
def test_what_is_given_by_an_old_name_beats_the_templates_value(tmp_path, given, values):
    template = tmp_path / "t.yaml"
    template.write_text("a: {n: 1, m: 2}\nolder: 3\n")
    baseline = {"a": {"n": 1, "m": 2}, "older": 3}
    assert use(settings(template), given, renamed=RENAMED).values == values
    assert use(settings(template), given, renamed=RENAMED, baseline=baseline).values == values
    assert baseline == {"a": {"n": 1, "m": 2}, "older": 3}


def test_a_bundled_template_by_name_and_unknown_ones():
    assert use(settings("cpu_smoke_full"), []).values["use_cpu"] is True
    with pytest.raises(NotFound, match="cpu_smoke_full"):
        use(settings("no_such"), [])


def test_a_template_that_is_no_text(tmp_path):
    template = tmp_path / "t.yaml"
    template.write_bytes(b"a: \xff")
    with pytest.raises(ConfigError, match="UTF-8 at byte 3"):
        use(settings(template), [])


def test_no_language_model_is_asked_where_nothing_is_to_be_tuned():
    with pytest.raises(SettingsError, match=r"config_mode llm .* is for supervised fine-tuning"):
        use(settings("cpu_smoke_full", mode="llm"), [], tunes=False)


def test_a_key_that_was_set_twice_remembers_the_templates_value():
    found = use(settings("cpu_smoke_full"), ["seed=1", "seed=2"])
    (change,) = [change for change in found.changes if change.key == "seed"]
    assert (change.before, change.after) == (42, 2)


def test_devices_that_a_template_counts_otherwise_are_warned_of(tmp_path):
    """Case CFG-03A: the file asks for 8, two are visible."""
    file = tmp_path / "t.yaml"
    file.write_text("trainer:\n  n_gpus_per_node: 8\n  project_name: theirs\n")
    native = {"trainer": {"n_gpus_per_node": 2, "project_name": "ours"}}
    owned = {"trainer.n_gpus_per_node": "--devices", "trainer.project_name": "--task-id"}
    found = as_planned(use(settings(file), []), native, owned)
    assert [(one.code, one.message, one.hint) for one in found.warnings] == [
        (
            "VALUE_NOT_KEPT",
            "the template's trainer.n_gpus_per_node (8) is not kept: the plan has 2",
            "what sets it: --devices",
        )
    ]
    assert found.notes == [
        "the template's trainer.n_gpus_per_node (8) is not used; what sets it: --devices",
        "the template's trainer.project_name ('theirs') is not used; what sets it: --task-id",
    ]
