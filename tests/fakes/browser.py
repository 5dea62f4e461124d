"""Pages in a real browser without a window: what stands in them once their scripts have run."""

import shutil
import subprocess
import tempfile
from collections import Counter
from pathlib import Path

import pytest

LIMIT_S = 240.0
_NAMES = ("chromium", "chromium-browser", "google-chrome")


def opened(page: Path, *flags: str) -> str:
    """The document after its scripts have run; the test is skipped on a host without Chromium."""
    return _run(page, "--dump-dom", *flags)


def colours(page: Path, shot: Path, *flags: str) -> "Counter[tuple[int, int, int]]":
    """How many pixels of each colour a reader sees; the picture is kept in `shot`."""
    from PIL import Image

    _run(page, f"--screenshot={shot}", *flags)
    with Image.open(shot) as image:
        counted = image.convert("RGB").getcolors(image.width * image.height)
    return Counter({colour: count for count, colour in counted})


def _run(page: Path, *flags: str) -> str:
    program = next((found for name in _NAMES if (found := shutil.which(name))), None)
    if program is None:
        pytest.skip("no Chromium on this host (Debian: apt-get install chromium)")
    with tempfile.TemporaryDirectory(prefix="browser-", ignore_cleanup_errors=True) as profile:
        argv = [
            *(program, "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"),
            *(f"--user-data-dir={profile}", "--virtual-time-budget=10000", *flags, page.as_uri()),
        ]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=LIMIT_S, check=True)
    return done.stdout
