"""Keys of prompts."""

from itertools import accumulate

import pytest

from loopai_trainer.rules.prompts.keys import TextKeys, answer_keys, joined_texts, single_texts


@pytest.mark.parametrize("seed", [0, 42, -1, 2**70])
def test_prompts_compare_apart_from_blanks_and_character_forms(seed):
    keys = TextKeys(seed)(joined_texts([[("user", text)] for text in ("Was 5?", " Was \n5？ ", "Was 6?")]))
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
    # XXH3's own test value of an empty input; the others are those of xxhash 4.1.0, on which splits rest.
    assert TextKeys(0)([""])[0] == 0x2D06800538D394C2
    assert list(TextKeys(42)(["a", "What is 1 plus 1?"])) == [0x4C437DD47F0716F4, 0x518E55AEF56D4DE4]
    assert TextKeys(42)(["a"]) != TextKeys(43)(["a"])


def test_answers_of_all_kinds_have_keys():
    keys = answer_keys(["a", ["a"], {"t": "a"}, 7, "a"])
    assert keys[0] == keys[4]
    assert len(set(keys)) == 4


def test_a_short_number_is_told_from_the_same_with_a_zero_before_it():
    texts = ["7", "07", "٧", "1" * 17, "1" * 18, "", "-7", "7 "]
    assert len(set(answer_keys(texts))) == len(texts)
    assert answer_keys(texts) == answer_keys(texts)


def test_texts_have_the_same_keys_as_utf8():
    texts = ["", "a", "Was 5?", "\N{CJK UNIFIED IDEOGRAPH-4E02}" * 99]
    parts = [text.encode() for text in texts]
    ends = accumulate(map(len, parts), initial=0)
    assert TextKeys(42).of_pieces(memoryview(b"".join(parts)), ends) == TextKeys(42)(texts)
