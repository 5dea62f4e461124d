import pytest

from loopai_trainer.backends.llamafactory_sft import coverage

RUN = "/out/run"


def judge(**native):
    return [(problem.code, problem.field) for problem in coverage.coverage_problems(native, RUN)]


@pytest.mark.parametrize("key", coverage.UNCOVERED)
def test_every_key_that_reaches_out_is_refused(key):
    assert judge(**{key: "/elsewhere"}) == [("UNCOVERED_INPUT", key)]
    assert judge(**{key: None}) == []


@pytest.mark.parametrize("value", ["/models/x", ["a", "/b"], {"path": "/b"}])
def test_a_text_under_a_key_that_nobody_classified_is_refused(value):
    assert judge(future_adapter_file=value) == [("UNCOVERED_INPUT", "future_adapter_file")]


def test_numbers_and_switches_need_no_class():
    assert judge(future_share=0.5, future_switch=True, future_numbers=[1, 2], future_text="", future_list=[]) == []


@pytest.mark.parametrize("key", coverage.FOLDERS)
@pytest.mark.parametrize("folder", ["/elsewhere", "../../x", "../prepared_data", "..", "s3://bucket/x", "/out/run2"])
def test_training_writes_into_its_run_alone(key, folder):
    assert judge(**{key: folder}) == [("OUTPUT_ELSEWHERE", key)]


@pytest.mark.parametrize("folder", ["logs", "./a/b", "../metrics/x", "/out/run/checkpoints", "/out/run/launch/logs"])
def test_folders_inside_the_run_are_taken(folder):
    assert judge(logging_dir=folder) == []


@pytest.mark.parametrize(
    "key",
    [
        "hub_token",
        "hf_hub_token",
        "swanlab_api_key",
        "swanlab_lark_secret",
        "swanlab_lark_webhook_url",
        "new_token",
        "api_key",
    ],
)
def test_secrets_are_refused_and_not_shown(key):
    (problem,) = coverage.coverage_problems({key: "s3cret"}, RUN)
    assert (problem.code, problem.field) == ("SECRET_IN_CONFIG", key)
    assert "s3cret" not in repr(problem)


def test_no_key_stands_in_two_tables():
    tables = [set(coverage.COVERED), set(coverage.UNCOVERED), set(coverage.FOLDERS), set(coverage.HARMLESS)]
    assert sum(map(len, tables)) == len(set().union(*tables))
    assert not [key for key in set().union(*tables) if coverage.is_secret(key)]
