"""inspect after edits: what it takes, what it refuses, what --refresh takes in anew."""

import json
import os
from pathlib import Path

import pytest
import yaml

from loopai_trainer.errors import Busy, ConfigError, DataError, TrainerError
from loopai_trainer.files import approval_file
from loopai_trainer.files.run_dir import RunDir
from loopai_trainer.host import clocks
from loopai_trainer.operations.inspect import inspect
from loopai_trainer.operations.prepared_config import diff_to_shown
from loopai_trainer.operations.run_prepared import check_inspected
from loopai_trainer.records import Rehearsal
from loopai_trainer.rules import approval
from loopai_trainer.rules import plan as plans

MORE = [{"instruction": f"question {n}", "output": f"answer {n}"} for n in range(20)]


class Inspected:
    """A prepared plan, edited by hand and inspected."""

    def __init__(self, place):
        self.place = place
        self.first = place.prepare().data
        self.run = RunDir(self.first["run_dir"])

    @property
    def values(self):
        return yaml.safe_load(Path(self.run.config).read_text())

    def edit(self, change):
        values = self.values
        change(values)
        Path(self.run.config).write_text(yaml.safe_dump(values, sort_keys=False))

    def replace(self, old, new):
        path = Path(self.run.config)
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new))

    def inspect(self, *, refresh=False):
        return inspect(self.run.config, self.place.environ, refresh_inputs=refresh)

    def refused(self, kind=TrainerError, *, refresh=False):
        before = {name: file_state(name) for name in (self.run.config, self.run.plan, self.run.prepared_data)}
        with pytest.raises(kind) as caught:
            self.inspect(refresh=refresh)
        assert {name: file_state(name) for name in before} == before
        return caught.value


def file_state(path):
    if os.path.isdir(path):
        return sorted(os.listdir(path))
    return Path(path).read_bytes()


@pytest.fixture
def plan(place):
    return Inspected(place)


def test_an_edit_of_native_keys_gives_a_new_hash(plan):
    plan.replace("seed: 42", "seed: 7")
    answer = plan.inspect()
    assert answer.data["config_sha256"] != plan.first["config_sha256"]
    assert answer.data["diff"] is None
    assert "refreshed" not in answer.data
    assert answer.data["next_command"].endswith(answer.data["config_sha256"])
    check_inspected(plans.read(Path(plan.run.config).read_bytes(), plan.run.config), plan.run)


def test_it_writes_nothing_but_its_note(plan):
    def everything():
        paths = [path for path in Path(plan.run.path).rglob("*") if path.is_file() and path.name != "plan.json"]
        return {str(path): path.read_bytes() for path in paths}

    before = everything()
    plan.inspect()
    assert everything() == before


@pytest.mark.parametrize(
    ("change", "key"),
    [
        (lambda v: v["loopai"].update(task_id="other"), "loopai.task_id"),
        (lambda v: v["loopai"].update(stage="dpo"), None),
        (lambda v: v["loopai"].update(extra=1), "loopai.extra"),
        (lambda v: v["loopai"]["backend"].update(package="other"), "loopai.backend.package"),
        (lambda v: v["loopai"]["inputs"]["train"]["source"].update(path="/data/x.jsonl"), "loopai.inputs.train.source.path"),
        (lambda v: v["loopai"]["inputs"]["train"].update(rejected=3), "loopai.inputs.train.rejected"),
        (lambda v: v["loopai"]["inputs"]["train"].pop("source"), "loopai.inputs.train.source.path"),
        (lambda v: v["loopai"]["inputs"].update(files=[]), "loopai.inputs.files"),
        (lambda v: v["loopai"].update(approval={"require": "hash"}), "loopai.approval.require"),
    ],
)  # fmt: skip
def test_edits_that_break_the_reserved_block_are_refused(plan, change, key):
    plan.edit(change)
    error = plan.refused()
    if key is not None:
        found = {problem.field: problem for problem in error.problems if problem.code == "RESERVED_BLOCK"}
        assert key in found
        assert found[key].hint
        assert not key.startswith("loopai.inputs") or "--refresh" in found[key].hint


def test_a_model_that_the_framework_needs_cannot_be_edited_away(plan):
    plan.edit(lambda v: v["loopai"]["inputs"].pop("model"))
    error = plan.refused()
    assert error.code == "RESERVED_BLOCK" and "loopai.inputs.model" in error.message


def test_the_way_on_is_a_refresh_where_that_mends_all(plan):
    plan.replace("rows: 2", "rows: 3")
    assert plan.refused().next_command == f"trainer inspect {plan.run.config} --refresh"
    plan.edit(lambda v: v["loopai"].update(extra=1))
    assert plan.refused().next_command == ""


