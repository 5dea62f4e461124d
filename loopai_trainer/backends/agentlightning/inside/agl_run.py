"""Wires a plan's parts together and runs one role of it: all in one place, or algorithm, runners and store apart."""

from __future__ import annotations

import json
import os
import socket
import time

import agl_parts
from agl_told import STOP, Failed, held_port, say

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

HOST = "127.0.0.1"
_PORT_WAIT_S = 120.0


def run(document: dict[str, Any], role: str) -> None:
    """Run one role to its end. Raises agl_told.Failed, or what Agent Lightning raises."""
    agl_parts.pin(document["files"])
    if role == "store":
        _serve(document)
        return
    import agentlightning
    from agl_records import Records
    from agl_watch import Watch, tolerant

    native, stage = document["native"], document["stage"]
    say("phase building")
    train, held = agl_parts.tasks(native["tasks"].get("train")), agl_parts.tasks(native["tasks"].get("validation"))
    records = Records(document["paths"])
    name = _algorithm_name(native)
    prompts = _prompts(native, stage, records, held)
    watch = Watch(
        native["limits"],
        records,
        _planned(native, name, train, held),
        rows=prompts is None and name != "verl",  # verl writes its own steps
        runners=_own_runners(native, role),
        waits=name == agl_parts.NONE,
    )
    try:
        trainer = _trainer(agentlightning, document, role, watch, prompts)
    except agl_parts.PartError as error:
        raise Failed("PART_INVALID", str(error)) from error
    watch.adapter = tolerant(trainer.adapter) if stage == "dev" else None
    watch.resources = trainer.initial_resources
    agent = agl_parts.agent(native)
    say("phase training")
    entry = trainer.dev if stage == "dev" and trainer.algorithm is not None else trainer.fit
    entry(agent, train_dataset=train, val_dataset=held)
    if STOP.is_set():
        raise KeyboardInterrupt
    if role != "runner":
        (prompts or watch).finished()
    records.whole(os.path.join(records.store, "closed.json"), {"role": role, "at": time.time()})


def _trainer(agentlightning: Any, document: dict[str, Any], role: str, watch: Any, prompts: Any) -> Any:
    from agentlightning.adapter import TraceAdapter
    from agentlightning.algorithm import Algorithm, FastAlgorithm
    from agentlightning.llm_proxy import LLMProxy
    from agentlightning.runner import Runner
    from agentlightning.tracer.base import Tracer

    native = document["native"]
    tracer = agl_parts.build(native, "tracer", Tracer)
    algorithm = _algorithm(native, Algorithm, prompts)
    if document["stage"] == "dev" and algorithm is not None and not isinstance(algorithm, FastAlgorithm):
        message = f"{type(algorithm).__name__} is not a FastAlgorithm: the stage dev runs what is fast alone"
        raise Failed("ALGORITHM_NOT_FAST", message)
    store = _store(native, document["paths"], role)
    return agentlightning.Trainer(
        algorithm=algorithm,
        tracer=tracer,
        adapter=agl_parts.build(native, "adapter", TraceAdapter),
        store=store,
        runner=agl_parts.build(native, "runner", Runner, tracer=tracer, max_rollouts=native.get("max_rollouts")),
        strategy=_strategy(native, role, watch),
        llm_proxy=agl_parts.build(native, "llm_proxy", LLMProxy, store=store),
        initial_resources=agl_parts.resources(native),
        n_runners=native["strategy"]["n_runners"],
        max_rollouts=native.get("max_rollouts"),
    )


def _algorithm_name(native: dict[str, Any]) -> str:
    spec = native["algorithm"]
    return str(spec.get("name") or spec.get("type")) if isinstance(spec, dict) else str(spec)


def _algorithm(native: dict[str, Any], expected: Any, prompts: Any) -> Any:
    """The algorithm; APO gets its client and tells its evaluations, VERL its merged configuration."""
    name = _algorithm_name(native)
    if name == agl_parts.NONE:
        return None
    offered: dict[str, Any] = {}
    if prompts is not None:
        import agl_prompts
        from agentlightning.algorithm.apo import APO

        llm = native["llm"]
        spec = {key: value for key, value in native["algorithm"].items() if key not in ("name", "type")}
        made = agl_prompts.recorded(APO, prompts)
        return made(
            agl_prompts.client(llm, native["limits"]),
            gradient_model=llm["gradient_model"],
            apply_edit_model=llm["apply_edit_model"],
            rollout_batch_timeout=float(native["limits"]["rollout_s"]) * _batch(native) + 60.0,
            **spec,
        )
    if name == "verl":
        offered["config"] = native["verl"]
    return agl_parts.build(native, "algorithm", expected, **offered)


