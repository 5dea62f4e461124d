import json
import os
from pathlib import Path

import pytest
from fakes.runs import PreparedRun

from loopai_trainer.errors import ApprovalError
from loopai_trainer.operations import approvals
from loopai_trainer.rules import plan as plans


@pytest.fixture
def prepared(tmp_path):
    return PreparedRun(tmp_path)


def check(prepared):
    plan = plans.read(Path(prepared.run.config).read_bytes(), prepared.run.config)
    approvals.check(prepared.run, plan, "hash", {})


@pytest.mark.parametrize(
    "garbage",
    ["", "{", "[]", "{}", '{"prepared_at": null}', '{"prepared_at": "today"}', '{"prepared_at": true}',
     '{"prepared_at": NaN}', '{"prepared_at": 1e999}', "[" * 100_000, None],
)  # fmt: skip
def test_a_damaged_plan_json_is_no_way_to_a_longer_life(prepared, garbage):
    check(prepared)
    plan_json = Path(prepared.run.plan)
    plan_json.unlink() if garbage is None else plan_json.write_text(garbage)
    os.utime(prepared.run.config)
    with pytest.raises(ApprovalError, match="is damaged") as caught:
        check(prepared)
    assert caught.value.code == "APPROVAL_INVALID"
    assert caught.value.hint == "prepare again"


def test_the_yamls_own_time_moves_nothing(prepared):
    plan_json = Path(prepared.run.plan)
    noted = json.loads(plan_json.read_text())
    plan_json.write_text(json.dumps({**noted, "prepared_at": noted["prepared_at"] - 25 * 3600}))
    os.utime(prepared.run.config)
    with pytest.raises(ApprovalError) as caught:
        check(prepared)
    assert caught.value.code == "APPROVAL_EXPIRED"
