"""rules.sinks: further places for metrics are off unless asked, and stay on this machine unless asked to be online."""

import pytest

from loopai_trainer.errors import SettingsError
from loopai_trainer.records import Settings, Versions
from loopai_trainer.rules import launch_env, sinks


def settings(**values):
    return Settings(values, dict.fromkeys(values, "--option"))


def versions(*held):
    return Versions("p", "1", "3.11", "/p", dict.fromkeys(held, "1"), "e" * 64)


@pytest.mark.parametrize(
    ("values", "names"),
    [
        ({}, []),
        ({"report_to": None}, []),
        ({"report_to": "none"}, []),
        ({"report_to": ""}, []),
        ({"report_to": "wandb"}, ["wandb"]),
        ({"report_to": "TensorBoard, mlflow,tensorboard"}, ["tensorboard", "mlflow"]),
        ({"report_to": ["trackio", "swanlab"]}, ["trackio", "swanlab"]),
        ({"train_input_use_swanlab": True}, ["swanlab"]),
        ({"train_input_use_swanlab": True, "report_to": "swanlab"}, ["swanlab"]),
        ({"train_input_use_swanlab": False, "report_to": "wandb"}, ["wandb"]),
    ],
)
def test_what_is_asked(values, names):
    assert sinks.asked(settings(**values)) == names


@pytest.mark.parametrize("name", ["all", "wandbb", "clearml"])
def test_another_name_is_refused_with_its_origin(name):
    with pytest.raises(SettingsError, match=r"--option") as caught:
        sinks.asked(settings(report_to=f"wandb,{name}"))
    assert "tensorboard, swanlab, wandb, mlflow, trackio" in caught.value.hint


class TestVariables:
    def test_none(self):
        assert sinks.launch_env(settings(), "/run") == ({}, ())

    def test_all_of_them_stay_here(self):
        env, pass_env = sinks.launch_env(settings(report_to="tensorboard,swanlab,wandb,mlflow,trackio"), "/a run")
        assert env == {
            "WANDB_MODE": "offline",
            "SWANLAB_MODE": "offline",
            "MLFLOW_TRACKING_URI": "sqlite:////a run/metrics/mlflow.db",
        }
        assert pass_env == ()

    def test_online_the_keys_are_passed_by_their_names_alone(self):
        told = settings(
            report_to="swanlab,wandb,mlflow", report_online=True, mlflow_tracking_uri="http://tracking:5000"
        )
        env, pass_env = sinks.launch_env(told, "/run")
        assert env == {
            "WANDB_MODE": "online",
            "SWANLAB_MODE": "cloud",
            "MLFLOW_TRACKING_URI": "http://tracking:5000",
        }
        assert pass_env == ("SWANLAB_API_KEY", "WANDB_API_KEY")

    def test_mlflow_online_needs_its_server(self):
        with pytest.raises(SettingsError, match="where its server is"):
            sinks.launch_env(settings(report_to="mlflow", report_online=True), "/run")

    @pytest.mark.parametrize("online", [True, False])
    def test_a_plan_may_hold_all_of_it(self, online):
        told = settings(report_to="swanlab,wandb,mlflow", report_online=online, mlflow_tracking_uri="http://t")
        env, pass_env = sinks.launch_env(told, "/run")
        assert list(launch_env.env_faults({"env": env, "pass_env": list(pass_env)})) == []

    def test_what_they_write_lies_in_the_run(self):
        assert sinks.folders(["tensorboard", "swanlab", "wandb", "mlflow", "trackio", "clearml"], "/run/metrics") == {
            "TENSORBOARD_DIR": "/run/metrics/tensorboard",
            "TENSORBOARD_LOGGING_DIR": "/run/metrics/tensorboard",
            "SWANLAB_LOG_DIR": "/run/metrics/swanlab",
            "WANDB_DIR": "/run/metrics",
            "TRACKIO_DIR": "/run/metrics/trackio",
        }
        assert sinks.folders([], "/run/metrics") == {}

    def test_no_plan_may_set_those_folders(self):
        names = sinks.folders(sinks.PACKAGES, "/m")
        assert not any(launch_env.is_settable(name) for name in names)


@pytest.mark.parametrize(
    ("names", "env", "modes", "found"),
    [
        ([], {}, None, []),
        (["tensorboard", "trackio"], {}, None, []),
        (["wandb"], {}, None, ["wandb"]),
        (["wandb"], {"WANDB_MODE": "online"}, None, ["wandb"]),
        (["wandb"], {"WANDB_MODE": "offline"}, None, []),
        (["swanlab"], {"SWANLAB_MODE": "offline"}, None, []),
        (["swanlab"], {}, {"swanlab": "local"}, []),
        (["swanlab"], {}, {"swanlab": "cloud"}, ["swanlab"]),
        (["mlflow"], {}, None, ["mlflow"]),
        (["mlflow"], {"MLFLOW_TRACKING_URI": "sqlite:////r/m.db"}, None, []),
        (["mlflow"], {"MLFLOW_TRACKING_URI": "https://m"}, None, ["mlflow"]),
        (["clearml"], {}, None, ["clearml"]),
    ],
)
def test_what_leaves_this_machine(names, env, modes, found):
    assert sinks.leaving(names, env, modes) == found


def test_a_missing_package_is_told_with_its_name():
    (problem,) = sinks.missing(["file", "wandb", "trackio"], versions("wandb"), "report_to")
    assert (problem.severity, problem.code, problem.where) == ("error", "PACKAGE_MISSING", "environment")
    assert "pip install trackio" in problem.hint
