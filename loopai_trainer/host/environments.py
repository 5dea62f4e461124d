"""Finds the Python environment of a backend and reads what it holds, without starting an interpreter in it.

Nothing falls back to PATH: an environment is what was named, or what `trainer setup` made (a wrong one trains too).
"""

import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping

from loopai_trainer.errors import BackendMissing
from loopai_trainer.host import code_digest, editable_installs
from loopai_trainer.records import Environment, EnvironmentSpec, Versions

PROGRAMS: Mapping[str, str] = {"llamafactory": "llamafactory-cli", "verl": "python", "agentlightning": "python"}
"""framework -> the program that must lie in the environment's bin folder."""

STARTED = ("llamafactory-cli", "torchrun", "accelerate", "ray")
"""Scripts of the environment's bin folder that a launch starts, itself or through the framework."""

DATA_DIR_VARIABLE = "LOOPAI_TRAINER_DATA_DIR"
MARKER = ".complete"
"""JSON written last by `trainer setup`; an environment without it is half-made."""


def resolve(name: str, framework: str, environ: Mapping[str, str], origin: str = "") -> Environment:
    """The environment called `name`: its root, its bin folder, a program in it, or the name of a conda environment.

    Raises BackendMissing; details['tried'] lists every place looked at.
    """
    program = PROGRAMS.get(framework, "python")
    tried: list[str] = []
    for root in _candidate_roots(name, environ):
        for folder in (os.path.join(root, "bin"), root):
            tried.append(os.path.join(folder, program))
            if _is_program(tried[-1]) and _is_program(os.path.join(folder, "python")):
                return _environment(folder, origin)
    raise BackendMissing(
        f"no {framework} environment at {name!r}: none of these is there\n  " + "\n  ".join(tried),
        hint=f"name the environment's root, its bin folder or its conda name, or run: trainer setup {framework}",
        details={"tried": tried},
    )


def default(spec: EnvironmentSpec, environ: Mapping[str, str]) -> Environment:
    """The newest environment that `trainer setup` completed with this spec's constraints. Raises BackendMissing."""
    home = environments_dir(environ)
    found: list[tuple[float, str]] = []
    for name in sorted(os.listdir(home)) if os.path.isdir(home) else []:
        root = os.path.join(home, name)
        marker = read_marker(root)
        if name.startswith(spec.name + "-") and marker and marker.get("spec_sha256") == spec_sha256(spec):
            found.append((os.stat(os.path.join(root, MARKER)).st_mtime, root))
    if found:
        return resolve(max(found)[1], spec.name, environ, f"trainer setup {spec.name}")
    if spec.conda_name:
        try:
            return resolve(spec.conda_name, spec.name, environ, f"the conda environment {spec.conda_name}")
        except BackendMissing:
            pass  # what follows says how to get one
    raise BackendMissing(
        f"no environment for {spec.name}: none was named, and `trainer setup` has made none in {home}",
        hint=f"run: trainer setup {spec.name}, or name an environment with --env",
        details={"tried": [home, *([f"conda environment {spec.conda_name}"] if spec.conda_name else [])]},
    )


def environments_dir(environ: Mapping[str, str]) -> str:
    """Where `trainer setup` puts environments: LOOPAI_TRAINER_DATA_DIR, else the user's data directory, then `envs`."""
    override = environ.get(DATA_DIR_VARIABLE)
    if override:
        return os.path.join(os.path.abspath(os.path.expanduser(override)), "envs")
    import platformdirs

    return os.path.join(platformdirs.user_data_path("loopai-trainer"), "envs")


def spec_sha256(spec: EnvironmentSpec, python: str = "") -> str:
    """Digest of what is installed: constraints, requirements and, for a folder's name, Python's minor version."""
    text = "\n".join((spec.constraints, *spec.requirements, python))
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


def read_marker(root: str) -> dict[str, object] | None:
    """What `trainer setup` wrote when the environment was complete; None if it is not."""
    try:
        with open(os.path.join(root, MARKER), "rb") as file:
            marker = json.load(file)
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return None
    return marker if isinstance(marker, dict) else None


