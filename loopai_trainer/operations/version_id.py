"""Version ids that we make: UUIDv7 (RFC 9562 section 5.7), so that they sort by the time of their making."""

import os
import time


def uuid7() -> str:
    """A new id: 48 bits of milliseconds since the epoch, then 74 random bits, in UUID form."""
    milliseconds = time.time_ns() // 1_000_000
    value = (milliseconds & (1 << 48) - 1) << 80 | int.from_bytes(os.urandom(10), "big")
    value = value & ~(0xF << 76) | 0x7 << 76  # version 7
    value = value & ~(0x3 << 62) | 0x2 << 62  # the RFC's variant
    digits = f"{value:032x}"
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))
