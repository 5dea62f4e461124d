import pytest

from loopai_trainer.errors import ConfigError


def refusal(place, model):
    with pytest.raises(ConfigError) as error:
        place.prepare(train_input_model_name=model)
    (problem,) = [one for one in error.value.problems if one.where == "model"]
    return problem


def test_a_hub_id_is_refused_with_the_way_to_a_folder(place):
    problem = refusal(place, "Qwen/Qwen3-0.6B")
    assert problem.code == "MODEL_IS_HUB_ID"
    assert "hf download Qwen/Qwen3-0.6B --revision" in problem.hint


@pytest.mark.parametrize("model", ["/models/none", "./none", "none", "a/b/c", "../x/y"])
def test_a_folder_that_is_not_there(place, model):
    assert refusal(place, model).code == "MODEL_NOT_FOUND"


def test_the_opt_out_stands_in_the_yaml_and_is_a_red_flag(place):
    data = place.prepare(hash_weights="stat").data
    assert "hash_weights: stat" in data["config_yaml"]
    assert data["warnings"][0]["code"] == "RED_FLAG"
    assert "hash_weights" in data["warnings"][0]["message"]


def test_without_it_nothing_is_said(place):
    assert "hash_weights" not in place.prepare().data["config_yaml"]
