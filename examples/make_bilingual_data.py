#!/usr/bin/env python3
"""Makes a small English and Chinese instruction data set in Alpaca form, the same on every machine.

    python3 examples/make_bilingual_data.py OUTPUT.json|OUTPUT.jsonl [--rows 128]

Standard library alone. Every second row is Chinese; questions do not repeat, so a held-out part shares none.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path

Row = dict[str, str]

NUMBERS_ZH = "零一二三四五六七八九"
WORDS = ("river", "lantern", "maple", "signal", "copper", "harbor", "window", "thread", "garden", "comet")
COLOURS = (("red", "红色"), ("blue", "蓝色"), ("green", "绿色"), ("black", "黑色"), ("white", "白色"))
ANIMALS = (("cat", "猫"), ("dog", "狗"), ("horse", "马"), ("bird", "鸟"), ("fish", "鱼"), ("bear", "熊"))


def english_sum(n: int) -> Row:
    """Addition in English."""
    a, b = 3 + n, 7 + 2 * n
    return {"instruction": f"Add {a} and {b}.", "input": "", "output": f"{a} + {b} = {a + b}"}


def chinese_product(n: int) -> Row:
    """Multiplication in Chinese."""
    a, b = 2 + n, 3 + n % 7
    return {"instruction": f"计算 {a} 乘以 {b}。", "input": "", "output": f"{a} × {b} = {a * b}"}


def english_reverse(n: int) -> Row:
    """Spell a word backwards, with the word as input."""
    word = f"{WORDS[n % len(WORDS)]}{n}"
    return {"instruction": "Write the text backwards.", "input": word, "output": word[::-1]}


def chinese_digits(n: int) -> Row:
    """Write digits as Chinese numerals, with the digits as input."""
    digits = str(1000 + 37 * n)
    return {"instruction": "把数字写成汉字。", "input": digits, "output": "".join(NUMBERS_ZH[int(d)] for d in digits)}


def english_to_chinese(n: int) -> Row:
    """Translate a phrase into Chinese."""
    colour, animal = COLOURS[n % len(COLOURS)], ANIMALS[n // len(COLOURS) % len(ANIMALS)]
    return {
        "instruction": f"Translate into Chinese: {n + 2} {colour[0]} {animal[0]}s",
        "input": "",
        "output": f"{n + 2} 只{colour[1]}的{animal[1]}",
    }


def chinese_compare(n: int) -> Row:
    """Compare two numbers in Chinese."""
    a, b = 11 * n % 97, 29 * n % 89
    answer = f"{a} 大于 {b}。" if a > b else f"{a} 小于 {b}。" if a < b else f"{a} 等于 {b}。"
    return {"instruction": f"第 {n + 1} 题：比较 {a} 和 {b} 的大小。", "input": "", "output": answer}


MAKERS: tuple[Callable[[int], Row], ...] = (
    english_sum,
    chinese_product,
    english_reverse,
    chinese_digits,
    english_to_chinese,
    chinese_compare,
)


def make_rows(count: int) -> list[Row]:
    """The first `count` rows."""
    return [MAKERS[n % len(MAKERS)](n // len(MAKERS)) for n in range(count)]


def main() -> None:
    """Parse the command line and write the file; the ending decides between a JSON list and JSON lines."""
    parser = argparse.ArgumentParser(description="Make a small bilingual instruction data set.")
    parser.add_argument("file", type=Path)
    parser.add_argument("--rows", type=int, default=128)
    arguments = parser.parse_args()
    rows = make_rows(arguments.rows)
    if arguments.file.suffix == ".jsonl":
        text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    else:
        text = json.dumps(rows, ensure_ascii=False, indent=1) + "\n"
    arguments.file.parent.mkdir(parents=True, exist_ok=True)
    arguments.file.write_text(text, encoding="utf-8")
    sys.stdout.write(f"{arguments.file}: {len(rows)} rows\n")


if __name__ == "__main__":
    main()
