"""What `trainer setup verl` installs, and how it proves that it works.

Source: measured for verl 0.9.1: the package alone dies after Ray's start, since its trainer imports TransferQueue and
cachetools, and geo3k's scorer mathruler, which only the extra verl-core brings; constraints.txt holds one complete set
that trained. vLLM, SGLang and flash-attn are not in it: they belong to a GPU and its driver, and `check` says which one
a plan lacks.
"""

import os

from loopai_trainer.records import EnvironmentSpec

REQUIREMENTS = ("torch==2.13.0", "verl[verl-core]==0.9.1", "math-verify")

SMOKE = """\
import cachetools, hydra, mathruler.grader, omegaconf, ray, torch, transfer_queue
import verl.model_merger.fsdp_model_merger
import verl.trainer.main_ppo
import verl.trainer.ppo.v1
from verl.utils.config import validate_config
from verl.utils.reward_score import default_compute_score
assert default_compute_score("openai/gsm8k", "#### 4", "4") == 1.0
assert default_compute_score("openai/gsm8k", "#### 5", "4") == 0.0
"""


def environment_spec() -> EnvironmentSpec:
    """The pinned environment; without one the conda environment `verl` (spec/001 "Prefill Guidance").

    Constraints bind what is installed; other platforms add what they need.
    """
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "constraints.txt")
    with open(path, encoding="utf-8") as file:
        constraints = file.read()
    return EnvironmentSpec("verl", REQUIREMENTS, constraints, SMOKE, conda_name="verl")
