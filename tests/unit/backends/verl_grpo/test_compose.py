import json
import os

import pytest

from loopai_trainer.backends.verl_grpo.compose import resolve, resolved
from loopai_trainer.errors import BackendMissing
from loopai_trainer.records import Environment, LaunchPaths

ENVIRONMENT = Environment("/env", "/env/bin", "/env/bin/python", ())
PATHS = LaunchPaths("/run", "/run/launch", "/run/checkpoints", "/run/metrics", "/run/launch/cache", "/run/launch/tmp")


def test_the_question_is_small_isolated_and_the_same_every_time():
    native = {"data": {"train_batch_size": 4}}
    question = resolve(native, ENVIRONMENT, PATHS)
    program = question.command.argv
    assert program[:3] == ("/env/bin/python", "-I", "-B")
    assert os.path.isfile(program[3])
    assert set(question.command.env) == {"PATH", "LANG"}
    asked = json.loads(question.stdin)
    assert asked["native"] == native
    assert "actor_rollout_ref.model.override_config" in asked["open"]
    assert resolve(native, ENVIRONMENT, PATHS) == question
    assert question.limit_s > 0


def test_an_answer_is_the_text_and_its_problems():
    problem = {"severity": "error", "code": "UNKNOWN_KEY", "message": "m", "hint": "h", "field": "data.x"}
    found = resolved(json.dumps({"yaml": "a: 1\n", "problems": [problem, {**problem, "field": ""}]}).encode())
    assert found.text == "a: 1\n"
    assert [(p.code, p.where, p.field) for p in found.problems] == [
        ("UNKNOWN_KEY", "config", "data.x"),
        ("UNKNOWN_KEY", "config", None),
    ]


@pytest.mark.parametrize(
    "answer",
    [b"", b"nonsense", b"[]", b"{}", b'{"yaml": "", "problems": [{}]}', b'{"yaml": "", "problems": 3}', b"\xff"],
)
def test_an_answer_that_is_none_is_a_broken_backend(answer):
    with pytest.raises(BackendMissing) as caught:
        resolved(answer)
    assert caught.value.code == "BACKEND_BROKEN"
