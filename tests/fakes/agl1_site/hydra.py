"""Stand-in: composes one fixed configuration."""

from contextlib import contextmanager


@contextmanager
def initialize_config_module(version_base, config_module):
    assert (version_base, config_module) == (None, "agentlightning.verl")
    yield


def compose(config_name):
    assert config_name == "config"
    return {"agentlightning": {"agl_key": "", "trace_aggregator": {"level": "trajectory"}}, "trainer": {"epochs": 1}}
