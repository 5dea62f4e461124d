"""Which encoding a text is in that is not UTF-8: named in a hint, never used to convert."""

from __future__ import annotations

import codecs

CANDIDATES = (
    ("gb2312", "GBK"),
    ("shift_jis", "SHIFT_JIS"),
    ("gbk", "GBK"),
    ("gb18030", "GB18030"),
    ("big5", "BIG5"),
    ("euc_kr", "EUC-KR"),
    ("cp1252", "WINDOWS-1252"),
    ("latin_1", "ISO-8859-1"),
)
"""(codec, name that iconv knows), the first that fits wins: strict ones before those that take nearly anything."""

BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF32_LE, "UTF-32"),
    (codecs.BOM_UTF32_BE, "UTF-32"),
    (codecs.BOM_UTF16_LE, "UTF-16"),
    (codecs.BOM_UTF16_BE, "UTF-16"),
)
"""UTF-32 first: its little-endian mark begins with that of UTF-16."""


def guess(raw: bytes) -> str:
    """The iconv name of an encoding that decodes `raw` without an error; every byte string fits ISO-8859-1."""
    if _lone_high_bytes(raw):
        return _first_fit(raw, CANDIDATES[-2:])
    return _first_fit(raw, CANDIDATES)


def wide_encoding(head: bytes) -> str | None:
    """UTF-16 or UTF-32 by byte-order mark, or by the zero bytes that ASCII punctuation has in them."""
    for mark, name in BYTE_ORDER_MARKS:
        if head.startswith(mark):
            return name
    if len(head) >= 4 and head[:4].count(0) >= 2:
        return "UTF-32" if head[:4].count(0) == 3 else "UTF-16"
    return None


def iconv_hint(name: str, path: str) -> str:
    """One command that converts the file."""
    return f"it reads as {name}; convert it: iconv -f {name} -t UTF-8 '{path}' > converted"


def _first_fit(raw: bytes, candidates: tuple[tuple[str, str], ...]) -> str:
    for codec, name in candidates:
        try:
            raw.decode(codec)
        except UnicodeDecodeError:
            continue
        return name
    raise AssertionError("unreachable: ISO-8859-1 decodes all bytes")


def _lone_high_bytes(raw: bytes) -> bool:
    # Western text has its accented letters one at a time; in an East Asian one high bytes come in pairs.
    runs = bytes(1 if byte >= 0x80 else 32 for byte in raw[:65536]).split()
    alone = sum(1 for run in runs if len(run) == 1)
    return bool(runs) and alone * 2 > len(runs)
