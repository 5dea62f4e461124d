"""The program of the rehearsal, with a small stand-in for verl; tests/real runs it in verl's own environment."""

import importlib.machinery
import io
import json
import os
import sys
from types import ModuleType

import pyarrow
import pyarrow.parquet
import pytest
from fakes import verl_inside, verl_rehearsals

from loopai_trainer.backends.verl_grpo import rehearsal

rehearse = verl_inside.load("rehearse")


class Config(dict):
    """A configuration as omegaconf's is read here: attributes, and get."""

    def __getattr__(self, name):
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None


def config_of(native):
    return Config({key: config_of(value) if isinstance(value, dict) else value for key, value in native.items()})


class Tokenizer:
    chat_template = "own"

    def apply_chat_template(self, messages, add_generation_prompt, tokenize, **arguments):
        assert add_generation_prompt and not tokenize
        return self.chat_template + "".join(message["content"] for message in messages) + str(arguments or "")

    def __call__(self, texts, add_special_tokens, return_attention_mask):
        assert not add_special_tokens
        return {"input_ids": [list(text) for text in texts]}


@pytest.fixture
def verl(monkeypatch):
    """Modules of verl that the program imports; their functions may be replaced."""
    made = {}
    for name in (
        "verl", "verl.utils", "verl.utils.config", "verl.trainer", "verl.trainer.ppo", "verl.trainer.ppo.utils",
        "verl.trainer.ppo.reward", "transfer_queue", "cachetools", "zmq", "msgspec", "fastapi", "uvicorn",
    ):  # fmt: skip
        made[name] = ModuleType(name)
        made[name].__spec__ = importlib.machinery.ModuleSpec(name, None)
        monkeypatch.setitem(sys.modules, name, made[name])
    made["verl.trainer.ppo.utils"].need_critic = lambda config: False
    made["verl.trainer.ppo.utils"].need_reference_policy = lambda config: False
    made["verl.utils.config"].validate_config = lambda config, reference, critic: None
    made["verl.utils"].hf_tokenizer = lambda path, trust_remote_code: Tokenizer()
    made["verl.trainer.ppo.reward"].get_custom_reward_fn = lambda config: scored
    return made


def scored(data_source, solution_str, ground_truth, extra_info):
    return 1.0 if solution_str.endswith("#### " + ground_truth) else 0.0


@pytest.fixture
def ask(tmp_path, verl, monkeypatch):
    def asked(settings=None, truths=verl_rehearsals.TRUTHS, more=None, composed=(), checks=None):
        files = {
            "train": verl_rehearsals.write_rows(tmp_path / "t.parquet", verl_rehearsals.rows(truths)),
            "validation": verl_rehearsals.write_rows(tmp_path / "v.parquet", verl_rehearsals.rows()[:2]),
        }
        plan, _ = verl_rehearsals.make_plan(
            tmp_path / "run", **files, settings=settings or {}, python="x", more=more, checks=checks
        )
        document = {**rehearsal.question_document(plan), "limits": {"load_s": 60.0, "call_s": 60.0, "budget_s": 600.0}}
        monkeypatch.setattr(
            rehearse.composing, "compose", lambda native, places: (config_of(native), [dict(one) for one in composed])
        )
        monkeypatch.setattr(sys, "stdin", io.StringIO(json.dumps(document)))
        return rehearse.answer(document)

    return asked


def codes(answer):
    return [(problem["severity"], problem["code"]) for problem in answer["problems"]]


def test_a_good_plan(ask):
    found = ask()
    assert found["problems"] == []
    assert found["summary"]["reward_tried"] == "6 train rows, 2 validation rows"
    assert found["summary"]["scores_seen"] == "right 1; wrong 0; empty 0; marker-free 0; very long 1"
    assert found["summary"]["train_prompts"].startswith("6 rows: p50 16")
    assert found["summary"]["validation_prompts"].startswith("2 rows")


def test_what_cannot_be_composed_is_told_alone(ask):
    broken = {"severity": "error", "code": "COMPOSE_FAILED", "message": "m", "hint": "h", "field": "f"}
    found = ask(composed=[{**broken, "code": "UNKNOWN_KEY"}, broken])
    assert found == {"problems": [{**broken, "where": "config"}], "summary": {}}


