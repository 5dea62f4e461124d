"""Freed memory is kept where the C library can do so, and nothing breaks where it cannot."""

import ctypes
import resource
import subprocess
import sys

from loopai_trainer.host import allocator

FAULTS = """
import resource
from loopai_trainer.host.allocator import keep_freed_memory
{call}
bytes(4 << 20)
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(20):
    bytes(bytearray(b"1") * (4 << 20))
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def faults(call: str) -> int:
    code = FAULTS.format(call=call)
    return int(subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout)


def test_large_pieces_are_used_again():
    pages = (4 << 20) // resource.getpagesize()
    assert faults("pass") > 20 * pages
    assert faults("assert keep_freed_memory()") < 10 * pages


def test_a_c_library_without_the_setting_is_left_alone(monkeypatch):
    monkeypatch.setattr(ctypes, "CDLL", lambda name: object())
    assert not allocator.keep_freed_memory()
