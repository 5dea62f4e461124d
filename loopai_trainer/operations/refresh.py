"""inspect --refresh: take the inputs as they are now into an edited YAML. Only what changed is read again."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from loopai_trainer import backends
from loopai_trainer.contract import Backend
from loopai_trainer.errors import Busy, ConfigError
from loopai_trainer.files import approval_file, atomic, hashing, small_inputs, user_dirs
from loopai_trainer.files.run_dir import RunDir
from loopai_trainer.host import clocks, environments
from loopai_trainer.operations import model_input, prepare, prompt_manifest, rounds, run_hold, run_place, secret_scan
from loopai_trainer.operations.prepared_config import read_config
from loopai_trainer.operations.reserved_block import reserved_problems, written_block
from loopai_trainer.operations.review import refuse
from loopai_trainer.operations.sources import Resolved
from loopai_trainer.records import Model, Plan, Settings
from loopai_trainer.rules import approval, yaml_text
from loopai_trainer.rules import plan as plans

Progress = Callable[[str, int, int], None]
"""(what, bytes done, bytes in all): for the terminal."""

_SPLITS = ("train", "validation")
_DATASET_SETTINGS = ("train_input_dataset_path", "verl_source_dataset_path")

_EVAL_SETTINGS = ("train_input_eval_dataset_path", "verl_source_eval_dataset_path")


class _Edited(NamedTuple):
    """An edited YAML. `written`: the `loopai` block as the program wrote it last; `noted`: plan.json."""

    run: RunDir
    text: str
    values: Mapping[str, Any]
    written: Mapping[str, Any]
    noted: Mapping[str, Any]
    backend: Backend
    environ: Mapping[str, str]

    @property
    def loopai(self) -> Mapping[str, Any]:
        block: Mapping[str, Any] = self.values["loopai"]
        return block

    @property
    def native(self) -> dict[str, Any]:
        return {key: value for key, value in self.values.items() if key not in plans.RESERVED}


def refresh(run: RunDir, environ: Mapping[str, str], progress: Progress | None = None) -> dict[str, Any]:
    """Rewrite the `loopai` block of an edited YAML; an approval that was given is void. `{"changed", "unified"}`.

    Sources that the YAML names are taken as they are now: data are snapshotted again, files copied, model and
    environment looked at; other edits stay. Nothing is written if nothing changed. Raises Busy for a run that was
    approved and used, ConfigError for edits that no look at inputs can mend.
    """
    with run_hold.not_started(run, "be refreshed"):
        given = approval_file.read(run)
        if given is not None and given.get("consumed_at"):
            raise Busy(
                f"the approval of {run.version_id} was used for its YAML as it was", hint="prepare a new version"
            )
        edited = _edited(run, environ)
        plan, copies = _rewritten(edited, progress)
        if plan.values == edited.values:
            small_inputs.restore(copies)  # their hashes stand in the YAML: a copy that was edited is as approved again
            return {"changed": [], "unified": ""}
        if given is not None:
            void = approval.voided(given, at=clocks.read().now)
            approval_file.write(run, void)
            approval_file.append(run.task, void)
        small_inputs.write(copies)
        atomic.write_text(run.config, plan.text)
        atomic.write_json(run.plan, {**edited.noted, "reserved": plan.loopai, "inputs": plan.loopai["inputs"]})
        return rounds.compare(edited.text, run, plan.text, run)


def _edited(run: RunDir, environ: Mapping[str, str]) -> _Edited:
    data = read_config(run)
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ConfigError(f"{run.config}: not UTF-8 at byte {error.start}", hint="save the file as UTF-8") from None
    document = yaml_text.load(text, run.config, "config")
    written = written_block(run)
    try:
        noted = atomic.read_json(run.plan) or {}
    except (OSError, ValueError):
        noted = {}
    block = document.values.get("loopai")
    if written is None or not noted.get("settings"):
        raise ConfigError(f"{run.plan} is damaged: it does not say what was prepared", hint="prepare again")
    if not isinstance(block, dict) or not isinstance(block.get("inputs"), dict):
        raise ConfigError(
            f"{run.config}: the block loopai.inputs is missing", code="RESERVED_BLOCK", hint="undo that edit"
        )
    problems = list(reserved_problems(block, document.lines, run, refreshing=True))
    if problems:
        raise refuse(problems, run.config)
    backend = backends.get(block["framework"], block["stage"])
    return _Edited(run, text, document.values, written, noted, backend, environ)


def _rewritten(edited: _Edited, progress: Progress | None) -> tuple[Plan, list[small_inputs.Copy]]:
    """The YAML with present inputs, and the copies that it names. Snapshots are written last of all that may fail."""
    run, backend, loopai = edited.run, edited.backend, edited.loopai
    root = _text_at(edited, loopai.get("backend"), "environment", "loopai.backend")
    environment = environments.resolve(root, loopai["framework"], edited.environ)
    versions = backend.probe(environment)
    settings = _settings(edited)
    resolved = Resolved(settings, backend, tuple(backend.fields()))
    model = model_input.read(settings, edited.environ, prepare.tell(progress, "hashing the model"))
    native = _replaced(edited.native, _model_before(edited, "path"), model.path) if model.path else edited.native
    native, copies = small_inputs.take(native, backend.file_keys(), run.inputs, run.path)
    copies += small_inputs.copies(backend.input_files(settings, native), run.inputs)
    secret_scan.refuse_copies(copies)
    paths = run_place.launch_paths(run)
    splits, result = _kept_splits(edited), edited.values.get("result") or {}
    registry, resumed = _kept_registry(edited), _kept_checkpoint(edited)
    changed = _data_changed(edited)
    if resumed:
        _refuse_other_start(edited, changed, model)
    if changed:
        size = _validation_size(edited)
        report = prepare.read_data(resolved, run, size, prepare.tell(progress, "reading data"), _reused(edited))
        native = backend.draft(prepare.for_draft(settings, versions, frozenset(native)), report, native, model, paths)
        splits, registry = prepare.split_entries(report), prepare.file_entries(report, [])
        prompt_manifest.note_reward(run, loopai.get("reward"))
        if ("validation" in splits) != ("validation" in edited.written["inputs"]):
            result = {**result, **backend.result_block(settings, report)}
    pinned = prepare.backend_block(resolved, native, run, environment, versions)
    files = [*registry, *_copy_entries(copies), *resumed]
    entries = {**splits, **model_input.entries(model, settings), "files": files}
    return plans.render({**loopai, "backend": pinned, "inputs": entries}, result, native), copies


def _settings(edited: _Edited) -> Settings:
    """The settings of the preparation, with the sources and the model that the YAML names now."""
    kept = {name: entry for name, entry in edited.noted["settings"].items() if isinstance(entry, dict)}
    values = {name: entry.get("value") for name, entry in kept.items()}
    origins = {name: str(entry.get("origin")) for name, entry in kept.items()}
    chosen = {_dataset_setting(values): _source(edited, "train"), "train_input_model_name": _model_path(edited)}
    own = _is_split(edited) or _reused(edited) is not None
    chosen["train_input_eval_dataset_path"] = None if own else _source(edited, "validation")
    origin = edited.run.config
    return Settings({**values, **chosen}, {**origins, **dict.fromkeys(chosen, origin)})


def _dataset_setting(values: Mapping[str, Any]) -> str:
    return next((name for name in _DATASET_SETTINGS if values.get(name)), _DATASET_SETTINGS[0])


def _model_before(edited: _Edited, what: str) -> str | None:
    """Path or fingerprint of the model as the program wrote it; None if the plan has none."""
    value = (edited.written["inputs"].get("model") or {}).get(what)
    return value if isinstance(value, str) else None


def _model_path(edited: _Edited) -> str | None:
    """The model folder that the YAML names: in the block, or under LLaMA-Factory's own key if only that was edited."""
    before = _model_before(edited, "path")
    if before is None and "model" not in edited.loopai["inputs"]:
        return None
    block = _text_at(edited, edited.loopai["inputs"].get("model"), "path", "loopai.inputs.model")
    native = edited.native.get("model_name_or_path", block)
    if block != native and before not in (block, native):
        raise ConfigError(
            f"{edited.run.config}: loopai.inputs.model.path is {block}, and model_name_or_path is {native}",
            hint="name one model in both",
        )
    return str(native if block == before else block)


