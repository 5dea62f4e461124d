"""Real sandboxes for tests: bwrap as coding agents start it, and a seccomp filter that refuses one system call.

Run as a program (`python sandboxes.py CALL PROGRAM ...`) it puts the filter on itself and becomes PROGRAM.
"""

import ctypes
import os
import platform
import shutil
import struct
import subprocess
import sys

NUMBERS = {
    "x86_64": (0xC000003E, {"bind": 49, "socket": 41, "sethostname": 170}),
    "aarch64": (0xC00000B7, {"bind": 200, "socket": 198, "sethostname": 161}),
}
"""Machine -> (AUDIT_ARCH of linux/audit.h, system call numbers of asm/unistd.h)."""

PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2
LOAD, JUMP_IF_EQUAL, RETURN = 0x20, 0x15, 0x06
ALLOW, REFUSE = 0x7FFF0000, 0x00050000 | 1  # SECCOMP_RET_ALLOW; SECCOMP_RET_ERRNO with EPERM


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_void_p))


def seccomp(call: str) -> list[str]:
    """Words before a program's own: it runs with that system call refused (EPERM)."""
    return [sys.executable, "-I", os.path.abspath(__file__), call]


def bwrap(*more: str) -> list[str]:
    """The same for bwrap: everything read-only, own pid namespace, children die with it (as codex 0.171.0 does it)."""
    flags = ["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--unshare-pid", "--new-session"]
    return ["bwrap", *flags, "--die-with-parent", *more]


def _works(argv: list[str]) -> bool:
    try:
        return subprocess.run([*argv, "true"], capture_output=True, timeout=60, check=False).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


def _why_no_bwrap() -> str:
    if not shutil.which("bwrap"):
        return "bwrap is not installed (Debian package bubblewrap)"
    return "" if _works(bwrap()) else "this host lets bwrap make no namespaces"


def _why_no_seccomp() -> str:
    if platform.machine() not in NUMBERS:
        return f"no system call numbers for {platform.machine()} in tests/fakes/sandboxes.py"
    return "" if _works(seccomp("sethostname")) else "this host takes no seccomp filter"


def _marks():
    import pytest

    no_bwrap, no_seccomp = _why_no_bwrap(), _why_no_seccomp()
    return pytest.mark.skipif(bool(no_bwrap), reason=no_bwrap), pytest.mark.skipif(bool(no_seccomp), reason=no_seccomp)


def refuse(call: str) -> None:
    """Put the filter on this process: `call` gives EPERM from now on, here and in all children."""
    arch, numbers = NUMBERS[platform.machine()]
    rules = [
        (LOAD, 0, 0, 4),  # seccomp_data.arch
        (JUMP_IF_EQUAL, 0, 3, arch),
        (LOAD, 0, 0, 0),  # seccomp_data.nr
        (JUMP_IF_EQUAL, 0, 1, numbers[call]),
        (RETURN, 0, 0, REFUSE),
        (RETURN, 0, 0, ALLOW),
    ]
    code = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *rule) for rule in rules))
    program = _Program(len(rules), ctypes.cast(code, ctypes.c_void_p))
    libc = ctypes.CDLL(None, use_errno=True)
    zero = ctypes.c_ulong(0)
    if libc.prctl(PR_SET_NO_NEW_PRIVS, ctypes.c_ulong(1), zero, zero, zero) != 0:
        raise OSError(ctypes.get_errno(), "PR_SET_NO_NEW_PRIVS")
    mode = ctypes.c_ulong(SECCOMP_MODE_FILTER)
    if libc.prctl(PR_SET_SECCOMP, mode, ctypes.byref(program), zero, zero) != 0:
        raise OSError(ctypes.get_errno(), "PR_SET_SECCOMP")


if __name__ == "__main__":
    refuse(sys.argv[1])
    os.execvp(sys.argv[2], sys.argv[2:])
else:
    needs_bwrap, needs_seccomp = _marks()
