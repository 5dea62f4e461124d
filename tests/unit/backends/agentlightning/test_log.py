import pytest

from loopai_trainer.backends.agentlightning import log, metrics
from loopai_trainer.records import LogFact, MetricRow


def test_phases_are_the_drivers_own_lines_alone():
    lines = ["[loopai] phase importing (all)", "the agent says [loopai] phase training", "[loopai] phase training"]
    assert log.read_log(lines) == [LogFact("phase", "importing"), LogFact("phase", "training")]
    assert all(any(mark in line.encode() for mark in log.MARKS["phase"]) for line in lines[:1] + lines[2:])


@pytest.mark.parametrize(
    ("lines", "cause", "advice"),
    [
        (
            ["[loopai] error RUNNER_LOST: 1 of 2 runners ended early"],
            "RUNNER_LOST: 1 of 2 runners ended early",
            "memory",
        ),
        (
            ["ValueError: x", "[loopai] error AGENT_LIGHTNING_FAILED: APIConnectionError: Connection error."],
            "AGENT_LIGHTNING_FAILED: APIConnectionError: Connection error.",
            "llm.base_url",
        ),
        (
            ["[loopai] rollout ro-1 is over its 3 s", "aiohttp.client_exceptions.ServerDisconnectedError: gone"],
            "1 rollouts were over their 3 s",
            "limits.rollout_s",
        ),
        (["ValueError: the cause", "ConnectionRefusedError: [Errno 111]"], "ValueError: the cause", "train.log"),
        (["Traceback", "openai.APITimeoutError: late", "ValueError: worse"], "ValueError: worse", "train.log"),
    ],
)
def test_a_failure_is_told_with_advice(lines, cause, advice):
    told = log.explain_failure(lines)
    assert told is not None and told[0] == cause and advice in told[1]


def test_no_error_line_explains_nothing():
    assert log.explain_failure(["all is well"]) is None


def test_metric_lines():
    lines = [
        b'{"step": 1, "kind": "train", "values": {"reward": 1, "spans": 2.0, "note": "x", "ok": true}}',
        b'{"step": 2, "kind": "moon", "values": {"reward": 1}}',
        b'{"step": true, "kind": "train", "values": {"reward": 1}}',
        b'{"step": 3, "kind": "val", "values": {}}',
        b'{"step": 4, "kind": "val", "values": []}',
        b"{torn",
    ]
    assert metrics.read_metrics(lines) == [MetricRow(1, "train", {"reward": 1.0, "spans": 2.0})]
