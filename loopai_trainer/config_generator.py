"""ConfigGenerator of spec/000: a task description to a YAML for LLaMA-Factory, by itself, without anything being run.

What it makes is no prepared plan: nothing is checked but the template, and nothing of it is approved. To train with
the launcher's guarantees, use `prepare`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from itertools import islice
from typing import Any

from loopai_trainer.errors import ConfigError, SettingsError
from loopai_trainer.operations.llm_tuning import DEFAULT_KEY_ENV
from loopai_trainer.records import Settings
from loopai_trainer.rules import call_arguments, sinks

DEFAULT_TEMPLATE = "qwen_full_sft"
REGISTRY = "dataset_info.json"
_SAMPLE_ROWS = 100


class ConfigGenerator:
    """Adjusts a template by the keyword rules, or by a language model if `model_path` and `base_url` name one.

    `base_url`: an OpenAI-compatible endpoint; `model_path`: the model's name there. Its key is the value of the
    variable `api_key_env`, or `api_key` itself, which is sent there and written nowhere. `explanation` says, after
    `generate_config`, what was changed and why.
    """

    def __init__(
        self,
        model_path: str | None = None,
        base_url: str | None = None,
        api_key: str | None = None,
        *,
        api_key_env: str = DEFAULT_KEY_ENV,
        timeout_s: float = 60.0,
    ) -> None:
        """Raises SettingsError if only one of `model_path` and `base_url` is given, UsageError for another type."""
        given = {"model_path": model_path, "base_url": base_url, "api_key": api_key}
        call_arguments.refuse_unfit({**given, "api_key_env": api_key_env, "timeout_s": timeout_s})
        if bool(model_path) != bool(base_url):
            raise SettingsError(
                "model_path and base_url name a language model together; one of them is missing",
                hint="give both, or none for the keyword rules",
            )
        self.explanation = ""
        self._endpoint = {
            "config_llm_model": model_path,
            "config_llm_base_url": base_url,
            "config_llm_key_env": api_key_env,
            "config_llm_timeout_s": timeout_s,
        }
        self._key = {api_key_env: api_key} if api_key else {}
        self._registries: dict[str, dict[str, Any]] = {}

    def generate_config(
        self,
        task_description: str,
        dataset_path: str,
        model_name: str,
        output_dir: str,
        template_path: str = DEFAULT_TEMPLATE,
        use_swanlab: bool = False,
        swanlab_project: str = sinks.PROJECT,
    ) -> dict[str, Any]:
        """The whole configuration in LLaMA-Factory's keys; `template_path` is a file or a bundled template's name.

        Raises NotFound, ConfigError and SettingsError for a template or an endpoint that cannot be used, UsageError for
        an argument of another type.
        """
        from loopai_trainer.operations import plan_notes, template_use

        given = {
            "task_description": task_description, "dataset_path": dataset_path, "model_name": model_name,
            "output_dir": output_dir, "template_path": template_path,
            "use_swanlab": use_swanlab, "swanlab_project": swanlab_project,
        }  # fmt: skip
        call_arguments.refuse_unfit(given, needs=("output_dir",))
        model_name, output_dir = os.fspath(model_name), os.fspath(output_dir)
        settings = self._settings(task_description, os.fspath(template_path))
        template = template_use.use(settings, (), environ={**os.environ, **self._key})
        changed = "\n".join(plan_notes.changed(template))
        self.explanation = f"Template: {template.path}\n\n{changed}\n"
        folder, data = os.path.abspath(output_dir), os.path.abspath(dataset_path)
        name = re.sub(r"[^A-Za-z0-9_.-]", "_", os.path.splitext(os.path.basename(data))[0]) or "train"
        self._registries[folder] = {name: _entry(data)}
        own = {
            "model_name_or_path": model_name,
            "stage": "sft",
            "do_train": True,
            "dataset": name,
            "dataset_dir": folder,
            "output_dir": output_dir,
        }
        # SwanLab as the launcher has it: on this machine, unless somebody changes the mode.
        told = {"use_swanlab": True, "swanlab_project": swanlab_project, "swanlab_mode": "local"} if use_swanlab else {}
        return {**own, **{key: value for key, value in template.values.items() if key not in own}, **told}

    def save_config_as_yaml(self, config: Mapping[str, Any], output_path: str) -> str:
        """Write the configuration, and the dataset registry that it names; returns the YAML's absolute path.

        Entries of other datasets in an existing registry are kept. Raises ConfigError if one is there that is no JSON,
        UsageError for an argument of another type.
        """
        from loopai_trainer.files import atomic
        from loopai_trainer.rules import yaml_text

        call_arguments.refuse_unfit({"config": config, "output_path": output_path})
        path = os.path.abspath(output_path)
        text = yaml_text.dump(dict(config))
        folder = str(config.get("dataset_dir") or "")
        own = self._registries.get(folder, {})
        if own:
            registry = os.path.join(folder, REGISTRY)
            try:
                entries = {**(atomic.read_json(registry) or {}), **own}
            except ValueError as error:
                raise ConfigError(
                    f"the dataset registry there cannot be used: {error}",
                    hint="mend or remove it, or choose another output_dir",
                ) from None
            atomic.make_private_dir(folder)
            atomic.write_json(registry, entries)
        atomic.make_private_dir(os.path.dirname(path))
        atomic.write_text(path, text)
        return path

    def _settings(self, task_description: str, template_path: str) -> Settings:
        values = {
            "train_input_config_template_path": template_path,
            "train_stage": "sft",
            "train_input_task_description": task_description,
            "config_mode": "llm" if self._endpoint["config_llm_base_url"] else "rules",
            **self._endpoint,
        }
        origins = dict.fromkeys(values, "ConfigGenerator")
        if self._endpoint["config_llm_key_env"] == DEFAULT_KEY_ENV:
            origins["config_llm_key_env"] = "default"
        return Settings(values, origins)


def _entry(path: str) -> dict[str, Any]:
    """The registry's entry for a data file, told from its first rows; Alpaca for one that is not there yet."""
    from loopai_trainer.files.tables import Fault, open_table
    from loopai_trainer.rules.dataset_entry import entry_for

    rows = (row for _, row in open_table(path).rows())
    return entry_for(path, [row for row in islice(rows, _SAMPLE_ROWS) if not isinstance(row, Fault)])
