"""The stage grpo: an agent's model trained by reinforcement learning with verl."""

from loopai_trainer.backends.agentlightning import AgentLightning

TYPE_CHECKING = False
if TYPE_CHECKING:
    from loopai_trainer.contract import Backend

BACKEND: "Backend" = AgentLightning("grpo")
