"""A stand-in for Agent Lightning 0.3.0: the base classes and registered parts that the driver names, and no more."""

import os
import sys
import types

import pytest


class LitAgent:
    """The agent's base."""


class FunctionalLitAgent(LitAgent):
    """An agent that was made of a function."""

    def __init__(self, function):
        self._rollout_func = function


class Tracer:
    """The tracer's base."""


class OtelTracer(Tracer):
    """A registered tracer."""


class TraceAdapter:
    """The adapter's base; a registered one, too."""


class LightningStore:
    """The store's base; a registered one, too."""


class Runner:
    """The runner's base."""


class LitAgentRunner(Runner):
    """The registered runner."""

    def __init__(self, tracer, max_rollouts=None):
        self.tracer = tracer


class LLMProxy:
    """The proxy."""


class Algorithm:
    """The algorithm's base, with its four setters."""

    def set_store(self, store):
        """Noted."""

    def set_adapter(self, adapter):
        """Noted."""

    def set_llm_proxy(self, llm_proxy):
        """Noted."""

    def set_initial_resources(self, resources):
        """Noted."""

    def run(self, train_dataset=None, val_dataset=None):
        """Nothing."""


class FastAlgorithm(Algorithm):
    """The base of what may run in a dry run."""


class Baseline(FastAlgorithm):
    """The registered one."""


def make_directory(path):
    """A function of Agent Lightning's that makes no part."""
    os.mkdir(path)


def make_tracer() -> Tracer:
    """A factory that says so."""
    return Tracer()


_MODULES = {
    "litagent": {"LitAgent": LitAgent},
    "tracer": {},
    "tracer.base": {"Tracer": Tracer, "os": os, "make_directory": make_directory, "make_tracer": make_tracer},
    "tracer.otel": {"OtelTracer": OtelTracer},
    "adapter": {"TraceAdapter": TraceAdapter, "TracerTraceToTriplet": TraceAdapter},
    "store": {},
    "store.base": {"LightningStore": LightningStore},
    "store.memory": {"InMemoryLightningStore": LightningStore},
    "runner": {"Runner": Runner, "LitAgentRunner": LitAgentRunner},
    "llm_proxy": {"LLMProxy": LLMProxy},
    "algorithm": {"Algorithm": Algorithm, "FastAlgorithm": FastAlgorithm, "Baseline": Baseline},
    "types": {"LLM": dict, "PromptTemplate": dict, "RolloutConfig": dict},
}


def install(monkeypatch: pytest.MonkeyPatch) -> None:
    """Put it where `import agentlightning` finds it, until the test ends."""
    for name, values in {"": {}, **_MODULES}.items():
        whole = f"agentlightning.{name}" if name else "agentlightning"
        module = types.ModuleType(whole)
        module.__dict__.update(values)
        monkeypatch.setitem(sys.modules, whole, module)
