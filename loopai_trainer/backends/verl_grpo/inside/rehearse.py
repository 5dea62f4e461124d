"""Runs in verl's environment: tries what training would else find out after minutes, or never.

stdin: see `rehearsal.question_document`; stdout: one JSON document {"problems": [...], "summary": {...}}. The composed
configuration goes through verl's own validation, missing packages are looked for, the reward that training will call is
called on real rows, and prompts are measured in tokens. Nothing is written.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

# The interpreter is started isolated, so that no folder but this one can bring modules of these names.
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import compose as composing
import prompt_lengths
import reward_probe
import sample_rows

V1_PACKAGES = ("transfer_queue",)
ROLLOUT_PACKAGES = ("cachetools", "zmq", "msgspec", "fastapi", "uvicorn")
"""Imported in Ray's workers alone, long after the start. Source: verl 0.9.1 trainer/main_ppo.py, workers/rollout/."""

AT_WORK = "LOOPAI_TRAINER_AT_WORK"
"""Variable with the path of a file that is to say whose code runs, while it runs (host/asking.py)."""

ENGINES = {"vllm": "vllm", "sglang": "sglang", "trtllm": "tensorrt_llm"}
"""actor_rollout_ref.rollout.name -> module."""

PIP_NAMES = {
    "transfer_queue": "TransferQueue",
    "zmq": "pyzmq",
    "math_verify": "math-verify",
    "tensorrt_llm": "tensorrt-llm",
    "latex2sympy2_extended": "latex2sympy2-extended",
    "sklearn": "scikit-learn",
    "yaml": "pyyaml",
}


def pip_name(module: str) -> str:
    """What pip calls the package of a module."""
    top = module.partition(".")[0]
    return PIP_NAMES.get(top, top)


def answer(question: Mapping[str, Any]) -> dict[str, Any]:
    """All findings, and what an approver should see."""
    config, composed = composing.compose(question["native"], tuple(question.get("open", ())))
    broken = [problem for problem in composed if problem["code"] == "COMPOSE_FAILED"]
    if broken:
        return {"problems": [{**problem, "where": "config"} for problem in broken], "summary": {}}
    problems = list(missing_packages(config))
    problems += list(refused_by_verl(config))
    found, scored = tried_reward(config, question)
    problems += found
    lengths, measured = measured_prompts(config, question)
    problems += lengths
    return {"problems": problems, "summary": {**scored, **measured}}


def missing_packages(config: Any) -> Iterator[dict[str, Any]]:
    """Packages that verl imports late."""
    engine = str(config.actor_rollout_ref.rollout.get("name"))
    use_v1 = config.trainer.get("use_v1")
    wanted = {module: "trainer.use_v1 is true" for module in V1_PACKAGES if use_v1}
    wanted.update({module: "verl's rollout servers need it" for module in ROLLOUT_PACKAGES if use_v1 is not None})
    if engine in ENGINES:
        wanted[ENGINES[engine]] = f"actor_rollout_ref.rollout.name is {engine}"
    for module, why in wanted.items():
        if importlib.util.find_spec(module) is None:
            name = pip_name(module)
            message = f"the package {name} is not installed in verl's environment, and {why}"
            yield _problem("PACKAGE_MISSING", "environment", message, f"install it there: pip install {name}")


def refused_by_verl(config: Any) -> Iterator[dict[str, Any]]:
    """What verl's own validation says of the configuration."""
    try:
        from verl.trainer.ppo.utils import need_critic, need_reference_policy
        from verl.utils.config import validate_config

        validate_config(config, need_reference_policy(config), need_critic(config))
    except ImportError as error:
        yield _problem("BACKEND_BROKEN", "environment", f"verl cannot be imported: {error}", "run: trainer setup verl")
    except Exception as error:  # noqa: BLE001 - asserts, and whatever its dataclasses raise
        cause = error.__cause__ or error
        said = " ".join(str(cause).split()) or "no reason given"
        message = f"verl's own validation refuses the configuration: {type(cause).__name__}: {said[:400]}"
        yield _problem("VERL_REFUSES", "config", message, "correct the keys that it names")


