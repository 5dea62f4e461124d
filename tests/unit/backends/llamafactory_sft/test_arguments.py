import pytest
from fakes.llamafactory_env import make_environment, versions_of

from loopai_trainer.backends.llamafactory_sft.arguments import read_arguments
from loopai_trainer.errors import BackendMissing


@pytest.fixture
def arguments(tmp_path):
    return read_arguments(versions_of(make_environment(tmp_path / "env")))


def test_types_defaults_and_choices_come_from_the_source(arguments):
    assert arguments["bf16"].kinds == {"bool"} and arguments["bf16"].default is False
    assert arguments["learning_rate"].kinds == {"float"} and arguments["learning_rate"].default == 5e-5
    assert arguments["template"].kinds == {"str"} and arguments["template"].optional
    assert arguments["deepspeed"].kinds == {"dict", "str"} and arguments["deepspeed"].optional
    assert arguments["finetuning_type"].choices == ("lora", "oft", "freeze", "full")


def test_enumerations_become_choices_across_files(arguments):
    assert arguments["eval_strategy"].choices == ("no", "steps", "epoch")
    assert arguments["flash_attn"].choices == ("auto", "fa2")
    assert arguments["fsdp"].choices == ()


def test_inherited_keys_of_both_packages_are_there_and_internal_ones_are_not(arguments):
    assert {"trust_remote_code", "predict_with_generate", "overwrite_output_dir", "top_p"} <= set(arguments)
    assert not {"compute_dtype", "device_map", "LIMIT", "framework"} & set(arguments)


def test_fields_that_are_split_at_commas_are_listable(arguments):
    assert arguments["lora_target"].listable and arguments["dataset"].listable
    assert not arguments["template"].listable


def test_a_class_without_the_expected_parents_is_still_read(tmp_path):
    root = make_environment(tmp_path / "env")
    source = root / "lib/python3.11/site-packages/llamafactory/hparams/generating_args.py"
    source.write_text(
        "@dataclass\nclass GeneratingArguments(other.Base, Unknown):\n"
        "    plain: int\n    top_p: Union[float, str, None] = 0.7\n"
        '    mode: Literal["fast"] = field(default_factory=make)\n    either: "bool | None" = None\n'
    )
    found = read_arguments(versions_of(root))
    assert found["top_p"].kinds == {"float", "str"} and found["top_p"].optional
    assert found["mode"].choices == ("fast",) and not found["plain"].optional
    assert found["either"].kinds == {"bool"}


def test_a_default_that_is_no_literal_counts_as_a_default(arguments):
    assert arguments["image_max_pixels"].default is None and arguments["image_max_pixels"].optional


def test_a_package_without_the_classes_is_broken(tmp_path):
    root = make_environment(tmp_path / "env")
    versions = versions_of(root)
    (root / "lib/python3.11/site-packages/llamafactory/hparams/finetuning_args.py").unlink()
    with pytest.raises(BackendMissing) as caught:
        read_arguments(versions)
    assert caught.value.code == "BACKEND_BROKEN"


def test_an_environment_without_transformers_is_broken(tmp_path):
    root = make_environment(tmp_path / "env")
    versions = versions_of(root)
    (root / "lib/python3.11/site-packages/transformers/training_args.py").unlink()
    with pytest.raises(BackendMissing, match="transformers is not installed"):
        read_arguments(versions)
