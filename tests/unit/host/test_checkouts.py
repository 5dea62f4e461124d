import os
import shutil
import subprocess

import pytest

from loopai_trainer.host import checkouts

needs_git = pytest.mark.skipif(not shutil.which("git"), reason="git is not installed")
NAME = {f"GIT_{who}_{what}": "t@example.org" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}


def git(folder, *words):
    env = {**os.environ, **NAME, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null"}
    argv = ["git", "-C", str(folder), *words]
    return subprocess.run(argv, check=True, capture_output=True, text=True, env=env).stdout.strip()


@pytest.fixture
def checkout(tmp_path):
    top = tmp_path / "checkout"
    (top / "src" / "pkg").mkdir(parents=True)
    (top / "src" / "pkg" / "__init__.py").write_text("")
    git(tmp_path, "init", "-q", "-b", "main", str(top))
    git(top, "add", "-A")
    git(top, "commit", "-q", "-m", "first")
    return top


@needs_git
def test_a_clean_checkout(checkout):
    head = git(checkout, "rev-parse", "HEAD")
    assert checkouts.read(str(checkout / "src" / "pkg")) == checkouts.Checkout(str(checkout), head, False)


@needs_git
@pytest.mark.parametrize("name", ["src/pkg/__init__.py", "src/pkg/new.py"])
def test_a_changed_or_unknown_file_makes_it_dirty(checkout, name):
    (checkout / name).write_text("print(1)\n")
    assert checkouts.read(str(checkout)).dirty is True


@needs_git
@pytest.mark.parametrize("how", ["detached", "packed", "tag_packed", "worktree"])
def test_the_commit_is_found_wherever_git_keeps_it(checkout, tmp_path, how):
    head, top = git(checkout, "rev-parse", "HEAD"), checkout
    if how == "detached":
        git(checkout, "checkout", "-q", "--detach")
    elif how == "worktree":
        top = tmp_path / "tree"
        git(checkout, "worktree", "add", "-q", "-b", "side", str(top))
    else:
        if how == "tag_packed":
            git(checkout, "tag", "v1")
        git(checkout, "pack-refs", "--all")
        assert not (checkout / ".git" / "refs" / "heads" / "main").exists()
    assert checkouts.commit_of(str(top)) == head


@needs_git
def test_no_hook_of_the_checkout_runs(checkout, tmp_path):
    hook = tmp_path / "hook"
    hook.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    hook.chmod(0o755)
    git(checkout, "config", "core.fsmonitor", str(hook))
    checkouts.read(str(checkout))
    assert not (tmp_path / "ran").exists()


def test_no_checkout_an_unborn_one_and_a_broken_one(tmp_path):
    assert checkouts.find("/") is None
    (tmp_path / ".git").mkdir()
    assert checkouts.read(str(tmp_path)) is None
    (tmp_path / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    assert checkouts.commit_of(str(tmp_path)) is None


def test_without_git_nobody_says_that_it_is_clean(tmp_path, monkeypatch):
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "HEAD").write_text("a" * 40 + "\n")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert checkouts.read(str(tmp_path)) == checkouts.Checkout(str(tmp_path), "a" * 40, None)
