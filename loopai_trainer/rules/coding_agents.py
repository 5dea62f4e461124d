"""Signs that a coding agent, not a person, is at the keyboard. Advisory: whoever has the user's rights can forge them.

Light on purpose: `run-prepared` notes the variables that it saw in the approval record.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

VARIABLES = (
    *("AI_AGENT", "AGENT", "CLAUDECODE", "CLAUDE_CODE", "CODEX_SANDBOX", "CODEX_SANDBOX_NETWORK_DISABLED"),
    *("CODEX_THREAD_ID", "CODEX_CI", "CURSOR_AGENT", "GEMINI_CLI", "OPENCODE", "OPENCODE_CLIENT", "AUGMENT_AGENT"),
    *("ANTIGRAVITY_AGENT", "GOOSE_TERMINAL", "CLINE_ACTIVE", "VSCODE_AGENT"),
)
"""What agents set for the commands that they run, and people's shells do not (CODEX_HOME, CURSOR_TRACE_ID are no sign).

Source: agentsmd/agents.md issue 136, the detectors of vercel/vercel (packages/detect-agent) and aws/aws-cdk-cli.
"""
_PROGRAMS = frozenset((
    *("claude", "claude-code", "codex", "cursor-agent", "gemini", "opencode", "goose", "aider", "amp", "auggie"),
    *("copilot", "qwen", "crush", "droid"),
))  # fmt: skip
_PACKAGES = ("/@anthropic-ai/claude-code/", "/@openai/codex/", "/@google/gemini-cli/", "/@github/copilot/")
"""Agents that are scripts: the interpreter is the program, and its first argument lies in their package."""


def variables(environ: "Mapping[str, str]") -> list[str]:
    """Names of agents' variables that are set and not empty."""
    return sorted(name for name in VARIABLES if environ.get(name))


def signs(environ: "Mapping[str, str]", parents: "Iterable[Sequence[str]]") -> list[str]:
    """What points to an agent, in words; `parents`: command lines of the processes above this one, nearest first."""
    found = [f"the environment variable {name} is set" for name in variables(environ)]
    for words in parents:
        program = _agent_of(words)
        if program:
            found.append(f"'{program}' runs above this command")
    return found


def _agent_of(words: "Sequence[str]") -> str:
    """The agent's name if that command line is one's, else ''."""
    for word in words[:2]:
        name = word.rpartition("/")[2].removesuffix(".js")
        if name in _PROGRAMS:
            return name
        if any(package in word for package in _PACKAGES):
            return next(package for package in _PACKAGES if package in word).strip("/")
    return ""
