"""results.run_page: one self-contained page a run, in which every text of the run is text."""

import os
import re
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from fakes import browser
from fakes.finished_runs import FinishedRun, ending
from fakes.pages import Page

from loopai_trainer import backends
from loopai_trainer.errors import TrainingFailed
from loopai_trainer.files import approval_file
from loopai_trainer.records import Problem
from loopai_trainer.results import page_curves, report, run_page
from loopai_trainer.results.analysis import analyze_folder
from loopai_trainer.rules import approval

NASTY = """</td></pre></script><script>document.title='pwned'</script><img src=x onerror="document.title='pwned'">"""
TOKEN = "hf_" + "Ab3dEf6hIj9lMn2pQr5tUv8xYz1Babcdef"


@pytest.fixture
def finished(tmp_path):
    run = FinishedRun(tmp_path)
    Path(run.run.data_report).write_text("92 rows\n2 left out\n")
    record = approval.new_record(
        task_id="demo",
        version_id="v1",
        run_dir=run.run.path,
        round_number=2,
        config_sha256=run.plan.sha256,
        prepared_at=900.0,
        approved_at=1000.0,
        counted_from=1000.0,
        boot=None,
        approver={"user": "ada", "uid": 7, "host": "h", "tty": "/dev/pts/3", "agent_variables": []},
        approved_via="terminal",
        note=f"go {NASTY} {TOKEN}",
    )
    approval_file.write(run.run, record)
    return run


def told(finished, **changes):
    analysis = analyze_folder(finished.run.path, backends.get("llamafactory", "sft"))
    values = {"status": "completed", "error": None, "settings": {"learning_rate": 1e-5}, "curve": "CURVE"}
    return report.Report(finished.plan, analysis, ending(), **{**values, "picture": "none", **changes})


def written(finished, **changes):
    """(what write says, the page's text)."""
    said = run_page.write(finished.run, told(finished, **changes))
    return said, Path(finished.run.page).read_text()


@pytest.fixture
def without_bokeh(monkeypatch):
    monkeypatch.setitem(sys.modules, "bokeh.embed", None)


def test_all_that_a_reader_looks_for(finished):
    said, text = written(finished)
    page = Page(text)
    assert said == "curves by Bokeh"
    assert page.problems == []
    for wanted in (
        *("demo / v1", "completed", "llamafactory/sft", "40 of 40", "eval_loss = 0.9 at step 30", finished.plan.sha256),
        *("checkpoint-30 (chosen)", "lowest eval_loss", "ada", "terminal", "1970-01-01T00:16:40Z", "learning_rate"),
        *("2 left out", "per_device_train_batch_size"),
    ):
        assert wanted in page.text, wanted
    assert re.search(r'<tr class="marked"><td>checkpoint-30 \(chosen\)</td>', text)
    assert page.tags.count("h1") == 1
    assert os.stat(finished.run.page).st_mode & 0o777 == 0o600
    assert len(text) < 2_000_000


def test_it_asks_the_network_for_nothing(finished):
    page = Page(written(finished)[1])
    assert page.loads() == []
    policy = next(value for tag, name, value in page.attributes if tag == "meta" and value.startswith("default-src"))
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "http" not in policy
    own = [script for script in page.scripts if "curve-data" in script]
    style = re.search(r"<style>(.*?)</style>", written(finished)[1], re.DOTALL)
    for text in (*own, style[1]):
        assert not re.search(r"https?:|//\w|@import|url\(|fetch\(|XMLHttpRequest|import\(", text)
    assert not re.search(r"\bon\w+=", "".join(name for _, name, _ in page.attributes))


def test_injections_and_secrets(finished, monkeypatch):
    finished.log([2.0, 1.8, 1.6, 1.4, 1.3, 1.2, 1.1, 1.0], [1.4, 1.1, 0.9, 1.0])
    path = Path(finished.checkpoints) / "trainer_log.jsonl"
    path.write_text(
        path.read_text().replace('"eval_loss": 0.9', '"eval_loss": 0.9, "eval_<script>x</script>_loss": 1.0')
    )
    Path(finished.run.data_report).write_text(f"{NASTY}\n{TOKEN}\n")
    problems = [Problem("error", NASTY, "host", NASTY, NASTY)]
    error = TrainingFailed(f"{NASTY} {TOKEN}", code="EXIT_STATUS", hint=NASTY, problems=problems)
    _, text = written(finished, status="failed", error=error, settings={NASTY: NASTY})
    page = Page(text)
    assert page.problems == []
    assert len(page.scripts) == 3
    assert "img" not in page.tags
    assert NASTY in page.text
    assert "Why it did not complete" in page.text
    assert TOKEN not in text
    assert "[redacted]" in page.text
    assert "eval_<script>x</script>_loss" in page.text