def _source(edited: _Edited, split: str) -> str | None:
    entry = edited.loopai["inputs"].get(split)
    if entry is None and split != "train":
        return None
    source = entry.get("source") if isinstance(entry, dict) else None
    return _text_at(edited, source, "path", f"loopai.inputs.{split}.source")


def _is_split(edited: _Edited) -> bool:
    """Whether the validation rows are held out of the training file, and the edit leaves it so."""
    before, now = edited.written["inputs"].get("validation"), edited.loopai["inputs"].get("validation")
    if not before or not now:
        return False
    own = (edited.written["inputs"]["train"].get("source") or {}).get("path")
    if not own or own != (before.get("source") or {}).get("path"):
        return False
    # Both entries name the one file: an edit of the first alone, or of both, leaves it a split.
    return _source(edited, "validation") in (own, _source(edited, "train"))


def _reused(edited: _Edited) -> str | None:
    """The last round's validation data, as long as the edit leaves them: no setting named them (decision 23)."""
    before = edited.written["inputs"].get("validation")
    named = any((edited.noted["settings"].get(name) or {}).get("value") for name in _EVAL_SETTINGS)
    if not before or named or edited.backend.data_kind != "prompts" or _is_split(edited):
        return None
    path = (before.get("source") or {}).get("path")
    return path if path and path == _source(edited, "validation") else None


