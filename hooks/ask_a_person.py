#!/usr/bin/env python3
"""A hook before each shell command of Claude Code: a person is asked if it would start or approve a training.

Standard library alone. It says nothing of any other command, so that the host's own rules decide those. Advisory, as
all looking at command lines is: a script that calls the program is not seen. Codex runs a plugin's hooks as well, but
its hooks cannot ask: there rules/trainer.rules does, and the hook denies what is for no agent.
"""

import json
import re
import sys

PROGRAM = r"""(?:loopai-)?trainer(?:\.py)?|python[\d.]*["']?(?:\s+-[IPEsSuB]+)*\s+-m\s+loopai_trainer"""
VERBS = "run-prepared|approve|recover|run"
QUOTE = "[\"'`]?"
CALL = re.compile(rf"(?:^|[\s;&|(=/\"'`])(?:{PROGRAM}){QUOTE}(?:\s|\\\n)+{QUOTE}({VERBS})(?![\w-])")
_STARTS = "This starts (or re-attaches to) a training. Allow it only if you have approved the YAML with this SHA-256."
_APPROVES = (
    "An approval is for a person at a terminal of their own. Allow this only if you will type the hash yourself."
)
_RECOVERS = "This takes over or ends a training whose worker is gone. That is for an operator to decide."
_UNSEEN = "This trains a plan that nobody has seen. In a conversation: `trainer prepare`, then `trainer run-prepared`."
REASONS = {"run-prepared": _STARTS, "approve": _APPROVES, "recover": _RECOVERS, "run": _UNSEEN}


DENIED_ON_CODEX = ("approve", "run")


def verb_of(command: str) -> str:
    """The verb of ours that this command calls and that a person decides on; '' if there is none."""
    found = CALL.search(command)
    return found[1] if found else ""


def decision(verb: str, *, on_codex: bool) -> str:
    """What the host is told; '' for nothing. Codex has no `ask`: it reports a fault and goes on."""
    if on_codex:
        return "deny" if verb in DENIED_ON_CODEX else ""
    return "ask" if verb else ""


def main() -> int:
    """Read the call from stdin and answer; what cannot be read is left to the host's own rules."""
    try:
        call = json.load(sys.stdin)
        command = call["tool_input"]["command"]
    except (ValueError, KeyError, TypeError):
        return 0
    verb = verb_of(command) if isinstance(command, str) else ""
    # Of the two hosts only Codex names the turn. Source: both hosts' documentation of a hook's input.
    told = decision(verb, on_codex="turn_id" in call)
    if told:
        answer = {"hookEventName": "PreToolUse", "permissionDecision": told, "permissionDecisionReason": REASONS[verb]}
        json.dump({"hookSpecificOutput": answer}, sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main())
