"""Whether this process runs inside an agent's sandbox, where a detached worker would be killed and no socket opens.

Light on purpose: `run-prepared` asks before anything else. Source: codex 0.171.0, measured: its sandbox is
`bwrap --die-with-parent --unshare-pid`, which kills every child at its end, and bind() gives EPERM there.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

_VARIABLES = "CODEX_SANDBOX"
_PID_1 = "/proc/1/comm"
_LOOPBACK = ("127.0.0.1", 0)
_REFUSALS = (1, 13)
"""EPERM (a seccomp filter) and EACCES (a security module). EADDRNOTAVAIL is a host without a loopback: no sandbox."""


def reason(environ: "Mapping[str, str]") -> str | None:
    """Why this is a sandbox; None if it is none. A container's pid namespace alone is none (interface section 7)."""
    for name in sorted(environ):
        if name.startswith(_VARIABLES) and environ[name]:
            return f"{name} is set"
    if _name_of_pid_1() == "bwrap":
        return "process 1 is bwrap: what is started here ends with it"
    refused = _bind_refused()
    return f"a socket cannot be bound to 127.0.0.1 ({refused})" if refused else None


def _name_of_pid_1() -> str:
    try:
        with open(_PID_1, encoding="utf-8", errors="replace") as file:
            return file.read().strip()
    except OSError:
        return ""


def _bind_refused() -> str:
    """The kernel's words if binding is forbidden; empty if it works, or fails for another reason."""
    import _socket  # what `socket` wraps; `socket` itself costs more than all the rest of this check

    try:
        probe = _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM | _socket.SOCK_CLOEXEC)
    except OSError as error:
        return str(error.strerror) if error.errno in _REFUSALS else ""
    try:
        probe.bind(_LOOPBACK)
    except OSError as error:
        return str(error.strerror) if error.errno in _REFUSALS else ""
    finally:
        probe.close()
    return ""