def test_what_a_person_decides_may_be_edited_in_the_block(plan):
    plan.edit(lambda v: v["loopai"].update(checks={"max_cut_share": 0.1}, approval={"require": "terminal"}))
    answer = plan.inspect()
    assert answer.data["next_command"] == f"trainer approve {plan.run.path}"
    plan.edit(lambda v: v["loopai"].pop("approval"))  # raised by hand, and inspected: lowering it is an edit as well
    assert plan.refused().problems[0].field == "loopai.approval.require"


def test_a_setting_that_demands_a_terminal_stands_in_the_plan(place):
    answer = place.prepare(approval_require="terminal")
    values = yaml.safe_load(answer.data["config_yaml"])
    assert values["loopai"]["approval"] == {"require": "terminal"}
    assert answer.data["next_command"] == f"trainer approve {answer.data['run_dir']}"


class TestRefresh:
    def test_with_nothing_changed_it_changes_nothing(self, plan):
        before = Path(plan.run.config).read_bytes()
        answer = plan.inspect(refresh=True)
        assert answer.data["refreshed"] == {"changed": [], "unified": ""}
        assert Path(plan.run.config).read_bytes() == before

    def test_comments_and_form_of_an_edit_stay_if_no_input_changed(self, plan):
        plan.replace("seed: 42", "# mine\nseed: 7")
        plan.inspect(refresh=True)
        assert "# mine\nseed: 7\n" in Path(plan.run.config).read_text()

    def test_a_source_that_changed_is_snapshotted_again(self, plan, place):
        place.write_rows(MORE)
        assert plan.inspect().data["counts"]["train"]["usable"] == 6  # the snapshot is what training reads
        answer = plan.inspect(refresh=True)
        assert answer.data["counts"]["train"]["usable"] == 15
        assert answer.data["counts"]["validation"]["usable"] == 5
        keys = {change["key"] for change in answer.data["refreshed"]["changed"]}
        assert {"loopai.inputs.train.rows", "loopai.inputs.train.source.sha256"} <= keys
        assert "+      rows: 15" in answer.data["refreshed"]["unified"]
        inputs = plan.values["loopai"]["inputs"]
        for split in ("train", "validation"):
            assert os.path.isfile(inputs[split]["path"])
        assert len([name for name in os.listdir(plan.run.prepared_data) if name.endswith(".parquet")]) == 2
        plan.inspect()  # and all is as it should be

    def test_another_source_and_other_edits_together(self, plan, place):
        other = place.root / "other.jsonl"
        other.write_text("".join(json.dumps(row) + "\n" for row in MORE))
        plan.edit(lambda v: (v["loopai"]["inputs"]["train"]["source"].update(path=str(other)), v.update(seed=7)))
        answer = plan.inspect(refresh=True)
        inputs = plan.values["loopai"]["inputs"]
        assert inputs["train"]["source"]["path"] == inputs["validation"]["source"]["path"] == str(other)
        assert answer.data["counts"]["train"]["usable"] == 15
        assert plan.values["seed"] == 7

    def test_another_source_in_both_places_stays_one_split_file(self, plan, place):
        other = place.root / "other.jsonl"
        other.write_text("".join(json.dumps(row) + "\n" for row in MORE))
        plan.replace(str(place.data), str(other))  # as an editor's replace-all leaves it
        counts = plan.inspect(refresh=True).data["counts"]
        assert (counts["train"]["usable"], counts["validation"]["usable"]) == (15, 5)

    def test_it_is_the_plan_that_prepare_would_have_made(self, plan, place):
        place.write_rows(MORE)
        plan.inspect(refresh=True)
        fresh = place.prepare(trainer_version_id="v2")
        wanted = yaml.safe_load(fresh.data["config_yaml"].replace("/v2/", "/v1/"))
        found = plan.values
        assert found["loopai"]["inputs"]["train"] == wanted["loopai"]["inputs"]["train"]
        assert found["loopai"]["inputs"]["validation"] == wanted["loopai"]["inputs"]["validation"]
        assert found["loopai"]["backend"] == wanted["loopai"]["backend"]

    def test_an_evaluation_file_of_its_own_instead_of_a_split(self, plan, place):
        held = place.root / "held.jsonl"
        held.write_text("".join(json.dumps({"instruction": f"other {n}", "output": "yes"}) + "\n" for n in range(3)))
        plan.edit(lambda v: v["loopai"]["inputs"]["validation"].update(source={"path": str(held)}))
        answer = plan.inspect(refresh=True)
        assert answer.data["counts"]["train"]["usable"] == 8
        assert answer.data["counts"]["validation"]["usable"] == 3

    def test_nothing_is_held_out_any_more(self, plan):
        plan.edit(lambda v: v["loopai"]["inputs"].pop("validation"))
        answer = plan.inspect(refresh=True)
        assert answer.data["counts"] == {"train": {"input": 8, "usable": 8, "rejected": 0}, "validation": None}
        values = plan.values
        assert "eval_dataset" not in values
        assert values["result"]["selection_metric"] == "loss"

    def test_a_changed_model_folder_and_another_one(self, plan, place):
        before = plan.values["loopai"]["inputs"]["model"]["fingerprint"]
        (Path(place.model) / "notes.txt").write_text("new\n")
        assert plan.refused().exit_code == 6
        plan.inspect(refresh=True)
        assert plan.values["loopai"]["inputs"]["model"]["fingerprint"] != before
        os.rename(place.model, place.root / "moved")
        plan.replace(f"model_name_or_path: {place.model}", f"model_name_or_path: {place.root}/moved")
        plan.inspect(refresh=True)
        assert plan.values["loopai"]["inputs"]["model"]["path"] == f"{place.root}/moved"
        os.rename(place.root / "moved", place.model)
        plan.edit(lambda v: v["loopai"]["inputs"]["model"].update(path=str(place.model)))
        plan.inspect(refresh=True)
        assert plan.values["model_name_or_path"] == str(place.model)

    def test_two_models_are_refused(self, plan, place):
        plan.edit(lambda v: (v["loopai"]["inputs"]["model"].update(path="/a"), v.update(model_name_or_path="/b")))
        assert "/a" in plan.refused(ConfigError, refresh=True).message

    def test_a_small_file_is_copied(self, plan, place):
        ours = place.root / "mine.json"
        ours.write_text('{"zero_optimization": {"stage": 2}, "train_micro_batch_size_per_gpu": "auto"}')
        plan.edit(lambda v: v.update(deepspeed=str(ours)))
        try:
            plan.inspect(refresh=True)
        except ConfigError as error:  # what the review says of DeepSpeed on a CPU is not the matter here
            assert "deepspeed" in error.message.lower()
        values = plan.values
        assert values["deepspeed"] == os.path.join(plan.run.inputs, "deepspeed.json")
        assert Path(values["deepspeed"]).read_bytes() == ours.read_bytes()
        assert values["loopai"]["inputs"]["files"][-1]["path"] == values["deepspeed"]

    def test_bad_rows_leave_everything_as_it_was(self, plan, place):
        place.write_rows([{"instruction": "x", "output": ""}])
        with pytest.raises(DataError):
            plan.inspect(refresh=True)
        plan.inspect()
        assert Path(plan.run.config).read_text() == plan.first["config_yaml"]

    def test_identity_cannot_be_refreshed(self, plan):
        plan.edit(lambda v: v["loopai"].update(task_id="other"))
        assert plan.refused(ConfigError, refresh=True).problems[0].field == "loopai.task_id"

    @pytest.mark.parametrize(
        "change",
        [
            lambda v: v["loopai"].pop("inputs"),
            lambda v: v.pop("loopai"),
            lambda v: v["loopai"]["inputs"]["train"].pop("source"),
            lambda v: v["loopai"]["inputs"].pop("train"),
            lambda v: v["loopai"]["inputs"].pop("model"),
            lambda v: v["loopai"]["backend"].update(environment=3),
        ],
    )
    def test_a_block_that_names_no_source_is_refused(self, plan, change):
        plan.edit(change)
        assert plan.refused(refresh=True).code in ("RESERVED_BLOCK", "CONFIG_INVALID")

    def test_without_a_whole_plan_json_it_is_refused(self, plan):
        Path(plan.run.plan).write_text("{")
        assert "plan.json is damaged" in plan.refused(ConfigError, refresh=True).message

    def test_an_approval_that_was_given_is_void(self, plan, place):
        give_approval(plan)
        place.write_rows(MORE)
        plan.inspect(refresh=True)
        record = approval_file.read(plan.run)
        assert record["voided_at"]
        assert approval_file.history(plan.run.task)[-1] == record

    def test_a_used_approval_cannot_be_taken_back(self, plan, place):
        given = give_approval(plan)
        approval_file.write(plan.run, approval.consumed(given, at=2.0, by={}))
        place.write_rows(MORE)
        assert plan.refused(Busy, refresh=True).exit_code == 7

    def test_a_run_that_somebody_works_on_is_busy(self, plan):
        from loopai_trainer.host import locks

        fd = locks.try_exclusive(plan.run.run_lock)
        try:
            assert plan.refused(Busy, refresh=True).exit_code == 7
        finally:
            os.close(fd)

    def test_a_run_that_was_started_is_busy(self, plan):
        os.makedirs(plan.run.launch)
        Path(plan.run.launch_started).write_text("{}")
        assert plan.refused(Busy, refresh=True).exit_code == 7


