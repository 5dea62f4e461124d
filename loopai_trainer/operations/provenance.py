"""Where a backend's code comes from, for the plan: its checkout with commit, and what is run from outside of its
environment."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from loopai_trainer.host import checkouts
from loopai_trainer.records import Problem, Versions


def entry(versions: Versions, backend_dir: str = "") -> dict[str, Any]:
    """What `loopai.backend` says besides; empty for a package that was installed in the ordinary way.

    `checkout`: that of the package's code, else the one that the setting `backend_dir` names. `editable`: every package
    that is run from elsewhere. `system_packages`: true if packages outside of the environment can be imported.
    """
    found: dict[str, Any] = {}
    checkout = _checkout(versions) or (checkouts.read(backend_dir) if backend_dir else None)
    if checkout is not None:
        found["checkout"] = {"path": checkout.path, "commit": checkout.commit, "dirty": checkout.dirty}
    if versions.editable:
        found["editable"] = dict(versions.editable)
    if versions.system_packages:
        found["system_packages"] = True
    return found


def remarks(versions: Versions, backend_dir: str) -> list[Problem]:
    """A warning if the checkout that the settings name is not what training would run."""
    if not backend_dir or _is_inside(versions.package_dir, backend_dir):
        return []
    message = f"the code that trains is {versions.package_dir}; the checkout {backend_dir} is not used"
    hint = "install the checkout in that environment (pip install -e) if it is to train, else leave it out"
    return [Problem("warning", "CHECKOUT_NOT_USED", "environment", message, hint, path=backend_dir)]


def changes(pinned: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """(what, expected, got) if the checkout of a plan's `loopai.backend` stands at another commit now.

    Changed files of it are in the digest of the code; only what git says of them is not asked again.
    """
    checkout = pinned.get("checkout")
    if not isinstance(checkout, dict):
        return []
    expected, got = str(checkout.get("commit")), checkouts.commit_of(str(checkout.get("path"))) or "none"
    return [(f"commit of {checkout.get('path')}", expected, got)] if expected != got else []


def _checkout(versions: Versions) -> checkouts.Checkout | None:
    """Only for code outside of site-packages: an environment that lies inside somebody's checkout is no part of it."""
    if any(_is_inside(versions.package_dir, folder) for folder in versions.site_packages):
        return None
    return checkouts.read(versions.package_dir)


def _is_inside(path: str, folder: str) -> bool:
    return (os.path.realpath(path) + os.sep).startswith(os.path.realpath(folder) + os.sep)
