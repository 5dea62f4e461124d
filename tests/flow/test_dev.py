"""trainer dev: what it shows, that it keeps to its bounds whoever dies, and that nothing of it becomes a training."""

import hashlib
import json
import os
import shutil
import signal
from pathlib import Path

import pytest
from fakes import nvml
from fakes.runs import LIMIT_S, PreparedRun, answer, kill, wait_for

from loopai_trainer.files.run_dir import RunDir
from loopai_trainer.host import locks, processes
from loopai_trainer.worker.observe import observe, read_started

pytestmark = pytest.mark.flow


class DevRun:
    """The newest dev run of a prepared version."""

    def __init__(self, prepared):
        folder = Path(prepared.run.task.dev_run(prepared.run.version_id, "x").path).parent
        (name,) = sorted(os.listdir(folder))
        self.run = RunDir(str(folder / name))
        self.folder = folder / name

    @property
    def state(self):
        return observe(self.run).state

    def living(self):
        own = [self.state.get("worker"), read_started(self.run).get("keeper")]
        marked = processes.marked(self.run.version_id, self.run.path)
        return [one for one in [*own, *marked] if one and processes.alive(one)]

    def wait_until_gone(self):
        wait_for(lambda: not self.living())
        wait_for(lambda: not (locks.held(self.run.run_lock) or locks.held(self.run.training_lock)))


def dev(prepared, *more):
    return prepared.call("dev", prepared.run.config, "--json", *more)


def begun(prepared, step=2):
    """The dev run, once its training has made that step; None: once it has a worker."""

    def found():
        try:
            run = DevRun(prepared)
        except (FileNotFoundError, ValueError):
            return None
        state = run.state
        return run if (state.get("current_step") == step if step else state.get("worker")) else None

    return wait_for(found)


def outcomes(document):
    return {check["name"]: check["outcome"] for check in document["data"]["checks"]}


def tree(folder):
    """Path -> (kind, bytes, mode, mtime) of everything in a folder."""
    found = {}
    for root, names, files in os.walk(folder):
        for name in (*names, *files):
            path = os.path.join(root, name)
            status = os.lstat(path)
            data = Path(path).read_bytes() if os.path.isfile(path) else b""
            found[path] = (status.st_mode, data, status.st_mtime_ns)
    return found


@pytest.fixture
def hold(tmp_path):
    """A file that keeps a training from ending for as long as it is there."""
    path = tmp_path / "hold"
    path.touch()
    return str(path)


class TestPassing:
    @pytest.fixture
    def tried(self, prepare):
        prepared = prepare(steps=500, pause_s=1000.0, dev_keys={"pause_s": 0.0}, export="good")
        before = tree(prepared.run.path)
        code, document = answer(dev(prepared))
        return prepared, before, code, document

    def test_it_says_what_it_has_shown(self, tried):
        _, _, code, document = tried
        assert (code, document["ok"], document["status"], document["error"]) == (0, True, "passed", None)
        assert outcomes(document) == dict.fromkeys(("configuration", "inputs", "training", "saving"), "passed")
        details = {check["name"]: check["detail"] for check in document["data"]["checks"]}
        assert details["training"].startswith("2 of 2 steps on 1 rows in ")
        assert details["training"].endswith("loss 2 -> 1")
        assert document["data"]["bounds"] == {"steps": 2, "rows": {"train": 1}, "limit_s": 900.0}
        assert set(document["data"]["not_shown"]) == {"the weather", "the rest of the training"}

    def test_nothing_of_the_version_is_touched_and_it_can_be_run_as_before(self, tried):
        prepared, before, _, document = tried
        assert tree(prepared.run.path) == before
        assert not os.path.exists(prepared.run.task.approvals)
        assert prepared.status == "prepared"
        following = ["trainer", "run-prepared", prepared.run.config, "--sha256", prepared.sha256]
        assert document["data"]["next_command"].split() == following

    def test_it_is_recorded_and_leaves_no_model(self, tried):
        prepared, _, _, document = tried
        run = DevRun(prepared)
        report = json.loads((run.folder / "dev_report.json").read_text())
        assert (report["mode"], report["verdict"]) == ("dev", "passed")
        assert report["checks"] == document["data"]["checks"]
        assert report["config_sha256"] == prepared.sha256
        result = json.loads((run.folder / "worker_result.json").read_text())
        assert (result["status"], result["result"]["export"]) == ("completed", "none")
        assert (result["update_model_path"], result["best_checkpoint"], result["checkpoints"]) == (None, None, [])
        assert not (run.folder / "checkpoints").exists()
        assert not (run.folder / "exports").exists()
        run.wait_until_gone()

    def test_it_stands_in_no_list_and_in_no_approval_history(self, tried):
        prepared, _, _, _ = tried
        _, listed = answer(prepared.call("list", "--json"))
        assert [one["trainer_version_id"] for one in listed["data"]["runs"]] == ["v1"]
        assert [path.name for path in Path(prepared.run.task.path).iterdir() if path.name != "trainer"] == ["dev"]

    def test_its_plan_cannot_be_run_approved_inspected_exported_or_resumed(self, tried):
        prepared, _, _, _ = tried
        run = DevRun(prepared)
        shutil.copy(run.run.approved_config, run.run.config)
        hash_of_it = json.loads((run.folder / "worker_result.json").read_text())["config_sha256"]
        for words in (
            ("inspect", run.run.config),
            ("dev", run.run.config),
            ("export", run.run.path),
            ("prepare", "--resume", run.run.path),
        ):
            code, document = answer(prepared.call(*words, "--json"))
            said = document["error"] or {}
            checks = (document["data"] or {}).get("checks") or []
            assert code in (1, 2, 3), words
            assert "DEV_PLAN" in (said.get("code"), *(check["code"] for check in checks)), words
        (run.folder / "run_state.json").unlink()
        (run.folder / "worker_result.json").unlink()
        shutil.rmtree(run.run.launch)
        code, document = answer(prepared.call("run-prepared", run.run.config, "--sha256", hash_of_it, "--json"))
        assert (code, document["error"]["code"]) == (3, "DEV_PLAN")


