"""Ray's job client in the small: what `ray.job_submission` offers, over a dictionary instead of a cluster."""

import os
import sys
import types
from typing import Any


class AuthenticationError(Exception):
    pass


class Status:
    def __init__(self, name: str) -> None:
        self.name = name

    def is_terminal(self) -> bool:
        return self.name in ("STOPPED", "SUCCEEDED", "FAILED")


class JobServer:
    """`jobs`: submission id -> what was submitted, and its `status`; `error`: what each request raises, if anything."""

    def __init__(self) -> None:
        self.jobs: dict[str, dict[str, Any]] = {}
        self.error: Exception | None = None
        self.addresses: list[str] = []
        self.timeouts: set[object] = set()
        self.seen_overrides: list[str] = []

    def install(self, monkeypatch: Any) -> None:
        """Put the modules in the place of Ray's."""
        from loopai_trainer.executors.ray_jobs import client

        ray = types.ModuleType("ray")
        submission, exceptions = types.ModuleType("ray.job_submission"), types.ModuleType("ray.exceptions")
        submission.JobSubmissionClient = type("JobSubmissionClient", (Client,), {"server": self})  # type: ignore[attr-defined]
        exceptions.AuthenticationError = AuthenticationError  # type: ignore[attr-defined]
        for module in (ray, submission, exceptions):
            monkeypatch.setitem(sys.modules, module.__name__, module)
        monkeypatch.setattr(client, "_clients", {})
        monkeypatch.setattr(client, "_silent", {})
        monkeypatch.setattr(client, "_why", {})


class Client:
    server: JobServer

    def __init__(self, address: str) -> None:
        self.server.seen_overrides += [name for name in os.environ if name == "RAY_ADDRESS"]
        self.server.addresses.append(address)
        self._address = address
        self._do_request("GET", "/api/version")

    def _do_request(self, method: str, endpoint: str, **words: Any) -> Any:
        self.server.timeouts.add(words.get("timeout"))
        if self.server.error is not None:
            raise self.server.error
        return endpoint

    def _job(self, name: str) -> dict[str, Any]:
        self._do_request("GET", f"/api/jobs/{name}")
        if name not in self.server.jobs:
            raise RuntimeError(f"Request failed with status code 404: Job {name} does not exist.")
        return self.server.jobs[name]

    def submit_job(self, *, submission_id: str, **words: Any) -> str:
        self._do_request("POST", "/api/jobs/")
        if submission_id in self.server.jobs:
            raise RuntimeError(f"Request failed with status code 500: Job {submission_id} already exists.")
        self.server.jobs[submission_id] = {"status": "PENDING", "message": "", "log": "", **words}
        return submission_id

    def get_job_status(self, name: str) -> Status:
        return Status(self._job(name)["status"])

    def get_job_info(self, name: str) -> Any:
        return types.SimpleNamespace(message=self._job(name)["message"])

    def get_job_logs(self, name: str) -> str:
        return str(self._job(name)["log"])

    def stop_job(self, name: str) -> bool:
        self._job(name)["status"] = "STOPPED"
        return True

    def delete_job(self, name: str) -> bool:
        del self.server.jobs[name]
        return True
