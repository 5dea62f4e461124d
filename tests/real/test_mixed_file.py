"""A file with many kinds of bad rows, left out with --bad-rows skip: LLaMA-Factory trains on exactly what was counted."""

import json
import re

import pytest

pytestmark = pytest.mark.real

BAD = {
    "OUTPUT_NULL": '{"instruction": "q", "input": "", "output": null}',
    "OUTPUT_MISSING": '{"instruction": "q", "input": ""}',
    "OUTPUT_NOT_TEXT": '{"instruction": "q", "input": "", "output": 3}',
    "OUTPUT_EMPTY": '{"instruction": "q", "input": "", "output": ""}',
    "PROMPT_EMPTY": '{"instruction": "", "input": "", "output": "a"}',
    "INSTRUCTION_NOT_TEXT": '{"instruction": 1, "input": "", "output": "a"}',
    "INPUT_NOT_TEXT": '{"instruction": "q", "input": ["i"], "output": "a"}',
    "FIELD_MISSPELT": '{"instruction": "q", "input": "", "ouput": "a"}',
    "SYSTEM_NOT_TEXT": '{"instruction": "q", "input": "", "output": "a", "system": {"a": 1}}',
    "HISTORY_INVALID": '{"instruction": "q", "input": "", "output": "a", "history": [["x"]]}',
    "TOOLS_INVALID": '{"instruction": "q", "input": "", "output": "a", "tools": "{\'name\'}"}',
    "MEDIA_UNSUPPORTED": '{"instruction": "q", "input": "", "output": "a", "images": ["a.png"]}',
    "FORMAT_MIXED": '{"conversations": [{"from": "human", "value": "q"}, {"from": "gpt", "value": "a"}]}',
    "ROW_NOT_OBJECT": '["q", "a"]',
    "DUPLICATE_KEY": '{"instruction": "q", "input": "", "output": "a", "output": "b"}',
    "LONE_SURROGATE": '{"instruction": "\\ud800", "input": "", "output": "a"}',
    "JSON_CUT": '{"instruction": "q", "inp',
    "JSON_INVALID": "{'instruction': 'q', 'output': 'a'}",
}
ODD_BUT_GOOD = (
    '{"output": "no input, and a system", "instruction": "q100", "system": "be brief"}',
    '{"instruction": "q101", "input": null, "output": "history", "history": [["a", "b"], ["c", "d"]], "id": "7"}',
    '{"instruction": "", "input": "q102", "output": "only input", "id": 7}',
    '{"instruction": "q103", "input": "", "output": "a list", "meta": [1], "score": NaN}',
    '{"instruction": "q104 <|im_end|>", "input": "", "output": "a mark", "meta": {"a": 1}}',
)


def good(number):
    return json.dumps({"instruction": f"question {number}", "input": "", "output": f"answer {number}"})


def mixed(first, count):
    """Good rows with bad ones in between, and their lines by code."""
    lines, places = [], {}
    bad = list(BAD.items())
    for number in range(count):
        lines.append(good(first + number))
        if number < len(bad):
            places[bad[number][0]] = len(lines) + 1
            lines.append(bad[number][1])
    return lines, places


@pytest.fixture(scope="module")
def run(workshop):
    train, held = workshop.root / "mixed.jsonl", workshop.root / "mixed_eval.jsonl"
    lines, _ = mixed(0, 30)
    train.write_text("\n".join([*lines, *ODD_BUT_GOOD]) + "\n", encoding="utf-8")
    held.write_text("\n".join([good(500), BAD["OUTPUT_NULL"], good(501), BAD["JSON_CUT"]]) + "\n", encoding="utf-8")
    words = [word for key in ("max_steps", "eval_steps", "save_steps") for word in ("--set", f"{key}=2")]
    return workshop.whole("mixed", "--bad-rows", "skip", "--eval-dataset", held, *words, data=train)


def test_every_bad_row_is_told_with_its_line(run):
    _, places = mixed(0, 30)
    told = {w["code"]: w["line"] for w in run.prepared.data["warnings"] if w["where"] == "train" and w["code"] in BAD}
    assert told == places


def test_llamafactory_trains_on_exactly_the_usable_rows(run):
    assert run.ended.code == 0, run.ended.out + run.ended.err
    counts = run.prepared.data["counts"]
    assert counts["train"] == {
        "input": 30 + len(BAD) + len(ODD_BUT_GOOD),
        "usable": 30 + len(ODD_BUT_GOOD),
        "rejected": len(BAD),
    }
    assert counts["validation"] == {"input": 4, "usable": 2, "rejected": 2}
    said = [int(number) for number in re.findall(r"Num examples = ([\d,]+)", (run.folder / "train.log").read_text())]
    assert said[0] == counts["train"]["usable"]
    assert set(said[1:]) == {counts["validation"]["usable"]}
    assert "Dropped invalid example" not in (run.folder / "train.log").read_text()
