import pytest
from fakes.agent_plans import drafted

from loopai_trainer.backends.agentlightning import keys


def test_every_component_stands_in_the_plan_with_its_defaults(tmp_path):
    native = drafted("dev", tmp_path)
    assert [native[kind] and native[kind]["name"] for kind in keys.COMPONENTS] == [
        *("baseline", "memory", "agent", "otel", "triplet", "client_server", None)
    ]
    assert native["strategy"] == {"name": "client_server", "n_runners": 1, "port": 0}
    assert native["tasks"] == {"train": str(tmp_path / "prepared_data" / "train.jsonl")}


def test_the_defaults_are_those_of_the_specification(tmp_path):
    bare = dict.fromkeys(("algorithm", "tracer", "adapter", "strategy", "limits"))
    native = drafted("dev", tmp_path, **bare)
    named = {kind: native[kind] and native[kind]["name"] for kind in keys.COMPONENTS}
    assert named == {
        "algorithm": "baseline",
        "store": "memory",
        "runner": "agent",
        "tracer": "agentops",
        "adapter": "triplet",
        "strategy": "client_server",
        "llm_proxy": None,
    }
    assert native["limits"] == {"rollout_s": 300, "wall_s": 3600, "rollouts": 0}


def test_a_prompt_search_names_endpoint_key_and_validation_tasks(tmp_path):
    native = drafted("apo", tmp_path)
    assert native["llm"]["api_key_env"] == "OPENAI_API_KEY"
    assert native["adapter"] == {"name": "messages"}
    assert set(native["tasks"]) == {"train", "validation"}
    assert "val_size" not in native


@pytest.mark.parametrize(
    ("given", "key", "value"),
    [
        ({"n_workers": 3, "strategy": "cs"}, "strategy", {"name": "client_server", "n_runners": 3, "port": 0}),
        (
            {"n_runners": 2, "strategy": {"name": "cs"}},
            "strategy",
            {"name": "client_server", "n_runners": 2, "port": 0},
        ),
        (
            {"port": 4747, "strategy": {"name": "cs", "n_runners": 1}},
            "strategy",
            {"name": "client_server", "n_runners": 1, "port": 4747},
        ),
        (
            {"n_workers": 3, "strategy": {"name": "cs", "n_runners": 1}},
            "strategy",
            {"name": "client_server", "n_runners": 1, "port": 0},
        ),
        ({"max_tasks": 5}, "max_rollouts", 5),
        (
            {"triplet_exporter": {"agent_match": "x"}, "adapter": None},
            "adapter",
            {"name": "triplet", "agent_match": "x"},
        ),
    ],
)
def test_old_names_are_mapped_and_present_ones_win(tmp_path, given, key, value):
    native = drafted("dev", tmp_path, **given)
    assert native[key] == value
    assert not set(native) & set(keys.OLD_NAMES)


def test_split_roles_have_an_external_store(tmp_path):
    native = drafted("dev", tmp_path, strategy="split")
    assert native["store"] == {"name": "external"}
    assert native["strategy"] == {"name": "split", "n_runners": 1, "port": 0}


def test_the_same_arguments_give_the_same_keys_and_the_result_may_be_the_base(tmp_path):
    native = drafted("apo", tmp_path)
    assert drafted("apo", tmp_path, **native) == native
