import hashlib
import os
import shutil

import pytest

from loopai_trainer.errors import ConfigError
from loopai_trainer.files.fingerprints import fingerprint_model
from loopai_trainer.files.hashing import HashCache


@pytest.fixture
def model(tmp_path):
    folder = tmp_path / "model"
    (folder / "sub").mkdir(parents=True)
    (folder / "config.json").write_text('{"model_type": "qwen2"}')
    (folder / "model.safetensors").write_bytes(b"w" * 1000)
    (folder / "sub" / "notes.txt").write_text("x")
    return folder


def test_the_fingerprint_is_over_names_sizes_and_hashes(model):
    lines = [
        f"{name}\0{len(data)}\0{hashlib.sha256(data).hexdigest()}\n"
        for name, data in (
            ("config.json", b'{"model_type": "qwen2"}'),
            ("model.safetensors", b"w" * 1000),
            ("sub/notes.txt", b"x"),
        )
    ]
    found = fingerprint_model(str(model))
    assert found.fingerprint == hashlib.sha256("".join(lines).encode()).hexdigest()
    assert (found.path, found.weight_bytes, found.config) == (str(model), 1000, {"model_type": "qwen2"})


@pytest.mark.parametrize(
    "change",
    [
        lambda m: (m / "config.json").write_text('{"model_type": "qwen3"}'),
        lambda m: (m / "sub" / "notes.txt").rename(m / "sub" / "other.txt"),
        lambda m: (m / "extra.json").write_text(""),
        lambda m: (m / "model.safetensors").unlink(),
    ],
)
def test_any_change_changes_it(model, change):
    before = fingerprint_model(str(model)).fingerprint
    change(model)
    assert fingerprint_model(str(model)).fingerprint != before


def test_a_copy_elsewhere_is_the_same_model(model, tmp_path):
    shutil.copytree(model, tmp_path / "copy")
    assert fingerprint_model(str(tmp_path / "copy")).fingerprint == fingerprint_model(str(model)).fingerprint


def test_the_hub_cache_layout_of_links_is_followed(model, tmp_path):
    plain = fingerprint_model(str(model)).fingerprint
    blobs = tmp_path / "blobs"
    blobs.mkdir()
    for number, name in enumerate(("config.json", "model.safetensors")):
        (model / name).rename(blobs / str(number))
        (model / name).symlink_to(os.path.relpath(blobs / str(number), model))
    assert fingerprint_model(str(model)).fingerprint == plain


def test_bookkeeping_at_the_top_is_left_out(model):
    plain = fingerprint_model(str(model)).fingerprint
    for name in (".git", ".cache"):
        (model / name).mkdir()
        (model / name / "index").write_text("x")
    assert fingerprint_model(str(model)).fingerprint == plain


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda m: (m / "loop").symlink_to(m), "link to a folder that holds it"),
        (lambda m: (m / "gone").symlink_to(m / "nowhere"), "link that leads nowhere"),
        (lambda m: os.mkfifo(m / "pipe"), "neither a file nor a folder"),
    ],
)
def test_what_cannot_be_pinned_is_refused(model, make, message):
    make(model)
    with pytest.raises(ConfigError, match=message):
        fingerprint_model(str(model))


def test_no_folder_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="is not a folder"):
        fingerprint_model(str(tmp_path / "none"))


def test_a_damaged_config_is_left_to_the_check(model):
    (model / "config.json").write_text("{")
    assert fingerprint_model(str(model)).config == {}
    (model / "config.json").write_text("[1]")
    assert fingerprint_model(str(model)).config == {}


def test_progress_ends_at_the_total(model, tmp_path):
    seen = []
    fingerprint_model(str(model), HashCache(str(tmp_path / "c.jsonl")), lambda done, total: seen.append((done, total)))
    total = 1000 + 23 + 1
    assert seen[-1] == (total, total)
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)


def test_weights_that_are_not_read_go_by_name_size_and_times(model):
    weights = model / "model.safetensors"
    known = fingerprint_model(str(model), weights_read=False).fingerprint
    assert known != fingerprint_model(str(model)).fingerprint
    assert fingerprint_model(str(model), weights_read=False).fingerprint == known
    status = os.stat(weights)
    weights.write_bytes(b"v" * 1000)
    os.utime(weights, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert fingerprint_model(str(model), weights_read=False).fingerprint != known  # ctime cannot be set back


def test_the_other_files_are_read_all_the_same(model):
    known = fingerprint_model(str(model), weights_read=False).fingerprint
    (model / "sub" / "notes.txt").write_text("y")
    assert fingerprint_model(str(model), weights_read=False).fingerprint != known


def test_progress_counts_what_is_read(model):
    heard = []
    fingerprint_model(str(model), None, lambda done, total: heard.append((done, total)), weights_read=False)
    assert heard[-1] == (24, 24)
