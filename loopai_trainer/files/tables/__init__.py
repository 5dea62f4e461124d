"""Source files as streams of (position, decoded row): the only place that knows which files can be read."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from typing import Literal

import orjson

from loopai_trainer.files.tables import encodings
from loopai_trainer.files.tables.faults import Fault
from loopai_trainer.files.tables.json_items import JsonItems
from loopai_trainer.files.tables.json_lines import BOM, JsonLines
from loopai_trainer.files.tables.parquet_rows import ParquetRows
from loopai_trainer.files.tables.source import BLOCK_BYTES, Batch, SourceTable

__all__ = ["ACCEPTED", "Batch", "Fault", "SourceTable", "open_table"]

ACCEPTED = "a .json file with a list of objects, a .jsonl file with one object a line, or a .parquet file"

_MAGIC = (
    (b"\x1f\x8b", "gzip", "unpack it first (gunzip -k)"),
    (b"PK\x03\x04", "a zip archive", "unpack it first"),
    (b"\x28\xb5\x2f\xfd", "zstd", "unpack it first (unzstd)"),
    (b"\xfd7zXZ", "xz", "unpack it first (unxz -k)"),
    (b"PAR1", "Parquet", "name it .parquet"),
)
_EXTENSION_HINTS = {
    ".gz": "unpack it first (gunzip -k)",
    ".zst": "unpack it first (unzstd)",
    ".xz": "unpack it first (unxz -k)",
    ".bz2": "unpack it first (bunzip2 -k)",
    ".zip": "unpack it first",
    ".ndjson": "name it .jsonl",
}


class RefusedFile(SourceTable):
    """A path that is not read at all; its only finding says why."""

    def __init__(self, path: str, fault: Fault) -> None:
        super().__init__(path, 0)
        self._fault = fault

    def batches(self) -> Iterator[Batch]:
        """The one Fault, at no position (0)."""
        yield (0,), [self._fault]


def open_table(path: str) -> SourceTable:
    """The table in `path`, told by its name (in any case) and first bytes. Raises nothing for what it finds."""
    try:
        return _open(path)
    except FileNotFoundError:
        hint = "name one existing file" + (" (several are not taken: join them first)" if "," in path else "")
        return RefusedFile(path, _refusal("FILE_NOT_FOUND", f"there is no file {path}", hint))
    except OSError as error:
        reason = error.strerror or str(error)
        return RefusedFile(
            path, _refusal("FILE_UNREADABLE", f"{path} cannot be read: {reason}", "check its permissions")
        )


def _open(path: str) -> SourceTable:
    found = os.stat(path)
    if stat.S_ISDIR(found.st_mode):
        return RefusedFile(path, _refusal("NOT_A_FILE", f"{path} is a folder", "name one file; join several first"))
    if not stat.S_ISREG(found.st_mode):
        return RefusedFile(path, _refusal("NOT_A_FILE", f"{path} is not a regular file", "name a regular file"))
    extension = os.path.splitext(path)[1].lower()
    if extension not in (".json", ".jsonl", ".parquet"):
        hint = _EXTENSION_HINTS.get(extension, f"accepted are {ACCEPTED}")
        return RefusedFile(path, _refusal("FILE_TYPE", f"files of type {extension or '(none)'} are not read", hint))
    if extension == ".parquet":
        return ParquetRows(path, found.st_size)
    with open(path, "rb", buffering=0) as file:
        head = file.read(BLOCK_BYTES)
    fault = _not_json_text(head, path)
    if fault is not None:
        return RefusedFile(path, fault)
    layout = _layout(head.removeprefix(BOM), extension)
    if layout == "lines":
        return JsonLines(path, found.st_size)
    return JsonItems(path, found.st_size, in_list=layout == "list")


def _refusal(code: str, message: str, hint: str) -> Fault:
    return Fault(code, message, hint, scope="file")


def _not_json_text(head: bytes, path: str) -> Fault | None:
    for magic, name, hint in _MAGIC:
        if head.startswith(magic):
            return _refusal("FILE_TYPE", f"the file's content is {name}, not JSON text", hint)
    wide = encodings.wide_encoding(head)
    if wide is not None:
        message = f"the text is not UTF-8: {wide} from byte offset 0 (line 1)"
        return _refusal("ENCODING", message, encodings.iconv_hint(wide, path))
    return None


def _layout(head: bytes, extension: str) -> Literal["lines", "list", "objects"]:
    """How the JSON is laid out; the name does not decide, since LLaMA-Factory reads either under both names."""
    start = head.lstrip(b" \t\r\n")
    first, _, rest = start.partition(b"\n")
    if start.startswith(b"["):
        # A list on the first line and more below: lines that each hold a list, which are bad rows.
        return "lines" if rest.strip() and isinstance(_parsed(first), list) else "list"
    if start.startswith(b"{"):
        if first.strip() == b"{":
            return "objects"
        if extension == ".json" and first.rstrip().endswith((b",", b"{", b"[", b":")):
            return "objects"
    return "lines"


def _parsed(line: bytes) -> object:
    try:
        value: object = orjson.loads(line)
    except orjson.JSONDecodeError:
        return None
    return value
