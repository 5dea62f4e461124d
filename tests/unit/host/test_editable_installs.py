import json

import pytest
from fakes.llamafactory_env import add_distribution, make_environment, versions_of

from loopai_trainer.host import editable_installs


@pytest.fixture
def env(tmp_path):
    return make_environment(tmp_path / "env")


def install(env, tmp_path, name="my_tools", **dir_info):
    """A distribution that lies in a folder elsewhere."""
    source = tmp_path / "a source"
    (source / "src").mkdir(parents=True)
    (source / "src" / "code.py").write_text("1\n")
    folder = add_distribution(env / "lib/python3.11/site-packages", name, "1.0")
    url = "file://" + str(source).replace(" ", "%20")
    (folder / "direct_url.json").write_text(json.dumps({"url": url, "dir_info": dir_info}))
    return source


def test_an_editable_install_is_found_with_its_folder(env, tmp_path):
    source = install(env, tmp_path, editable=True)
    site = [str(env / "lib/python3.11/site-packages")]
    assert editable_installs.editable(site) == {"my-tools": str(source)}
    assert list(editable_installs.folders_of(site, "my-tools")) == [str(source)]
    assert dict(versions_of(env).editable) == {"my-tools": str(source)}


def test_one_that_was_copied_in_is_none(env, tmp_path):
    install(env, tmp_path)
    assert versions_of(env).editable == {}


@pytest.mark.parametrize("text", ["{", "[]", '{"url": "https://example.org/x.whl"}', '{"url": null}', "{}"])
def test_other_records_are_none(env, text):
    folder = add_distribution(env / "lib/python3.11/site-packages", "x", "1")
    (folder / "direct_url.json").write_text(text)
    assert versions_of(env).editable == {}


def test_code_elsewhere_is_in_the_digest(env, tmp_path):
    source = install(env, tmp_path, editable=True)
    before = versions_of(env)
    assert versions_of(env) == before
    (source / "src" / "code.py").write_text("2\n")
    assert versions_of(env).sha256 != before.sha256
    assert versions_of(env).code_sha256 != before.code_sha256


def test_what_git_keeps_beside_it_is_not(env, tmp_path):
    source = install(env, tmp_path, editable=True)
    before = versions_of(env)
    (source / ".git").mkdir()
    (source / ".git" / "hook.py").write_text("x")
    assert versions_of(env) == before


@pytest.mark.parametrize("name", ["llamafactory-cli", "torchrun"])
def test_the_started_programs_are_in_the_digest(env, name):
    before = versions_of(env).sha256
    (env / "bin" / name).write_text("#!/bin/sh\nexit 1\n")
    assert versions_of(env).sha256 != before


def test_an_interpreter_link_that_was_turned_is_seen(env, tmp_path):
    python = env / "bin" / "python"
    for name in ("one", "two"):
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
    python.unlink()
    python.symlink_to(tmp_path / "one")
    before = versions_of(env).sha256
    python.unlink()
    python.symlink_to(tmp_path / "two")
    assert versions_of(env).sha256 != before


@pytest.mark.parametrize(("line", "seen"), [("true", True), ("TRUE", True), ("false", False)])
def test_system_packages_are_told(env, line, seen):
    with (env / "pyvenv.cfg").open("a") as file:
        file.write(f"include-system-site-packages = {line}\n")
    assert versions_of(env).system_packages is seen
