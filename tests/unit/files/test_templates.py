from pathlib import Path

import pytest

from loopai_trainer.errors import NotFound
from loopai_trainer.files import templates

NAMES = [
    "cpu_smoke_full", "cpu_smoke_lora", "qwen2_5_coder_bird_full_sft", "qwen_full_sft", "qwen_full_sft_zero3",
    "qwen_lora_sft", "qwen_lora_sft_zero3",
]  # fmt: skip


def test_the_bundled_templates_are_found_in_a_checkout():
    found = templates.list_templates("sft")
    assert [template.name for template in found] == NAMES
    assert all(template.stage == "sft" and template.title.endswith(".") for template in found)
    assert {template.path for template in found} <= {template.path for template in templates.list_templates()}


def test_a_wheel_has_them_inside_the_package(tmp_path, monkeypatch):
    package = tmp_path / "site-packages" / "loopai_trainer"
    (package / "templates" / "sft").mkdir(parents=True)
    (package / "templates" / "sft" / "x.yaml").write_text("stage: sft\n")
    monkeypatch.setattr(templates, "_PACKAGE", str(package))
    assert [(template.name, template.title) for template in templates.list_templates()] == [("x", "")]


def test_an_installation_without_templates_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr(templates, "_PACKAGE", str(tmp_path / "a" / "b"))
    with pytest.raises(NotFound, match="has no templates"):
        templates.list_templates()


LOOPAIS = ["loopai/agents/Trainer/templates", "loopai/skills/Trainer/templates", "templates"]
"""Where its specifications say that templates lie."""


@pytest.mark.parametrize(
    "name", ["qwen_lora_sft", "qwen_lora_sft.yaml", *(f"{folder}/qwen_lora_sft.yaml" for folder in LOOPAIS)]
)
def test_a_bundled_template_is_found_by_name(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert Path(templates.find_template(name, "sft")).name == "qwen_lora_sft.yaml"


def test_a_file_is_found_by_its_path(tmp_path, monkeypatch):
    mine = tmp_path / "mine.yaml"
    mine.write_text("stage: sft\n")
    assert templates.find_template(str(mine), "sft") == str(mine)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert templates.find_template("~/mine.yaml", "sft") == str(mine)
    monkeypatch.chdir(tmp_path)
    assert templates.find_template("mine.yaml", "sft") == str(mine)


@pytest.mark.parametrize("name", ["nothing", "/not/there/qwen_lora_sft.yaml", "sft/qwen_lora_sft.yaml", ""])
def test_anything_else_is_refused_with_the_names(name):
    with pytest.raises(NotFound) as caught:
        templates.find_template(name, "sft")
    assert "qwen_lora_sft" in caught.value.message


@pytest.mark.parametrize("name", NAMES)
def test_templates_carry_nothing_private(name):
    text = Path(templates.find_template(name, "sft")).read_text()
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    assert "trust_remote_code" not in text
    assert not [line for line in lines if "/" in line]
    assert not {"model_name_or_path", "dataset", "output_dir", "max_samples"} & {
        line.partition(":")[0] for line in lines
    }


@pytest.mark.parametrize(
    "name", ["my/templates/qwen_lora_sft.yaml", "/templates/qwen_lora_sft.yaml", "templates/no.yaml"]
)
def test_no_other_path_means_a_bundled_one(name):
    with pytest.raises(NotFound, match="no template"):
        templates.find_template(name, "sft")