def _batch(native: dict[str, Any]) -> int:
    """Rollouts that one runner may have to make one after the other in an evaluation."""
    most = max(len(agl_parts.tasks(path) or ()) for path in native["tasks"].values())
    return max(1, -(-most // int(native["strategy"]["n_runners"])))


def _prompts(native: dict[str, Any], stage: str, records: Any, held: Any) -> Any:
    if stage != "apo" or _algorithm_name(native) != "apo":
        return None
    import agl_prompts

    return agl_prompts.Prompts(records, len(held or ()), agl_prompts.planned_evaluations(native["algorithm"]))


def _planned(native: dict[str, Any], name: str, train: Any, held: Any) -> int:
    """Rollouts of Baseline; 0 where nobody can know."""
    if name != "baseline":
        return 0
    return (len(train or ()) + len(held or ())) * int(native["algorithm"].get("n_epochs", 1))


def _own_runners(native: dict[str, Any], role: str) -> int:
    """Runner processes that are children of this one."""
    return int(native["strategy"]["n_runners"]) if role == "all" and _kind(native) == "client_server" else 0


def _kind(native: dict[str, Any]) -> str:
    return str(native["strategy"].get("name") or native["strategy"].get("type"))


class _Watched:
    """Makes a strategy of Agent Lightning's that runs the algorithm under a watch."""

    def __new__(cls, inner: Any, watch: Any) -> Any:
        from agentlightning.execution.base import ExecutionStrategy

        class Watched(ExecutionStrategy):  # type: ignore[misc] # the base is only known inside the environment
            n_runners = inner.n_runners

            def execute(self, algorithm: Any, runner: Any, store: Any) -> None:
                inner.execute(watch.around(algorithm), runner, store)

        return Watched()


def _strategy(native: dict[str, Any], role: str, watch: Any) -> Any:
    from agentlightning.execution.client_server import ClientServerExecutionStrategy
    from agentlightning.execution.shared_memory import SharedMemoryExecutionStrategy

    spec, runners = native["strategy"], int(native["strategy"]["n_runners"])
    if _kind(native) == "shared_memory":
        return _Watched(SharedMemoryExecutionStrategy(n_runners=runners, main_thread="algorithm"), watch)
    if _kind(native) == "client_server":
        port = int(spec.get("port") or 0) or held_port(HOST)
        say(f"the store listens at {HOST}:{port}")
        inner = ClientServerExecutionStrategy("both", server_host=HOST, server_port=port, n_runners=runners)
        return _Watched(inner, watch)
    # Split roles: AGL_CURRENT_ROLE and AGL_MANAGED_STORE say the rest (set by the launch).
    inner = ClientServerExecutionStrategy(n_runners=runners)
    if role == "runner":
        _watch_runners(runners)
        return inner
    return _Watched(inner, watch)


def _store(native: dict[str, Any], paths: dict[str, str], role: str) -> Any:
    from agentlightning.store.base import LightningStore

    if _kind(native) != "split":
        return agl_parts.build(native, "store", LightningStore)
    from agentlightning.store.client_server import LightningStoreClient

    port = _told_port(paths["store_port"])
    say(f"{role} uses the store at {HOST}:{port}")
    return LightningStoreClient(f"http://{HOST}:{port}")


def _serve(document: dict[str, Any]) -> None:
    """The external store: Agent Lightning's own server on the loopback alone; its port is told by a file."""
    import asyncio

    from agentlightning.store.client_server import LightningStoreServer
    from agentlightning.store.memory import InMemoryLightningStore

    port = int(document["native"]["strategy"].get("port") or 0) or held_port(HOST)
    server = LightningStoreServer(InMemoryLightningStore(), host=HOST, port=port)
    path = document["paths"]["store_port"]
    with open(path + ".new", "w", encoding="ascii") as file:
        json.dump(port, file)
    os.replace(path + ".new", path)
    say(f"the store listens at {HOST}:{port}")
    asyncio.run(server.run_forever())


def _told_port(path: str) -> int:
    until = time.monotonic() + _PORT_WAIT_S
    while time.monotonic() < until:
        try:
            with open(path, encoding="ascii") as file:
                port = int(json.load(file))
            with socket.create_connection((HOST, port), timeout=1.0):
                return port
        except (OSError, ValueError):
            time.sleep(0.2)
    raise Failed("STORE_LOST", f"the store did not listen within {_PORT_WAIT_S:.0f} s")


def _watch_runners(count: int) -> None:
    """End this process, and so the run, when one of its runner processes has ended."""
    if count == 1:
        return  # it is the runner itself
    import multiprocessing
    import threading

    def wait() -> None:
        most = 0
        while True:
            alive = len(multiprocessing.active_children())
            most = max(most, alive)
            if alive < most:
                say(f"error RUNNER_LOST: {most - alive} of {most} runners ended early")
                os._exit(1)
            time.sleep(0.5)

    threading.Thread(target=wait, daemon=True).start()