def read_versions(environment: Environment, package: str) -> Versions:
    """What the environment holds. `sha256`: digest of its name==version lines, its Python and the package's code.

    Raises BackendMissing if `package` is not installed there, or its code cannot be read.
    """
    held = dict(sorted(_distributions(environment.site_packages)))
    wanted = _normalise(package)
    if wanted not in held:
        raise BackendMissing(
            f"{package} is not installed in {environment.root}",
            hint=f"name another environment with --env, or run: trainer setup {package}",
            details={"tried": list(environment.site_packages)},
        )
    python = _python_version(environment)
    package_dir = _package_dir(environment, package)
    editable = editable_installs.editable(environment.site_packages)
    code = _code_sha256(package_dir, environment, [folder for name, folder in editable.items() if name != wanted])
    lines = [f"{name}=={version}" for name, version in held.items()]
    # Which interpreter the name leads to: a link that is turned to another one must not go unseen.
    lines += [f"python=={python}", f"interpreter=={os.path.realpath(environment.python)}", f"code=={code}"]
    return Versions(
        package=package,
        version=held[wanted],
        python=python,
        package_dir=package_dir,
        distributions=held,
        sha256=hashlib.sha256("\n".join(lines).encode("utf-8")).hexdigest(),
        site_packages=environment.site_packages,
        code_sha256=code,
        editable=editable,
        system_packages=_sees_system_packages(environment.root),
    )


def _code_sha256(package_dir: str, environment: Environment, elsewhere: list[str]) -> str:
    programs = [os.path.join(environment.bin, name) for name in STARTED]
    try:
        return code_digest.code_sha256(package_dir, environment.site_packages, elsewhere, programs)
    except OSError as error:
        raise BackendMissing(
            f"{error.filename} cannot be read: {error.strerror}",
            code="BACKEND_BROKEN",
            hint="see to its permissions: code that cannot be read cannot be approved",
        ) from None


def _environment(bin_dir: str, origin: str) -> Environment:
    root = os.path.dirname(bin_dir)
    return Environment(root, bin_dir, os.path.join(bin_dir, "python"), _site_packages(root), origin)


def _site_packages(root: str) -> tuple[str, ...]:
    """lib and lib64 (where they differ), every `python3.N` of them."""
    found: dict[str, str] = {}
    for lib in ("lib", "lib64"):
        folder = os.path.join(root, lib)
        for name in sorted(os.listdir(folder)) if os.path.isdir(folder) else []:
            path = os.path.join(folder, name, "site-packages")
            if re.fullmatch(r"python3\.\d+t?", name) and os.path.isdir(path):
                found.setdefault(os.path.realpath(path), path)
    return tuple(found.values())


def _is_program(path: str) -> bool:
    return os.path.isfile(path) and os.access(path, os.X_OK)


def _candidate_roots(name: str, environ: Mapping[str, str]) -> Iterator[str]:
    path = os.path.abspath(os.path.expanduser(name))
    if os.sep in name or name.startswith("~") or os.path.isdir(path):
        yield os.path.dirname(path) if os.path.isfile(path) else path
        if os.sep in name or name.startswith("~"):
            return
    seen: set[str] = set()
    for root in _conda_roots(name, environ):
        if root not in seen:
            seen.add(root)
            yield root


def _conda_roots(name: str, environ: Mapping[str, str]) -> Iterator[str]:
    """Where conda, mamba and micromamba keep an environment of that name; `base` is the installation itself."""
    home = environ.get("HOME") or os.path.expanduser("~")
    for installation in _conda_installations(home, environ):
        yield installation if name == "base" else os.path.join(installation, "envs", name)
    for folder in (environ.get("CONDA_ENVS_PATH") or environ.get("CONDA_ENVS_DIRS") or "").split(os.pathsep):
        if folder:
            yield os.path.join(folder, name)
    yield os.path.join(home, ".conda", "envs", name)
    for root in _listed_conda_environments(home):
        if os.path.basename(root) == name:
            yield root