def tried_reward(config: Any, question: Mapping[str, Any]) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """The reward on rows of each file."""
    try:
        from verl.trainer.ppo.reward import get_custom_reward_fn
    except ImportError as error:
        message = f"verl's reward functions cannot be imported: {error}"
        return [_problem("BACKEND_BROKEN", "environment", message, "run: trainer setup verl")], {}

    def load() -> Any:
        function = get_custom_reward_fn(config)
        if function is None:
            raise LookupError("the installed verl does not read the key that names the reward function")
        return function

    def scoring(source: str) -> reward_probe.Scoring:
        return _scoring(source, question)

    chosen, unreadable = _rows_to_try(config, int(question["sample"]))
    more = {"keys_hint": "choose preset auto: it makes them alike"} if _is_builtin(question) else {}
    probe = reward_probe.Probe(load, scoring, pip_name, reward_probe.Limits(**question.get("limits", {})), **more)
    with _leaving_word_of(str(question["reward"].get("shown") or "the reward")):
        try:
            tried = [probe.add(reward_probe.Place(where, path, number), row) for where, path, number, row in chosen]
        finally:
            probe.close()
    problems = [*unreadable, *probe.findings()]
    if not all(tried) and not any(problem["severity"] == "error" for problem in problems):
        message = f"the reward was tried on {sum(tried)} of {len(tried)} rows: it is too slow for more"
        problems.append({
            **_problem("REWARD_PARTLY_TRIED", "config", message, "make it faster, or look at it well yourself"),
            "severity": "warning",
        })  # fmt: skip
    rows = ", ".join(f"{count} {where} rows" for where, count in probe.tried.items())
    seen = "; ".join(f"{kind} {_span(scores)}" for kind, scores in probe.scores.items())
    return problems, {"reward_tried": rows or "on no row", "scores_seen": seen or "none"}


@contextmanager
def _leaving_word_of(reward: str) -> Iterator[None]:
    """What runs now, in the file that the caller has named: a reward that kills this program is told by that."""
    path = os.environ.get(AT_WORK)
    if path is None:
        yield
        return
    word = {"code": "REWARD_KILLS", "who": reward, "hint": "let it signal no process but those that it has started"}
    with open(path, "w", encoding="utf-8") as file:
        json.dump(word, file)
    yield
    with suppress(FileNotFoundError):  # the reward may have removed it
        os.unlink(path)


def _is_builtin(question: Mapping[str, Any]) -> bool:
    """Whether the scorers are verl's own, so that nobody can change what they return."""
    return bool(question["reward"]["preset"] == "verl_builtin")


def _span(scores: list[float]) -> str:
    low, high = min(scores), max(scores)
    return f"{low:g}" if low == high else f"{low:g} to {high:g}"


def _scoring(source: str, question: Mapping[str, Any]) -> reward_probe.Scoring:
    reward = question["reward"]
    scorer = reward["scorer"]
    if reward["preset"] and not scorer:
        scorer = question["routes"].get(source)
        starts = question["prefix_routes"].items()
        scorer = scorer or next((name for start, name in starts if source.startswith(start)), None)
    if not scorer:
        return reward_probe.Scoring(question["all_forms"], strict=False)
    return reward_probe.Scoring(question["forms"][scorer], strict=True, runs_code=scorer in question["runs_code"])


def _files(config: Any) -> list[tuple[str, str]]:
    """(train or validation, path)."""
    found = []
    for where, key in (("train", "train_files"), ("validation", "val_files")):
        value = config.data.get(key) or []
        found += [(where, path) for path in ([value] if isinstance(value, str) else value)]
    return found


def _rows_to_try(config: Any, count: int) -> tuple[list[tuple[str, str, int, dict[str, Any]]], list[dict[str, Any]]]:
    """(train or validation, path, row, columns), the most telling rows first, the files by turns; and what is wrong."""
    queues, problems = [], []
    for where, path in _files(config):
        try:
            order = sample_rows.to_try(sample_rows.scan(path), count, seed=42)
            rows = dict(sample_rows.read(path, order))
        except sample_rows.UNREADABLE as error:
            message = f"the rows of {path} cannot be read: {type(error).__name__}: {error}"
            problems.append({**_problem("DATA_UNREADABLE", where, message, "prepare again"), "path": path})
            continue
        queues.append([(where, path, number, rows[number]) for number in order])
    turns = range(max(map(len, queues), default=0))
    return [queue[turn] for turn in turns for queue in queues if turn < len(queue)], problems


