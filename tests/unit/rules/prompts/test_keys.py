"""Keys of prompts."""

import pytest

from loopai_trainer.rules.prompts.keys import answer_keys, joined_texts, single_texts, text_keys


@pytest.mark.parametrize("seed", [None, 42])
def test_prompts_compare_apart_from_blanks_and_character_forms(seed):
    keys = text_keys(seed)(joined_texts([[("user", text)] for text in ("Was 5?", " Was \n5？ ", "Was 6?")]))
    assert keys[0] == keys[1] != keys[2]


def test_single_turns_have_one_key_however_they_were_read():
    assert list(single_texts([" a  b"])) == joined_texts([[("user", " a  b")]]) == ["a b"]


def test_turns_are_kept_apart():
    made = joined_texts(
        [
            [("user", "a"), ("assistant", "b"), ("user", "c")],
            [("user", "a b"), ("assistant", ""), ("user", "c")],
            [("system", "a"), ("user", "b")],
            [("tool", "a")],
            [("user", "a")],
        ]
    )
    assert len(set(made)) == 5


def test_a_seed_gives_the_same_keys_everywhere():
    # SHA-256 of "42", NUL and the text, its first eight bytes.
    assert list(text_keys(42)(["What is 1 plus 1?"])) == [text_keys(42)(["What is 1 plus 1?"])[0]]
    assert text_keys(42)(["a"])[0] == int.from_bytes(__import__("hashlib").sha256(b"42\0a").digest()[:8])
    assert text_keys(42)(["a"]) != text_keys(43)(["a"])


def test_answers_of_all_kinds_have_keys():
    keys = answer_keys(["a", ["a"], {"t": "a"}, 7, "a"])
    assert keys[0] == keys[4]
    assert len(set(keys)) == 4


@pytest.mark.parametrize("seed", [None, 42])
def test_texts_have_the_same_keys_as_utf8(seed):
    texts = ["", "a", "Was 5?", "\N{CJK UNIFIED IDEOGRAPH-4E02}" * 99]
    assert text_keys(seed).of_utf8([text.encode() for text in texts]) == text_keys(seed)(texts)
