"""Fixtures that every test folder shares."""

import os
import signal

import pytest
from hypothesis import HealthCheck, settings

# On a loaded machine an example may take any time; nothing here is to depend on the clock, nor on chance: the same
# examples come in every run. `HYPOTHESIS_PROFILE=search` looks for new ones.
for name, same in (("same", True), ("search", False)):
    settings.register_profile(name, deadline=None, derandomize=same, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "same"))

# A shell's background job begins with SIGINT ignored, and one under nohup with SIGHUP; so would every program that a
# test starts and interrupts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


@pytest.fixture(scope="session")
def lf_env() -> str:
    """Root of the LLaMA-Factory environment; scripts/test sets it up and names it in LOOPAI_TRAINER_LF_ENV."""
    root = os.environ.get("LOOPAI_TRAINER_LF_ENV", "")
    if not root:
        pytest.fail("LOOPAI_TRAINER_LF_ENV is not set: run scripts/test, which makes the environment")
    return root


@pytest.fixture(scope="session")
def agl_env() -> str:
    """Root of the Agent Lightning environment; scripts/test sets it up and names it in LOOPAI_TRAINER_AGL_ENV."""
    root = os.environ.get("LOOPAI_TRAINER_AGL_ENV", "")
    if not root:
        pytest.fail("LOOPAI_TRAINER_AGL_ENV is not set: run scripts/test, which makes the environment")
    return root


@pytest.fixture(scope="session")
def verl_env() -> str:
    """Root of the verl environment; scripts/test sets it up and names it in LOOPAI_TRAINER_VERL_ENV."""
    root = os.environ.get("LOOPAI_TRAINER_VERL_ENV", "")
    if not root:
        pytest.fail("LOOPAI_TRAINER_VERL_ENV is not set: run scripts/test, which makes the environment")
    return root
