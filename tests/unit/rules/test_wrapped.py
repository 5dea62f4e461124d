import pytest

from loopai_trainer.rules import wrapped


@pytest.mark.parametrize(
    ("value", "name"),
    [(True, "bool"), (3, "int"), (0.5, "float"), ("x", "str"), ({"a": 1}, "dict"), ([1], "list"), (None, "none")],
)
def test_a_value_comes_out_of_its_wrapper_as_it_went_in(value, name):
    made = wrapped.wrap(value)
    assert made == {"value": value, "default_value": value, "type": name}
    assert wrapped.unwrap(made) == value
    assert wrapped.unwrap({**made, "title": "shown to people"}) == value
    assert wrapped.unwrap({"value": value, "type": name}) == value


@pytest.mark.parametrize(
    "mapping",
    [
        {"value": 3},
        {"value": 3, "type": "str"},
        {"value": "3", "type": 7},
        {"value": 3, "type": "int", "scale": 2},
        {"type": "int", "default_value": 3},
        {},
    ],
)
def test_a_mapping_that_happens_to_have_a_value_is_no_wrapper(mapping):
    assert wrapped.unwrap(mapping) is mapping
    assert wrapped.unwrapped({"verl_reward_kwargs": mapping}) == {"verl_reward_kwargs": mapping}


def test_a_field_keeps_the_form_in_which_it_was_stored():
    stored = {"value": 1, "default_value": 0, "type": "int", "title": "Steps"}
    assert wrapped.rewrapped(stored, "a") == {"value": "a", "default_value": 0, "type": "str", "title": "Steps"}
    assert wrapped.rewrapped({"value": 3}, 4) == 4
    assert wrapped.rewrapped(None, {"a": 1}) == {"a": 1}


@pytest.mark.parametrize(
    ("results", "file"),
    [
        ({"output_file": "/d.jsonl"}, "/d.jsonl"),
        (wrapped.wrap({"output_file": "/d.jsonl"}), "/d.jsonl"),
        ({"output_file": wrapped.wrap("/d.jsonl")}, "/d.jsonl"),
        ('{"output_file": "/d.jsonl"}', "/d.jsonl"),
        ("{'output_file': '/d.jsonl', 'failed_records': None}", "/d.jsonl"),
        ({"output_file": ""}, None),
        ({"output_file": ["/d.jsonl"]}, None),
        ({"output_dir": "/d"}, None),
        ("__import__('os').getcwd()", None),
        ("no mapping", None),
        ("[1]", None),
        (None, None),
    ],
)
def test_the_file_that_another_agent_has_made(results, file):
    assert wrapped.output_file(results) == file
