"""A row's keys: what is to be said of them is worked out once for each set of keys, not for each row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from operator import itemgetter, methodcaller
from typing import Any

from loopai_trainer.records import Rejection, Remark
from loopai_trainer.rules.rows.names import did_you_mean

MEDIA = ("images", "videos", "audios", "image", "video", "audio")
PAIRS = ("chosen", "rejected")
"""Columns of preference data, of which supervised fine-tuning reads none."""
_OTHER_NAMES = {"system_prompt": "system", "functions": "tools"}
"""Names that other tools give to what is called otherwise here."""
_NO_SYSTEM = {str, type(None)}
_MAX_SHAPES = 1000
"""Files whose every row has its own keys must not fill the memory."""


@dataclass(frozen=True, slots=True)
class Shape:
    """What the keys of a row tell: warnings, columns to look into, a name that is surely misspelt.

    `rivals` hold what another format would be trained on; `pairs` hold answers to choose from.
    """

    remarks: tuple[Remark, ...] = ()
    media: tuple[str, ...] = ()
    rivals: tuple[str, ...] = ()
    pairs: tuple[str, ...] = ()
    misspelt: Rejection | None = None

    @property
    def clean(self) -> bool:
        """Whether nothing is to be said of such keys, nor to be looked for under them."""
        return not (self.remarks or self.media or self.rivals or self.pairs or self.misspelt)


class Shapes:
    """Shapes seen so far. `needed`: keys whose text would be lost if they are misspelt; `optional`: others we read;

    `rivals`: keys whose text would be lost, since the row's own format does not read them.
    """

    def __init__(self, needed: tuple[str, ...], optional: tuple[str, ...], rivals: tuple[str, ...] = ()) -> None:
        self._needed = needed
        self._optional = optional
        self._rivals = rivals
        self._seen: dict[tuple[object, ...], Shape] = {}

    def of(self, row: dict[str, object]) -> Shape:
        """The shape of a row."""
        return self._of_keys(tuple(row))

    def clean_keys(self, values: Sequence[Any]) -> list[tuple[str, ...]] | None:
        """The different keys of `values`, if all are clean and nothing stands under the optional ones; else None.

        A value that is no object raises TypeError or AttributeError, unless it is a list of what might be keys.
        """
        found = list(set(map(tuple, values)))
        if not all(self._of_keys(keys).clean for keys in found):
            return None
        for name in self._optional:
            having = [name in keys for keys in found]
            if any(having) and not _nothing_in(name, values, everywhere=all(having)):
                return None
        return found

    def _of_keys(self, keys: tuple[str, ...]) -> Shape:
        shape = self._seen.get(keys)
        if shape is None:
            shape = self._look(keys)
            if len(self._seen) < _MAX_SHAPES:
                self._seen[keys] = shape
        return shape

    def _look(self, keys: tuple[str, ...]) -> Shape:
        remarks: list[Remark] = []
        misspelt: Rejection | None = None
        known = (*self._needed, *self._optional)
        absent = [name for name in known if name not in keys]
        for key in keys:
            if type(key) is not str or key in known:
                continue
            meant = did_you_mean(key, absent) or (_OTHER_NAMES.get(key) if _OTHER_NAMES.get(key) in absent else None)
            if meant is None:
                continue
            if meant in self._needed and misspelt is None:
                misspelt = _misspelt(key, meant)
            elif meant in self._optional:
                remarks.append(_ignored(key, meant))
        media, rivals, pairs = (tuple(name for name in names if name in keys) for names in (MEDIA, self._rivals, PAIRS))
        return Shape(tuple(remarks), media, rivals, pairs, misspelt)


def _nothing_in(name: str, values: Sequence[Any], *, everywhere: bool) -> bool:
    held = list(map(itemgetter(name) if everywhere else methodcaller("get", name), values))
    return not any(held) and (name != "system" or set(map(type, held)) <= _NO_SYSTEM)


def media_fault(row: dict[str, object], names: tuple[str, ...]) -> Rejection | None:
    """Pictures, videos and sounds are not trained on; a column that is there but empty does no harm."""
    for name in names:
        if row[name]:
            message = f"the row has {name}; only text is trained on"
            return Rejection("MEDIA_UNSUPPORTED", message, "take the media out, or leave the row out", name)
    return None


def rival_fault(
    row: dict[str, object], names: tuple[str, ...], known: tuple[object, ...], read: str
) -> Rejection | None:
    """Of two answers in one row one is trained; a key that repeats one of `known`, or is empty, does no harm."""
    for name in names:
        if row[name] and row[name] not in known:
            message = f"the row has {name} beside {read}, and only {read} would be trained on"
            return Rejection("ANSWER_TWICE", message, "keep the one that is meant; empty or remove the other", name)
    return None


def pair_remarks(row: dict[str, object], names: tuple[str, ...]) -> tuple[Remark, ...]:
    """Preference pairs beside a whole row: the row is trained, the pair is not."""
    filled = [name for name in names if row[name]]
    if not filled:
        return ()
    message = f"the row has {' and '.join(filled)}: supervised fine-tuning does not read preference pairs"
    return (Remark("PREFERENCE_IGNORED", message, "put the answer that is to be learned into the row", filled[0]),)


def _misspelt(key: str, meant: str) -> Rejection:
    return Rejection(
        "FIELD_MISSPELT", f"the key {key!r} is not known: did you mean {meant!r}?", f"rename it to {meant!r}", key
    )


def _ignored(key: str, meant: str) -> Remark:
    return Remark(
        "FIELD_IGNORED", f"the key {key!r} is not read: did you mean {meant!r}?", f"rename it to {meant!r}", key
    )
