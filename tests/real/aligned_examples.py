"""Run by LLaMA-Factory's own interpreter: what its loader and converter make of data sets.

usage: python aligned_examples.py JOBS OUT; JOBS is a JSON list of {"dataset_dir", "dataset"}, OUT gets a list of row lists.
"""

import json
import sys

from llamafactory.data.loader import _load_single_dataset
from llamafactory.data.parser import get_dataset_list
from llamafactory.hparams import get_train_args

KEYS = ("_prompt", "_response", "_system", "_tools")


def aligned(job, output_dir):
    """The aligned examples of one data set, in file order, those that LLaMA-Factory would drop included."""
    arguments = {
        "stage": "sft",
        "do_train": True,
        "model_name_or_path": output_dir,
        "template": "qwen",
        "finetuning_type": "lora",
        "output_dir": output_dir,
        "report_to": "none",
        **job,
    }
    model_args, data_args, training_args, _, _ = get_train_args(arguments)
    (attributes,) = get_dataset_list([job["dataset"]], data_args.dataset_dir)
    examples = _load_single_dataset(attributes, model_args, data_args, training_args)
    return [{key: example[key] for key in KEYS} for example in examples]


def main():
    jobs_path, out_path = sys.argv[1:]
    with open(jobs_path, encoding="utf-8") as file:
        jobs = json.load(file)
    found = [aligned(job, out_path + ".output") for job in jobs]
    with open(out_path, "w", encoding="utf-8") as file:
        json.dump(found, file)


if __name__ == "__main__":
    main()
