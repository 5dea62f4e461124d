"""Which rows count as the same prompt or the same answer."""

import hashlib
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopai_trainer.records import Row, Turn
from loopai_trainer.rules.rows.columns import columns_of
from loopai_trainer.rules.rows.fingerprint import fingerprinter, fold
from loopai_trainer.rules.rows.folding import fold_all


def row(*turns, system="", tools=""):
    return Row(tuple(Turn(*turn) for turn in turns), system, tools, 1)


@pytest.mark.parametrize(
    ("text", "folded"),
    [
        ("plain text", "plain text"),
        ("  two  blanks\n and\ta tab ", "two blanks and a tab"),
        ("a\x1cb", "a b"),
        ("泵，停了？", "泵,停了?"),
        ("ｆｕｌｌ　ｗｉｄｔｈ", "full width"),
        ("zero\u200bwidth\ufeff", "zerowidth"),
        ("cafe\u0301", "café"),
        ("\u200b x \u200b", "x"),
        ("", ""),
    ],
)
def test_folding_leaves_what_a_reader_sees(text, folded):
    assert fold(text) == folded


@given(st.text())
def test_folding_is_the_plain_definition_of_it(text):
    plain = " ".join(unicodedata.normalize("NFKC", text).split())
    visible = "".join(c for c in plain if unicodedata.category(c) != "Cf")
    assert fold(text) == " ".join(visible.split())
    assert fold(fold(text)) == fold(text)


USUAL = st.text(st.sampled_from("ab 水泵停了。，：？！；（）\u3000\n\t\x00\u200b\u00a0é\u0301ｆ"), max_size=12)


@given(USUAL)
def test_what_is_done_quickly_for_usual_texts_is_the_same(text):
    test_folding_is_the_plain_definition_of_it.hypothesis.inner_test(text)


@given(st.lists(USUAL | st.text(max_size=5), max_size=9), st.integers(1, 3))
def test_texts_folded_together_are_folded_as_each_alone(texts, together):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("loopai_trainer.rules.rows.folding._TOGETHER", together)
        assert fold_all(texts) == [fold(text) for text in texts]


@pytest.mark.parametrize("wide", ["，", "：", "？", "！", "（", "）", "；", "\u3000", "…", "％", "～"])
def test_what_is_replaced_ahead_is_what_nfkc_makes_of_it(wide):
    text = f"水{wide}泵"
    assert fold(text) == unicodedata.normalize("NFKC", text)
    assert fold_all([text] * 9) == [fold(text)] * 9


ROWS = st.lists(
    st.tuples(st.lists(USUAL, min_size=2, max_size=4), st.sampled_from(["", "s", " "]), st.sampled_from(["", "[]"])),
    min_size=1,
    max_size=4,
)


def turns_of(texts, last):
    roles = [("user", "assistant")[number % 2] for number in range(len(texts) - 1)]
    return tuple(zip([*roles, last], texts, strict=True))


@given(ROWS, st.sampled_from([None, 42]), st.sampled_from(["assistant", "function"]))
def test_rows_get_the_same_fingerprints_together_as_alone(parts, seed, last):
    rows = [Row(turns_of(texts, last), system, tools, 1) for texts, system, tools in parts]
    prints = fingerprinter(seed)
    prompts, answers = prints.of(columns_of(rows))
    assert list(zip(prompts, answers, strict=True)) == [prints(one) for one in rows]


@given(st.lists(USUAL, min_size=1, max_size=4), USUAL, st.sampled_from(["", "[]"]))
def test_folding_all_turns_at_once_is_folding_each(texts, system, tools):
    turns = [("user" if number % 2 == 0 else "assistant", text) for number, text in enumerate(texts)]
    parts = ["42", fold(system), tools, *(part for role, text in turns for part in (role, fold(text)))]
    digest = hashlib.sha256("\0".join(parts).encode()).digest()
    one = Row((*turns, ("assistant", "a")), system, tools, 1)
    assert fingerprinter(42)(one)[0] == int.from_bytes(digest[:8], "big")


@pytest.mark.parametrize("length", [3, 400])
@pytest.mark.parametrize("blank", ["\t", "\r", "\v", "\f", "\x1c", "\x1d", "\x1e", "\x1f", "\n", "  ", "\u00a0"])
def test_every_blank_is_one_in_short_and_long_prompts(blank, length):
    text = "x" * length
    for prints in (fingerprinter(42), fingerprinter(None)):
        plain, other = (prints(row(("user", f"{text}{b}y"), ("assistant", "a"))) for b in (" ", blank))
        assert plain == other


def test_without_a_seed_prompts_are_told_apart_all_the_same():
    prints = fingerprinter(None)
    base = prints(row(("user", "q"), ("assistant", "a")))
    assert prints(row(("user", " q"), ("assistant", "a"))) == base
    assert prints(row(("user", "r"), ("assistant", "a")))[0] != base[0]
    assert all(0 <= prints(row(("user", str(n)), ("assistant", "a")))[0] < 1 << 64 for n in range(50))


def test_the_prompt_is_system_tools_and_all_turns_but_the_last():
    prints = fingerprinter(42)
    base = prints(row(("user", "q"), ("assistant", "a")))
    assert prints(row(("user", " q\n"), ("assistant", "a"))) == base
    assert prints(row(("user", "q"), ("assistant", "b")))[0] == base[0]
    assert prints(row(("user", "q"), ("assistant", "b")))[1] != base[1]
    for other in (
        row(("user", "q"), ("assistant", "a"), system="s"),
        row(("user", "q"), ("assistant", "a"), tools="[]"),
        row(("tool", "q"), ("assistant", "a")),
        row(("user", "q"), ("assistant", "x"), ("user", "q"), ("assistant", "a")),
    ):
        assert prints(other)[0] != base[0]
    assert prints(row(("user", "q"), ("function", "a")))[1] != base[1]


@pytest.mark.parametrize("seed", [None, 42])
def test_a_prompt_is_known_again_among_rows_of_other_kinds(seed):
    plain = row(("user", "q"), ("assistant", "a"))
    long = row(("user", "q"), ("assistant", "b"), ("user", "r"), ("assistant", "c"))
    with_system = row(("user", "q"), ("assistant", "a"), system="s")
    prints = fingerprinter(seed)
    found = [
        list(prints.of(columns_of(rows))[0])
        for rows in ([plain], [plain, plain], [plain, long], [plain, with_system], [with_system, long, plain])
    ]
    assert {one[0] for one in found[:4]} == {found[4][2]}
    assert found[2][1] == found[4][1]
    assert found[3][1] == found[4][0]
    assert len({*found[4]}) == 3


def test_parts_do_not_run_into_each_other():
    prints = fingerprinter(42)
    assert (
        prints(row(("user", "ab"), ("assistant", "a"), system="c"))[0]
        != prints(row(("user", "b"), ("assistant", "a"), system="ca"))[0]
    )


def test_the_prompt_s_fingerprint_is_the_same_everywhere_and_depends_on_the_seed():
    assert fingerprinter(42)(row(("user", "q"), ("assistant", "a")))[0] == 0x5A86992889A4D9BA
    assert (
        fingerprinter(1)(row(("user", "q"), ("assistant", "a")))[0]
        != fingerprinter(2)(row(("user", "q"), ("assistant", "a")))[0]
    )
