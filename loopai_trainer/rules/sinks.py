"""Where metrics may go besides the run's own files: off unless asked, on this machine unless it is asked to be online.

Nothing of it is needed: progress, curves and the choice of the checkpoint come from the run's own files. Light on
purpose: the worker imports it before training's exec.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from typing import Any

    from loopai_trainer.records import Field, Problem, Settings, Versions

PACKAGES: "Mapping[str, str]" = {
    "tensorboard": "tensorboard",
    "swanlab": "swanlab",
    "wandb": "wandb",
    "mlflow": "mlflow",
    "trackio": "trackio",
}
"""Sink -> distribution that it needs, by pip's name. Both backends know all five: transformers 5.6
integrations/integration_utils.py, verl 0.9.1 utils/tracking.py."""

KEYS: "Mapping[str, str]" = {"swanlab": "SWANLAB_API_KEY", "wandb": "WANDB_API_KEY"}
"""Sink -> the variable with its key: named in `pass_env` when it is online; its value stands nowhere."""

PROJECT = "llamafactory_training"
"""Source: spec/000, `train_input_swanlab_project`."""

_OFFLINE_MODES: "Mapping[str, tuple[str, ...]]" = {
    "wandb": ("offline", "disabled", "dryrun"),
    "swanlab": ("local", "offline", "disabled"),
}
_LOCAL = ("tensorboard", "trackio")
"""They write files alone: trackio's spaces are refused elsewhere."""


def fields() -> "tuple[Field, ...]":
    """The settings, the same for every backend."""
    from loopai_trainer.records import Field

    return (
        Field("report_to", "further places for metrics, by comma: " + ", ".join(PACKAGES), None, ("REPORT_TO",)),
        Field("report_online", "let those send metrics away", None, ("REPORT_ONLINE",), default=False, kind="bool"),
        Field("mlflow_tracking_uri", "MLflow's server, if it is online", None, ("MLFLOW_TRACKING_URI",)),
        Field(
            "train_input_use_swanlab", "keep metrics with SwanLab, too", None, default=False, kind="bool",
            aliases=("use_swanlab",),
        ),
        Field(
            "train_input_swanlab_project", "SwanLab's project", None, default=PROJECT, aliases=("swanlab_project",)
        ),
    )  # fmt: skip


def asked(settings: "Settings") -> list[str]:
    """The sinks that the settings name, in order. Raises SettingsError for a name that is none."""
    told = settings.values.get("report_to")
    words = told if isinstance(told, list | tuple) else str(told or "").split(",")
    names = [str(word).strip().lower() for word in words if str(word).strip().lower() not in ("", "none")]
    unknown = [name for name in names if name not in PACKAGES]
    if unknown:
        from loopai_trainer.errors import SettingsError

        raise SettingsError(
            f"report_to names {unknown[0]!r} (from {settings.origin('report_to')})",
            hint=f"choose of: {', '.join(PACKAGES)}",
        )
    if settings.values.get("train_input_use_swanlab") is True:
        names.append("swanlab")
    return list(dict.fromkeys(names))


def launch_env(settings: "Settings", run: str) -> "tuple[dict[str, str], tuple[str, ...]]":
    """(variables with their values, names of variables to pass on) that the sinks of a plan need; `run`: its folder.

    Raises SettingsError if MLflow is to be online and nobody says where.
    """
    names, online = asked(settings), settings.values.get("report_online") is True
    env: dict[str, str] = {}
    if "wandb" in names:
        env["WANDB_MODE"] = "online" if online else "offline"
    if "swanlab" in names:
        env["SWANLAB_MODE"] = "cloud" if online else "offline"
    if "mlflow" in names:
        env["MLFLOW_TRACKING_URI"] = _tracking_uri(settings, run, online)
    return env, tuple(KEYS[name] for name in names if online and name in KEYS)


def folders(names: "Iterable[str]", metrics: str) -> dict[str, str]:
    """Variables, set by the launcher alone, that keep what the sinks write inside the run's folder `metrics`."""
    places = {
        "tensorboard": {"TENSORBOARD_DIR": "/tensorboard", "TENSORBOARD_LOGGING_DIR": "/tensorboard"},
        "swanlab": {"SWANLAB_LOG_DIR": "/swanlab"},
        "wandb": {"WANDB_DIR": ""},  # wandb makes its own folder there, and goes elsewhere if this one is missing
        "trackio": {"TRACKIO_DIR": "/trackio"},
    }
    return {variable: metrics + inside for name in names for variable, inside in places.get(name, {}).items()}


def leaving(names: "Iterable[str]", env: "Mapping[str, Any]", modes: "Mapping[str, Any] | None" = None) -> list[str]:
    """Those of `names` that send metrics away. `env`: the plan's variables; `modes`: what native keys say instead."""
    found = []
    for name in names:
        if name in _LOCAL:
            continue
        if name == "mlflow":
            is_local = str(env.get("MLFLOW_TRACKING_URI", "")).startswith(("sqlite:", "file:", "/"))
        else:
            mode = (modes or {}).get(name) or env.get(f"{name.upper()}_MODE")
            is_local = str(mode) in _OFFLINE_MODES.get(name, ())
        if not is_local:
            found.append(name)
    return found


def missing(names: "Iterable[str]", versions: "Versions", field: str) -> "Iterator[Problem]":
    """An error for each sink whose package the training environment does not hold."""
    from loopai_trainer.records import Problem

    for name in names:
        package = PACKAGES.get(name)
        if package is not None and package not in versions.distributions:
            message = f"'{field}' needs the package {package}, which the training environment does not hold"
            hint = f"pip install {package} in that environment, or take {name} out of {field}"
            yield Problem("error", "PACKAGE_MISSING", "environment", message, hint, field=field)


def _tracking_uri(settings: "Settings", run: str, online: bool) -> str:
    if not online:
        return "sqlite:///" + f"{run}/metrics/mlflow.db"
    uri = settings.text("mlflow_tracking_uri")
    if not uri:
        from loopai_trainer.errors import SettingsError

        raise SettingsError(
            "report_to names mlflow and report_online is set, but nobody says where its server is",
            hint="give --option mlflow_tracking_uri=URI, or leave report_online out",
        )
    return uri
