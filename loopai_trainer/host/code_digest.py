"""One digest of the code that an environment's metadata says nothing of: a package's own files and start-up hooks.

It is read on the way to training's exec, so it stays with hashlib and os.
"""

import hashlib
import os
from collections.abc import Iterator, Sequence

CODE_ENDINGS = (".py", ".so", ".pth")
HOOKS = ("sitecustomize", "usercustomize", "__editable__")
"""What every interpreter of the environment runs, or is led astray by, before the package's first line."""

_PIECE_BYTES = 1 << 20


def code_sha256(
    package_dir: str, site_packages: Sequence[str], elsewhere: Sequence[str] = (), programs: Sequence[str] = ()
) -> str:
    """SHA-256 (hex) over name and content of every code file of the package and of the hooks beside it, sorted.

    `elsewhere`: folders of editable installs; `programs`: what a launch starts (scripts in the environment's bin).
    Raises OSError.
    """
    digest = hashlib.sha256()
    named = [("package", package_dir, path) for path in _code_files(package_dir)]
    for folder in site_packages:
        named += [("site", folder, path) for path in _hooks(folder)]
    for folder in elsewhere:
        named += [(f"editable {folder}", folder, path) for path in _code_files(folder)]
    named += [("program", os.path.dirname(path), path) for path in programs if os.path.isfile(path)]
    for kind, base, path in sorted(named):
        # The length ends the content, so that no two trees give one stream.
        name = os.fsencode(f"{kind}/{os.path.relpath(path, base)}")
        digest.update(b"%d %s " % (len(name), name))
        digest.update(b" %d\n" % _add_content(digest, path))
    return digest.hexdigest()


def _add_content(digest: "hashlib._Hash", path: str) -> int:
    size = 0
    with open(path, "rb", buffering=0) as file:
        while piece := file.read(_PIECE_BYTES):
            digest.update(piece)
            size += len(piece)
    return size


def _code_files(folder: str) -> Iterator[str]:
    """Links to folders are followed once: what lies behind them is imported too."""
    seen = set()
    for parent, folders, names in os.walk(folder, followlinks=True, onerror=_raise):
        real = os.path.realpath(parent)
        folders[:] = [] if real in seen else sorted(filter(_may_hold_code, folders))
        if real not in seen:
            seen.add(real)
            yield from (os.path.join(parent, name) for name in names if name.endswith(CODE_ENDINGS))


def _may_hold_code(folder: str) -> bool:
    # .git and the like cannot be imported, and change by themselves.
    return folder != "__pycache__" and not folder.startswith(".")


def _hooks(site_packages: str) -> Iterator[str]:
    for entry in os.scandir(site_packages):
        hook = entry.name.startswith(HOOKS)
        if hook and entry.is_dir():
            yield from _code_files(entry.path)
        elif entry.is_file() and (entry.name.endswith(".pth") or (hook and entry.name.endswith(CODE_ENDINGS))):
            yield entry.path


def _raise(error: OSError) -> None:
    raise error
