import os

import pytest
from fakes.prepared_sft import PreparedSft

from loopai_trainer.errors import InputChanged
from loopai_trainer.files import hashing
from loopai_trainer.operations.run_prepared import run_prepared
from loopai_trainer.rules import plan as plans
from loopai_trainer.worker import inputs


@pytest.fixture
def prepared(tmp_path):
    return PreparedSft(tmp_path)


def changed(prepared, **how):
    with open(prepared.run.config, "rb") as file:
        plan = plans.read(file.read(), prepared.run.config)
    return [(problem.code, problem.path) for problem in inputs.changed_inputs(plan, prepared.environ, **how)]


def test_nothing_changed(prepared):
    assert changed(prepared) == []
    assert changed(prepared, verify_all=True) == []


def test_every_change_is_told_at_once(prepared):
    config = prepared.model / "config.json"
    config.write_text(config.read_text() + " ")
    registry = os.path.join(prepared.run.prepared_data, "dataset_info.json")
    os.unlink(registry)
    assert changed(prepared) == [("INPUT_MISSING", registry), ("INPUT_CHANGED", str(prepared.model))]


@pytest.mark.parametrize("ending", [".parquet", "config.json"])
def test_what_cannot_be_read_is_told_and_no_crash(prepared, monkeypatch, ending):
    real = hashing.sha256_file

    def refused(path, *rest):
        if path.endswith(ending):
            raise PermissionError(13, "Permission denied", path)
        return real(path, *rest)

    monkeypatch.setattr(hashing, "sha256_file", refused)
    monkeypatch.setattr("loopai_trainer.files.fingerprints.sha256_file", refused)
    assert {code for code, _ in changed(prepared)} == {"INPUT_MISSING"}


def test_a_wrong_line_in_the_cache_is_found_by_verify_all_alone(prepared):
    """Whoever may write the user's cache may lie in it: that is what --verify-all is for (docs/security.md)."""
    path = next(name for name in os.listdir(prepared.run.prepared_data) if name.startswith("train-"))
    path = os.path.join(prepared.run.prepared_data, path)
    approved = hashing.sha256_file(path)
    os.chmod(path, 0o600)
    with open(path, "ab") as file:
        file.write(b"x")
    assert changed(prepared) == [("INPUT_CHANGED", path)]
    from loopai_trainer.files import user_dirs

    hashing.HashCache(user_dirs.hash_cache(prepared.environ)).put(hashing.identity(os.stat(path)), approved)
    assert changed(prepared) == []
    assert changed(prepared, verify_all=True) == [("INPUT_CHANGED", path)]


def test_weights_of_a_plan_that_opted_out_go_by_their_times(tmp_path):
    prepared = PreparedSft(tmp_path, hash_weights="stat")
    assert "hash_weights: stat" in prepared.answer["config_yaml"]
    (flag,) = [one for one in prepared.answer["warnings"] if one["code"] == "RED_FLAG"]
    assert flag["field"] == "loopai.inputs.model.hash_weights"
    assert changed(prepared) == []
    weights = prepared.model / "model.safetensors"
    times = os.stat(weights)
    weights.write_bytes(bytes(times.st_size))
    os.utime(weights, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert changed(prepared) == [("INPUT_CHANGED", str(prepared.model))]


def test_the_yaml_alone_can_opt_out(prepared):
    """A plan without those words is read in full."""
    assert "hash_weights" not in prepared.answer["config_yaml"]


@pytest.mark.parametrize("name", ["numpy.py", "torch", "other.json"])
def test_a_stranger_among_the_copies_is_refused(prepared, name):
    with open(prepared.run.config, "rb") as file:
        plan = plans.read(file.read(), prepared.run.config)
    assert inputs.strangers(plan) == []
    path = os.path.join(prepared.run.inputs, name)
    os.mkdir(path) if name == "torch" else open(path, "w").close()
    assert [(problem.code, problem.path) for problem in inputs.strangers(plan)] == [("INPUT_CHANGED", path)]
    with pytest.raises(InputChanged):
        run_prepared(prepared.run.config, prepared.sha256, prepared.environ)


def test_what_cannot_be_imported_is_no_stranger(prepared):
    with open(prepared.run.config, "rb") as file:
        plan = plans.read(file.read(), prepared.run.config)
    os.mkdir(os.path.join(prepared.run.inputs, "__pycache__"))
    open(os.path.join(prepared.run.inputs, ".x.tmp"), "w").close()
    assert inputs.strangers(plan) == []
