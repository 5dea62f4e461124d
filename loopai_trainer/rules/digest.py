"""SHA-256 of a few kilobytes (a YAML, a record) without OpenSSL, whose loading costs a third of starting Python.

Light on purpose: `status --json` and the worker before training's exec import it. Whole files go to `files.hashing`.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def sha256(data: bytes) -> str:
    """Lower-case hex digest."""
    return str(_SHA256(data).hexdigest())


def _built_in() -> "Callable[[bytes], Any]":
    """CPython's own implementation, that of hashlib itself where there is no OpenSSL; else hashlib's."""
    for name in ("_sha2", "_sha256"):  # Python 3.12 and later, and 3.11
        try:
            return __import__(name).sha256  # type: ignore[no-any-return]  # both are `sha256(data, /)`
        except ImportError:
            continue
    import hashlib

    return hashlib.sha256


_SHA256 = _built_in()