def test_missing_packages_have_their_pip_names(ask, monkeypatch):
    for module in ("transfer_queue", "zmq"):
        monkeypatch.delitem(sys.modules, module)
    real = rehearse.importlib.util.find_spec
    monkeypatch.setattr(rehearse.importlib.util, "find_spec", lambda name: real(name) if name in sys.modules else None)
    more = {"trainer.use_v1": True, "actor_rollout_ref.rollout.name": "vllm"}
    found = ask(more=more)
    assert codes(found) == [("error", "PACKAGE_MISSING")] * 3
    assert [problem["hint"].rpartition(" ")[2] for problem in found["problems"]] == ["TransferQueue", "pyzmq", "vllm"]
    assert "trainer.use_v1 is true" in found["problems"][0]["message"]
    assert [problem["hint"].rpartition(" ")[2] for problem in ask(more={"trainer.use_v1": False})["problems"]] == [
        "pyzmq"
    ]
    assert ask()["problems"] == [], "the 0.8 line has no use_v1 and needs none of them"


def test_verls_own_validation_is_heard(ask, verl):
    def refuse(config, reference, critic):
        raise RuntimeError("instantiating") from AssertionError("batch 3 must be\n divisible by 2")

    verl["verl.utils.config"].validate_config = refuse
    found = ask()
    assert codes(found) == [("error", "VERL_REFUSES")]
    assert found["problems"][0]["message"].endswith("AssertionError: batch 3 must be divisible by 2")


def test_a_verl_that_cannot_be_imported(ask, monkeypatch):
    for module in ("verl.utils.config", "verl.trainer.ppo.reward"):
        monkeypatch.setitem(sys.modules, module, None)
    found = ask()
    assert codes(found) == [("error", "BACKEND_BROKEN")] * 2


def test_the_reward_that_verl_would_call_is_called(ask, verl):
    verl["verl.trainer.ppo.reward"].get_custom_reward_fn = lambda config: None
    found = ask()
    assert codes(found) == [("error", "REWARD_LOAD")]
    assert "does not read the key" in found["problems"][0]["message"]


def test_whose_code_runs_stands_in_a_file_while_it_runs(ask, verl, tmp_path, monkeypatch):
    at_work, seen = tmp_path / "at_work", tmp_path / "seen"
    monkeypatch.setenv(rehearse.AT_WORK, str(at_work))

    def copying(data_source, solution_str, ground_truth, extra_info):
        seen.write_text(at_work.read_text())
        return scored(data_source, solution_str, ground_truth, extra_info)

    verl["verl.trainer.ppo.reward"].get_custom_reward_fn = lambda config: copying
    assert codes(ask()) == []
    word = json.loads(seen.read_text())
    assert (word["code"], word["who"]) == ("REWARD_KILLS", "the reward preset auto")
    assert not at_work.exists()


def test_integer_ground_truths_are_refused_with_row_and_reply(ask):
    found = ask({"verl_reward_preset": "gsm8k_exact"}, truths=(7, 8))
    assert ("error", "REWARD_RAISES") in codes(found)
    assert all(problem["path"].endswith("t.parquet") for problem in found["problems"])


def test_a_slow_reward_is_said_to_be_tried_in_part(ask, monkeypatch):
    real = rehearse.reward_probe.Probe
    monkeypatch.setattr(
        rehearse.reward_probe,
        "Probe",
        lambda load, scoring, name, limits, **more: real(load, scoring, name, limits._replace(budget_s=-1), **more),
    )
    found = ask()
    assert codes(found) == [("warning", "REWARD_PARTLY_TRIED")]
    assert "0 of 8 rows" in found["problems"][0]["message"]
    assert found["summary"]["reward_tried"] == "on no row"


@pytest.mark.parametrize(("preset", "hint"), [("verl_builtin", "choose preset auto"), ("auto", "return the same keys")])
def test_changing_keys_of_verls_own_scorers_have_a_hint_of_their_own(ask, verl, preset, hint):
    def changing(solution_str, **row):
        return {"score": 0.0} if solution_str else 0.0

    verl["verl.trainer.ppo.reward"].get_custom_reward_fn = lambda config: changing
    hints = {problem["code"]: problem["hint"] for problem in ask({"verl_reward_preset": preset})["problems"]}
    assert hints["REWARD_KEYS"].startswith(hint)


