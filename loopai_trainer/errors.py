"""The error tree: every refusal has a stable code, a message, a hint and an exit code.

TrainerError                     1   UNEXPECTED, FILE_UNUSABLE
├── UsageError                   2   USAGE, ARGUMENT_INVALID, NO_WORKING_FOLDER
├── ValidationError              3
│   ├── SettingsError                SETTINGS_INVALID, SETTINGS_MISSING, RUN_DIR_IN_USE
│   ├── TaskStoreError               TASK_STORE_UNUSABLE, TASK_STORE_MISSING, TASK_STORE_BUSY, TASK_UNKNOWN
│   ├── DataError                    DATA_INVALID
│   └── ConfigError                  CONFIG_INVALID
├── ApprovalError                4   APPROVAL_MISSING, APPROVAL_EXPIRED, APPROVAL_USED, APPROVAL_INVALID, NOT_INSPECTED,
│                                    CLOCK_SET_BACK, POLICY_INVALID, NO_TERMINAL, AGENT_DETECTED, NOT_APPROVED
├── PlanChanged                  5   CONFIG_HASH_MISMATCH
├── InputChanged                 6   INPUT_CHANGED, INPUT_CHANGED_DURING_RUN, RESOLVED_CHANGED
├── Busy                         7   LOCKED, VERSION_IN_USE, DEVICE_IN_USE
├── Orphaned                     8   ORPHANED_TRAINING, NOT_ADOPTABLE, NOT_ENDED
├── HostUnfit                    9   NO_DEVICE, NO_PORT, SANDBOXED, LOCKS_UNRELIABLE, DISK_FULL
├── TrainingFailed              11   TRAINING_FAILED, DIVERGED, WORKER_LOST, KEEPER_LOST, ...
├── ExportFailed                12   EXPORT_FAILED
├── Cancelled                   13   CANCELLED
├── BackendMissing              69   BACKEND_MISSING, BACKEND_BROKEN, BACKEND_TIMEOUT, BACKEND_PAIR_BROKEN
├── StillRunning                75   STILL_RUNNING
├── DevFailed                    1   DEV_FAILED
├── NotShown                     3   NOT_SHOWN
├── Interrupted                130   INTERRUPTED
└── NotFound                     2   NOT_FOUND, RUN_DIR_GONE

The string codes are the contract; the numbers are the process exit codes of interface section 5.
Light on purpose: `status --json` and `run-prepared` import this file and little else.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from loopai_trainer.records import Problem

EXIT_OK = 0
EXIT_UNEXPECTED = 1
EXIT_DIFFERS = 10
EXIT_INTERRUPTED = 130


class TrainerError(Exception):
    """Something that a user or operator can act on. `hint` names one thing to do next."""

    exit_code = EXIT_UNEXPECTED
    code = "UNEXPECTED"
    recoverable = True

    def __init__(
        self,
        message: str,
        *,
        code: str | None = None,
        hint: str = "",
        problems: "Sequence[Problem]" = (),
        next_command: str = "",
        details: "Mapping[str, object] | None" = None,
        recoverable: bool | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = code or type(self).code
        self.hint = hint
        self.problems = tuple(problems)
        self.next_command = next_command
        self.details = dict(details or {})
        if recoverable is not None:
            self.recoverable = recoverable

    def brief(self) -> dict[str, object]:
        """What every record of an error begins with: type, code, detail, recoverable, hint."""
        return {
            "type": type(self).__name__,
            "code": self.code,
            "detail": self.message,
            "recoverable": self.recoverable,
            "hint": self.hint,
        }


class UsageError(TrainerError):
    """The call itself is malformed."""

    exit_code = 2
    code = "USAGE"


class NotFound(TrainerError):
    """A version, run directory or file that the caller named does not exist."""

    exit_code = 2
    code = "NOT_FOUND"


class ValidationError(TrainerError):
    """Settings, data or configuration are not fit to train on."""

    exit_code = 3
    code = "VALIDATION_FAILED"


class SettingsError(ValidationError):
    """A setting is missing or has a value that is not allowed."""

    code = "SETTINGS_INVALID"


class TaskStoreError(ValidationError):
    """LoopAI's task store cannot be read or written."""

    code = "TASK_STORE_UNUSABLE"


class DataError(ValidationError):
    """Rows would be lost or spoiled."""

    code = "DATA_INVALID"


class ConfigError(ValidationError):
    """A template or a prepared YAML cannot mean what its author wanted."""

    code = "CONFIG_INVALID"


class ApprovalError(TrainerError):
    """There is no approval for this hash, or it has expired or been used."""

    exit_code = 4
    code = "APPROVAL_MISSING"


class PlanChanged(TrainerError):
    """The YAML's bytes are not the approved ones."""

    exit_code = 5
    code = "CONFIG_HASH_MISMATCH"


class InputChanged(TrainerError):
    """Something that training will read differs from what was approved."""

    exit_code = 6
    code = "INPUT_CHANGED"


class Busy(TrainerError):
    """A lock, device or version is in use by someone else."""

    exit_code = 7
    code = "VERSION_IN_USE"


class Orphaned(TrainerError):
    """Training lives without a worker; an operator has to decide."""

    exit_code = 8
    code = "ORPHANED_TRAINING"


class HostUnfit(TrainerError):
    """This host cannot run the approved plan."""

    exit_code = 9
    code = "HOST_UNFIT"


class TrainingFailed(TrainerError):
    """Training ended without a result that can be trusted."""

    exit_code = 11
    code = "TRAINING_FAILED"


class ExportFailed(TrainerError):
    """Training is fine, but its export is not."""

    exit_code = 12
    code = "EXPORT_FAILED"


class Cancelled(TrainerError):
    """Somebody stopped the run."""

    exit_code = 13
    code = "CANCELLED"


class BackendMissing(TrainerError):
    """The backend's environment is absent or does not work."""

    exit_code = 69
    code = "BACKEND_MISSING"


class Interrupted(TrainerError):
    """A signal ended the waiting; a run that was started goes on."""

    exit_code = EXIT_INTERRUPTED
    code = "INTERRUPTED"


class DevFailed(TrainerError):
    """A dev run has shown that the plan would fail."""

    code = "DEV_FAILED"


class NotShown(TrainerError):
    """A dev run cannot show here whether the plan would work; nothing says that it would not."""

    exit_code = 3
    code = "NOT_SHOWN"


class StillRunning(TrainerError):
    """The time limit of a wait has passed; the run goes on."""

    exit_code = 75
    code = "STILL_RUNNING"
