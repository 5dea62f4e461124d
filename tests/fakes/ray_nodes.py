"""Ray's actors and placement groups in the small: every node is this process."""

import sys
import types
from typing import Any


class RayError(Exception):
    pass


class RayActorError(RayError):
    pass


class ActorUnavailableError(RayActorError):
    pass


class GetTimeoutError(RayError):
    pass


class RayNodes:
    """`ready`: what a placement group says, one look after another (the last one stays); `lost`: ranks whose actors do
    not answer any more; `unavailable`: for how many more calls nobody answers. `groups` and `options` are what was asked for."""

    def __init__(self) -> None:
        self.ready = [True]
        self.lost: set[int] = set()
        self.unavailable = 0
        self.groups: list[tuple[list[dict[str, float]], str]] = []
        self.options: list[dict[str, Any]] = []
        self.actors: list[Any] = []
        self.closed = 0
        self.timeouts: list[float | None] = []
        self.join_error: Exception | None = None

    def install(self, monkeypatch: Any) -> None:
        """Put the modules in the place of Ray's."""
        ray = types.ModuleType("ray")
        util, groups = types.ModuleType("ray.util"), types.ModuleType("ray.util.placement_group")
        strategies, exceptions = types.ModuleType("ray.util.scheduling_strategies"), types.ModuleType("ray.exceptions")
        contents: dict[types.ModuleType, dict[str, Any]] = {
            ray: {"get": self.get, "remote": Remote(self), "init": self.init, "shutdown": self.shutdown},
            util: {"get_node_ip_address": lambda: "127.0.0.1"},
            groups: {"placement_group": self.group},
            strategies: {"PlacementGroupSchedulingStrategy": lambda group, **words: words},
            exceptions: {
                kind.__name__: kind for kind in (RayError, RayActorError, ActorUnavailableError, GetTimeoutError)
            },
        }
        for module, names in contents.items():
            for name, value in names.items():
                setattr(module, name, value)
            monkeypatch.setitem(sys.modules, module.__name__, module)
        ray.exceptions = exceptions  # type: ignore[attr-defined]
        ray.util = util  # type: ignore[attr-defined]

    def init(self, **words: Any) -> None:
        if self.join_error is not None:
            raise self.join_error

    def shutdown(self) -> None:
        self.closed += 1

    def group(self, bundles: list[dict[str, float]], strategy: str) -> Any:
        self.groups.append((bundles, strategy))

        def wait(timeout_seconds: float) -> bool:
            return self.ready.pop(0) if len(self.ready) > 1 else self.ready[0]

        return types.SimpleNamespace(wait=wait)

    def get(self, refs: Any, timeout: float | None = None) -> Any:
        self.timeouts.append(timeout)
        if isinstance(refs, list):
            return [self.get(one) for one in refs]
        if isinstance(refs, Exception):
            raise refs
        return refs


class Remote:
    """ray.remote: makes actors of classes."""

    def __init__(self, nodes: RayNodes, made: Any = None) -> None:
        self.nodes = nodes
        self.made = made

    def __call__(self, made: Any) -> "Remote":
        return Remote(self.nodes, made)

    def options(self, **words: Any) -> "Remote":
        self.nodes.options.append(words)
        return self

    def remote(self) -> "Actor":
        actor = Actor(self.nodes, len(self.nodes.actors), self.made())
        self.nodes.actors.append(actor.of)
        return actor


class Actor:
    def __init__(self, nodes: RayNodes, rank: int, of: Any) -> None:
        self.nodes = nodes
        self.rank = rank
        self.of = of

    def __getattr__(self, name: str) -> Any:
        def remote(*words: Any) -> Any:
            if self.rank in self.nodes.lost:
                return RayActorError("the actor died\nbecause its node did")
            if self.nodes.unavailable:
                self.nodes.unavailable -= 1
                return ActorUnavailableError("the actor is temporarily unavailable")
            return getattr(self.of, name)(*words)

        return types.SimpleNamespace(remote=remote)