@pytest.mark.parametrize(
    ("preset", "source", "forms", "is_strict", "runs_code"),
    [
        ("auto", "openai/gsm8k", ["#### {answer}"], True, False),
        ("auto", "aime25", ["Answer: {answer}"], True, False),
        ("auto", "taco", [], True, True),
        ("verl_builtin", "new", list(rehearsal.PLAIN_FORMS), False, False),
        ("math_boxed", "new", ["\\boxed{{answer}}"], True, False),
        (None, "openai/gsm8k", list(rehearsal.PLAIN_FORMS), False, False),
    ],
)
def test_how_replies_have_to_look(ask, tmp_path, preset, source, forms, is_strict, runs_code):
    file = tmp_path / "r.py"
    file.write_text("def compute_score(**row): ...\n")
    given = {"verl_reward_preset": preset} if preset else {"verl_reward_function_path": str(file)}
    ask(given)
    found = rehearse._scoring(source, json.load(sys.stdin))
    assert (list(found.forms), found.strict, found.runs_code) == (forms, is_strict, runs_code)


def test_prompts_too_long_are_told_by_the_limits_of_the_plan(ask):
    found = ask(more={"data.max_prompt_length": 5}, checks={"max_cut_share": 1.0})
    assert codes(found) == [("warning", "PROMPTS_CUT")] * 2
    assert codes(ask(more={"data.max_prompt_length": 5})) == [("error", "PROMPTS_CUT")] * 2


def test_template_arguments_tools_and_another_template_count(ask):
    more = {
        "data.apply_chat_template_kwargs": {"enable_thinking": False, "tokenize": True},
        "data.tool_config_path": "/tools.yaml",
        "actor_rollout_ref.model.custom_chat_template": "a longer one",
    }
    found = ask(more=more)
    assert codes(found) == [("warning", "LENGTHS_UNKNOWN")]
    longest = len("a longer oneHow many? (0){'enable_thinking': False}")
    assert f"longest {longest} of" in found["summary"]["train_prompts"]


def test_a_tokenizer_that_cannot_be_used(ask, verl):
    def refuse(path, trust_remote_code):
        raise OSError("no tokenizer.json")

    verl["verl.utils"].hf_tokenizer = refuse
    found = ask()
    assert codes(found) == [("error", "TOKENIZER_UNREADABLE")]
    assert "no tokenizer.json" in found["problems"][0]["message"]


def test_no_validation_file_and_several_train_files(ask, tmp_path):
    extra = verl_rehearsals.write_rows(tmp_path / "more.parquet", verl_rehearsals.rows()[:1])
    found = ask(more={"data.val_files": None, "data.train_files": [str(tmp_path / "t.parquet"), str(extra)]})
    assert found["problems"] == []
    assert found["summary"]["reward_tried"] == "7 train rows"


def test_data_that_cannot_be_read_are_a_finding(ask, tmp_path):
    other = tmp_path / "other.parquet"
    pyarrow.parquet.write_table(pyarrow.table({"x": [1]}), other)
    found = ask(more={"data.train_files": str(tmp_path / "none.parquet"), "data.val_files": str(other)})
    assert codes(found) == [("error", "DATA_UNREADABLE")] * 2
    assert [problem["where"] for problem in found["problems"]] == ["train", "validation"]


@pytest.mark.parametrize("key", ["data.max_prompt_length", "data.train_batch_size"])
def test_limits_of_the_wrong_type_are_told_elsewhere(ask, key):
    found = ask(more={key: "many"})
    assert found["problems"] == []
    assert "train_prompts" not in found["summary"]


def test_what_breaks_off_is_a_finding_too(monkeypatch):
    def fall(question):
        raise AttributeError("something null")

    monkeypatch.setattr(rehearse, "answer", fall)
    document = answered(monkeypatch)
    assert codes(document) == [("error", "REHEARSAL_FAILED")]
    assert "AttributeError: something null" in document["problems"][0]["message"]


def answered(monkeypatch):
    """What main() writes to stdout, and nothing else."""
    monkeypatch.setattr(sys, "stdin", io.StringIO("{}"))
    read, write = os.pipe()
    kept = os.dup(1)
    try:
        os.dup2(write, 1)
        rehearse.main()
    finally:
        os.dup2(kept, 1)
        os.close(kept)
        os.close(write)
    with os.fdopen(read) as answer:
        return json.load(answer)


def test_the_answer_is_the_only_thing_on_stdout(monkeypatch):
    monkeypatch.setattr(rehearse, "answer", lambda asked: [print("talk"), os.write(1, b"more")] and {"ok": asked})
    assert answered(monkeypatch) == {"ok": {}}
