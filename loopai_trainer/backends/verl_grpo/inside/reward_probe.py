"""Tries a reward on real rows and says what training would stumble over, with file, row and reply.

Runs in verl's environment. Findings are told once for each kind of fault, with the first place and a count.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import reward_calls
import reward_replies
from reward_replies import Reply

LONG_ROWS = 2
"""Rows of each file that get a reply of a million characters."""

CODE_ROWS = 1
"""Rows of a data_source whose scorer runs code: each call starts processes."""


class Place(NamedTuple):
    """Where a row stands. `row` is 0-based."""

    where: str
    path: str
    row: int


class Scoring(NamedTuple):
    """How replies have to look for a data_source. `strict`: a right answer that scores nothing is an error, always."""

    forms: Sequence[str]
    strict: bool
    runs_code: bool = False


class Limits(NamedTuple):
    """`budget_s`: no new row is begun after so long."""

    load_s: float = 180.0
    call_s: float = 60.0
    budget_s: float = 300.0


_KINDS: Mapping[str, tuple[str, str, str]] = {
    "none": ("REWARD_NONE", "the reward answers with None", "return 0.0 for a reply that it cannot judge"),
    "type": ("REWARD_TYPE", "the reward answers with a {type}", "return a float, or a dict with a float `score`"),
    "coroutine": ("REWARD_TYPE", "the reward answers with a coroutine", "declare the function with async def"),
    "not_finite": ("REWARD_NOT_FINITE", "the reward is not finite", "return a finite float for every reply"),
    "no_score": ("REWARD_NO_SCORE", "the reward answers with a dict without `score`", "add the key score"),
    "extras": (
        "REWARD_EXTRAS",
        "the reward's {bad} is no finite number and no text",
        "return numbers or texts beside score, the same keys each time",
    ),
    "raised": ("REWARD_RAISES", "the reward raises", "return 0.0 for a reply that it cannot judge"),
    "slow": ("REWARD_SLOW", "the reward takes more than {limit_s:.0f} seconds", "bound what it does with a reply"),
    "died": ("REWARD_DIES", "the reward ends its own process", "return 0.0 instead of leaving"),
    "load": ("REWARD_LOAD", "the reward cannot be loaded", "correct the file; verl loads the same copy"),
}
"""Kind of a result -> (code, message, hint)."""

_FATAL = ("load", "slow")
"""Kinds after which trying on tells nothing more and takes long."""


class Probe:
    """One reward on the rows that `add` gives it, one after the other."""

    def __init__(
        self,
        load: Callable[[], Any],
        scoring: Callable[[str], Scoring],
        pip_name: Callable[[str], str],
        limits: Limits = Limits(),  # noqa: B008 - a frozen value
        keys_hint: str = "return the same keys, of the same types, for every reply",
    ) -> None:
        self._keys_hint = keys_hint
        self._caller = reward_calls.Caller(load, limits.load_s, limits.call_s)
        self._scoring = scoring
        self._pip_name = pip_name
        self._until = time.monotonic() + limits.budget_s
        self._findings: dict[tuple[str, ...], dict[str, Any]] = {}
        self._shape: tuple[Any, str] | None = None
        self._useless: dict[tuple[str, str], list[tuple[Place, str, str, str]]] = {}
        self._long: dict[str, int] = {}
        self._scored_form = ""
        self._code: dict[str, int] = {}
        self._stopped = False
        self._decided = {"strict": 0, "loose": 0}
        self._good = {"strict": 0, "loose": 0}
        self.scores: dict[str, list[float]] = {}
        self.tried: dict[str, int] = {}
        self.not_built = 0

    def add(self, place: Place, row: Mapping[str, Any]) -> bool:
        """Try the row; False if it was not tried, since time is up or nothing more can be learnt."""
        if self._stopped or time.monotonic() > self._until:
            return False
        self.tried[place.where] = self.tried.get(place.where, 0) + 1
        source = str(row.get("data_source"))
        scoring = self._scoring(source)
        if scoring.runs_code and self._code.setdefault(source, 0) >= CODE_ROWS:
            return True
        self._code[source] = self._code.get(source, 0) + 1
        truth = (row.get("reward_model") or {}).get("ground_truth")
        if scoring.forms:
            self._right_against_wrong(place, row, truth, scoring)
        for reply in self._others(place, truth, scoring):
            self._score(place, row, truth, reply)
        return True

    def close(self) -> None:
        """End the child."""
        self._caller.close()

    def findings(self) -> list[dict[str, Any]]:
        """All of them, errors first."""
        found = list(self._findings.values())
        for finding in found:
            calls = finding.pop("calls", 1)
            if calls > 1:
                finding["message"] += f"; so in {calls} calls"
        found += self._useless_findings()
        return sorted(found, key=lambda finding: finding["severity"] != "error")

    def _others(self, place: Place, truth: Any, scoring: Scoring) -> list[Reply]:
        replies: list[Reply] = reward_replies.others(truth)
        if not scoring.forms:
            replies.insert(0, Reply("wrong", "print('no such answer')"))
        if self._long.setdefault(place.where, 0) < LONG_ROWS:
            self._long[place.where] += 1
            forms = self._by_success(scoring.forms) or ["{answer}"]
            replies.append(reward_replies.very_long(truth, forms[0]))
        return replies

    def _right_against_wrong(self, place: Place, row: Mapping[str, Any], truth: Any, scoring: Scoring) -> None:
        seen: tuple[str, float, float] | None = None
        pairs = reward_replies.pairs(truth, self._by_success(scoring.forms))
        if not pairs:
            self.not_built += 1
        for form, right, wrong in pairs:
            high, low = self._score(place, row, truth, right), self._score(place, row, truth, wrong)
            if self._stopped or (high is None and scoring.strict):
                return  # told already
            if high is None or low is None:
                continue
            if high > low:
                self._note("right", high)
                self._note("wrong", low)
                self._count(self._good, scoring)
                self._count(self._decided, scoring)
                self._scored_form = form
                return
            seen = seen or (right.shown(), high, low)
        if seen:
            self._note("right", seen[1])
            self._note("wrong", seen[2])
            self._count(self._decided, scoring)
            cause, hint = reward_replies.peculiarity(truth)
            said = f"{seen[0]} scores {seen[1]:g}, a wrong one {seen[2]:g}"
            key = ("strict" if scoring.strict else "loose", cause)
            self._useless.setdefault(key, []).append((place, said, cause, hint))

    def _by_success(self, forms: Sequence[str]) -> list[str]:
        """The form that scored last comes first: the others need not be tried."""
        return sorted(forms, key=lambda form: form != self._scored_form)

    def _count(self, counts: dict[str, int], scoring: Scoring) -> None:
        counts["strict" if scoring.strict else "loose"] += 1

    def _score(self, place: Place, row: Mapping[str, Any], truth: Any, reply: Reply) -> float | None:
        """The score, if the reward gives one; everything else is noted."""
        if self._stopped:
            return None
        result = self._caller.call({
            "data_source": row.get("data_source"),
            "solution_str": reply.text,
            "ground_truth": truth,
            "extra_info": {**(row.get("extra_info") or {}), "num_turns": 2, "rollout_reward_scores": {}},
        })  # fmt: skip
        kind = result["kind"]
        if kind != "score":
            self._fault(place, truth, reply, result)
        if result.get("shape") is not None:
            self._same_shape(place, reply, result["shape"])
        score: float | None = result.get("score") if kind == "score" else None
        if score is not None and reply.kind not in ("right", "wrong"):
            self._note(reply.kind, score)
        return score

    def _note(self, kind: str, score: float) -> None:
        self.scores.setdefault(kind, []).append(score)

    def _fault(self, place: Place, truth: Any, reply: Reply, result: dict[str, Any]) -> None:
        kind = result["kind"]
        if result.get("missing"):
            package = self._pip_name(result["missing"])
            message = f"the reward needs the package {package}: {result['shown']}"
            hint = f"install it into verl's environment: pip install {package}"
            self._tell(("PACKAGE_MISSING", package), place, message, hint)
            self._stopped = True
            return
        code, message, hint = _KINDS[kind]
        said = message.format(**{**result, "bad": ", ".join(result.get("bad", ()))})
        shown = f" -> {result['shown']}" if result.get("shown") else ""
        cause, better = reward_replies.peculiarity(truth) if kind == "raised" and reply.kind == "right" else ("", "")
        at = "" if kind == "load" else f" for the {reply.shown()}"
        why = f" ({cause})" if cause else ""
        self._tell((code, result.get("type", ""), cause), place, f"{said}{at}{shown}{why}", better or hint)
        self._stopped = self._stopped or kind in _FATAL

    def _same_shape(self, place: Place, reply: Reply, shape: Any) -> None:
        if self._shape is None:
            self._shape = shape, reply.shown()
        elif shape != self._shape[0]:
            now, before = _named(shape), _named(self._shape[0])
            message = (
                f"the reward answers with {now} for the {reply.shown()} and with {before} for the {self._shape[1]}"
            )
            self._tell(("REWARD_KEYS",), place, message, self._keys_hint)

    def _tell(self, key: tuple[str, ...], place: Place, message: str, hint: str) -> None:
        if key in self._findings:
            self._findings[key]["calls"] += 1
            return
        self._findings[key] = {**_finding("error", key[0], place, message, hint), "calls": 1}

    def _useless_findings(self) -> list[dict[str, Any]]:
        found = []
        for (sort, cause), rows in self._useless.items():
            place, said, _, hint = rows[0]
            decided = self._decided[sort]
            # A custom reward may look for a form of its own: only if no row at all is scored it is certain.
            severity = "error" if sort == "strict" or not self._good["loose"] else "warning"
            why = f" ({cause})" if cause else ""
            message = (
                f"a right answer scores no more than a wrong one: {said}{why}; so in {len(rows)} of {decided} rows"
            )
            better = hint or "choose a reward that reads these ground truths, or correct them"
            found.append(_finding(severity, "REWARD_USELESS", place, message, better))
        if self.not_built and not self._decided["loose"] and not self._decided["strict"]:
            message = (
                f"no right answer can be made of the ground truths ({self.not_built} rows): its score is not tried"
            )
            found.append({"severity": "warning", "code": "REWARD_RIGHT_UNTRIED", "where": "config", "message": message,
                          "hint": "see for yourself that a right answer scores more than a wrong one"})  # fmt: skip
        return found


def _named(shape: Any) -> str:
    if isinstance(shape, dict):
        return "a dict of " + ", ".join(f"{key} ({kind})" for key, kind in sorted(shape.items()))
    return "a bare number"


def _finding(severity: str, code: str, place: Place, message: str, hint: str) -> dict[str, Any]:
    text = f"{message} [{place.where} row {place.row}]"
    return {
        "severity": severity, "code": code, "where": place.where, "message": text, "hint": hint,
        "path": place.path, "row": place.row,
        "field": "reward_model.ground_truth" if code == "REWARD_USELESS" else None,
    }  # fmt: skip
