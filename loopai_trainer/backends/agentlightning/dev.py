"""The stage dev: an agent run once over its tasks (Baseline), to see spans, rewards and triplets."""

from loopai_trainer.backends.agentlightning import AgentLightning

TYPE_CHECKING = False
if TYPE_CHECKING:
    from loopai_trainer.contract import Backend

BACKEND: "Backend" = AgentLightning("dev")
