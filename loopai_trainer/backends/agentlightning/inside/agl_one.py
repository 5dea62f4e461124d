"""Runs Agent Lightning 1.x on an approved plan: its server, its controller (local runners) or verl's training.

1.x listens on all addresses without a key unless told otherwise, and its controller asks for Kubernetes: here it is the
loopback, a free port and a key that is made at each start. Source: Agent Lightning 1.0.2, read; training needs GPUs.
"""

from __future__ import annotations

import json
import os
import runpy
import secrets
import socket
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

HOST = "127.0.0.1"
AGENT_CLASS = "agl_agent:Agent"
_WAIT_S = 120.0


def main(argv: list[str]) -> int:
    """argv: the plan's path and the role (server, controller, algorithm). Returns the exit status."""
    path, role = argv
    with open(path, encoding="utf-8") as file:
        document = json.load(file)
    sys.path.insert(0, document["paths"]["inputs"])
    from agl_hidden import hide
    from agl_main import end_with
    from agl_told import Failed, say

    hide(document["secrets"])
    say(f"phase importing ({role})")
    try:
        if role == "algorithm":
            _train(document)
            return 0
        end_with(document["paths"]["exit"])
        _serve(document, role)
    except Failed as failed:
        say(f"error {failed.code}: {failed}")
        return 1
    except Exception as error:  # noqa: BLE001 - the driver's boundary: told in one line, its traceback logged
        import traceback

        traceback.print_exc()
        say(f"error AGENT_LIGHTNING_FAILED: {type(error).__name__}: {error}")
        return 1
    return 0


def _serve(document: dict[str, Any], role: str) -> None:
    """Agent Lightning's own program, with its Hydra overrides; they stand in no command line that others can read."""
    folder = os.path.join(os.path.dirname(document["paths"]["store_port"]), f"hydra-{role}")
    if role == "server":
        from agl_told import held_port

        place = {"port": held_port(HOST), "key": secrets.token_hex(16)}
        _tell(document["paths"]["store_port"], place)
        words = [f"host={HOST}", f"port={place['port']}", f"key={place['key']}"]
    else:
        place = told_place(document["paths"]["store_port"])
        runners = int(document["native"]["strategy"]["n_runners"])
        words = ["runner_type=local", f"agl_server.url=http://{HOST}:{place['port']}", f"agl_server.key={place['key']}"]
        words += [f"local_runner.maximum_size={runners}", "local_runner.poll_interval=1"]
    sys.argv = [f"agentlightning.{role}", *words, f"hydra.run.dir={folder}"]
    runpy.run_module(f"agentlightning.{role}", run_name="__main__", alter_sys=False)


def _train(document: dict[str, Any]) -> None:
    from agl_parts import tasks
    from agl_told import say

    config = resolved(document, told_place(document["paths"]["store_port"]))
    from agentlightning.verl.entrypoint import run_ppo

    say("phase training")
    native = document["native"]
    run_ppo(config, tasks(native["tasks"].get("train")), tasks(native["tasks"].get("validation")))


def resolved(document: dict[str, Any], place: dict[str, Any]) -> Any:
    """verl's configuration as Agent Lightning composes it, the plan's keys over it, and where its server is."""
    from hydra import compose, initialize_config_module
    from omegaconf import OmegaConf, open_dict

    native = document["native"]
    with initialize_config_module(version_base=None, config_module="agentlightning.verl"):
        base = compose(config_name="config")
    own = {
        "agl_base_url": f"http://{HOST}:{place['port']}",
        "agl_key": place["key"],
        "rollout_timeout_seconds": float(native["limits"]["rollout_s"]),
        "local": {"agent_class": AGENT_CLASS},
    }
    with open_dict(base):
        return OmegaConf.merge(base, OmegaConf.create(native["verl"]), OmegaConf.create({"agentlightning": own}))


def told_place(path: str) -> dict[str, Any]:
    """{"port", "key"} of the server, once it listens. Raises agl_told.Failed."""
    from agl_told import Failed

    until = time.monotonic() + _WAIT_S
    while time.monotonic() < until:
        try:
            with open(path, encoding="utf-8") as file:
                place: dict[str, Any] = json.load(file)
            with socket.create_connection((HOST, int(place["port"])), timeout=1.0):
                return place
        except (OSError, ValueError, KeyError):
            time.sleep(0.2)
    raise Failed("STORE_LOST", f"the server did not listen within {_WAIT_S:.0f} s")


def _tell(path: str, place: dict[str, Any]) -> None:
    with open(os.open(path + ".new", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
        json.dump(place, file)
    os.replace(path + ".new", path)


if __name__ == "__main__":
    status = main(sys.argv[1:])
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)
