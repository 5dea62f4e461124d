"""Run by LLaMA-Factory's own interpreter: the token ids that it makes of data sets, and how long each part was.

usage: python tokenised_rows.py JOBS OUT; JOBS is a JSON list of arguments of a training, OUT gets one entry a job:
{"rows": [{"pairs": [[question, answer], ...], "kept", "trained"}]} in tokens, or {"error"}.
"""

import copy
import functools
import json
import sys

from llamafactory.data.loader import _load_single_dataset
from llamafactory.data.parser import get_dataset_list
from llamafactory.data.processor import SupervisedDatasetProcessor
from llamafactory.data.template import TEMPLATES, get_template_and_fix_tokenizer
from llamafactory.hparams import get_train_args, parser
from llamafactory.model import load_tokenizer
from transformers import HfArgumentParser

UNTOUCHED = copy.deepcopy(TEMPLATES)
READ = {}
"""Examples by folder and name: LLaMA-Factory reads them alike for every job, whatever it then makes tokens of."""

# A parser of some 300 fields takes longer to make than a job does, and keeps nothing of what it has parsed.
made_of = functools.cache(lambda *kinds: HfArgumentParser(kinds))
parser.HfArgumentParser = lambda kinds: made_of(*kinds)


def measured(job, output_dir):
    TEMPLATES.update(copy.deepcopy(UNTOUCHED))  # a job's default_system would stay for the next one
    arguments = {
        "stage": "sft", "do_train": True, "finetuning_type": "lora", "output_dir": output_dir, "report_to": "none", **job
    }  # fmt: skip
    model_args, data_args, training_args, _, _ = get_train_args(arguments)
    tokenizer = load_tokenizer(model_args)["tokenizer"]
    template = get_template_and_fix_tokenizer(tokenizer, data_args)
    if (place := (job["dataset_dir"], job["dataset"])) not in READ:
        (attributes,) = get_dataset_list([job["dataset"]], data_args.dataset_dir)
        READ[place] = list(_load_single_dataset(attributes, model_args, data_args, training_args))
    processor = SupervisedDatasetProcessor(template, tokenizer, None, data_args)
    rows = []
    for example in copy.deepcopy(READ[place]):
        batch = {key: [example[key]] for key in example}
        made = processor.preprocess_dataset(batch)
        forgets = data_args.mask_history and not template.preserve_thinking
        messages = example["_prompt"] + example["_response"]
        pairs = template.encode_multiturn(tokenizer, messages, example["_system"], example["_tools"], forgets)
        trained = sum(label != -100 for label in made["labels"][0])
        lengths = [[len(question), len(answer)] for question, answer in pairs]
        rows.append({"pairs": lengths, "kept": len(made["input_ids"][0]), "trained": trained})
    return {"rows": rows}


def main():
    jobs_path, out_path = sys.argv[1:]
    with open(jobs_path, encoding="utf-8") as file:
        jobs = json.load(file)
    found = []
    for job in jobs:
        if job["template"] == "*":
            found.append({"names": sorted(TEMPLATES)})
            continue
        try:
            found.append(measured(job, out_path + ".output"))
        except Exception as error:  # noqa: BLE001 - whatever a template raises is the answer
            found.append({"error": f"{type(error).__name__}: {error}"})
    with open(out_path, "w", encoding="utf-8") as file:
        json.dump(found, file)


if __name__ == "__main__":
    main()