def _conda_installations(home: str, environ: Mapping[str, str]) -> Iterator[str]:
    prefix = environ.get("CONDA_PREFIX")
    if prefix:
        parent, folder = os.path.split(os.path.dirname(prefix))
        yield parent if folder == "envs" else prefix
    if environ.get("CONDA_EXE"):
        yield os.path.dirname(os.path.dirname(environ["CONDA_EXE"]))
    if environ.get("MAMBA_ROOT_PREFIX"):
        yield environ["MAMBA_ROOT_PREFIX"]
    for base in (home, "/opt"):
        for folder in ("miniconda3", "anaconda3", "miniforge3", "mambaforge", "micromamba", "conda"):
            yield os.path.join(base, folder)


def _listed_conda_environments(home: str) -> list[str]:
    """Conda notes every environment that it makes in this file."""
    try:
        with open(os.path.join(home, ".conda", "environments.txt"), encoding="utf-8", errors="replace") as file:
            return [line.strip() for line in file if line.strip()]
    except OSError:
        return []


def _normalise(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _distributions(site_packages: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """(normalised name, version) of every installed distribution; the metadata file decides, not the folder's name."""
    for folder in reversed(site_packages):
        for entry in os.listdir(folder):
            if entry.endswith(".dist-info"):
                yield from _named_in(os.path.join(folder, entry, "METADATA"))
            elif entry.endswith(".egg-info"):
                path = os.path.join(folder, entry)
                yield from _named_in(os.path.join(path, "PKG-INFO") if os.path.isdir(path) else path)


def _named_in(metadata_path: str) -> Iterator[tuple[str, str]]:
    try:
        with open(metadata_path, encoding="utf-8", errors="replace") as file:
            headers = _headers(file)
    except OSError:
        return
    name, version = headers.get("name"), headers.get("version")
    if name and version:
        yield _normalise(name), version


def _headers(file: Iterator[str]) -> dict[str, str]:
    """Name and version of a metadata file (core metadata: one unfolded `Name: value` a line, up to a blank line).

    The email package would do it too, at the price of all else that happens before training's exec.
    """
    found: dict[str, str] = {}
    for line in file:
        key, colon, value = line.partition(":")
        if not line.strip() or len(found) == 2:
            break
        if colon and key.lower() in ("name", "version"):
            found.setdefault(key.lower(), value.strip())
    return found


def _python_version(environment: Environment) -> str:
    """From pyvenv.cfg or conda-meta; else the minor version in the name of the library folder."""
    try:
        with open(os.path.join(environment.root, "pyvenv.cfg"), encoding="utf-8") as file:
            found = re.search(r"^version(?:_info)?\s*=\s*(\d+\.\d+\.\d+)", file.read(), re.MULTILINE)
            if found:
                return found.group(1)
    except OSError:
        pass
    meta = os.path.join(environment.root, "conda-meta")
    for name in sorted(os.listdir(meta)) if os.path.isdir(meta) else []:
        conda = re.fullmatch(r"python-(\d+\.\d+\.\d+)-.*\.json", name)
        if conda:
            return conda.group(1)
    for path in environment.site_packages:
        return os.path.basename(os.path.dirname(path)).removeprefix("python")
    return "unknown"


def _sees_system_packages(root: str) -> bool:
    """Whether packages of the Python that the environment was made with can be imported from it (PEP 405)."""
    try:
        with open(os.path.join(root, "pyvenv.cfg"), encoding="utf-8") as file:
            return re.search(r"(?im)^include-system-site-packages\s*=\s*true\s*$", file.read()) is not None
    except OSError:
        return False


def _package_dir(environment: Environment, package: str) -> str:
    """The folder that `import package` would find: in site-packages, or the checkout of an editable install."""
    module = package.replace("-", "_")
    for folder in environment.site_packages:
        direct = os.path.join(folder, module)
        if os.path.isfile(os.path.join(direct, "__init__.py")):
            return direct
    for checkout in editable_installs.folders_of(environment.site_packages, _normalise(package)):
        for path in (os.path.join(checkout, "src", module), os.path.join(checkout, module)):
            if os.path.isfile(os.path.join(path, "__init__.py")):
                return path
    raise BackendMissing(
        f"{package} is listed in {environment.root}, but its code is not there",
        code="BACKEND_BROKEN",
        hint=f"install {package} again in that environment, or run: trainer setup {package}",
    )
