"""Lengths and cuts that prepare works out without torch equal those of LLaMA-Factory's own tokenisation, template by template.

All jobs share one start of LLaMA-Factory's interpreter.
"""

import json
import os
import subprocess
from pathlib import Path

import pytest
from fakes.row_backend import prepare
from fakes.sft_plans import make_plan
from fakes.tokenizer_files import CHATML, write_tokenizer

from loopai_trainer.backends.llamafactory_sft.chat_template import read_templates
from loopai_trainer.backends.llamafactory_sft.lengths import row_meter
from loopai_trainer.backends.llamafactory_sft.tool_text import _CALLS, _LISTS
from loopai_trainer.files.snapshots import rows_at
from loopai_trainer.host.environments import read_versions, resolve

pytestmark = pytest.mark.real

SCRIPT = Path(__file__).with_name("tokenised_rows.py")
TOOLS = json.dumps(
    [
        {
            "name": "get_level",
            "description": "the level of a tank",
            "parameters": {
                "type": "object",
                "properties": {
                    "tank": {"type": "string", "description": "which", "enum": ["T1", "T2"]},
                    "times": {"type": "array", "items": {"type": "integer"}},
                },
                "required": ["tank"],
            },
        },
        {"type": "function", "function": {"name": "stop", "parameters": {"properties": {}}}},
    ]
)
CALLS = '[{"name": "get_level", "arguments": {"tank": "T1", "times": [1, 2.5]}}, {"name": "stop", "arguments": {}}]'
ONE_CALL = '{"name": "get_level", "arguments": {"tank": "泵1"}}'
SPECIAL = (*CHATML, "<s>", "</s>")


def chat(*turns, system="", tools=""):
    return {"messages": [{"role": role, "content": text} for role, text in turns], "system": system, "tools": tools}


PLAIN = [
    chat(("user", "Which pump was idle?"), ("assistant", "Pump two.")),
    chat(("user", "log: " + "pump two idle; " * 120 + "Which pump?"), ("assistant", "Pump two.")),
    chat(("user", "Write it all down."), ("assistant", "pump two idle; " * 120)),
    chat(("user", "泵" * 90), ("assistant", "阀门é " * 80), system="Answer shortly."),
    chat(*[("user", "and then? {{idx}}"), ("assistant", "<think>\nhm\n</think>\n\nthe fan, 风扇")] * 9),
    chat(*[("user", "one"), ("assistant", "\n\ntwo")] * 2, ("user", "x " * 100), ("assistant", "y " * 100)),
    chat(("user", "s"), ("assistant", "short"), system="rule: " * 60),
]
WITH_TOOLS = [
    chat(("user", "level?"), ("function_call", CALLS), ("observation", "7"), ("assistant", "7 m"), tools=TOOLS),
    chat(
        ("user", "level?"),
        ("function_call", ONE_CALL),
        ("observation", "7"),
        ("assistant", "7"),
        tools=TOOLS,
        system="S",
    ),
]
WAYS = [
    {"cutoff_len": 100_000},
    {"cutoff_len": 256},
    {"cutoff_len": 61, "mask_history": True},
    {"cutoff_len": 128, "enable_thinking": False, "default_system": "Be kind."},
    {"cutoff_len": 200, "mask_history": True, "preserve_thinking": True, "split_special_tokens": True},
]


def follows_tools(template):
    return template.tools_format in _LISTS and template.function_format in _CALLS


def sharegpt(row):
    names = {"user": "human", "assistant": "gpt"}
    turns = [{"from": names.get(t["role"], t["role"]), "value": t["content"]} for t in row["messages"]]
    return {"conversations": turns, "system": row["system"], "tools": row["tools"]}


class Bench:
    """Snapshots, model and versions; `jobs` are (template, way, which rows)."""

    def __init__(self, root, lf_env):
        self.versions = read_versions(resolve(lf_env, "llamafactory", {}), "llamafactory")
        self.model = root / "model"
        corpus = [turn["content"] for row in PLAIN for turn in row["messages"]]
        write_tokenizer(self.model, SPECIAL, corpus=corpus, bos_token="<s>")
        (self.model / "config.json").write_text('{"model_type": "qwen2"}')
        self.root, self.folders, self.rows = root, {}, {}
        for name, rows in (("plain", PLAIN), ("tools", WITH_TOOLS)):
            source = root / f"{name}.jsonl"
            source.write_text("".join(json.dumps(sharegpt(row)) + "\n" for row in rows))
            report = prepare(root / name, source)
            self.folders[name] = Path(report.registry.path).parent
            self.rows[name] = list(rows_at(report.splits[0].snapshot.path, range(len(rows))).values())

    def job(self, template, way, which):
        return {
            "model_name_or_path": str(self.model),
            "dataset_dir": str(self.folders[which]),
            "dataset": "train",
            "template": template,
            **way,
        }

    def ours(self, template, way, which):
        native = {"model_name_or_path": str(self.model), "template": template, **way}
        plan = make_plan(self.root / "run", native=native, model=self.model)
        meter, problems = row_meter(plan, self.versions)
        assert meter is not None, problems
        return meter(self.rows[which])