def give_approval(plan):
    now = clocks.read()
    record = approval.new_record(
        task_id="default",
        version_id="v1",
        run_dir=plan.run.path,
        round_number=1,
        config_sha256=plan.first["config_sha256"],
        prepared_at=now.now,
        approved_at=now.now,
        counted_from=now.now,
        boot=now.boot(),
        approver={},
        approved_via="terminal",
    )
    approval_file.write(plan.run, record)
    approval_file.append(plan.run.task, record)
    return record


def test_the_status_of_an_inspected_plan_says_if_it_is_approved(plan):
    assert plan.inspect().status == "prepared"
    give_approval(plan)
    answer = plan.inspect()
    assert answer.status == "approved"
    assert answer.data["next_command"].startswith("trainer run-prepared ")


def test_a_hash_that_was_approved_before_an_inspected_edit_is_answered_with_that_difference(plan):
    for seed in range(8):
        path = Path(plan.run.config)
        path.write_text(path.read_text().replace(f"seed: {seed - 1 if seed else 42}", f"seed: {seed}"))
        plan.inspect()
    text = Path(plan.run.config).read_text()
    noted = json.loads(Path(plan.run.plan).read_text())
    assert len(noted["shown_before"]) == 5
    newest = noted["shown_before"][0]["config_sha256"]
    assert "-seed: 6\n+seed: 7\n" in diff_to_shown(plan.run, text, newest)
    assert "-seed: 2\n+seed: 7\n" in diff_to_shown(plan.run, text, noted["shown_before"][-1]["config_sha256"])
    assert diff_to_shown(plan.run, text, "0" * 64) == ""  # one that is not known: the last that was shown
    plan.inspect()
    assert json.loads(Path(plan.run.plan).read_text())["shown_before"] == noted["shown_before"]
    Path(plan.run.plan).write_text('{"shown_before": 3}')
    assert diff_to_shown(plan.run, text, "0" * 64) is None


