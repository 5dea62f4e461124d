import pytest

from loopai_trainer.errors import ConfigError, SettingsError, UsageError
from loopai_trainer.files import small_inputs
from loopai_trainer.operations import secret_scan
from loopai_trainer.operations.answer import failure
from loopai_trainer.operations.inspect import inspect
from loopai_trainer.operations.redaction import without_secrets

TOKEN = "hf_" + "Ab3dEf6hIj9lMn2pQr5tUv8xYz1Babcdef"


def refused(error, environ, code="SECRET_IN_CONFIG"):
    """The refusal as it leaves the program."""
    assert error.value.code == code or code in [problem.code for problem in error.value.problems]
    text = without_secrets(failure("prepare", error.value), environ).json_text()
    assert TOKEN not in text and "correct-horse" not in text
    return text


@pytest.mark.parametrize(
    "text",
    [
        f"metric_for_best_model={TOKEN}",
        "hub_token=abcdefghij",
        f"{TOKEN}=1",
        "a.b.client_secret=x",
        "password='hunter2'",
    ],
)
def test_a_set_that_gives_a_secret_is_refused_before_it_is_shown(place, text):
    with pytest.raises(UsageError) as error:
        place.prepare(overrides=[text])
    assert error.value.exit_code == 2
    shown = repr((error.value.message, error.value.hint))
    assert "pass_env" in shown and TOKEN not in shown and "hunter2" not in shown


def test_one_that_is_no_secret_passes(place):
    place.prepare(overrides=["metric_for_best_model=eval_loss"])


@pytest.mark.parametrize(
    "line", [f"resume_from_checkpoint: {TOKEN}", f"resume_from_checkpoint: a {TOKEN} b", f"x: {{y: [{TOKEN}]}}"]
)
def test_a_template_that_holds_a_token_is_refused(place, line):
    place.template.write_text(place.template.read_text() + line + "\n")
    with pytest.raises(ConfigError) as error:
        place.prepare()
    assert error.value.exit_code == 3
    if not line.startswith("x"):  # that key is unknown, which is told first
        refused(error, place.environ)
    assert not (place.run / "training_config.yaml").exists()


@pytest.mark.parametrize("name", ["train_input_task_description", "output_dir"])
def test_a_setting_that_holds_a_token_is_refused(place, name):
    with pytest.raises(SettingsError) as error:
        place.prepare(**{name: f"{place.root}/with {TOKEN}"})
    assert name in refused(error, place.environ)
    assert not place.run.exists()


def test_the_value_of_a_secret_variable_is_known(place):
    place.environ["MY_SERVICE_API_KEY"] = "correct-horse"
    with pytest.raises(ConfigError) as error:
        place.prepare(overrides=["resume_from_checkpoint=correct-horse-run"])
    refused(error, place.environ)


def test_an_edit_that_writes_a_token_is_refused_by_inspect(place):
    answer = place.prepare()
    config = place.run / "training_config.yaml"
    config.write_text(config.read_text() + f"resume_from_checkpoint: {TOKEN}\n")
    with pytest.raises(ConfigError) as error:
        inspect(answer.data["config_path"], place.environ)
    refused(error, place.environ)
    (problem,) = [one for one in error.value.problems if one.code == "SECRET_IN_CONFIG"]
    assert problem.line == len(config.read_text().splitlines())


def test_a_token_in_a_file_that_would_be_copied_is_refused():
    harmless = small_inputs.Copy("/run/inputs/ds.json", b'{"zero_optimization": {}}', "0" * 64)
    secret_scan.refuse_copies([harmless])
    with pytest.raises(ConfigError) as refused:
        secret_scan.refuse_copies([harmless, small_inputs.Copy("/run/inputs/reward.py", TOKEN.encode(), "0" * 64)])
    assert (refused.value.code, refused.value.problems[0].field) == (secret_scan.CODE, "reward.py")
    assert TOKEN not in refused.value.message


def test_the_language_models_key_is_a_secret_whatever_its_variable_is_called(place):
    place.environ["MYVAR"] = "correct-horse-3"
    with pytest.raises(SettingsError) as error:
        place.prepare(config_llm_key_env="MYVAR", train_input_task_description="chat, with correct-horse-3")
    refused(error, place.environ)
    place.prepare(config_llm_key_env="MYVAR", train_input_task_description="chat")
