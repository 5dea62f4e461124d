"""What `trainer setup llamafactory` installs, and how it proves that it works.

Source: measured for LLaMA-Factory 0.9.5: torch 2.13 installs without complaint and crashes on import of torchvision,
so torch, torchvision and torchaudio are pinned together; constraints.txt holds one complete set that trained.
"""

import os

from loopai_trainer.records import EnvironmentSpec

REQUIREMENTS = ("llamafactory==0.9.5", "torch==2.14.1", "torchvision==0.29.1", "torchaudio==2.11.1")

SMOKE = """\
import torch, torchvision, torchaudio
import torchvision.ops
import llamafactory.train.tuner
boxes = torch.tensor([[0.0, 0.0, 1.0, 1.0]])
assert torchvision.ops.nms(boxes, torch.tensor([1.0]), 0.5).tolist() == [0]
"""


def environment_spec() -> EnvironmentSpec:
    """The pinned environment. Constraints bind what is installed; other platforms add what they need."""
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "constraints.txt")
    with open(path, encoding="utf-8") as file:
        constraints = file.read()
    return EnvironmentSpec("llamafactory", REQUIREMENTS, constraints, SMOKE)
