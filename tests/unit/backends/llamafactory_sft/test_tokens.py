import json

import pytest
from fakes.tokenizer_files import CHATML_TEMPLATE, write_tokenizer

from loopai_trainer.backends.llamafactory_sft import tokens
from loopai_trainer.backends.llamafactory_sft.tokens import TokenizerUnreadable, open_tokenizer


@pytest.fixture
def model(tmp_path):
    return write_tokenizer(tmp_path / "model")


def test_it_counts_and_knows_its_tokens(model):
    found = open_tokenizer(str(model))
    assert found.count(["ok", "", "泵", "<|im_start|>user\n"]) == [2, 0, 3, 6]
    assert found.has("<|im_end|>") and not found.has("<|eot_id|>")
    assert (found.eos, found.bos, found.chat_template) == ("<|im_end|>", "", CHATML_TEMPLATE)
    found.add(["<|eot_id|>", ""])
    assert found.count(["<|eot_id|>"]) == [1]
    found.split_special_tokens()
    assert found.count(["<|eot_id|>"]) == [10]


def test_what_a_file_says_of_truncation_and_padding_is_not_heeded(model):
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(model / "tokenizer.json"))
    tokenizer.enable_truncation(3)
    tokenizer.enable_padding(length=9)
    tokenizer.save(str(model / "tokenizer.json"))
    assert open_tokenizer(str(model)).count(["abcdefgh"]) == [8]


def test_tokens_that_the_configuration_adds(tmp_path):
    extra = {
        "added_tokens_decoder": {"300": {"content": "<a>"}},
        "additional_special_tokens": ["<b>", {"content": "<c>"}],
    }
    model = write_tokenizer(tmp_path, bos_token={"content": "<s>"}, **extra)
    found = open_tokenizer(str(model))
    assert found.bos == "<s>"
    assert found.count(["<a><b><c><s>"]) == [4]


def test_extra_special_tokens_may_be_a_mapping(tmp_path):
    model = write_tokenizer(tmp_path, extra_special_tokens={"image_token": "<img>"})
    assert open_tokenizer(str(model)).count(["<img>"]) == [1]


def test_an_end_token_may_stand_in_the_older_file(tmp_path):
    model = write_tokenizer(tmp_path)
    (model / "tokenizer_config.json").unlink()
    (model / "special_tokens_map.json").write_text(json.dumps({"eos_token": "<|endoftext|>"}))
    assert open_tokenizer(str(model)).eos == "<|endoftext|>"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, ""),
        ([{"name": "tool_use", "template": "T"}, {"name": "default", "template": "D"}], "D"),
        ([{"name": "tool_use", "template": "T"}], "T"),
        ([], ""),
    ],
)
def test_forms_of_a_chat_template(tmp_path, value, expected):
    model = write_tokenizer(tmp_path, chat_template=value)
    assert open_tokenizer(str(model)).chat_template == expected
    (model / "chat_template.jinja").write_text("J")
    assert open_tokenizer(str(model)).chat_template == "J"


@pytest.mark.parametrize(
    ("text", "said"), [(None, "only a slow tokenizer"), ("{}", "cannot be read"), ("{", "cannot be read")]
)
def test_no_tokenizer_is_an_answer_not_a_crash(tmp_path, text, said):
    if text is not None:
        (tmp_path / "tokenizer.json").write_text(text)
    with pytest.raises(TokenizerUnreadable, match=said):
        open_tokenizer(str(tmp_path))


def test_a_huge_text_is_estimated_from_its_start(model, monkeypatch):
    monkeypatch.setattr(tokens, "LONGEST_TEXT", 100)
    assert open_tokenizer(str(model)).count(["a" * 100, "a" * 1000]) == [100, 1000]
