"""The agent's class under a name that Agent Lightning 1.x can import in the process of each rollout."""

from __future__ import annotations

import json
import os

import agl_parts

with open(os.environ["LOOPAI_AGENT_PLAN"], encoding="utf-8") as _file:
    _document = json.load(_file)
agl_parts.pin(_document["files"])
_spec = _document["native"]["agent"]
Agent = agl_parts.load_file(_spec["file"], _spec["name"])
