"""Settings: one table of names, and the one order in which their sources rank.

Keyword arguments (CLI flags) > environment variables > state["trainer"] > state["system"] > starter.yaml > defaults.
Each value keeps its origin. Source of names and defaults: spec/001 "Runtime Configuration" and "Prefill Guidance".
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from loopai_trainer.errors import SettingsError
from loopai_trainer.records import Field, Problem, Settings

GENERAL: tuple[Field, ...] = (
    Field("task_id", "name of the task that the run belongs to", "--task-id", ("TASK_ID",), "default"),
    Field("trainer_version_id", "id of this run; made anew if left out", "--version-id", ("VERSION_ID",), aliases=("version_id",)),
    Field("db_path", "LoopAI's task store, an SQLite file: settings of the task, and where its results are written back", "--db-path", ("DB_PATH",), kind="path"),
    Field("output_dir", "folder that holds all tasks", "--output-dir", ("OUTPUT_DIR",), "./outputs", kind="path"),
    Field("trainer_output_dir", "run directory, instead of the one inside output_dir", "--trainer-output-dir", ("TRAINER_OUTPUT_DIR",), kind="path"),
    Field("train_framework", "training framework", "--framework", ("TRAIN_FRAMEWORK",), "llamafactory", required=True),
    Field("train_stage", "training stage of that framework", "--stage", ("TRAIN_STAGE",), required=True),
    Field("train_input_dataset_path", "training data: .json (list), .jsonl or .parquet", "--dataset", ("TRAIN_DATASET_PATH",), required=True, kind="path", old=("dataset_path",)),
    Field("train_input_eval_dataset_path", "evaluation data, same formats", "--eval-dataset", ("TRAIN_EVAL_DATASET_PATH",), kind="path", old=("eval_dataset_path",)),
    Field("train_input_model_name", "folder of the base model", "--model", ("TRAIN_MODEL_PATH",), required=True, kind="path", aliases=("model_path",), old=("model_name",)),
    Field("train_input_task_description", "what is trained, in a sentence; the rules read it", "--task-description", ("TRAIN_TASK_DESCRIPTION",), required=True, old=("task_description",)),
    Field("train_input_config_template_path", "YAML template: a file or the name of a bundled one", "--template", ("TRAIN_CONFIG_TEMPLATE_PATH",), required=True, old=("template_path", "config_template_path")),
    Field("config_mode", "how the template is adjusted: by keyword rules, by a language model, or not at all", "--config-mode", default="rules", choices=("rules", "llm", "template")),
    Field("config_llm_model", "language model that adjusts the template (config_mode llm)", None, ("TRAINER_LLM_MODEL",)),
    Field("config_llm_base_url", "its OpenAI-compatible endpoint, such as http://127.0.0.1:8000/v1", None, ("TRAINER_LLM_BASE_URL",)),
    Field("config_llm_key_env", "name of the variable that holds the endpoint's key", None, ("TRAINER_LLM_KEY_ENV",), "OPENAI_API_KEY"),
    Field("config_llm_timeout_s", "seconds that its answer may take", None, default=60.0, kind="number"),
    Field("CUDA_VISIBLE_DEVICES", "GPUs that training sees", "--devices", ("CUDA_VISIBLE_DEVICES",), "0", old=("cuda_visible_devices",)),
    Field("trainer_persistent_worker", "train in a detached worker (false: in this process, to debug)", None, ("TRAINER_PERSISTENT_WORKER",), True, kind="bool"),
    Field("bad_rows", "what rows that cannot be trained on do: stop prepare, or be left out", "--bad-rows", default="reject", choices=("reject", "skip")),
    Field("allow_overlap", "accept training rows that also stand in the evaluation data", None, default=False, kind="bool"),
    Field("split_seed", "seed of the validation split", "--split-seed", default=42, kind="int"),
    Field("max_cut_share", "share of the rows (0 to 1) that may lose tokens at cutoff_len", None, default=0.05, kind="number"),
    Field("length_sample", "rows whose length is measured in tokens: a number, or all", None, default="20000"),
    Field("allow_template_mismatch", "accept a chat template whose tokens the model does not have", None, default=False, kind="bool"),
    Field("approval_require", "how the YAML is approved: by its hash, or at a terminal (trainer approve)", default="hash", choices=("hash", "terminal")),
    Field("hash_weights", "how the model's weights are known: full reads them, stat goes by name, size and times", None, default="full", choices=("full", "stat")),
    Field("nproc_per_node", "training processes on a node, if not one per device", None, kind="int"),
    Field("executor", "where the worker runs: on this host, or as a job of a Ray cluster", "--executor", ("TRAINER_EXECUTOR",), "local", choices=("local", "ray_jobs")),
    Field("ray_address", "job server of the Ray cluster, such as http://HEAD:8265", "--ray-address", ("TRAINER_RAY_ADDRESS",)),
    Field("ray_interpreter", "Python with loopai-trainer[ray] on every node of the cluster; this one if left out"),
    Field("nodes", "nodes that train together", "--nodes", default=1, kind="int"),
    Field("node_resources", "what training takes of each node besides devices, by Ray's names: {\"CPU\": 4}", None, kind="json"),
    Field("master_addr", "host of rank 0, for several nodes without a cluster", None, ("MASTER_ADDR",)),
    Field("master_port", "port that the ranks meet at, for several nodes without a cluster", None, ("MASTER_PORT",), kind="int"),
    Field("language", "language of guide and approval view: en or zh", "--language", ("LOOPAI_TRAINER_LANGUAGE",), "en"),
)  # fmt: skip

_TRUE = frozenset(("true", "1", "yes", "on"))
_FALSE = frozenset(("false", "0", "no", "off"))


class Layer(NamedTuple):
    """One source of settings. `label` names it in origins ('state.trainer', 'starter.yaml system').

    `key`: what its one value is called there, if not by the setting's name.
    """

    label: str
    values: Mapping[str, Any]
    key: str = ""


def resolve(
    fields: Sequence[Field], keyword: Mapping[str, Any], environ: Mapping[str, str], layers: Sequence[Layer]
) -> Settings:
    """Every field's value from its first source that has one. Raises SettingsError for values that are not allowed."""
    values: dict[str, Any] = {}
    origins: dict[str, str] = {}
    problems: list[Problem] = [*_unknown(fields, keyword)]
    for field in fields:
        value, origin = _first(field, keyword, environ, layers)
        try:
            values[field.name] = _typed(field, value)
        except ValueError as error:
            message = f"{field.name} = {value!r} (from {origin}): {error}"
            problems.append(_problem("SETTING_INVALID", message, field, origin))
            continue
        origins[field.name] = origin
    if problems:
        raise _refusal("SETTINGS_INVALID", problems)
    return Settings(values, origins)