def test_loopais_own_store_and_files_hear_nothing_of_it(prepare, tmp_path):
    prepared = prepare()
    prepared.extra_env = {"DB_PATH": str(tmp_path / "no store.db")}
    code, _ = answer(dev(prepared))
    run = DevRun(prepared)
    assert code == 0
    assert "store" not in (run.folder / "worker.log").read_text()
    assert list(Path(prepared.run.task.path).rglob("*.pkl")) == []


class TestFailing:
    @pytest.mark.parametrize(
        ("options", "code", "words"),
        [
            ({"stop_at": 2, "exit_code": 3}, "EXIT_STATUS", "RuntimeError: stand-in failure"),
            ({"nan_at": 2}, "DIVERGED", "not finite"),
            ({"artefact": False}, "ARTEFACT_MISSING", "final.json is missing"),
            ({"program": "/bin/does-not-exist"}, "EXEC_FAILED", "could not be started"),
            ({"report_examples": 7}, "EXAMPLES_MISMATCH", "7 train examples, but 8 were approved"),
        ],
    )
    def test_a_training_that_would_fail(self, prepare, options, code, words):
        prepared = prepare(**options)
        exit_code, document = answer(dev(prepared))
        assert (exit_code, document["status"], document["error"]["code"]) == (1, "failed", "DEV_FAILED")
        check = document["data"]["checks"][-1]
        assert (check["name"], check["outcome"], check["code"]) == ("training", "failed", code)
        assert words in check["detail"]
        assert document["data"]["next_command"] == ""
        assert prepared.status == "prepared"

    def test_an_edited_plan_starts_nothing(self, prepare):
        prepared = prepare()
        config = Path(prepared.run.config)
        config.write_text(config.read_text().replace("rows: 1", "rows: 2"))
        code, document = answer(dev(prepared))
        assert (code, outcomes(document)) == (1, {"configuration": "failed"})
        assert "loopai.inputs.train.rows" in document["data"]["checks"][0]["detail"]
        assert not (DevRun(prepared).folder / "launch").exists()

    def test_a_changed_input_starts_nothing(self, prepare):
        prepared = prepare()
        Path(prepared.run.path, "train.jsonl").write_text("{}\n")
        code, document = answer(dev(prepared))
        assert (code, outcomes(document)) == (1, {"inputs": "failed"})
        assert document["data"]["checks"][0]["code"] == "INPUT_CHANGED"


