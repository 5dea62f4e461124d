"""Fixtures that every test folder shares."""

import os

import pytest


@pytest.fixture(scope="session")
def lf_env() -> str:
    """Root of the LLaMA-Factory environment; scripts/test sets it up and names it in LOOPAI_TRAINER_LF_ENV."""
    root = os.environ.get("LOOPAI_TRAINER_LF_ENV", "")
    if not root:
        pytest.fail("LOOPAI_TRAINER_LF_ENV is not set: run scripts/test, which makes the environment")
    return root