class TestRefreshOfOtherShapes:
    def test_a_split_keeps_its_share_where_its_size_is_not_known(self, plan, place):
        noted = json.loads(Path(plan.run.plan).read_text())
        Path(plan.run.plan).write_text(json.dumps({**noted, "validation_size": None}))
        place.write_rows(MORE)
        assert plan.inspect(refresh=True).data["counts"]["validation"]["usable"] == 5

    def test_a_plan_without_held_out_rows(self, place):
        place.template.write_text(place.template.read_text().replace("val_size: 0.25\n", ""))
        plan = Inspected(place)
        place.write_rows(MORE)
        assert plan.inspect(refresh=True).data["counts"]["train"]["usable"] == 20

    def test_a_file_that_is_no_text(self, plan):
        Path(plan.run.config).write_bytes(b"a: \xff\n")
        assert "UTF-8" in plan.refused(ConfigError, refresh=True).message

    def test_a_source_that_is_gone_leaves_the_snapshot(self, plan, place):
        place.data.unlink()
        assert plan.inspect(refresh=True).data["refreshed"]["changed"] == []

    def test_a_snapshot_that_was_touched_is_made_again(self, plan):
        path = Path(plan.values["loopai"]["inputs"]["train"]["path"])
        good = path.read_bytes()
        path.chmod(0o600)
        path.write_bytes(good[:-1] + b"x")
        assert plan.refused().exit_code in (3, 6)
        assert plan.inspect(refresh=True).data["refreshed"]["changed"] == []
        assert path.read_bytes() == good


def test_who_is_asked_is_not_asked_once_that_was_edited(plan, monkeypatch):
    """`loopai.backend.python` is a program: one that an edit names is refused, and not run to find that out."""
    from loopai_trainer.operations import review

    asked = []
    monkeypatch.setattr(review, "_rehearsed", lambda *arguments: asked.append(arguments) or Rehearsal())
    plan.inspect()
    assert len(asked) == 1
    plan.edit(lambda values: values["loopai"]["backend"].update(python="/tmp/another/python"))
    assert plan.refused(ConfigError).problems[0].code == "RESERVED_BLOCK"
    assert len(asked) == 1
