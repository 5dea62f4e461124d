"""The backend `stand_in_chat`/`sft`: the stand-in, with what `prepare` asks as well, so that a plan of it can be made."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fakes.backend import StandIn
from loopai_trainer.records import Field, Placement, Rejection, Row, Settings
from loopai_trainer.rules.rows import row_check_for


class ChatStandIn(StandIn):
    name = "stand_in_chat"

    def fields(self) -> tuple[Field, ...]:
        return (Field("stand_in_env_path", "environment of the stand-in", "--env", kind="path"),)

    def row_check(
        self, settings: Settings, sample: Sequence[object]
    ) -> tuple[str, Callable[[object, int], Row | Rejection]]:
        return row_check_for(sample)  # type: ignore[return-value]  # the remarks of a check are rows, too

    def placement(self, settings: Settings, native: Mapping[str, Any]) -> Placement:
        return Placement("", 1)


BACKEND = ChatStandIn()
