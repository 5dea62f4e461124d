#!/usr/bin/env python3
"""Claude Code's hook before each shell command: a person is asked if the command would start or approve a training.

Standard library alone. It says nothing of any other command, so that the host's own rules decide those. Advisory, as
all looking at command lines is: a script that calls the program is not seen.
"""

import json
import re
import sys

PROGRAM = r"""(?:\S*/)?(?:loopai-)?trainer(?:\.py)?|\S*python[\d.]*["']?(?:\s+-[IPEsSuB]+)*\s+-m\s+loopai_trainer"""
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


def asked(command: str) -> str:
    """Why a person is to be asked before this command; '' if it is none of ours."""
    found = CALL.search(command)
    return REASONS[found[1]] if found else ""


def main() -> int:
    """Read the call from stdin and answer; what cannot be read is left to the host's own rules."""
    try:
        command = json.load(sys.stdin)["tool_input"]["command"]
    except (ValueError, KeyError, TypeError):
        return 0
    reason = asked(command) if isinstance(command, str) else ""
    if reason:
        decision = {"hookEventName": "PreToolUse", "permissionDecision": "ask", "permissionDecisionReason": reason}
        json.dump({"hookSpecificOutput": decision}, sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main())
