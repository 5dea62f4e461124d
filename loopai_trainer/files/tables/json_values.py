"""One JSON text -> its value, or what exactly is wrong with it; the same verdict for a line and for a list's item."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import orjson

from loopai_trainer.files.tables import encodings
from loopai_trainer.files.tables.faults import Fault

MAX_ROW_BYTES = 64 << 20
"""A longer row is refused: it has to be held in memory, and no training reads that much text as one example."""

_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_ESCAPED_COLON = re.compile(rb"\\u003[aA]")
_LONGEST_INTEGER = 4000
"""Digits; Python refuses to parse more than 4300 (sys.int_info)."""


class _Duplicate(Exception):
    def __init__(self, key: str) -> None:
        super().__init__(key)
        self.key = key


def doubtful(text: bytes, value: object) -> bool:
    """Whether an object in `text` may have the same key twice, of which parsers keep one silently; `examine` tells.

    `value`: what `text` was parsed to; or the list of what its lines were. Written again, it has as many colons as the
    text if no key got lost, and as many backslashes if there was no escape that might have stood for a colon.
    """
    try:
        again = orjson.dumps(value)
    except TypeError:  # nested deeper than it writes, though not than it reads
        return True
    if count_byte(text, b":") != count_byte(again, b":"):
        return True
    return count_byte(text, b"\\") != count_byte(again, b"\\") and _ESCAPED_COLON.search(text) is not None


def count_byte(text: bytes, byte: bytes) -> int:
    """How often `byte` stands in `text`."""
    # In Python 3.11 `count` takes four times as long on a large text as `replace`, which uses memchr.
    return len(text) - len(text.replace(byte, b""))


def examine(raw: bytes, offset: int, path: str) -> list[object]:
    """The values in `raw`, which the fast parser refused or which are doubtful, each after its remarks; or one Fault.

    `offset`: where `raw` begins in the file. Two objects on one line give two values, as LLaMA-Factory reads them.
    Blanks alone give nothing. Never raises, for any bytes.
    """
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        return [_encoding_fault(raw, offset, path, error)]
    return _examine_text(text.removeprefix("\ufeff"), raw)


def _examine_text(text: str, raw: bytes) -> list[object]:
    odd_numbers: list[str] = []
    decoder = _decoder(odd_numbers)
    values: list[object] = []
    position = _skip_blanks(text, 0)
    while position < len(text):
        start = position
        try:
            value, position = decoder.raw_decode(text, position)
        except _Duplicate as duplicate:
            return [_duplicate_fault(duplicate.key, raw)]
        except RecursionError:
            return [_deep_fault(raw)]
        except json.JSONDecodeError as error:
            return [_syntax_fault(text, error, raw)]
        found = _vetted(value, text[start:position], odd_numbers, raw)
        if isinstance(found[-1], Fault):
            return found
        values += found
        odd_numbers.clear()
        position = _skip_blanks(text, position)
    return values


def _decoder(odd_numbers: list[str]) -> json.JSONDecoder:
    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        result = dict(items)
        if len(result) != len(items):
            seen: set[str] = set()
            for key, _ in items:
                if key in seen:
                    raise _Duplicate(key)
                seen.add(key)
        return result

    def constant(name: str) -> float:
        odd_numbers.append(name)
        return float(name)

    def decimal(text: str) -> float:
        number = float(text)
        if number in (float("inf"), float("-inf")):
            odd_numbers.append(text)
        return number

    return json.JSONDecoder(
        object_pairs_hook=pairs, parse_constant=constant, parse_float=decimal, parse_int=_integer(odd_numbers)
    )


def _integer(odd_numbers: list[str]) -> Callable[[str], int | float]:
    def integer(text: str) -> int | float:
        if len(text) <= _LONGEST_INTEGER:
            return int(text)
        odd_numbers.append(text[:20] + "...")
        return float(text)

    return integer


def _vetted(value: object, text: str, odd_numbers: list[str], raw: bytes) -> list[object]:
    # The same depth limit for all ways in: orjson's, which is 1024 and does not depend on Python's version.
    try:
        orjson.loads(text)
    except orjson.JSONDecodeError as error:
        if "depth" in error.msg:
            return [_deep_fault(raw)]
    if _SURROGATE.search(text) and _has_lone_surrogate(value):
        return [_surrogate_fault(text, raw)]
    if not odd_numbers:
        return [value]
    shown = ", ".join(sorted(set(odd_numbers))[:3])
    return [
        Fault(
            "JSON_NUMBER",
            f"the row has a number that JSON does not know ({shown}); it was read as Python reads it",
            "write null, or the number as text",
            scope="remark",
        ),
        value,
    ]


def _has_lone_surrogate(value: object) -> bool:
    try:
        json.dumps(value, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError:
        return True
    return False


def _skip_blanks(text: str, position: int) -> int:
    while position < len(text) and text[position] in " \t\r\n":
        position += 1
    return position


def _encoding_fault(raw: bytes, offset: int, path: str, error: UnicodeDecodeError) -> Fault:
    at = offset + error.start
    lines_before = raw.count(b"\n", 0, error.start)
    return Fault(
        "ENCODING",
        f"the text is not UTF-8: byte 0x{raw[error.start]:02x} at byte offset {at}",
        encodings.iconv_hint(encodings.guess(raw), path),
        line_offset=lines_before,
        raw=raw,
    )


def _duplicate_fault(key: str, raw: bytes) -> Fault:
    return Fault(
        "DUPLICATE_KEY",
        f"the key {key!r} stands twice in one object",
        "keep one of the two; LLaMA-Factory stops at such a row, other readers drop one silently",
        field=key,
        raw=raw,
    )


def _deep_fault(raw: bytes) -> Fault:
    return Fault("NESTED_TOO_DEEP", "lists or objects are nested too deep to be read", "flatten the row", raw=raw)


def _surrogate_fault(text: str, raw: bytes) -> Fault:
    found = _SURROGATE.search(text)
    column = found.start() + 1 if found else 1
    return Fault(
        "LONE_SURROGATE",
        f"half of a \\u surrogate pair near column {column}: it stands for no character",
        "write both halves, or the character itself as UTF-8",
        raw=raw,
    )


def _syntax_fault(text: str, error: json.JSONDecodeError, raw: bytes) -> Fault:
    code, message, hint = _cause(text, error)
    place = f"column {error.colno}" if error.lineno == 1 else f"column {error.colno} of the row's line {error.lineno}"
    return Fault(code, f"{message} ({place})", hint, line_offset=error.lineno - 1, raw=raw)


def _cause(text: str, error: json.JSONDecodeError) -> tuple[str, str, str]:
    at, rest = error.pos, text[error.pos :].strip()
    before = text[:at].rstrip()
    if rest == ",":
        return "JSON_TRAILING_COMMA", "a comma stands after the object", "remove that comma"
    if "trailing comma" in error.msg or (before.endswith(",") and rest[:1] in ("}", "]")):
        return "JSON_TRAILING_COMMA", "a comma stands before the closing bracket", "remove that comma"
    if not rest or error.msg.startswith("Unterminated string"):
        return "JSON_CUT", "the JSON ends too early: it is cut, or a quote or bracket is not closed", "complete the row"
    if error.msg.startswith("Invalid control character"):
        return "JSON_INVALID", "a raw line break or tab stands inside a string", "write it as \\n or \\t"
    if rest.startswith("'"):
        return "JSON_INVALID", "a string stands in single quotes", "JSON wants double quotes"
    return "JSON_INVALID", f"not JSON: {error.msg[:1].lower()}{error.msg[1:]}", "correct the row"
