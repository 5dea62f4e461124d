import hashlib
import sys

from hypothesis import given
from hypothesis import strategies as st

from loopai_trainer.rules import digest


@given(st.binary(max_size=300))
def test_it_is_hashlibs(data):
    assert digest.sha256(data) == hashlib.sha256(data).hexdigest()


def test_a_python_without_its_own_hashes_asks_hashlib(monkeypatch):
    monkeypatch.setitem(sys.modules, "_sha2", None)
    monkeypatch.setitem(sys.modules, "_sha256", None)
    assert digest._built_in() is hashlib.sha256
