import uuid

from loopai_trainer.operations.version_id import uuid7


def test_ids_are_uuid7_and_sort_by_time():
    made = [uuid7() for _ in range(2000)]
    assert len(set(made)) == 2000
    assert {(uuid.UUID(text).version, uuid.UUID(text).variant) for text in made} == {(7, uuid.RFC_4122)}
    milliseconds = [int(text.replace("-", "")[:12], 16) for text in made]
    assert milliseconds == sorted(milliseconds)
