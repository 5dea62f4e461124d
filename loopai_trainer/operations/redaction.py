"""Answers without secrets: what leaves the program, by the terminal, as JSON or through the API, passes here.

Light on purpose: `status --json` passes here too.
"""

from loopai_trainer.operations.answer import Answer
from loopai_trainer.rules import secrets

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from loopai_trainer.errors import TrainerError
    from loopai_trainer.records import Problem


def without_secrets(answer: Answer, environ: "Mapping[str, str]") -> Answer:
    """The answer without tokens and without the values of secret variables in `environ`."""
    hidden = secrets.environment_values(environ)
    return Answer(
        answer.command,
        None if answer.data is None else secrets.redacted_value(dict(answer.data), hidden),
        status=answer.status,
        message=secrets.redacted(answer.message, hidden),
        error=None if answer.error is None else _error(answer.error, hidden),
        exit_code=answer.exit_code,
        ok=answer.ok,
    )


def _error(error: "TrainerError", hidden: tuple[str, ...]) -> "TrainerError":
    """The same error: nobody needs the text that it had before."""
    error.message, error.hint = secrets.redacted(error.message, hidden), secrets.redacted(error.hint, hidden)
    error.details = secrets.redacted_value(error.details, hidden)
    error.problems = tuple(_problem(problem, hidden) for problem in error.problems)
    return error


def _problem(problem: "Problem", hidden: tuple[str, ...]) -> "Problem":
    message, hint = secrets.redacted(problem.message, hidden), secrets.redacted(problem.hint, hidden)
    if (message, hint) == (problem.message, problem.hint):
        return problem
    from dataclasses import replace

    return replace(problem, message=message, hint=hint)
