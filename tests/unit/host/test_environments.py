import json
import os

import pytest
from fakes.llamafactory_env import add_distribution, make_environment, write_program

from loopai_trainer.errors import BackendMissing
from loopai_trainer.host import environments
from loopai_trainer.host.environments import default, read_versions, resolve, spec_sha256
from loopai_trainer.records import EnvironmentSpec


@pytest.fixture
def env(tmp_path):
    return make_environment(tmp_path / "env")


@pytest.mark.parametrize("part", ["", "bin", "bin/llamafactory-cli", "bin/python", "bin/"])
def test_cfg_09a_root_bin_and_program_all_name_the_environment(env, part):
    found = resolve(str(env / part) + ("/" if part.endswith("/") else ""), "llamafactory", {}, "--env")
    assert (found.root, found.bin, found.python) == (str(env), str(env / "bin"), str(env / "bin" / "python"))
    assert found.site_packages == (str(env / "lib" / "python3.11" / "site-packages"),)
    assert found.origin == "--env"


def test_cfg_09a_nothing_falls_back_to_path_and_what_was_tried_is_listed(env, tmp_path):
    wrong = tmp_path / "wrong"
    (wrong / "bin").mkdir(parents=True)
    with pytest.raises(BackendMissing) as caught:
        resolve(str(wrong), "llamafactory", {"PATH": str(env / "bin")})
    assert caught.value.exit_code == 69
    tried = [str(wrong / "bin" / "llamafactory-cli"), str(wrong / "llamafactory-cli")]
    assert caught.value.details["tried"] == tried
    assert all(place in caught.value.message for place in tried)


def test_an_environment_without_the_program_or_python_is_refused(env):
    (env / "bin" / "llamafactory-cli").chmod(0o644)
    with pytest.raises(BackendMissing):
        resolve(str(env), "llamafactory", {})
    assert resolve(str(env), "verl", {}).root == str(env)
    (env / "bin" / "python").unlink()
    with pytest.raises(BackendMissing):
        resolve(str(env), "verl", {})


