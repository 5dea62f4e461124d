"""Distributions that an environment runs from a folder elsewhere (PEP 610, PEP 660): their code is not in it.

Light on purpose: it is read on the way to training's exec.
"""

import json
import os
from collections.abc import Iterator, Sequence


def editable(site_packages: Sequence[str]) -> dict[str, str]:
    """Normalised name -> folder of each editable install, by direct_url.json, sorted by name."""
    return dict(sorted((name, folder) for name, folder, is_editable in _local(site_packages) if is_editable))


def folders_of(site_packages: Sequence[str], name: str) -> Iterator[str]:
    """Folders that the distribution `name` (normalised) was installed from, editable or not."""
    return (folder for found, folder, _ in _local(site_packages) if found == name)


def _local(site_packages: Sequence[str]) -> Iterator[tuple[str, str, bool]]:
    for site in site_packages:
        for entry in os.listdir(site):
            if not entry.endswith(".dist-info"):
                continue
            try:
                with open(os.path.join(site, entry, "direct_url.json"), "rb") as file:
                    record = json.load(file)
            except (OSError, ValueError):
                continue
            url = str(record.get("url", "")) if isinstance(record, dict) else ""
            if url.startswith("file://"):
                from urllib.parse import unquote, urlsplit

                directory = record.get("dir_info")
                is_editable = isinstance(directory, dict) and directory.get("editable") is True
                name = entry.partition("-")[0].replace("_", "-").replace(".", "-").lower()
                yield name, unquote(urlsplit(url).path), is_editable
