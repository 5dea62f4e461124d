"""Text as a person may safely read it in a terminal: what would not be shown, or would move the cursor, is spelt out.

A YAML may hold a carriage return, marks that reverse the reading order, or letters of no width: it would then look
like another one than the one that is approved.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def visible(text: str) -> str:
    r"""`text` with each unseen character (but newline and tab) as its escape: `\r` becomes `\x0d`."""
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() or one in "\n\t" else _escape(one) for one in text)


def hidden(text: str) -> bool:
    """Whether `text` holds a character that `visible` has to spell out."""
    return visible(text) != text


def visible_values(value: "Any") -> "Any":
    """The same for every text in nested mappings and lists."""
    if isinstance(value, str):
        return visible(value)
    if isinstance(value, dict):
        return {visible(str(key)): visible_values(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [visible_values(item) for item in value]
    return value


def _escape(character: str) -> str:
    code = ord(character)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
