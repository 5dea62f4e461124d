"""backends.verl_grpo.rollouts: made-up samples are counted, old dumps go."""

import json

import pytest

from loopai_trainer.backends.verl_grpo import rollouts
from loopai_trainer.records import LaunchPaths


@pytest.fixture
def paths(tmp_path):
    return LaunchPaths(str(tmp_path), *[str(tmp_path / name) for name in ("l", "c", "m", "cache", "t")])


def dump(folder, step, uids, output="a reply"):
    folder.mkdir(exist_ok=True)
    rows = [{"input": "q", "output": output, "gts": "96", "score": 0.0, "step": step, "uid": uid} for uid in uids]
    (folder / f"{step}.jsonl").write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))


def test_made_up_samples_are_told(paths, tmp_path):
    dump(tmp_path / "rollouts", 3, ["6d8f_0_0", "6d8f_1_0", "pade045_0_0", "pade045_1_0"])
    (problem,) = rollouts.step_problems(paths, 3)
    assert (problem.code, problem.severity) == ("REWARD_PADDING", "warning")
    assert "2 of 4 samples (50%) of step 3" in problem.message
    assert "reward" in problem.hint


@pytest.mark.parametrize("uids", [[], ["6d8f_0_0"], ["nopad_0_0", "apad"]])
def test_a_sound_step_says_nothing(paths, tmp_path, uids):
    dump(tmp_path / "rollouts", 3, uids)
    assert rollouts.step_problems(paths, 3) == []
    assert rollouts.step_problems(paths, 4) == []  # not dumped yet


def test_a_reply_cannot_pass_for_a_made_up_sample(tmp_path):
    dump(tmp_path, 1, ["6d8f_0_0"], output='x", "uid": "pad_0", "y": "')
    assert rollouts.count(str(tmp_path / "1.jsonl")) == (1, 0)


def test_a_mark_over_the_edge_of_a_piece_is_counted_once(tmp_path, monkeypatch):
    dump(tmp_path, 1, ["pad_0_0"] * 7 + ["x"])
    whole = len((tmp_path / "1.jsonl").read_bytes())
    for size in (13, 17, 64, whole):
        monkeypatch.setattr(rollouts, "_PIECE_BYTES", size)
        assert rollouts.count(str(tmp_path / "1.jsonl")) == (8, 7)


class TestPrune:
    @pytest.fixture
    def folder(self, tmp_path):
        for step in (1, 2, 3, 10):
            (tmp_path / f"{step}.jsonl").write_bytes(b"x" * 10)
        (tmp_path / "notes.txt").write_bytes(b"x" * 1000)
        return tmp_path

    def names(self, folder):
        return sorted(path.name for path in folder.iterdir())

    @pytest.mark.parametrize(
        ("kept", "left"),
        [
            (1000, ["1.jsonl", "10.jsonl", "2.jsonl", "3.jsonl"]),
            (20, ["10.jsonl", "3.jsonl"]),
            (0, ["10.jsonl"]),
        ],
    )
    def test_the_oldest_go_first(self, folder, kept, left):
        rollouts.prune(str(folder), kept)
        assert self.names(folder) == [*left, "notes.txt"]

    def test_a_link_is_left_alone(self, folder, tmp_path):
        (folder / "0.jsonl").symlink_to(folder / "notes.txt")
        rollouts.prune(str(folder), 0)
        assert (folder / "0.jsonl").is_symlink() and (folder / "notes.txt").exists()

    def test_no_folder(self, tmp_path):
        assert rollouts.prune(str(tmp_path / "none"), 0) == []

    def test_steps_tidy_up(self, paths, tmp_path, monkeypatch):
        monkeypatch.setattr(rollouts, "KEPT_BYTES", 0)
        for name in ("rollouts", "validations"):
            for step in (7, 8):
                dump(tmp_path / name, step, ["x"])
        rollouts.step_problems(paths, 7)
        assert self.names(tmp_path / "rollouts") == ["7.jsonl", "8.jsonl"]
        rollouts.step_problems(paths, 8)
        assert self.names(tmp_path / "rollouts") == self.names(tmp_path / "validations") == ["8.jsonl"]
