"""Lines that a terminal would break without a word: no part of one may look like another line of the YAML."""

import fcntl
import io
import os
import pty
import struct
import termios

import pytest
from rich.text import Text

from loopai_trainer.cli import approval_view, long_lines, views
from loopai_trainer.cli.output import Output
from loopai_trainer.cli.page import Page

FORGED = "learning_rate: 1.0e-05"
YAML = f"note: {'x' * 74}{FORGED}\nlearning_rate: 5.0e-01\n"
"""At 80 columns a terminal shows the end of the note as a line of its own, above the one that counts."""


def plain(text, columns):
    return [[piece.plain for piece in pieces] for pieces in long_lines.broken(Text(text), columns)]


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("a: 1\n\nb: 2\n", [["a: 1"], [""], ["b: 2"]]),
        ("x" * 20, [["x" * 20]]),
        ("x" * 21, [["x" * 20, ">> x"]]),
        ("x" * 54, [["x" * 20, ">> " + "x" * 17, ">> " + "x" * 17]]),
        ("问" * 11, [["问" * 10, ">> 问"]]),
        ("é" * 10 + FORGED, [["é" * 10, ">> learning_rate: 1.", ">> 0e-05"]]),
        ("\ta: " + "x" * 10, [["        a: " + "x" * 9, ">> x"]]),
    ],
)
def test_a_line_that_does_not_fit_goes_on_behind_a_mark(text, pieces):
    assert plain(text, 20) == pieces


def test_a_page_of_no_width_has_some():
    assert plain("x" * 21, 0) == [["x" * 20, ">> x"]]


def shown(columns=None):
    """The YAML as it is shown: on a terminal of so many columns, else into a pipe."""
    if columns is None:
        stream = io.StringIO()
        approval_view.yaml(Page(Output(no_color=True), stream), "/run/x.yaml", YAML)
        return stream.getvalue().splitlines()
    own, tty = pty.openpty()
    fcntl.ioctl(tty, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    with os.fdopen(tty, "w") as stream:
        approval_view.yaml(Page(Output(no_color=True), stream), "/run/x.yaml", YAML)
        stream.flush()
        text = ""
        while not text.endswith("5.0e-01\r\n"):
            text += os.read(own, 65536).decode()
    os.close(own)
    return text.splitlines()


@pytest.mark.parametrize("columns", [None, 80])
def test_the_approval_view_shows_no_line_that_is_none(columns, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80" if columns is None else "500")  # of a terminal's width the caller has no say
    lines = shown(columns)
    assert f">> {FORGED}" in lines
    assert FORGED not in lines
    assert "learning_rate: 5.0e-01" in lines
    assert any("behind >>" in line for line in lines[: lines.index("note: " + "x" * 74)])
    assert max(map(len, lines)) <= 80


def test_a_page_that_is_wide_enough_says_nothing_of_it():
    lines = shown(200)
    assert lines[-2:] == YAML.splitlines()
    assert not any(">>" in line for line in lines)


def test_findings_and_changes_are_marked_too():
    stream = io.StringIO()
    page = Page(Output(no_color=True), stream)
    padded = "x" * 200 + FORGED
    warning = {"path": "a", "where": "config", "line": 1, "row": None, "field": None, "severity": "warning",
               "message": padded, "code": "C", "hint": padded}  # fmt: skip
    views.warnings(page, [warning])
    approval_view.changes(page, [{"key": "note", "kind": "changed", "from": "a", "to": padded}])
    approval_view.unified(page, f"+note: {padded}\n")
    lines = stream.getvalue().splitlines()
    assert len(lines) > 4
    assert max(map(len, lines)) <= page.width
    assert not any(line.startswith(("learning_rate", "x")) for line in lines)
