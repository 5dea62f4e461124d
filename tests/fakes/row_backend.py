"""A backend that answers only what prepare_sft_data asks: which check the rows get."""

import os

from loopai_trainer.files.run_dir import RunDir
from loopai_trainer.operations.sft_data import prepare_sft_data
from loopai_trainer.records import Settings
from loopai_trainer.rules.rows import row_check_for
from loopai_trainer.rules.rows.mapping import DATASET_MAP, mapped_check


class RowBackend:
    name = "rows"

    def row_check(self, settings, sample):
        mapping = settings.values.get(DATASET_MAP)
        return row_check_for(sample) if mapping is None else mapped_check(mapping, sample)


def prepare(run_path, train, evaluation=None, size=None, seed=42, progress=None, **settings):
    """prepare_sft_data with settings whose origins are the flags."""
    values = {
        "train_input_dataset_path": str(train),
        "train_input_eval_dataset_path": str(evaluation) if evaluation else None,
        "bad_rows": "reject",
        "allow_overlap": False,
        **settings,
    }
    origins = dict.fromkeys(values, "default") | {"train_input_dataset_path": "--dataset"}
    os.makedirs(run_path, exist_ok=True)
    return prepare_sft_data(RowBackend(), Settings(values, origins), RunDir(str(run_path)), size, seed, progress)
