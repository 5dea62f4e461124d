import json
import os

import pytest

from loopai_trainer.errors import Busy, DataError, SettingsError
from loopai_trainer.host import locks


def tree(folder):
    return {str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}


def refused(place, before_of, **settings):
    before = tree(before_of)
    with pytest.raises(SettingsError) as caught:
        place.prepare(**settings)
    assert caught.value.code == "RUN_DIR_IN_USE"
    assert caught.value.exit_code == 3
    assert tree(before_of) == before
    return caught.value.message


@pytest.mark.parametrize("own", [True, False])
def test_a_folder_with_somebody_elses_files_is_left_alone(place, own):
    mine = place.root / "mine" if own else place.run
    (mine / "prepared_data").mkdir(parents=True)
    (mine / "prepared_data" / "old.parquet").write_text("precious")
    (mine / "plan.json").write_text('{"holiday": "plans"}')
    (mine / "training_config.yaml").write_text("mine: true\n")
    message = refused(place, mine, **({"trainer_output_dir": str(mine)} if own else {}))
    assert "it holds plan.json, prepared_data, training_config.yaml" in message


def test_another_versions_run_is_left_alone(place):
    mine = str(place.root / "mine")
    place.prepare(trainer_output_dir=mine, trainer_version_id="v1")
    message = refused(place, place.root / "mine", trainer_output_dir=mine, trainer_version_id="v2")
    assert "holds version 'v1' of task 'default'" in message
    message = refused(place, place.root / "mine", trainer_output_dir=mine, trainer_version_id="v1", task_id="other")
    assert "of task 'default'" in message
    assert place.prepare(trainer_output_dir=mine, trainer_version_id="v1").ok


@pytest.mark.parametrize("below", ["", "run", "a/b/c"])
def test_never_in_the_model_or_the_environment(place, below):
    message = refused(place, place.model, trainer_output_dir=str(place.model / below))
    assert "train_input_model_name, an input" in message
    link = place.root / "link"
    link.symlink_to(place.env)
    assert "llamafactory_env_path" in refused(place, place.env, trainer_output_dir=str(link / below))


def test_the_default_layout_is_not_made_inside_the_model_either(place):
    refused(place, place.model, output_dir=str(place.model / "outputs"))


def test_never_the_root_or_a_home_folder(place):
    home = place.root / "home"
    home.mkdir()
    place.environ["HOME"] = str(home)
    assert "a home folder" in refused(place, home, trainer_output_dir=str(home))
    assert "the root folder" in refused(place, home, trainer_output_dir="/")


def test_a_file_and_a_link_to_nothing(place):
    (place.root / "file").write_text("text")
    (place.root / "dangling").symlink_to(place.root / "nothing")
    assert "is a file" in refused(place, place.data.parent / "model", trainer_output_dir=str(place.root / "file"))
    assert "link to nothing" in refused(place, place.model, trainer_output_dir=str(place.root / "dangling"))


def test_an_empty_folder_will_do_and_so_does_one_that_only_a_dead_prepare_locked(place):
    place.run.mkdir(parents=True)
    assert place.prepare().ok
    locked = place.root / "locked"
    locked.mkdir()
    (locked / "run.lock").touch()
    assert place.prepare(trainer_output_dir=str(locked)).ok


def test_a_prepare_that_failed_may_be_repeated_in_its_folder_but_only_by_its_version(place):
    place.write_rows([{"instruction": "a", "output": None}])
    mine = place.root / "mine"
    with pytest.raises(DataError):
        place.prepare(trainer_output_dir=str(mine))
    assert json.loads((mine / "plan.json").read_text())["prepared_at"] is None
    refused(place, mine, trainer_output_dir=str(mine), trainer_version_id="v2")
    place.write_rows([{"instruction": f"q{n}", "output": "a"} for n in range(8)])
    assert place.prepare(trainer_output_dir=str(mine)).ok


def test_a_plan_json_behind_a_link_proves_nothing(place):
    place.prepare()
    other = place.root / "other"
    other.mkdir()
    (other / "plan.json").symlink_to(place.run / "plan.json")
    refused(place, other, trainer_output_dir=str(other))


def test_a_prepared_run_that_somebody_works_on_is_busy(place):
    place.prepare()
    lock = locks.try_exclusive(str(place.run / "run.lock"))
    try:
        with pytest.raises(Busy):
            place.prepare()
    finally:
        os.close(lock)


@pytest.mark.parametrize("name", ["output_dir", "train_input_dataset_path", "train_input_model_name"])
def test_a_path_that_is_not_utf8_is_refused_by_name(place, name):
    path = os.fsdecode(os.fsencode(str(place.root)) + b"/na\xffme.jsonl")
    with pytest.raises(SettingsError, match=rf"{name} = .*na\\udcffme.* not UTF-8") as caught:
        place.prepare(**{name: path})
    caught.value.message.encode("utf-8")


def test_a_working_folder_that_is_not_utf8_is_refused(place, monkeypatch):
    folder = os.path.join(os.fsencode(str(place.root)), b"w\xff")
    os.mkdir(folder)
    monkeypatch.chdir(os.fsdecode(folder))
    with pytest.raises(SettingsError, match="working folder"):
        place.prepare(output_dir="./outputs")
    with pytest.raises(SettingsError, match=r"train_input_dataset_path = .*\(from the working folder\)"):
        place.prepare(train_input_dataset_path="data.jsonl")
    assert os.listdir(folder) == []
