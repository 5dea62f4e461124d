"""Stand-in: composes one fixed configuration, as Agent Lightning 0.3.0 asks for it."""

from contextlib import contextmanager


@contextmanager
def initialize(version_base, config_path):
    assert (version_base, config_path) == (None, "pkg://agentlightning/verl")
    yield


def compose(config_name):
    assert config_name == "config"
    return {"agentlightning": {"port": 9999}, "trainer": {"total_epochs": 30, "project_name": "theirs"}}
