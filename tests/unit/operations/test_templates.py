"""Templates are listed, shown and copied; the user's own are found by name and never stand in for a bundled one."""

import json
from pathlib import Path

import pytest
from fakes.answers import checked

from loopai_trainer.cli import app
from loopai_trainer.errors import NotFound, UsageError
from loopai_trainer.files import templates as files
from loopai_trainer.operations.templates import templates


@pytest.fixture
def own(tmp_path, monkeypatch):
    """The user's folder of SFT templates, with one in it."""
    monkeypatch.setenv("LOOPAI_TRAINER_CONFIG_DIR", str(tmp_path))
    folder = tmp_path / "templates" / "sft"
    folder.mkdir(parents=True)
    (folder / "mine.yaml").write_text("# My own.\nstage: sft\n")
    return folder


@pytest.fixture
def environ(tmp_path):
    return {"LOOPAI_TRAINER_CONFIG_DIR": str(tmp_path)}


def test_the_list_says_whose_each_is(own, capsys):
    assert app.run(["templates", "--json"]) == 0
    found = checked(json.loads(capsys.readouterr().out))["data"]["templates"]
    assert [one["name"] for one in found if one["origin"] == "user"] == ["mine"]
    assert {one["name"] for one in found} > {"qwen_lora_sft", "verl_grpo_vllm"}
    assert app.run(["templates"]) == 0
    assert "My own." in (out := capsys.readouterr().out)
    assert str(own.parent) in out.replace("\n", "")


def test_show_prints_the_file_and_nothing_else(own, capsys):
    for name, path in (
        ("mine", own / "mine.yaml"),
        ("qwen_lora_sft.yaml", files.find_template("qwen_lora_sft", "sft")),
    ):
        assert app.run(["templates", "show", name]) == 0
        assert capsys.readouterr().out == Path(path).read_text()


def test_a_copy_is_the_users_and_is_found_by_its_name(environ, tmp_path):
    data = templates("copy", "qwen_lora_sft", "fast", environ).data
    (made,) = data["templates"]
    assert (made["name"], made["origin"]) == ("fast", "user")
    assert made["path"] == str(tmp_path / "templates" / "sft" / "fast.yaml")
    assert Path(made["path"]).read_text() == Path(files.find_template("qwen_lora_sft", "sft")).read_text()
    assert (
        files.find_template("fast", "sft", environ) == files.find_template("fast.yaml", "sft", environ) == made["path"]
    )


def test_a_copy_takes_the_file_along_that_it_names(environ, tmp_path):
    templates("copy", "qwen_lora_sft_zero3", "spread", environ)
    folder = tmp_path / "templates" / "sft"
    assert sorted(path.name for path in folder.iterdir()) == ["ds_z3.json", "spread.yaml"]
    (folder / "ds_z3.json").write_text("{}")
    templates("copy", "qwen_full_sft_zero3", "again", environ)
    assert (folder / "ds_z3.json").read_text() == "{}"


@pytest.mark.parametrize("name", ["mine", "qwen_lora_sft", "../up", "", "a/b", ".hidden", "x" * 65])
def test_nothing_is_written_over_or_elsewhere(own, environ, name):
    with pytest.raises(UsageError):
        templates("copy", "cpu_smoke_full", name, environ)
    assert [path.name for path in own.parent.rglob("*.*")] == ["mine.yaml"]


def test_a_name_that_both_have_is_refused_with_both_paths(own, environ):
    (own / "qwen_lora_sft.yaml").write_text("stage: sft\n")
    for name in ("qwen_lora_sft", "qwen_lora_sft.yaml"):
        with pytest.raises(UsageError, match="bundled one and one of yours") as caught:
            files.find_template(name, "sft", environ)
        assert str(own / "qwen_lora_sft.yaml") in caught.value.message
    assert files.find_template(str(own / "qwen_lora_sft.yaml"), "sft", environ) == str(own / "qwen_lora_sft.yaml")
    with pytest.raises(UsageError, match="more than once"):
        templates("show", "qwen_lora_sft", None, environ)


def test_loopais_path_of_a_template_never_means_the_users(own, environ):
    with pytest.raises(NotFound, match="yours"):
        files.find_template("templates/mine.yaml", "sft", environ)


def test_a_template_of_another_stage_is_not_taken(own, environ):
    with pytest.raises(NotFound):
        files.find_template("mine", "grpo", environ)


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["show"], 2), (["show", "a", "b"], 2), (["copy", "mine"], 2), (["list", "x"], 2), (["mine"], 2),
        (["show", "nothing"], 2),
    ],
)  # fmt: skip
def test_other_forms_are_refused_with_the_right_ones(own, words, code, capsys):
    assert app.run(["templates", *words]) == code
    assert "trainer templates" in capsys.readouterr().err


def test_guide_and_prepare_know_the_users_own(own, capsys):
    assert app.run(["guide", "--template", "mine", "--json"]) == 0
    problems = json.loads(capsys.readouterr().out)["data"]["problems"]
    assert [one for one in problems if one["field"] == "train_input_config_template_path"] == []
    (own / "qwen_lora_sft.yaml").write_text("stage: sft\n")
    app.run(["guide", "--template", "qwen_lora_sft", "--json"])
    problems = json.loads(capsys.readouterr().out)["data"]["problems"]
    assert [one["code"] for one in problems if one["field"] == "train_input_config_template_path"] == ["USAGE"]
