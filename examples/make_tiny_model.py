#!/usr/bin/env python3
"""Makes a random chat model of 27,008 parameters, offline: for smoke runs, never for use.

Run it with the interpreter of a LLaMA-Factory environment, which holds torch, transformers and tokenizers:

    ENV/bin/python examples/make_tiny_model.py OUTPUT_FOLDER [--seed 0]

The tokenizer is byte-level BPE with no merges (256 bytes and the three ChatML tokens), so it needs no corpus
and no text maps to an unknown token. The folder is about 140 KB and works with `template: qwen`.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>\\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)


def save_tokenizer(folder: Path) -> tuple[int, int, int]:
    """Write the tokenizer's files; returns the size of its vocabulary and the ids of its end and padding tokens."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {symbol: number for number, symbol in enumerate(alphabet)}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        additional_special_tokens=["<|im_start|>"],
        model_max_length=2048,
    )
    fast.chat_template = CHAT_TEMPLATE
    fast.save_pretrained(folder)
    return len(fast), fast.eos_token_id, fast.pad_token_id


def save_model(folder: Path, vocabulary_size: int, end_id: int, padding_id: int, seed: int) -> int:
    """Write config.json and model.safetensors; returns the number of parameters."""
    import torch
    from transformers import Qwen2Config, Qwen2ForCausalLM

    torch.manual_seed(seed)
    config = Qwen2Config(
        vocab_size=vocabulary_size,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=2048,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=end_id,
        pad_token_id=padding_id,
    )
    model = Qwen2ForCausalLM(config)
    model.save_pretrained(folder)
    return sum(parameter.numel() for parameter in model.parameters())


def main() -> None:
    """Parse the command line and write the folder."""
    parser = argparse.ArgumentParser(description="Make a tiny random chat model, offline.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    size, end_id, padding_id = save_tokenizer(arguments.folder)
    count = save_model(arguments.folder, size, end_id, padding_id, arguments.seed)
    sys.stdout.write(f"{arguments.folder}: {count} parameters, {size} tokens\n")


if __name__ == "__main__":
    main()
