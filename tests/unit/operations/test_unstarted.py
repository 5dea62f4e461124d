"""Verbs that need a run which has been started: one refusal for all of them, another where a refused prepare is all."""

import pytest
from fakes.prepared_sft import PreparedSft

from loopai_trainer.errors import DataError, NotFound, UsageError
from loopai_trainer.operations.export import export
from loopai_trainer.operations.prepare import prepare
from loopai_trainer.operations.run_prepared import run_prepared
from loopai_trainer.operations.sources import Request
from loopai_trainer.operations.status import status
from loopai_trainer.operations.targets import Scope
from loopai_trainer.operations.wait import wait
from loopai_trainer.operations.watch import start

VERBS = {
    "wait": lambda scope: wait("v1", scope, 1.0),
    "watch": lambda scope: start("v1", scope),
    "export": lambda scope: export("v1", scope),
    "prepare --resume": lambda scope: prepare(
        Request({"output_dir": scope.output_dir, "trainer_version_id": "v2"}, scope.environ, resume="v1")
    ),
}


@pytest.mark.parametrize("verb", VERBS)
def test_what_is_merely_prepared(verb, tmp_path):
    made = PreparedSft(tmp_path)
    with pytest.raises(UsageError, match="v1 has not been started, so there is nothing to ") as refused:
        VERBS[verb](Scope(made.environ, str(tmp_path / "outputs")))
    assert refused.value.code == "NOT_STARTED"
    assert refused.value.next_command == f"trainer inspect {made.run.config}"


@pytest.mark.parametrize("verb", [*VERBS, "status"])
def test_what_a_refused_prepare_left(verb, place):
    place.write_rows([{"instruction": "no answer"}])
    with pytest.raises(DataError):
        place.prepare()
    assert place.run.is_dir()
    called = {**VERBS, "status": lambda scope: status("v1", scope)}[verb]
    with pytest.raises(NotFound, match="holds no plan: prepare refused it"):
        called(Scope(place.environ, str(place.root / "outputs")))


def test_a_refused_start_says_nothing_of_attaching_to_it_again(tmp_path):
    made, said = PreparedSft(tmp_path), []
    with pytest.raises(Exception, match="expected") as refused:
        run_prepared(made.run.config, "0" * 64, made.environ, talk=said.append)
    assert refused.value.exit_code == 5
    assert said == []
