"""The stage apo: a prompt improved by textual gradients and beam search."""

from loopai_trainer.backends.agentlightning import AgentLightning

TYPE_CHECKING = False
if TYPE_CHECKING:
    from loopai_trainer.contract import Backend

BACKEND: "Backend" = AgentLightning("apo")
