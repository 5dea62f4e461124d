import os
import pwd
from types import SimpleNamespace

import pytest

from loopai_trainer.files import policy_files


@pytest.fixture
def home(tmp_path, monkeypatch):
    """The account's home, and a host without a policy."""
    account = tmp_path / "account"
    monkeypatch.setattr(pwd, "getpwuid", lambda uid: SimpleNamespace(pw_dir=str(account)))
    monkeypatch.setattr(policy_files, "SYSTEM", str(tmp_path / "etc" / "policy.yaml"))
    return account


def write(folder, text="approval_require: terminal\n"):
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, "policy.yaml")
    with open(path, "w") as file:
        file.write(text)
    return path


def test_the_hosts_file_lies_in_etc():
    assert policy_files.SYSTEM == "/etc/loopai-trainer/policy.yaml"
    assert policy_files.paths({})[0] == policy_files.SYSTEM


def test_nothing_that_a_caller_sets_hides_the_accounts_own_or_the_hosts(home, tmp_path):
    own = write(home / ".config" / "loopai-trainer")
    etc = write(tmp_path / "etc")
    for environ in (
        {},
        {"HOME": "/nowhere", "XDG_CONFIG_HOME": "/nowhere"},
        {"LOOPAI_TRAINER_CONFIG_DIR": str(tmp_path / "empty"), "HOME": ""},
    ):
        assert [path for path, _ in policy_files.texts(environ)] == [etc, own]


def test_what_a_caller_names_is_read_as_well(home, tmp_path):
    named = [
        write(tmp_path / "named"),
        write(tmp_path / "xdg" / "loopai-trainer"),
    ]
    environ = {"LOOPAI_TRAINER_CONFIG_DIR": str(tmp_path / "named"), "XDG_CONFIG_HOME": str(tmp_path / "xdg")}
    assert [path for path, _ in policy_files.texts(environ)] == named
    assert policy_files.texts({"XDG_CONFIG_HOME": str(tmp_path / "xdg")}) == [
        (named[1], "approval_require: terminal\n")
    ]


def test_an_account_without_a_home_is_none(monkeypatch):
    def unknown(uid):
        raise KeyError(uid)

    monkeypatch.setattr(pwd, "getpwuid", unknown)
    assert len(policy_files.paths({"XDG_CONFIG_HOME": "/x"})) == 2


def test_each_place_is_looked_into_once(home):
    assert len(policy_files.paths({"XDG_CONFIG_HOME": str(home / ".config")})) == 2


def unreadable(environ=None):
    with pytest.raises(policy_files.Unreadable) as caught:
        policy_files.texts(environ or {})
    return caught.value


def test_a_folder_file_or_link_that_leads_nowhere_is_no_absence(home, tmp_path):
    folder = home / ".config" / "loopai-trainer"
    path = write(folder)
    os.unlink(path)
    os.mkdir(path)
    assert unreadable().path == path
    os.rmdir(path)
    os.symlink(tmp_path / "gone", path)
    assert "symbolic link" in unreadable().why
    os.unlink(path)
    os.symlink(path, path)
    assert unreadable().path == path
    os.unlink(path)
    os.rmdir(folder)
    os.symlink(tmp_path / "gone", folder)
    assert "symbolic link" in unreadable().why


def test_a_file_that_the_caller_may_not_read_is_no_absence(home, monkeypatch):
    path = write(home / ".config" / "loopai-trainer")
    real = os.open

    def refusing(name, *arguments, **options):
        if name == path:
            raise PermissionError(13, "Permission denied", name)
        return real(name, *arguments, **options)

    monkeypatch.setattr(os, "open", refusing)
    assert "Permission denied" in unreadable().why


def test_a_place_below_a_file_is_an_absence(home):
    home.mkdir()
    (home / ".config").write_text("")
    assert policy_files.texts({"XDG_CONFIG_HOME": "/nowhere"}) == []


def test_what_is_no_text_or_too_large_is_refused(home):
    folder = home / ".config" / "loopai-trainer"
    path = write(folder)
    with open(path, "wb") as file:
        file.write(b"\xff")
    assert "UTF-8" in unreadable().why
    write(folder, "#" * 70_000)
    assert "larger" in unreadable().why


def test_a_linked_policy_is_read(home, tmp_path):
    """As those who keep their settings in a repository have it."""
    real = write(tmp_path / "dotfiles")
    folder = home / ".config" / "loopai-trainer"
    os.makedirs(folder)
    os.symlink(real, folder / "policy.yaml")
    assert policy_files.texts({"XDG_CONFIG_HOME": "/nowhere"}) == [
        (str(folder / "policy.yaml"), "approval_require: terminal\n")
    ]