class TestBounds:
    def test_a_backend_that_makes_more_steps_than_it_was_given_is_stopped(self, prepare, hold):
        prepared = prepare(dev_keys={"steps": 3, "hold_file": hold})
        code, document = answer(dev(prepared))
        assert (code, document["data"]["checks"][-1]["code"]) == (1, "DEV_STEP_LIMIT")
        DevRun(prepared).wait_until_gone()

    @pytest.mark.parametrize("asked", [{"dev_steps": 17}, {"dev_rows": 65}, {"dev_steps": 0}, {"dev_rows": 0}])
    def test_a_backend_that_asks_for_more_gets_nothing(self, prepare, asked):
        prepared = prepare(**asked)
        code, document = answer(dev(prepared))
        assert (code, document["error"]["code"]) == (3, "NOT_SHOWN")
        assert document["data"]["checks"][-1]["code"] == "DEV_UNBOUNDED"
        assert not (DevRun(prepared).folder / "launch").exists()

    def test_the_time_is_limited(self, prepare, hold):
        prepared = prepare(dev_keys={"hold_file": hold})
        code, document = answer(dev(prepared, "--limit", "0.5"))
        check = document["data"]["checks"][-1]
        assert (code, document["status"], check["code"]) == (3, "not_shown", "DEV_TIME_LIMIT")
        assert (check["outcome"], check["hint"]) == ("not_shown", "give it more time with --limit")
        DevRun(prepared).wait_until_gone()

    @pytest.mark.parametrize("limit", ["0", "3601", "-1", "nan"])
    def test_nobody_gets_more_time_than_there_is(self, prepare, limit):
        prepared = prepare()
        code, document = answer(dev(prepared, f"--limit={limit}"))
        assert (code, document["error"]["type"]) == (2, "UsageError")
        assert not os.path.exists(os.path.join(prepared.run.task.path, "dev"))

    def test_the_limit_holds_after_the_caller_was_killed(self, prepare, hold):
        prepared = prepare(dev_keys={"hold_file": hold})
        caller = dev(prepared, "--limit", "15")
        run = begun(prepared, step=None)  # its worker lives, whatever training has done by then
        caller.kill()
        caller.communicate()
        assert caller.returncode == -signal.SIGKILL
        wait_for(lambda: observe(run.run).verdict.status == "failed")
        assert run.state["error"]["code"] == "DEV_TIME_LIMIT"
        run.wait_until_gone()
        assert not (run.folder / "checkpoints").exists()

    def test_only_the_rows_that_it_was_given_are_there(self, prepare):
        prepared = prepare(dev_rows=3)
        data = Path(prepared.run.path, "train.jsonl")
        rewritten(prepared, data, data.read_bytes() * 50)
        code, document = answer(dev(prepared))
        assert (code, document["data"]["bounds"]["rows"]) == (0, {"train": 3})
        run = DevRun(prepared)
        assert (run.folder / "prepared_data" / "train.jsonl").read_bytes().count(b"\n") == 3
        assert str(prepared.run.path) not in Path(run.run.approved_config).read_text().replace(prepared.sha256, "")


def rewritten(prepared, data, rows):
    """Other data in a prepared run, as if they had been prepared."""
    config = Path(prepared.run.config)
    old = hashlib.sha256(data.read_bytes()).hexdigest()
    size = data.stat().st_size
    data.write_bytes(rows)
    text = (
        config.read_text()
        .replace(old, hashlib.sha256(rows).hexdigest())
        .replace(f"bytes: {size}", f"bytes: {len(rows)}")
    )
    config.write_text(text)
    noted = json.loads(Path(prepared.run.plan).read_text())
    prepared.sha256 = hashlib.sha256(text.encode()).hexdigest()
    Path(prepared.run.plan).write_text(json.dumps({**noted, "config_yaml": text, "config_sha256": prepared.sha256}))


class TestNotHere:
    def test_in_a_sandbox_the_checks_run_and_the_training_does_not(self, prepare):
        prepared = prepare()
        prepared.extra_env = {"CODEX_SANDBOX": "seatbelt"}
        code, document = answer(dev(prepared))
        assert (code, document["error"]["code"]) == (3, "NOT_SHOWN")
        assert outcomes(document) == {"configuration": "passed", "inputs": "passed", "training": "not_shown"}
        assert document["data"]["checks"][-1]["code"] == "SANDBOXED"
        assert document["data"]["not_shown"] == {}

    def test_without_the_plans_devices_the_training_is_not_shown(self, prepare, tmp_path):
        launch = {"executor": "local", "devices": "999", "nodes": 1, "nproc_per_node": 1, "env": {}, "pass_env": []}
        prepared = PreparedRun(tmp_path, "gpu", {"launch": launch})
        code, document = answer(dev(prepared))
        assert (code, outcomes(document)["training"]) == (3, "not_shown")
        assert document["data"]["checks"][-1]["code"] in ("NO_DEVICE", "DEVICE_NOT_FOUND")
        assert document["data"]["next_command"].startswith("trainer run-prepared ")

    @pytest.mark.parametrize("more", [{"nodes": 2}, {"executor": "ray_jobs", "address": "http://head:8265"}])
    def test_a_training_on_other_hosts_is_not_tried_on_this_one(self, prepare, tmp_path, more):
        launch = {
            "executor": "local",
            "devices": "",
            "nodes": 1,
            "nproc_per_node": 1,
            "env": {},
            "pass_env": [],
            **more,
        }
        prepared = PreparedRun(tmp_path, "far", {"launch": launch})
        code, document = answer(dev(prepared))
        assert (code, document["data"]["checks"][-1]["code"]) == (3, "OTHER_HOSTS")

    def test_a_backend_may_say_that_it_cannot_cut_a_plan_down(self, prepare):
        prepared = prepare(dev_refused="a step needs 4096 prompts")
        code, document = answer(dev(prepared))
        assert (code, document["data"]["checks"][-1]["detail"]) == (3, "a step needs 4096 prompts")

    def test_a_folder_that_cannot_be_made_is_no_failure_of_the_plan(self, prepare):
        prepared = prepare()
        Path(prepared.run.task.path, "dev").write_text("somebody's file\n")
        code, document = answer(dev(prepared))
        assert (code, document["data"]["checks"][-1]["code"]) == (3, "NOT_WRITABLE")
        assert document["data"]["dev_dir"] is None


