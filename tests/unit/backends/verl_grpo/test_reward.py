import json
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest

from loopai_trainer.backends.verl_grpo import reward
from loopai_trainer.errors import ConfigError
from loopai_trainer.records import Counts, DataReport, InputFile, LengthStats, PromptFacts, Settings, SplitReport

CASES = Path(__file__).parents[3] / "cases" / "grpo"


def settings(**values):
    values.setdefault("verl_reward_mode", "auto")
    return Settings(values, dict.fromkeys(values, "--flag"))


def report(sources, *files, native=True):
    splits = tuple(
        SplitReport(where, "native", InputFile(str(path), "", 0), Counts(0, 0, 0), LengthStats(0, 0, 0, 0, 0), "")
        for where, path in zip(("train", "validation"), files, strict=False)
    )
    return DataReport(splits, (), {}, prompts=PromptFacts(sources, {}, {}, native))


def refused(code, *arguments):
    with pytest.raises(ConfigError) as caught:
        reward.reward_block(*arguments)
    assert caught.value.code == code
    assert caught.value.hint
    return caught.value


KNOWN = report({"openai/gsm8k": 6})


def test_a_preset_s_block_and_keys():
    given = settings(verl_reward_preset="gsm8k_exact", verl_reward_kwargs='{"format_score": 0.1}')
    block = reward.reward_block(given, KNOWN)
    assert block == {
        "mode": "preset", "preset": "gsm8k_exact", "function": None, "name": None,
        "kwargs": {"format_score": 0.1}, "origin": "named by the user (--flag)",
    }  # fmt: skip
    keys = {
        "path": "/run/inputs/loopai_reward.py",
        "name": "compute_score",
        "reward_kwargs": {"preset": "gsm8k_exact", "format_score": 0.1},
    }
    assert reward.native_keys(block, "/run/inputs", "0.9") == {"custom_reward_function": keys}
    assert reward.native_keys(block, "/run/inputs", "0.8") == keys
    assert reward.input_files(given).keys() == {"loopai_reward.py"}
    assert Path(reward.input_files(given)["loopai_reward.py"]).is_file()
    assert "verl.utils.reward_score.gsm8k.compute_score" in reward.called(block)


def test_a_custom_reward_s_block_and_keys(tmp_path):
    file = tmp_path / "r.py"
    file.write_text("async def score(data_source, solution_str, ground_truth, extra_info=None, weight=1): ...\n")
    given = settings(verl_reward_function_path=f"{file}:score", verl_reward_kwargs='{"weight": 2}')
    block = reward.reward_block(given, KNOWN)
    assert (block["mode"], block["preset"], block["function"], block["name"]) == ("custom", None, str(file), "score")
    assert reward.native_keys(block, "/run/inputs", "0.9") == {
        "custom_reward_function": {
            "path": "/run/inputs/reward_function.py", "name": "score", "reward_kwargs": {"weight": 2},
        }
    }  # fmt: skip
    assert reward.input_files(given) == {"reward_function.py": str(file)}
    assert str(file) in reward.called(block)
    assert reward.red_flags(block) == []


@pytest.mark.parametrize("name", ["", "compute_score", "other"])
def test_a_path_with_a_colon_of_its_own_is_a_path(tmp_path, name):
    file = tmp_path / "a:b"
    file.write_text("def compute_score(**kwargs): ...\nother = compute_score\n")
    text = f"{file}:{name}" if name else str(file)
    block = reward.reward_block(settings(verl_reward_function_path=text), KNOWN)
    assert (block["function"], block["name"]) == (str(file), name or "compute_score")


def test_a_relative_path_becomes_absolute(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "r.py").write_text("def compute_score(**kwargs): ...\n")
    block = reward.reward_block(settings(verl_reward_function_path="r.py"), KNOWN)
    assert block["function"] == str(tmp_path / "r.py")


def test_a_function_named_twice(tmp_path):
    file = tmp_path / "r.py"
    file.write_text("def a(**kwargs): ...\n")
    both = {"verl_reward_function_path": f"{file}:a", "verl_reward_function_name": "b"}
    refused("REWARD_MODE_INVALID", settings(**both), KNOWN)
    both["verl_reward_function_name"] = "a"
    assert reward.reward_block(settings(**both), KNOWN)["name"] == "a"


def test_a_custom_file_is_read_before_it_is_taken(tmp_path):
    error = refused("REWARD_FILE_UNREADABLE", settings(verl_reward_function_path=str(tmp_path / "none.py")), KNOWN)
    assert str(tmp_path / "none.py") in error.message


def test_case_grpo_04a_with_the_rows_of_each_split():
    folder = CASES / "GRPO-04A"
    files = (folder / "train.parquet", folder / "val.parquet")
    error = refused("REWARD_SOURCE_UNKNOWN", settings(), report({"gsm8k": 6}, *files))
    assert error.message == (
        "verl has no scorer for data_source 'gsm8k' (4 train + 2 validation rows); "
        "the nearest that it knows is 'openai/gsm8k'"
    )
    assert pyarrow.parquet.read_table(files[0])["data_source"].to_pylist() == ["gsm8k"] * 4, "never rewritten"


def test_rows_are_told_in_all_where_the_files_cannot_be_read(tmp_path):
    (tmp_path / "broken.parquet").write_bytes(b"PAR1")
    error = refused("REWARD_SOURCE_UNKNOWN", settings(), report({"x": 6}, tmp_path / "broken.parquet"))
    assert "(6 rows)" in error.message


def test_other_refusals_pass_as_they_are():
    refused("REWARD_AMBIGUOUS", settings(), report({"x": 6}, native=False))


def test_data_without_facts_are_taken_as_native():
    block = reward.reward_block(settings(verl_reward_preset="math_boxed"), DataReport((), (), {}))
    assert block["preset"] == "math_boxed"


def test_code_that_is_executed_is_a_red_flag():
    block = reward.reward_block(settings(), report({"taco": 3, "aime": 1}))
    assert block["runs_code"] == ["taco"]
    (flag,) = reward.red_flags(block)
    assert (flag.severity, flag.code) == ("warning", "REWARD_RUNS_CODE")
    assert "taco" in flag.message
    assert reward.red_flags({**block, "kwargs": {"sandbox_fusion_url": "http://x"}}) == []
    assert "runs_code" not in reward.reward_block(settings(), KNOWN)


def test_a_block_survives_json():
    block = reward.reward_block(settings(), KNOWN)
    assert json.loads(json.dumps(block)) == block


def test_a_block_that_was_edited_breaks_nothing_here():
    for block in ({}, {"mode": "custom"}, {"mode": "preset", "preset": "no such"}):
        assert reward.called(block)
        assert reward.red_flags(block) == []
        assert "path" in reward.native_keys(block, "/i", "0.8")


def test_a_reward_that_a_package_offers_by_name_is_taken_from_its_file(tmp_path, monkeypatch):
    import importlib.metadata

    (tmp_path / "polite_rewards.py").write_text(
        "def polite(data_source, solution_str, ground_truth, extra_info=None): ...\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    point = importlib.metadata.EntryPoint("polite", "polite_rewards:polite", "loopai_trainer.rewards")
    monkeypatch.setattr("importlib.metadata.entry_points", lambda *, group: [point])
    given = settings(verl_reward_mode="custom", verl_reward_function_path="polite")
    block = reward.reward_block(given, KNOWN)
    assert (block["function"], block["name"]) == (str(tmp_path / "polite_rewards.py"), "polite")
    assert reward.input_files(given) == {"reward_function.py": str(tmp_path / "polite_rewards.py")}
