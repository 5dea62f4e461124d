import platformdirs
import pytest

from loopai_trainer.files.user_dirs import user_dir


@pytest.mark.parametrize("kind", ["state", "cache", "data", "config"])
@pytest.mark.parametrize("environ", [{}, {"XDG": "/somewhere"}, {"XDG": "  "}])
def test_they_are_platformdirs_own(monkeypatch, kind, environ):
    variable = {
        "state": "XDG_STATE_HOME",
        "cache": "XDG_CACHE_HOME",
        "data": "XDG_DATA_HOME",
        "config": "XDG_CONFIG_HOME",
    }
    env = {variable[kind]: environ["XDG"]} if environ else {}
    for name in variable.values():
        monkeypatch.delenv(name, raising=False)
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    expected = getattr(platformdirs, f"user_{kind}_dir")("loopai-trainer", appauthor=False)
    assert user_dir(kind, env) == expected


def test_an_own_variable_wins(tmp_path):
    assert user_dir("cache", {"LOOPAI_TRAINER_CACHE_DIR": str(tmp_path), "XDG_CACHE_HOME": "/x"}) == str(tmp_path)
