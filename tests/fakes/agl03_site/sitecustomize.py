"""Stand-in for what Agent Lightning 0.3.0 needs of verl: its package `agentlightning.verl`, with a training that is played.

The played training does what the real one does through Agent Lightning: it publishes a resource, queues the tasks, waits
for the runners, and writes verl's lines. It tells what it was given.
"""

import asyncio
import json
import os
import sys
import types
from concurrent.futures import ThreadPoolExecutor

PACKAGE = "agentlightning.verl"


def run_ppo(config, *, train_dataset, val_dataset, store, llm_proxy, adapter, trainer_cls, daemon_cls):
    told = {
        "config": config,
        "train": list(train_dataset),
        "val": list(val_dataset),
        "proxy": llm_proxy is not None,
        "adapter": type(adapter).__name__,
        "classes": [trainer_cls.__name__, daemon_cls.__name__],
        "devices": os.environ["CUDA_VISIBLE_DEVICES"],
    }
    print("run_ppo " + json.dumps(told), flush=True)
    # The real one blocks until Ray's processes have trained, which reach the store by the network.
    with ThreadPoolExecutor() as pool:
        pool.submit(asyncio.run, train(train_dataset, store.endpoint)).result()


async def train(tasks, endpoint):
    from agentlightning import LLM, LightningStoreClient

    store = LightningStoreClient(endpoint)
    published = await store.add_resources({"main_llm": LLM(endpoint="http://127.0.0.1:9/v1", model="played")})
    with open(os.environ["VERL_FILE_LOGGER_PATH"], "w") as lines:
        for step, task in enumerate(tasks, 1):
            rollout = await store.enqueue_rollout(input=task, mode="train", resources_id=published.resources_id)
            done = await ended(store, rollout.rollout_id)
            spans = await store.query_spans(rollout.rollout_id)
            values = {"training/reward": 1.0 if done.status == "succeeded" else 0.0, "training/spans": len(spans)}
            lines.write(json.dumps({"step": step, "data": {**values, "training/global_step": step}}) + "\n")
            lines.flush()


async def ended(store, rollout_id):
    for _ in range(1200):
        for done in await store.wait_for_rollouts(rollout_ids=[rollout_id], timeout=0.0):
            return done
        await asyncio.sleep(0.1)
    raise TimeoutError(rollout_id)


def module(name, **values):
    made = types.ModuleType(name)
    made.__dict__.update(values)
    sys.modules[name] = made


module(PACKAGE, __path__=[])
module(f"{PACKAGE}.entrypoint", run_ppo=run_ppo)
module(f"{PACKAGE}.daemon", AgentModeDaemon=type("AgentModeDaemon", (), {}))
module(f"{PACKAGE}.trainer", AgentLightningTrainer=type("AgentLightningTrainer", (), {}))
