"""How many rows of each data_source a split has, read from the prepared Parquet; only asked for a refusal."""

from __future__ import annotations

import pyarrow
import pyarrow.parquet

from loopai_trainer.records import DataReport

_BATCH_ROWS = 65_536


def rows_of_splits(data: DataReport) -> dict[str, dict[str, int]]:
    """data_source -> split -> rows; a file that cannot be read counts nothing."""
    found: dict[str, dict[str, int]] = {}
    for split in data.splits:
        for source, rows in _rows(split.snapshot.path).items():
            found.setdefault(source, {})[split.where] = rows
    return found


def _rows(path: str) -> dict[str, int]:
    found: dict[str, int] = {}
    try:
        with pyarrow.parquet.ParquetFile(path) as file:
            for batch in file.iter_batches(_BATCH_ROWS, columns=["data_source"]):
                for item in batch.column(0).value_counts().to_pylist():
                    found[str(item["values"])] = found.get(str(item["values"]), 0) + item["counts"]
    except (OSError, pyarrow.ArrowException):
        return {}
    return found