class TestDevices:
    @pytest.fixture
    def on_gpu(self, tmp_path):
        """Makes versions that train on the first of this host's two GPUs."""
        driver = nvml.library_folder(tmp_path)
        launch = {"executor": "local", "devices": "0", "nodes": 1, "nproc_per_node": 1, "env": {}, "pass_env": []}

        def make(version_id, **options):
            made = PreparedRun(tmp_path, version_id, {"launch": launch}, **options)
            made.extra_env = {"LD_LIBRARY_PATH": driver, "LOOPAI_TRAINER_DEVICE_LOCK_DIR": str(tmp_path / "locks")}
            return made

        return make

    def test_a_dev_run_never_shares_a_gpu_with_a_training(self, on_gpu, hold):
        training = on_gpu("training", hold_file=hold)
        caller = training.start()
        wait_for(lambda: training.state().get("current_step") == 3)
        other = on_gpu("other")
        code, document = answer(dev(other))
        assert (code, document["error"]["code"]) == (7, "DEVICE_IN_USE")
        assert os.listdir(os.path.join(other.run.task.path, "dev", "other")) == []
        os.unlink(hold)
        assert answer(caller)[0] == 0
        wait_for(lambda: training.locked() == (False, False))
        assert answer(dev(other))[0] == 0

    def test_nor_a_training_with_a_dev_run(self, on_gpu, hold):
        tried = on_gpu("tried", dev_keys={"hold_file": hold})
        caller = dev(tried)
        run = begun(tried)
        code, document = on_gpu("training").run_to_end()
        assert (code, document["error"]["code"]) == (7, "DEVICE_IN_USE")
        assert document["error"]["holder"]["run_dir"] == str(run.folder)
        os.unlink(hold)
        assert answer(caller)[0] == 0
        run.wait_until_gone()


class TestStopping:
    @pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
    def test_a_caller_that_is_told_to_stop_ends_the_dev_run(self, prepare, hold, number):
        prepared = prepare(dev_keys={"hold_file": hold, "helper_s": 300.0})
        caller = dev(prepared)
        run = begun(prepared)
        os.kill(caller.pid, number)
        code, document = answer(caller)
        assert (code, document["error"]["code"]) == (130, "INTERRUPTED")
        wait_for(lambda: observe(run.run).verdict.status == "cancelled")
        run.wait_until_gone()

    def test_it_can_be_cancelled_by_its_folder(self, prepare, hold):
        prepared = prepare(dev_keys={"hold_file": hold})
        caller = dev(prepared)
        run = begun(prepared)
        code, document = answer(prepared.call("cancel", run.run.path, "--json"))
        assert (code, document["status"]) == (0, "cancelled")
        code, document = answer(caller)
        assert (code, document["status"], document["error"]["code"]) == (13, "cancelled", "CANCELLED")
        run.wait_until_gone()

    def test_a_dead_worker_is_told(self, prepare, hold):
        prepared = prepare(dev_keys={"hold_file": hold})
        caller = dev(prepared)
        run = begun(prepared)
        kill(run.state["worker"])
        code, document = answer(caller)
        assert code == 1
        assert document["data"]["checks"][-1]["code"] == "ORPHANED_TRAINING"
        code, _ = answer(prepared.call("recover", run.run.path, "--terminate", "--json"))
        assert code == 0
        run.wait_until_gone()


def test_what_people_see(prepare):
    prepared = prepare(red_flag="code of your own runs")
    caller = prepared.call("dev", prepared.run.config, "--no-color")
    out, err = caller.communicate(timeout=LIMIT_S)
    text = out.decode()
    assert caller.returncode == 0
    said = "    red flag, approved by nobody: code of your own runs\n"
    assert text.startswith(f"dev run of v1: passed\n{said}  passed    configuration\n")
    assert "so short a run does not show:" in text
    assert f"next: trainer run-prepared {prepared.run.config}" in text
    lines = err.decode().splitlines()
    begun = next(number for number, line in enumerate(lines) if "which nobody has approved" in line)
    assert "2 steps, at most 1 rows and 900 s" in lines[begun]
    assert lines[begun + 1] == "red flag: code of your own runs"
