"""Where pyarrow takes its memory from is chosen for a while, and then as it was."""

import pyarrow
import pytest

from loopai_trainer.files.arrow_memory import steady_memory

MIMALLOC = pytest.mark.skipif("mimalloc" not in pyarrow.supported_memory_backends(), reason="pyarrow lacks mimalloc")


@pytest.fixture(autouse=True)
def as_before():
    before = pyarrow.default_memory_pool()
    yield
    pyarrow.set_memory_pool(before)


@MIMALLOC
def test_mimalloc_is_replaced_and_comes_back():
    pyarrow.set_memory_pool(pyarrow.mimalloc_memory_pool())
    with pytest.raises(ZeroDivisionError), steady_memory():
        assert pyarrow.default_memory_pool().backend_name in ("jemalloc", "system")
        raise ZeroDivisionError
    assert pyarrow.default_memory_pool().backend_name == "mimalloc"


@MIMALLOC
def test_without_jemalloc_it_is_the_c_library_s(monkeypatch):
    def missing():
        raise NotImplementedError

    monkeypatch.setattr(pyarrow, "jemalloc_memory_pool", missing)
    pyarrow.set_memory_pool(pyarrow.mimalloc_memory_pool())
    with steady_memory():
        assert pyarrow.default_memory_pool().backend_name == "system"


def test_another_choice_is_kept():
    pyarrow.set_memory_pool(pyarrow.system_memory_pool())
    with steady_memory():
        assert pyarrow.default_memory_pool().backend_name == "system"
