import time

from loopai_trainer.host import clocks, processes


def test_both_clocks_are_read():
    before, found, after = time.time(), clocks.read(), time.time()
    assert before <= found.now <= after
    assert found.boot_id == processes.boot_id()
    assert 0 < found.boot_s <= time.clock_gettime(time.CLOCK_BOOTTIME)
