import json
import struct

import pytest
from fakes.safetensors_files import write_safetensors

from loopai_trainer.files import safetensors
from loopai_trainer.files.safetensors import Damaged, not_finite, read_header


def raw(path, header, data=b"", length=None):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text) if length is None else length) + text + data)
    return str(path)


def test_the_tensors_of_a_file(tmp_path):
    path = write_safetensors(tmp_path / "m", {"a": ("F32", (2, 3)), "b": ("BF16", (4,))})
    found = read_header(str(path))
    assert [(t.name, t.dtype, t.shape, t.end - t.start) for t in found] == [
        ("a", "F32", (2, 3), 24),
        ("b", "BF16", (4,), 8),
    ]
    assert found[-1].end == path.stat().st_size


def test_metadata_and_no_tensors_are_fine(tmp_path):
    assert read_header(raw(tmp_path / "m", {"__metadata__": {"format": "pt"}})) == []


ENTRY = {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda p: p.write_bytes(b""), "no safetensors header"),
        (lambda p: p.write_bytes(b"\x01"), "no safetensors header"),
        (lambda p: p.write_bytes(b"version https://git-lfs.github.com/spec/v1\n"), "Git LFS pointer"),
        (lambda p: raw(p, {}, length=10**9), "no safetensors header"),
        (lambda p: raw(p, b"{nojson"), "not JSON"),
        (lambda p: raw(p, b"\xff\xfe{}"), "not JSON"),
        (lambda p: raw(p, [1, 2]), "not a mapping"),
        (lambda p: raw(p, {"a": {"dtype": "F32"}}), "no dtype, shape and data_offsets for 'a'"),
        (lambda p: raw(p, {"a": {**ENTRY, "data_offsets": [8, 4]}}), "impossible offsets"),
        (lambda p: raw(p, {"a": {**ENTRY, "data_offsets": [-4, 4]}}), "impossible offsets"),
        (lambda p: raw(p, {"a": ENTRY}, b"\x00" * 3), "its header wants"),
        (lambda p: raw(p, {"a": ENTRY}, b"\x00" * 5), "its header wants"),
    ],
)
def test_a_file_that_is_not_whole_is_told(tmp_path, make, message):
    make(tmp_path / "m")
    with pytest.raises(Damaged, match=message):
        read_header(str(tmp_path / "m"))


NAN = float("nan")


@pytest.mark.parametrize(
    ("dtype", "data"),
    [
        ("F64", struct.pack("<2d", 1.0, NAN)),
        ("F32", struct.pack("<2f", float("-inf"), 1.0)),
        ("F16", struct.pack("<2e", 1.0, NAN)),
        ("BF16", b"\x80\x3f\xc0\x7f"),
        ("BF16", b"\x80\x7f\x80\x3f"),
    ],
)
def test_nan_and_inf_are_found_in_every_float_format(tmp_path, dtype, data):
    path = write_safetensors(tmp_path / "m", {"w": (dtype, (2,))}, data)
    assert not_finite(str(path)) == "w"


@pytest.mark.parametrize(
    ("dtype", "data"),
    [
        ("F64", struct.pack("<2d", 1.7e308, -5e-324)),
        ("F32", struct.pack("<2f", 3.4e38, -1e-45)),
        ("F16", struct.pack("<2e", 65504.0, -6e-8)),
        ("BF16", b"\x7f\x7f\x01\x80"),
        ("I64", b"\xff" * 16),
    ],
)
def test_the_largest_and_smallest_finite_values_pass(tmp_path, dtype, data):
    assert not_finite(str(write_safetensors(tmp_path / "m", {"w": (dtype, (2,))}, data))) is None


def test_a_value_at_the_end_of_a_later_piece_is_found(tmp_path, monkeypatch):
    monkeypatch.setattr(safetensors, "PIECE_BYTES", 16)
    data = struct.pack("<9f", *[1.0] * 8, NAN) + struct.pack("<2f", 1, 2)
    path = write_safetensors(tmp_path / "m", {"a": ("F32", (9,)), "b": ("F32", (2,))}, data)
    assert not_finite(str(path)) == "a"


def test_an_empty_tensor_is_finite(tmp_path):
    assert not_finite(str(write_safetensors(tmp_path / "m", {"a": ("F32", (0,))}))) is None
