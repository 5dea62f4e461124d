"""A loopback endpoint that speaks OpenAI's chat completions: an agent that needs a good prompt, a critic and an editor.

`fake-agent` adds right only when its prompt says "step by step"; `fake-gradient` criticises; `fake-edit` writes a prompt
that says so. `asked` counts the calls of each model.
"""

import json
import re
import threading
import time
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

GOOD = "Think step by step, then give only the number. Question: {question}"


class PromptEndpoint:
    """Use as a context manager. `down_for`: models that answer with status 500; `keys`: what callers gave."""

    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()
        self.keys: set[str] = set()
        self.down_for: set[str] = set()
        self.pause_s = 0.0
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                endpoint.keys.add(self.headers.get("Authorization", ""))
                endpoint.asked[asked["model"]] += 1
                time.sleep(endpoint.pause_s)
                down = asked["model"] in endpoint.down_for
                document = {"error": {"message": "down"}} if down else completion(asked)
                data = json.dumps(document).encode()
                self.send_response(500 if down else 200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/v1"

    def __enter__(self) -> "PromptEndpoint":
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


def completion(asked: dict[str, Any]) -> dict[str, Any]:
    text = json.dumps(asked["messages"], ensure_ascii=False)
    replies = {"fake-gradient": "It has to say: step by step.", "fake-edit": GOOD}
    content = replies.get(asked["model"]) or sum_of(text)
    message = {"role": "assistant", "content": content}
    return {
        "id": "c-1",
        "object": "chat.completion",
        "created": 1,
        "model": asked["model"],
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
    }


def sum_of(text: str) -> str:
    found = re.search(r"(\d+) \+ (\d+)", text)
    if "step by step" not in text or found is None:
        return "perhaps"
    return str(int(found[1]) + int(found[2]))
