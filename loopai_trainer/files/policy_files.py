"""Where policy files lie, the user's and the host's, and their text. Light: `run-prepared` looks for them.

A caller can name further places by environment, never fewer: the folder of the account's own home and the host's are
always looked into.
"""

import os
import pwd

from loopai_trainer.files import user_dirs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

NAME = "policy.yaml"
SYSTEM = f"/etc/loopai-trainer/{NAME}"
_MAX_BYTES = 64 << 10


class Unreadable(Exception):
    """A policy file is there, and cannot be read."""

    def __init__(self, path: str, why: str) -> None:
        super().__init__(f"{path}: {why}")
        self.path = path
        self.why = f"{path}: {why}"


def paths(environ: "Mapping[str, str]") -> list[str]:
    """Every place of a policy file, each once."""
    plain = {name: value for name, value in environ.items() if name != "LOOPAI_TRAINER_CONFIG_DIR"}
    folders = [user_dirs.user_dir("config", environ), user_dirs.user_dir("config", plain)]
    home = _account_home()
    if home:
        # HOME and XDG_CONFIG_HOME are what the caller says they are; the account's home is what the host says.
        folders.insert(0, os.path.join(home, ".config", user_dirs.NAME))
    return list(dict.fromkeys([SYSTEM, *(os.path.join(folder, NAME) for folder in folders)]))


def texts(environ: "Mapping[str, str]") -> list[tuple[str, str]]:
    """(path, text) of the policy files that exist. Raises Unreadable for one that is there and cannot be read."""
    return [(path, text) for path in paths(environ) if (text := _text(path)) is not None]


def _text(path: str) -> str | None:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        if _dangling(path):
            raise Unreadable(path, "it is a symbolic link to nothing") from None
        return None
    except NotADirectoryError:
        return None
    except OSError as error:
        raise Unreadable(path, error.strerror or str(error)) from None
    try:
        with open(fd, "rb") as file:
            data = file.read(_MAX_BYTES + 1)
    except OSError as error:
        raise Unreadable(path, error.strerror or str(error)) from None
    if len(data) > _MAX_BYTES:
        raise Unreadable(path, f"it is larger than {_MAX_BYTES} bytes")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise Unreadable(path, f"it is not UTF-8 at byte {error.start}") from None


def _dangling(path: str) -> bool:
    """Whether the file or its folder is a link whose end is gone: then a policy may have been meant."""
    return os.path.islink(path) or os.path.islink(os.path.dirname(path))


def _account_home() -> str:
    try:
        return pwd.getpwuid(os.getuid()).pw_dir
    except KeyError:
        return ""  # a user id without an account, as in some containers
