"""How much of each turn stays when a chat is longer than `cutoff_len`: LLaMA-Factory's rule, without the tokens.

Source: data/processor/supervised.py and processor_utils.py `infer_seqlen`, 0.9.5. Of a question the head is kept and
its end goes; of an answer the end goes, and with it the end token; turns for which no room is left go whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class Cut(NamedTuple):
    """Tokens kept, tokens lost from the ends of questions and of answers, and pairs left out whole."""

    kept: int
    prompt_lost: int
    answer_lost: int
    turns_lost: int


def cut(pairs: Sequence[tuple[int, int]], cutoff: int, *, end_tokens: int = 0, last_first: bool = False) -> Cut:
    """What is left of (question, answer) pairs, in tokens.

    `end_tokens`: what is put after the last answer; `last_first`: the last pair has first call on the room
    (mask_history).
    """
    kept = end_tokens
    prompt_lost = answer_lost = 0
    for number, (question, answer) in enumerate(reversed(pairs) if last_first else pairs):
        if kept >= cutoff:
            return Cut(kept, prompt_lost, answer_lost, len(pairs) - number)
        question_kept, answer_kept = share_room(question, answer, cutoff - kept)
        prompt_lost += question - question_kept
        answer_lost += answer - answer_kept
        kept += question_kept + answer_kept
    return Cut(kept, prompt_lost, answer_lost, 0)


def share_room(question: int, answer: int, room: int) -> tuple[int, int]:
    """Tokens kept of a question and of its answer: a short one is kept whole, two long ones share by length."""
    if 2 * answer < room:
        most = room
    elif 2 * question < room:
        most = room - question
    else:
        # In floats, as LLaMA-Factory does it: integers would differ by one now and then.
        most = int(room * (answer / (question + answer)))
    answer_kept = min(most, answer)
    return min(max(room - answer_kept, 0), question), answer_kept
