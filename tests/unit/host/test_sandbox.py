"""By variable, by process 1, by a refused bind; the last two in the real thing, where this host allows one."""

import subprocess
import sys

import pytest
from fakes import sandboxes

from loopai_trainer.host import sandbox

ASK = "import os; from loopai_trainer.host import sandbox; print(sandbox.reason(os.environ))"


def asked(argv):
    done = subprocess.run([*argv, sys.executable, "-c", ASK], capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.mark.parametrize("name", ["CODEX_SANDBOX", "CODEX_SANDBOX_NETWORK_DISABLED"])
def test_a_variable_says_so(name):
    assert sandbox.reason({name: "1"}) == f"{name} is set"
    assert sandbox.reason({name: ""}) is None


def test_an_ordinary_host_is_none():
    assert sandbox.reason({"PATH": "/bin"}) is None


def test_a_pid_namespace_alone_is_none(monkeypatch, tmp_path):
    comm = tmp_path / "comm"
    comm.write_text("tini\n")
    monkeypatch.setattr(sandbox, "_PID_1", str(comm))
    assert sandbox.reason({}) is None
    comm.write_text("bwrap\n")
    assert "bwrap" in sandbox.reason({})


def test_another_failure_of_bind_is_none(monkeypatch):
    monkeypatch.setattr(sandbox, "_LOOPBACK", ("203.0.113.7", 0))  # no address of this host: EADDRNOTAVAIL
    assert sandbox.reason({}) is None


@sandboxes.needs_seccomp
@pytest.mark.parametrize("call", ["bind", "socket"])
def test_a_seccomp_filter(call):
    assert "cannot be bound" in asked(sandboxes.seccomp(call))


@sandboxes.needs_seccomp
def test_a_seccomp_filter_on_something_else_is_none():
    assert asked(sandboxes.seccomp("sethostname")) == "None"


@sandboxes.needs_bwrap
def test_a_real_bwrap():
    assert "process 1 is bwrap" in asked(sandboxes.bwrap())
