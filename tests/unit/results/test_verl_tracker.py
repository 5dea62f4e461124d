"""results.verl_tracker: the step that verl notes, if it is one."""

import pytest

from loopai_trainer.results.verl_tracker import tracked_step


@pytest.mark.parametrize(("content", "step"), [("30", 30), ("30\n", 30), ("", None), ("x", None)])
def test_tracker(tmp_path, content, step):
    (tmp_path / "latest_checkpointed_iteration.txt").write_text(content)
    assert tracked_step(str(tmp_path)) == step
    assert tracked_step(str(tmp_path / "none")) is None
