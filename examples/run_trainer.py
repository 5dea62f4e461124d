#!/usr/bin/env python3
"""The TrainerAgent as a graph: from a state to a trained model, with your approval between.

    python examples/run_trainer.py --dataset data.jsonl --model MODEL_FOLDER --template cpu_smoke_full --env ENV

Needs `pip install 'loopai-trainer[langgraph]'` and an environment with LLaMA-Factory (`trainer setup llamafactory`).
It shows the YAML and asks for the first 8 characters of its hash; `--auto-approve` opts out of that, and is recorded.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

from langgraph.checkpoint.memory import InMemorySaver
from langgraph.store.memory import InMemoryStore
from langgraph.types import Command

from loopai_trainer import TrainerAgent

ASKED_CHARACTERS = 8


def state_of(arguments: argparse.Namespace) -> dict[str, Any]:
    """LoopAI's state, as its Starter would hand it over."""
    trainer = {
        "train_framework": "llamafactory",
        "llamafactory_env_path": arguments.env,
        "train_input_dataset_path": arguments.dataset,
        "train_input_task_description": arguments.task_description,
        "train_input_config_template_path": arguments.template,
        "train_input_model_name": arguments.model,
    }
    return {
        "output_dir": arguments.output_dir,
        "trainer": {name: value for name, value in trainer.items() if value is not None},
    }


def ask(shown: dict[str, Any]) -> str | bool:
    """Show the plan to the person at the terminal; the hash if they approve it, else False."""
    out = sys.stdout
    if shown["refused"]:
        out.write(f"Not started: {shown['refused']['detail']}\n")
    for warning in shown["warnings"]:
        out.write(f"warning: {warning['message']}\n")
    out.write(f"\n{shown['config_yaml']}\nSHA-256 {shown['config_sha256']}\n")
    out.write(f"To approve it, type the first {ASKED_CHARACTERS} characters of the hash: ")
    out.flush()
    typed = sys.stdin.readline().strip()
    return shown["config_sha256"] if typed == shown["config_sha256"][:ASKED_CHARACTERS] else False


def show(event: dict[str, Any]) -> None:
    """One line an event of the graph's custom stream."""
    share = "" if event["progress"] is None else f" {event['progress']:.0%}"
    sys.stderr.write(f"{event['node']}: {event['status']}{share} {event['message']}\n")


def main() -> int:
    """Parse the command line, run the graph, print its summary."""
    parser = argparse.ArgumentParser(description="Train with the TrainerAgent.")
    parser.add_argument("--dataset", help=".json, .jsonl or .parquet")
    parser.add_argument("--model", help="folder of the base model")
    parser.add_argument("--template", help="YAML template: a file or a bundled one's name")
    parser.add_argument("--env", help="environment with LLaMA-Factory")
    parser.add_argument("--output-dir", default="./output/trainer_demo")
    parser.add_argument("--thread-id", default="trainer_demo")
    parser.add_argument("--task-description", default="训练一个能够回答简单问题并进行对话的 AI 助手")
    parser.add_argument("--auto-approve", action="store_true", help="do not ask; recorded as approved via auto")
    arguments = parser.parse_args()

    trainer = TrainerAgent(InMemorySaver(), InMemoryStore(), auto_approve=arguments.auto_approve)
    graph = trainer()
    config = {"configurable": {"thread_id": arguments.thread_id}}
    step: Any = state_of(arguments)
    while True:
        for event in graph.stream(step, config, stream_mode="custom"):
            show(event)
        state = graph.get_state(config)
        if not state.interrupts:
            break
        step = Command(resume=ask(state.interrupts[0].value))
    summary = trainer.get_training_summary(state.values)
    said = summary["message"] or ", ".join(summary["missing_fields"])
    sys.stdout.write(f"{summary['final_status']}: {said}\n")
    for name, path in summary["output_files"].items():
        sys.stdout.write(f"  {name}: {path}\n")
    return 0 if summary["final_status"] == "completed" else 1


if __name__ == "__main__":
    sys.exit(main())
