"""The model's own tokenizer, read with the `tokenizers` library: which tokens it has, and how many a text makes.

Source: transformers 5.6.0 (what it adds to tokenizer.json when it loads a folder) and tokenizers 0.23.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tokenizers import Tokenizer

LONGEST_TEXT = 500_000
"""Characters. A longer text is measured by its start, since a tokenizer may need minutes for it."""


class TokenizerUnreadable(Exception):
    """There is no tokenizer that can be read here; the text says why."""


class ModelTokenizer:
    """Counts tokens. `eos`, `bos`: names of the end and begin tokens; `chat_template`: the model's own, or empty."""

    def __init__(self, tokenizer: Tokenizer, config: Mapping[str, Any], chat_template: str) -> None:
        self._tokenizer = tokenizer
        self.eos = _content(config.get("eos_token"))
        self.bos = _content(config.get("bos_token"))
        self.chat_template = chat_template
        tokenizer.no_truncation()
        tokenizer.no_padding()
        self.add(_extra_tokens(config))

    def has(self, token: str) -> bool:
        """Whether the token has an id of its own."""
        return self._tokenizer.token_to_id(token) is not None

    def add(self, tokens: Iterable[str]) -> None:
        """Take these for tokens of their own, as transformers does with special ones."""
        wanted = [token for token in tokens if token]
        if wanted:
            self._tokenizer.add_special_tokens(wanted)

    def split_special_tokens(self) -> None:
        """Take special tokens in texts for plain text from now on."""
        self._tokenizer.encode_special_tokens = True

    def count(self, texts: Sequence[str]) -> list[int]:
        """Tokens of each text, without any that a tokenizer would add around it. Very long texts are estimated."""
        heads = [text if len(text) <= LONGEST_TEXT else text[:LONGEST_TEXT] for text in texts]
        found = [len(encoding) for encoding in self._tokenizer.encode_batch_fast(heads, add_special_tokens=False)]
        return [
            count if len(text) <= LONGEST_TEXT else count * len(text) // LONGEST_TEXT
            for count, text in zip(found, texts, strict=True)
        ]


def open_tokenizer(folder: str) -> ModelTokenizer:
    """The fast tokenizer of a model folder. Raises TokenizerUnreadable."""
    path = os.path.join(folder, "tokenizer.json")
    if not os.path.isfile(path):
        raise TokenizerUnreadable("the model has no tokenizer.json, only a slow tokenizer")
    from tokenizers import Tokenizer

    try:
        tokenizer = Tokenizer.from_file(path)
    except Exception as error:  # noqa: BLE001 - the library raises no narrower class
        raise TokenizerUnreadable(f"its tokenizer.json cannot be read: {str(error)[:200]}") from None
    config = tokenizer_config(folder)
    return ModelTokenizer(tokenizer, config, chat_template(folder, config))


def tokenizer_config(folder: str) -> dict[str, Any]:
    """tokenizer_config.json, completed from special_tokens_map.json; empty if there is neither."""
    found = _json_object(os.path.join(folder, "special_tokens_map.json"))
    return {**found, **_json_object(os.path.join(folder, "tokenizer_config.json"))}


def chat_template(folder: str, config: Mapping[str, Any]) -> str:
    """The model's own chat template (Jinja), its default one if it has several; empty if it has none."""
    try:
        with open(os.path.join(folder, "chat_template.jinja"), encoding="utf-8") as file:
            return file.read()
    except (OSError, UnicodeDecodeError):
        value = config.get("chat_template")
    if isinstance(value, list):
        named = {entry.get("name"): entry.get("template") for entry in value if isinstance(entry, dict)}
        value = named.get("default") or next(iter(named.values()), "")
    return value if isinstance(value, str) else ""


def _extra_tokens(config: Mapping[str, Any]) -> list[str]:
    """Tokens that the configuration adds to tokenizer.json's own."""
    decoder = config.get("added_tokens_decoder")
    named = list(decoder.values()) if isinstance(decoder, dict) else []
    more = config.get("additional_special_tokens") or config.get("extra_special_tokens") or []
    named += more if isinstance(more, list) else list(more.values()) if isinstance(more, dict) else []
    named += [config.get(key) for key in ("bos_token", "eos_token", "pad_token", "unk_token")]
    return [content for entry in named if (content := _content(entry))]


def _content(entry: object) -> str:
    if isinstance(entry, dict):
        entry = entry.get("content")
    return entry if isinstance(entry, str) else ""


def _json_object(path: str) -> dict[str, Any]:
    try:
        with open(path, "rb") as file:
            value = json.load(file)
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}