@pytest.fixture(scope="module")
def bench(tmp_path_factory, lf_env):
    return Bench(tmp_path_factory.mktemp("lengths"), lf_env)


@pytest.fixture(scope="module")
def answers(bench, lf_env):
    """(template, way number, which rows) -> what LLaMA-Factory makes of them."""
    templates = {name: found for name, found in read_templates(bench.versions).items() if found is not None}
    keys = [(name, way, "plain") for name in templates for way in range(len(WAYS))]
    keys += [(name, way, "tools") for name, t in templates.items() for way in (0, 1) if follows_tools(t)]
    jobs = [bench.job(name, WAYS[way], which) for name, way, which in keys]
    jobs_path, out = bench.root / "jobs.json", bench.root / "answers.json"
    jobs_path.write_text(json.dumps([*jobs, {"template": "*"}]))
    environ = {
        **os.environ,
        "HF_HUB_OFFLINE": "1",
        "HF_HOME": str(bench.root / "hf"),
        "TOKENIZERS_PARALLELISM": "false",
    }
    command = [f"{lf_env}/bin/python", str(SCRIPT), str(jobs_path), str(out)]
    done = subprocess.run(command, capture_output=True, text=True, env=environ, timeout=800)
    assert done.returncode == 0, done.stderr[-3000:]
    *found, names = json.loads(out.read_text())
    assert names["names"] == sorted(read_templates(bench.versions))
    return dict(zip(keys, found, strict=True))


def compare(bench, key, theirs):
    name, way, which = key
    settings = WAYS[way]
    for number, (ours, row) in enumerate(zip(bench.ours(name, settings, which), theirs, strict=True)):
        pairs = row["pairs"]
        whole = sum(map(sum, pairs))
        end = ours.tokens - whole
        assert end in (0, 1), (key, number, ours, row)
        assert ours.exact, (key, number)
        assert ours.kept == row["kept"], (key, number, ours, row)
        left = pairs[ours.turns_lost :] if settings.get("mask_history") else pairs[: len(pairs) - ours.turns_lost]
        assert ours.kept == sum(map(sum, left)) - ours.prompt_lost - ours.answer_lost + end, (key, number, ours, row)
        if not settings.get("mask_history") and not end:
            trained = sum(answer for _, answer in left) - ours.answer_lost
            assert trained == row["trained"], (key, number, ours, row)


def test_every_template_gives_the_lengths_that_llamafactory_gives(bench, answers):
    failed = {key: found["error"] for key, found in answers.items() if "error" in found}
    for key, found in answers.items():
        if key not in failed:
            compare(bench, key, found["rows"])
    assert len(answers) - len(failed) > 400
    media = {name for name, found in read_templates(bench.versions).items() if found.takes_media}
    assert {name for name, _, _ in failed} <= media
    assert all("was not found, please check and update your model file" in error for error in failed.values())


@pytest.mark.parametrize("template", ["qwen", "llama3"])
def test_the_cut_rows_lose_what_they_lose_in_training(bench, answers, template):
    ours = bench.ours(template, WAYS[1], "plain")
    assert [bool(row.prompt_lost) for row in ours[:3]] == [False, True, False]
    assert [bool(row.answer_lost) for row in ours[:3]] == [False, False, True]
    assert ours[4].turns_lost > 0
    assert [row["kept"] for row in answers[template, 1, "plain"]["rows"]] == [row.kept for row in ours]


def test_sft_07b_loses_its_questions(bench, tmp_path):
    source = Path(__file__).parents[1] / "cases" / "sft" / "SFT-07B" / "data.jsonl"
    report = prepare(tmp_path, source)
    rows = list(rows_at(report.splits[0].snapshot.path, range(3)).values())
    plan = make_plan(tmp_path / "run", native={"cutoff_len": 64}, model=write_tokenizer(tmp_path / "model"))
    meter, _ = row_meter(plan, bench.versions)
    measured = meter(rows)
    # Qwen's own default system prompt leaves no room for the question of line 2 either.
    assert [row.prompt_lost > 0 for row in measured] == [True, True, True]
    assert [row.answer_lost for row in measured] == [0, 0, 0]
