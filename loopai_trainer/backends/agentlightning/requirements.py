"""What `trainer setup agentlightning` installs, and how it proves that it works.

Source: measured for Agent Lightning 0.3.0, the last release with Trainer, Baseline and APO: with the newest
OpenTelemetry its default strategy loses every span, so that constraints.txt keeps it below 1.45.
"""

import os

from loopai_trainer.records import EnvironmentSpec

REQUIREMENTS = ("agentlightning[apo]==0.3.0",)

SMOKE = """\
import os
os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
import agentlightning, poml
from importlib.metadata import version
from agentlightning.algorithm import Baseline
from agentlightning.algorithm.apo import APO
from agentlightning.execution.client_server import ClientServerExecutionStrategy
from agentlightning.tracer.otel import OtelTracer
major, minor = version("opentelemetry-sdk").split(".")[:2]
assert (int(major), int(minor)) < (1, 45), "opentelemetry 1.45 loses spans"
"""


def environment_spec() -> EnvironmentSpec:
    """The pinned environment."""
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "constraints.txt")
    with open(path, encoding="utf-8") as file:
        constraints = file.read()
    return EnvironmentSpec("agentlightning", REQUIREMENTS, constraints, SMOKE)
