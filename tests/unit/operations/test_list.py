import pytest

from loopai_trainer.errors import NotFound
from loopai_trainer.operations.list import list_runs
from loopai_trainer.operations.targets import Scope


@pytest.mark.parametrize(("name", "what"), [("missing", "does not exist"), ("file", "is a file")])
def test_an_output_directory_that_is_none(tmp_path, name, what):
    (tmp_path / "file").write_text("")
    with pytest.raises(NotFound, match=what):
        list_runs(Scope({}, str(tmp_path / name)), 10)


def test_an_empty_one_has_no_runs(tmp_path):
    answer = list_runs(Scope({}, str(tmp_path)), 10)
    assert (answer.data["count"], answer.message) == (0, "no runs yet")
