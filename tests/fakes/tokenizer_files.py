"""Small tokenizers, made with the `tokenizers` library alone: 256 bytes without merges, and some tokens of their own."""

import json
from pathlib import Path

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

CHATML = ("<|im_start|>", "<|im_end|>", "<|endoftext|>")
CHATML_TEMPLATE = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>\\n' }}"
    "{% endfor %}"
)


def write_tokenizer(
    folder: Path, tokens=CHATML, *, chat_template=CHATML_TEMPLATE, eos="<|im_end|>", corpus=(), **config
) -> Path:
    """tokenizer.json and tokenizer_config.json in `folder`: every byte is a token, and so is each of `tokens`.

    With a `corpus` its frequent pairs are merged too.
    """
    folder.mkdir(parents=True, exist_ok=True)
    vocabulary = {symbol: number for number, symbol in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    if corpus:
        trainer = trainers.BpeTrainer(
            vocab_size=600, show_progress=False, initial_alphabet=pre_tokenizers.ByteLevel.alphabet()
        )
        tokenizer.train_from_iterator(corpus, trainer)
    tokenizer.add_special_tokens(list(tokens))
    tokenizer.save(str(folder / "tokenizer.json"))
    known = {"eos_token": eos, "pad_token": eos, "chat_template": chat_template, "model_max_length": 4096, **config}
    kind = {"tokenizer_class": "PreTrainedTokenizerFast"}
    (folder / "tokenizer_config.json").write_text(json.dumps({**kind, **known}))
    return folder