def require(settings: Settings, fields: Iterable[Field]) -> None:
    """Refuse if a required field has no value; all missing ones at once. Raises SettingsError SETTINGS_MISSING."""
    problems = [
        _problem("SETTING_MISSING", f"{field.name} is missing: {field.help}", field, None)
        for field in fields
        if field.required and settings.values.get(field.name) in (None, "")
    ]
    if problems:
        raise _refusal("SETTINGS_MISSING", problems)


def is_placeholder(value: object) -> bool:
    """Whether a path is one that examples print (`/path/to/...`): it counts as missing."""
    return isinstance(value, str) and value.strip().startswith("/path/to/")


class Given(NamedTuple):
    """A value that some source has for a setting. `rank`: 0 for a keyword, 1 for a variable, then the layers."""

    rank: int
    value: Any
    origin: str


def given(
    field: Field, keyword: Mapping[str, Any], environ: Mapping[str, str], layers: Sequence[Layer]
) -> Iterator[Given]:
    """Every value that the sources have, in their order: the first one counts."""
    for name in field.names:
        if _present(field, keyword.get(name)):
            yield Given(0, keyword[name], field.flag or f"--option {field.name}")
    for name in field.env:
        if _present(field, environ.get(name)):
            yield Given(1, environ[name], f"environment variable {name}")
    for rank, layer in enumerate(layers, 2):
        for name in field.names:
            if _present(field, layer.values.get(name)):
                yield Given(rank, layer.values[name], f"{layer.label}.{layer.key or name}")