def measured_prompts(config: Any, question: Mapping[str, Any]) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """Prompts in tokens, by the model's own tokenizer and chat template."""
    data = dict(config.data)
    try:
        render, count = _tokenizer(config, dict(data.get("apply_chat_template_kwargs") or {}))
    except Exception as error:  # noqa: BLE001 - a tokenizer's files may fail in any way
        message = f"the model's tokenizer cannot be used: {type(error).__name__}: {error}"
        hint = "give a model folder with its tokenizer and chat template"
        return [_problem("TOKENIZER_UNREADABLE", "model", message[:600], hint)], {}
    problems: list[dict[str, Any]] = []
    told: dict[str, str] = {}
    if data.get("tool_config_path") or data.get("function_tool_path"):
        message = "prompts are measured without the tools that are described in each: they are longer in training"
        problems.append({
            **_problem("LENGTHS_UNKNOWN", "config", message, "leave room in data.max_prompt_length"),
            "severity": "warning",
        })  # fmt: skip
    if not isinstance(data.get("max_prompt_length"), int) or not isinstance(data.get("train_batch_size"), int):
        return problems, told  # of the wrong type, which is told elsewhere
    for where, path in _files(config):
        try:
            found = _measured(path, render, count, question["checks"]["length_sample"], data["max_prompt_length"])
        except sample_rows.UNREADABLE:
            continue  # told with the reward's rows
        problems += prompt_lengths.findings(where, path, found, data, question["checks"]["max_cut_share"])
        told[f"{where}_prompts"] = prompt_lengths.summary(found, data["max_prompt_length"])
    return problems, told


def _measured(path: str, render: Any, count: Any, limit: int | None, maximum: int) -> prompt_lengths.Measured:
    scan = sample_rows.scan(path)
    standing, longest = sample_rows.to_measure(scan, limit, longest=1000)
    extra = set(longest.tolist())
    numbers = sorted([*standing.tolist(), *extra])
    rows = ((number, number not in extra, row) for number, row in sample_rows.read(path, numbers))
    return prompt_lengths.measure(render, count, scan.rows, rows, maximum)


def _tokenizer(config: Any, template_arguments: dict[str, Any]) -> tuple[Any, Any]:
    """(messages -> text, texts -> numbers of tokens). Source: verl 0.9.1 workers/config/model.py and rl_dataset.py."""
    from verl.utils import hf_tokenizer

    model = config.actor_rollout_ref.model
    path = model.get("tokenizer_path") or model.path
    tokenizer = hf_tokenizer(path, trust_remote_code=bool(model.get("trust_remote_code")))
    if model.get("custom_chat_template") is not None:
        tokenizer.chat_template = model.custom_chat_template
    for name in ("tokenize", "return_dict", "return_tensors"):
        template_arguments.pop(name, None)

    def render(messages: Any) -> str:
        text: str = tokenizer.apply_chat_template(
            messages, add_generation_prompt=True, tokenize=False, **template_arguments
        )
        return text

    def count(texts: list[str]) -> list[int]:
        encoded = tokenizer(texts, add_special_tokens=False, return_attention_mask=False)["input_ids"]
        return [len(tokens) for tokens in encoded]

    return render, count


def _problem(code: str, where: str, message: str, hint: str) -> dict[str, Any]:
    return {"severity": "error", "code": code, "where": where, "message": message, "hint": hint}


def main() -> None:
    """Answer the question on stdin; whatever a library prints goes to stderr."""
    answer_fd = os.dup(1)
    os.dup2(2, 1)
    os.set_inheritable(answer_fd, False)
    try:
        document = answer(json.load(sys.stdin))
    except Exception as error:  # noqa: BLE001 - so that it does not hide what other checks found
        traceback.print_exc()
        message = f"the rehearsal broke off: {type(error).__name__}: {error}"
        problem = _problem("REHEARSAL_FAILED", "config", message[:600], "correct what else is told first")
        document = {"problems": [problem], "summary": {}}
    with os.fdopen(answer_fd, "w", encoding="utf-8") as out:
        json.dump(document, out)


if __name__ == "__main__":
    main()
