import hashlib
import json
import os
import threading

import pytest

from loopai_trainer.errors import InputChanged
from loopai_trainer.files import hashing
from loopai_trainer.files.hashing import HashCache, identity, sha256_file

OLD_NS = 1_500_000_000_000_000_000


def write(path, content):
    """A file that has been left alone long enough for its hash to be remembered."""
    path.write_bytes(content)
    os.utime(path, ns=(OLD_NS, OLD_NS))
    return path


@pytest.fixture
def no_racy_files(monkeypatch):
    # The inode's change time cannot be set back, so the clock is put forward instead.
    now = hashing.time.time_ns()
    monkeypatch.setattr(hashing.time, "time_ns", lambda: now + 3_600 * 10**9)


@pytest.mark.parametrize("size", [0, 1, hashing.PIECE_BYTES - 1, hashing.PIECE_BYTES, 3 * hashing.PIECE_BYTES + 7])
def test_the_digest_is_that_of_the_bytes(tmp_path, size):
    content = os.urandom(size)
    done = []
    assert sha256_file(str(write(tmp_path / "f", content)), progress=done.append) == hashlib.sha256(content).hexdigest()
    assert sum(done) == size


def test_a_remembered_file_is_not_read_again(tmp_path, no_racy_files):
    path, cache_path = write(tmp_path / "f", b"abc"), str(tmp_path / "cache" / "hashes.jsonl")
    digest = sha256_file(str(path), HashCache(cache_path))
    key = identity(path.stat())
    assert HashCache(cache_path).get(key) == digest
    with open(cache_path, "a") as file:
        file.write(json.dumps([*key, "f" * 64]) + "\n")
    done = []
    assert sha256_file(str(path), HashCache(cache_path), done.append) == "f" * 64
    assert done == [3]


def test_the_cache_can_be_distrusted_and_is_corrected(tmp_path, no_racy_files):
    path, cache_path = write(tmp_path / "f", b"abc"), str(tmp_path / "hashes.jsonl")
    HashCache(cache_path).put(identity(path.stat()), "f" * 64)
    real = hashlib.sha256(b"abc").hexdigest()
    assert sha256_file(str(path), HashCache(cache_path, trust=False)) == real
    assert sha256_file(str(path), HashCache(cache_path)) == real


@pytest.mark.parametrize("change", ["content", "mtime", "replaced"])
def test_a_changed_file_is_read_again(tmp_path, no_racy_files, change):
    path, cache = write(tmp_path / "f", b"abc"), HashCache(str(tmp_path / "hashes.jsonl"))
    first = sha256_file(str(path), cache)
    if change == "content":
        before = path.stat().st_ctime_ns
        while path.stat().st_ctime_ns == before:  # older kernels count it in ticks of some milliseconds
            write(path, b"abd")  # same size, same mtime: the change time tells
    elif change == "mtime":
        os.utime(path, ns=(OLD_NS + 1, OLD_NS + 1))
    else:
        os.replace(write(tmp_path / "g", b"abd"), path)
    expected = hashlib.sha256(path.read_bytes()).hexdigest()
    assert sha256_file(str(path), cache) == expected
    assert (first == expected) == (change == "mtime")


def test_a_file_that_was_just_written_is_not_remembered(tmp_path, monkeypatch):
    path = tmp_path / "f"
    path.write_bytes(b"abc")
    monkeypatch.setattr(hashing.time, "time_ns", lambda: path.stat().st_ctime_ns + 1)
    cache = HashCache(str(tmp_path / "hashes.jsonl"))
    sha256_file(str(path), cache)
    assert cache.get(identity(path.stat())) is None


def test_a_file_that_changes_while_it_is_read_is_refused(tmp_path):
    path = write(tmp_path / "f", b"x" * (2 * hashing.PIECE_BYTES))

    def grow(_):
        with path.open("ab") as file:
            file.write(b"y")

    with pytest.raises(InputChanged, match="changed while it was read"):
        sha256_file(str(path), progress=grow)


def test_torn_and_foreign_lines_of_the_cache_are_passed_over(tmp_path):
    cache_path = tmp_path / "hashes.jsonl"
    good = json.dumps([1, 2, 3, 4, 5, "a" * 64])
    cache_path.write_text(f'[1, 2\nnull\n{{}}\n[1,2,3,4,5,"short"]\n[1,2,3,4,5,6]\n{good}\n[9, 9')
    assert HashCache(str(cache_path)).get((1, 2, 3, 4, 5)) == "a" * 64


def test_a_cache_that_cannot_be_written_does_no_harm(tmp_path, no_racy_files):
    (tmp_path / "file").write_text("")
    cache = HashCache(str(tmp_path / "file" / "hashes.jsonl"))
    assert sha256_file(str(write(tmp_path / "f", b"abc")), cache) == hashlib.sha256(b"abc").hexdigest()
    assert HashCache(None).get((1, 2, 3, 4, 5)) is None


def test_the_oldest_lines_are_forgotten(tmp_path, monkeypatch):
    monkeypatch.setattr(hashing, "MAX_CACHE_LINES", 3)
    cache_path = tmp_path / "hashes.jsonl"
    cache_path.write_text("".join(json.dumps([n, 0, 0, 0, 0, "a" * 64]) + "\n" for n in range(7)))
    cache = HashCache(str(cache_path))
    assert cache.get((0, 0, 0, 0, 0)) is None and cache.get((6, 0, 0, 0, 0))
    assert len(cache_path.read_text().splitlines()) == 3


def test_threads_share_a_cache(tmp_path):
    cache_path = str(tmp_path / "hashes.jsonl")
    cache = HashCache(cache_path)

    def fill(start):
        for n in range(start, start + 50):
            cache.put((n, 0, 0, 0, 0), "b" * 64)

    threads = [threading.Thread(target=fill, args=(start,)) for start in (0, 50, 100, 150)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    fresh = HashCache(cache_path)
    assert all(fresh.get((n, 0, 0, 0, 0)) for n in range(200))
