"""Which item of its source each row of a snapshot was."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopai_trainer.files import snapshot_items
from loopai_trainer.files.snapshots import SnapshotWriter, rows_at, split_snapshot
from loopai_trainer.records import Row


def written(folder, numbers, items):
    with SnapshotWriter(str(folder)) as writer:
        for number in numbers:
            writer.add(Row((("user", f"q{number}"), ("assistant", "a")), "", "", 1))
        if items is not None:
            writer.name_items(items)
        return writer.finish("train").path


@given(st.sets(st.integers(1, 1 << 31), max_size=30), st.sampled_from([1, 4, 1 << 16]))
def test_items_are_read_as_they_were_written(tmp_path_factory, numbers, chunk):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(snapshot_items, "_CHUNK", chunk)
        path = written(tmp_path_factory.mktemp("items"), sorted(numbers), sorted(numbers))
    assert list(snapshot_items.read(path)) == sorted(numbers)


def test_most_snapshots_name_no_items(tmp_path):
    assert snapshot_items.read(written(tmp_path, [1, 2], None)) is None


def test_many_items_in_a_row_take_little_room(tmp_path):
    assert len(snapshot_items.packed(range(1, 1_000_001))["loopai.items"]) < 10_000


def test_a_split_keeps_the_items_of_its_sides(tmp_path):
    path = written(tmp_path, range(6), [1, 2, 4, 5, 6, 9])
    with SnapshotWriter(str(tmp_path)) as kept, SnapshotWriter(str(tmp_path)) as held:
        split_snapshot(path, bytearray([0, 1, 0, 0, 1, 0]), kept, held)
        train, validation = kept.finish("a").path, held.finish("b").path
    assert list(snapshot_items.read(train)) == [1, 4, 5, 9]
    assert list(snapshot_items.read(validation)) == [2, 6]
    assert [row.messages[0][1] for row in rows_at(validation, range(2)).values()] == ["q1", "q4"]
