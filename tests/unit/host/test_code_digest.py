import os

import pytest
from fakes.llamafactory_env import make_environment, versions_of

from loopai_trainer.errors import BackendMissing


@pytest.fixture
def env(tmp_path):
    return make_environment(tmp_path / "env")


@pytest.fixture
def site(env):
    return env / "lib/python3.11/site-packages"


def digests(env):
    found = versions_of(env)
    return found.code_sha256, found.sha256


@pytest.mark.parametrize(
    "name",
    [
        "llamafactory/__init__.py", "llamafactory/train/new/deep.py", "llamafactory/fast.so", "hook.pth", "sitecustomize.py",
        "usercustomize.py", "sitecustomize/__init__.py", "sitecustomize.cpython-311-x86_64-linux-gnu.so", "__editable___x_finder.py",
    ],
)  # fmt: skip
def test_code_that_changes_or_comes_changes_both_digests(env, site, name):
    before = digests(env)
    assert digests(env) == before
    (site / name).parent.mkdir(parents=True, exist_ok=True)
    (site / name).write_text("print(1)\n")
    first = digests(env)
    assert first[0] != before[0] and first[1] != before[1]
    (site / name).write_text("print(2)\n")  # same size, another content
    assert digests(env)[0] not in (before[0], first[0])


@pytest.mark.parametrize("name", ["llamafactory/__pycache__/x.py", "llamafactory/notes.txt", "other/x.py", "plain.py"])
def test_what_is_no_code_of_the_package_leaves_them(env, site, name):
    before = digests(env)
    (site / name).parent.mkdir(parents=True, exist_ok=True)
    (site / name).write_text("x")
    assert digests(env) == before


def test_a_package_that_changes_leaves_the_code_digest(env, site):
    before = digests(env)
    (site / "torch-2.14.1.dist-info" / "METADATA").write_text("Name: torch\nVersion: 2.15\n\n")
    code, everything = digests(env)
    assert code == before[0] and everything != before[1]


def test_content_that_moves_to_another_file_is_another_code(env, site):
    (site / "llamafactory/a.py").write_text("1")
    (site / "llamafactory/b.py").write_text("")
    before = digests(env)
    (site / "llamafactory/a.py").write_text("")
    (site / "llamafactory/b.py").write_text("1")
    assert digests(env)[0] != before[0]


def test_the_same_code_in_another_folder_is_the_same(env, tmp_path):
    assert digests(make_environment(tmp_path / "elsewhere"))[0] == digests(env)[0]


def test_linked_folders_count_and_a_loop_ends(env, site, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "x.py").write_text("1")
    (site / "llamafactory/linked").symlink_to(outside)
    (outside / "back").symlink_to(site / "llamafactory")
    before = digests(env)
    (outside / "x.py").write_text("2")
    assert digests(env)[0] != before[0]


def test_code_that_cannot_be_read_is_told(env, site):
    (site / "llamafactory/gone.py").symlink_to("nowhere.py")
    with pytest.raises(BackendMissing) as caught:
        versions_of(env)
    assert caught.value.code == "BACKEND_BROKEN" and "gone.py" in caught.value.message
    os.unlink(site / "llamafactory/gone.py")
    versions_of(env)
