"""Tells what training was given."""

import json


def run_ppo(config, train_dataset, val_dataset):
    print("run_ppo", json.dumps({"config": config, "train": train_dataset, "val": val_dataset}), flush=True)
