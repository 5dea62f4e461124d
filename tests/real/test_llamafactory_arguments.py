"""The installed LLaMA-Factory's own argument classes and the bundled templates, held against each other."""

import os
import re
from pathlib import Path

import pytest
from fakes.sft_plans import make_data, make_model_folder, make_paths

from loopai_trainer import backends
from loopai_trainer.backends.llamafactory_sft import chat_template, coverage, ranges
from loopai_trainer.backends.llamafactory_sft.arguments import read_arguments
from loopai_trainer.files import templates
from loopai_trainer.host.environments import resolve
from loopai_trainer.records import Model, Settings
from loopai_trainer.rules import yaml_text

pytestmark = pytest.mark.real
BACKEND = backends.get("llamafactory", "sft")


@pytest.fixture(scope="module")
def versions(lf_env):
    return BACKEND.probe(resolve(lf_env, "llamafactory", os.environ))


def test_all_keys_of_the_installed_version_are_read(versions):
    found = read_arguments(versions)
    assert versions.version == "0.9.5" and len(found) == 346
    assert found["logging_nan_inf_filter"].default is True
    assert found["lr_scheduler_type"].choices[:2] == ("linear", "cosine")
    assert found["save_strategy"].choices == ("no", "steps", "epoch", "best")
    assert found["flash_attn"].choices[0] == "auto"
    assert {name for name, argument in found.items() if argument.listable} >= {"dataset", "eval_dataset", "lora_target"}


@pytest.mark.parametrize("name", [template.name for template in templates.list_templates("sft")])
def test_every_bundled_template_fits_the_installed_version_before_and_after_the_draft(versions, tmp_path, name):
    path = templates.find_template(name, "sft")
    document = yaml_text.load(Path(path).read_text(), path)
    assert BACKEND.template_problems(document.values, document.lines, versions) == []
    model = make_model_folder(tmp_path / "model")
    settings = Settings({"CUDA_VISIBLE_DEVICES": "0", "nproc_per_node": None}, {})
    data = make_data(tmp_path / "run")
    native = BACKEND.draft(settings, data, document.values, Model(str(model), "f" * 64), make_paths(tmp_path / "run"))
    assert BACKEND.template_problems(native, {}, versions) == []
    assert native["eval_strategy"] == "steps" and "val_size" not in native


NAMES_A_PLACE = re.compile(
    r"path|dir|folder|file|model|adapter|config|hub|cache|repo|dataset|checkpoint|weight|space|bucket|url|token|key|secret|script"
)


def test_every_text_key_of_the_installed_version_is_classified(versions):
    """A key that this fails for names a file, a folder, a model or a place: put it into a table of coverage.py."""
    text = [a for a in read_arguments(versions).values() if a.kinds & {"str", "dict", "list"} and not a.choices]
    unclassified = [argument.name for argument in text if not coverage.is_classified(argument.name)]
    assert [name for name in unclassified if NAMES_A_PLACE.search(name)] == []
    assert unclassified == []
    assert len(text) > 70


def test_every_classified_key_is_one_of_the_installed_version(versions):
    known = read_arguments(versions)
    tables = {**coverage.COVERED, **coverage.UNCOVERED, **coverage.HARMLESS, **dict.fromkeys(coverage.FOLDERS)}
    assert sorted(set(tables) - set(known)) == []
    assert sorted(set(ranges.RANGES) - set(known)) == []
    assert sorted(set(BACKEND.owned_keys()) - set(known)) == []


def test_the_installed_tool_formats_are_read(versions):
    assert {"default", "qwen", "llama3", "mistral"} <= set(chat_template.read_tool_formats(versions))