def old_names(
    fields: Sequence[Field], keyword: Mapping[str, Any], environ: Mapping[str, str], layers: Sequence[Layer]
) -> Iterator[Problem]:
    """A warning on each value that stands under an old name (spec/000's): read as that, or passed over for another."""
    sources = [("a keyword argument", keyword), *((layer.label, layer.values) for layer in layers)]
    for field in fields:
        for rank, (label, values) in enumerate(sources):
            for name in field.old:
                if _present(field, values.get(name)):
                    found = next(given(field, keyword, environ, layers))
                    # Ranks of `given`: keyword arguments, variables, and then the layers.
                    read = found.rank == (rank and rank + 1) and found.value == values[name]
                    became = "it was read as that" if read else f"it was not read, since {found.origin} goes before it"
                    message = f"'{name}' (from {label}) is an old name of '{field.name}'; {became}"
                    hint = f"call it {field.name}" if read else "leave it out"
                    yield Problem("warning", "SETTING_OLD_NAME", "settings", message, hint, field=field.name)


def _first(
    field: Field, keyword: Mapping[str, Any], environ: Mapping[str, str], layers: Sequence[Layer]
) -> tuple[Any, str]:
    found = next(given(field, keyword, environ, layers), None)
    return (field.default, "default") if found is None else (found.value, found.origin)


def _present(field: Field, value: object) -> bool:
    if value is None or (isinstance(value, str) and not value.strip()):
        return False
    return not (field.kind == "path" and is_placeholder(value))


def _typed(field: Field, value: Any) -> Any:
    if value is None:
        return None
    converted = _CONVERT[field.kind](value)
    if field.choices and converted not in field.choices:
        raise ValueError(f"must be one of {', '.join(field.choices)}")
    return converted


def _text(value: Any) -> str:
    if not isinstance(value, str | int | float) or isinstance(value, bool):
        raise ValueError("must be text")
    text = str(value)
    if "\x00" in text:
        raise ValueError("must not hold a NUL character")
    return text


def _bool(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    word = str(value).strip().lower()
    if word in _TRUE:
        return True
    if word in _FALSE:
        return False
    raise ValueError("must be true or false")


def _int(value: Any) -> int:
    if isinstance(value, bool) or (isinstance(value, float) and not value.is_integer()):
        raise ValueError("must be a whole number")
    try:
        return int(value)
    except (TypeError, ValueError, OverflowError):
        raise ValueError("must be a whole number") from None


def _number(value: Any) -> float:
    if isinstance(value, bool):
        raise ValueError("must be a number")
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        raise ValueError("must be a number") from None


def _json(value: Any) -> Any:
    # A state holds the object itself, a flag or variable its text; whoever uses it says what is wrong with the text.
    if not isinstance(value, str | Mapping):
        raise ValueError("must be a JSON object")
    return value


_CONVERT = {"text": _text, "path": _text, "bool": _bool, "int": _int, "number": _number, "json": _json}


def _unknown(fields: Sequence[Field], keyword: Mapping[str, Any]) -> Iterable[Problem]:
    names = [name for field in fields for name in field.names]
    for name in keyword:
        if name not in names:
            near = difflib.get_close_matches(name, names, 1)
            hint = f"did you mean {near[0]}?" if near else "see `trainer guide` for the names"
            yield Problem("error", "SETTING_UNKNOWN", "settings", f"there is no setting '{name}'", hint, field=name)


def _problem(code: str, message: str, field: Field, origin: str | None) -> Problem:
    ways = [
        f"{field.flag} VALUE" if field.flag else f"--option {field.name}=VALUE",
        *field.env,
        f'state["trainer"]["{field.name}"]',
    ]
    return Problem(
        "error", code, "settings", message, "give it by " + " or ".join(ways), field=field.name, origin=origin
    )


def _refusal(code: str, problems: Sequence[Problem]) -> SettingsError:
    message = problems[0].message if len(problems) == 1 else f"{len(problems)} settings are missing or not usable"
    return SettingsError(message, code=code, hint=problems[0].hint, problems=problems)