@pytest.mark.usefixtures("without_bokeh")
def test_without_bokeh_the_picture_or_the_text_stands_there(finished):
    said, text = written(finished)
    assert said == "without moving curves"
    assert "<pre>CURVE</pre>" in text
    assert "loopai-trainer[plot]" in text
    assert Page(text).scripts == []
    assert "script-src 'none'" in text
    Path(finished.run.picture).write_bytes(b"\x89PNG")
    _, text = written(finished)
    assert '<img src="data:image/png;base64,' in text
    assert "CURVE" not in text
    assert len(text) < 100_000


@pytest.mark.usefixtures("without_bokeh")
def test_a_run_that_left_nothing(finished):
    finished.log([])
    for folder in finished.checkpoints.glob("checkpoint-*"):
        folder.rename(finished.path / folder.name.replace("checkpoint", "gone"))
    os.unlink(finished.run.approval)
    os.unlink(finished.run.data_report)
    page = Page(written(finished, curve="", settings={}, status="cancelled")[1])
    for wanted in ("Training logged none.", "None was saved.", "There is no approval record.", "logged no curve"):
        assert wanted in page.text


@pytest.mark.usefixtures("without_bokeh")
def test_a_damaged_approval_and_a_huge_report_are_told(finished, monkeypatch):
    Path(finished.run.approval).write_text('{"note": "forged"}')
    monkeypatch.setattr(run_page, "REPORT_BYTES", 10)
    Path(finished.run.data_report).write_text("x" * 50)
    page = Page(written(finished)[1])
    assert "approval.json cannot be used" in page.text
    assert "forged" not in page.text
    assert "x" * 10 in page.text and "x" * 11 not in page.text
    assert "Cut here" in page.text


def test_the_room_on_a_nearly_full_disk_is_left_to_the_result(finished, monkeypatch):
    monkeypatch.setattr(run_page.shutil, "disk_usage", lambda _: SimpleNamespace(free=1024 * 1024))
    assert run_page.write(finished.run, told(finished)).startswith("none: the disk is nearly full")
    assert not os.path.exists(finished.run.page)


def test_a_browser_draws_the_curves_and_runs_nothing_else(finished):
    error = TrainingFailed(NASTY, code="EXIT_STATUS", hint=NASTY)
    written(finished, status="failed", error=error)
    seen = browser.opened(Path(finished.run.page))
    assert re.search(r'<div id="curves" data-drawn="light"><div[^>]* class="bk-Column', seen)
    assert "<title>demo / v1</title>" in seen


@pytest.mark.parametrize(("scheme", "ground"), [(1, (255, 255, 255)), (0, (20, 24, 29))])
def test_what_is_drawn_is_seen_on_a_phone_in_the_readers_scheme(finished, tmp_path, scheme, ground):
    written(finished)
    shot = tmp_path / "shot.png"
    flags = (f"--blink-settings=preferredColorScheme={scheme}", "--window-size=390,1400", "--hide-scrollbars")
    colours = browser.colours(Path(finished.run.page), shot, *flags)
    assert colours[ground] > 390 * 1400 / 2
    assert colours[47, 127, 214] > 50  # the curve of the loss
    assert colours[224, 99, 47] > 50  # the curve of the eval loss


def test_a_browser_runs_no_script_that_got_in(finished, tmp_path, monkeypatch):
    """The second guard: even an unescaped script would not run, since the policy names ours alone."""
    drawn = page_curves.drawing(page_curves.panels(told(finished).analysis.measured))
    text = run_page.render(finished.run, told(finished), drawn)
    broken = tmp_path / "broken.html"
    broken.write_text(text.replace("<body>", "<body><script>document.title='pwned'</script>"))
    assert "<title>demo / v1</title>" in browser.opened(broken)
    free = tmp_path / "free.html"
    free.write_text(re.sub(r"<meta http-equiv[^>]*>", "", broken.read_text()))
    assert "<title>pwned</title>" in browser.opened(free)
