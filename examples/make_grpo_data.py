#!/usr/bin/env python3
"""Makes a small set of sums for GRPO, questions with a marked reference answer, the same on every machine.

    python3 examples/make_grpo_data.py OUTPUT.jsonl [--rows 64]

Standard library alone. Every answer ends with `#### NUMBER`, the form of GSM8K, so that `prepare` can read the
reference answer and recommend a reward. Questions do not repeat.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path


def make_rows(count: int) -> list[dict[str, str]]:
    """The first `count` rows."""
    return [
        {"question": f"What is {a} + {b}?", "answer": f"{a} + {b} = {a + b}\n#### {a + b}"}
        for a, b in ((3 + n, 7 + 2 * n) for n in range(count))
    ]


def main() -> None:
    """Parse the command line and write the file."""
    parser = argparse.ArgumentParser(description="Make a small set of sums for GRPO.")
    parser.add_argument("file", type=Path)
    parser.add_argument("--rows", type=int, default=64)
    arguments = parser.parse_args()
    rows = make_rows(arguments.rows)
    arguments.file.parent.mkdir(parents=True, exist_ok=True)
    arguments.file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    sys.stdout.write(f"{arguments.file}: {len(rows)} rows\n")


if __name__ == "__main__":
    main()
