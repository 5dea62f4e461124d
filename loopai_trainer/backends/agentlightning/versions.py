"""Which installed packages go together: pairs that are known not to work are refused with what would.

Source: measured with Agent Lightning 0.3.0, read in 1.0.2. With OpenTelemetry 1.45 the default strategy of 0.3.0 loses
every span that goes over HTTP (its exporter sets an endpoint that 1.45 reads only once); neither version imports with
verl 0.9.1 (create_rl_sampler and TaskRunner have moved); 1.x has no Trainer, no Baseline and no APO.
"""

from __future__ import annotations

import re

from loopai_trainer.errors import BackendMissing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from loopai_trainer.records import Versions

PACKAGE = "agentlightning"
SETUP = "run: trainer setup agentlightning, and name that environment or none"
_OTEL = ("opentelemetry-sdk", "opentelemetry-api", "opentelemetry-exporter-otlp-proto-http")
_OTEL_LIMIT = (1, 45)
_VERL_OF_03 = ((0, 5), (0, 6))
_VERL_OF_1 = ((0, 7), (0, 8))
_GRPO_WORKS = "agentlightning 1.x with verl 0.7.1 or 0.8.0, or 0.3.0 with verl 0.5 or 0.6, each with its vLLM"


def require_known(versions: Versions, stage: str) -> None:
    """Raises BackendMissing (BACKEND_PAIR_BROKEN, exit 69) for the first pair that is known not to work."""
    for message, hint in _faults(versions, stage):
        raise BackendMissing(message, code="BACKEND_PAIR_BROKEN", hint=hint)


def number(version: str) -> tuple[int, int]:
    """Major and minor of a version; zeros if it has none."""
    found = re.match(r"(\d+)\.(\d+)", version)
    return (int(found[1]), int(found[2])) if found else (0, 0)


def _faults(versions: Versions, stage: str) -> Iterator[tuple[str, str]]:
    own, held = number(versions.version), versions.distributions
    if own >= (1, 0):
        yield from _of_1(versions, stage)
    elif own != (0, 3):
        yield f"agentlightning {versions.version} was never tried: this backend drives 0.3.0 and, for grpo, 1.x", SETUP
    for name in _OTEL if own < (1, 0) else ():
        if number(held.get(name, "")) >= _OTEL_LIMIT:
            message = f"agentlightning {versions.version} loses spans with {name} {held[name]}"
            yield message, "install opentelemetry-*<1.45 there, or " + SETUP
    if stage == "apo" and "poml" not in held:
        yield "prompt optimisation needs poml, which agentlightning[apo] brings", SETUP
    if stage == "grpo":
        yield from _verl(versions)


def _of_1(versions: Versions, stage: str) -> Iterator[tuple[str, str]]:
    if stage != "grpo":
        message = f"agentlightning {versions.version} has no Trainer, no Baseline and no APO: {stage} needs 0.3.0"
        yield message, SETUP
    if number(versions.python) < (3, 12):
        yield f"agentlightning {versions.version} needs Python 3.12, here is {versions.python}", _GRPO_WORKS


def _verl(versions: Versions) -> Iterator[tuple[str, str]]:
    held = versions.distributions
    if "verl" not in held:
        yield "grpo needs verl beside agentlightning, and there is none", f"make an environment with {_GRPO_WORKS}"
        return
    allowed = _VERL_OF_1 if number(versions.version) >= (1, 0) else _VERL_OF_03
    if number(held["verl"]) not in allowed:
        message = f"agentlightning {versions.version} does not work with verl {held['verl']}"
        yield message, f"make an environment with {_GRPO_WORKS}"
