"""Generated training data: alpaca and ShareGPT as JSON Lines, and their JSON-list and Parquet twins.

    python benchmarks/data_files.py FOLDER MEGABYTES

Texts are cut from pools of generated sentences (about 30 % of the rows Chinese), with lognormal lengths, line breaks,
quotes and code. The pools are far larger than what a compressor looks back over, so that cuts compress as text does.
One row in 500 is written twice. Deterministic.
"""

import json
import random
import sys
from pathlib import Path

import orjson
import pyarrow
import pyarrow.parquet

SHAREGPT_SHARE = 0.3
CHINESE_SHARE = 0.3
POOL_CHARACTERS = 12 << 20
LAYOUTS = {"lines": ".jsonl", "list": ".json", "parquet": ".parquet"}
BATCH_ROWS = 10_000
SYLLABLES = [
    "ba",
    "co",
    "de",
    "fi",
    "gu",
    "ha",
    "ing",
    "ka",
    "lo",
    "mer",
    "na",
    "or",
    "per",
    "qui",
    "ra",
    "se",
    "ti",
    "un",
    "ver",
    "wa",
    "xi",
    "yo",
    "zen",
    "th",
    "st",
    "al",
    "re",
]
PUNCTUATION = ((". ", "。"), (", ", "，"), ("? ", "？"), (".\n", "。\n"), (': "', "：“"), ('" ', "”"), (" < ", "、"))
PUNCTUATION_WEIGHTS = (40, 40, 6, 8, 3, 3, 0.4)


class Texts:
    """Cuts texts of lognormal lengths out of two pools."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._pools = (self._pool(0), self._pool(1))

    def _pool(self, language: int) -> str:
        rng = self._random
        if language:
            words = ["".join(chr(0x4E00 + int(rng.paretovariate(0.9)) % 5000) for _ in range(2)) for _ in range(20_000)]
        else:
            words = [
                " ".join("".join(rng.choices(SYLLABLES, k=rng.randint(1, 4))) for _ in range(2)) for _ in range(20_000)
            ]
        weights = [1 / (rank + 3) for rank in range(len(words))]
        marks, pieces, size = [pair[language] for pair in PUNCTUATION], [], 0
        between = "" if language else " "
        while size < POOL_CHARACTERS // (3 if language else 1):
            text = "".join(
                between.join(words_of) + mark
                for words_of, mark in zip(
                    zip(*(rng.choices(words, weights, k=5000) for _ in range(4)), strict=True),
                    rng.choices(marks, PUNCTUATION_WEIGHTS, k=5000),
                    strict=True,
                )
            )
            pieces.append(text)
            size += len(text)
        return "".join(pieces)

    def cut(self, chinese: bool, median: float, spread: float) -> str:
        """About `median` characters of English or half as many of Chinese."""
        pool = self._pools[chinese]
        length = 2 + min(20_000, int(self._random.lognormvariate(0, spread) * (median / 2 if chinese else median)))
        start = self._random.randrange(len(pool) - length)
        return pool[start : start + length].strip() or "-"


def alpaca_row(texts: Texts, rng: random.Random) -> dict[str, object]:
    """Two in five rows have an input."""
    chinese = rng.random() < CHINESE_SHARE
    given = texts.cut(chinese, 150, 0.9) if rng.random() < 0.4 else ""
    return {"instruction": texts.cut(chinese, 80, 0.6), "input": given, "output": texts.cut(chinese, 260, 0.9)}


def sharegpt_row(texts: Texts, rng: random.Random) -> dict[str, object]:
    """Chats of one to four questions."""
    chinese = rng.random() < CHINESE_SHARE
    turns = []
    for _ in range(rng.choice((1, 1, 2, 2, 3, 4))):
        turns += [{"from": "human", "value": texts.cut(chinese, 80, 0.7)}]
        turns += [{"from": "gpt", "value": texts.cut(chinese, 180, 0.8)}]
    return {"conversations": turns, "system": ""}


class Twins:
    """One data set in three files, written at once. `size`: bytes of the JSON Lines."""

    def __init__(self, folder: Path, name: str) -> None:
        self._lines = open(folder / f"{name}.jsonl", "wb")  # noqa: SIM115 - closed by close()
        self._list = open(folder / f"{name}.json", "wb")  # noqa: SIM115 - as above
        self._parquet_path = folder / f"{name}.parquet"
        self._parquet: pyarrow.parquet.ParquetWriter | None = None
        self.size, self.rows = 0, 0

    def add(self, rows: list[dict[str, object]]) -> None:
        """Append rows to all three."""
        self._list.write((b"," if self.rows else b"[") + orjson.dumps(rows, option=orjson.OPT_INDENT_2)[1:-2])
        text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode()
        self.size += self._lines.write(text)
        self.rows += len(rows)
        table = pyarrow.Table.from_pylist(rows)
        if self._parquet is None:
            self._parquet = pyarrow.parquet.ParquetWriter(self._parquet_path, table.schema)
        self._parquet.write_table(table)

    def close(self) -> None:
        """Complete the files."""
        self._list.write(b"\n]\n")
        for file in (self._lines, self._list, self._parquet):
            if file is not None:
                file.close()


def generate(folder: Path, size_bytes: float) -> int:
    """Write all files of about `size_bytes` JSON Lines in all; gives the number of rows."""
    texts, rng, rows = Texts(1), random.Random(2), 0
    for name, make, share in (("alpaca", alpaca_row, 1 - SHAREGPT_SHARE), ("sharegpt", sharegpt_row, SHAREGPT_SHARE)):
        twins = Twins(folder, name)
        while twins.size < size_bytes * share:
            batch = [make(texts, rng) for _ in range(BATCH_ROWS)]
            for number in range(0, BATCH_ROWS - 1, 500):
                batch[number + 1] = batch[number]
            twins.add(batch)
        twins.close()
        rows += twins.rows
    return rows


if __name__ == "__main__":
    print(generate(Path(sys.argv[1]), float(sys.argv[2]) * 1e6))