def _validation_size(edited: _Edited) -> float | int | None:
    """How many rows are held out: as at the preparation, else the share that the plan had."""
    if not _is_split(edited):
        return None
    size = edited.noted.get("validation_size")
    if isinstance(size, int | float) and not isinstance(size, bool) and size > 0:
        return size
    train, held = (int(edited.written["inputs"][split]["rows"]) for split in _SPLITS)
    return held / (train + held)


def _data_changed(edited: _Edited) -> bool:
    """Whether another source is named, a source has changed, or a snapshot is not what the program wrote."""
    cache = hashing.HashCache(user_dirs.hash_cache(edited.environ))
    for split in _SPLITS:
        before, now = edited.written["inputs"].get(split), edited.loopai["inputs"].get(split)
        if not before and not now:
            continue
        if not before or not now or _source(edited, split) != (before.get("source") or {}).get("path"):
            return True
        if _hash(before["path"], cache) != before["sha256"]:
            return True
        # A source that is gone is no change: training reads the snapshot.
        if _hash(before["source"]["path"], cache) not in (None, before["source"]["sha256"]):
            return True
    return False


def _hash(path: str, cache: hashing.HashCache) -> str | None:
    return hashing.sha256_file(path, cache) if os.path.isfile(path) else None


def _kept_splits(edited: _Edited) -> dict[str, Any]:
    return {split: edited.written["inputs"][split] for split in _SPLITS if edited.written["inputs"].get(split)}


def _kept_registry(edited: _Edited) -> list[Any]:
    return [entry for entry in edited.written["inputs"]["files"] if entry.get("path") == edited.run.dataset_info]


def _kept_checkpoint(edited: _Edited) -> list[Any]:
    """What a resumed round pins besides: its checkpoint's files and the earlier metrics."""
    block = edited.written.get("resume")
    if not isinstance(block, Mapping):
        return []
    inside = os.path.join(str(block.get("path")), "")
    files = edited.written["inputs"]["files"]
    return [one for one in files if one["path"].startswith(inside) or one["path"] == edited.run.earlier_metrics]


def _refuse_other_start(edited: _Edited, data_changed: bool, model: Model) -> None:
    """Raises ConfigError RESUME_INPUT_CHANGED: a checkpoint goes on with the data and the model that made it."""
    what = "data" if data_changed else "model"
    if data_changed or model.fingerprint != _model_before(edited, "fingerprint"):
        raise ConfigError(
            f"{edited.run.config}: the {what} changed, but this round continues a checkpoint that another made",
            code="RESUME_INPUT_CHANGED",
            hint="bring the former inputs back, or prepare a new training without --resume",
        )


def _copy_entries(copies: list[small_inputs.Copy]) -> list[dict[str, Any]]:
    return [{"path": copy.path, "sha256": copy.sha256, "bytes": len(copy.data)} for copy in copies]


def _replaced(native: dict[str, Any], before: str | None, after: str) -> dict[str, Any]:
    """The native keys that name the model, naming the present one."""
    found: dict[str, Any] = _walk(native, before, after)
    if "model_name_or_path" in found:
        found["model_name_or_path"] = after
    return found


def _walk(value: Any, before: str | None, after: str) -> Any:
    if isinstance(value, dict):
        return {key: _walk(item, before, after) for key, item in value.items()}
    return after if value == before else value


def _text_at(edited: _Edited, block: object, key: str, where: str) -> str:
    value = block.get(key) if isinstance(block, dict) else None
    if not isinstance(value, str) or not value:
        raise ConfigError(
            f"{edited.run.config}: '{where}.{key}' is missing or not text", code="RESERVED_BLOCK", hint="name it there"
        )
    return value
