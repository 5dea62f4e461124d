"""--verbose talks on stderr and changes nothing else; --quiet beats it."""

import json

import pytest

from loopai_trainer.cli import fast, views
from loopai_trainer.cli.output import Output, finish
from loopai_trainer.cli.progress import bytes_progress
from loopai_trainer.errors import DataError
from loopai_trainer.operations.answer import Answer, failure
from loopai_trainer.records import Problem


def refusing():
    def operation():
        raise DataError("bad rows", problems=[Problem("error", "EMPTY", "train", f"row {n}") for n in range(30)])

    return operation


def test_where_a_refusal_arose_and_how_long_it_took(capsys):
    assert finish("prepare", Output(json=True, verbose=True), refusing()) == 3
    talked = capsys.readouterr()
    assert json.loads(talked.out)["error"]["code"] == "DATA_INVALID"
    assert "refused here:" in talked.err
    assert "test_verbose.py" in talked.err
    assert "exit code 3 after" in talked.err
    assert finish("prepare", Output(json=True), refusing()) == 3
    plain = capsys.readouterr()
    assert (plain.out, plain.err) == (talked.out, "")


def test_quiet_beats_it(capsys):
    output = Output(json=True, quiet=True, verbose=True)
    assert finish("prepare", output, refusing()) == 3
    assert capsys.readouterr().err == ""
    assert bytes_progress(output) is None


def test_every_finding_is_shown(capsys):
    with pytest.raises(DataError) as caught:
        refusing()()
    views.show(failure("prepare", caught.value), Output())
    assert "and 10 more findings" in capsys.readouterr().err
    views.show(failure("prepare", caught.value), Output(verbose=True))
    said = capsys.readouterr().err
    assert "more findings" not in said
    assert "row 29" in said


def test_a_line_a_step(capsys):
    tell = bytes_progress(Output(verbose=True))
    for what, done, total in (("reading data", 0, 0), ("reading data", 5, 10), ("hashing the model", 1, 2048)):
        tell(what, done, total)
    lines = capsys.readouterr().err.splitlines()
    assert [line.partition("] ")[2] for line in lines] == ["reading data", "hashing the model (2,048)"]


def test_the_fast_commands_take_it_too(capsys, tmp_path):
    assert fast.main(["status", str(tmp_path), "--json", "--verbose"]) == 2
    said = capsys.readouterr()
    assert json.loads(said.out)["error"]["code"] == "NOT_FOUND"
    assert "trainer status" in said.err
    assert finish("list", Output(verbose=True), lambda: Answer("list", {"count": 0, "runs": []}, message="none")) == 0
    assert "exit code 0 after" in capsys.readouterr().err
