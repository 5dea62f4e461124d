"""The rollout backend `loopai_cpu`: one Ray actor a replica that samples from a transformers model, token by token.

As slow as it is plain: for a model of some thousand parameters. Each reply has random numbers of its own, by the plan's
`actor_rollout_ref.rollout.seed`, so that the same plan draws the same replies whatever the order of the calls. Source:
what verl 0.9.1 asks of a rollout (workers/rollout/replica.py, workers/rollout/llm_server.py, workers/engine_workers.py)
and how it seeds vLLM (the seed and the replica's rank, added).
"""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

import ray
import torch
from verl.workers.rollout.base import BaseRollout
from verl.workers.rollout.replica import RolloutReplica, TokenOutput

ACTOR = "loopai_cpu_server_{replica}_0"
_CONCURRENT_CALLS = 64


async def _nothing(*_: object, **__: object) -> None:
    """There is no cache to drop and no memory to give back."""


class Server:
    """The model of one replica; the trainer copies its weights into it after every step."""

    wake_up = sleep = resume_generation = abort_all_requests = start_profile = stop_profile = _nothing
    clear_kv_cache = release_kv_cache = resume_kv_cache = _nothing

    def __init__(self, path: str, response_length: int, seed: int) -> None:
        from transformers import AutoModelForCausalLM

        torch.set_num_threads(1)
        self.model = AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32).eval()
        end = self.model.config.eos_token_id
        self.ends = frozenset(end if isinstance(end, list) else [end])
        self.response_length = response_length
        self.seed = seed
        self.step = 0
        self.asked: Counter[tuple[int, ...]] = Counter()

    async def address(self) -> str:
        """Where it listens: nowhere. Replies are asked for through Ray alone; the answer says that the model is up."""
        return "127.0.0.1:0"

    async def load(self, weights: Sequence[tuple[str, Any]], step: int | None) -> None:
        """Take over these weights, which belong to `step`."""
        own = self.model.state_dict()
        for name, tensor in weights:
            own[name].copy_(tensor)
        self.asked.clear()
        if step is not None:
            self.step = step

    async def generate(
        self, request_id: str, prompt_ids: Sequence[int], sampling_params: Mapping[str, Any], **_: object
    ) -> TokenOutput:
        """A reply to one prompt: sampled at `temperature`, the most likely tokens at 0."""
        limit = int(sampling_params.get("max_tokens") or sampling_params.get("max_new_tokens") or self.response_length)
        temperature = float(sampling_params.get("temperature", 1.0))
        draws = self._draws(tuple(prompt_ids))
        tokens: list[int] = []
        log_probs: list[float] = []
        cache, new = None, torch.tensor([list(prompt_ids)])
        while len(tokens) < limit and not (tokens and tokens[-1] in self.ends):
            with torch.no_grad():
                output = self.model(new, past_key_values=cache, use_cache=True)
            cache = output.past_key_values
            scores = torch.log_softmax(output.logits[0, -1].float() / (temperature or 1.0), dim=-1)
            token = int(scores.argmax() if temperature == 0 else torch.multinomial(scores.exp(), 1, generator=draws))
            tokens.append(token)
            log_probs.append(float(scores[token]))
            new = torch.tensor([[token]])
        extra = {"global_steps": self.step}
        return TokenOutput(token_ids=tokens, log_probs=log_probs, stop_reason="completed", extra_fields=extra)

    def _draws(self, prompt: tuple[int, ...]) -> torch.Generator:
        """The random numbers of the next reply to this prompt by these weights."""
        told = repr((self.seed, self.step, self.asked[prompt], prompt))
        self.asked[prompt] += 1
        digest = hashlib.sha256(told.encode()).digest()
        return torch.Generator().manual_seed(int.from_bytes(digest[:8], "little", signed=True))


class Replica(RolloutReplica):  # type: ignore[misc] # verl is not installed where types are checked
    """Starts the server of one replica."""

    async def launch_servers(self) -> None:
        """Start it, and wait for its model."""
        model = self.model_config
        path = model["path"] if isinstance(model, dict) else model.path
        name = ACTOR.format(replica=self.replica_rank)
        actor = ray.remote(Server).options(name=name, num_cpus=0, max_concurrency=_CONCURRENT_CALLS)
        self._server_handle = actor.remote(path, self.config.response_length, self.config.seed + self.replica_rank)
        self.servers = [self._server_handle]
        self._server_address = await self._server_handle.address.remote()


class Adapter(BaseRollout):  # type: ignore[misc] # verl is not installed where types are checked
    """The trainer's side of a replica: sends it the weights, which all of its ranks have to gather."""

    resume = release = _nothing

    def __init__(self, config: object, model_config: object, device_mesh: object, replica_rank: int = -1) -> None:
        super().__init__(config, model_config, device_mesh)
        parallel = self.config.tensor_model_parallel_size * self.config.data_parallel_size
        ranks = parallel * self.config.pipeline_model_parallel_size
        rank = int(os.environ["RANK"])
        self.replica = rank // ranks if replica_rank == -1 else replica_rank
        self.sends = rank % ranks == 0

    async def update_weights(
        self, weights: Any, global_steps: int | None = None, wire_format: str = "named_tensors", **_: object
    ) -> None:
        """Copy (name, tensor) pairs into the replica's model."""
        if wire_format != "named_tensors":
            raise NotImplementedError(f"loopai_cpu takes named tensors, not {wire_format}")
        whole = [(name, _whole(tensor)) async for name, tensor in _each(weights)]
        if self.sends:
            server = ray.get_actor(ACTOR.format(replica=self.replica))
            await server.load.remote(whole, global_steps)


async def _each(weights: Any) -> AsyncIterator[tuple[str, Any]]:
    if hasattr(weights, "__aiter__"):
        async for pair in weights:
            yield pair
    else:
        for pair in weights:
            yield pair


def _whole(tensor: Any) -> Any:
    full = tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor
    return full.detach().cpu().float().clone()
