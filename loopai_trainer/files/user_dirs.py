"""Where the user's own files of this program live: state (index of runs), cache (hashes), data (environments), config.

They are platformdirs' folders (a test holds the two together); platformdirs itself costs more CPU to import than all of
`status --json` may use.
"""

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

NAME = "loopai-trainer"

_KINDS = {
    "state": ("LOOPAI_TRAINER_STATE_DIR", "XDG_STATE_HOME", ".local/state"),
    "cache": ("LOOPAI_TRAINER_CACHE_DIR", "XDG_CACHE_HOME", ".cache"),
    "data": ("LOOPAI_TRAINER_DATA_DIR", "XDG_DATA_HOME", ".local/share"),
    "config": ("LOOPAI_TRAINER_CONFIG_DIR", "XDG_CONFIG_HOME", ".config"),
}


def hash_cache(environ: "Mapping[str, str]") -> str:
    """The user's cache of file hashes (files.hashing)."""
    return os.path.join(user_dir("cache", environ), "hashes.jsonl")


def user_dir(kind: str, environ: "Mapping[str, str]") -> str:
    """Absolute folder of `kind` (state, cache, data, config). It need not exist."""
    own, xdg, fallback = _KINDS[kind]
    if environ.get(own):
        return os.path.abspath(environ[own])
    base = environ.get(xdg, "").strip() or os.path.join(os.path.expanduser("~"), fallback)
    return os.path.join(base, NAME)
