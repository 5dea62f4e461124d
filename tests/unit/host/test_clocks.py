import time

from loopai_trainer.host import clocks, processes


def test_both_clocks_are_read(monkeypatch):
    monkeypatch.setattr(time, "time", lambda: 1764400000.25)
    before, found, after = (
        time.clock_gettime(time.CLOCK_BOOTTIME),
        clocks.read(),
        time.clock_gettime(time.CLOCK_BOOTTIME),
    )
    assert found.now == 1764400000.25
    assert found.boot_id == processes.boot_id()
    assert 0 < before <= found.boot_s <= after
