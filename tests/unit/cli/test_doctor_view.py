from loopai_trainer.cli import views
from loopai_trainer.cli.output import Output
from loopai_trainer.errors import HostUnfit
from loopai_trainer.operations.answer import Answer


def test_a_line_a_check_and_what_mends_a_bad_one(capsys):
    checks = [
        {"name": "disk", "ok": True, "detail": "50 GB free at /out", "hint": ""},
        {"name": "open files", "ok": False, "detail": "[1024]", "hint": "ulimit -n 4096"},
    ]
    views.show(
        Answer("doctor", {"checks": checks}, message="1 of 2", error=HostUnfit("1 of 2", hint="ulimit -n 4096")),
        Output(),
    )
    seen = capsys.readouterr()
    assert seen.out.splitlines() == [
        "ok  disk        50 GB free at /out",
        "bad open files  [1024]",
        "                hint: ulimit -n 4096",
    ]
    assert "1 of 2" in seen.err
    assert "(HOST_UNFIT)" in seen.err


def test_a_host_that_is_well_is_told_so(capsys):
    check = {"name": "disk", "ok": True, "detail": "50 GB free at /out", "hint": ""}
    views.show(Answer("doctor", {"checks": [check]}, message="all is well"), Output())
    assert capsys.readouterr().out.splitlines() == ["ok  disk  50 GB free at /out", "all is well"]
