"""Tells what it was told, and imports the agent as each rollout's process would; then waits for ever."""

import subprocess
import sys
import time

words = dict(word.split("=", 1) for word in sys.argv[1:])
print("controller", words["runner_type"], words["agl_server.url"], words["agl_server.key"], flush=True)
code = "import importlib; module, _, name = 'agl_agent:Agent'.partition(':'); print('agent', getattr(importlib.import_module(module), name)().run(), flush=True)"
subprocess.run([sys.executable, "-c", code], check=True)
while True:
    time.sleep(1)