def test_a_relative_folder_and_a_home_folder(env, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert resolve("env", "llamafactory", {}).root == str(env)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert resolve("~/env", "llamafactory", {}).root == str(env)


@pytest.mark.parametrize(
    ("place", "environ"),
    [
        ("conda/envs/lf", {"CONDA_PREFIX": "conda/envs/other"}),
        ("conda/envs/lf", {"CONDA_PREFIX": "conda"}),
        ("conda/envs/lf", {"CONDA_EXE": "conda/bin/conda"}),
        ("mamba/envs/lf", {"MAMBA_ROOT_PREFIX": "mamba"}),
        ("shared/lf", {"CONDA_ENVS_PATH": "shared"}),
        ("home/miniconda3/envs/lf", {}),
        ("home/.conda/envs/lf", {}),
    ],
)
def test_a_conda_name_is_found_without_conda(tmp_path, monkeypatch, place, environ):
    monkeypatch.chdir(tmp_path)
    root = make_environment(tmp_path / place)
    known = {name: str(tmp_path / value) for name, value in environ.items()}
    assert resolve("lf", "llamafactory", {"HOME": str(tmp_path / "home"), **known}).root == str(root)


def test_condas_own_list_and_base(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    root = make_environment(tmp_path / "far" / "away" / "lf")
    (tmp_path / "home" / ".conda").mkdir(parents=True)
    (tmp_path / "home" / ".conda" / "environments.txt").write_text(f"/gone/lf\n\n{root}\n")
    home = {"HOME": str(tmp_path / "home")}
    assert resolve("lf", "llamafactory", home).root == str(root)
    base = make_environment(tmp_path / "home" / "miniforge3")
    assert resolve("base", "llamafactory", home).root == str(base)


def test_an_unknown_name_lists_every_place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(BackendMissing) as caught:
        resolve("nope", "llamafactory", {"HOME": str(tmp_path)})
    assert str(tmp_path / "miniconda3/envs/nope/bin/llamafactory-cli") in caught.value.details["tried"]


def test_versions_come_from_installed_metadata(env):
    found = read_versions(resolve(str(env), "llamafactory", {}), "llamafactory")
    assert (found.package, found.version, found.python) == ("llamafactory", "0.9.5", "3.11.7")
    assert found.package_dir == str(env / "lib/python3.11/site-packages/llamafactory")
    assert found.distributions["torch"] == "2.14.1" and len(found.sha256) == 64


def versions(env):
    return read_versions(resolve(str(env), "llamafactory", {}), "llamafactory")


def test_any_other_version_changes_the_digest(env):
    site = env / "lib/python3.11/site-packages"
    before = versions(env).sha256
    assert versions(env).sha256 == before
    added = add_distribution(site, "Some_Thing", "1.0")
    assert versions(env).distributions["some-thing"] == "1.0"
    with_more = versions(env).sha256
    assert with_more != before
    for path in added.iterdir():
        path.unlink()
    assert versions(env).sha256 == before
    (env / "pyvenv.cfg").write_text("version = 3.11.8\n")
    assert versions(env).sha256 not in (before, with_more)


def test_egg_info_counts_and_broken_metadata_does_not(env):
    site = env / "lib/python3.11/site-packages"
    (site / "old.egg-info").mkdir()
    (site / "old.egg-info" / "PKG-INFO").write_text("Name: old\nVersion: 2\n")
    (site / "older-1.egg-info").write_text("Name: older\nVersion: 3\n")
    (site / "bad-1.dist-info").mkdir()
    (site / "worse-1.dist-info").mkdir()
    (site / "worse-1.dist-info" / "METADATA").write_text("no headers\n")
    held = versions(env).distributions
    assert (held["old"], held["older"]) == ("2", "3") and not {"bad", "worse"} & set(held)


def test_an_environment_without_the_package_is_missing(env):
    with pytest.raises(BackendMissing, match="verl is not installed"):
        read_versions(resolve(str(env), "llamafactory", {}), "verl")


def test_a_checkout_that_is_installed_editable_is_found(env, tmp_path):
    site = env / "lib/python3.11/site-packages"
    for path in sorted((site / "llamafactory").rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    (site / "llamafactory").rmdir()
    with pytest.raises(BackendMissing) as caught:
        versions(env)
    assert caught.value.code == "BACKEND_BROKEN"
    source = tmp_path / "my checkout" / "src" / "llamafactory"
    source.mkdir(parents=True)
    (source / "__init__.py").write_text("")
    url = (tmp_path / "my checkout").as_uri()
    (site / "llamafactory-0.9.5.dist-info" / "direct_url.json").write_text(
        json.dumps({"url": url, "dir_info": {"editable": True}})
    )
    assert versions(env).package_dir == str(source)


@pytest.mark.parametrize(("name", "python"), [("python-3.12.4-h99_0.json", "3.12.4"), ("pip-24.json", "3.11")])
def test_the_python_of_a_conda_environment(env, name, python):
    (env / "pyvenv.cfg").unlink()
    (env / "conda-meta").mkdir()
    (env / "conda-meta" / name).write_text("{}")
    assert versions(env).python == python


SPEC = EnvironmentSpec("llamafactory", ("llamafactory==0.9.5",), "a==1\n", "")


def make_marked(data_dir, name, spec, age_s=0):
    root = make_environment(data_dir / "envs" / name)
    marker = root / environments.MARKER
    marker.write_text(json.dumps({"spec_sha256": spec_sha256(spec)}))
    os.utime(marker, (1e9 - age_s, 1e9 - age_s))
    return root


def test_the_default_is_the_newest_complete_one_with_the_current_pins(tmp_path):
    environ = {environments.DATA_DIR_VARIABLE: str(tmp_path)}
    with pytest.raises(BackendMissing) as caught:
        default(SPEC, environ)
    assert caught.value.hint.startswith("run: trainer setup llamafactory")
    make_marked(tmp_path, "llamafactory-1", SPEC, age_s=60)
    newest = make_marked(tmp_path, "llamafactory-0", SPEC)
    make_marked(tmp_path, "other-2", SPEC)
    make_marked(tmp_path, "llamafactory-3", older())
    make_environment(tmp_path / "envs" / "llamafactory-half-made")
    found = default(SPEC, environ)
    assert (found.root, found.origin) == (str(newest), "trainer setup llamafactory")


def older():
    return EnvironmentSpec(SPEC.name, SPEC.requirements, "a==2\n", "")


@pytest.mark.parametrize("text", ["", "{", "[1]"])
def test_a_marker_that_is_torn_marks_nothing(tmp_path, text):
    (tmp_path / environments.MARKER).write_text(text)
    assert environments.read_marker(str(tmp_path)) is None
    assert environments.read_marker(str(tmp_path / "none")) is None


def test_environments_lie_in_the_users_data_directory(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert environments.environments_dir({}) == str(tmp_path / "loopai-trainer" / "envs")
    monkeypatch.setenv("HOME", "/home/x")
    assert environments.environments_dir({environments.DATA_DIR_VARIABLE: "~/d"}) == "/home/x/d/envs"


def test_both_library_folders_count_once(tmp_path):
    root = make_environment(tmp_path / "env")
    (root / "lib64").symlink_to(root / "lib")
    (root / "lib" / "python3.11-extra").mkdir()
    assert len(resolve(str(root), "llamafactory", {}).site_packages) == 1


def test_a_program_that_is_a_link_counts(tmp_path):
    root = make_environment(tmp_path / "env")
    (root / "bin" / "python").unlink()
    write_program(tmp_path / "real" / "python3.11")
    (root / "bin" / "python").symlink_to(tmp_path / "real" / "python3.11")
    assert resolve(str(root), "llamafactory", {}).python == str(root / "bin" / "python")
